package hosted

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// faultCount is the number of the faults between a person, the appliance and a management cluster.
// Each is a subtest of TestFaults in one of the packages below, with its number and its name, so
// that this runs number 13:
//
//	go test ./appliance/hosted/... ./web/hosted -run TestFaults/13
//
// Each counts the deletions of HostedClusters at the API of a simulated management cluster: nothing
// may be deleted there that nobody deleted.
const faultCount = 48

var faultPackages = []string{"broker", "maestro", "provider", "../../web/hosted"}

var faultName = regexp.MustCompile(`^"(\d\d) .+"$`)

// The tables of faults contain all 48, and their test counts the deletions of each.
func TestFaults_areComplete(t *testing.T) {
	tests := map[int]string{}
	for _, dir := range faultPackages {
		file := filepath.Join(dir, "faults_test.go")
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		counts := false
		for _, declaration := range parsed.Decls {
			ast.Inspect(declaration, func(node ast.Node) bool {
				if function, ok := node.(*ast.FuncDecl); ok && function.Name.Name == "TestFaults" {
					ast.Inspect(function, func(node ast.Node) bool {
						call, ok := node.(*ast.SelectorExpr)
						counts = counts || ok && call.Sel.Name == "requireDeleted"
						return true
					})
				}
				entry, ok := node.(*ast.CompositeLit)
				if !ok || len(entry.Elts) == 0 {
					return true
				}
				literal, ok := entry.Elts[0].(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				if found := faultName.FindStringSubmatch(literal.Value); found != nil {
					number, err := strconv.Atoi(found[1])
					require.NoError(t, err)
					require.NotContains(t, literal.Value, "/", "a slash divides the names of subtests")
					if !strings.Contains(literal.Value, " the same; ") {
						require.Empty(t, tests[number], "the number %d occurs twice", number)
						tests[number] = dir
					}
				}
				return true
			})
		}
		require.True(t, counts, "TestFaults of %s counts the deletions", dir)
	}
	for number := 1; number <= faultCount; number++ {
		require.NotEmpty(t, tests[number], "the fault %d has a test", number)
	}
	require.Len(t, tests, faultCount)
}
