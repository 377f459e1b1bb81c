//go:build slapd

package ldaptest

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	protocol "github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/access/ldap"
	"landfall/appliance/access/people"
	"landfall/appliance/fault"
	"landfall/porttest"
)

const (
	admin   = "cn=admin,dc=site"
	service = "cn=landfall,dc=site"
)

// slapd is a running server with a few people.
type slapd struct {
	dir, address, secure string
	process              *exec.Cmd
	output               bytes.Buffer
}

func startSlapd(t *testing.T) *slapd {
	t.Helper()
	s := &slapd{dir: t.TempDir(), address: porttest.Reserve(t), secure: porttest.Reserve(t)}
	require.NoError(t, os.Mkdir(s.path("db"), 0o700))
	web := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	web.Close()
	key, err := x509.MarshalPKCS8PrivateKey(web.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	s.write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	s.write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	s.write(t, "service", "service's secret\n")
	s.write(t, "slapd.conf", fmt.Sprintf(`
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
pidfile %[1]s/pid
TLSCertificateFile %[1]s/cert.pem
TLSCertificateKeyFile %[1]s/key.pem
database mdb
suffix "dc=site"
rootdn "%[2]s"
rootpw adminsecret
directory %[1]s/db
overlay memberof
access to attrs=userPassword by anonymous auth by * none
access to dn.base="" by * read
access to * by dn.exact="%[3]s" read by * none
`, s.dir, admin, service))
	s.start(t)
	t.Cleanup(func() { s.stop(t) })
	s.fill(t)
	return s
}

func (s *slapd) path(name string) string { return filepath.Join(s.dir, name) }

func (s *slapd) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.path(name), []byte(text), 0o600))
}

func (s *slapd) start(t *testing.T) {
	t.Helper()
	s.process = exec.Command("/usr/sbin/slapd", "-d", "0", "-f", s.path("slapd.conf"),
		"-h", "ldap://"+s.address+"/ ldaps://"+s.secure+"/")
	s.process.Stderr = &s.output
	require.NoError(t, s.process.Start())
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", s.secure)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, time.Minute, 20*time.Millisecond, "slapd: %s", &s.output)
}

func (s *slapd) stop(t *testing.T) {
	t.Helper()
	if s.process == nil {
		return
	}
	require.NoError(t, s.process.Process.Signal(unix.SIGTERM))
	_ = s.process.Wait() // slapd's exit code depends on the signal
	s.process = nil
}

// admin returns a connection that may change the directory.
func (s *slapd) admin(t *testing.T) *protocol.Conn {
	t.Helper()
	conn, err := protocol.DialURL("ldap://" + s.address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.Bind(admin, "adminsecret"))
	return conn
}

func (s *slapd) fill(t *testing.T) {
	t.Helper()
	conn := s.admin(t)
	add := func(dn string, attributes map[string][]string) {
		t.Helper()
		request := protocol.NewAddRequest(dn, nil)
		for name, values := range attributes {
			request.Attribute(name, values)
		}
		require.NoError(t, conn.Add(request), dn)
	}
	person := func(dn, uid, password string) {
		t.Helper()
		add(dn, map[string][]string{"objectClass": {"inetOrgPerson"}, "uid": {uid}, "cn": {uid}, "sn": {uid},
			"userPassword": {password}})
	}
	unit := func(name string) {
		add("ou="+name+",dc=site", map[string][]string{"objectClass": {"organizationalUnit"}})
	}
	add("dc=site", map[string][]string{"objectClass": {"dcObject", "organization"}, "dc": {"site"}, "o": {"Site"}})
	add(service, map[string][]string{"objectClass": {"organizationalRole", "simpleSecurityObject"},
		"userPassword": {"service's secret"}})
	unit("people")
	unit("guests")
	unit("groups")
	person("uid=ana,ou=people,dc=site", "ana", "ana's secret")
	person("uid=bob,ou=people,dc=site", "bob", "bob's secret")
	person(`uid=o\2c (brien*),ou=people,dc=site`, "o, (brien*)", "a secret")
	person("uid=ana,ou=guests,dc=site", "ana", "another secret")
	add("cn=crew,ou=groups,dc=site", map[string][]string{"objectClass": {"groupOfNames"},
		"member": {"uid=ana,ou=people,dc=site", `uid=o\2c (brien*),ou=people,dc=site`}})
}

func (s *slapd) options() ldap.Options {
	return ldap.Options{
		URLs: []string{"ldaps://" + s.secure}, CABundle: s.path("cert.pem"), BindDN: service,
		BindPasswordFile: s.path("service"), BaseDN: "ou=people,dc=site", UserFilter: "(uid={name})",
		NameAttribute:  "uid",
		GroupAttribute: "memberOf", Rules: external.Rules{Operators: []string{"crew"}},
	}
}

func logIn(t *testing.T, options ldap.Options, name, password string) (external.Person, error) {
	t.Helper()
	directory, err := ldap.New(options)
	require.NoError(t, err)
	return directory.LogIn(t.Context(), name, password)
}

func TestSlapd(t *testing.T) {
	s := startSlapd(t)
	t.Run("ldaps and StartTLS, groups by attribute and by search", func(t *testing.T) {
		startTLS := s.options()
		startTLS.URLs = []string{"ldap://" + s.address}
		search := s.options()
		search.GroupAttribute, search.GroupBaseDN, search.GroupFilter = "", "ou=groups,dc=site", "(member={dn})"
		for _, options := range []ldap.Options{s.options(), startTLS, search} {
			for _, test := range []struct{ typed, name, password string }{
				{"ana", "ana", "ana's secret"}, {"ANA", "ana", "ana's secret"}, {"o, (brien*)", "o, (brien*)",
					"a secret"},
			} {
				person, err := logIn(t, options, test.typed, test.password)
				require.NoError(t, err)
				require.Equal(t, test.name, person.Name)
				require.Equal(t, access.Operator, person.Role)
				require.Equal(t, []string{"cn=crew,ou=groups,dc=site"}, person.Groups)
			}
		}
	})
	t.Run("wrong credentials", func(t *testing.T) {
		for _, given := range [][2]string{{"ana", "wrong"}, {"ana", ""}, {"", "ana's secret"}, {"*", "ana's secret"},
			{"an*", "ana's secret"}, {"ana)(uid=*", "ana's secret"}, {"nobody", "x"}, {"ana", "another secret"}} {
			_, err := logIn(t, s.options(), given[0], given[1])
			require.ErrorIs(t, err, people.ErrCredentials, "%q", given)
		}
	})
	t.Run("no group with a role", func(t *testing.T) {
		person, err := logIn(t, s.options(), "bob", "bob's secret")
		require.Equal(t, fault.Forbidden, fault.KindOf(err))
		require.ErrorContains(t, err, "bob has no role")
		require.Equal(t, access.None, person.Role)
	})
	t.Run("the name exists twice", func(t *testing.T) {
		options := s.options()
		options.BaseDN = "dc=site"
		_, err := logIn(t, options, "ana", "ana's secret")
		require.ErrorContains(t, err, `the directory has several entries for "ana"`)
	})
	t.Run("anonymous search is not permitted", func(t *testing.T) {
		options := s.options()
		options.BindDN = ""
		_, err := logIn(t, options, "ana", "ana's secret")
		require.ErrorContains(t, err, "correct ldap.base_dn, or let the account that searches read it")
	})
	t.Run("wrong base and wrong account", func(t *testing.T) {
		options := s.options()
		options.BaseDN = "ou=none,dc=site"
		_, err := logIn(t, options, "ana", "ana's secret")
		require.ErrorContains(t, err, "correct ldap.base_dn")
		options = s.options()
		options.BindDN = "cn=other,dc=site"
		_, err = logIn(t, options, "ana", "ana's secret")
		require.ErrorContains(t, err, "the directory rejects the account cn=other,dc=site")
	})
	t.Run("unknown authority", func(t *testing.T) {
		options := s.options()
		options.CABundle = ""
		_, err := logIn(t, options, "ana", "ana's secret")
		require.ErrorContains(t, err, "certificate signed by unknown authority")
	})
	t.Run("a renamed person keeps the account", func(t *testing.T) {
		before, err := logIn(t, s.options(), "ana", "ana's secret")
		require.NoError(t, err)
		rename := protocol.NewModifyDNRequest("uid=ana,ou=people,dc=site", "uid=anita", true, "")
		require.NoError(t, s.admin(t).ModifyDN(rename))
		after, err := logIn(t, s.options(), "anita", "ana's secret")
		require.NoError(t, err)
		require.Equal(t, "anita", after.Name)
		require.Equal(t, before.Subject, after.Subject)
		require.Equal(t, before.Issuer, after.Issuer)
	})
	t.Run("stopped and started again", func(t *testing.T) {
		s.stop(t)
		_, err := logIn(t, s.options(), "bob", "bob's secret")
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.ErrorContains(t, err, "connection refused")
		s.start(t)
		_, err = logIn(t, s.options(), "bob", "wrong")
		require.ErrorIs(t, err, people.ErrCredentials)
	})
}
