package inventory

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func machine(disks ...*models.Disk) *models.Inventory {
	return &models.Inventory{
		CPU: &models.CPU{Architecture: "x86_64"}, Memory: &models.Memory{}, Disks: disks,
		Interfaces: []*models.Interface{{Name: "eno1", IPV4Addresses: []string{"192.168.1.5/24"}},
			{Name: "eno2", IPV4Addresses: []string{"10.0.0.5/24"}}},
		Routes: []*models.Route{{Destination: "0.0.0.0", Gateway: "192.168.1.1", Interface: "eno1"}},
	}
}

func TestValidateDisks(t *testing.T) {
	san := &models.Disk{Name: "dm-0", DriveType: models.DriveTypeMultipath, SizeBytes: 200e9}
	fc := &models.Disk{Name: "sdb", DriveType: models.DriveTypeFC, SizeBytes: 200e9, Holders: "dm-0"}
	iscsi := func(ip string) *models.Disk {
		return &models.Disk{Name: "sdc", DriveType: models.DriveTypeISCSI, SizeBytes: 200e9,
			Iscsi: &models.Iscsi{HostIPAddress: ip}}
	}
	path := iscsi("192.168.1.5")
	path.Holders = "dm-0"
	tests := []struct {
		name    string
		disk    *models.Disk
		others  []*models.Disk
		version string
		reason  string // "" if the disk is eligible
	}{
		{"an SSD", &models.Disk{Name: "sda", DriveType: models.DriveTypeSSD, SizeBytes: 100e9}, nil, "4.18.0", ""},
		{"a small disk", &models.Disk{Name: "sda", DriveType: models.DriveTypeSSD, SizeBytes: 99_999_000_000},
			nil, "4.18.0", "the disk has 99.99 GB, but at least 100 GB"},
		{"a DVD", &models.Disk{Name: "sr0", DriveType: models.DriveTypeODD, SizeBytes: 200e9}, nil, "4.18.0",
			"type ODD"},
		{"a disk of unknown type", &models.Disk{Name: "x", SizeBytes: 200e9}, nil, "4.18.0", "type unknown"},
		{"RAID", &models.Disk{Name: "md0", DriveType: models.DriveTypeRAID, SizeBytes: 200e9}, nil, "4.14.0", ""},
		{"RAID before 4.14", &models.Disk{Name: "md0", DriveType: models.DriveTypeRAID, SizeBytes: 200e9}, nil,
			"4.13.9", "type RAID"},
		{"Fibre Channel", &models.Disk{Name: "sdb", DriveType: models.DriveTypeFC, SizeBytes: 200e9}, nil, "4.18.0",
			""},
		{"one path of Fibre Channel", fc, []*models.Disk{san}, "4.18.0", "multipath device dm-0"},
		{"multipath of Fibre Channel", san, []*models.Disk{fc}, "4.18.0", ""},
		{"multipath without paths", san, nil, "4.18.0", "no Fibre Channel or iSCSI path"},
		{"multipath of two kinds", san, []*models.Disk{fc, path}, "4.18.0", "different types"},
		{"multipath over the default route", san, []*models.Disk{path}, "4.18.0", "iSCSI path sdc"},
		{"iSCSI over its own network", iscsi("10.0.0.5"), nil, "4.18.0", ""},
		{"iSCSI over the default route", iscsi("192.168.1.5"), nil, "4.18.0", "separate network"},
		{"iSCSI before 4.15", iscsi("10.0.0.5"), nil, "4.14.0", "type iSCSI"},
		{"iSCSI from an unknown address", iscsi(""), nil, "4.18.0", "unknown"},
		{"neither a name nor a path", &models.Disk{ID: "wwn-0x1", DriveType: models.DriveTypeSSD, SizeBytes: 200e9},
			nil, "4.18.0", "neither its name nor a path"},
		{"iSCSI from an invalid address", iscsi("here"), nil, "4.18.0", "not an IP address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inv := machine(append([]*models.Disk{tt.disk}, tt.others...)...)
			for range 2 { // a second validation changes nothing
				ValidateDisks(inv, DiskRules{MinGB: 100, OpenshiftVersion: tt.version})
				e := tt.disk.InstallationEligibility
				require.Equal(t, tt.reason == "", e.Eligible, e.NotEligibleReasons)
				if tt.reason != "" {
					require.Contains(t, e.NotEligibleReasons[0], tt.reason)
				}
			}
		})
	}
}

func TestValidateDisks_keepsReasonsOfTheAgent(t *testing.T) {
	d := &models.Disk{Name: "sda", DriveType: models.DriveTypeSSD, SizeBytes: 1,
		InstallationEligibility: models.DiskInstallationEligibility{NotEligibleReasons: []string{"Disk is removable"}}}
	inv := machine(d)
	ValidateDisks(inv, DiskRules{MinGB: 100})
	require.Len(t, d.InstallationEligibility.NotEligibleReasons, 2)
	ValidateDisks(inv, DiskRules{})
	require.Equal(t, []string{"Disk is removable"}, d.InstallationEligibility.NotEligibleReasons)
	require.False(t, d.InstallationEligibility.Eligible)
}

func TestEligibleDisks_bestFirst(t *testing.T) {
	disk := func(name string, kind models.DriveType, gb int64, bootable bool, hctl string) *models.Disk {
		return &models.Disk{ID: "/dev/disk/by-id/" + name, Name: name, DriveType: kind, SizeBytes: gb * 1e9,
			Bootable: bootable, Hctl: hctl}
	}
	inv := machine(
		disk("nvme0n1", models.DriveTypeSSD, 120, true, ""), disk("sdd", models.DriveTypeHDD, 120, false, ""),
		disk("sdb", models.DriveTypeHDD, 500, true, "1:0:0:0"), disk("sda", models.DriveTypeSSD, 120, true, ""),
		disk("sdc", models.DriveTypeHDD, 500, true, "0:0:0:0"), disk("sde", models.DriveTypeHDD, 400, true, ""),
	)
	ValidateDisks(inv, DiskRules{MinGB: 100})
	var order []string
	for _, d := range EligibleDisks(inv) {
		order = append(order, d.Name)
	}
	require.Equal(t, []string{"sde", "sdc", "sdb", "sda", "nvme0n1", "sdd"}, order)

	require.Equal(t, "sde", ChooseInstallationDisk(inv, "").Name)
	require.Equal(t, "sda", ChooseInstallationDisk(inv, "/dev/disk/by-id/sda").Name, "the selected disk is kept")
	require.Equal(t, "sda", ChooseInstallationDisk(inv, "/dev/sda").Name)
	require.Equal(t, "sde", ChooseInstallationDisk(inv, "/dev/disk/by-id/gone").Name)
	require.Nil(t, ChooseInstallationDisk(machine(), ""))
}

func TestDisksToFormat(t *testing.T) {
	inv := machine(
		&models.Disk{ID: "own", Bootable: true}, &models.Disk{ID: "empty"}, &models.Disk{ID: "usb", Bootable: true,
			Removable: true},
		&models.Disk{ID: "card", Bootable: true, ByPath: "/dev/disk/by-path/mmcblk0"},
		&models.Disk{ID: "iso", Bootable: true, IsInstallationMedia: true},
		&models.Disk{ID: "san", Bootable: true, DriveType: models.DriveTypeFC},
		&models.Disk{Name: "sdq", Bootable: true},
	)
	require.Equal(t, []string{"own", "/dev/sdq"}, DisksToFormat(inv))
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1 KB", 1_500_000_000: "1.5 GB",
		119_999_999_999: "119.99 GB", 2e12: "2 TB", 1<<63 - 1: "9223.37 PB"} {
		require.Equal(t, want, Size(bytes))
	}
	require.Equal(t, "16 GiB", Memory(16<<30))
	require.Equal(t, "15.99 GiB", Memory(16<<30-1))
}

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{"4.15.0": true, "4.15": true, "4.9.9": false, "5.0.0": true,
		"4.15-ec": true, "4.16.0-rc.1": true, "": false, "4": false, "x.y": false, "4.y": false} {
		require.Equal(t, want, AtLeast(version, 4, 15), version)
	}
}

func TestIsDefault(t *testing.T) {
	for _, tt := range []struct {
		destination, gateway string
		want                 bool
	}{
		{"0.0.0.0", "10.0.0.1", true}, {"0.0.0.0/0", "10.0.0.1", true}, {"::", "fe80::1", true},
		{"0.0.0.0", "", false}, {"0.0.0.0", "0.0.0.0", false}, {"10.0.0.0", "10.0.0.1", false}, {"", "10.0.0.1", false},
		{"10.0.0.0/8", "10.0.0.1", false},
	} {
		require.Equal(t, tt.want, IsDefault(&models.Route{Destination: tt.destination, Gateway: tt.gateway}), tt)
	}
}

func TestKeepDisks(t *testing.T) {
	inv := &models.Inventory{Disks: []*models.Disk{
		{ID: "/dev/disk/by-id/wwn-1", Name: "sda", ByPath: "/dev/disk/by-path/1"},
		{ID: "/dev/disk/by-id/wwn-2", Name: "sdb", ByPath: "/dev/disk/by-path/2"}}}
	choice := func(id string, skip bool) *models.DiskSkipFormattingParams {
		return &models.DiskSkipFormattingParams{DiskID: &id, SkipFormatting: &skip}
	}
	for _, form := range []string{"/dev/disk/by-id/wwn-2", "/dev/sdb", "/dev/disk/by-path/2"} {
		kept, _, ok := KeepDisks(inv, "", []*models.DiskSkipFormattingParams{choice(form, true)})
		require.True(t, ok)
		require.Equal(t, "/dev/disk/by-id/wwn-2", kept, form)
		kept, _, ok = KeepDisks(inv, "/dev/disk/by-id/wwn-1,/dev/disk/by-id/wwn-2",
			[]*models.DiskSkipFormattingParams{choice(form, false)})
		require.True(t, ok)
		require.Equal(t, "/dev/disk/by-id/wwn-1", kept, form)
	}
	kept, _, ok := KeepDisks(inv, "/dev/sdb,/dev/gone",
		[]*models.DiskSkipFormattingParams{choice("/dev/sda", true)})
	require.True(t, ok)
	require.Equal(t, "/dev/disk/by-id/wwn-2,/dev/gone,/dev/disk/by-id/wwn-1", kept, "older forms become ids")
	for _, known := range []*models.Inventory{inv, nil} {
		kept, unknown, ok := KeepDisks(known, "a", []*models.DiskSkipFormattingParams{choice("/dev/sdz", true)})
		require.False(t, ok)
		require.Equal(t, "a /dev/sdz", kept+" "+unknown)
	}
}
