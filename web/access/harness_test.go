package access_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/limit"
	"landfall/appliance/access/passkey"
	"landfall/appliance/access/people"
	"landfall/appliance/access/tokens"
	"landfall/appliance/audittrail"
	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web"
	"landfall/web/access"
	"landfall/web/operation"
	"landfall/web/recording"
)

const (
	host     = "landfall.example.com"
	password = "correct horse battery staple"
)

// service is a server with the operations on accounts, over TLS.
type service struct {
	*httptest.Server
	*access.Service
	t     *testing.T
	clock *clockwork.FakeClock
	log   text
	trail *audittrail.Trail
}

// text is what was written.
type text struct {
	mu      sync.Mutex
	written strings.Builder
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.written.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.written.String()
}

// objects are the IDs of the clusters that exist. There are no infra-envs.
type objects map[string]bool

func (o objects) Cluster(id string) (*models.Cluster, error) {
	if !o[id] {
		return nil, fault.New(fault.NotFound, "There is no cluster %s.", id)
	}
	return &models.Cluster{}, nil
}

func (o objects) InfraEnv(id string) (*models.InfraEnv, error) {
	return nil, fault.New(fault.NotFound, "There is no infra-env %s.", id)
}

// newService starts a server with the administrator ada.
func newService(t *testing.T, change func(*access.Service)) *service {
	t.Helper()
	dir, clock := t.TempDir(), clockwork.NewFakeClockAt(time.Now())
	log := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true, Clock: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &service{t: t, clock: clock, Service: &access.Service{Limiter: limit.New(clock), Total: time.Hour,
		Objects: objects{}}}
	s.People, err = people.New(people.Options{DB: db, Clock: clock, Dir: dir, Logger: log,
		HashCost: people.HashCost{MemoryKiB: 8, Passes: 1}})
	require.NoError(t, err)
	s.Tokens, err = tokens.New(tokens.Options{DB: db, Clock: clock, Logger: log})
	require.NoError(t, err)
	s.Passkeys, err = passkey.New(clock)
	require.NoError(t, err)
	code, err := s.People.SetupCode()
	require.NoError(t, err)
	_, err = s.People.SetUp(t.Context(), code, "ada", password)
	require.NoError(t, err)
	if change != nil {
		change(s.Service)
	}
	options, logger := access.Options{Sessions: s.People, Tokens: s.Tokens, Clock: clock},
		slog.New(slog.NewTextHandler(&s.log, nil))
	if s.OIDC != nil {
		options.Bearers = access.NewBearers(s.OIDC, s.People, clock, logger)
	}
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	trail, err := audittrail.Open(audittrail.Options{Dir: filepath.Join(dir, audittrail.DirName), DB: db, Key: key})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, trail.Close()) })
	options.Refused = recording.New(trail).Refused
	s.trail = trail
	guard, recorder := access.New(options), recording.New(trail)
	server := web.New(web.Options{Hosts: web.NewHosts(host), Logger: logger,
		Wrap: func(o operation.Operation) echo.HandlerFunc {
			o.Handler = recorder.Wrap(o)
			return guard.Wrap(o)
		}})
	require.NoError(t, server.Register(append(s.Operations(), s.endless())...))
	s.Server = httptest.NewTLSServer(server)
	t.Cleanup(s.Close)
	return s
}

// browser is a client with cookies that reaches the server under its name.
type browser struct {
	*http.Client
	t *testing.T
}

func (s *service) browser() *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	client := s.Client()
	transport := client.Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.ServerName = "example.com" // of the server's certificate
	return &browser{&http.Client{Jar: jar, Transport: named{transport, s.Listener.Addr().String()},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, s.t}
}

// named sends the requests for the server's name to its address.
type named struct {
	base    http.RoundTripper
	address string
}

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != host {
		return n.base.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Host, r.URL.Host = host, n.address
	return n.base.RoundTrip(r)
}

type answered struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request with a header, which is a name and a value.
func (b *browser) send(method, path string, body any, header ...string) answered {
	b.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(b.t, err)
	address := path
	if !strings.Contains(path, "://") {
		address = "https://" + host + access.BasePath + path
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, address, bytes.NewReader(text))
	require.NoError(b.t, err)
	if len(header) > 0 {
		request.Header.Set(header[0], header[1])
	}
	response, err := b.Do(request)
	require.NoError(b.t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	return answered{response.StatusCode, response.Header, content}
}

// whoami returns the name of the person in the browser, or "".
func (b *browser) whoami() string {
	b.t.Helper()
	got := b.send(http.MethodGet, "/whoami", nil)
	if got.status == http.StatusUnauthorized {
		return ""
	}
	require.Equal(b.t, http.StatusOK, got.status)
	var who access.Whoami
	require.NoError(b.t, json.Unmarshal(got.body, &who))
	return who.Name
}
