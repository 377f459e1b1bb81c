package isogen_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/iso9660"
	"landfall/isogen/skeleton"
)

func TestInfo_boots(t *testing.T) {
	for name, c := range map[string]struct {
		iso   skeleton.ISO
		boots []string
	}{
		"x86_64":                   {skeleton.ISO{}, []string{"BIOS CD", "UEFI CD", "BIOS USB", "UEFI USB"}},
		"x86_64 without isohybrid": {skeleton.ISO{Age: skeleton.Age2021Later}, []string{"BIOS CD", "UEFI CD"}},
		"aarch64":                  {skeleton.ISO{Architecture: isogen.AArch64}, []string{"UEFI CD"}},
		"ppc64le":                  {skeleton.ISO{Architecture: isogen.PPC64LE}, []string{"Open Firmware"}},
		"s390x":                    {skeleton.ISO{Architecture: isogen.S390X}, []string{"s390x CD"}},
		"without boot loaders": {skeleton.ISO{Replace: map[string][]byte{"isolinux/isolinux.bin": nil,
			"images/efiboot.img": nil}}, []string{}},
		"a system area without partition tables": {skeleton.ISO{System: []byte("something")},
			[]string{"BIOS CD", "UEFI CD"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.boots, open(t, write(t, c.iso)).Info().Boots)
		})
	}
}

func TestInfo(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{}))
	info := base.Info()
	require.Equal(t, skeleton.DefaultVolumeID, info.VolumeID)
	require.Equal(t, "9.6.20250523-0", info.Version)
	require.Equal(t, isogen.X86_64, info.Architecture)
	require.Equal(t, base.Size(), info.Size)
	require.Equal(t, "images/ignition.img", info.EmbedArea.File)
	require.Positive(t, info.EmbedArea.Offset)
	require.EqualValues(t, areaSize, info.EmbedArea.Length)
	require.True(t, info.EmbedArea.Relocatable)
	require.Equal(t, isogen.KernelArgumentAreas{Size: 1139, Default: standard,
		Files: []string{"EFI/redhat/grub.cfg", "isolinux/isolinux.cfg"}}, info.KernelArguments)
	require.True(t, info.NetworkBoot)

	b, err := json.Marshal(info)
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(b, &keys))
	for _, key := range []string{"volume_id", "version", "architecture", "size_bytes", "embed_area", "kernel_arguments",
		"minimal", "network_boot", "boots"} {
		require.Contains(t, keys, key)
	}
}

func TestInfo_missingFilesForNetworkBoot(t *testing.T) {
	for _, file := range []string{"vmlinuz", "initrd.img", "rootfs.img"} {
		info := open(t, write(t, skeleton.ISO{Replace: map[string][]byte{"images/pxeboot/" + file: nil}})).Info()
		require.False(t, info.NetworkBoot)
		require.Equal(t, "the ISO does not contain images/pxeboot/"+file+"", info.NetworkReason)
	}
}

func TestSegments_coverWholeImage(t *testing.T) {
	large := incompressible(t, larger)
	for name, c := range map[string]struct {
		iso     skeleton.ISO
		payload isogen.Payload
		want    []string // names in order
	}{
		"x86_64": {skeleton.ISO{}, payload,
			[]string{"boot loader", "directory", "boot loader", "directory", "boot loader", "other", "config",
				"initrd", "rootfs", "kernel", "boot loader", "other"}},
		"relocated": {skeleton.ISO{}, large,
			[]string{"boot loader", "directory", "boot loader", "directory", "boot loader", "other", "initrd",
				"rootfs", "kernel", "boot loader", "other", "config"}},
		"s390x": {skeleton.ISO{Architecture: isogen.S390X}, payload,
			[]string{"boot loader", "directory", "boot loader", "directory", "boot image", "config", "other", "initrd",
				"kernel", "rootfs", "other"}},
		"bytes after the volume": {skeleton.ISO{Trailing: 5000, Architecture: isogen.PPC64LE}, payload,
			[]string{"boot loader", "directory", "boot loader", "other", "config", "initrd", "rootfs", "kernel",
				"boot loader", "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			base := open(t, write(t, c.iso))
			image, err := base.Full(c.payload)
			require.NoError(t, err)
			var names []string
			at := int64(0)
			for _, s := range image.Segments() {
				require.Equal(t, at, s.Start)
				require.Greater(t, s.End, s.Start)
				names = append(names, s.Name)
				at = s.End
				if s.Name == "config" {
					got, err := isogen.Embedded(image.NewReader(), image.Size())
					require.NoError(t, err)
					require.Equal(t, got.Area.Offset, s.Start)
					require.InDelta(t, got.Area.Offset+got.Area.Length, s.End, iso9660.SectorSize-1)
				}
			}
			require.Equal(t, image.Size(), at)
			require.Equal(t, c.want, names)
		})
	}
}
