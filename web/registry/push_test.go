package registry_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
)

// push sends a request with the operator's credentials.
func (s *site) push(method, path string, body []byte, headers ...string) answer {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, s.server.URL, nil)
	require.NoError(s, err)
	request.SetBasicAuth(operator, password)
	return s.send(method, path, bytes.NewReader(body), append(headers, "Authorization",
		request.Header.Get("Authorization"))...)
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// startUpload starts an upload and returns its path.
func (s *site) startUpload() string {
	s.Helper()
	got := s.push(http.MethodPost, "/v2/team/image/blobs/uploads/", nil)
	require.Equal(s, http.StatusAccepted, got.StatusCode, "%s", got.body)
	return got.Header.Get("Location")
}

// pushBlob pushes a blob at once.
func (s *site) pushBlob(data []byte) string {
	s.Helper()
	got := s.push(http.MethodPut, s.startUpload()+"?digest="+digestOf(data), data)
	require.Equal(s, http.StatusCreated, got.StatusCode, "%s", got.body)
	return digestOf(data)
}

func manifestOf(config, layer string) []byte {
	return fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",`+
		`"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":2},`+
		`"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":%q,"size":5}]}`, config, layer)
}

// Case 27: a manifest needs its blobs, and its digest.
func TestFault27_manifestWithoutBlobs(t *testing.T) {
	s := newSite(t)
	s.start()
	config, layer := s.pushBlob([]byte("{}")), digestOf([]byte("layer"))
	manifest := manifestOf(config, layer)
	got := s.push(http.MethodPut, "/v2/team/image/manifests/1", manifest)
	require.Equal(t, http.StatusBadRequest, got.StatusCode)
	code, message := got.message(t)
	require.Equal(t, "MANIFEST_BLOB_UNKNOWN", code)
	require.Contains(t, message, layer)
	s.pushBlob([]byte("layer"))
	wrong := s.push(http.MethodPut, "/v2/team/image/manifests/"+digestOf([]byte("other")), manifest)
	code, _ = wrong.message(t)
	require.Equal(t, "DIGEST_INVALID", code)
	require.Equal(t, http.StatusCreated, s.push(http.MethodPut, "/v2/team/image/manifests/1", manifest).StatusCode)
	require.Equal(t, manifest, s.get("/v2/team/image/manifests/1").body)
}

// Case 27: bytes with another digest are not stored.
func TestFault27_wrongDigestStoresNothing(t *testing.T) {
	s := newSite(t)
	s.start()
	got := s.push(http.MethodPut, s.startUpload()+"?digest="+digestOf([]byte("right")), []byte("wrong"))
	code, _ := got.message(t)
	require.Equal(t, "DIGEST_INVALID", code)
	require.Zero(t, s.registry.Overlay.Used())
	require.Equal(t, http.StatusNotFound, s.get("/v2/team/image/blobs/"+digestOf([]byte("wrong"))).StatusCode)
}

// Case 28: a part out of order is refused with the present offset.
func TestFault28_partOutOfOrder(t *testing.T) {
	s := newSite(t)
	s.start()
	at := s.startUpload()
	require.Equal(t, http.StatusAccepted, s.push(http.MethodPatch, at, []byte("hello"), "Content-Range",
		"0-4").StatusCode)
	got := s.push(http.MethodPatch, at, []byte("world"), "Content-Range", "10-14")
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, got.StatusCode)
	require.Equal(t, "0-4", got.Header.Get("Range"))
	require.Equal(t, "0-4", s.push(http.MethodGet, at, nil).Header.Get("Range"))
	require.Equal(t, http.StatusAccepted, s.push(http.MethodPatch, at, []byte("world"), "Content-Range",
		"5-9").StatusCode)
	require.Equal(t, http.StatusCreated, s.push(http.MethodPut, at+"?digest="+digestOf([]byte("helloworld")),
		nil).StatusCode)
}

// Case 20: an upload continues at its offset after a crash, and never becomes a wrong blob.
func TestFault20_uploadContinuesAfterRestart(t *testing.T) {
	s := newSite(t)
	s.start()
	at := s.startUpload()
	require.Equal(t, http.StatusAccepted, s.push(http.MethodPatch, at, []byte("hello")).StatusCode)
	s.stop()
	s.start()
	require.Equal(t, "0-4", s.push(http.MethodGet, at, nil).Header.Get("Range"))
	require.Equal(t, http.StatusCreated, s.push(http.MethodPut, at+"?digest="+digestOf([]byte("helloworld")),
		[]byte("world")).StatusCode)
	require.Equal(t, "helloworld", string(s.get("/v2/team/image/blobs/"+digestOf([]byte("helloworld"))).body))
}

// Case 29: what lies on a medium can't be deleted.
func TestFault29_deletionOnMedium(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write("mirror_000001.tar", a)
	s.start()
	for _, path := range []string{"manifests/" + pushed.Digest, "manifests/" + releaseTag, "blobs/" + a.Digests()[0]} {
		got := s.push(http.MethodDelete, "/v2/openshift/release-images/"+path, nil)
		require.Equal(t, http.StatusMethodNotAllowed, got.StatusCode, path)
		code, message := got.message(t)
		require.Equal(t, "UNSUPPORTED", code)
		require.Contains(t, message, "lies on a medium")
	}
}

// Case 30: a collection keeps the blobs of running pushes, and never touches media.
func TestFault30_collectionKeepsRunningPushes(t *testing.T) {
	s := newSite(t)
	a, _ := newArchive(t)
	s.write("mirror_000001.tar", a)
	s.start()
	before, err := os.ReadFile(s.path("mirror_000001.tar"))
	require.NoError(t, err)
	blob, at := s.pushBlob([]byte("layer")), s.startUpload()
	require.Equal(t, http.StatusAccepted, s.push(http.MethodPatch, at, []byte("hello")).StatusCode)
	old := s.clock.Now().Add(-48 * time.Hour)
	unused := s.pushBlob([]byte("unused"))
	require.NoError(t, os.Chtimes(filepath.Join(s.data, "registry", "blobs", strings.TrimPrefix(unused, "sha256:")),
		old,
		old))
	done, err := s.registry.Overlay.Collect(t.Context())
	require.NoError(t, err)
	require.Equal(t, overlay.Collected{Files: 1, Bytes: 6}, done)
	require.Equal(t, http.StatusOK, s.get("/v2/team/image/blobs/"+blob).StatusCode)
	require.Equal(t, "0-4", s.push(http.MethodGet, at, nil).Header.Get("Range"))
	after, err := os.ReadFile(s.path("mirror_000001.tar"))
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// Case 16: a pushed manifest, whose layer lies on a medium, is unavailable while the medium is
// missing.
func TestFault16_layerOnMissingMedium(t *testing.T) {
	s := newSite(t)
	a, layer := bigArchive(t)
	s.write(archive1, a)
	s.start()
	config := s.pushBlob([]byte("{}"))
	manifest := manifestOf(config, layer)
	require.Equal(t, http.StatusCreated, s.push(http.MethodPut, "/v2/team/image/manifests/1", manifest).StatusCode)
	require.Equal(t, http.StatusOK, s.get("/v2/team/image/manifests/1").StatusCode)
	s.remove(archive1)
	require.Equal(t, http.StatusServiceUnavailable, s.get("/v2/team/image/manifests/1").StatusCode)
}

// A client that may push sends the layer of a missing medium, or a damaged one, again.
func TestPush_layerThatMediumCannotSupply(t *testing.T) {
	for _, name := range []string{"missing", "damaged"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			a, layers := layered(t, 1, 1<<20)
			digest := slices.Collect(maps.Keys(layers))[0]
			s.write(archive1, a)
			data, err := os.ReadFile(s.path(archive1))
			require.NoError(t, err)
			if name == "damaged" {
				data[bytes.Index(data, layers[digest])] ^= 1
				require.NoError(t, os.WriteFile(s.path(archive1), data, 0o600))
			}
			s.start()
			path := "/v2/team/image/blobs/" + digest
			if name == "damaged" {
				s.get(path) // finds the damage
			} else {
				s.remove(archive1)
			}
			pulled := s.send(http.MethodHead, path, nil).StatusCode
			require.GreaterOrEqual(t, pulled, http.StatusInternalServerError, "clients that pull hear of the medium")
			require.Equal(t, http.StatusNotFound, s.push(http.MethodHead, path, nil).StatusCode)
			s.pushBlob(layers[digest])
			require.Equal(t, layers[digest], s.get(path).body)
		})
	}
}

// Case 30: a collection does not remove the blobs of a manifest that is being stored.
func TestFault30_collectionDuringManifest(t *testing.T) {
	s := newSite(t)
	s.start()
	layer := s.pushBlob([]byte("layer"))
	s.clock.Advance(48 * time.Hour)
	collected := make(chan error, 1)
	_, err := s.registry.Overlay.PutManifest(t.Context(), "team/image", "1",
		medium.Manifest{MediaType: medium.TypeOCIManifest, Data: manifestOf(layer, layer)}, func() error {
			go func() {
				_, err := s.registry.Overlay.Collect(context.WithoutCancel(t.Context()))
				collected <- err
			}()
			select { // a collection that does not wait ends here
			case err := <-collected:
				collected <- err
			case <-time.After(50 * time.Millisecond):
			}
			return nil
		})
	require.NoError(t, err)
	require.NoError(t, <-collected)
	require.Equal(t, http.StatusOK, s.get("/v2/team/image/blobs/"+layer).StatusCode)
}

// TestCancel_twiceAtOnce cancels an upload by two requests while a third one writes. The bytes are
// released once.
func TestCancel_twiceAtOnce(t *testing.T) {
	s := newSite(t)
	s.start()
	o := s.registry.Overlay
	id, err := o.Start()
	require.NoError(t, err)
	_, err = o.Append(id, -1, strings.NewReader("hello"))
	require.NoError(t, err)
	body, writer := io.Pipe()
	appended := make(chan error, 1)
	go func() {
		_, err := o.Append(id, -1, body)
		appended <- err
	}()
	_, err = writer.Write([]byte(" world"))
	require.NoError(t, err)
	results := make(chan error, 2)
	for range 2 {
		go func() { results <- o.Cancel(id) }()
	}
	require.NoError(t, writer.Close())
	// A request that comes too late finds no upload.
	if err := <-appended; err != nil {
		require.ErrorIs(t, err, overlay.ErrUploadUnknown)
	}
	first, second := <-results, <-results
	if first == nil {
		first, second = second, first
	}
	require.ErrorIs(t, first, overlay.ErrUploadUnknown)
	require.NoError(t, second)
	require.Zero(t, o.Used())
}

// Case 31: a wrong password is refused with a challenge, and pushes need credentials.
func TestFault31_wrongPassword(t *testing.T) {
	s := newSite(t)
	s.start()
	for name, headers := range map[string][]string{"none": nil, "wrong": {"Authorization", "Basic YW5hOndyb25n"}} {
		got := s.send(http.MethodPost, "/v2/team/image/blobs/uploads/", nil, headers...)
		require.Equal(t, http.StatusUnauthorized, got.StatusCode, name)
		require.Equal(t, `Basic realm="landfall"`, got.Header.Get("Www-Authenticate"))
		code, _ := got.message(t)
		require.Equal(t, "UNAUTHORIZED", code)
	}
}

// Where everybody may pull, clients of containers/image send credentials for a push only if the
// base of the registry asks for them, and send empty ones if they have none.
func TestLogin_challengeWhereEverybodyPulls(t *testing.T) {
	s := newSite(t)
	s.start()
	a, digest := bigArchive(t)
	s.write("mirror_000001.tar", a)
	s.look()
	const empty, wrong = "Basic Og==", "Basic YW5hOndyb25n"
	blob := "/v2/team/big/blobs/" + digest
	for _, c := range []struct {
		path, credentials string
		status            int
		asks              bool
	}{
		{"/v2/", "", http.StatusOK, true},
		{"/v2/", empty, http.StatusOK, true},
		{"/v2/", wrong, http.StatusUnauthorized, true}, // podman login
		{blob, "", http.StatusOK, false},
		{blob, empty, http.StatusOK, false},
		{blob, wrong, http.StatusOK, false}, // a node with an old pull secret
		{"/v2/team/big/blobs/uploads/" + "aaaa", empty, http.StatusUnauthorized, true},
	} {
		var headers []string
		if c.credentials != "" {
			headers = []string{"Authorization", c.credentials}
		}
		got := s.send(http.MethodGet, c.path, nil, headers...)
		require.Equal(t, c.status, got.StatusCode, "%v", c)
		require.Equal(t, c.asks, got.Header.Get("Www-Authenticate") != "", "%v", c)
	}
}

// pushBody sends the body of an upload without a network, and returns the answer.
func (s *site) pushBody(at string, body io.Reader) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPatch, at, body)
	request.SetBasicAuth(operator, password)
	answer := httptest.NewRecorder()
	s.server.Config.Handler.ServeHTTP(answer, request)
	return answer
}

// A body that stalls or breaks off is the fault of the client or of its connection. The
// bytes that arrived are kept.
func TestPush_bodyFails(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		status  int
		message string
	}{
		"too slow":   {os.ErrDeadlineExceeded, http.StatusRequestTimeout, "arrived too slowly"},
		"broken off": {io.ErrUnexpectedEOF, http.StatusBadRequest, "ended before its announced end"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.start()
			at := s.startUpload()
			got := s.pushBody(at, io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(c.err)))
			require.Equal(t, c.status, got.Code, "%s", got.Body)
			code, message := answer{body: got.Body.Bytes()}.message(t)
			require.Equal(t, "BLOB_UPLOAD_INVALID", code)
			require.Contains(t, message, c.message)
			require.Equal(t, "0-4", s.push(http.MethodGet, at, nil).Header.Get("Range"))
		})
	}
}

// A client whose connection hangs asks on another one how much arrived.
func TestPush_stateWhileTheBodyStalls(t *testing.T) {
	s := newSite(t)
	s.start()
	at := s.startUpload()
	body, sender := io.Pipe()
	ended := make(chan int)
	go func() { ended <- s.pushBody(at, body).Code }()
	for _, part := range []string{"hello", ""} { // the second is read after the first was stored
		_, err := io.WriteString(sender, part)
		require.NoError(t, err)
	}
	require.Equal(t, "0-4", s.push(http.MethodGet, at, nil).Header.Get("Range"))
	require.NoError(t, sender.Close())
	require.Equal(t, http.StatusAccepted, <-ended)
}
