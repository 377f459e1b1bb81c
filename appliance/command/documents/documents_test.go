package documents

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var top = os.DirFS(filepath.Join("..", "..", ".."))

func run(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	cmd := New(top)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(arguments)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

func TestDocs_everyDocumentIsEmbeddedOrNotForUsers(t *testing.T) {
	developers := []string{"architecture", "compatibility", "design", "equality", "page", "performance",
		"testing"}
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "*.md"))
	require.NoError(t, err)
	embedded, err := topics()
	require.NoError(t, err)
	var existing []string
	for _, path := range paths {
		existing = append(existing, strings.TrimSuffix(filepath.Base(path), ".md"))
	}
	require.ElementsMatch(t, append(existing, readme), append(embedded, developers...))
	for _, topic := range embedded {
		if topic == readme || topic == reference {
			continue
		}
		want, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", topic+".md"))
		require.NoError(t, err)
		got, err := library{top: top}.read(topic)
		require.NoError(t, err)
		require.Equal(t, string(want), got)
	}
}

func TestDocs_topicsAreShownPlainly(t *testing.T) {
	list, err := run(t)
	require.NoError(t, err)
	names, err := topics()
	require.NoError(t, err)
	for _, topic := range names {
		require.Contains(t, list, topic)
		text, err := run(t, topic)
		require.NoError(t, err)
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "    ") {
				continue // code
			}
			require.NotContains(t, line, "**", topic)
			require.NotContains(t, line, "](", topic)
			require.NotContains(t, line, "<!--", topic)
			require.False(t, strings.HasPrefix(line, "|"), "%s: %s", topic, line)
		}
	}
}

func TestDocs_sections(t *testing.T) {
	text, err := run(t, "operations", "backups")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "Backups\n-------\n"), text)
	require.Contains(t, text, "    landfall backup -o site.backup\n")
	require.NotContains(t, text, "Damage\n------")
	text, err = run(t, "operations", "Watch")
	require.NoError(t, err)
	require.Contains(t, text, "\nChecks\n", "with the sections below")
	for arguments, want := range map[string]string{
		"nothing":             `there is no topic "nothing"; the topics are readme, cli, abi, `,
		"operations nowhere":  `operations has no section "nowhere"; its sections are: Operations; Watch; Checks;`,
		"operations --search": "flag needs an argument",
	} {
		_, err := run(t, strings.Fields(arguments)...)
		require.ErrorContains(t, err, want)
	}
}

// A person who has only the program reads how to set up a site, and makes a configuration file.
func TestDocs_programIsEnough(t *testing.T) {
	text, err := run(t, "readme", "set up a real site")
	require.NoError(t, err)
	require.Contains(t, text, "    bin/landfall setup ")
	text, err = run(t, "readme", "hosted control planes")
	require.NoError(t, err)
	require.Contains(t, text, "docs/hosted.md (landfall docs hosted)")
	require.Contains(t, text, "explains the terms")
	text, err = run(t, "readme")
	require.NoError(t, err)
	require.Contains(t, text, "docs/cli.md (landfall docs cli)")
	require.Contains(t, text, "docs/architecture.md (in the source repository)")
	text, err = run(t, "cli")
	require.NoError(t, err)
	require.Contains(t, text, "Command line\n============\n")
	text, err = run(t, "config")
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("..", "..", "..", "config.example.yaml"))
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

func TestDocs_search(t *testing.T) {
	text, err := run(t, "--search", "Disk FULL")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "operations: Disk\n"), text)
	require.Contains(t, text, "    landfall docs operations disk\n")
	text, err = run(t, "ams", "--search", "quarantine")
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), columns)
		require.False(t, strings.HasPrefix(line, "operations"), "only the topic is searched")
	}
	for _, arguments := range [][]string{{"--search", "boot_listen plain HTTP"},
		{"config", "--search", "boot_listen plain HTTP"}} {
		text, err = run(t, arguments...)
		require.NoError(t, err)
		require.Contains(t, text, "config: boot_listen\n")
		require.Contains(t, text, "\n    landfall docs config\n")
	}
	_, err = run(t, "--search", "zzzzz")
	require.EqualError(t, err,
		`no section contains "zzzzz"; try fewer or shorter words, or landfall docs for the topics`)
}

func TestRender(t *testing.T) {
	got := render("# Title\n\n<!-- note -->\n\nSee [bmc](bmc.md) and [here](ams.md#faults), a [page]" +
		"(https://example.com).\n\n    code **kept**\n\n| a | `b\\|c` |\n|---|---|\n| 1 | **2** |\n\n```sh\n" +
		"$ landfall\n```\n```mermaid\nx\n```")
	require.Equal(t, "Title\n=====\n\nSee bmc (landfall docs bmc) and here (landfall docs ams faults), a page "+
		"(https://example.com).\n\n    code **kept**\n\n  a  b|c\n  1  2\n\n    $ landfall\n    (a diagram, which a "+
		"terminal can't show; the tables have its content)\n", got)
	wide := render("| key | meaning |\n|---|---|\n| a | " + strings.Repeat("word ", 30) + "|\n")
	require.True(t, strings.HasPrefix(wide, "  a\n      meaning: word word"), wide)
}
