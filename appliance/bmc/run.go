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

// talkers bounds how many BMCs are spoken to at the same time.
const talkers = 32

// gate lets one conversation with a BMC go on at a time: several servers may share one.
type gate struct {
	free  chan struct{}
	users int
}

// enter waits until a BMC is free and hands back how to leave it.
func (m *Manager) enter(ctx context.Context, address string) (leave func(), err error) {
	parsed, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	g := m.gates[parsed.URL]
	if g == nil {
		g = &gate{free: make(chan struct{}, 1)}
		m.gates[parsed.URL] = g
	}
	g.users++
	m.mu.Unlock()
	quit := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if g.users--; g.users == 0 {
			delete(m.gates, parsed.URL)
		}
	}
	select {
	case g.free <- struct{}{}:
	case <-ctx.Done():
		quit()
		return nil, context.Cause(ctx)
	}
	select {
	case m.talking <- struct{}{}:
	case <-ctx.Done():
		<-g.free
		quit()
		return nil, context.Cause(ctx)
	}
	return func() {
		<-m.talking
		<-g.free
		quit()
	}, nil
}

// Run works until the context ends.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	defer workers.Wait()
	var followers sync.WaitGroup
	var hostsErr error
	followers.Go(func() {
		defer cancel()
		hostsErr = m.followHosts(ctx)
	})
	err := m.Observe(ctx, func(id string) { m.attend(ctx, id, &workers) })
	cancel()
	followers.Wait()
	return errors.Join(err, hostsErr)
}

// attend sees that a server has a worker, and that its host is found when it comes.
func (m *Manager) attend(ctx context.Context, id string, workers *sync.WaitGroup) {
	r, err := m.load(id)
	if err != nil {
		r = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	expects := m.expect(id, r)
	w := m.workers[id]
	if r == nil || w != nil {
		if expects && r != nil {
			m.lookForHosts()
		}
		return
	}
	w = &worker{m: m, id: id, wake: make(chan struct{}, 1)}
	m.workers[id] = w
	if expects {
		m.lookForHosts()
	}
	workers.Go(func() {
		for {
			w.run(ctx)
			m.mu.Lock()
			if _, err := m.load(id); err == nil && ctx.Err() == nil {
				m.mu.Unlock()
				continue // it was added anew meanwhile
			}
			delete(m.workers, id)
			delete(m.seen, id)
			delete(m.polls, id)
			m.mu.Unlock()
			return
		}
	})
}

// expect notes by what a server's host would be known; it is true when it was not expected before.
// The mutex is held.
func (m *Manager) expect(id string, r *row) bool {
	_, before := m.expected[id]
	delete(m.expected, id)
	if r == nil || r.Booted == nil || r.State == Deleting {
		return false
	}
	waited := expectation{host: r.Booted.Host}
	if r.BootMAC != "" {
		waited.macs = append(waited.macs, r.BootMAC)
	}
	if r.System != nil {
		waited.macs = append(waited.macs, r.System.MACs...)
		waited.serial = strings.ToLower(r.System.SerialNumber)
	}
	m.expected[id] = waited
	return !before
}

// expectation is by what the host of a server that was booted is known.
type expectation struct {
	host   *HostRef // nil until it came
	macs   []string
	serial string // lower case
}

func (e expectation) meets(host Host) bool {
	if e.host != nil {
		return *e.host == host.HostRef
	}
	return e.serial != "" && e.serial == strings.ToLower(host.SerialNumber) ||
		slices.ContainsFunc(e.macs, func(mac string) bool { return slices.Contains(host.MACs, mac) })
}

// concerns tells whether a host may be one of a server's: to read a host costs something, and there
// are many.
func (m *Manager) concerns(ref HostRef) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, waited := range m.expected {
		if waited.host == nil || *waited.host == ref {
			return true
		}
	}
	return false
}

func (m *Manager) lookForHosts() {
	select {
	case m.lookAnew <- struct{}{}:
	default:
	}
}

const hostsPrefix = "/hosts/"

// followHosts tells servers of their hosts: of all there are at the start and when another server
// was booted, and then of each that changed.
func (m *Manager) followHosts(ctx context.Context) error {
	for ctx.Err() == nil {
		from := m.options.DB.Revision()
		if err := m.allHosts(ctx); err != nil {
			return err
		}
		watcher := m.options.DB.Watch(ctx, from, hostsPrefix)
		if err := m.followChanges(ctx, watcher); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (m *Manager) followChanges(ctx context.Context, watcher *store.Watcher) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.lookAnew:
			if err := m.allHosts(ctx); err != nil {
				return err
			}
		case changes, open := <-watcher.C():
			if !open {
				if err := watcher.Err(); err != nil && !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
					return fmt.Errorf("follow the hosts' changes: %w", err)
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
	none := len(m.expected) == 0
	m.mu.Unlock()
	if none {
		return nil
	}
	return m.options.Site.Hosts(func(host Host) error { return m.tell(ctx, host) })
}

func (m *Manager) hostChanged(ctx context.Context, change store.Change) error {
	infraEnvID, id, ok := strings.Cut(strings.TrimPrefix(change.Key, hostsPrefix), "/")
	ref := HostRef{infraEnvID, id}
	if change.Deleted || !ok || !m.concerns(ref) {
		return nil
	}
	host, known, err := m.options.Site.Host(ref)
	if err != nil || !known {
		return err
	}
	return m.tell(ctx, host)
}

// tell finds the servers that a host may be, and has what follows from its state noted.
func (m *Manager) tell(ctx context.Context, host Host) error {
	var ids []string
	m.mu.Lock()
	for id, waited := range m.expected {
		if waited.meets(host) {
			ids = append(ids, id)
		}
	}
	m.mu.Unlock()
	for _, id := range ids {
		if err := m.tellServer(ctx, id, host); err != nil {
			return err
		}
	}
	return nil
}

var errNothingNew = errors.New("nothing new")

func (m *Manager) tellServer(ctx context.Context, id string, host Host) error {
	err := m.options.DB.Update(ctx, func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return errNothingNew
		}
		if err != nil {
			return err
		}
		if !r.hear(host, m.now()) {
			return errNothingNew
		}
		return serverRows.Put(tx, id, r)
	})
	if errors.Is(err, errNothingNew) {
		return nil
	}
	if err == nil {
		m.rouse(id)
	}
	return err
}

func (m *Manager) rouse(id string) {
	m.mu.Lock()
	w := m.workers[id]
	m.mu.Unlock()
	if w != nil {
		w.rouse()
	}
}

const (
	// stillReading is how long a machine that reboots may read its full image while it shuts down.
	// Firmware's self-test takes longer than that on iron.
	stillReading = 20 * time.Second
	// stillTelling is how long a machine whose installation failed is left its full image, to send
	// its logs.
	stillTelling = 10 * time.Minute
)

// hear takes up what is known of the host that the server became; it is false when nothing follows
// from it.
func (r *row) hear(host Host, now time.Time) bool {
	if r.Booted == nil || r.State == Deleting || r.Detached {
		return false
	}
	heard := false
	if r.Booted.Host == nil {
		if host.Registered.Before(r.Operations.Provision.Start) {
			return false // it registered before the boot that is waited for
		}
		heard = true
		r.Booted.Host, r.Booted.Registered = &HostRef{host.InfraEnvID, host.ID}, now
		if r.Error != nil && r.Error.Type == ProvisioningError {
			r.Error = nil
		}
		r.note(now, false, "AgentRegistered", "The agent on the image registered as host %s.", host.ID)
	}
	if *r.Booted.Host != host.HostRef {
		return heard
	}
	if host.WrongBoot && r.Booted.Repaired.IsZero() && !r.Repair {
		r.Repair = true
		return true
	}
	if !r.Booted.Ejected.IsZero() || !r.EjectAt.IsZero() {
		return heard
	}
	wait, why := host.ejects()
	if why == "" {
		return heard
	}
	r.EjectAt, r.EjectWhy = now.Add(wait), why
	return true
}

// ejects tells when the image is to be taken out, and why; "" while the machine needs it.
func (h Host) ejects() (wait time.Duration, why string) {
	switch h.Stage {
	case models.HostStageRebooting:
		why, wait = "it reboots into its disk", stillReading
	case models.HostStageWaitingForIgnition, models.HostStageConfiguring, models.HostStageJoined, models.HostStageDone:
		why = "it is up from its disk"
	}
	switch h.Status {
	case models.HostStatusError, models.HostStatusCancelled:
		why, wait = "its installation ended without success", stillTelling
	case models.HostStatusInstalled, models.HostStatusAddedToExistingCluster:
		why, wait = "it is installed", 0
	}
	if h.Minimal {
		wait = 0 // its root file system is in memory
	}
	return wait, why
}
