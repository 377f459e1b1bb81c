package lifecycle

import (
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall/appliance/engine/pagetest"
)

var updatePage = flag.Bool("update", false, "write docs/lifecycle.md anew from the tables")

// TestLifecyclePage fails if docs/lifecycle.md differs from the tables. `make docs` writes the
// page.
func TestLifecyclePage(t *testing.T) {
	pagetest.Compare(t, "lifecycle.md", lifecyclePage(readTransitions(t)), *updatePage)
}

// drawing is a state diagram of some triggers and some states.
type drawing struct {
	title, text string
	on          []Trigger
	among       []string // both ends of the arrows; nil means all
	loops       bool     // includes arrows from a state to itself
}

func lifecyclePage(list transitionList) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# The lives of hosts and clusters\n")
	line("Generated from the tables of `appliance/engine/lifecycle/hosts.go` and " +
		"`appliance/engine/lifecycle/clusters.go` by `make docs`; do not edit.\n")
	line("A row of a table says: on this trigger, from one of these states, when this holds, go to that state and " +
		"say so. The first row that fits is taken. " +
		"When none fits, a refresh changes nothing and any other trigger is refused with 409. A refresh follows " +
		"whatever changes a host or its cluster, and the passing of a limit; nothing is polled.\n")

	line("## Hosts\n")
	writeStates(&b, HostStates())
	for _, d := range hostDrawings() {
		writeDrawing(&b, HostMachine(), d)
	}
	writeRows(&b, "Every row of the table of hosts", HostMachine())

	line("## Clusters\n")
	writeStates(&b, ClusterStates())
	for _, d := range []drawing{
		{"From the description to the installation", "", []Trigger{OnRefresh, OnInstall},
			states(ClusterOpenStates, ClusterPreparing, ClusterInstalling, ClusterFailed), false},
		{"The installation", "", []Trigger{OnRefresh, OnAddHosts}, states(ClusterInstallingStates, ClusterInstalled,
			ClusterAddingHosts, ClusterFailed), false},
		{"What people order", "", []Trigger{OnInstall, OnCancel, OnReset, OnAddHosts}, nil, false},
	} {
		writeDrawing(&b, ClusterMachine(), d)
	}
	writeRows(&b, "Every row of the table of clusters", ClusterMachine())

	writeLimits(&b, DefaultTimeouts())
	writeDifferences(&b, list)
	return b.String()
}

func hostDrawings() []drawing {
	return []drawing{
		{"Hosts of no cluster", "", []Trigger{OnRegister, OnRefresh, OnBind, OnMediaLost, OnRestart},
			states(HostInitial, HostOpenUnboundStates, HostDisabledUnbound, HostBinding), false},
		{"Until a host is known", "", []Trigger{OnRegister, OnRefresh}, states(HostInitial, HostOpenStates,
			HostDisabled), false},
		{"The installation", "Silence and a lost image end it too: see the next drawings.",
			[]Trigger{OnInstall, OnProgress, OnFailure, OnRefresh}, states(HostKnown, HostInsufficient,
				HostPreparingStates,
				HostInstallingStates, HostInstalled, HostAdded, HostFailed), false},
		{"An agent starts", "The machine booted the discovery image. Where it was to boot from its disk, its boot " +
			"order is wrong.", []Trigger{OnRegister}, nil, true},
		{"The discovery image is lost, or replaced by a newer one", "", []Trigger{OnMediaLost, OnRestart},
			states(HostOpenStates, HostBinding, HostPreparingStates, HostInstalling, HostInstallingInProgress,
				HostFailed), false},
		{"Late binding", "A host is given to a cluster and taken back; one that was installed can be reclaimed.",
			[]Trigger{OnBind, OnUnbind, OnReclaim, OnReclaimReboot, OnReclaimFailed}, nil, false},
		{"Cancel and reset", "", []Trigger{OnCancel, OnReset}, nil, false},
	}
}

func writeStates(b *strings.Builder, states []State) {
	fmt.Fprint(b, "| state | what it means |\n|---|---|\n")
	for _, s := range states {
		fmt.Fprintf(b, "| `%s` | %s |\n", s.Name, s.Meaning)
	}
	fmt.Fprintln(b)
}

// writeDrawing writes a Mermaid state diagram. Mermaid allows no hyphens in ids and no colons in
// labels.
func writeDrawing[S any](b *strings.Builder, l *Machine[S], d drawing) {
	fmt.Fprintf(b, "### %s\n\n", d.title)
	if d.text != "" {
		fmt.Fprintf(b, "%s\n\n", d.text)
	}
	fmt.Fprint(b, "```mermaid\nstateDiagram-v2\n")
	labels, order := make(map[edge][]string), []edge{}
	var used []string
	for _, r := range l.rows {
		if !slices.Contains(d.on, r.On) {
			continue
		}
		for _, from := range r.From {
			arrow := edge{from: from, to: r.To}
			if arrow.to == Same {
				arrow.to = from
			}
			if arrow.from == arrow.to && !d.loops || d.among != nil && (!slices.Contains(d.among, arrow.from) ||
				!slices.Contains(d.among, arrow.to)) {
				continue
			}
			if labels[arrow] == nil {
				order = append(order, arrow)
			}
			label := string(r.On)
			if r.Because != "" {
				label += ", " + r.Because
			}
			if !slices.Contains(labels[arrow], label) {
				labels[arrow] = append(labels[arrow], label)
			}
			used = append(used, arrow.from, arrow.to)
		}
	}
	for _, s := range slices.Concat(HostStates(), ClusterStates()) {
		if slices.Contains(used, s.Name) {
			fmt.Fprintf(b, "    state \"%s\" as %s\n", s.Name, mermaidID(s.Name))
			used = slices.DeleteFunc(used, func(name string) bool { return name == s.Name })
		}
	}
	for _, arrow := range order {
		fmt.Fprintf(b, "    %s --> %s : %s\n", mermaidID(arrow.from), mermaidID(arrow.to),
			strings.ReplaceAll(strings.Join(labels[arrow], "<br/>"), ":", ","))
	}
	fmt.Fprint(b, "```\n\n")
}

func mermaidID(name string) string {
	if name == HostInitial {
		return "[*]"
	}
	return strings.ReplaceAll(name, "-", "_")
}

func writeRows[S any](b *strings.Builder, title string, l *Machine[S]) {
	fmt.Fprintf(b, "### %s\n\n| on | from | when | to |\n|---|---|---|---|\n", title)
	for _, r := range l.rows {
		from := make([]string, len(r.From))
		for i, name := range r.From {
			from[i] = "`" + name + "`"
			if name == HostInitial {
				from[i] = "(new)"
			}
		}
		to := "`" + r.To + "`"
		if r.To == Same {
			to = "stays"
			if r.Event != "" {
				to += ", with the event `" + r.Event + "`"
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", r.On, strings.Join(from, " "), r.Because, to)
	}
	fmt.Fprintln(b)
}

// stageLimits returns the limits below a key by the names of their stages, which are the last words
// of their explanations.
func stageLimits(key string, limits reflect.Value) map[string]time.Duration {
	byName := map[string]time.Duration{}
	for field, value := range limits.Fields() {
		_, name, _ := strings.Cut(TimeoutHelp[key+"."+field.Tag.Get("mapstructure")], "the stage ")
		byName[name] = time.Duration(value.Int())
	}
	return byName
}

func writeLimits(b *strings.Builder, t Timeouts) {
	fmt.Fprint(b, "## Limits\n\nAll can be set in the configuration, under `timeouts`. None runs while the "+
		"appliance, or the machine that it runs on, was away.\n\n| what | limit |\n|---|---|\n")
	row := func(what string, limit time.Duration) { fmt.Fprintf(b, "| %s | %s |\n", what, spoken(limit)) }
	row("silence of an agent", t.HostDisconnected)
	row("preparation of a host", t.HostPreparing)
	row("preparation of a cluster", t.ClusterPreparing)
	row("from the order to install to the installer's first word", t.HostStarting)
	stages := stageLimits("stages", reflect.ValueOf(t.Stages))
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		row("stage "+stage, stages[stage])
	}
	row("stage Rebooting of a single node", t.SingleNodeReboot)
	row("a person corrects the boot order of a host that the cluster can do without", t.UserAction)
	row("the whole installation", t.Installation)
	row("finalizing", t.Finalizing)
	stages = stageLimits("finalizing_stages", reflect.ValueOf(t.FinalizingStages))
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		row("finalizing stage "+stage, stages[stage])
	}
	row("resetting", t.Resetting)
	row("reclaiming, each half", t.Reclaiming)
	row("logs of a host, until they are announced", t.HostLogsPending)
	row("logs of a host, until they come", t.HostLogs)
	row("logs of a cluster, until they are announced", t.ClusterLogsPending)
	row("logs of a cluster, until they come", t.ClusterLogs)
	fmt.Fprintf(b, "\nStages that are not named here have an hour. The limits of the finalizing stages %q, %q and %q "+
		"only warn.\n\n", toleratedFinalizingStages[0],
		toleratedFinalizingStages[1], toleratedFinalizingStages[2])
}

func spoken(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d min", d/time.Minute)
}

func writeDifferences(b *strings.Builder, list transitionList) {
	fmt.Fprintf(b, "## Where the tables differ from upstream's\n\nUpstream: %s\n\n| of | on | from | to | whose | "+
		"why |\n|---|---|---|---|---|---|\n", list.Source)
	for _, d := range list.Differences {
		to := "`" + d.To + "`"
		if d.To == Same {
			to = "stays"
		}
		whose := map[string]string{"missing": "upstream's", "added": "ours"}[d.Kind]
		fmt.Fprintf(b, "| %s | %s | `%s` | %s | %s | %s |\n", d.Of, d.On, strings.Join(d.From, "` `"), to, whose, d.Why)
	}
}
