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

// FaultKind names one way in which a simulated host misbehaves, as it is written in the text that
// ParseFaults reads.
type FaultKind string

// The faults that a simulated host can have.
const (
	// SlowDisk makes the installation disk answer a sync in 47 ms, where a control plane host may
	// take 10.
	SlowDisk FaultKind = "slow-disk"
	// SmallDisk leaves the host a single disk of 20 GB.
	SmallDisk FaultKind = "small-disk"
	// LowMemory leaves the host 4 GiB of memory.
	LowMemory FaultKind = "low-memory"
	// SlowCPU leaves the host one core of 800 MHz.
	SlowCPU FaultKind = "slow-cpu"
	// DuplicateHostname makes the host report the name of the group's first host.
	DuplicateHostname FaultKind = "duplicate-hostname"
	// NoDNS makes every name unknown.
	NoDNS FaultKind = "no-dns"
	// NoNTP makes every time source unreachable.
	NoNTP FaultKind = "no-ntp"
	// ClockSkew sets the host's clock ahead (or behind, when negative) by Duration.
	ClockSkew FaultKind = "clock-skew"
	// LostLink cuts the host off for Duration: once after its first inventory and once while its
	// disk is written.
	LostLink FaultKind = "lost-link"
	// Isolated lets the host reach the appliance but no other host.
	Isolated FaultKind = "isolated"
	// PacketLoss loses Percent of the packets between this host and the others.
	PacketLoss FaultKind = "packet-loss"
	// HighLatency makes a round trip to another host take Duration.
	HighLatency FaultKind = "high-latency"
	// NoImage makes every container image unavailable to the host.
	NoImage FaultKind = "no-image"
	// LostMedia takes the virtual media away after the inventory: every step ends with exit code
	// 256.
	LostMedia FaultKind = "lost-media"
	// RegisterTwice makes the agent register two times at each boot.
	RegisterTwice FaultKind = "register-twice"
	// WrongBootOrder makes the host boot the discovery image once more after the installation,
	// instead of its disk.
	WrongBootOrder FaultKind = "wrong-boot-order"
	// FailAt ends the host's installation at Stage: the installer reports the failure for a stage
	// before the reboot; a node that never reaches a later stage reports nothing, as a real one.
	FailAt FaultKind = "fail-at"
	// OperatorFails makes an operator that is installed with the cluster, Operator, fail for good.
	OperatorFails FaultKind = "operator-fails"
	// OperatorStuck makes such an operator never get ready, until the appliance says that its time
	// is over.
	OperatorStuck FaultKind = "operator-stuck"
)

// Fault is one fault of one host, or of all.
type Fault struct {
	Kind FaultKind
	// Host is the number of the only host that has the fault, as in host-2; 0 stands for all.
	Host int
	// Duration belongs to ClockSkew, LostLink and HighLatency.
	Duration time.Duration
	// Percent belongs to PacketLoss.
	Percent float64
	// Stage belongs to FailAt.
	Stage models.HostStage
	// Operator belongs to OperatorFails and OperatorStuck, which are of the cluster and not of a
	// host.
	Operator string
}

// Faults is what goes wrong in a group. The zero value is a group without faults.
type Faults []Fault

// faultSyntax describes how a kind of fault is written: its argument's name ("" for none) and how
// it is read.
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

// ParseFaults reads faults from a text such as "slow-disk,host=2:clock-skew=90s,fail-at=Rebooting":
// faults parted by commas, each for all hosts or behind "host=N:" for one. Stages are written as
// the API names them, in any case, with spaces or dashes.
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
	syntax, known := faultSyntaxes()[fault.Kind]
	switch {
	case !known:
		return fault, fmt.Errorf("unknown fault %q: the faults known are %s", name, strings.Join(KnownFaults(), ", "))
	case syntax.read == nil && given:
		return fault, fmt.Errorf("fault %s takes no value, but %q was given", fault.Kind, argument)
	case syntax.read == nil:
		return fault, nil
	case !given:
		return fault, fmt.Errorf("fault %s needs a value: write %s=%s", fault.Kind, fault.Kind, syntax.argument)
	}
	if err := syntax.read(&fault, strings.TrimSpace(argument)); err != nil {
		return fault, fmt.Errorf("fault %s has a wrong value: %w", fault.Kind, err)
	}
	return fault, nil
}

// KnownFaults lists every fault in the form in which ParseFaults reads it, sorted.
func KnownFaults() []string {
	var known []string
	for kind, syntax := range faultSyntaxes() {
		form := string(kind)
		if syntax.argument != "" {
			form += "=" + syntax.argument
		}
		known = append(known, form)
	}
	slices.Sort(known)
	return known
}

// String writes the faults in the form that ParseFaults reads.
func (f Faults) String() string {
	items := make([]string, 0, len(f))
	for _, fault := range f {
		items = append(items, fault.String())
	}
	return strings.Join(items, ",")
}

// String writes the fault in the form that ParseFaults reads.
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

// find returns the fault of the kind that the host with that number has; a fault of this host alone
// goes before one of all hosts.
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
		return fmt.Errorf("%q is no duration such as 90s or 5m", argument)
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
		return fmt.Errorf("%q is no percentage between 0 and 100", argument)
	}
	fault.Percent = percent
	return nil
}

func readFaultOperator(fault *Fault, argument string) error {
	if argument == "" || strings.ContainsAny(argument, " /") {
		return fmt.Errorf("%q is no name of an operator such as cnv", argument)
	}
	if fault.Host != 0 {
		return errors.New("an operator is the cluster's and not a host's; leave out host=N")
	}
	fault.Operator = argument
	return nil
}

// ofOperator tells whether an operator has a fault of the kind.
func (f Faults) ofOperator(kind FaultKind, name string) bool {
	return slices.ContainsFunc(f, func(fault Fault) bool { return fault.Kind == kind && fault.Operator == name })
}

// faultStages are the stages at which an installation can be made to fail, in the order in which
// hosts pass them.
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
	var known []string
	for _, stage := range faultStages() {
		if strings.ToLower(string(stage)) == wanted {
			fault.Stage = stage
			return nil
		}
		known = append(known, string(stage))
	}
	return fmt.Errorf("%q is no stage of an installation; the stages are %s", argument, strings.Join(known, ", "))
}
