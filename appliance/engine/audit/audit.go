// Package audit checks invariants of the engine. The invariants express the guarantees that users
// rely on, and are independent of the engine's implementation: the package itself declares the
// parts of the store that it reads.
//
// Simulations and tests use the package; the product does not. The auditor is not safe for
// concurrent use: changes must be checked one after the other.
//
// Design: docs/design.md#an-independent-auditor.
package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/lifecycle"
	"landfall/store"
)

// Violation is a violated invariant. It is a defect of the engine, not of a request.
type Violation struct {
	Invariant string   // such as "no host is in two clusters"
	Objects   []string // keys of the affected objects
	Found     string   // a clause with the actual state
}

func (v *Violation) Error() string {
	return fmt.Sprintf("the invariant %q does not hold for %s: %s", v.Invariant, strings.Join(v.Objects, ", "), v.Found)
}

// The invariants that an [Auditor] checks.
const (
	Membership = "a host is in one cluster and one infra-env"
	Exit       = "each state has an exit"
	Deadline   = "no deadline is lost"
	Events     = "each change of a state has its event"
	Outbox     = "the outbox matches the history"
	IDs        = "ids are unique"
	Remains    = "no record of a deleted object remains"
	Readable   = "all records can be read"
)

// Engine provides the auditor with facts that are not in the store.
type Engine interface {
	// ContactsSince returns the start of the period in which hosts could contact the engine without
	// a gap.
	ContactsSince() time.Time
	// LastContact returns the time of the last contact of the host with this key. The second value
	// is false if this process had no contact.
	LastContact(hostKey string) (time.Time, bool)
	// WarnsOnly reports whether limits of stages only warn for a cluster.
	WarnsOnly(cluster *models.Cluster) bool
}

// Site is an engine with its store. The engine must have the default time-outs.
type Site struct {
	Engine     Engine
	DB         *store.DB
	Now        func() time.Time
	WithoutAMS bool // deleted clusters are not reported to AMS
}

// Change names the records that a change wrote, and the hosts that it deleted, by their keys.
type Change struct {
	Clusters, Hosts, DeletedHosts []string
}

// Auditor checks changes of an engine after their commit, and the whole store on request. It reads
// all events from the start, also after restarts of the engine.
type Auditor struct {
	found   *Violation                 // the first violation
	states  map[string]string          // the state of each object according to its events
	history map[string]*clusterHistory // by cluster id
	kinds   map[string]string          // kind of the object with each id
	last    string                     // key of the newest event that was read
	checked int
}

// clusterHistory holds the facts that follow from a cluster's events. The cluster's outbox entry
// must match them.
type clusterHistory struct {
	installed, deleted bool
	id                 string // the id from the last installation
	generation         int
}

// New returns an auditor for a site with an empty store.
func New() *Auditor {
	return &Auditor{states: make(map[string]string), history: make(map[string]*clusterHistory),
		kinds: make(map[string]string)}
}

// Started sets the first state of an object without a registration event.
func (a *Auditor) Started(id, state string) { a.states[id] = state }

// Checked returns the number of checks so far.
func (a *Auditor) Checked() int { return a.checked }

// Violation returns the first violation, or nil.
func (a *Auditor) Violation() *Violation { return a.found }

func (a *Auditor) fail(invariant string, objects []string, format string, args ...any) {
	if a.found == nil {
		a.found = &Violation{invariant, objects, fmt.Sprintf(format, args...)}
	}
}

// holds counts a check and records a violation if the check failed.
func (a *Auditor) holds(ok bool, invariant, object, format string, args ...any) {
	a.checked++
	if !ok {
		a.fail(invariant, []string{object}, format, args...)
	}
}

// Check checks the records that a committed change wrote.
func (a *Auditor) Check(s Site, change Change) {
	if a.found != nil {
		return
	}
	if err := s.DB.View(func(tx *store.Tx) error { return a.CheckIn(tx, s, change) }); err != nil {
		a.fail(Readable, nil, "%v", err)
	}
}

// CheckIn checks the records that a change wrote, in a transaction that can read them.
func (a *Auditor) CheckIn(tx *store.Tx, s Site, change Change) error {
	if err := a.readEvents(tx, s); err != nil {
		return err
	}
	for _, key := range change.Hosts {
		if err := a.checkHost(tx, s, key); err != nil {
			return err
		}
	}
	for _, id := range change.Clusters {
		if err := a.checkCluster(tx, s, id); err != nil {
			return err
		}
	}
	for _, key := range change.DeletedHosts {
		if err := a.remainsOfHost(tx, s, key); err != nil {
			return err
		}
	}
	return nil
}

// Sweep checks the whole store and returns the first violation. All due deadlines must have been
// handled.
func (a *Auditor) Sweep(s Site) *Violation {
	err := s.DB.View(func(tx *store.Tx) error {
		var hostKeys, clusterIDs []string
		err := errors.Join(
			hosts.Keys(tx, "", func(key string) error { hostKeys = append(hostKeys, key); return nil }),
			clusters.Keys(tx, "", func(id string) error { clusterIDs = append(clusterIDs, id); return nil }),
		)
		for _, key := range hostKeys {
			err = errors.Join(err, a.checkHost(tx, s, key))
		}
		for _, id := range clusterIDs {
			err = errors.Join(err, a.checkCluster(tx, s, id))
		}
		return errors.Join(err, a.CheckRest(tx, s, hostKeys, clusterIDs))
	})
	if err != nil {
		a.fail(Readable, nil, "%v", err)
	}
	return a.found
}

func (a *Auditor) checkHost(tx *store.Tx, s Site, key string) error {
	h, err := hosts.Get(tx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil // deleted by the same change
	}
	if err != nil {
		return err
	}
	a.checkHostMembership(tx, key, h)
	a.checkState("host", h.API.ID.String(), *h.API.Status)
	a.checkID(h.API.ID.String(), "host")
	by, waits := HostExit(s, &h.API)
	a.checkExit(tx, s, "host/"+key, *h.API.Status, by, waits)
	return nil
}

func (a *Auditor) checkCluster(tx *store.Tx, s Site, id string) error {
	row, err := clusters.Get(tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	a.checkState("cluster", id, *row.API.Status)
	a.checkID(id, "cluster")
	if own := row.API.OpenshiftClusterID.String(); own != "" && !conv.Value(row.API.Imported) {
		a.checkID(own, "the installed cluster "+id)
	}
	by, waits := ClusterExit(s, &row.API)
	a.checkExit(tx, s, "cluster/"+id, *row.API.Status, by, waits)
	wanted := *row.API.Status == lifecycle.ClusterPreparing && row.Preparation != nil && !row.Preparation.Done &&
		row.Preparation.Failed == ""
	a.holds(wanted == preparations.Exists(tx, id), Exit, id,
		"the cluster is %s, but the index of pending preparations contains it: %v", *row.API.Status, !wanted)
	return a.checkOutbox(tx, id, row)
}

// checkHostMembership checks that a host is listed by the cluster that it names, and is in one
// infra-env.
func (a *Auditor) checkHostMembership(tx *store.Tx, key string, h *hostRecord) {
	if h.API.ClusterID != nil {
		id := h.API.ClusterID.String()
		a.holds(clusterHosts.Exists(tx, id+"/"+key), Membership, key,
			"the host names cluster %s, which does not list the host",
			id)
		a.holds(clusters.Exists(tx, id), Membership, key, "the host names cluster %s, which does not exist", id)
	}
	var envs []string
	err := hostInfraEnvs.Keys(tx, h.API.ID.String()+"/", func(entry string) error {
		envs = append(envs, strings.TrimPrefix(entry, h.API.ID.String()+"/"))
		return nil
	})
	a.holds(err == nil && slices.Equal(envs, []string{h.API.InfraEnvID.String()}), Membership,
		key, "the host is in the infra-envs %v: %v", envs, err)
	a.holds(infraEnvs.Exists(tx, h.API.InfraEnvID.String()), Membership, key, "the host's infra-env does not exist")
}

func (a *Auditor) checkState(kind, id, status string) {
	last, known := a.states[id]
	if !known {
		a.states[id] = status // the first state
		return
	}
	a.holds(last == status, Events, kind+" "+id, "the %s is %s, but its events end at %s", kind, status, last)
}

func (a *Auditor) checkID(id, kind string) {
	before, known := a.kinds[id]
	a.kinds[id] = kind
	a.holds(!known || before == kind, IDs, id, "the id belongs to %s and %s", before, kind)
}

// recheckInterval is the time after which the engine checks a due object again if the object did
// not change.
const recheckInterval = time.Minute

// checkExit checks that an object can leave its state: by a time limit with a deadline, or through
// an action of another party.
func (a *Auditor) checkExit(tx *store.Tx, s Site, key, status string, by time.Time, waitsFor string) {
	if by.IsZero() {
		a.holds(waitsFor != "", Exit, key, "the state is %s, which has no limit and waits for no party", status)
		return
	}
	at, set := deadlines.At(tx, key)
	if latest := s.Now().Add(recheckInterval); by.Before(latest) {
		by = latest
	}
	// The clock may jump by the tolerance of the engine.
	a.holds(set && !at.After(by.Add(clockTolerance)), Deadline, key,
		"the state is %s and must be checked by %s, but its deadline is %s", status, shortTime(by),
		deadlineText(at, set))
}

func deadlineText(at time.Time, set bool) string {
	if !set {
		return "none"
	}
	return shortTime(at)
}

func shortTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// movedStates are the properties of the events of state changes.
type movedStates struct {
	From    string `json:"src_status"`
	Host    string `json:"new_status"`
	Cluster string `json:"cluster_status"`
}

// readEvents reads the new events.
func (a *Auditor) readEvents(tx *store.Tx, s Site) error {
	var keys []string
	if err := events.KeysAfter(tx, a.last, func(key string) error {
		keys = append(keys,
			key)
		return nil
	}); err != nil {
		return err
	}
	for _, key := range keys {
		ev, err := events.Get(tx, key)
		if err != nil {
			return err
		}
		a.last = key
		if err := a.follow(tx, s, ev); err != nil {
			return err
		}
	}
	return nil
}

func (a *Auditor) follow(tx *store.Tx, s Site, ev *models.Event) error {
	id := ""
	switch ev.Name {
	case "cluster_registration_succeeded":
		a.history[ev.ClusterID.String()] = &clusterHistory{}
	case "cluster_deregistered":
		id = ev.ClusterID.String()
		delete(a.states, id)
		if past := a.history[id]; past != nil {
			past.deleted = true
		}
		return a.remainsOfCluster(tx, s, id)
	case "infra_env_deregistered":
		return a.remainsOfInfraEnv(tx, ev.InfraEnvID.String())
	case "host_registration_succeeded":
		a.states[ev.HostID.String()] = lifecycle.HostDiscoveringUnbound
		if ev.ClusterID != nil {
			a.states[ev.HostID.String()] = lifecycle.HostDiscovering
		}
	case "host_deregistered":
		delete(a.states, ev.HostID.String())
	case "host_status_updated":
		id = ev.HostID.String()
	case "cluster_status_updated":
		id = ev.ClusterID.String()
	}
	if id == "" {
		return nil
	}
	var moved movedStates
	err := json.Unmarshal([]byte(ev.Props), &moved)
	to := cmp.Or(moved.Host, moved.Cluster)
	if err != nil || moved.From == "" || to == "" {
		a.fail(Events, []string{id}, "the event %q lacks the states: %s", conv.Value(ev.Message), ev.Props)
		return nil
	}
	before, known := a.states[id]
	a.holds(!known || before == moved.From, Events, id, "an event reports %s -> %s, but the state was %s", moved.From,
		to, before)
	a.states[id] = to
	if past := a.history[id]; past != nil && to == lifecycle.ClusterInstalled {
		past.installed = true
	}
	return nil
}

// checkOutbox checks that the outbox entry of a cluster matches the cluster's events.
func (a *Auditor) checkOutbox(tx *store.Tx, id string, row *clusterRecord) error {
	past := a.history[id]
	if past == nil || conv.Value(row.API.Imported) || *row.API.Kind == "DisconnectedCluster" {
		return nil
	}
	held, err := outbox.DesiredRows.Get(tx, id)
	if err != nil {
		a.fail(Outbox, []string{id}, "the cluster's entry for AMS is missing: %v", err)
		return nil
	}
	phase := outbox.Reserved
	if past.installed {
		phase = outbox.Active
	}
	if own := row.API.OpenshiftClusterID.String(); own != "" {
		past.id = own
	}
	a.holds(held.Phase == phase && held.MustExist == past.installed, Outbox, id,
		"the cluster's entry for AMS has phase %s (must exist: %v), but installed is %v", held.Phase, held.MustExist,
		past.installed)
	a.holds(held.DisplayName == row.API.Name && held.ExternalClusterID == past.id && held.DeletedAt.IsZero(),
		Outbox, id, "the cluster's entry for AMS has name %q, id %q, deleted %s", held.DisplayName,
		held.ExternalClusterID,
		held.DeletedAt)
	a.holds(held.Generation >= past.generation, Outbox, id,
		"the generation of the entry for AMS decreased to %d from %d", held.Generation,
		past.generation)
	past.generation = held.Generation
	return nil
}
