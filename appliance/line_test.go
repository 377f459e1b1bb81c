package appliance_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	httptransport "github.com/go-openapi/runtime/client"
	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance"
	"landfall/appliance/config"
	"landfall/appliance/simulate"
	standin "landfall/appliance/simulate/installer"
	"landfall/appliance/simulate/registry"
	"landfall/isogen"
)

func TestMain(m *testing.M) {
	standin.Main() // this program plays its payload's openshift-install
	runVictim()    // and the appliance that crash_test.go kills
	code := m.Run()
	if err := errors.Join(outside.end(), kubectlProgram.end()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var (
	outside        outsideOnce // what all tests share
	kubectlProgram kubectlOnce
)

const pullSecret = `{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}`

// sealed makes mirror rules those of a site without internet: the names that images were published
// under are never asked, so what an installation gets, it gets from the mirror, or it fails.
func sealed(rules []byte) []byte {
	return regexp.MustCompile(`(?m)^( *)(- )?mirrors:`).ReplaceAll(rules,
		[]byte("$1${2}mirrorSourcePolicy: NeverContactSource\n$1  mirrors:"))
}

// site is a rehearsal site: a mirror registry with a release, a live ISO, and an appliance.
type site struct {
	config  config.Config
	release *registry.Pushed
}

func newSite(t testing.TB) *site {
	t.Helper()
	world, err := outside.get()
	require.NoError(t, err)
	dir := t.TempDir()
	iso := filepath.Join(dir, "live.iso")
	require.NoError(t, os.WriteFile(iso, world.iso, 0o600))
	idms := filepath.Join(dir, "idms.yaml")
	require.NoError(t, os.WriteFile(idms, sealed(world.release.IDMS), 0o600))

	settings := config.Default()
	settings.Listen, settings.DataDir = "127.0.0.1:0", filepath.Join(dir, "data")
	settings.OSImages = []config.OSImage{{OpenshiftVersion: "4.20", CPUArchitecture: "x86_64", Path: iso,
		SHA256: world.sum}}
	settings.ReleaseImages = []config.ReleaseImage{{OpenshiftVersion: world.release.Version, CPUArchitecture: "x86_64",
		URL: world.release.Release, Default: true}}
	settings.Mirror.IDMSFiles = []string{idms}
	settings.Joining.Addresses, settings.Joining.Interval = []string{"*=" + world.spokes.Addr()}, 50*time.Millisecond
	return &site{settings, world.release}
}

// world is what lies outside of the appliances of tests: a registry with a release, and a live ISO.
// It is made once, because the release holds this program.
type world struct {
	release  *registry.Pushed
	iso      []byte
	sum      string
	registry *registry.Registry
	spokes   *simulate.Spokes // the APIs of all clusters that are installed
}

// outsideOnce makes the world when it is first asked for.
type outsideOnce struct {
	once  sync.Once
	world world
	err   error
}

func (o *outsideOnce) get() (*world, error) {
	o.once.Do(func() { o.err = o.world.make(context.Background()) })
	return &o.world, o.err
}

// end takes down what was made.
func (o *outsideOnce) end() error {
	if o.world.registry == nil {
		return nil
	}
	return errors.Join(o.world.spokes.Close(), o.world.registry.Close())
}

func (w *world) make(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "landfall-test-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if w.spokes, err = simulate.NewSpokes(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	if w.registry, err = registry.New(ctx, "127.0.0.1:0", nil); err != nil {
		return errors.Join(err, w.spokes.Close())
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

// start runs an appliance on the site until the returned function is called.
func (s *site) start(t testing.TB) (address string, stop func()) {
	t.Helper()
	return s.startLogging(t, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})))
}

func (s *site) startLogging(t testing.TB, logger *slog.Logger) (address string, stop func()) {
	t.Helper()
	running, err := appliance.New(t.Context(), s.config, logger, "test")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return running.LocalURL(), stop
}

// upstream returns the Assisted Installer's own Go client for an appliance.
func upstream(t *testing.T, address string) *client.AssistedInstall {
	t.Helper()
	base, err := url.Parse(address)
	require.NoError(t, err)
	return client.New(client.Config{
		URL:       &url.URL{Scheme: base.Scheme, Host: base.Host, Path: client.DefaultBasePath},
		Transport: http.DefaultTransport,
		AuthInfo:  httptransport.PassThroughAuth,
	})
}

// eventually asks until the answer is yes; the test's own deadline bounds it.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	require.Eventually(t, yes, time.Minute, 50*time.Millisecond, what)
}

func TestInstallation_upstreamClient(t *testing.T) {
	for _, topology := range []struct {
		name          string
		controlPlanes int64
		hosts         int
		vips          bool
	}{
		{"three nodes", 3, 3, true},
		{"single node", 1, 1, false},
	} {
		t.Run(topology.name, func(t *testing.T) {
			s := newSite(t)
			address, _ := s.start(t)
			api := upstream(t, address).Installer
			ctx := t.Context()

			params := &models.ClusterCreateParams{
				Name: conv.Pointer("line"), BaseDNSDomain: "site.test",
				OpenshiftVersion: conv.Pointer(s.release.Version),
				PullSecret:       conv.Pointer(pullSecret), ControlPlaneCount: &topology.controlPlanes,
			}
			if topology.vips {
				params.APIVips = []*models.APIVip{{IP: "192.168.100.4"}}
				params.IngressVips = []*models.IngressVip{{IP: "192.168.100.5"}}
			}
			created, err := api.V2RegisterCluster(ctx, &installer.V2RegisterClusterParams{NewClusterParams: params})
			require.NoError(t, err)
			clusterID := *created.Payload.ID

			env, err := api.RegisterInfraEnv(ctx,
				&installer.RegisterInfraEnvParams{InfraenvCreateParams: &models.InfraEnvCreateParams{
					Name: conv.Pointer("line_infra-env"), ClusterID: &clusterID, PullSecret: conv.Pointer(pullSecret),
					OpenshiftVersion: s.release.Version,
				}})
			require.NoError(t, err)
			envID := *env.Payload.ID

			image, err := api.GetInfraEnvDownloadURL(ctx, &installer.GetInfraEnvDownloadURLParams{InfraEnvID: envID})
			require.NoError(t, err)
			requireDiscoveryISO(t, *image.Payload.URL)

			group := &simulate.HostGroup{URL: address, InfraEnvID: envID.String(), Count: topology.hosts, Speed: 1000,
				Spokes: outside.world.spokes}
			groupEnded := make(chan error, 1)
			go func() { groupEnded <- group.Run(ctx) }()

			cluster := func() *models.Cluster {
				got, err := api.V2GetCluster(ctx, &installer.V2GetClusterParams{ClusterID: clusterID})
				require.NoError(t, err)
				return got.Payload
			}
			eventually(t, "the cluster becomes ready", func() bool {
				got := cluster()
				t.Logf("%s: %s", *got.Status, *got.StatusInfo)
				return *got.Status == models.ClusterStatusReady
			})
			hosts, err := api.V2ListHosts(ctx, &installer.V2ListHostsParams{InfraEnvID: envID})
			require.NoError(t, err)
			require.Len(t, hosts.Payload, topology.hosts)

			_, err = api.V2InstallCluster(ctx, &installer.V2InstallClusterParams{ClusterID: clusterID})
			require.NoError(t, err)
			eventually(t, "the cluster is installed", func() bool {
				got := cluster()
				require.NotEqual(t, models.ClusterStatusError, *got.Status, *got.StatusInfo)
				return *got.Status == models.ClusterStatusInstalled
			})
			require.NoError(t, <-groupEnded)

			var kubeconfig bytes.Buffer
			_, err = api.V2DownloadClusterCredentials(ctx,
				&installer.V2DownloadClusterCredentialsParams{ClusterID: clusterID, FileName: "kubeconfig"},
				&kubeconfig)
			require.NoError(t, err)
			require.Contains(t, kubeconfig.String(), "api.line.site.test:6443")
			credentials, err := api.V2GetCredentials(ctx, &installer.V2GetCredentialsParams{ClusterID: clusterID})
			require.NoError(t, err)
			require.Equal(t, "https://console-openshift-console.apps.line.site.test", credentials.Payload.ConsoleURL)
			require.NotEmpty(t, credentials.Payload.Password)
			require.EqualValues(t, 100, cluster().Progress.TotalPercentage)
			require.NotEqual(t, strfmt.UUID(""), cluster().OpenshiftClusterID)
		})
	}
}

// requireDiscoveryISO downloads an image and reads the config back out of its embed area.
func requireDiscoveryISO(t *testing.T, address string) {
	t.Helper()
	response, err := http.Get(address)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	var iso bytes.Buffer
	_, err = iso.ReadFrom(response.Body)
	require.NoError(t, err)
	require.EqualValues(t, response.ContentLength, iso.Len())
	payload, err := isogen.Embedded(bytes.NewReader(iso.Bytes()), int64(iso.Len()))
	require.NoError(t, err)
	require.Contains(t, string(payload.Ignition), "agent.service")
}
