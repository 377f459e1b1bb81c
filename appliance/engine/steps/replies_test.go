package steps

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/inventory"
)

func replySituation() Situation {
	in := situation()
	rules := inventory.DiskRules{MinGB: 100, OpenshiftVersion: "4.18.3"}
	return Situation{Host: in.Host, Cluster: in.Cluster, DiskSpeedLimit: 10,
		DiskRules: func(*models.Inventory) inventory.DiskRules { return rules }}
}

const smallInventory = `{"hostname":"node-1","cpu":{"count":8,"architecture":"x86_64"},"memory":{"physical_bytes":34359738368},"unknown":"x",
"disks":[{"id":"/dev/disk/by-id/a","name":"sda","drive_type":"SSD","size_bytes":480000000000,"bootable":true},{"id":"/dev/disk/by-id/c","name":"sdc","drive_type":"SSD","size_bytes":5}],
"truncation":{"type":"partial","reasons":["long"]}}`

func TestApply(t *testing.T) {
	tests := []struct {
		kind   models.StepType
		output string
		check  func(*testing.T, *Effect)
	}{
		{models.StepTypeInventory, smallInventory, func(t *testing.T, e *Effect) {
			require.Equal(t, "node-1", e.Inventory.Hostname)
			require.True(t, e.Inventory.Disks[0].InstallationEligibility.Eligible)
			require.False(t, e.Inventory.Disks[1].InstallationEligibility.Eligible)
			require.Contains(t, e.Reports.Inventory, `"truncation":{"type":"partial"`)
			require.NotContains(t, e.Reports.Inventory, "unknown")
		}},
		{models.StepTypeConnectivityCheck, `{"remote_hosts":[{"host_id":"44444444-4444-4444-4444-444444444444"}]}`,
			func(t *testing.T, e *Effect) {
				require.Equal(t, peerID, e.Connectivity.RemoteHosts[0].HostID)
				require.NotEmpty(t, e.Reports.Connectivity)
			}},
		{models.StepTypeFreeNetworkAddresses, `[{"network":"192.168.1.0/24","free_addresses":["192.168.1.2"]}]`,
			func(t *testing.T, e *Effect) {
				require.Len(t, e.FreeAddresses, 1)
			}},
		{models.StepTypeDhcpLeaseAllocate,
			`{"api_vip_address":"192.168.1.2","ingress_vip_address":"192.168.1.3","api_vip_lease":"lease {\n  interface \"eno1\";\n  renew 1;\n}"}`, func(t *testing.T, e *Effect) {
				require.Equal(t, "192.168.1.2", e.Lease.APIVipAddress.String())
				require.Equal(t, inventory.Reports{}, e.Reports)
			}},
		{models.StepTypeNtpSynchronizer, `{"ntp_sources":[{"source_name":"a","source_state":"synced"}]}`,
			func(t *testing.T, e *Effect) {
				require.JSONEq(t, `[{"source_name":"a","source_state":"synced"}]`, e.Reports.NTPSources)
			}},
		{models.StepTypeNtpSynchronizer, `{}`, func(t *testing.T, e *Effect) {
			require.Equal(t, `[]`,
				e.Reports.NTPSources)
		}},
		{models.StepTypeDomainResolution, `{"resolutions":[{"domain_name":"api","ipv4_addresses":["1.2.3.4"]}]}`,
			func(t *testing.T, e *Effect) {
				require.Equal(t, "api", *e.Domains.Resolutions[0].DomainName)
			}},
		{models.StepTypeVerifyVips, `[{"vip":"192.168.1.2","vip_type":"api","verification":"succeeded"}]`,
			func(t *testing.T, e *Effect) {
				require.Equal(t, models.VipVerificationSucceeded, *e.VIPs[0].Verification)
			}},
		{models.StepTypeTangConnectivityCheck, `{"is_success":true}`, func(t *testing.T,
			e *Effect) {
			require.True(t, e.Tang.IsSuccess)
		}},
		{models.StepTypeAPIVipConnectivityCheck, `{"is_success":true,"ignition":"{}"}`,
			func(t *testing.T, e *Effect) { require.True(t, e.APIConnectivity.IsSuccess) }},
		{models.StepTypeInstallationDiskSpeedCheck, `{"path":"/dev/disk/by-id/a","io_sync_duration":4}`,
			func(t *testing.T, e *Effect) {
				require.Equal(t, &DiskSpeed{Path: "/dev/disk/by-id/a", SyncMs: 4}, e.DiskSpeed)
				require.JSONEq(t,
					`{"/dev/disk/by-id/a":{"path":"/dev/disk/by-id/a","disk_speed":{"tested":true,"speed_ms":4}}}`,
					e.Reports.Disks)
			}},
		{models.StepTypeInstallationDiskSpeedCheck, `{"path":"/dev/sda","io_sync_duration":11}`,
			func(t *testing.T, e *Effect) { require.True(t, e.DiskSpeed.Slow) }},
		{models.StepTypeInstallationDiskSpeedCheck, ``, func(t *testing.T, e *Effect) {
			require.Nil(t, e.DiskSpeed,
				"the check is already running")
		}},
		{models.StepTypeContainerImageAvailability, `{"images":[{"name":"mirror/mco","result":"success"}]}`,
			func(t *testing.T, e *Effect) {
				require.JSONEq(t, `{"mirror/mco":{"name":"mirror/mco","result":"success"}}`, e.Reports.Images)
			}},
		{models.StepTypeUpgradeAgent, `{"agent_image":"x","result":"failure"}`,
			func(t *testing.T, e *Effect) { require.Contains(t, e.Failure, "could not pull agent x") }},
		{models.StepTypeUpgradeAgent, `{"agent_image":"x","result":"success"}`,
			func(t *testing.T, e *Effect) { require.Empty(t, e.Failure) }},
		{models.StepTypeDownloadBootArtifacts, ``, func(t *testing.T, e *Effect) {
			require.True(t,
				e.BootArtifactsReady)
		}},
		{models.StepTypeInstall, `anything`, func(t *testing.T, e *Effect) {
			require.Equal(t,
				&Effect{Step: models.StepTypeInstall}, e)
		}},
		{models.StepTypeStopInstallation, ``, func(t *testing.T, e *Effect) { require.Empty(t, e.Failure) }},
		{models.StepTypeLogsGather, ``, func(t *testing.T, e *Effect) { require.Empty(t, e.Failure) }},
	}
	for _, tt := range tests {
		t.Run(string(tt.kind), func(t *testing.T) {
			e, err := Apply(&models.StepReply{StepType: tt.kind, StepID: "x", Output: tt.output}, replySituation())
			require.NoError(t, err)
			require.Equal(t, tt.kind, e.Step)
			tt.check(t, e)
			_, err = inventory.Parse(e.Merge(inventory.Reports{}))
			require.NoError(t, err, "the stored reports can be parsed again")
		})
	}
}

func TestApply_failedStep(t *testing.T) {
	tests := []struct {
		name  string
		reply models.StepReply
		check func(*testing.T, *Effect)
	}{
		{"the media is detached", models.StepReply{StepType: models.StepTypeInventory, ExitCode: 256,
			Error: "cannot read"},
			func(t *testing.T, e *Effect) {
				require.True(t, e.MediaDisconnected)
				require.Nil(t, e.Inventory)
			}},
		{"the media is detached while a disk is measured",
			models.StepReply{StepType: models.StepTypeInstallationDiskSpeedCheck, ExitCode: 256},
			func(t *testing.T, e *Effect) {
				require.True(t, e.MediaDisconnected)
				require.Nil(t, e.DiskSpeed, "the disk was not measured")
			}},
		{"the installer could not be started", models.StepReply{StepType: models.StepTypeInstall, ExitCode: 2,
			Error: "pull\n failed."}, func(t *testing.T, e *Effect) {
			require.True(t, e.InstallationFailed)
			require.Equal(t, "Step install failed on host node with exit code 2: pull failed.", e.Failure)
		}},
		{"the installer is already running", models.StepReply{StepType: models.StepTypeInstall, ExitCode: 125,
			Error: `the container name "assisted-installer" is already in use`}, func(t *testing.T, e *Effect) {
			require.False(t, e.InstallationFailed)
			require.Empty(t, e.Failure)
		}},
		{"a disk could not be measured", models.StepReply{StepType: models.StepTypeInstallationDiskSpeedCheck,
			ExitCode: 1, Output: `{"path":"/dev/sdz"}`}, func(t *testing.T, e *Effect) {
			require.Equal(t, &DiskSpeed{Path: "/dev/sdz", ExitCode: 1}, e.DiskSpeed)
		}},
		{"an unnamed disk could not be measured",
			models.StepReply{StepType: models.StepTypeInstallationDiskSpeedCheck, ExitCode: 124},
			func(t *testing.T, e *Effect) {
				require.Equal(t, "/dev/disk/by-id/a", e.DiskSpeed.Path)
			}},
		{"some images were pulled", models.StepReply{StepType: models.StepTypeContainerImageAvailability, ExitCode: 1,
			Output: `{"images":[{"name":"a","result":"failure"}]}`}, func(t *testing.T, e *Effect) {
			require.Len(t, e.Images, 1)
		}},
		{"no image was pulled", models.StepReply{StepType: models.StepTypeContainerImageAvailability, ExitCode: 1},
			func(t *testing.T, e *Effect) { require.Empty(t, e.Images) }},
		{"Tang could not be checked", models.StepReply{StepType: models.StepTypeTangConnectivityCheck, ExitCode: -1,
			Error: "failed to find action for step"}, func(t *testing.T, e *Effect) {
			require.Equal(t, "failed to find action for step", e.Reports.Tang)
		}},
		{"the boot files could not be fetched", models.StepReply{StepType: models.StepTypeDownloadBootArtifacts,
			ExitCode: 1}, func(t *testing.T, e *Effect) {
			require.True(t, e.BootArtifactsFailed)
			require.Contains(t, e.Failure, "no reason given")
		}},
		{"a step of a newer agent", models.StepReply{StepType: "dance", ExitCode: 1,
			Output: strings.Repeat("long ", 1000)}, func(t *testing.T, e *Effect) {
			require.Less(t, len(e.Failure), 700)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := Apply(&tt.reply, replySituation())
			require.NoError(t, err)
			tt.check(t, e)
		})
	}
}

// misfit is an output that does not match its step, with the expected error.
type misfit struct {
	kind         models.StepType
	output, want string
}

func misfits() []misfit {
	return []misfit{
		{"dance", "", `unknown type "dance"`},
		{models.StepTypeInventory, "", "not valid JSON"},
		{models.StepTypeInventory, "null", "lacks the CPU"},
		{models.StepTypeInventory, `{"cpu":{"count":1},"memory":7}`, "not valid JSON"},
		{models.StepTypeConnectivityCheck, "null", "the output is null"},
		{models.StepTypeConnectivityCheck, "[]", "does not match the model"},
		{models.StepTypeFreeNetworkAddresses, "[]", "no network"},
		{models.StepTypeFreeNetworkAddresses, "[null]", "empty"},
		{models.StepTypeFreeNetworkAddresses, `[{"network":"home"}]`, `"home" is not a network`},
		{models.StepTypeDhcpLeaseAllocate, `{}`, "missing"},
		{models.StepTypeDhcpLeaseAllocate, `{"api_vip_address":"192.168.1.2","ingress_vip_address":"10.0.0.3"}`,
			"not in machine network"},
		{models.StepTypeDhcpLeaseAllocate, `{"api_vip_address":"192.168.1.2","ingress_vip_address":"192.168.1.2"}`,
			"both addresses"},
		{models.StepTypeDhcpLeaseAllocate,
			`{"api_vip_address":"192.168.1.2","ingress_vip_address":"192.168.1.3","api_vip_lease":"rm -rf /"}`,
			"dhclient"},
		{models.StepTypeNtpSynchronizer, "none", "does not match the model"},
		{models.StepTypeDomainResolution, "null", "the output is null"},
		{models.StepTypeVerifyVips, `[null]`, "empty"},
		{models.StepTypeVerifyVips, `[{"vip":"x"}]`, "not an IP address"},
		{models.StepTypeVerifyVips, `[{"vip":"192.168.1.2","vip_type":"api"}]`, "missing"},
		{models.StepTypeVerifyVips, `[{"vip":"192.168.1.2","vip_type":"api","verification":"perhaps"}]`, "unknown"},
		{models.StepTypeVerifyVips, `[{"vip":"192.168.1.2","vip_type":"egress","verification":"failed"}]`, "unknown"},
		{models.StepTypeTangConnectivityCheck, "7", "does not match the model"},
		{models.StepTypeAPIVipConnectivityCheck, "7", "does not match the model"},
		{models.StepTypeInstallationDiskSpeedCheck, `{}`, "path of the disk"},
		{models.StepTypeContainerImageAvailability, `{"images":[{"result":"success"}]}`, "no name"},
		{models.StepTypeContainerImageAvailability, `{"images":[{"name":"a","result":"maybe"}]}`, "unknown"},
		{models.StepTypeUpgradeAgent, "null", "the output is null"},
	}
}

func TestApply_misfit(t *testing.T) {
	for _, tt := range misfits() {
		e, err := Apply(&models.StepReply{StepType: tt.kind, Output: tt.output}, replySituation())
		require.ErrorContains(t, err, tt.want, "%s %s", tt.kind, tt.output)
		require.Nil(t, e)
	}
	_, err := Apply(nil, replySituation())
	require.ErrorContains(t, err, "no reply")

	unbound := replySituation()
	unbound.Cluster = nil
	_, err = Apply(&models.StepReply{StepType: models.StepTypeDhcpLeaseAllocate,
		Output: `{"api_vip_address":"192.168.1.2","ingress_vip_address":"192.168.1.3"}`}, unbound)
	require.ErrorContains(t, err, "does not get its addresses by DHCP")
}

func TestEffectMerge(t *testing.T) {
	e := &Effect{Reports: inventory.Reports{NTPSources: "new"}}
	require.Equal(t, inventory.Reports{Inventory: "kept", NTPSources: "new"},
		e.Merge(inventory.Reports{Inventory: "kept", NTPSources: "old"}))
}

func TestApply_keepsEarlierChecks(t *testing.T) {
	s := replySituation()
	s.Host.Images = map[string]*models.ContainerImageAvailability{"a": {Name: "a"}}
	e, err := Apply(&models.StepReply{StepType: models.StepTypeContainerImageAvailability,
		Output: `{"images":[{"name":"b","result":"success"}]}`}, s)
	require.NoError(t, err)
	require.Contains(t, e.Reports.Images, `"a"`)
	require.Len(t, s.Host.Images, 1, "the given facts do not change")
}

func TestApply_keepsImageMeasurement(t *testing.T) {
	s := replySituation()
	apply := func(output string) *models.ContainerImageAvailability {
		e, err := Apply(&models.StepReply{StepType: models.StepTypeContainerImageAvailability,
			Output: `{"images":[` + output + `]}`}, s)
		require.NoError(t, err)
		s.Host.Images = nil
		require.NoError(t, json.Unmarshal([]byte(e.Reports.Images), &s.Host.Images))
		return s.Host.Images["a"]
	}
	pulled := &models.ContainerImageAvailability{Name: "a", Result: "success", SizeBytes: 333e6, Time: 10,
		DownloadRate: 33.3}
	require.Equal(t, pulled,
		apply(`{"name":"a","result":"success","size_bytes":333000000,"time":10,"download_rate":33.3}`))
	failed := *pulled
	failed.Result = "failure"
	require.Equal(t, &failed, apply(`{"name":"a","result":"failure"}`))
	require.Equal(t, pulled, apply(`{"name":"a","result":"success"}`))
	require.EqualValues(t, 5,
		apply(`{"name":"a","result":"success","size_bytes":333000000,"time":66.6,"download_rate":5}`).DownloadRate,
		"pulled and measured again")
}

func FuzzApply(f *testing.F) {
	for kind := range readers {
		f.Add(string(kind), smallInventory, int64(0))
		f.Add(string(kind), `[null]`, int64(0))
		f.Add(string(kind), `{"remote_hosts":[null],"images":[null],"resolutions":[null],"ntp_sources":[null]}`,
			int64(0))
		f.Add(string(kind), `{"path":"x"}`, int64(1))
	}
	f.Fuzz(func(t *testing.T, kind, output string, code int64) {
		s := replySituation()
		e, err := Apply(&models.StepReply{StepType: models.StepType(kind), Output: output, Error: output,
			ExitCode: code}, s)
		if err != nil && code == 0 {
			require.Nil(t, e)
		}
		if e == nil || err != nil {
			return
		}
		facts, err := inventory.Parse(e.Merge(inventory.Reports{}))
		require.NoError(t, err)
		_, err = json.Marshal(facts)
		require.NoError(t, err)
		in := situation()
		in.Host = inventory.NewHost(s.Host.Record, facts)
		in.Peers = []*inventory.Host{in.Host, machine(peerID, "192.168.1.12")}
		for _, state := range []string{models.HostStatusKnown, models.HostStatusPreparingForInstallation,
			models.HostStatusInstalling} {
			s.Host.Record.Status = &state
			answer, err := For(in)
			require.NotNil(t, answer)
			if err != nil { // without disks or interfaces, some steps cannot be made
				require.NotEmpty(t, err.Error())
			}
		}
	})
}
