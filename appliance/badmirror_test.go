package appliance_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
	"landfall/porttest"
)

// registryProxy is a proxy in front of a site's registry. It can be stopped, use TLS, or respond in
// place of the registry.
type registryProxy struct {
	address  string
	registry http.Handler
	tls      *tls.Config
	handler  atomic.Pointer[func(http.ResponseWriter, *http.Request) bool] // reports whether it responded
	server   *http.Server
	ended    chan error
}

// newProxiedSite returns a site whose mirror rules lead to a started proxy in front of its
// registry.
func newProxiedSite(t *testing.T) (*site, *registryProxy) {
	t.Helper()
	s := newSite(t)
	return s, s.throughProxy(t)
}

// throughProxy puts a proxy between a site's appliance and its registry.
func (s *site) throughProxy(t *testing.T) *registryProxy {
	t.Helper()
	rules, err := os.ReadFile(s.config.Mirror.IDMSFiles[0])
	require.NoError(t, err)
	registry := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(string(rules))
	address := porttest.Reserve(t)
	g := &registryProxy{address: address, registry: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http",
		Host: registry})}
	proxied := strings.ReplaceAll(string(rules), registry, g.address)
	require.NoError(t, os.WriteFile(s.config.Mirror.IDMSFiles[0], []byte(proxied), 0o600))
	t.Cleanup(func() { g.stop(t) })
	g.start(t)
	return g
}

func (g *registryProxy) start(t *testing.T) {
	t.Helper()
	var listener net.Listener
	eventually(t, "nothing else listens at "+g.address, func() (free bool) { // such as a search for a free port
		var err error
		listener, err = net.Listen("tcp", g.address)
		return err == nil
	})
	if g.tls != nil {
		listener = tls.NewListener(listener, g.tls)
	}
	g.server = &http.Server{Handler: g, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	g.ended = make(chan error, 1)
	go func(server *http.Server, ended chan<- error) { ended <- server.Serve(listener) }(g.server, g.ended)
}

func (g *registryProxy) stop(t *testing.T) {
	t.Helper()
	if g.server != nil {
		require.NoError(t, g.server.Close())
		require.ErrorIs(t, <-g.ended, http.ErrServerClosed)
		g.server = nil
	}
}

func (g *registryProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := g.handler.Load(); handler != nil && (*handler)(w, r) {
		return
	}
	g.registry.ServeHTTP(w, r)
}

// setHandler sets a function that may respond to requests; nil forwards all requests.
func (g *registryProxy) setHandler(handler func(http.ResponseWriter, *http.Request) bool) {
	if handler == nil {
		g.handler.Store(nil)
		return
	}
	g.handler.Store(&handler)
}

// requirePassword responds 401 to requests without the password, like a registry with an htpasswd
// file.
func requirePassword(user, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if u, p, ok := r.BasicAuth(); ok && u == user && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
		return true
	}
}

// respondNotFound responds that the manifests or blobs do not exist.
func respondNotFound(kind, code string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, kind) {
			return false
		}
		refuse(w, http.StatusNotFound, code)
		return true
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	if _, err := fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"refused"}]}`, code); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func secretFor(registry, credentials string) string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, registry, base64.StdEncoding.EncodeToString([]byte(credentials)))
}

// mirrorAuthority creates a server certificate for this machine and returns it with the PEM of its
// certificate authority.
func mirrorAuthority(t *testing.T, until time.Time) (*tls.Config, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Site Root"},
		NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter:  time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	require.NoError(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "mirror"},
		NotBefore: root.NotBefore, NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), key)
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: key}}},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
}

// badMirror is a fault of the mirror, the expected error and the repair.
type badMirror struct {
	damage   func(*testing.T, *site, *registryProxy)
	contains []string
	secret   func(g *registryProxy) string // pull secret of the first attempt; nil means the usual one
	// pull secret that repairs the fault; nil if the mirror is repaired
	fixedSecret func(g *registryProxy) string
}

func badMirrors() map[string]badMirror {
	stop := func(t *testing.T, _ *site, g *registryProxy) { g.stop(t) }
	answering := func(handler func(http.ResponseWriter, *http.Request) bool) func(*testing.T, *site, *registryProxy) {
		return func(_ *testing.T, _ *site, g *registryProxy) { g.setHandler(handler) }
	}
	return map[string]badMirror{
		"down": {damage: stop, contains: []string{"refused the connection",
			"check that MIRROR is running and reachable from this machine"}},
		"manifest missing": {damage: answering(respondNotFound("/manifests/", "MANIFEST_UNKNOWN")),
			contains: []string{"answered 404 Not Found (MANIFEST_UNKNOWN)",
				"mirror the image to MIRROR/openshift/release"}},
		"fails": {damage: answering(func(w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, http.StatusTeapot, "UNKNOWN")
			return true
		}), contains: []string{"answered 418 I'm a teapot"}},
		"unknown authority": {damage: func(t *testing.T, _ *site, g *registryProxy) {
			g.stop(t)
			g.tls, _ = mirrorAuthority(t, time.Now().Add(time.Hour))
			g.start(t)
		}, contains: []string{"signed by an unknown authority",
			"add the CA that signed the certificate of MIRROR to the mirror's CA bundle"}},
		"401, no entry in the pull secret": {damage: answering(requirePassword("u", "right")),
			contains: []string{"answered 401 Unauthorized", "the pull secret has no entry for it",
				"add an entry for MIRROR to the pull secret"},
			fixedSecret: func(g *registryProxy) string { return secretFor(g.address, "u:right") }},
		"401, a wrong password": {damage: answering(requirePassword("u", "right")),
			contains: []string{"answered 401 Unauthorized",
				"to the pull secret's credentials", "check the entry for MIRROR in the pull secret"},
			secret:      func(g *registryProxy) string { return secretFor(g.address, "u:hunter2") },
			fixedSecret: func(g *registryProxy) string { return secretFor(g.address, "u:right") }},
	}
}

// wantTexts returns the expected texts with the address of the proxy.
func (b badMirror) wantTexts(g *registryProxy, image string) []string {
	contains := []string{"image " + image + " can't be pulled: ", g.address + "/openshift/release",
		"(mirror 1 of 1 for \"quay.io/openshift-release-dev/ocp-", "in ImageDigestMirrorSet idms-release-0)"}
	for _, wantTexts := range b.contains {
		contains = append(contains, strings.ReplaceAll(wantTexts, "MIRROR", g.address))
	}
	return contains
}

func (b badMirror) firstSecret(g *registryProxy) string {
	if b.secret == nil {
		return pullSecret
	}
	return b.secret(g)
}

// repair repairs the mirror, unless another pull secret repairs the fault.
func (b badMirror) repair(t *testing.T, g *registryProxy) {
	if b.fixedSecret != nil {
		return
	}
	g.setHandler(nil)
	g.tls = nil
	g.stop(t)
	g.start(t)
}

func TestBadMirror_namedAtImageDownload(t *testing.T) {
	for name, bad := range badMirrors() {
		t.Run(name, func(t *testing.T) {
			s, g := newProxiedSite(t)
			bad.damage(t, s, g)
			address, _ := s.start(t)
			var env models.InfraEnv
			call(t, http.MethodPost, address+apiPath+"/infra-envs",
				s.newInfraEnv("east").with(object{"pull_secret": bad.firstSecret(g)})).read(t, http.StatusCreated, &env)

			requireRefusal(t, call(t, http.MethodGet, env.DownloadURL, nil), http.StatusServiceUnavailable,
				append(bad.wantTexts(g, s.release.Release),
					"The discovery image can't be generated, because the agent's image can't be read from the "+
						"release payload:")...)

			bad.repair(t, g)
			if bad.fixedSecret != nil {
				call(t, http.MethodPatch, address+apiPath+"/infra-envs/"+env.ID.String(),
					object{"pull_secret": bad.fixedSecret(g)}).read(t, http.StatusCreated, &env)
			}
			requireDiscoveryISO(t, env.DownloadURL)
			g.stop(t)
			requireDiscoveryISO(t, env.DownloadURL)
		})
	}
}

// readyCluster creates a single-node cluster that is ready for its installation. Its host uses its
// own pull secret and runs until the test ends.
func (s *site) readyCluster(t *testing.T, address, secret, hostsSecret string) (cluster string) {
	t.Helper()
	return s.readyClusterOf(t, address, secret, hostsSecret, 1000)
}

// readyClusterOf is readyCluster with the speed of the host.
func (s *site) readyClusterOf(t *testing.T, address, secret, hostsSecret string, speed float64) (cluster string) {
	t.Helper()
	id := create(t, address+apiPath+"/clusters", s.newCluster("line").with(object{"pull_secret": secret}))
	infraEnv := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("line").with(object{"pull_secret": hostsSecret,
		"cluster_id": id}))
	ctx, cancel := context.WithCancel(t.Context())
	group := &simulate.HostGroup{URL: address, InfraEnvID: infraEnv, Count: 1, Speed: speed, Spokes: s.spokes}
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	})
	requireStatus(t, address, id, models.ClusterStatusReady)
	return id
}

// clusterAt returns a cluster of an appliance without authentication.
func clusterAt(t *testing.T, address, id string) *models.Cluster {
	t.Helper()
	return openConnection(address).cluster(t, id)
}

// requireStatus waits until a cluster of an appliance without authentication has the status.
func requireStatus(t *testing.T, address, id, status string) *models.Cluster {
	t.Helper()
	return openConnection(address).requireStatus(t, id, status)
}

// pressInstall starts the installation of a cluster as soon as its hosts are ready again.
func pressInstall(t *testing.T, address, id string) {
	t.Helper()
	requireStatus(t, address, id, models.ClusterStatusReady)
	got := call(t, http.MethodPost, address+apiPath+"/clusters/"+id+"/actions/install", nil)
	require.Equal(t, http.StatusAccepted, got.status, "%s", got.body)
}

// requireUnprepared waits until a preparation has failed and checks the texts of the cluster and
// its events.
func requireUnprepared(t *testing.T, address, id string, contains ...string) {
	t.Helper()
	var cluster *models.Cluster
	eventually(t, "the preparation fails", func() bool {
		cluster = clusterAt(t, address, id)
		require.NotEqual(t, models.ClusterStatusInstalling, *cluster.Status)
		return cluster.LastInstallationPreparation.Status == models.LastInstallationPreparationStatusFailed
	})
	reason := cluster.LastInstallationPreparation.Reason
	requireSentence(t, reason, append(contains, "The installation could not be prepared: ")...)
	var events []models.Event
	call(t, http.MethodGet, address+apiPath+"/events?cluster_id="+id, nil).read(t, http.StatusOK, &events)
	wantTexts := ""
	for _, event := range events {
		if strings.HasPrefix(*event.Message, "Cluster line: the installation could not be prepared: ") {
			wantTexts = *event.Message
		}
	}
	requireSentence(t, wantTexts, contains...)
}

func TestBadMirror_namedAtInstallAndRetried(t *testing.T) {
	for name, bad := range badMirrors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := newProxiedSite(t)
			// so that the preparation is the first to pull from the mirror
			s.config.Images.Agent = s.release.Images["agent-installer-node-agent"]
			bad.damage(t, s, g)
			address, _ := s.start(t)
			hostsSecret := pullSecret
			if bad.fixedSecret != nil {
				hostsSecret = bad.fixedSecret(g)
			}
			id := s.readyCluster(t, address, bad.firstSecret(g), hostsSecret)

			pressInstall(t, address, id)
			requireUnprepared(t, address, id, bad.wantTexts(g, s.release.Release)...)
			cluster := requireStatus(t, address, id, models.ClusterStatusReady)
			requireSentence(t, *cluster.StatusInfo, bad.wantTexts(g, s.release.Release)...)

			bad.repair(t, g)
			if bad.fixedSecret != nil {
				call(t, http.MethodPatch, address+apiPath+"/clusters/"+id, object{"pull_secret": bad.fixedSecret(g)}).
					read(t,
						http.StatusCreated, cluster)
			}
			pressInstall(t, address, id)
			requireStatus(t, address, id, models.ClusterStatusInstalled)
		})
	}
}

func TestBadMirror_extractionNamesAndResumes(t *testing.T) {
	for name, bad := range map[string]struct {
		handler  func(s *site) func(http.ResponseWriter, *http.Request) bool
		contains []string
	}{
		"manifest missing": {func(s *site) func(http.ResponseWriter, *http.Request) bool {
			_, digest, _ := strings.Cut(s.release.Images["installer"], "@")
			return respondNotFound("/manifests/"+digest, "MANIFEST_UNKNOWN")
		}, []string{"INSTALLER", "answered 404 Not Found (MANIFEST_UNKNOWN)", "mirror the image to"}},
		"blob missing": {func(*site) func(http.ResponseWriter, *http.Request) bool {
			return respondNotFound("/blobs/", "BLOB_UNKNOWN")
		}, []string{"404 Not Found", "BLOB_UNKNOWN", "mirror the image"}},
		"blob damaged": {func(*site) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/blobs/") || r.Method != http.MethodGet {
					return false
				}
				w.WriteHeader(http.StatusOK)
				chunk := make([]byte, 1<<20)
				for range 512 { // more than the blob's size: the reader must stop earlier
					if _, err := w.Write(chunk); err != nil {
						return true
					}
				}
				return true
			}
		}, []string{"is damaged", "copy the image to the mirror again"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := newProxiedSite(t)
			address, _ := s.start(t)
			// the agent's image was pulled, so the payload is cached
			id := s.readyCluster(t, address, pullSecret, pullSecret)
			g.setHandler(bad.handler(s))
			pressInstall(t, address, id)
			for i, wantTexts := range bad.contains {
				bad.contains[i] = strings.ReplaceAll(wantTexts, "INSTALLER", s.release.Images["installer"])
			}
			requireUnprepared(t, address, id, append(bad.contains, "extract openshift-install of release "+
				s.release.Version+
				": ")...)
			left, err := os.ReadDir(filepath.Join(s.config.DataDir, "installers", "installers"))
			require.NoError(t, err)
			require.Empty(t, left)

			g.setHandler(nil)
			pressInstall(t, address, id)
			requireStatus(t, address, id, models.ClusterStatusInstalled)
		})
	}
}

func TestMirrorCertificate_ownAuthorityInBundle(t *testing.T) {
	s, g := newProxiedSite(t)
	g.stop(t)
	var ca []byte
	g.tls, ca = mirrorAuthority(t, time.Now().Add(time.Hour))
	g.start(t)
	address, stop := s.start(t)
	var env models.InfraEnv
	call(t, http.MethodPost, address+apiPath+"/infra-envs", s.newInfraEnv("east")).read(t, http.StatusCreated, &env)
	requireRefusal(t, call(t, http.MethodGet, env.DownloadURL, nil), http.StatusServiceUnavailable,
		"signed by an unknown authority")
	stop()

	s.config.Mirror.CABundle = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(s.config.Mirror.CABundle, ca, 0o600))
	s.config.Listen = strings.TrimPrefix(address, "http://")
	address, _ = s.start(t)
	requireDiscoveryISO(t, env.DownloadURL)
	id := s.readyCluster(t, address, pullSecret, pullSecret)
	pressInstall(t, address, id)
	requireStatus(t, address, id, models.ClusterStatusInstalled)
}

func TestMirrorCertificate_expiredIsNamed(t *testing.T) {
	s, g := newProxiedSite(t)
	g.stop(t)
	var ca []byte
	g.tls, ca = mirrorAuthority(t, time.Now().Add(-time.Hour))
	g.start(t)
	s.config.Mirror.CABundle = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(s.config.Mirror.CABundle, ca, 0o600))
	address, _ := s.start(t)
	requireRefusal(t, call(t, http.MethodGet, s.imageOf(t, address), nil), http.StatusServiceUnavailable, "expired",
		"check the clocks")
}

func TestMirror_anonymousNeedsNoPullSecretEntry(t *testing.T) {
	s, g := newProxiedSite(t)
	g.setHandler(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			refuse(w, http.StatusBadRequest, "UNKNOWN")
			return true
		}
		return false
	})
	address, _ := s.start(t)
	requireDiscoveryISO(t, s.imageOf(t, address))
}
