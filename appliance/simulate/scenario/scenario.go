// Package scenario plays whole sites at length: appliances with their real engine over a real
// store, machines that boot, are installed, break and come back, and people who press buttons,
// under a clock that is moved from one event to the next. Thousands of days pass in a minute. After
// each change an auditor checks what may never be otherwise (see package audit).
//
// A scenario is a file (see examples/). Each of its sites has an appliance of its own and is played
// by one goroutine, by a random source of its own: the same seed gives the same year, and one site
// of it can be played again alone.
//
// Reading a file is in decode.go, the play of all sites in run.go, one site and its clock in
// site.go, its appliance in appliance.go, its machines in machine.go and installation.go, its
// people in owner.go, and what came of it in report.go.
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

// Scenario is what a scenario file says.
type Scenario struct {
	Name  string `yaml:"name"`
	Seed  uint64 `yaml:"seed"`
	Start Time   `yaml:"start"` // when the play begins
	Days  int    `yaml:"days"`
	Sites []Kind `yaml:"sites"`
}

// Kind is a number of sites that are alike.
type Kind struct {
	Name     string   `yaml:"name"`
	Count    int      `yaml:"count"`
	Clusters int      `yaml:"clusters"` // at the same time, at each site
	Topology Topology `yaml:"topology"`
	Workers  int      `yaml:"workers"`
	Spares   int      `yaml:"spares"`   // machines of each cluster that are added when it is installed
	Binding  Binding  `yaml:"binding"`  // whether machines boot the cluster's own image or one of no cluster
	Hardware Hardware `yaml:"hardware"` // of each machine
	People   People   `yaml:"people"`
	Faults   Faults   `yaml:"faults"`
	Script   []Act    `yaml:"script"`
}

// Hardware is what machines are made of.
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

// People is what people do by themselves. Times are means; what is left out does not happen.
type People struct {
	Absent   bool    `yaml:"absent"`    // nobody does anything but what the script says
	Think    Span    `yaml:"think"`     // until they look again
	Rebuild  Span    `yaml:"rebuild"`   // from an installed cluster to its deletion and the next
	AddHosts Span    `yaml:"add_hosts"` // from an installed cluster to its day 2
	Cancel   Percent `yaml:"cancel"`    // of installations
	Delete   Percent `yaml:"delete"`    // of clusters that failed or were cancelled; the others are reset
	// of machines added on day 2 to clusters whose machines boot an image of no cluster
	Reclaim Percent `yaml:"reclaim"`
}

// Faults is what goes wrong.
type Faults struct {
	// of the machines of an installation, by fault as in `landfall simulate hosts --faults`, and
	// PowerLoss
	Hosts     map[string]Percent `yaml:"hosts"`
	Clusters  map[string]Percent `yaml:"clusters"` // of installations, by fault
	Restart   Outage             `yaml:"restart"`
	PowerCut  Outage             `yaml:"power_cut"`
	Sleep     Outage             `yaml:"sleep"`
	ClockJump Jump               `yaml:"clock_jump"`
}

// Outage is a time in which the appliance does nothing.
type Outage struct {
	Every Span `yaml:"every"` // in the mean
	For   Span `yaml:"for"`
}

// Jump is a change of the appliance's clock, forward or back.
type Jump struct {
	Every Span `yaml:"every"`
	By    Span `yaml:"by"` // at most
}

// Act is something that happens at a certain time.
type Act struct {
	At    Span   `yaml:"at"` // from the beginning
	Do    Doing  `yaml:"do"`
	Host  int    `yaml:"host"`  // the machine's number, where one is meant
	For   Span   `yaml:"for"`   // how long, of an outage; how far, of a jump
	Fault string `yaml:"fault"` // of the machine, from now on
}

// PowerLoss is the fault of a machine that is without power for a while in the middle of its
// installation.
const PowerLoss = "power-loss"

// The faults of an installation as a whole.
const (
	MirrorDown      = "mirror-down"      // the mirror does not answer while the installation is prepared
	InstallerFails  = "installer-fails"  // openshift-install ends with an error
	OperatorsHang   = "operators-hang"   // the cluster's operators never become available
	CompletionFails = "completion-fails" // the controller reports a failure at the end
)

var clusterFaults = []string{CompletionFails, InstallerFails, MirrorDown, OperatorsHang}

// Span is a time from one moment to another, written as 30d, 1d12h, 90s.
type Span time.Duration

func (s *Span) read(text string) error {
	days, rest := "", text
	if i := strings.IndexByte(text, 'd'); i >= 0 {
		if days, rest = text[:i], text[i+1:]; days == "" {
			return fmt.Errorf("%q is none", text)
		}
	}
	var total time.Duration
	if days != "" {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n >= 0 && n <= 36500) { // NaN is neither
			return fmt.Errorf("%q is none", text)
		}
		total = time.Duration(n * float64(24*time.Hour))
	}
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more < 0 {
			return fmt.Errorf("%q is none", text)
		}
		total += more
	} else if days == "" {
		return fmt.Errorf("%q is none", text)
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
		return fmt.Errorf("%q is none", text)
	}
	*p = Percent(value)
	return nil
}

func (*Percent) expects() string { return "a share from 0% to 100%" }

// Time is a moment, written as 2026-01-01T06:00:00Z.
type Time struct{ time.Time }

func (t *Time) read(text string) (err error) {
	t.Time, err = time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("%q is none", text)
	}
	return nil
}

func (*Time) expects() string { return "a time such as 2026-01-01T06:00:00Z" }

// Topology is how many nodes have the control plane.
type Topology int64

var topologies = map[string]Topology{"single-node": 1, "compact": 3, "four-masters": 4, "five-masters": 5}

func (t *Topology) read(text string) error {
	known, ok := topologies[text]
	if !ok {
		return fmt.Errorf("%q is none", text)
	}
	*t = known
	return nil
}

func (*Topology) expects() string {
	return "single-node, compact, four-masters or five-masters (workers are a key of their own)"
}

// Binding is how machines come to a cluster.
type Binding string

const (
	early Binding = "cluster"
	late  Binding = "late"
)

func (b *Binding) read(text string) error {
	if text != string(early) && text != string(late) {
		return fmt.Errorf("%q is none", text)
	}
	*b = Binding(text)
	return nil
}

func (*Binding) expects() string { return "cluster or late" }

// Doing is what an act does.
type Doing string

// What an act can do.
const (
	doCreate    Doing = "create"
	doInstall   Doing = "install"
	doCancel    Doing = "cancel"
	doReset     Doing = "reset"
	doDelete    Doing = "delete"
	doAddHosts  Doing = "add-hosts"
	doBind      Doing = "bind"
	doJoin      Doing = "join" // install the hosts that are there for an installed cluster
	doUnbind    Doing = "unbind"
	doBoot      Doing = "boot"
	doPowerOff  Doing = "power-off"
	doFault     Doing = "fault"
	doRestart   Doing = "restart"
	doPowerCut  Doing = "power-cut"
	doSleep     Doing = "sleep"
	doClockJump Doing = "clock-jump"
	doClockBack Doing = "clock-back"
)

var doings = []Doing{doAddHosts, doBind, doBoot, doCancel, doClockBack, doClockJump, doCreate, doDelete, doFault,
	doInstall, doJoin, doPowerCut, doPowerOff, doReset, doRestart, doSleep, doUnbind}

func (d *Doing) read(text string) error {
	if !slices.Contains(doings, Doing(text)) {
		return fmt.Errorf("%q is none", text)
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

// SiteCount is how many sites the scenario has.
func (s *Scenario) SiteCount() int {
	count := 0
	for i := range s.Sites {
		count += s.Sites[i].Count
	}
	return count
}

// kind is the kind of the site of that number (from 1), and its number among its kind.
func (s *Scenario) kind(number int) (*Kind, int) {
	for i := range s.Sites {
		if number <= s.Sites[i].Count {
			return &s.Sites[i], number
		}
		number -= s.Sites[i].Count
	}
	return nil, 0
}
