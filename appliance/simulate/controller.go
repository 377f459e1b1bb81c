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

// Times of a node at speed 1, from its restart until it has fetched its configuration, has joined,
// and is ready; and the time that a cluster's operators need.
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
	failureFloor    = 20 * pollFloor  // agents poll no faster than this at any speed
	failurePolls    = 2               // the first poll may have been answered before the failure
	endGrace        = 5 * time.Minute // for a cluster to continue without the lost hosts
	certificateLife = 2 * 365 * 24 * time.Hour
)

// Operators that every cluster's controller reports.
const (
	consoleOperator = "console"
	clusterVersion  = "cvo"
)

// cluster is the group's part in the installation of a cluster. It watches the cluster in the API.
// If the cluster's bootstrap host belongs to this group, it reports the nodes' stages (as the
// bootstrap and then the controller do) and finishes the installation. Its state can be read back
// from the API, so that a restarted group continues.
type cluster struct {
	group *HostGroup
	id    strfmt.UUID
	api   *connection

	// controllerUp is closed when the controller runs, after a control-plane node has joined.
	controllerUp chan struct{}
	runs         bool

	// restarted holds the time of each host's observed restart into its disk, failed the time since
	// when it is in error.
	restarted map[strfmt.UUID]time.Time
	failed    map[strfmt.UUID]failure
	// restartedIn holds the last handled state of each host of the group.
	restartedIn map[strfmt.UUID]string
	// idleSince is the time since when all hosts of the group are done.
	idleSince time.Time
	missing   int

	finalizing sync.WaitGroup
	finisher   context.CancelFunc
	finished   chan struct{}
}

// watch starts to follow a cluster, unless the group already follows it.
func (c *HostGroup) watch(id strfmt.UUID, api *connection) *cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, watched := c.clusters[id]; watched {
		return known
	}
	cl := &cluster{
		group: c, id: id, api: api, controllerUp: make(chan struct{}),
		restarted: map[strfmt.UUID]time.Time{}, failed: map[strfmt.UUID]failure{},
		restartedIn: map[strfmt.UUID]string{},
	}
	c.clusters[id] = cl
	c.controllers.Go(func() { cl.run(c.life) })
	return cl
}

func (c *HostGroup) unwatch(cl *cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clusters, cl.id)
}

// run follows the cluster until nothing is left to do for it.
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

// tick reads the cluster once and reports whether that was the last time.
func (cl *cluster) tick(ctx context.Context) bool {
	epochs := cl.group.epochs()
	// a controller that ends during the read must not be started again by it
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

// lost handles a failed read. It gives up a cluster only if the appliance repeatedly does not know
// it.
func (cl *cluster) lost(err error, epochs map[strfmt.UUID]int) bool {
	cl.group.log.Debug("cluster not read", "cluster_id", string(cl.id), "error", err)
	if statusOf(err) != http.StatusNotFound {
		return false
	}
	cl.missing++
	if cl.missing < missingRetries {
		return false
	}
	for id, epoch := range epochs {
		if h := cl.group.otherHost(id); h.isUpFromDisk() {
			h.sendCommand(&hostResult{Err: fmt.Errorf("its cluster %s is gone: %w", cl.id, err)}, epoch)
		}
	}
	return true
}

// leads reports whether this group reports for the cluster's nodes: it has the bootstrap host, on
// which the controller starts.
func (cl *cluster) leads(state *models.Cluster) bool {
	for _, h := range state.Hosts {
		if h.Bootstrap && h.ID != nil {
			return cl.group.otherHost(*h.ID) != nil
		}
	}
	return false
}

// assess returns the order for a host of the group that follows from the cluster's state; nil if
// there is none.
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
		// Once for each of these states if the host runs the image: an early registration leaves
		// the host in the state.
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

// failure holds the time since when a host is in error and the number of answered polls at that
// time.
type failure struct {
	at    time.Time
	polls int64
}

// assessFailure gives up a host that is in error, or whose cluster is, after the time for its logs
// and after its agent had a chance to send them.
func (cl *cluster) assessFailure(state *models.Cluster, h *models.Host, ours *host) error {
	var reason error
	switch {
	case conv.Value(h.Status) == models.HostStatusError:
		reason = fmt.Errorf("its installation failed: %s", conv.Value(h.StatusInfo))
	case conv.Value(state.Status) == models.ClusterStatusError:
		reason = fmt.Errorf("its cluster's installation failed: %s", conv.Value(state.StatusInfo))
	default:
		return nil
	}
	since, known := cl.failed[*h.ID]
	if !known {
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

// over reports whether nothing is left to watch.
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

// reportNodes reports the stages that restarted nodes have reached. First the bootstrap does this,
// then the controller; both report the same stages.
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

// reportNode reports the stages that one node has reached by now.
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
			cl.group.log.Debug("stage not taken", "host", h.RequestedHostname, "stage", string(next), "error", err)
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

// announce sends the event of a reported stage. Of a node of another group only the ID is known.
func (cl *cluster) announce(h *models.Host, ours *host, stage models.HostStage) {
	event := Event{Kind: EventStage, ClusterID: cl.id, Stage: stage, HostID: *h.ID, Hostname: h.RequestedHostname}
	if ours != nil {
		ours.emit(event)
		return
	}
	cl.group.emit(event)
}

// nextStage returns the node's next stage if it is due.
func (cl *cluster) nextStage(h *models.Host, single bool) models.HostStage {
	stage := stageOf(h)
	since, known := cl.restarted[*h.ID]
	if !known {
		// A node that was further when the group was restarted counts from there.
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

// stuckAt reports whether a node should have reached the stage by now but has not.
func (cl *cluster) stuckAt(h *models.Host, stage models.HostStage) bool {
	since, known := cl.restarted[*h.ID]
	return known && cl.group.Clock.Since(since) > cl.group.scaled(reachedAfter(stage)+failureGrace)
}

// finalize lets the controller finish the installation as soon as the cluster is finalizing.
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

// controller does the work of the controller in the cluster from the state finalizing on.
type controller struct {
	*cluster
	version string
	// reached is the finalizing stage to continue from.
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
		c.group.log.Warn("the controller's logs were not taken", "cluster_id", string(c.id), "error", err)
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

// forever repeats a request without limit, as the controller does.
func (c *controller) forever(ctx context.Context, request func() error) error {
	for {
		err := request()
		if err == nil || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.group.log.Debug("the controller's report was not taken", "cluster_id", string(c.id), "error", err)
		if err := c.group.rest(ctx, reportInterval); err != nil {
			return err
		}
	}
}

// enter reports a finalizing stage, unless the cluster has already reached it.
func (c *controller) enter(ctx context.Context, stage models.FinalizingStage) error {
	if slices.Index(finalizingStages(), stage) < slices.Index(finalizingStages(), c.reached) {
		return nil
	}
	c.group.emit(Event{Kind: EventFinalizing, ClusterID: c.id, Info: string(stage)})
	return c.forever(ctx, func() error { return c.api.finalizingStage(ctx, c.id, stage) })
}

// checkKubeconfig downloads the kubeconfig that the controller works with and checks that it
// belongs to a cluster.
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

// operators returns the built-in operators of every cluster and the operators that OLM adds.
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

// bringUp reports operators as progressing, a few times, and then as available.
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
// the same authority, so that kubeconfigs trust it.
func (c *controller) ingressCertificate() (string, error) {
	if c.group.Spokes != nil {
		return string(c.group.Spokes.CA()), nil
	}
	return ingressAuthority(c.group.Clock.Now())
}

// ingressAuthority creates a certificate authority like the cluster's ingress operator, in PEM.
func ingressAuthority(now time.Time) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make the ingress certificate's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: fmt.Sprintf("ingress-operator@%d",
			now.Unix())},
		NotBefore: now, NotAfter: now.Add(certificateLife), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return "", fmt.Errorf("make the ingress certificate: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})), nil
}
