// Package scenario runs whole sites for long simulated times. A site has an appliance with the real
// engine and a real store, machines that boot, are installed and fail, and users of the page. A
// clock jumps from one event to the next, so that thousands of days pass in a minute. After each
// change, the auditor checks the invariants of the engine (see package engine/audit).
//
// A scenario is a file (see examples/). Each of its sites has its own appliance, and runs in one
// goroutine with its own random source. Equal seeds result in equal runs, and a single site can be
// run again.
//
// decode.go reads the file, and run.go runs all sites. site.go contains a site with its clock,
// appliance.go its appliance, machine.go and installation.go its machines, and owner.go its users.
// hosted.go contains its hosted clusters, and hostedowner.go the people who ask for them and decide
// about them. report.go contains the results.
package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"landfall/appliance/simulate"
)

// Scenario is the content of a scenario file.
type Scenario struct {
	Name  string `yaml:"name"`
	Seed  uint64 `yaml:"seed"`
	Start Time   `yaml:"start"` // begin of the simulated time
	Days  int    `yaml:"days"`
	Sites []Kind `yaml:"sites"`
}

// Kind is a number of similar sites.
type Kind struct {
	Name     string   `yaml:"name"`
	Count    int      `yaml:"count"`
	Clusters int      `yaml:"clusters"` // at the same time, at each site
	Topology Topology `yaml:"topology"`
	Workers  int      `yaml:"workers"`
	Spares   int      `yaml:"spares"` // machines of each cluster that are added after its installation
	// whether machines boot the cluster's image or an image without a cluster
	Binding  Binding  `yaml:"binding"`
	Hardware Hardware `yaml:"hardware"` // of each machine
	People   People   `yaml:"people"`
	Faults   Faults   `yaml:"faults"`
	Hosted   Hosted   `yaml:"hosted"`
	Script   []Act    `yaml:"script"`
}

// Hardware describes the machines.
type Hardware struct {
	CPUs      int `yaml:"cpus"`
	MemoryGiB int `yaml:"memory_gib"`
	Disks     int `yaml:"disks"`
	DiskGB    int `yaml:"disk_gb"`
}

func (h Hardware) machine() simulate.Hardware {
	return simulate.Hardware{CPUs: h.CPUs, MemoryBytes: int64(h.MemoryGiB) << 30, Disks: h.Disks,
		DiskBytes: int64(h.DiskGB) * 1_000_000_000}
}

// People describes the actions of users outside the script. Times are means. If a key is missing,
// users do not take the action.
type People struct {
	Absent   bool    `yaml:"absent"`    // users act only according to the script
	Think    Span    `yaml:"think"`     // until the next check of the page
	Rebuild  Span    `yaml:"rebuild"`   // from an installed cluster to its deletion and the next one
	AddHosts Span    `yaml:"add_hosts"` // from an installed cluster to its day-2 hosts
	Cancel   Percent `yaml:"cancel"`    // share of installations
	Delete   Percent `yaml:"delete"`    // share of the failed or cancelled clusters; the others are reset
	// share of the machines added on day 2 to clusters whose machines boot an image without a
	// cluster
	Reclaim Percent `yaml:"reclaim"`
}

// Faults are the faults of a scenario.
type Faults struct {
	// share of the machines of an installation, by fault as in `landfall simulate hosts --faults`,
	// and PowerLoss
	Hosts     map[string]Percent `yaml:"hosts"`
	Clusters  map[string]Percent `yaml:"clusters"` // share of the installations, by fault
	Restart   Outage             `yaml:"restart"`
	PowerCut  Outage             `yaml:"power_cut"`
	Sleep     Outage             `yaml:"sleep"`
	ClockJump Jump               `yaml:"clock_jump"`
}

// Outage is a time without the appliance.
type Outage struct {
	Every Span `yaml:"every"` // mean interval
	For   Span `yaml:"for"`
}

// Jump is a change of the appliance's clock, forward or back.
type Jump struct {
	Every Span `yaml:"every"`
	By    Span `yaml:"by"` // at most
}

// Act is an action at a given time.
type Act struct {
	At    Span   `yaml:"at"` // from the beginning
	Do    Doing  `yaml:"do"`
	Host  int    `yaml:"host"`  // number of the machine, if the act is about one
	For   Span   `yaml:"for"`   // duration of an outage, distance of a jump, or age of a backup
	Fault string `yaml:"fault"` // of the machine, from then on
	Name  string `yaml:"name"`  // of the hosted cluster, if the act is about one
	Nodes int    `yaml:"nodes"` // of its node pool
	State string `yaml:"state"` // that the hosted cluster must have
}

// PowerLoss is the fault of a machine that loses power for a while during its installation.
const PowerLoss = "power-loss"

// Faults of an installation as a whole.
const (
	MirrorDown      = "mirror-down"      // the mirror does not answer during the preparation
	InstallerFails  = "installer-fails"  // openshift-install ends with an error
	OperatorsHang   = "operators-hang"   // the cluster's operators never become available
	CompletionFails = "completion-fails" // the controller reports a failure at the end
)

var clusterFaults = []string{CompletionFails, InstallerFails, MirrorDown, OperatorsHang}

// Span is a duration, written as 30d, 1d12h, 90s.
type Span time.Duration

func (s *Span) read(text string) error {
	days, rest := "", text
	if i := strings.IndexByte(text, 'd'); i >= 0 {
		if days, rest = text[:i], text[i+1:]; days == "" {
			return fmt.Errorf("invalid value %q", text)
		}
	}
	var total time.Duration
	if days != "" {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n >= 0 && n <= 36500) { // NaN fails both comparisons
			return fmt.Errorf("invalid value %q", text)
		}
		total = time.Duration(n * float64(24*time.Hour))
	}
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more < 0 {
			return fmt.Errorf("invalid value %q", text)
		}
		total += more
	} else if days == "" {
		return fmt.Errorf("invalid value %q", text)
	}
	*s = Span(total)
	return nil
}

func (*Span) expects() string { return "a time such as 30d, 1d12h or 90s" }

// Percent is a share, written as 5%.
type Percent float64

func (p *Percent) read(text string) error {
	value, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !strings.HasSuffix(text, "%") || value < 0 || value > 100 || math.IsNaN(value) {
		return fmt.Errorf("invalid value %q", text)
	}
	*p = Percent(value)
	return nil
}

func (*Percent) expects() string { return "a share from 0% to 100%" }

// Time is a time, written as 2026-01-01T06:00:00Z.
type Time struct{ time.Time }

func (t *Time) read(text string) (err error) {
	t.Time, err = time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("invalid value %q", text)
	}
	return nil
}

func (*Time) expects() string { return "a time such as 2026-01-01T06:00:00Z" }

// Topology is the number of control-plane nodes.
type Topology int64

var topologies = map[string]Topology{"single-node": 1, "compact": 3, "four-masters": 4, "five-masters": 5}

func (t *Topology) read(text string) error {
	topology, ok := topologies[text]
	if !ok {
		return fmt.Errorf("invalid value %q", text)
	}
	*t = topology
	return nil
}

func (*Topology) expects() string {
	return "single-node, compact, four-masters or five-masters (workers are a key of their own)"
}

// Binding determines how machines are bound to a cluster.
type Binding string

const (
	early Binding = "cluster"
	late  Binding = "late"
)

func (b *Binding) read(text string) error {
	if text != string(early) && text != string(late) {
		return fmt.Errorf("invalid value %q", text)
	}
	*b = Binding(text)
	return nil
}

func (*Binding) expects() string { return "cluster or late" }

// Doing is the kind of an act.
type Doing string

// Kinds of acts.
const (
	doCreate    Doing = "create"
	doInstall   Doing = "install"
	doCancel    Doing = "cancel"
	doReset     Doing = "reset"
	doDelete    Doing = "delete"
	doAddHosts  Doing = "add-hosts"
	doBind      Doing = "bind"
	doJoin      Doing = "join" // install the hosts that wait to join an installed cluster
	doUnbind    Doing = "unbind"
	doBoot      Doing = "boot"
	doPowerOff  Doing = "power-off"
	doFault     Doing = "fault"
	doRestart   Doing = "restart"
	doPowerCut  Doing = "power-cut"
	doSleep     Doing = "sleep"
	doClockJump Doing = "clock-jump"
	doClockBack Doing = "clock-back"

	doCreateHosted   Doing = "create-hosted"
	doScaleHosted    Doing = "scale-hosted"
	doDeleteHosted   Doing = "delete-hosted"
	doExpectHosted   Doing = "expect-hosted"
	doCutLine        Doing = "cut-line"
	doRestartAgent   Doing = "restart-agent"
	doAgentClockJump Doing = "agent-clock-jump"
	doAgentClockBack Doing = "agent-clock-back"
	doBackup         Doing = "backup"
	doRestore        Doing = "restore"
	doDecide         Doing = "decide"
)

// aboutHosted are the acts that need hosted clusters.
var aboutHosted = []Doing{doCreateHosted, doScaleHosted, doDeleteHosted, doExpectHosted, doCutLine, doRestartAgent,
	doAgentClockJump, doAgentClockBack, doBackup, doRestore, doDecide}

var doings = []Doing{doAddHosts, doAgentClockBack, doAgentClockJump, doBackup, doBind, doBoot, doCancel, doClockBack,
	doClockJump, doCreate, doCreateHosted, doCutLine, doDecide, doDelete, doDeleteHosted, doExpectHosted, doFault,
	doInstall, doJoin, doPowerCut, doPowerOff, doReset, doRestart, doRestartAgent, doRestore, doScaleHosted, doSleep,
	doUnbind}

func (d *Doing) read(text string) error {
	if !slices.Contains(doings, Doing(text)) {
		return fmt.Errorf("invalid value %q", text)
	}
	*d = Doing(text)
	return nil
}

func (*Doing) expects() string {
	names := make([]string, len(doings))
	for i, d := range doings {
		names[i] = string(d)
	}
	return "one of " + strings.Join(names, ", ")
}

// SiteCount returns the number of sites in the scenario.
func (s *Scenario) SiteCount() int {
	count := 0
	for i := range s.Sites {
		count += s.Sites[i].Count
	}
	return count
}

// kind returns the kind of a site (numbers start at 1) and its number within that kind.
func (s *Scenario) kind(number int) (*Kind, int) {
	for i := range s.Sites {
		if number <= s.Sites[i].Count {
			return &s.Sites[i], number
		}
		number -= s.Sites[i].Count
	}
	return nil, 0
}
