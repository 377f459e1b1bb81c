package release

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"landfall/appliance/architecture"
)

// openshift-install has three placeholders for text, each a NUL, a name, a NUL, a run of X and a
// NUL. A program that extracts openshift-install from a payload overwrites the beginning of the
// placeholder with the value and a NUL, as `oc adm release extract` does. An unchanged placeholder
// marks a development build.
var markers = []string{"_RELEASE_IMAGE_LOCATION_", "_RELEASE_VERSION_LOCATION_", "_RELEASE_ARCHITECTURE_LOCATION_"}

// shortestMarker is the minimum number of X in a placeholder. The program also contains the bare
// name, for comparison.
const shortestMarker = 16

// stamp writes the payload's image, version and architecture into the file, each into the first
// placeholder of its name. It returns the names of missing placeholders. A missing placeholder is
// no error, because the program reads its environment instead.
func stamp(file *os.File, p *Payload) (missing []string, err error) {
	values := []string{p.Image, p.Version, "linux/" + architecture.Of(p.Architecture).Go()}
	if p.Multi {
		values[2] = "multi (" + values[2] + ")"
	}
	for i, marker := range markers {
		offset, room, err := findMarker(file, marker)
		if err != nil {
			return nil, fmt.Errorf("search for %s: %w", marker, err)
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

// findMarker returns the offset and the size of the first placeholder with the name. The size is 0
// without a placeholder.
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
