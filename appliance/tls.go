package appliance

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"landfall/appliance/authority"
	"landfall/appliance/config"
	"landfall/web"
)

// acmePurpose is the purpose with which the site's key seals the account and the certificates of
// the site's CA.
const acmePurpose = "tls acme"

// transport is the TLS of the appliance's listeners.
type transport struct {
	authority    *authority.Authority
	certificates *authority.Certificates
}

// openTransport makes the certificates of the listeners. It returns nil if the configuration
// disables TLS.
func (a *Appliance) openTransport() (*transport, error) {
	settings := a.config.TLS
	if !settings.Enabled {
		return nil, nil
	}
	box, err := a.siteKey.Box(authority.Purpose, nil)
	if err != nil {
		return nil, err
	}
	t := new(transport)
	if t.authority, err = authority.LoadOrCreate(a.config.DataDir, box); err != nil {
		return nil, err
	}
	options := authority.Options{Authority: t.authority, Names: append(config.Hosts(a.urls),
		a.config.Registry.Names()...),
		Clock: a.clock, Logger: a.log}
	if settings.CertFile != "" {
		options.Files = &authority.Files{Certificate: settings.CertFile, Key: settings.KeyFile}
	}
	if options.CA, err = readIfSet("tls.ca_file", settings.CAFile); err != nil {
		return nil, err
	}
	if settings.ACME.Directory != "" {
		if options.ACME, err = a.acme(options.Names); err != nil {
			return nil, err
		}
	}
	t.certificates, err = authority.NewCertificates(options)
	return t, err
}

func (a *Appliance) acme(names []string) (*authority.ACME, error) {
	settings := a.config.TLS.ACME
	bundle, err := readIfSet("tls.acme.ca_file", settings.CAFile)
	if err != nil {
		return nil, err
	}
	box, err := a.siteKey.Box(acmePurpose, nil)
	if err != nil {
		return nil, err
	}
	return &authority.ACME{Directory: settings.Directory, CABundle: bundle, Email: settings.Email,
		KeyID: settings.EABKeyID, KeyFile: settings.EABKeyFile, Names: names,
		Cache: filepath.Join(a.config.DataDir, "acme"), Box: box}, nil
}

func readIfSet(key, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return content, nil
}

// roots returns the certificates (PEM) with which clients verify the appliance, or nil without TLS.
func (t *transport) roots() []byte {
	if t == nil {
		return nil
	}
	return t.certificates.Roots()
}

// fingerprint returns the fingerprint of the own authority, or "" without TLS.
func (t *transport) fingerprint() string {
	if t == nil {
		return ""
	}
	return t.authority.Fingerprint()
}

// towardsBoot returns the URL on the boot listener of a request for an image or a boot file.
// Machines with older URLs thus continue to boot.
func (a *Appliance) towardsBoot(r *http.Request) string {
	if a.bootServer == nil || !a.bootServer.Serves(r) {
		return ""
	}
	return web.AtPort(r, "http", a.boot.Port())
}

// towardsMain returns the URL on the main listener of a request that the boot listener does not
// serve.
func (a *Appliance) towardsMain(r *http.Request) string {
	_, port, err := net.SplitHostPort(a.address.String())
	if err != nil {
		return ""
	}
	return web.AtPort(r, "https", port)
}

// listenForBoot opens the boot listener. If the default port is taken and the configuration names
// no other one, it uses any free port, so that several appliances can run on one machine.
func (a *Appliance) listenForBoot(ctx context.Context, address string) (net.Listener, error) {
	listener, err := a.inbound.Listen(ctx, address)
	if err == nil || a.config.BootListen != "" {
		return listener, err
	}
	host, _, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		return nil, err
	}
	listener, otherErr := a.inbound.Listen(ctx, net.JoinHostPort(host, "0"))
	if otherErr != nil {
		return nil, err
	}
	a.log.Warn("The default port of the boot listener is taken, so another one is used until the next start. Set "+
		"boot_listen in the configuration.", "wanted", address, "used", listener.Addr().String())
	return listener, nil
}

// authorityPEM returns the certificate of the own authority, or nil without TLS.
func (t *transport) authorityPEM() []byte {
	if t == nil {
		return nil
	}
	return t.authority.PEM()
}

// served returns the certificates of the listeners, or nil without TLS.
func (t *transport) served() *authority.Certificates {
	if t == nil {
		return nil
	}
	return t.certificates
}
