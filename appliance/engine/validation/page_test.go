package validation

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/pagetest"
)

var updatePage = flag.Bool("update", false, "write docs/validations.md from the validations")

// message is a message of a validation with its status and the input that led to it.
type message struct {
	status Status
	when   string
	text   string
}

// messages maps the ids of validations to their messages.
type messages map[ID][]message

func (m messages) add(r Result, when string) {
	same := func(other message) bool { return other.status == r.Status && other.text == r.Message }
	if !slices.ContainsFunc(m[r.ID], same) {
		m[r.ID] = append(m[r.ID], message{r.Status, when, r.Message})
	}
}

// validInputs lists valid clusters whose validations pass for different reasons.
func validInputs() []struct {
	name    string
	prepare func(*threeNodes)
} {
	return []struct {
		name    string
		prepare func(*threeNodes)
	}{
		{"valid input", func(*threeNodes) {}},
		{"user-managed networking", (*threeNodes).userManaged},
		{"a single node", (*threeNodes).singleNode},
		{"a host that joins an installed cluster", func(n *threeNodes) {
			n.cluster.Kind, n.cluster.Status = ptr(models.ClusterKindAddHostsCluster),
				ptr(models.ClusterStatusAddingHosts)
			n.hosts[0].Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
			n.hosts[0].APIConnectivity = &models.APIVipConnectivityResponse{IsSuccess: true}
		}},
		{"all operators selected", func(n *threeNodes) {
			for _, op := range operatorTable() {
				n.cluster.MonitoredOperators = append(n.cluster.MonitoredOperators,
					&models.MonitoredOperator{Name: op.names[0]})
			}
			n.cluster.SchedulableMastersForcedTrue, n.cluster.OpenshiftVersion = ptr(true), "4.20.8"
			inv := n.hosts[0].Inventory
			inv.CPU.Count, inv.Memory.PhysicalBytes, inv.Memory.UsableBytes = 256, 1<<40, 1<<40
			inv.Disks = append(inv.Disks, &models.Disk{ID: "b", Name: "sdb", DriveType: models.DriveTypeSSD,
				SizeBytes: 960e9})
			inv.Gpus = []*models.Gpu{{VendorID: "10de"}, {VendorID: "1002"}}
		}},
		{"encrypted disks", func(n *threeNodes) {
			n.cluster.DiskEncryption = &models.DiskEncryption{EnableOn: ptr("all"),
				Mode: ptr(models.DiskEncryptionModeTpmv2)}
		}},
	}
}

func hostMessages() messages {
	found := messages{}
	for _, s := range validInputs() {
		n := newThreeNodes()
		s.prepare(n)
		for _, r := range Host(n.input()).Results() {
			found.add(r, s.name)
		}
	}
	n := newThreeNodes()
	n.hosts[0].Facts = &inventory.Facts{}
	in := n.input()
	in.Groups = nil
	for _, r := range Host(in).Results() {
		found.add(r, "a host without reports")
	}
	in = newThreeNodes().input()
	in.Cluster, in.Peers, in.Groups = nil, nil, nil
	for _, r := range Host(in).Results() {
		found.add(r, "a host without a cluster")
	}
	for _, f := range hostFaults() {
		n := newThreeNodes()
		in := n.input()
		f.change(n, &in)
		r, _ := Host(in).Result(f.id)
		found.add(r, f.name)
	}
	return found
}

func clusterMessages() messages {
	found := messages{}
	for _, s := range validInputs() {
		n := newThreeNodes()
		s.prepare(n)
		for _, r := range Cluster(n.clusterInput()).Results() {
			found.add(r, s.name)
		}
	}
	for _, r := range Cluster(ClusterInput{Cluster: &models.Cluster{}, Requirements: DefaultRequirements("")}).
		Results() {
		found.add(r, "an empty cluster")
	}
	for _, f := range clusterFaults() {
		n := newThreeNodes()
		in := n.clusterInput()
		f.change(n, &in)
		r, _ := Cluster(in).Result(f.id)
		found.add(r, f.name)
	}
	return found
}

func validationsPage(hosts, clusters messages) string {
	var b strings.Builder
	b.WriteString("# The validations of hosts and clusters\n\n" +
		"Generated from the test inputs of `appliance/engine/validation` by `make docs`; do not edit. The page lists " +
		"every validation of the API, with all messages that the tests produce. The message of a validation that a " +
		"site has disabled is \"" + disabledMessage + "\"\n\n" +
		"The package comment describes which validations block an installation. Validations marked *warns* never " +
		"block it. Validations marked *vital* can't be ignored.\n")
	for _, part := range []struct {
		title string
		found messages
		vital []ID
		warn  []ID
	}{{"Hosts", hosts, NeverIgnoredForHosts(), advisory[:]}, {"Clusters", clusters, NeverIgnoredForClusters(), nil}} {
		fmt.Fprintf(&b, "\n## %s\n", part.title)
		for _, id := range slices.Sorted(maps.Keys(part.found)) {
			mark := ""
			switch {
			case slices.Contains(part.vital, id):
				mark = " (*vital*)"
			case slices.Contains(part.warn, id):
				mark = " (*warns*)"
			}
			fmt.Fprintf(&b, "\n### %s%s\n\n| status | input | message |\n|---|---|---|\n", id, mark)
			list := slices.Clone(part.found[id])
			slices.SortStableFunc(list, func(x, y message) int {
				return slices.Index(statuses, x.status) - slices.Index(statuses, y.status)
			})
			for _, m := range list {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", m.status, m.when, strings.ReplaceAll(m.text, "|", "\\|"))
			}
		}
	}
	return b.String()
}

var statuses = []Status{Failure, Pending, Error, Success, Disabled}

// TestValidationsPage_isUpToDate compares docs/validations.md with the messages for all inputs of
// the tests. The message of a failed validation must name the problem and the remedy.
func TestValidationsPage_isUpToDate(t *testing.T) {
	hosts, clusters := hostMessages(), clusterMessages()
	for kind, found := range map[string]messages{"host": hosts, "cluster": clusters} {
		ids := strings.Fields(map[string]string{"host": everyHostID, "cluster": everyClusterID}[kind])
		require.Len(t, found, len(ids), "the list of every %s ID has other validations than the code", kind)
		for _, id := range ids {
			require.True(t, slices.ContainsFunc(found[ID(id)], func(m message) bool { return m.status == Success }),
				"%s %s never passes", kind, id)
			for _, m := range found[ID(id)] {
				requireSentence(t, Result{ID(id), m.status, m.text})
				if m.status == Failure || m.status == Error {
					parts := strings.FieldsFunc(strings.ReplaceAll(m.text, ". ", ";"),
						func(r rune) bool { return r == ';' || r == ',' || r == ':' })
					require.Greater(t, len(parts), 1, "the message of %s %s names no remedy: %s", kind, id, m.text)
				}
			}
		}
	}
	pagetest.Compare(t, "validations.md", validationsPage(hosts, clusters), *updatePage)
}
