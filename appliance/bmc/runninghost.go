package bmc

import (
	"fmt"
	"time"

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
	hosts, err := m.hostsOf(r, matcher)
	if err != nil {
		return err
	}
	for _, host := range latestHosts(hosts, m.now()) {
		if err := m.checkHostIdle(r, host); err != nil {
			return err
		}
	}
	return nil
}

// hostsOf returns the hosts of a server's machine: those that match, and the host of its last boot.
func (m *Manager) hostsOf(r *row, matcher hostMatcher) ([]Host, error) {
	booted := matcher.host
	matcher.host = nil
	var found []Host
	if err := m.options.Site.Hosts(func(host Host) error {
		if booted != nil && *booted == host.HostRef || matcher.matches(host) {
			found = append(found, host)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find the host of the server %s: %w", r.Name, err)
	}
	return found, nil
}

// registrationsOf returns the last registrations of the hosts of a server's machine. They identify
// the registrations before a boot also if the clock was set back.
func (m *Manager) registrationsOf(r *row) ([]registration, error) {
	hosts, err := m.hostsOf(r, r.matcher())
	if err != nil {
		return nil, err
	}
	var known []registration
	for _, host := range hosts {
		known = append(known, registrationOf(host))
	}
	return known, nil
}

// latestHosts returns the host that registered last. If hosts registered at a later time than now,
// by a clock that was set back since, each of them may be the last.
func latestHosts(hosts []Host, now time.Time) []Host {
	var latest []Host
	var last *Host
	for i, host := range hosts {
		switch {
		case host.Registered.After(now):
			latest = append(latest, host)
		case last == nil || host.Registered.After(last.Registered):
			last = &hosts[i]
		}
	}
	if last != nil {
		latest = append(latest, *last)
	}
	return latest
}

// checkHostIdle returns a *RunningHostError if a host is being installed or is installed.
func (m *Manager) checkHostIdle(r *row, host Host) error {
	running := &RunningHostError{Server: r.Name, Host: host.Name, Stage: host.Stage}
	switch host.Status {
	case models.HostStatusInstalled, models.HostStatusAddedToExistingCluster:
		running.Installed = true
	case models.HostStatusPreparingForInstallation, models.HostStatusPreparingSuccessful, models.HostStatusInstalling,
		models.HostStatusInstallingInProgress, models.HostStatusInstallingPendingUserAction:
	default:
		return nil
	}
	var err error
	if running.Cluster, err = m.options.Site.ClusterName(host.ClusterID); err != nil {
		return fmt.Errorf("find the cluster of the host %s: %w", host.Name, err)
	}
	return running
}
