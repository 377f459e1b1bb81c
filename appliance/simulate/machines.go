package simulate

import (
	"context"
	"math"
	"net/netip"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
)

// MachineSet is a set of machines that share a network. The machines do not run by themselves: the
// caller decides when they run, and delivers their replies (see appliance/simulate/scenario). A
// MachineSet must be used by one goroutine only.
type MachineSet struct {
	group    *HostGroup
	faults   map[int]Faults
	answers  map[stepKey]*models.StepReply
	machines map[int]*Machine
}

// Machine is a machine of a set.
type Machine struct {
	set    *MachineSet
	system *system
}

// stepKey contains everything on which the reply to a quick step depends, except the faults of the
// set.
type stepKey struct {
	machine   int
	step      models.StepType
	arguments string
}

// NewMachineSet returns a set for the named site. Equal names and seeds result in equal machines.
func NewMachineSet(site string, seed uint64, network netip.Prefix, hardware Hardware) *MachineSet {
	identity := uuid.NewSHA1(uuid.NameSpaceOID, []byte("landfall simulated site "+site))
	return &MachineSet{
		group: &HostGroup{
			// These fields are unused, because machines of a set do not wait.
			InfraEnvID: identity.String(), Seed: seed, Network: network, Hardware: hardware, Speed: math.Inf(1),
			hosts: map[strfmt.UUID]*host{},
		},
		faults: map[int]Faults{}, answers: map[stepKey]*models.StepReply{}, machines: map[int]*Machine{},
	}
}

// Machine returns the machine with the given number (from 1). It creates the machine if necessary.
func (r *MachineSet) Machine(number int) (*Machine, error) {
	if existing := r.machines[number]; existing != nil {
		return existing, nil
	}
	m := &Machine{set: r}
	r.machines[number] = m
	return m, m.build(number)
}

// SetFaults replaces the machine's faults.
func (m *Machine) SetFaults(faults Faults) error {
	number := m.system.machine.number
	m.set.faults[number] = faults
	m.set.group.Faults = nil
	for number, faults := range m.set.faults {
		for _, fault := range faults {
			fault.Host = number
			m.set.group.Faults = append(m.set.group.Faults, fault)
		}
	}
	clear(m.set.answers)
	return m.build(number)
}

// build creates the machine with its faults. The machine's identity does not change.
func (m *Machine) build(number int) error {
	built, err := newMachine(m.set.group, number)
	if err != nil {
		return err
	}
	h := &host{
		group: m.set.group, machine: built, vips: map[models.VipType]string{}, linkCuts: map[models.HostStage]bool{},
		ref: hostRef{infraEnv: strfmt.UUID(m.set.group.InfraEnvID), host: strfmt.UUID(built.id)},
	}
	m.system = &system{host: h}
	m.set.group.hosts[h.ref.host] = h
	return nil
}

// ID returns the ID with which the machine's agent registers.
func (m *Machine) ID() string { return m.system.machine.id }

// Name returns the machine's host name.
func (m *Machine) Name() string { return m.system.machine.hostname }

// Faulty reports whether the machine has a fault.
func (m *Machine) Faulty() bool { return len(m.set.faults[m.system.machine.number]) > 0 }

// Fault returns the machine's fault of the given kind.
func (m *Machine) Fault(kind FaultKind) (Fault, bool) { return m.system.fault(kind) }

// Answer returns the agent's reply to a step without duration and side effects, such as the
// inventory or network checks. It returns false for other steps.
func (m *Machine) Answer(step *models.Step) (*models.StepReply, bool) {
	switch step.StepType {
	case models.StepTypeInventory, models.StepTypeConnectivityCheck, models.StepTypeFreeNetworkAddresses,
		models.StepTypeNtpSynchronizer,
		models.StepTypeDomainResolution, models.StepTypeTangConnectivityCheck, models.StepTypeAPIVipConnectivityCheck,
		models.StepTypeVerifyVips,
		models.StepTypeDhcpLeaseAllocate:
	default:
		return nil, false
	}
	key := stepKey{m.system.machine.number, step.StepType, strings.Join(step.Args, "\n")}
	if previous := m.set.answers[key]; previous != nil {
		return previous, true
	}
	out := m.system.perform(context.Background(), step)
	reply := &models.StepReply{StepType: step.StepType, StepID: step.StepID, Output: out.output, Error: out.errorText,
		ExitCode: out.code}
	m.set.answers[key] = reply
	return reply, true
}

// DiskSpeed returns the agent's reply to a disk speed check.
func (m *Machine) DiskSpeed(step *models.Step) *models.StepReply {
	out := m.system.checkDiskSpeed(context.Background(), step.Args)
	return &models.StepReply{StepType: step.StepType, StepID: step.StepID, Output: out.output, Error: out.errorText,
		ExitCode: out.code}
}

// Images returns the agent's reply to an image availability check. All images are available unless
// the machine has the fault NoImage.
func (m *Machine) Images(step *models.Step) *models.StepReply {
	reply := &models.StepReply{StepType: step.StepType, StepID: step.StepID}
	var request models.ContainerImageAvailabilityRequest
	if err := decodeArguments("image availability", step.Args, 1, &request); err != nil {
		reply.ExitCode, reply.Error = exitFailed, err.Error()
		return reply
	}
	_, none := m.Fault(NoImage)
	response := models.ContainerImageAvailabilityResponse{Images: []*models.ContainerImageAvailability{}}
	for _, image := range request.Images {
		checked := &models.ContainerImageAvailability{Name: image,
			Result: models.ContainerImageAvailabilityResultFailure}
		if !none {
			checked.Result = models.ContainerImageAvailabilityResultSuccess
			checked.SizeBytes, checked.Time, checked.DownloadRate = 1e8, 1, 1e8
		}
		response.Images = append(response.Images, checked)
	}
	if none {
		reply.ExitCode = exitNoImage
	}
	reply.Output = answered(response).output
	return reply
}

// Installation contains the arguments of an install step.
type Installation struct {
	Cluster, HostID string
	Role            models.HostRole
	Single          bool // the only node of its cluster
}

// Install parses an install step like the agent.
func (m *Machine) Install(step *models.Step) (Installation, error) {
	var request models.InstallCmdRequest
	if err := decodeArguments("install", step.Args, 1, &request); err != nil {
		return Installation{}, err
	}
	return Installation{
		Cluster: request.ClusterID.String(), HostID: request.HostID.String(), Role: *request.Role,
		Single: request.ControlPlaneCount == 1 && *request.Role != models.HostRoleWorker,
	}, m.system.checkInstallRequest(&request)
}
