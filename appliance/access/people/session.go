package people

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/google/uuid"

	"landfall/appliance/access"
	"landfall/appliance/fault"
	"landfall/store"
)

const (
	// saveInterval is the interval in which Run stores the last uses of sessions.
	saveInterval = 5 * time.Minute
	// saveTimeout limits the last save, when Run ends.
	saveTimeout = 5 * time.Second
	// sessionsOfAccount is the maximum number of sessions of one account. A further one ends the
	// session that was not used for the longest time.
	sessionsOfAccount = 64
	longestUserAgent  = 256 // bytes
	secretBytes       = 32
)

// digest is the SHA-256 of a session's secret.
type digest [sha256.Size]byte

// Client describes from where a person logs in.
type Client struct {
	Address   string
	UserAgent string
}

// Session describes a session, without its secret.
type Session struct {
	ID        string
	Account   string // its name
	Address   string // from which the person logged in
	UserAgent string
	StartedAt time.Time
	LastUse   time.Time // with a precision of a second
	EndsAt    time.Time // if the session is not used again
}

// sessionRow is the row of a session. Its times are counts of the uptime, because the wall clock
// may be set at any time.
type sessionRow struct {
	Account   string        `json:"account"`
	Digest    []byte        `json:"sha256"`
	Address   string        `json:"address,omitempty"`
	UserAgent string        `json:"user_agent,omitempty"`
	StartedAt time.Time     `json:"started_at"` // by the wall clock, for people only
	Started   time.Duration `json:"started"`
	Used      time.Duration `json:"used"`
}

var sessionRows = store.NewBucket[sessionRow]("sessions", 1) // <id>

type session struct {
	sessionRow // Used is the stored value; it is guarded by People.changes
	id         string
	identity   access.Identity // is not changed: a change of the account ends the session
	used       atomic.Int64    // the last use, in the unit of Used
	stored     bool            // guarded by People.changes
}

func newSession(id string, row sessionRow, holder Account) *session {
	s := &session{sessionRow: row, id: id, stored: true, identity: access.Identity{
		Kind: access.Person, Name: holder.Name, Role: holder.Role, Scope: holder.Scope, Session: id,
	}}
	s.used.Store(int64(row.Used))
	return s
}

// left returns the time until the session ends if it is not used again.
func (p *People) left(s *session, now time.Duration) time.Duration {
	return min(p.options.Idle-(now-time.Duration(s.used.Load())), p.options.Total-(now-s.Started))
}

// remember adds a session. The caller holds mu, except in New.
func (p *People) remember(s *session) {
	p.sessions[digest(s.Digest)], p.ids[s.id] = s, s
}

// forget removes sessions. The caller holds mu.
func (p *People) forget(ending []*session) {
	for _, s := range ending {
		delete(p.sessions, digest(s.Digest))
		delete(p.ids, s.id)
	}
}

func deleteSessions(tx *store.Tx, ending []*session) error {
	for _, s := range ending {
		if err := sessionRows.Delete(tx, s.id); err != nil {
			return err
		}
	}
	return nil
}

// sessionsOf returns the sessions of an account, or all sessions for "".
func (p *People) sessionsOf(name string) []*session {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var found []*session
	for _, s := range p.ids {
		if name == "" || s.Account == name {
			found = append(found, s)
		}
	}
	return found
}

// StartSession starts a session of an account that LogIn or LogInExternal returned. The error is
// ErrCredentials if the account was disabled, deleted or changed since then.
//
// A full disk does not prevent the session: it is then stored later.
func (p *People) StartSession(ctx context.Context, holder Account, from Client) (secret string, _ Session, _ error) {
	secret = base64.RawURLEncoding.EncodeToString(random(secretBytes))
	sum := digestOf(secret)
	p.changes.Lock()
	defer p.changes.Unlock()
	held, err := p.find(holder.Name)
	if err != nil || held.ID != holder.ID || held.Generation != holder.Generation || held.Disabled {
		return "", Session{}, ErrCredentials
	}
	now, wall := p.elapsed.Now(), p.options.Clock.Now().UTC()
	started := newSession(uuid.NewString(), sessionRow{
		Account: held.Name, Digest: sum[:], Address: from.Address, UserAgent: printable(from.UserAgent),
		StartedAt: wall, Started: now, Used: now,
	}, held.Account)
	changed := *held
	changed.LastLogin = wall
	ending := p.excess(held.Name, now)
	err = p.options.DB.Update(ctx, func(tx *store.Tx) error {
		if err := deleteSessions(tx, ending); err != nil {
			return err
		}
		if err := accountRows.Put(tx, changed.Name, &changed); err != nil {
			return err
		}
		if err := sessionRows.Put(tx, started.id, &started.sessionRow); err != nil {
			return err
		}
		return p.elapsed.Save(tx)
	})
	_, failed := errors.AsType[*store.WriteError](err)
	kind := fault.KindOf(err) // of the audit trail, whose record of another change is saved together
	if failed || kind == fault.Unavailable || kind == fault.NoSpace {
		p.options.Logger.Warn("A session could not be stored. It ends when the appliance stops.",
			"account", held.Name, "error", err)
		started.stored = false
	} else if err != nil {
		return "", Session{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accounts[changed.Name] = &changed
	p.forget(ending)
	if !started.stored {
		for _, s := range ending {
			p.ended[s.id] = true
		}
	}
	p.remember(started)
	return secret, p.describe(started, now), nil
}

// excess returns the sessions of an account that must end before it gets another one.
func (p *People) excess(name string, now time.Duration) []*session {
	var ending, open []*session
	for _, s := range p.sessionsOf(name) {
		if p.left(s, now) <= 0 {
			ending = append(ending, s)
		} else {
			open = append(open, s)
		}
	}
	if len(open) >= sessionsOfAccount {
		slices.SortFunc(open, func(a, b *session) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
		ending = append(ending, open[:len(open)-sessionsOfAccount+1]...)
	}
	return ending
}

// printable returns a text that a client chose, for logs and lists.
func printable(text string) string {
	text = strings.Map(func(char rune) rune {
		if !unicode.IsPrint(char) || char == unicode.ReplacementChar {
			return -1
		}
		return char
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), longestUserAgent)], "")
}

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

// Session returns the identity of a person by the secret of a session. ok is false if there is no
// such session, or if it has ended. With isUse, the session's time without a use begins again. It
// reads no row.
func (p *People) Session(secret string, isUse bool) (identity access.Identity, ok bool) {
	sum := digestOf(secret)
	p.mu.RLock()
	s, ok := p.sessions[sum]
	p.mu.RUnlock()
	if !ok {
		return access.Identity{}, false
	}
	now := p.elapsed.Now()
	if p.left(s, now) <= 0 {
		return access.Identity{}, false
	}
	if isUse {
		s.used.Store(int64(now))
	}
	return s.identity, true
}

// Sessions returns the sessions of an account, or all sessions for "". The session that was used
// last comes first.
func (p *People) Sessions(name string) []Session {
	if name != "" {
		held, err := p.find(name)
		if err != nil {
			return nil
		}
		name = held.Name
	}
	now := p.elapsed.Now()
	all := []Session{}
	for _, s := range p.sessionsOf(name) {
		if p.left(s, now) > 0 {
			all = append(all, p.describe(s, now))
		}
	}
	slices.SortFunc(all, func(a, b Session) int {
		return cmp.Or(b.LastUse.Compare(a.LastUse), cmp.Compare(a.ID, b.ID))
	})
	return all
}

func (p *People) describe(s *session, now time.Duration) Session {
	wall := p.options.Clock.Now().UTC()
	return Session{ID: s.id, Account: s.Account, Address: s.Address, UserAgent: s.UserAgent, StartedAt: s.StartedAt,
		LastUse: wall.Add(time.Duration(s.used.Load()) - now).Round(time.Second),
		EndsAt:  wall.Add(p.left(s, now)).Round(time.Second)}
}

// EndSession ends a session by its ID.
func (p *People) EndSession(ctx context.Context, id string) error {
	p.changes.Lock()
	defer p.changes.Unlock()
	p.mu.RLock()
	s, ok := p.ids[id]
	p.mu.RUnlock()
	if !ok {
		return fault.New(fault.NotFound, "there is no session %q; it may have ended", id)
	}
	return p.end(ctx, []*session{s})
}

// end ends sessions. They end even if the store cannot be written. The caller holds changes.
func (p *People) end(ctx context.Context, ending []*session) error {
	p.drop(ending)
	if err := p.writeSessions(ctx); err != nil {
		return fmt.Errorf("the session has ended, but the disk does not hold this yet: %w", err)
	}
	return nil
}

// drop removes sessions from memory. writeSessions removes their rows. The caller holds changes.
func (p *People) drop(ending []*session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(ending)
	for _, s := range ending {
		p.ended[s.id] = true
	}
}

// writeSessions writes what memory knows about sessions and the store does not: last uses, sessions
// that could not be stored, and ended ones. It ends expired sessions. The caller holds changes.
func (p *People) writeSessions(ctx context.Context) error {
	now := p.elapsed.Now()
	var expired, unsaved []*session
	for _, s := range p.sessionsOf("") {
		switch {
		case p.left(s, now) <= 0:
			expired = append(expired, s)
		case !s.stored || time.Duration(s.used.Load()) != s.Used:
			unsaved = append(unsaved, s)
		}
	}
	p.drop(expired)
	if len(p.ids)+len(p.ended) == 0 {
		return nil
	}
	uses := make([]time.Duration, len(unsaved))
	err := p.options.DB.Update(ctx, func(tx *store.Tx) error {
		for i, s := range unsaved {
			row := s.sessionRow
			row.Used = time.Duration(s.used.Load())
			uses[i] = row.Used
			if err := sessionRows.Put(tx, s.id, &row); err != nil {
				return err
			}
		}
		for id := range p.ended {
			if err := sessionRows.Delete(tx, id); err != nil {
				return err
			}
		}
		return p.elapsed.Save(tx)
	})
	if err != nil {
		return err
	}
	for i, s := range unsaved {
		s.stored, s.Used = true, uses[i]
	}
	clear(p.ended)
	return nil
}

// Run stores the last uses of sessions from time to time, and removes sessions that have ended. It
// returns when ctx ends.
func (p *People) Run(ctx context.Context) error {
	ticker := p.options.Clock.NewTicker(saveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.Chan():
			p.saveUses(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
			defer cancel()
			p.saveUses(last)
			return nil
		}
	}
}

func (p *People) saveUses(ctx context.Context) {
	p.changes.Lock()
	defer p.changes.Unlock()
	if err := p.writeSessions(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
		p.options.Logger.Warn("The last uses of sessions could not be stored. The appliance tries again.", "error", err)
	}
}
