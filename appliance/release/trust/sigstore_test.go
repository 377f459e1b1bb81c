package trust

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/mirror"
)

const simpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"

// sigstoreSigner signs releases as cosign does.
type sigstoreSigner struct {
	t    *testing.T
	key  crypto.Signer
	opts crypto.SignerOpts
}

func ecdsaSigner(t *testing.T) *sigstoreSigner {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &sigstoreSigner{t, key, crypto.SHA256}
}

func rsaSigner(t *testing.T, opts crypto.SignerOpts) *sigstoreSigner {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return &sigstoreSigner{t, key, opts}
}

// keyFile writes the public key to a file, as cosign public-key does.
func (s *sigstoreSigner) keyFile() string {
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	require.NoError(s.t, err)
	return pemFile(s.t, "PUBLIC KEY", der)
}

func pemFile(t *testing.T, kind string, der []byte) string {
	path := filepath.Join(t.TempDir(), "release.pub")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// layer returns a signature over a text.
func (s *sigstoreSigner) layer(text string) mutate.Addendum {
	sum := sha256.Sum256([]byte(text))
	signature, err := s.key.Sign(rand.Reader, sum[:], s.opts)
	require.NoError(s.t, err)
	return mutate.Addendum{Layer: static.NewLayer([]byte(text), simpleSigning), MediaType: simpleSigning,
		Annotations: map[string]string{
			"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature)}}
}

// sigstoreClaim returns the text that cosign signs.
func sigstoreClaim(digest string) string {
	return strings.Replace(claim(digest), signatureType, sigstoreType, 1)
}

// sigstoreSite is a site with a mirror of the release repository.
type sigstoreSite struct {
	t       *testing.T
	host    string
	instead func(http.ResponseWriter, *http.Request) bool // answers if it returns true
	client  *mirror.Client
}

func newSigstoreSite(t *testing.T) *sigstoreSite {
	s := &sigstoreSite{t: t}
	quiet := log.New(io.Discard, "", 0)
	inner := registry.New(registry.Logger(quiet))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.instead == nil || !s.instead(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	server.Config.ErrorLog = quiet
	server.Start()
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	rules, err := mirror.Parse(mirror.Sources{RegistriesConf: []mirror.Document{{Name: "r.conf", Data: []byte(
		"[[registry]]\nlocation = \"quay.io\"\nblocked = true\n[[registry.mirror]]\nlocation = \"" + s.host +
			"\"\ninsecure = true\npull-from-mirror = \"digest-only\"\n")}}})
	require.NoError(t, err)
	s.client = mirror.NewClient(rules, mirror.ClientOptions{Backoff: remote.Backoff{Duration: time.Millisecond,
		Steps: 1}})
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

func (s *sigstoreSite) read(ctx context.Context, image string, secret authn.Keychain) ([]mirror.SigstoreSignature,
	error) {
	return mirror.Sigstore(ctx, []*mirror.Client{s.client}, image, secret)
}

// attach pushes layers as the signatures of the release.
func (s *sigstoreSite) attach(layers ...mutate.Addendum) {
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	require.NoError(s.t, err)
	s.push(image)
}

func (s *sigstoreSite) push(image v1.Image) {
	ref, err := name.ParseReference(s.host + "/openshift-release-dev/ocp-release:" +
		strings.Replace(digest, ":", "-", 1) + ".sig")
	require.NoError(s.t, err)
	require.NoError(s.t, remote.Write(ref, image))
}

func (s *sigstoreSite) policy(options Options, keyFiles ...string) *Policy {
	keys, err := ReadKeys(keyFiles)
	require.NoError(s.t, err)
	options.Keys, options.Sigstore = keys, s.read
	return newPolicy(s.t, options)
}

func TestSigstore_releases(t *testing.T) {
	vendor, stranger := ecdsaSigner(t), ecdsaSigner(t)
	good := vendor.layer(sigstoreClaim(digest))
	changed := func(change func(*mutate.Addendum)) []mutate.Addendum {
		layer := vendor.layer(sigstoreClaim(digest))
		change(&layer)
		return []mutate.Addendum{layer}
	}
	text := func(old, replacement string) []mutate.Addendum {
		return []mutate.Addendum{vendor.layer(strings.Replace(sigstoreClaim(digest), old, replacement, 1))}
	}
	var many []mutate.Addendum
	for range 100 {
		many = append(many, stranger.layer(sigstoreClaim(digest)))
	}
	for name, c := range map[string]struct {
		layers  []mutate.Addendum
		allowed bool
	}{
		"good":              {[]mutate.Addendum{good}, true},
		"good after others": {[]mutate.Addendum{stranger.layer(sigstoreClaim(digest)), good}, true},
		"of the configured repository": {text("quay.io/openshift-release-dev/ocp-release:4.20.8-x86_64",
			"mirror.example.com/releases"), true},
		"by a stranger":           {[]mutate.Addendum{stranger.layer(sigstoreClaim(digest))}, false},
		"100 layers":              {many, false},
		"of another release":      {[]mutate.Addendum{vendor.layer(sigstoreClaim(other))}, false},
		"of another repository":   {text("openshift-release-dev/ocp-release", "team/app"), false},
		"of a similar repository": {text("ocp-release:", "ocp-release-dev:"), false},
		"of an invalid name":      {text("quay.io/openshift", "quay io"), false},
		"of the other type":       {[]mutate.Addendum{vendor.layer(claim(digest))}, false},
		"not JSON":                {[]mutate.Addendum{vendor.layer(digest)}, false},
		"another media type": {changed(func(l *mutate.Addendum) {
			l.MediaType, l.Layer = types.OCILayer, static.NewLayer([]byte(sigstoreClaim(digest)), types.OCILayer)
		}), false},
		"no annotation": {changed(func(l *mutate.Addendum) { l.Annotations = nil }), false},
		"annotation without base64": {changed(func(l *mutate.Addendum) {
			l.Annotations["dev.cosignproject.cosign/signature"] = "%"
		}), false},
		"large text": {[]mutate.Addendum{vendor.layer(sigstoreClaim(digest) + strings.Repeat(" ", 65<<10))}, false},
		"no layers":  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			site := newSigstoreSite(t)
			site.attach(c.layers...)
			p := site.policy(Options{Configured: []string{"mirror.example.com/releases@" + other}}, vendor.keyFile())
			err := p.CheckName(t.Context(), repository+"@"+digest, nil)
			if !c.allowed {
				requireNotAllowed(t, err, "no signature by a key in releases.signing_keys")
				return
			}
			require.NoError(t, err)
			signed, err := p.SignatureCheck()(t.Context(), repository+"@"+digest, digest, nil)
			require.NoError(t, err)
			require.True(t, signed)
		})
	}
}

func TestSigstore_keyTypes(t *testing.T) {
	for name, signer := range map[string]*sigstoreSigner{
		"ECDSA": ecdsaSigner(t), "RSA PKCS #1 v1.5": rsaSigner(t, crypto.SHA256),
		"RSA PSS": rsaSigner(t, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}),
	} {
		t.Run(name, func(t *testing.T) {
			site := newSigstoreSite(t)
			site.attach(signer.layer(sigstoreClaim(digest)))
			p := site.policy(Options{}, newSigner(t, "vendor").keyFile(), signer.keyFile())
			require.NoError(t, p.Check(t.Context(), repository+":4.20.8", digest, nil))
			list, err := (&Manager{policy: p}).List()
			require.NoError(t, err)
			require.Len(t, list.SigningKeys, 2)
			require.Len(t, list.Releases, 1)
			require.Equal(t, SourceSigned, list.Releases[0].Source)
			require.Equal(t, "release.pub", list.Releases[0].SignedBy.Owner)
			require.Equal(t, repository+":4.20.8-x86_64", list.Releases[0].PullSpec)
		})
	}
}

// TestSigstore_registryDown holds that a release is allowed from the moment at which its signature
// was read, as long as its key is in the configuration.
func TestSigstore_registryDown(t *testing.T) {
	vendor := ecdsaSigner(t)
	site, db := newSigstoreSite(t), openDB(t)
	p := site.policy(Options{DB: db}, vendor.keyFile())
	pullSpec := repository + "@" + digest
	down := func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	requireNotAllowed(t, p.Check(t.Context(), pullSpec, digest, nil), "it has no signature") // no tag
	site.attach(vendor.layer(sigstoreClaim(digest)))
	site.instead = down
	err := p.Check(t.Context(), pullSpec, digest, nil)
	require.ErrorContains(t, err, "its signature could not be read: "+site.host+
		"/openshift-release-dev/ocp-release answered 500")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	site.instead = nil
	require.NoError(t, p.Check(t.Context(), pullSpec, digest, nil))
	site.instead = down
	require.NoError(t, site.policy(Options{DB: db}, vendor.keyFile()).Check(t.Context(), pullSpec, digest, nil))
	require.Error(t, site.policy(Options{DB: db}, ecdsaSigner(t).keyFile()).Check(t.Context(), pullSpec, digest, nil))
	rehearsal := site.policy(Options{}, vendor.keyFile())
	require.NoError(t, rehearsal.Adopt(t.Context(), p))
	require.NoError(t, rehearsal.Check(t.Context(), pullSpec, digest, nil))
}

func TestSigstore_hostileRegistry(t *testing.T) {
	vendor := ecdsaSigner(t)
	endless := func(w http.ResponseWriter) bool {
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for range 1024 { // 1 GiB
			if _, err := w.Write(chunk); err != nil {
				break
			}
		}
		return true
	}
	for name, c := range map[string]struct {
		path   string
		answer func(http.ResponseWriter) bool
		says   string
	}{
		"manifest of 1 GiB": {"/manifests/", endless, "has a signature of more than 1024 KiB"},
		"payload of 1 GiB":  {"/blobs/", endless, "has a signature of more than 64 KiB"},
		"another payload": {"/blobs/", func(w http.ResponseWriter) bool {
			_, err := io.WriteString(w, sigstoreClaim(other))
			return err == nil
		}, "has a damaged signature"},
		"a page instead of a manifest": {"/manifests/", func(w http.ResponseWriter) bool {
			_, err := io.WriteString(w, "<html>")
			return err == nil
		}, "has a signature with a manifest that is not JSON"},
		"no access": {"/manifests/", func(w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}, "answered 401 Unauthorized, and the pull secret has no entry for it"},
	} {
		t.Run(name, func(t *testing.T) {
			site := newSigstoreSite(t)
			site.attach(vendor.layer(sigstoreClaim(digest)))
			site.instead = func(w http.ResponseWriter, r *http.Request) bool {
				return strings.Contains(r.URL.Path, c.path) && c.answer(w)
			}
			err := site.policy(Options{}, vendor.keyFile()).Check(t.Context(), repository+"@"+digest, digest, nil)
			require.ErrorContains(t, err, "its signature could not be read: "+site.host)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestReadKeys_rejectedPEM(t *testing.T) {
	short, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // the test needs a short key
	require.NoError(t, err)
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	pkix := func(public any) []byte {
		der, err := x509.MarshalPKIXPublicKey(public)
		require.NoError(t, err)
		return der
	}
	for says, file := range map[string]string{
		"the RSA key has 1024 bits":                 pemFile(t, "PUBLIC KEY", pkix(&short.PublicKey)),
		"is neither an ECDSA key nor an RSA key":    pemFile(t, "PUBLIC KEY", pkix(edwards)),
		`it contains a block "CERTIFICATE" instead`: pemFile(t, "CERTIFICATE", []byte("x")),
		`it contains a block "PRIVATE KEY" instead`: pemFile(t, "PRIVATE KEY", []byte("x")),
		"no public key in PEM":                      pemFile(t, "PUBLIC KEY", []byte("x")),
	} {
		_, err := ReadKeys([]string{file})
		require.ErrorContains(t, err, says)
	}
}

func TestReadKeys_severalBlocks(t *testing.T) {
	var text []byte
	for _, owner := range []string{"first", "second"} {
		block, err := os.ReadFile(newSigner(t, owner).keyFile())
		require.NoError(t, err)
		text = append(append(text, block...), '\n')
	}
	path := filepath.Join(t.TempDir(), "RPM-GPG-KEY")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	keys, err := ReadKeys([]string{path})
	require.NoError(t, err)
	require.Len(t, keys.List(), 2)
}
