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

var updatePage = flag.Bool("update", false, "write docs/validations.md anew")

// saying is a message of a validation with the status that it belongs to.
type saying struct {
	status  Status
	when    string
	message string
}

// sayings maps the ids of validations to their messages.
type sayings map[ID][]saying

func (s sayings) add(r Result, when string) {
	known := func(other saying) bool { return other.status == r.Status && other.message == r.Message }
	if !slices.ContainsFunc(s[r.ID], known) {
		s[r.ID] = append(s[r.ID], saying{r.Status, when, r.Message})
	}
}

// situations lists valid clusters in which validations pass for different reasons.
func situations() []struct {
	name    string
	prepare func(*threeNodes)
} {
	return []struct {
		name    string
		prepare func(*threeNodes)
	}{
		{"all is well", func(*threeNodes) {}},
		{"the user looks after the networking", (*threeNodes).userManaged},
		{"a single node", (*threeNodes).singleNode},
		{"a host that joins an installed cluster", func(n *threeNodes) {
			n.cluster.Kind, n.cluster.Status = ptr(models.ClusterKindAddHostsCluster),
				ptr(models.ClusterStatusAddingHosts)
			n.hosts[0].Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
			n.hosts[0].APIConnectivity = &models.APIVipConnectivityResponse{IsSuccess: true}
		}},
		{"with every operator", func(n *threeNodes) {
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
		{"disks are encrypted", func(n *threeNodes) {
			n.cluster.DiskEncryption = &models.DiskEncryption{EnableOn: ptr("all"),
				Mode: ptr(models.DiskEncryptionModeTpmv2)}
		}},
	}
}

func sayingsOfHosts() sayings {
	said := sayings{}
	for _, s := range situations() {
		n := newThreeNodes()
		s.prepare(n)
		for _, r := range Host(n.input()).Results() {
			said.add(r, s.name)
		}
	}
	n := newThreeNodes()
	n.hosts[0].Facts = &inventory.Facts{}
	in := n.input()
	in.Groups = nil
	for _, r := range Host(in).Results() {
		said.add(r, "the host has reported nothing yet")
	}
	in = newThreeNodes().input()
	in.Cluster, in.Peers, in.Groups = nil, nil, nil
	for _, r := range Host(in).Results() {
		said.add(r, "the host belongs to no cluster")
	}
	for _, f := range hostFaults() {
		n := newThreeNodes()
		in := n.input()
		f.change(n, &in)
		r, _ := Host(in).Result(f.id)
		said.add(r, f.name)
	}
	return said
}

func sayingsOfClusters() sayings {
	said := sayings{}
	for _, s := range situations() {
		n := newThreeNodes()
		s.prepare(n)
		for _, r := range Cluster(n.clusterInput()).Results() {
			said.add(r, s.name)
		}
	}
	for _, r := range Cluster(ClusterInput{Cluster: &models.Cluster{}, Requirements: DefaultRequirements("")}).
		Results() {
		said.add(r, "nothing was said of the cluster yet")
	}
	for _, f := range clusterFaults() {
		n := newThreeNodes()
		in := n.clusterInput()
		f.change(n, &in)
		r, _ := Cluster(in).Result(f.id)
		said.add(r, f.name)
	}
	return said
}

func validationsPage(hosts, clusters sayings) string {
	var b strings.Builder
	b.WriteString(`# What the checks of hosts and clusters say

Generated from the inputs of the tests of ` + "`appliance/engine/validation`" + ` by ` + "`make docs`" + `; do not edit. Every check of the API is here, with
every sentence that the tests bring it to say, and when. A check that a site has switched off says "` + switchedOff + `"

What stands in the way of an installation is said in the comment of the package; checks marked *warns* never do, and those marked
*vital* can't be ignored.
`)
	for _, part := range []struct {
		title string
		said  sayings
		vital []ID
		warn  []ID
	}{{"Hosts", hosts, NeverIgnoredForHosts(), advisory[:]}, {"Clusters", clusters, NeverIgnoredForClusters(), nil}} {
		fmt.Fprintf(&b, "\n## %s\n", part.title)
		for _, id := range slices.Sorted(maps.Keys(part.said)) {
			mark := ""
			switch {
			case slices.Contains(part.vital, id):
				mark = " (*vital*)"
			case slices.Contains(part.warn, id):
				mark = " (*warns*)"
			}
			fmt.Fprintf(&b, "\n### %s%s\n\n| | when | it says |\n|---|---|---|\n", id, mark)
			said := slices.Clone(part.said[id])
			slices.SortStableFunc(said, func(x, y saying) int {
				return slices.Index(statuses,
					x.status) - slices.Index(statuses, y.status)
			})
			for _, s := range said {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", s.status, s.when, strings.ReplaceAll(s.message, "|", "\\|"))
			}
		}
	}
	return b.String()
}

var statuses = []Status{Failure, Pending, Error, Success, Disabled}

// TestValidationsPage_isUpToDate compares docs/validations.md with all messages for all inputs of
// the tests. The message of a failed validation names the problem and its solution, and no message
// uses internal terms.
func TestValidationsPage_isUpToDate(t *testing.T) {
	hosts, clusters := sayingsOfHosts(), sayingsOfClusters()
	for kind, said := range map[string]sayings{"host": hosts, "cluster": clusters} {
		ids := strings.Fields(map[string]string{"host": everyHostID, "cluster": everyClusterID}[kind])
		require.Len(t, said, len(ids))
		for _, id := range ids {
			require.True(t, slices.ContainsFunc(said[ID(id)], func(s saying) bool { return s.status == Success }),
				"%s %s never passes", kind, id)
			for _, s := range said[ID(id)] {
				requireSentence(t, Result{ID(id), s.status, s.message})
				if s.status == Failure || s.status == Error {
					parts := strings.FieldsFunc(strings.ReplaceAll(s.message, ". ", ";"),
						func(r rune) bool { return r == ';' || r == ',' || r == ':' })
					require.Greater(t, len(parts), 1, "%s %s says nothing of what to do: %s", kind, id, s.message)
				}
			}
		}
	}
	pagetest.Compare(t, "validations.md", validationsPage(hosts, clusters), *updatePage)
}
