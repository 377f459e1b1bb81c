package isogen_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	independent "github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/plain"
	"landfall/isogen/skeleton"
)

// plainFiles returns the files of a payload in the type of package plain.
func plainFiles(p isogen.Payload) []plain.File {
	var files []plain.File
	for _, f := range p.Files {
		files = append(files, plain.File{Path: f.Path, Mode: int(f.Mode), Data: f.Data})
	}
	return files
}

func packed(t *testing.T, p isogen.Payload) []byte {
	t.Helper()
	b, err := plain.Pack(p.Ignition, plainFiles(p))
	require.NoError(t, err)
	return b
}

// recipe describes a random image.
type recipe struct {
	iso     skeleton.ISO
	payload isogen.Payload
	args    []isogen.KernelArgument
	line    string // the default command line after the edits
}

func randomRecipe(t *testing.T, random *rand.Rand) recipe {
	t.Helper()
	var r recipe
	r.iso.Age = []string{skeleton.Age2020, skeleton.Age2021, skeleton.Age2021Later, skeleton.Age2022, skeleton.Age2023,
		skeleton.Newest}[random.IntN(6)]
	r.iso.Architecture = isogen.X86_64
	if r.iso.Age == skeleton.Newest {
		r.iso.Architecture = []string{isogen.X86_64, isogen.AArch64, isogen.PPC64LE, isogen.S390X}[random.IntN(4)]
	}
	r.iso.EmbedSize = 2048 * (1 + random.IntN(32))
	r.iso.RootFSSize = 1000 + random.IntN(100_000)
	r.iso.Trailing = []int{0, 0, 512, 5000}[random.IntN(4)]
	noise := func(limit int) []byte {
		b := make([]byte, 1+random.IntN(limit))
		_, err := rand.NewChaCha8([32]byte{byte(random.Uint32())}).Read(b)
		require.NoError(t, err)
		return b
	}
	r.payload.Ignition = noise(r.iso.EmbedSize / 2)
	if r.iso.Architecture != isogen.S390X {
		r.payload.Ignition = noise(2 * r.iso.EmbedSize)
	}
	for i := range random.IntN(4) {
		dir := []string{"", "etc/", "etc/coreos-firstboot-network/", "usr/lib/ignition/base.d/"}[random.IntN(4)]
		r.payload.Files = append(r.payload.Files, isogen.File{Path: fmt.Sprintf("%sfile%d", dir, i),
			Mode: os.FileMode(0o400 + random.IntN(0o377)), Data: noise(300)})
	}
	r.line = standard
	if r.iso.Age == skeleton.Age2020 {
		return r
	}
	if random.IntN(2) == 0 {
		r.args = append(r.args, isogen.KernelArgument{Operation: isogen.Delete, Value: "ignition.firstboot"})
		r.line = strings.Replace(r.line, " ignition.firstboot", "", 1)
	}
	for range random.IntN(5) {
		value := fmt.Sprintf("key%d=%d", random.IntN(100), random.Uint64())
		r.args = append(r.args, isogen.KernelArgument{Operation: isogen.Append, Value: value})
		r.line += " " + value
	}
	return r
}

// TestFull_matchesIndependentBuilder compares the whole image and random ranges byte by byte.
func TestFull_matchesIndependentBuilder(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 4))
		r := randomRecipe(t, random)
		t.Run(fmt.Sprintf("%d: %s of %s", seed, r.iso.Architecture, r.iso.Age), func(t *testing.T) {
			published, _ := skeletonBytes(t, r.iso)
			base := open(t, writeBytes(t, published))
			image, err := base.Full(r.payload, r.args...)
			require.NoError(t, err)

			want, err := plain.Build(published, r.payload.Ignition, plainFiles(r.payload), r.line)
			require.NoError(t, err)
			require.EqualValues(t, len(want), image.Size())
			got := contents(t, image)
			if !bytes.Equal(want, got) {
				i := 0
				for got[i] == want[i] {
					i++
				}
				t.Fatalf("byte %d of %d is %#x, the builder has %#x", i, len(got), got[i], want[i])
			}
			reader := image.NewReader()
			for range 8 {
				from := random.IntN(len(want))
				n := random.IntN(len(want) - from + 1)
				p := make([]byte, n)
				_, err := reader.ReadAt(p, int64(from))
				require.NoError(t, err)
				require.True(t, bytes.Equal(want[from:from+n], p))
				_, err = reader.Seek(int64(from), io.SeekStart)
				require.NoError(t, err)
				var b bytes.Buffer
				_, err = reader.CopyN(&b, int64(n))
				require.NoError(t, err)
				require.True(t, bytes.Equal(want[from:from+n], b.Bytes()))
			}
			require.NoError(t, reader.Close())
		})
	}
}

// TestFull_independentReaders reads images with go-diskfs, and with xorriso if it is installed. All
// files must equal those of the base, except the embed area and files with kernel arguments.
func TestFull_independentReaders(t *testing.T) {
	for name, c := range map[string]struct {
		iso     skeleton.ISO
		payload isogen.Payload
		args    []isogen.KernelArgument
	}{
		"config and arguments": {skeleton.ISO{}, payload, edits(isogen.Append, "quiet")},
		"relocated":            {skeleton.ISO{}, incompressible(t, larger), edits(isogen.Delete, "ignition.firstboot")},
		"relocated, of 2021":   {skeleton.ISO{Age: skeleton.Age2021Later}, incompressible(t, larger), nil},
		"relocated, aarch64":   {skeleton.ISO{Architecture: isogen.AArch64}, incompressible(t, larger), nil},
		"s390x":                {skeleton.ISO{Architecture: isogen.S390X}, payload, edits(isogen.Append, "quiet")},
	} {
		t.Run(name, func(t *testing.T) {
			base := open(t, write(t, c.iso))
			image, err := base.Full(c.payload, c.args...)
			require.NoError(t, err)
			iso := writeBytes(t, contents(t, image))
			info := base.Info()
			edited := append([]string{info.EmbedArea.File}, info.KernelArguments.Files...)
			for reader, read := range readers(t) {
				before, after := read(t, base.Path()), read(t, iso)
				require.Contains(t, after, "images/pxeboot/rootfs.img", reader)
				require.ElementsMatch(t, slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)), reader)
				for path, content := range before {
					same := bytes.Equal(content, after[path])
					isEdited := slices.Contains(edited, path) && (path == info.EmbedArea.File || len(c.args) > 0)
					require.Equal(t, !isEdited, same, "%s by %s", path, reader)
				}
				if info.EmbedArea.Relocatable {
					require.True(t, bytes.HasPrefix(after[info.EmbedArea.File], packed(t, c.payload)), reader)
				}
			}
		})
	}
}

// readers are independent programs that read the files of an ISO.
func readers(t *testing.T) map[string]func(t *testing.T, iso string) map[string][]byte {
	t.Helper()
	all := map[string]func(t *testing.T, iso string) map[string][]byte{"go-diskfs": readWithDiskFS}
	if _, err := exec.LookPath("xorriso"); err != nil {
		t.Log("xorriso is not installed: only go-diskfs reads the images")
		return all
	}
	all["xorriso, Rock Ridge"] = func(t *testing.T, iso string) map[string][]byte {
		return readWithXorriso(t,
			iso, "nojoliet")
	}
	all["xorriso, Joliet"] = func(t *testing.T, iso string) map[string][]byte {
		return readWithXorriso(t, iso,
			"norock")
	}
	return all
}

func readWithDiskFS(t *testing.T, iso string) map[string][]byte {
	t.Helper()
	backend, err := file.OpenFromPath(iso, true)
	require.NoError(t, err)
	fs, err := independent.Read(backend, 0, 0, 2048)
	require.NoError(t, err)
	files := map[string][]byte{}
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := fs.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if e.IsDir() {
				walk(name)
				continue
			}
			if strings.HasPrefix(e.Name(), ".") { // go-diskfs lists such names and cannot open them
				continue
			}
			f, err := fs.OpenFile("/"+name, os.O_RDONLY)
			require.NoError(t, err)
			files[name], err = io.ReadAll(f)
			require.NoError(t, err)
		}
	}
	walk(".")
	require.NoError(t, backend.Close())
	return files
}

func readWithXorriso(t *testing.T, iso, tree string) map[string][]byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "files")
	out, err := exec.CommandContext(t.Context(), "xorriso", "-abort_on", "FAILURE", "-read_fs", tree, "-indev",
		iso, "-osirrox", "on:auto_chmod_on",
		"-extract", "/", dir, "-chmod_r", "u+rwx", "/", "--", "-rollback_end").CombinedOutput()
	require.NoError(t, err, string(out))
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Chmod(name, 0o700) // so that the directory can be removed
		}
		short, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		files[short], err = os.ReadFile(name)
		return err
	}))
	return files
}
