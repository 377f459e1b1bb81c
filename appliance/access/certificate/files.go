package certificate

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"time"

	"landfall/appliance/authority"
)

// version identifies a content of the files without reading them.
type version [2]struct {
	size     int64
	modified time.Time
}

func versionOf(caFile, crlFile string) (v version, err error) {
	for i, path := range []string{caFile, crlFile} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return version{}, fmt.Errorf("read the authorities of client certificates: %w", err)
		}
		v[i].size, v[i].modified = info.Size(), info.ModTime()
	}
	return v, nil
}

// load reads and checks the files. Its errors are sentences that name the file and the problem.
func load(options Options) (*trusted, error) {
	t := &trusted{options: options, roots: x509.NewCertPool(), revoked: make(map[string]*revocations),
		known: make(map[[sha256.Size]byte]result)}
	text, err := os.ReadFile(options.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read tls.client_ca_file: %w", err)
	}
	if t.authorities, err = readAuthorities(options.CAFile, text); err != nil {
		return nil, err
	}
	for _, issuer := range t.authorities {
		t.roots.AddCert(issuer)
	}
	if options.CRLFile == "" {
		return t, nil
	}
	if text, err = os.ReadFile(options.CRLFile); err != nil {
		return nil, fmt.Errorf("read tls.client_crl_file: %w", err)
	}
	return t, t.readLists(options.CRLFile, text)
}

func readAuthorities(path string, text []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s (tls.client_ca_file) contains a certificate that cannot be read: %w; replace it",
				path, err)
		}
		if certificate.Version >= 3 && !certificate.IsCA {
			return nil,
				fmt.Errorf("%s (tls.client_ca_file) contains the certificate of %s, which is not an authority; "+
					"name the authority that signs the client certificates", path, certificate.Subject)
		}
		found = append(found, certificate)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s (tls.client_ca_file) contains no certificate in PEM; write the certificates of the "+
			"authorities that sign client certificates into it", path)
	}
	return found, nil
}

// revocations are the certificates that an authority has revoked.
type revocations struct {
	issuer string
	at     map[string]time.Time // by the serial number
	until  time.Time            // the authority publishes a new list before then; zero: unknown
}

func (t *trusted) readLists(path string, text []byte) error {
	lists := [][]byte{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "X509 CRL" {
			lists = append(lists, block.Bytes)
		}
	}
	if len(lists) == 0 && !bytes.Contains(text, []byte("-----BEGIN")) {
		lists = append(lists, text) // DER, as authorities publish it
	}
	if len(lists) == 0 {
		return fmt.Errorf("%s (tls.client_crl_file) contains no revocation list; write the list of each authority "+
			"into it, in PEM", path)
	}
	for _, content := range lists {
		list, err := x509.ParseRevocationList(content)
		if err != nil {
			return fmt.Errorf("%s (tls.client_crl_file) contains a revocation list that cannot be read: %w; replace it",
				path, err)
		}
		if err := t.add(path, list); err != nil {
			return err
		}
	}
	return nil
}

// Extensions of revocation lists (RFC 5280, section 5.2).
var (
	issuingDistributionPoint = asn1.ObjectIdentifier{2, 5, 29, 28}
	deltaIndicator           = asn1.ObjectIdentifier{2, 5, 29, 27}
)

// add adds the entries of a revocation list.
func (t *trusted) add(path string, list *x509.RevocationList) error {
	if !slices.ContainsFunc(t.authorities, func(issuer *x509.Certificate) bool {
		return bytes.Equal(list.RawIssuer, issuer.RawSubject) && list.CheckSignatureFrom(issuer) == nil
	}) {
		return fmt.Errorf("%s (tls.client_crl_file) contains a revocation list of %s that no authority in "+
			"tls.client_ca_file signed; remove the list, or add its authority there", path, list.Issuer)
	}
	for _, extension := range list.Extensions {
		if extension.Id.Equal(deltaIndicator) {
			return fmt.Errorf("%s (tls.client_crl_file) contains a delta list of %s; use its complete list", path,
				list.Issuer)
		}
		if extension.Critical && !extension.Id.Equal(issuingDistributionPoint) {
			return fmt.Errorf("the revocation list of %s in %s (tls.client_crl_file) has the critical extension %s, "+
				"which the appliance does not know; use a list without it", list.Issuer, path, extension.Id)
		}
	}
	listed := t.revoked[string(list.RawIssuer)]
	if listed == nil {
		listed = &revocations{issuer: list.Issuer.String(), at: make(map[string]time.Time), until: list.NextUpdate}
		t.revoked[string(list.RawIssuer)] = listed
	}
	// An authority has several lists after a renewal of its key. The newest one decides the end.
	listed.until = later(listed.until, list.NextUpdate)
	for _, entry := range list.RevokedCertificateEntries {
		for _, extension := range entry.Extensions {
			if extension.Critical {
				return fmt.Errorf("the revocation list of %s in %s (tls.client_crl_file) revokes certificates of "+
					"other authorities; use a list of its own certificates", list.Issuer, path)
			}
		}
		listed.at[entry.SerialNumber.String()] = entry.RevocationTime
	}
	return nil
}

// Validities returns the ends of the authorities' certificates and of their revocation lists.
func (v *Verifier) Validities() []authority.Validity {
	t := v.trusted.Load()
	var found []authority.Validity
	for _, issuer := range t.authorities {
		found = append(found, authority.Validity{
			Subject: "the authority " + issuer.Subject.String() + " in tls.client_ca_file", Until: issuer.NotAfter,
			Effect: "its client certificates are refused",
			Remedy: "Add the authority's new certificate to tls.client_ca_file; a restart is not necessary."})
	}
	for _, listed := range t.revoked {
		if !listed.until.IsZero() {
			found = append(found, authority.Validity{
				Subject: "the revocation list of " + listed.issuer + " in tls.client_crl_file", Until: listed.until,
				Renewed: true, Effect: "client certificates of this authority are refused",
				Remedy: "Copy the authority's present list to tls.client_crl_file; a restart is not necessary."})
		}
	}
	slices.SortFunc(found, func(a, b authority.Validity) int { return cmp.Compare(a.Subject, b.Subject) })
	return found
}
