package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"
)

// FaultKind is the name of a fault of a simulated host, in the notation of ParseFaults.
type FaultKind string

// Faults of simulated hosts.
const (
	// SlowDisk slows a sync of the installation disk down to 47 ms. The limit for a control-plane
	// host is 10 ms.
	SlowDisk FaultKind = "slow-disk"
	// SmallDisk gives the host a single disk of 20 GB.
	SmallDisk FaultKind = "small-disk"
	// LowMemory gives the host 4 GiB of memory.
	LowMemory FaultKind = "low-memory"
	// SlowCPU gives the host one core of 800 MHz.
	SlowCPU FaultKind = "slow-cpu"
	// DuplicateHostname makes the host report the name of the group's first host.
	DuplicateHostname FaultKind = "duplicate-hostname"
	// NoDNS makes all name lookups fail.
	NoDNS FaultKind = "no-dns"
	// NoNTP makes all time servers unreachable.
	NoNTP FaultKind = "no-ntp"
	// ClockSkew sets the host's clock ahead by Duration, or back if Duration is negative.
	ClockSkew FaultKind = "clock-skew"
	// LostLink disconnects the host twice for Duration: after its first inventory and while its
	// disk is written.
	LostLink FaultKind = "lost-link"
	// Isolated blocks the traffic between the host and other hosts, but not to the appliance.
	Isolated FaultKind = "isolated"
	// PacketLoss drops Percent of the packets between this host and the others.
	PacketLoss FaultKind = "packet-loss"
	// HighLatency makes a round trip to another host take Duration.
	HighLatency FaultKind = "high-latency"
	// NoImage makes every container image unavailable to the host.
	NoImage FaultKind = "no-image"
	// LostMedia removes the virtual media after the inventory: every step ends with exit code 256.
	LostMedia FaultKind = "lost-media"
	// RegisterTwice makes the agent register twice at each boot.
	RegisterTwice FaultKind = "register-twice"
	// WrongBootOrder makes the host boot the discovery image again after the installation, instead
	// of its disk.
	WrongBootOrder FaultKind = "wrong-boot-order"
	// FailAt ends the host's installation at Stage. If the stage is before the reboot, the
	// installer reports the failure. A node that does not reach a later stage reports nothing, like
	// a real node.
	FailAt FaultKind = "fail-at"
	// OperatorFails makes Operator fail, which is installed with the cluster.
	OperatorFails FaultKind = "operator-fails"
	// OperatorStuck keeps Operator from becoming ready until the appliance reports a time-out.
	OperatorStuck FaultKind = "operator-stuck"
)

// Fault is a fault of one host or of all hosts.
type Fault struct {
	Kind FaultKind
	// Host is the number of the affected host, as in host-2; 0 means all hosts.
	Host int
	// Duration is the argument of ClockSkew, LostLink and HighLatency.
	Duration time.Duration
	// Percent is the argument of PacketLoss.
	Percent float64
	// Stage is the argument of FailAt.
	Stage models.HostStage
	// Operator is the argument of OperatorFails and OperatorStuck, which affect the cluster.
	Operator string
}

// Faults contains the faults of a group. The zero value has none.
type Faults []Fault

// faultSyntax describes the notation of a fault: the name of its argument ("" for none) and its
// parser.
type faultSyntax struct {
	argument string
	read     func(*Fault, string) error
}

func faultSyntaxes() map[FaultKind]faultSyntax {
	plain := faultSyntax{}
	duration := faultSyntax{argument: "DURATION", read: readFaultDuration}
	return map[FaultKind]faultSyntax{
		SlowDisk: plain, SmallDisk: plain, LowMemory: plain, SlowCPU: plain, DuplicateHostname: plain, NoDNS: plain,
		NoNTP:    plain,
		Isolated: plain, NoImage: plain, LostMedia: plain, RegisterTwice: plain, WrongBootOrder: plain,
		ClockSkew: duration, LostLink: duration, HighLatency: duration,
		PacketLoss:    {argument: "PERCENT", read: readFaultPercent},
		FailAt:        {argument: "STAGE", read: readFaultStage},
		OperatorFails: {argument: "NAME", read: readFaultOperator}, OperatorStuck: {argument: "NAME",
			read: readFaultOperator},
	}
}

// ParseFaults parses a text such as "slow-disk,host=2:clock-skew=90s,fail-at=Rebooting": faults
// separated by commas. A fault applies to all hosts or, after "host=N:", to one host. Stages have
// the names of the API, in any case, with spaces or dashes.
func ParseFaults(text string) (Faults, error) {
	var faults Faults
	for _, item := range strings.Split(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		fault, err := parseFault(item)
		if err != nil {
			return nil, err
		}
		faults = append(faults, fault)
	}
	return faults, nil
}

func parseFault(item string) (Fault, error) {
	var fault Fault
	rest := item
	if after, found := strings.CutPrefix(item, "host="); found {
		number, name, separated := strings.Cut(after, ":")
		host, err := strconv.Atoi(number)
		if !separated || err != nil || host < 1 {
			return fault,
				fmt.Errorf("fault %q does not name its host: write host=N:FAULT with N from 1, such as host=2:%s",
					item, SlowDisk)
		}
		fault.Host, rest = host, name
	}
	name, argument, given := strings.Cut(rest, "=")
	fault.Kind = FaultKind(strings.ToLower(strings.TrimSpace(name)))
	syntax, ok := faultSyntaxes()[fault.Kind]
	switch {
	case !ok:
		return fault, fmt.Errorf("unknown fault %q: the faults are %s", name, strings.Join(KnownFaults(), ", "))
	case syntax.read == nil && given:
		return fault, fmt.Errorf("fault %s does not take a value, but got %q", fault.Kind, argument)
	case syntax.read == nil:
		return fault, nil
	case !given:
		return fault, fmt.Errorf("fault %s needs a value: write %s=%s", fault.Kind, fault.Kind, syntax.argument)
	}
	if err := syntax.read(&fault, strings.TrimSpace(argument)); err != nil {
		return fault, fmt.Errorf("fault %s has an invalid value: %w", fault.Kind, err)
	}
	return fault, nil
}

// KnownFaults returns all faults in the notation of ParseFaults, sorted.
func KnownFaults() []string {
	var all []string
	for kind, syntax := range faultSyntaxes() {
		form := string(kind)
		if syntax.argument != "" {
			form += "=" + syntax.argument
		}
		all = append(all, form)
	}
	slices.Sort(all)
	return all
}

// String returns the faults in the notation of ParseFaults.
func (f Faults) String() string {
	items := make([]string, 0, len(f))
	for _, fault := range f {
		items = append(items, fault.String())
	}
	return strings.Join(items, ",")
}

// String returns the fault in the notation of ParseFaults.
func (f Fault) String() string {
	text := string(f.Kind)
	switch f.Kind {
	case ClockSkew, LostLink, HighLatency:
		text += "=" + f.Duration.String()
	case PacketLoss:
		text += "=" + strconv.FormatFloat(f.Percent, 'f', -1, 64)
	case FailAt:
		text += "=" + string(f.Stage)
	case OperatorFails, OperatorStuck:
		text += "=" + f.Operator
	}
	if f.Host > 0 {
		text = fmt.Sprintf("host=%d:%s", f.Host, text)
	}
	return text
}

// find returns a host's fault of the given kind. A fault of this host takes precedence over a fault
// of all hosts.
func (f Faults) find(kind FaultKind, host int) (Fault, bool) {
	var found *Fault
	for i := range f {
		if f[i].Kind != kind || (f[i].Host != 0 && f[i].Host != host) {
			continue
		}
		if found == nil || f[i].Host != 0 {
			found = &f[i]
		}
	}
	if found == nil {
		return Fault{}, false
	}
	return *found, true
}

func readFaultDuration(fault *Fault, argument string) error {
	duration, err := time.ParseDuration(argument)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s or 5m", argument)
	}
	if duration < 0 && fault.Kind != ClockSkew {
		return fmt.Errorf("%q is negative", argument)
	}
	fault.Duration = duration
	return nil
}

func readFaultPercent(fault *Fault, argument string) error {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(argument, "%"), 64)
	if err != nil || percent < 0 || percent > 100 {
		return fmt.Errorf("%q is not a percentage between 0 and 100", argument)
	}
	fault.Percent = percent
	return nil
}

func readFaultOperator(fault *Fault, argument string) error {
	if argument == "" || strings.ContainsAny(argument, " /") {
		return fmt.Errorf("%q is not the name of an operator such as cnv", argument)
	}
	if fault.Host != 0 {
		return errors.New("the fault concerns an operator of the cluster, not a host; omit host=N")
	}
	fault.Operator = argument
	return nil
}

// ofOperator reports whether an operator has a fault of the kind.
func (f Faults) ofOperator(kind FaultKind, name string) bool {
	return slices.ContainsFunc(f, func(fault Fault) bool { return fault.Kind == kind && fault.Operator == name })
}

// faultStages returns the stages at which an installation can fail, in order.
func faultStages() []models.HostStage {
	return []models.HostStage{
		models.HostStageStartingInstallation, models.HostStageInstalling, models.HostStageWritingImageToDisk,
		models.HostStageWaitingForControlPlane, models.HostStageWaitingForBootkube,
		models.HostStageWaitingForController,
		models.HostStageRebooting, models.HostStageConfiguring, models.HostStageJoined, models.HostStageDone,
	}
}

func readFaultStage(fault *Fault, argument string) error {
	wanted := strings.ToLower(strings.ReplaceAll(argument, "-", " "))
	var stages []string
	for _, stage := range faultStages() {
		if strings.ToLower(string(stage)) == wanted {
			fault.Stage = stage
			return nil
		}
		stages = append(stages, string(stage))
	}
	return fmt.Errorf("%q is not a stage of an installation; the stages are %s", argument, strings.Join(stages, ", "))
}
