package appliance_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/release/trust"
	"landfall/appliance/sandbox"
	"landfall/appliance/simulate/registry"
)

const releasesPath = "/api/landfall/v1/releases"

// strangersOutput is what the stranger's openshift-install writes. The reason of the failed
// installation contains it if the program ran.
const strangersOutput = "the program of a stranger ran"

// strangersRelease pushes a release to a registry of its own. Its openshift-install is a program of
// the attacker, which also writes a file.
func strangersRelease(t *testing.T, marker string) (pushed *registry.Pushed, host string) {
	t.Helper()
	reg, err := registry.New(t.Context(), "127.0.0.1:0", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reg.Close()) })
	pushed, err = registry.PushPayload(t.Context(), reg.Addr, registry.Payload{Version: "4.20.8-stranger",
		Installer: "#!/bin/sh\necho x > " + marker + "\necho 'level=fatal msg=\"" + strangersOutput +
			"\"' >&2\nexit 1\n"})
	require.NoError(t, err)
	return pushed, reg.Addr
}

// named registers a cluster that names a release by a pull spec.
func (d *testAppliance) named(pullSpec, version string) (strfmt.UUID, error) {
	d.Helper()
	created, err := d.Installer.V2RegisterCluster(d.Context(), installer.NewV2RegisterClusterParams().
		WithNewClusterParams(&models.ClusterCreateParams{Name: conv.Pointer("site"), BaseDNSDomain: "site.test",
			OpenshiftVersion: &version, OcpReleaseImage: pullSpec, PullSecret: conv.Pointer(pullSecret),
			ControlPlaneCount: conv.Pointer[int64](1)}))
	if err != nil {
		return "", err
	}
	return *created.Payload.ID, nil
}

// refusedInstallation starts the installation of a cluster and returns the reason of its failure.
func (d *testAppliance) refusedInstallation(cluster strfmt.UUID) (reason string) {
	d.Helper()
	d.until(cluster, models.ClusterStatusReady)
	_, err := d.Installer.V2InstallCluster(d.Context(), installer.NewV2InstallClusterParams().WithClusterID(cluster))
	require.NoError(d, err)
	eventually(d.T, "the preparation fails", func() bool {
		preparation := d.get(cluster).LastInstallationPreparation
		reason = preparation.Reason
		return preparation.Status == models.LastInstallationPreparationStatusFailed
	})
	return reason
}

// TestReleases_strangersProgramDoesNotRun imports mirror rules that lead to a stranger's registry,
// names a release there, and starts an installation. The program runs only after an administrator
// allowed the release, which shows that the attack works otherwise.
func TestReleases_strangersProgramDoesNotRun(t *testing.T) {
	d := startAppliance(t)
	address := strings.TrimSuffix(d.url, apiPath)
	marker := filepath.Join(t.TempDir(), "marker")
	pushed, registry := strangersRelease(t, marker)
	env := d.infraEnv(nil)
	d.group(env, 1)
	host := *d.untilHost(env, models.HostStatusKnownUnbound).ID
	status, answer := importMirror(t, address, "stranger.yaml", pushed.IDMS)
	require.Equal(t, http.StatusOK, status, answer)

	// by digest: the cluster is refused
	_, err := d.named(pushed.Release, pushed.Version)
	refused(t, err, http.StatusBadRequest)

	// by tag: the installation is refused
	byTag, err := d.named(registry+"/openshift/release-images:"+pushed.Version+"-x86_64", pushed.Version)
	require.NoError(t, err)
	_, err = d.Installer.BindHost(t.Context(), installer.NewBindHostParams().WithInfraEnvID(env).WithHostID(host).
		WithBindHostParams(&models.BindHostParams{ClusterID: &byTag}))
	require.NoError(t, err)
	reason := d.refusedInstallation(byTag)
	require.Contains(t, reason, "landfall release allow "+pushed.Digest)
	require.NotContains(t, reason, strangersOutput)
	require.NoFileExists(t, marker)

	// The same attack with a permission runs the program.
	var allowed trust.Allowed
	call(t, http.MethodPost, address+releasesPath, object{"release": pushed.Digest}).read(t, http.StatusCreated,
		&allowed)
	for reason = ""; !strings.Contains(reason, strangersOutput); {
		// The host cannot pull the stranger's images, and may report this before the program ends.
		reason = d.refusedInstallation(byTag)
	}
	box, err := sandbox.New(sandbox.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	for _, measure := range box.Measures() {
		if measure.Active && (measure.ID == sandbox.Files || measure.ID == sandbox.Landlock) {
			require.NoFileExists(t, marker, "the sandbox protects other files also from a permitted program")
		}
	}
}

func TestReleases_listAllowAndForget(t *testing.T) {
	d := startAppliance(t)
	address := strings.TrimSuffix(d.url, apiPath) + releasesPath
	digest := "sha256:" + strings.Repeat("ab", 32)
	list := func() *trust.List {
		var list trust.List
		call(t, http.MethodGet, address, nil).read(t, http.StatusOK, &list)
		return &list
	}
	require.Len(t, list().Releases, 1)
	require.Equal(t, trust.SourceConfigured, list().Releases[0].Source)
	configured := list().Releases[0].Digest

	for _, wanted := range []string{"", "sha256:ab", "quay.io/a b", "latest"} {
		requireRefusal(t, call(t, http.MethodPost, address, object{"release": wanted}), http.StatusBadRequest,
			"neither the digest")
	}
	requireRefusal(t, call(t, http.MethodPost, address, object{"release": "127.0.0.1:1/none:latest"}),
		http.StatusServiceUnavailable, "Give the release's digest instead")
	var allowed trust.Allowed
	call(t, http.MethodPost, address, object{"release": "quay.io/a@" + digest}).read(t, http.StatusCreated, &allowed)
	require.Equal(t, digest, allowed.Digest)
	require.Len(t, list().Releases, 2)
	id, err := d.named("quay.io/a@"+digest, "4.20.8")
	require.NoError(t, err)

	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, address+"/"+digest, nil).status)
	require.Len(t, list().Releases, 1)
	requireRefusal(t, call(t, http.MethodDelete, address+"/"+digest, nil), http.StatusNotFound,
		"No administrator allowed")
	requireRefusal(t, call(t, http.MethodDelete, address+"/"+configured, nil), http.StatusConflict, "release_images")
	var events []models.Event
	call(t, http.MethodGet, d.url+"/events?cluster_id="+id.String(), nil).read(t, http.StatusOK, &events)
	var names []string
	for _, event := range events {
		names = append(names, event.Name)
	}
	require.Contains(t, names, "release_forgotten")
}

// sigstoreSite returns a site whose mirror has a release with a Sigstore signature, as cosign
// attaches it. The site allows the release by nothing but the key. change alters the signature
// after it was made.
func sigstoreSite(t *testing.T, change func(text, signature []byte) ([]byte, []byte)) (*site, *registry.Pushed) {
	t.Helper()
	pushed, host := strangersRelease(t, filepath.Join(t.TempDir(), "marker"))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	text := []byte(`{"critical":{"image":{"docker-manifest-digest":"` + pushed.Digest + `"},` +
		`"type":"cosign container image signature","identity":{"docker-reference":` +
		`"quay.io/openshift-release-dev/ocp-release:4.20.8-x86_64"}},"optional":null}`)
	sum := sha256.Sum256(text)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	require.NoError(t, err)
	text, signature = change(text, signature)
	const simpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: static.NewLayer(text, simpleSigning), MediaType: simpleSigning, Annotations: map[string]string{
			"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature)}})
	require.NoError(t, err)
	tag, err := name.ParseReference(host + "/openshift/release-images:" + strings.Replace(pushed.Digest, ":", "-", 1) +
		".sig")
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, image))

	s := newSite(t)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	s.config.ReleaseImages = nil
	s.config.Mirror.IDMSFiles = []string{file("idms.yaml", offlineRules(pushed.IDMS))}
	s.config.Releases.SigningKeys = []string{file("release.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY",
		Bytes: public}))}
	return s, pushed
}

// TestReleases_sigstoreSignatureInMirror names a release that only a Sigstore signature in the
// mirror allows.
func TestReleases_sigstoreSignatureInMirror(t *testing.T) {
	unchanged := func(text, signature []byte) ([]byte, []byte) { return text, signature }
	for name, c := range map[string]struct {
		change  func(text, signature []byte) ([]byte, []byte)
		keys    bool
		allowed bool
	}{
		"signed": {unchanged, true, true},
		"altered text": {func(text, signature []byte) ([]byte, []byte) {
			return bytes.Replace(text, []byte("4.20.8"), []byte("4.20.9"), 1), signature
		}, true, false},
		"altered signature": {func(text, signature []byte) ([]byte, []byte) {
			signature[len(signature)-1] ^= 1
			return text, signature
		}, true, false},
		"no key in the configuration": {unchanged, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, pushed := sigstoreSite(t, c.change)
			if !c.keys {
				s.config.Releases.SigningKeys = nil
			}
			d := s.connect(t).appliance(t, s)
			id, err := d.named(pushed.Release, pushed.Version)
			var list trust.List
			call(t, http.MethodGet, strings.TrimSuffix(d.url, apiPath)+releasesPath, nil).read(t, http.StatusOK, &list)
			if !c.allowed {
				refused(t, err, http.StatusBadRequest)
				require.Empty(t, list.Releases)
				return
			}
			require.NoError(t, err)
			require.Equal(t, pushed.Release, d.get(id).OcpReleaseImage)
			require.Len(t, list.Releases, 1)
			require.Equal(t, pushed.Digest, list.Releases[0].Digest)
			require.Equal(t, trust.SourceSigned, list.Releases[0].Source)
			require.Equal(t, "release.pub", list.Releases[0].SignedBy.Owner)
		})
	}
}
