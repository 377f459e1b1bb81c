package skeleton_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen/iso9660"
	"landfall/isogen/skeleton"
)

// TestWrite_kernelArgumentAreas checks an area by the rules of coreos-installer: the default
// arguments, one end character, padding, and in a boot loader's configuration the mark behind them.
func TestWrite_kernelArgumentAreas(t *testing.T) {
	for arch, areas := range map[string]int{"x86_64": 2, "aarch64": 1, "ppc64le": 1, "s390x": 1} {
		t.Run(arch, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, skeleton.Write(&b, skeleton.ISO{Architecture: arch, RootFSSize: 1000}))
			v, err := iso9660.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
			require.NoError(t, err)
			content := func(path string) []byte {
				e := v.Find(path)
				require.NotNil(t, e, path)
				return b.Bytes()[e.Offset : e.Offset+e.Size]
			}
			var kargs struct {
				Default string
				Size    int
				Files   []struct {
					Path, End, Pad string
					Offset         int
				}
			}
			require.NoError(t, json.Unmarshal(content("coreos/kargs.json"), &kargs))
			require.Contains(t, kargs.Default, "coreos.liveiso="+v.ID)
			require.Len(t, kargs.Files, areas)
			for _, f := range kargs.Files {
				file := content(f.Path)
				area := string(file[f.Offset : f.Offset+kargs.Size])
				require.Equal(t, kargs.Default, strings.TrimSuffix(strings.TrimRight(area, f.Pad), f.End))
				if arch != "s390x" {
					require.True(t, bytes.HasPrefix(file[f.Offset+kargs.Size:], []byte("# COREOS_KARG_EMBED_AREA\n")))
				}
			}
		})
	}
}

func TestWrite_unknownArchitecture(t *testing.T) {
	require.ErrorContains(t, skeleton.Write(&bytes.Buffer{}, skeleton.ISO{Architecture: "vax"}), `architecture "vax"`)
}
