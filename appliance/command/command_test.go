package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/outcome"
	"landfall/appliance/config"
	"landfall/appliance/dataversion"
	"landfall/appliance/simulate/installer"
)

func TestMain(m *testing.M) {
	installer.Main() // this program is also the openshift-install of the demo's payload
	if os.Getenv(registeredVariable) != "" {
		os.Exit(Execute(os.Args[1:], topFiles())) // simulated hosts in the background
	}
	os.Exit(m.Run())
}

type result struct {
	code        int
	out, errOut string
}

func landfall(t *testing.T, arguments ...string) result {
	t.Helper()
	return landfallUntil(t.Context(), arguments...)
}

func landfallUntil(ctx context.Context, arguments ...string) result {
	var out, errOut terminal
	code := run(ctx, arguments, &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

func run(ctx context.Context, arguments []string, out, errOut io.Writer) int {
	root, started := newRoot(topFiles())
	return execute(ctx, root, started, arguments, out, errOut)
}

// topFiles returns the files at the top of the repository.
func topFiles() fs.FS { return os.DirFS(filepath.Join("..", "..")) }

// terminal is a buffer for the output of a command. It allows concurrent writes, because a command
// logs and prints at the same time.
type terminal struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written.Write(p)
}

func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written.String()
}

// interruptAt runs a command and interrupts it after it has written a text to standard output.
func interruptAt(t *testing.T, text string, arguments ...string) result {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &alarm{text: text, ring: interrupt}
	var errOut terminal
	code := run(ctx, arguments, out, &errOut)
	return result{code, out.String(), errOut.String()}
}

type alarm struct {
	terminal
	text string
	ring func()
}

func (a *alarm) Write(p []byte) (int, error) {
	n, err := a.terminal.Write(p)
	if strings.Contains(a.String(), a.text) {
		a.ring()
	}
	return n, err
}

func TestUsage_wrongArguments(t *testing.T) {
	for name, wrong := range map[string]struct {
		arguments []string
		sentence  string
	}{
		"misspelt command": {[]string{"sevre"},
			`landfall: unknown command "sevre" (did you mean "serve"?); see landfall --help`},
		"unknown command": {[]string{"coffee"}, `landfall: unknown command "coffee"; see landfall --help`},
		"unknown subcommand": {[]string{"simulate", "coffee"},
			`unknown command "coffee"; see landfall simulate --help`},
		"unknown flag": {[]string{"demo", "--quick"},
			`landfall: unknown flag: --quick; see landfall demo --help`},
		"invalid value": {[]string{"serve", "--log-level", "loud"},
			`log.level is "loud"; expected one of debug, info, warn, error; see landfall serve --help`},
		"configuration file without its flag": {[]string{"serve", "config.yaml"},
			`landfall serve --config config.yaml; see landfall serve --help`},
		"additional argument": {[]string{"version", "please"},
			`landfall: unexpected argument "please"; see landfall version --help`},
		"name without its flag": {[]string{"image", "download", "east"},
			`landfall: unexpected argument "east" (did you mean --infra-env east?); see landfall image download --help`},
		"file without its flag": {[]string{"apply", "site.yaml"}, `(did you mean -f site.yaml?)`},
		"missing argument":      {[]string{"cluster", "show"}, `landfall: NAME is missing; see landfall cluster show`},
		"missing flag":          {[]string{"simulate", "hosts"}, `landfall: --infra-env is missing; `},
		"names of any operation": {[]string{"api", "GET", "clusters", "-o", "name"},
			`landfall: the answer of an operation has no names; for those of a list, give -o jsonpath='{[*].name}'; `},
	} {
		t.Run(name, func(t *testing.T) {
			got := landfall(t, wrong.arguments...)
			require.Equal(t, outcome.Usage, got.code)
			require.Contains(t, got.errOut, wrong.sentence)
			require.Equal(t, 1, strings.Count(got.errOut, "\n"))
			require.Empty(t, got.out)
		})
	}
}

func TestUsage_commandGroup(t *testing.T) {
	for _, arguments := range [][]string{{}, {"--help"}, {"simulate"}} {
		got := landfall(t, arguments...)
		require.Zero(t, got.code)
		require.Contains(t, got.out, "Available Commands")
	}
}

// A person who forgets an argument, or gives one too many, reads which.
func TestUsage_eachCommandNamesArguments(t *testing.T) {
	root, _ := newRoot(topFiles())
	require.Greater(t, checkArgumentErrors(t, root), 200, "the commands were found")
}

// checkArgumentErrors checks the errors of all commands below a command, and returns their number.
func checkArgumentErrors(t *testing.T, parent *cobra.Command) (checked int) {
	for _, cmd := range parent.Commands() {
		checked += checkArgumentErrors(t, cmd)
		if cmd.HasSubCommands() || cmd.Args == nil || cmd.Name() == "help" { // its arguments are commands
			continue
		}
		checked++
		for _, arguments := range [][]string{{}, {"a", "b", "c", "d", "e"}} {
			if err := cmd.Args(cmd, arguments); err != nil {
				require.NotRegexp(t, `arg\(s\)|unknown command`, err.Error(), cmd.CommandPath())
			}
		}
	}
	return checked
}

func TestVersion(t *testing.T) {
	require.Contains(t, landfall(t, "version").out, "landfall "+Version())
	var printed map[string]any
	require.NoError(t, json.Unmarshal([]byte(landfall(t, "version", "--json").out), &printed))
	require.Equal(t, printed["version"], strings.TrimSpace(landfall(t, "version", "-o", "jsonpath={.version}").out))
	require.Equal(t, Version(), printed["version"])
	require.EqualValues(t, dataversion.Supported(), printed["data_version"])
}

func TestServe_flagForEachConfigurationKey(t *testing.T) {
	help := landfall(t, "serve", "--help").out
	for _, flag := range []string{"--listen", "--data-dir", "--mirror-ca-bundle",
		"--timeouts-stages-rebooting duration", "--limits-request-body-bytes bytes"} {
		require.Contains(t, help, flag)
	}
}

func TestServe_invalidConfiguration(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	directory := t.TempDir()
	wrong := filepath.Join(directory, "wrong.yaml")
	require.NoError(t, os.WriteFile(wrong, []byte("\nlisen: x\n"), 0o600))
	notADirectory := filepath.Join(directory, "file")
	require.NoError(t, os.WriteFile(notADirectory, nil, 0o600))

	for name, rejected := range map[string]struct {
		arguments []string
		sentence  string
	}{
		"unknown key": {[]string{"--config", wrong},
			`wrong.yaml, line 2: unknown key "lisen"; did you mean "listen"?`},
		"missing file": {[]string{"--config", directory + "/none.yaml"}, "none.yaml: the file does not exist"},
		"port in use": {[]string{"--listen", taken.Addr().String(), "--data-dir", directory + "/data"},
			"another program already listens on " + taken.Addr().String()},
		"file instead of a directory": {[]string{"--listen", "127.0.0.1:0", "--data-dir", notADirectory},
			notADirectory},
	} {
		t.Run(name, func(t *testing.T) {
			got := landfall(t, append([]string{"serve"}, rejected.arguments...)...)
			require.Equal(t, outcome.Failure, got.code)
			require.Contains(t, got.errOut, rejected.sentence)
			require.Equal(t, 1, strings.Count(got.errOut, "\n"), got.errOut)
		})
	}
}

func TestServe_printsURLAndStopsOnInterrupt(t *testing.T) {
	directory := t.TempDir()
	got := interruptAt(t, "  data  ", "serve", "--listen", "127.0.0.1:0", "--data-dir", directory, "--log-level",
		"error")
	require.Zero(t, got.code, got.errOut)
	require.Contains(t, got.out, "page and API   https://127.0.0.1:")
	require.Contains(t, got.out, "on this host   http://127.0.0.1:")
	require.Regexp(t, `its SHA-256    ([0-9A-F]{2}:){31}[0-9A-F]{2}\n`, got.out)
	require.Contains(t, got.out, "data           "+directory)
}

func TestDemo_installsClusterAndExits(t *testing.T) {
	for _, hosts := range []string{"3", "5"} {
		t.Run(hosts+" hosts", func(t *testing.T) {
			t.Parallel()
			requireDemo(t, "demo", hosts, filepath.Join(t.TempDir(), "kubeconfig"))
		})
	}
}

// requireDemo runs a demo with --exit and asserts that it installs a cluster with the given name.
func requireDemo(t *testing.T, name, hosts, kubeconfig string, more ...string) {
	t.Helper()
	got := landfall(t, append([]string{"demo", "--exit", "--listen", "127.0.0.1:0", "--hosts", hosts, "--kubeconfig",
		kubeconfig}, more...)...)
	require.Zero(t, got.code, got.errOut)
	require.Contains(t, got.out, "The cluster "+name+" is installed.")
	require.Contains(t, got.errOut, "100% "+name+": installed, "+hosts+" Done")
	content, err := os.ReadFile(kubeconfig)
	require.NoError(t, err)
	require.Contains(t, string(content), "api."+name+".landfall.test:6443")
}

func TestServe_interruptedDuringStart(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	require.Zero(t, landfallUntil(ctx, "serve", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()).code)
}

func TestServe_booleanFlags(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	got := landfallUntil(ctx, "serve", "--tls-enabled", "false", "--kubernetes-enabled", "--listen", "127.0.0.1:0",
		"--data-dir", t.TempDir())
	require.Zero(t, got.code, got.errOut)
}

func TestExecute_interruptedRequest(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	got := landfallUntil(ctx, "status", "--url", "http://127.0.0.1:1")
	require.Equal(t, result{code: outcome.Interrupted, errOut: "landfall: interrupted\n"}, got)
}

func TestExecute_interruptedCommandSaysWhatItLeaves(t *testing.T) {
	canceled := fmt.Errorf("download the image: %w", context.Canceled)
	ended, end := context.WithCancel(t.Context())
	end()
	_, dialed := new(net.Dialer).DialContext(ended, "tcp", "127.0.0.1:1")
	require.ErrorContains(t, dialed, "operation was canceled")
	for name, c := range map[string]struct {
		failure error
		code    int
		errOut  string
	}{
		"only canceled":           {errors.Join(canceled, nil), outcome.Interrupted, "landfall: interrupted\n"},
		"canceled by package net": {dialed, outcome.Interrupted, "landfall: interrupted\n"},
		"with its state": {errors.New("not finished: east: installing"), outcome.Interrupted,
			"landfall: not finished: east: installing\n"},
		"and another failure": {errors.Join(canceled, errors.New("remove a.iso.part: no such file")),
			outcome.Interrupted, "landfall: download the image: context canceled; remove a.iso.part: no such file\n"},
		"after the time": {&outcome.CodeError{Code: outcome.Waiting, Cause: errors.New("not booted")},
			outcome.Waiting, "landfall: not booted\n"},
		"done": {nil, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			root, started := newRoot(topFiles())
			root.AddCommand(&cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error {
				interrupt()
				return c.failure
			}})
			var out, errOut bytes.Buffer
			require.Equal(t, c.code, execute(ctx, root, started, []string{"fail"}, &out, &errOut))
			require.Equal(t, c.errOut, errOut.String())
		})
	}
}

func TestDemo_interruptedDuringInstallation(t *testing.T) {
	got := interruptAt(t, "page ", "demo", "--listen", "127.0.0.1:0", "--hosts", "1")
	require.Zero(t, got.code, got.errOut)
}

// TestDemo_keepsDataDirectory installs a single node. A second demo, without --exit, installs
// another cluster in the same data directory.
func TestDemo_keepsDataDirectory(t *testing.T) {
	directory := t.TempDir()
	kubeconfig := filepath.Join(directory, "kubeconfig")
	requireDemo(t, "demo", "1", kubeconfig, "--data-dir", directory)
	got := interruptAt(t, "is installed", "demo", "--listen", "127.0.0.1:0", "--hosts", "1", "--speed", "1000",
		"--data-dir", directory, "--kubeconfig", kubeconfig)
	require.Zero(t, got.code, got.errOut)
	require.Contains(t, got.out, "The cluster demo-2 is installed.")
}

func TestKubeconfig_installedCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "east")
	var rejected, wrote, shown result
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &alarm{text: "is installed"}
	out.ring = sync.OnceFunc(func() {
		defer interrupt()
		_, at, _ := strings.Cut(out.String(), "http://")
		url := "http://" + strings.Fields(at)[0]
		rejected = landfall(t, "kubeconfig", "--url", url, "--cluster", "west")
		wrote = landfall(t, "kubeconfig", "--url", url, "--cluster", "demo", "-o", file)
		shown = landfall(t, "credentials", "--url", url, "--cluster", "demo")
	})
	var errOut terminal
	require.Zero(t, run(ctx, []string{"demo", "--listen", "127.0.0.1:0", "--hosts", "1", "--speed", "1000"}, out,
		&errOut), errOut.String())

	require.Contains(t, rejected.errOut, "the cluster west does not exist; landfall cluster list lists all clusters")
	require.Zero(t, wrote.code, wrote.errOut)
	kubeconfig, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(kubeconfig), "server: https://api.demo.landfall.test:6443")
	require.Contains(t, shown.out, "console   https://console-openshift-console.apps.demo.landfall.test")
	require.Regexp(t, `user      kubeadmin\npassword  \S+\n`, shown.out)
}

func TestDemo_reportsFailure(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	for name, failing := range map[string]struct {
		arguments []string
		reason    string
	}{
		"failing host":  {[]string{"--faults", "fail-at=Writing image to disk"}, "host-"},
		"unknown fault": {[]string{"--faults", "gremlins"}, "gremlins"},
		"failing operator": {[]string{"--operators", "odf,cnv", "--faults", "operator-fails=cnv"},
			"the cluster demo is installed but degraded; failed OLM operators: cnv"},
		"hosts never ready": {[]string{"--faults", "low-memory", "--timeout", "3s"}, "the demo did not end within 3s"},
		"port in use":       {[]string{"--listen", taken.Addr().String()}, "another program already listens"},
		"missing directory": {[]string{"--kubeconfig", "/nowhere/kubeconfig"},
			"choose another file with --kubeconfig"},
		"two hosts": {[]string{"--hosts", "2"}, "use 1 host (a single node) or at least 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := landfall(t, append([]string{"demo", "--exit", "--listen", "127.0.0.1:0", "--kubeconfig",
				filepath.Join(t.TempDir(), "k")}, failing.arguments...)...)
			require.NotZero(t, got.code)
			require.Contains(t, got.errOut, failing.reason)
		})
	}
}

func TestCommand_flagsThatExcludeEachOther(t *testing.T) {
	for line, reason := range map[string]string{
		"registry hand-over":                   "one of these flags is missing: --move-name, --add-mirror, --status, ",
		"registry hand-over --cancel --status": "give only one of these flags: --cancel, --status; see landfall",
	} {
		got := landfall(t, strings.Fields(line)...)
		require.Equal(t, outcome.Usage, got.code, line)
		require.Contains(t, got.errOut, reason)
	}
}

func TestHelp_unknownCommand(t *testing.T) {
	for _, line := range []string{"foo", "cluster foo"} {
		words := strings.Fields(line)
		wanted, got := landfall(t, words...), landfall(t, append([]string{"help"}, words...)...)
		require.Equal(t, outcome.Usage, got.code, line)
		reason, _, _ := strings.Cut(wanted.errOut, ";")
		require.Contains(t, got.errOut, reason+";", line)
	}
	got := landfall(t, "help", "cluster", "create")
	require.Zero(t, got.code, got.errOut)
	require.Contains(t, got.out, "landfall cluster create [NAME]")
}

func TestCommands_missingInput(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "nodir")
	for line, reason := range map[string]string{
		"import abi " + missing:       "the directory " + missing + " does not exist",
		"check --data-dir " + missing: "there is no data in " + missing,
		"check --data-dir " + dir:     "there is no data in " + dir,
		"bmc add node-1 redfish://192.0.2.7 --username root": "the password of root is missing; give " +
			"--password-file FILE",
		"user password ana --old-password-file - --password-file -": "only one of --old-password-file and " +
			"--password-file can be standard input",
	} {
		got := landfall(t, strings.Fields(line)...)
		require.NotZero(t, got.code, line)
		require.Contains(t, got.errOut, reason)
	}
}

func TestCommands_passwordFromStandardInput(t *testing.T) {
	bodies := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Method == http.MethodPost {
			bodies <- string(body)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(server.Close)
	t.Setenv("LANDFALL_URL", server.URL)
	for _, line := range []string{"user create ana --role viewer --password-file -",
		"bmc add node-1 redfish://192.0.2.7 --username root --password-file -"} {
		got := landfallReading(t, strings.NewReader("from the pipe\n"), strings.Fields(line)...)
		require.Zero(t, got.code, got.errOut)
		require.Contains(t, <-bodies, `"password":"from the pipe"`, line)
	}
}

func TestDemo_hostedPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:8443")
	if err == nil { // else, another program uses the port already
		t.Cleanup(func() { require.NoError(t, taken.Close()) })
	}
	got := landfall(t, "demo", "--hosted", "--exit", "--listen", "127.0.0.1:0")
	require.Zero(t, got.code, got.errOut)
	require.Contains(t, got.out, "Another program uses port 8443")
	require.NotContains(t, got.out, "curl")
}

func TestClient_showsClusters(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]string{
			"/api/assisted-install/v2/clusters": `[{"id":"c-1","name":"east","openshift_version":"4.19.3","status":"installing","progress":{"total_percentage":42}}]`,
			"/api/landfall/v1/status":           `{"version":"v1","url":"http://bastion:8090","os_images":[{"openshift_version":"4.19","cpu_architecture":"x86_64","state":"ready"}]}`,
		}
		_, err := w.Write([]byte(answers[r.URL.Path]))
		require.NoError(t, err)
	}))
	defer server.Close()
	list := landfall(t, "cluster", "list", "--url", server.URL)
	require.Zero(t, list.code, list.errOut)
	require.Contains(t, list.out, "east  4.19.3   installing  42%")
	require.Contains(t, landfall(t, "cluster", "list", "--url", server.URL, "-o", "json").out, `"name": "east"`)
	former := landfall(t, "clusters", "--url", server.URL, "--json")
	require.Contains(t, former.out, `"name": "east"`, former.errOut)
	require.Equal(t, "--json is now -o json\nlandfall clusters is now landfall cluster list\n", former.errOut)
	status := landfall(t, "status", "--url", server.URL)
	require.Contains(t, status.out, "Landfall v1 at http://bastion:8090")
	require.Contains(t, status.out, "live ISO  4.19     x86_64        ready")
	require.Contains(t, status.out,
		"Without a release, no clusters can be created. Add one with landfall settings release add, or to ")
}

func TestClient_emptyAppliance(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]string{"/api/assisted-install/v2/clusters": `[]`,
			"/api/landfall/v1/status": `{"version":"v1","url":"http://bastion:8090"}`}
		_, err := w.Write([]byte(answers[r.URL.Path]))
		require.NoError(t, err)
	}))
	defer server.Close()
	require.Equal(t, "No clusters. Create one with landfall cluster create.\n",
		landfall(t, "cluster", "list", "--url", server.URL).out)
	status := landfall(t, "status", "--url", server.URL).out
	require.Contains(t, status, "Without a live ISO")
	require.Contains(t, status, "Without a release")
	require.NotContains(t, status, "KIND", "status printed an empty table")
}

func TestClient_clusterByIDOrName(t *testing.T) {
	const id = "5f0e6d70-7e5c-4b56-9b0e-2f1a3c1d9a11"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `[{"id":"` + id + `","name":"east"},{"id":"c-2","name":"twin"},{"id":"c-3","name":"twin"}]`
		if r.URL.Path != "/api/assisted-install/v2/clusters" {
			w.WriteHeader(http.StatusTeapot)
			answer = `{"reason":"unexpected request for ` + r.URL.Path + `?` + r.URL.RawQuery + `"}`
		}
		_, err := w.Write([]byte(answer))
		require.NoError(t, err)
	}))
	defer server.Close()
	for _, command := range []string{
		"doctor", "rehearse", "kubeconfig", "credentials", "export abi", "journal export", "mirror later",
		"mirror show", "mirror accept-gaps", "mirror explain quay.io/a/b:c",
		"mirror remove team --yes",
	} {
		arguments := append(strings.Fields(command), "--url", server.URL, "--cluster")
		require.Contains(t, landfall(t, append(arguments, id)...).errOut, id, command)
		require.Contains(t, landfall(t, append(arguments, "east")...).errOut, id, command)
		require.Contains(t, landfall(t, append(arguments, "twin")...).errOut,
			"2 clusters have the name twin; give the ID",
			command)
		require.Contains(t, landfall(t, append(arguments, "west")...).errOut,
			"the cluster west does not exist; landfall cluster list lists all clusters", command)
	}
}

func TestClient_errors(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, err := w.Write([]byte(`{"code":"503","reason":"the disk is full; make room"}`))
		require.NoError(t, err)
	}))
	defer refusing.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	gone := other.URL
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write([]byte("<html>"))
		require.NoError(t, err)
	}))
	defer foreign.Close()
	require.Contains(t, landfall(t, "cluster", "list", "--url", other.URL).errOut,
		"answered 404 Not Found to GET /api/assisted-install/v2/clusters")
	other.Close()
	for url, sentence := range map[string]string{
		refusing.URL: "landfall: the disk is full; make room\n",
		gone: "no appliance listens at " + gone +
			"; start one with landfall serve, or name its address with --url",
		foreign.URL: "check whether another service has this URL",
		"::":        "is invalid",
	} {
		got := landfall(t, "cluster", "list", "--url", url)
		require.Equal(t, outcome.Failure, got.code)
		require.Contains(t, got.errOut, sentence)
	}
}

func TestLog_formats(t *testing.T) {
	for format, prefix := range map[string]string{"text": "time=", "json": "{", "auto": "{"} {
		var out bytes.Buffer
		logger, err := newLogger(config.Log{Format: format, Level: "warn"}, &out)
		require.NoError(t, err)
		logger.Info("below the level")
		logger.Warn("at the level", "took", 1200*time.Millisecond)
		require.Contains(t, out.String(), "1.2s", "durations have a unit")
		require.True(t, strings.HasPrefix(out.String(), prefix), out.String())
		require.NotContains(t, out.String(), "below the level")
	}
}

func TestUsage_clusterRequired(t *testing.T) {
	for _, arguments := range [][]string{{"rehearse"}, {"export", "abi"}, {"import", "abi"}} {
		var out, errOut bytes.Buffer
		require.Equal(t, outcome.Usage, run(t.Context(), arguments, &out, &errOut), arguments)
		require.Equal(t, 1, strings.Count(errOut.String(), "\n"))
	}
	var out, errOut bytes.Buffer
	require.Equal(t, outcome.Failure, run(t.Context(), []string{"import", "abi", t.TempDir()}, &out, &errOut))
	require.Contains(t, errOut.String(), "has neither install-config.yaml nor cluster-manifests")
}

// TestFormerFlag_hasItsNewName finds commands with --json, but without -o, which replaces it.
func TestFormerFlag_hasItsNewName(t *testing.T) {
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		if former := cmd.Flags().Lookup("json"); former != nil && former.Usage == "former name of -o json" {
			output := cmd.Flag("output")
			require.NotNil(t, output, cmd.CommandPath())
			require.Equal(t, "format", output.Value.Type(), cmd.CommandPath())
		}
		for _, child := range cmd.Commands() {
			look(child)
		}
	}
	root, _ := newRoot(topFiles())
	look(root)
}
