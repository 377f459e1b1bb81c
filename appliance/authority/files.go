package authority

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// Files are the paths of a certificate that the site provides. They are read again when they
// change.
type Files struct {
	Certificate string // PEM: the server certificate first, then the certificates that signed it
	Key         string // PEM
}

// version identifies a content of the files without reading them.
type version [2]struct {
	size     int64
	modified time.Time
}

func (f Files) version() (v version, err error) {
	for i, path := range []string{f.Certificate, f.Key} {
		info, err := os.Stat(path)
		if err != nil {
			return version{}, err
		}
		v[i].size, v[i].modified = info.Size(), info.ModTime()
	}
	return v, nil
}

// load reads and checks the files. An error is a sentence that names the file and the problem.
func (f Files) load(now time.Time) (*tls.Certificate, error) {
	chain, err := os.ReadFile(f.Certificate)
	if err != nil {
		return nil, fmt.Errorf("read tls.cert_file: %w", err)
	}
	key, err := os.ReadFile(f.Key)
	if err != nil {
		return nil, fmt.Errorf("read tls.key_file: %w", err)
	}
	if !contains(chain, certificateType) {
		return nil, fmt.Errorf("%s (tls.cert_file) contains no certificate in PEM; the first block must be the "+
			"server's certificate", f.Certificate)
	}
	if contains(key, "ENCRYPTED PRIVATE KEY") {
		return nil, fmt.Errorf("%s (tls.key_file) contains an encrypted key; store the key without a passphrase, "+
			"for example with openssl pkey", f.Key)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s (tls.cert_file) and %s (tls.key_file) can't be used together: %w; the key must "+
			"belong to the first certificate", f.Certificate, f.Key, err)
	}
	leaf := pair.Leaf
	if now.After(leaf.NotAfter) {
		return nil, fmt.Errorf("%s (tls.cert_file) expired on %s; replace it, or correct this machine's clock",
			f.Certificate, leaf.NotAfter.Format(time.DateOnly))
	}
	if len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 {
		return nil, fmt.Errorf("%s (tls.cert_file) has no subject alternative names; clients accept no other kind "+
			"of names", f.Certificate)
	}
	return &pair, nil
}

func contains(content []byte, kind string) bool {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == kind {
			return true
		}
	}
	return false
}

// anchors returns the certificates with which a client verifies a certificate of the site: those
// in bundle (PEM) if they sign it, otherwise the end of its chain or the system's CA. It returns an
// error if the signer is unknown.
func anchors(pair *tls.Certificate, bundle []byte) ([]byte, error) {
	leaf := pair.Leaf
	given, between := x509.NewCertPool(), x509.NewCertPool()
	given.AppendCertsFromPEM(bundle)
	var last *x509.Certificate
	for _, der := range pair.Certificate[1:] {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("read the chain in tls.cert_file: %w", err)
		}
		between.AddCert(certificate)
		last = certificate
	}
	// The time is the end of the certificate's validity, so that a wrong clock has no effect.
	options := x509.VerifyOptions{Intermediates: between, Roots: given, CurrentTime: leaf.NotAfter,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if len(bundle) > 0 {
		if _, err := leaf.Verify(options); err == nil {
			return bundle, nil
		}
	}
	options.Roots = nil // the system's
	if chains, err := leaf.Verify(options); err == nil {
		chain := chains[0]
		return encode(chain[len(chain)-1]), nil
	}
	switch {
	case len(bundle) > 0:
		return nil, errors.New("the certificates in tls.ca_file did not sign the certificate in tls.cert_file")
	case last != nil && last.IsCA:
		return encode(last), nil
	case leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) == nil:
		return encode(leaf), nil // self-signed
	}
	return nil, errors.New("the CA that signed the certificate in tls.cert_file is unknown; set tls.ca_file to its " +
		"certificate, so that hosts can verify the appliance")
}
