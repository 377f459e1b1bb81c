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

	"landfall/appliance/egress"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Options configures a manager.
type Options struct {
	DB   *store.DB
	Site Site
	// Secrets encrypts the passwords. If it is nil, passwords are stored in plain text.
	Secrets *sitekey.Box
	// Egress decides which addresses of BMCs may be reached; nil allows all.
	Egress *egress.Rules
	Clock  clockwork.Clock // nil is the real clock
	Logger *slog.Logger    // nil discards the log
}

// Manager manages servers. Its methods are safe for concurrent use; Run is called once.
type Manager struct {
	options Options
	clock   clockwork.Clock
	log     *slog.Logger

	mu      sync.Mutex
	workers map[string]*worker
	// server id -> time of the last response. The times are saved together with other changes.
	contacts map[string]time.Time
	locks    map[string]*bmcLock    // by the URL of the BMC; each BMC has at most one session
	polls    map[string]RequestLog  // the last successful poll
	matchers map[string]hostMatcher // servers that were booted -> matcher of their hosts

	machines machines

	sessions  chan struct{} // limits the concurrent sessions
	scanHosts chan struct{} // requests a scan: a new matcher may match an existing host
}

// New returns a manager. It does nothing until Run is called.
func New(options Options) *Manager {
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return &Manager{
		options: options, clock: options.Clock, log: options.Logger,
		workers: map[string]*worker{}, contacts: map[string]time.Time{}, locks: map[string]*bmcLock{},
		polls: map[string]RequestLog{}, matchers: map[string]hostMatcher{},
		sessions: make(chan struct{}, maxSessions), scanHosts: make(chan struct{}, 1),
	}
}

// NewID returns a new unique id for a server.
func NewID() string { return uuid.NewString() }

// Ensure sets the desired state of the server with this id. It creates the server if it does not
// exist. An id consists of lower-case letters, digits and hyphens, such as a UUID. An unchanged
// desired state has no effect. Invalid requests return *RequestError, *ConflictError or
// *DuplicateError. Later errors of the BMC appear in the Error field of the server.
func (m *Manager) Ensure(ctx context.Context, id string, desired Desired) (*Server, error) {
	return m.updateDesired(ctx, id, true, false, func(Desired) (Desired, error) { return desired, nil })
}

// Change changes the desired state of an existing server except its password, and the password if
// it is not nil. A password that is given is tried at once, also if the BMC rejected it before: the
// account may have been unlocked. A change of the BMC's address or of the verification of its
// certificate removes the password unless it is given, so that it is never sent to a server of
// somebody else's choice.
func (m *Manager) Change(ctx context.Context, id string, password *string,
	modify func(Desired) (Desired, error)) (*Server, error) {
	return m.updateDesired(ctx, id, false, password != nil, func(before Desired) (Desired, error) {
		desired, err := modify(before)
		switch {
		case password != nil && *password == "":
			return desired, &RequestError{"password", fmt.Sprintf("The password for the BMC of %s is missing.",
				desired.Name)}
		case password != nil:
			desired.Password = *password
		case before.otherServer(desired):
			desired.Password = ""
		default:
			desired.Password = before.Password
		}
		return desired, err
	})
}

// otherServer reports whether requests may reach another server than before.
func (d Desired) otherServer(after Desired) bool {
	before, err := ParseAddress(d.Address)
	if err != nil {
		return true
	}
	address, err := ParseAddress(after.Address)
	return err != nil || address.URL != before.URL || after.SkipVerify != d.SkipVerify || after.CA != d.CA
}

// updateDesired changes the desired state of a server. With tryLogin, credentials that the BMC
// rejected are tried again even if nothing changes.
func (m *Manager) updateDesired(ctx context.Context, id string, create, tryLogin bool,
	modify func(Desired) (Desired, error)) (*Server, error) {
	if !idForm.MatchString(id) {
		return nil, &RequestError{"id",
			fmt.Sprintf("%q is not a valid id of a server; an id has lower-case letters, digits and hyphens.", id)}
	}
	var server *Server
	var changed uint64 // the new generation
	err := m.options.DB.Update(ctx, func(tx *store.Tx) error {
		changed = 0
		now := m.now()
		r, err := serverRows.Get(tx, id)
		switch {
		case errors.Is(err, store.ErrNotFound) && create:
			r = &row{Server: Server{ID: id, State: Registering, Created: now, History: []Event{}}}
		case errors.Is(err, store.ErrNotFound):
			return &NotFoundError{id}
		case err != nil:
			return err
		}
		if r.State == Deleting {
			return &ConflictError{fmt.Sprintf("The server %s is being removed; wait until it is removed, and add it "+
				"again.", r.Name)}
		}
		before := r.Desired
		if before.Password, err = m.options.Secrets.Open(before.Password); err != nil {
			before.Password = "" // encrypted with another site's key: the password must be entered again
		}
		desired, err := modify(before)
		if err != nil {
			return err
		}
		if desired, err = desired.checked(create || before.Password == "" && !r.PasswordRemoved); err != nil {
			return err
		}
		server = r.server(now)
		if desired.equal(before) {
			if !tryLogin || r.Rejections == 0 || r.Error == nil {
				return nil
			}
			r.Error.RetryAt = now
			server, changed = r.server(now), r.Generation
			return serverRows.Put(tx, id, r)
		}
		if desired.Name != before.Name {
			if err := renameServer(tx, before.Name, desired.Name, id); err != nil {
				return err
			}
		}
		if desired.machine() != before.machine() {
			if err := m.checkMachine(tx, id, desired); err != nil {
				return err
			}
			m.machines.set(id, desired.machine())
		}
		r.setDesired(desired, before, now)
		if r.Desired.Password, err = m.options.Secrets.Seal(desired.Password); err != nil {
			return err
		}
		server, changed = r.server(now), r.Generation
		return serverRows.Put(tx, id, r)
	})
	if err != nil {
		return nil, err
	}
	if changed != 0 {
		m.interrupt(id, changed)
	}
	return server, nil
}

func (d Desired) equal(other Desired) bool {
	online := (d.Online == nil) == (other.Online == nil) && (d.Online == nil || *d.Online == *other.Online)
	d.Online, other.Online = nil, nil
	return online && d == other
}

// setDesired sets the desired state.
func (r *row) setDesired(desired, before Desired, now time.Time) {
	r.Desired = desired
	r.Generation++
	if r.Error != nil {
		r.Error.RetryAt = now
	}
	if desired.Address != before.Address || desired.Username != before.Username ||
		desired.Password != before.Password ||
		desired.SkipVerify != before.SkipVerify || desired.CA != before.CA {
		r.CredentialsGood, r.Rejections = false, 0
		if desired.Address != before.Address {
			r.System, r.Media, r.Power, r.Restarting = nil, nil, PowerUnknown, false
		}
		if r.System == nil {
			r.State = Registering
		}
		r.Operations.Register = OperationMetric{}
		r.requirePassword(before, now)
	}
}

// requirePassword notes that the password was removed, or that it was entered again.
func (r *row) requirePassword(before Desired, now time.Time) {
	if r.Password != "" {
		r.PasswordRemoved = false
		return
	}
	message := fmt.Sprintf("The password for the BMC of %s was removed, because the address or the verification of "+
		"the certificate changed; enter the password again.", r.Name)
	if !r.PasswordRemoved {
		r.addEvent(now, true, "PasswordRemoved", "%s", message)
	}
	r.PasswordRemoved = true
	r.Error = &ErrorStatus{Type: RegistrationError, Message: message, Count: 1, Since: now}
}

// checkName returns a *ConflictError if another server has the name.
func checkName(tx *store.Tx, name, id string) error {
	owner := ""
	if err := serverNames.Keys(tx, name+"\x00", func(key string) error {
		if _, other, _ := strings.Cut(key, "\x00"); other != id && serverRows.Exists(tx, other) {
			owner = other
		}
		return nil
	}); err != nil {
		return err
	}
	if owner != "" {
		if _, err := serverRows.Get(tx, owner); store.IsDamaged(err) { // lists leave it out
			return &ConflictError{fmt.Sprintf("A server with the name %s already exists, but its stored data is "+
				"damaged; landfall check describes the ways out, or choose another name.", name)}
		}
		return &ConflictError{fmt.Sprintf("A server with the name %s already exists; choose another one.", name)}
	}
	return nil
}

func renameServer(tx *store.Tx, before, name, id string) error {
	if err := checkName(tx, name, id); err != nil {
		return err
	}
	if before != "" {
		if err := serverNames.Remove(tx, before+"\x00"+id); err != nil {
			return err
		}
	}
	return serverNames.Add(tx, name+"\x00"+id)
}

// Server returns the server with this id, or *NotFoundError.
func (m *Manager) Server(id string) (*Server, error) {
	var server *Server
	err := m.options.DB.View(func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return &NotFoundError{id}
		}
		if err != nil {
			return err
		}
		server = m.withLastContact(r.server(m.now()))
		return nil
	})
	return server, err
}

// Find returns the server with this id or name, or *NotFoundError.
func (m *Manager) Find(idOrName string) (*Server, error) {
	id := idOrName
	if err := m.options.DB.View(func(tx *store.Tx) error {
		return serverNames.Keys(tx, idOrName+"\x00", func(key string) error {
			_, named, _ := strings.Cut(key, "\x00")
			if !serverRows.Exists(tx, named) {
				return nil
			}
			id = named
			return store.ErrStop
		})
	}); err != nil {
		return nil, err
	}
	return m.Server(id)
}

// Servers returns all servers, sorted by name. It leaves out a server with a damaged row.
func (m *Manager) Servers() ([]*Server, error) {
	servers := []*Server{}
	err := m.options.DB.View(func(tx *store.Tx) error {
		return serverNames.Keys(tx, "", func(key string) error {
			_, id, _ := strings.Cut(key, "\x00")
			r, err := serverRows.Get(tx, id)
			if errors.Is(err, store.ErrNotFound) {
				return nil // a repair removed the damaged row
			}
			if err != nil {
				return store.SkipDamaged(err)
			}
			servers = append(servers, m.withLastContact(r.server(m.now())))
			return nil
		})
	})
	return servers, err
}

func (m *Manager) withLastContact(server *Server) *Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.contacts[server.ID]; at.After(server.LastSeen) {
		server.LastSeen = at
	}
	return server
}

// Remove removes a server. It ejects an image that the manager inserted. If powerOff is set and the
// server is not detached, it powers the server off. If the BMC does not respond, the server is
// removed after a few attempts. Removing an unknown server is not an error.
func (m *Manager) Remove(ctx context.Context, id string, powerOff bool) error {
	var changed uint64 // the new generation
	err := m.options.DB.Update(ctx, func(tx *store.Tx) error {
		changed = 0
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
		r.State, r.PowerOff, r.Pending, r.Error = Deleting, powerOff, nil, nil
		r.Generation++
		changed = r.Generation
		return serverRows.Put(tx, id, r)
	})
	if err == nil && changed != 0 {
		m.interrupt(id, changed)
	}
	return err
}

// Observe calls changed with the id of each existing server, then with the id of each changed or
// deleted server. It makes one call at a time, until the context ends. The callback reads the state
// with Server.
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
			return fmt.Errorf("watch servers: %w", err)
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
