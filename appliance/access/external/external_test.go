package external_test

import (
	"encoding/pem"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/fault"
)

func TestRules_roleAndScopeFollowGroups(t *testing.T) {
	rules := external.Rules{
		Administrators: []string{"admins"}, Operators: []string{"crew", "night crew"}, Viewers: []string{"staff"},
		Scopes: []external.GroupScope{
			{Group: "deck 1", Scope: access.Scope{Clusters: []string{"a", "b"}}},
			{Group: "deck 2", Scope: access.Scope{Clusters: []string{"b"}, InfraEnvs: []string{"x"}}},
		},
		Same: strings.EqualFold,
	}
	for name, test := range map[string]struct {
		groups []string
		role   access.Role
		scope  access.Scope
	}{
		"one role":         {[]string{"others", "staff"}, access.Viewer, access.Scope{}},
		"the largest role": {[]string{"staff", "admins", "crew"}, access.Administrator, access.Scope{}},
		"another spelling": {[]string{"Night Crew"}, access.Operator, access.Scope{}},
		"a scope": {[]string{"crew", "deck 1"}, access.Operator, access.Scope{Clusters: []string{"a",
			"b"}}},
		"an administrator's too": {[]string{"admins", "deck 1"}, access.Administrator,
			access.Scope{Clusters: []string{"a", "b"}}},
		"two scopes": {[]string{"crew", "deck 2", "deck 1"}, access.Operator,
			access.Scope{Clusters: []string{"a", "b"}, InfraEnvs: []string{"x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			person, err := rules.Apply(external.Person{Name: "ana", Groups: test.groups}, "oidc.roles")
			require.NoError(t, err)
			require.Equal(t, access.Identity{Kind: access.Person, Name: "ana", Role: test.role, Scope: test.scope},
				person.Identity())
		})
	}
	for name, groups := range map[string][]string{
		"(groups: none)":                           nil,
		"(groups: a, deck 1)":                      {"a", "deck 1"},
		"groups: g, g, g, g, g, g, g, g, g, g and": strings.Split(strings.Repeat("g ", 30), " "),
	} {
		person, err := rules.Apply(external.Person{Name: "ana", Groups: groups}, "oidc.roles")
		require.Equal(t, fault.Forbidden, fault.KindOf(err))
		require.ErrorContains(t, err, "none of the groups of ana is in oidc.roles")
		require.ErrorContains(t, err, name)
		require.Equal(t, access.None, person.Role)
		require.Equal(t, "ana", person.Name)
	}
	_, err := external.Rules{}.Apply(external.Person{Groups: []string{"", "admin"}}, "ldap.roles")
	require.Error(t, err, "without rules, nobody has a role")
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"ana", "Ana María", "ana@example.com", "李", strings.Repeat("a", 256)} {
		require.NoError(t, external.CheckName(name), name)
	}
	for _, name := range []string{"", "ana\n", "a\x00", "a\u202eb", "\xff", strings.Repeat("a", 257)} {
		require.Error(t, external.CheckName(name), "%q", name)
	}
}

func TestReadSecret(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		mode fs.FileMode
		want string
	}{
		"empty":        {" \n", 0o600, "is empty; write the secret into it"},
		"open to all":  {"secret", 0o644, "has mode 0644, so other users may read it; set its mode to 0600"},
		"to the group": {"secret", 0o640, "has mode 0640"},
	} {
		path := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(path, []byte(test.text), test.mode))
		_, err := external.ReadSecret(path)
		require.ErrorContains(t, err, test.want, name)
		require.ErrorContains(t, err, path, name)
	}
	_, err := external.ReadSecret(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(" pass word\n"), 0o400))
	secret, err := external.ReadSecret(path)
	require.NoError(t, err)
	require.Equal(t, "pass word", secret)
}

// A credential of systemd has an access control list, which shows as rights of the group.
func TestReadSecret_credentialOfSystemd(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	path := filepath.Join(dir, "ldap-password")
	require.NoError(t, os.WriteFile(path, []byte("secret"), 0o440))
	secret, err := external.ReadSecret(path)
	require.NoError(t, err)
	require.Equal(t, "secret", secret)
	other := filepath.Join(t.TempDir(), "ldap-password")
	require.NoError(t, os.WriteFile(other, []byte("secret"), 0o440))
	_, err = external.ReadSecret(other)
	require.ErrorContains(t, err, "has mode 0440")
}

func TestAuthorities(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}), 0o600))
	system, err := external.Authorities("")
	require.NoError(t, err)
	pool, err := external.Authorities(path)
	require.NoError(t, err)
	require.False(t, pool.Equal(system))
	require.NoError(t, os.WriteFile(path, []byte("no certificate"), 0o600))
	_, err = external.Authorities(path)
	require.ErrorContains(t, err, path+" holds no CA certificate in PEM form")
	_, err = external.Authorities(path + ".none")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
