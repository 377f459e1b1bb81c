package command

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance"
	"landfall/appliance/config"
)

// notRun are the beginnings of command lines in docs/operations.md that this test does not run,
// with the reason. Their flags are checked.
var notRun = map[string]string{
	"landfall upgrade":               "TestUpgrade_installationGoesOn runs it with two built programs",
	"landfall promote":               "it asks a person; TestPromote_asksAPerson runs it",
	"landfall replica claim":         "it asks a person; the tests TestPromote run it",
	"landfall settings webhook test": "chat.example.com does not exist; the tests of the notices have a receiver",
}

// codeBlocks returns the indented blocks of a document.
func codeBlocks(text string) (blocks [][]string) {
	var block []string
	for line := range strings.SplitSeq(text+"\n", "\n") {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			block = append(block, code)
		} else if len(block) > 0 {
			blocks = append(blocks, block)
			block = nil
		}
	}
	return blocks
}

// operated is an appliance at work, and the stopped data directory landfall-data of another one in
// the working directory.
type operated struct {
	t       *testing.T
	replace *strings.Replacer // what differs from the document on this machine
}

// startIn runs an appliance in a data directory, with TLS and accounts as by default. Its replica
// is in a directory beside it, if there is one.
func startIn(t *testing.T, dir string) (running *appliance.Appliance, stop func()) {
	t.Helper()
	return startWith(t, dir, func(*config.Config) {})
}

// startWith does the same with a changed configuration.
func startWith(t *testing.T, dir string, change func(*config.Config)) (running *appliance.Appliance, stop func()) {
	t.Helper()
	settings := config.Default()
	if _, err := os.Stat(dir + "-replica"); err == nil {
		settings.Replica.To = dir + "-replica"
	}
	settings.Listen, settings.BootListen, settings.DataDir = "127.0.0.1:0", config.NoListener, dir
	change(&settings)
	ctx, cancel := context.WithCancel(context.Background())
	running, err := appliance.New(ctx, settings, slog.New(slog.DiscardHandler), "test")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	return running, func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

func newOperated(t *testing.T) *operated {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	_, stop := startIn(t, "landfall-data")
	stop()
	_, stop = startIn(t, "running")
	stop()
	require.NoError(t, os.CopyFS("lost-data", os.DirFS("running")))
	require.NoError(t, os.Chmod("lost-data/seal.key", 0o600))
	require.NoError(t, os.Mkdir("running-replica", 0o700))
	running, stop := startIn(t, "running")
	t.Cleanup(stop)
	stopProfiles, err := serveProfiles(t.Context(), "running/pprof.sock", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(stopProfiles)
	_, err = running.SetupCode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("password.txt", []byte("correct horse battery\n"), 0o600))
	o := &operated{t: t}
	t.Setenv("LANDFALL_URL", running.LocalURL())
	o.landfall("login --user anna --password-file password.txt --setup-code running/setup-code")
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("identity.txt", []byte(identity.String()+"\n"), 0o600))
	require.NoError(t, os.Mkdir("stick", 0o700))
	require.NoError(t, os.MkdirAll("landfall-data/backups", 0o700))
	o.landfall("backup -o landfall-data/backups/before-version-2-20260301T120000Z.backup")
	host := strings.TrimPrefix(running.LocalURL(), "http://")
	o.replace = strings.NewReplacer("age1…", identity.Recipient().String(), "/media/stick/landfall", "stick",
		"/media/disk/landfall", "running-replica", "2026-03-01T12:00:00Z", time.Now().UTC().Format(time.RFC3339Nano),
		"/run/landfall/pprof.sock", "running/pprof.sock", "127.0.0.1:8090", host, "seconds=10", "seconds=1",
		"landfall-data/ca.crt", "running/ca.crt", "https://landfall.example.com:8090", running.LocalURL())
	return o
}

// landfall runs the program with arguments.
func (o *operated) landfall(line string) {
	o.t.Helper()
	got := landfall(o.t, strings.Fields(line)...)
	require.Zero(o.t, got.code, "landfall %s: %s%s", line, got.out, got.errOut)
}

// run runs a line of the document.
func (o *operated) run(line string) {
	o.t.Helper()
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " >") // the shell redirects the output
	line = o.replace.Replace(strings.TrimSpace(line))
	arguments, ours := strings.CutPrefix(line, "landfall ")
	if ours {
		require.NoError(o.t, os.RemoveAll("new-data")) // of the line before
		o.landfall(arguments)
		return
	}
	words := strings.Fields(line)
	if _, err := exec.LookPath(words[0]); err != nil {
		o.t.Logf("%s is not installed, so this line is not run: %s", words[0], line)
		return
	}
	cmd := exec.CommandContext(o.t.Context(), words[0], words[1:]...)
	text, err := cmd.CombinedOutput()
	require.NoError(o.t, err, "%s: %s", line, text)
}

// checkFlags requires that a command and its flags exist.
func checkFlags(t *testing.T, line string) {
	t.Helper()
	root, _ := newRoot(topFiles())
	cmd, rest, err := root.Find(strings.Fields(line)[1:])
	require.NoError(t, err, line)
	require.NoError(t, cmd.ParseFlags(rest), line)
	if cmd.Args != nil {
		require.NoError(t, cmd.Args(cmd, cmd.Flags().Args()), line)
	}
}

// TestOperations_commandsWork runs each command line of docs/operations.md as its reader would.
func TestOperations_commandsWork(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	o := newOperated(t)
	ran := 0
	for _, block := range codeBlocks(string(text)) {
		if strings.HasPrefix(block[0], "#") { // a file
			decoder := yaml.NewDecoder(bytes.NewReader([]byte(strings.Join(block, "\n"))))
			require.NoError(t, decoder.Decode(new(map[string]any)), block[0])
			continue
		}
		for _, line := range block {
			skipped := false
			for beginning, reason := range notRun {
				if strings.HasPrefix(line, beginning) {
					checkFlags(t, line)
					t.Logf("%s: %s", line, reason)
					skipped = true
				}
			}
			if !skipped {
				o.run(line)
				ran++
			}
		}
	}
	require.GreaterOrEqual(t, ran, 14, "lines of the document were not found")
}
