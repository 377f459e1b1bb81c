package registry

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/access"
	"landfall/appliance/access/limit"
	"landfall/appliance/access/people"
	"landfall/appliance/fault"
	"landfall/appliance/registry/supply"
)

// People are the accounts of the appliance. *people.People implements it.
type People interface {
	LogIn(ctx context.Context, name, password string) (people.Account, error)
	Account(name string) (people.Account, error)
}

// Tokens are the tokens of programs. *tokens.Tokens implements it.
type Tokens interface {
	Check(text string) (identity access.Identity, ok bool)
}

// LoginOptions configures [NewLogins].
type LoginOptions struct {
	PullPassword string // of supply.PullUser
	People       People
	Tokens       Tokens
	Limiter      *limit.Limiter
	Clock        clockwork.Clock
}

// Logins checks the names and passwords that clients of the registry send with each request. Nodes
// send a thousand requests for one release, so a password that was verified is remembered for some
// minutes, at most until it is changed: the function that hides passwords in the store is slow on
// purpose.
type Logins struct {
	LoginOptions
	key []byte

	mu       sync.Mutex
	verified map[[sha256.Size]byte]remembered
}

type remembered struct {
	name       string
	id         string // an account with the name may be another one later
	generation int    // changes with the password
	until      time.Time
}

const (
	rememberFor   = 5 * time.Minute
	maxRemembered = 1024
)

// NewLogins returns the logins of the registry.
func NewLogins(options LoginOptions) *Logins {
	return &Logins{LoginOptions: options, key: []byte(rand.Text()), verified: map[[sha256.Size]byte]remembered{}}
}

// errPasskey is returned for an account that needs a second factor.
var errPasskey = fault.New(fault.Unauthenticated, "this account needs a passkey; use a token as the password")

// Check returns the identity of a name and a password. The password may be a token, whatever the
// name.
func (l *Logins) Check(ctx context.Context, from, name, password string) (access.Identity, error) {
	if name == supply.PullUser {
		if subtle.ConstantTimeCompare([]byte(password), []byte(l.PullPassword)) == 1 {
			return access.Identity{Kind: access.Program, Name: name, Role: access.Viewer}, nil
		}
		return access.Identity{}, people.ErrCredentials
	}
	if identity, ok := l.Tokens.Check(password); ok {
		return identity, nil
	}
	digest := l.digest(name, password)
	account, ok := l.recall(digest)
	if !ok {
		var err error
		if account, err = l.logIn(ctx, from, name, password); err != nil {
			return access.Identity{}, err
		}
		l.remember(digest, account)
	}
	if len(account.Passkeys) > 0 {
		return access.Identity{}, errPasskey
	}
	return access.Identity{Kind: access.Person, Name: account.Name, Role: account.Role, Scope: account.Scope}, nil
}

// logIn verifies a password, within the limits of attempts.
func (l *Logins) logIn(ctx context.Context, from, name, password string) (people.Account, error) {
	keys := []string{limit.Account(name), limit.Address(from)}
	if _, ok := l.Limiter.Allow(keys...); !ok {
		return people.Account{}, &refusal{status: 429, code: codeTooMany, wait: busyWait,
			text: "there were too many failed attempts"}
	}
	account, err := l.People.LogIn(ctx, name, password)
	switch {
	case err == nil:
		l.Limiter.Succeeded(keys...)
	case errors.Is(err, people.ErrCredentials):
		l.Limiter.Failed(keys...)
	default:
		l.Limiter.Withdrawn(keys...)
	}
	return account, err
}

func (l *Logins) digest(name, password string) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte(name + "\x00" + password))
	copy(sum[:], mac.Sum(nil))
	return sum
}

// recall returns the present state of the account of a password that was verified before.
func (l *Logins) recall(digest [sha256.Size]byte) (people.Account, bool) {
	l.mu.Lock()
	known, ok := l.verified[digest]
	l.mu.Unlock()
	if !ok || l.Clock.Now().After(known.until) {
		return people.Account{}, false
	}
	account, err := l.People.Account(known.name)
	return account, err == nil && account.ID == known.id && account.Generation == known.generation &&
		!account.Disabled
}

func (l *Logins) remember(digest [sha256.Size]byte, account people.Account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.verified) >= maxRemembered {
		clear(l.verified)
	}
	l.verified[digest] = remembered{account.Name, account.ID, account.Generation, l.Clock.Now().Add(rememberFor)}
}
