package conformancetest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/registry"
	simulated "landfall/appliance/simulate/registry"
	"landfall/store"
	"landfall/web"
	webregistry "landfall/web/registry"
)

// Credentials of an operator.
const operator, password = "ana", "secret"

// start runs a registry with the media in a folder and returns its host:port.
func start(t *testing.T, folder string) string {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	data := t.TempDir()
	db, err := store.Open(t.Context(), data, store.Options{NoSync: true})
	require.NoError(t, err)
	opened, err := registry.Open(t.Context(), registry.Options{DB: db, Media: []string{folder}, Logger: logger,
		Dir: filepath.Join(data, "registry"), Clock: clockwork.NewRealClock()})
	require.NoError(t, err)
	read := opened.Changed()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- opened.Run(ctx) }()
	<-read
	server := web.New(web.Options{Logger: logger})
	require.NoError(t, server.Register(webregistry.Operations(webregistry.Options{Registry: opened, Anonymous: true,
		Logger: logger,
		Login: func(_ context.Context, _, name, given string) (access.Identity, error) {
			if name != operator || given != password {
				return access.Identity{}, errors.New("wrong")
			}
			return access.Identity{Kind: access.Person, Name: name, Role: access.Operator}, nil
		}})...))
	listening := httptest.NewServer(server)
	t.Cleanup(func() {
		listening.Close()
		cancel()
		require.NoError(t, errors.Join(<-ended, opened.Close(), db.Close()))
	})
	return strings.TrimPrefix(listening.URL, "http://")
}

// conform runs the conformance program against a registry. It fails the test unless all its checks
// pass.
func conform(t *testing.T, host string, settings ...string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "go", "tool", "conformance")
	run.Env = append(os.Environ(), append([]string{"OCI_REGISTRY=" + host, "OCI_TLS=disabled", "OCI_VERSION=1.1",
		"OCI_RESULTS_DIR=" + t.TempDir(),
		// The registry stores SHA-256 only, as all media of OpenShift do.
		"OCI_DATA_SHA512=false"}, settings...)...)
	// The exit code does not tell: the program also exits with an error when it can't write its
	// report about a registry that is only read.
	out, _ := run.CombinedOutput()
	t.Logf("%s", out)
	require.Contains(t, string(out), "OCI Conformance Result: Pass")
	require.Regexp(t, `FAIL\.+: +0\n`, string(out))
	require.Regexp(t, `Error\.+: +0\n`, string(out))
}

// TestConformance_pushed covers all groups of the specification: pull, push, content discovery and
// content management.
func TestConformance_pushed(t *testing.T) {
	conform(t, start(t, t.TempDir()), "OCI_USERNAME="+operator, "OCI_PASSWORD="+password,
		"OCI_API_BLOBS_UPLOAD_CANCEL=true", "OCI_API_BLOBS_DIGEST_HEADER=true", "OCI_API_MANIFESTS_DIGEST_HEADER=true")
}

// TestConformance_media covers pull and content discovery of what lies on a medium.
func TestConformance_media(t *testing.T) {
	folder := t.TempDir()
	archive := &simulated.Archive{}
	pushed, err := archive.AddPayload(t.Context(), simulated.Payload{})
	require.NoError(t, err)
	require.NoError(t, archive.WriteFile(filepath.Join(folder, "mirror_000001.tar")))
	conform(t, start(t, folder), "OCI_REPO1=openshift/release-images", "OCI_API_PUSH=false",
		"OCI_API_BLOBS_DELETE=false", "OCI_API_MANIFESTS_DELETE=false", "OCI_API_TAGS_DELETE=false",
		"OCI_RO_DATA_TAGS=4.20.8-standin-x86_64", "OCI_RO_DATA_MANIFESTS="+pushed.Digest,
		"OCI_RO_DATA_BLOBS="+archive.Digests()[0], "OCI_RO_DATA_REFERRERS="+pushed.Digest)
}
