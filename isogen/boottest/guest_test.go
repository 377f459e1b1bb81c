//go:build boot

package boottest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cavaliercoder/go-cpio"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
)

// guestSpeed is the factor by which the installation of a guest is faster than a real installation.
const guestSpeed = "200"

// discovery configures the network, reads the boot medium from the firmware, unpacks the root file
// system of that medium, and starts the simulated agent. After that, the medium is no longer used.
const discovery = initHead + `
load_modules
hostname localhost
network_up
variables=/sys/firmware/efi/efivars
mount -t efivarfs efivarfs "$variables"
current=$(cat "$variables/BootCurrent-` + globalVariable + `" | tail -c 2 | hexdump -e '1/2 "%04X"')
if tr -d '\000' < "$variables/Boot$current-` + globalVariable + `" | grep -q CD-ROM; then
    medium=/dev/sr0 installed=false
else
    medium=/dev/vda installed=true
fi
mkdir -p /medium
until mount -t iso9660 -o ro "$medium" /medium 2> /dev/null; do usleep 50000; done
(cd / && cpio -i < /medium/images/pxeboot/rootfs.img)
umount /medium
/bin/agent -medium "$medium" -installed="$installed" -speed ` + guestSpeed + `
case $? in
    0) network_down; reboot -f ;;
    1) network_down; poweroff -f ;;
esac
echo INSTALLED
while :; do sleep 3600; done
`

// globalVariable is the vendor of UEFI's own variables (UEFI 2.10, 3.3). BootCurrent contains the
// number of the boot option in use.
const globalVariable = "8be4df61-93ca-11d2-aa0d-00e098032b8c"

// agentRootfs returns a root file system with the simulated agent.
func agentRootfs(t *testing.T) []byte {
	t.Helper()
	agent := filepath.Join(t.TempDir(), "agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o",
		agent, "landfall/appliance/simulate/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var b bytes.Buffer
	archive := cpio.NewWriter(&b)
	program := read(t, agent)
	require.NoError(t, archive.WriteHeader(&cpio.Header{Name: "bin/agent", Mode: cpio.ModeRegular | 0o755, Links: 1,
		Size: int64(len(program))}))
	_, err = archive.Write(program)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	return b.Bytes()
}

// TestInstallation_byManifests applies manifests of a single-node cluster to an appliance. A
// machine in an emulator is powered on over Redfish and boots the image that its BMC has
// downloaded in plain HTTP from the boot listener. Its agent reads the appliance's address,
// certificate authority and its token from the config on the disc and registers over TLS. The live
// system has no other authorities. The installed machine restarts from the disk that it has
// written, without the disc.
func TestInstallation_byManifests(t *testing.T) {
	t.Parallel() // the test mostly waits
	site := newManagedSite(t, buildLiveISO(t, agentRootfs(t), discovery))
	m := identity{name: "edge", mac: "52:54:00:77:07:01", serial: "EDGE0001",
		uuid: "77070000-0000-4000-8000-000000000001"}
	server := newServer(t, m)
	site.install(t, m, server.bmc)

	agent := site.agent(t, m)
	require.Equal(t, m.name, agent.Labels["agent-install.openshift.io/bmh"],
		"the BareMetalHost is found by its MAC address")
	found := agent.Status.Inventory
	require.Equal(t, "QEMU", found.SystemVendor.Manufacturer)
	require.Equal(t, m.serial, found.SystemVendor.SerialNumber)
	require.Equal(t, "uefi", found.Boot.CurrentBootMode)
	require.Len(t, found.Interfaces, 1)
	require.Equal(t, m.mac, found.Interfaces[0].MACAddress)
	require.Equal(t, []string{"10.0.2.15/24"}, found.Interfaces[0].IPV4Addresses)
	require.EqualValues(t, 1, found.CPU.Count)
	require.Less(t, found.Memory.PhysicalBytes, int64(memoryMiB)<<20)
	require.Greater(t, found.Memory.PhysicalBytes, int64(memoryMiB)<<20*3/4)
	require.Equal(t, m.uuid, agent.Name)

	require.Eventually(t, func() bool { return server.bmc.Inserted() == "" && server.inserted(t) == "" }, time.Minute,
		100*time.Millisecond, "the image was not ejected")
	boots := server.bmc.Boots()
	require.Len(t, boots, 2)
	require.Equal(t, "cd", boots[0].From)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/i/[a-z2-7]+\.iso$`, boots[0].Image)
	require.NotContains(t, boots[0].Image, strings.TrimPrefix(site.address, "https:"), "the main listener")
	require.Contains(t, server.console(t), "appliance="+site.guestURL()+" ")
	require.Equal(t, redfish.Started{From: "disk"}, boots[1])
	require.Equal(t, "On", server.bmc.Power())
	require.Equal(t, "provisioned", site.provisioning(t, m))
	require.Eventually(t, func() bool { return strings.Contains(server.console(t), "\nINSTALLED\n") }, time.Minute,
		100*time.Millisecond, "the node's controller does not end")
}
