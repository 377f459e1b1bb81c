// Package certificate identifies programs by their client certificates. Authorities of the site
// sign these certificates. The common name is the program's name, and the organizations are its
// groups, as in Kubernetes.
//
// The TLS listener only asks for a certificate. The verification takes place at the request, so
// that a client with a wrong certificate gets an answer that says what is wrong.
//
// Design: docs/design.md#one-identity-for-each-request.
package certificate

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/fault"
)

// RolesKey is the key of the configuration with the groups that have a role.
const RolesKey = "tls.client_roles"

// checkInterval is the time between two checks of the files.
const checkInterval = 10 * time.Second

// Options configures a [Verifier].
type Options struct {
	// CAFile contains the certificates (PEM) of the authorities.
	CAFile string
	// CRLFile contains the revocation lists (PEM or DER) of the authorities; "" for none.
	CRLFile string
	// Rules give roles and scopes to groups.
	Rules  external.Rules
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// Verifier verifies client certificates. It reads the files again when they change. Its methods are
// safe for concurrent use.
type Verifier struct {
	options Options
	trusted atomic.Pointer[trusted]

	mu   sync.Mutex
	read version // of trusted
	told string  // the last problem that was logged
}

// New reads the files. Its errors are sentences for the user. Without a CAFile, it returns nil: a
// nil verifier asks for no certificates, and has no files.
func New(options Options) (*Verifier, error) {
	if options.CAFile == "" {
		return nil, nil
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	v := &Verifier{options: options}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v, v.reread()
}

// Ask returns a configuration of a TLS listener that asks clients for a certificate. It names the
// authorities, so that a browser offers only certificates of these authorities. A client needs no
// certificate, and the handshake accepts every certificate.
func (v *Verifier) Ask(listener *tls.Config) *tls.Config {
	if v == nil {
		return listener
	}
	asking := listener.Clone()
	asking.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		config := listener.Clone()
		config.ClientAuth, config.ClientCAs = tls.RequestClientCert, v.trusted.Load().roots
		return config, nil
	}
	return asking
}

// Identify returns the program of a client certificate. presented are the certificates that the
// client has sent, its own first. The error says why the program is not accepted. If only a role is
// missing, the identity is returned as well, without a role.
func (v *Verifier) Identify(presented []*x509.Certificate) (access.Identity, error) {
	return v.trusted.Load().identify(presented, v.options.Clock.Now())
}

// Run reads the files again when they change, until the context ends.
func (v *Verifier) Run(ctx context.Context) error {
	if v == nil {
		return nil
	}
	ticker := v.options.Clock.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.Chan():
			v.check()
		}
	}
}

func (v *Verifier) check() {
	v.mu.Lock()
	defer v.mu.Unlock()
	problem := ""
	if err := v.reread(); err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != v.told {
		v.options.Logger.Error("The authorities of client certificates could not be read again. The previous ones "+
			"remain in use.", "problem", problem)
	}
	v.told = problem
}

// reread reads the files if they have changed. The caller holds the lock.
func (v *Verifier) reread() error {
	now, err := versionOf(v.options.CAFile, v.options.CRLFile)
	if err != nil {
		return err
	}
	if v.trusted.Load() != nil && now == v.read {
		return nil
	}
	found, err := load(v.options)
	if err != nil {
		return err
	}
	v.trusted.Store(found)
	v.read = now
	for _, issuer := range found.authorities {
		until := issuer.NotAfter.UTC().Format(time.DateOnly)
		v.options.Logger.Info("Client certificates of an authority are accepted.", "authority", issuer.Subject.String(),
			"until", until)
		if v.options.CRLFile != "" && found.revoked[string(issuer.RawSubject)] == nil {
			v.options.Logger.Warn("An authority of client certificates has no revocation list. Its certificates "+
				"cannot be revoked.", "authority", issuer.Subject.String(), "file", v.options.CRLFile)
		}
	}
	return nil
}

// Problem returns why the files could not be read again, or "".
func (v *Verifier) Problem() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.told
}

const (
	// maxPresented is the largest number of certificates that a client may send. It limits the
	// signatures that a stranger can make the appliance verify.
	maxPresented = 8
	// maxKnown limits the results in the cache. A result has some 500 bytes.
	maxKnown = 1024
	// refusedFor is how long a refusal is valid, so that repeated requests cost little.
	refusedFor = 10 * time.Second
)

// trusted is the content of the files, and the cache of the certificates that were verified with
// it.
type trusted struct {
	options     Options
	authorities []*x509.Certificate
	roots       *x509.CertPool
	revoked     map[string]*revocations // by the authority's name (DER)

	mu    sync.RWMutex
	known map[[sha256.Size]byte]result // by the digest of the presented certificates
}

// result is the result of a verification. It is valid from a time until another one.
type result struct {
	identity    access.Identity
	err         error
	from, until time.Time
}

func (t *trusted) identify(presented []*x509.Certificate, now time.Time) (access.Identity, error) {
	if len(presented) == 0 || len(presented) > maxPresented {
		return access.Identity{}, refuse("the client sent %d certificates; send its own and those of intermediate "+
			"authorities, at most %d", len(presented), maxPresented)
	}
	digest := digestOf(presented)
	t.mu.RLock()
	found, ok := t.known[digest]
	t.mu.RUnlock()
	if !ok || now.Before(found.from) || !now.Before(found.until) {
		found = t.verify(presented, now)
		t.mu.Lock()
		if len(t.known) >= maxKnown {
			clear(t.known)
		}
		t.known[digest] = found
		t.mu.Unlock()
	}
	identity := found.identity
	identity.Scope = identity.Scope.Clone()
	return identity, found.err
}

// digestOf returns a digest of certificates. Their encodings contain their lengths, so that
// different certificates have different digests.
func digestOf(presented []*x509.Certificate) [sha256.Size]byte {
	if len(presented) == 1 {
		return sha256.Sum256(presented[0].Raw)
	}
	hash := sha256.New()
	for _, certificate := range presented {
		hash.Write(certificate.Raw)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

// verify verifies presented certificates at a time.
func (t *trusted) verify(presented []*x509.Certificate, now time.Time) result {
	refused := result{from: now, until: now.Add(refusedFor)}
	leaf := presented[0]
	if refused.err = checkLeaf(leaf, now); refused.err != nil {
		return refused
	}
	chains, err := t.chains(presented, now)
	if err != nil {
		refused.err = err
		return refused
	}
	accepted := result{from: chains[0][0].NotBefore, until: chains[0][0].NotAfter}
	for _, certificate := range chains[0] {
		accepted.from = later(accepted.from, certificate.NotBefore)
		accepted.until = earlier(accepted.until, certificate.NotAfter)
	}
	for _, chain := range chains {
		until, err := t.checkRevoked(chain, now)
		if err != nil {
			refused.err = err
			return refused
		}
		accepted.until = earlier(accepted.until, until)
	}
	accepted.identity, accepted.err = t.identityOf(leaf)
	return accepted
}

// identityOf returns the program of a verified certificate.
func (t *trusted) identityOf(leaf *x509.Certificate) (access.Identity, error) {
	name := leaf.Subject.CommonName
	if err := external.CheckName(name); err != nil {
		return access.Identity{}, refuse("the common name of %s is unusable: %v; get a certificate whose common name "+
			"is the program's name", title(leaf), err)
	}
	program, err := t.options.Rules.Apply(external.Person{Name: name, Groups: leaf.Subject.Organization}, RolesKey)
	if err != nil {
		err = fault.New(fault.Forbidden, "%s; the groups of a client certificate are its organizations (O)",
			fault.Reason(err))
	}
	return access.Identity{Kind: access.Program, Name: name, Role: program.Role, Scope: program.Scope,
		Certificate: serial(leaf)}, err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earlier returns the earlier of two times. The zero time is no limit.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}
