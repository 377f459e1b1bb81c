package isogen_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/iso9660"
	"landfall/isogen/skeleton"
)

const standard = "coreos.liveiso=" + skeleton.DefaultVolumeID + " ignition.firstboot ignition.platform.id=metal"

func TestKernelArguments_editDefault(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{}))
	plus := func(lists ...[]isogen.KernelArgument) (all []isogen.KernelArgument) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for name, c := range map[string]struct {
		args []isogen.KernelArgument
		want string
	}{
		"none":                {nil, standard},
		"additional argument": {edits(isogen.Append, "console=ttyS0"), standard + " console=ttyS0"},
		"two arguments in order": {edits(isogen.Append, "console=tty0", "console=ttyS0"),
			standard + " console=tty0 console=ttyS0"},
		"existing argument": {edits(isogen.Append, "ignition.firstboot"),
			standard + " ignition.firstboot"},
		"surrounding blanks": {edits(isogen.Append, "  quiet "), standard + " quiet"},
		"quoted value":       {edits(isogen.Append, `ip="a b;c"`), standard + ` ip="a b;c"`},
		"deleted argument": {edits(isogen.Delete, "ignition.firstboot"),
			"coreos.liveiso=" + skeleton.DefaultVolumeID + " ignition.platform.id=metal"},
		"deleted first argument": {edits(isogen.Delete, "coreos.liveiso="+skeleton.DefaultVolumeID),
			"ignition.firstboot ignition.platform.id=metal"},
		"two adjacent arguments deleted": {edits(isogen.Delete, "ignition.firstboot ignition.platform.id=metal"),
			"coreos.liveiso=" + skeleton.DefaultVolumeID},
		"deleted argument is missing": {edits(isogen.Delete, "ignition.first", "platform.id=metal"),
			standard},
		"replaced value": {edits(isogen.Replace, "ignition.platform.id=metal=nutanix"),
			strings.Replace(standard, "metal", "nutanix", 1)},
		"replaced argument is missing": {edits(isogen.Replace, "ignition.platform.id=qemu=nutanix"), standard},
		"the same value":               {edits(isogen.Replace, "ignition.platform.id=metal=metal"), standard},
		"order of the operations": {plus(edits(isogen.Replace, "a=1=2"),
			edits(isogen.Append, "a=1", "ignition.firstboot"), edits(isogen.Delete, "ignition.firstboot")),
			"coreos.liveiso=" + skeleton.DefaultVolumeID + " ignition.platform.id=metal a=2 ignition.firstboot"},
		"equal arguments": {plus(edits(isogen.Append, "a=1", "a=1", "a=1"),
			edits(isogen.Replace, "a=1=2")), standard + " a=2 a=2 a=2"},
		"the replacement has what it replaces": {plus(edits(isogen.Append, "k=o", "k=o"),
			edits(isogen.Replace, "k=o=o x")), standard + " k=o x k=o x"},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := base.KernelArguments(c.args...)
			require.NoError(t, err)
			require.Equal(t, c.want, line)
			require.NoError(t, base.CheckKernelArguments(c.args...))
		})
	}
}

// TestKernelArguments_writtenToEveryArea reads the arguments back by the rules of coreos-installer,
// for every age and architecture.
func TestKernelArguments_writtenToEveryArea(t *testing.T) {
	for name, c := range map[string]struct {
		iso   skeleton.ISO
		areas []string
	}{
		"2021, the header alone": {skeleton.ISO{Age: skeleton.Age2021}, []string{"EFI/redhat/grub.cfg",
			"isolinux/isolinux.cfg"}},
		"2021, both": {skeleton.ISO{Age: skeleton.Age2021Later}, []string{"EFI/redhat/grub.cfg",
			"isolinux/isolinux.cfg"}},
		"2022": {skeleton.ISO{Age: skeleton.Age2022}, []string{"EFI/redhat/grub.cfg",
			"isolinux/isolinux.cfg"}},
		"2023": {skeleton.ISO{Age: skeleton.Age2023}, []string{"EFI/redhat/grub.cfg",
			"isolinux/isolinux.cfg"}},
		"today":   {skeleton.ISO{}, []string{"EFI/redhat/grub.cfg", "isolinux/isolinux.cfg"}},
		"aarch64": {skeleton.ISO{Architecture: isogen.AArch64}, []string{"EFI/redhat/grub.cfg"}},
		"ppc64le": {skeleton.ISO{Architecture: isogen.PPC64LE}, []string{"boot/grub/grub.cfg"}},
		"s390x":   {skeleton.ISO{Architecture: isogen.S390X}, []string{"images/cdboot.img"}},
	} {
		t.Run(name, func(t *testing.T) {
			base := open(t, write(t, c.iso))
			require.Equal(t, c.areas, base.Info().KernelArguments.Files)
			require.Equal(t, standard, base.Info().KernelArguments.Default)
			image, err := base.Full(payload, edits(isogen.Append, "console=ttyS0,115200n8")...)
			require.NoError(t, err)
			require.Equal(t, base.Size(), image.Size())
			got, err := isogen.Embedded(image.NewReader(), image.Size())
			require.NoError(t, err)
			require.Equal(t, payload.Ignition, got.Ignition)
			require.Equal(t, standard+" console=ttyS0,115200n8", got.KernelArguments)
			require.Equal(t, standard, got.DefaultKernelArguments)

			again := open(t, writeBytes(t, contents(t, image)))
			back, err := again.Full(payload)
			require.NoError(t, err)
			plain, err := base.Full(payload)
			require.NoError(t, err)
			require.True(t, bytes.Equal(contents(t, plain), contents(t, back)),
				"the default of an edited base is unchanged")
		})
	}
}

// TestKernelArguments_markBehindAreaStays requires that only the arguments change in the boot
// loader's configuration.
func TestKernelArguments_markBehindAreaStays(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{}))
	image, err := base.Full(payload, edits(isogen.Append, "quiet")...)
	require.NoError(t, err)
	content := contents(t, image)
	v, err := iso9660.Open(bytes.NewReader(content), image.Size())
	require.NoError(t, err)
	file := v.Find("EFI/redhat/grub.cfg")
	text := string(content[file.Offset : file.Offset+file.Size])
	require.Regexp(t, `\n\tlinux /images/pxeboot/vmlinuz `+standard+` quiet\n#+ COREOS_KARG_EMBED_AREA\n\tinitrd `,
		text)
}

func TestKernelArguments_invalid(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{}))
	long := strings.Repeat("x", 1139-len(standard)-2)
	require.NoError(t, base.CheckKernelArguments(edits(isogen.Append, long)...), "fills the area")
	for name, c := range map[string]struct {
		arg  isogen.KernelArgument
		says string
	}{
		"too long": {isogen.KernelArgument{Operation: isogen.Append, Value: long + "xx"},
			"the kernel arguments and the base ISO's own arguments have 1141 bytes, but the area in " +
				"EFI/redhat/grub.cfg " +
				"has 1139: shorten the arguments by 2 bytes"},
		"no such operation": {isogen.KernelArgument{Operation: "prepend", Value: "x"},
			`the kernel argument "x" has the operation "prepend": use append, delete or replace`},
		"empty": {isogen.KernelArgument{Operation: isogen.Append, Value: " "},
			`the kernel argument " " is empty: leave it out`},
		"a line break": {isogen.KernelArgument{Operation: isogen.Append, Value: "a\n\tlinux /evil"},
			"has a line break, a control character or invalid UTF-8"},
		"a zero byte": {isogen.KernelArgument{Operation: isogen.Delete, Value: "a\x00"},
			"has a line break, a control character or invalid UTF-8"},
		"no UTF-8": {isogen.KernelArgument{Operation: isogen.Append, Value: "a\xff"},
			"a control character or invalid UTF-8"},
		"unbalanced quote": {isogen.KernelArgument{Operation: isogen.Append, Value: `a="b`},
			"has an unbalanced double quote: add the other one"},
		"a replacement of one part": {isogen.KernelArgument{Operation: isogen.Replace, Value: "quiet"},
			"is not a replacement: write it as key=old=new"},
		"a replacement of four parts": {isogen.KernelArgument{Operation: isogen.Replace, Value: "a=b=c=d"},
			"is not a replacement"},
		"GRUB's end of a command": {isogen.KernelArgument{Operation: isogen.Append, Value: "a;b"},
			`has a ';', which has a special meaning in the boot loader GRUB: put the value in double quotes`},
		"GRUB's comment": {isogen.KernelArgument{Operation: isogen.Append, Value: "#a"},
			`has a '#', which has a special meaning in the boot loader GRUB`},
		"GRUB's variable": {isogen.KernelArgument{Operation: isogen.Append, Value: `"a=$b"`},
			`has a '$', which has a special meaning in the boot loader GRUB: leave it out`},
	} {
		t.Run(name, func(t *testing.T) {
			var wrong *isogen.KernelArgumentError
			err := base.CheckKernelArguments(c.arg)
			require.ErrorAs(t, err, &wrong)
			require.ErrorContains(t, err, c.says)
			_, err = base.Full(payload, c.arg)
			require.ErrorAs(t, err, &wrong)
			if name == "too long" {
				require.Equal(t, isogen.KernelArgumentError{Area: "EFI/redhat/grub.cfg", Needed: 1141, Had: 1139,
					Problem: wrong.Problem}, *wrong)
			} else {
				require.Equal(t, c.arg.Value, wrong.Argument)
			}
		})
	}
	require.NoError(t, base.CheckKernelArguments(edits(isogen.Append, `isolcpus=1,2,10-20,100-2000:2/25`, `a="b;c&d"`,
		"b#c")...))
}

// TestKernelArguments_defaultFillsArea has no space for the end character, which coreos-installer
// requires only when it writes.
func TestKernelArguments_defaultFillsArea(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{Replace: map[string][]byte{
		"coreos/kargs.json": []byte(
			`{"default": "quiet", "size": 5, "files": [{"path": "images/other.img", "offset": 2}]}`),
		"images/other.img": []byte("  quiet  ")}}))
	requireRoundTrip(t, base)
	require.NoError(t, base.CheckKernelArguments())
	require.ErrorContains(t, base.CheckKernelArguments(edits(isogen.Append, "x")...),
		"have 8 bytes, but the area in images/other.img has 5: shorten the arguments by 3 bytes")
	require.NoError(t, base.CheckKernelArguments(edits(isogen.Delete, "quiet")...))
}

func TestKernelArguments_s390xAllowsGRUBCharacters(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{Architecture: isogen.S390X}))
	require.NoError(t, base.CheckKernelArguments(edits(isogen.Append, "a;b$c")...))
	require.ErrorContains(t, base.CheckKernelArguments(edits(isogen.Append, strings.Repeat("x", 896))...),
		"the area in images/cdboot.img has 896")
}

func TestKernelArguments_baseWithoutAreas(t *testing.T) {
	for name, iso := range map[string]skeleton.ISO{
		"of 2020":             {Age: skeleton.Age2020},
		"of s390x until 2023": {Architecture: isogen.S390X, Replace: map[string][]byte{"coreos/kargs.json": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			base := open(t, write(t, iso))
			require.Zero(t, base.Info().KernelArguments)
			require.NoError(t, base.CheckKernelArguments())
			requireRoundTrip(t, base)
			err := base.CheckKernelArguments(edits(isogen.Append, "quiet")...)
			var none *isogen.KernelArgumentError
			require.ErrorAs(t, err, &none)
			require.ErrorContains(t, err,
				"has no areas for kernel arguments: leave them out or use a newer CoreOS release")
			_, err = base.KernelArguments()
			require.ErrorAs(t, err, &none)
		})
	}
}

// TestKernelArgumentAreas_badDescription has one invalid coreos/kargs.json for each error.
func TestKernelArgumentAreas_badDescription(t *testing.T) {
	type area = map[string]any
	describe := func(size any, standard string, areas ...area) string {
		b, err := json.Marshal(map[string]any{"default": standard, "size": size, "files": areas})
		require.NoError(t, err)
		return string(b)
	}
	good := area{"path": "images/other.img", "offset": 100}
	with := func(key string, value any) area { return area{"path": "images/other.img", "offset": 100, key: value} }
	for name, c := range map[string]struct {
		json string
		says string
	}{
		"no JSON": {"{", "unexpected end of JSON input"},
		"no size": {describe(0, "x", good),
			"the areas have 0 bytes; the supported sizes are 1 to 2048"},
		"a negative size": {describe(-1, "x", good), "the areas have -1 bytes"},
		"a size above the limit": {describe(2049, "x", good),
			"the areas have 2049 bytes; the supported sizes are 1 to 2048"},
		"a size above 64 bits": {`{"size": 18446744073709551616}`, "cannot unmarshal number"},
		"a default that does not fit": {describe(2, "xyz", good),
			"the default arguments have 3 bytes, but the areas have 2"},
		"no areas":     {describe(10, "x"), "0 areas; 1 to 64 are supported"},
		"missing file": {describe(10, "x", area{"path": "nowhere"}), `the ISO has no file "nowhere"`},
		"a directory":  {describe(10, "x", area{"path": "images"}), `the ISO has no file "images"`},
		"no file":      {describe(10, "x", area{}), `the ISO has no file ""`},
		"an area outside of its file": {describe(10, "x", area{"path": "images/other.img", "offset": 4091}),
			"10 bytes at 4091 are outside of images/other.img, which has 4096"},
		"an area before its file": {describe(10, "x", with("offset", -1)), "10 bytes at -1 are outside"},
		"an offset that overflows": {describe(10, "x", with("offset", int64(1<<63-5))),
			"are outside of images/other.img"},
		"an end of two characters": {describe(10, "x", with("end", "ab")),
			`"ab" is not a valid end or padding character of an area`},
		"a pad of two bytes": {describe(10, "x", with("pad", "ä")),
			`"ä" is not a valid end or padding character of an area`},
		"two areas in one place": {describe(10, "x", good, with("offset", 105)), "10 bytes at "},
		"an area in the embed area": {describe(10, "x", area{"path": "images/ignition.img", "offset": 0}),
			"overlap the Ignition embed area"},
		"areas that differ": {describe(10, "x", good, area{"path": "images/different.img", "offset": 0}),
			`the areas differ: "different" in images/different.img, "\x00`},
		"an area that contains no text": {describe(10, "x", area{"path": "images/pxeboot/rootfs.img", "offset": 0}),
			"contains no text"},
		"a description of a megabyte": {strings.Repeat(" ", 1<<20), "the description is too large or not a file"},
		"more areas than the limit":   {describe(1, "x", make([]area, 65)...), "65 areas; 1 to 64 are supported"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, skeleton.ISO{Replace: map[string][]byte{
				"coreos/kargs.json": []byte(c.json), "images/other.img": make([]byte, 4096),
				"images/different.img": []byte("different\n")}})
			_, err := isogen.Open(path)
			var wrong *isogen.EmbedAreaError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, "coreos/kargs.json", wrong.Where)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, path)
		})
	}
}

// TestKernelArgumentAreas_badHeader has one invalid header of 2021 for each error.
func TestKernelArgumentAreas_badHeader(t *testing.T) {
	var good bytes.Buffer
	require.NoError(t, skeleton.Write(&good, skeleton.ISO{Age: skeleton.Age2021, RootFSSize: 1000}))
	const at = 32768 - 24 - 72
	outside := []byte{0, 0, 0, 0, 0, 0, 0, 0x70}
	for name, c := range map[string]struct {
		field int
		value []byte
		says  string
	}{
		"no size":                  {1, make([]byte, 8), "the areas have 0 bytes; the supported sizes are 1 to 2048"},
		"a size of exabytes":       {1, outside, "the supported sizes are 1 to 2048"},
		"a negative size":          {1, bytes.Repeat([]byte{0xFF}, 8), "the areas have -1 bytes"},
		"a default outside":        {2, outside, "are outside of the ISO, which has"},
		"an area outside":          {3, outside, "are outside of the ISO, which has"},
		"an area at minus one":     {4, bytes.Repeat([]byte{0xFF}, 8), "1139 bytes at -1 are outside"},
		"no areas":                 {3, make([]byte, 16), "the header lists no areas"},
		"an area in the directory": {3, []byte{0, 0x80 + 32, 0, 0, 0, 0, 0, 0}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(good.Bytes())
			copy(b[at+8*c.field:], c.value)
			_, err := isogen.Open(writeBytes(t, b))
			var wrong *isogen.EmbedAreaError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, "the coreKarg header", wrong.Where)
			require.ErrorContains(t, err, c.says)
		})
	}
}
