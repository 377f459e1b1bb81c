package authority

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"landfall/appliance/durable"
	"landfall/appliance/roots"
	"landfall/appliance/sitekey"
)

// ACME configures a CA of the site with the ACME protocol (RFC 8555). The CA verifies the appliance
// with the challenge tls-alpn-01 (RFC 8737): it connects to port 443 of the name. The certificates
// are for the DNS names in the appliance's URLs; the own authority serves all other names.
type ACME struct {
	Directory string   // URL
	CABundle  []byte   // PEM; verifies the directory's certificate, on top of the system's CAs
	Email     string   // contact; may be empty
	KeyID     string   // external account binding; may be empty
	KeyFile   string   // external account binding: the HMAC key in base64url
	Names     []string // DNS names
	// Cache is the directory of the account's key and the certificates, which Box seals.
	Cache string
	Box   *sitekey.Box
	// Stored is called after a file was written there and before it is used; nil: no call.
	Stored func(context.Context) error
	// Follow uses the certificates that another process gets and writes there. Nothing is sent to
	// the CA.
	Follow bool
}

// errFollows is the error of requests of a process that only follows.
var errFollows = errors.New("another member of the fleet gets the certificates")

// refusing is a transport that sends nothing.
type refusing struct{}

// RoundTrip implements http.RoundTripper.
func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errFollows }

// external gets certificates from a CA in the background, and has the present ones.
type external struct {
	manager *autocert.Manager
	names   []string
	follows bool
	until   context.Context // of all requests to the CA
	stop    context.CancelFunc

	mu      sync.Mutex
	present map[string]*tls.Certificate
}

func newExternal(options *ACME) (*external, error) {
	e := &external{present: make(map[string]*tls.Certificate), follows: options.Follow}
	e.until, e.stop = context.WithCancel(context.Background())
	for _, name := range options.Names {
		if _, err := netip.ParseAddr(name); err != nil && strings.Contains(strings.Trim(name, "."), ".") {
			e.names = append(e.names, strings.ToLower(name))
		}
	}
	if len(e.names) == 0 {
		return nil, errors.New("tls.acme.directory is set, but url has no name for a certificate; set url to a URL " +
			"with a DNS name that has a domain")
	}
	trusted, ok := roots.With(options.CABundle)
	if len(options.CABundle) > 0 && !ok {
		return nil, errors.New("the file in tls.acme.ca_file contains no certificate in PEM")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}
	var through http.RoundTripper = &locating{base: closing{transport, e.until}}
	if options.Follow {
		through = refusing{}
	}
	e.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, HostPolicy: autocert.HostWhitelist(e.names...), Email: options.Email,
		Cache: sealedCache{options},
		Client: &acme.Client{DirectoryURL: options.Directory, UserAgent: "landfall",
			HTTPClient: &http.Client{Transport: through}},
	}
	if options.KeyID == "" {
		return e, nil
	}
	text, err := os.ReadFile(options.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read tls.acme.eab_key_file: %w", err)
	}
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(string(text)), "="))
	if err != nil || len(key) == 0 {
		return nil, fmt.Errorf("%s (tls.acme.eab_key_file) does not contain a key in base64url; write the HMAC key of "+
			"the CA's administrator into it", options.KeyFile)
	}
	e.manager.ExternalAccountBinding = &acme.ExternalAccountBinding{KID: options.KeyID, Key: key}
	return e, nil
}

// protocols returns the ALPN protocols of the CA's challenge.
func (e *external) protocols() []string { return []string{acme.ALPNProto} }

// get returns the certificate for a connection: that of a challenge, or the present one for the
// requested name, or nil.
func (e *external) get(hello *tls.ClientHelloInfo) *tls.Certificate {
	if slices.Equal(hello.SupportedProtos, e.protocols()) {
		certificate, err := e.manager.GetCertificate(hello)
		if err != nil {
			return nil
		}
		return certificate
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	found := e.present[strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))]
	if found == nil || hello.SupportsCertificate(found) != nil {
		return nil
	}
	return found
}

// refresh gets missing certificates from the CA and renews old ones. It waits for the CA.
func (e *external) refresh() error {
	var errs []error
	for _, name := range e.names {
		got, err := e.manager.GetCertificate(&tls.ClientHelloInfo{ServerName: name,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}})
		if e.follows && errors.Is(err, errFollows) {
			continue // the leader has none either, or its new file is not here yet
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the CA in tls.acme.directory gave no certificate for %s: %w", name, err))
			continue
		}
		e.mu.Lock()
		e.present[name] = got
		e.mu.Unlock()
	}
	return errors.Join(errs...)
}

// closing is a transport whose requests end with a context. Package autocert has no other way to
// stop a wait for the CA.
type closing struct {
	base  http.RoundTripper
	until context.Context
}

func (c closing) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	stop := context.AfterFunc(c.until, cancel)
	response, err := c.base.RoundTrip(request.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	response.Body = endingBody{response.Body, func() { stop(); cancel() }}
	return response, nil
}

// endingBody calls end when it is closed.
type endingBody struct {
	io.ReadCloser
	end func()
}

func (b endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// sealedCache implements autocert.Cache with sealed files.
type sealedCache struct{ *ACME }

func (c sealedCache) path(name string) string { return filepath.Join(c.Cache, filepath.Base(name)) }

func (c sealedCache) Get(_ context.Context, name string) ([]byte, error) {
	content, err := os.ReadFile(c.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, autocert.ErrCacheMiss
	}
	if err != nil {
		return nil, err
	}
	return c.Box.OpenBytes(content)
}

func (c sealedCache) Put(ctx context.Context, name string, data []byte) error {
	if c.Follow {
		return errFollows
	}
	sealed, err := c.Box.SealBytes(data)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Cache, 0o700); err != nil {
		return err
	}
	if err := durable.WriteFile(c.path(name), sealed, 0o600); err != nil || c.Stored == nil {
		return err
	}
	return c.Stored(ctx)
}

func (c sealedCache) Delete(_ context.Context, name string) error {
	if c.Follow {
		return errFollows
	}
	if err := os.Remove(c.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
