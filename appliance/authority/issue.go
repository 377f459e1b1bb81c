package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// lifetime is the validity of a server certificate after it was issued.
	lifetime = 2 * 365 * 24 * time.Hour
	// renewBefore is the rest of a certificate's validity at which it is renewed. Hosts whose clock
	// is up to this time ahead thus accept the certificate.
	renewBefore = 365 * 24 * time.Hour
)

// released is before the release of this program. A clock that shows an earlier time is wrong.
var released = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// expiry returns the end of the validity of a server certificate. If the appliance's clock is
// wrong, a certificate that ends soon after that time may already have expired for hosts with the
// right time, so it ends with the authority.
func expiry(now time.Time) time.Time {
	if end := now.Add(lifetime); !now.Before(released) && end.Before(notAfter) {
		return end.UTC()
	}
	return notAfter
}

// subject contains the names and addresses of a server certificate, sorted and without duplicates.
type subject struct {
	names     []string
	addresses []netip.Addr
}

func newSubject(names []string, addresses []netip.Addr) subject {
	var s subject
	for _, name := range names {
		if address, err := netip.ParseAddr(name); err == nil {
			addresses = append(slices.Clone(addresses), address)
		} else if name != "" {
			s.names = append(s.names, name)
		}
	}
	for _, address := range addresses {
		s.addresses = append(s.addresses, address.Unmap().WithZone(""))
	}
	slices.Sort(s.names)
	slices.SortFunc(s.addresses, netip.Addr.Compare)
	s.names, s.addresses = slices.Compact(s.names), slices.Compact(s.addresses)
	return s
}

// covers reports whether s contains all names and addresses of another subject.
func (s subject) covers(other subject) bool {
	return !slices.ContainsFunc(other.names, func(n string) bool { return !slices.Contains(s.names, n) }) &&
		!slices.ContainsFunc(other.addresses, func(a netip.Addr) bool { return !slices.Contains(s.addresses, a) })
}

// issue returns a new server certificate with a new key, which exists only in memory.
//
// Its validity begins in 1970, like that of the authority. Therefore it is also exempt from the
// limit of 825 days that Apple's systems apply to certificates issued since July 2019.
func (a *Authority) issue(s subject, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issue a server certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{Organization: []string{"Landfall"}, CommonName: "Landfall"},
		NotBefore: notBefore, NotAfter: expiry(now),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: s.names,
	}
	for _, address := range s.addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("issue a server certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("issue a server certificate: %w", err)
	}
	// Clients need not receive the authority. With it, browsers show its fingerprint for
	// comparison.
	return &tls.Certificate{Certificate: [][]byte{der, a.certificate.Raw}, PrivateKey: key, Leaf: leaf}, nil
}
