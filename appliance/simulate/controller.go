package simulate

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"
)

// Durations at speed 1: of a node, from its restart until it has downloaded its configuration, has
// joined, and is ready; and of the installation of a cluster's operators.
const (
	ignitionTime    = 30 * time.Second
	configuredTime  = bootTime
	joinedTime      = bootTime + time.Minute
	readyTime       = bootTime + 2*time.Minute
	operatorSteps   = 5
	operatorStep    = 45 * time.Second
	watchInterval   = 10 * time.Second
	reportInterval  = 30 * time.Second
	failureGrace    = 3 * time.Minute // until the logs of failed hosts arrive
	failureFloor    = 20 * pollFloor  // lower limit at any speed: agents do not poll more often
	failurePolls    = 2               // the first poll may have been answered before the failure
	endGrace        = 5 * time.Minute // time for a cluster to continue without the failed hosts
	certificateLife = 2 * 365 * 24 * time.Hour
)

// Operators that every cluster's controller reports.
const (
	consoleOperator = "console"
	clusterVersion  = "cvo"
)

// cluster is the group's view of a cluster and of its installation. It watches the cluster in the
// API. If the bootstrap host belongs to this group, it reports the nodes' stages (like the
// bootstrap host, then the controller) and finishes the installation. Its state can be restored
// from the API, so that a restarted group continues.
type cluster struct {
	group *HostGroup
	id    strfmt.UUID
	api   *connection

	// controllerUp is closed when the controller runs, after a control-plane node has joined.
	controllerUp chan struct{}
	runs         bool

	// restarted contains the time when each host was observed to restart into its disk. failed
	// contains the time since when each host is in error.
	restarted map[strfmt.UUID]time.Time
	failed    map[strfmt.UUID]failure
	// restartedIn contains the last handled state of each host of the group.
	restartedIn map[strfmt.UUID]string
	// idleSince is the time since when all hosts of the group are done.
	idleSince time.Time
	missing   int

	finalizing sync.WaitGroup
	finisher   context.CancelFunc
	finished   chan struct{}
}

// watch starts watching a cluster. It does nothing if the group already watches the cluster.
func (c *HostGroup) watch(id strfmt.UUID, api *connection) *cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	if existing, ok := c.clusters[id]; ok {
		return existing
	}
	cl := &cluster{
		group: c, id: id, api: api, controllerUp: make(chan struct{}),
		restarted: map[strfmt.UUID]time.Time{}, failed: map[strfmt.UUID]failure{},
		restartedIn: map[strfmt.UUID]string{},
	}
	c.clusters[id] = cl
	c.controllers.Go(func() { cl.run(c.lifetime) })
	return cl
}

func (c *HostGroup) unwatch(cl *cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clusters, cl.id)
}

// run watches the cluster until no work is left.
func (cl *cluster) run(ctx context.Context) {
	defer cl.group.unwatch(cl)
	defer cl.finalizing.Wait()
	defer cl.stopFinalizing()
	for !cl.tick(ctx) {
		if cl.group.rest(ctx, watchInterval) != nil {
			return
		}
	}
}

// tick reads the cluster once. It returns true if no further read is needed.
func (cl *cluster) tick(ctx context.Context) bool {
	epochs := cl.group.epochs()
	// If the controller ends during the read, it must not be started again.
	finalizing := cl.isFinalizing()
	state, err := cl.api.cluster(ctx, cl.id, true)
	if err != nil {
		return cl.lost(err, epochs)
	}
	cl.missing = 0
	if cl.leads(state) {
		cl.reportNodes(ctx, state)
		if !finalizing {
			cl.finalize(ctx, state)
		}
	}
	cl.joinNodes(state)
	for _, h := range state.Hosts {
		if h.ID == nil {
			continue
		}
		if ours := cl.group.otherHost(*h.ID); ours != nil {
			if command := cl.assess(state, h, ours); command == nil || ours.sendCommand(command, epochs[*h.ID]) {
				cl.restartedIn[*h.ID] = conv.Value(h.Status)
			}
		}
	}
	return cl.over(state)
}

// lost handles a failed read. It gives up the cluster only after the appliance has repeatedly
// returned 404.
func (cl *cluster) lost(err error, epochs map[strfmt.UUID]int) bool {
	cl.group.log.Debug("Reading the cluster failed.", "cluster_id", string(cl.id), "error", err)
	if statusOf(err) != http.StatusNotFound {
		return false
	}
	cl.missing++
	if cl.missing < missingRetries {
		return false
	}
	for id, epoch := range epochs {
		if h := cl.group.otherHost(id); h.isUpFromDisk() {
			h.sendCommand(&hostResult{Err: fmt.Errorf("the cluster %s no longer exists: %w", cl.id, err)}, epoch)
		}
	}
	return true
}

// leads reports whether this group reports for the cluster's nodes. It does if it contains the
// bootstrap host, on which the controller starts.
func (cl *cluster) leads(state *models.Cluster) bool {
	for _, h := range state.Hosts {
		if h.Bootstrap && h.ID != nil {
			return cl.group.otherHost(*h.ID) != nil
		}
	}
	return false
}

// assess returns the command for a host of the group that follows from the cluster's state, or nil.
func (cl *cluster) assess(state *models.Cluster, h *models.Host, ours *host) error {
	status, clusterStatus := conv.Value(h.Status), conv.Value(state.Status)
	onDisk := ours.isUpFromDisk()
	if status != models.HostStatusError && clusterStatus != models.ClusterStatusError {
		delete(cl.failed, *h.ID)
	}
	switch status {
	case models.HostStatusAddedToExistingCluster:
		return &hostResult{}
	case models.HostStatusInstalled:
		if clusterStatus == models.ClusterStatusInstalled || clusterStatus == models.ClusterStatusAddingHosts {
			return &hostResult{}
		}
	case models.HostStatusResetting, models.HostStatusResettingPendingUserAction,
		models.HostStatusUnbindingPendingUserAction:
		// This happens once per state for a host that runs the image, because a host that registers
		// early stays in the state.
		if onDisk || cl.restartedIn[*h.ID] != status {
			return &reboot{into: fromImage, reason: "the operator restarts it for a new installation"}
		}
	case models.HostStatusDiscovering, models.HostStatusKnown, models.HostStatusInsufficient,
		models.HostStatusPendingForInput, models.HostStatusDisconnected:
		if onDisk {
			return &reboot{into: fromImage, reason: "the operator restarts it for a new installation"}
		}
	}
	if cl.group.KeepFailed {
		return nil
	}
	if fault, has := ours.fault(FailAt); has && onDisk && isAfterReboot(fault.Stage) &&
		fault.Stage != models.HostStageRebooting && cl.stuckAt(h, fault.Stage) {
		return &hostResult{Err: fmt.Errorf("the node never reached the stage %q (fault fail-at)", fault.Stage)}
	}
	return cl.assessFailure(state, h, ours)
}

// failure contains the time since when a host is in error, and the number of its answered polls at
// that time.
type failure struct {
	at    time.Time
	polls int64
}

// assessFailure ends a host that is in error, or whose cluster is in error. It waits until the host
// had time to send its logs.
func (cl *cluster) assessFailure(state *models.Cluster, h *models.Host, ours *host) error {
	var reason error
	switch {
	case conv.Value(h.Status) == models.HostStatusError:
		reason = fmt.Errorf("the host's installation failed: %s", conv.Value(h.StatusInfo))
	case conv.Value(state.Status) == models.ClusterStatusError:
		reason = fmt.Errorf("the cluster's installation failed: %s", conv.Value(state.StatusInfo))
	default:
		return nil
	}
	since, ok := cl.failed[*h.ID]
	if !ok {
		cl.failed[*h.ID] = failure{cl.group.Clock.Now(), ours.polls.Load()}
		return nil
	}
	if cl.group.Clock.Since(since.at) < max(cl.group.scaled(failureGrace), failureFloor) {
		return nil
	}
	if !ours.isUpFromDisk() && (ours.polls.Load() < since.polls+failurePolls || ours.gathering.Load() > 0) {
		return nil
	}
	return &hostResult{Err: reason}
}

// over reports whether no work is left.
func (cl *cluster) over(state *models.Cluster) bool {
	switch conv.Value(state.Status) {
	case models.ClusterStatusInstalled:
		return !cl.isFinalizing()
	case models.ClusterStatusError, models.ClusterStatusCancelled:
		cl.stopFinalizing()
	}
	cl.group.mu.Lock()
	pending := cl.group.pending
	cl.group.mu.Unlock()
	now := cl.group.Clock.Now()
	if pending > 0 || cl.isFinalizing() {
		cl.idleSince = now
		return false
	}
	return now.Sub(cl.idleSince) >= cl.group.scaled(endGrace)
}

// reportNodes reports the stages that restarted nodes have reached. The bootstrap host reports
// first, then the controller. Both report the same stages.
func (cl *cluster) reportNodes(ctx context.Context, state *models.Cluster) {
	if conv.Value(state.Kind) == models.ClusterKindAddHostsCluster {
		return
	}
	single := countMasters(state) == 1
	for _, h := range state.Hosts {
		if h.ID == nil {
			continue
		}
		if !isAfterReboot(stageOf(h)) {
			delete(cl.restarted, *h.ID)
			continue
		}
		cl.reportNode(ctx, h, single)
		if stage := stageOf(h); h.Role != models.HostRoleWorker && (stage == models.HostStageJoined ||
			stage == models.HostStageDone) && !cl.runs {
			cl.runs = true
			close(cl.controllerUp)
		}
	}
}

func countMasters(state *models.Cluster) int {
	masters := 0
	for _, h := range state.Hosts {
		if h.Role == models.HostRoleMaster || h.Bootstrap {
			masters++
		}
	}
	return masters
}

// reportNode reports the stages that a node has reached.
func (cl *cluster) reportNode(ctx context.Context, h *models.Host, single bool) {
	switch conv.Value(h.Status) {
	case models.HostStatusInstallingInProgress, models.HostStatusInstallingPendingUserAction,
		models.HostStatusInstalling:
	default:
		return
	}
	ours := cl.group.otherHost(*h.ID)
	if ours != nil && !ours.isUpFromDisk() {
		return
	}
	for {
		next := cl.nextStage(h, single)
		if next == "" {
			return
		}
		if fault, has := failAt(ours); has && fault.Stage == next {
			return
		}
		if err := cl.api.progress(ctx, hostRef{infraEnv: h.InfraEnvID, host: *h.ID}, next, ""); err != nil {
			cl.group.log.Debug("The appliance rejected a stage.", "host", h.RequestedHostname, "stage", string(next),
				"error", err)
			return
		}
		h.Progress.CurrentStage = next
		cl.announce(h, ours, next)
	}
}

func failAt(ours *host) (Fault, bool) {
	if ours == nil {
		return Fault{}, false
	}
	return ours.fault(FailAt)
}

// announce sends the event of a reported stage. If the node belongs to another group, the event
// contains only the node's ID.
func (cl *cluster) announce(h *models.Host, ours *host, stage models.HostStage) {
	event := Event{Kind: EventStage, ClusterID: cl.id, Stage: stage, HostID: *h.ID, Hostname: h.RequestedHostname}
	if ours != nil {
		ours.emit(event)
		return
	}
	cl.group.emit(event)
}

// nextStage returns the node's next stage if its time has come.
func (cl *cluster) nextStage(h *models.Host, single bool) models.HostStage {
	stage := stageOf(h)
	since, ok := cl.restarted[*h.ID]
	if !ok {
		// If the node had passed this stage before the group was restarted, the time counts from
		// this stage.
		since = cl.group.Clock.Now().Add(-cl.group.scaled(reachedAfter(stage)))
		cl.restarted[*h.ID] = since
	}
	type step struct {
		stage models.HostStage
		after time.Duration
	}
	var next step
	switch {
	case stage == models.HostStageRebooting && single:
		next = step{models.HostStageJoined, joinedTime}
	case stage == models.HostStageRebooting && h.Role == models.HostRoleWorker:
		next = step{models.HostStageWaitingForIgnition, ignitionTime}
	case stage == models.HostStageRebooting, stage == models.HostStageWaitingForIgnition:
		next = step{models.HostStageConfiguring, configuredTime}
	case stage == models.HostStageConfiguring:
		next = step{models.HostStageJoined, joinedTime}
	case stage == models.HostStageJoined && (cl.runs || single):
		next = step{models.HostStageDone, readyTime}
	default:
		return ""
	}
	if cl.group.Clock.Since(since) < cl.group.scaled(next.after) {
		return ""
	}
	return next.stage
}

// reachedAfter returns the time from a node's restart to a stage.
func reachedAfter(stage models.HostStage) time.Duration {
	switch stage {
	case models.HostStageWaitingForIgnition:
		return ignitionTime
	case models.HostStageConfiguring:
		return configuredTime
	case models.HostStageJoined:
		return joinedTime
	case models.HostStageDone:
		return readyTime
	}
	return 0
}

// stuckAt reports whether a node should have reached the stage but has not.
func (cl *cluster) stuckAt(h *models.Host, stage models.HostStage) bool {
	since, ok := cl.restarted[*h.ID]
	return ok && cl.group.Clock.Since(since) > cl.group.scaled(reachedAfter(stage)+failureGrace)
}

// finalize lets the controller finish the installation when the cluster is finalizing.
func (cl *cluster) finalize(ctx context.Context, state *models.Cluster) {
	if conv.Value(state.Status) != models.ClusterStatusFinalizing {
		return
	}
	ctx, cl.finisher = context.WithCancel(ctx)
	cl.finished = make(chan struct{})
	done := cl.finished
	cl.finalizing.Go(func() {
		defer close(done)
		c := &controller{cluster: cl, version: state.OpenshiftVersion}
		if state.Progress != nil {
			c.reached = state.Progress.FinalizingStage
		}
		c.finish(ctx)
	})
}

func (cl *cluster) isFinalizing() bool {
	if cl.finished == nil {
		return false
	}
	select {
	case <-cl.finished:
		return false
	default:
		return true
	}
}

func (cl *cluster) stopFinalizing() {
	if cl.finisher != nil {
		cl.finisher()
	}
}

// controller does the work of the controller in the cluster, starting with the state finalizing.
type controller struct {
	*cluster
	version string
	// reached is the finalizing stage from which the controller continues.
	reached models.FinalizingStage
}

func finalizingStages() []models.FinalizingStage {
	return []models.FinalizingStage{
		models.FinalizingStageWaitingForClusterOperators, models.FinalizingStageAddingRouterCa,
		models.FinalizingStageWaitingForOlmOperatorsCsvInitialization, models.FinalizingStageApplyingOlmManifests,
		models.FinalizingStageWaitingForOlmOperatorsCsv, models.FinalizingStageDone,
	}
}

// finish completes the cluster and reports the result. It repeats reports until they are accepted.
func (c *controller) finish(ctx context.Context) {
	completion := &models.CompletionParams{IsSuccess: conv.Pointer(true)}
	if err := c.postInstall(ctx); err != nil {
		completion.IsSuccess, completion.ErrorInfo = conv.Pointer(false), err.Error()
	}
	if ctx.Err() != nil || c.forever(ctx, func() error {
		return c.api.completeInstallation(ctx, c.id,
			completion)
	}) != nil {
		return
	}
	c.group.emit(Event{Kind: EventCompleted, ClusterID: c.id, Info: completion.ErrorInfo})
	if err := c.sendLogs(ctx); err != nil && ctx.Err() == nil {
		c.group.log.Warn("The controller's logs were rejected.", "cluster_id", string(c.id), "error", err)
	}
}

func (c *controller) postInstall(ctx context.Context) error {
	if err := c.checkKubeconfig(ctx); err != nil {
		return err
	}
	if err := c.enter(ctx, models.FinalizingStageWaitingForClusterOperators); err != nil {
		return err
	}
	builtin, olm, err := c.operators(ctx)
	if err != nil {
		return err
	}
	if err := c.bringUp(ctx, builtin); err != nil {
		return err
	}
	if err := c.enter(ctx, models.FinalizingStageAddingRouterCa); err != nil {
		return err
	}
	certificate, err := c.ingressCertificate()
	if err != nil {
		return err
	}
	if err := c.forever(ctx, func() error { return c.api.ingressCertificate(ctx, c.id, certificate) }); err != nil {
		return err
	}
	if err := c.bringUpOLM(ctx, olm); err != nil {
		return err
	}
	return c.enter(ctx, models.FinalizingStageDone)
}

// forever repeats a request without limit, like the real controller.
func (c *controller) forever(ctx context.Context, request func() error) error {
	for {
		err := request()
		if err == nil || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.group.log.Debug("The controller's report was rejected.", "cluster_id", string(c.id), "error", err)
		if err := c.group.rest(ctx, reportInterval); err != nil {
			return err
		}
	}
}

// enter reports a finalizing stage. It does nothing if the cluster has already reached the stage.
func (c *controller) enter(ctx context.Context, stage models.FinalizingStage) error {
	if slices.Index(finalizingStages(), stage) < slices.Index(finalizingStages(), c.reached) {
		return nil
	}
	c.group.emit(Event{Kind: EventFinalizing, ClusterID: c.id, Info: string(stage)})
	return c.forever(ctx, func() error { return c.api.finalizingStage(ctx, c.id, stage) })
}

// checkKubeconfig downloads the controller's kubeconfig and checks that it belongs to a cluster.
func (c *controller) checkKubeconfig(ctx context.Context) error {
	var text bytes.Buffer
	err := c.group.retry(ctx, func() error {
		text.Reset()
		return c.api.credentials(ctx, c.id, "kubeconfig-noingress", &text)
	})
	if err != nil {
		return err
	}
	var kubeconfig struct {
		Clusters []struct {
			Cluster struct {
				Server string `yaml:"server"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
		Users []struct {
			Name string `yaml:"name"`
		} `yaml:"users"`
	}
	if err := yaml.Unmarshal(text.Bytes(), &kubeconfig); err != nil {
		return fmt.Errorf("the cluster's kubeconfig-noingress is not YAML: %w", err)
	}
	if len(kubeconfig.Clusters) == 0 || kubeconfig.Clusters[0].Cluster.Server == "" || len(kubeconfig.Users) == 0 {
		return errors.New("the cluster's kubeconfig-noingress names no server or no user")
	}
	return nil
}

// operators returns the built-in operators of every cluster and the cluster's OLM operators.
func (c *controller) operators(ctx context.Context) (builtin, olm []string, err error) {
	var monitored models.MonitoredOperatorsList
	err = c.forever(ctx, func() (err error) {
		monitored, err = c.api.operators(ctx, c.id)
		return err
	})
	for _, operator := range monitored {
		switch {
		case operator.Status == models.OperatorStatusAvailable, operator.Status == models.OperatorStatusFailed:
		case operator.OperatorType == models.OperatorTypeOlm:
			olm = append(olm, operator.Name)
		case operator.Name == consoleOperator || operator.Name == clusterVersion:
			builtin = append(builtin, operator.Name)
		}
	}
	return builtin, olm, err
}

// bringUp reports operators as progressing several times, and then as available.
func (c *controller) bringUp(ctx context.Context, names []string) error {
	for step := 1; step <= operatorSteps && len(names) > 0; step++ {
		if err := c.group.pause(ctx, operatorStep); err != nil {
			return err
		}
		report := models.OperatorMonitorReport{
			Status: models.OperatorStatusProgressing, Version: c.version,
			StatusInfo: fmt.Sprintf("Working towards %s: %d%% complete", c.version, step*100/operatorSteps),
		}
		if step == operatorSteps {
			report.Status, report.StatusInfo = models.OperatorStatusAvailable, "Done applying "+c.version
		}
		for _, name := range names {
			report.Name = name
			if err := c.forever(ctx, func() error { return c.api.reportOperator(ctx, c.id, &report) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendLogs uploads the controller's logs.
func (c *controller) sendLogs(ctx context.Context) error {
	now := c.group.Clock.Now()
	archive, err := archiveLogs(now, map[string]string{
		"assisted-installer-controller.logs": fmt.Sprintf("%s the installation of cluster %s has ended\n",
			now.UTC().Format(time.RFC3339), c.id),
	})
	if err != nil {
		return err
	}
	return errors.Join(
		c.group.retry(ctx, func() error { return c.api.clusterLogsProgress(ctx, c.id, models.LogsStateRequested) }),
		c.group.retry(ctx, func() error { return c.api.uploadLogs(ctx, c.id, nil, archive) }),
		c.group.retry(ctx, func() error { return c.api.clusterLogsProgress(ctx, c.id, models.LogsStateCompleted) }),
	)
}

// ingressCertificate returns the certificate of the cluster's ingress. A simulated cluster API uses
// the same CA, so that kubeconfigs trust it.
func (c *controller) ingressCertificate() (string, error) {
	if c.group.Spokes != nil {
		return string(c.group.Spokes.CA()), nil
	}
	return ingressAuthority(c.group.Clock.Now())
}

// ingressAuthority creates a CA like that of the cluster's ingress operator, in PEM.
func ingressAuthority(now time.Time) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("generate the key of the ingress certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: fmt.Sprintf("ingress-operator@%d",
			now.Unix())},
		NotBefore: now, NotAfter: now.Add(certificateLife), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return "", fmt.Errorf("create the ingress certificate: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})), nil
}
