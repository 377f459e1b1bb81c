package authority

import (
	"cmp"
	"crypto/tls"
	"slices"
	"time"
)

// Validity is the end of a certificate.
type Validity struct {
	Subject string
	Until   time.Time
	Renewed bool   // the appliance renews it by itself
	Late    bool   // it should have been renewed before now
	Effect  string // of the end; "" means that clients refuse the certificate
	Remedy  string // a sentence for the time near the end
}

// Validities returns the ends of the certificates that do not follow from the own authority: the
// authority itself, and the certificates of the site.
func (c *Certificates) Validities() []Validity {
	found := []Validity{{Subject: "the appliance's authority", Until: c.options.Authority.certificate.NotAfter,
		Remedy: "Stop the appliance, and remove ca.key and ca.crt from the data directory. All hosts must then boot " +
			"a new image."}}
	c.mu.Lock()
	if c.site != nil {
		found = append(found, Validity{Subject: "the certificate in tls.cert_file", Until: c.site.Leaf.NotAfter,
			Remedy: "Replace the files in tls.cert_file and tls.key_file; a restart is not necessary."})
	}
	c.mu.Unlock()
	if c.external != nil {
		found = append(found, c.external.validities(c.options.Clock.Now())...)
	}
	return found
}

// Problem returns why the certificates could not be updated, or "".
func (c *Certificates) Problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logged
}

func (e *external) validities(now time.Time) []Validity {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []Validity
	for name, certificate := range e.present {
		found = append(found, Validity{Subject: "the certificate for " + name, Until: end(certificate), Renewed: true,
			Late:   isLate(certificate, now),
			Remedy: "Check that the CA in tls.acme.directory answers and reaches port 443 of this name."})
	}
	slices.SortFunc(found, func(a, b Validity) int { return cmp.Compare(a.Subject, b.Subject) })
	return found
}

// isLate reports whether half of the time is over in which a certificate is renewed. Package autocert
// renews it in the last third of its validity, but not earlier than 30 days before its end.
func isLate(certificate *tls.Certificate, now time.Time) bool {
	leaf := certificate.Leaf
	return leaf != nil && leaf.NotAfter.Sub(now) < min(leaf.NotAfter.Sub(leaf.NotBefore)/3, 30*24*time.Hour)/2
}

func end(certificate *tls.Certificate) time.Time {
	if certificate.Leaf == nil {
		return time.Time{}
	}
	return certificate.Leaf.NotAfter
}
