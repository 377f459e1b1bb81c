package ams

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/amstest"
)

var theirs = amstest.Account{ID: "2GOuThem", Username: "them", Organization: "2GOuTheirs", OrganizationName: "Theirs"}

// withFile gives a site credentials in a file. It returns a function that replaces the token.
func (s *site) withFile(token string) (replace func(token string)) {
	s.Helper()
	s.file = filepath.Join(s.TempDir(), "token")
	replace = func(token string) {
		s.Helper()
		fresh := s.file + ".new"
		require.NoError(s, os.WriteFile(fresh, []byte(token+"\n"), 0o600))
		require.NoError(s, os.Rename(fresh, s.file))
	}
	replace(token)
	s.credentials = NewCredentialStore(s.db, s.TempDir(), CredentialFiles{OfflineToken: s.file})
	s.restart()
	return replace
}

// requireOnlyReads requires that AMS received no call that changes a subscription.
func (s *site) requireOnlyReads() {
	s.Helper()
	require.Empty(s, s.calls("create", "update", "delete"))
}

// Each case replaces the credentials of a site whose session with AMS is open. The next change
// must not reach the other organization.
func TestRelay_otherOrganizationWhileOnline(t *testing.T) {
	for name, replace := range map[string]func(s *site){
		"entered credentials": func(s *site) {
			s.secret.secret.OfflineToken = s.ams.AddAccount(theirs)
			s.relay.renewSession("")
		},
		"credentials that nobody announced": func(s *site) {
			s.secret.secret.OfflineToken = s.ams.AddAccount(theirs)
		},
		"the access token is rejected": func(s *site) {
			s.secret.secret.OfflineToken = s.ams.AddAccount(theirs)
			s.ams.ExpireAccess()
		},
		"the account moves to another organization": func(s *site) {
			moved := ours
			moved.Organization, moved.OrganizationName = theirs.Organization, theirs.OrganizationName
			s.ams.AddAccount(moved)
			s.clock.Advance(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			known := s.reserved("one")
			require.Equal(t, Online, s.state())
			mine := s.secret.secret
			replace(s)
			created := s.register("created")
			s.rename(known, "two")
			s.settle(10 * time.Minute)
			require.Equal(t, PausedIdentity, s.state())
			s.requireOnlyReads()
			s.requireRow(known, "Reserved", map[string]any{"display_name": "one"})
			status, err := s.relay.Status(t.Context(), Selection{})
			require.NoError(t, err)
			require.Contains(t, status.Problem, "Theirs")

			s.secret.secret = mine
			s.ams.AddAccount(ours)
			s.relay.Connect(0)
			s.settle(soon)
			s.requireRow(known, "Reserved", map[string]any{"display_name": "two"})
			s.requireRow(created, "Reserved", map[string]any{"organization_id": ours.Organization})
			s.requireSent(created)
		})
	}
}

func TestRelay_replacedTokenFile(t *testing.T) {
	s := newSite(t)
	replace := s.withFile(s.secret.secret.OfflineToken)
	known := s.reserved("one")
	replace(s.ams.AddAccount(theirs))
	s.rename(known, "two")
	s.settle(10 * time.Minute)
	require.Equal(t, PausedIdentity, s.state())
	s.requireOnlyReads()

	next := s.relay.step(t.Context())
	require.False(t, next.IsZero(), "the relay looks at the file again by itself")
	require.LessOrEqual(t, next.Sub(s.clock.Now()), time.Minute)
	replace(s.ams.AddAccount(ours))
	s.settle(soon)
	s.requireRow(known, "Reserved", map[string]any{"display_name": "two"})
}

// A pause ends by itself when a file gets valid credentials, also while no cluster waits.
func TestRelay_revokedTokenFile(t *testing.T) {
	s := newSite(t)
	replace := s.withFile(s.secret.secret.OfflineToken)
	known := s.reserved("one")
	s.ams.Revoke()
	s.rename(known, "two")
	s.settle(time.Hour)
	require.Equal(t, PausedCredentials, s.state())
	status, err := s.relay.Status(t.Context(), Selection{})
	require.NoError(t, err)
	require.Contains(t, status.Problem, "Write a valid offline token to "+s.file)
	require.NotContains(t, status.Problem, "ams login", "a login is refused while the file is configured")

	s.delete(known)
	before := len(s.ams.Requests())
	replace("not a token")
	s.settle(soon)
	require.Equal(t, PausedCredentials, s.state())
	require.Len(t, s.ams.Requests(), before+1, "the relay tries a replaced file once")
	replace(s.ams.AddAccount(ours))
	s.settle(soon)
	s.requireGone(known)
}

// A session of another account of the same organization continues without a question. New
// subscriptions belong to the new account.
func TestRelay_otherAccountOfTheOrganization(t *testing.T) {
	s := newSite(t)
	s.reserved("one")
	colleague := amstest.Account{ID: "2GOuColleague", Username: "colleague", Organization: ours.Organization,
		OrganizationName: ours.OrganizationName}
	s.secret.secret.OfflineToken = s.ams.AddAccount(colleague)
	id := s.register("two")
	s.settle(soon)
	require.Equal(t, Online, s.state())
	s.requireRow(id, "Reserved", map[string]any{"organization_id": ours.Organization})
	require.Contains(t, string(s.ams.Requests("create")[0].Body), `"account_username":"colleague"`)
}

func TestRelay_removedCredentialsEndTheSession(t *testing.T) {
	s := newSite(t)
	id := s.reserved("one")
	s.secret.secret = Secret{}
	s.rename(id, "two")
	s.settle(soon)
	require.Equal(t, NoCredentials, s.state())
	require.Empty(t, s.ams.Requests(), "the access token of the removed credentials is not used")
}

func TestRelay_unreadableTokenFile(t *testing.T) {
	s := newSite(t)
	replace := s.withFile(s.secret.secret.OfflineToken)
	id := s.reserved("one")
	replace("")
	s.rename(id, "two")
	s.settle(time.Hour)
	status, err := s.relay.Status(t.Context(), Selection{})
	require.NoError(t, err)
	require.Contains(t, status.Problem, "token is empty")
	require.Equal(t, ClusterWaiting, s.line(id).State)
	replace(s.ams.AddAccount(ours))
	s.settle(time.Minute)
	s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
}

// A person replaces the credentials while AMS replaces the refresh token of the old ones.
func TestCredentialStore_rotationKeepsReplacedToken(t *testing.T) {
	for name, files := range map[string]bool{"entered": false, "in a file": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			var held *CredentialStore
			var replace func(token string)
			if files {
				replace = s.withFile("old")
				held = s.credentials.(*CredentialStore)
			} else {
				held = NewCredentialStore(s.db, t.TempDir(), CredentialFiles{})
				replace = func(token string) {
					require.NoError(t, held.SetCredentials(t.Context(), Secret{OfflineToken: token}))
				}
				replace("old")
			}
			require.NoError(t, held.Rotate(t.Context(), "old", "rotated"))
			secret, err := held.Secret(t.Context())
			require.NoError(t, err)
			require.Equal(t, "rotated", secret.OfflineToken)
			replace("new")
			require.NoError(t, held.Rotate(t.Context(), "rotated", "rotated again"))
			secret, err = held.Secret(t.Context())
			require.NoError(t, err)
			require.Equal(t, "new", secret.OfflineToken)
		})
	}
}

// TestRelay_membersOfFleetTakeOver makes a fleet of the machine that reports, lets another member
// take over, and ends the fleet on a third one.
func TestRelay_membersOfFleetTakeOver(t *testing.T) {
	s := newSite(t)
	id := s.reserved("one")
	for i, machine := range []string{"", "", "there"} {
		s.option = func(o *Options) { o.Machine = machine }
		s.restart()
		name := fmt.Sprint("renamed-", i)
		s.rename(id, name)
		s.settle(soon)
		require.Equal(t, Online, s.state())
		s.requireRow(id, "Reserved", map[string]any{"display_name": name})
	}
}

// An interruption must not leave the site without an identity and with clusters that the new
// organization never gets.
func TestRelay_acceptIsOneTransaction(t *testing.T) {
	s := newSite(t)
	id := s.reserved("one")
	s.secret.secret.OfflineToken = s.ams.AddAccount(theirs)
	s.restart()
	s.register("two")
	s.settle(soon)
	require.Equal(t, PausedIdentity, s.state())
	former, revision := s.relay.identity, s.db.Revision()
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, s.relay.Accept(ended), context.Canceled)
	require.Equal(t, former, s.relay.identity, "the store keeps the identity, and so does the relay")
	require.Equal(t, revision, s.db.Revision())

	require.NoError(t, s.relay.Accept(t.Context()))
	require.Equal(t, revision+1, s.db.Revision())
	s.settle(soon)
	require.Equal(t, theirs.Organization, s.relay.identity.OrganizationID)
	require.Contains(t, s.recorded(id).API, theirs.Organization, "the new organization gets the cluster")
}
