package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"landfall/appliance/fault"
	"landfall/appliance/fleet/forwarding"
)

// Headers of a request that a member has forwarded. They count only on a connection of a member.
const (
	headerClient      = "Landfall-Fleet-Client"      // address and port of the client
	headerLine        = "Landfall-Fleet-Line"        // tls, or absent for plain HTTP
	headerListener    = "Landfall-Fleet-Listener"    // a Listener, or absent for the main one
	headerCertificate = "Landfall-Fleet-Certificate" // DER in base64; one value for each certificate
	headerAddressed   = "Landfall-Fleet-Addressed"   // the member has the name that the client used; or absent
	// headerNotLeader is in the answer of a member that does not lead. The request had no effect.
	headerNotLeader = "Landfall-Fleet-Not-Leader"
)

// Listener is one of the listeners of a member.
type Listener string

// The listeners that followers have, too.
const (
	Main       Listener = ""
	Boot       Listener = "boot"
	Registry   Listener = "registry"
	Kubernetes Listener = "kubernetes"
)

const (
	lineTLS = "tls"
	// retryAfter is the value of the header Retry-After in answers without a leader, in seconds.
	retryAfter = "1"
	// dialTime and handshakeTime limit the begin of a connection to a member.
	dialTime, handshakeTime = 2 * time.Second, 5 * time.Second
	// idleConnections is the number of idle connections to the leader that are kept.
	idleConnections = 256
)

// Refuse answers a request with an error, in the form of the API.
type Refuse func(w http.ResponseWriter, r *http.Request, err error)

// Hosts reports whether this member has the name in a header Host. The leader need not know it.
type Hosts func(header string) bool

// Forwarder forwards requests to the leader. A request that comes while there is no leader waits.
type Forwarder struct {
	leaders *present
	hosts   Hosts
	wait    time.Duration // the longest time that a request waits for a leader
	through *http.Transport
	refuse  Refuse
	log     *slog.Logger
	stop    context.CancelFunc
	running sync.WaitGroup // pipelines
	seen    atomic.Uint64
	// unanswered is the number of attempts to send a request since the last answer.
	unanswered atomic.Int64
	heard      atomic.Pointer[leader] // the leader with the last answer; nil after a lost answer
}

// NewForwarder returns a forwarder without a leader.
func NewForwarder(credential *Credential, wait time.Duration, hosts Hosts, refuse Refuse,
	log *slog.Logger) *Forwarder {
	ctx, stop := context.WithCancel(context.Background())
	leaders := newPresent(ctx)
	return &Forwarder{leaders: leaders, stop: stop, wait: wait, hosts: hosts, refuse: refuse, log: log,
		through: &http.Transport{
			TLSClientConfig: credential.Client(), MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: time.Minute,
			DialContext:         (&net.Dialer{Timeout: dialTime}).DialContext,
			TLSHandshakeTimeout: handshakeTime, ExpectContinueTimeout: time.Second,
			DisableCompression: true, // the answer passes as it is
		}}
}

// Lead says to which member requests go. The zero value means that there is no leader.
func (f *Forwarder) Lead(by Peer) { f.leaders.set(by) }

// Doubt says that a member may no longer lead. Requests still go to it. Doubt has no effect if
// another member leads: the end of a leadership may be noticed after its successor is known.
func (f *Forwarder) Doubt(of Peer) { f.leaders.doubt(of) }

// Led reports whether a member leads, according to etcd or, if it is in doubt, to itself: see
// [Reach].
func (f *Forwarder) Led() bool { return f.leaders.led() }

// Close ends all requests, and closes the connections.
func (f *Forwarder) Close() {
	f.stop()
	f.running.Wait()
	f.through.CloseIdleConnections()
}

// Handler returns the handler of a listener.
func (f *Forwarder) Handler(at Listener) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: f, ErrorLog: slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Host, r.Out.URL.Scheme, r.Out.URL.Host = r.In.Host, "https", "leader"
			r.Out.URL.RawQuery = r.In.URL.RawQuery // also parameters that Go can't parse
			f.describe(r.Out.Header, r.In, at)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // the client has gone
			}
			f.log.Debug("A request could not be forwarded.", "method", r.Method, "path", r.URL.Path, "error", err)
			if unavailable := new(fault.Error); !errors.As(err, &unavailable) {
				err = errStopped
			}
			w.Header().Set("Retry-After", retryAfter)
			f.refuse(w, r, err)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPoll(r) {
			f.poll(w, r, at, proxy.ErrorHandler)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// poll forwards a poll.
func (f *Forwarder) poll(w http.ResponseWriter, r *http.Request, at Listener,
	fail func(http.ResponseWriter, *http.Request, error)) {
	sent := r.WithContext(r.Context())
	address := *r.URL
	address.Scheme, address.Host = "https", "leader"
	sent.URL, sent.RequestURI = &address, ""
	f.describe(sent.Header, r, at)
	answer, err := f.RoundTrip(sent)
	if err != nil {
		fail(w, r, err)
		return
	}
	defer answer.Body.Close()
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // it fails if the client has gone
}

// describe writes the headers that describe the client of a request.
func (f *Forwarder) describe(header http.Header, of *http.Request, at Listener) {
	for _, name := range described() {
		header.Del(name)
	}
	header.Set(headerClient, of.RemoteAddr)
	if f.hosts(of.Host) {
		header.Set(headerAddressed, "true")
	}
	if at != Main {
		header.Set(headerListener, string(at))
	}
	if of.TLS != nil {
		header.Set(headerLine, lineTLS)
		for _, certificate := range of.TLS.PeerCertificates {
			header.Add(headerCertificate, base64.StdEncoding.EncodeToString(certificate.Raw))
		}
	}
}

// described returns the headers that describe the client of a request.
func described() []string {
	return []string{headerClient, headerLine, headerListener, headerCertificate, headerAddressed}
}

// ErrNoLeader is the error while the fleet has no leader.
var ErrNoLeader = fault.New(fault.Unavailable, "the fleet has no leader now; another member takes over within "+
	"seconds, if etcd can be reached")

// errStopped is the error of a change whose outcome is not known.
var errStopped = fault.New(fault.Unavailable, "the leader of the fleet stopped during the request, which may have had "+
	"its effect; look, and send it again")

// RoundTrip implements http.RoundTripper. It sends a request again to the next leader if the first
// one can't have acted on it, and if it only reads.
func (f *Forwarder) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), f.wait)
	defer cancel()
	content, err := newContent(r)
	if err != nil {
		return nil, err
	}
	for tried := (*leader)(nil); ; {
		to, err := f.leaders.next(ctx, tried)
		if err != nil {
			return nil, ErrNoLeader
		}
		f.unanswered.Add(1)
		answer, err := f.send(content.attach(r), to)
		if err == nil {
			f.unanswered.Store(0)
		}
		refused := answer != nil && answer.Header.Get(headerNotLeader) != ""
		switch {
		case err == nil && !refused:
			f.see(answer, to)
			return answer, nil
		case r.Context().Err() != nil:
			return nil, r.Context().Err()
		case refused && content.once: // the body has been read
			answer.Header.Del(headerNotLeader)
			return answer, nil
		case refused:
			_ = answer.Body.Close() // the answer is not used
		case content.once, !notSent(err) && !isRead(r):
			f.heard.Store(nil)
			return nil, err
		}
		f.log.Debug("A request is sent again to the next leader.", "method", r.Method, "path", r.URL.Path, "error", err)
		tried = to
	}
}

// repeatable is the size of the largest body that is kept for another leader, in bytes.
const repeatable = 64 << 10

// admitTime limits how long [Forwarder.Admits] waits for the leader.
const admitTime = 2 * time.Second

// Admits asks the leader whether it would answer a request to the main listener that only reads. To
// the leader, this is a use of the client's credentials. Admits reports false without an answer.
func (f *Forwarder) Admits(r *http.Request) bool {
	ctx, cancel := context.WithTimeout(r.Context(), admitTime)
	defer cancel()
	asked := r.Clone(ctx)
	asked.Method, asked.Body, asked.ContentLength = http.MethodHead, http.NoBody, 0
	asked.URL.Scheme, asked.URL.Host, asked.RequestURI = "https", "leader", ""
	asked.Host = "localhost" // the leader may not know the name that the client used
	f.describe(asked.Header, r, Main)
	answer, err := f.RoundTrip(asked)
	if err != nil {
		f.log.Debug("The leader could not be asked about a client.", "path", r.URL.Path, "error", err)
		return false
	}
	_ = answer.Body.Close() // an answer to HEAD has no body
	return answer.StatusCode == http.StatusOK
}

// content is the body of a request.
type content struct {
	kept []byte
	once bool // it is sent as it comes, so only to one leader
}

func newContent(r *http.Request) (*content, error) {
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return &content{}, nil
	case r.ContentLength < 0 || r.ContentLength > repeatable:
		return &content{once: true}, nil
	}
	kept := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, kept); err != nil {
		return nil, fault.New(fault.Invalid, "the body of the request could not be read: %v", err)
	}
	return &content{kept: kept}, nil
}

// attach returns the request with its body from the beginning.
func (c *content) attach(r *http.Request) *http.Request {
	if c.kept == nil {
		return r
	}
	again := r.WithContext(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(c.kept))
	return again
}

// send sends a request to a leader. It ends when that member no longer leads.
func (f *Forwarder) send(r *http.Request, to *leader) (*http.Response, error) {
	if isPoll(r) {
		polls := to.pipeline(func(started *pipeline) {
			f.running.Go(func() { started.run(to.host, f.through, f.wait/3) })
		})
		answer, err := polls.roundTrip(r)
		if err == nil && answer.Header.Get(headerNotLeader) != "" {
			polls.end(ErrNoLeader) // this connection belongs to an earlier time as the leader
		}
		if !errors.Is(err, errNoPipeline) {
			return answer, err
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(to.ctx, cancel)
	sent := r.WithContext(ctx)
	address := *r.URL
	address.Host = to.host
	sent.URL = &address
	answer, err := f.through.RoundTrip(sent)
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	answer.Body = ending(answer.Body, func() { stop(); cancel() })
	return answer, nil
}

// notSent reports whether the leader can't have got a request.
func notSent(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// Peer is a member that others can reach.
type Peer struct {
	Name string
	URL  string // https://host:port
}

func (p Peer) host() string {
	parsed, err := url.Parse(p.URL)
	if err != nil {
		return ""
	}
	return parsed.Host
}

// Front is what the leader puts in front of its handlers.
type Front struct {
	requests atomic.Uint64
	contents Contents

	// Leads reports whether this member still leads. A member that was paused learns here that it
	// does not.
	Leads func() bool
	// Ending is closed when this member begins to end its leadership; nil: never.
	Ending <-chan struct{}
	Peers  Peers
	Refuse Refuse
}

// Wrap returns the handler of the main listener. It gives each request that a member has forwarded
// to the handler of the listener at which it arrived. others returns those of other listeners than
// the main one, or nil. remember makes the address of a member known to the limits of connections,
// so that a flood by strangers does not keep out the members.
func (f *Front) Wrap(main http.Handler, others func(Listener) http.Handler, snapshots Snapshots, contents Contents,
	hosts Contacts, remember func(netip.Addr)) http.Handler {
	peers := f.Peers
	peers.Snapshots, peers.Contents, peers.Hosts = snapshots, contents, hosts
	f.contents = contents
	var all http.HandlerFunc
	all = func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		from, ofPeer := sender(r), isOfPeer(r)
		if ofPeer {
			rememberPeer(r, remember)
		}
		if ofPeer && r.URL.Path != pollsPath {
			peers.ServeHTTP(w, r)
			return
		}
		if !f.Leads() {
			refuseAsFollower(w, r, f.Refuse)
			return
		}
		if ofPeer {
			f.servePolls(w, r, all)
			return
		}
		guarded := &guard{ResponseWriter: w, request: r, leads: f.Leads, refuse: f.Refuse}
		if from == "" {
			main.ServeHTTP(guarded, r)
			guarded.end()
			return
		}
		original, at, err := restore(r, from)
		handler := main
		if at != Main {
			handler = others(at)
		}
		switch {
		case err != nil:
			f.Refuse(guarded, r, err)
		case handler == nil:
			f.Refuse(guarded, r, fault.New(fault.NotFound, "the leader has no listener %q; give all members the same "+
				"configuration", at))
		default:
			handler.ServeHTTP(guarded, original)
		}
		guarded.end()
	}
	return all
}

// Guard returns the handler of another listener for clients that use it directly. It refuses their
// requests while this member does not lead.
func (f *Front) Guard(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		if !f.Leads() {
			refuseAsFollower(w, r, f.Refuse)
			return
		}
		guarded := &guard{ResponseWriter: w, request: r, leads: f.Leads, refuse: f.Refuse}
		handler.ServeHTTP(guarded, r)
		guarded.end()
	})
}

// Count returns the handler of another listener that this member serves in each role.
func (f *Front) Count(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		handler.ServeHTTP(w, r)
	})
}

// MissingContents returns the contents of files that this leader lacks. Wrap comes before.
func (f *Front) MissingContents(ctx context.Context) ([]string, error) {
	return f.contents.MissingContents(ctx)
}

// Requests returns the number of requests of clients and members that have come.
func (f *Front) Requests() uint64 { return f.requests.Load() }

// restore returns a forwarded request as the client sent it, and takes the headers of the member
// out of both. The client used no address of this machine, so the context has none: a client with
// that address runs here, and not on the member.
func restore(r *http.Request, member string) (original *http.Request, at Listener, err error) {
	ctx := context.WithValue(r.Context(), http.LocalAddrContextKey, nil)
	original = r.WithContext(forwarding.With(ctx, forwarding.Forwarding{Member: member,
		Addressed: r.Header.Get(headerAddressed) != ""}))
	original.RemoteAddr, original.TLS = r.Header.Get(headerClient), nil
	if r.Header.Get(headerLine) == lineTLS {
		state := tls.ConnectionState{Version: r.TLS.Version, HandshakeComplete: true}
		for _, text := range r.Header.Values(headerCertificate) {
			certificate, err := parseCertificate(text)
			if err != nil {
				return nil, Main, fault.New(fault.Invalid, "the certificate in a forwarded request is "+
					"damaged: %v", err)
			}
			state.PeerCertificates = append(state.PeerCertificates, certificate)
		}
		original.TLS = &state
	}
	at = Listener(r.Header.Get(headerListener))
	for _, name := range append(described(), headerNumber) {
		original.Header.Del(name)
	}
	return original, at, nil
}

func parseCertificate(text string) (*x509.Certificate, error) {
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
