package audit

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/lifecycle"
	"landfall/store"
)

// since returns the start of a limit: the recorded time, but not before hosts could contact the
// engine. A time in the future was recorded before the clock was set back.
func (s Site) since(recorded strfmt.DateTime) time.Time {
	started, at := s.Engine.ContactsSince(), time.Time(recorded)
	if started.After(at) || at.After(s.Now().Add(clockTolerance)) {
		return started
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// The party that an object waits for in a state without a limit.
const (
	forUser       = "a user"
	forHost       = "the host's agent"
	forController = "the controller in the cluster"
	forNobody     = "no party: this is a final state"
)

// HostExit returns the latest time at which a host leaves its state without an external event. If
// the state has no limit, HostExit returns the party that the host waits for. The limits are those
// in the documentation of the Assisted Installer.
func HostExit(s Site, h *models.Host) (by time.Time, waitsFor string) {
	now := s.Now()
	silent := now.Add(3 * time.Minute)
	entered, stage := s.since(h.StatusUpdatedAt), s.since(h.StageUpdatedAt)
	switch *h.Status {
	case lifecycle.HostDiscovering, lifecycle.HostKnown, lifecycle.HostInsufficient, lifecycle.HostPendingForInput,
		lifecycle.HostDiscoveringUnbound, lifecycle.HostKnownUnbound, lifecycle.HostInsufficientUnbound,
		lifecycle.HostUnbinding, lifecycle.HostPrepared, lifecycle.HostPreparingFailed:
		return silent, ""
	case lifecycle.HostPreparing:
		return earlier(silent, entered.Add(8*time.Minute)), ""
	case lifecycle.HostInstalling:
		return entered.Add(20 * time.Minute), ""
	case lifecycle.HostInstallingInProgress:
		if h.Progress.StageTimedOut && h.Progress.CurrentStage != models.HostStageRebooting {
			// limits only warn, and the cluster's own limit ends the installation
			return time.Time{}, forUser
		}
		return stage.Add(hostStageLimit(h.Progress.CurrentStage)), ""
	case lifecycle.HostResetting:
		return entered.Add(3 * time.Minute), ""
	case lifecycle.HostReclaiming, lifecycle.HostReclaimingRebooting:
		return entered.Add(time.Hour), ""
	case lifecycle.HostFailed, lifecycle.HostCancelled:
		if h.LogsInfo == models.LogsStateEmpty && time.Time(h.LogsStartedAt).IsZero() {
			return entered.Add(2 * time.Minute), ""
		}
		return time.Time{}, forUser
	case lifecycle.HostPendingUserAction, lifecycle.HostResettingPendingUserAction,
		lifecycle.HostUnbindingPendingUserAction, lifecycle.HostDisabled, lifecycle.HostDisabledUnbound:
		return time.Time{}, forUser
	case lifecycle.HostDisconnected, lifecycle.HostDisconnectedUnbound, lifecycle.HostBinding:
		return time.Time{}, forHost
	case lifecycle.HostInstalled:
		return time.Time{}, forController
	case lifecycle.HostAdded:
		return time.Time{}, forNobody
	}
	return time.Time{}, ""
}

func hostStageLimit(stage models.HostStage) time.Duration {
	switch stage {
	case models.HostStageStartingInstallation, models.HostStageWritingImageToDisk:
		return 30 * time.Minute
	case lifecycle.StageCopyingRegistry:
		return 90 * time.Minute
	case models.HostStageRebooting:
		return 80 * time.Minute
	case models.HostStageWaitingForIgnition:
		return 24 * time.Hour
	}
	return time.Hour
}

// ClusterExit returns the latest time at which a cluster leaves its state without outside events,
// or the party that it waits for.
func ClusterExit(s Site, c *models.Cluster) (by time.Time, waitsFor string) {
	entered, started := s.since(c.StatusUpdatedAt), s.since(c.InstallStartedAt)
	switch *c.Status {
	case lifecycle.ClusterPreparing:
		return entered.Add(10 * time.Minute), ""
	case lifecycle.ClusterInstalling, lifecycle.ClusterPendingUserAction:
		return started.Add(24 * time.Hour), ""
	case lifecycle.ClusterFinalizing:
		if s.Engine.WarnsOnly(c) {
			return started.Add(24 * time.Hour), ""
		}
		return earlier(entered.Add(5*time.Hour), started.Add(24*time.Hour)), ""
	case lifecycle.ClusterFailed, lifecycle.ClusterCancelled:
		if c.LogsInfo == models.LogsStateEmpty {
			return entered.Add(10 * time.Minute), ""
		}
		return time.Time{}, forUser
	case lifecycle.ClusterPendingForInput, lifecycle.ClusterInsufficient, lifecycle.ClusterReady:
		return time.Time{}, forUser
	case lifecycle.ClusterInstalled, lifecycle.ClusterAddingHosts, lifecycle.ClusterUnmonitored:
		return time.Time{}, forNobody
	}
	return time.Time{}, ""
}

// Leftover counts a check and returns a function that reports each given key as a remaining record.
func (a *Auditor) Leftover(object, what string) func(string) error {
	a.checked++
	return func(key string) error {
		a.fail(Remains, []string{object}, "%s remains: %s", what, key)
		return nil
	}
}

func (a *Auditor) remainsOfHost(tx *store.Tx, s Site, key string) error {
	if hosts.Exists(tx, key) {
		return nil // the host has registered again
	}
	_, set := deadlines.At(tx, "host/"+key)
	a.holds(!set, Remains, key, "a deadline remains")
	a.holds(!validations.Exists(tx, "host/"+key), Remains, key, "validations remain")
	if _, contacted := s.Engine.LastContact(key); contacted {
		a.fail(Remains, []string{key}, "the time of its last contact remains")
	}
	env, id, _ := strings.Cut(key, "/")
	a.holds(!hostInfraEnvs.Exists(tx, id+"/"+env), Remains, key, "the host's entry for infra-env %s remains", env)
	return reports.Keys(tx, key+"/", a.Leftover(key, "a report"))
}

func (a *Auditor) remainsOfCluster(tx *store.Tx, s Site, id string) error {
	_, set := deadlines.At(tx, "cluster/"+id)
	a.holds(!set, Remains, id, "a deadline remains")
	a.holds(!clusters.Exists(tx, id), Remains, id, "the cluster still exists")
	a.holds(!validations.Exists(tx, "cluster/"+id), Remains, id, "validations remain")
	a.holds(!preparations.Exists(tx, id), Remains, id, "a preparation remains")
	if past := a.history[id]; past != nil {
		held, err := outbox.DesiredRows.Get(tx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		switch {
		case past.installed && !s.WithoutAMS:
			a.holds(err == nil && held.Phase == outbox.Active && !held.DeletedAt.IsZero(), Outbox, id,
				"the cluster was installed and deleted, but its entry for AMS is %+v", held)
		case err == nil: // AMS may have received it
			a.holds(held.Phase == outbox.Absent && !held.DeletedAt.IsZero(), Outbox,
				id, "the cluster was deleted before its installation, but its entry for AMS is %+v", held)
		}
	}
	return errors.Join(
		clusterHosts.Keys(tx, id+"/", a.Leftover(id, "the index entry of a host")),
		clusterEnvs.Keys(tx, id+"/", a.Leftover(id, "the index entry of an infra-env")),
		files.Keys(tx, id+"/", a.Leftover(id, "a file")),
	)
}

func (a *Auditor) remainsOfInfraEnv(tx *store.Tx, id string) error {
	a.holds(!infraEnvs.Exists(tx, id), Remains, id, "the infra-env still exists")
	return errors.Join(
		hosts.Keys(tx, id+"/", a.Leftover(id, "a host")),
		recipes.Keys(tx, id, a.Leftover(id, "a recipe")),
	)
}

// CheckRest checks that each row, index key, file and deadline belongs to an existing object. It
// also checks that each expired deadline was handled.
func (a *Auditor) CheckRest(tx *store.Tx, s Site, hostKeys, clusterIDs []string) error {
	belongs := func(what string, owners []string, owner func(key string) string) func(string) error {
		return func(key string) error {
			of := owner(key)
			_, found := slices.BinarySearch(owners, of)
			a.holds(found, Remains, of, "%s remains: %s", what, key)
			return nil
		}
	}
	firstPart := func(key string) string { first, _, _ := strings.Cut(key, "/"); return first }
	rest := func(key string) string { _, rest, _ := strings.Cut(key, "/"); return rest }
	codes := make(map[string]string)
	due, err := deadlines.Due(tx, s.Now().AddDate(100, 0, 0), 0)
	for _, deadline := range due {
		kind, key, _ := strings.Cut(deadline.Key, "/")
		owners := hostKeys
		if kind == "cluster" {
			owners = clusterIDs
		}
		_, found := slices.BinarySearch(owners, key)
		a.holds(found, Remains, key, "a deadline remains")
		a.holds(deadline.At.After(s.Now().Add(-recheckInterval)), Deadline, deadline.Key,
			"the deadline was due at %s and was not handled", shortTime(deadline.At))
	}
	return errors.Join(err,
		a.CheckMembership(tx),
		imageCodes.Keys(tx, "", func(key string) error {
			code, env, _ := strings.Cut(key, "/")
			a.holds(codes[code] == "" && infraEnvs.Exists(tx, env), IDs, env,
				"the infra-env's image code %s also belongs to %q", code, codes[code])
			codes[code] = env
			return nil
		}),
		hostInfraEnvs.Keys(tx, "", func(key string) error {
			id, env, _ := strings.Cut(key, "/")
			a.holds(hosts.Exists(tx, env+"/"+id), Remains, id, "the host's entry for infra-env %s remains", env)
			return nil
		}),
		reports.Keys(tx, "", belongs("a report", hostKeys,
			func(key string) string { return key[:strings.LastIndex(key, "/")] })),
		validations.Keys(tx, "cluster/", belongs("validations", clusterIDs, rest)),
		validations.Keys(tx, "host/", belongs("validations", hostKeys, rest)),
		files.Keys(tx, "", belongs("a file", clusterIDs, firstPart)),
		preparations.Keys(tx, "", belongs("a preparation", clusterIDs, func(key string) string { return key })),
		clusterEnvs.Keys(tx, "", belongs("the index entry of an infra-env", clusterIDs, firstPart)),
	)
}

// CheckMembership checks that each host in the list of a cluster names this cluster and is in no
// other list.
func (a *Auditor) CheckMembership(tx *store.Tx) error {
	clusterOf := make(map[string]string)
	return clusterHosts.Keys(tx, "", func(key string) error {
		cluster, host, _ := strings.Cut(key, "/")
		a.holds(clusterOf[host] == "", Membership, host, "clusters %s and %s list the host", clusterOf[host],
			cluster)
		clusterOf[host] = cluster
		h, err := hosts.Get(tx, host)
		a.holds(err == nil && h.API.ClusterID != nil && h.API.ClusterID.String() == cluster, Membership, host,
			"cluster %s lists the host, which does not name this cluster: %v", cluster, err)
		return nil
	})
}
