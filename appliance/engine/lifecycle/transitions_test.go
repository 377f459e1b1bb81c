package lifecycle

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// transitionList is the content of testdata/transitions.json: the transitions of the Assisted
// Installer, and the differences of this implementation.
type transitionList struct {
	Source      string
	Hosts       []transitions
	CodeOnly    []transitions `json:"code_only"`
	Outdated    []transitions
	Clusters    []transitions
	Differences []difference
}

type transitions struct {
	On   Trigger
	From []string
	To   string
}

// difference is a transition that exists on one side only, with the reason. Kind is "missing" for a
// transition of upstream, and "added" for one of this implementation.
type difference struct {
	transitions
	Of, Kind, Why string
}

// edge is an arrow of a state diagram.
type edge struct {
	on       Trigger
	from, to string
}

func (e edge) String() string { return fmt.Sprintf("%s: %q -> %q", e.on, e.from, e.to) }

func (t transitions) edges() []edge {
	var list []edge
	for _, from := range t.From {
		to := t.To
		if to == Same {
			to = from
		}
		list = append(list, edge{t.On, from, to})
	}
	return list
}

func edgesOf(lists ...[]transitions) []edge {
	var all []edge
	for _, list := range lists {
		for _, t := range list {
			all = append(all, t.edges()...)
		}
	}
	return all
}

// edges returns the arrows of a table. A refresh that does not change the state is not an arrow.
func (l *Machine[S]) edges() []edge {
	var list []edge
	for _, r := range l.rows {
		for _, from := range r.From {
			e := edge{r.On, from, r.To}
			if e.to == Same {
				e.to = from
			}
			if (e.on != OnRefresh || e.from != e.to) && !slices.Contains(list, e) {
				list = append(list, e)
			}
		}
	}
	return list
}

func readTransitions(t *testing.T) transitionList {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "transitions.json"))
	require.NoError(t, err)
	var list transitionList
	require.NoError(t, json.Unmarshal(text, &list))
	return list
}

func TestTransitions_differencesFromUpstreamAreListed(t *testing.T) {
	list := readTransitions(t)
	outdated := edgesOf(list.Outdated)
	hosts := slices.DeleteFunc(edgesOf(list.Hosts, list.CodeOnly),
		func(e edge) bool { return slices.Contains(outdated, e) })
	for _, side := range []struct {
		of               string
		upstream, actual []edge
	}{{"hosts", hosts, HostMachine().edges()}, {"clusters", edgesOf(list.Clusters), ClusterMachine().edges()}} {
		t.Run(side.of, func(t *testing.T) {
			explained := make(map[edge]string)
			for _, d := range list.Differences {
				if d.Of != side.of {
					continue
				}
				require.NotEmpty(t, d.Why)
				for _, e := range d.edges() {
					explained[e] = d.Kind
				}
			}
			for _, e := range side.upstream {
				if !slices.Contains(side.actual, e) {
					requireExplained(t, explained, e, "missing")
				}
			}
			for _, e := range side.actual {
				if !slices.Contains(side.upstream, e) {
					requireExplained(t, explained, e, "added")
				}
			}
			for e, kind := range explained {
				t.Errorf("the listed difference does not exist: %s %s", kind, e)
			}
		})
	}
}

func requireExplained(t *testing.T, explained map[edge]string, e edge, kind string) {
	t.Helper()
	if explained[e] != kind {
		t.Errorf("transition %s without a listed reason: %s", kind, e)
	}
	delete(explained, e)
}

func TestStates_allAreInTheAPIAndHaveAnExit(t *testing.T) {
	host := models.Host{}
	for _, status := range StateNames(HostStates()) {
		host.Status = &status
		if err := host.Validate(nil); err != nil {
			require.NotContains(t, err.Error(), "status in body should be one of", status)
		}
		requireExit(t, HostMachine().edges(), status)
	}
	require.Len(t, HostStates(), 28, "including disabled-unbound, which the published list lacks")
	for _, status := range StateNames(ClusterStates()) {
		if status == ClusterUnmonitored || status == ClusterAddingHosts {
			// These states end with the deletion of the cluster. A cluster that only describes an
			// image is never installed, and an installed cluster stays installed.
			continue
		}
		requireExit(t, ClusterMachine().edges(), status)
	}
	require.Len(t, ClusterStates(), 12)
}

func requireExit(t *testing.T, edges []edge, status string) {
	t.Helper()
	if !slices.ContainsFunc(edges, func(e edge) bool { return e.from == status && e.to != status }) {
		t.Errorf("the state %q has no exit", status)
	}
}

// TestTransitions_listMatchesUpstream compares testdata/transitions.json with the rules that
// upstream publishes.
func TestTransitions_listMatchesUpstream(t *testing.T) {
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA is not set to a directory of real data")
	}
	list := readTransitions(t)
	for file, want := range map[string][]edge{"host_state_machine.json": edgesOf(list.Hosts),
		"cluster_state_machine.json": edgesOf(list.Clusters)} {
		require.ElementsMatch(t, want, publishedEdges(t, filepath.Join(dir, "assisted", "state-machines", file)), file)
	}
	unbound := publishedEdges(t, filepath.Join(dir, "assisted", "state-machines", "unbound_host_state_machine.json"))
	require.ElementsMatch(t, edgesOf(list.Clusters), unbound,
		"upstream publishes the list of clusters for unbound hosts; its code is authoritative")
}

func publishedEdges(t *testing.T, path string) []edge {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var machine struct {
		Rules []struct {
			Type    string   `json:"transition_type"`
			Sources []string `json:"source_states"`
			To      string   `json:"destination_state"`
		} `json:"transition_rules"`
	}
	require.NoError(t, json.Unmarshal(text, &machine))
	names := map[string]Trigger{
		"CancelInstallation": OnCancel, "HostInstallationFailed": OnFailure, "HostProgressChanged": OnProgress,
		"InstallHost":     OnInstall,
		"MediaDisconnect": OnMediaLost, "RebootingForReclaim": OnReclaimReboot, "ReclaimHost": OnReclaim,
		"ReclaimHostFailed": OnReclaimFailed,
		"RefreshHost":       OnRefresh, "RegisterHost": OnRegister, "ResettingPendingUserAction": OnReset,
		"UnbindHost": OnUnbind, "BindHost": OnBind,
		"RefreshStatus": OnRefresh, "PrepareForInstallation": OnInstall, "ResetCluster": OnReset,
	}
	var edges []edge
	for _, rule := range machine.Rules {
		for _, from := range rule.Sources {
			if from == "initial" {
				from = HostInitial
			}
			e := edge{names[rule.Type], from, rule.To}
			require.NotEmpty(t, e.on, rule.Type)
			if (e.on != OnRefresh || e.from != e.to) && !slices.Contains(edges, e) {
				edges = append(edges, e)
			}
		}
	}
	return edges
}

func TestClusterMachine_reportOfControllerPrecedesLimits(t *testing.T) {
	complete := ClusterSituation{AllDone: true, IngressCA: true, OperatorsDone: true, Completed: true,
		EnoughLeft: true, EnoughInstalled: true}
	failed := ClusterSituation{CompletionFailed: true, PlatformAvailable: true, AllDone: true, IngressCA: true,
		OperatorsDone: true, EnoughLeft: true, CompletionError: "etcd did not start"}
	for _, s := range []*ClusterSituation{&complete, &failed} {
		s.TotalTimedOut, s.TimedOut, s.StageTimedOut = true, true, true
	}
	require.Equal(t, ClusterInstalled, ClusterMachine().Next(OnRefresh, ClusterFinalizing, complete).To)
	row := ClusterMachine().Next(OnRefresh, ClusterFinalizing, failed)
	require.Equal(t, ClusterFailed, row.To)
	require.Contains(t, row.Info(failed), "etcd did not start")
}
