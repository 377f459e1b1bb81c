// Package people holds the accounts of people, their passwords and their sessions.
//
// The store holds argon2id hashes of passwords and SHA-256 digests of session secrets. Memory holds
// all accounts and sessions too, so that finding the session of a request reads no row. This
// process is the only writer of the store: each change is committed first, and then made in memory.
//
// Without an account, the first administrator is made with the setup code (code.go).
//
// Design: docs/security.md#accounts.
package people

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/access"
	"landfall/appliance/access/uptime"
	"landfall/appliance/fault"
	"landfall/store"
)

const (
	// DefaultIdle is the time without a request after which a session ends.
	DefaultIdle = 12 * time.Hour
	// DefaultTotal is the time after which a session ends in any case.
	DefaultTotal = 7 * 24 * time.Hour
)

// Options configures People.
type Options struct {
	DB     *store.DB
	Clock  clockwork.Clock
	Dir    string // the data directory, for the setup code
	Logger *slog.Logger
	Idle   time.Duration // 0: DefaultIdle
	Total  time.Duration // 0: DefaultTotal
	// HashCost is the cost of a password's hash. The zero value is the usual cost. Tests set a
	// lower one.
	HashCost HashCost
	// Unused is set if clients need not authenticate. Then there is no setup code.
	Unused bool
}

// People holds accounts and sessions. Its methods are safe for concurrent use.
type People struct {
	options Options
	hasher  *hasher
	elapsed *uptime.Counter

	// changes is held during a change, from its check until memory has it. It also guards ended:
	// the IDs of ended sessions whose rows are still in the store.
	changes sync.Mutex
	ended   map[string]bool

	mu       sync.RWMutex
	accounts map[string]*account // by name; the values are not changed
	sessions map[digest]*session
	ids      map[string]*session // by ID
	used     digest              // of the setup code that was used; its file may still exist
}

// Account describes an account, without its password.
type Account struct {
	ID       string       `json:"id"`
	Name     string       `json:"name"`
	Role     access.Role  `json:"role"`
	Scope    access.Scope `json:"scope,omitzero"`
	Disabled bool         `json:"disabled,omitempty"`
	// External is the person's identity at an OIDC provider or in a directory; nil for an account
	// with a password.
	External  *External `json:"external,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	LastLogin time.Time `json:"last_login,omitzero"`
	// Passkeys are the person's passkeys, in the format of their package.
	Passkeys []json.RawMessage `json:"passkeys,omitempty"`

	// Generation counts the changes that end the account's sessions: of its password, role, scope,
	// and whether it is disabled.
	Generation int `json:"generation"`
}

// External is the identity of a person at an OIDC provider or in a directory.
type External struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// account is the row of an account.
type account struct {
	Account
	Password string `json:"password,omitempty"` // argon2id, in the PHC string format
}

var accountRows = store.NewBucket[account]("accounts", 1) // <name>

// Prefixes returns the prefixes of the keys of all rows that New reads.
func Prefixes() []string { return []string{accountRows.Prefix(), sessionRows.Prefix()} }

// New reads the accounts and sessions from the store. Without an account, it writes the setup code
// into the data directory, unless it is there already.
func New(options Options) (*People, error) {
	if options.Idle == 0 {
		options.Idle = DefaultIdle
	}
	if options.Total == 0 {
		options.Total = DefaultTotal
	}
	p := &People{
		options: options, accounts: map[string]*account{}, sessions: map[digest]*session{},
		ids: map[string]*session{}, ended: map[string]bool{}, hasher: newHasher(options.HashCost),
	}
	var err error
	if p.elapsed, err = uptime.Open(options.DB, options.Clock, "sessions", true); err != nil {
		return nil, err
	}
	if err := options.DB.View(p.load); err != nil {
		return nil, err
	}
	if options.Unused {
		return p, nil
	}
	if err := p.prepareCode(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *People) load(tx *store.Tx) error {
	if err := accountRows.Each(tx, "", func(name string, row *account) error {
		p.accounts[name] = row
		return nil
	}); err != nil {
		return err
	}
	return sessionRows.Each(tx, "", func(id string, row *sessionRow) error {
		if holder, ok := p.accounts[row.Account]; ok && len(row.Digest) == len(digest{}) {
			p.remember(newSession(id, *row, holder.Account))
		} else {
			p.ended[id] = true
		}
		return nil
	})
}

// ErrCredentials is returned for a wrong name and for a wrong password alike, and for an account
// that is disabled or has no password.
var ErrCredentials = fault.Sentinel(fault.Forbidden, "the name or the password is wrong")

// ErrLastAdministrator is returned for a change after which no administrator could log in with a
// password.
var ErrLastAdministrator = fault.Sentinel(fault.Conflict,
	"this is the last administrator with a password who can log in; make another one first")

// Accounts returns all accounts by name.
func (p *People) Accounts() []Account {
	p.mu.RLock()
	defer p.mu.RUnlock()
	all := make([]Account, 0, len(p.accounts))
	for _, name := range slices.Sorted(maps.Keys(p.accounts)) {
		all = append(all, p.accounts[name].public())
	}
	return all
}

// Account returns the account with a name.
func (p *People) Account(name string) (Account, error) {
	held, err := p.find(name)
	if err != nil {
		return Account{}, err
	}
	return held.public(), nil
}

// public returns the account without its password. The caller may change the result.
func (a *account) public() Account {
	public := a.Account
	public.Scope = a.Scope.Clone()
	public.Passkeys = slices.Clone(a.Passkeys)
	if a.External != nil {
		external := *a.External
		public.External = &external
	}
	return public
}

func (p *People) find(name string) (*account, error) {
	parsed, err := access.ParseName(name)
	if err != nil {
		return nil, err
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	held, ok := p.accounts[parsed]
	if !ok {
		return nil, fault.New(fault.NotFound, "there is no account %q", parsed)
	}
	return held, nil
}

// NewAccount describes an account with a password.
type NewAccount struct {
	Name     string
	Password string
	Role     access.Role
	Scope    access.Scope
}

// Create creates an account with a password.
func (p *People) Create(ctx context.Context, wanted NewAccount) (Account, error) {
	name, err := access.ParseName(wanted.Name)
	if err != nil {
		return Account{}, err
	}
	if err := access.CheckRole(wanted.Role); err != nil {
		return Account{}, err
	}
	if err := checkPassword(name, wanted.Password); err != nil {
		return Account{}, err
	}
	password, err := p.hasher.hash(ctx, wanted.Password)
	if err != nil {
		return Account{}, err
	}
	p.changes.Lock()
	defer p.changes.Unlock()
	if p.SetupPending() {
		return Account{}, fault.New(fault.Conflict,
			"there is no administrator yet; make the first one with the setup code")
	}
	made := p.newAccount(name, wanted.Role, wanted.Scope)
	made.Password = password
	return p.add(ctx, made)
}

func (p *People) newAccount(name string, role access.Role, scope access.Scope) *account {
	return &account{Account: Account{ID: uuid.NewString(), Name: name, Role: role, Scope: scope.Clone(),
		CreatedAt: p.options.Clock.Now().UTC()}}
}

// add stores a new account. The caller holds changes.
func (p *People) add(ctx context.Context, made *account) (Account, error) {
	if _, err := p.find(made.Name); err == nil {
		return Account{}, fault.New(fault.Conflict, "the account %q exists already; choose another name", made.Name)
	}
	if err := p.save(ctx, made); err != nil {
		return Account{}, err
	}
	return made.public(), nil
}

// save stores a new or changed account. It ends the account's sessions if its generation is new.
// The caller holds changes.
func (p *People) save(ctx context.Context, changed *account) error {
	var ending []*session
	if held, err := p.find(changed.Name); err == nil && held.Generation != changed.Generation {
		ending = p.sessionsOf(changed.Name)
	}
	err := p.options.DB.Update(ctx, func(tx *store.Tx) error {
		if err := accountRows.Put(tx, changed.Name, changed); err != nil {
			return err
		}
		return deleteSessions(tx, ending)
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accounts[changed.Name] = changed
	p.forget(ending)
	return nil
}

// Change describes a change of an account. Nil fields stay as they are.
type Change struct {
	Role     *access.Role
	Scope    *access.Scope
	Disabled *bool
}

// Update changes an account. The account's sessions end if anything changes.
func (p *People) Update(ctx context.Context, name string, change Change) (Account, error) {
	p.changes.Lock()
	defer p.changes.Unlock()
	held, err := p.find(name)
	if err != nil {
		return Account{}, err
	}
	changed := *held
	if change.Role != nil {
		if err := access.CheckRole(*change.Role); err != nil {
			return Account{}, err
		}
		changed.Role = *change.Role
	}
	if change.Scope != nil {
		changed.Scope = change.Scope.Clone()
	}
	if change.Disabled != nil {
		changed.Disabled = *change.Disabled
	}
	if changed.sameRights(held.Account) {
		return held.public(), nil
	}
	changed.Generation++
	if err := p.checkAdministrators(held, &changed); err != nil {
		return Account{}, err
	}
	if err := p.save(ctx, &changed); err != nil {
		return Account{}, err
	}
	return changed.public(), nil
}

// sameRights reports whether two accounts may do the same.
func (a Account) sameRights(b Account) bool {
	return a.Role == b.Role && a.Disabled == b.Disabled && a.Scope.Equal(b.Scope)
}

// administers reports whether the account is an administrator who can log in without a provider. An
// external account does not count, because its provider may be unreachable.
func (a *account) administers() bool {
	return a.Role == access.Administrator && !a.Disabled && !a.Scope.Limited() && a.Password != ""
}

// checkAdministrators returns ErrLastAdministrator if a change of an account leaves no
// administrator. changed is nil for a deletion. The caller holds changes.
func (p *People) checkAdministrators(held, changed *account) error {
	if !held.administers() || changed != nil && changed.administers() {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for name, other := range p.accounts {
		if name != held.Name && other.administers() {
			return nil
		}
	}
	return ErrLastAdministrator
}

// Delete deletes an account and ends its sessions.
func (p *People) Delete(ctx context.Context, name string) error {
	p.changes.Lock()
	defer p.changes.Unlock()
	held, err := p.find(name)
	if err != nil {
		return err
	}
	if err := p.checkAdministrators(held, nil); err != nil {
		return err
	}
	ending := p.sessionsOf(held.Name)
	if err := p.options.DB.Update(ctx, func(tx *store.Tx) error {
		if err := accountRows.Delete(tx, held.Name); err != nil {
			return err
		}
		return deleteSessions(tx, ending)
	}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.accounts, held.Name)
	p.forget(ending)
	return nil
}

// SetPassword sets the password of an account, by an administrator. The account's sessions end.
func (p *People) SetPassword(ctx context.Context, name, password string) error {
	held, err := p.find(name)
	if err != nil {
		return err
	}
	return p.setPassword(ctx, held, password)
}

// ChangePassword sets the password of an account, by its owner, who must know the old password. The
// error wraps ErrCredentials if the old password is wrong. The account's sessions end.
func (p *People) ChangePassword(ctx context.Context, name, old, password string) error {
	held, err := p.find(name)
	if err != nil {
		return err
	}
	if err := held.checkLocal(); err != nil {
		return err
	}
	if _, err := p.LogIn(ctx, name, old); errors.Is(err, ErrCredentials) {
		return &fault.Error{Kind: fault.Forbidden, Reason: "the present password is wrong; nothing was changed", Err: err}
	} else if err != nil {
		return err
	}
	return p.setPassword(ctx, held, password)
}

// checkLocal returns an error for an account whose password a provider has.
func (a *account) checkLocal() error {
	if a.External == nil {
		return nil
	}
	return fault.New(fault.Conflict, "the account %q has no password here; its owner logs in at %s", a.Name,
		a.External.Issuer)
}

func (p *People) setPassword(ctx context.Context, held *account, password string) error {
	if err := held.checkLocal(); err != nil {
		return err
	}
	if err := checkPassword(held.Name, password); err != nil {
		return err
	}
	hashed, err := p.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	p.changes.Lock()
	defer p.changes.Unlock()
	now, err := p.find(held.Name)
	if err != nil {
		return err
	}
	if now.ID != held.ID {
		return fault.New(fault.Conflict, "the account %q was replaced by another one; try again", held.Name)
	}
	changed := *now
	changed.Password = hashed
	changed.Generation++
	return p.save(ctx, &changed)
}

// ChangePasskeys replaces the passkeys of an account. change gets the present ones.
func (p *People) ChangePasskeys(ctx context.Context, name string,
	change func([]json.RawMessage) ([]json.RawMessage, error),
) error {
	p.changes.Lock()
	defer p.changes.Unlock()
	held, err := p.find(name)
	if err != nil {
		return err
	}
	changed := *held
	if changed.Passkeys, err = change(slices.Clone(held.Passkeys)); err != nil {
		return err
	}
	return p.save(ctx, &changed)
}

// LogIn verifies a password. The error is ErrCredentials if the name or the password is wrong; both
// take the same time. The error is ErrBusy if too many logins run at the moment.
func (p *People) LogIn(ctx context.Context, name, password string) (Account, error) {
	held, err := p.find(name)
	if err != nil || held.Disabled || held.Password == "" {
		_, err := p.hasher.verify(ctx, p.hasher.nobody, password)
		if err != nil {
			return Account{}, err
		}
		return Account{}, ErrCredentials
	}
	ok, err := p.hasher.verify(ctx, held.Password, password)
	if err != nil {
		return Account{}, err
	}
	if !ok {
		return Account{}, ErrCredentials
	}
	return held.public(), nil
}

// LogInExternal returns the account of a person whom an OIDC provider or a directory has
// identified. It creates the account at the first login. Role and scope are those that the provider
// gives now. wanted.Password must be empty.
func (p *People) LogInExternal(ctx context.Context, person External, wanted NewAccount) (Account, error) {
	if person.Issuer == "" || person.Subject == "" || wanted.Password != "" {
		return Account{}, errors.New("log in with an external identity: issuer or subject is missing, or a " +
			"password is given")
	}
	p.changes.Lock()
	defer p.changes.Unlock()
	held := p.findExternal(person)
	switch {
	case held != nil && held.Disabled:
		return Account{}, ErrCredentials
	case wanted.Role == access.None:
		return Account{}, fault.New(fault.Forbidden,
			"%s gives you no role here; ask an administrator to add your group to a role", person.Issuer)
	case p.SetupPending():
		return Account{}, fault.New(fault.Conflict,
			"there is no administrator yet; make the first one with the setup code")
	}
	if err := access.CheckRole(wanted.Role); err != nil {
		return Account{}, err
	}
	if held == nil {
		name, err := access.ParseName(wanted.Name)
		if err != nil {
			return Account{}, err
		}
		made := p.newAccount(name, wanted.Role, wanted.Scope)
		made.External = &person
		return p.add(ctx, made)
	}
	changed := *held
	changed.Role, changed.Scope = wanted.Role, wanted.Scope.Clone()
	if changed.sameRights(held.Account) {
		return held.public(), nil
	}
	changed.Generation++
	if err := p.save(ctx, &changed); err != nil {
		return Account{}, err
	}
	return changed.public(), nil
}

// External returns the identity of a person who sends a token of an OIDC provider with each
// request, and so has no session. given is the identity by the claims of the token. The person
// needs no account here. ok is false if the person's account is disabled, or if the name is that of
// somebody else's account.
func (p *People) External(person External, given access.Identity) (identity access.Identity, ok bool) {
	if held := p.findExternal(person); held != nil {
		given.Name = held.Name
		return given, !held.Disabled
	}
	_, err := p.find(given.Name)
	return given, err != nil
}

func (p *People) findExternal(person External) *account {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, held := range p.accounts {
		if held.External != nil && *held.External == person {
			return held
		}
	}
	return nil
}

// Password rules. There is no rule about kinds of characters: such rules make passwords predictable
// (NIST SP 800-63B, 3.1.1.2).
const (
	shortestPassword = 8    // characters
	longestPassword  = 1024 // bytes
	leastDistinct    = 4    // different characters
)

// commonPasswords are those that are guessed first, in lower case.
var commonPasswords = []string{"12345678", "123456789", "1234567890", "password", "password1", "password123",
	"passw0rd", "qwertyuiop", "qwerty123", "abcd1234", "1q2w3e4r", "1qaz2wsx", "iloveyou", "changeme",
	"administrator", "openshift", "landfall", "landfall1"}

func checkPassword(name, password string) error {
	distinct := map[rune]bool{}
	characters := 0
	for _, char := range password {
		distinct[char] = true
		characters++
	}
	lower := strings.ToLower(password)
	switch {
	case characters < shortestPassword:
		return fault.New(fault.Invalid, "the password has %d characters; choose one with at least %d", characters,
			shortestPassword)
	case len(password) > longestPassword:
		return fault.New(fault.Invalid, "the password has %d bytes; choose one with at most %d", len(password),
			longestPassword)
	case len(distinct) < leastDistinct:
		return fault.New(fault.Invalid, "the password has fewer than %d different characters; choose another one",
			leastDistinct)
	case lower == name || slices.Contains(commonPasswords, lower):
		return fault.New(fault.Invalid, "the password is easy to guess; choose another one")
	}
	return nil
}
