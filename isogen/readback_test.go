package isogen_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/plain"
	"landfall/isogen/skeleton"
)

// readBack contains the output of `coreos-installer iso ignition show`, `iso network extract` and
// `iso kargs show` by their documented rules. It reads only plain names of the primary tree, as
// they do.
type readBack struct {
	files           map[string]string
	kargs, standard string
	hasKargs        bool
}

func readBackOf(t *testing.T, iso plain.ISO) (r readBack) {
	t.Helper()
	info := struct {
		File           string
		Offset, Length *int
	}{File: "IMAGES/IGNITION.IMG"}
	if at, size := iso.File("COREOS/IGNINFO.JSO"); at >= 0 {
		require.NoError(t, json.Unmarshal(iso[at:at+size], &info))
	}
	at, length := iso.File(strings.ToUpper(info.File))
	require.Positive(t, at, info.File)
	if info.Offset != nil {
		at, length = at+*info.Offset, length-*info.Offset
	}
	if info.Length != nil {
		length = *info.Length
	}
	r.files = unpackStrictly(t, iso[at:at+length])
	r.readKernelArguments(t, iso)
	return r
}

// readKernelArguments reads kargs.json, or else the header. All areas must have the same content.
func (r *readBack) readKernelArguments(t *testing.T, iso plain.ISO) {
	t.Helper()
	parse := func(at, size int, pad, end string) string {
		return strings.TrimSpace(strings.TrimRight(strings.TrimRight(string(iso[at:at+size]), pad), end))
	}
	add := func(line string) {
		if r.hasKargs {
			require.Equal(t, r.kargs, line, "all areas have the same content")
		}
		r.kargs, r.hasKargs = line, true
	}
	if at, size := iso.File("COREOS/KARGS.JSO"); at >= 0 {
		var kargs struct {
			Default string
			Size    int
			Files   []struct {
				Path     string
				Offset   int
				Pad, End *string
			}
		}
		require.NoError(t, json.Unmarshal(iso[at:at+size], &kargs))
		require.LessOrEqual(t, kargs.Size, 2048)
		r.standard = kargs.Default
		for _, f := range kargs.Files {
			pad, end := "#", "\n"
			if f.Pad != nil {
				pad = *f.Pad
			}
			if f.End != nil {
				end = *f.End
			}
			file, _ := iso.File(strings.ToUpper(f.Path))
			require.Positive(t, file, f.Path)
			add(parse(file+f.Offset, kargs.Size, pad, end))
		}
		return
	}
	header := iso[32768-24-72:]
	if string(header[:8]) != "coreKarg" {
		return
	}
	number := func(i int) int { return int(binary.LittleEndian.Uint64(header[8*i:])) }
	r.standard = parse(number(2), number(1), "#", "\n")
	for i := 3; i < 9 && number(i) != 0; i++ {
		add(parse(number(i), number(1), "#", "\n"))
	}
}

// unpackStrictly reads gzip-compressed newc archives with zeros between them as the kernel does: it
// drops a file whose directory did not come before it. If a path occurs several times, it keeps the
// last file.
func unpackStrictly(t *testing.T, area []byte) map[string]string {
	t.Helper()
	files, dirs := map[string]string{}, map[string]bool{".": true}
	for area = bytes.TrimLeft(area, "\x00"); len(area) > 0; area = bytes.TrimLeft(area, "\x00") {
		in := bytes.NewReader(area)
		z, err := gzip.NewReader(in)
		require.NoError(t, err)
		z.Multistream(false)
		archive, err := io.ReadAll(z)
		require.NoError(t, err)
		for i := 0; ; {
			require.Equal(t, "070701", string(archive[i:i+6]))
			field := func(n int) int {
				v, err := strconv.ParseUint(string(archive[i+6+8*n:i+14+8*n]), 16, 32)
				require.NoError(t, err)
				return int(v)
			}
			mode, size, name := field(1), field(6), string(archive[i+110:i+110+field(11)-1])
			data := (i + 110 + len(name) + 1 + 3) &^ 3
			if name == "TRAILER!!!" {
				require.Empty(t, bytes.Trim(archive[data:], "\x00"), "only padding follows")
				break
			}
			require.True(t, dirs[path.Dir(name)], "the directory of %s comes before it", name)
			if mode&0o170000 == 0o040000 {
				dirs[name] = true
			} else {
				require.Equal(t, 0o100000, mode&0o170000)
				files[name] = string(archive[data : data+size])
			}
			i = (data + size + 3) &^ 3
		}
		area = area[len(area)-in.Len():]
	}
	return files
}

// requireReadBack requires that coreos-installer finds the embedded content, whether or not it fits
// the embed area.
func requireReadBack(t *testing.T, base *isogen.Base) {
	t.Helper()
	published, err := os.ReadFile(base.Path())
	require.NoError(t, err)
	before := readBackOf(t, published)
	require.Empty(t, before.files)
	require.Equal(t, before.standard, before.kargs)
	var args []isogen.KernelArgument
	if before.hasKargs {
		args = append(edits(isogen.Append, "console=ttyS0"), edits(isogen.Delete, "ignition.firstboot")...)
		line, err := base.KernelArguments(args...)
		require.NoError(t, err)
		require.Equal(t, strings.Replace(before.standard, " ignition.firstboot", "", 1)+" console=ttyS0", line)
	}
	large := payload
	large.Ignition = incompressible(t, int(base.EmbedAreaSize())+10_000).Ignition
	payloads := []isogen.Payload{payload}
	if base.Info().EmbedArea.Relocatable {
		payloads = append(payloads, large)
	}
	for _, p := range payloads {
		image, err := base.Full(p, args...)
		require.NoError(t, err)
		found := readBackOf(t, contents(t, image))
		want := map[string]string{"config.ign": string(p.Ignition)}
		for _, f := range p.Files {
			want[f.Path] = string(f.Data)
		}
		require.Equal(t, want, found.files)
		require.Equal(t, before.standard, found.standard)
		if before.hasKargs {
			line, err := base.KernelArguments(args...)
			require.NoError(t, err)
			require.Equal(t, line, found.kargs)
		}
	}
}

func TestCoreOSInstaller_generatedISOs(t *testing.T) {
	for _, age := range []string{skeleton.Age2020, skeleton.Age2021, skeleton.Age2021Later, skeleton.Age2022,
		skeleton.Age2023, skeleton.Newest} {
		t.Run(age, func(t *testing.T) { requireReadBack(t, open(t, write(t, skeleton.ISO{Age: age}))) })
	}
	for _, arch := range []string{isogen.AArch64, isogen.PPC64LE, isogen.S390X} {
		t.Run(arch, func(t *testing.T) { requireReadBack(t, open(t, write(t, skeleton.ISO{Architecture: arch}))) })
	}
}

func TestCoreOSInstaller_realISOs(t *testing.T) {
	for name, want := range map[string]struct {
		areas int
		boots []string
	}{
		"embed-areas-2020-09":        {0, []string{"BIOS CD", "UEFI CD"}},
		"embed-areas-2021-01":        {2, []string{"BIOS CD", "UEFI CD"}},
		"embed-areas-2021-09":        {2, []string{"BIOS CD", "UEFI CD"}},
		"embed-areas-2022-02":        {2, []string{"BIOS CD", "UEFI CD", "BIOS USB", "UEFI USB"}},
		"embed-areas-2023-07.x86_64": {2, []string{"BIOS CD", "UEFI CD", "BIOS USB", "UEFI USB"}},
		"embed-areas-2023-07.s390x":  {1, []string{"s390x CD"}},
	} {
		t.Run(name, func(t *testing.T) {
			base := open(t, realISO(t, name))
			info := base.Info()
			require.Len(t, info.KernelArguments.Files, want.areas)
			require.Equal(t, want.boots, info.Boots)
			require.Equal(t, base.Architecture() != isogen.S390X, info.EmbedArea.Relocatable)
			requireReadBack(t, base)
		})
	}
}

// TestRealISOs_independentReaders reads real images with a payload at their end by independent
// programs.
func TestRealISOs_independentReaders(t *testing.T) {
	for _, name := range []string{"embed-areas-2021-09", "embed-areas-2023-07.x86_64"} {
		base := open(t, realISO(t, name))
		large := incompressible(t, 400_000)
		image, err := base.Full(large)
		require.NoError(t, err)
		iso := filepath.Join(t.TempDir(), "image.iso")
		require.NoError(t, os.WriteFile(iso, contents(t, image), 0o600))
		for reader, read := range readers(t) {
			before, after := read(t, base.Path()), read(t, iso)
			for path, content := range before {
				if path == base.Info().EmbedArea.File {
					require.True(t, bytes.HasPrefix(after[path], packed(t, large)), reader)
				} else {
					require.Equal(t, content, after[path], "%s by %s", path, reader)
				}
			}
		}
	}
}
