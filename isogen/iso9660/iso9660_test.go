package iso9660_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	independent "github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/stretchr/testify/require"

	"landfall/isogen/iso9660"
)

func TestWrite_roundTrip(t *testing.T) {
	b := image(t, iso9660.Image{VolumeID: "rhcos-1", Time: time.Unix(1748000000, 0), Files: files})
	v := volume(t, b)
	require.Equal(t, "rhcos-1", v.ID)
	require.EqualValues(t, len(b), v.Size)
	for _, f := range files {
		e := v.Find(f.Path)
		require.NotNil(t, e, f.Path)
		require.Equal(t, filepath.Base(f.Path), e.Name)
		require.Equal(t, string(f.Data), string(b[e.Offset:e.Offset+e.Size]))
		require.EqualValues(t, e.Offset/iso9660.SectorSize, binary.LittleEndian.Uint32(b[e.Record+2:]),
			"the record is at its offset")
	}
	require.NotNil(t, v.Find("/COREOS/IgnInfo.json"), "letter case does not matter")
	require.Nil(t, v.Find("coreos/missing"))
	require.Nil(t, v.Find("coreos/igninfo.json/below"))
	require.Equal(t, b, image(t, iso9660.Image{VolumeID: "rhcos-1", Time: time.Unix(1748000000, 0), Files: files}))
}

// TestWrite_independentReader reads a written image with go-diskfs.
func TestWrite_independentReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.iso")
	require.NoError(t, os.WriteFile(path, image(t, iso9660.Image{VolumeID: "rhcos-1", Time: time.Unix(1748000000, 0),
		Files: files}), 0o600))
	backend, err := file.OpenFromPath(path, true)
	require.NoError(t, err)
	fs, err := independent.Read(backend, 0, 0, iso9660.SectorSize)
	require.NoError(t, err)
	require.Equal(t, "rhcos-1", strings.TrimSpace(fs.Label()))
	for _, f := range files[:3] { // go-diskfs does not find names that begin with a dot
		opened, err := fs.OpenFile("/"+f.Path, os.O_RDONLY)
		require.NoError(t, err, f.Path)
		got, err := io.ReadAll(opened)
		require.NoError(t, err)
		require.Equal(t, string(f.Data), string(got))
	}
	require.NoError(t, backend.Close())
}

// TestOpen_independentWriter reads images of go-diskfs, with and without Rock Ridge.
func TestOpen_independentWriter(t *testing.T) {
	for _, rockRidge := range []bool{false, true} {
		t.Run(fmt.Sprintf("Rock Ridge %t", rockRidge), func(t *testing.T) {
			dir := t.TempDir()
			workspace := filepath.Join(dir, "tree")
			require.NoError(t, os.MkdirAll(filepath.Join(workspace, "coreos"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(workspace, "coreos", "igninfo.json"), []byte("{}"), 0o644))
			path := filepath.Join(dir, "x.iso")
			backend, err := file.CreateFromPath(path, 1<<20)
			require.NoError(t, err)
			fs, err := independent.Create(backend, 1<<20, 0, iso9660.SectorSize, workspace)
			require.NoError(t, err)
			require.NoError(t, fs.Finalize(independent.FinalizeOptions{RockRidge: rockRidge,
				VolumeIdentifier: "rhcos-1"}))
			require.NoError(t, backend.Close())
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			v := volume(t, b)
			require.Equal(t, "rhcos-1", v.ID)
			e := v.Find("coreos/igninfo.json")
			require.NotNil(t, e)
			require.Equal(t, "{}", string(b[e.Offset:e.Offset+e.Size]))
		})
	}
}

func TestOpen_directoryOfManySectors(t *testing.T) {
	var many []iso9660.File
	for i := range 500 {
		many = append(many, iso9660.File{Path: fmt.Sprintf("dir/%d.dat", i), Data: []byte{byte(i)}})
	}
	v := volume(t, image(t, iso9660.Image{Files: many}))
	require.Len(t, v.Find("dir").Children, 500)
}

func TestWrite_refusals(t *testing.T) {
	file := func(paths ...string) (img iso9660.Image) {
		for _, p := range paths {
			img.Files = append(img.Files, iso9660.File{Path: p})
		}
		return img
	}
	for says, img := range map[string]iso9660.Image{
		"more than 32 characters":             {VolumeID: strings.Repeat("v", 33)},
		"the system area has 32768 bytes":     {System: make([]byte, 32769)},
		`"../x" is not a valid path`:          file("../x"),
		"have the same short name LONGNAME.;": file("longname1", "longname2"),
		"a and a have the same short name":    file("a", "a"),
	} {
		require.ErrorContains(t, iso9660.Write(io.Discard, img), says)
	}
}

// TestLargeISO_filesBehind4GiB has a file whose position and size do not fit in 32 bits.
func TestLargeISO_filesBehind4GiB(t *testing.T) {
	b := image(t, iso9660.Image{Files: []iso9660.File{{Path: "a.img", Data: []byte("a")}}})
	record := volume(t, b).Find("a.img").Record
	const sector = 5 << 30 / iso9660.SectorSize
	binary.LittleEndian.PutUint32(b[record+2:], sector)
	binary.LittleEndian.PutUint32(b[32768+80:], sector+10)
	v, err := iso9660.Open(sparse{0: b}, (sector+10)*iso9660.SectorSize)
	require.NoError(t, err)
	require.EqualValues(t, 5<<30, v.Find("a.img").Offset)
	require.EqualValues(t, (sector+10)*iso9660.SectorSize, v.Size)
}

// TestOpen_fileInSeveralRecords has a file in several records, as level 3 requires for 4 GiB and
// more.
func TestOpen_fileInSeveralRecords(t *testing.T) {
	b := image(t, iso9660.Image{Files: []iso9660.File{{Path: "a.img", Data: make([]byte, 2048)},
		{Path: "b.img", Data: make([]byte, 100)}}})
	v := volume(t, b)
	first, second := v.Find("a.img"), v.Find("b.img")
	b[first.Record+25] |= 0x80
	joined := volume(t, b)
	require.Len(t, joined.Root.Children, 1)
	require.EqualValues(t, 2148, joined.Find("a.img").Size)

	binary.LittleEndian.PutUint32(b[second.Record+2:], 1)
	_, err := iso9660.Open(bytes.NewReader(b), int64(len(b)))
	require.ErrorContains(t, err, "/a.img has several parts")
}

// TestOpen_damagedVolume damages one structure at a time.
func TestOpen_damagedVolume(t *testing.T) {
	good := image(t, iso9660.Image{VolumeID: "v", Files: []iso9660.File{{Path: "one/two/x", Data: []byte("x")}}})
	v := volume(t, good)
	one, two, x := v.Find("one"), v.Find("one/two"), v.Find("one/two/x")
	le32 := func(v int64) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) }
	for name, c := range map[string]struct {
		offset int64
		with   []byte
		says   string
	}{
		"a directory that contains itself": {two.Record + 2, le32(one.Offset / 2048),
			"/one/two is contained in itself"},
		"a directory that is the root": {one.Record + 2, le32(v.Root.Offset / 2048),
			"is contained in itself"},
		"a directory after the end":          {one.Record + 2, le32(1 << 30), "but the directory /one needs"},
		"a directory of gigabytes":           {one.Record + 10, le32(3 << 30), "the directory /one is too large"},
		"a file after the end":               {x.Record + 2, le32(1 << 30), "but the file /one/two/x needs"},
		"a file with too many bytes":         {x.Record + 10, le32(1 << 30), "but the file /one/two/x needs"},
		"a record without a length":          {x.Record, []byte{1}, "impossible length"},
		"a record that leaves its directory": {x.Record, []byte{255}, ""},
		"a record without a name":            {x.Record + 32, []byte{0}, "impossible length"},
		"a name that leaves its record":      {x.Record + 32, []byte{200}, "impossible length"},
		"an interleaved file":                {x.Record + 26, []byte{1}, "interleaved"},
		"descriptors without an end":         {17 * 2048, []byte{7, 'X'}, "the volume descriptors do not end"},
		"no primary descriptor": {16 * 2048, []byte{2},
			"the first volume descriptor is not the primary one"},
		"another block size":            {16*2048 + 128, []byte{0, 4}, "the logical block size is 1024"},
		"a volume larger than the file": {16*2048 + 80, le32(1 << 31), "but the volume needs 4398046511104"},
		"no mark":                       {16*2048 + 1, []byte("NSR02"), "no CD001 mark"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(good)
			copy(b[c.offset:], c.with)
			_, err := iso9660.Open(bytes.NewReader(b), int64(len(b)))
			if c.says == "" {
				return // harmless: the bytes after it belong to the record
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

// FuzzOpen requires a result for any image, and positions within the image.
func FuzzOpen(f *testing.F) {
	b := image(f, iso9660.Image{VolumeID: "v", Files: files})
	f.Add(b[32768:])
	f.Add(b[32768:40960])
	f.Add(image(f, bootable())[32768:])
	f.Fuzz(func(t *testing.T, tail []byte) {
		b := append(make([]byte, 32768), tail...)
		v, err := iso9660.Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for e := range v.All() {
			if e.Size > 0 && (e.Offset < 0 || e.Offset+e.Size > int64(len(b))) {
				t.Fatalf("%s lies at %d+%d of %d", e.Name, e.Offset, e.Size, len(b))
			}
		}
		v.Find("coreos/igninfo.json")
		v.BootEntries(bytes.NewReader(b))
		for path, e := range v.Files() {
			if len(v.Links(e)) == 0 {
				t.Fatalf("%s is not among its own links", path)
			}
		}
	})
}
