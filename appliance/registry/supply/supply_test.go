package supply

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/architecture"
	"landfall/appliance/engine"
	"landfall/appliance/osimage"
	"landfall/logtest"
)

// library is a library with the live ISOs of some architectures. It records what it is to fetch.
type library struct {
	has     []string
	fetched []osimage.Request
}

func (l *library) CheckRelease(_, arch string) error {
	if slices.Contains(l.has, arch) {
		return nil
	}
	return errors.New("there is no live ISO")
}

func (l *library) Fetch(r osimage.Request) (osimage.Image, error) {
	l.fetched = append(l.fetched, r)
	return osimage.Image{}, nil
}

// The live ISO of a release for several architectures is that of one which the medium has.
func TestTakeLiveISOs_architectures(t *testing.T) {
	for name, c := range map[string]struct {
		of      string
		carried []architecture.Architecture
		has     []string
		want    string // "": none is taken
	}{
		"unknown":         {"", nil, nil, "x86_64"},
		"x86_64":          {"x86_64", nil, nil, "x86_64"},
		"arm64":           {"arm64", nil, nil, "arm64"},
		"all":             {"multi", []architecture.Architecture{architecture.ARM, architecture.X86}, nil, "x86_64"},
		"no x86_64":       {"multi", []architecture.Architecture{architecture.Z, architecture.ARM}, nil, "arm64"},
		"only one":        {"multi", []architecture.Architecture{architecture.Z}, nil, "s390x"},
		"another is here": {"multi", []architecture.Architecture{architecture.ARM}, []string{"x86_64"}, "arm64"},
		"one of it is here": {"multi", []architecture.Architecture{architecture.Z, architecture.ARM},
			[]string{"s390x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			images := &library{has: c.has}
			TakeLiveISOs([]engine.ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: c.of,
				URL: "quay.io/release"}},
				func(string) []architecture.Architecture { return c.carried }, images, logtest.New(t, slog.LevelInfo))
			if c.want == "" {
				require.Empty(t, images.fetched)
				return
			}
			require.Equal(t, []osimage.Request{{Release: "quay.io/release", OpenshiftVersion: "4.20.8",
				CPUArchitecture: c.want, Unattended: true}}, images.fetched)
		})
	}
}
