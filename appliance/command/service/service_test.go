package service

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
)

// landfall runs a subcommand of landfall service for the system below a root.
func landfall(t *testing.T, root string, arguments ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := New()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&out)
	cmd.SetArgs(append(arguments, "--root", root))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	require.NoError(t, err)
	return string(text)
}

func TestService_installStatusRemove(t *testing.T) {
	root := t.TempDir()
	out, err := landfall(t, root, "status")
	require.NoError(t, err)
	require.Contains(t, out, "no; landfall service install")

	_, err = landfall(t, root, "install")
	require.NoError(t, err)
	require.Contains(t, read(t, root, order[0]),
		"\nExecStart=/usr/local/bin/landfall serve --config "+configuration+"\n")
	require.Contains(t, read(t, root, order[2]), "u landfall ")
	self, err := os.Stat(os.Args[0])
	require.NoError(t, err)
	program, err := os.Stat(filepath.Join(root, "usr/local/bin/landfall"))
	require.NoError(t, err)
	require.Equal(t, self.Size(), program.Size())
	require.Equal(t, os.FileMode(0o755), program.Mode())

	out, err = landfall(t, root, "status")
	require.NoError(t, err)
	require.Contains(t, out, "those of this program")
	require.NoError(t, os.WriteFile(filepath.Join(root, order[1]), []byte("[Socket]\n"), 0o644))
	out, err = landfall(t, root, "status")
	require.NoError(t, err)
	require.Contains(t, out, "different from this program's: "+order[1])

	// An update replaces the units and the program, and keeps the configuration.
	require.NoError(t, os.WriteFile(filepath.Join(root, configuration), []byte("data_dir: /data\n"), 0o644))
	out, err = landfall(t, root, "install")
	require.NoError(t, err)
	require.Contains(t, out, "kept     "+configuration)
	require.Equal(t, "data_dir: /data\n", read(t, root, configuration))
	require.Contains(t, read(t, root, order[1]), "ListenStream")

	out, err = landfall(t, root, "remove")
	require.NoError(t, err)
	require.Contains(t, out, "removed  /usr/local/bin/landfall\n")
	for _, name := range append([]string{"usr/local/bin/landfall"}, order...) {
		require.NoFileExists(t, filepath.Join(root, name))
	}
	require.FileExists(t, filepath.Join(root, configuration))
	_, err = landfall(t, root, "remove")
	require.ErrorContains(t, err, "no service is installed")
}

func TestService_leavesPackagesAlone(t *testing.T) {
	root := t.TempDir()
	unit := filepath.Join(root, "usr/lib/systemd/system/landfall.service")
	require.NoError(t, os.MkdirAll(filepath.Dir(unit), 0o755))
	require.NoError(t, os.WriteFile(unit, nil, 0o644))
	_, err := landfall(t, root, "install")
	require.ErrorContains(t, err, "update the package instead")
	_, err = landfall(t, root, "remove")
	require.ErrorContains(t, err, "remove the package instead")
	out, err := landfall(t, root, "status")
	require.NoError(t, err)
	require.Contains(t, out, "by a package")
}

func TestService_programWithSpaces(t *testing.T) {
	_, err := landfall(t, t.TempDir(), "install", "--program", "/opt/my programs/landfall")
	require.ErrorContains(t, err, "give an absolute path without spaces")
}

// A socket can be started only while its service does not run.
func TestService_activation(t *testing.T) {
	for _, test := range []struct {
		name string
		now  bool
		want []string
	}{
		{"update", false, []string{"systemd-sysusers landfall.conf", "systemctl daemon-reload",
			"systemctl try-restart landfall.service"}},
		{"start", true, []string{"systemd-sysusers landfall.conf", "systemctl daemon-reload",
			"systemctl enable landfall.socket landfall.service", "systemctl stop landfall.service",
			"systemctl start landfall.socket landfall.service"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var calls []string
			s := &service{now: test.now, out: &bytes.Buffer{},
				run: func(_ context.Context, name string, arguments ...string) (string, error) {
					calls = append(calls, name+" "+strings.Join(arguments, " "))
					return "", nil
				}}
			require.NoError(t, s.activate(t.Context()))
			require.Equal(t, test.want, calls)
		})
	}
	s := &service{out: &bytes.Buffer{}, run: func(context.Context, string, ...string) (string, error) {
		return "", errors.New("no")
	}}
	require.ErrorContains(t, s.activate(t.Context()), "activate the service: no")
}

func TestOutput_hasErrorsOfProgram(t *testing.T) {
	_, err := output(t.Context(), "/bin/sh", "-c", "echo wrong >&2; exit 3")
	require.EqualError(t, err, "/bin/sh -c echo wrong >&2; exit 3: exit status 3: wrong")
}

// The ports of the socket are those of the configuration, or the appliance does not start.
func TestFiles_socketHasConfiguredAddresses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	text, err := content("config.yaml", packaged)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o644))
	loaded, err := config.Load(path, nil, nil)
	require.NoError(t, err)
	require.Equal(t, dataDir, loaded.DataDir)
	socket, err := content("landfall.socket", packaged)
	require.NoError(t, err)
	require.Equal(t, []string{loaded.Listen, loaded.BootAddress()}, values(string(socket), "ListenStream"))
}

// values returns the values of a key of a unit.
func values(unit, key string) (found []string) {
	for line := range strings.Lines(unit) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && name == key {
			found = append(found, value)
		}
	}
	return found
}

// worstExposure is the highest permitted result of systemd-analyze security.
const worstExposure = 2.0

func TestFiles_systemdAccepts(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	dir := t.TempDir()
	self, err := filepath.Abs(os.Args[0]) // systemd-analyze wants a program that exists
	require.NoError(t, err)
	for _, name := range []string{"landfall.service", "landfall.socket"} {
		text, err := content(name, self)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	unit := filepath.Join(dir, "landfall.service")
	output, err := exec.Command("systemd-analyze", "verify", "--man=no", unit, filepath.Join(dir, "landfall.socket")).
		CombinedOutput()
	require.NoError(t, err, "%s", output)
	for line := range strings.Lines(string(output)) {
		require.NotContains(t, line, "landfall", "systemd complains about the unit")
	}
	output, err = exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", unit).CombinedOutput()
	require.NoError(t, err, "%s", output)
	level := regexp.MustCompile(`exposure level for landfall\.service: ([0-9.]+)`).FindSubmatch(output)
	require.NotNil(t, level, "%s", output)
	exposure, err := strconv.ParseFloat(string(level[1]), 64)
	require.NoError(t, err)
	require.LessOrEqual(t, exposure, worstExposure, string(output))
}
