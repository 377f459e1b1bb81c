// Package local holds the site's own data for the local AMS API: its organization, accounts,
// tokens, labels and capabilities. This data is never sent to AMS.
//
// Tokens are JWTs, like AMS's, because the ocm command parses them. They are signed with a secret
// that is derived from the site's key. For long-lived tokens the store contains only their SHA-256.
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

// Owner is the account for which the site reports to AMS. Before the first contact it contains
// local IDs.
type Owner struct {
	OrganizationID, OrganizationName string
	AccountID, Username              string
}

// Options configures a site.
type Options struct {
	DB    *store.DB
	Clock clockwork.Clock
	Key   *sitekey.Key
	Owner func() Owner
}

// Site stores tokens and labels.
type Site struct {
	options Options
	secret  []byte
}

// New returns a site. It does not read the store.
func New(options Options) (*Site, error) {
	secret, err := options.Key.Derive("landfall local tokens")
	if err != nil {
		return nil, err
	}
	return &Site{options, secret}, nil
}

// Account is a person or a program in the site's organization.
type Account struct {
	ID, Username string
	Organization Organization
}

// Organization is the site's organization.
type Organization struct{ ID, Name string }

// Organization returns the site's organization. After the first contact it has AMS's ID.
func (s *Site) Organization() Organization {
	owner := s.options.Owner()
	name := owner.OrganizationName
	if name == "" {
		name = "Landfall"
	}
	return Organization{owner.OrganizationID, name}
}

// Account returns the account with a user name. The account need not exist.
func (s *Site) Account(username string) Account {
	owner := s.options.Owner()
	if username == owner.Username {
		return Account{owner.AccountID, username, s.Organization()}
	}
	return Account{s.localID("account " + username), username, s.Organization()}
}

// Accounts returns the site's own account and the accounts with tokens.
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

// localID returns an ID of this site, a KSUID that is the same at each start.
func (s *Site) localID(of string) string { return LocalID(s.options.Key, of) }

// LocalID returns the ID of an object of the site before AMS assigns an ID. It is a KSUID with the
// earliest possible time, and the same at each start.
func LocalID(key *sitekey.Key, of string) string {
	sum := sha256.Sum256([]byte(of + " " + key.Public().Fingerprint()))
	id, err := ksuid.FromBytes(append([]byte{0, 0, 0, 0}, sum[:16]...))
	if err != nil {
		return of
	}
	return id.String()
}

// ErrUnknown is returned for an object that does not exist.
var ErrUnknown = fault.Sentinel(fault.NotFound, "the object does not exist here")

func unknown(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrUnknown)...)
}
