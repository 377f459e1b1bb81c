package command

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/remote"
	"landfall/appliance/engine/pagetest"
	"landfall/appliance/kube/objects"
)

// operationRow is a row of the table of operations in docs/security.md, which a test compares with
// the code.
var operationRow = regexp.MustCompile("(?m)^\\| (\\w\\S*) \\| `([A-Z]+) (/[^`]*)` \\| ([^|]+) \\|")

type apiOperation struct{ id, method, path, callers string }

// operations returns the operations of people and programs: not those of machines, of image
// downloads, and of the APIs that check their callers themselves.
func operations(t *testing.T) []apiOperation {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	var all []apiOperation
	for _, row := range operationRow.FindAllStringSubmatch(string(text), -1) {
		o := apiOperation{row[1], row[2], row[3], strings.TrimSpace(row[4])}
		own := strings.HasPrefix(o.path, "/api/landfall/") || strings.HasPrefix(o.path, "/api/assisted-install/") ||
			o.path == "/metrics"
		if own && !strings.HasPrefix(o.callers, "checked by") && o.callers != "admin, agents" {
			all = append(all, o)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// recorder is a proxy that notes the requests to an appliance.
type recorder struct {
	mu       sync.Mutex
	requests []sent
}

func (r *recorder) serve(t *testing.T, appliance string) string {
	t.Helper()
	target, err := url.Parse(appliance)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		r.requests = append(r.requests, sent{request.Method, request.URL.EscapedPath(), true})
		r.mu.Unlock()
		proxy.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// take returns the requests since the last call.
func (r *recorder) take() []sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.requests
	r.requests = nil
	return taken
}

// runnable calls fn with each command that does something.
func runnable(parent *cobra.Command, fn func(path string)) {
	for _, cmd := range parent.Commands() {
		if cmd.Hidden || !cmd.IsAvailableCommand() {
			continue
		}
		if cmd.HasSubCommands() {
			runnable(cmd, fn)
			if cmd.Flags().Lookup("url") == nil {
				continue
			}
		}
		fn(strings.TrimPrefix(cmd.CommandPath(), "landfall "))
	}
}

// commandOf returns the command that a line calls.
func commandOf(t *testing.T, line string) string {
	t.Helper()
	root, _ := newRoot(topFiles())
	cmd, _, err := root.Find(strings.Fields(line))
	require.NoError(t, err, line)
	return strings.TrimPrefix(cmd.CommandPath(), "landfall ")
}

// callsOfCommands enters the lines against a demo and returns the commands that call each
// operation. A line may be refused: its request counts.
func callsOfCommands(t *testing.T, all []apiOperation) map[string][]string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("TMPDIR", dir)
	t.Setenv("LANDFALL_URL", "")
	for name, text := range equalityFiles {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	calls := map[string][]string{}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &alarm{text: "The cluster demo is installed."}
	out.ring = sync.OnceFunc(func() {
		go func() {
			defer interrupt()
			_, at, _ := strings.Cut(out.String(), "http://")
			requests := new(recorder)
			proxy := requests.serve(t, "http://"+strings.Fields(at)[0])
			if err := os.Setenv("LANDFALL_URL", proxy); err != nil {
				t.Error(err)
			}
			contexts, err := remote.LoadContexts()
			if err != nil {
				t.Error(err)
				return
			}
			contexts.Put(remote.Context{Name: "demo", URL: proxy, Token: "of the demo"})
			if err := contexts.Save(); err != nil {
				t.Error(err)
			}
			for line := range strings.Lines(strings.TrimSpace(equalityLines)) {
				name := commandOf(t, line)
				if strings.Contains(line, "{iso}") {
					ids := landfallUntil(ctx, "api", "GET", "/api/landfall/v1/os-images", "-o",
						"jsonpath={.os_images[0].id}").out
					line = strings.ReplaceAll(line, "{iso}", strings.TrimSpace(ids))
				}
				line = strings.ReplaceAll(line, "{url}", proxy)
				requests.take()
				got := landfallUntil(ctx, strings.Fields(line)...)
				if got.code == 2 {
					t.Errorf("%s: %s", strings.TrimSpace(line), got.errOut)
				}
				for _, request := range requests.take() {
					note(calls, all, request, name)
				}
			}
		}()
	})
	var errOut terminal
	require.Zero(t, run(ctx, []string{"demo", "--listen", "127.0.0.1:0", "--hosts", "1", "--bmcs", "1", "--speed",
		"1000"}, out, &errOut), errOut.String())
	return calls
}

// note adds a command to the operation of a request.
func note(calls map[string][]string, all []apiOperation, request sent, command string) {
	best := -1
	for i, o := range all {
		if request.matches(o.method, o.path) && (best < 0 || strings.Count(o.path, ":") < strings.Count(all[best].path,
			":")) {
			best = i
		}
	}
	if best < 0 {
		return
	}
	for _, known := range calls[all[best].id] {
		if known == command {
			return
		}
	}
	calls[all[best].id] = append(calls[all[best].id], command)
}

const equalityDocument = "../../docs/equality.md"

// TestEquality_documentIsCurrent compares what page, command line, REST and Kubernetes API can do.
// A gap needs a reason.
func TestEquality_documentIsCurrent(t *testing.T) {
	document, err := filepath.Abs(equalityDocument)
	require.NoError(t, err)
	all, page, kinds := operations(t), pageRequests(t), kubernetesKinds(t)
	checkLines(t)
	checkKubernetes(t, all)
	calls := callsOfCommands(t, all)
	var text strings.Builder
	text.WriteString(equalityIntroduction)
	text.WriteString("\n## Operations\n\n| operation (REST) | page | command | Kubernetes API |\n|---|---|---|---|\n")
	gaps := 0
	used := map[string]bool{}
	for _, o := range all {
		onPage := slices.ContainsFunc(page, func(r sent) bool { return r.matches(o.method, o.path) })
		cells := []string{"yes", strings.Join(code(calls[o.id]), ", "), kubernetesOf[o.id]}
		if !onPage {
			cells[0] = ""
		}
		for i, side := range []string{"page", "command", "kubernetes"} {
			if cells[i] != "" {
				continue
			}
			gaps++
			reason, key := reasonFor(side, o)
			used[key] = true
			if reason == "" {
				t.Errorf("%s (%s %s): the %s can't do it, and neither table has a reason", o.id, o.method, o.path,
					side)
			}
			cells[i] = "– " + reason
		}
		fmt.Fprintf(&text, "| `%s` | %s |\n", o.id, strings.Join(cells, " | "))
	}
	fmt.Fprintf(&text, "\n%d operations; %d cells without the operation, each with its reason.\n", len(all), gaps)
	for key := range equalityReasons {
		if !used[key] {
			t.Errorf("equalityReasons[%q] explains no gap", key)
		}
	}
	for reason, ids := range kubernetesGaps {
		for _, id := range strings.Fields(ids) {
			if !used["kubernetes "+id] {
				t.Errorf("kubernetesGaps[%q] explains no gap of %s", reason, id)
			}
		}
	}
	text.WriteString("\n## Commands without an operation\n\n| command | reason |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(localCommands)) {
		fmt.Fprintf(&text, "| `landfall %s` | %s |\n", name, localCommands[name])
	}
	text.WriteString("\n## Kinds of the Kubernetes API\n\n| kind | elsewhere |\n|---|---|\n")
	for _, kind := range kinds {
		reason := kindReasons[kind]
		for id, text := range kubernetesOf {
			if strings.Contains(text, "`"+kind+"`") {
				require.True(t, slices.ContainsFunc(all, func(o apiOperation) bool { return o.id == id }), id)
				reason = "the operations above"
			}
		}
		require.NotEmpty(t, reason, "%s belongs to no operation: add it to kubernetesOf, or a reason to kindReasons",
			kind)
		fmt.Fprintf(&text, "| %s | %s |\n", kind, reason)
	}
	written := pagetest.Wrap(text.String())
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(written), 0o644))
	}
	held, err := os.ReadFile(document)
	require.NoError(t, err)
	pagetest.Current(t, "docs/equality.md", written, string(held))
}

// code formats names of commands.
func code(commands []string) []string {
	formatted := []string{}
	for _, name := range slices.Sorted(slices.Values(commands)) {
		formatted = append(formatted, "`"+name+"`")
	}
	if len(formatted) > 4 { // which read a list to resolve a name
		return append(formatted[:3], fmt.Sprintf("and %d more", len(formatted)-3))
	}
	return formatted
}

// reasonFor returns the reason of a gap and its key: "side operation", or "side prefix of the
// path". The Kubernetes API has a reason for each operation, because a prefix would also hide a new
// operation.
func reasonFor(side string, o apiOperation) (reason, key string) {
	if side == "kubernetes" {
		for reason, ids := range kubernetesGaps {
			if slices.Contains(strings.Fields(ids), o.id) {
				return reason, side + " " + o.id
			}
		}
		return "", ""
	}
	if reason, ok := equalityReasons[side+" "+o.id]; ok {
		return reason, side + " " + o.id
	}
	longest := ""
	for key := range equalityReasons {
		prefix, ok := strings.CutPrefix(key, side+" /")
		if ok && strings.HasPrefix(o.path, "/"+prefix) && len(key) > len(longest) {
			longest = key
		}
	}
	return equalityReasons[longest], longest
}

// checkLines requires a line, or a reason, for each command.
func checkLines(t *testing.T) {
	t.Helper()
	listed := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(equalityLines)) {
		listed[commandOf(t, line)] = true
	}
	root, _ := newRoot(topFiles())
	runnable(root, func(path string) {
		if listed[path] == (localCommands[path] != "") {
			t.Errorf("landfall %s: add a line to equalityLines, or a reason to localCommands", path)
		}
	})
}

// kubernetesKinds returns the kinds that the Kubernetes API serves beside those of Kubernetes
// itself.
func kubernetesKinds(t *testing.T) []string {
	t.Helper()
	var kinds []string
	for _, kind := range objects.Kinds() {
		kinds = append(kinds, kind.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
