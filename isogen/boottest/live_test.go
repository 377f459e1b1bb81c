//go:build boot

package boottest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cavaliercoder/go-cpio"
	"github.com/stretchr/testify/require"
)

const volumeID = "rhcos-9.6.20250523-0"

// Files of Debian's packages from which the ISO is built.
const (
	isolinuxDir = "/usr/lib/ISOLINUX"
	syslinuxDir = "/usr/lib/syslinux/modules/bios"
	busybox     = "/bin/busybox"
)

// In an emulator with little CPU time, the kernel may conclude that the timer does not work. If it
// then searches for another timer, it loses the interrupts of the serial line, and with them the
// output of the live system.
const noTimerCheck = "no_timer_check"

const liveArguments = "coreos.liveiso=" + volumeID +
	" ignition.firstboot ignition.platform.id=metal console=ttyS0,115200n8 quiet panic=-1 " + noTimerCheck

// Configurations of the boot loaders, before and after their areas for kernel arguments.
const (
	grubHead = `set timeout=0
serial --unit=0 --speed=115200
terminal_output console serial
menuentry 'CoreOS-shaped (Live)' {
	linux /images/pxeboot/vmlinuz `
	grubTail = `	initrd /images/pxeboot/initrd.img /images/ignition.img
}
`
	isolinuxHead = `serial 0 115200
default linux
prompt 0
timeout 1
label linux
  kernel /images/pxeboot/vmlinuz
  append initrd=/images/pxeboot/initrd.img,/images/ignition.img `
	isolinuxTail = "\nmenu separator\n"
)

// argumentArea is the size of an area for kernel arguments, as in current images.
const argumentArea = 1139

// withArea inserts an area for kernel arguments between the parts of a configuration.
func withArea(head, tail string) []byte {
	area := liveArguments + "\n" + strings.Repeat("#", argumentArea-len(liveArguments)-1)
	return []byte(head + area + "# COREOS_KARG_EMBED_AREA\n" + tail)
}

// grubStart is built into the EFI program. It finds the disc and loads the configuration from it.
const grubStart = `search --no-floppy --set=root --file /EFI/redhat/grub.cfg
set prefix=($root)/EFI/redhat
configfile /EFI/redhat/grub.cfg
`

const grubModules = "iso9660 fat part_gpt part_msdos search search_fs_file linux normal configfile echo test gzio " +
	"serial terminal"

// initHead is the start of the scripts that replace the programs of the live system. It prints the
// location of the system and prepares the environment for the other scripts.
const initHead = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
exec > /dev/ttyS0 2>&1
dmesg -n 1
echo
[ -d /sys/firmware/efi ] && echo "FIRMWARE uefi" || echo "FIRMWARE bios"
echo "ARGUMENTS $(cat /proc/cmdline)"

load_modules() {
    modules=$(echo /lib/modules/*.ko)
    for round in 1 2 3 4 5; do # dependencies differ between kernels
        left=
        for m in $modules; do insmod "$m" 2>/dev/null || left="$left $m"; done
        modules=$left
    done
}
network_up() {
    until card=$(ls /sys/class/net | grep -v lo); do usleep 50000; done
    ip link set lo up
    ip link set "$card" up
    udhcpc -q -n -t 20 -T 1 -i "$card" -s /bin/lease > /dev/null || echo "NO LEASE"
}
network_down() { ip link set "$card" down; }
`

// inspection copies the configuration from a config image if requested, like systemd and udev. It
// downloads the root file system if the disc does not contain it, prints the files that Ignition
// would find, and powers the machine off.
const inspection = initHead + `
url=$(tr ' ' '\n' < /proc/cmdline | sed -n 's/^coreos.live.rootfs_url=//p' | tr -d '"')
unit=/etc/systemd/system/landfall-config-image.service

if [ -n "$url" ] || [ -f "$unit" ]; then load_modules; fi
if [ -f "$unit" ]; then
    mkdir -p /run /dev/disk/by-label
    for drive in /dev/sr*; do
        label=$(dd if="$drive" bs=8 skip=4101 count=4 2>/dev/null)
        ln -s "$drive" "/dev/disk/by-label/${label%% *}"
    done
    "$(sed -n 's/^ExecStart=//p' "$unit")"
fi
if [ -n "$url" ]; then
    network_up
    echo "ROOTFS $(wget -q -O - "$url" | sha256sum | cut -d' ' -f1)"
fi
find /config.ign /etc -type f | while read -r f; do
    echo "FILE $(stat -c %a "$f") $(sha256sum < "$f" | cut -d' ' -f1) $f"
done
echo LIVE-SYSTEM-DONE
poweroff -f
`

// leaseScript receives the network address from udhcpc.
const leaseScript = `#!/bin/busybox sh
[ "$1" = bound ] || exit 0
ip addr add "$ip/$mask" dev "$interface"
[ -z "$router" ] || ip route add default via "$router"
`

// buildLiveISO builds an ISO like CoreOS Assembler. It has isolinux for BIOS and GRUB for UEFI,
// both also bootable from a disk, areas for kernel arguments, and an empty embed area that both
// boot loaders pass to the kernel as a second initrd. It has no table for a minimal ISO. Its live
// system runs the script. loaders are further boot loaders for UEFI, by their names in EFI/redhat.
func buildLiveISO(t *testing.T, rootfs []byte, script string, loaders ...bootLoader) string {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	put := func(path string, content []byte) {
		path = filepath.Join(tree, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, content, 0o644))
	}
	put("images/pxeboot/vmlinuz", read(t, filepath.Join(kernelDir(t), "vmlinuz")))
	put("images/pxeboot/initrd.img", initramfs(t, script))
	put("images/pxeboot/rootfs.img", rootfs)
	put("images/ignition.img", make([]byte, 256<<10))
	put("coreos/igninfo.json", []byte(`{"file": "images/ignition.img"}`))
	put("coreos/kargs.json", kernelArgumentAreas(t))
	put("coreos/miniso.dat", make([]byte, 16<<10))
	put("isolinux/isolinux.bin", read(t, isolinuxDir+"/isolinux.bin"))
	put("isolinux/ldlinux.c32", read(t, syslinuxDir+"/ldlinux.c32"))
	put("isolinux/isolinux.cfg", withArea(isolinuxHead, isolinuxTail))
	put("EFI/redhat/grub.cfg", withArea(grubHead, grubTail))
	put("images/efiboot.img", efiPartition(t, dir, loaders))

	iso := filepath.Join(dir, "live.iso")
	run(t, "xorriso", "-as", "mkisofs", "-quiet", "-o", iso, "-V", volumeID, "-iso-level", "1", "-r",
		"-J", "-joliet-long",
		"-isohybrid-mbr", isolinuxDir+"/isohdpfx.bin",
		"-c", "isolinux/boot.cat", "-b", "isolinux/isolinux.bin", "-no-emul-boot", "-boot-load-size",
		"4", "-boot-info-table",
		"-eltorito-alt-boot", "-e", "images/efiboot.img", "-no-emul-boot", "-isohybrid-gpt-basdat", tree)
	return iso
}

// kernelArgumentAreas is the content of coreos/kargs.json.
func kernelArgumentAreas(t *testing.T) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"default": liveArguments, "size": argumentArea, "files": []map[string]any{
		{"path": "EFI/redhat/grub.cfg", "offset": len(grubHead), "end": "\n", "pad": "#"},
		{"path": "isolinux/isolinux.cfg", "offset": len(isolinuxHead), "end": "\n", "pad": "#"},
	}})
	require.NoError(t, err)
	return b
}

// initramfs returns an initramfs with one static program, the scripts and the modules of the
// kernel.
func initramfs(t *testing.T, script string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	archive := cpio.NewWriter(z)
	add := func(name string, mode cpio.FileMode, data []byte) {
		require.NoError(t, archive.WriteHeader(&cpio.Header{Name: name, Mode: mode, Links: 1, Size: int64(len(data))}))
		_, err := archive.Write(data)
		require.NoError(t, err)
	}
	for _, dir := range []string{"bin", "dev", "etc", "lib", "lib/modules", "proc", "sys"} {
		add(dir, cpio.ModeDir|0o755, nil)
	}
	add("bin/busybox", cpio.ModeRegular|0o755, read(t, busybox))
	add("bin/sh", cpio.ModeSymlink|0o777, []byte("busybox"))
	add("bin/lease", cpio.ModeRegular|0o755, []byte(leaseScript))
	add("init", cpio.ModeRegular|0o755, []byte(script))
	modules, err := filepath.Glob(filepath.Join(kernelDir(t), "modules", "*.ko"))
	require.NoError(t, err)
	require.NotEmpty(t, modules, howToInstall)
	for _, m := range modules {
		add("lib/modules/"+filepath.Base(m), cpio.ModeRegular|0o644, read(t, m))
	}
	require.NoError(t, archive.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

// bootLoader is a boot loader in the EFI system partition.
type bootLoader struct{ name, file string }

// efiPartition returns a FAT file system with GRUB, and with further boot loaders.
func efiPartition(t *testing.T, dir string, loaders []bootLoader) []byte {
	t.Helper()
	start, program, image := filepath.Join(dir, "start.cfg"), filepath.Join(dir, "BOOTX64.EFI"),
		filepath.Join(dir, "efiboot.img")
	require.NoError(t, os.WriteFile(start, []byte(grubStart), 0o644))
	run(t, "grub-mkimage", append([]string{"-O", "x86_64-efi", "-p", "/EFI/redhat", "-c", start, "-o", program},
		strings.Fields(grubModules)...)...)
	run(t, "mformat", "-i", image, "-C", "-T", "20480", "-h", "2", "-s", "32", "::")
	run(t, "mmd", "-i", image, "::/EFI", "::/EFI/BOOT", "::/EFI/redhat")
	for _, loader := range loaders {
		run(t, "mcopy", "-i", image, loader.file, "::/EFI/redhat/"+loader.name)
	}
	run(t, "mcopy", "-i", image, program, "::/EFI/BOOT/BOOTX64.EFI")
	return read(t, image)
}

// networkGRUB returns a directory with the program grub.efi, which loads the menu at /grub.cfg of
// the server.
func networkGRUB(t *testing.T, server string) string {
	t.Helper()
	dir := t.TempDir()
	start := filepath.Join(dir, "start.cfg")
	root := "(http," + strings.TrimPrefix(server, "http://") + ")"
	require.NoError(t, os.WriteFile(start, []byte("net_bootp\nset root="+root+"\nconfigfile "+root+"/grub.cfg\n"),
		0o644))
	run(t, "grub-mkimage", append([]string{"-O", "x86_64-efi", "-p", root, "-c", start, "-o",
		filepath.Join(dir, "grub.efi"), "http", "efinet", "net"},
		strings.Fields(grubModules)...)...)
	return dir
}

const howToInstall = "run .ci/install-emulator, as `make test` does, to install the programs that the boot tests need"

func kernelDir(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir() // XDG_CACHE_HOME or ~/.cache
	require.NoError(t, err)
	return filepath.Join(cache, "landfall", "boot")
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err, howToInstall)
	return b
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	_, err := exec.LookPath(program)
	require.NoError(t, err, howToInstall)
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", program, strings.Join(args, " "), out)
}
