package main

import (
	"testing"
	"testing/fstest"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// machine returns the kernel's files of a small virtual machine.
func machine() fstest.MapFS {
	files := fstest.MapFS{}
	for name, content := range map[string]string{
		"proc/cmdline": "console=ttyS0 quiet\n",
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: Intel Core i7 9xx\ncpu MHz\t\t: 2494.140\nflags\t\t: fpu " +
			"sse4_2\n\nprocessor\t: 1\nmodel name\t: another\n",
		"proc/meminfo": "MemTotal:         611240 kB\nMemFree:          500000 kB\n",
		"proc/net/route": "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
			"eth0\t00000000\t0202000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\neth0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
		"sys/class/dmi/id/product_uuid":   "77070000-0000-4000-8000-00000000000A\n",
		"sys/class/dmi/id/sys_vendor":     "QEMU\n",
		"sys/class/dmi/id/product_name":   "Standard PC (Q35 + ICH9, 2009)\n",
		"sys/class/dmi/id/product_serial": "EDGE0001\n",
		"sys/block/loop0/size":            "0\n", "sys/block/loop0/removable": "0\n",
		"sys/block/sr0/size": "100\n", "sys/block/sr0/removable": "1\n",
		"sys/block/sr0/device/model": "QEMU CD-ROM     \n",
		"sys/block/vda/size":         "41943040\n", "sys/block/vda/removable": "0\n", "sys/block/vda/serial": "D1",
		"sys/firmware/efi/fw_platform_size": "64\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return files
}

func TestInventory_fromKernel(t *testing.T) {
	inv, err := readInventory(machine())
	require.NoError(t, err)
	require.EqualValues(t, "77070000-0000-4000-8000-00000000000a", inv.id)
	require.Equal(t, &models.SystemVendor{Manufacturer: "QEMU", ProductName: "Standard PC (Q35 + ICH9, 2009)",
		SerialNumber: "EDGE0001", Virtual: true}, inv.SystemVendor)
	require.Equal(t, "uefi", inv.Boot.CurrentBootMode)
	require.Equal(t, "console=ttyS0 quiet", inv.Boot.CommandLine)
	require.Equal(t, "Intel Core i7 9xx", inv.CPU.ModelName)
	require.Equal(t, []string{"fpu", "sse4_2"}, inv.CPU.Flags)
	require.InDelta(t, 2494.14, inv.CPU.Frequency, 0.001)
	require.EqualValues(t, 611240<<10, inv.Memory.PhysicalBytes)

	require.Len(t, inv.Disks, 2)
	require.Equal(t, models.DriveTypeODD, inv.Disks[0].DriveType)
	require.False(t, inv.Disks[0].InstallationEligibility.Eligible)
	require.Equal(t, "QEMU CD-ROM", inv.Disks[0].Model)
	require.Equal(t, "/dev/vda", inv.Disks[1].Path)
	require.EqualValues(t, 20<<30, inv.Disks[1].SizeBytes)
	require.True(t, inv.Disks[1].InstallationEligibility.Eligible)
	require.Equal(t, "D1", inv.Disks[1].Serial)

	require.Equal(t, []*models.Route{
		{Interface: "eth0", Destination: "0.0.0.0", Gateway: "10.0.2.2", Metric: 100, Family: addressFamilyV4},
		{Interface: "eth0", Destination: "10.0.2.0", Gateway: "0.0.0.0", Family: addressFamilyV4},
	}, inv.Routes)
}

func TestInventory_incompleteMachine(t *testing.T) {
	for name, c := range map[string]struct{ file, content, says string }{
		"no UUID": {"sys/class/dmi/id/product_uuid", "Not Settable\n",
			`the firmware reports "not settable" as the machine's UUID`},
		"an invalid route": {"proc/net/route", "eth0 0 0 0 0 0 0\n", `"0" is not an address of the routing table`},
		"no memory":        {"proc/meminfo", "", "invalid syntax"},
	} {
		t.Run(name, func(t *testing.T) {
			files := machine()
			files[c.file] = &fstest.MapFile{Data: []byte(c.content)}
			_, err := readInventory(files)
			require.ErrorContains(t, err, c.says)
		})
	}
	files := machine()
	delete(files, "proc/cpuinfo")
	_, err := readInventory(files)
	require.ErrorContains(t, err, "proc/cpuinfo")
}
