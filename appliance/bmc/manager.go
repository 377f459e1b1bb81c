package bmc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/sitekey"
	"landfall/store"
)

// Options are what a manager works with.
type Options struct {
	DB   *store.DB
	Site Site
	// Secrets seals the passwords; nil keeps them as they are.
	Secrets *sitekey.Box
	Clock   clockwork.Clock // nil is the real one
	Logger  *slog.Logger    // nil discards
}

// Manager has the servers. Its methods may be called by many goroutines at once, Run once.
type Manager struct {
	options Options
	clock   clockwork.Clock
	log     *slog.Logger

	mu       sync.Mutex
	workers  map[string]*worker
	seen     map[string]time.Time    // when a BMC answered last; written with what else changes
	gates    map[string]*gate        // by the BMC's URL: one conversation at a time
	polls    map[string]Conversation // the last poll that went well
	expected map[string]expectation  // servers that were booted -> by what their hosts are known

	talking  chan struct{} // as many as may talk at the same time
	lookAnew chan struct{} // a server is waited for: its host may be there already
}

// New returns a manager that does nothing before Run.
func New(options Options) *Manager {
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return &Manager{
		options: options, clock: options.Clock, log: options.Logger,
		workers: map[string]*worker{}, seen: map[string]time.Time{}, gates: map[string]*gate{},
		polls: map[string]Conversation{}, expected: map[string]expectation{},
		talking: make(chan struct{}, talkers), lookAnew: make(chan struct{}, 1),
	}
}

// NewID returns an id for a server that nobody else names.
func NewID() string { return uuid.NewString() }

// Ensure makes what is wanted of the server of that id so, and creates it if there is none; ids are
// lower-case letters, digits and hyphens, such as a UUID. To ask for the same again changes
// nothing. What is wrong with it comes as *RequestError or *ConflictError; what goes wrong with the
// BMC later is in the server's Error.
func (m *Manager) Ensure(ctx context.Context, id string, desired Desired) (*Server, error) {
	return m.desire(ctx, id, true, func(Desired) (Desired, error) { return desired, nil })
}

// Change alters what is wanted of a server that there is. The password that alter is given is the
// present one, in the clear.
func (m *Manager) Change(ctx context.Context, id string, alter func(Desired) (Desired, error)) (*Server, error) {
	return m.desire(ctx, id, false, alter)
}

func (m *Manager) desire(ctx context.Context, id string, create bool, alter func(Desired) (Desired,
	error)) (*Server, error) {
	if !idForm.MatchString(id) {
		return nil, &RequestError{"id",
			fmt.Sprintf("%q is no id of a server; ids are lower-case letters, digits and hyphens.", id)}
	}
	var shown *Server
	changed := false
	err := m.options.DB.Update(ctx, func(tx *store.Tx) error {
		changed = false
		now := m.now()
		r, err := serverRows.Get(tx, id)
		switch {
		case errors.Is(err, store.ErrNotFound) && create:
			r = &row{Server: Server{ID: id, State: Registering, Created: now, History: []Note{}}}
		case errors.Is(err, store.ErrNotFound):
			return &NotFoundError{id}
		case err != nil:
			return err
		}
		if r.State == Deleting {
			return &ConflictError{fmt.Sprintf("The server %s is being removed; wait until it is gone, and add it "+
				"again.", r.Name)}
		}
		before := r.Desired
		if before.Password, err = m.options.Secrets.Open(before.Password); err != nil {
			before.Password = "" // of another site's key: it must be given anew
		}
		wanted, err := alter(before)
		if err != nil {
			return err
		}
		if wanted, err = wanted.checked(); err != nil {
			return err
		}
		shown = r.shown()
		if wanted.equal(before) {
			return nil
		}
		if wanted.Name != before.Name {
			if err := renameServer(tx, before.Name, wanted.Name, id); err != nil {
				return err
			}
		}
		r.accept(wanted, before, now)
		if r.Desired.Password, err = m.options.Secrets.Seal(wanted.Password); err != nil {
			return err
		}
		shown, changed = r.shown(), true
		return serverRows.Put(tx, id, r)
	})
	if err != nil {
		return nil, err
	}
	if changed {
		m.interrupt(id)
	}
	return shown, nil
}

func (d Desired) equal(other Desired) bool {
	online := (d.Online == nil) == (other.Online == nil) && (d.Online == nil || *d.Online == *other.Online)
	d.Online, other.Online = nil, nil
	return online && d == other
}

// accept takes up what is wanted now.
func (r *row) accept(wanted, before Desired, now time.Time) {
	r.Desired = wanted
	r.Wish++
	if r.Error != nil {
		r.Error.RetryAt = now
	}
	if wanted.Address != before.Address || wanted.Username != before.Username || wanted.Password != before.Password ||
		wanted.SkipVerify != before.SkipVerify || wanted.CA != before.CA {
		r.CredentialsGood = false
		if wanted.Address != before.Address {
			r.System, r.Media, r.Power = nil, nil, PowerUnknown
		}
		if r.System == nil {
			r.State = Registering
		}
		r.Operations.Register = Span{}
	}
}

func renameServer(tx *store.Tx, before, name, id string) error {
	taken := ""
	if err := serverNames.Keys(tx, name+"\x00", func(key string) error {
		if _, other, _ := strings.Cut(key, "\x00"); other != id {
			taken = other
		}
		return nil
	}); err != nil {
		return err
	}
	if taken != "" {
		return &ConflictError{fmt.Sprintf("There is a server with the name %s already; choose another one.", name)}
	}
	if before != "" {
		if err := serverNames.Remove(tx, before+"\x00"+id); err != nil {
			return err
		}
	}
	return serverNames.Add(tx, name+"\x00"+id)
}

// Server returns a server by its id. *NotFoundError if there is none.
func (m *Manager) Server(id string) (*Server, error) {
	var shown *Server
	err := m.options.DB.View(func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return &NotFoundError{id}
		}
		if err != nil {
			return err
		}
		shown = m.withSeen(r.shown())
		return nil
	})
	return shown, err
}

// Find returns a server by its id or its name. *NotFoundError if there is none.
func (m *Manager) Find(idOrName string) (*Server, error) {
	id := idOrName
	if err := m.options.DB.View(func(tx *store.Tx) error {
		return serverNames.Keys(tx, idOrName+"\x00", func(key string) error {
			_, id, _ = strings.Cut(key, "\x00")
			return store.ErrStop
		})
	}); err != nil {
		return nil, err
	}
	return m.Server(id)
}

// Servers returns all servers by their names.
func (m *Manager) Servers() ([]*Server, error) {
	servers := []*Server{}
	err := m.options.DB.View(func(tx *store.Tx) error {
		return serverNames.Keys(tx, "", func(key string) error {
			_, id, _ := strings.Cut(key, "\x00")
			r, err := serverRows.Get(tx, id)
			if err != nil {
				return err
			}
			servers = append(servers, m.withSeen(r.shown()))
			return nil
		})
	})
	return servers, err
}

func (m *Manager) withSeen(server *Server) *Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.seen[server.ID]; at.After(server.LastSeen) {
		server.LastSeen = at
	}
	return server
}

// Forget removes a server: what was booted from us is ejected, and it is powered off if that is
// asked for and it is not detached; then the server is gone. One whose BMC does not let itself be
// spoken to is let go after a few attempts. To forget a server that there is none of is no error.
func (m *Manager) Forget(ctx context.Context, id string, powerOff bool) error {
	changed := false
	err := m.options.DB.Update(ctx, func(tx *store.Tx) error {
		changed = false
		r, err := serverRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.State == Deleting && r.PowerOff == powerOff {
			return nil
		}
		changed = true
		r.State, r.PowerOff, r.Pending, r.Error = Deleting, powerOff, nil, nil
		r.Wish++
		return serverRows.Put(tx, id, r)
	})
	if err == nil && changed {
		m.interrupt(id)
	}
	return err
}

// Observe calls changed with the id of each server there is, and then of each that changed or went,
// one at a time, until the context ends. Whoever is told reads what is with Server.
func (m *Manager) Observe(ctx context.Context, changed func(id string)) error {
	for {
		from := m.options.DB.Revision()
		if err := m.eachID(changed); err != nil {
			return err
		}
		watcher := m.options.DB.Watch(ctx, from, serverRows.Prefix())
		for changes := range watcher.C() {
			for _, change := range changes {
				changed(strings.TrimPrefix(change.Key, serverRows.Prefix()))
			}
		}
		if err := watcher.Err(); ctx.Err() != nil || !errors.Is(err, store.ErrCompacted) {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("follow the BMCs' changes: %w", err)
		}
	}
}

func (m *Manager) eachID(fn func(id string)) error {
	var ids []string
	if err := m.options.DB.View(func(tx *store.Tx) error {
		return serverRows.Keys(tx, "", func(id string) error {
			ids = append(ids, id)
			return nil
		})
	}); err != nil {
		return err
	}
	for _, id := range ids {
		fn(id)
	}
	return nil
}

func (m *Manager) now() time.Time { return m.clock.Now().UTC().Round(0) }
