// Package member runs the appliance as a member of a fleet: it opens what the roles share, and
// gives them to package fleet.
package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance"
	"landfall/appliance/ams"
	"landfall/appliance/backup"
	"landfall/appliance/config"
	"landfall/appliance/engine"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/fleet/virtualip"
	"landfall/appliance/journal"
	"landfall/appliance/keyring"
	"landfall/appliance/osimage"
	"landfall/appliance/sitekey"
	"landfall/appliance/transport"
	"landfall/store"
	"landfall/store/wal"
	"landfall/web/follower"
	"landfall/web/kube"
	"landfall/web/problem"
)

// leaderShutdown is the longest time for which a leader finishes requests before another member may
// lead.
const leaderShutdown = 2 * time.Second

// snapshotPause is the time between two attempts to take a snapshot of another member.
const snapshotPause = time.Second

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
	group.Go(func() error { return m.membership.Run(running) })
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
			Log:     m.membership.Log(),
			Roles:   fleet.Roles{Open: m.openCopy, Serve: m.serveUndamaged, Lead: m.lead, Restore: m.restore},
			Leaders: m.forwarder, Clock: m.clock, Logger: m.Logger,
		}).Run(running)
	})
	return group.Wait()
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
	copies     *fleet.Copies
	address    *virtualip.Address // nil for none
	background sync.WaitGroup     // servers of former roles that finish requests
	damaged    atomic.Bool        // a snapshot must replace the database
	replaced   atomic.Bool        // one has replaced a damaged database
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
	self := m.membership.Peer()
	if m.transport, err = transport.Open(transport.Options{TLS: m.Config.TLS, Dir: m.Config.DataDir, Key: m.key,
		Names: append(config.Hosts(append(urls, self.URL)), m.Config.Registry.Names()...), Clock: m.clock,
		Logger: m.Logger, Follow: true}); err != nil {
		return err
	}
	if m.credential, err = fleet.NewCredential(m.key, self.Name); err != nil {
		return err
	}
	m.forwarder = fleet.NewForwarder(m.credential, 2*m.Config.Fleet.Takeover, refuse, m.Logger)
	m.peers = fleet.NewClient(m.credential)
	m.copies = fleet.NewCopies(fleet.CopiesOptions{Client: m.peers, Self: self.Name, Others: m.membership.Others,
		Leader: m.forwarder.Leading, Number: m.Config.Fleet.Copies, Clock: m.clock, Logger: m.Logger})
	return nil
}

// openAddress opens the virtual IP of the leader. Without other URLs, hosts use it.
func (m *member) openAddress() (err error) {
	if m.address, err = virtualip.New(virtualip.Options{Address: m.Config.Fleet.VirtualIP,
		Interface: m.Config.Fleet.Interface, Lease: m.Config.Fleet.Lease(), Clock: m.clock,
		Logger: m.Logger}); err != nil || m.address == nil {
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
	options := m.Config.Fleet.Options(m.Config, own[0], m.Version, m.clock, m.Logger)
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

func refuse(w http.ResponseWriter, r *http.Request, err error) {
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

// openStore opens the database as a follower. It keeps the history that the appliance keeps.
func (m *member) openStore(ctx context.Context) (*store.DB, error) {
	limits := m.Config.Limits
	return store.Open(ctx, m.Config.DataDir, store.Options{Logger: m.Logger, Clock: m.clock, Follow: true,
		History:   journal.History(int64(limits.JournalObjectBytes), int64(limits.JournalBytes)),
		Versioned: kube.Bucket, Keys: m.keys.Open, Elsewhere: elsewhere{m}})
}

// elsewhere implements store.Elsewhere for the first database, which is open before the copies.
type elsewhere struct{ *member }

// Share implements store.Elsewhere.
func (e elsewhere) Share(ctx context.Context, sum string, open func() (io.ReadSeekCloser, int64, error)) {
	e.copies.Share(ctx, sum, open)
}

// Fetch implements store.Elsewhere.
func (e elsewhere) Fetch(ctx context.Context, sum string) (io.ReadCloser, error) {
	return e.copies.Fetch(ctx, sum)
}

// openCopy returns the database of a follower.
func (m *member) openCopy(ctx context.Context) (fleet.Copy, error) {
	if db := m.first; db != nil {
		m.first = nil
		return db, nil
	}
	if m.damaged.Load() {
		return nil, &fleet.BehindError{Err: errDamaged}
	}
	db, err := m.openStore(ctx)
	if err := m.noteDamage(ctx, err); err != nil {
		return nil, err
	}
	if m.damaged.Load() {
		return nil, &fleet.BehindError{Err: errDamaged}
	}
	return db, nil
}

// serve serves clients of a follower until the context ends. Requests that then run are finished in
// the background, by the next leader.
func (m *member) serve(ctx context.Context, of fleet.Copy) error {
	db := of.(*store.DB)
	source := &backup.Source{DB: db, Dir: m.Config.DataDir, Program: m.Version, Now: m.clock.Now,
		SealedWith: string(m.keys.With()), DataKey: m.keys.Content, ExportKeys: m.keys.Export}
	mirror, err := m.mirror(db)
	if err != nil {
		return err
	}
	reader, err := follower.Open(ctx, follower.Options{Config: m.Config, DB: db, Key: m.key, Names: m.names(),
		Port: m.sockets.bootPort(), Leader: m.forwarder, Contacts: m.contacts, Version: m.Version,
		Fleet: &membership.Leader{Membership: m.membership, Peers: m.peers}, Clock: m.clock, Logger: m.Logger,
		Refuse: refuse})
	if err != nil {
		return err
	}
	ended, err := m.serveRequests(ctx, m.handler(source, db), reader.Handler)
	if err != nil {
		return errors.Join(err, reader.Close())
	}
	m.background.Go(func() {
		<-ended // requests read the live ISOs
		if err := reader.Close(); err != nil {
			m.Logger.Warn("A live ISO could not be closed.", "error", err)
		}
	})
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return reader.Run(running) })
	group.Go(func() error {
		m.copies.Run(running, db, false)
		return nil
	})
	group.Go(func() error {
		if err := mirror.Run(running); err != nil {
			m.Logger.Error("Live ISOs of other members are not copied.", "error", err)
		}
		return nil
	})
	group.Go(func() error { return m.membership.Keys().Follow(running, db, m.Logger) })
	return group.Wait()
}

// serveRequests starts the servers of a follower. peers handles the requests of other members, and
// reads those that the copy of the database may answer; see fleet.Behind. ended is closed when all
// servers have ended.
func (m *member) serveRequests(ctx context.Context, peers http.Handler,
	reads func(bool, http.Handler) http.Handler) (ended <-chan struct{}, err error) {
	servers, err := m.sockets.serve(ctx, m, &fleet.Behind{Forwarder: m.forwarder, Peers: peers, Own: m.own,
		Copy: reads})
	if err != nil {
		return nil, err
	}
	var serving sync.WaitGroup
	for _, run := range append(servers, func() error { return m.transport.Certificates().Run(ctx) }) {
		serving.Go(func() {
			if err := run(); err != nil && ctx.Err() == nil {
				m.Logger.Error("A server of this member ended.", "error", err)
			}
		})
	}
	all := make(chan struct{})
	m.background.Go(func() {
		serving.Wait()
		close(all)
	})
	return all, nil
}

// contacts asks the leader for the last contacts of hosts.
func (m *member) contacts(ctx context.Context, after time.Time) (string, map[string]time.Time, error) {
	leader, ok := m.forwarder.Leader()
	if !ok {
		return "", nil, fleet.ErrNoLeader
	}
	contacts, err := m.peers.Contacts(ctx, leader, after)
	return leader.Name, contacts, err
}

// names returns the names and URLs by which clients address this member.
func (m *member) names() []string {
	names := []string{m.membership.Peer().URL}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	if urls, err := m.Config.URLs(m.sockets.main); err == nil {
		names = append(names, urls...)
	}
	return names
}

// handler returns the handler of the requests of other members.
func (m *member) handler(snapshots fleet.Snapshots, contents fleet.Contents) http.Handler {
	peers := m.peersOf()
	peers.Snapshots, peers.Contents = snapshots, contents
	return &peers
}

// mirror returns the mirror of the leader's live ISOs.
func (m *member) mirror(db *store.DB) (*osimage.Mirror, error) {
	secrets, err := m.key.Box(engine.SecretsPurpose, nil)
	if err != nil {
		return nil, err
	}
	return &osimage.Mirror{Missing: m.membership.NoteMissingLiveISOs, Options: osimage.Options{
		Dir: m.imagesDir(), Secrets: secrets, Clock: m.clock, Logger: m.Logger, Shared: &osimage.Shared{DB: db,
			Fleet: m.membership.Keys().Fleet, Fetch: fleet.Paced(m.copies.Image)}}}, nil
}

func (m *member) imagesDir() string { return filepath.Join(m.Config.DataDir, "os-images") }

func (m *member) peersOf() fleet.Peers {
	return fleet.Peers{Condition: m.membership.Condition, Kept: m.copies.Kept, Leave: m.membership.LeaveHere,
		Image:  func(id string) (*os.File, error) { return osimage.OpenFile(m.imagesDir(), id) },
		Refuse: refuse, Logger: m.Logger}
}

// own answers the requests that each member answers itself: whether it is alive and ready.
func (m *member) own(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/livez":
		w.WriteHeader(http.StatusOK)
	case "/readyz":
		m.answerReady(w)
	default:
		return false
	}
	return true
}

// answerReady says whether requests may be sent to this member. Without a leader it still answers
// reads, so it is ready as long as it has a copy of the data.
func (m *member) answerReady(w http.ResponseWriter) {
	text, status := "ok", http.StatusOK
	switch {
	case m.forwarder.Led():
	case m.membership.IsRestoring():
		text, status = "[-]leader failed: no leader is known\n[-]copy failed: it waits for a snapshot\n"+
			"readyz check failed", http.StatusServiceUnavailable
	default:
		text = "[-]leader failed: no leader is known, so changes get 503\n[+]copy ok\nreadyz check passed for reads"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // the client has gone if it fails
}

// lead runs the appliance until the context ends.
func (m *member) lead(ctx context.Context, leadership fleet.Leadership) error {
	// A machine that joins copies the files of the data directory once, so the key must be there.
	if err := ams.CreateKey(m.Config.DataDir); err != nil {
		return err
	}
	opened, err := m.sockets.take()
	if err != nil {
		return err
	}
	running, err := appliance.Lead(ctx, m.Config, m.Logger, m.Version, &fleet.Leading{
		Log: leadership, Credential: m.credential, Opened: opened, Member: m.membership.Peer().Name,
		Directory: m.membership.Directory(), Copies: m.copies, Keys: m.membership.Keys(),
		Tasks: []func(context.Context, *store.DB){
			func(ctx context.Context, db *store.DB) { m.copies.Run(ctx, db, true) },
			func(ctx context.Context, db *store.DB) { m.membership.Compact(ctx, leadership, db) },
			func(ctx context.Context, db *store.DB) { m.resignIfDamaged(ctx, leadership, db) },
			func(ctx context.Context, _ *store.DB) { m.address.Hold(ctx, leadership.Leads) },
		},
		Front: &fleet.Front{Leads: leadership.Leads, Ending: ctx.Done(), Peers: m.peersOf(), Refuse: refuse},
	}, &membership.Leader{Membership: m.membership, Peers: m.peers})
	if err != nil {
		return afterLoss(err)
	}
	if err := m.Leading(running); err != nil {
		return errors.Join(err, running.Close())
	}
	m.checkURL(running.URLs()[0])
	return afterLoss(running.Run(ctx))
}

// checkURL warns if the URL for hosts is one of this machine.
func (m *member) checkURL(used string) {
	plain := m.Config
	plain.URL = nil
	own, err := plain.URLs(m.sockets.main)
	virtual := slices.ContainsFunc(config.Hosts([]string{used}), m.address.Is)
	if err == nil && slices.Contains(own, used) && !virtual {
		m.Logger.Warn("Images contain the URL of this member. Hosts that boot from them do not reach the fleet while "+
			"this machine is down. Use the address of a load balancer or a name in DNS: set url, or use landfall "+
			"settings set --url-for-hosts.", "url", used)
	}
}

// afterLoss returns nil for the error of an appliance whose database must read the log again.
func afterLoss(err error) error {
	if failed, ok := errors.AsType[*store.WriteError](err); errors.Is(err, wal.ErrBroken) || ok && failed.Shared {
		return nil
	}
	return err
}

// restore replaces the data by a snapshot of another member. Until it has one, the member serves as
// a follower without a database: it forwards requests to the leader.
func (m *member) restore(ctx context.Context) error {
	m.membership.Restoring(true)
	defer m.membership.Restoring(false)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	if _, err := m.serveRequests(serving, m.handler(nil, nil), nil); err != nil {
		return err
	}
	for told := ""; ; {
		err := m.takeAnySnapshot(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err.Error() != told {
			told = err.Error()
			m.Logger.ErrorContext(ctx, "The snapshot could not be taken; it is tried again. If no other member has "+
				"the data, landfall check --salvage reads what this one still has, and landfall restore restores a "+
				"backup.",
				"error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.clock.After(snapshotPause):
		}
	}
}

// takeAnySnapshot takes a snapshot of the first member that gives one.
func (m *member) takeAnySnapshot(ctx context.Context) error {
	others, err := m.membership.Others(ctx)
	if err != nil {
		return err
	}
	failures := []error{errors.New("no other member could give a snapshot")}
	for _, other := range others {
		if err := m.takeSnapshot(ctx, other); err != nil {
			failures = append(failures, err)
			continue
		}
		m.Logger.InfoContext(ctx, "A snapshot of another member replaced the database.", "member", other.Name)
		return nil
	}
	return errors.Join(failures...)
}

func (m *member) takeSnapshot(ctx context.Context, of fleet.Peer) (err error) {
	snapshot, err := m.peers.Snapshot(ctx, of)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if err := membership.Replace(ctx, snapshot, m.Config.DataDir, m.damaged.Load()); err != nil {
		return err
	}
	m.replaced.Store(m.damaged.Swap(false) || m.replaced.Load())
	return nil
}
