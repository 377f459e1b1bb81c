// Package steps implements the agent's protocol: the steps that a host gets in each state, and the
// effects of its replies.
//
// For and Apply are pure functions. The formats of requests and replies are those of
// openshift/assisted-installer-agent, which rejects a step whose arguments are not valid JSON of
// the request model.
package steps

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// Intervals between the polls of an agent, in seconds.
const (
	pollSeconds = 60
	backedOff   = 120
	immediately = 0
)

// hostMount is the mount point of the host's file system in the agent's container.
const hostMount = "/host"

// Images holds the pull specs in the steps of hosts.
type Images struct {
	// Release is the release payload of the cluster.
	Release string
	// Agent is the required image of the agent. If it is empty, agents are never replaced.
	Agent                 string
	Installer, Controller string
	MCO                   string
	// MustGather holds the must-gather images by operator. "ocp" is OpenShift's own image.
	MustGather map[string]string
	// CoreOS is the operating system image of the release, for hosts that already run from their
	// disk. A joining host gets the image in the ignition config of its cluster, which may have
	// been updated since.
	CoreOS string
}

// Input holds all input for the steps of a host.
type Input struct {
	Host *inventory.Host
	// Cluster is nil for an unbound host.
	Cluster  *models.Cluster
	InfraEnv *models.InfraEnv
	// Peers holds the hosts of the cluster. The host itself may be among them.
	Peers  []*inventory.Host
	Images Images
	// APIVIPLease and IngressVIPLease are the present DHCP leases of the VIPs.
	APIVIPLease, IngressVIPLease string
	// Ignition is the endpoint that provides the ignition config of a joining host.
	Ignition IgnitionEndpoint
	// BootArtifacts holds the boot files for a host that is reclaimed.
	BootArtifacts BootArtifacts
	// Attempt counts the preparations of the cluster's installation, from 1.
	Attempt int
	// PreparationLimit is the time for a host's preparation. The agent's limits are longer than the
	// preparation: at least 8 minutes for the disk, and 16 minutes for the images.
	PreparationLimit time.Duration
	// Random is the source of step ids: crypto/rand.Reader, or a fixed source in tests.
	Random io.Reader
}

// IgnitionEndpoint is the machine config server of an installed cluster.
type IgnitionEndpoint struct {
	URL           string
	CACertificate string            // base64 of PEM, "" for plain HTTP
	Token         string            // bearer token, "" for none
	Headers       map[string]string // additional headers of each request
}

// BootArtifacts holds the URLs of the files for a network boot.
type BootArtifacts struct {
	Kernel, Initrd, Rootfs string
	// HostMount is the agent's mount point of the host's file system. Empty means /host.
	HostMount string
}

// maker creates the step of one type. It returns nil if the host does not need the step.
type maker func(Input) (*models.Step, error)

// plan holds the steps for a state.
type plan struct {
	makers  []maker
	seconds int64
	exit    bool
}

// The plans by state. The agent gets the steps in this order and runs them in parallel.
var (
	dayOne = map[string]plan{
		models.HostStatusDiscovering:     {makers: []maker{inventoryStep}, seconds: pollSeconds},
		models.HostStatusKnown:           {makers: checks, seconds: pollSeconds},
		models.HostStatusInsufficient:    {makers: checks, seconds: pollSeconds},
		models.HostStatusPendingForInput: {makers: checks, seconds: pollSeconds},
		models.HostStatusDisconnected:    {makers: []maker{inventoryStep}, seconds: backedOff},
		models.HostStatusPreparingForInstallation: {makers: []maker{dhcpStep, diskSpeedStep, imagesStep},
			seconds: pollSeconds},
		models.HostStatusInstalling:           {makers: []maker{installStep, dhcpStep}, seconds: pollSeconds},
		models.HostStatusInstallingInProgress: {makers: []maker{dhcpStep}, seconds: pollSeconds},
		models.HostStatusError:                {makers: []maker{logsStep, stopStep}, seconds: backedOff},
		models.HostStatusCancelled:            {makers: []maker{logsStep, stopStep}, seconds: backedOff},
		models.HostStatusDisabled:             {seconds: backedOff},
		models.HostStatusResetting:            {seconds: backedOff},
		models.HostStatusBinding:              {seconds: immediately, exit: true},
	}
	dayTwo = map[string]plan{
		models.HostStatusDiscovering: {makers: []maker{inventoryStep, ntpStep, domainsStep},
			seconds: pollSeconds},
		models.HostStatusKnown:        {makers: joinChecks, seconds: pollSeconds},
		models.HostStatusInsufficient: {makers: joinChecks, seconds: pollSeconds},
		models.HostStatusPendingForInput: {makers: []maker{inventoryStep, connectivityStep, apiConnectivityStep,
			tangStep}, seconds: pollSeconds},
		models.HostStatusDisconnected:         {makers: []maker{inventoryStep}, seconds: backedOff},
		models.HostStatusInstalling:           {makers: []maker{installStep}, seconds: pollSeconds},
		models.HostStatusInstallingInProgress: {seconds: pollSeconds},
		models.HostStatusError:                {makers: []maker{logsStep, stopStep}, seconds: backedOff},
		models.HostStatusCancelled:            {makers: []maker{logsStep, stopStep}, seconds: backedOff},
		models.HostStatusDisabled:             {seconds: backedOff},
		models.HostStatusResetting:            {seconds: backedOff},
	}
	unbound = map[string]plan{
		models.HostStatusDiscoveringUnbound:         {makers: []maker{inventoryStep, ntpStep}, seconds: pollSeconds},
		models.HostStatusKnownUnbound:               {makers: []maker{inventoryStep, ntpStep}, seconds: pollSeconds},
		models.HostStatusInsufficientUnbound:        {makers: []maker{inventoryStep, ntpStep}, seconds: pollSeconds},
		models.HostStatusDisconnectedUnbound:        {makers: []maker{inventoryStep}, seconds: backedOff},
		models.HostStatusDisabledUnbound:            {seconds: backedOff},
		models.HostStatusUnbinding:                  {seconds: immediately, exit: true},
		models.HostStatusUnbindingPendingUserAction: {seconds: immediately, exit: true},
		models.HostStatusReclaiming:                 {makers: []maker{bootArtifactsStep}, seconds: pollSeconds},
		models.HostStatusReclaimingRebooting:        {makers: []maker{reclaimStep}, seconds: backedOff, exit: true},
	}
	checks = []maker{inventoryStep, connectivityStep, tangStep, freeAddressesStep, dhcpStep, ntpStep, domainsStep,
		verifyVIPsStep}
	joinChecks = []maker{inventoryStep, connectivityStep, apiConnectivityStep, tangStep, ntpStep, domainsStep}
)

func planFor(in Input) plan {
	table := dayOne
	switch {
	case in.Cluster == nil:
		table = unbound
	case in.Host.Day2():
		table = dayTwo
	}
	if p, ok := table[in.Host.Status()]; ok {
		return p
	}
	return plan{seconds: pollSeconds}
}

// upgradable reports whether the agent may be replaced in a state.
func upgradable(status string) bool {
	switch status {
	case models.HostStatusBinding, models.HostStatusDiscovering, models.HostStatusInsufficient, models.HostStatusKnown,
		models.HostStatusPendingForInput, models.HostStatusDiscoveringUnbound, models.HostStatusInsufficientUnbound,
		models.HostStatusKnownUnbound:
		return true
	}
	return false
}

// Upgrades reports whether a host gets only the step that replaces its agent.
func Upgrades(host *models.Host, agent string) bool {
	return agent != "" && host.DiscoveryAgentVersion != agent && upgradable(*host.Status)
}

// For returns the next steps of a host and the interval to its next poll. A state without work has
// no steps. If some steps could not be created, For also returns an error with a sentence for each
// of them. The caller sends the other steps and logs the error.
func For(in Input) (*models.Steps, error) {
	p := planFor(in)
	if Upgrades(in.Host.Record, in.Images.Agent) {
		p = plan{makers: []maker{upgradeStep}, seconds: pollSeconds}
	}
	post := models.StepsPostStepActionContinue
	if p.exit {
		post = models.StepsPostStepActionExit
	}
	answer := &models.Steps{NextInstructionSeconds: p.seconds, PostStepAction: &post, Instructions: []*models.Step{}}
	var errs []error
	for _, make := range p.makers {
		step, err := make(in)
		if err == nil && step != nil {
			step.StepID, err = stepID(step.StepType, in.Random)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if step != nil {
			answer.Instructions = append(answer.Instructions, step)
		}
	}
	return answer, errors.Join(errs...)
}

// stepID returns the id of a step: its type and 8 hexadecimal digits.
func stepID(kind models.StepType, random io.Reader) (string, error) {
	var b [4]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("make the id of step %s: %w", kind, err)
	}
	return string(kind) + "-" + hex.EncodeToString(b[:]), nil
}

// request creates a step whose only argument is a request as JSON.
func request(kind models.StepType, body any) (*models.Step, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the request of step %s: %w", kind, err)
	}
	return &models.Step{StepType: kind, Args: []string{string(b)}}, nil
}

// Runner returns the arguments of the command that an agent gets when it registers. The command
// starts the program that polls for steps.
func Runner(record *models.Host, agentImage string) (string, error) {
	b, err := json.Marshal(models.NextStepCmdRequest{AgentVersion: &agentImage, HostID: record.ID,
		InfraEnvID: &record.InfraEnvID})
	if err != nil {
		return "", fmt.Errorf("encode the command of the step runner: %w", err)
	}
	return string(b), nil
}
