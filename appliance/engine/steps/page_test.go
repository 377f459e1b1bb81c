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

var updatePage = flag.Bool("update", false, "write docs/steps.md anew")

// explained holds the explanation of a step that the tables and the tests can't give.
type explained struct{ sent, reply string }

func explanations() map[models.StepType]explained {
	return map[models.StepType]explained{
		models.StepTypeInventory: {
			"always",
			"`Inventory` is kept without what the model does not know, its disks judged; the installation disk is " +
				"the one chosen before, else the best; hosts and cluster are validated",
		},
		models.StepTypeConnectivityCheck: {
			"while another host of the cluster is there with an inventory",
			"`ConnectivityReport` is kept; the majority groups, MTU, latency and packet loss follow from it",
		},
		models.StepTypeFreeNetworkAddresses: {
			"while the host has an IPv4 network of at most 1024 addresses",
			"`FreeNetworksAddresses` is kept; what is not free cannot become a VIP",
		},
		models.StepTypeDhcpLeaseAllocate: {
			"while the cluster gets its VIPs by DHCP and has a machine network that the host is in; the MAC " +
				"addresses are made of the cluster's id, and the leases that there are go along",
			"`DhcpAllocationResponse` sets both VIPs and leases, when both lie in the machine network, differ, and " +
				"the leases are dhclient's",
		},
		models.StepTypeNtpSynchronizer: {
			"always, with the cluster's NTP sources, else the infra-env's",
			"`NtpSynchronizationResponse` is kept; it only warns",
		},
		models.StepTypeDomainResolution: {
			"while the cluster has a base domain: api, api-int, an application, and a name that nobody has, with and " +
				"without a dot",
			"`DomainResolutionResponse` is kept",
		},
		models.StepTypeVerifyVips: {
			"while the cluster has VIPs of its own",
			"`VerifyVipsResponse`: the outcome is noted at each VIP it names",
		},
		models.StepTypeTangConnectivityCheck: {
			"while the host's disk will be unlocked by Tang: as the cluster is described, or as the ignition config " +
				"says that a joining host has got",
			"`TangConnectivityResponse` is kept; when the step failed, its error is",
		},
		models.StepTypeAPIVipConnectivityCheck: {
			"to hosts that join, once the cluster's address or ignition endpoint is known; with its CA, token and " +
				"headers",
			"`APIVipConnectivityResponse` is kept, with the ignition config that the host gets",
		},
		models.StepTypeInstallationDiskSpeedCheck: {
			"until the installation disk was measured; never where partitions are to be kept or the host runs from " +
				"the disk. A second argument is the time-out in seconds",
			"`DiskSpeedCheckResponse` is kept; slower than the role's limit is told, a failure makes the host " +
				"insufficient until another disk is chosen. An empty output means that it is still running",
		},
		models.StepTypeContainerImageAvailability: {
			"for the images of the installation that were not tried; for all, in another order, from the second " +
				"attempt on, because an agent does not repeat an answer",
			"`ContainerImageAvailabilityResponse` is added to what is known; what was pulled before a failure " +
				"counts. An empty output means that it is still running",
		},
		models.StepTypeInstall: {
			"once all is there that the agent and the installer need; `docs/compatibility.md` and `install_test.go` " +
				"say what it carries",
			"nothing is said by an output; a failure fails the host, unless the installer was found running",
		},
		models.StepTypeLogsGather: {
			"until the logs have come; the bootstrap host fetches those of the other control-plane hosts",
			"nothing; the logs come by their own upload",
		},
		models.StepTypeStopInstallation: {"always", "nothing"},
		models.StepTypeUpgradeAgent: {
			"alone, in place of all others, while the agent is of another image and nothing is being installed",
			"`UpgradeAgentResponse`: a failure is told; the agent that starts registers anew",
		},
		models.StepTypeDownloadBootArtifacts: {
			"always, with the URLs of kernel, initrd and root file system",
			"any output: the host restarts next; a failure leaves the restart to a person",
		},
		models.StepTypeRebootForReclaim: {"always; the agent ends itself after it",
			"nothing; a failure leaves the restart to a person"},
	}
}

func stepsPage(t *testing.T) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# What agents are told to do, and what their answers do\n")
	line("Generated from the tables of `appliance/engine/steps` and its tests by `make docs`; do not edit. A host " +
		"that asks gets the steps of its state, which its agent runs side by side, " +
		"and is told when to ask again. A step's arguments are checked against the request's model as the agent " +
		"checks them (`TestFor_stepsOfEachState`).\n")
	line("## Steps by state\n")
	for _, table := range []struct {
		title string
		plans map[string]plan
	}{{"Hosts of a cluster that is not installed yet", dayOne}, {"Hosts that join an installed cluster", dayTwo},
		{"Hosts of no cluster", unbound}} {
		line("### %s\n", table.title)
		line("| state | asks again after | steps |\n|---|---|---|")
		for _, state := range slices.Sorted(maps.Keys(table.plans)) {
			p := table.plans[state]
			in := situation()
			in.Host.Record.Status = &state
			switch table.title {
			case "Hosts that join an installed cluster":
				in.Host.Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
				in.Host.APIConnectivity = &models.APIVipConnectivityResponse{
					Ignition: `{"storage":{"luks":[{"clevis":{"tang":[{"url":"http://tang"}]}}]}}`}
			case "Hosts of no cluster":
				in.Cluster = nil
			}
			answer, err := For(in)
			require.NoError(t, err)
			require.Len(t, answer.Instructions, len(p.makers), "%s %s: a step of the table was left out", table.title,
				state)
			var kinds []string
			for _, step := range answer.Instructions {
				kinds = append(kinds, string(step.StepType))
			}
			again := fmt.Sprintf("%d s", p.seconds)
			if p.exit {
				again += ", the agent starts anew"
			}
			line("| %s | %s | %s |", state, again, orNone(strings.Join(kinds, ", ")))
		}
		line("")
	}
	line("Any other state has no steps; the host asks again after %d s.\n", pollSeconds)
	line("## The steps\n")
	said := explanations()
	for _, kind := range slices.Sorted(maps.Keys(said)) {
		line("### %s\n", kind)
		line("- Sent: %s.", said[kind].sent)
		line("- Its answer: %s.", said[kind].reply)
		for _, m := range misfits() {
			if m.kind == kind {
				_, err := Apply(&models.StepReply{StepType: kind, Output: m.output}, heard())
				require.Error(t, err)
				line("- `%s` is refused: %s.", orNone(m.output), strings.TrimPrefix(err.Error(),
					"the agent's reply to step "+string(kind)+" cannot be used: "))
			}
		}
		line("")
	}
	line("Beyond these: an answer that the schema does not fit, or to a step of an unknown type, is 400; an exit " +
		"code other than 0 is an event with what the step said, and 256 means that the " +
		"discovery image is lost. An answer to a step that was never sent, that comes twice, late, or from before a " +
		"restart changes no state (`TestStepReply_unsolicitedChangesNothing`, " +
		"`TestReply_withoutNewsWritesNothing`).")
	return b.String()
}

func orNone(text string) string {
	if text == "" {
		return "—"
	}
	return text
}

// TestStepsPage_isUpToDate fails if docs/steps.md differs from the tables or lacks the explanation
// of a step. `make docs` writes the page.
func TestStepsPage_isUpToDate(t *testing.T) {
	said := explanations()
	for kind := range readers {
		_, ok := said[kind]
		require.Equal(t, kind != models.StepTypeNextStepRunner && kind != models.StepTypeExecute, ok,
			"%s is explained where it is sent, and nowhere else", kind)
	}
	page := stepsPage(t)
	for kind := range said {
		require.True(t, kind == models.StepTypeUpgradeAgent ||
			strings.Contains(page[:strings.Index(page, "## The steps")], string(kind)), "%s is sent in no state", kind)
	}
	pagetest.Compare(t, "steps.md", page, *updatePage)
}
