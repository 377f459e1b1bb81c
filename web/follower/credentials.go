package follower

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/appliance/access/tokens"
)

// credentials implements webaccess.Sessions and webaccess.Tokens with the accounts, sessions and
// tokens of the copy. Packages people and tokens hold them in memory, so they are read again after
// each change.
type credentials struct {
	people atomic.Pointer[people.People]
	tokens atomic.Pointer[tokens.Tokens]
}

// isCredential reports whether a row is that of an account, a session or a token.
func isCredential(key string) bool {
	return slices.ContainsFunc(append(people.Prefixes(), tokens.Prefix()),
		func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

func (c *credentials) load(r *Reader) error {
	// Only the leader has a setup code, so the accounts are opened as if there was none.
	accounts, err := people.New(people.Options{DB: r.DB, Clock: r.Clock, Dir: r.Config.DataDir, Logger: r.Logger,
		Unused: true, Idle: r.Config.Sessions.Idle, Total: r.Config.Sessions.Total})
	if err != nil {
		return err
	}
	programs, err := tokens.New(tokens.Options{DB: r.DB, Clock: r.Clock, Logger: r.Logger})
	if err != nil {
		return err
	}
	c.people.Store(accounts)
	c.tokens.Store(programs)
	return nil
}

// Session implements webaccess.Sessions.
func (c *credentials) Session(secret string, isUse bool) (access.Identity, bool) {
	return c.people.Load().Session(secret, isUse)
}

// LogIn implements webregistry.People.
func (c *credentials) LogIn(ctx context.Context, name, password string) (people.Account, error) {
	return c.people.Load().LogIn(ctx, name, password)
}

// Account implements webregistry.People.
func (c *credentials) Account(name string) (people.Account, error) {
	return c.people.Load().Account(name)
}

// Check implements webaccess.Tokens.
func (c *credentials) Check(text string) (access.Identity, bool) { return c.tokens.Load().Check(text) }
