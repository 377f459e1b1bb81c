package engine

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var updatePage = flag.Bool("update", false, "write docs/lifecycle.md anew from the tables")

// TestTheLifecyclePageIsUpToDate fails when docs/lifecycle.md is not what the tables say; `make
// docs` writes it.
func TestTheLifecyclePageIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "lifecycle.md")
	page := lifecyclePage(readTransitions(t))
	if *updatePage {
		require.NoError(t, os.WriteFile(path, []byte(page), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err, "make docs writes it")
	require.Equal(t, page, string(text), "the tables have changed: make docs")
}

// drawing is one state diagram: the arrows of some triggers between some states.
type drawing struct {
	title, text string
	on          []trigger
	among       []string // both ends; nil: all
	loops       bool     // arrows that stay in their state too
}

func lifecyclePage(list transitionList) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# The lives of hosts and clusters\n")
	line("Generated from the tables of `appliance/engine/lifecycle_hosts.go` and " +
		"`appliance/engine/lifecycle_clusters.go` by `make docs`; do not edit.\n")
	line("A row of a table says: on this trigger, from one of these states, when this holds, go to that state and " +
		"say so. The first row that fits is taken. " +
		"When none fits, a refresh changes nothing and any other trigger is refused with 409. A refresh follows " +
		"whatever changes a host or its cluster, and the passing of a limit; nothing is polled.\n")

	line("## Hosts\n")
	writeStates(&b, hostStates())
	for _, d := range hostDrawings() {
		writeDrawing(&b, hostLife(), d)
	}
	writeRows(&b, "Every row of the table of hosts", hostLife())

	line("## Clusters\n")
	writeStates(&b, clusterStates())
	for _, d := range []drawing{
		{"From the description to the installation", "", []trigger{onRefresh, onInstall},
			in(clusterOpen, clusterPreparing, clusterInstalling, clusterFailed), false},
		{"The installation", "", []trigger{onRefresh, onAddHosts}, in(clusterRunning, clusterInstalled,
			clusterAddingHosts, clusterFailed), false},
		{"What people order", "", []trigger{onInstall, onCancel, onReset, onAddHosts}, nil, false},
	} {
		writeDrawing(&b, clusterLife(), d)
	}
	writeRows(&b, "Every row of the table of clusters", clusterLife())

	writeLimits(&b, DefaultTimeouts())
	writeDifferences(&b, list)
	return b.String()
}

func hostDrawings() []drawing {
	return []drawing{
		{"Hosts of no cluster", "", []trigger{onRegister, onRefresh, onBind, onMediaLost, onRestart},
			in(initial, undecidedUnbound, disabledUnbound, binding), false},
		{"Until a host is known", "", []trigger{onRegister, onRefresh}, in(initial, undecided, disabled), false},
		{"The installation", "Silence and a lost image end it too: see the next drawings.",
			[]trigger{onInstall, onProgress, onFailure, onRefresh}, in(known, insufficient, beforeInstall,
				duringInstall, installed, added, failed), false},
		{"An agent starts", "The machine booted the discovery image. Where it was to boot from its disk, its boot " +
			"order is wrong.", []trigger{onRegister}, nil, true},
		{"The discovery image is lost, or replaced by a newer one", "", []trigger{onMediaLost, onRestart},
			in(undecided, binding, beforeInstall, installing, inProgress, failed), false},
		{"Late binding", "A host is given to a cluster and taken back; one that was installed can be reclaimed.",
			[]trigger{onBind, onUnbind, onReclaim, onReclaimReboot, onReclaimFailed}, nil, false},
		{"Cancel and reset", "", []trigger{onCancel, onReset}, nil, false},
	}
}

func writeStates(b *strings.Builder, states []state) {
	fmt.Fprint(b, "| state | what it means |\n|---|---|\n")
	for _, s := range states {
		fmt.Fprintf(b, "| `%s` | %s |\n", s.name, s.meaning)
	}
	fmt.Fprintln(b)
}

// writeDrawing draws a Mermaid state diagram. Its ids must not hold hyphens, and a label no colon.
func writeDrawing[S any](b *strings.Builder, l *life[S], d drawing) {
	fmt.Fprintf(b, "### %s\n\n", d.title)
	if d.text != "" {
		fmt.Fprintf(b, "%s\n\n", d.text)
	}
	fmt.Fprint(b, "```mermaid\nstateDiagram-v2\n")
	labels, order := make(map[edge][]string), []edge{}
	var used []string
	for _, r := range l.rows {
		if !slices.Contains(d.on, r.on) {
			continue
		}
		for _, from := range r.from {
			arrow := edge{from: from, to: r.to}
			if arrow.to == same {
				arrow.to = from
			}
			if arrow.from == arrow.to && !d.loops || d.among != nil && (!slices.Contains(d.among, arrow.from) ||
				!slices.Contains(d.among, arrow.to)) {
				continue
			}
			if labels[arrow] == nil {
				order = append(order, arrow)
			}
			label := string(r.on)
			if r.because != "" {
				label += ", " + r.because
			}
			if !slices.Contains(labels[arrow], label) {
				labels[arrow] = append(labels[arrow], label)
			}
			used = append(used, arrow.from, arrow.to)
		}
	}
	for _, s := range slices.Concat(hostStates(), clusterStates()) {
		if slices.Contains(used, s.name) {
			fmt.Fprintf(b, "    state \"%s\" as %s\n", s.name, mermaidID(s.name))
			used = slices.DeleteFunc(used, func(name string) bool { return name == s.name })
		}
	}
	for _, arrow := range order {
		fmt.Fprintf(b, "    %s --> %s : %s\n", mermaidID(arrow.from), mermaidID(arrow.to),
			strings.ReplaceAll(strings.Join(labels[arrow], "<br/>"), ":", ","))
	}
	fmt.Fprint(b, "```\n\n")
}

func mermaidID(name string) string {
	if name == initial {
		return "[*]"
	}
	return strings.ReplaceAll(name, "-", "_")
}

func writeRows[S any](b *strings.Builder, title string, l *life[S]) {
	fmt.Fprintf(b, "### %s\n\n| on | from | when | to |\n|---|---|---|---|\n", title)
	for _, r := range l.rows {
		from := make([]string, len(r.from))
		for i, name := range r.from {
			from[i] = "`" + name + "`"
			if name == initial {
				from[i] = "(new)"
			}
		}
		to := "`" + r.to + "`"
		if r.to == same {
			to = "stays"
			if r.event != "" {
				to += ", with the event `" + r.event + "`"
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", r.on, strings.Join(from, " "), r.because, to)
	}
	fmt.Fprintln(b)
}

// stageLimits returns limits by the names of the stages, which their explanations end in.
func stageLimits(limits reflect.Value) map[string]time.Duration {
	byName := map[string]time.Duration{}
	for field, value := range limits.Fields() {
		_, name, _ := strings.Cut(field.Tag.Get("help"), "the stage ")
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
	stages := stageLimits(reflect.ValueOf(t.Stages))
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		row("stage "+stage, stages[stage])
	}
	row("stage Rebooting of a single node", t.SingleNodeReboot)
	row("a person corrects the boot order of a host that the cluster can do without", t.UserAction)
	row("the whole installation", t.Installation)
	row("finalizing", t.Finalizing)
	stages = stageLimits(reflect.ValueOf(t.FinalizingStages))
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
		"only warn.\n\n", tolerated[0], tolerated[1], tolerated[2])
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
		if d.To == same {
			to = "stays"
		}
		whose := map[string]string{"missing": "upstream's", "added": "ours"}[d.Kind]
		fmt.Fprintf(b, "| %s | %s | `%s` | %s | %s | %s |\n", d.Of, d.On, strings.Join(d.From, "` `"), to, whose, d.Why)
	}
}
