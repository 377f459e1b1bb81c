package command

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/manual"
	"landfall/appliance/engine/pagetest"
)

var update = flag.Bool("update", false, "write docs/cli.md")

const cliDocument = "../../docs/cli.md"

// The defaults of some flags depend on the version and the environment of this process.
func TestManual_documentIsCurrent(t *testing.T) {
	t.Setenv("LANDFALL_CONFIG", "")
	root, _ := newRoot(topFiles())
	text := manual.Markdown(root)
	if *update {
		require.NoError(t, os.WriteFile(cliDocument, []byte(text), 0o644))
	}
	held, err := os.ReadFile(cliDocument)
	require.NoError(t, err)
	pagetest.Current(t, "docs/cli.md", text, string(held))
}

// A command can have flags of its own and subcommands, such as landfall audit.
func TestManual_documentHasEachFlag(t *testing.T) {
	t.Setenv("LANDFALL_CONFIG", "")
	root, _ := newRoot(topFiles())
	text := manual.Markdown(root) + "\n#"
	flags := 0
	runnable(root, func(path string) {
		cmd, _, err := root.Find(strings.Fields(path))
		require.NoError(t, err)
		_, section, ok := strings.Cut(text, "# landfall "+path+"\n")
		require.True(t, ok, path)
		section, _, _ = strings.Cut(section, "\n#")
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden && flag.Name != "help" {
				flags++
				require.Regexp(t, "`[^`]*--"+flag.Name+"[ `]", section, "landfall %s", path)
			}
		})
	})
	require.Greater(t, flags, 500)
}

func TestManual_pageForEachCommand(t *testing.T) {
	dir := t.TempDir()
	require.Zero(t, landfall(t, "man", dir).code)
	page, err := os.ReadFile(filepath.Join(dir, "landfall-cluster-create.1"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(page), ".TH LANDFALL\\-CLUSTER\\-CREATE 1\n"))
	require.Contains(t, string(page), ".B \\-\\-base\\-domain string\n")
	require.FileExists(t, filepath.Join(dir, "landfall.1"))
}
