//go:build boot

// Package boottest boots images in an emulator: the last word on whether what isogen embeds reaches the machine. It
// needs an emulator, boot loaders and a kernel, hence the build tag: .ci/install-emulator installs them, and
// `make test` runs `go test -tags boot` here.
package boottest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
)

// bootLimit is how long a machine may take; without hardware acceleration, two to ten seconds are usual.
const bootLimit = 3 * time.Minute

// machine is a kind of machine to boot an image in.
type machine struct {
	uefi bool
	usb  bool // the image is a USB disk, not a CD
}

func (m machine) firmware() string {
	if m.uefi {
		return "uefi"
	}
	return "bios"
}

func (m machine) String() string {
	if m.usb {
		return m.firmware() + " from a USB disk"
	}
	return m.firmware() + " from a CD"
}

func TestTheEmbeddedConfigReachesTheMachine(t *testing.T) {
	base, err := isogen.Open(buildLiveISO(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, base.Close()) })
	require.Equal(t, volumeID, base.VolumeID())
	require.NoError(t, base.Require(isogen.X86_64))

	config := discoveryConfig()
	keyfile := isogen.File{Path: "etc/coreos-firstboot-network/eth0.nmconnection", Mode: 0o600, Data: []byte("[connection]\nid=eth0\n")}
	image, err := base.Full(isogen.Payload{Ignition: config, Files: []isogen.File{keyfile}})
	require.NoError(t, err)
	iso := save(t, image)

	for _, m := range []machine{{}, {usb: true}, {uefi: true}, {uefi: true, usb: true}} {
		t.Run(m.String(), func(t *testing.T) {
			console := m.boot(t, iso)
			require.Contains(t, console, "LIVE-SYSTEM-DONE")
			require.Contains(t, console, "FIRMWARE "+m.firmware())
			require.Contains(t, console, "FILE 600 "+sum(config)+" /config.ign")
			require.Contains(t, console, "FILE 600 "+sum(keyfile.Data)+" /"+keyfile.Path)
		})
	}
}

// discoveryConfig is as large as discovery configs are, and half of it does not compress.
func discoveryConfig() []byte {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 40_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	return fmt.Appendf(nil, `{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/noise","contents":{"source":"data:,%s"}},{"path":"/etc/text","contents":{"source":"data:,%s"}}]}}`,
		hex.EncodeToString(noise), bytes.Repeat([]byte("discovery%20"), 4000))
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func save(t *testing.T, image *isogen.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "discovery.iso")
	f, err := os.Create(path)
	require.NoError(t, err)
	r := image.NewReader()
	_, err = r.WriteTo(f)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, f.Close())
	return path
}

// boot runs the machine until it turns itself off and returns what it wrote to its serial console.
func (m machine) boot(t *testing.T, iso string) string {
	t.Helper()
	dir := t.TempDir()
	console := filepath.Join(dir, "console")
	// Emulated in software: nested virtualisation often cannot run firmware.
	args := []string{"-M", "q35", "-accel", "tcg", "-cpu", "max", "-m", "512", "-smp", "1", "-display", "none", "-monitor", "none",
		"-no-reboot", "-nic", "none", "-serial", "file:" + console}
	if m.uefi {
		const firmware = "/usr/share/OVMF/OVMF_CODE_4M.fd"
		variables := filepath.Join(dir, "variables.fd")
		require.NoError(t, os.WriteFile(variables, read(t, "/usr/share/OVMF/OVMF_VARS_4M.fd"), 0o600))
		args = append(args, "-drive", "if=pflash,format=raw,readonly=on,file="+firmware, "-drive", "if=pflash,format=raw,file="+variables)
	}
	medium := "if=none,id=medium,format=raw,readonly=on,file=" + iso
	if m.usb {
		args = append(args, "-device", "qemu-xhci", "-drive", medium, "-device", "usb-storage,drive=medium,bootindex=0")
	} else {
		args = append(args, "-device", "virtio-scsi-pci", "-drive", medium+",media=cdrom", "-device", "scsi-cd,drive=medium,bootindex=0")
	}
	const emulator = "qemu-system-x86_64"
	_, err := exec.LookPath(emulator)
	require.NoError(t, err, howToInstall)

	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	start := time.Now()
	out, err := exec.CommandContext(ctx, emulator, args...).CombinedOutput()
	written, readErr := os.ReadFile(console)
	require.NoError(t, err, "the emulator said %s, the console %s", out, written)
	require.NoError(t, readErr)
	t.Logf("booted and turned off in %s", time.Since(start).Round(100*time.Millisecond))
	return string(bytes.ReplaceAll(written, []byte("\r"), nil))
}
