//go:build registry

package registrytest

import (
	"bytes"
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
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"landfall/porttest"
)

// Credentials of all registries in the tests. The htpasswd entry uses bcrypt with the lowest cost,
// because the registry computes it for each request.
const (
	User     = "site"
	Password = "a password: with a colon"
	htpasswd = "site:$2a$04$UE7XbmSG.v5e3AH7zh3d0usP5GP6KcxJZovcWYWYtezv9uTJHfjJW\n"
)

// Registry is a running docker-registry.
type Registry struct {
	Host string // 127.0.0.1:port
	CA   []byte // PEM of the CA that signed its certificate
	Pid  int
	dir  string
	http http.RoundTripper
}

// Options configures a registry.
type Options struct {
	NotAfter time.Time // expiry of the certificate; zero means in a year
	Plain    bool      // neither TLS nor a password
}

// Start runs a registry until the test ends.
func Start(t testing.TB, options Options) *Registry {
	t.Helper()
	r := &Registry{dir: t.TempDir(), Host: porttest.Reserve(t)}
	r.Serve(t, options)
	return r
}

// Serve starts the registry with its stored content.
func (r *Registry) Serve(t testing.TB, options Options) {
	t.Helper()
	if options.NotAfter.IsZero() {
		options.NotAfter = time.Now().AddDate(1, 0, 0)
	}
	ca, certificate, key := authority(t, options.NotAfter)
	r.CA = ca
	write := func(name string, data []byte) string {
		path := filepath.Join(r.dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	config := fmt.Sprintf(`version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
  cache: {blobdescriptor: inmemory}
http:
  addr: %q
`, filepath.Join(r.dir, "storage"), r.Host)
	scheme := "http"
	if !options.Plain {
		scheme = "https"
		config += fmt.Sprintf("  tls: {certificate: %q, key: %q}\nauth: {htpasswd: {realm: site, path: %q}}\n",
			write("cert.pem", certificate), write("key.pem", key), write("htpasswd", []byte(htpasswd)))
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, "docker-registry", "serve", write("config.yml", []byte(config)))
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	require.NoError(t, command.Start(), "install it by .ci/install-registry")
	r.Pid = command.Process.Pid
	answers := false
	t.Cleanup(func() {
		cancel()
		if err := command.Wait(); err != nil && !answers { // the process was killed after it had started
			t.Logf("docker-registry: %v\n%s", err, log.String())
		}
	})
	// The tests' own client trusts the certificate even if it has expired.
	r.http = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 16}
	client := &http.Client{Transport: r.http}
	require.Eventually(t, func() bool {
		response, err := client.Get(scheme + "://" + r.Host + "/v2/")
		return err == nil && response.Body.Close() == nil
	}, time.Minute, 20*time.Millisecond, "docker-registry does not answer")
	answers = true
}

// Remote returns the client options for access to the registry.
func (r *Registry) Remote() []remote.Option {
	return []remote.Option{remote.WithTransport(r.http), remote.WithAuth(&authn.Basic{Username: User,
		Password: Password}), remote.WithJobs(8)}
}

// Ref returns a reference to a path in the registry.
func (r *Registry) Ref(t testing.TB, path string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(r.Host + "/" + path)
	require.NoError(t, err)
	return ref
}

// Delete deletes manifests/<digest> or blobs/<digest> from a repository, like a faulty garbage
// collection.
func (r *Registry) Delete(t testing.TB, repository, what string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "https://"+r.Host+"/v2/"+repository+
		"/"+what, nil)
	require.NoError(t, err)
	request.SetBasicAuth(User, Password)
	response, err := (&http.Client{Transport: r.http}).Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusAccepted, response.StatusCode, what)
}

// PullSecret returns a pull secret for the registry with a password.
func (r *Registry) PullSecret(password string) string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host,
		base64.StdEncoding.EncodeToString([]byte(User+":"+password)))
}

func authority(t testing.TB, until time.Time) (ca, certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Site Root"},
		NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter:  time.Now().AddDate(2, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, private.Public(), private)
	require.NoError(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "mirror"},
		NotBefore: root.NotBefore, NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, private.Public(), private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return block("CERTIFICATE", rootDER), block("CERTIFICATE", leafDER), block("EC PRIVATE KEY", keyDER)
}
