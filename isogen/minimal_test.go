package isogen_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/iso9660"
	"landfall/isogen/skeleton"
)

const rootfsURL = "http://192.0.2.1/rootfs"

func TestMinimal_allArchitectures(t *testing.T) {
	for _, arch := range []string{isogen.X86_64, isogen.AArch64, isogen.PPC64LE, isogen.S390X} {
		for name, p := range map[string]isogen.Payload{"": payload, ", relocated": incompressible(t, larger)} {
			if arch == isogen.S390X && name != "" {
				continue
			}
			t.Run(arch+name, func(t *testing.T) {
				base := open(t, write(t, skeleton.ISO{Architecture: arch, Table: isogen.MakeTable}))
				require.NoError(t, base.VerifyMinimal(t.Context()))
				require.True(t, base.Info().Minimal)
				image, err := base.Minimal(p, rootfsURL, isogen.KernelArgument{Operation: isogen.Append,
					Value: "quiet"})
				require.NoError(t, err)
				minimal := contents(t, image)
				full, err := base.Full(p)
				require.NoError(t, err)
				requireMinimalOf(t, minimal, contents(t, full))

				got, err := isogen.Embedded(bytes.NewReader(minimal), int64(len(minimal)))
				require.NoError(t, err)
				require.Equal(t, p.Ignition, got.Ignition)
				require.Equal(t, "ignition.firstboot ignition.platform.id=metal coreos.live.rootfs_url="+rootfsURL+
					" quiet", got.KernelArguments)

				segments := image.Segments()
				require.Equal(t, image.Size(), segments[len(segments)-1].End)
				for _, s := range segments {
					require.NotEqual(t, "rootfs", s.Name)
				}
			})
		}
	}
}

// requireMinimalOf requires that a minimal image has all files of the full image with the same
// contents, in both trees, except the root file system and files that must differ.
func requireMinimalOf(t *testing.T, minimal, full []byte) {
	t.Helper()
	fullVolume, err := iso9660.Open(bytes.NewReader(full), int64(len(full)))
	require.NoError(t, err)
	volume, err := iso9660.Open(bytes.NewReader(minimal), int64(len(minimal)))
	require.NoError(t, err)
	require.Len(t, volume.Supplementary, len(fullVolume.Supplementary))
	for i, v := range append([]*iso9660.Volume{volume}, volume.Supplementary...) {
		want := append([]*iso9660.Volume{fullVolume}, fullVolume.Supplementary...)[i]
		require.Equal(t, want.ID, v.ID)
		files := map[string]*iso9660.Entry{}
		for path, e := range v.Files() {
			files[path] = e
		}
		for path, e := range want.Files() {
			have := files[path]
			require.NotNil(t, have, path)
			delete(files, path)
			switch strings.ToLower(path) {
			case "images/pxeboot/rootfs.img":
				require.Zero(t, have.Size)
				continue
			case "coreos/miniso.dat", "coreos/kargs.json", "images/cdboot.img", "isolinux/isolinux.cfg",
				"efi/redhat/grub.cfg", "boot/grub/grub.cfg":
				require.Equal(t, e.Size, have.Size, path)
				continue
			}
			require.True(t, bytes.Equal(full[e.Offset:e.Offset+e.Size], minimal[have.Offset:have.Offset+have.Size]),
				path)
		}
		require.Empty(t, files)
	}
	require.Less(t, len(minimal), len(full)-100_000)
}

func TestMinimal_independentReaders(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{Table: isogen.MakeTable}))
	for name, p := range map[string]isogen.Payload{"embedded": payload, "relocated": incompressible(t, larger)} {
		t.Run(name, func(t *testing.T) {
			image, err := base.Minimal(p, rootfsURL)
			require.NoError(t, err)
			iso := writeBytes(t, contents(t, image))
			for reader, read := range readers(t) {
				before, after := read(t, base.Path()), read(t, iso)
				require.Empty(t, after["images/pxeboot/rootfs.img"], reader)
				delete(before, "images/pxeboot/rootfs.img")
				delete(after, "images/pxeboot/rootfs.img")
				for path, content := range before {
					switch path {
					case "coreos/miniso.dat", "coreos/kargs.json", "isolinux/isolinux.cfg", "EFI/redhat/grub.cfg":
						require.Len(t, after[path], len(content), "%s by %s", path, reader)
					case "images/ignition.img":
						require.True(t, bytes.HasPrefix(after[path], packed(t, p)), reader)
					default:
						require.True(t, bytes.Equal(content, after[path]), "%s by %s", path, reader)
					}
					delete(after, path)
				}
				require.Empty(t, after, reader)
			}
		})
	}
}

func TestMinimal_anyRange(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{Table: isogen.MakeTable}))
	image, err := base.Minimal(incompressible(t, larger), rootfsURL)
	require.NoError(t, err)
	iso := contents(t, image)
	r := image.NewReader()
	random := rand.New(rand.NewPCG(4, 2))
	for range 300 {
		off := random.IntN(len(iso))
		b := make([]byte, random.IntN(min(100_000, len(iso)-off)+1))
		n, err := r.ReadAt(b, int64(off))
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.True(t, bytes.Equal(iso[off:off+n], b), "%d bytes at %d", n, off)
	}
	require.NoError(t, r.Close())
}

// TestMinimal_defaultArguments reads kargs.json as coreos-installer does when arguments are reset.
func TestMinimal_defaultArguments(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{Table: isogen.MakeTable}))
	image, err := base.Minimal(payload, rootfsURL)
	require.NoError(t, err)
	var description struct{ Default string }
	data := fileIn(t, contents(t, image), "coreos/kargs.json")
	require.NoError(t, json.Unmarshal(data, &description))
	require.Equal(t, "ignition.firstboot ignition.platform.id=metal", description.Default)
}

// TestMinimal_partitions checks the partition tables as firmware does for a USB disk.
func TestMinimal_partitions(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{Table: isogen.MakeTable}))
	image, err := base.Minimal(payload, rootfsURL)
	require.NoError(t, err)
	iso := contents(t, image)
	blocks := uint64(len(iso) / 512)

	u32 := func(at uint64) uint64 { return uint64(binary.LittleEndian.Uint32(iso[at:])) }
	u64 := func(at uint64) uint64 { return binary.LittleEndian.Uint64(iso[at:]) }
	require.Equal(t, []byte{0x55, 0xaa}, iso[510:512])
	require.LessOrEqual(t, u32(446+8)+u32(446+12), blocks)
	esp := fileIn(t, iso, "images/efiboot.img")
	start := u32(446 + 16 + 8)
	require.Equal(t, esp[:512], iso[start*512:start*512+512])

	check := func(at uint64) {
		require.Equal(t, "EFI PART", string(iso[at:at+8]))
		header := bytes.Clone(iso[at : at+u32(at+12)])
		sum := binary.LittleEndian.Uint32(header[16:])
		clear(header[16:20])
		require.Equal(t, crc32.ChecksumIEEE(header), sum)
		require.Equal(t, at/512, u64(at+24))
		entries := iso[u64(at+72)*512:][:u32(at+80)*u32(at+84)]
		require.EqualValues(t, crc32.ChecksumIEEE(entries), u32(at+88))
		require.Less(t, u64(at+48), blocks)
		require.Less(t, binary.LittleEndian.Uint64(entries[40:]), blocks)
	}
	check(512)
	if other := u64(512 + 32); other < blocks && string(iso[other*512:other*512+8]) == "EFI PART" {
		check(other * 512)
	}
}

func TestMakeTable_besideBase(t *testing.T) {
	path := write(t, skeleton.ISO{})
	base := open(t, path)
	_, err := base.Minimal(payload, rootfsURL)
	var none *isogen.NoMinimalError
	require.ErrorAs(t, err, &none)
	require.Equal(t, "the base ISO has no minimal image: the file coreos/miniso.dat is empty: import the base "+
		"ISO with a table made for it, or use a full image", err.Error())
	require.Equal(t, "the file coreos/miniso.dat is empty: import the base ISO with a table made for it, or use a "+
		"full "+
		"image", base.Info().MinimalReason)

	require.NoError(t, base.MakeTable(t.Context()))
	require.NoError(t, base.VerifyMinimal(t.Context()))
	first, err := base.Minimal(payload, rootfsURL)
	require.NoError(t, err)

	again := open(t, path)
	require.True(t, again.Info().Minimal)
	second, err := again.Minimal(payload, rootfsURL)
	require.NoError(t, err)
	require.Equal(t, first.ETag(), second.ETag())
	require.NoError(t, again.MakeTable(t.Context()), "the table exists already")

	t.Run("a table of another base", func(t *testing.T) {
		other := write(t, skeleton.ISO{VolumeID: "rhcos-418.94.202511191518-0"})
		table, err := os.ReadFile(isogen.TablePath(path))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(isogen.TablePath(other), table, 0o600))
		_, err = open(t, other).Minimal(payload, rootfsURL)
		require.ErrorAs(t, err, &none)
		require.ErrorContains(t, err,
			"the table was made for another base ISO: remove that file and generate the table again")
		require.NoError(t, open(t, other).MakeTable(t.Context()))
		_, err = open(t, other).Minimal(payload, rootfsURL)
		require.NoError(t, err)
	})
	t.Run("a damaged table", func(t *testing.T) {
		require.NoError(t, os.WriteFile(isogen.TablePath(path), []byte("MINISO"), 0o600))
		_, err = open(t, path).Minimal(payload, rootfsURL)
		require.ErrorAs(t, err, &none)
	})
	t.Run("a directory that cannot be written to", func(t *testing.T) {
		gone := write(t, skeleton.ISO{})
		base := open(t, gone)
		require.NoError(t, os.RemoveAll(filepath.Dir(gone)))
		require.ErrorContains(t, base.MakeTable(t.Context()),
			"cannot write the table for the minimal ISO next to the base ISO")
	})
}

func TestMinimal_unsupportedBases(t *testing.T) {
	for name, c := range map[string]struct {
		iso   skeleton.ISO
		want  string
		table string // expected error of MakeTable; "" for no error
	}{
		"no areas for kernel arguments": {skeleton.ISO{Age: skeleton.Age2020}, "no areas for kernel arguments",
			"no areas for kernel arguments"},
		"no root file system": {skeleton.ISO{Replace: map[string][]byte{"images/pxeboot/rootfs.img": nil}},
			"the ISO has no root file system", "the ISO has no root file system"},
		"no table": {skeleton.ISO{Age: skeleton.Age2021}, "the ISO has no coreos/miniso.dat", ""},
		"a damaged table": {skeleton.ISO{Replace: map[string][]byte{
			"coreos/miniso.dat": []byte("MINISO\x00\x00\x07")}}, "version 7 of the format", ""},
	} {
		t.Run(name, func(t *testing.T) {
			base := open(t, write(t, c.iso))
			_, err := base.Minimal(payload, rootfsURL)
			var none *isogen.NoMinimalError
			require.ErrorAs(t, err, &none)
			require.ErrorContains(t, err, c.want)
			err = base.MakeTable(t.Context())
			if c.table != "" {
				require.ErrorContains(t, err, c.table)
				return
			}
			require.NoError(t, err)
			_, err = base.Minimal(payload, rootfsURL)
			require.NoError(t, err)
		})
	}
}

func TestVerifyMinimal_changedBase(t *testing.T) {
	path := write(t, skeleton.ISO{Table: isogen.MakeTable})
	iso, err := os.ReadFile(path)
	require.NoError(t, err)
	kernel := fileIn(t, iso, "images/pxeboot/vmlinuz")
	kernel[3000] ^= 1
	var wrong *isogen.TableError
	require.ErrorAs(t, open(t, writeBytes(t, iso)).VerifyMinimal(t.Context()), &wrong)
	require.Contains(t, wrong.Problem, "download the base ISO again")
}

func TestMinimal_rootfsURLs(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{Table: isogen.MakeTable}))
	for _, url := range []string{"", "rootfs", "/rootfs", "file:///rootfs", "http://a b/c", "http://h/\"",
		"http://h/$x", "http://h/\n"} {
		_, err := base.Minimal(payload, url)
		require.ErrorContains(t, err, "cannot fetch its root file system", url)
	}
	for url, want := range map[string]string{
		"https://[2001:db8::1]:8090/r":  "coreos.live.rootfs_url=https://[2001:db8::1]:8090/r",
		"http://h/r?arch=x&version=4.9": `coreos.live.rootfs_url="http://h/r?arch=x&version=4.9"`,
	} {
		image, err := base.Minimal(payload, url)
		require.NoError(t, err)
		require.Contains(t, string(fileIn(t, contents(t, image), "isolinux/isolinux.cfg")), want)
	}
	_, err := base.Minimal(payload, "http://h/"+strings.Repeat("r", 1200))
	var tooLong *isogen.KernelArgumentError
	require.ErrorAs(t, err, &tooLong)
	require.Positive(t, tooLong.Needed)
}

func TestMinimal_realTables(t *testing.T) {
	for _, name := range []string{"embed-areas-2022-02", "embed-areas-2023-07.x86_64", "embed-areas-2023-07.s390x"} {
		t.Run(name, func(t *testing.T) {
			base := open(t, realISO(t, name))
			require.NoError(t, base.VerifyMinimal(t.Context()))
			image, err := base.Minimal(payload, rootfsURL)
			require.NoError(t, err)
			got, err := isogen.Embedded(image.NewReader(), image.Size())
			require.NoError(t, err)
			require.Equal(t, payload.Ignition, got.Ignition)
			require.Equal(t, "mitigations=auto,nosmt ignition.firstboot ignition.platform.id=metal "+
				"coreos.live.rootfs_url="+rootfsURL, got.KernelArguments)
		})
	}
}

// TestMakeTable_realISOs makes tables of ISOs whose published table was removed, and of old ISOs
// without one.
func TestMakeTable_realISOs(t *testing.T) {
	for _, name := range []string{"embed-areas-2021-01", "embed-areas-2021-09", "embed-areas-2022-02",
		"embed-areas-2023-07.x86_64", "embed-areas-2023-07.s390x"} {
		t.Run(name, func(t *testing.T) {
			path := realISO(t, name)
			iso, err := os.ReadFile(path)
			require.NoError(t, err)
			if i := bytes.Index(iso, []byte("MINISO\x00\x00")); i >= 0 {
				clear(iso[i : i+16384])
				require.NoError(t, os.WriteFile(path, iso, 0o600))
			}
			base := open(t, path)
			require.False(t, base.Info().Minimal)
			require.NoError(t, base.MakeTable(t.Context()))
			require.NoError(t, base.VerifyMinimal(t.Context()))
			image, err := base.Minimal(payload, rootfsURL)
			require.NoError(t, err)
			requireSameFiles(t, contents(t, image), iso)
		})
	}
}

func requireSameFiles(t *testing.T, minimal, full []byte) {
	t.Helper()
	for _, path := range []string{"images/pxeboot/initrd.img", "zipl.prm", "generic.ins", "images/pxeboot/vmlinuz"} {
		v, err := iso9660.Open(bytes.NewReader(full), int64(len(full)))
		require.NoError(t, err)
		if v.Find(path) != nil {
			require.Equal(t, fileIn(t, full, path), fileIn(t, minimal, path))
		}
	}
}

// FuzzMakeTable fuzzes the system area of a live ISO, with partition tables at its start and
// headers at its end: MakeTable returns a table that fits the live ISO, or an error.
func FuzzMakeTable(f *testing.F) {
	const systemArea, headers = 32768, 96
	iso := skeleton.ISO{RootFSSize: 5000, EmbedSize: 2048,
		Replace: map[string][]byte{"images/pxeboot/initrd.img": []byte("initrd")}}
	var newest, old bytes.Buffer
	require.NoError(f, skeleton.Write(&newest, iso))
	iso.Age = skeleton.Age2021
	require.NoError(f, skeleton.Write(&old, iso))
	f.Add(newest.Bytes()[:1536], newest.Bytes()[systemArea-headers:systemArea])
	f.Add(old.Bytes()[:1536], old.Bytes()[systemArea-headers:systemArea])
	f.Fuzz(func(t *testing.T, start, end []byte) {
		live := bytes.Clone(newest.Bytes())
		copy(live[:systemArea], start)
		copy(live[systemArea-headers:systemArea], end)
		table, err := isogen.MakeTable(t.Context(), bytes.NewReader(live), int64(len(live)))
		if err != nil {
			var none *isogen.NoMinimalError
			if !errors.As(err, &none) {
				require.ErrorContains(t, err, "reading ")
			}
			return
		}
		v, err := iso9660.Open(bytes.NewReader(live), int64(len(live)))
		require.NoError(t, err)
		copy(live[v.Find("coreos/miniso.dat").Offset:], table)
		base, err := isogen.Open(writeBytes(t, live))
		if err != nil {
			return // the headers point to nowhere
		}
		require.NoError(t, base.VerifyMinimal(t.Context()))
		require.NoError(t, base.Close())
	})
}
