package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"landfall/appliance/authority"
)

// firstContactTimeout limits the requests of a first contact.
const firstContactTimeout = 15 * time.Second

// Untrusted reports whether the certificate of an appliance is not signed by a known authority.
func (c *Client) Untrusted(ctx context.Context) (bool, error) {
	found, err := c.find()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, firstContactTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, found.url+"/", nil)
	if err != nil {
		return false, fmt.Errorf("the URL %s is invalid: %w", found.url, err)
	}
	response, err := found.http.Do(request)
	if err == nil {
		return false, response.Body.Close()
	}
	if untrusted(err) {
		return true, nil
	}
	return false, (&connection{url: found.url}).unreachable(err)
}

// Authority is a certificate authority that nobody has confirmed yet.
type Authority struct {
	PEM         string
	Fingerprint string // SHA-256 of the certificate, as the appliance shows it
}

// FetchAuthority returns the certificate authority that an appliance names. It checks that the
// authority signed the appliance's certificate. Whether it is the right one, only a person can tell
// by its fingerprint.
func FetchAuthority(ctx context.Context, address string) (*Authority, error) {
	ctx, cancel := context.WithTimeout(ctx, firstContactTimeout)
	defer cancel()
	// The connection sends nothing secret, and the person confirms what it receives.
	client := &http.Client{Transport: transport(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/"+caFile, nil)
	if err != nil {
		return nil, fmt.Errorf("the URL %s is invalid: %w", address, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, (&connection{url: address}).unreachable(err)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the certificate authority of %s: %w", address, err)
	}
	unknown := fmt.Errorf("%s does not tell its certificate authority; name the file with --ca", address)
	block, _ := pem.Decode(text)
	if response.StatusCode != http.StatusOK || block == nil || response.TLS == nil {
		return nil, unknown
	}
	found, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, unknown
	}
	roots, parsed := x509.NewCertPool(), new(url.URL)
	roots.AddCert(found)
	if parsed, err = url.Parse(address); err != nil {
		return nil, unknown
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range response.TLS.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	if _, err := response.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, DNSName: parsed.Hostname()}); err != nil {
		return nil, fmt.Errorf("the certificate of %s is not valid (%w); check --url", address, err)
	}
	return &Authority{PEM: string(pem.EncodeToMemory(block)), Fingerprint: authority.Fingerprint(found)}, nil
}
