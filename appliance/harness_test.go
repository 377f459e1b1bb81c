package appliance_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/client"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/client/manifests"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance"
	"landfall/appliance/backup"
	"landfall/appliance/config"
	"landfall/appliance/simulate"
	standin "landfall/appliance/simulate/installer"
	"landfall/appliance/simulate/registry"
	"landfall/logtest"
)

func TestMain(m *testing.M) {
	standin.Main()        // runs openshift-install of the simulated payload, if the program is called as that
	runApplianceProcess() // runs the appliance that crash_test.go kills
	code := m.Run()
	if err := errors.Join(sharedEnvironment.end(), kubectlProgram.end()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var (
	sharedEnvironment environmentOnce // shared by all tests
	kubectlProgram    kubectlOnce
)

const pullSecret = `{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}`

// offlineRules returns mirror rules that never contact the sources, as on a site without internet.
// An installation pulls every image from the mirror or fails.
func offlineRules(rules []byte) []byte {
	return regexp.MustCompile(`(?m)^( *)(- )?mirrors:`).ReplaceAll(rules,
		[]byte("$1${2}mirrorSourcePolicy: NeverContactSource\n$1  mirrors:"))
}

// site has a mirror registry with a release, a live ISO, and the configuration of an appliance.
type site struct {
	config  config.Config
	release *registry.Pushed
	spokes  *simulate.Spokes // the APIs of the installed clusters
	logger  *slog.Logger     // nil logs to the test's output
	running *appliance.Appliance
}

func newSite(t testing.TB) *site {
	t.Helper()
	environment, err := sharedEnvironment.get()
	require.NoError(t, err)
	dir := t.TempDir()
	iso := filepath.Join(dir, "live.iso")
	require.NoError(t, os.WriteFile(iso, environment.iso, 0o600))
	idms := filepath.Join(dir, "idms.yaml")
	require.NoError(t, os.WriteFile(idms, offlineRules(environment.release.IDMS), 0o600))

	settings := config.Default()
	settings.TLS.Enabled = false
	settings.Listen, settings.DataDir = "127.0.0.1:0", filepath.Join(dir, "data")
	settings.AllowedHosts = []string{"appliance"} // of requests within the process
	settings.Auth = config.AuthNone               // auth_test.go has the tests with authentication
	settings.OSImages = []config.OSImage{{OpenshiftVersion: "4.20", CPUArchitecture: "x86_64", Path: iso,
		SHA256: environment.sum}}
	settings.ReleaseImages = []config.ReleaseImage{{OpenshiftVersion: environment.release.Version,
		CPUArchitecture: "x86_64",
		URL:             environment.release.Release, Default: true}}
	settings.Mirror.IDMSFiles = []string{idms}
	settings.Egress.Allow = []string{"127.0.0.0/8", "::1"}
	spokes, err := simulate.NewSpokes(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spokes.Close()) })
	settings.Joining.Addresses, settings.Joining.Interval = []string{"*=" + spokes.Addr()},
		50*time.Millisecond
	return &site{config: settings, release: environment.release, spokes: spokes}
}

// environment is shared by the appliances of all tests: a registry with a release, and a live ISO.
// It is created once, because the release contains this program.
type environment struct {
	release  *registry.Pushed
	iso      []byte
	sum      string
	registry *registry.Registry
}

// environmentOnce creates the environment at its first use.
type environmentOnce struct {
	once        sync.Once
	environment environment
	err         error
}

func (o *environmentOnce) get() (*environment, error) {
	o.once.Do(func() { o.err = o.environment.make(context.Background()) })
	return &o.environment, o.err
}

// end stops the server of the environment.
func (o *environmentOnce) end() error {
	if o.environment.registry == nil {
		return nil
	}
	return o.environment.registry.Close()
}

func (w *environment) make(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "landfall-test-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if w.registry, err = registry.New(ctx, "127.0.0.1:0", nil); err != nil {
		return err
	}
	if w.release, err = registry.PushPayload(ctx, w.registry.Addr, registry.Payload{}); err != nil {
		return err
	}
	path := filepath.Join(dir, "live.iso")
	if w.sum, err = simulate.WriteBaseISO(path, simulate.BaseISO{}); err != nil {
		return err
	}
	w.iso, err = os.ReadFile(path)
	return err
}

// start runs an appliance on the site. The returned function stops it.
func (s *site) start(t testing.TB) (address string, stop func()) {
	t.Helper()
	logger := s.logger
	if logger == nil {
		logger = logtest.New(t, slog.LevelInfo)
	}
	return s.startLogging(t, logger)
}

func (s *site) startLogging(t testing.TB, logger *slog.Logger) (address string, stop func()) {
	t.Helper()
	running, err := appliance.New(t.Context(), s.config, logger, "test")
	require.NoError(t, err)
	s.running = running
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
			unknown, err := backup.Unknown(s.config.DataDir)
			require.NoError(t, err)
			require.Empty(t, unknown, "appliance/backup must know whether backups contain these")
		}
	}
	t.Cleanup(stop)
	return running.LocalURL(), stop
}

// upstream returns the Assisted Installer's own Go client for an appliance without authentication.
func upstream(t *testing.T, address string) *client.AssistedInstall {
	t.Helper()
	return openConnection(address).upstream(t)
}

// eventually repeats a check until it succeeds. The limit is long: on a busy machine, an
// installation takes minutes.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	require.Eventually(t, yes, 5*time.Minute, 50*time.Millisecond, what)
}

// awaitReady waits until /readyz answers 200. Then the Kubernetes API is ready, too.
func awaitReady(t *testing.T, ask func() answer) {
	t.Helper()
	eventually(t, "the appliance is ready", func() bool { return ask().status == http.StatusOK })
}

// answer is a response of the appliance.
type answer struct {
	status int
	body   []byte
}

// reason returns the text of an error in either of the API's formats.
func (a answer) reason(t *testing.T) string {
	t.Helper()
	var shape struct{ Reason, Message string }
	require.NoError(t, json.Unmarshal(a.body, &shape), "%s", a.body)
	return shape.Reason + shape.Message
}

// read decodes the response, which must have the status.
func (a answer) read(t testing.TB, status int, into any) {
	t.Helper()
	require.Equal(t, status, a.status, "%s", a.body)
	require.NoError(t, json.Unmarshal(a.body, into), "%s", a.body)
}

// call sends a request with a JSON body, or with a text or reader unchanged; nil sends no body.
func call(t *testing.T, method, url string, body any) answer {
	t.Helper()
	return callWith(t, http.DefaultClient, method, url, body)
}

func callWith(t testing.TB, client *http.Client, method, url string, body any) answer {
	t.Helper()
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	case io.Reader:
		content = b
	default:
		text, err := json.Marshal(b)
		require.NoError(t, err)
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, content)
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	answered, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response.StatusCode, answered}
}

// requireRefusal requires an error with the status and one sentence that contains all of the texts.
func requireRefusal(t *testing.T, got answer, status int, contains ...string) {
	t.Helper()
	require.Equal(t, status, got.status, "%s", got.body)
	requireSentence(t, got.reason(t), contains...)
}

// requireSentence requires that a text is one line, contains all of the given texts, and shows no
// internals of the program.
func requireSentence(t *testing.T, text string, contains ...string) {
	t.Helper()
	t.Log(text)
	for _, part := range contains {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "\n", "one line")
	for _, inside := range []string{"*errors.", "models.", "json:", "Go value", "interface {}", "%!", "<nil>",
		"goroutine", "hunter2"} {
		require.NotContains(t, text, inside)
	}
}

// object is a JSON object of a request.
type object map[string]any

func (o object) with(changes object) object {
	changed := maps.Clone(o)
	maps.Copy(changed, changes)
	return changed
}

// newCluster returns a valid description of a cluster.
func (s *site) newCluster(name string) object {
	return object{
		"name": name, "base_dns_domain": "site.test", "openshift_version": s.release.Version, "pull_secret": pullSecret,
		"control_plane_count": 1,
	}
}

func (s *site) newInfraEnv(name string) object {
	return object{"name": name, "pull_secret": pullSecret, "openshift_version": s.release.Version}
}

// create sends a valid description and returns the new object's ID.
func create(t *testing.T, url string, description object) string {
	t.Helper()
	var created struct{ ID string }
	call(t, http.MethodPost, url, description).read(t, http.StatusCreated, &created)
	return created.ID
}

// requireNothing requires an empty list at a URL.
func requireNothing(t *testing.T, url string) {
	t.Helper()
	var list []any
	call(t, http.MethodGet, url, nil).read(t, http.StatusOK, &list)
	require.Empty(t, list)
}

// testAppliance is a running appliance with the Assisted Installer's own client for it.
type testAppliance struct {
	*testing.T
	*client.AssistedInstall
	*connection
	site *site
	url  string // base URL of version 2 of the API
}

func startAppliance(t *testing.T) *testAppliance {
	t.Helper()
	s := newSite(t)
	return s.connect(t).appliance(t, s)
}

// cluster registers a cluster that is complete except for its hosts.
func (d *testAppliance) cluster(changes ...func(*models.ClusterCreateParams)) strfmt.UUID {
	d.Helper()
	params := &models.ClusterCreateParams{
		Name: conv.Pointer("site"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer(d.site.release.Version),
		PullSecret: conv.Pointer(pullSecret), ControlPlaneCount: conv.Pointer[int64](1),
	}
	for _, change := range changes {
		change(params)
	}
	created, err := d.Installer.V2RegisterCluster(d.Context(),
		&installer.V2RegisterClusterParams{NewClusterParams: params})
	require.NoError(d, err)
	return *created.Payload.ID
}

// infraEnv registers an infra-env, without a cluster if the ID is nil.
func (d *testAppliance) infraEnv(cluster *strfmt.UUID) strfmt.UUID {
	d.Helper()
	env, err := d.Installer.RegisterInfraEnv(d.Context(),
		&installer.RegisterInfraEnvParams{InfraenvCreateParams: &models.InfraEnvCreateParams{
			Name: conv.Pointer("env"), ClusterID: cluster, PullSecret: conv.Pointer(pullSecret),
			OpenshiftVersion: d.site.release.Version,
		}})
	require.NoError(d, err)
	return *env.Payload.ID
}

// get returns a cluster from the API.
func (d *testAppliance) get(id strfmt.UUID) *models.Cluster {
	d.Helper()
	got, err := d.Installer.V2GetCluster(d.Context(), &installer.V2GetClusterParams{ClusterID: id})
	require.NoError(d, err)
	return got.Payload
}

// events returns the names of a cluster's events.
func (d *testAppliance) events(cluster strfmt.UUID) []string {
	d.Helper()
	var events []models.Event
	d.call(d.T, http.MethodGet, apiPath+"/events?cluster_id="+cluster.String(), nil).read(d.T, http.StatusOK, &events)
	var names []string
	for _, event := range events {
		names = append(names, event.Name)
	}
	return names
}

// refused requires a documented error with the status.
func refused(t *testing.T, err error, status int) {
	t.Helper()
	require.Error(t, err)
	documented, ok := err.(interface{ IsCode(int) bool })
	require.True(t, ok, "%T: %v", err, err)
	require.True(t, documented.IsCode(status), "%T: %v", err, err)
}

// missingID returns an ID without an object.
func missingID() strfmt.UUID { return strfmt.UUID(uuid.NewString()) }

func encoded(text string) *string {
	return conv.Pointer(base64.StdEncoding.EncodeToString([]byte(text)))
}

func (d *testAppliance) addManifest(cluster strfmt.UUID, folder, name, content string) (*models.Manifest, error) {
	params := &models.CreateManifestParams{FileName: &name, Content: encoded(content)}
	if folder != "" {
		params.Folder = &folder
	}
	created, err := d.Manifests.V2CreateClusterManifest(d.Context(),
		&manifests.V2CreateClusterManifestParams{ClusterID: cluster, CreateManifestParams: params})
	if err != nil {
		return nil, err
	}
	return created.Payload, nil
}

func (d *testAppliance) listManifests(cluster strfmt.UUID, system bool) []string {
	d.Helper()
	listed, err := d.Manifests.V2ListClusterManifests(d.Context(),
		&manifests.V2ListClusterManifestsParams{ClusterID: cluster, IncludeSystemGenerated: &system})
	require.NoError(d, err)
	var names []string
	for _, manifest := range listed.Payload {
		names = append(names, manifest.ManifestSource+" "+manifest.Folder+"/"+manifest.FileName)
	}
	return names
}

func (d *testAppliance) manifest(cluster strfmt.UUID, folder, name string) (string, error) {
	var content bytes.Buffer
	_, err := d.Manifests.V2DownloadClusterManifest(d.Context(),
		&manifests.V2DownloadClusterManifestParams{ClusterID: cluster, Folder: &folder, FileName: name}, &content)
	return content.String(), err
}
