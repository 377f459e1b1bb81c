package bmc

import (
	"context"
	"crypto/tls"
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

	"landfall/appliance/egress"
	"landfall/appliance/roots"
)

// Time-outs and retries of requests. The values are those of OpenStack's sushy, which come from
// practical experience. Connections use the machine's clock. Delays between attempts use the
// manager's clock.
const (
	connectTimeout      = 30 * time.Second
	requestTimeout      = 60 * time.Second
	insertTimeout       = 3 * time.Minute // some BMCs fetch the image before they respond
	logoutTimeout       = 10 * time.Second
	noResponseAttempts  = 5
	noResponseDelay     = 4 * time.Second
	serverErrorAttempts = 4
	serverErrorDelay    = 3 * time.Second
	maxRetryAfter       = 2 * time.Minute // upper limit for Retry-After
	taskPollInterval    = 2 * time.Second
	taskTimeout         = 10 * time.Minute
)

// session is one Redfish session with a BMC. It is used by one goroutine.
type session struct {
	name     string // the server's name, for messages
	address  Address
	username string
	password string
	image    string // URL of the image to boot, if any
	clock    clockwork.Clock
	log      *slog.Logger
	recorder *recorder
	addEvent func(warning bool, reason, format string, args ...any)

	http    *http.Client
	client  *gofish.APIClient
	basic   bool // use Basic authentication, because the BMC offers no session
	known   bool // the BMC has accepted the credentials and described the system
	renewed bool // the session ended and was renewed once
	vendor  Vendor
	root    *resource
	system  *resource
	assumed Power // see lastPower

	// noteRestart stores that the BMC is about to be asked to restart the server.
	noteRestart func() error
	restarting  bool      // a request to restart the server may have been carried out; its outcome is not stored
	uncertain   bool      // the server was not asked to restart again, because of an earlier request
	ordered     time.Time // when the pending action was ordered; zero without one
}

// transport returns the HTTP transport to a BMC: HTTP/1.1, without a proxy, with the configured
// verification of certificates. The rules decide which addresses may be reached.
func transport(skipVerify bool, ca string, rules *egress.Rules) *http.Transport {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: skipVerify}
	if ca != "" && !skipVerify {
		trust.RootCAs, _ = roots.With([]byte(ca)) // it was checked when it was stored
	}
	return &http.Transport{
		DialContext:         rules.Dialer(net.Dialer{Timeout: connectTimeout}),
		TLSHandshakeTimeout: connectTimeout, TLSClientConfig: trust,
		MaxConnsPerHost: 1, IdleConnTimeout: time.Minute,
	}
}

// login starts a session. If the BMC offers no sessions, it uses Basic authentication.
func (s *session) login(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
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
	f := s.failureOf(http.MethodPost, s.recorder.response.path, err)
	if s.basic || ctx.Err() != nil || !s.sessionsUnavailable(f, err) {
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

// sessionsUnavailable reports whether a login failed because the BMC does not support sessions or
// has no free session.
func (s *session) sessionsUnavailable(f *failure, err error) bool {
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

// logout deletes the session, because BMCs have few sessions. It also works after the context was
// canceled.
func (s *session) logout(ctx context.Context) {
	defer s.http.CloseIdleConnections()
	if s.client == nil {
		return
	}
	redfishSession, err := s.client.GetSession()
	if err != nil || s.basic || redfishSession.ID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	if _, err := s.client.WithContext(ctx).Delete(redfishSession.ID); err != nil {
		s.log.Debug("The session with a BMC could not be deleted.", "server", s.name, "error",
			redact(err.Error(), s.password))
	}
	s.client = nil
}

// failureOf returns the failure of a request, taken from the last response.
func (s *session) failureOf(method, path string, err error) *failure {
	last := s.recorder.response
	if last.status >= http.StatusBadRequest {
		return readFailure(last.method, last.path, last.status, last.body)
	}
	if last.status > 0 {
		if _, unreadable := decodeObject(last.body); unreadable != nil {
			return &failure{method: last.method, path: last.path, status: last.status, notJSON: true, err: err}
		}
	}
	return &failure{method: method, path: path, err: err}
}

// request is a request to a BMC.
type request struct {
	method, path  string
	body          any
	etag          string
	timeout       time.Duration
	notIdempotent bool // repeating the request would have another effect
}

// request sends a request and returns a successful response. It retries if there is no response,
// after a status 5xx (with the delay of Retry-After), and once after 401 with a new session. It
// does not retry a request that is not idempotent and that the BMC may have carried out. Other
// errors are *failure.
func (s *session) request(ctx context.Context, r request) (*response, error) {
	if r.timeout == 0 {
		r.timeout = requestTimeout
	}
	for attempt := 1; ; attempt++ {
		answer, err := s.send(ctx, r)
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
		case r.notIdempotent && f.unanswered():
			return nil, err
		case f.status == 0 && attempt < noResponseAttempts && !permanent(f.err):
			pause = noResponseDelay
		case f.retryable() && attempt < serverErrorAttempts:
			pause = max(serverErrorDelay, min(s.recorder.response.retryAfter(), maxRetryAfter))
		default:
			return nil, err
		}
		if err := s.sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// permanent reports whether a retry would fail for the same reason.
func permanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var denied *egress.DeniedError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &denied)
}

func (s *session) send(ctx context.Context, r request) (*response, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	client := s.client.WithContext(ctx)
	headers := map[string]string{}
	if r.etag != "" {
		headers["If-Match"] = r.etag
	}
	var httpResponse *http.Response
	var err error
	s.recorder.response = response{}
	switch r.method {
	case http.MethodPost:
		httpResponse, err = client.PostWithHeaders(r.path, r.body, headers)
	case http.MethodPatch:
		httpResponse, err = client.PatchWithHeaders(r.path, r.body, headers)
	default:
		httpResponse, err = client.Get(r.path)
	}
	if err != nil {
		return nil, s.failureOf(r.method, r.path, err)
	}
	answer := s.recorder.response
	return &answer, httpResponse.Body.Close()
}

// get reads a resource.
func (s *session) get(ctx context.Context, path string) (*resource, error) {
	answer, err := s.request(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	fields, err := decodeObject(answer.body)
	if err != nil {
		return nil, &failure{method: http.MethodGet, path: path, status: answer.status, notJSON: true, err: err}
	}
	etag := fields.text("@odata.etag")
	if etag == "" {
		// Apache's mod_deflate adds this suffix
		etag = strings.Replace(answer.header.Get("ETag"), `-gzip"`, `"`, 1)
	}
	return &resource{fields, path, etag}, nil
}

// members returns the members of a collection. It skips members that do not exist.
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

// post runs an action and waits for its task.
func (s *session) post(ctx context.Context, path string, body any) error {
	return s.run(ctx, request{method: http.MethodPost, path: path, body: body})
}

// run sends a request that changes a resource and waits for its task.
func (s *session) run(ctx context.Context, r request) error {
	answer, err := s.request(ctx, r)
	if err != nil {
		return err
	}
	if answer.status == http.StatusAccepted {
		return s.awaitTask(ctx, answer)
	}
	return nil
}

// patch changes properties of a resource. It sends the resource's ETag if the BMC requires it.
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
			r.etag = "" // no ETag of this BMC matches
		}
	}
}

// awaitTask waits for a task (DSP0266, "Asynchronous operations").
func (s *session) awaitTask(ctx context.Context, accepted *response) error {
	monitor := accepted.location()
	if monitor == "" {
		if fields, err := decodeObject(accepted.body); err == nil {
			monitor = fields.link()
		}
	}
	if monitor == "" {
		return nil // the caller checks the result itself
	}
	pause := max(taskPollInterval, min(accepted.retryAfter(), maxRetryAfter))
	for end := s.clock.Now().Add(taskTimeout); s.clock.Now().Before(end); {
		if err := s.sleep(ctx, pause); err != nil {
			return err
		}
		answer, err := s.request(ctx, request{method: http.MethodGet, path: monitor})
		if f, ok := asFailure(err); ok && (f.status == http.StatusNotFound || f.status == http.StatusGone) {
			return nil // the BMC may delete the monitor of a completed task
		}
		if err != nil {
			return err
		}
		pause = max(taskPollInterval, min(answer.retryAfter(), maxRetryAfter))
		fields, err := decodeObject(answer.body)
		if err != nil {
			fields = object{}
		}
		switch state := fields.text("TaskState"); state {
		case "Exception", "Killed", "Cancelled", "Interrupted":
			f := &failure{method: http.MethodGet, path: monitor, status: http.StatusBadRequest,
				messages:  readMessages(fields, "Messages"),
				taskEnded: state != "Interrupted"} // an interrupted task may go on (DSP2046, "TaskState")
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
		messages: []message{{text: fmt.Sprintf("the task did not end within %d minutes", minutes(taskTimeout))}}}
}

// sleep waits on the manager's clock.
func (s *session) sleep(ctx context.Context, d time.Duration) error {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.Chan():
		return nil
	}
}

// poll calls condition until it returns true or an error, or until the time-out expires. The first
// delays are shorter than the interval.
func (s *session) poll(ctx context.Context, interval, timeout time.Duration,
	condition func() (bool, error)) (bool, error) {
	delays := newBackoff(interval/4, interval)
	for end := s.clock.Now().Add(timeout); ; {
		done, err := condition()
		if done || err != nil {
			return done, err
		}
		if !s.clock.Now().Before(end) {
			return false, nil
		}
		if err := s.sleep(ctx, delays.Step()); err != nil {
			return false, err
		}
	}
}

// retryAfter returns the delay that a response requests, or 0. It compares a date with the BMC's
// own clock, which may show 1970.
func (h *response) retryAfter() time.Duration {
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

// location returns the path of the Location header. It drops the host, because a BMC behind NAT
// names an unreachable host.
func (h *response) location() string {
	location := h.header.Get("Location")
	if _, rest, ok := strings.Cut(location, "://"); ok {
		_, path, _ := strings.Cut(rest, "/")
		return "/" + path
	}
	return location
}
