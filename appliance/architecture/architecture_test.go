package architecture_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/architecture"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]struct {
		architecture   architecture.Architecture
		api, rpm, goos string
	}{
		"x86_64":  {architecture.X86, "x86_64", "x86_64", "amd64"},
		"amd64":   {architecture.X86, "x86_64", "x86_64", "amd64"},
		"arm64":   {architecture.ARM, "arm64", "aarch64", "arm64"},
		"aarch64": {architecture.ARM, "arm64", "aarch64", "arm64"},
		"ppc64le": {architecture.Power, "ppc64le", "ppc64le", "ppc64le"},
		"s390x":   {architecture.Z, "s390x", "s390x", "s390x"},
		"multi":   {architecture.Multi, "multi", "multi", "multi"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := architecture.Parse(name)
			require.True(t, ok)
			require.Equal(t, want.architecture, got)
			require.Equal(t, []string{want.api, want.rpm, want.goos}, []string{got.API(), got.RPM(), got.Go()})
		})
	}
}

func TestParse_unknownName(t *testing.T) {
	_, ok := architecture.Parse("riscv64")
	require.False(t, ok)
	require.Equal(t, "riscv64", architecture.Of("riscv64").RPM())
}
