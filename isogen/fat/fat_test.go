package fat

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// fat12 returns a file system with one directory and two files, of one sector per cluster.
func fat12() []byte {
	data := make([]byte, 64*512)
	copy(data[11:], []byte{0, 2, 1, 1, 0, 1, 16, 0, 64, 0, 0xf8, 1, 0}) // sizes of FAT12
	data[510], data[511] = 0x55, 0xaa
	table := data[512:]
	set := func(cluster, next int) {
		at := cluster * 3 / 2
		if cluster%2 == 1 {
			table[at] |= byte(next << 4)
			table[at+1] = byte(next >> 4)
			return
		}
		table[at] = byte(next)
		table[at+1] |= byte(next >> 8)
	}
	set(2, 0xfff) // the directory EFI
	set(3, 4)     // a file of two clusters
	set(4, 0xfff)
	entry := func(at int, name string, attributes byte, cluster, size int) {
		copy(data[at:], name)
		data[at+attributesAt] = attributes
		data[at+lowClusterAt] = byte(cluster)
		data[at+sizeAt], data[at+sizeAt+1] = byte(size), byte(size>>8)
	}
	const root, clusters = 1024, 1536
	entry(root, "VOLUME     ", attributeVolume, 0, 0)
	entry(root+32, "EFI        ", attributeFolder, 2, 0)
	entry(root+64, "EMPTY   TXT", 0, 0, 0)
	entry(clusters, "SHIMX64 EFI", 0, 3, 700)
	copy(data[clusters+512:], bytes.Repeat([]byte{7}, 700))
	return data
}

func TestFiles_directoryAndChain(t *testing.T) {
	f, err := Open(fat12())
	require.NoError(t, err)
	files, err := f.Files()
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"efi/shimx64.efi": bytes.Repeat([]byte{7}, 700), "empty.txt": {}}, normal(files))
}

// normal replaces nil by an empty file.
func normal(files map[string][]byte) map[string][]byte {
	for name, content := range files {
		if content == nil {
			files[name] = []byte{}
		}
	}
	return files
}

func TestFiles_damaged(t *testing.T) {
	for name, damage := range map[string]func([]byte){
		"endless chain":        func(b []byte) { b[512+6] = 4; b[512+5] = 0x30; b[1536+sizeAt+2] = 1 },
		"file beyond the end":  func(b []byte) { b[1536+lowClusterAt] = 200 },
		"cluster zero":         func(b []byte) { b[1536+lowClusterAt] = 0 },
		"directory in a cycle": func(b []byte) { copy(b[1536:], b[1024+32:1024+64]) },
	} {
		t.Run(name, func(t *testing.T) {
			data := fat12()
			damage(data)
			f, err := Open(data)
			require.NoError(t, err)
			_, err = f.Files()
			require.ErrorIs(t, err, ErrFormat)
		})
	}
	_, err := Open(make([]byte, 512))
	require.ErrorIs(t, err, ErrFormat)
}

// TestFiles_independentWriter reads file systems of mtools with tables of 12, 16 and 32 bits.
func TestFiles_independentWriter(t *testing.T) {
	_, err := exec.LookPath("mformat")
	require.NoError(t, err, "run .ci/install-emulator, as `make test` does")
	dir := t.TempDir()
	content := bytes.Repeat([]byte("landfall"), 9000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "grub"), content, 0o600))
	for name, format := range map[string][]string{
		"12 bits": {"-T", "8192", "-h", "2", "-s", "32", "-c", "8"},
		"16 bits": {"-T", "40960", "-h", "16", "-s", "32", "-c", "4"},
		"32 bits": {"-T", "131072", "-h", "16", "-s", "32", "-c", "1", "-F"},
	} {
		t.Run(name, func(t *testing.T) {
			image := filepath.Join(t.TempDir(), "esp")
			for _, command := range [][]string{
				append([]string{"mformat", "-i", image, "-C"}, append(format, "::")...),
				{"mmd", "-i", image, "::/EFI", "::/EFI/redhat"},
				{"mcopy", "-i", image, filepath.Join(dir, "grub"), "::/EFI/redhat/grubx64.efi"},
			} {
				out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
				require.NoError(t, err, string(out))
			}
			data, err := os.ReadFile(image)
			require.NoError(t, err)
			f, err := Open(data)
			require.NoError(t, err)
			require.Equal(t, name, strconv.Itoa(f.bits)+" bits")
			files, err := f.Files()
			require.NoError(t, err)
			require.Equal(t, map[string][]byte{"efi/redhat/grubx64.efi": content}, files)
		})
	}
}

func FuzzFiles(f *testing.F) {
	f.Add(fat12())
	f.Fuzz(func(t *testing.T, data []byte) {
		fs, err := Open(data)
		if err != nil {
			return
		}
		files, err := fs.Files()
		if err != nil {
			return
		}
		for name := range files {
			require.NotEmpty(t, name)
		}
	})
}
