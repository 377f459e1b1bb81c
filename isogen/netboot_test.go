package isogen_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/skeleton"
)

func TestNetworkBoot_filesAreRangesOfBase(t *testing.T) {
	for arch, kernelPath := range map[string]string{
		isogen.X86_64: "images/pxeboot/vmlinuz", isogen.AArch64: "images/pxeboot/vmlinuz",
		isogen.PPC64LE: "images/pxeboot/vmlinuz", isogen.S390X: "images/pxeboot/kernel.img",
	} {
		t.Run(arch, func(t *testing.T) {
			path := write(t, skeleton.ISO{Architecture: arch})
			iso, err := os.ReadFile(path)
			require.NoError(t, err)
			base := open(t, path)
			require.True(t, base.Info().NetworkBoot)

			kernel, err := base.Kernel()
			require.NoError(t, err)
			require.True(t, bytes.Equal(fileIn(t, iso, kernelPath), contents(t, kernel)))
			rootfs, err := base.Rootfs()
			require.NoError(t, err)
			require.True(t, bytes.Equal(fileIn(t, iso, "images/pxeboot/rootfs.img"), contents(t, rootfs)))
			require.NotEqual(t, kernel.ETag(), rootfs.ETag())
			require.Equal(t, []isogen.Segment{{Name: "rootfs", Start: 0, End: rootfs.Size()}}, rootfs.Segments())
		})
	}
}

func TestInitrd_payloadFollows(t *testing.T) {
	initrd := bytes.Repeat([]byte("initrd."), 1001) // not a multiple of four bytes
	path := write(t, skeleton.ISO{Replace: map[string][]byte{"images/pxeboot/initrd.img": initrd}})
	base := open(t, path)
	for name, p := range map[string]isogen.Payload{"small": payload, "larger than the embed area": incompressible(t,
		larger)} {
		t.Run(name, func(t *testing.T) {
			image, err := base.Initrd(p)
			require.NoError(t, err)
			got := contents(t, image)
			require.True(t, bytes.HasPrefix(got, initrd))
			require.Zero(t, got[len(initrd)])
			// The archive is the one in the embed area of an ISO.
			full, err := base.Full(p)
			require.NoError(t, err)
			require.True(t, bytes.Contains(contents(t, full), got[len(initrd)+1:]))
			require.Equal(t, []isogen.Segment{{Name: "initrd", Start: 0, End: int64(len(initrd)) + 1},
				{Name: "config", Start: int64(len(initrd)) + 1, End: image.Size()}}, image.Segments())
		})
	}
}

func TestInitrdAddrSize_s390x(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{Architecture: isogen.S390X}))
	ins, err := base.InsFile()
	require.NoError(t, err)
	require.Contains(t, string(contents(t, ins)), "images/initrd.addrsize 0x00010408")
	initrd, err := base.Initrd(payload)
	require.NoError(t, err)
	addrsize, err := base.InitrdAddrSize(payload)
	require.NoError(t, err)
	b := contents(t, addrsize)
	require.Len(t, b, 16)
	require.EqualValues(t, 0x02000000, binary.BigEndian.Uint64(b))
	require.EqualValues(t, initrd.Size(), binary.BigEndian.Uint64(b[8:]))

	_, err = open(t, write(t, skeleton.ISO{})).InsFile()
	var missing *isogen.NetworkBootError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "generic.ins", missing.File)
}

func TestNetworkBoot_missingFiles(t *testing.T) {
	path := write(t, skeleton.ISO{Replace: map[string][]byte{"images/pxeboot/vmlinuz": nil,
		"images/pxeboot/initrd.img": nil}})
	base := open(t, path)
	_, err := base.Kernel()
	require.EqualError(t, err, "machines cannot boot from the base ISO "+path+
		" over the network: the ISO does not contain images/pxeboot/vmlinuz: use the live ISO of a CoreOS release, "+
		"as it "+
		"was published")
	_, err = base.Initrd(payload)
	require.ErrorContains(t, err, "images/pxeboot/initrd.img")
}

var netboot = isogen.NetworkBoot{
	KernelURL: "http://192.0.2.1:8090/boot-artifacts/kernel?arch=x86_64&version=4.18",
	InitrdURL: "http://192.0.2.1:8090/images/1/pxe-initrd?arch=x86_64&version=4.18",
	RootfsURL: "http://192.0.2.1:8090/boot-artifacts/rootfs?arch=x86_64&version=4.18",
}

// TestIPXEScript expects the lines of the Assisted Installer's script.
func TestIPXEScript(t *testing.T) {
	n := netboot
	n.Arguments = []isogen.KernelArgument{{Operation: isogen.Append, Value: "p1"},
		{Operation: isogen.Append, Value: `p2="this is an argument"`}}
	script, err := isogen.IPXEScript(n)
	require.NoError(t, err)
	require.Equal(t, `#!ipxe
initrd --name initrd http://192.0.2.1:8090/images/1/pxe-initrd?arch=x86_64&version=4.18
kernel http://192.0.2.1:8090/boot-artifacts/kernel?arch=x86_64&version=4.18 initrd=initrd coreos.live.rootfs_url=http://192.0.2.1:8090/boot-artifacts/rootfs?arch=x86_64&version=4.18 random.trust_cpu=on rd.luks.options=discard ignition.firstboot ignition.platform.id=metal console=tty1 console=ttyS1,115200n8 coreos.inst.persistent-kargs="console=tty1 console=ttyS1,115200n8" p1 p2="this is an argument"
boot
`, script)

	n.Arguments = []isogen.KernelArgument{{Operation: isogen.Delete, Value: "console=ttyS1,115200n8"},
		{Operation: isogen.Replace, Value: "ignition.platform.id=metal=qemu"}}
	line, err := n.CommandLine()
	require.NoError(t, err)
	require.Equal(t, `coreos.live.rootfs_url=`+n.RootfsURL+
		` random.trust_cpu=on rd.luks.options=discard ignition.firstboot ignition.platform.id=qemu console=tty1 coreos.inst.persistent-kargs="console=tty1 console=ttyS1,115200n8"`, line)
}

func TestIPXEChain(t *testing.T) {
	script, err := isogen.IPXEChain("https://h/downloads/files?file_name=ipxe-script")
	require.NoError(t, err)
	require.Equal(t, "#!ipxe\nchain https://h/downloads/files?file_name=ipxe-script&mac=${net0/mac}\n", script)
	script, err = isogen.IPXEChain("https://h/ipxe/1")
	require.NoError(t, err)
	require.Equal(t, "#!ipxe\nchain https://h/ipxe/1?mac=${net0/mac}\n", script)
}

func TestGRUBMenu(t *testing.T) {
	menu, err := isogen.GRUBMenu("The site's hosts", netboot)
	require.NoError(t, err)
	require.Equal(t, `set default=0
set timeout=5

menuentry 'The site_s hosts' {
	linux '(http,192.0.2.1:8090)/boot-artifacts/kernel?arch=x86_64&version=4.18' coreos.live.rootfs_url='http://192.0.2.1:8090/boot-artifacts/rootfs?arch=x86_64&version=4.18' random.trust_cpu=on rd.luks.options=discard ignition.firstboot ignition.platform.id=metal console=tty1 console=ttyS1,115200n8 coreos.inst.persistent-kargs="console=tty1 console=ttyS1,115200n8"
	initrd '(http,192.0.2.1:8090)/images/1/pxe-initrd?arch=x86_64&version=4.18'
}
`, menu)
	secure := netboot
	secure.KernelURL = "https://192.0.2.1/kernel"
	_, err = isogen.GRUBMenu("", secure)
	require.EqualError(t, err, `GRUB cannot fetch "https://192.0.2.1/kernel": give an http URL`)
}

func TestNetworkBoot_invalidScriptValues(t *testing.T) {
	for _, url := range []string{"", "/relative", "http://h/a b", "http://h/${net0/mac}", "http://h/'",
		"http://h/\nboot"} {
		n := netboot
		n.InitrdURL = url
		_, err := isogen.IPXEScript(n)
		require.ErrorContains(t, err, "cannot be written into a boot script", url)
		_, err = isogen.GRUBMenu("", n)
		require.Error(t, err, url)
	}
	n := netboot
	n.Arguments = []isogen.KernelArgument{{Operation: isogen.Append, Value: "a=${uuid}"}}
	var wrong *isogen.KernelArgumentError
	_, err := isogen.IPXEScript(n)
	require.ErrorAs(t, err, &wrong)
	_, err = isogen.GRUBMenu("", n)
	require.ErrorAs(t, err, &wrong)
	for _, value := range []string{`dyndbg="file a.c +p ; file b.c +p"`, `a="b && c"`, `a="b || c"`, `a="b #c"`, "#a"} {
		n.Arguments = []isogen.KernelArgument{{Operation: isogen.Append, Value: value}}
		_, err = isogen.IPXEScript(n)
		require.ErrorAs(t, err, &wrong, value)
		require.ErrorContains(t, err, "a special meaning in iPXE")
	}
	n.Arguments = []isogen.KernelArgument{{Operation: isogen.Append, Value: "a=b;c a#b a&&b"}}
	_, err = isogen.IPXEScript(n)
	require.NoError(t, err, "iPXE finds these characters only as words")
	n.Arguments = []isogen.KernelArgument{{Operation: isogen.Append, Value: "a\nboot"}}
	_, err = isogen.IPXEScript(n)
	require.ErrorAs(t, err, &wrong)
}
