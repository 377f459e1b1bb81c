package people_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/appliance/fault"
)

func TestLogIn(t *testing.T) {
	s := newSite(t)
	s.setUp()
	s.create("ana", access.Operator)
	s.create("bo", access.Viewer)
	disabled := true
	_, err := s.Update(t.Context(), "bo", people.Change{Disabled: &disabled})
	require.NoError(t, err)
	_, err = s.LogInExternal(t.Context(), people.External{Issuer: "https://idp", Subject: "7"},
		people.NewAccount{Name: "eve", Role: access.Viewer})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		name, password string
		ok             bool
	}{
		"right":                        {"ana", password, true},
		"the name in capitals":         {" ANA ", password, true},
		"a wrong password":             {"ana", "wrong horse", false},
		"no password":                  {"ana", "", false},
		"a huge password":              {"ana", strings.Repeat("x", 1<<20), false},
		"an unknown name":              {"nobody", password, false},
		"no name":                      {"", password, false},
		"an impossible name":           {"a/b\x00", password, false},
		"a disabled account":           {"bo", password, false},
		"an external account":          {"eve", password, false},
		"an external one, no password": {"eve", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			account, err := s.LogIn(t.Context(), test.name, test.password)
			if test.ok {
				require.NoError(t, err)
				require.Equal(t, "ana", account.Name)
				return
			}
			require.ErrorIs(t, err, people.ErrCredentials)
			require.EqualError(t, err, "the name or the password is wrong")
		})
	}
}

func TestLogIn_passwordInAnotherUnicodeForm(t *testing.T) {
	s := newSite(t)
	s.setUp()
	require.NoError(t, s.SetPassword(t.Context(), "admin", "gr\u00fc\u00dfe an alle"))
	_, err := s.LogIn(t.Context(), "admin", "gru\u0308\u00dfe an alle")
	require.NoError(t, err)
}

func TestCreate_refusals(t *testing.T) {
	s := newSite(t)
	s.setUp()
	s.create("ana", access.Operator)
	for name, test := range map[string]struct {
		wanted  people.NewAccount
		kind    fault.Kind
		problem string
	}{
		"the name exists": {people.NewAccount{Name: "Ana", Password: password, Role: access.Viewer},
			fault.Conflict, `the account "ana" exists already; choose another name`},
		"a bad name": {people.NewAccount{Name: "a b", Password: password, Role: access.Viewer},
			fault.Invalid, "the name contains ' '; use only letters, digits and the characters . _ @ + -"},
		"no role": {people.NewAccount{Name: "bo", Password: password},
			fault.Invalid, "the role is missing; choose viewer, operator or admin"},
		"a short password": {people.NewAccount{Name: "bo", Password: "öäüß", Role: access.Viewer},
			fault.Invalid, "the password has 4 characters; choose one with at least 8"},
		"a long password": {people.NewAccount{Name: "bo", Password: strings.Repeat("abcd", 257), Role: access.Viewer},
			fault.Invalid, "the password has 1028 bytes; choose one with at most 1024"},
		"few different characters": {people.NewAccount{Name: "bo", Password: "aaaabbbbcccc", Role: access.Viewer},
			fault.Invalid, "the password has fewer than 4 different characters; choose another one"},
		"a common password": {people.NewAccount{Name: "bo", Password: "Password123", Role: access.Viewer},
			fault.Invalid, "the password is easy to guess; choose another one"},
		"the name as password": {people.NewAccount{Name: "bo.maria", Password: "Bo.Maria", Role: access.Viewer},
			fault.Invalid, "the password is easy to guess; choose another one"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Create(t.Context(), test.wanted)
			require.EqualError(t, err, test.problem)
			require.Equal(t, test.kind, fault.KindOf(err))
			require.Len(t, s.Accounts(), 2)
		})
	}
}

func TestAccounts_surviveARestart(t *testing.T) {
	s := newSite(t)
	s.setUp()
	_, err := s.Create(t.Context(), people.NewAccount{Name: "ana", Password: password, Role: access.Operator,
		Scope: access.Scope{Clusters: []string{"c1"}}})
	require.NoError(t, err)
	require.NoError(t, s.ChangePasskeys(t.Context(), "ana", func(held []json.RawMessage) ([]json.RawMessage, error) {
		return append(held, json.RawMessage(`{"id":"k1"}`)), nil
	}))
	s.logIn("ana")
	before := s.Accounts()
	s.restart(s.clock.Now())
	require.Equal(t, before, s.Accounts())
	ana, err := s.Account("ana")
	require.NoError(t, err)
	require.Equal(t, []string{"c1"}, ana.Scope.Clusters)
	require.Equal(t, s.clock.Now(), ana.LastLogin)
	require.Equal(t, []json.RawMessage{json.RawMessage(`{"id":"k1"}`)}, ana.Passkeys)
	_, err = s.Account("nobody")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

func TestChangePasskeys_errorChangesNothing(t *testing.T) {
	s := newSite(t)
	s.setUp()
	broken := errors.New("no such key")
	require.ErrorIs(t, s.ChangePasskeys(t.Context(), "admin",
		func([]json.RawMessage) ([]json.RawMessage, error) { return []json.RawMessage{{}}, broken }), broken)
	admin, err := s.Account("admin")
	require.NoError(t, err)
	require.Empty(t, admin.Passkeys)
}

func TestSessions_endWithTheRightsOfTheirAccount(t *testing.T) {
	disabled, viewer, scope := true, access.Viewer, access.Scope{Clusters: []string{"c1"}}
	operator, everything := access.Operator, access.Scope{}
	for name, test := range map[string]struct {
		change func(*site) error
		ends   bool
	}{
		"disabled": {func(s *site) error {
			_, err := s.Update(s.t.Context(), "ana", people.Change{Disabled: &disabled})
			return err
		}, true},
		"another role": {func(s *site) error {
			_, err := s.Update(s.t.Context(), "ana", people.Change{Role: &viewer})
			return err
		}, true},
		"another scope": {func(s *site) error {
			_, err := s.Update(s.t.Context(), "ana", people.Change{Scope: &scope})
			return err
		}, true},
		"the same role and scope": {func(s *site) error {
			_, err := s.Update(s.t.Context(), "ana", people.Change{Role: &operator, Scope: &everything})
			return err
		}, false},
		"deleted": {func(s *site) error { return s.Delete(s.t.Context(), "ana") }, true},
		"a new password": {func(s *site) error {
			return s.SetPassword(s.t.Context(), "ana", "battery staple")
		}, true},
		"an own new password": {func(s *site) error {
			return s.ChangePassword(s.t.Context(), "ana", password, "battery staple")
		}, true},
		"a passkey": {func(s *site) error {
			return s.ChangePasskeys(s.t.Context(), "ana", func(held []json.RawMessage) ([]json.RawMessage, error) {
				return append(held, json.RawMessage(`{}`)), nil
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.setUp()
			s.create("ana", access.Operator)
			admin, first, second := s.logIn("admin"), s.logIn("ana"), s.logIn("ana")
			require.NoError(t, test.change(s))
			for range 2 { // in memory and in the store
				require.Equal(t, !test.ends, s.loggedIn(first))
				require.Equal(t, !test.ends, s.loggedIn(second))
				require.True(t, s.loggedIn(admin))
				s.restart(s.clock.Now())
			}
		})
	}
}

func TestStartSession_ofAChangedAccount(t *testing.T) {
	s := newSite(t)
	s.setUp()
	s.create("ana", access.Operator)
	verified, err := s.LogIn(t.Context(), "ana", password)
	require.NoError(t, err)
	require.NoError(t, s.SetPassword(t.Context(), "ana", "battery staple"))
	_, _, err = s.StartSession(t.Context(), verified, people.Client{})
	require.ErrorIs(t, err, people.ErrCredentials)

	verified, err = s.LogIn(t.Context(), "ana", "battery staple")
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), "ana"))
	s.create("ana", access.Administrator)
	_, _, err = s.StartSession(t.Context(), verified, people.Client{})
	require.ErrorIs(t, err, people.ErrCredentials, "another account with the same name")
}

func TestLastAdministrator_stays(t *testing.T) {
	s := newSite(t)
	s.setUp()
	s.create("ana", access.Operator)
	s.create("limited", access.Viewer)
	admin, limited := access.Administrator, access.Scope{Clusters: []string{"c1"}}
	_, err := s.Update(t.Context(), "limited", people.Change{Role: &admin, Scope: &limited})
	require.NoError(t, err)
	_, err = s.LogInExternal(t.Context(), people.External{Issuer: "https://idp", Subject: "7"},
		people.NewAccount{Name: "external", Role: access.Administrator})
	require.NoError(t, err)
	session := s.logIn("admin")
	viewer, disabled := access.Viewer, true
	attempts := map[string]func() error{
		"delete": func() error { return s.Delete(t.Context(), "admin") },
		"demote": func() error {
			_, err := s.Update(t.Context(), "admin", people.Change{Role: &viewer})
			return err
		},
		"disable": func() error {
			_, err := s.Update(t.Context(), "admin", people.Change{Disabled: &disabled})
			return err
		},
		"limit": func() error {
			_, err := s.Update(t.Context(), "admin", people.Change{Scope: &limited})
			return err
		},
	}
	for name, attempt := range attempts {
		t.Run(name, func(t *testing.T) {
			err := attempt()
			require.ErrorIs(t, err, people.ErrLastAdministrator)
			require.Equal(t, fault.Conflict, fault.KindOf(err))
			require.True(t, s.loggedIn(session))
		})
	}
	_, err = s.Update(t.Context(), "ana", people.Change{Role: &admin})
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), "admin"))
	require.ErrorIs(t, s.Delete(t.Context(), "ana"), people.ErrLastAdministrator)
}

func TestLastAdministrator_concurrentDemotions(t *testing.T) {
	s := newSite(t)
	s.setUp()
	names := []string{"admin", "a1", "a2", "a3"}
	for _, name := range names[1:] {
		s.create(name, access.Administrator)
	}
	viewer := access.Viewer
	var demotions sync.WaitGroup
	for i, name := range names {
		demotions.Go(func() {
			if i%2 == 0 {
				_ = s.Delete(context.Background(), name)
			} else {
				_, _ = s.Update(context.Background(), name, people.Change{Role: &viewer})
			}
		})
	}
	demotions.Wait()
	administrators := 0
	for _, account := range s.Accounts() {
		if account.Role == access.Administrator {
			administrators++
		}
	}
	require.Equal(t, 1, administrators)
}

func TestChangePassword(t *testing.T) {
	s := newSite(t)
	s.setUp()
	require.ErrorIs(t, s.ChangePassword(t.Context(), "admin", "wrong horse", "battery staple"), people.ErrCredentials)
	made, err := s.LogInExternal(t.Context(), people.External{Issuer: "https://idp", Subject: "7"},
		people.NewAccount{Name: "olga", Role: access.Viewer})
	require.NoError(t, err)
	require.ErrorContains(t, s.ChangePassword(t.Context(), made.Name, password, "battery staple"),
		"its owner logs in at https://idp")
	require.Equal(t, fault.Invalid, fault.KindOf(s.ChangePassword(t.Context(), "admin", password, "short")))
	require.NoError(t, s.ChangePassword(t.Context(), "admin", password, "battery staple"))
	_, err = s.LogIn(t.Context(), "admin", password)
	require.ErrorIs(t, err, people.ErrCredentials)
	_, err = s.LogIn(t.Context(), "admin", "battery staple")
	require.NoError(t, err)
}

func TestLogInExternal(t *testing.T) {
	s := newSite(t)
	idp := people.External{Issuer: "https://idp", Subject: "7"}
	ctx := t.Context()
	wanted := people.NewAccount{Name: "Eve", Role: access.Viewer}
	_, err := s.LogInExternal(ctx, idp, wanted)
	require.Equal(t, fault.Conflict, fault.KindOf(err), "the first administrator needs the setup code")
	s.setUp()

	eve, err := s.LogInExternal(ctx, idp, wanted)
	require.NoError(t, err)
	require.Equal(t, "eve", eve.Name)
	secret, _, err := s.StartSession(ctx, eve, people.Client{})
	require.NoError(t, err)

	wanted.Name = "renamed"
	again, err := s.LogInExternal(ctx, idp, wanted)
	require.NoError(t, err)
	require.Equal(t, eve.ID, again.ID, "issuer and subject identify the account")
	require.True(t, s.loggedIn(secret))

	wanted.Role = access.Operator
	again, err = s.LogInExternal(ctx, idp, wanted)
	require.NoError(t, err)
	require.Equal(t, access.Operator, again.Role)
	require.False(t, s.loggedIn(secret), "the role is another one")

	_, err = s.LogInExternal(ctx, people.External{Issuer: "https://other", Subject: "7"},
		people.NewAccount{Name: "admin", Role: access.Administrator})
	require.EqualError(t, err, `the account "admin" exists already; choose another name`)
	wanted.Role = access.None
	_, err = s.LogInExternal(ctx, idp, wanted)
	require.Equal(t, fault.Forbidden, fault.KindOf(err))
	err = s.SetPassword(ctx, "eve", "battery staple")
	require.EqualError(t, err, `the account "eve" has no password here; its owner logs in at https://idp`)
	disabled := true
	_, err = s.Update(ctx, "eve", people.Change{Disabled: &disabled})
	require.NoError(t, err)
	wanted.Role = access.Viewer
	_, err = s.LogInExternal(ctx, idp, wanted)
	require.ErrorIs(t, err, people.ErrCredentials)
}

// Neither the files of the data directory nor the log contain a password, a session's secret or a
// used code.
func TestSecrets_areNotStored(t *testing.T) {
	s := newSite(t)
	code, err := s.SetupCode()
	require.NoError(t, err)
	s.setUp()
	secret := s.logIn("admin")
	_, err = s.LogIn(t.Context(), "admin", "wrong horse")
	require.Error(t, err)
	require.NoError(t, s.db.Close())
	require.NoError(t, filepath.WalkDir(s.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, planted := range []string{password, secret, code} {
			require.NotContains(t, string(content), planted, path)
		}
		return err
	}))
	require.NotContains(t, s.log.String(), password)
	require.NotContains(t, s.log.String(), secret)
}
