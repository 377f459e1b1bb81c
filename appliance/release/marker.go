package release

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// openshift-install carries three places for text, each a NUL, a name, a NUL, a run of X and a NUL.
// Who takes it out of a payload writes the value and a NUL over the place's beginning, as `oc adm
// release extract` does; a place left as it is means a developers' build.
var markers = []string{"_RELEASE_IMAGE_LOCATION_", "_RELEASE_VERSION_LOCATION_", "_RELEASE_ARCHITECTURE_LOCATION_"}

// shortestMarker is how many X a place has at least; the name alone also stands in the program, to
// compare with.
const shortestMarker = 16

// stamp writes the payload's image, version and architecture into the first of each place in the
// file. It gives the names of those it did not find, which is no error: the program falls back on
// its environment.
func stamp(file *os.File, p *Payload) (missing []string, err error) {
	values := []string{p.Image, p.Version, "linux/" + goArchitecture(p.Architecture)}
	if p.Multi {
		values[2] = "multi (" + values[2] + ")"
	}
	for i, marker := range markers {
		offset, room, err := findMarker(file, marker)
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", marker, err)
		}
		if room == 0 {
			missing = append(missing, marker)
			continue
		}
		if len(values[i])+1 > room {
			return nil, fmt.Errorf("%q does not fit into the %d bytes of %s", values[i], room, marker)
		}
		if _, err := file.WriteAt(append([]byte(values[i]), 0), offset); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// findMarker gives where the first place of that name begins and how many bytes it spans; room 0
// means that there is none.
func findMarker(r io.ReaderAt, marker string) (offset int64, room int, err error) {
	const window, longest = 1 << 20, 4096
	start := []byte("\x00" + marker + "\x00")
	buf := make([]byte, window)
	for at := int64(0); ; at += window - longest {
		n, err := r.ReadAt(buf, at)
		if err != nil && err != io.EOF {
			return 0, 0, err
		}
		for from := 0; ; {
			i := bytes.Index(buf[from:n], start)
			if i < 0 {
				break
			}
			begin := from + i
			end := begin + len(start)
			for end < n && buf[end] == 'X' {
				end++
			}
			if end < n && buf[end] == 0 && end-begin-len(start) >= shortestMarker {
				return at + int64(begin), end + 1 - begin, nil
			}
			from = begin + len(start)
		}
		if err == io.EOF {
			return 0, 0, nil
		}
	}
}
