package replica

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Routes of an appliance that receives a replica. Those below SessionRoute have the parameters
// replica, owner and generation.
const (
	ReceiverRoute  = "/api/landfall/v1/replica"
	SessionsRoute  = ReceiverRoute + "/sessions"
	ClaimsRoute    = ReceiverRoute + "/claims"
	SessionRoute   = SessionsRoute + "/:replica/:owner/:generation"
	ObjectRoute    = SessionRoute + "/objects/:sum"
	SnapshotsRoute = SessionRoute + "/snapshots"
	FramesRoute    = SessionRoute + "/frames"
	HeartbeatRoute = SessionRoute + "/heartbeat"
	PrunesRoute    = SessionRoute + "/prunes"
	ResumesRoute   = SessionRoute + "/resumes"
)

// MaxFrame is the largest frame in bytes.
const MaxFrame = frameLimit

// Presence is the answer to the question for an object.
type Presence struct {
	Has bool `json:"has"`
}

// NewSnapshot is the body of a request that adds a snapshot.
type NewSnapshot struct {
	Snapshot Snapshot `json:"snapshot"`
	Manifest []byte   `json:"manifest"`
	Objects  []string `json:"objects"`
}

// Resumed is the answer to a request that continues a generation.
type Resumed struct {
	Last string `json:"last"` // SHA-256 of the last whole frame, or ""
}

// Remote is a replica in the directory of a second appliance, which writes what this one sends. The
// second appliance may go away and come back, like a directory.
type Remote struct {
	URL       string // https
	TokenFile string // with the credential
	CAFile    string // "": the authorities of the system
	// Silence is the time without an answer after which the connection is checked, and again the
	// time after which a connection that fails the check is closed. 0: 15 seconds.
	Silence time.Duration
}

// silence is the default of Remote.Silence. Without the check, a connection that a router has
// forgotten would be used until the kernel gives it up after a quarter of an hour.
const silence = 15 * time.Second

// String implements Target.
func (r Remote) String() string { return r.URL }

// Open implements Target.
func (r Remote) Open(ctx context.Context, owner Owner) (Session, error) {
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	s := &remoteSession{connection: c}
	if err := c.call(ctx, http.MethodPost, SessionsRoute, frameTime, owner, &s.owner); err != nil {
		return nil, err
	}
	s.replacer = strings.NewReplacer(":replica", url.PathEscape(s.owner.Replica), ":owner",
		url.PathEscape(s.owner.ID), ":generation", fmt.Sprint(s.owner.Generation))
	return s, nil
}

// Signs returns the owner of the replica and its newest sign of life.
func (r Remote) Signs(ctx context.Context) (*Signs, error) {
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	signs := new(Signs)
	return signs, c.call(ctx, http.MethodGet, ReceiverRoute, frameTime, nil, signs)
}

// Claim makes a data directory the owner; see Directory.Claim.
func (r Remote) Claim(ctx context.Context, owner Owner) error {
	c, err := r.connect()
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPost, ClaimsRoute, frameTime, owner, nil)
}

// frameTime and storeTime limit the time in which the line may stand still. The disk of the second
// appliance may need long for a large object, and for the removal of many.
const (
	frameTime = 30 * time.Second
	storeTime = 5 * time.Minute
)

// connection calls a second appliance.
type connection struct {
	Remote
	token string
	http  *http.Client
}

// connect reads the files again, so that they can be replaced.
func (r Remote) connect() (*connection, error) {
	if !strings.HasPrefix(r.URL, "https://") {
		return nil, fmt.Errorf("the replica can't be sent to %s; name an https:// URL, because it contains the site",
			r.URL)
	}
	token, err := readToken(r.TokenFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CAFile != "" {
		text, err := os.ReadFile(r.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the authority of the second appliance: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the file %s contains no certificate in PEM", r.CAFile)
		}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true,
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{SendPingTimeout: cmp.Or(r.Silence, silence), PingTimeout: cmp.Or(r.Silence, silence)}}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &connection{r, token, &http.Client{Transport: transport, CheckRedirect: refuse}}, nil
}

// call sends a value as JSON and reads the answer.
func (c *connection) call(ctx context.Context, method, path string, limit time.Duration, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	return c.send(ctx, method, path, "application/json", limit, body, out)
}

// send sends a body. It fails when nothing is read of the body, or the answer does not begin, for
// longer than the limit.
func (c *connection) send(ctx context.Context, method, path, kind string, limit time.Duration, body io.Reader,
	out any) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() { cancel(errStalled) })
	defer timer.Stop()
	var watched io.Reader
	if body != nil {
		watched = readerFunc(func(p []byte) (int, error) {
			timer.Reset(limit)
			return body.Read(p)
		})
	}
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, watched)
	if err != nil {
		return err
	}
	if sized, ok := body.(interface{ Len() int }); ok {
		request.ContentLength = int64(sized.Len())
	}
	// Only a session sends more. An appliance that is refused tries again every few seconds, and
	// must leave no connection behind each time.
	request.Close = !strings.HasPrefix(path, SessionsRoute+"/")
	request.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		request.Header.Set("Content-Type", kind)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return c.away(ctx, err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return c.away(ctx, err)
	}
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("the appliance at %s refuses the credential in %s; put the same credential into both files",
			c.URL, c.TokenFile)
	case response.StatusCode >= http.StatusMultipleChoices:
		refusal := new(Refusal)
		if json.Unmarshal(text, refusal) != nil || refusal.Reason == "" {
			return fmt.Errorf("%s answers with status %d, so it is no appliance that receives a replica", c.URL,
				response.StatusCode)
		}
		return refusal.error(c.URL)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.URL, err)
	}
	return nil
}

// maxAnswer is the largest answer in bytes.
const maxAnswer = 1 << 20

var errStalled = errors.New("the line stands still")

// away returns the error for a second appliance that does not answer.
func (c *connection) away(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		err = cause
	} else if cause != nil {
		return cause
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the whole path
	}
	return &AwayError{c.URL, err}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// remoteSession implements Session.
type remoteSession struct {
	*connection
	owner    Owner
	replacer *strings.Replacer
}

func (s *remoteSession) path(route string) string { return s.replacer.Replace(route) }

// Generation implements Session.
func (s *remoteSession) Generation() uint64 { return s.owner.Generation }

// Has implements Session.
func (s *remoteSession) Has(ctx context.Context, sum string) (bool, error) {
	var found Presence
	err := s.call(ctx, http.MethodGet, strings.Replace(s.path(ObjectRoute), ":sum", sum, 1), frameTime, nil, &found)
	return found.Has, err
}

// Put implements Session.
func (s *remoteSession) Put(ctx context.Context, sum string, stored io.Reader) error {
	failed := new(atomic.Pointer[error])
	err := s.send(ctx, http.MethodPut, strings.Replace(s.path(ObjectRoute), ":sum", sum, 1), octets, storeTime,
		readerFunc(func(p []byte) (int, error) {
			n, err := stored.Read(p)
			if err != nil && !errors.Is(err, io.EOF) {
				failed.Store(&err)
			}
			return n, err
		}), nil)
	if own := failed.Load(); own != nil {
		return *own // and not of the line
	}
	return err
}

const octets = "application/octet-stream"

// AddSnapshot implements Session.
func (s *remoteSession) AddSnapshot(ctx context.Context, snapshot Snapshot, manifest []byte, sums []string) error {
	return s.call(ctx, http.MethodPost, s.path(SnapshotsRoute), storeTime, NewSnapshot{snapshot, manifest, sums}, nil)
}

// Append implements Session.
func (s *remoteSession) Append(ctx context.Context, frame []byte) error {
	return s.send(ctx, http.MethodPost, s.path(FramesRoute), octets, frameTime, bytes.NewReader(frame), nil)
}

// Beat implements Session.
func (s *remoteSession) Beat(ctx context.Context, beat Heartbeat) error {
	return s.call(ctx, http.MethodPut, s.path(HeartbeatRoute), frameTime, beat, nil)
}

// Prune implements Session.
func (s *remoteSession) Prune(ctx context.Context, retention Retention) (usage Usage, err error) {
	err = s.call(ctx, http.MethodPost, s.path(PrunesRoute), storeTime, retention, &usage)
	return usage, err
}

// Resume implements Session.
func (s *remoteSession) Resume(ctx context.Context) (last string, err error) {
	var resumed Resumed
	err = s.call(ctx, http.MethodPost, s.path(ResumesRoute), frameTime, nil, &resumed)
	return resumed.Last, err
}
