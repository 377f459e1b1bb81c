package ldap_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	protocol "github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/access/ldap"
	accounts "landfall/appliance/access/people"
	"landfall/appliance/fault"
)

func (s *fakeServer) options(t *testing.T) ldap.Options {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("service\n"), 0o600))
	return ldap.Options{
		URLs: []string{s.url()}, CABundle: s.ca, BindDN: service, BindPasswordFile: password, BaseDN: people,
		UserFilter: "(uid={name})", NameAttribute: "uid", GroupAttribute: "memberOf",
		Rules: external.Rules{Operators: []string{"crew"}},
	}
}

func (s *fakeServer) logIn(t *testing.T, name, password string) (external.Person, error) {
	t.Helper()
	directory, err := ldap.New(s.options(t))
	require.NoError(t, err)
	return directory.LogIn(t.Context(), name, password)
}

func TestLogIn_person(t *testing.T) {
	for name, secure := range map[string]bool{"ldaps": true, "StartTLS": false} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, func(s *fakeServer) { s.secure = secure })
			person, err := s.logIn(t, "ana", "secret")
			require.NoError(t, err)
			require.Equal(t, external.Person{Issuer: "ldap:ou=people,dc=site", Subject: "b1", Name: "ana",
				Groups: []string{crew}, Role: access.Operator}, person)
			require.Equal(t, []string{service, ana}, s.binds)
			_, err = s.logIn(t, "ana", "wrong")
			require.ErrorIs(t, err, accounts.ErrCredentials)
		})
	}
}

func TestLogIn_unknownNameIsLikeWrongPassword(t *testing.T) {
	s := startServer(t, nil)
	_, err := s.logIn(t, "bob", "secret")
	require.ErrorIs(t, err, accounts.ErrCredentials)
	require.Len(t, s.binds, 2, "as many requests as for a wrong password")
	require.NotEqual(t, ana, s.binds[1])

	s = startServer(t, func(s *fakeServer) { s.bind = func(string, string) (int, string) { return 0, "" } })
	person, err := s.logIn(t, "bob", "secret")
	require.ErrorIs(t, err, accounts.ErrCredentials, "a directory that accepts everything")
	require.Zero(t, person)
}

// A bind with an empty password or an empty DN succeeds without authentication.
func TestLogIn_neverBindsWithoutPassword(t *testing.T) {
	s := startServer(t, func(s *fakeServer) { s.bind = func(string, string) (int, string) { return 0, "" } })
	for name, given := range map[string][2]string{
		"no password": {"ana", ""}, "no name": {"", "secret"}, "neither": {"", ""},
		"a long name": {strings.Repeat("a", 257), "x"}, "a long password": {"ana", strings.Repeat("a", 1025)},
		"not UTF-8": {"\xff", "x"}, "a zero byte": {"ana\x00", "x"},
	} {
		_, err := s.logIn(t, given[0], given[1])
		require.ErrorIs(t, err, accounts.ErrCredentials, name)
	}
	require.Empty(t, s.binds, "nothing was sent")
	for _, dn := range []string{"", "uid=ana,dc=elsewhere", people, "not a DN"} {
		s := startServer(t, func(s *fakeServer) {
			s.search = func(string, string) ([]entry, int) {
				e := anaEntry()
				e.dn = dn
				return []entry{e}, 0
			}
		})
		_, err := s.logIn(t, "ana", "secret")
		require.ErrorContains(t, err, "which is not below ldap.base_dn", dn)
		require.Equal(t, []string{service}, s.binds, "no password went to %q", dn)
	}
}

func TestLogIn_nameCannotChangeTheFilter(t *testing.T) {
	for name, filter := range map[string]string{
		"*":                `(uid=\2a)`,
		"ana)(uid=*":       `(uid=ana\29\28uid=\2a)`,
		"a*)(|(password=*": `(uid=a\2a\29\28|\28password=\2a)`,
		`\2a`:              `(uid=\5c2a)`,
		"{dn}":             "(uid={dn})",
		"ana,dc=site":      "(uid=ana,dc=site)",
		"José":             `(uid=Jos\c3\a9)`,
	} {
		s := startServer(t, nil)
		_, err := s.logIn(t, name, "secret")
		require.ErrorIs(t, err, accounts.ErrCredentials)
		require.Equal(t, []string{filter}, s.found)
	}
}

func TestLogIn_groups(t *testing.T) {
	for name, test := range map[string]struct {
		rule, attribute, filter string
		role                    access.Role
	}{
		"by CN":                {"crew", "memberOf", "", access.Operator},
		"by CN, another case":  {"Crew", "memberof", "", access.Operator},
		"by DN":                {"CN=crew, OU=groups, DC=site", "memberOf", "", access.Operator},
		"another DN":           {"cn=crew,ou=others,dc=site", "memberOf", "", access.None},
		"a part of the CN":     {"cre", "memberOf", "", access.None},
		"another part":         {"groups", "memberOf", "", access.None},
		"by search":            {"divers", "", "(member={dn})", access.Operator},
		"by search for a name": {"divers", "", "(memberUid={name})", access.Operator},
		"both":                 {"crew", "memberOf", "(member={dn})", access.Operator},
		"none":                 {"crew", "", "", access.None},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, func(s *fakeServer) {
				s.search = func(base, filter string) ([]entry, int) {
					switch {
					case base == people && filter == "(uid=ana)":
						return []entry{anaEntry()}, 0
					case base == "ou=groups,dc=site" && (filter == "(member="+ana+")" || filter == "(memberUid=ana)"):
						return []entry{{dn: "cn=divers,ou=groups,dc=site"}}, 0
					}
					return nil, 0
				}
			})
			options := s.options(t)
			options.GroupAttribute, options.GroupFilter, options.GroupBaseDN = test.attribute, test.filter,
				"ou=groups,dc=site"
			options.Rules.Operators = []string{test.rule}
			directory, err := ldap.New(options)
			require.NoError(t, err)
			person, err := directory.LogIn(t.Context(), "ana", "secret")
			require.Equal(t, test.role, person.Role)
			if test.role == access.None {
				require.Equal(t, fault.Forbidden, fault.KindOf(err))
				require.ErrorContains(t, err,
					"ana has no role at this appliance: none of the groups of ana is in ldap.roles")
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestLogIn_subjectOutlivesTheDN(t *testing.T) {
	for attribute, test := range map[string]struct{ value, want string }{
		"entryUUID":  {"b1", "b1"},
		"objectGUID": {"\x00\x01\xff", "0001ff"},
		"nsuniqueid": {"7", "7"},
		"other":      {"7", "uid=ana,ou=people,dc=site"},
	} {
		s := startServer(t, func(s *fakeServer) {
			s.search = func(string, string) ([]entry, int) {
				return []entry{{ana, map[string][]string{"UID": {"ana"}, attribute: {test.value}, "memberOf": {crew}}}},
					0
			}
		})
		person, err := s.logIn(t, "ana", "secret")
		require.NoError(t, err)
		require.Equal(t, test.want, person.Subject, attribute)
	}
}

// Each case is a directory that answers what it should not.
func TestLogIn_faults(t *testing.T) {
	found := func(entries ...entry) func(*fakeServer) {
		return func(s *fakeServer) { s.search = func(string, string) ([]entry, int) { return entries, 0 } }
	}
	code := func(code int) func(*fakeServer) {
		return func(s *fakeServer) { s.search = func(string, string) ([]entry, int) { return nil, code } }
	}
	raw := func(text string) func(*fakeServer) {
		return func(s *fakeServer) {
			s.raw = func(conn net.Conn) bool {
				_, _ = conn.Write([]byte(text))
				return true
			}
		}
	}
	binds := func(code int, message string) func(*fakeServer) {
		return func(s *fakeServer) {
			s.bind = func(dn, _ string) (int, string) {
				if dn == service {
					return 0, ""
				}
				return code, message
			}
		}
	}
	twin := anaEntry()
	twin.dn = "uid=ana,ou=guests," + people
	long := anaEntry()
	long.attributes["memberOf"] = []string{strings.Repeat("a", 5<<20)}
	for name, test := range map[string]struct {
		change func(*fakeServer)
		kind   fault.Kind
		want   string
	}{
		"two entries": {found(anaEntry(), twin), fault.Unavailable,
			`the directory has several entries for "ana"`},
		"many entries":    {found(anaEntry(), twin, twin, twin), fault.Unavailable, "several entries"},
		"two and a limit": {code(protocol.LDAPResultSizeLimitExceeded), fault.Unavailable, "several entries"},
		"time limit": {code(protocol.LDAPResultTimeLimitExceeded), fault.Unavailable,
			"ended the search for (uid=ana) at a limit"},
		"referral":        {code(protocol.LDAPResultReferral), fault.Unavailable, "name that server in ldap.url"},
		"no such subtree": {code(protocol.LDAPResultNoSuchObject), fault.Unavailable, "correct ldap.base_dn"},
		"search not allowed": {code(protocol.LDAPResultInsufficientAccessRights), fault.Unavailable,
			"set ldap.bind_dn to an account"},
		"busy": {code(protocol.LDAPResultBusy), fault.Unavailable,
			"the directory cannot be used at the moment"},
		"no name": {found(entry{dn: ana}), fault.Unavailable, "set ldap.name_attribute"},
		"invisible name": {found(entry{ana, map[string][]string{"uid": {"ana\u202e"}}}), fault.Unavailable,
			"the attribute uid of uid=ana,ou=people,dc=site is unusable"},
		"too much":       {found(long), fault.Unavailable, "the directory cannot be used at the moment"},
		"another server": {raw("HTTP/1.1 400 Bad Request\r\n\r\n"), fault.Unavailable, "cannot be used at the moment"},
		"closes":         {raw(""), fault.Unavailable, "cannot be used at the moment"},
		"no StartTLS": {func(s *fakeServer) { s.startTLS = protocol.LDAPResultProtocolError }, fault.Unavailable,
			"StartTLS failed"},
		"service account": {func(s *fakeServer) {
			s.bind = func(string, string) (int, string) { return protocol.LDAPResultInvalidCredentials, "" }
		}, fault.Unavailable, "the directory rejects the account cn=landfall,dc=site; correct ldap.bind_dn"},
		"expired password": {binds(49,
			"80090308: LdapErr: DSID-0C09044E, comment: AcceptSecurityContext error, data 532, v2580"),
			fault.Forbidden, "the password in the directory must be changed"},
		"disabled": {binds(49, "AcceptSecurityContext error, data 533, v2580"), fault.Forbidden, "is disabled"},
		"locked":   {binds(49, "AcceptSecurityContext error, data 775, v2580"), fault.Forbidden, "is locked"},
		"wrong": {binds(49, "AcceptSecurityContext error, data 52e, v2580"), fault.Forbidden,
			"the name or the password is wrong"},
		"unwilling": {binds(protocol.LDAPResultUnwillingToPerform, "not now"), fault.Unavailable,
			"the directory cannot be used at the moment"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, test.change)
			person, err := s.logIn(t, "ana", "secret")
			require.ErrorContains(t, err, test.want)
			require.Equal(t, test.kind, fault.KindOf(err))
			require.Equal(t, access.None, person.Role)
			require.NotContains(t, err.Error(), "secret")
			require.Less(t, len(err.Error()), 500)
		})
	}
}

func TestLogIn_passwordsNeedTLS(t *testing.T) {
	s := startServer(t, func(s *fakeServer) { s.startTLS = protocol.LDAPResultUnavailable })
	_, err := s.logIn(t, "ana", "secret")
	require.ErrorContains(t, err, "StartTLS failed")
	require.Empty(t, s.binds)
	options := s.options(t)
	options.Plain = true
	directory, err := ldap.New(options)
	require.NoError(t, err)
	_, err = directory.LogIn(t.Context(), "ana", "secret")
	require.NoError(t, err)

	for _, secure := range []bool{true, false} {
		s = startServer(t, func(s *fakeServer) { s.secure = secure })
		options = s.options(t)
		options.CABundle = ""
		directory, err = ldap.New(options)
		require.NoError(t, err)
		_, err = directory.LogIn(t.Context(), "ana", "secret")
		require.ErrorContains(t, err, "certificate signed by unknown authority")
		require.Empty(t, s.binds)
	}
}

func TestLogIn_secondServer(t *testing.T) {
	down, up := startServer(t, nil), startServer(t, nil)
	require.NoError(t, down.Close())
	options := up.options(t)
	options.URLs = []string{down.url(), up.url()}
	directory, err := ldap.New(options)
	require.NoError(t, err)
	_, err = directory.LogIn(t.Context(), "ana", "secret")
	require.NoError(t, err)
	_, err = directory.LogIn(t.Context(), "ana", "wrong")
	require.ErrorIs(t, err, accounts.ErrCredentials)
	require.NoError(t, up.Close())
	_, err = directory.LogIn(t.Context(), "ana", "secret")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	for _, s := range []*fakeServer{down, up} {
		require.ErrorContains(t, err, s.Addr().String()+": ")
	}
	require.ErrorContains(t, err, "try again later, or log in with a local account")
}

func TestLogIn_silentServerEndsWithTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := startServer(t, func(s *fakeServer) {
		s.raw = func(conn net.Conn) bool {
			cancel()
			_, err := fmt.Fscan(conn, new(string), new(string)) // until the client ends
			return err != nil
		}
	})
	directory, err := ldap.New(s.options(t))
	require.NoError(t, err)
	_, err = directory.LogIn(ctx, "ana", "secret")
	require.ErrorIs(t, err, context.Canceled)
}

func TestNew_invalidOptions(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*ldap.Options)
		want   string
	}{
		"no URL":       {func(o *ldap.Options) { o.URLs = nil }, "ldap.url is missing"},
		"https":        {func(o *ldap.Options) { o.URLs = []string{"https://a"} }, "write ldaps://HOST"},
		"with a DN":    {func(o *ldap.Options) { o.URLs = []string{"ldap://a/dc=site"} }, "write ldaps://HOST"},
		"no base":      {func(o *ldap.Options) { o.BaseDN = "" }, "ldap.base_dn"},
		"base":         {func(o *ldap.Options) { o.BaseDN = "people" }, "ldap.base_dn"},
		"filter":       {func(o *ldap.Options) { o.UserFilter = "uid={name}" }, "ldap.user_filter is"},
		"fixed filter": {func(o *ldap.Options) { o.UserFilter = "(uid=ana)" }, "with {name} for the person's name"},
		"group filter": {func(o *ldap.Options) { o.GroupFilter = "(member={dn}" }, "ldap.group_filter is"},
		"no name":      {func(o *ldap.Options) { o.NameAttribute = "" }, "ldap.name_attribute is missing"},
		"no password":  {func(o *ldap.Options) { o.BindPasswordFile = "" }, "ldap.bind_password_file is missing"},
		"no CA":        {func(o *ldap.Options) { o.CABundle = "/none" }, "ldap.ca_bundle"},
	} {
		options := ldap.Options{URLs: []string{"ldaps://a"}, BindDN: service, BindPasswordFile: "x", BaseDN: people,
			UserFilter: "(uid={name})", NameAttribute: "uid"}
		_, err := ldap.New(options)
		require.NoError(t, err)
		test.change(&options)
		_, err = ldap.New(options)
		require.ErrorContains(t, err, test.want, name)
	}
	s := startServer(t, nil)
	options := s.options(t)
	require.NoError(t, os.Chmod(options.BindPasswordFile, 0o644))
	directory, err := ldap.New(options)
	require.NoError(t, err)
	_, err = directory.LogIn(t.Context(), "ana", "secret")
	require.ErrorContains(t, err, "ldap.bind_password_file cannot be used")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
}
