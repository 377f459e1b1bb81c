// Package tokens holds the tokens with which programs identify themselves.
//
// The text of a token is shown once. The store holds its SHA-256. Memory holds all tokens too, so
// that finding the token of a request reads no row. This process is the only writer of the store:
// each change is committed first, and then made in memory.
//
// Design: docs/security.md#tokens.
package tokens

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/access"
	"landfall/appliance/access/uptime"
	"landfall/appliance/fault"
	"landfall/store"
)

const (
	// saveInterval is the interval in which Run stores the last uses of tokens.
	saveInterval = 5 * time.Minute
	// saveTimeout limits the last save, when Run ends.
	saveTimeout = 5 * time.Second
)

// Options configures Tokens.
type Options struct {
	DB     *store.DB
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// Tokens holds the tokens of programs. Its methods are safe for concurrent use.
type Tokens struct {
	options Options
	elapsed *uptime.Counter

	changes sync.Mutex // is held during a change, from its check until memory has it

	mu    sync.RWMutex
	all   map[digest]*token
	names map[string]*token
}

// Token describes a token, without its text.
type Token struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	Role      access.Role  `json:"role"`
	Scope     access.Scope `json:"scope,omitzero"`
	Ends      time.Time    `json:"ends,omitzero"` // zero for no end
	By        string       `json:"by,omitempty"`  // who created it
	CreatedAt time.Time    `json:"created_at"`
	LastUse   time.Time    `json:"last_use,omitzero"`
	// Ended is set in answers only.
	Ended bool `json:"-"`
}

// digest is the SHA-256 of a token's text.
type digest [sha256.Size]byte

// row is the row of a token.
type row struct {
	Token
	Digest []byte `json:"sha256"`
	// Until is the uptime at which the token ends even if the wall clock is behind; 0 for no end.
	Until time.Duration `json:"until,omitempty"`
}

var rows = store.NewBucket[row]("tokens", 1) // <id>

type token struct {
	row
	identity access.Identity
	used     atomic.Int64 // the last use: microseconds since 1970; 0 for none
	saved    int64        // the stored value of used, guarded by Tokens.changes
}

func newToken(r row) *token {
	t := &token{row: r, identity: access.Identity{
		Kind: access.Program, Name: r.Name, Role: r.Role, Scope: r.Scope, Token: r.ID,
	}}
	if !r.LastUse.IsZero() {
		t.saved = r.LastUse.UnixMicro()
		t.used.Store(t.saved)
	}
	return t
}

// Prefix returns the prefix of the keys of all rows that New reads.
func Prefix() string { return rows.Prefix() }

// New reads the tokens from the store.
func New(options Options) (*Tokens, error) {
	t := &Tokens{options: options, all: map[digest]*token{}, names: map[string]*token{}}
	var err error
	if t.elapsed, err = uptime.Open(options.DB, options.Clock, "tokens", false); err != nil {
		return nil, err
	}
	return t, options.DB.View(func(tx *store.Tx) error {
		return rows.Each(tx, "", func(_ string, r *row) error {
			if len(r.Digest) == len(digest{}) {
				t.remember(newToken(*r))
			}
			return nil
		})
	})
}

func (t *Tokens) remember(made *token) { t.all[digest(made.Digest)], t.names[made.Name] = made, made }

// public returns the description of a token. The caller may change the result.
func (t *Tokens) public(held *token) Token {
	public := held.Token
	public.Scope = held.Scope.Clone()
	if used := held.used.Load(); used != 0 {
		public.LastUse = time.UnixMicro(used).UTC()
	}
	public.Ended = t.ended(held, t.options.Clock.Now())
	return public
}

// ended reports whether a token has reached its end: by the wall clock, or by the time for which
// the appliance has run since then. So a token ends even at a site whose clock starts in 1970.
func (t *Tokens) ended(held *token, now time.Time) bool {
	return !held.Ends.IsZero() && (!now.Before(held.Ends) || t.elapsed.Now() >= held.Until)
}

// NewToken describes a new token.
type NewToken struct {
	Name  string
	Role  access.Role
	Scope access.Scope
	Ends  time.Time // zero for no end
	By    string    // who creates it
}

// Create creates a token. The text is not stored, so this is the only time to show it.
func (t *Tokens) Create(ctx context.Context, wanted NewToken) (text string, _ Token, _ error) {
	name, err := access.ParseName(wanted.Name)
	if err != nil {
		return "", Token{}, err
	}
	if err := access.CheckRole(wanted.Role); err != nil {
		return "", Token{}, err
	}
	t.changes.Lock()
	defer t.changes.Unlock()
	if _, err := t.find(name); err == nil {
		return "", Token{}, fault.New(fault.Conflict,
			"the token %q exists already; choose another name, or revoke that token", name)
	}
	now := t.options.Clock.Now()
	made := row{Token: Token{ID: uuid.NewString(), Name: name, Role: wanted.Role, Scope: wanted.Scope.Clone(),
		By: wanted.By, CreatedAt: now.UTC()}}
	if ends := wanted.Ends; !ends.IsZero() {
		if !ends.After(now) {
			return "", Token{}, fault.New(fault.Invalid,
				"the token would end at %s, but the appliance's clock is at %s; choose a later time, or set the clock",
				ends.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
		made.Ends, made.Until = ends.UTC(), t.elapsed.Now()+ends.Sub(now.Round(0))
	}
	text = newText()
	sum := digestOf(text)
	made.Digest = sum[:]
	if err := t.options.DB.Update(ctx, func(tx *store.Tx) error {
		if err := rows.Put(tx, made.ID, &made); err != nil {
			return err
		}
		return t.elapsed.Save(tx)
	}); err != nil {
		return "", Token{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	created := newToken(made)
	t.remember(created)
	return text, t.public(created), nil
}

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

// find returns the token with a name or an ID.
func (t *Tokens) find(nameOrID string) (*token, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, held := range t.all {
		if held.ID == nameOrID {
			return held, nil
		}
	}
	name, err := access.ParseName(nameOrID)
	if err != nil {
		return nil, err
	}
	if held, ok := t.names[name]; ok {
		return held, nil
	}
	return nil, fault.New(fault.NotFound, "there is no token %q", name)
}

// List returns all tokens by name, also those that have ended.
func (t *Tokens) List() []Token {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]Token, 0, len(t.all))
	for _, held := range t.all {
		all = append(all, t.public(held))
	}
	slices.SortFunc(all, func(a, b Token) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Revoke deletes a token. It is not valid any more.
func (t *Tokens) Revoke(ctx context.Context, nameOrID string) error {
	t.changes.Lock()
	defer t.changes.Unlock()
	held, err := t.find(nameOrID)
	if err != nil {
		return err
	}
	if err := t.options.DB.Update(ctx, func(tx *store.Tx) error { return rows.Delete(tx, held.ID) }); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, digest(held.Digest))
	delete(t.names, held.Name)
	return nil
}

// Check returns the identity of a program by the text of its token. ok is false if there is no such
// token, or if it has ended. It reads no row.
func (t *Tokens) Check(text string) (identity access.Identity, ok bool) {
	if !Valid(text) {
		return access.Identity{}, false
	}
	sum := digestOf(text)
	t.mu.RLock()
	held, ok := t.all[sum]
	t.mu.RUnlock()
	now := t.options.Clock.Now()
	if !ok || t.ended(held, now) {
		return access.Identity{}, false
	}
	held.used.Store(now.UnixMicro())
	return held.identity, true
}

// Run stores the last uses of tokens from time to time. It returns when ctx ends.
func (t *Tokens) Run(ctx context.Context) error {
	ticker := t.options.Clock.NewTicker(saveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.Chan():
			t.saveUses(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
			defer cancel()
			t.saveUses(last)
			return nil
		}
	}
}

// saveUses stores the last uses, and the uptime if a token has an end.
func (t *Tokens) saveUses(ctx context.Context) {
	t.changes.Lock()
	defer t.changes.Unlock()
	var used []*token
	limited := false
	t.mu.RLock()
	for _, held := range t.all {
		limited = limited || !held.Ends.IsZero()
		if held.used.Load() != held.saved {
			used = append(used, held)
		}
	}
	t.mu.RUnlock()
	if len(used) == 0 && !limited {
		return
	}
	uses := make([]int64, len(used))
	err := t.options.DB.Update(ctx, func(tx *store.Tx) error {
		for i, held := range used {
			uses[i] = held.used.Load()
			changed := held.row
			changed.LastUse = time.UnixMicro(uses[i]).UTC()
			if err := rows.Put(tx, held.ID, &changed); err != nil {
				return err
			}
		}
		return t.elapsed.Save(tx)
	})
	switch {
	case err == nil:
		for i, held := range used {
			held.saved = uses[i]
		}
	case ctx.Err() == nil && !errors.Is(err, store.ErrClosed):
		t.options.Logger.Warn("The last uses of tokens could not be stored. The appliance tries again.", "error", err)
	}
}
