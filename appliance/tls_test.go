package appliance_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance"
	"landfall/appliance/authority"
	"landfall/ignition"
	"landfall/web/console"
)

// withTLS enables TLS on a site. The listeners use free ports of the loopback.
func (s *site) withTLS() *site {
	s.config.TLS.Enabled = true
	return s
}

// trusting returns a client that trusts only the authority of a site.
func (s *site) trusting(t *testing.T) *http.Client {
	t.Helper()
	certificate, err := os.ReadFile(filepath.Join(s.config.DataDir, authority.FileName))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(certificate))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func TestTLS_clientWithAuthority(t *testing.T) {
	s := newSite(t).withTLS()
	s.config.Kubernetes.Enabled = true
	local, _ := s.start(t)
	secure := strings.Replace(local, "http://", "https://", 1)
	client := s.trusting(t)

	var status console.Status
	callWith(t, client, http.MethodGet, secure+console.BasePath+"/status", nil).read(t, http.StatusOK, &status)
	require.Equal(t, secure, status.URL)
	require.Len(t, strings.Split(status.AuthorityFingerprint, ":"), 32)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(secure, "https://"), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	shown := conn.ConnectionState().PeerCertificates
	require.NoError(t, conn.Close())
	require.Equal(t, status.AuthorityFingerprint, authority.Fingerprint(shown[len(shown)-1]), "browsers show it")
	call(t, http.MethodGet, local+console.BasePath+"/status", nil).read(t, http.StatusOK, &status)
	_, err = http.Get(secure + console.BasePath + "/status")
	require.ErrorContains(t, err, "certificate signed by unknown authority")

	var kubernetes console.KubernetesAPI
	call(t, http.MethodGet, local+console.KubernetesRoute, nil).read(t, http.StatusOK, &kubernetes)
	require.Equal(t, secure, kubernetes.URL)
	require.Contains(t, kubernetes.CertificateAuthority, "BEGIN CERTIFICATE")
	eventually(t, "the Kubernetes API answers over TLS", func() bool {
		answered := callWith(t, client, http.MethodGet, kubernetes.URL+"/api/v1/namespaces/default", nil)
		return answered.status == http.StatusOK
	})
}

// TestTLS_discoveryImageContainsAuthority reads the discovery image's config as an agent's unit
// does.
func TestTLS_discoveryImageContainsAuthority(t *testing.T) {
	s := newSite(t).withTLS()
	local, _ := s.start(t)
	env := create(t, local+apiPath+"/infra-envs", s.newInfraEnv("env"))
	got := call(t, http.MethodGet, local+apiPath+"/infra-envs/"+env+"/downloads/files?file_name=discovery.ign", nil)
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	found, err := ignition.ReadDiscovery(got.body)
	require.NoError(t, err)
	certificate, err := os.ReadFile(filepath.Join(s.config.DataDir, authority.FileName))
	require.NoError(t, err)
	require.Equal(t, certificate, found.ServiceCA)
	require.Equal(t, strings.Replace(local, "http://", "https://", 1), found.ServiceURL)
	require.Contains(t, string(got.body), "--cacert "+ignition.ServiceCAPath)
	require.NotContains(t, string(got.body), base64.StdEncoding.EncodeToString([]byte("PRIVATE KEY")))
}

// TestTLS_restartKeepsAuthority also checks that clients which trust the authority verify the new
// server certificate.
func TestTLS_restartKeepsAuthority(t *testing.T) {
	s := newSite(t).withTLS()
	_, stop := s.start(t)
	before, err := os.ReadFile(filepath.Join(s.config.DataDir, authority.FileName))
	require.NoError(t, err)
	client := s.trusting(t)
	stop()
	local, _ := s.start(t)
	after, err := os.ReadFile(filepath.Join(s.config.DataDir, authority.FileName))
	require.NoError(t, err)
	require.Equal(t, before, after)
	var status console.Status
	callWith(t, client, http.MethodGet, strings.Replace(local, "http://", "https://", 1)+console.BasePath+"/status",
		nil).read(t, http.StatusOK, &status)
}

// TestTLS_bootListener checks that the boot listener is on by default beside TLS, and that it sends
// all other requests to the main listener.
func TestTLS_bootListener(t *testing.T) {
	s := newSite(t).withTLS()
	local, _ := s.start(t)
	env := create(t, local+apiPath+"/infra-envs", s.newInfraEnv("env"))
	var image struct {
		ShortURL    string `json:"short_url"`
		NetworkBoot struct {
			IPXEScript string `json:"ipxe_script"`
		} `json:"network_boot"`
	}
	call(t, http.MethodGet, local+console.BasePath+"/infra-envs/"+env+"/image", nil).read(t, http.StatusOK, &image)
	require.True(t, strings.HasPrefix(image.ShortURL, "http://127.0.0.1:"), image.ShortURL)
	require.NotContains(t, image.NetworkBoot.IPXEScript, "https://", "boot loaders do not trust the authority")
	response, _ := fetch(t, image.ShortURL, "machine", "")
	require.Equal(t, http.StatusOK, response.StatusCode)

	for _, kind := range []string{"discovery-image-always", "boot-order-control"} {
		script := call(t, http.MethodGet, local+apiPath+"/infra-envs/"+env+
			"/downloads/files?file_name=ipxe-script&ipxe_script_type="+kind, nil)
		require.Equal(t, http.StatusOK, script.status, "%s", script.body)
		require.NotContains(t, string(script.body), "https://")
		require.Contains(t, string(script.body), image.ShortURL[:strings.Index(image.ShortURL, "/i/")])
	}
	short, err := url.Parse(image.ShortURL)
	require.NoError(t, err)
	boot, client := "http://"+short.Host, s.trusting(t)
	main := strings.Replace(local, "http://", "https://", 1)
	for _, path := range []string{"/", apiPath + "/clusters", console.BasePath + "/status?x=1"} {
		response, err := client.Get(boot + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusTemporaryRedirect, response.StatusCode)
		require.Equal(t, main+path, response.Header.Get("Location"))
	}
	requireRefusal(t, callWith(t, client, http.MethodPost, boot+apiPath+"/clusters", nil),
		http.StatusMisdirectedRequest, "this port serves only images and boot files", main+apiPath+"/clusters")
	secure, err := client.Get("https://" + short.Host + short.Path)
	require.NoError(t, err)
	require.NoError(t, secure.Body.Close())
	require.Equal(t, http.StatusOK, secure.StatusCode, "a browser that remembers to use HTTPS")
}

func TestTLS_invalidConfiguration(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	noise := write("noise", "x")
	for name, rejected := range map[string]struct {
		change   func(s *site)
		sentence string
	}{
		"URL in plain HTTP": {func(s *site) { s.config.URL = []string{"http://192.0.2.1:8090"} },
			"url is http://192.0.2.1:8090, but the appliance serves HTTPS; write https://192.0.2.1:8090"},
		"certificate without key": {func(s *site) { s.config.TLS.CertFile = noise }, "set both, or neither"},
		"no certificate": {func(s *site) { s.config.TLS.CertFile, s.config.TLS.KeyFile = noise, noise },
			"contains no certificate in PEM"},
		"keys of TLS without TLS": {func(s *site) {
			s.config.TLS.Enabled = false
			s.config.TLS.CertFile, s.config.TLS.KeyFile = noise, noise
		}, "tls.enabled is false"},
		"ACME without a name": {func(s *site) { s.config.TLS.ACME.Directory = "https://127.0.0.1:1" },
			"url has no name for a certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t).withTLS()
			rejected.change(s)
			_, err := appliance.New(t.Context(), s.config, slog.New(slog.DiscardHandler), "test")
			require.Error(t, err)
			requireSentence(t, err.Error(), rejected.sentence)
		})
	}
}

// TestTLS_bootPortTaken names the key of the listener that can't be opened.
func TestTLS_bootPortTaken(t *testing.T) {
	taken := newSite(t).withTLS()
	taken.config.BootListen = "127.0.0.1:0"
	local, _ := taken.start(t)
	s := newSite(t).withTLS()
	s.config.BootListen = strings.TrimPrefix(local, "http://")
	_, err := appliance.New(t.Context(), s.config, slog.New(slog.DiscardHandler), "test")
	require.Error(t, err)
	requireSentence(t, err.Error(), fmt.Sprintf("another program already listens on %s", s.config.BootListen),
		"--boot-listen")
}

// TestTLS_installation installs a cluster with simulated hosts, which verify the appliance as
// agents do: by the authority in their discovery config.
func TestTLS_installation(t *testing.T) {
	s := newSite(t).withTLS()
	address, _ := s.start(t)
	d := openConnection(address).appliance(t, s)
	cluster := d.cluster()
	d.group(d.infraEnv(&cluster), 1)
	d.until(cluster, models.ClusterStatusReady)
	_, err := d.Installer.V2InstallCluster(t.Context(), &installer.V2InstallClusterParams{ClusterID: cluster})
	require.NoError(t, err)
	d.eventuallySlow(cluster, models.ClusterStatusInstalled)
}

// TestTLS_switchedOn starts an appliance with TLS on the data of one without. The images then
// contain the new URL and the authority.
func TestTLS_switchedOn(t *testing.T) {
	s := newSite(t)
	address, stop := s.start(t)
	env := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("env"))
	discovered := func(address string) *ignition.Discovered {
		got := call(t, http.MethodGet, address+apiPath+"/infra-envs/"+env+"/downloads/files?file_name=discovery.ign",
			nil)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		found, err := ignition.ReadDiscovery(got.body)
		require.NoError(t, err)
		return found
	}
	before := discovered(address)
	require.Empty(t, before.ServiceCA)
	require.Equal(t, address, before.ServiceURL)
	stop()
	address, stop = s.withTLS().start(t)
	eventually(t, "the image is made again", func() bool { return len(discovered(address).ServiceCA) > 0 })
	require.Equal(t, strings.Replace(address, "http://", "https://", 1), discovered(address).ServiceURL)
	stop()
	s.config.TLS.Enabled = false
	address, _ = s.start(t)
	eventually(t, "the image is made again", func() bool { return len(discovered(address).ServiceCA) == 0 })
}
