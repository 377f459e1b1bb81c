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
	From    time.Time // zero for the own authority, whose certificates are valid at all times
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
		found = append(found, Validity{Subject: "the certificate in tls.cert_file", From: c.site.Leaf.NotBefore,
			Until:  c.site.Leaf.NotAfter,
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

// Package autocert renews a certificate in the last third of its validity, but not earlier than
// renewsWithin before its end.
const renewsWithin = 30 * 24 * time.Hour

// validities returns the ends of the certificates from the site's CA. A certificate is late if half
// of the time for its renewal is over.
func (e *external) validities(now time.Time) []Validity {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []Validity
	for name, certificate := range e.present {
		from, until := times(certificate)
		found = append(found, Validity{Subject: "the certificate for " + name, From: from, Until: until, Renewed: true,
			Late:   until.Sub(now) < min(until.Sub(from)/3, renewsWithin)/2,
			Remedy: "Check that the CA in tls.acme.directory answers and reaches port 443 of this name."})
	}
	slices.SortFunc(found, func(a, b Validity) int { return cmp.Compare(a.Subject, b.Subject) })
	return found
}

func times(certificate *tls.Certificate) (from, until time.Time) {
	if certificate.Leaf == nil {
		return from, until
	}
	return certificate.Leaf.NotBefore, certificate.Leaf.NotAfter
}
