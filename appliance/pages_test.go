package appliance_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedTest   = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	writtenTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
)

// describedRow is a row of docs/compatibility.md: lines of an upstream file at which behaviours
// begin, and the matching tests.
var describedRow = regexp.MustCompile(`(?m)^\| (\d+(?: \d+)*) \| [^|]+ \| ([^|]+) \|$`)

// TestPages_describeEveryBehaviour requires that docs/compatibility.md lists each behaviour of the
// Assisted Installer's own tests exactly once, with the test that shows it or the reason why there
// is none.
func TestPages_describeEveryBehaviour(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("testdata", "subsystem.txt"))
	require.NoError(t, err)
	described := make(map[string][]string)
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); !strings.HasPrefix(line, "#") {
			described[fields[0]] = fields[1:]
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "docs", "compatibility.md"))
	require.NoError(t, err)
	shown := make(map[string][]string)
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		file, rest, _ := strings.Cut(section, "\n")
		for _, row := range describedRow.FindAllStringSubmatch(rest, -1) {
			shown[file] = append(shown[file], strings.Fields(row[1])...)
			explained := namedTest.MatchString(row[2]) || strings.Contains(row[2], "does not apply") ||
				strings.Contains(row[2], "differs")
			require.True(t, explained, "%s %s: no test and no reason", file, row[1])
		}
	}
	require.NotEmpty(t, described)
	require.Len(t, shown, len(described))
	for file, lines := range described {
		require.ElementsMatch(t, lines, shown[file], file)
	}
}

// TestPages_namedTestsExist requires that every test exists that a document names.
func TestPages_namedTestsExist(t *testing.T) {
	written := make(map[string]bool)
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range writtenTest.FindAllSubmatch(text, -1) {
			written[string(found[1])] = true
		}
		return err
	}))
	for _, page := range []string{"compatibility.md", "testing.md", "steps.md"} {
		text, err := os.ReadFile(filepath.Join("..", "docs", page))
		require.NoError(t, err)
		named := namedTest.FindAllSubmatch(text, -1)
		require.NotEmpty(t, named, page)
		for _, name := range named {
			require.True(t, written[string(name[1])], "docs/%s names %s, which does not exist", page, name[1])
		}
	}
}
