package bmc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/store"
)

// maxSessions limits the number of concurrent sessions with BMCs.
const maxSessions = 32

// bmcLock serializes the sessions with one BMC. Several servers may share a BMC.
type bmcLock struct {
	held  chan struct{}
	users int
}

// acquire waits until no other session uses the BMC. It returns the function that releases the BMC.
func (m *Manager) acquire(ctx context.Context, address string) (release func(), err error) {
	parsed, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	g := m.locks[parsed.URL]
	if g == nil {
		g = &bmcLock{held: make(chan struct{}, 1)}
		m.locks[parsed.URL] = g
	}
	g.users++
	m.mu.Unlock()
	quit := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if g.users--; g.users == 0 {
			delete(m.locks, parsed.URL)
		}
	}
	select {
	case g.held <- struct{}{}:
	case <-ctx.Done():
		quit()
		return nil, context.Cause(ctx)
	}
	select {
	case m.sessions <- struct{}{}:
	case <-ctx.Done():
		<-g.held
		quit()
		return nil, context.Cause(ctx)
	}
	return func() {
		<-m.sessions
		<-g.held
		quit()
	}, nil
}

// Run runs the workers until the context ends.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	defer workers.Wait()
	var followers sync.WaitGroup
	followers.Go(func() { m.followHosts(ctx) })
	err := m.Observe(ctx, func(id string) { m.startWorker(ctx, id, &workers) })
	cancel()
	followers.Wait()
	return err
}

// startWorker starts the worker of a server if it does not run, and requests a scan of hosts.
func (m *Manager) startWorker(ctx context.Context, id string, workers *sync.WaitGroup) {
	r, err := m.load(id)
	if err != nil {
		r = nil
	} else {
		m.machines.add(id, r.machine())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	expects := m.updateMatcher(id, r)
	w := m.workers[id]
	if r == nil || w != nil {
		if expects && r != nil {
			m.requestHostScan()
		}
		return
	}
	w = &worker{m: m, id: id, wake: make(chan struct{}, 1)}
	m.workers[id] = w
	if expects {
		m.requestHostScan()
	}
	workers.Go(func() {
		for {
			w.run(ctx)
			m.mu.Lock()
			if _, err := m.load(id); err == nil && ctx.Err() == nil {
				m.mu.Unlock()
				continue // the server was added again in the meantime
			}
			delete(m.workers, id)
			delete(m.contacts, id)
			delete(m.polls, id)
			m.mu.Unlock()
			return
		}
	})
}

// updateMatcher updates the matcher of a server's host. It returns true if the server had no
// matcher before, or one for other machines. The caller holds the mutex.
func (m *Manager) updateMatcher(id string, r *row) bool {
	before, known := m.matchers[id]
	delete(m.matchers, id)
	if r == nil || r.Booted == nil || r.State == Deleting {
		return false
	}
	matcher := r.matcher()
	m.matchers[id] = matcher
	return !known || matcher.serial != before.serial || !slices.Equal(matcher.macs, before.macs)
}

// matcher returns the matcher of a server's host.
func (r *row) matcher() hostMatcher {
	matcher := hostMatcher{}
	if r.Booted != nil {
		matcher.host = r.Booted.Host
	}
	if r.BootMAC != "" {
		matcher.macs = append(matcher.macs, r.BootMAC)
	}
	if r.System != nil {
		matcher.macs = append(matcher.macs, r.System.MACs...)
		matcher.serial = strings.ToLower(r.System.SerialNumber)
	}
	return matcher
}

// hostMatcher identifies the host of a server that was booted.
type hostMatcher struct {
	host   *HostRef // nil until the host registers
	macs   []string
	serial string // lower case
}

func (e hostMatcher) matches(host Host) bool {
	if e.host != nil {
		return *e.host == host.HostRef
	}
	return e.matchesSerial(host) || e.matchesMAC(host)
}

func (e hostMatcher) matchesSerial(host Host) bool {
	return e.serial != "" && e.serial == strings.ToLower(host.SerialNumber)
}

func (e hostMatcher) matchesMAC(host Host) bool {
	return slices.ContainsFunc(e.macs, func(mac string) bool { return slices.Contains(host.MACs, mac) })
}

// mayMatch reports whether a host may belong to a server. It avoids reading the hosts that do not.
func (m *Manager) mayMatch(ref HostRef) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, matcher := range m.matchers {
		if matcher.host == nil || *matcher.host == ref {
			return true
		}
	}
	return false
}

func (m *Manager) requestHostScan() {
	select {
	case m.scanHosts <- struct{}{}:
	default:
	}
}

const (
	hostsPrefix = "/hosts/"
	// hostsRetry is the wait after an error, before all hosts are read again.
	hostsRetry = 10 * time.Second
)

// followHosts updates servers when their hosts change, until the context ends. After an error, such
// as a full disk, it tries again, because it must not end the appliance.
func (m *Manager) followHosts(ctx context.Context) {
	for ctx.Err() == nil {
		err := m.followHostsFrom(ctx, m.options.DB.Revision())
		if err == nil || ctx.Err() != nil {
			continue
		}
		m.log.Error("The servers could not be updated from their hosts. Landfall tries again.", "error", err, "wait",
			hostsRetry)
		select {
		case <-ctx.Done():
		case <-m.clock.After(hostsRetry):
		}
	}
}

// followHostsFrom reads all hosts at the start and when a server gets a new matcher, and otherwise
// each host that changes after a revision. It returns without an error if the change log lacks
// changes.
func (m *Manager) followHostsFrom(ctx context.Context, revision uint64) error {
	if err := m.allHosts(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch
	return m.followChanges(ctx, m.options.DB.Watch(ctx, revision, hostsPrefix))
}

func (m *Manager) followChanges(ctx context.Context, watcher *store.Watcher) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.scanHosts:
			if err := m.allHosts(ctx); err != nil {
				return err
			}
		case changes, open := <-watcher.C():
			if !open {
				if err := watcher.Err(); err != nil && !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
					return fmt.Errorf("watch hosts: %w", err)
				}
				return nil
			}
			for _, change := range changes {
				if err := m.hostChanged(ctx, change); err != nil {
					return err
				}
			}
		}
	}
}

func (m *Manager) allHosts(ctx context.Context) error {
	m.mu.Lock()
	none := len(m.matchers) == 0
	m.mu.Unlock()
	if none {
		return nil
	}
	return m.options.Site.Hosts(func(host Host) error { return m.updateServersOf(ctx, host) })
}

func (m *Manager) hostChanged(ctx context.Context, change store.Change) error {
	infraEnvID, id, ok := strings.Cut(strings.TrimPrefix(change.Key, hostsPrefix), "/")
	ref := HostRef{infraEnvID, id}
	if change.Deleted || !ok || !m.mayMatch(ref) {
		return nil
	}
	host, found, err := m.options.Site.Host(ref)
	if err != nil || !found {
		return store.SkipDamaged(err)
	}
	return m.updateServersOf(ctx, host)
}

// updateServersOf updates the servers that match a host.
func (m *Manager) updateServersOf(ctx context.Context, host Host) error {
	var ids []string
	m.mu.Lock()
	for id, matcher := range m.matchers {
		if matcher.matches(host) {
			ids = append(ids, id)
		}
	}
	m.mu.Unlock()
	for _, id := range ids {
		if err := m.updateServerOf(ctx, id, host); err != nil {
			return err
		}
	}
	return nil
}

var errUnchanged = errors.New("unchanged")

func (m *Manager) updateServerOf(ctx context.Context, id string, host Host) error {
	err := m.options.DB.Update(ctx, func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) || store.IsDamaged(err) {
			return errUnchanged
		}
		if err != nil {
			return err
		}
		other, err := r.otherMachine(tx, host)
		if err != nil {
			return err
		}
		if other || !r.applyHost(host, m.now()) {
			return errUnchanged
		}
		return serverRows.Put(tx, id, r)
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err == nil {
		m.wakeWorker(id)
	}
	return err
}

// otherMachine reports whether a host that has only the serial number of a server may run on
// another server: boards without their own serial number have the same one.
func (r *row) otherMachine(tx *store.Tx, host Host) (bool, error) {
	if r.Booted == nil || r.Booted.Host != nil || r.matcher().matchesMAC(host) {
		return false, nil
	}
	other := false
	err := serverRows.Each(tx, "", func(id string, o *row) error {
		matcher := o.matcher()
		if id != r.ID && o.DuplicateOf == "" && (matcher.matchesSerial(host) || matcher.matchesMAC(host)) {
			other = true
			return store.ErrStop
		}
		return nil
	})
	return other, err
}

func (m *Manager) wakeWorker(id string) {
	m.mu.Lock()
	w := m.workers[id]
	m.mu.Unlock()
	if w != nil {
		w.wakeUp()
	}
}

const (
	// rebootEjectDelay keeps a full image inserted while the machine that runs from it shuts down
	// for its reboot. The firmware's self-test of a physical server takes longer than this delay.
	rebootEjectDelay = 20 * time.Second
	// failedEjectDelay keeps a full image inserted after a failed installation, so that the machine
	// can send its logs.
	failedEjectDelay = 10 * time.Minute
)

// applyHost applies the state of a host to its server. It returns false if nothing changed.
func (r *row) applyHost(host Host, now time.Time) bool {
	if r.Booted == nil || r.State == Deleting || r.Detached {
		return false
	}
	changed := false
	if r.Booted.Host == nil {
		if host.Registered.Before(r.Operations.Provision.Start) || slices.Contains(r.Former, registrationOf(host)) {
			return false // the host registered before this boot
		}
		changed = true
		r.Booted.Host, r.Booted.Registered = &HostRef{host.InfraEnvID, host.ID}, now
		if r.Error != nil && r.Error.Type == ProvisioningError {
			r.Error = nil
		}
		r.addEvent(now, false, "AgentRegistered", "The agent on the image registered as host %s.", host.ID)
	}
	if *r.Booted.Host != host.HostRef {
		return changed
	}
	if host.WrongBoot && r.Booted.Repaired.IsZero() && !r.Repair {
		r.Repair = true
		return true
	}
	if !r.Booted.Ejected.IsZero() || !r.EjectAt.IsZero() {
		return changed
	}
	wait, reason := host.ejectAfter()
	if reason == "" {
		return changed
	}
	r.EjectAt, r.EjectReason = now.Add(wait), reason
	return true
}

// ejectAfter returns the delay before the image is ejected, and the reason. The reason is empty
// while the machine needs the image.
func (h Host) ejectAfter() (wait time.Duration, reason string) {
	switch h.Stage {
	case models.HostStageRebooting:
		reason, wait = "the server reboots from its disk", rebootEjectDelay
	case models.HostStageWaitingForIgnition, models.HostStageConfiguring, models.HostStageJoined, models.HostStageDone:
		reason = "the server is running from its disk"
	}
	switch h.Status {
	case models.HostStatusError, models.HostStatusCancelled:
		reason, wait = "its installation failed or was cancelled", failedEjectDelay
	case models.HostStatusInstalled, models.HostStatusAddedToExistingCluster:
		reason, wait = "it is installed", 0
	}
	if h.Minimal {
		wait = 0 // the image's root file system is in memory
	}
	return wait, reason
}
