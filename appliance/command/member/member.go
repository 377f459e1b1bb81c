// Package member runs the appliance as a member of a fleet: it opens what the roles share, and
// gives them to package fleet.
//
//	member.go   what the roles share
//	sockets.go  the open sockets
//	follow.go   the role of a follower
//	lead.go     the role of the leader
//	restore.go  the role of a member that waits for a snapshot
//	damage.go   databases that are found damaged
package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance"
	"landfall/appliance/config"
	"landfall/appliance/dataversion"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/fleet/metrics"
	"landfall/appliance/fleet/virtualip"
	"landfall/appliance/keyring"
	"landfall/appliance/monitoring"
	"landfall/appliance/process"
	"landfall/appliance/sitekey"
	"landfall/appliance/storage"
	"landfall/appliance/transport"
	"landfall/store"
	"landfall/web"
	"landfall/web/problem"
	"landfall/web/registry"
)

// leaderShutdown is the longest time for which a leader finishes requests before another member may
// lead.
const leaderShutdown = 2 * time.Second

// Options configures [Run].
type Options struct {
	Config  config.Config
	Logger  *slog.Logger
	Version string
	// Listening is called when the member listens, with its URL for programs on this machine.
	Listening func(localURL string)
	// Leading is called with the appliance that this member runs as the leader.
	Leading func(*appliance.Appliance) error
}

// Run takes part in a fleet until the context ends.
func Run(ctx context.Context, options Options) (err error) {
	m := &member{Options: options, clock: clockwork.NewRealClock()}
	defer func() { err = errors.Join(err, m.close()) }()
	if err := m.open(ctx); err != nil {
		return err
	}
	options.Listening(m.sockets.localURL())
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return m.membership.Run(running, m.network) })
	group.Go(func() error {
		m.reach.Run(running)
		return nil
	})
	group.Go(func() error {
		m.metrics.Run(running)
		return nil
	})
	group.Go(func() error {
		select {
		case <-m.membership.Ended():
			return membership.ErrChanged
		case <-running.Done():
			return nil
		}
	})
	group.Go(func() error {
		return fleet.New(fleet.Options{
			Self: m.membership.Peer(), Log: m.membership.Log(),
			Roles:   fleet.Roles{Open: m.openCopy, Serve: m.serveUndamaged, Lead: m.lead, Restore: m.restore},
			Leaders: m.forwarder, Takeover: m.Config.Fleet.Takeover, Clock: m.clock, Logger: m.Logger,
		}).Run(running)
	})
	return m.membership.AfterFailure(ctx, group.Wait())
}

// member is what the roles of a running member share.
type member struct {
	Options
	clock      clockwork.Clock
	membership *membership.Membership
	sockets    *sockets
	keys       *keyring.Keyring
	key        *sitekey.Key
	first      *store.DB // opened by open, until the first role takes it
	transport  *transport.Transport
	credential *fleet.Credential
	forwarder  *fleet.Forwarder
	peers      *fleet.Client
	reach      *fleet.Reach
	copies     *fleet.Copies
	address    *virtualip.Address // nil for none
	usage      *storage.Usage     // of the data directory
	metrics    *metrics.Collector // of the fleet
	leadership atomic.Pointer[fleet.Leadership]
	background sync.WaitGroup // servers of former roles that finish requests
	damaged    atomic.Bool    // a snapshot must replace the database
	replaced   atomic.Bool    // one has replaced a damaged database
}

// open opens what the roles share.
func (m *member) open(ctx context.Context) (err error) {
	if err := m.Config.Fleet.Check(m.Config.TLS); err != nil {
		return err
	}
	if m.sockets, err = listen(ctx, &m.Config); err != nil {
		return err
	}
	if err := m.openAddress(); err != nil {
		return err
	}
	m.Config.Timeouts.Shutdown = min(m.Config.Timeouts.Shutdown, leaderShutdown)
	m.keys = keyring.New(m.Config.DataDir, m.Config.Seal.Options(m.Logger))
	m.first, err = m.openStore(ctx)
	if err := m.noteDamage(ctx, err); err != nil {
		return err
	}
	if m.key, err = sitekey.LoadSealed(m.Config.DataDir, m.keys.Ring()); err != nil {
		return err
	}
	urls, err := m.Config.URLs(m.sockets.main)
	if err != nil {
		return err
	}
	if err := m.join(ctx); err != nil {
		return err
	}
	// landfall upgrade reads there which program has started. Only a leader opens the data as
	// dataversion.Directory.
	if err := dataversion.NoteProgram(m.Config.DataDir, m.Version); err != nil {
		m.Logger.WarnContext(ctx, "The version of this program could not be noted in the data directory.", "error", err)
	}
	self := m.membership.Peer()
	if m.transport, err = transport.Open(transport.Options{TLS: m.Config.TLS, Dir: m.Config.DataDir, Key: m.key,
		Names: append(config.Hosts(append(urls, self.URL)), m.Config.Registry.Names()...), Clock: m.clock,
		Logger: m.Logger, Follow: true}); err != nil {
		return err
	}
	if m.credential, err = fleet.NewCredential(m.key, self.Name); err != nil {
		return err
	}
	hosts := web.NewHosts(slices.Concat(m.names(), m.Config.AllowedHosts)...).Allow
	m.forwarder = fleet.NewForwarder(m.credential, 2*m.Config.Fleet.Takeover, hosts, refuse, m.Logger)
	m.peers = fleet.NewClient(m.credential, m.clock)
	m.reach = fleet.NewReach(self.Name, m.forwarder, m.peers, m.clock)
	m.copies = fleet.NewCopies(fleet.CopiesOptions{Client: m.peers, Self: self.Name, Others: m.membership.Others,
		All: m.membership.All, Leader: m.forwarder.Leading, Number: m.Config.Fleet.Copies, Clock: m.clock,
		Logger: m.Logger})
	m.usage = storage.NewUsage(m.Config.DataDir, m.clock)
	m.metrics = metrics.New(metrics.Options{Of: m.service(), Leads: m.leads, Leaders: m.forwarder, Clock: m.clock})
	return nil
}

// openAddress opens the virtual IP of the leader. Without other URLs, hosts use it.
func (m *member) openAddress() (err error) {
	if m.address, err = virtualip.New(virtualip.Options{Address: m.Config.Fleet.VirtualIP,
		Interface: m.Config.Fleet.Interface, Clock: m.clock, Logger: m.Logger}); err != nil || m.address == nil {
		return err
	}
	bound, err := netip.ParseAddrPort(m.sockets.main.String())
	if err != nil {
		return err
	}
	if !bound.Addr().IsUnspecified() {
		return fmt.Errorf("listen is %s, so this member can't be reached at fleet.virtual_ip; set listen to [::]:%d",
			bound, bound.Port())
	}
	if len(m.Config.URL) == 0 {
		port := strconv.Itoa(int(bound.Port()))
		m.Config.URL = []string{"https://" + net.JoinHostPort(m.Config.Fleet.VirtualIP, port)}
	}
	return nil
}

// join opens the membership. A directory that belongs to no fleet makes one: its data becomes that
// of the fleet.
func (m *member) join(ctx context.Context) (err error) {
	plain := m.Config
	plain.URL = nil // those may be of a load balancer
	own, err := plain.URLs(m.sockets.main)
	if err != nil {
		return err
	}
	options := m.Config.Fleet.Options(m.Config, own, m.sockets.main, m.Version, m.clock, m.Logger)
	state, err := fleet.ReadState(m.Config.DataDir)
	if err != nil {
		return err
	}
	if state == nil {
		if err := membership.Found(ctx, options); err != nil {
			return err
		}
	}
	m.membership, err = membership.Open(options)
	return err
}

// network returns the state of the network of this member.
func (m *member) network() membership.Network {
	leader, lasted := m.reach.Unreached()
	return membership.Network{Unreached: leader, UnreachedFor: lasted, Unlinked: !m.address.Linked()}
}

// service says what the members of the fleet are, and changes them.
func (m *member) service() *membership.Leader {
	return &membership.Leader{Membership: m.membership, Peers: m.peers,
		VirtualIP: func() *membership.VirtualIP { return (*membership.VirtualIP)(m.address.State()) }}
}

// leads reports whether this member leads.
func (m *member) leads() bool {
	leadership := m.leadership.Load()
	return leadership != nil && (*leadership).Leads()
}

// observed returns the metrics of a member that does not lead, without those of its database.
func (m *member) observed() monitoring.Parts {
	return monitoring.Parts{Version: m.Version, Usage: m.usage, Certificates: m.transport.Certificates(),
		Others: append(process.MetricCollectors(), m.metrics), Clock: m.clock}
}

func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if registry.IsRequest(r) {
		_ = registry.Refuse(w, err) // the client has gone if it fails
		return
	}
	_ = problem.Write(w, r, problem.From(err)) // the client has gone if it fails
}

func (m *member) close() error {
	m.background.Wait()
	var errs []error
	if m.first != nil {
		errs = append(errs, m.first.Close())
	}
	if m.forwarder != nil {
		m.forwarder.Close()
		m.peers.Close()
	}
	if m.membership != nil {
		errs = append(errs, m.membership.Close())
	}
	if m.sockets != nil {
		errs = append(errs, m.sockets.listeners.Close())
	}
	return errors.Join(errs...)
}
