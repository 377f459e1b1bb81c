package certificate

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"landfall/appliance/fault"
)

func refuse(format string, args ...any) error {
	return fault.New(fault.Unauthenticated, format, args...)
}

// title describes a client certificate in an error. A stranger may have chosen the name, so it is
// quoted.
func title(leaf *x509.Certificate) string {
	const longest = 64
	name := leaf.Subject.CommonName
	if name == "" {
		return "the client certificate with the serial number " + serial(leaf)
	}
	if len(name) > longest {
		name = name[:longest] + "…"
	}
	return fmt.Sprintf("the client certificate %q", name)
}

// serial returns the serial number as openssl shows it.
func serial(certificate *x509.Certificate) string { return fmt.Sprintf("%X", certificate.SerialNumber) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// checkLeaf checks the parts of a client certificate for which its authority does not matter.
func checkLeaf(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(leaf.NotBefore):
		return refuse("%s is valid from %s, but the appliance's clock shows %s; correct the clock that is wrong, or "+
			"use a token meanwhile", title(leaf), stamp(leaf.NotBefore), stamp(now))
	case now.After(leaf.NotAfter):
		return refuse("%s expired at %s, and the appliance's clock shows %s; get a new certificate, or correct the "+
			"clock if it is wrong", title(leaf), stamp(leaf.NotAfter), stamp(now))
	case !slices.ContainsFunc(leaf.ExtKeyUsage, func(usage x509.ExtKeyUsage) bool {
		return usage == x509.ExtKeyUsageClientAuth || usage == x509.ExtKeyUsageAny
	}):
		return refuse("%s is not for clients; get one with the extended key usage clientAuth", title(leaf))
	}
	return nil
}

// chains returns the chains from a client certificate to authorities of the site.
func (t *trusted) chains(presented []*x509.Certificate, now time.Time) ([][]*x509.Certificate, error) {
	leaf, between := presented[0], x509.NewCertPool()
	for _, certificate := range presented[1:] {
		between.AddCert(certificate)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: t.roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err == nil {
		return chains, nil
	}
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case isInvalid && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return nil, refuse("the certificate of %q, an authority of %s, is valid from %s to %s, but the appliance's "+
			"clock shows %s; renew the authority, or correct the clock if it is wrong", invalid.Cert.Subject.CommonName,
			title(leaf), stamp(invalid.Cert.NotBefore), stamp(invalid.Cert.NotAfter), stamp(now))
	case isUnknown:
		return nil, refuse("no authority in tls.client_ca_file signed %s (its issuer is %q); use a certificate of the "+
			"site's authority, and send the certificates of intermediate authorities with it", title(leaf),
			leaf.Issuer.String())
	}
	return nil, refuse("%s cannot be verified: %v; get a new certificate", title(leaf), err)
}

// checkRevoked returns an error if a certificate of a chain was revoked, or if a revocation list
// has expired. Otherwise it returns the time until which the lists are valid, or the zero time.
func (t *trusted) checkRevoked(chain []*x509.Certificate, now time.Time) (until time.Time, err error) {
	for i, certificate := range chain[:len(chain)-1] {
		issuer := chain[i+1]
		listed := t.revoked[string(issuer.RawSubject)]
		if listed == nil {
			continue
		}
		if at, ok := listed.at[certificate.SerialNumber.String()]; ok {
			if i > 0 {
				return until, refuse("the certificate of %q, an authority of %s, was revoked at %s",
					certificate.Subject.CommonName, title(chain[0]), stamp(at))
			}
			return until, refuse("%s (serial number %s) was revoked at %s; get a new certificate", title(chain[0]),
				serial(certificate), stamp(at))
		}
		if !listed.until.IsZero() && !now.Before(listed.until) {
			return until, fault.New(fault.Unavailable, "the revocation list of %q in tls.client_crl_file ended at %s, "+
				"and the appliance's clock shows %s, so %s cannot be checked; copy the authority's present list there",
				issuer.Subject.CommonName, stamp(listed.until), stamp(now), title(chain[0]))
		}
		if until.IsZero() || !listed.until.IsZero() && listed.until.Before(until) {
			until = listed.until
		}
	}
	return until, nil
}
