// Package transport opens the TLS of the appliance's listeners from the configuration.
package transport

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/authority"
	"landfall/appliance/config"
	"landfall/appliance/sitekey"
)

// acmePurpose is the purpose with which the site's key seals the account and the certificates of
// the site's CA.
const acmePurpose = "tls acme"

// Options configures [Open].
type Options struct {
	TLS   config.TLS
	Dir   string       // the data directory
	Names []string     // host names and addresses of the listeners
	Key   *sitekey.Key // seals the private keys
	// Stored and Follow are those of [authority.ACME].
	Stored func(context.Context) error
	Follow bool
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// Transport is the TLS of the appliance's listeners. nil is disabled TLS.
type Transport struct {
	authority    *authority.Authority
	certificates *authority.Certificates
}

// Open makes the certificates of the listeners. It returns nil if the configuration disables TLS.
func Open(o Options) (*Transport, error) {
	if !o.TLS.Enabled {
		return nil, nil
	}
	box, err := o.Key.Box(authority.Purpose, nil)
	if err != nil {
		return nil, err
	}
	t := new(Transport)
	if t.authority, err = authority.LoadOrCreate(o.Dir, box); err != nil {
		return nil, err
	}
	options := authority.Options{Authority: t.authority, Names: o.Names, Clock: o.Clock, Logger: o.Logger}
	if o.TLS.CertFile != "" {
		options.Files = &authority.Files{Certificate: o.TLS.CertFile, Key: o.TLS.KeyFile}
	}
	if options.CA, err = config.ReadFile("tls.ca_file", o.TLS.CAFile); err != nil {
		return nil, err
	}
	if o.TLS.ACME.Directory != "" {
		if options.ACME, err = o.acme(); err != nil {
			return nil, err
		}
	}
	t.certificates, err = authority.NewCertificates(options)
	return t, err
}

func (o Options) acme() (*authority.ACME, error) {
	settings := o.TLS.ACME
	bundle, err := config.ReadFile("tls.acme.ca_file", settings.CAFile)
	if err != nil {
		return nil, err
	}
	box, err := o.Key.Box(acmePurpose, nil)
	if err != nil {
		return nil, err
	}
	return &authority.ACME{Directory: settings.Directory, CABundle: bundle, Email: settings.Email,
		KeyID: settings.EABKeyID, KeyFile: settings.EABKeyFile, Names: o.Names,
		Cache: filepath.Join(o.Dir, "acme"), Box: box, Stored: o.Stored, Follow: o.Follow}, nil
}

// Roots returns the certificates (PEM) with which clients verify the appliance, or nil without TLS.
func (t *Transport) Roots() []byte {
	if t == nil {
		return nil
	}
	return t.certificates.Roots()
}

// Fingerprint returns the fingerprint of the own authority, or "" without TLS.
func (t *Transport) Fingerprint() string {
	if t == nil {
		return ""
	}
	return t.authority.Fingerprint()
}

// AuthorityPEM returns the certificate of the own authority, or nil without TLS.
func (t *Transport) AuthorityPEM() []byte {
	if t == nil {
		return nil
	}
	return t.authority.PEM()
}

// Certificates returns the certificates of the listeners, or nil without TLS.
func (t *Transport) Certificates() *authority.Certificates {
	if t == nil {
		return nil
	}
	return t.certificates
}
