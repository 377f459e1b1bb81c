package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/installconfig"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/steps"
	"landfall/appliance/engine/view"
	"landfall/appliance/release"
)

// Names of a cluster's files.
const (
	fileKubeconfig          = view.Kubeconfig
	fileKubeconfigNoIngress = view.KubeconfigNoIngress
	fileKubeadminPassword   = "kubeadmin-password"
	fileInstallConfig       = "install-config.yaml"
	fileMetadata            = "metadata.json"
	fileBootstrap           = release.BootstrapIgnition
)

// InstallCluster starts the installation of a ready cluster. First the installer generates the
// cluster's files, while the hosts measure their disks and pull images. Then the hosts install
// themselves.
func (e *Engine) InstallCluster(ctx context.Context, id string) (*models.Cluster, error) {
	if e.options.BeforeInstall != nil {
		if err := e.options.BeforeInstall(ctx, e, id); err != nil {
			return nil, err
		}
	}
	return e.changeCluster(ctx, id, func(c *change) error { return c.installCluster(id) })
}

func (c *change) installCluster(id string) error {
	row, err := c.cluster(id)
	if err != nil {
		return err
	}
	if err := c.triggerCluster(row, lifecycle.OnInstall); err != nil {
		return err
	}
	c.settleCluster(id)
	return c.clusterEvent(row, event.ClusterPrepared, models.EventSeverityInfo,
		"Cluster %s: the installation is being prepared.", row.API.Name)
}

// CancelInstallation ends an installation or its preparation. Hosts that still run the discovery
// image stop installing.
func (e *Engine) CancelInstallation(ctx context.Context, id string) (*models.Cluster, error) {
	return e.endInstallation(ctx, id, lifecycle.OnCancel)
}

// ResetCluster returns a cluster to its state before the installation, which may be running, failed
// or cancelled. The hosts must be restarted from the discovery image.
func (e *Engine) ResetCluster(ctx context.Context, id string) (*models.Cluster, error) {
	return e.endInstallation(ctx, id, lifecycle.OnReset)
}

func (e *Engine) endInstallation(ctx context.Context, id string, on lifecycle.Trigger) (*models.Cluster, error) {
	return e.changeCluster(ctx, id, func(c *change) error { return c.endInstallation(id, on) })
}

func (c *change) endInstallation(id string, on lifecycle.Trigger) error {
	row, err := c.cluster(id)
	if err != nil {
		return err
	}
	if err := c.triggerCluster(row, on); err != nil {
		return err
	}
	hosts, err := c.hostsOf(id)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if _, err := c.triggerHost(h, on, ""); err != nil {
			return err
		}
	}
	c.settleCluster(id)
	if on == lifecycle.OnCancel {
		return c.clusterEvent(row, event.InstallationCanceled, models.EventSeverityInfo,
			"Cluster %s: the installation was cancelled.", row.API.Name)
	}
	if err := c.clearInstallation(row, hosts); err != nil {
		return err
	}
	return c.clusterEvent(row, event.InstallationReset, models.EventSeverityInfo,
		"Cluster %s was reset to its description.", row.API.Name)
}

// clearInstallation clears the results of an installation in a cluster and its hosts.
func (c *change) clearInstallation(row *record.Cluster, hosts []*record.Host) error {
	row.ClearInstallation()
	c.saveCluster(row)
	for _, h := range hosts {
		c.clearPreparation(h)
		h.ClearProgress()
		h.API.Bootstrap = false
	}
	return record.DeleteGenerated(c.tx, row.API.ID.String())
}

func (c *change) clearPreparation(h *record.Host) {
	h.DiskOK, h.DiskError, h.ImagesOK, h.ImagesError = false, "", false, ""
	c.saveHost(h)
}

// startHostPreparation starts the checks of a host before an installation. It does not repeat a
// successful check, because an agent does not send the same reply twice.
func (c *change) startHostPreparation(h *record.Host) error {
	pulled := h.ImagesOK
	c.clearPreparation(h)
	host, err := c.inventoryHost(h)
	if err != nil {
		return err
	}
	h.DiskOK = !steps.DiskUnmeasured(host)
	if h.ImagesOK = pulled; pulled {
		return nil
	}
	return c.clearReport(h, record.PartImages, func(f *inventory.Facts) { f.Images = nil })
}

// enterClusterState runs the entry actions of a cluster's state.
func (c *change) enterClusterState(row *record.Cluster, from, to, info string) error {
	id := row.API.ID.String()
	if from == lifecycle.ClusterPreparing && to != lifecycle.ClusterInstalling {
		c.preparationsChanged = true
		row.API.LastInstallationPreparation = models.LastInstallationPreparation{
			Status: models.LastInstallationPreparationStatusFailed, Reason: info}
		if err := record.PendingPreparations.Remove(c.tx, id); err != nil {
			return err
		}
	}
	if from == lifecycle.ClusterPendingUserAction {
		if err := c.resumeStages(row); err != nil {
			return err
		}
	}
	switch to {
	case lifecycle.ClusterPreparing:
		return c.enterPreparing(row)
	case lifecycle.ClusterInstalling:
		if from == lifecycle.ClusterPreparing {
			return c.enterInstalling(row)
		}
	case lifecycle.ClusterFinalizing:
		row.API.Progress.InstallingStagePercentage = 100
		lifecycle.CountOperators(&row.API)
	case lifecycle.ClusterInstalled:
		row.API.InstallCompletedAt = c.dateTime()
		row.API.Progress = &models.ClusterProgressInfo{
			PreparingForInstallationStagePercentage: 100, InstallingStagePercentage: 100,
			FinalizingStagePercentage: 100, TotalPercentage: 100,
			FinalizingStage:          row.API.Progress.FinalizingStage,
			FinalizingStageStartedAt: row.API.Progress.FinalizingStageStartedAt,
		}
		return errors.Join(
			c.clusterEvent(row, event.InstallationCompleted, models.EventSeverityInfo,
				"Cluster %s is installed. Its console is at %s.", row.API.Name, consoleURL(&row.API)),
			c.recordDegraded(row),
		)
	case lifecycle.ClusterCancelled:
		row.API.InstallCompletedAt = c.dateTime()
	case lifecycle.ClusterFailed:
		row.API.InstallCompletedAt = c.dateTime()
		return c.clusterEventOf(row, event.Props{"failure_reason": info}, event.InstallationFailed,
			models.EventSeverityCritical, "Cluster %s: %s", row.API.Name, info)
	}
	return nil
}

// resumeStages restarts the time limits of hosts that could not continue while another host waited
// for a user action.
func (c *change) resumeStages(row *record.Cluster) error {
	hosts, _, err := c.readableHostsOf(row.API.ID.String())
	if err != nil {
		return err
	}
	row.API.Progress.FinalizingStageTimedOut = false
	for _, h := range hosts {
		if *h.API.Status == lifecycle.HostInstallingInProgress && slices.Contains(lifecycle.StagesWaitingForOthers,
			h.API.Progress.CurrentStage) {
			h.API.StageUpdatedAt = c.dateTime()
			c.saveHost(h)
		}
	}
	return nil
}

// enterPreparing selects the bootstrap host, assigns the roles and requests a run of the installer.
func (c *change) enterPreparing(row *record.Cluster) error {
	id := row.API.ID.String()
	row.ClearInstallation()
	row.Installs++
	row.Preparation = &record.Preparation{ID: c.e.newID().String(), StartedAt: c.now}
	row.API.InstallStartedAt = c.dateTime()
	row.API.LogsInfo, row.API.ControllerLogsStartedAt, row.API.ControllerLogsCollectedAt = models.LogsStateEmpty,
		strfmt.DateTime{}, strfmt.DateTime{}
	row.API.LastInstallationPreparation = models.LastInstallationPreparation{
		Status: models.LastInstallationPreparationStatusNotStarted, Reason: "The preparation is running."}
	hosts, err := c.hostsOf(id)
	if err != nil {
		return err
	}
	bootstrap, assigned := false, false
	for _, h := range hosts {
		if err := c.startHostPreparation(h); err != nil {
			return err
		}
		if h.API.Role == models.HostRoleAutoAssign {
			h.API.Role, assigned = h.API.SuggestedRole, true
		}
		h.ClearProgress()
		h.API.Bootstrap = !bootstrap && h.API.Role == models.HostRoleMaster
		h.API.ProgressStages = record.HostStages(h, row.API.ControlPlaneCount == 1)
		if h.API.Bootstrap {
			bootstrap = true
			if err := c.hostEvent(h, event.HostBootstrap, models.EventSeverityInfo, "Host %s is the bootstrap host.",
				c.hostName(h)); err != nil {
				return err
			}
		}
	}
	c.preparationsChanged = true
	return errors.Join(
		c.setUsage(row, description.UsageAutomaticRoles, assigned && len(hosts) > 3, nil), // three are masters
		record.PendingPreparations.Add(c.tx, id),
	)
}

func (c *change) enterInstalling(row *record.Cluster) error {
	row.API.Progress.PreparingForInstallationStagePercentage = 100
	row.API.Progress.TotalPercentage = lifecycle.PreparingShare
	row.API.LastInstallationPreparation = models.LastInstallationPreparation{
		Status: models.LastInstallationPreparationStatusSuccess, Reason: "The preparation is complete."}
	return nil
}

// RecordHostProgress records an installation stage of a host, reported by the installer on the host
// or by the controller in the cluster. A repeated or late report is not an error.
func (e *Engine) RecordHostProgress(ctx context.Context, infraEnvID, hostID string,
	progress *models.HostProgress) error {
	return e.update(ctx, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		e.recordContact(record.HostKey(h))
		return c.progress(h, progress)
	})
}

func (c *change) progress(h *record.Host, progress *models.HostProgress) error {
	stage := progress.CurrentStage
	if stage == "" {
		return invalid("A progress report must contain current_stage.")
	}
	if stage == models.HostStageFailed {
		reason := orText(progress.ProgressInfo,
			"The installer on the host failed without a reason; download the host's logs.")
		if _, err := c.triggerHost(h, lifecycle.OnFailure, reason); err != nil {
			return err
		}
		c.settleLater(h)
		return nil
	}
	stored := *h.API.Progress
	if stage == models.HostStageRebooting && h.IsDay2() && h.Joining == nil {
		stage = models.HostStageDone // no program reports the later stages
	}
	if slices.Index(h.API.ProgressStages, stage) < slices.Index(h.API.ProgressStages, stored.CurrentStage) &&
		stage != "" && slices.Contains(h.API.ProgressStages, stage) {
		return nil // an older report that arrived late
	}
	back := stage == models.HostStageDone && *h.API.Status == lifecycle.HostPendingUserAction
	if stored.CurrentStage == stage && stored.ProgressInfo == progress.ProgressInfo && !back {
		return nil
	}
	next := &models.HostProgressInfo{
		CurrentStage: stage, ProgressInfo: progress.ProgressInfo, StageStartedAt: stored.StageStartedAt,
		StageUpdatedAt:         c.dateTime(),
		InstallationPercentage: lifecycle.StageProgress(h.API.ProgressStages, stage),
	}
	if stored.CurrentStage != stage {
		next.StageStartedAt = c.dateTime()
	} else {
		next.StageTimedOut = stored.StageTimedOut
	}
	before, from := h.API.Progress, *h.API.Status
	h.API.Progress = next
	if _, err := c.triggerHost(h, lifecycle.OnProgress, ""); err != nil ||
		!slices.Contains(lifecycle.HostInstallingStates, from) {
		h.API.Progress = before // the installation of this host has ended
		return err
	}
	h.API.StageStartedAt, h.API.StageUpdatedAt = next.StageStartedAt, next.StageUpdatedAt
	if h.Joining != nil && stage == models.HostStageRebooting && h.Joining.Restarted.IsZero() {
		h.Joining.Restarted = c.now
	}
	c.saveHost(h)
	c.settleLater(h)
	if h.API.ClusterID != nil && !h.IsDay2() { // a joining host does not count in the cluster's installation
		if err := c.clusterProgress(h.API.ClusterID.String()); err != nil {
			return err
		}
	}
	if stored.CurrentStage == stage {
		return nil
	}
	return c.hostEventOf(h, event.Props{"event": lifecycle.StageText(stage, progress.ProgressInfo)}, event.HostStage,
		models.EventSeverityInfo, "Host %s reached the stage %s", c.hostName(h),
		lifecycle.StageText(stage, progress.ProgressInfo))
}

// RecordFinalizingProgress records the current finalizing stage. The controller in the cluster
// reports it. Before and after the installation, the report changes nothing.
func (e *Engine) RecordFinalizingProgress(ctx context.Context, id string, stage models.FinalizingStage) error {
	return e.update(ctx, func(c *change) error { return c.finalizingProgress(id, stage) })
}

func (c *change) finalizingProgress(id string, stage models.FinalizingStage) error {
	row, err := c.cluster(id)
	if err != nil {
		return err
	}
	if !slices.Contains(lifecycle.FinalizingStages(), stage) {
		return invalid("%q is not a finalizing stage.", stage)
	}
	if row.API.Progress.FinalizingStage == stage || !row.IsInstalling() {
		return nil
	}
	progress := row.API.Progress
	progress.FinalizingStage, progress.FinalizingStageStartedAt, progress.FinalizingStageTimedOut = stage,
		c.dateTime(), false
	c.saveCluster(row)
	return c.clusterEventOf(row, event.Props{"finalizing_stage": stage}, event.FinalizingStage,
		models.EventSeverityInfo,
		"Cluster %s is finishing its installation (stage: %s).", row.API.Name, stage)
}

// CompleteInstallation records the result of the installation. The controller in the cluster
// reports it.
func (e *Engine) CompleteInstallation(ctx context.Context, id string, success bool,
	reason string) (*models.Cluster, error) {
	return e.changeCluster(ctx, id, func(c *change) error { return c.completeInstallation(id, success, reason) })
}

func (c *change) completeInstallation(id string, success bool, reason string) error {
	row, err := c.cluster(id)
	if err != nil {
		return err
	}
	if err := c.triggerCluster(row, lifecycle.OnCompletion); err != nil {
		return err
	}
	if slices.Contains([]string{lifecycle.ClusterInstalled, lifecycle.ClusterAddingHosts}, *row.API.Status) ||
		row.Completion != nil && row.Completion.Success { // the first success counts
		return nil
	}
	if !success {
		reason = orText(reason, "the controller in the cluster gave no reason")
	}
	row.Completion = &record.Completion{At: c.now, Success: success, Error: reason}
	c.saveCluster(row)
	c.settleCluster(id)
	return nil
}

// ReportOperator records the state of an operator that the controller in the cluster monitors. The
// report changes nothing before the installation, when the controller of an earlier one may still
// run.
func (e *Engine) ReportOperator(ctx context.Context, id string, report *models.OperatorMonitorReport) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		for _, operator := range row.API.MonitoredOperators {
			if operator.Name != report.Name {
				continue
			}
			report := *report // omitted fields keep their values
			report.Status, report.StatusInfo = cmp.Or(report.Status, operator.Status),
				cmp.Or(report.StatusInfo, operator.StatusInfo)
			report.Version = cmp.Or(report.Version, operator.Version)
			if operator.Status == report.Status && operator.StatusInfo == report.StatusInfo &&
				operator.Version == report.Version || !row.TakesOperatorReports() {
				return nil
			}
			changed := operator.Status != report.Status
			operator.Status, operator.StatusInfo, operator.Version, operator.StatusUpdatedAt = report.Status,
				report.StatusInfo, report.Version, c.dateTime()
			lifecycle.CountOperators(&row.API)
			c.saveCluster(row)
			c.settleCluster(id)
			if !changed {
				return nil
			}
			severity, detail := models.EventSeverityInfo, "."
			if report.Status == models.OperatorStatusFailed {
				severity, detail = models.EventSeverityWarning, ": "+orText(report.StatusInfo,
					"the controller gave no reason.")
			}
			return c.clusterEventOf(row, event.Props{"operator_name": report.Name, "status": report.Status,
				"status_info": report.StatusInfo}, event.OperatorStatus, severity, "Cluster %s: operator %s is %s%s",
				row.API.Name, report.Name, report.Status, detail)
		}
		return notFound("Cluster %s has no monitored operator %q.", row.API.Name, report.Name)
	})
}

// UploadIngressCert completes the user's kubeconfig: it adds the CA certificate of the cluster's
// ingress to the kubeconfig of the installer.
func (e *Engine) UploadIngressCert(ctx context.Context, id, certificate string) error {
	read, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return err
	}
	if err := installconfig.CheckIngressCA(certificate); err != nil {
		return err
	}
	if read.Preparation == nil || !read.Preparation.Done {
		return invalid("Cluster %s has no kubeconfig yet, so an ingress certificate can't be added.", read.API.Name)
	}
	kubeconfig, err := e.ReadFile(id, fileKubeconfigNoIngress)
	if err != nil {
		return err
	}
	joined, err := installconfig.AddIngressCA(kubeconfig, certificate)
	if err != nil {
		return err
	}
	if joined, err = e.options.Secrets.SealBytes(joined); err != nil {
		return err
	}
	staged, err := e.options.DB.Stage(ctx, bytes.NewReader(joined))
	if err != nil {
		return err
	}
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if row.Preparation == nil || row.Preparation.ID != read.Preparation.ID {
			return invalid("Cluster %s was reset or is installed anew, so the ingress certificate of its earlier "+
				"installation can't be added.", row.API.Name)
		}
		if row.IngressCA {
			return nil
		}
		row.IngressCA = true
		c.saveCluster(row)
		c.settleCluster(id)
		return errors.Join(
			record.InstallerFiles.Put(c.tx, id+"/"+fileKubeconfig, staged, c.now),
			c.clusterEvent(row, event.IngressCert, models.EventSeverityInfo,
				"Cluster %s: the kubeconfig is complete and can be downloaded.", row.API.Name),
		)
	})
}

// Credentials returns the URL of the console and the password of the user kubeadmin. It fails with
// kind Conflict until the installation has generated them.
func (e *Engine) Credentials(id string) (*models.Credentials, error) {
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return nil, err
	}
	if row.Preparation == nil || !row.Preparation.Done {
		return nil, conflict("Cluster %s has no credentials yet; they are generated when its installation is prepared.",
			row.API.Name)
	}
	password, err := e.ReadFile(id, fileKubeadminPassword)
	if err != nil {
		return nil, err
	}
	return &models.Credentials{Username: "kubeadmin", Password: strings.TrimSpace(string(password)),
		ConsoleURL: consoleURL(&row.API)}, nil
}

// InstallConfig returns the install-config that an installation of the cluster would use now.
func (e *Engine) InstallConfig(id string) (string, error) {
	if _, err := record.ReadCluster(e.options.DB, id); err != nil {
		return "", err
	}
	installation, err := e.installation(id)
	if err != nil {
		return "", err
	}
	text, err := installation.InstallConfig()
	return string(text), err
}

// Preflight returns the hardware requirements of a cluster's hosts by role.
func (e *Engine) Preflight(id string) (*models.PreflightHardwareRequirements, error) {
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return nil, err
	}
	return e.options.Requirements(row.API.OpenshiftVersion).Preflight(&row.API), nil
}
