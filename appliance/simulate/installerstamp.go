package simulate

import (
	"runtime"
	"strings"
)

// releaseStamp is what `oc adm release extract` writes into the program when it takes it out of a payload.
type releaseStamp struct{ image, version, architecture string }

// The places for the stamp: a NUL, a name, a NUL, a run of X and a NUL. They are functions that are not inlined, so that the compiler keeps
// the texts whole in the executable and does not reason about what they say.

//go:noinline
func imageStamp() string {
	return "\x00_RELEASE_IMAGE_LOCATION_\x00XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX\x00"
}

//go:noinline
func versionStamp() string {
	return "\x00_RELEASE_VERSION_LOCATION_\x00XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX\x00"
}

//go:noinline
func architectureStamp() string {
	return "\x00_RELEASE_ARCHITECTURE_LOCATION_\x00XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX\x00"
}

// stampOf reads the stamp of the running program. One that was never stamped is what the real one then is: a developers' build.
func stampOf() releaseStamp {
	return releaseStamp{
		image:        stamped(imageStamp(), "registry.ci.openshift.org/origin/release:4.20"),
		version:      stamped(versionStamp(), "unreleased"),
		architecture: stamped(architectureStamp(), "linux/"+runtime.GOARCH),
	}
}

func stamped(place, otherwise string) string {
	if strings.HasPrefix(place, "\x00") {
		return otherwise
	}
	value, _, _ := strings.Cut(place, "\x00")
	return value
}
