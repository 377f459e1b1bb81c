package steps

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func installation() Input {
	in := situation()
	in.Host.Record.Status = ptr(models.HostStatusInstalling)
	in.Cluster.VipDhcpAllocation = nil
	return in
}

func install(t *testing.T, in Input) models.InstallCmdRequest {
	t.Helper()
	step := steps(t, in)[models.StepTypeInstall]
	require.NotNil(t, step)
	agentAccepts(t, step)
	var r models.InstallCmdRequest
	require.NoError(t, json.Unmarshal([]byte(step.Args[0]), &r))
	return r
}

func TestInstallStep_allArguments(t *testing.T) {
	in := installation()
	r := install(t, in)
	require.Equal(t, models.InstallCmdRequest{
		Role: ptr(models.HostRoleMaster), ClusterID: ptr(clusterID), HostID: ptr(hostID), InfraEnvID: ptr(infraEnvID),
		BootDevice: ptr("/dev/disk/by-id/a"), ControlPlaneCount: 3, OpenshiftVersion: "4.18.3",
		InstallerImage: ptr("mirror/installer:1"), ControllerImage: ptr("mirror/controller:1"),
		McoImage: "mirror/mco:1", MustGatherImage: "mirror/must-gather:1",
		CheckCvo: ptr(true), EnableSkipMcoReboot: true, NotifyNumReboots: true,
		DisksToFormat: []string{"/dev/disk/by-id/a", "/dev/disk/by-id/b"},
		InstallerArgs: `["--append-karg","ip=52-54-00-00-00-01:dhcp"]`,
	}, r)

	in.Host.Record.Bootstrap = true
	require.Equal(t, models.HostRoleBootstrap, *install(t, in).Role)
}

func TestInstallStep_byHost(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Input)
		check  func(*testing.T, models.InstallCmdRequest)
	}{
		{"a suggested role", func(in *Input) {
			in.Host.Record.Role, in.Host.Record.SuggestedRole = models.HostRoleAutoAssign, models.HostRoleWorker
		}, func(t *testing.T, r models.InstallCmdRequest) { require.Equal(t, models.HostRoleWorker, *r.Role) }},
		{"disks that must be kept", func(in *Input) { in.Host.Record.SkipFormattingDisks = "/dev/disk/by-id/b" },
			func(t *testing.T, r models.InstallCmdRequest) {
				require.Equal(t, []string{"/dev/disk/by-id/a"}, r.DisksToFormat)
			}},
		{"partitions that must be kept",
			func(in *Input) { in.Host.Record.InstallerArgs = `["--save-partlabel","data","ip=dhcp"]` },
			func(t *testing.T, r models.InstallCmdRequest) {
				require.True(t, r.SkipInstallationDiskCleanup)
				require.Equal(t, []string{"/dev/disk/by-id/b"}, r.DisksToFormat)
				require.JSONEq(t, `["--save-partlabel","data","ip=dhcp"]`, r.InstallerArgs)
			}},
		{"a static network", func(in *Input) {
			in.InfraEnv.StaticNetworkConfig, in.Host.Record.InstallerArgs = "[{}]", `["--append-karg","quiet"]`
		}, func(t *testing.T, r models.InstallCmdRequest) {
			require.JSONEq(t, `["--append-karg","quiet","--copy-network"]`, r.InstallerArgs)
		}},
		{"a static network that a user requested to copy", func(in *Input) {
			in.InfraEnv.StaticNetworkConfig, in.Host.Record.InstallerArgs = "[{}]", `["--copy-network"]`
		}, func(t *testing.T, r models.InstallCmdRequest) {
			require.JSONEq(t, `["--copy-network"]`, r.InstallerArgs)
		}},
		{"two address families", func(in *Input) {
			in.Cluster.MachineNetworks = append(in.Cluster.MachineNetworks, &models.MachineNetwork{Cidr: "fd00::/64"})
		}, func(t *testing.T, r models.InstallCmdRequest) {
			require.Contains(t, r.InstallerArgs, "ip=52-54-00-00-00-01:dhcp,dhcp6")
		}},
		{"RAID", func(in *Input) { in.Host.Inventory.Disks[0].DriveType = models.DriveTypeRAID },
			func(t *testing.T, r models.InstallCmdRequest) { require.Contains(t, r.InstallerArgs, "rd.md=1") }},
		{"iSCSI over its own network", func(in *Input) {
			d := in.Host.Inventory.Disks[0]
			d.DriveType, d.Iscsi = models.DriveTypeISCSI, &models.Iscsi{HostIPAddress: "10.0.0.1"}
		}, func(t *testing.T, r models.InstallCmdRequest) {
			require.JSONEq(t,
				`["--append-karg","rd.iscsi.firmware=1","--append-karg","ip=52-54-00-00-00-02:dhcp","--append-karg","ip=52-54-00-00-00-01:dhcp"]`, r.InstallerArgs)
		}},
		{"multipath over Fibre Channel", func(in *Input) {
			in.Host.Inventory.Disks[0].DriveType, in.Host.Inventory.Disks[0].Path = models.DriveTypeMultipath,
				"/dev/dm-0"
		}, func(t *testing.T, r models.InstallCmdRequest) {
			require.Contains(t, r.InstallerArgs, "rd.multipath=default")
			require.False(t, r.EnableSkipMcoReboot, "a device mapper disk needs the second boot")
		}},
		{"an old version", func(in *Input) { in.Cluster.OpenshiftVersion = "4.14.20" },
			func(t *testing.T, r models.InstallCmdRequest) { require.False(t, r.EnableSkipMcoReboot) }},
		{"several must-gather images", func(in *Input) {
			in.Images.MustGather = map[string]string{"ocp": "a",
				"odf": "b"}
		},
			func(t *testing.T, r models.InstallCmdRequest) {
				require.JSONEq(t, `{"ocp":"a","odf":"b"}`, r.MustGatherImage)
			}},
		{"a host that runs from its disk",
			func(in *Input) { in.Host.Inventory.Boot = &models.Boot{DeviceType: models.BootDeviceTypePersistent} },
			func(t *testing.T, r models.InstallCmdRequest) { require.Equal(t, "mirror/coreos:1", r.CoreosImage) }},
		{"a host that joins an installed cluster", func(in *Input) {
			in.Host.Record.Kind, in.Host.Record.Role = ptr(models.HostKindAddToExistingClusterHost),
				models.HostRoleWorker
			in.Cluster.MachineNetworks, in.Images.MCO = nil, ""
		}, func(t *testing.T, r models.InstallCmdRequest) {
			require.Empty(t, r.McoImage+r.OpenshiftVersion+r.MustGatherImage+r.InstallerArgs)
		}},
		{"a proxy", func(in *Input) {
			in.Cluster.HTTPProxy, in.Cluster.NoProxy = "http://proxy:3128", "site.example,localhost"
		},
			func(t *testing.T, r models.InstallCmdRequest) {
				require.Equal(t, "http://proxy:3128", *r.Proxy.HTTPProxy)
				require.Nil(t, r.Proxy.HTTPSProxy)
				require.Equal(t, "site.example,localhost,127.0.0.1,.svc,.cluster.local,api-int.harbour.site.example",
					*r.Proxy.NoProxy)
			}},
		{"a proxy without URLs", func(in *Input) {
			in.Cluster.HTTPSProxy, in.Cluster.NoProxy = "http://proxy:3128",
				" * "
		},
			func(t *testing.T, r models.InstallCmdRequest) { require.Equal(t, "*", *r.Proxy.NoProxy) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := installation()
			tt.change(&in)
			tt.check(t, install(t, in))
		})
	}
}

func TestInstallStep_missingInput(t *testing.T) {
	for want, change := range map[string]func(*Input){
		"inventory is missing": func(in *Input) { in.Host.Inventory = nil },
		"lacks its installation disk": func(
			in *Input) {
			in.Host.Record.InstallationDiskID = "/dev/disk/by-id/gone"
		},
		"not a path below /dev": func(in *Input) {
			in.Host.Record.InstallationDiskID,
				in.Host.Inventory.Disks[0].ID = "sda", "sda"
		},
		"has no role":             func(in *Input) { in.Host.Record.Role = models.HostRoleAutoAssign },
		"no installer image":      func(in *Input) { in.Images.Installer = "" },
		"no controller image":     func(in *Input) { in.Images.Controller = "" },
		"machine-config-operator": func(in *Input) { in.Images.MCO = "" },
		"CoreOS image": func(in *Input) {
			in.Images.CoreOS, in.Host.Inventory.Boot = "",
				&models.Boot{DeviceType: "persistent"}
		},
		"not a JSON list of strings": func(in *Input) { in.Host.Record.InstallerArgs = `--append-karg` },
		"machine network":            func(in *Input) { in.Cluster.MachineNetworks = nil },
		"iSCSI address \"\" is not": func(in *Input) {
			in.Host.Inventory.Disks[0].DriveType, in.Host.Inventory.Disks[0].Iscsi = models.DriveTypeISCSI,
				&models.Iscsi{}
		},
		"no interface has its iSCSI": func(in *Input) {
			in.Host.Inventory.Disks[0].DriveType, in.Host.Inventory.Disks[0].Iscsi = models.DriveTypeISCSI,
				&models.Iscsi{HostIPAddress: "10.9.9.9"}
		},
		"its address for iSCSI": func(in *Input) { in.Host.Inventory.Disks[0].DriveType = models.DriveTypeISCSI },
	} {
		t.Run(want, func(t *testing.T) {
			in := installation()
			change(&in)
			answer, err := For(in)
			require.ErrorContains(t, err, want)
			require.Empty(t, answer.Instructions)
		})
	}
}

func TestInstallStep_singleNodeNetwork(t *testing.T) {
	in := installation()
	in.Cluster.MachineNetworks, in.Cluster.ControlPlaneCount = nil, 1
	in.Host.Record.Bootstrap = true
	require.Contains(t, install(t, in).InstallerArgs, "ip=52-54-00-00-00-02:dhcp", "the first network")
}

// The cluster may have been updated since the release with which the appliance installed it.
func TestInstallStep_joiningHostRunsTheClustersCoreOS(t *testing.T) {
	in := installation()
	in.Host.Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
	in.Host.Inventory.Boot = &models.Boot{DeviceType: models.BootDeviceTypePersistent}
	require.Equal(t, "mirror/coreos:1", install(t, in).CoreosImage)
	facts := *in.Host.Facts
	facts.APIConnectivity = &models.APIVipConnectivityResponse{IsSuccess: true, Ignition: `{"storage":{"files":[
		{"path":"/etc/hostname","contents":{"source":"data:,x"}},
		{"path":"/etc/ignition-machine-config-encapsulated.json","contents":{"source":` +
		`"data:,%7B%22spec%22%3A%7B%22osImageURL%22%3A%22mirror%2Fcoreos%3A2%22%7D%7D"}}]}}`}
	in.Host.Facts = &facts
	require.Equal(t, "mirror/coreos:2", install(t, in).CoreosImage)
}

func TestPreparation_limitLengthensTheChecks(t *testing.T) {
	in := installation()
	in.Host.Record.Status = ptr(models.HostStatusPreparingForInstallation)
	in.Host.Disks, in.Host.Images = nil, nil
	for limit, want := range map[time.Duration][2]string{
		8 * time.Minute:  {"480.00", `"timeout":960`},
		time.Hour:        {"3600.00", `"timeout":3600`},
		10 * time.Minute: {"600.00", `"timeout":960`},
	} {
		in.PreparationLimit = limit
		made := steps(t, in)
		require.Equal(t, want[0], made[models.StepTypeInstallationDiskSpeedCheck].Args[1])
		require.Contains(t, made[models.StepTypeContainerImageAvailability].Args[0], want[1])
	}
}
