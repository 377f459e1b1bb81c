// Package roots has the certificate authorities that connections to other servers trust.
package roots

import "crypto/x509"

// System returns the authorities of the system. A minimal container has none.
func System() *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return x509.NewCertPool()
	}
	return pool
}

// With returns the authorities of the system and those of a bundle (PEM). ok reports whether the
// bundle contains a certificate.
func With(bundle []byte) (pool *x509.CertPool, ok bool) {
	pool = System()
	return pool, pool.AppendCertsFromPEM(bundle)
}
