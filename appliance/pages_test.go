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

// TestEveryTestThatThePagesNameExists holds that the pages which say what is shown by which test are not out of date.
func TestEveryTestThatThePagesNameExists(t *testing.T) {
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
	for _, page := range []string{"compatibility.md", "testing.md"} {
		text, err := os.ReadFile(filepath.Join("..", "docs", page))
		require.NoError(t, err)
		named := namedTest.FindAllSubmatch(text, -1)
		require.NotEmpty(t, named, page)
		for _, name := range named {
			require.True(t, written[string(name[1])], "docs/%s names %s, which is no test", page, name[1])
		}
	}
}
