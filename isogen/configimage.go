package isogen

import (
	"bytes"
	"fmt"
	"time"

	"landfall/isogen/iso9660"
)

// ConfigVolumeID is the volume identifier of config images. Ignition searches a drive with this
// identifier on platforms that pass the config on a drive (coreos/ignition,
// internal/providers/openstack and internal/providers/nutanix).
const ConfigVolumeID = "config-2"

// configUserData is the path of the config on such a drive.
const configUserData = "openstack/latest/user_data"

// ConfigImage returns a small ISO that contains only the payload. It is meant for users who keep
// one base image on a USB drive or in the library of a BMC and attach the configuration as a second
// drive.
//
// A published live ISO reads its config only from itself (platform "metal", whose only other source
// is the kernel argument ignition.config.url). There are two ways to make it read this image:
//
//   - Boot the image of AwaitConfigImage instead of the base. A unit in its initial RAM file
//     system waits for a drive with this image and copies all files from it, before Ignition and
//     the network are set up. This is the recommended way.
//   - Replace the kernel argument ignition.platform.id=metal by ignition.platform.id=nutanix in the
//     base. Ignition 2.13 and later (OpenShift 4.11) then waits for a drive named config-2 and
//     reads openstack/latest/user_data. The other files of the payload are ignored. The live system
//     assumes that it runs on that platform, which may have side effects.
//
// The "config image" of openshift-install (volume agent_configimage, config.gz) is different: it
// contains manifests of a cluster for the services of the agent-based installer, not an Ignition
// config.
//
// Embedded can read the payload of the image, as that of any other image.
func ConfigImage(p Payload) (*Image, error) {
	packed, err := p.pack()
	if err != nil {
		return nil, err
	}
	files := []iso9660.File{
		{Path: areaDescription, Data: []byte(`{"file": "` + areaFile + `"}`)},
		{Path: areaFile, Data: packed},
		{Path: configUserData, Data: p.Ignition},
	}
	var iso bytes.Buffer
	err = iso9660.Write(&iso, iso9660.Image{VolumeID: ConfigVolumeID, Time: time.Unix(0, 0), Joliet: true,
		Files: files})
	if err != nil {
		return nil, fmt.Errorf("writing the config image: %w", err)
	}
	return newImage(nil, []extent{patch(0, iso.Bytes())}, []Segment{{"config", 0, int64(iso.Len())}}), nil
}

// AwaitConfigImage returns the base with a unit that reads the config from a drive with a
// ConfigImage. The unit waits for the drive for up to ten minutes and shows the remaining time on
// the console. The image does not depend on the config.
func (b *Base) AwaitConfigImage(args ...KernelArgument) (*Image, error) {
	packed, err := Archive([]File{
		{Path: "usr/local/bin/landfall-config-image", Mode: 0o755, Data: []byte(configImageScript)},
		{Path: "etc/systemd/system/landfall-config-image.service", Data: []byte(configImageUnit)},
		{Path: "etc/systemd/system/coreos-ignition-setup-user.service.d/10-config-image.conf",
			Data: []byte(configImageOrder)},
		{Path: "etc/systemd/system/ignition-fetch-offline.service.d/10-config-image.conf",
			Data: []byte(configImageOrder)},
	})
	if err != nil {
		return nil, err
	}
	patches, err := b.patches(packed, args)
	if err != nil {
		return nil, err
	}
	layout := overlay(b.whole(), patches)
	return newImage(b, layout, b.segments(layout)), nil
}

// configImageUnit runs after udev starts and before the units that read the files of the config
// image (coreos/fedora-coreos-config, dracut modules 35coreos-ignition and 35coreos-network).
const configImageUnit = `[Unit]
Description=Take the configuration over from the config image
ConditionPathExists=/etc/initrd-release
DefaultDependencies=false
After=systemd-udev-trigger.service
Before=coreos-ignition-setup-user.service ignition-fetch-offline.service coreos-copy-firstboot-network.service

[Service]
Type=oneshot
RemainAfterExit=yes
StandardOutput=journal+console
StandardError=journal+console
ExecStart=/usr/local/bin/landfall-config-image
`

// configImageOrder makes a unit of CoreOS start configImageUnit. A symbolic link would have the
// same effect, but payloads cannot contain links.
const configImageOrder = `[Unit]
Requires=landfall-config-image.service
After=landfall-config-image.service
`

// configImageScript unpacks the config image with the program that the live system uses for its
// root file system: bsdtar, or cpio in older releases.
const configImageScript = `#!/bin/sh
set -eu
device=/dev/disk/by-label/` + ConfigVolumeID + `
directory=/run/config-image
tries=600
until [ -e "$device" ]; do
    if [ $((tries % 15)) = 0 ]; then
        echo "Waiting for the config image: attach it as a second CD or USB drive ($((tries / 60)) min $((tries % 60)) s left)"
    fi
    if [ "$tries" = 0 ]; then
        echo "No config image was attached. Attach it and start this machine again." >&2
        exit 1
    fi
    tries=$((tries - 1))
    sleep 1
done
mkdir -p "$directory"
mount -o ro -t iso9660 "$device" "$directory"
cd /
if command -v bsdtar >/dev/null; then
    bsdtar -x -f "$directory/` + areaFile + `"
else
    gzip -d -c "$directory/` + areaFile + `" | cpio -i -d -u
fi
umount "$directory"
echo "Took the configuration over from the config image."
`
