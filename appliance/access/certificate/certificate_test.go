package certificate_test

import (
	"crypto/x509"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/fault"
)

func TestVerifier_roleAndScopeFollowOrganizations(t *testing.T) {
	s := newSite(t, nil)
	for name, c := range map[string]struct {
		groups []string
		want   access.Identity
	}{
		"viewer":        {[]string{"staff"}, access.Identity{Role: access.Viewer}},
		"largest role":  {[]string{"staff", "crew"}, access.Identity{Role: access.Operator}},
		"administrator": {[]string{"landfall:admin"}, access.Identity{Role: access.Administrator}},
		"limited": {[]string{"crew", "deck 1"}, access.Identity{Role: access.Operator,
			Scope: access.Scope{Clusters: []string{"a"}}}},
		"agent 11111111": {[]string{"crew"}, access.Identity{Role: access.Operator}},
		"system:admin":   {[]string{"staff"}, access.Identity{Role: access.Viewer}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Kind, c.want.Name, c.want.Certificate = access.Program, name, "BEEF"
			presented := []*x509.Certificate{s.client(name, c.groups)}
			for range 2 { // verified, and remembered
				got, err := s.Identify(presented)
				require.NoError(t, err)
				require.Equal(t, c.want, got)
			}
		})
	}
}

// TestVerifier_refusals goes through certificates that are not accepted. Each refusal says what is
// wrong.
func TestVerifier_refusals(t *testing.T) {
	s := newSite(t, nil)
	foreign := newAuthority(t, nil, "foreign")
	imitated := newAuthority(t, nil, "programs")
	limited := newAuthority(t, s.signer, "for servers", func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	ended := newAuthority(t, s.signer, "ended", func(c *x509.Certificate) { c.NotAfter = today.Add(-time.Hour) })
	noSigner, key := issue(t, s.signer, clientTemplate("no authority", []string{"crew"}))
	notCA := &signer{t, noSigner, key}
	self, _ := issue(t, nil, clientTemplate("ci", []string{"landfall:admin"}))
	crew := []string{"crew"}
	altered := *s.client("ci", crew)
	altered.RawTBSCertificate = []byte(strings.Replace(string(altered.RawTBSCertificate), "crew", "boss", 1))
	many := []*x509.Certificate{s.client("ci", crew)}
	for range 8 {
		many = append(many, foreign.certificate)
	}
	for name, c := range map[string]struct {
		presented []*x509.Certificate
		reason    string
	}{
		"expired": {[]*x509.Certificate{s.client("ci", crew, func(c *x509.Certificate) {
			c.NotAfter = today.Add(-time.Second)
		})}, `the client certificate "ci" expired at 2026-03-01T11:59:59Z`},
		"not yet valid": {[]*x509.Certificate{s.client("ci", crew, func(c *x509.Certificate) {
			c.NotBefore = today.Add(time.Second)
		})}, "is valid from 2026-03-01T12:00:01Z, but the appliance's clock shows 2026-03-01T12:00:00Z"},
		"for servers": {[]*x509.Certificate{s.client("ci", crew, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})}, "extended key usage clientAuth"},
		"without usage": {[]*x509.Certificate{s.client("ci", crew, func(c *x509.Certificate) { c.ExtKeyUsage = nil })},
			"extended key usage clientAuth"},
		"foreign": {[]*x509.Certificate{foreign.client("ci", crew)}, `(its issuer is "CN=foreign")`},
		"foreign with chain": {[]*x509.Certificate{foreign.client("ci", crew), foreign.certificate},
			"no authority in tls.client_ca_file signed"},
		"imitated authority": {[]*x509.Certificate{imitated.client("ci", crew), imitated.certificate},
			"no authority in tls.client_ca_file signed"},
		"self-signed": {[]*x509.Certificate{self}, "no authority in tls.client_ca_file signed"},
		"altered":     {[]*x509.Certificate{&altered}, "no authority in tls.client_ca_file signed"},
		"authority for servers": {[]*x509.Certificate{limited.client("ci", crew), limited.certificate},
			"cannot be verified"},
		"missing intermediate": {[]*x509.Certificate{newAuthority(t, s.signer, "between").client("ci", crew)},
			"send the certificates of intermediate authorities"},
		"ended authority": {[]*x509.Certificate{ended.client("ci", crew), ended.certificate},
			`the certificate of "ended", an authority of the client certificate "ci"`},
		"signed by a program": {[]*x509.Certificate{notCA.client("ci", crew), noSigner},
			"no authority in tls.client_ca_file signed"},
		"no name": {[]*x509.Certificate{s.client("", crew)},
			"the common name of the client certificate with the serial number BEEF is unusable: the name is empty"},
		"line end in the name": {[]*x509.Certificate{s.client("a\nlevel=ERROR", crew)}, `"a\nlevel=ERROR"`},
		"too many":             {many, "the client sent 9 certificates"},
		"none":                 {nil, "the client sent 0 certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got, err := s.Identify(c.presented)
				require.ErrorContains(t, err, c.reason)
				require.Equal(t, fault.Unauthenticated, fault.KindOf(err), err)
				require.Zero(t, got)
				require.NotContains(t, err.Error(), "\n")
			}
		})
	}
}

// TestVerifier_withoutRole also checks that a certificate of a cluster's node has no role.
func TestVerifier_withoutRole(t *testing.T) {
	s := newSite(t, nil)
	for groups, reason := range map[string]string{"": "(groups: none)", "system:nodes": "(groups: system:nodes)",
		"Landfall:Admin": "(groups: Landfall:Admin)", "deck 1": "(groups: deck 1)"} {
		var organizations []string
		if groups != "" {
			organizations = []string{groups}
		}
		got, err := s.Identify([]*x509.Certificate{s.client("ci", organizations)})
		require.ErrorContains(t, err, "none of the groups of ci is in tls.client_roles")
		require.ErrorContains(t, err, reason)
		require.Equal(t, fault.Forbidden, fault.KindOf(err))
		require.Equal(t, access.None, got.Role)
		require.Equal(t, "ci", got.Name, "the audit trail names it")
	}
}

// TestVerifier_checksTimeAtEachRequest moves the clock over the end of a remembered certificate,
// and to 1970.
func TestVerifier_checksTimeAtEachRequest(t *testing.T) {
	s := newSite(t, nil)
	presented := []*x509.Certificate{s.client("ci", []string{"crew"}, func(c *x509.Certificate) {
		c.NotAfter = today.Add(time.Minute)
	})}
	_, err := s.Identify(presented)
	require.NoError(t, err)
	s.clock.Advance(59 * time.Second)
	_, err = s.Identify(presented)
	require.NoError(t, err)
	s.clock.Advance(2 * time.Second)
	_, err = s.Identify(presented)
	require.ErrorContains(t, err, "expired at")
	s.clock.Advance(time.Unix(0, 0).Sub(s.clock.Now()))
	_, err = s.Identify(presented)
	require.ErrorContains(t, err, "but the appliance's clock shows 1970-01-01T00:00:00Z; correct the clock")
	s.clock.Advance(today.Sub(s.clock.Now()))
	_, err = s.Identify(presented)
	require.NoError(t, err, "a correct clock makes it valid at once")
}

func TestVerifier_intermediateAuthority(t *testing.T) {
	s := newSite(t, nil)
	between := newAuthority(t, s.signer, "between")
	client := between.client("ci", []string{"crew"})
	got, err := s.Identify([]*x509.Certificate{client, between.certificate})
	require.NoError(t, err)
	require.Equal(t, access.Operator, got.Role)
}

func TestVerifier_revoked(t *testing.T) {
	month := today.AddDate(0, 1, 0)
	for name, lists := range map[string]func(*signer) []byte{
		"in PEM":    func(s *signer) []byte { return inPEM("X509 CRL", s.list(month, 7)) },
		"in DER":    func(s *signer) []byte { return s.list(month, 7) },
		"two lists": func(s *signer) []byte { return inPEM("X509 CRL", s.list(month, 7), s.list(month)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, lists)
			_, err := s.Identify([]*x509.Certificate{s.client("ci", []string{"crew"})})
			require.NoError(t, err)
			_, err = s.Identify([]*x509.Certificate{s.client("ci", []string{"crew"}, func(c *x509.Certificate) {
				c.SerialNumber = big.NewInt(7)
			})})
			require.ErrorContains(t, err, "(serial number 7) was revoked at 2026-02-28T12:00:00Z")
			require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
		})
	}
	t.Run("an intermediate authority", func(t *testing.T) {
		s := newSite(t, func(s *signer) []byte { return s.list(month, 9) })
		between := newAuthority(t, s.signer, "between", func(c *x509.Certificate) { c.SerialNumber = big.NewInt(9) })
		_, err := s.Identify([]*x509.Certificate{between.client("ci", []string{"crew"}), between.certificate})
		require.ErrorContains(t, err,
			`the certificate of "between", an authority of the client certificate "ci", was revoked`)
	})
}

// TestVerifier_endedRevocationList checks that an old list, which may lack revocations, permits
// nothing. The refusal ends when the list is replaced.
func TestVerifier_endedRevocationList(t *testing.T) {
	s := newSite(t, func(s *signer) []byte { return s.list(today.Add(time.Hour)) })
	presented := []*x509.Certificate{s.client("ci", []string{"crew"})}
	check := s.run()
	_, err := s.Identify(presented)
	require.NoError(t, err)
	s.clock.Advance(time.Hour)
	_, err = s.Identify(presented)
	require.ErrorContains(t, err,
		`the revocation list of "programs" in tls.client_crl_file ended at 2026-03-01T13:00:00Z`)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.Equal(t, "the revocation list of CN=programs in tls.client_crl_file", s.Validities()[1].Subject)
	require.Equal(t, today.Add(time.Hour), s.Validities()[1].Until)

	s.write(s.options.CRLFile, s.list(today.AddDate(0, 1, 0)))
	require.Eventually(t, func() bool {
		check()
		_, err = s.Identify(presented)
		return err == nil
	}, time.Minute, time.Millisecond)
}

// TestVerifier_rereadsFiles replaces the authority and the revocation list of a running appliance,
// also by files that cannot be used.
func TestVerifier_rereadsFiles(t *testing.T) {
	s := newSite(t, func(s *signer) []byte { return s.list(today.AddDate(0, 1, 0)) })
	old := []*x509.Certificate{s.client("ci", []string{"crew"})}
	_, err := s.Identify(old)
	require.NoError(t, err)
	check := s.run()
	until := func(what string, condition func() bool) {
		t.Helper()
		require.Eventually(t, func() bool { check(); return condition() }, time.Minute, time.Millisecond, what)
	}
	for garbage, reason := range map[string]string{"": "contains no certificate in PEM",
		"x": "contains no certificate in PEM",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n": "cannot be read"} {
		s.write(s.options.CAFile, []byte(garbage))
		until(reason, func() bool { return strings.Contains(s.Problem(), reason) })
		_, err = s.Identify(old)
		require.NoError(t, err, "the previous authority remains in use")
	}
	s.write(s.options.CAFile, s.pem())
	until("recovered", func() bool { return s.Problem() == "" })

	s.write(s.options.CRLFile, s.list(today.AddDate(0, 1, 0), 0xbeef))
	until("revoked", func() bool { _, err = s.Identify(old); return err != nil })
	require.ErrorContains(t, err, "was revoked")

	next := newAuthority(t, nil, "next")
	s.write(s.options.CRLFile, next.list(today.AddDate(0, 1, 0)))
	s.write(s.options.CAFile, next.pem())
	until("replaced", func() bool { _, err = s.Identify(old); return strings.Contains(err.Error(), "no authority") })
	_, err = s.Identify([]*x509.Certificate{next.client("ci", []string{"crew"})})
	require.NoError(t, err)
}

func TestVerifier_cacheIsBounded(t *testing.T) {
	s := newSite(t, nil)
	first := []*x509.Certificate{s.client("first", []string{"crew"})}
	for i := range 1100 {
		_, err := s.Identify([]*x509.Certificate{s.client(fmt.Sprint("ci ", i), []string{"crew"})})
		require.NoError(t, err)
	}
	got, err := s.Identify(first)
	require.NoError(t, err)
	require.Equal(t, "first", got.Name)
}

// BenchmarkIdentify measures the check of a known certificate. The limit is 5 µs.
func BenchmarkIdentify(b *testing.B) {
	s := newSite(b, func(s *signer) []byte { return s.list(today.AddDate(0, 1, 0)) })
	presented := []*x509.Certificate{s.client("ci", []string{"crew"})}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Identify(presented); err != nil {
			b.Fatal(err)
		}
	}
}
