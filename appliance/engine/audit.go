package engine

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/lifecycle"
	"landfall/store"
)

// Violation is an invariant that does not hold: a mistake in the engine, not in what it was asked
// for.
type Violation struct {
	Invariant string   // such as "no host is in two clusters"
	Objects   []string // keys of what it is about
	Found     string   // a clause: what was found instead
}

func (v *Violation) Error() string {
	return fmt.Sprintf("the invariant %q does not hold for %s: %s", v.Invariant, strings.Join(v.Objects, ", "), v.Found)
}

// The invariants that an [Auditor] holds the engine to.
const (
	invariantPlace    = "a host is in one cluster and one infra-env"
	invariantExit     = "no state is without an exit"
	invariantDeadline = "no deadline is lost"
	invariantEvents   = "each change of a state has its event"
	invariantOutbox   = "the outbox tells the history"
	invariantIDs      = "ids are unique"
	invariantRemains  = "nothing is left of what was deleted"
	invariantReadable = "what was written can be read"
)

// Auditor looks at what an engine commits, and at all that there is when it is asked to, and checks
// that the invariants hold: they are told from what people may rely on, not from how the engine
// goes about it. It is for simulations and tests, in which one change comes after the other.
type Auditor struct {
	e       *Engine
	found   *Violation        // the first
	told    map[string]string // the state of each object, as its events tell it
	history map[string]*relayed
	kinds   map[string]string // what each id names: a cluster, an infra-env, a host, or a cluster by its own id
	last    string            // the newest event's key that was looked at
	checked int
}

// relayed is what a cluster's events call for in the outbox.
type relayed struct {
	installed, deleted bool
	id                 string // the last that an installation gave it
	generation         int
}

// NewAuditor returns an auditor of an engine that has committed nothing yet.
func NewAuditor(e *Engine) *Auditor {
	a := newAuditor()
	a.Follow(e)
	return a
}

func newAuditor() *Auditor {
	return &Auditor{told: make(map[string]string), history: make(map[string]*relayed), kinds: make(map[string]string)}
}

// Follow goes on with another engine over the same store, as after a restart.
func (a *Auditor) Follow(e *Engine) { a.e, e.auditor = e, a }

// Checked is how many times an invariant was checked.
func (a *Auditor) Checked() int { return a.checked }

// Violation returns the first violation found, nil while all invariants hold.
func (a *Auditor) Violation() *Violation { return a.found }

func (a *Auditor) fail(invariant string, objects []string, format string, args ...any) {
	if a.found == nil {
		a.found = &Violation{invariant, objects, fmt.Sprintf(format, args...)}
	}
}

// holds notes a check and what came of it.
func (a *Auditor) holds(ok bool, invariant, object, format string, args ...any) {
	a.checked++
	if !ok {
		a.fail(invariant, []string{object}, format, args...)
	}
}

// look checks what a change has written, after it was committed.
func (a *Auditor) look(c *change) {
	if a.found != nil {
		return
	}
	if err := a.e.DB.View(func(tx *store.Tx) error { return a.lookIn(tx, c) }); err != nil {
		a.fail(invariantReadable, nil, "%v", err)
	}
}

// lookIn checks what a change has written, in a transaction that sees it.
func (a *Auditor) lookIn(tx *store.Tx, c *change) error {
	if err := a.readEvents(tx); err != nil {
		return err
	}
	for key := range c.dirtyHosts {
		if err := a.lookAtHost(tx, key); err != nil {
			return err
		}
	}
	for id := range c.dirtyClusters {
		if err := a.lookAtCluster(tx, id); err != nil {
			return err
		}
	}
	for _, key := range c.gone {
		if err := a.remainsOfHost(tx, key); err != nil {
			return err
		}
	}
	return nil
}

// Sweep checks everything that there is. All that is due must have been handled.
func (a *Auditor) Sweep() *Violation {
	err := a.e.DB.View(func(tx *store.Tx) error {
		var hosts, clusters []string
		err := errors.Join(
			hostRows.Keys(tx, "", func(key string) error { hosts = append(hosts, key); return nil }),
			clusterRows.Keys(tx, "", func(id string) error { clusters = append(clusters, id); return nil }),
		)
		for _, key := range hosts {
			err = errors.Join(err, a.lookAtHost(tx, key))
		}
		for _, id := range clusters {
			err = errors.Join(err, a.lookAtCluster(tx, id))
		}
		return errors.Join(err, a.lookAtRest(tx, hosts, clusters))
	})
	if err != nil {
		a.fail(invariantReadable, nil, "%v", err)
	}
	return a.found
}

func (a *Auditor) lookAtHost(tx *store.Tx, key string) error {
	h, err := hostRows.Get(tx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil // deleted by the same change
	}
	if err != nil {
		return err
	}
	a.checkPlace(tx, key, h)
	a.checkTold("host", h.API.ID.String(), *h.API.Status)
	a.checkID(h.API.ID.String(), "host")
	by, waits := a.hostExit(h)
	a.checkExit(tx, hostDeadline(key), *h.API.Status, by, waits)
	return nil
}

func (a *Auditor) lookAtCluster(tx *store.Tx, id string) error {
	row, err := clusterRows.Get(tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	a.checkTold("cluster", id, *row.API.Status)
	a.checkID(id, "cluster")
	if own := row.API.OpenshiftClusterID.String(); own != "" && !conv.Value(row.API.Imported) {
		a.checkID(own, "the installed cluster "+id)
	}
	by, waits := a.clusterExit(row)
	a.checkExit(tx, clusterDeadline(id), *row.API.Status, by, waits)
	wanted := *row.API.Status == lifecycle.ClusterPreparing && row.Preparation != nil && !row.Preparation.Done &&
		row.Preparation.Failed == ""
	a.holds(wanted == pendingWork.Exists(tx, id), invariantExit, id,
		"the cluster is %s, and whether its preparation is to be run is %v", *row.API.Status, !wanted)
	return a.checkOutbox(tx, id, row)
}

// checkPlace: a host is among the hosts of the cluster that it names and of no other, and in one
// infra-env.
func (a *Auditor) checkPlace(tx *store.Tx, key string, h *hostRecord) {
	if h.API.ClusterID != nil {
		id := h.API.ClusterID.String()
		a.holds(clusterHosts.Exists(tx, id+"/"+key), invariantPlace, key, "it names cluster %s, which does not list it",
			id)
		a.holds(clusterRows.Exists(tx, id), invariantPlace, key, "it names cluster %s, which does not exist", id)
	}
	var envs []string
	err := hostPlaces.Keys(tx, h.API.ID.String()+"/", func(place string) error {
		envs = append(envs, strings.TrimPrefix(place, h.API.ID.String()+"/"))
		return nil
	})
	a.holds(err == nil && slices.Equal(envs, []string{h.API.InfraEnvID.String()}), invariantPlace,
		key, "it is in the infra-envs %v: %v", envs, err)
	a.holds(infraEnvRows.Exists(tx, h.API.InfraEnvID.String()), invariantPlace, key, "its infra-env does not exist")
}

func (a *Auditor) checkTold(kind, id, status string) {
	told, known := a.told[id]
	if !known {
		a.told[id] = status // it began so
		return
	}
	a.holds(told == status, invariantEvents, kind+" "+id, "it is %s and its events end at %s", status, told)
}

func (a *Auditor) checkID(id, kind string) {
	before, known := a.kinds[id]
	a.kinds[id] = kind
	a.holds(!known || before == kind, invariantIDs, id, "it names %s and %s", before, kind)
}

// lookingAgain is within what time the engine looks again at an object that it looked at when it
// was due and that did not move.
const lookingAgain = time.Minute

// checkExit: an object moves by itself by a time, and has a deadline by then; or somebody is waited
// for.
func (a *Auditor) checkExit(tx *store.Tx, key, status string, by time.Time, waitsFor string) {
	if by.IsZero() {
		a.holds(waitsFor != "", invariantExit, key, "it is %s, where nothing is waited for", status)
		return
	}
	at, set := lifeDeadlines.At(tx, key)
	if latest := a.e.Clock.Now().Add(lookingAgain); by.Before(latest) {
		by = latest
	}
	// A clock may jump by as much as the engine does not notice.
	a.holds(set && !at.After(by.Add(sleepGap)), invariantDeadline, key,
		"it is %s and must be looked at by %s, but its deadline is %s", status, shortTime(by), deadlineText(at, set))
}

func deadlineText(at time.Time, set bool) string {
	if !set {
		return "none"
	}
	return shortTime(at)
}

func shortTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// stateMoved is how the event of a new state tells it.
var stateMoved = regexp.MustCompile(`: (\S+) -> (\S+)\. `)

// readEvents follows what the new events tell.
func (a *Auditor) readEvents(tx *store.Tx) error {
	var keys []string
	if err := eventRows.KeysAfter(tx, a.last, func(key string) error {
		keys = append(keys,
			key)
		return nil
	}); err != nil {
		return err
	}
	for _, key := range keys {
		ev, err := eventRows.Get(tx, key)
		if err != nil {
			return err
		}
		a.last = key
		if err := a.follow(tx, ev); err != nil {
			return err
		}
	}
	return nil
}

func (a *Auditor) follow(tx *store.Tx, ev *models.Event) error {
	id := ""
	switch ev.Name {
	case eventClusterRegistered:
		a.history[ev.ClusterID.String()] = &relayed{}
	case eventClusterDeregistered:
		id = ev.ClusterID.String()
		delete(a.told, id)
		if past := a.history[id]; past != nil {
			past.deleted = true
		}
		return a.remainsOfCluster(tx, id)
	case eventInfraEnvDeregistered:
		return a.remainsOfInfraEnv(tx, ev.InfraEnvID.String())
	case eventHostRegistered:
		a.told[ev.HostID.String()] = lifecycle.HostDiscoveringUnbound
		if ev.ClusterID != nil {
			a.told[ev.HostID.String()] = lifecycle.HostDiscovering
		}
	case eventHostDeregistered:
		delete(a.told, ev.HostID.String())
	case eventHostStatus:
		id = ev.HostID.String()
	case eventClusterStatus:
		id = ev.ClusterID.String()
	}
	if id == "" {
		return nil
	}
	states := stateMoved.FindStringSubmatch(conv.Value(ev.Message))
	if states == nil {
		a.fail(invariantEvents, []string{id}, "the event %q tells no states", conv.Value(ev.Message))
		return nil
	}
	before, known := a.told[id]
	a.holds(!known || before == states[1], invariantEvents, id, "an event tells %s -> %s of what was %s", states[1],
		states[2], before)
	a.told[id] = states[2]
	if past := a.history[id]; past != nil && states[2] == lifecycle.ClusterInstalled {
		past.installed = true
	}
	return nil
}

// checkOutbox: what AMS is to hear of a cluster is what its events call for.
func (a *Auditor) checkOutbox(tx *store.Tx, id string, row *clusterRecord) error {
	past := a.history[id]
	if past == nil || conv.Value(row.API.Imported) || *row.API.Kind == kindDisconnected {
		return nil
	}
	held, err := outbox.DesiredRows.Get(tx, id)
	if err != nil {
		a.fail(invariantOutbox, []string{id}, "it has no entry: %v", err)
		return nil
	}
	phase := outbox.Reserved
	if past.installed {
		phase = outbox.Active
	}
	if own := row.API.OpenshiftClusterID.String(); own != "" {
		past.id = own
	}
	a.holds(held.Phase == phase && held.MustExist == past.installed, invariantOutbox, id,
		"AMS is to hold it as %s (must exist: %v), and that it was installed is %v", held.Phase, held.MustExist,
		past.installed)
	a.holds(held.DisplayName == row.API.Name && held.ExternalClusterID == past.id && held.DeletedAt.IsZero(),
		invariantOutbox, id, "AMS is to hold it as %q, id %q, deleted %s", held.DisplayName, held.ExternalClusterID,
		held.DeletedAt)
	a.holds(held.Generation >= past.generation, invariantOutbox, id, "generation %d comes after %d", held.Generation,
		past.generation)
	past.generation = held.Generation
	return nil
}
