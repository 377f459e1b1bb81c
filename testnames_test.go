package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testNameLength is the length that the name of a test may have.
const testNameLength = 60

var (
	// testName is a subject in CamelCase and a case that starts with a small letter, a digit or an
	// abbreviation.
	testName   = regexp.MustCompile(`^(Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]*(_([a-z0-9]|[A-Z]{2})[A-Za-z0-9]*)?$`)
	testPrefix = regexp.MustCompile(`^(Test|Benchmark|Fuzz)([^a-z]|$)`)
)

// testFiles returns the Go test files of the repository, those with build tags included.
func testFiles(t *testing.T) []string {
	t.Helper()
	list, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*_test.go").Output()
	require.NoError(t, err)
	files := strings.Fields(string(list))
	require.NotEmpty(t, files)
	return files
}

// TestNames_areSubjectAndCase holds that the names of tests, benchmarks and fuzz targets are a
// subject and a case, as in TestHostRegistration_deletedHostComesBack.
func TestNames_areSubjectAndCase(t *testing.T) {
	for _, file := range testFiles(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv != nil || !testPrefix.MatchString(function.Name.Name) {
				continue
			}
			switch name := function.Name.Name; {
			case name == "TestMain":
			case len(name) > testNameLength:
				t.Errorf("%s: %s has %d characters, more than %d", file, name, len(name), testNameLength)
			case !testName.MatchString(name):
				t.Errorf("%s: %s is not a subject in CamelCase, an underscore and a case in camelCase", file, name)
			}
		}
	}
}
