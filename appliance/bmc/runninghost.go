package bmc

import (
	"fmt"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/fault"
)

// RunningHostError reports that a boot from an image would end the installation of a host, or the
// work of an installed host.
type RunningHostError struct {
	Server  string // name
	Host    string // name of the host on the server
	Cluster string // name of its cluster; may be ""
	// Stage is the stage of the installation; it is empty if the host is installed.
	Stage models.HostStage
	// Installed is set if the host is a part of an installed cluster.
	Installed bool
}

// Error implements error.
func (e *RunningHostError) Error() string {
	host := "the host " + e.Host
	if e.Cluster != "" {
		host += " of the cluster " + e.Cluster
	}
	const remedy = "To boot it nevertheless, repeat the action with force (landfall bmc boot --force)."
	if e.Installed {
		return fmt.Sprintf("The server %s runs %s, which is installed; a boot from the image takes it out of its "+
			"cluster. %s", e.Server, host, remedy)
	}
	stage := ""
	if e.Stage != "" {
		stage = fmt.Sprintf(" (%s)", e.Stage)
	}
	return fmt.Sprintf("The server %s is %s, which is being installed%s; a boot from the image ends the installation "+
		"of this host. %s", e.Server, host, stage, remedy)
}

// FaultKind implements fault.Classified.
func (*RunningHostError) FaultKind() fault.Kind { return fault.Conflict }

// checkRunningHost returns a *RunningHostError if the latest host that registered from the server's
// machine is being installed or is installed.
func (m *Manager) checkRunningHost(r *row) error {
	matcher := r.matcher()
	if len(matcher.macs) > 0 {
		matcher.serial = "" // boards without their own serial number have the same one
	}
	booted := matcher.host
	matcher.host = nil
	var latest *Host
	if err := m.options.Site.Hosts(func(host Host) error {
		own := booted != nil && *booted == host.HostRef || matcher.matches(host)
		if own && (latest == nil || host.Registered.After(latest.Registered)) {
			latest = &host
		}
		return nil
	}); err != nil {
		return fmt.Errorf("find the host of the server %s: %w", r.Name, err)
	}
	if latest == nil {
		return nil
	}
	running := &RunningHostError{Server: r.Name, Host: latest.Name, Stage: latest.Stage}
	switch latest.Status {
	case models.HostStatusInstalled, models.HostStatusAddedToExistingCluster:
		running.Installed = true
	case models.HostStatusPreparingForInstallation, models.HostStatusPreparingSuccessful, models.HostStatusInstalling,
		models.HostStatusInstallingInProgress, models.HostStatusInstallingPendingUserAction:
	default:
		return nil
	}
	var err error
	if running.Cluster, err = m.options.Site.ClusterName(latest.ClusterID); err != nil {
		return fmt.Errorf("find the cluster of the host %s: %w", latest.Name, err)
	}
	return running
}
