package command

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror/courier"
	"landfall/appliance/mirror/site"
	"landfall/appliance/sitekey"
)

// carried returns a directory as courier fill leaves it, with an image and a signature of its
// release, and the mirror to which the image is pushed.
func carried(t *testing.T) (dir, host, digest string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	image, err := random.Image(100, 1)
	require.NoError(t, err)
	at, err := name.ParseReference(host + "/upstream/release:1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(at, image))
	hash, err := image.Digest()
	require.NoError(t, err)
	source := host + "/upstream/release@" + hash.String()
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	list, err := (&courier.List{Release: source, Version: "4.20.1", Architecture: "x86_64",
		Items: []courier.Item{{Source: source, Destination: host + "/mirror/release:1"}}}).Text(key)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "list.txt")
	require.NoError(t, os.WriteFile(file, list, 0o600))
	dir = filepath.Join(t.TempDir(), "carried")
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/signature-1") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, err := w.Write([]byte("\x90signature"))
		require.NoError(t, err)
	}))
	t.Cleanup(store.Close)
	got := landfall(t, "courier", "fill", file, "-o", dir, "--signature-store", store.URL)
	require.Zero(t, got.code, got.errOut)
	return dir, host, hash.String()
}

func TestCourierPush_importsSignatures(t *testing.T) {
	dir, host, digest := carried(t)
	var names []string
	status := http.StatusOK
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, _, err := r.FormFile("sha256=" + strings.TrimPrefix(digest, "sha256:") + "/signature-1")
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/api/landfall/v1/mirror" {
			http.Error(w, r.Method+" "+r.URL.Path, http.StatusNotFound)
			return
		}
		content, err := io.ReadAll(file)
		require.NoError(t, err)
		require.Equal(t, "\x90signature", string(content))
		names = append(names, r.URL.Query().Get("name"))
		if status != http.StatusOK {
			w.WriteHeader(status)
			_, err = io.WriteString(w, `{"message":"the appliance's reason"}`)
			require.NoError(t, err)
			return
		}
		require.NoError(t, json.NewEncoder(w).Encode(site.Model{Signatures: []string{digest}}))
	}))
	t.Cleanup(local.Close)
	push := func(url string, more ...string) result {
		return landfall(t, append([]string{"courier", "push", dir, "--to", host, "--url", url}, more...)...)
	}
	importName := "courier-signatures-" + digest[len("sha256:"):][:12]
	later := "landfall mirror import " + filepath.Join(dir, "signatures") + " --name " + importName

	got := push(local.URL)
	require.Zero(t, got.code, got.errOut)
	require.Contains(t, got.out, "the appliance has the signatures of release "+digest+"\n")
	require.NotContains(t, got.out, later)
	require.Equal(t, []string{importName}, names)
	got = push(local.URL, "--json")
	require.Zero(t, got.code, got.errOut)
	var answer struct {
		Images     int
		Signatures struct {
			Imported []string
			Command  string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &answer), got.out)
	require.Equal(t, 1, answer.Images)
	require.Equal(t, []string{digest}, answer.Signatures.Imported)

	status = http.StatusForbidden
	got = push(local.URL)
	require.Zero(t, got.code, "the images are in the mirror, and a person can import the signatures later")
	require.Contains(t, got.out, later)
	require.Contains(t, got.errOut, "the signatures of the release were not imported: the appliance's reason")
	status = http.StatusBadRequest
	got = push(local.URL)
	require.Equal(t, 1, got.code)
	require.Contains(t, got.errOut, "the signatures of the release were not imported: the appliance's reason")

	local.Close()
	got = push(local.URL)
	require.Zero(t, got.code)
	require.Contains(t, got.out, later)
	require.Contains(t, got.errOut, "no appliance listens at "+local.URL)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "signatures")))
	got = push(local.URL)
	require.Zero(t, got.code)
	require.NotContains(t, got.errOut, "no appliance listens", "there is nothing to import")
	require.NotContains(t, got.out, "signatures")
}
