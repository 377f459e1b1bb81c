package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/presence"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/steps"
	"landfall/appliance/fault"
	"landfall/appliance/journal"
	"landfall/appliance/sentence"
	"landfall/store"
)

// clockDrift is the smallest change in seconds of a host's clock, compared with the engine's, that
// is stored.
const clockDrift = 3

// Poll is a host's request for its next instructions.
type Poll struct {
	InfraEnvID, HostID string
	AgentVersion       string
	Timestamp          int64 // the host's clock in Unix seconds; 0 if the agent does not send it
}

// Instructions answers a host's poll with its next steps, as the JSON of models.Steps. The prepared
// answer stays in memory until the host or its cluster changes, so most polls read and write no
// row.
func (e *Engine) Instructions(ctx context.Context, poll Poll) ([]byte, error) {
	key := poll.InfraEnvID + "/" + poll.HostID
	now := e.options.Clock.Now()
	if host := e.presence.Get(key); host != nil {
		host.Contacted(now)
		if answer := host.Answer(); answer != nil && poll.answeredBy(answer, now) {
			return answer.Body, nil
		}
	}
	return e.prepareInstructions(ctx, key, poll)
}

// answeredBy reports whether a prepared answer is still valid for the poll.
func (p Poll) answeredBy(answer *presence.Answer, now time.Time) bool {
	return answer.AgentVersion == p.AgentVersion && !drifted(answer.Skew, skew(now, p.Timestamp))
}

// noTime is the skew of a poll that does not state the host's time. It differs from any other.
const noTime = math.MinInt32

// skew returns the number of seconds that a host's clock is behind the engine's.
func skew(now time.Time, timestamp int64) int64 {
	if timestamp == 0 {
		return noTime
	}
	return now.Unix() - timestamp
}

func drifted(before, after int64) bool {
	return before-after > clockDrift || after-before > clockDrift
}

func (e *Engine) prepareInstructions(ctx context.Context, key string, poll Poll) ([]byte, error) {
	now := e.options.Clock.Now()
	changed, err := e.pollChangesHost(key, poll, now)
	if err != nil {
		return nil, err
	}
	host := e.presence.Of(key)
	host.Contacted(now)
	if changed {
		if err := e.recordPoll(ctx, poll); err != nil {
			return nil, err
		}
	}
	version := host.Version()
	var answer *models.Steps
	err = e.options.DB.View(func(tx *store.Tx) error {
		var err error
		answer, err = e.nextSteps(ctx, tx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	host.SetAnswer(&presence.Answer{Version: version, AgentVersion: poll.AgentVersion,
		Skew: skew(now, poll.Timestamp), Body: body})
	return body, nil
}

// pollChangesHost reports whether a poll changes the stored host: the host counted as disconnected,
// the agent's version changed, or the host's clock drifted.
func (e *Engine) pollChangesHost(key string, poll Poll, now time.Time) (bool, error) {
	var changed bool
	err := e.options.DB.View(func(tx *store.Tx) error {
		h, err := record.Hosts.Get(tx, key)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("There is no host %s in infra-env %s; its agent registers again after a restart.",
				poll.HostID, poll.InfraEnvID)
		}
		if err != nil {
			return err
		}
		disconnected := slices.Contains([]string{lifecycle.HostDisconnected, lifecycle.HostDisconnectedUnbound},
			*h.API.Status)
		changed = disconnected && !h.IsRestarting() && *h.API.MediaStatus != models.HostMediaStatusDisconnected ||
			poll.AgentVersion != "" && poll.AgentVersion != h.API.DiscoveryAgentVersion ||
			poll.Timestamp != 0 && (h.API.Timestamp == 0 || drifted(skew(time.Time(h.API.CheckedInAt), h.API.Timestamp),
				skew(now, poll.Timestamp)))
		return nil
	})
	return changed, err
}

func (e *Engine) recordPoll(ctx context.Context, poll Poll) error {
	return e.update(journal.WithRequest(ctx, journal.Request{Operation: journal.OperationPoll, Host: poll.HostID}),
		func(c *change) error {
			c.reported = true
			h, err := c.hostIn(poll.InfraEnvID, poll.HostID)
			if err != nil {
				return err
			}
			h.API.CheckedInAt, h.API.Timestamp = c.dateTime(), poll.Timestamp
			h.API.DiscoveryAgentVersion = orText(poll.AgentVersion, h.API.DiscoveryAgentVersion)
			c.saveHost(h)
			c.settleLater(h)
			return c.emitUpgradeStarted(h)
		})
}

// nextSteps computes a host's instructions.
func (e *Engine) nextSteps(ctx context.Context, tx *store.Tx, key string) (*models.Steps, error) {
	c := newReading(ctx, e, tx)
	h, err := c.host(key)
	if err != nil {
		return nil, err
	}
	host, err := c.inventoryHost(h)
	if err != nil {
		return nil, err
	}
	input := steps.Input{Host: host, Random: rand.Reader, PreparationLimit: e.options.Timeouts.HostPreparing}
	env, err := c.infraEnv(h.API.InfraEnvID.String())
	if err != nil {
		return nil, err
	}
	input.InfraEnv = &env.API
	if *h.API.Status == lifecycle.HostReclaiming {
		if input.BootArtifacts, err = e.bootArtifacts(&env.API); err != nil {
			return nil, err
		}
	}
	if h.API.ClusterID != nil {
		if err := c.describeCluster(&input, h.API.ClusterID.String()); err != nil {
			return nil, err
		}
		input.Ignition.Token, input.Ignition.Headers = h.EndpointToken, h.EndpointHeaders
	}
	// "" selects the agent image of each cluster's release. Hosts that have booted keep their
	// agent.
	input.Images.Agent = e.options.Images.Agent
	if *h.API.Status == lifecycle.HostPreparing && input.Images.Release == "" {
		// The release payload, which lists the images to pull, has not been read yet. The agent
		// polls again after a few seconds.
		post := models.StepsPostStepActionContinue
		return &models.Steps{NextInstructionSeconds: 5, PostStepAction: &post, Instructions: []*models.Step{}}, nil
	}
	answer, err := steps.For(input)
	if err != nil {
		e.options.Logger.Error("A step for a host could not be created.", "host", key, "error", err)
	}
	return answer, nil
}

// describeCluster adds the host's cluster to the input of the steps.
func (c *change) describeCluster(input *steps.Input, clusterID string) error {
	row, err := c.cluster(clusterID)
	if err != nil {
		return err
	}
	input.Cluster, input.Attempt = &row.API, row.Installs
	input.APIVIPLease, input.IngressVIPLease = row.APILease, row.IngressLease
	if input.Host.Day2() {
		input.Ignition = steps.MachineConfigServer(&row.API, input.Host)
	}
	records, _, err := c.readableHostsOf(clusterID)
	if err != nil {
		return err
	}
	for _, h := range records {
		peer, err := c.inventoryHost(h)
		if err != nil {
			return err
		}
		input.Peers = append(input.Peers, peer)
	}
	if r := row.Release; r != nil {
		input.Images = steps.Images{
			Release: r.Image, Installer: r.Installer, Controller: r.Controller, MCO: r.MCO,
			MustGather: map[string]string{"ocp": r.MustGather}, CoreOS: r.CoreOS,
		}
	}
	return nil
}

// runnerCommand returns the command that a newly registered agent runs. The command starts the
// program that polls for instructions.
func (e *Engine) runnerCommand(host *models.Host,
	agentImage string) (*models.HostRegistrationResponseAO1NextStepRunnerCommand, error) {
	argument, err := steps.Runner(host, agentImage)
	if err != nil {
		return nil, err
	}
	return &models.HostRegistrationResponseAO1NextStepRunnerCommand{Args: []string{argument}, RetrySeconds: 30}, nil
}

// ApplyStepReply stores the reply of a host's agent to a step. A reply that cannot be parsed is
// rejected with kind Invalid and changes nothing.
func (e *Engine) ApplyStepReply(ctx context.Context, infraEnvID, hostID string, reply *models.StepReply) error {
	key := infraEnvID + "/" + hostID
	unlock := e.replies.Lock(key)
	defer unlock()
	effect, unchanged, err := e.interpretReply(ctx, key, reply)
	if err != nil {
		return err
	}
	e.recordContact(key)
	if unchanged {
		return nil
	}
	return e.update(journal.WithReply(ctx, hostID, reply), func(c *change) error {
		c.reported = true
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if err := c.applyEffect(h, effect); err != nil {
			return err
		}
		c.saveHost(h)
		c.settleLater(h)
		return nil
	})
}

// interpretReply parses a reply in the context of its host. It runs before the write transaction,
// so that other changes do not wait for it. unchanged is true if the reply repeats stored facts.
func (e *Engine) interpretReply(ctx context.Context, key string,
	reply *models.StepReply) (effect *steps.Effect, unchanged bool, err error) {
	err = e.options.DB.View(func(tx *store.Tx) error {
		c := newReading(ctx, e, tx)
		h, err := c.host(key)
		if err != nil {
			return err
		}
		host, err := c.inventoryHost(h)
		if err != nil {
			return err
		}
		situation := steps.Situation{Host: host}
		var env *models.InfraEnv
		if row, err := c.infraEnv(h.API.InfraEnvID.String()); err == nil {
			env = &row.API
		}
		version := ""
		if h.API.ClusterID != nil {
			row, err := c.cluster(h.API.ClusterID.String())
			if err != nil {
				return err
			}
			situation.Cluster, version = &row.API, row.API.OpenshiftVersion
		}
		requirements := e.options.Requirements(version)
		situation.DiskRules = func(reported *models.Inventory) inventory.DiskRules {
			return requirements.DiskRules(inventory.NewHost(host.Record, &inventory.Facts{Inventory: reported}),
				situation.Cluster, env)
		}
		needs := requirements.ForHost(host, situation.Cluster)
		situation.DiskSpeedLimit = needs.InstallationDiskSpeedThresholdMs
		if effect, err = steps.Apply(reply, situation); err != nil {
			return &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
		}
		unchanged = effect.Repeats(host, needs.NetworkLatencyThresholdMs) || c.repeatsLostMedium(h, effect)
		return nil
	})
	return effect, unchanged, err
}

// repeatsLostMedium reports whether a reply only repeats that the host lost its discovery image.
func (c *change) repeatsLostMedium(h *record.Host, effect *steps.Effect) bool {
	if !effect.MediaDisconnected || *h.API.MediaStatus != models.HostMediaStatusDisconnected {
		return false
	}
	row := c.e.hosts.Next(lifecycle.OnMediaLost, *h.API.Status, lifecycle.HostSituation{})
	return row != nil && (row.To == lifecycle.Same || row.To == *h.API.Status)
}

// applyEffect applies a reply to the host's and the cluster's records.
func (c *change) applyEffect(h *record.Host, effect *steps.Effect) error {
	if effect.MediaDisconnected {
		h.API.MediaStatus = conv.Pointer(models.HostMediaStatusDisconnected)
		if _, err := c.triggerHost(h, lifecycle.OnMediaLost, ""); err != nil {
			return err
		}
		return c.hostEvent(h, event.MediaDisconnected, models.EventSeverityError,
			"Host %s can no longer read its discovery image.", c.hostName(h))
	}
	if effect.Inventory != nil && !h.TakeInventory(effect.Inventory.Inventory) {
		return nil
	}
	if err := errors.Join(c.emitCheckEvents(h, effect), c.applyReports(h, effect)); err != nil {
		return err
	}
	if err := c.applyReclaim(h, effect); err != nil || effect.BootArtifactsFailed || effect.BootArtifactsReady {
		return err
	}
	if effect.InstallationFailed {
		if _, err := c.triggerHost(h, lifecycle.OnFailure, effect.Failure); err != nil {
			return err
		}
		return nil
	}
	if err := c.applyVIPs(h, effect.VIPs); err != nil {
		return err
	}
	if err := c.applyLease(h, effect.Lease); err != nil {
		return err
	}
	return c.applyPreparation(h, effect)
}

// applyPreparation stores the results of the two checks of a host before its installation: disk
// speed and image availability.
func (c *change) applyPreparation(h *record.Host, effect *steps.Effect) error {
	facts, err := c.hostFacts(h)
	if err != nil {
		return err
	}
	switch effect.Step {
	case models.StepTypeInstallationDiskSpeedCheck:
		if effect.DiskSpeed == nil || *h.API.Status == lifecycle.HostPrepared {
			return nil
		}
		// A slow disk that works fails a validation, but does not end the installation.
		h.DiskOK, h.DiskError = effect.DiskSpeed.ExitCode == 0, ""
		if !h.DiskOK {
			h.DiskError = orText(effect.Failure,
				"The installation disk could not be measured; choose another disk or host.")
		}
	case models.StepTypeContainerImageAvailability:
		if len(effect.Images) == 0 && effect.Failure == "" {
			return nil
		}
		h.ImagesOK, h.ImagesError = true, effect.Failure
		for name, image := range facts.Images {
			if image.Result == models.ContainerImageAvailabilityResultFailure {
				h.ImagesError = "The host can't pull " + name +
					" from the mirror. Check that the mirror has the image, that the host can connect to the mirror " +
					"and " +
					"trusts its certificate, and that the infra-env's pull secret has an entry for the mirror."
			}
		}
		h.ImagesOK = h.ImagesError == ""
	default:
		if effect.Failure != "" {
			return c.hostEvent(h, event.StepFailed, models.EventSeverityWarning, "Host %s: %s", c.hostName(h),
				effect.Failure)
		}
	}
	return nil
}

// applyVIPs stores a host's verification of the cluster's virtual IPs.
func (c *change) applyVIPs(h *record.Host, response models.VerifyVipsResponse) error {
	if len(response) == 0 || h.API.ClusterID == nil {
		return nil
	}
	row, err := c.cluster(h.API.ClusterID.String())
	if err != nil {
		return err
	}
	if row.NoteVIPs(response) {
		c.saveCluster(row)
	}
	return nil
}

// applyReports stores the reports in a reply.
func (c *change) applyReports(h *record.Host, effect *steps.Effect) error {
	reports := &effect.Reports
	for _, report := range []struct {
		name, text string
		parsed     func(*inventory.Facts)
	}{
		{record.PartInventory, reports.Inventory, func(f *inventory.Facts) {
			f.Inventory, f.Truncation = effect.Inventory.Inventory, effect.Inventory.Truncation
		}},
		{record.PartConnectivity, reports.Connectivity,
			func(f *inventory.Facts) { f.Connectivity = effect.Connectivity }},
		{record.PartFreeAddresses, reports.FreeAddresses,
			func(f *inventory.Facts) { f.FreeAddresses = effect.FreeAddresses }},
		{record.PartNTP, reports.NTPSources, func(f *inventory.Facts) { f.NTPSources = effect.NTPSources }},
		{record.PartDomains, reports.Domains, func(f *inventory.Facts) { f.Domains = effect.Domains }},
		{record.PartTang, reports.Tang, nil},
		{record.PartAPI, reports.APIConnectivity,
			func(f *inventory.Facts) { f.APIConnectivity = effect.APIConnectivity }},
		{record.PartImages, reports.Images, nil},
		{record.PartDisks, reports.Disks, nil},
	} {
		if report.text == "" {
			continue
		}
		parsed := report.parsed
		if parsed == nil {
			only := inventory.Reports{}
			*record.Part(&only, report.name) = report.text
			read, err := inventory.Parse(only)
			if err != nil {
				return err
			}
			parsed = func(f *inventory.Facts) {
				switch report.name {
				case record.PartTang:
					f.Tang, f.TangError = read.Tang, read.TangError
				case record.PartImages:
					f.Images = read.Images
				case record.PartDisks:
					f.Disks = read.Disks
				}
			}
		}
		if err := c.setReport(h, report.name, report.text, parsed); err != nil {
			return err
		}
	}
	return nil
}
