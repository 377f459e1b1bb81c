package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"landfall/appliance/discovery"
	"landfall/appliance/fault"
	"landfall/appliance/fleet/keyfile"
	"landfall/appliance/osimage"
	"landfall/appliance/registry/overlay"
	"landfall/store"
	"landfall/store/wal"
)

// Leading is what an appliance gets that leads a fleet. nil is a single machine.
type Leading struct {
	Log        wal.SharedLog
	Credential *Credential
	Front      *Front
	Opened     []net.Listener // the listeners of the configuration
	Member     string         // name of this member
	URL        string         // of this member, for the others
	Directory  string         // ID of its data directory
	Copies     *Copies
	Keys       keyfile.Directory
	// Collectors collect the metrics of the fleet.
	Collectors []prometheus.Collector
	// MissingBlobs is called with the number of blobs of pushed images that this member lacks.
	MissingBlobs func(int)
	// Reads returns which machines read images of the other members: an answer of [Client.Reads]
	// for each.
	Reads func(context.Context) [][]byte
	// Tasks run with the database as long as this member leads.
	Tasks []func(ctx context.Context, db *store.DB)
}

// ErrDataKey is the error of a change of the data key: the other members would not have the new
// one.
var ErrDataKey = fault.New(fault.Conflict, "the data key can't be changed while this machine is a member of a fleet, "+
	"because the other members would not have the new one; end the fleet with landfall fleet end first")

// leaders has one row: the member that leads, or led last.
var leaders = store.NewBucket[leaderRow]("fleet", 1)

const leaderKey = "leader"

type leaderRow struct {
	Member string `json:"member"`
	// Networks have the URLs of the leader for hosts. A follower that makes an image uses the same
	// ones, so that the image is the same.
	Networks discovery.Networks `json:"networks,omitempty"`
}

// LeaderKey returns the key of the row that [Networks] reads.
func LeaderKey() string { return leaders.Prefix() + leaderKey }

// Networks returns the networks of the member that leads, or led last. They are nil if a program
// leads that does not write them.
func Networks(db *store.DB) (networks discovery.Networks, err error) {
	err = db.View(func(tx *store.Tx) error {
		row, err := leaders.Get(tx, leaderKey)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			networks = row.Networks
		}
		return err
	})
	return networks, err
}

// OwnURL returns the URL of this member for the others, or "" on a single machine.
func (l *Leading) OwnURL() string {
	if l == nil {
		return ""
	}
	return l.URL
}

// SharedLog returns the log of the fleet, or nil.
func (l *Leading) SharedLog() wal.SharedLog {
	if l == nil {
		return nil
	}
	return l.Log
}

// Elsewhere returns the contents of other members, or nil.
func (l *Leading) Elsewhere() store.Elsewhere {
	if l == nil {
		return nil
	}
	return l.Copies
}

// Metrics returns the collectors of the fleet's metrics, or nil on a single machine.
func (l *Leading) Metrics() []prometheus.Collector {
	if l == nil {
		return nil
	}
	return l.Collectors
}

// KeepKeys returns a function that gives the key files of the leader to the other members before
// they are used.
func (l *Leading) KeepKeys(db *store.DB) func(context.Context) error {
	return func(ctx context.Context) error {
		if l == nil {
			return nil
		}
		return l.Keys.Store(ctx, db)
	}
}

// LiveISOs returns what the live ISOs of the members have in common, or nil on a single machine.
func (l *Leading) LiveISOs(db *store.DB) *osimage.Shared {
	if l == nil {
		return nil
	}
	return &osimage.Shared{DB: db, Fleet: l.Keys.Fleet, Fetch: l.Copies.Image}
}

// PushedImages returns what the registries of the members have in common, or nil on a single
// machine.
func (l *Leading) PushedImages() *overlay.Shared {
	if l == nil {
		return nil
	}
	return &overlay.Shared{Fetch: l.Copies.Blob, Send: l.Copies.ShareBlob, Leads: true,
		Missing: l.MissingBlobs}
}

// OtherReads returns the function that returns the reads of images at the other members, or nil on
// a single machine.
func (l *Leading) OtherReads() func(context.Context) [][]byte {
	if l == nil {
		return nil
	}
	return l.Reads
}

// Trail returns the name of the audit trail of this member, or of a single machine with a data
// directory.
func (l *Leading) Trail(dir string) string {
	if l == nil {
		return SingleTrail(dir)
	}
	return TrailName(l.Member, l.Directory)
}

// Name returns the name of this member, or "" on a single machine.
func (l *Leading) Name() string {
	if l == nil {
		return ""
	}
	return l.Member
}

// Listeners returns the open listeners that the appliance takes: those of the member, or those of
// the service manager.
func (l *Leading) Listeners(ofService func() ([]net.Listener, error)) ([]net.Listener, error) {
	if l == nil {
		return ofService()
	}
	return l.Opened, nil
}

// Accept returns the configuration of a TLS listener that also accepts other members.
func (l *Leading) Accept(clients *tls.Config) *tls.Config {
	if l == nil {
		return clients
	}
	return l.Credential.Listener(clients)
}

// Before returns what precedes the handler of the main listener, or nil; see [Front.Wrap].
func (l *Leading) Before(others func(Listener) http.Handler, snapshots Snapshots, db *store.DB,
	hosts Contacts, remember func(netip.Addr)) func(http.Handler) http.Handler {
	if l == nil {
		return nil
	}
	current := func(at Listener) http.Handler {
		handler := others(at)
		if handler == nil {
			return nil
		}
		return Current(db, l.Front.Refuse, handler)
	}
	return func(main http.Handler) http.Handler {
		return l.Front.Wrap(Current(db, l.Front.Refuse, main), current, snapshots, db, hosts, remember)
	}
}

// Guard returns what precedes the handler of another listener, or nil on a single machine.
func (l *Leading) Guard(db *store.DB) func(http.Handler) http.Handler {
	if l == nil {
		return nil
	}
	return func(handler http.Handler) http.Handler { return l.Front.Guard(Current(db, l.Front.Refuse, handler)) }
}

// Count returns what counts the requests to the handler of a listener that needs no guard, or nil
// on a single machine.
func (l *Leading) Count() func(http.Handler) http.Handler {
	if l == nil {
		return nil
	}
	return l.Front.Count
}

// Stamp returns what puts the revision of a database into answers, or nil on a single machine.
func (l *Leading) Stamp(db *store.DB) func(http.Header) {
	if l == nil {
		return nil
	}
	return Stamp(db)
}

// Watch notes in the database that this member leads, and with which URLs for hosts. Watch ends
// with an error when the database can't be used any longer: the member must read the log again.
func (l *Leading) Watch(ctx context.Context, db *store.DB, networks discovery.Networks) error {
	if l == nil {
		return nil
	}
	if err := db.Update(ctx, func(tx *store.Tx) error {
		return leaders.Put(tx, leaderKey, &leaderRow{l.Member, networks})
	}); err != nil {
		return err
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	leading, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, run := range l.Tasks {
		tasks.Go(func() { run(leading, db) })
	}
	select {
	case <-ctx.Done():
		return nil
	case <-db.Broken():
		return wal.ErrBroken
	}
}
