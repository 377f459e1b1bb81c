package fleet_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/sitekey"
	"landfall/store/wal"
)

func newKey(t testing.TB) *sitekey.Key {
	t.Helper()
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	return key
}

func credential(t testing.TB, key *sitekey.Key, name string) *fleet.Credential {
	t.Helper()
	made, err := fleet.NewCredential(key, name)
	require.NoError(t, err)
	return made
}

func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	status := http.StatusInternalServerError
	switch fault.KindOf(err) {
	case fault.Unavailable:
		status = http.StatusServiceUnavailable
	case fault.NotFound:
		status = http.StatusNotFound
	}
	http.Error(w, err.Error(), status)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// selfSigned returns a certificate that no authority has signed.
func selfSigned(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serve serves a handler for clients and members.
func serve(t testing.TB, of *fleet.Credential, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = of.Listener(&tls.Config{Certificates: []tls.Certificate{selfSigned(t, "server")},
		ClientAuth: tls.RequestClientCert})
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// fleetLog is a log and an election in memory.
type fleetLog struct {
	mu        sync.Mutex
	records   []wal.Record
	compacted uint64
	leading   *leadership
	waiting   []*leadership // candidates, the first one first
	changed   chan struct{}
	down      bool
}

func newLog() *fleetLog { return &fleetLog{changed: make(chan struct{})} }

// change changes the log and wakes everybody.
func (l *fleetLog) change(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *fleetLog) append(operations ...string) {
	l.change(func() {
		for _, text := range operations {
			l.records = append(l.records, wal.Record{Number: uint64(len(l.records) + 1), Operations: []byte(text)})
		}
	})
}

// as returns the log as a member sees it.
func (l *fleetLog) as(peer fleet.Peer) fleet.Log { return memberLog{l, peer} }

type memberLog struct {
	*fleetLog
	peer fleet.Peer
}

var errDown = errors.New("etcd can't be reached")

func (l memberLog) Follow(ctx context.Context, db fleet.Copy, applied func()) error {
	for {
		l.mu.Lock()
		from, changed, compacted, down := db.Sequence(), l.changed, l.compacted, l.down
		var records []wal.Record
		if from < uint64(len(l.records)) && from >= compacted {
			records = l.records[from:]
		}
		l.mu.Unlock()
		switch {
		case down:
			return errDown
		case from < compacted:
			return &fleet.BehindError{Err: errors.New("compacted")}
		}
		if len(records) > 0 {
			if err := db.Apply(ctx, records); err != nil {
				return err
			}
			applied()
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (l memberLog) Head(context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return 0, errDown
	}
	return uint64(len(l.records)), nil
}

func (l memberLog) Campaign(ctx context.Context) (fleet.Leadership, error) {
	own := &leadership{log: l.fleetLog, peer: l.peer, done: make(chan struct{})}
	l.change(func() { l.waiting = append(l.waiting, own) })
	for {
		l.mu.Lock()
		changed, first, free := l.changed, l.waiting[0] == own, l.leading == nil && !l.down
		l.mu.Unlock()
		won := false
		if first && free {
			l.change(func() {
				if won = l.leading == nil && !l.down; won {
					l.leading, l.waiting, own.head = own, l.waiting[1:], uint64(len(l.records))
				}
			})
		}
		if won {
			return own, nil
		}
		select {
		case <-ctx.Done():
			l.change(func() {
				l.waiting = slices.DeleteFunc(l.waiting, func(one *leadership) bool { return one == own })
			})
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

func (l memberLog) Leaders(ctx context.Context, changed func(fleet.Peer)) error {
	for {
		l.mu.Lock()
		next, present := l.changed, fleet.Peer{}
		if l.leading != nil {
			present = l.leading.peer
		}
		l.mu.Unlock()
		changed(present)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}

// leadership implements fleet.Leadership.
type leadership struct {
	log  *fleetLog
	peer fleet.Peer
	head uint64
	done chan struct{}
	once sync.Once
}

func (l *leadership) Append(_ context.Context, number uint64, operations []byte) error {
	var err error
	l.log.change(func() {
		if l.log.leading != l || number != uint64(len(l.log.records)+1) {
			err = errors.New("refused")
			return
		}
		l.log.records = append(l.log.records, wal.Record{Number: number, Operations: operations})
	})
	return err
}

func (l *leadership) Head() uint64          { return l.head }
func (l *leadership) Done() <-chan struct{} { return l.done }

func (l *leadership) Leads() bool {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	return l.log.leading == l
}

func (l *leadership) Remaining() time.Duration {
	if l.Leads() {
		return time.Hour
	}
	return 0
}

func (l *leadership) Resign(context.Context) error {
	l.log.end(l)
	return nil
}

// end ends a leadership.
func (l *fleetLog) end(one *leadership) {
	l.change(func() {
		if l.leading == one {
			l.leading = nil
		}
		one.once.Do(func() { close(one.done) })
	})
}

// await waits until the log has a state.
func (l *fleetLog) await(t *testing.T, reached func() bool) {
	t.Helper()
	for {
		l.mu.Lock()
		done, changed := reached(), l.changed
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("the state was not reached")
		}
	}
}

// replace ends the leadership of a member as soon as another one waits.
func (l *fleetLog) replace(t *testing.T, leader string) {
	t.Helper()
	l.await(t, func() bool { return l.leading != nil && l.leading.peer.Name == leader && len(l.waiting) > 0 })
	l.mu.Lock()
	leading := l.leading
	l.mu.Unlock()
	l.end(leading)
}
