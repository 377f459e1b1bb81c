package handover_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/engine"
	"landfall/appliance/kube/spoke"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
	"landfall/appliance/registry"
	"landfall/appliance/registry/handover"
	"landfall/appliance/registry/medium"
	"landfall/appliance/simulate"
	"landfall/appliance/simulate/pki"
	simulated "landfall/appliance/simulate/registry"
	"landfall/logtest"
	"landfall/store"
	"landfall/web"
	webregistry "landfall/web/registry"
)

// Names of the site.
const (
	ownHost     = "mirror.site.test"
	ownName     = ownHost + ":5000"
	apiName     = "api.one.site.test"
	clusterID   = "11111111-1111-4111-8111-111111111111"
	clusterName = "one.site.test"
)

// site is an appliance's registry with an archive, a dependent cluster, and a registry of the site.
type site struct {
	*testing.T
	dir     string
	clock   *clockwork.FakeClock
	archive *simulated.Archive
	release *simulated.Pushed
	own     *ownRegistry
	db      *store.DB
	service *handover.Service
	to      *laterRegistry
	spokes  *simulate.Spokes
	cluster *simulate.Spoke
	name    string // of the appliance's registry
	lookup  func(host string) ([]string, error)
	resolve func(name string) string // to host:port, as nodes do
	secret  string                   // of the nodes
	status  string                   // of the cluster
	stop    func()
}

// ownRegistry is the appliance's registry.
type ownRegistry struct {
	*registry.Registry
	name string
	also *registry.Registry // whose blobs it has, too; nil for none
	mu   sync.Mutex
	to   *registry.Place // to which it was handed over
}

func (o *ownRegistry) Blob(digest string) (*registry.Blob, error) {
	if o.also != nil {
		if blob, err := o.also.Blob(digest); err == nil {
			return blob, nil
		}
	}
	return o.Registry.Blob(digest)
}

func (o *ownRegistry) Host() string { return o.name }

func (o *ownRegistry) HandOver(to *registry.Place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = to
}

func (o *ownRegistry) handedOver() *registry.Place {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to
}

// laterRegistry is a registry of the site. before may answer a request in its place, or change it.
type laterRegistry struct {
	*registry.Registry
	server  *httptest.Server
	handler http.Handler // without before

	mu       sync.Mutex
	before   func(w http.ResponseWriter, r *http.Request) (answered bool)
	requests []string
}

func (l *laterRegistry) host() string { return l.server.Listener.Addr().String() }

func (l *laterRegistry) intercept(with func(http.ResponseWriter, *http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = with
}

// sent returns the requests so far, and forgets them.
func (l *laterRegistry) sent() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := l.requests
	l.requests = nil
	return sent
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, dir: t.TempDir(), clock: clockwork.NewFakeClock(), archive: &simulated.Archive{}, name: ownName,
		status: "installed"}
	var err error
	s.release, err = s.archive.AddPayload(t.Context(), simulated.Payload{})
	require.NoError(t, err)
	s.to = s.newLater()
	s.spokes, err = simulate.NewSpokes(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.spokes.Close()) })
	s.cluster = s.spokes.Cluster(apiName)
	return s
}

func (s *site) logger() *slog.Logger { return logtest.New(s, slog.LevelInfo) }

// openRegistry opens a registry in a folder, and runs it.
func (s *site) openRegistry(dir string, media ...string) (*registry.Registry, *store.DB, func()) {
	s.Helper()
	db, err := store.Open(s.Context(), filepath.Join(dir, "db"), store.Options{NoSync: true})
	require.NoError(s, err)
	opened, err := registry.Open(s.Context(), registry.Options{DB: db, Media: media, Dir: filepath.Join(dir, "pushed"),
		Clock: s.clock, Logger: s.logger()})
	require.NoError(s, err)
	changed := opened.Changed()
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- opened.Run(ctx) }()
	if len(media) > 0 {
		<-changed
	}
	return opened, db, func() {
		cancel()
		require.NoError(s, <-ended)
		require.NoError(s, opened.Close())
		require.NoError(s, db.Close())
	}
}

// newLater starts a registry of the site on the loopback.
func (s *site) newLater() *laterRegistry {
	s.Helper()
	l := new(laterRegistry)
	var stop func()
	l.Registry, _, stop = s.openRegistry(s.TempDir())
	s.Cleanup(stop)
	handler := web.New(web.Options{Logger: s.logger()})
	require.NoError(s, handler.Register(webregistry.Operations(webregistry.Options{Registry: l.Registry, Anonymous: true,
		Logger: s.logger(), Login: func(_ context.Context, _, name, password string) (access.Identity, error) {
			if name != "writer" || password != "secret" {
				return access.Identity{}, errors.New("the name or the password is wrong")
			}
			return access.Identity{Kind: access.Person, Name: name, Role: access.Operator}, nil
		}})...))
	l.handler = handler
	l.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		before := l.before
		l.requests = append(l.requests, r.Method+" "+r.URL.Path)
		l.mu.Unlock()
		if before == nil || !before(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	s.Cleanup(l.server.Close)
	l.server.Start()
	return l
}

// withTLS restarts the registry with a certificate for names. It returns the CA.
func (l *laterRegistry) withTLS(t *testing.T, names ...string) string {
	t.Helper()
	handler := l.server.Config.Handler
	l.server.Close()
	ca, err := pki.NewCA("site", "site", pki.Year)
	require.NoError(t, err)
	pair, err := pki.NewServer(names[0], names, nil, pki.Year, ca)
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	l.server = httptest.NewUnstartedServer(handler)
	l.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	l.server.StartTLS()
	t.Cleanup(l.server.Close)
	return string(ca.Cert)
}

// writeSecret is a pull secret that may push to a registry.
func writeSecret(host string) string {
	secret, err := mirror.AddCredentials("", host, "writer", "secret")
	if err != nil {
		panic(err)
	}
	return secret
}

// start starts the appliance's registry and the service. A stopped site goes on where it was.
func (s *site) start() {
	s.Helper()
	stick := filepath.Join(s.dir, "stick")
	archive := filepath.Join(stick, "mirror_000001.tar")
	if _, err := os.Stat(archive); err != nil {
		require.NoError(s, os.MkdirAll(stick, 0o700))
		require.NoError(s, s.archive.WriteFile(archive))
	}
	opened, db, closeRegistry := s.openRegistry(s.dir, stick)
	s.own, s.db = &ownRegistry{Registry: opened, name: s.name}, db
	place, err := handover.Place(db, nil)
	require.NoError(s, err)
	s.own.HandOver(place)
	s.service = handover.New(handover.Options{DB: db, Source: s.own, Dependents: s.dependents, Installs: s.installs,
		Rules: func(mirror.Level) *mirror.Rules { return s.rules() }, Prove: s.prove, Connect: s.connect,
		Lookup: func(_ context.Context, host string) ([]string, error) { return s.lookup(host) },
		Client: mirror.ClientOptions{Local: s.resolve}, Clock: s.clock, Logger: s.logger()})
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.service.Run(ctx) }()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(s, <-ended)
		closeRegistry()
	}
	s.Cleanup(func() { s.stop() })
}

func (s *site) dependents() ([]registry.Dependent, error) {
	gone, err := s.service.Independent(clusterID)
	if err != nil || gone || s.status == "" {
		return nil, err
	}
	return []registry.Dependent{{ID: clusterID, Name: "one", Domain: "site.test", Status: s.status}}, nil
}

func (s *site) installs(id string) (engine.InstallSource, error) {
	return engine.InstallSource{ClusterID: id, Name: "one", Release: s.release.Release, Architecture: "x86_64",
		PullSecret: s.secret}, nil
}

func (s *site) rules() *mirror.Rules {
	sources, err := s.own.Rules(registry.Place{Host: s.name})
	require.NoError(s, err)
	rules, err := mirror.Parse(sources)
	require.NoError(s, err)
	return rules
}

// prove proves the images of the release, without reading its payload.
func (s *site) prove(ctx context.Context, source engine.InstallSource, client *mirror.Client) (engine.MirrorProof,
	error) {
	defer client.CloseIdleConnections()
	request := prover.Request{Images: []prover.Image{{Ref: source.Release}}, Client: client, Fresh: true}
	for _, ref := range s.release.Images {
		request.Images = append(request.Images, prover.Image{Ref: ref})
	}
	report, err := prover.New(prover.Options{}).Prove(ctx, request, nil)
	if err != nil {
		return engine.MirrorProof{}, err
	}
	return engine.MirrorProof{Complete: report.Complete(), Images: len(report.Results), Gaps: report.Gaps(),
		Summary: report.Summary()}, nil
}

func (s *site) connect(string) (*spoke.Client, error) {
	return spoke.Open(spoke.Access{Kubeconfig: s.spokes.Kubeconfig(apiName), From: "the test",
		Names: map[string]string{"*.site.test": s.spokes.Addr()}}, s.clock)
}

// begin starts a hand-over.
func (s *site) begin(wanted handover.Request) {
	s.Helper()
	if wanted.PullSecret == "" {
		wanted.PullSecret = writeSecret(wanted.To)
	}
	_, err := s.service.Start(s.Context(), wanted)
	require.NoError(s, err)
}

// now returns the state of the hand-over.
func (s *site) now() *handover.Status {
	s.Helper()
	status, err := s.service.Status()
	require.NoError(s, err)
	return status
}

// isNoted reports whether the status of the registry notes a hand-over.
func (s *site) isNoted() bool {
	s.Helper()
	var status registry.Status
	require.NoError(s, s.service.Note(&status))
	return status.HandOver
}

// await lets time pass until the hand-over is in a state.
func (s *site) await(state handover.State) *handover.Status {
	s.Helper()
	return s.until("the state "+string(state), func(now *handover.Status) bool { return now.State == state })
}

// until lets time pass until the hand-over is as expected.
func (s *site) until(what string, expected func(*handover.Status) bool) *handover.Status {
	s.Helper()
	var last *handover.Status
	require.Eventually(s, func() bool {
		last = s.now()
		if expected(last) {
			return true
		}
		s.clock.Advance(5 * time.Second)
		return false
	}, time.Minute, 20*time.Millisecond, "%s", lazy{func() string {
		text, _ := json.MarshalIndent(last, "", " ")
		return what + "\n" + string(text)
	}})
	return last
}

type lazy struct{ text func() string }

func (l lazy) String() string { return l.text() }

// setMirrors gives the cluster the mirror sets of the appliance's registry, and pools of nodes.
func (s *site) setMirrors() {
	s.Helper()
	for _, kind := range []struct{ collection, name string }{
		{"apis/config.openshift.io/v1/imagedigestmirrorsets", "ImageDigestMirrorSet"},
		{"apis/config.openshift.io/v1/imagetagmirrorsets", "ImageTagMirrorSet"},
		{"apis/config.openshift.io/v1/images", "Image"},
		{"apis/operators.coreos.com/v1alpha1/catalogsources", "CatalogSource"}} {
		s.cluster.Serve(kind.collection, kind.name)
	}
	s.putMirrors(ownName + "/openshift/release-images")
	s.cluster.Put("apis/config.openshift.io/v1/images", map[string]any{"metadata": map[string]any{"name": "cluster"},
		"spec": map[string]any{}})
	s.cluster.Put("api/v1/secrets", map[string]any{"metadata": map[string]any{"name": "pull-secret",
		"namespace": "openshift-config"}, "data": map[string]any{".dockerconfigjson": "eyJhdXRocyI6e319"}})
	s.cluster.Put("apis/operators.coreos.com/v1alpha1/catalogsources", map[string]any{
		"metadata": map[string]any{"name": "cs-redhat", "namespace": "openshift-marketplace"},
		"spec":     map[string]any{"image": ownName + "/redhat/redhat-operator-index:v4.20"}})
	s.setPool("worker", "rendered-worker-1", "rendered-worker-1", 2, 2)
	s.setPool("master", "rendered-master-1", "rendered-master-1", 3, 3)
}

// putMirrors gives the cluster a mirror set with mirrors of the release.
func (s *site) putMirrors(mirrors ...string) {
	list := []any{}
	for _, m := range mirrors {
		list = append(list, m)
	}
	s.cluster.Put("apis/config.openshift.io/v1/imagedigestmirrorsets", map[string]any{
		"metadata": map[string]any{"name": "image-digest-mirror"},
		"spec": map[string]any{"imageDigestMirrors": []any{
			map[string]any{"source": "quay.io/openshift-release-dev/ocp-release",
				"mirrorSourcePolicy": "NeverContactSource", "mirrors": list},
			map[string]any{"source": "registry.example.com/other", "mirrors": []any{"elsewhere.test/other"}}}}})
}

func (s *site) setPool(name, wanted, has string, machines, updated int) {
	condition := "False"
	if wanted == has && machines == updated {
		condition = "True"
	}
	s.cluster.Put("apis/machineconfiguration.openshift.io/v1/machineconfigpools", map[string]any{
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"paused": false,
			"configuration": map[string]any{"name": wanted}},
		"status": map[string]any{"configuration": map[string]any{"name": has}, "machineCount": int64(machines),
			"updatedMachineCount": int64(updated), "conditions": []any{map[string]any{"type": "Updated",
				"status": condition}}}})
}

// mirrors returns the mirrors of the cluster for the release.
func (s *site) mirrors() []string {
	s.Helper()
	object := s.cluster.Object("apis/config.openshift.io/v1/imagedigestmirrorsets", "", "image-digest-mirror")
	text, err := json.Marshal(object.Object["spec"])
	require.NoError(s, err)
	var spec struct {
		ImageDigestMirrors []struct {
			Source, MirrorSourcePolicy string
			Mirrors                    []string
		}
	}
	require.NoError(s, json.Unmarshal(text, &spec))
	require.Equal(s, "NeverContactSource", spec.ImageDigestMirrors[0].MirrorSourcePolicy, "other fields stay")
	require.Equal(s, []string{"elsewhere.test/other"}, spec.ImageDigestMirrors[1].Mirrors)
	return spec.ImageDigestMirrors[0].Mirrors
}

// rolledOut gives all nodes of the cluster the configuration with a number.
func (s *site) rolledOut(number int) {
	for name, machines := range map[string]int{"worker": 2, "master": 3} {
		configuration := fmt.Sprintf("rendered-%s-%d", name, number)
		s.setPool(name, configuration, configuration, machines, machines)
	}
}

// writeSparseList writes an OCI layout to the stick. Its list names an image that is absent. The
// list is in many lists, of which each names the next one twice.
func (s *site) writeSparseList() {
	s.Helper()
	dir := filepath.Join(s.dir, "stick", "app")
	write := func(content any) map[string]any {
		text, err := json.Marshal(content)
		require.NoError(s, err)
		sum := sha256.Sum256(text)
		name := hex.EncodeToString(sum[:])
		require.NoError(s, os.WriteFile(filepath.Join(dir, "blobs", "sha256", name), text, 0o600))
		return map[string]any{"digest": "sha256:" + name, "size": len(text)}
	}
	require.NoError(s, os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o700))
	config := write(map[string]any{})
	config["mediaType"] = "application/vnd.oci.image.config.v1+json"
	const manifest, index = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
	present := write(map[string]any{"schemaVersion": 2, "mediaType": manifest, "config": config, "layers": []any{}})
	absent := map[string]any{"digest": "sha256:" + strings.Repeat("a", 64), "size": 100}
	for image, architecture := range map[*map[string]any]string{&present: "amd64", &absent: "arm64"} {
		(*image)["mediaType"] = manifest
		(*image)["platform"] = map[string]string{"os": "linux", "architecture": architecture}
	}
	list := write(map[string]any{"schemaVersion": 2, "mediaType": index, "manifests": []any{present, absent}})
	list["mediaType"] = index
	for range 50 {
		list = write(map[string]any{"schemaVersion": 2, "mediaType": index, "manifests": []any{list, list}})
		list["mediaType"] = index
	}
	list["annotations"] = map[string]string{"org.opencontainers.image.ref.name": "quay.io/team/app:v1"}
	text, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{list}})
	require.NoError(s, err)
	require.NoError(s, os.WriteFile(filepath.Join(dir, "index.json"), text, 0o600))
	require.NoError(s, os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600))
}

// requireComplete checks that the site's registry has all images of the archive, byte by byte.
func (s *site) requireComplete() {
	s.Helper()
	images, err := s.own.Images()
	require.NoError(s, err)
	require.NotEmpty(s, images)
	for _, image := range images {
		reference := image.Tag
		if reference == "" {
			reference = image.Digest
		}
		found, err := s.to.Manifest(image.Repository, reference)
		require.NoError(s, err, image)
		require.Equal(s, image.Digest, found.Digest, image)
		parsed, err := medium.ParseManifest(found.Data)
		require.NoError(s, err)
		for _, part := range parsed.Parts() {
			blob, err := s.to.Blob(part.Digest)
			require.NoError(s, err)
			require.NoError(s, blob.Copy(s.Context(), io.Discard, 0, blob.Size))
			require.Equal(s, part.Size, blob.Size)
		}
	}
}
