package steps

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/pagetest"
)

var updatePage = flag.Bool("update", false, "write docs/steps.md from the tables")

// explanation explains a step: when it is sent, and the effect of its reply.
type explanation struct{ sent, reply string }

func explanations() map[models.StepType]explanation {
	return map[models.StepType]explanation{
		models.StepTypeInventory: {
			"always",
			"`Inventory` is stored, with validated disks and without fields that the model lacks. The selected " +
				"installation disk is kept if it is eligible; otherwise the best disk is selected. The host and its " +
				"cluster are validated",
		},
		models.StepTypeConnectivityCheck: {
			"if another host of the cluster has an inventory",
			"`ConnectivityReport` is stored. It determines the majority groups and the results for MTU, latency and " +
				"packet loss",
		},
		models.StepTypeFreeNetworkAddresses: {
			"if the host has an IPv4 network of at most 1024 addresses",
			"`FreeNetworksAddresses` is stored. Only free addresses can become VIPs",
		},
		models.StepTypeDhcpLeaseAllocate: {
			"if the cluster gets its VIPs by DHCP and the host is in its machine network. The step has MAC addresses " +
				"that follow from the cluster's id, and the present leases",
			"`DhcpAllocationResponse` sets both VIPs and leases. The VIPs must differ and be in the machine network, " +
				"and the leases must have the format of dhclient",
		},
		models.StepTypeNtpSynchronizer: {
			"always, with the NTP sources of the cluster, or else of the infra-env",
			"`NtpSynchronizationResponse` is stored. Its validation only warns",
		},
		models.StepTypeDomainResolution: {
			"if the cluster has a base domain, with the names api, api-int, an application, and a missing name with " +
				"and without a final dot",
			"`DomainResolutionResponse` is stored",
		},
		models.StepTypeVerifyVips: {
			"if the cluster manages its own VIPs",
			"`VerifyVipsResponse`: the result is stored with each VIP",
		},
		models.StepTypeTangConnectivityCheck: {
			"if Tang servers unlock the host's disk, according to the cluster's description or to the ignition " +
				"config of a joining host",
			"`TangConnectivityResponse` is stored. If the step failed, its error is stored",
		},
		models.StepTypeAPIVipConnectivityCheck: {
			"to joining hosts, when the cluster's address or ignition endpoint is known, with its CA, token and " +
				"headers",
			"`APIVipConnectivityResponse` is stored, with the downloaded ignition config",
		},
		models.StepTypeInstallationDiskSpeedCheck: {
			"until the installation disk was measured, but never if partitions must be kept or the host runs from " +
				"the disk. The second argument is the time-out in seconds",
			"`DiskSpeedCheckResponse` is stored. A disk slower than the role's limit causes an event. A failure " +
				"makes the host insufficient until another disk is selected. An empty output means that the " +
				"measurement is still running",
		},
		models.StepTypeContainerImageAvailability: {
			"for the images of the installation that the host has not pulled yet. From the second attempt on it has " +
				"all images in another order, because an agent does not repeat an equal reply",
			"`ContainerImageAvailabilityResponse` is added to the stored results, including the images that were " +
				"pulled before a failure. An empty output means that the check is still running",
		},
		models.StepTypeInstall: {
			"when all input for the agent and the installer is available; see `docs/compatibility.md` and " +
				"`install_test.go` for the arguments",
			"the output is ignored. After a failure the host is in error, unless the installer is already running",
		},
		models.StepTypeLogsGather: {
			"until the logs have arrived. The bootstrap host also collects the logs of the other control-plane hosts",
			"ignored; the logs are uploaded separately",
		},
		models.StepTypeStopInstallation: {"always", "ignored"},
		models.StepTypeUpgradeAgent: {
			"as the only step, if the agent has another image and no installation is in progress",
			"`UpgradeAgentResponse`: a failure causes an event. The new agent registers again",
		},
		models.StepTypeDownloadBootArtifacts: {
			"always, with the URLs of kernel, initrd and root file system",
			"after any output the host restarts. After a failure, a user must restart the host",
		},
		models.StepTypeRebootForReclaim: {"always; the agent stops after it",
			"ignored. After a failure, a user must restart the host"},
	}
}

func stepsPage(t *testing.T) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# The steps of agents and their replies\n")
	line("Generated from the tables of `appliance/engine/steps` and its tests by `make docs`; do not edit. An agent " +
		"polls for the steps of its host's state and runs them in parallel. The response also has the interval to " +
		"the next poll. `TestFor_stepsOfEachState` checks the arguments of each step against the model of the " +
		"request, as the agent does.\n")
	line("## Steps by state\n")
	for _, table := range []struct {
		title string
		plans map[string]plan
	}{{"Hosts of a cluster before its installation", dayOne}, {"Hosts that join an installed cluster", dayTwo},
		{"Hosts without a cluster", unbound}} {
		line("### %s\n", table.title)
		line("| state | next poll after | steps |\n|---|---|---|")
		for _, state := range slices.Sorted(maps.Keys(table.plans)) {
			p := table.plans[state]
			in := situation()
			in.Host.Record.Status = &state
			switch table.title {
			case "Hosts that join an installed cluster":
				in.Host.Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
				in.Host.APIConnectivity = &models.APIVipConnectivityResponse{
					Ignition: `{"storage":{"luks":[{"clevis":{"tang":[{"url":"http://tang"}]}}]}}`}
			case "Hosts without a cluster":
				in.Cluster = nil
			}
			answer, err := For(in)
			require.NoError(t, err)
			require.Len(t, answer.Instructions, len(p.makers), "%s %s: a step of the table is missing", table.title,
				state)
			var kinds []string
			for _, step := range answer.Instructions {
				kinds = append(kinds, string(step.StepType))
			}
			again := fmt.Sprintf("%d s", p.seconds)
			if p.exit {
				again += ", the agent restarts"
			}
			line("| %s | %s | %s |", state, again, orNone(strings.Join(kinds, ", ")))
		}
		line("")
	}
	line("Other states have no steps; the next poll is after %d s.\n", pollSeconds)
	line("## The steps\n")
	explanations := explanations()
	for _, kind := range slices.Sorted(maps.Keys(explanations)) {
		line("### %s\n", kind)
		line("- Sent: %s.", explanations[kind].sent)
		line("- Reply: %s.", explanations[kind].reply)
		for _, m := range misfits() {
			if m.kind == kind {
				_, err := Apply(&models.StepReply{StepType: kind, Output: m.output}, replySituation())
				require.Error(t, err)
				line("- `%s` is rejected: %s.", orNone(m.output), strings.TrimPrefix(err.Error(),
					"the agent's reply to step "+string(kind)+" cannot be used: "))
			}
		}
		line("")
	}
	line("A reply that does not match the schema, or that is for a step of an unknown type, is rejected with status " +
		"400. An exit code other than 0 causes an event with the output of the step. The exit code 256 means that " +
		"the agent can no longer read the discovery image. Unsolicited, repeated and late replies, and replies from " +
		"before a restart, change no state (`TestStepReply_unsolicitedChangesNothing`, " +
		"`TestReply_repeatedFactsWriteNothing`). An inventory that arrives while the host is being prepared or " +
		"installed is not stored (`TestLateInventory_changesNothingOnceTheHostIsPrepared`). If it shows that a " +
		"host that is being prepared has lost its installation disk, the host becomes insufficient, and the " +
		"preparation ends (`TestLateInventory_lostDiskEndsPreparation`).")
	return b.String()
}

func orNone(text string) string {
	if text == "" {
		return "—"
	}
	return text
}

// TestStepsPage_isUpToDate fails if docs/steps.md differs from the tables, or lacks a step. `make
// docs` writes the page.
func TestStepsPage_isUpToDate(t *testing.T) {
	explanations := explanations()
	for kind := range readers {
		_, ok := explanations[kind]
		require.Equal(t, kind != models.StepTypeNextStepRunner && kind != models.StepTypeExecute, ok,
			"%s must be explained if, and only if, it is sent", kind)
	}
	page := stepsPage(t)
	for kind := range explanations {
		require.True(t, kind == models.StepTypeUpgradeAgent ||
			strings.Contains(page[:strings.Index(page, "## The steps")], string(kind)), "%s is sent in no state", kind)
	}
	pagetest.Compare(t, "steps.md", page, *updatePage)
}
