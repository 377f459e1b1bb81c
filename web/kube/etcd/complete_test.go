package etcd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStorage_allUpstreamTests compares the storage tests of k8s.io/apiserver with the tests that
// are called here.
func TestStorage_allUpstreamTests(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/storage/testing").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	require.NoError(t, err)
	ours, err := os.ReadFile("upstream_test.go")
	require.NoError(t, err)
	tests := 0
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, declared := range parsed.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(function.Name.Name, "Run") || strings.HasPrefix(function.Name.Name,
				"RunBenchmark") {
				continue
			}
			tests++
			require.Contains(t, string(ours), "storagetesting."+function.Name.Name+"(",
				"a test of Kubernetes is not called")
		}
	}
	require.Greater(t, tests, 50)
}
