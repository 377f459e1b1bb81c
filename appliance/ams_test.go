package appliance_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams"
	"landfall/appliance/ams/amstest"
	"landfall/appliance/sitekey"
	"landfall/web/console"
)

// logBuffer stores log output for later checks.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.text.Bytes())
}

// amsSite is an appliance whose AMS is a test server behind TCP and TLS.
type amsSite struct {
	*testing.T
	*connection
	site    *site
	ams     *amstest.Server
	server  *httptest.Server
	offline string // the offline token of the account
	log     *logBuffer
	carried [][]byte
}

func newAMSSite(t *testing.T, s *site, connect string) *amsSite {
	p := &amsSite{T: t, site: s, ams: amstest.New(clockwork.NewRealClock()), log: &logBuffer{}}
	p.offline = p.ams.AddAccount(amstest.Account{ID: "2GOuAccount", Username: "site", Organization: "2GOuOurs",
		OrganizationName: "Ours"})
	p.server = httptest.NewTLSServer(p.ams)
	t.Cleanup(p.server.Close)
	ca := filepath.Join(t.TempDir(), "ams.pem")
	require.NoError(t, os.WriteFile(ca, p.ca(), 0o600))
	c := &p.site.config.AMS
	c.URL, c.TokenURL, c.CABundle, c.Connect, c.CallInterval = p.server.URL, p.server.URL+amstest.TokenPath, ca,
		connect, time.Millisecond
	p.site.logger = slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p.connection = p.site.connect(t)
	return p
}

func (p *amsSite) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
}

func (p *amsSite) post(path string, body []byte, status int) []byte {
	p.Helper()
	answered := p.call(p.T, http.MethodPost, console.AMSPath+path, bytes.NewReader(body))
	require.Equal(p, status, answered.status, "%s", answered.body)
	return answered.body
}

func (p *amsSite) get(path string) string {
	p.Helper()
	answered := p.call(p.T, http.MethodGet, path, nil)
	require.Equal(p, http.StatusOK, answered.status, "%s", answered.body)
	return string(answered.body)
}

func (p *amsSite) status() ams.Status {
	p.Helper()
	var status ams.Status
	p.call(p.T, http.MethodGet, console.AMSPath, nil).read(p.T, http.StatusOK, &status)
	return status
}

func (p *amsSite) login() {
	body, err := json.Marshal(ams.Secret{OfflineToken: p.offline})
	require.NoError(p, err)
	p.post("/credentials", body, http.StatusNoContent)
}

func (p *amsSite) install() {
	p.site.install(p.T, p.connection, kindOfCluster{
		name: "one", asked: models.ClusterCreateParams{ControlPlaneCount: conv.Pointer[int64](1)}, masters: 1,
	})
}

// runCourier exports the waiting clusters, pushes them from a connected machine and imports the
// receipts.
func (p *amsSite) runCourier() {
	export := p.post("/exports", nil, http.StatusOK)
	file, err := ams.ReadCourier(bytes.NewReader(export), ams.Export, nil)
	require.NoError(p, err)
	key, err := sitekey.LoadOrCreate(p.TempDir())
	require.NoError(p, err)
	transport, err := ams.NewTransport("", p.ca(), ams.Limits{})
	require.NoError(p, err)
	defer transport.CloseIdleConnections()
	receipts, err := ams.Push(p.Context(), file, ams.PushOptions{
		Clock: clockwork.NewRealClock(), Key: key, Progress: filepath.Join(p.TempDir(), "progress"),
		Client: ams.NewClient(ams.ClientOptions{
			URL: file.Header.APIURL, TokenURL: p.server.URL + amstest.TokenPath, Transport: transport,
			Credentials: ams.NewFixed(ams.Secret{OfflineToken: p.offline}),
			Clock:       clockwork.NewRealClock(), Logger: slog.New(slog.DiscardHandler),
		}),
	})
	require.NoError(p, err)
	var back bytes.Buffer
	require.NoError(p, ams.WriteCourier(&back, key, *receipts))
	p.post("/receipts", back.Bytes(), http.StatusConflict) // the machine's key is not trusted yet
	p.post("/receipts?trust="+url.QueryEscape(key.Public().Fingerprint()), back.Bytes(), http.StatusOK)
	p.carried = append(p.carried, export, back.Bytes())
}

// rows returns the rows of AMS without the fields that differ between two sites.
func (p *amsSite) rows() []map[string]any {
	rows := p.ams.Rows()
	for _, row := range rows {
		maps.DeleteFunc(row, func(name string, _ any) bool {
			return slices.Contains([]string{"id", "href", "cluster_id", "external_cluster_id", "created_at",
				"updated_at", "eval_expiration_date"}, name)
		})
	}
	return rows
}

func TestAMS_offlineSiteCatchesUp(t *testing.T) {
	openAndAuthenticated(t, func(t *testing.T, s *site) {
		offlineSiteCatchesUp(t, newAMSSite(t, newSite(t), "automatic"), newAMSSite(t, s, "by-hand"))
	})
}

func offlineSiteCatchesUp(t *testing.T, online, offline *amsSite) {
	online.login()
	online.install()
	eventually(t, "AMS is up to date", func() bool { return online.status().Sent == 1 })

	offline.install()
	require.Equal(t, ams.ByHand, offline.status().State)
	require.Equal(t, 1, offline.status().Waiting)
	require.Empty(t, offline.ams.Requests(), "no requests were sent")
	require.Contains(t, offline.get(console.MetricsPath), "landfall_ams_outbox_clusters{state=\"waiting\"} 1\n")
	require.Contains(t, offline.get(console.AMSPath+"/plan"), "status Active")
	shadow := offline.status().Clusters[0].SubscriptionID
	offline.runCourier()
	require.Equal(t, 1, offline.status().Sent)

	for _, id := range []string{shadow, offline.status().Clusters[0].SubscriptionID} {
		require.Contains(t, offline.get(apiPath+"/clusters?ams_subscription_ids="+id), `"name":"one"`,
			"both IDs refer to the cluster")
	}
	require.NotContains(t, offline.get(apiPath+"/clusters?ams_subscription_ids=2GOuuT2l3odeHRdWqY57fviSE2K"),
		`"name":"one"`)

	rows := online.rows()
	require.Len(t, rows, 1)
	require.Equal(t, "Active", rows[0]["status"])
	require.Equal(t, "https://console-openshift-console.apps.one.site.test", rows[0]["console_url"])
	require.Equal(t, rows, offline.rows(), "field by field")
	for _, p := range []*amsSite{online, offline} {
		cluster := p.status().Clusters[0]
		require.Equal(t, p.ams.Rows()[0]["id"], cluster.SubscriptionID)
		var clusters []*models.Cluster
		p.call(t, http.MethodGet, apiPath+"/clusters", nil).read(t, http.StatusOK, &clusters)
		require.Equal(t, cluster.SubscriptionID, clusters[0].AmsSubscriptionID.String())
		p.requireNoSecrets()
	}
}

// encodings returns a secret as plain text and in base64 at every offset.
func encodings(secret string) [][]byte {
	all := [][]byte{[]byte(secret)}
	for offset := range 3 {
		coded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + secret))
		all = append(all, []byte(coded[4:len(coded)-4]))
	}
	return all
}

// requireNoSecrets requires that logs, responses, courier files and the data directory contain
// neither tokens nor the pull secret.
func (p *amsSite) requireNoSecrets() {
	p.Helper()
	require.NotContains(p, string(p.log.bytes()), "Bearer ")
	secrets := [][]byte{[]byte(p.offline)}
	for _, r := range p.ams.Requests() {
		if bearer := r.Header.Get("Authorization"); bearer != "" {
			secrets = append(secrets, []byte(bearer[len("Bearer "):]))
		}
	}
	secrets = append(append(secrets, encodings("dXNlcjpwYXNz")...), encodings(pullSecret)...)
	for _, secret := range secrets {
		require.False(p, bytes.Contains(p.log.bytes(), secret), "the log contains %s", secret)
	}
	for _, file := range p.carried {
		read, err := ams.ReadCourier(bytes.NewReader(file), kindOf(file), nil)
		require.NoError(p, err)
		text, err := json.Marshal(read)
		require.NoError(p, err)
		for _, secret := range append(secrets, []byte("auths")) {
			require.False(p, bytes.Contains(text, secret), "a courier file contains %s", secret)
		}
	}
	require.NoError(p, filepath.WalkDir(p.site.config.DataDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), "openshift-install") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range secrets {
			require.False(p, bytes.Contains(text, secret), "%s contains %s", path, secret)
		}
		return err
	}))
}

func kindOf(file []byte) ams.CourierKind {
	if _, err := ams.ReadCourier(bytes.NewReader(file), ams.Export, nil); err == nil {
		return ams.Export
	}
	return ams.Receipts
}

func (p *amsSite) register(name string) {
	p.Helper()
	body := `{"name": "` + name + `", "openshift_version": "` + p.site.release.Version + `", "pull_secret": ` +
		conv.Value(quoted(pullSecret)) + `}`
	answered := p.call(p.T, http.MethodPost, apiPath+"/clusters", strings.NewReader(body))
	require.Equal(p, http.StatusCreated, answered.status, "%s", answered.body)
}

func TestAMS_loginByHandDoesNotConnect(t *testing.T) {
	p := newAMSSite(t, newSite(t), "by-hand")
	p.register("one")
	p.login()
	require.Zero(t, p.status().ConnectedTill)
	require.Empty(t, p.ams.Requests())
	p.post("/connect", []byte(`{"minutes": 1}`), http.StatusNoContent)
	eventually(t, "the cluster is reported", func() bool { return p.status().Sent == 1 })
	require.NotZero(t, p.status().ConnectedTill)
}

func TestAMS_loginOfAnotherOrganization(t *testing.T) {
	p := newAMSSite(t, newSite(t), "automatic")
	p.login()
	p.register("one")
	eventually(t, "the cluster is reported", func() bool { return p.status().Sent == 1 })
	p.offline = p.ams.AddAccount(amstest.Account{ID: "2GOuThem", Username: "them", Organization: "2GOuTheirs",
		OrganizationName: "Theirs"})
	p.login()
	eventually(t, "the relay pauses", func() bool { return p.status().State == ams.PausedIdentity })
	p.register("two")
	require.Len(t, p.ams.Rows(), 1)
	p.post("/accept", nil, http.StatusNoContent)
	eventually(t, "the other cluster is reported", func() bool { return len(p.ams.Rows()) == 2 })
	for _, row := range p.ams.Rows() {
		organization := map[any]string{"one": "2GOuOurs", "two": "2GOuTheirs"}[row["display_name"]]
		require.Equal(t, organization, row["organization_id"])
	}
}

// An AMS that never answers blocks only the relay.
func TestAMS_hangingServiceBlocksNoRequest(t *testing.T) {
	p := newAMSSite(t, newSite(t), "automatic")
	p.ams.Break(amstest.Fault{Op: "token", Do: amstest.Hang()})
	p.login()
	eventually(t, "the relay hangs", func() bool { return len(p.ams.Requests("token")) > 0 })
	body := []byte(`{"name": "one", "openshift_version": "` + p.site.release.Version + `", "pull_secret": ` +
		conv.Value(quoted(pullSecret)) + `}`)
	start := time.Now()
	for range 20 {
		response, err := http.Post(p.address+"/api/assisted-install/v2/clusters", "application/json",
			bytes.NewReader(body))
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, response.StatusCode)
		require.NoError(t, response.Body.Close())
	}
	require.Equal(t, 20, p.status().Waiting)
	require.Less(t, time.Since(start), 10*time.Second)
}

func quoted(text string) *string {
	encoded, err := json.Marshal(text)
	if err != nil {
		return nil
	}
	return conv.Pointer(string(encoded))
}
