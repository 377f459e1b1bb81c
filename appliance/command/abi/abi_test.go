package abi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/abi"
)

func TestWriteDirectory_onlyIfEmpty(t *testing.T) {
	files := []abi.File{{Name: "cluster-manifests/a.yaml", Data: []byte("a")}, {Name: "b.yaml", Data: []byte("b")}}
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, writeDirectory(dir, files))
	info, err := os.Stat(filepath.Join(dir, "cluster-manifests", "a.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode(), "the pull secret may be in it")
	require.ErrorContains(t, writeDirectory(dir, files), "is not empty; choose another one with -o")
	require.Error(t, writeDirectory(filepath.Join(t.TempDir(), "out"), []abi.File{{Name: "../a.yaml"}}))
}
