package certificate_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access/certificate"
)

// TestNew_badFiles goes through files with which the appliance does not start.
func TestNew_badFiles(t *testing.T) {
	authority, foreign := newAuthority(t, nil, "programs"), newAuthority(t, nil, "foreign")
	leaf := authority.client("ci", []string{"crew"})
	month := today.AddDate(0, 1, 0)
	for name, c := range map[string]struct {
		ca, crl []byte // nil: the file does not exist
		reason  string
	}{
		"no file":          {nil, nil, "no such file"},
		"empty":            {[]byte{}, nil, "contains no certificate in PEM"},
		"DER":              {authority.certificate.Raw, nil, "contains no certificate in PEM"},
		"a key":            {inPEM("PRIVATE KEY", []byte("x")), nil, "contains no certificate in PEM"},
		"cut off":          {inPEM("CERTIFICATE", authority.certificate.Raw[:200]), nil, "cannot be read"},
		"not an authority": {inPEM("CERTIFICATE", leaf.Raw), nil, "CN=ci,O=crew, which is not an authority"},
		"empty list":       {authority.pem(), []byte{}, "contains a revocation list that cannot be read"},
		"a word":           {authority.pem(), []byte("none"), "contains a revocation list that cannot be read"},
		"no list":          {authority.pem(), authority.pem(), "contains no revocation list"},
		"foreign list":     {authority.pem(), foreign.list(month), "that no authority in tls.client_ca_file signed"},
		"imitated list": {authority.pem(), newAuthority(t, nil, "programs").list(month),
			"that no authority in tls.client_ca_file signed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			options := certificate.Options{CAFile: filepath.Join(dir, "ca.pem")}
			if c.ca != nil {
				require.NoError(t, os.WriteFile(options.CAFile, c.ca, 0o600))
			}
			if c.crl != nil {
				options.CRLFile = filepath.Join(dir, "crl.pem")
				require.NoError(t, os.WriteFile(options.CRLFile, c.crl, 0o600))
			}
			_, err := certificate.New(options)
			require.ErrorContains(t, err, c.reason)
			require.ErrorContains(t, err, dir)
		})
	}
}

// TestNew_authorityWithoutList checks the warning about an authority whose certificates cannot be
// revoked.
func TestNew_authorityWithoutList(t *testing.T) {
	s := newSite(t, func(s *signer) []byte { return s.list(today.AddDate(0, 1, 0)) })
	require.NotContains(t, s.log.String(), "level=WARN")
	second := newAuthority(t, nil, "second")
	s.write(s.options.CAFile, append(s.pem(), second.pem()...))
	var err error
	s.Verifier, err = certificate.New(s.options)
	require.NoError(t, err)
	require.Contains(t, s.log.String(), "level=WARN")
	require.Contains(t, s.log.String(), `authority="CN=second" file=`)
	_, err = s.Identify([]*x509.Certificate{second.client("ci", []string{"crew"})})
	require.NoError(t, err)
}
