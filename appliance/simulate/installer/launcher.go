package installer

import (
	"runtime"
	"strings"
)

// The openshift-install of a payload consists of a few lines of text. The first line names the
// interpreter /proc/self/exe, which is the program of the process that starts the file. So the file
// has the same bytes in every payload, needs no shell, finds the program at any path, and adds no
// files to a site. Main recognizes the arguments that the kernel derives from that line.
const (
	launcherProgram = "/proc/self/exe"
	launcherText    = "#!" + launcherProgram + " " + installerName + "\n" +
		"# A stand-in for openshift-install, played by the program that starts it. It is no installer.\n"
)

// releaseStamp is the data that `oc adm release extract` writes into the program when it extracts
// it from a payload.
type releaseStamp struct{ image, version, architecture string }

// launcherPlaces returns the places for the stamp in the order in which they follow the text: a
// NUL, a name, a NUL, a run of X and a NUL, as in the real program.
func launcherPlaces() [3]string {
	place := func(name string, room int) string {
		return "\x00_RELEASE_" + name + "_LOCATION_\x00" + strings.Repeat("X", room) + "\x00"
	}
	return [...]string{place("IMAGE", 300), place("VERSION", 50), place("ARCHITECTURE", 50)}
}

// Launcher returns the content of a payload's openshift-install.
func Launcher() string {
	places := launcherPlaces()
	return launcherText + strings.Join(places[:], "") + "\n"
}

// stampOf reads the stamp of a launcher. Without a stamp, the program is treated as a development
// build, like the real program.
func stampOf(launcher string) releaseStamp {
	values := [...]string{"registry.ci.openshift.org/origin/release:4.20", "unreleased", "linux/" + runtime.GOARCH}
	at := len(launcherText)
	for i, place := range launcherPlaces() {
		if at+len(place) <= len(launcher) {
			values[i] = stamped(launcher[at:at+len(place)], values[i])
		}
		at += len(place)
	}
	return releaseStamp{image: values[0], version: values[1], architecture: values[2]}
}

func stamped(place, otherwise string) string {
	if strings.HasPrefix(place, "\x00") {
		return otherwise
	}
	value, _, _ := strings.Cut(place, "\x00")
	return value
}
