package bmc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stmcginnis/gofish"
)

// How long a BMC may take, and how often it is asked again. The figures are those that OpenStack's
// sushy came to in the field; connections are timed by the machine's clock, waiting between
// attempts by the manager's.
const (
	connectTimeout  = 30 * time.Second
	answerTimeout   = 60 * time.Second
	insertTimeout   = 3 * time.Minute // some BMCs fetch the image before they answer
	logoutTimeout   = 10 * time.Second
	silentAttempts  = 5
	silentPause     = 4 * time.Second
	failingAttempts = 4
	failingPause    = 3 * time.Second
	longestRetry    = 2 * time.Minute // of what Retry-After asks for
	taskPause       = 2 * time.Second
	taskPatience    = 10 * time.Minute
)

// session is one conversation with a BMC. It is used by one goroutine.
type session struct {
	name     string // the server's, for sentences
	address  Address
	username string
	password string
	image    string // that it is about, if any
	clock    clockwork.Clock
	log      *slog.Logger
	tape     *tape
	note     func(warning bool, reason, format string, args ...any)

	http    *http.Client
	client  *gofish.APIClient
	basic   bool // there are no sessions to be had
	renewed bool // the session was renewed after it had ended
	vendor  Vendor
	root    *resource
	system  *resource
}

// transport returns what carries the requests to a BMC: HTTP/1.1, no proxy, certificates as it was
// chosen.
func transport(skipVerify bool, ca string) (*http.Transport, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: skipVerify}
	if ca != "" && !skipVerify {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's certificate authorities: %w", err)
		}
		pool.AppendCertsFromPEM([]byte(ca))
		trust.RootCAs = pool
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout: connectTimeout, TLSClientConfig: trust,
		MaxConnsPerHost: 1, IdleConnTimeout: time.Minute,
	}, nil
}

// login begins a session, or goes on without one where the BMC has none to give.
func (s *session) login(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*answerTimeout)
	defer cancel()
	config := gofish.ClientConfig{
		Endpoint: s.address.URL, Username: s.username, Password: s.password, HTTPClient: s.http, ReuseConnections: true,
		BasicAuth: s.basic,
	}
	client, err := gofish.ConnectContext(ctx, config)
	if err == nil {
		s.client = client
		return nil
	}
	f := s.failed(http.MethodPost, s.tape.last.path, err)
	if s.basic || ctx.Err() != nil || !s.sessionless(f, err) {
		return f
	}
	s.basic = true
	if err := s.login(ctx); err != nil {
		if f.sessionsFull() {
			return f
		}
		return err
	}
	return nil
}

// sessionless tells whether a login failed because there are no sessions, or none free, rather than
// for what was said.
func (s *session) sessionless(f *failure, err error) bool {
	if strings.Contains(err.Error(), "no target provided") {
		return true // the service root names no SessionService
	}
	if !f.refusedSession() && !strings.Contains(f.path, "SessionService") {
		return false
	}
	switch f.status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return f.sessionsFull()
}

// logout gives the session back; BMCs have few. It works also when the conversation was broken off.
func (s *session) logout(ctx context.Context) {
	defer s.http.CloseIdleConnections()
	if s.client == nil {
		return
	}
	held, err := s.client.GetSession()
	if err != nil || s.basic || held.ID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	if _, err := s.client.WithContext(ctx).Delete(held.ID); err != nil {
		s.log.Debug("A BMC's session was not closed.", "server", s.name, "error", redact(err.Error(), s.password))
	}
	s.client = nil
}

// failed reads why a request of the client failed out of what was heard last.
func (s *session) failed(method, path string, err error) *failure {
	if last := s.tape.last; last.status >= http.StatusBadRequest {
		return readFailure(last.method, last.path, last.status, last.body)
	}
	return &failure{method: method, path: path, err: err}
}

// request is one that is made of a BMC.
type request struct {
	method, path string
	body         any
	etag         string
	timeout      time.Duration
	once         bool // doing it twice would do something else than doing it once
}

// do makes a request and hands back the answer of a success. It is tried again where that is known
// to help: after silence, status 5xx (as Retry-After asks), and once with a new session after 401.
// Other errors are *failure.
func (s *session) do(ctx context.Context, r request) (*heard, error) {
	if r.timeout == 0 {
		r.timeout = answerTimeout
	}
	for attempt := 1; ; attempt++ {
		answer, err := s.try(ctx, r)
		if err == nil || ctx.Err() != nil {
			return answer, errors.Join(err, ctx.Err())
		}
		f, _ := asFailure(err)
		pause := time.Duration(0)
		switch {
		case f.status == http.StatusUnauthorized && !s.basic && !s.renewed:
			s.renewed = true
			if err := s.login(ctx); err != nil {
				return nil, err
			}
			continue
		case f.status == 0 && !r.once && attempt < silentAttempts && !hopeless(f.err):
			pause = silentPause
		case f.retryable() && attempt < failingAttempts:
			pause = max(failingPause, min(s.tape.last.retryAfter(), longestRetry))
		default:
			return nil, err
		}
		if err := s.pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// hopeless tells of errors which a repetition does not mend.
func hopeless(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record)
}

func (s *session) try(ctx context.Context, r request) (*heard, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	client := s.client.WithContext(ctx)
	headers := map[string]string{}
	if r.etag != "" {
		headers["If-Match"] = r.etag
	}
	var response *http.Response
	var err error
	s.tape.last = heard{}
	switch r.method {
	case http.MethodPost:
		response, err = client.PostWithHeaders(r.path, r.body, headers)
	case http.MethodPatch:
		response, err = client.PatchWithHeaders(r.path, r.body, headers)
	default:
		response, err = client.Get(r.path)
	}
	if err != nil {
		return nil, s.failed(r.method, r.path, err)
	}
	answer := s.tape.last
	return &answer, response.Body.Close()
}

// get reads a resource.
func (s *session) get(ctx context.Context, path string) (*resource, error) {
	answer, err := s.do(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	fields, err := decodeObject(answer.body)
	if err != nil {
		return nil, &failure{method: http.MethodGet, path: path, status: answer.status,
			messages: []message{{text: "the answer is no JSON object"}}}
	}
	etag := fields.text("@odata.etag")
	if etag == "" {
		etag = strings.Replace(answer.header.Get("ETag"), `-gzip"`, `"`, 1) // Apache's mod_deflate adds it
	}
	return &resource{fields, path, etag}, nil
}

// members reads the members of a collection, and leaves out those that are not there after all.
func (s *session) members(ctx context.Context, path string) ([]*resource, error) {
	collection, err := s.get(ctx, path)
	if err != nil {
		return nil, err
	}
	var found []*resource
	for _, link := range collection.links("Members") {
		member, err := s.get(ctx, link)
		if f, ok := asFailure(err); ok && f.status >= 400 && f.status < 500 && f.status != http.StatusUnauthorized {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, member)
	}
	return found, nil
}

// post runs an action and follows its task to the end.
func (s *session) post(ctx context.Context, path string, body any) error {
	return s.run(ctx, request{method: http.MethodPost, path: path, body: body})
}

// run makes a request that changes something, and follows its task to the end.
func (s *session) run(ctx context.Context, r request) error {
	answer, err := s.do(ctx, r)
	if err != nil {
		return err
	}
	if answer.status == http.StatusAccepted {
		return s.follow(ctx, answer)
	}
	return nil
}

// patch changes fields of a resource; the version that it has is named where the BMC wants that.
func (s *session) patch(ctx context.Context, of *resource, body any) error {
	r := request{method: http.MethodPatch, path: of.path, body: body, etag: of.etag}
	for attempt := 1; ; attempt++ {
		err := s.run(ctx, r)
		f, ok := asFailure(err)
		if !ok || f.status != http.StatusPreconditionFailed && f.status != http.StatusPreconditionRequired ||
			attempt == 3 {
			return err
		}
		fresh, err := s.get(ctx, of.path)
		if err != nil {
			return err
		}
		r.etag = fresh.etag
		if attempt == 2 && f.status == http.StatusPreconditionFailed {
			r.etag = "" // its tags never match
		}
	}
}

// follow waits for a task (DSP0266, "Asynchronous operations").
func (s *session) follow(ctx context.Context, accepted *heard) error {
	monitor := accepted.location()
	if monitor == "" {
		if fields, err := decodeObject(accepted.body); err == nil {
			monitor = fields.link()
		}
	}
	if monitor == "" {
		return nil // whoever asked looks at what came of it anyway
	}
	pause := max(taskPause, min(accepted.retryAfter(), longestRetry))
	for end := s.clock.Now().Add(taskPatience); s.clock.Now().Before(end); {
		if err := s.pause(ctx, pause); err != nil {
			return err
		}
		answer, err := s.do(ctx, request{method: http.MethodGet, path: monitor})
		if f, ok := asFailure(err); ok && (f.status == http.StatusNotFound || f.status == http.StatusGone) {
			return nil // monitors of tasks that ended may be gone
		}
		if err != nil {
			return err
		}
		pause = max(taskPause, min(answer.retryAfter(), longestRetry))
		fields, err := decodeObject(answer.body)
		if err != nil {
			fields = object{}
		}
		switch state := fields.text("TaskState"); state {
		case "Exception", "Killed", "Cancelled", "Interrupted":
			f := &failure{method: http.MethodGet, path: monitor, status: http.StatusBadRequest,
				messages: readMessages(fields, "Messages")}
			if len(f.messages) == 0 {
				f.messages = []message{{text: "the task ended as " + state}}
			}
			return f
		case "":
			if answer.status != http.StatusAccepted {
				return nil
			}
		case "Completed":
			return nil
		}
	}
	return &failure{method: http.MethodGet, path: monitor, status: http.StatusGatewayTimeout,
		messages: []message{{text: fmt.Sprintf("the task did not end within %s", taskPatience)}}}
}

// pause waits by the manager's clock.
func (s *session) pause(ctx context.Context, d time.Duration) error {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.Chan():
		return nil
	}
}

// until asks again and again whether something is so, soon at first, for at most as long as
// patience.
func (s *session) until(ctx context.Context, every, patience time.Duration, so func() (bool, error)) (bool, error) {
	pause := every / 4
	for end := s.clock.Now().Add(patience); ; pause = min(2*pause, every) {
		done, err := so()
		if done || err != nil {
			return done, err
		}
		if !s.clock.Now().Before(end) {
			return false, nil
		}
		if err := s.pause(ctx, pause); err != nil {
			return false, err
		}
	}
}

// retryAfter is how long an answer asks to wait, 0 if it does not. A date is compared with the
// BMC's own clock, which may well be in 1970.
func (h *heard) retryAfter() time.Duration {
	text := h.header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.header.Get("Date"))
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// location is the path that an answer names, without the host: BMCs behind NAT name one that nobody
// reaches.
func (h *heard) location() string {
	location := h.header.Get("Location")
	if _, rest, ok := strings.Cut(location, "://"); ok {
		_, path, _ := strings.Cut(rest, "/")
		return "/" + path
	}
	return location
}
