package isogen_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/iso9660"
	"landfall/isogen/skeleton"
)

// little returns an ISO that can be written quickly. Its large files are placeholders.
func little(age string, replace map[string][]byte) skeleton.ISO {
	iso := skeleton.ISO{Age: age, EmbedSize: 2048, RootFSSize: 1000, Replace: map[string][]byte{
		"images/pxeboot/initrd.img": []byte("initrd"), "images/efiboot.img": []byte("efi"),
		"isolinux/isolinux.bin": []byte("isolinux"), "coreos/miniso.dat": nil}}
	for path, data := range replace {
		iso.Replace[path] = data
	}
	return iso
}

// allocationLimit is the maximum memory for reading an ISO of a few kilobytes. The format or the
// file must limit every read.
const allocationLimit = 64 << 20

// requireSound requires one of two results: the ISO is rejected, or a payload can be embedded and
// read back, in place and at the end, with little memory.
func requireSound(t *testing.T, content []byte) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	path := filepath.Join(t.TempDir(), "live.iso")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	base, err := isogen.Open(path)
	if err == nil {
		small := isogen.Payload{Ignition: []byte("config")}
		large := incompressible(t, int(min(base.EmbedAreaSize(), 100_000)))
		for _, p := range []isogen.Payload{small, large} {
			requireRoundTripOrRefusal(t, base, p)
		}
		require.NoError(t, base.Close())
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(allocationLimit))
}

func requireRoundTripOrRefusal(t *testing.T, base *isogen.Base, p isogen.Payload) {
	args := edits(isogen.Append, "quiet")
	image, err := base.Full(p, args...)
	var wrong *isogen.KernelArgumentError
	if errors.As(err, &wrong) {
		args = nil
		image, err = base.Full(p)
	}
	var large *isogen.TooLargeError
	if errors.As(err, &wrong) || errors.As(err, &large) {
		return
	}
	require.NoError(t, err)
	got, err := isogen.Embedded(image.NewReader(), image.Size())
	require.NoError(t, err)
	require.Equal(t, p.Ignition, got.Ignition)
	if args != nil {
		line, err := base.KernelArguments(args...)
		require.NoError(t, err)
		require.Equal(t, line, got.KernelArguments)
	}
	at := int64(0)
	for _, s := range image.Segments() {
		require.Equal(t, at, s.Start)
		at = s.End
	}
	require.Equal(t, image.Size(), at)
}

func FuzzKernelArgumentDescription(f *testing.F) {
	f.Add(
		`{"default":"a b","files":[{"path":"EFI/redhat/grub.cfg","offset":20,"end":"\n","pad":"#"},{"path":"isolinux/isolinux.cfg","offset":20}],"size":10}`)
	f.Add(
		`{"default":"a b","files":[{"path":"images/other.img","offset":0,"end":"\u0000","pad":"\u0000"}],"size":2048}`)
	f.Add(`{"default":"","files":[{"path":"images/ignition.img","offset":9223372036854775807}],"size":1}`)
	f.Add(`{"default":"a","files":[{"path":"images/other.img","offset":0,"end":" ","pad":"a"}],"size":100}`)
	f.Fuzz(func(t *testing.T, description string) {
		var b bytes.Buffer
		require.NoError(t, skeleton.Write(&b, little("", map[string][]byte{"coreos/kargs.json": []byte(description),
			"images/other.img": make([]byte, 5000)})))
		requireSound(t, b.Bytes())
	})
}

func FuzzEmbedAreaDescription(f *testing.F) {
	f.Add(`{"file":"images/ignition.img"}`)
	f.Add(`{"file":"images/other.img","offset":100,"length":2000}`)
	f.Add(`{"file":"IMAGES/other.img","offset":0,"length":5000}`)
	f.Add(`{"file":"coreos/igninfo.json"}`)
	f.Add(`{"file":"images/other.img","offset":-1,"length":9223372036854775807}`)
	f.Fuzz(func(t *testing.T, description string) {
		var b bytes.Buffer
		require.NoError(t, skeleton.Write(&b, little("", map[string][]byte{"coreos/igninfo.json": []byte(description),
			"images/other.img": make([]byte, 5000)})))
		requireSound(t, b.Bytes())
	})
}

// FuzzSystemHeaders fuzzes the headers of 2020 and 2021, which are adjacent, in an ISO without
// other descriptions of its areas.
func FuzzSystemHeaders(f *testing.F) {
	var published bytes.Buffer
	require.NoError(f, skeleton.Write(&published, little(skeleton.Age2021, map[string][]byte{"images/ignition.img": nil,
		"images/other.img": make([]byte, 5000)})))
	const start = 32768 - 24 - 72
	f.Add(published.Bytes()[start:32768])
	both := bytes.Clone(published.Bytes()[start:32768])
	v, err := iso9660.Open(bytes.NewReader(published.Bytes()), int64(published.Len()))
	require.NoError(f, err)
	copy(both[72:], "coreiso+")
	binary.LittleEndian.PutUint64(both[80:], uint64(v.Find("images/other.img").Offset))
	binary.LittleEndian.PutUint64(both[88:], 4096)
	f.Add(bytes.Clone(both))
	copy(both[88:], strings.Repeat("\xff", 8))
	f.Add(both)
	f.Fuzz(func(t *testing.T, headers []byte) {
		b := bytes.Clone(published.Bytes())
		copy(b[start:32768], headers)
		requireSound(t, b)
	})
}

// FuzzDamagedISO overwrites two positions in the descriptors, tables and directories of an ISO.
func FuzzDamagedISO(f *testing.F) {
	var published bytes.Buffer
	require.NoError(f, skeleton.Write(&published, little("", nil)))
	v, err := iso9660.Open(bytes.NewReader(published.Bytes()), int64(published.Len()))
	require.NoError(f, err)
	area := v.Find("images/ignition.img").Record - 32768
	f.Add(uint16(80), []byte{1}, uint16(area+2), []byte{16})
	f.Add(uint16(158), []byte{0, 0, 0, 1}, uint16(area+10), []byte{0, 0, 1})
	f.Add(uint16(area+25), []byte{0x80}, uint16(area+1), []byte{9})
	f.Add(uint16(v.Find("coreos").Record-32768+2), []byte{byte(v.Root.Offset / 2048)}, uint16(2048), []byte{2})
	f.Fuzz(func(t *testing.T, first uint16, one []byte, second uint16, two []byte) {
		b := bytes.Clone(published.Bytes())
		copy(b[min(len(b), 32768+int(first)):], one)
		copy(b[min(len(b), 32768+int(second)):], two)
		requireSound(t, b)
	})
}

func FuzzKernelArguments(f *testing.F) {
	base := open(f, write(f, skeleton.ISO{}))
	for _, seed := range []string{"quiet", "a=b", "ignition.platform.id=metal=qemu", "  a  b ", `a="b c"`, "a=b=a",
		"\x00", "ä=ö", "#", `"`} {
		f.Add("append", seed)
		f.Add("delete", seed)
		f.Add("replace", seed)
	}
	f.Fuzz(func(t *testing.T, operation, value string) {
		arg := isogen.KernelArgument{Operation: isogen.Operation(operation), Value: value}
		line, err := base.KernelArguments(arg)
		var wrong *isogen.KernelArgumentError
		if err != nil {
			require.ErrorAs(t, err, &wrong)
			require.Error(t, base.CheckKernelArguments(arg))
			return
		}
		require.NotContains(t, line, "\n")
		require.Equal(t, strings.TrimSpace(line), line)
		image, err := base.Full(isogen.Payload{Ignition: []byte("config")}, arg)
		if err != nil {
			require.ErrorAs(t, err, &wrong)
			return
		}
		got, err := isogen.Embedded(image.NewReader(), image.Size())
		require.NoError(t, err)
		require.Equal(t, line, got.KernelArguments)
	})
}
