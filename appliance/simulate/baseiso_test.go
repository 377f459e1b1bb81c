package simulate_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
	"landfall/isogen"
)

func TestWriteBaseISO_reproducibleAndTakesConfig(t *testing.T) {
	dir := t.TempDir()
	var sums []string
	for _, name := range []string{"one.iso", "two.iso"} {
		sum, err := simulate.WriteBaseISO(filepath.Join(dir, name), simulate.BaseISO{})
		require.NoError(t, err)
		content, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Less(t, len(content), 10<<20)
		want := sha256.Sum256(content)
		require.Equal(t, hex.EncodeToString(want[:]), sum)
		sums = append(sums, sum)
	}
	require.Equal(t, sums[0], sums[1])

	base, err := isogen.Open(filepath.Join(dir, "one.iso"))
	require.NoError(t, err)
	require.NoError(t, base.Require("x86_64"))
	require.True(t, base.Info().Minimal, "the base supports minimal images")
	image, err := base.Full(isogen.Payload{Ignition: []byte("{}")})
	require.NoError(t, err)
	payload, err := isogen.Embedded(image.NewReader(), image.Size())
	require.NoError(t, err)
	require.Equal(t, "{}", string(payload.Ignition))
	require.NoError(t, base.Close())
}

func TestWriteBaseISO_eachArchitecture(t *testing.T) {
	for _, arch := range []string{"x86_64", "aarch64", "ppc64le", "s390x"} {
		path := filepath.Join(t.TempDir(), arch+".iso")
		_, err := simulate.WriteBaseISO(path, simulate.BaseISO{VolumeID: "rhcos-1.2.3", Architecture: arch,
			RootFSSize: 4096})
		require.NoError(t, err)
		base, err := isogen.Open(path)
		require.NoError(t, err)
		require.NoError(t, base.Require(arch))
		require.Equal(t, "1.2.3", base.Version())
		require.NoError(t, base.Close())
	}
}

func TestWriteBaseISO_failureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	_, err := simulate.WriteBaseISO(filepath.Join(dir, "a.iso"), simulate.BaseISO{Architecture: "vax"})
	require.ErrorContains(t, err, `no skeleton of a live ISO exists for the architecture "vax"`)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = simulate.WriteBaseISO(filepath.Join(dir, "missing", "a.iso"), simulate.BaseISO{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func BenchmarkWriteBaseISO(b *testing.B) {
	path := filepath.Join(b.TempDir(), "base.iso")
	for b.Loop() {
		_, err := simulate.WriteBaseISO(path, simulate.BaseISO{})
		require.NoError(b, err)
	}
}
