// Package local is what the site itself knows of what AMS knows of people: its organization,
// accounts, the tokens by which programs ask the site in AMS's place, and the labels and
// capabilities that were set here. Nothing of it is ever told to AMS.
//
// Tokens are JWTs, as AMS's own are, because the ocm command reads them. They are signed with a
// secret that is derived from the site's key, and of those that live long only a SHA-256 is kept.
package local

import (
	"crypto/sha256"
	"fmt"

	"github.com/jonboulle/clockwork"
	"github.com/segmentio/ksuid"

	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Owner is in whose name the site speaks to AMS, or its own stand-ins before AMS was reached.
type Owner struct {
	OrganizationID, OrganizationName string
	AccountID, Username              string
}

// Options is what a site is made of.
type Options struct {
	DB    *store.DB
	Clock clockwork.Clock
	Key   *sitekey.Key
	Owner func() Owner
}

// Site keeps tokens and labels.
type Site struct {
	options Options
	secret  []byte
}

// New returns a site over a store. It reads nothing yet.
func New(options Options) (*Site, error) {
	secret, err := options.Key.Derive("landfall local tokens")
	if err != nil {
		return nil, err
	}
	return &Site{options, secret}, nil
}

// Account is a person or a program, of the site's one organization.
type Account struct {
	ID, Username string
	Organization Organization
}

// Organization is the site's one.
type Organization struct{ ID, Name string }

// Organization is the site's one, by AMS's id as soon as that is known.
func (s *Site) Organization() Organization {
	owner := s.options.Owner()
	name := owner.OrganizationName
	if name == "" {
		name = "Landfall"
	}
	return Organization{owner.OrganizationID, name}
}

// Account is that of a user name, whether it is known or not.
func (s *Site) Account(username string) Account {
	owner := s.options.Owner()
	if username == owner.Username {
		return Account{owner.AccountID, username, s.Organization()}
	}
	return Account{s.localID("account " + username), username, s.Organization()}
}

// Accounts are the site's own and those that tokens were made for.
func (s *Site) Accounts() ([]Account, error) {
	tokens, err := s.Tokens()
	if err != nil {
		return nil, err
	}
	all := []Account{s.Account(s.options.Owner().Username)}
	seen := map[string]bool{all[0].Username: true}
	for _, token := range tokens {
		if !seen[token.Username] {
			seen[token.Username] = true
			all = append(all, s.Account(token.Username))
		}
	}
	return all, nil
}

// localID is an id of this site's own: a KSUID as AMS's are, the same at each start.
func (s *Site) localID(of string) string { return LocalID(s.options.Key, of) }

// LocalID is the id that something has at a site before AMS told one: a KSUID as AMS's are, of the
// first moment that a KSUID can tell, and the same at each start.
func LocalID(key *sitekey.Key, of string) string {
	sum := sha256.Sum256([]byte(of + " " + key.Public().Fingerprint()))
	id, err := ksuid.FromBytes(append([]byte{0, 0, 0, 0}, sum[:16]...))
	if err != nil {
		return of
	}
	return id.String()
}

// ErrUnknown is the error of what is not there.
var ErrUnknown = fault.Sentinel(fault.NotFound, "there is no such thing here")

func unknown(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrUnknown)...)
}
