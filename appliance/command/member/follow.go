package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall/appliance/audittrail"
	"landfall/appliance/backup"
	"landfall/appliance/fleet"
	"landfall/appliance/journal"
	"landfall/appliance/osimage"
	"landfall/appliance/registry/overlay"
	"landfall/store"
	"landfall/web/follower"
	"landfall/web/kube"
)

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
	reader, err := follower.Open(ctx, follower.Options{Config: m.Config, DB: db, Key: m.key, Names: m.names(),
		Port: m.sockets.bootPort(), Leader: m.forwarder, Contacts: m.contacts, Version: m.Version,
		Fleet: m.service(), Trail: m.trail(db), Clock: m.clock, Logger: m.Logger,
		LiveISOs: &osimage.Shared{DB: db, Fleet: m.membership.Keys().Fleet, Fetch: fleet.Paced(m.copies.Image),
			Follows: true}, MissingLiveISOs: m.membership.NoteMissingLiveISOs,
		PushedImages: &overlay.Shared{Fetch: fleet.Paced(m.copies.Blob), Missing: m.membership.NoteMissingBlobs},
		Observed:     m.observed(), Refuse: refuse})
	if err != nil {
		return err
	}
	ended, err := m.serveRequests(ctx, m.handler(source, db, reader), reader.Handler)
	if err != nil {
		return errors.Join(err, reader.Close())
	}
	m.background.Go(func() {
		<-ended // requests read the live ISOs and the registry
		if err := reader.Close(); err != nil {
			m.Logger.Warn("A live ISO or a medium of the registry could not be closed.", "error", err)
		}
	})
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return reader.Run(running) })
	group.Go(func() error {
		m.copies.Run(running, db, false)
		return nil
	})
	group.Go(func() error {
		m.copies.Trim(running, db)
		return nil
	})
	group.Go(func() error { return m.membership.Keys().Follow(running, db, m.Logger) })
	return group.Wait()
}

// serveRequests starts the servers of a follower. peers handles the requests of other members, and
// reads those that the copy of the database may answer; see fleet.Behind. ended is closed when all
// servers have ended.
func (m *member) serveRequests(ctx context.Context, peers http.Handler,
	reads func(fleet.Listener, http.Handler) http.Handler) (ended <-chan struct{}, err error) {
	servers, err := m.sockets.serve(ctx, m, &fleet.Behind{Forwarder: m.forwarder, Peers: peers, Own: m.own,
		Copy: reads, Remember: m.sockets.inbound.Remember})
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

// handler returns the handler of the requests of other members. takeBlob may be nil.
func (m *member) handler(snapshots fleet.Snapshots, contents fleet.Contents, reader *follower.Reader) http.Handler {
	peers := m.peersOf()
	peers.Snapshots, peers.Contents = snapshots, contents
	if reader != nil {
		peers.TakeBlob = reader.TakeBlob()
		peers.Reads = func() (any, error) { return reader.ImageReads() }
	}
	return &peers
}

func (m *member) imagesDir() string { return filepath.Join(m.Config.DataDir, "os-images") }

func (m *member) peersOf() fleet.Peers {
	return fleet.Peers{Condition: m.condition, Kept: m.copies.Kept, Leave: m.membership.LeaveHere,
		Trail:  m.trail(nil),
		Image:  func(id string) (*os.File, error) { return osimage.OpenFile(m.imagesDir(), id) },
		Blob:   func(sum string) (*os.File, error) { return overlay.OpenBlob(m.Config.RegistryDir(), sum) },
		Refuse: refuse, Logger: m.Logger}
}

// trail returns the audit trail of this member, from its files. db may be nil.
func (m *member) trail(db *store.DB) audittrail.Reader {
	return audittrail.Reader{Dir: filepath.Join(m.Config.DataDir, audittrail.DirName), Key: m.key, Clock: m.clock,
		DB: db, Member: fleet.TrailName(m.membership.Peer().Name, m.membership.Directory())}
}

// condition returns the condition of this member for others. missing are the contents that it
// lacks.
func (m *member) condition(missing []string) fleet.Condition {
	condition := m.membership.Condition(missing)
	condition.Leads = m.leads()
	return condition
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
