package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/ignition"
)

func TestParseFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Faults{
		"":                                     nil,
		"slow-disk":                            {{Kind: SlowDisk}},
		" slow-disk , no-dns,":                 {{Kind: SlowDisk}, {Kind: NoDNS}},
		"clock-skew=-90s":                      {{Kind: ClockSkew, Duration: -90 * time.Second}},
		"lost-link=30s":                        {{Kind: LostLink, Duration: 30 * time.Second}},
		"packet-loss=12.5%":                    {{Kind: PacketLoss, Percent: 12.5}},
		"host=2:slow-disk,small-disk":          {{Kind: SlowDisk, Host: 2}, {Kind: SmallDisk}},
		"fail-at=Rebooting":                    {{Kind: FailAt, Stage: models.HostStageRebooting}},
		"host=1:fail-at=writing-image-to-disk": {{Kind: FailAt, Host: 1, Stage: models.HostStageWritingImageToDisk}},
		"FAIL-AT=waiting for CONTROLLER":       {{Kind: FailAt, Stage: models.HostStageWaitingForController}},
	} {
		faults, err := ParseFaults(text)
		require.NoError(t, err, text)
		require.Equal(t, want, faults, text)
		again, err := ParseFaults(faults.String())
		require.NoError(t, err, text)
		require.Equal(t, want, again, text)
	}
}

// TestFaults_everyKindIsWrittenAsItIsRead reads each kind with an example of its argument.
func TestFaults_everyKindIsWrittenAsItIsRead(t *testing.T) {
	t.Parallel()
	examples := map[string]string{"": "", "DURATION": "=1m30s", "PERCENT": "=12.5", "STAGE": "=Rebooting",
		"NAME": "=cnv"}
	for kind, syntax := range faultSyntaxes() {
		example, ok := examples[syntax.argument]
		require.True(t, ok, "this test lacks an example of the argument %s of %s", syntax.argument, kind)
		text := string(kind) + example
		faults, err := ParseFaults(text)
		require.NoError(t, err, text)
		require.Equal(t, text, faults.String(), "Fault.String omits the argument")
	}
}

func TestParseFaults_errors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"slow-dsk":           `unknown fault "slow-dsk": the faults are clock-skew=DURATION, duplicate-hostname, fail-at=STAGE, `,
		"slow-disk=2":        `fault slow-disk does not take a value, but got "2"`,
		"clock-skew":         `fault clock-skew needs a value: write clock-skew=DURATION`,
		"clock-skew=soon":    `fault clock-skew has an invalid value: "soon" is not a duration such as 90s or 5m`,
		"lost-link=-1s":      `fault lost-link has an invalid value: "-1s" is negative`,
		"packet-loss=101":    `fault packet-loss has an invalid value: "101" is not a percentage between 0 and 100`,
		"fail-at=Lunch":      `fault fail-at has an invalid value: "Lunch" is not a stage of an installation; the stages are Starting installation, `,
		"host=two:slow-disk": `fault "host=two:slow-disk" does not name its host: write host=N:FAULT with N from 1`,
		"host=0:slow-disk":   `does not name its host`,
		"host=2":             `does not name its host`,
	} {
		_, err := ParseFaults(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestFaults_faultOfOneHostComesFirst(t *testing.T) {
	t.Parallel()
	faults, err := ParseFaults("clock-skew=1m,host=2:clock-skew=2m")
	require.NoError(t, err)
	all, has := faults.find(ClockSkew, 1)
	require.True(t, has)
	require.Equal(t, time.Minute, all.Duration)
	one, _ := faults.find(ClockSkew, 2)
	require.Equal(t, 2*time.Minute, one.Duration)
	_, has = faults.find(SlowDisk, 2)
	require.False(t, has)
}

func FuzzParseFaults(f *testing.F) {
	f.Add("slow-disk,host=2:clock-skew=90s,fail-at=Rebooting,packet-loss=5")
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := ParseFaults(text)
		if err != nil {
			return
		}
		again, err := ParseFaults(faults.String())
		require.NoError(t, err)
		require.Equal(t, faults, again)
	})
}

// booted returns host n of a group of two hosts with these faults. The host runs an image with an
// empty config, without an appliance.
func booted(t *testing.T, n int, faults string) *system {
	t.Helper()
	parsed, err := ParseFaults(faults)
	require.NoError(t, err)
	group := &HostGroup{URL: "http://127.0.0.1:1", InfraEnvID: "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", Count: 2,
		Speed:  1e6,
		Faults: parsed}
	require.NoError(t, group.prepare())
	hosts, err := group.newHosts()
	require.NoError(t, err)
	return &system{host: hosts[n-1], media: &media{config: &ignition.Discovered{}}, up: t.Context(),
		power: func(error) {}}
}

// run executes a step that must succeed, and decodes its output.
func run[T any](t *testing.T, s *system, kind models.StepType, args ...string) T {
	t.Helper()
	out := s.perform(t.Context(), stepOf(kind, args...))
	require.Zero(t, out.code, out.errorText)
	var response T
	require.NoError(t, json.Unmarshal([]byte(out.output), &response))
	if checked, ok := any(&response).(arguments); ok {
		require.NoError(t, checked.Validate(strfmt.Default))
	}
	return response
}

func TestFaults_inReports(t *testing.T) {
	t.Parallel()
	images := serveImages(t, "agent")
	inventory := func(s *system) models.Inventory {
		return run[models.Inventory](t, s, models.StepTypeInventory, string(s.ref.host))
	}
	for faults, shows := range map[string]func(s *system) bool{
		"small-disk": func(s *system) bool {
			i := inventory(s)
			return len(i.Disks) == 2 && i.Disks[1].SizeBytes == 20_000_000_000
		},
		"low-memory":         func(s *system) bool { return inventory(s).Memory.PhysicalBytes == 4<<30 },
		"slow-cpu":           func(s *system) bool { c := inventory(s).CPU; return c.Count == 1 && c.Frequency == 800 },
		"duplicate-hostname": func(s *system) bool { return inventory(s).Hostname == "host-1" },
		"slow-disk": func(s *system) bool {
			return run[models.DiskSpeedCheckResponse](t, s, models.StepTypeInstallationDiskSpeedCheck,
				`{"path":"/dev/nvme0n1"}`, "480").IoSyncDuration > 10
		},
		"no-ntp": func(s *system) bool {
			r := run[models.NtpSynchronizationResponse](t, s, models.StepTypeNtpSynchronizer, `{"ntp_source":""}`)
			return r.NtpSources[0].SourceState == models.SourceStateUnreachable
		},
		"no-dns": func(s *system) bool {
			r := run[models.DomainResolutionResponse](t, s, models.StepTypeDomainResolution,
				`{"domains":[{"domain_name":"api.demo.example.com"}]}`)
			return len(r.Resolutions[0].IPV4Addresses) == 0
		},
		"no-image": func(s *system) bool {
			out := s.perform(t.Context(), stepOf(models.StepTypeContainerImageAvailability,
				`{"images":["`+images[0]+`"],"timeout":60}`))
			return out.code == exitNoImage && strings.Contains(out.output, `"result":"failure"`)
		},
		"isolated":        func(s *system) bool { return !connectivity(t, s).L3Connectivity[0].Successful },
		"host=1:isolated": func(s *system) bool { return !connectivity(t, s).L2Connectivity[0].Successful },
		"packet-loss=20": func(s *system) bool {
			return connectivity(t,
				s).L3Connectivity[0].PacketLossPercentage == 20
		},
		"high-latency=2s": func(s *system) bool { return connectivity(t, s).L3Connectivity[0].AverageRTTMs == 2000 },
		"clock-skew=90s":  func(s *system) bool { return time.Until(s.now()) > 80*time.Second },
	} {
		require.True(t, shows(booted(t, 2, faults)), faults)
		require.False(t, shows(booted(t, 2, "")), "without %s", faults)
	}
}

// connectivity returns a host's report about the group's first host.
func connectivity(t *testing.T, s *system) *models.ConnectivityRemoteHost {
	t.Helper()
	first := booted(t, 1, "")
	request := fmt.Sprintf(`[{"host_id":%q,"nics":[{"name":"eno1","mac":%q,"ip_addresses":[%q]}]}]`,
		first.ref.host, first.machine.nics[0].mac, first.machine.address.Addr())
	return run[models.ConnectivityReport](t, s, models.StepTypeConnectivityCheck, request).RemoteHosts[0]
}

func TestAgent_stepReplies(t *testing.T) {
	t.Parallel()
	s := booted(t, 2, "")
	free := run[models.FreeNetworksAddresses](t, s, models.StepTypeFreeNetworkAddresses, `["192.168.100.0/24"]`)
	require.Len(t, free[0].FreeAddresses, 253, "all but the gateway and the two hosts")
	require.NotContains(t, free[0].FreeAddresses, strfmt.IPv4("192.168.100.11"))

	vips := run[models.VerifyVipsResponse](t, s, models.StepTypeVerifyVips,
		`[{"vip":"192.168.100.10","vip_type":"api"},{"vip":"192.168.100.200","vip_type":"ingress"}]`)
	require.Equal(t, models.VipVerificationFailed, *vips[0].Verification, "the first host has that address")
	require.Equal(t, models.VipVerificationSucceeded, *vips[1].Verification)

	names := run[models.DomainResolutionResponse](t, s, models.StepTypeDomainResolution,
		`{"domains":[{"domain_name":"console-openshift-console.apps.demo.example.com"},{"domain_name":"validateNoWildcardDNS.demo.example.com."}]}`)
	require.Equal(t, []strfmt.IPv4{"192.168.100.200"}, names.Resolutions[0].IPV4Addresses)
	require.Empty(t, names.Resolutions[1].IPV4Addresses)

	mac := `"api_vip_mac":"00:1a:4a:00:00:01","ingress_vip_mac":"00:1a:4a:00:00:02"`
	leases := run[models.DhcpAllocationResponse](t, s, models.StepTypeDhcpLeaseAllocate, `{"interface":"eno1",`+mac+`}`)
	require.NotEqual(t, *leases.APIVipAddress, *leases.IngressVipAddress)
	require.Equal(t, leases, run[models.DhcpAllocationResponse](t, s, models.StepTypeDhcpLeaseAllocate,
		`{"interface":"eno1",`+mac+`}`))

	tang := run[models.TangConnectivityResponse](t, s, models.StepTypeTangConnectivityCheck,
		`{"tang_servers":"[{\"url\":\"http://tang.example.com:7500\",\"thumbprint\":\"abc\"}]"}`)
	require.True(t, tang.IsSuccess)
	require.True(t, run[models.APIVipConnectivityResponse](t, s, models.StepTypeAPIVipConnectivityCheck,
		`{"url":"http://192.168.100.200:22624/config/worker"}`).IsSuccess)
}

func TestAgent_invalidArguments(t *testing.T) {
	t.Parallel()
	s := booted(t, 1, "")
	for _, step := range []*models.Step{
		stepOf("no-such-step"),
		stepOf(models.StepTypeInventory),
		stepOf(models.StepTypeInventory, "host-1"),
		stepOf(models.StepTypeConnectivityCheck, "{"),
		stepOf(models.StepTypeFreeNetworkAddresses, `["192.168.100.1/24"]`),
		stepOf(models.StepTypeFreeNetworkAddresses, `["fd00::/64"]`),
		stepOf(models.StepTypeNtpSynchronizer, `{}`),
		stepOf(models.StepTypeDomainResolution, `{"domains":[{}]}`),
		stepOf(models.StepTypeVerifyVips, `[{"vip_type":"nothing"}]`),
		stepOf(models.StepTypeDhcpLeaseAllocate,
			`{"interface":"eth9","api_vip_mac":"00:1a:4a:00:00:01","ingress_vip_mac":"00:1a:4a:00:00:02"}`),
		stepOf(models.StepTypeInstallationDiskSpeedCheck, `{"path":"/dev/nvme0n1"}`),
		stepOf(models.StepTypeInstallationDiskSpeedCheck, `{"path":"/dev/nvme0n1"}`, "soon"),
		stepOf(models.StepTypeInstallationDiskSpeedCheck, `{"path":"/dev/sdz"}`, "480"),
		stepOf(models.StepTypeContainerImageAvailability, `[]`),
		stepOf(models.StepTypeTangConnectivityCheck, `{"tang_servers":"[{}]"}`),
		stepOf(models.StepTypeLogsGather, `{}`),
		stepOf(models.StepTypeInstall, `{}`),
		stepOf(models.StepTypeStopInstallation, "now"),
		stepOf(models.StepTypeUpgradeAgent),
		stepOf(models.StepTypeDownloadBootArtifacts, `{}`),
		stepOf(models.StepTypeRebootForReclaim, `{}`),
	} {
		out := s.perform(t.Context(), step)
		require.EqualValues(t, exitFailed, out.code, "%s %q", step.StepType, step.Args)
		require.NotEmpty(t, out.errorText, "%s %q", step.StepType, step.Args)
	}
}

func TestFaults_duringInstallation(t *testing.T) {
	t.Parallel()
	for _, faults := range []string{"register-twice", "lost-link=30s", "wrong-boot-order", "clock-skew=90s"} {
		t.Run(faults, func(t *testing.T) {
			t.Parallel()
			a := newAppliance(t)
			a.expect = 1
			group := a.group(1)
			var err error
			group.Faults, err = ParseFaults(faults)
			require.NoError(t, err)
			require.NoError(t, group.Run(testContext(t)))
			id := a.order[0]
			registrations := 1
			switch faults {
			case "register-twice", "wrong-boot-order":
				registrations = 2
			case "clock-skew=90s":
				require.Greater(t, a.timestamps[id], time.Now().Unix()+60)
			}
			require.Equal(t, registrations, a.registrations[id])
		})
	}
}

func TestFaults_lostLink(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect = 1
	group := a.group(1)
	group.Speed = 1000
	group.Faults = Faults{{Kind: LostLink, Duration: 20 * time.Minute}}
	ctx, stop := context.WithCancel(testContext(t))
	var mu sync.Mutex
	var polls []time.Time
	a.refuse = func(r *http.Request) int {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/instructions") {
			mu.Lock()
			defer mu.Unlock()
			polls = append(polls, time.Now())
		}
		return 0
	}
	var log bytes.Buffer
	group.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	group.Observer = func(e Event) {
		if e.Kind == EventStage {
			stop()
		}
	}
	require.ErrorIs(t, group.Run(ctx), context.Canceled)
	require.Len(t, group.hosts, 1)
	for _, h := range group.hosts {
		up := h.link.cutTil
		down := up.Add(-group.scaled(20 * time.Minute))
		during := slices.DeleteFunc(slices.Clone(polls), func(at time.Time) bool {
			return at.Before(down) ||
				!at.Before(up)
		})
		require.LessOrEqual(t, len(during), 1,
			"while the link is cut, the appliance receives only requests that were already sent")
		require.Contains(t, log.String(), errLinkDown.Error())
		require.True(t, polls[len(polls)-1].After(up), "the link works again")
	}
}

func TestAgent_lostMediaExitCode(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect = 1
	a.extraSteps = map[string][]*models.Step{models.HostStatusInstallingInProgress: {stepOf(models.StepTypeVerifyVips,
		`[]`)}}
	group := a.group(1)
	group.Faults = Faults{{Kind: LostMedia}}
	ctx, stop := context.WithCancel(testContext(t))
	a.onReply = func(_ string, reply models.StepReply) {
		if reply.ExitCode == exitLostMedia {
			stop()
		}
	}
	a.afterStage = func(h *models.Host) {
		// stop the installation while the host still polls
		h.Status = conv.Pointer(models.HostStatusInstallingInProgress)
	}
	group.Speed = 500
	require.ErrorIs(t, group.Run(ctx), context.Canceled)
}

func TestAgent_upgradeRegistersAgain(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.extraSteps = map[string][]*models.Step{
		models.HostStatusKnown: {stepOf(models.StepTypeUpgradeAgent, `{"agent_image":"`+a.images[1]+`"}`)},
	}
	ctx, stop := context.WithCancel(testContext(t))
	group := a.group(1)
	registered := 0
	group.Observer = func(e Event) {
		if e.Kind == EventRegistered {
			if registered++; registered == 2 {
				stop()
			}
		}
	}
	require.ErrorIs(t, group.Run(ctx), context.Canceled)
	var response models.UpgradeAgentResponse
	for _, reply := range a.replies[a.order[0]] {
		if reply.StepType == models.StepTypeUpgradeAgent {
			require.NoError(t, json.Unmarshal([]byte(reply.Output), &response))
		}
	}
	require.Equal(t, models.UpgradeAgentResponse{AgentImage: a.images[1], Result: models.UpgradeAgentResultSuccess},
		response)
}

func TestHost_reclaimReboot(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	base := a.server.URL + "/images/full.iso"
	a.extraSteps = map[string][]*models.Step{
		models.HostStatusKnown: {stepOf(models.StepTypeDownloadBootArtifacts,
			fmt.Sprintf(`{"host_fs_mount_dir":"/host","initrd_url":%q,"kernel_url":%q,"rootfs_url":%q}`, base,
				base, base))},
		models.HostStatusReclaimingRebooting: {stepOf(models.StepTypeRebootForReclaim,
			`{"host_fs_mount_dir":"/host"}`)},
	}
	a.exitIn = map[string]bool{models.HostStatusReclaimingRebooting: true}
	a.onReply = func(id string, reply models.StepReply) {
		if reply.StepType == models.StepTypeDownloadBootArtifacts && reply.ExitCode == 0 {
			a.hosts[strfmt.UUID(id)].Status = conv.Pointer(models.HostStatusReclaimingRebooting)
		}
	}
	ctx, stop := context.WithCancel(testContext(t))
	group := a.group(1)
	boots := 0
	group.Observer = func(e Event) {
		if e.Kind == EventBooted {
			if boots++; boots == 2 {
				stop()
			}
		}
	}
	require.ErrorIs(t, group.Run(ctx), context.Canceled)
	require.Equal(t, 2, boots)
}
