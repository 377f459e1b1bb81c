package engine

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/lifecycle"
	"landfall/store"
)

// Whoever an object waits for when no time moves it.
const (
	forPerson     = "a person"
	forHost       = "the host's agent"
	forController = "the controller in the cluster"
	forNobody     = "nobody: it is where it was to arrive"
)

// hostExit tells when a host moves at the latest if nothing happens to it, or whom it waits for.
// The limits are the documented ones of the Assisted Installer (see timeouts.go); those of the
// engine under audit must be the defaults.
func (a *Auditor) hostExit(h *hostRecord) (by time.Time, waitsFor string) {
	now := a.e.Clock.Now()
	silent := now.Add(3 * time.Minute)
	entered, stage := a.e.since(h.API.StatusUpdatedAt), a.e.since(h.API.StageUpdatedAt)
	switch *h.API.Status {
	case lifecycle.HostDiscovering, lifecycle.HostKnown, lifecycle.HostInsufficient, lifecycle.HostPendingForInput,
		lifecycle.HostDiscoveringUnbound, lifecycle.HostKnownUnbound, lifecycle.HostInsufficientUnbound,
		lifecycle.HostUnbinding, lifecycle.HostPrepared, lifecycle.HostPreparingFailed:
		return silent, ""
	case lifecycle.HostPreparing:
		return earlier(silent, entered.Add(8*time.Minute)), ""
	case lifecycle.HostInstalling:
		return entered.Add(20 * time.Minute), ""
	case lifecycle.HostInstallingInProgress:
		if h.API.Progress.StageTimedOut && h.API.Progress.CurrentStage != models.HostStageRebooting {
			return time.Time{}, forPerson // limits only warn; the cluster's own limit ends it
		}
		return stage.Add(hostStageLimit(h.API.Progress.CurrentStage)), ""
	case lifecycle.HostResetting:
		return entered.Add(3 * time.Minute), ""
	case lifecycle.HostReclaiming, lifecycle.HostReclaimingRebooting:
		return entered.Add(time.Hour), ""
	case lifecycle.HostFailed, lifecycle.HostCancelled:
		if h.API.LogsInfo == models.LogsStateEmpty && time.Time(h.API.LogsStartedAt).IsZero() {
			return entered.Add(2 * time.Minute), ""
		}
		return time.Time{}, forPerson
	case lifecycle.HostPendingUserAction, lifecycle.HostResettingPendingUserAction,
		lifecycle.HostUnbindingPendingUserAction, lifecycle.HostDisabled, lifecycle.HostDisabledUnbound:
		return time.Time{}, forPerson
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

// clusterExit tells when a cluster moves at the latest if nothing happens to it, or whom it waits
// for.
func (a *Auditor) clusterExit(row *clusterRecord) (by time.Time, waitsFor string) {
	entered, started := a.e.since(row.API.StatusUpdatedAt), time.Time(row.API.InstallStartedAt)
	switch *row.API.Status {
	case lifecycle.ClusterPreparing:
		return entered.Add(10 * time.Minute), ""
	case lifecycle.ClusterInstalling, lifecycle.ClusterPendingUserAction:
		return started.Add(24 * time.Hour), ""
	case lifecycle.ClusterFinalizing:
		if a.e.warnsOnly(&row.API) {
			return started.Add(24 * time.Hour), ""
		}
		return earlier(entered.Add(5*time.Hour), started.Add(24*time.Hour)), ""
	case lifecycle.ClusterFailed, lifecycle.ClusterCancelled:
		if row.API.LogsInfo == models.LogsStateEmpty {
			return entered.Add(10 * time.Minute), ""
		}
		return time.Time{}, forPerson
	case lifecycle.ClusterPendingForInput, lifecycle.ClusterInsufficient, lifecycle.ClusterReady:
		return time.Time{}, forPerson
	case lifecycle.ClusterInstalled, lifecycle.ClusterAddingHosts, statusUnmonitored:
		return time.Time{}, forNobody
	}
	return time.Time{}, ""
}

// leftover returns what is called with the keys that are left of something.
func (a *Auditor) leftover(object, what string) func(string) error {
	a.checked++
	return func(key string) error {
		a.fail(invariantRemains, []string{object}, "%s is left: %s", what, key)
		return nil
	}
}

func (a *Auditor) remainsOfHost(tx *store.Tx, key string) error {
	if hostRows.Exists(tx, key) {
		return nil // it has registered again
	}
	_, set := lifeDeadlines.At(tx, hostDeadline(key))
	a.holds(!set, invariantRemains, key, "a deadline is left")
	a.holds(!verdictRows.Exists(tx, hostSubject(key)), invariantRemains, key, "its validations are left")
	if _, heard := a.e.presence.polled(key); heard {
		a.fail(invariantRemains, []string{key}, "when it was last heard is left")
	}
	env, id, _ := strings.Cut(key, "/")
	a.holds(!hostPlaces.Exists(tx, id+"/"+env), invariantRemains, key, "its place in infra-env %s is left", env)
	return reportRows.Keys(tx, key+"/", a.leftover(key, "a report"))
}

func (a *Auditor) remainsOfCluster(tx *store.Tx, id string) error {
	_, set := lifeDeadlines.At(tx, clusterDeadline(id))
	a.holds(!set, invariantRemains, id, "a deadline is left")
	a.holds(!clusterRows.Exists(tx, id), invariantRemains, id, "the cluster is still there")
	a.holds(!verdictRows.Exists(tx, clusterSubject(id)), invariantRemains, id, "its validations are left")
	a.holds(!pendingWork.Exists(tx, id), invariantRemains, id, "a preparation is left")
	if past := a.history[id]; past != nil {
		held, err := outbox.DesiredRows.Get(tx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		switch {
		case past.installed && !a.e.WithoutAMS:
			a.holds(err == nil && held.Phase == outbox.Active && !held.DeletedAt.IsZero(), invariantOutbox, id,
				"it was installed and deleted, and AMS is to hear %+v", held)
		case err == nil: // AMS may have been told of it
			a.holds(held.Phase == outbox.Absent && !held.DeletedAt.IsZero(), invariantOutbox,
				id, "it was deleted before it was installed, and AMS is to hear %+v", held)
		}
	}
	return errors.Join(
		clusterHosts.Keys(tx, id+"/", a.leftover(id, "a host's place")),
		clusterEnvs.Keys(tx, id+"/", a.leftover(id, "an infra-env's place")),
		installerFiles.Keys(tx, id+"/", a.leftover(id, "a file")),
	)
}

func (a *Auditor) remainsOfInfraEnv(tx *store.Tx, id string) error {
	a.holds(!infraEnvRows.Exists(tx, id), invariantRemains, id, "the infra-env is still there")
	return errors.Join(
		hostRows.Keys(tx, id+"/", a.leftover(id, "a host")),
		recipeFiles.Keys(tx, id, a.leftover(id, "its recipe")),
	)
}

// lookAtRest checks what no object names: that each row, index key, file and deadline has the
// object that it belongs to, and that no deadline has passed without being handled.
func (a *Auditor) lookAtRest(tx *store.Tx, hosts, clusters []string) error {
	belongs := func(what string, owners []string, owner func(key string) string) func(string) error {
		return func(key string) error {
			of := owner(key)
			_, found := slices.BinarySearch(owners, of)
			a.holds(found, invariantRemains, of, "%s is left: %s", what, key)
			return nil
		}
	}
	firstPart := func(key string) string { first, _, _ := strings.Cut(key, "/"); return first }
	rest := func(key string) string { _, rest, _ := strings.Cut(key, "/"); return rest }
	codes := make(map[string]string)
	due, err := lifeDeadlines.Due(tx, a.e.Clock.Now().AddDate(100, 0, 0), 0)
	for _, deadline := range due {
		kind, key, _ := strings.Cut(deadline.Key, "/")
		owners := hosts
		if kind == "cluster" {
			owners = clusters
		}
		_, found := slices.BinarySearch(owners, key)
		a.holds(found, invariantRemains, key, "a deadline is left")
		a.holds(deadline.At.After(a.e.Clock.Now().Add(-lookingAgain)), invariantDeadline, deadline.Key,
			"it was due at %s and nothing came of it", shortTime(deadline.At))
	}
	return errors.Join(err,
		a.checkLists(tx),
		imageCodes.Keys(tx, "", func(key string) error {
			code, env, _ := strings.Cut(key, "/")
			a.holds(codes[code] == "" && infraEnvRows.Exists(tx, env), invariantIDs, env,
				"the image code %s stands for it and for %q", code, codes[code])
			codes[code] = env
			return nil
		}),
		hostPlaces.Keys(tx, "", func(key string) error {
			id, env, _ := strings.Cut(key, "/")
			a.holds(hostRows.Exists(tx, env+"/"+id), invariantRemains, id, "its place in infra-env %s is left", env)
			return nil
		}),
		reportRows.Keys(tx, "", belongs("a report", hosts,
			func(key string) string { return key[:strings.LastIndex(key, "/")] })),
		verdictRows.Keys(tx, "cluster/", belongs("validations", clusters, rest)),
		verdictRows.Keys(tx, "host/", belongs("validations", hosts, rest)),
		installerFiles.Keys(tx, "", belongs("a file", clusters, firstPart)),
		pendingWork.Keys(tx, "", belongs("a preparation", clusters, func(key string) string { return key })),
		clusterEnvs.Keys(tx, "", belongs("an infra-env's place", clusters, firstPart)),
	)
}

// checkLists: each host that a cluster lists names it, and no other cluster lists it.
func (a *Auditor) checkLists(tx *store.Tx) error {
	places := make(map[string]string)
	return clusterHosts.Keys(tx, "", func(key string) error {
		cluster, host, _ := strings.Cut(key, "/")
		a.holds(places[host] == "", invariantPlace, host, "it is among the hosts of cluster %s and of %s", places[host],
			cluster)
		places[host] = cluster
		h, err := hostRows.Get(tx, host)
		a.holds(err == nil && h.API.ClusterID != nil && h.API.ClusterID.String() == cluster, invariantPlace, host,
			"cluster %s lists it, which it does not name: %v", cluster, err)
		return nil
	})
}
