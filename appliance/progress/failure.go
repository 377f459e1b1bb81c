package progress

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/sentence"
)

// Failure explains why an installation failed, and what to do.
type Failure struct {
	// Title names the part that failed first and what it was doing.
	Title string `json:"title"`
	Cause Part   `json:"cause"`
	// Others failed by themselves, after the cause.
	Others []Part `json:"others"`
	// Stopped lists what ended only because of the failure.
	Stopped []Part `json:"stopped"`
	Advice  []Step `json:"advice"`
}

// Part is a part of the installation that failed or was stopped.
type Part struct {
	Kind       string    `json:"kind"` // cluster, host or operator
	ID         string    `json:"id,omitempty"`
	InfraEnvID string    `json:"infra_env_id,omitempty"` // of a host
	Name       string    `json:"name"`
	Stage      string    `json:"stage,omitempty"`
	At         time.Time `json:"at,omitzero"`
	Text       string    `json:"text,omitempty"`
}

// Step is one thing to do after a failure.
type Step struct {
	Text string `json:"text"`
	// Page is the page that helps: host, missing, mirror, doctor or servers; "" for none.
	Page string `json:"page,omitempty"`
}

// isConsequence reports whether a host failed only because its cluster failed.
func isConsequence(c change) bool { return c.info == lifecycle.InfoClusterFailed }

// failure returns the explanation of a failed installation, or nil.
func (s *story) failure(p *Progress, cluster *models.Cluster) *Failure {
	switch {
	case p.Status == lifecycle.ClusterFailed:
	case !InProgress(p.Status) && cluster.LastInstallationPreparation.Status ==
		models.LastInstallationPreparationStatusFailed:
		return s.preparationFailure(p, cluster.LastInstallationPreparation.Reason)
	default:
		return nil
	}
	failed := s.failedHosts(p)
	f := &Failure{Others: []Part{}, Stopped: []Part{}}
	ended := s.clusterFailure()
	blocked, isBlocked := s.blockedHost(p, ended.at)
	operators := failedOperators(p)
	switch {
	case len(failed) > 0 && !failed[0].At.After(ended.at):
		f.Cause, f.Others = failed[0], append(f.Others, failed[1:]...)
		f.Title = fmt.Sprintf("Host %s failed%s", f.Cause.Name, during(f.Cause.Stage))
	case isBlocked:
		f.Cause = blocked
		f.Title = fmt.Sprintf("Host %s waited for a person and blocked the installation", blocked.Name)
	case len(operators) > 0:
		f.Cause, f.Others = operators[0], append(f.Others, operators[1:]...)
		f.Title = fmt.Sprintf("Operator %s did not become available", f.Cause.Name)
		f.Cause.At = ended.at
	default:
		f.Cause = Part{Kind: "cluster", ID: p.ClusterID, Name: p.Name, Stage: stageOfCluster(p), At: ended.at,
			Text: text(ended.info)}
		f.Title = fmt.Sprintf("The installation failed%s", during(f.Cause.Stage))
	}
	for _, host := range p.Hosts {
		if host.State == Stopped && host.ID != f.Cause.ID {
			f.Stopped = append(f.Stopped, partOf(host, s.endOf(host.ID), ""))
		}
	}
	f.Advice = advise(f.Cause, ended.info)
	return f
}

// preparationFailure explains a preparation that ended without an installation.
func (s *story) preparationFailure(p *Progress, reason string) *Failure {
	f := &Failure{Title: "The installation could not be prepared", Others: []Part{}, Stopped: []Part{}}
	f.Cause = Part{Kind: "cluster", ID: p.ClusterID, Name: p.Name, Stage: PhasePreparing, Text: text(reason)}
	for _, c := range s.changes {
		if c.host == "" || c.to != lifecycle.HostPreparingFailed {
			continue
		}
		if host, ok := p.host(c.host); ok {
			f.Cause = partOf(host, c.at, c.info)
			f.Cause.Stage = stagePreparation
			f.Title = fmt.Sprintf("Host %s could not be prepared", host.Name)
			break
		}
	}
	f.Advice = advise(f.Cause, reason)
	f.Advice[len(f.Advice)-1] = Step{Text: "Then press Install again. A reset is not needed."}
	return f
}

// failedHosts returns the hosts that failed by themselves, the first one first.
func (s *story) failedHosts(p *Progress) []Part {
	var parts []Part
	for _, c := range s.changes {
		if c.host == "" || c.to != lifecycle.HostFailed || isConsequence(c) {
			continue
		}
		if host, ok := p.host(c.host); ok {
			parts = append(parts, partOf(host, c.at, c.info))
		}
	}
	return parts
}

// blockedHost returns the host that waited for a person when the cluster failed.
func (s *story) blockedHost(p *Progress, failed time.Time) (Part, bool) {
	for _, c := range s.changes {
		if c.to != lifecycle.HostPendingUserAction || c.host == "" {
			continue
		}
		returned := slices.ContainsFunc(s.changes, func(other change) bool {
			return other.host == c.host && other.at.After(c.at) && other.at.Before(failed)
		})
		if host, ok := p.host(c.host); ok && !returned {
			return partOf(host, c.at, c.info), true
		}
	}
	return Part{}, false
}

// clusterFailure returns the change with which the cluster failed.
func (s *story) clusterFailure() change {
	for _, c := range slices.Backward(s.changes) {
		if c.host == "" && c.to == lifecycle.ClusterFailed {
			return c
		}
	}
	return change{}
}

func (s *story) endOf(host string) time.Time {
	at, _ := s.leftInstallation(host)
	return at
}

// failedOperators returns the operators that kept a cluster from completing.
func failedOperators(p *Progress) []Part {
	if stageOfCluster(p) != PhaseFinalizing && len(p.Finalizing) == 0 {
		return nil
	}
	var parts []Part
	for _, o := range p.Operators {
		if o.Status == string(models.OperatorStatusFailed) {
			parts = append(parts, Part{Kind: "operator", Name: o.Name, Text: text(o.Info)})
		}
	}
	return parts
}

func (p *Progress) host(id string) (Host, bool) {
	at := slices.IndexFunc(p.Hosts, func(h Host) bool { return h.ID == id })
	if at < 0 {
		return Host{}, false
	}
	return p.Hosts[at], true
}

func partOf(host Host, at time.Time, info string) Part {
	part := Part{Kind: "host", ID: host.ID, InfraEnvID: host.InfraEnvID, Name: host.Name, At: at, Text: text(info)}
	for _, stage := range host.Stages {
		if stage.State == Failed || stage.State == Stopped || stage.State == Blocked {
			part.Stage = stage.Name
		}
	}
	return part
}

// stageOfCluster returns the phase in which the installation ended.
func stageOfCluster(p *Progress) string {
	name := ""
	for _, phase := range p.Phases {
		if phase.State != Waiting {
			name = phase.Name
		}
	}
	return name
}

func during(stage string) string {
	if stage == "" {
		return ""
	}
	return fmt.Sprintf(" in the stage %q", stage)
}

// text returns a message as a sentence.
func text(info string) string {
	return sentence.Capitalize(sentence.Close(sentence.Line(info)))
}

// remedy is what to do about failures whose text contains one of some words in any case, or that
// happened in a stage.
type remedy struct {
	words  []string
	stages []models.HostStage
	steps  []Step
}

// remedies are in the order in which they are tried: the more specific first.
var remedies = []remedy{
	{words: []string{"boot order", "booted the installation image", "timed out when pulling"}, steps: []Step{
		{Text: "Set the boot order of the host to its installation disk, detach the image, and restart the host.",
			Page: "host"},
		{Text: "If the host has a BMC, let Landfall boot it. It then boots the image once, and its disk afterwards.",
			Page: "servers"}}},
	{words: []string{"has not contacted the appliance"}, steps: []Step{
		{Text: "Check that the host is on, and the cables and switch ports of its network.", Page: "host"},
		{Text: "On the host's console, try the line that the page \"Why is my host not here?\" shows.",
			Page: "missing"}}},
	{words: []string{"restarted during its installation"}, steps: []Step{
		{Text: "Find out why the host restarted: its power, a watchdog, or a person. The event log of its BMC may " +
			"tell.", Page: "host"}}},
	{words: []string{"can no longer read its discovery image"}, steps: []Step{
		{Text: "Attach the image again. A full image on a USB stick does not depend on the network as virtual media " +
			"do.", Page: "host"}}},
	{words: []string{"x509", "certificate signed by unknown", "tls:", "certificate has expired"}, steps: []Step{
		{Text: "Check that the mirror's certificate authority is the one in the mirror rules.", Page: "mirror"},
		{Text: "Check the clocks: a certificate is invalid on a host whose clock is wrong.", Page: "doctor"}}},
	{words: []string{"no such host", "dns", "could not resolve", "lookup "}, steps: []Step{
		{Text: "Check the site's name server for the names of the cluster and of the mirror.", Page: "doctor"}}},
	{words: []string{"no space left", "disk is full"}, steps: []Step{
		{Text: "Choose a larger installation disk for the host.", Page: "host"}}},
	{words: []string{"manifest unknown", "unauthorized", "denied", "pull"}, steps: []Step{
		{Text: "Check that the mirror holds all images of the release, and that the pull secret is valid for it.",
			Page: "mirror"}}},
	{words: []string{"24 hours"}, steps: []Step{
		{Text: "Look for the host with the longest stage below: it delayed the installation."}}},
	{stages: []models.HostStage{models.HostStageWritingImageToDisk, lifecycle.StageCopyingRegistry}, steps: []Step{
		{Text: "Check the installation disk: its cable, controller and health (SMART).", Page: "host"},
		{Text: "If the disk is broken, choose another installation disk for the host.", Page: "host"}}},
	{stages: []models.HostStage{models.HostStageRebooting, models.HostStageConfiguring, models.HostStageJoined,
		models.HostStageWaitingForIgnition}, steps: []Step{
		{Text: "Look at the host's console: it must boot from its disk.", Page: "host"},
		{Text: "Check that the host reaches the cluster's API address, and that its name server knows the name of " +
			"the API.", Page: "doctor"}}},
	{stages: []models.HostStage{models.HostStageWaitingForControlPlane, models.HostStageWaitingForBootkube,
		models.HostStageWaitingForController}, steps: []Step{
		{Text: "Look at the other control-plane hosts: this host waits for them.", Page: "host"},
		{Text: "Check that the hosts reach each other and the API address.", Page: "doctor"}}},
}

// advise returns what to do about a cause. Info is the reason of the cluster's failure.
func advise(cause Part, info string) []Step {
	var steps []Step
	words := strings.ToLower(cause.Text + " " + info)
	for _, one := range remedies {
		if slices.ContainsFunc(one.words, func(word string) bool { return strings.Contains(words, word) }) ||
			slices.Contains(one.stages, models.HostStage(cause.Stage)) {
			steps = append(steps, one.steps...)
			break
		}
	}
	if cause.Kind == "operator" {
		steps = []Step{{Text: "Read the message of the operator above. The logs contain the state of its pods."}}
	}
	if len(steps) == 0 {
		steps = append(steps, Step{Text: "Download the logs: the log of the part that failed names the command and " +
			"its error."})
	}
	return append(steps, Step{Text: "Then reset the cluster, boot its hosts from the discovery image, and install " +
		"again."})
}
