package supply

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/engine"
	"landfall/appliance/osimage"
	"landfall/logtest"
)

// library is a library without live ISOs that records what it is to fetch.
type library struct{ fetched []osimage.Request }

func (l *library) CheckRelease(string, string) error { return errors.New("there is no live ISO") }

func (l *library) Fetch(r osimage.Request) (osimage.Image, error) {
	l.fetched = append(l.fetched, r)
	return osimage.Image{}, nil
}

// The live ISO of a release for several architectures is that of one of them.
func TestTakeLiveISOs_architectures(t *testing.T) {
	for of, want := range map[string]string{"": "x86_64", "x86_64": "x86_64", "multi": "x86_64", "arm64": "arm64"} {
		images := new(library)
		TakeLiveISOs([]engine.ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: of, URL: "quay.io/release"}},
			images, logtest.New(t, slog.LevelInfo))
		require.Equal(t, []osimage.Request{{Release: "quay.io/release", OpenshiftVersion: "4.20.8",
			CPUArchitecture: want, Unattended: true}}, images.fetched, of)
	}
}
