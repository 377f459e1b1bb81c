//go:build boot

package boottest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// insideNamespace marks the process of a test that runs in a network namespace.
const insideNamespace = "BOOTTEST_NAMESPACE"

// siteAddress is the address of the appliance in the network of the machine. GRUB of Debian
// supports only port 80.
const siteAddress = "192.0.2.1"

// bootedMachine is the MAC address of the machine.
const bootedMachine = "52:54:00:12:34:56"

// TestSiteBoots boots a machine from nothing but the appliance's network services, into the
// discovery image: by PXE, and by UEFI HTTP boot.
func TestSiteBoots(t *testing.T) {
	if os.Getenv(insideNamespace) == "" {
		runInNamespace(t)
		return
	}
	rootfs := noise(1<<20, 5)
	for _, c := range []struct {
		name    string
		loaders []bootLoader
	}{
		{"PXE", []bootLoader{{"shimx64.efi", menuGRUB(t)}}},
		{"HTTP boot", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			iso := buildLiveISO(t, rootfs, inspection, c.loaders...)
			startSite(t, iso)
			console := bootFromSite(t, c.loaders != nil)
			require.Contains(t, console, "FIRMWARE uefi")
			require.Contains(t, console, "/config.ign")
			require.Contains(t, console, "LIVE-SYSTEM-DONE")
			if c.loaders != nil {
				require.Contains(t, console, "ROOTFS "+sum(rootfs))
			}
		})
	}
}

// menuGRUB returns a GRUB that reads its menu in the directory from which it was loaded, as the
// GRUB of Red Hat does. Debian's signed GRUB does not support HTTP.
func menuGRUB(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	start, program := filepath.Join(dir, "start.cfg"), filepath.Join(dir, "grub.efi")
	require.NoError(t, os.WriteFile(start, []byte("configfile $cmdpath/grub.cfg\n"), 0o600))
	run(t, "grub-mkimage", append([]string{"-O", "x86_64-efi", "-p", "/", "-c", start, "-o", program, "http", "tftp",
		"efinet", "net"}, strings.Fields(grubModules)...)...)
	return program
}

// runInNamespace runs the test in a network namespace.
func runInNamespace(t *testing.T) {
	t.Helper()
	arguments := []string{"--net"}
	if os.Geteuid() != 0 {
		arguments = append(arguments, "--user", "--map-root-user")
	}
	check := "ip tuntap add eth1 mode tap"
	if out, err := exec.Command("unshare", append(arguments, "sh", "-c", check)...).CombinedOutput(); err != nil {
		fmt.Fprintln(os.Stderr, "boottest: network namespaces with TAP interfaces are not permitted; no machine was "+
			"booted by the appliance's network services:", err, string(out))
		t.SkipNow()
	}
	program := exec.CommandContext(t.Context(), "unshare",
		append(arguments, os.Args[0], "-test.run", "^TestSiteBoots$", "-test.v")...)
	program.Env = append(os.Environ(), insideNamespace+"=1")
	out, err := program.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}

// startSite starts an appliance with DHCP and TFTP, and an infra-env whose image machines boot.
func startSite(t *testing.T, iso string) {
	t.Helper()
	run(t, "ip", "link", "set", "lo", "up")
	run(t, "ip", "tuntap", "add", "eth1", "mode", "tap")
	t.Cleanup(func() { run2("ip", "link", "del", "eth1") })
	run(t, "ip", "address", "add", siteAddress+"/24", "dev", "eth1")
	run(t, "ip", "link", "set", "eth1", "up")
	var log bytes.Buffer
	appliance := exec.Command(builtProgram(t), "serve", "--data-dir", t.TempDir(), "--auth", "none", "--listen",
		siteAddress+":80", "--url", "http://"+siteAddress, "--tls-enabled=false", "--ams-enabled=false",
		"--allowed-hosts", siteAddress, "--images-agent", "registry.example.com/agent:v1",
		"--site-dhcp-interfaces", "eth1=192.0.2.100-192.0.2.110",
		"--os-images", fmt.Sprintf("[{openshift_version: \"4.20\", cpu_architecture: x86_64, path: %q}]", iso),
		"--release-images", "[{openshift_version: \"4.20.1\", cpu_architecture: x86_64, "+
			"url: \"quay.io/openshift-release-dev/ocp-release:4.20.1-x86_64\", default: true}]")
	appliance.Stdout, appliance.Stderr = &log, &log
	require.NoError(t, appliance.Start())
	t.Cleanup(func() {
		require.NoError(t, appliance.Process.Signal(os.Interrupt))
		require.NoError(t, appliance.Wait())
		if t.Failed() {
			t.Logf("the appliance: %s", log.String())
		}
	})
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + siteAddress + "/ready")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, bootLimit, 100*time.Millisecond, "the appliance does not start")
	post(t, "/api/assisted-install/v2/infra-envs", map[string]any{"name": "site", "openshift_version": "4.20",
		"image_type": "full-iso", "pull_secret": `{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}`,
		"kernel_arguments": []map[string]string{{"operation": "append", "value": noTimerCheck}}})
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + siteAddress + "/api/landfall/v1/site-services")
		if err != nil {
			return false
		}
		text, err := io.ReadAll(response.Body)
		return err == nil && response.Body.Close() == nil && strings.Count(string(text), `"serving"`) == 2
	}, bootLimit, 100*time.Millisecond, "DHCP and TFTP do not start")
}

// run2 runs a command whose failure does not matter, because the kernel has cleaned up already.
func run2(program string, arguments ...string) { _ = exec.Command(program, arguments...).Run() }

func post(t *testing.T, path string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	response, err := http.Post("http://"+siteAddress+path, "application/json", bytes.NewReader(text))
	require.NoError(t, err)
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusCreated, response.StatusCode, "%s", answer)
}

// bootFromSite boots a machine whose only cable leads to the appliance, and returns the output of
// its serial console. Its firmware tries PXE, if that is allowed, and then HTTP boot.
func bootFromSite(t *testing.T, pxe bool) string {
	t.Helper()
	dir := t.TempDir()
	console, variables := filepath.Join(dir, "console"), filepath.Join(dir, "variables.fd")
	require.NoError(t, os.WriteFile(variables, read(t, firmwareVariables), 0o600))
	arguments := []string{"-M", "q35", "-accel", "tcg", "-cpu", processor, "-m", "1024", "-smp", "1",
		"-display", "none",
		"-monitor", "none", "-no-reboot", "-serial", "file:" + console,
		"-drive", "if=pflash,format=raw,readonly=on,file=" + firmwareCode,
		"-drive", "if=pflash,format=raw,file=" + variables,
		"-netdev", "tap,id=net,ifname=eth1,script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=net,bootindex=0,romfile=,mac=" + bootedMachine,
		"-object", "rng-random,filename=/dev/urandom,id=rng", "-device", "virtio-rng-pci,rng=rng",
		"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n"}
	if !pxe {
		arguments = append(arguments, "-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*bootLimit)
	defer cancel()
	start := time.Now()
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64", arguments...).CombinedOutput()
	written, readErr := os.ReadFile(console)
	require.NoError(t, readErr)
	require.NoError(t, err, "output of the emulator: %s, of the console: %s", out, written)
	t.Logf("booted and turned off in %s", time.Since(start).Round(100*time.Millisecond))
	return string(bytes.ReplaceAll(written, []byte("\r"), nil))
}
