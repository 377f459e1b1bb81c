//go:build boot

package boottest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
)

// bootLimit is the maximum time of a boot. Without hardware acceleration, a boot usually takes
// three to ten seconds.
const bootLimit = 3 * time.Minute

var keyfile = isogen.File{Path: "etc/coreos-firstboot-network/eth0.nmconnection", Mode: 0o600,
	Data: []byte("[connection]\nid=eth0\n")}

// TestImagesBoot boots every kind of image by every method. The machine prints the files that
// Ignition would find, and the SHA-256 of the root file system if it downloaded it.
func TestImagesBoot(t *testing.T) {
	t.Parallel()
	rootfs := noise(2<<20, 3)
	base, err := isogen.Open(buildLiveISO(t, rootfs, inspection))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, base.Close()) })
	require.Equal(t, volumeID, base.VolumeID())
	require.NoError(t, base.Require(isogen.X86_64))
	require.Equal(t, []string{"BIOS CD", "UEFI CD", "BIOS USB", "UEFI USB"}, base.Info().Boots)
	require.NoError(t, base.MakeTable(t.Context()))

	site := newSite(t, base)
	small := isogen.Payload{Ignition: discoveryConfig(40_000), Files: []isogen.File{keyfile}}
	large := isogen.Payload{Ignition: discoveryConfig(3_000_000), Files: []isogen.File{keyfile}}
	extra := isogen.KernelArgument{Operation: isogen.Append, Value: "extra=1"}

	full := must(base.Full(small, extra))(t)
	relocated := must(base.Full(large, extra))(t)
	require.Greater(t, relocated.Size(), full.Size()+3_000_000, "the config is at the end of the image")
	minimal := must(base.Minimal(small, site.url+"/rootfs?arch=x86_64&version=4.18", extra))(t)
	require.Less(t, minimal.Size(), base.Size()-int64(len(rootfs))+1)
	for _, image := range []struct {
		name    string
		image   *isogen.Image
		payload isogen.Payload
	}{{"full", full, small}, {"full with a config of 3 MB", relocated, large}, {"minimal", minimal, small}} {
		iso := save(t, image.image)
		for _, m := range []machine{{}, {usb: true}, {uefi: true}, {uefi: true, usb: true}} {
			t.Run(image.name+" "+m.String(), func(t *testing.T) {
				t.Parallel()
				m.medium, m.network = iso, image.image == minimal
				console := m.boot(t)
				requireFound(t, console, image.payload)
				require.Contains(t, console, "FIRMWARE "+m.firmware())
				require.Regexp(t, `ARGUMENTS .* extra=1`, console)
				if m.network {
					require.NotContains(t, console, "coreos.liveiso")
					require.Contains(t, console, "ROOTFS "+sum(rootfs))
				}
			})
		}
	}

	site.serve(t, "/kernel", must(base.Kernel())(t))
	site.serve(t, "/initrd", must(base.Initrd(large))(t))
	t.Run("from the network by iPXE", func(t *testing.T) {
		t.Parallel()
		script, err := isogen.IPXEScript(isogen.NetworkBoot{KernelURL: site.url + "/kernel",
			InitrdURL: site.url + "/initrd",
			RootfsURL: site.url + "/rootfs", Arguments: []isogen.KernelArgument{{Operation: isogen.Append,
				Value: noTimerCheck}, extra}})
		require.NoError(t, err)
		site.text(t, "/ipxe", script)
		console := machine{network: true, bootFile: site.url + "/ipxe"}.boot(t)
		requireFound(t, console, large)
		require.Regexp(t, `ARGUMENTS .*initrd=initrd .* extra=1`, console)
		require.Contains(t, console, "ROOTFS "+sum(rootfs))
	})

	t.Run("from the network by GRUB", func(t *testing.T) {
		t.Parallel()
		const server = "http://10.0.2.100" // this GRUB supports only port 80
		menu, err := isogen.GRUBMenu("Discovery", isogen.NetworkBoot{KernelURL: server + "/kernel",
			InitrdURL: server + "/initrd",
			RootfsURL: site.url + "/rootfs", Arguments: []isogen.KernelArgument{{Operation: isogen.Append,
				Value: noTimerCheck}, extra}})
		require.NoError(t, err)
		site.text(t, "/grub.cfg", menu)
		console := machine{uefi: true, network: true, bootFile: "grub.efi", tftp: networkGRUB(t, server),
			forward: "tcp:10.0.2.100:80-tcp:" + strings.TrimPrefix(site.local, "http://")}.boot(t)
		requireFound(t, console, large)
		require.Regexp(t, `ARGUMENTS .* extra=1`, console)
		require.Contains(t, console, "ROOTFS "+sum(rootfs))
	})

	t.Run("with a config image in a second drive", func(t *testing.T) {
		t.Parallel()
		console := machine{medium: save(t, must(base.AwaitConfigImage())(t)),
			second: save(t, must(isogen.ConfigImage(large))(t))}.boot(t)
		requireFound(t, console, large)
		require.Contains(t, console, "Took the configuration over from the config image.")
	})
}

func requireFound(t *testing.T, console string, p isogen.Payload) {
	t.Helper()
	require.Contains(t, console, "LIVE-SYSTEM-DONE")
	require.Contains(t, console, "FILE 600 "+sum(p.Ignition)+" /config.ign")
	require.Contains(t, console, "FILE 600 "+sum(keyfile.Data)+" /"+keyfile.Path)
}

func must(image *isogen.Image, err error) func(*testing.T) *isogen.Image {
	return func(t *testing.T) *isogen.Image {
		t.Helper()
		require.NoError(t, err)
		return image
	}
}

// discoveryConfig returns a config with the given number of incompressible bytes and as many
// compressible ones.
func discoveryConfig(size int) []byte {
	return fmt.Appendf(nil,
		`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/noise","contents":{"source":"data:,%s"}},{"path":"/etc/text","contents":{"source":"data:,%s"}}]}}`,
		hex.EncodeToString(noise(size, 1)), bytes.Repeat([]byte("discovery%20"), size/12))
}

func noise(size int, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
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

// site is the web server from which machines download files.
type site struct {
	url   string // the URL for machines
	local string // the URL on the host
	mux   *http.ServeMux
}

func newSite(t *testing.T, base *isogen.Base) *site {
	t.Helper()
	s := &site{mux: http.NewServeMux()}
	server := httptest.NewServer(s.mux)
	t.Cleanup(server.Close)
	// In the emulator's network, the host has the address 10.0.2.2.
	s.local = server.URL
	s.url = strings.Replace(server.URL, "127.0.0.1", "10.0.2.2", 1)
	s.serve(t, "/rootfs", must(base.Rootfs())(t))
	return s
}

func (s *site) serve(t *testing.T, path string, image *isogen.Image) {
	s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		reader := image.NewReader()
		http.ServeContent(w, r, path, time.Time{}, reader)
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (s *site) text(t *testing.T, path, text string) {
	s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, text); err != nil {
			t.Error(err)
		}
	})
}

// machine describes a machine and its boot medium.
type machine struct {
	uefi     bool
	usb      bool   // the medium is a USB disk, not a CD
	medium   string // path of an image
	second   string // path of an image in a second drive
	network  bool
	bootFile string // the boot file in DHCP: a URL for iPXE, else a file in tftp
	tftp     string // path of the TFTP server's directory
	forward  string // an address in the network that is forwarded to the host (guestfwd of the emulator)
}

func (m machine) firmware() string {
	if m.uefi {
		return "uefi"
	}
	return "bios"
}

func (m machine) String() string {
	if m.usb {
		return "by " + m.firmware() + " from a USB disk"
	}
	return "by " + m.firmware() + " from a CD"
}

// arguments returns the arguments of the emulator.
func (m machine) arguments(t *testing.T, dir, console string) []string {
	t.Helper()
	// Software emulation: nested virtualisation often cannot run firmware.
	args := []string{"-M", "q35", "-accel", "tcg", "-cpu", processor, "-m", "512", "-smp", "1", "-display", "none",
		"-monitor", "none",
		"-no-reboot", "-serial", "file:" + console}
	if m.uefi {
		const firmware = "/usr/share/OVMF/OVMF_CODE_4M.fd"
		variables := filepath.Join(dir, "variables.fd")
		require.NoError(t, os.WriteFile(variables, read(t, "/usr/share/OVMF/OVMF_VARS_4M.fd"), 0o600))
		args = append(args, "-drive", "if=pflash,format=raw,readonly=on,file="+firmware, "-drive",
			"if=pflash,format=raw,file="+variables)
	}
	switch {
	case m.tftp != "":
		args = append(args, "-netdev", "user,id=net,bootfile="+m.bootFile+",tftp="+m.tftp+",guestfwd="+m.forward,
			"-device", "virtio-net-pci,netdev=net,bootindex=0,romfile=")
	case m.bootFile != "":
		args = append(args, "-netdev", "user,id=net,bootfile="+m.bootFile, "-device",
			"virtio-net-pci,netdev=net,bootindex=0")
	case m.network:
		args = append(args, "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=")
	default:
		args = append(args, "-nic", "none")
	}
	const image = "if=none,format=raw,readonly=on"
	switch {
	case m.usb:
		args = append(args, "-device", "qemu-xhci", "-drive", image+",id=medium,file="+m.medium, "-device",
			"usb-storage,drive=medium,bootindex=0")
	case m.medium != "":
		args = append(args, "-device", "virtio-scsi-pci", "-drive", image+",media=cdrom,id=medium,file="+m.medium,
			"-device", "scsi-cd,drive=medium,bootindex=0")
	}
	if m.second != "" {
		args = append(args, "-drive", image+",media=cdrom,id=second,file="+m.second, "-device", "scsi-cd,drive=second")
	}
	return args
}

// boot runs the machine until it powers itself off, and returns the output of its serial console.
func (m machine) boot(t *testing.T) string {
	t.Helper()
	const emulator = "qemu-system-x86_64"
	_, err := exec.LookPath(emulator)
	require.NoError(t, err, howToInstall)
	dir := t.TempDir()
	console := filepath.Join(dir, "console")
	args := m.arguments(t, dir, console)

	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	start := time.Now()
	out, err := exec.CommandContext(ctx, emulator, args...).CombinedOutput()
	written, readErr := os.ReadFile(console)
	require.NoError(t, err, "output of the emulator: %s, of the console: %s", out, written)
	require.NoError(t, readErr)
	t.Logf("booted and turned off in %s", time.Since(start).Round(100*time.Millisecond))
	return string(bytes.ReplaceAll(written, []byte("\r"), nil))
}
