package authority

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// checkInterval is the time between two checks of the machine's addresses and of the site's files.
const checkInterval = 10 * time.Second

// Options configures [Certificates].
type Options struct {
	Authority *Authority
	// Names are the host names and addresses in the appliance's URLs.
	Names []string
	// Files is the certificate that the site provides; nil for none.
	Files *Files
	// ACME gets a certificate from a CA of the site; nil for none.
	ACME *ACME
	// CA contains certificates (PEM) that verify the certificate of the site.
	CA []byte
	// Addresses returns the machine's addresses; nil means those of its network interfaces.
	Addresses func() ([]netip.Addr, error)
	Clock     clockwork.Clock
	Logger    *slog.Logger
}

// Certificates selects the certificate for each connection: the certificate of the site if it has
// the requested name, otherwise one of the own authority. A new certificate applies to new
// connections; existing connections continue.
type Certificates struct {
	options  Options
	names    []string // of the own certificate
	external *external
	roots    []byte

	mu     sync.Mutex
	own    *tls.Certificate
	holds  subject // of own
	site   *tls.Certificate
	read   version // of site
	logged string  // the last problem that was logged
}

// NewCertificates issues the first certificate, and reads the files of the site. Its errors are
// sentences for the user.
func NewCertificates(options Options) (*Certificates, error) {
	if options.Addresses == nil {
		options.Addresses = InterfaceAddresses
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Certificates{options: options, names: slices.Concat([]string{"localhost", "127.0.0.1", "::1"}, options.Names)}
	if name, err := os.Hostname(); err == nil && validName(name) {
		c.names = append(c.names, name)
	}
	c.roots = options.Authority.PEM()
	if err := c.refreshOwn(netip.Addr{}); err != nil {
		return nil, err
	}
	if err := c.useFiles(); err != nil {
		return nil, err
	}
	if options.ACME == nil {
		c.roots = append(c.roots, c.siteCA()...)
		return c, nil
	}
	var err error
	if c.external, err = newExternal(options.ACME); err != nil {
		return nil, err
	}
	c.roots = append(c.roots, options.CA...)
	return c, nil
}

// useFiles reads the site's certificate at the start.
func (c *Certificates) useFiles() (err error) {
	files := c.options.Files
	if files == nil {
		return nil
	}
	if c.read, err = files.version(); err != nil {
		return fmt.Errorf("read the certificate in tls.cert_file and tls.key_file: %w", err)
	}
	if c.site, err = files.load(c.options.Clock.Now()); err != nil {
		return err
	}
	c.logMissingNames()
	return nil
}

// siteCA returns the certificates that verify the site's certificate, or nil.
func (c *Certificates) siteCA() []byte {
	if c.site == nil {
		return nil
	}
	found, err := anchors(c.site, c.options.CA)
	if err != nil {
		c.options.Logger.Warn("Hosts can't verify the certificate of the site.", "problem", err.Error())
	}
	return found
}

// logMissingNames logs the names of the appliance's URLs that the site's certificate lacks. The
// own authority serves these names.
func (c *Certificates) logMissingNames() {
	var missing []string
	for _, name := range c.options.Names {
		if c.site.Leaf.VerifyHostname(name) != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		c.options.Logger.Warn("The certificate in tls.cert_file lacks names of the appliance's URLs. Connections to "+
			"these names use a certificate of the appliance's own authority.", "missing", missing)
	}
}

// Roots returns the certificates (PEM) with which clients verify the appliance: the own authority,
// and the CA of the site's certificate.
func (c *Certificates) Roots() []byte { return bytes.Clone(c.roots) }

// Config returns the configuration of a TLS listener: TLS 1.2 and later, HTTP/2 and HTTP/1.1. The
// cipher suites are those of crypto/tls. For TLS 1.2 they have forward secrecy and authenticated
// encryption; crypto/tls prefers them, and the older ones that it still accepts are left out.
func (c *Certificates) Config() *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: c.Get,
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
			tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
	}
	if c.external != nil {
		config.NextProtos = append(config.NextProtos, c.external.protocols()...)
	}
	return config
}

// Get returns the certificate for a connection.
func (c *Certificates) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	local := localAddress(hello.Conn)
	if c.external != nil {
		if certificate := c.external.get(hello); certificate != nil {
			return certificate, nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := hello.ServerName
	if wanted == "" && local.IsValid() {
		wanted = local.String()
	}
	if c.site != nil && c.site.Leaf.VerifyHostname(wanted) == nil && hello.SupportsCertificate(c.site) == nil {
		return c.site, nil
	}
	missing := local.IsValid() && !local.IsLoopback() && !slices.Contains(c.holds.addresses, local)
	if missing || c.expires() {
		if err := c.refreshOwn(local); err != nil {
			c.options.Logger.Error("A server certificate could not be issued. The previous one remains in use.",
				"error", err)
		}
	}
	return c.own, nil
}

func localAddress(conn net.Conn) netip.Addr {
	if conn == nil {
		return netip.Addr{}
	}
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return local.Addr().Unmap().WithZone("")
}

// Run checks the machine's addresses, the site's files and the validity of the own certificate
// until the context ends.
func (c *Certificates) Run(ctx context.Context) error {
	var background sync.WaitGroup
	defer background.Wait()
	if c.external != nil {
		background.Go(func() { c.runExternal(ctx) })
		defer c.external.stop()
	}
	ticker := c.options.Clock.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		c.check()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.Chan():
		}
	}
}

// runExternal keeps the certificates of the site's CA present until the context ends. A wait for
// the CA does not delay the other checks.
func (c *Certificates) runExternal(ctx context.Context) {
	ticker := c.options.Clock.NewTicker(checkInterval)
	defer ticker.Stop()
	logged, told := "", map[Validity]bool{}
	for {
		problem := ""
		if err := c.external.refresh(); err != nil {
			problem = err.Error()
		}
		for _, v := range c.external.validities(c.options.Clock.Now()) {
			if v.Late && !told[v] {
				told[v] = true
				c.options.Logger.Error("The CA in tls.acme.directory has not renewed a certificate. Check that it "+
					"answers and reaches port 443 of the name.", "certificate", v.Subject, "until",
					v.Until.Format(time.DateTime))
			}
		}
		if problem != logged && problem != "" && ctx.Err() == nil {
			c.options.Logger.Error("No certificate from the CA in tls.acme.directory. The appliance's own authority "+
				"serves its names until then.", "problem", problem)
		}
		logged = problem
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
		}
	}
}

func (c *Certificates) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logOnce(errors.Join(c.refreshOwn(netip.Addr{}), c.rereadFiles()))
}

// logOnce logs a problem when it is new.
func (c *Certificates) logOnce(problem error) {
	text := ""
	if problem != nil {
		text = problem.Error()
	}
	if text != "" && text != c.logged {
		c.options.Logger.Error("The certificates could not be updated. The previous ones remain in use.", "problem",
			text)
	}
	c.logged = text
}

// expires reports whether the own certificate needs to be renewed. It also needs to be renewed if
// the clock was corrected from a wrong time.
func (c *Certificates) expires() bool {
	now := c.options.Clock.Now()
	end := c.own.Leaf.NotAfter
	return end.Sub(now) < renewBefore || end.After(expiry(now).Add(renewBefore))
}

// refreshOwn issues the own certificate again if it lacks an address, or expires. local is the
// address of a connection; it may be the zero value.
func (c *Certificates) refreshOwn(local netip.Addr) error {
	addresses, err := c.options.Addresses()
	if err != nil {
		return fmt.Errorf("list this machine's addresses: %w", err)
	}
	if local.IsValid() && !local.IsLoopback() {
		addresses = append(slices.Clone(addresses), local)
	}
	wanted := newSubject(c.names, addresses)
	if c.own != nil && c.holds.covers(wanted) && !c.expires() {
		return nil
	}
	issued, err := c.options.Authority.issue(wanted, c.options.Clock.Now())
	if err != nil {
		return err
	}
	c.own, c.holds = issued, wanted
	c.options.Logger.Info("A server certificate was issued.", "names", wanted.names, "addresses", wanted.addresses,
		"until", issued.Leaf.NotAfter.Format(time.DateOnly))
	return nil
}

// rereadFiles reads the site's files if they have changed. Errors leave the previous certificate in
// use.
func (c *Certificates) rereadFiles() error {
	files := c.options.Files
	if files == nil {
		return nil
	}
	now, err := files.version()
	if err != nil {
		return fmt.Errorf("read the certificate in tls.cert_file and tls.key_file: %w", err)
	}
	if now == c.read {
		return nil
	}
	loaded, err := files.load(c.options.Clock.Now())
	if err != nil {
		return err
	}
	c.read, c.site = now, loaded
	c.options.Logger.Info("The certificate in tls.cert_file was read again.", "until",
		loaded.Leaf.NotAfter.Format(time.DateOnly))
	c.logMissingNames()
	if !verifies(c.roots, loaded) {
		c.options.Logger.Warn("Another CA signed the new certificate. Hosts that boot a present image can't verify " +
			"it; restart the appliance to put the CA into the images, and boot the hosts again.")
	}
	return nil
}

// verifies reports whether one of the roots (PEM) signed a certificate.
func verifies(roots []byte, pair *tls.Certificate) bool {
	pool, between := x509.NewCertPool(), x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	for _, der := range pair.Certificate[1:] {
		if certificate, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(certificate)
		}
	}
	_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, CurrentTime: pair.Leaf.NotAfter,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

// InterfaceAddresses returns the addresses of this machine's network interfaces, except the
// loopback.
func InterfaceAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, address := range list {
		prefix, err := netip.ParsePrefix(address.String())
		if err == nil && !prefix.Addr().IsLoopback() {
			addresses = append(addresses, prefix.Addr())
		}
	}
	return addresses, nil
}

// validName reports whether a certificate can contain a machine's name.
func validName(name string) bool {
	return name != "" && (&x509.Certificate{DNSNames: []string{name}}).VerifyHostname(name) == nil
}
