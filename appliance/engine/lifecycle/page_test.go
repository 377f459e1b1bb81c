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

var updatePage = flag.Bool("update", false, "write docs/lifecycle.md from the tables")

// TestLifecyclePage fails if docs/lifecycle.md differs from the tables. `make docs` writes the
// page.
func TestLifecyclePage(t *testing.T) {
	pagetest.Compare(t, "lifecycle.md", lifecyclePage(readTransitions(t)), *updatePage)
}

// drawing selects the triggers and states of one state diagram.
type drawing struct {
	title, text string
	on          []Trigger
	among       []string // the states that arrows connect; nil selects all states
	loops       bool     // whether arrows from a state to itself are drawn
}

func lifecyclePage(list transitionList) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# The state machines of hosts and clusters\n")
	line("Generated from the tables of `appliance/engine/lifecycle/hosts.go` and " +
		"`appliance/engine/lifecycle/clusters.go` by `make docs`; do not edit.\n")
	line("A row of a table has a trigger, source states, a condition and a target state. The first matching row is " +
		"taken. Without a matching row, a refresh changes nothing and any other trigger is rejected with status 409. " +
		"A refresh runs after each change of a host or its cluster, and when a limit expires. The service does not " +
		"poll.\n")

	line("## Hosts\n")
	writeStates(&b, HostStates())
	for _, d := range hostDrawings() {
		writeDrawing(&b, HostMachine(), d)
	}
	writeRows(&b, "All rows of the table of hosts", HostMachine())

	line("## Clusters\n")
	writeStates(&b, ClusterStates())
	for _, d := range []drawing{
		{"From the description to the installation", "", []Trigger{OnRefresh, OnInstall},
			states(ClusterOpenStates, ClusterPreparing, ClusterInstalling, ClusterFailed), false},
		{"The installation", "", []Trigger{OnRefresh, OnAddHosts}, states(ClusterInstallingStates, ClusterInstalled,
			ClusterAddingHosts, ClusterFailed), false},
		{"Requests of users", "", []Trigger{OnInstall, OnCancel, OnReset, OnAddHosts}, nil, false},
	} {
		writeDrawing(&b, ClusterMachine(), d)
	}
	writeRows(&b, "All rows of the table of clusters", ClusterMachine())

	writeLimits(&b, DefaultTimeouts())
	writeDifferences(&b, list)
	return b.String()
}

func hostDrawings() []drawing {
	return []drawing{
		{"Hosts without a cluster", "", []Trigger{OnRegister, OnRefresh, OnBind, OnMediaLost, OnRestart},
			states(HostInitial, HostOpenUnboundStates, HostDisabledUnbound, HostBinding), false},
		{"From registration to known", "", []Trigger{OnRegister, OnRefresh}, states(HostInitial, HostOpenStates,
			HostDisabled), false},
		{"The installation", "A host that stops polling, or loses its image, fails too: see the next diagrams.",
			[]Trigger{OnInstall, OnProgress, OnFailure, OnRefresh}, states(HostKnown, HostInsufficient,
				HostPreparingStates,
				HostInstallingStates, HostInstalled, HostAdded, HostFailed), false},
		{"Registration of an agent",
			"The machine booted the discovery image. If it should have booted from its disk, " +
				"its boot order is wrong.", []Trigger{OnRegister}, nil, true},
		{"Loss of the discovery image, and its replacement by a newer one", "", []Trigger{OnMediaLost, OnRestart},
			states(HostOpenStates, HostBinding, HostPreparingStates, HostInstalling, HostInstallingInProgress,
				HostFailed), false},
		{"Late binding", "A host is bound to a cluster or unbound from it. An installed host can be reclaimed.",
			[]Trigger{OnBind, OnUnbind, OnReclaim, OnReclaimReboot, OnReclaimFailed}, nil, false},
		{"Cancel and reset", "", []Trigger{OnCancel, OnReset}, nil, false},
	}
}

func writeStates(b *strings.Builder, states []State) {
	fmt.Fprint(b, "| state | meaning |\n|---|---|\n")
	for _, s := range states {
		fmt.Fprintf(b, "| `%s` | %s |\n", s.Name, s.Meaning)
	}
	fmt.Fprintln(b)
}

// writeDrawing writes a Mermaid state diagram. Mermaid does not allow hyphens in ids or colons in
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

// stageLimits returns the limits under a configuration key by the name of their stage. The name is
// the end of the limit's explanation.
func stageLimits(key string, limits reflect.Value) map[string]time.Duration {
	byName := map[string]time.Duration{}
	for field, value := range limits.Fields() {
		_, name, _ := strings.Cut(TimeoutHelp[key+"."+field.Tag.Get("mapstructure")], "the stage ")
		byName[name] = time.Duration(value.Int())
	}
	return byName
}

func writeLimits(b *strings.Builder, t Timeouts) {
	fmt.Fprint(b, "## Limits\n\nAll limits can be set under `timeouts` in the configuration. Time in which the "+
		"appliance or its machine was stopped does not count. Only for the whole installation it counts, because "+
		"the certificates expire meanwhile. The cluster then still has the time of finalizing to report its end."+
		"\n\n| subject | limit |\n|---|---|\n")
	row := func(subject string, limit time.Duration) {
		fmt.Fprintf(b, "| %s | %s |\n", subject, formatLimit(limit))
	}
	row("time without a poll of an agent", t.HostDisconnected)
	row("preparation of a host", t.HostPreparing)
	row("preparation of a cluster", t.ClusterPreparing)
	row("from the start of a host's installation to the installer's first report", t.HostStarting)
	stages := stageLimits("stages", reflect.ValueOf(t.Stages))
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		row("stage "+stage, stages[stage])
	}
	row("stage Rebooting of a single node", t.SingleNodeReboot)
	row("correction of the boot order of a host that the cluster does not need", t.UserAction)
	row("the whole installation", t.Installation)
	row("finalizing", t.Finalizing)
	stages = stageLimits("finalizing_stages", reflect.ValueOf(t.FinalizingStages))
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		row("finalizing stage "+stage, stages[stage])
	}
	row("resetting", t.Resetting)
	row("reclaiming: download of the image, and again restart", t.Reclaiming)
	row("logs of a host, until they are announced", t.HostLogsPending)
	row("logs of a host, until they arrive", t.HostLogs)
	row("logs of a cluster, until they are announced", t.ClusterLogsPending)
	row("logs of a cluster, until they arrive", t.ClusterLogs)
	fmt.Fprintf(b, "\nThe limit of other stages is one hour. The limits of the finalizing stages %q, %q and %q "+
		"only warn.\n\n", toleratedFinalizingStages[0],
		toleratedFinalizingStages[1], toleratedFinalizingStages[2])
}

func formatLimit(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d min", d/time.Minute)
}

func writeDifferences(b *strings.Builder, list transitionList) {
	fmt.Fprintf(b, "## Differences from upstream's tables\n\nUpstream: %s\n\n| table | on | from | to | found in | "+
		"reason |\n|---|---|---|---|---|---|\n", list.Source)
	for _, d := range list.Differences {
		to := "`" + d.To + "`"
		if d.To == Same {
			to = "stays"
		}
		side := map[string]string{"missing": "upstream", "added": "this appliance"}[d.Kind]
		fmt.Fprintf(b, "| %s | %s | `%s` | %s | %s | %s |\n", d.Of, d.On, strings.Join(d.From, "` `"), to, side, d.Why)
	}
}
