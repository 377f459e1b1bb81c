package courier_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
	"landfall/appliance/mirror/courier"
	"landfall/appliance/sitekey"
)

// fixture consists of a connected registry, a list of two of its images, and an empty mirror.
type fixture struct {
	key         *sitekey.Key
	list        *courier.List
	text        []byte
	index       v1.ImageIndex
	outside     http.Handler
	outsideHost string
	mirrorHost  string
	client      *mirror.Client
	// for requests to the connected registry; replaces its answer if it returns true
	instead func(http.ResponseWriter, *http.Request) bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{}
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	w.outside = registry.New(quiet)
	serve := func(h http.Handler) string {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.Start()
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	w.outsideHost = serve(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if w.instead == nil || !w.instead(out, r) {
			w.outside.ServeHTTP(out, r)
		}
	}))
	w.mirrorHost = serve(registry.New(quiet))
	var err error
	w.key, err = sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	image, err := random.Image(5000, 3)
	require.NoError(t, err)
	w.index, err = random.Index(100, 1, 2)
	require.NoError(t, err)
	at := func(path string) name.Reference {
		ref, err := name.ParseReference(w.outsideHost + "/" + path)
		require.NoError(t, err)
		return ref
	}
	require.NoError(t, remote.Write(at("team/app:1"), image))
	require.NoError(t, remote.WriteIndex(at("team/list:1"), w.index))
	digest, err := image.Digest()
	require.NoError(t, err)
	listDigest, err := w.index.Digest()
	require.NoError(t, err)
	w.list = &courier.List{Created: time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC), Release: "quay.io/team/app@" +
		digest.String(), Version: "4.20.1", Architecture: "x86_64",
		Items: []courier.Item{
			{Source: "quay.io/team/app@" + digest.String(), Destination: "mirror.example.com:5000/team/app:1",
				Names: []string{"app"}, Bytes: 15000, Why: "missing-manifest"},
			{Source: "quay.io/team/list@" + listDigest.String(), Destination: "mirror.example.com:5000/team/list:1"},
		}}
	w.text, err = w.list.Text(w.key)
	require.NoError(t, err)
	rules, err := mirror.Parse(mirror.Sources{RegistriesConf: []mirror.Document{{Name: "r.conf", Data: fmt.Appendf(nil,
		"[[registry]]\nlocation = \"quay.io\"\nblocked = true\n[[registry.mirror]]\nlocation = %q\ninsecure = true\n",
		w.outsideHost)}}})
	require.NoError(t, err)
	w.client = mirror.NewClient(rules, mirror.ClientOptions{Backoff: remote.Backoff{Duration: time.Millisecond,
		Steps: 1}})
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

func (w *fixture) fill(t *testing.T, dir string, part int64) (*courier.Filled, error) {
	t.Helper()
	return courier.Fill(t.Context(), w.text, courier.FillOptions{Client: w.client, Dir: dir, Part: part,
		Pause: time.Millisecond})
}

func (w *fixture) push(t *testing.T, dir string) (*courier.Pushed, error) {
	t.Helper()
	return courier.Push(t.Context(), courier.PushOptions{Dir: dir, To: w.mirrorHost, Client: w.client, Insecure: true})
}

func TestCourier_fillAndPush(t *testing.T) {
	w := newFixture(t)
	dir := t.TempDir()
	filled, err := w.fill(t, dir, 1000)
	require.NoError(t, err)
	require.Equal(t, 2, filled.Images)
	require.Equal(t, filled.Bytes, filled.Fetched)
	files, err := os.ReadDir(filepath.Join(dir, "blobs"))
	require.NoError(t, err)
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(1000), "no part exceeds the requested size")
		require.NotContains(t, file.Name(), ":", "FAT allows no colon in names")
	}
	again, err := w.fill(t, dir, 1000)
	require.NoError(t, err)
	require.Zero(t, again.Fetched)

	_, err = w.push(t, dir)
	require.NoError(t, err)
	for _, item := range w.list.Items {
		_, path, _ := strings.Cut(item.Destination, "/")
		ref, err := name.ParseReference(w.mirrorHost + "/" + path)
		require.NoError(t, err)
		pushed, err := remote.Get(ref)
		require.NoError(t, err)
		require.Contains(t, item.Source, pushed.Digest.String())
	}
}

func TestFill_resumes(t *testing.T) {
	w := newFixture(t)
	var broken, ranges atomic.Int32
	w.instead = func(out http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/team/app/blobs/") || r.Method != http.MethodGet {
			return false
		}
		if r.Header.Get("Range") != "" {
			ranges.Add(1)
			return false
		}
		recorder := httptest.NewRecorder()
		w.outside.ServeHTTP(recorder, r)
		out.Header().Set("Content-Length", recorder.Header().Get("Content-Length"))
		if _, err := out.Write(recorder.Body.Bytes()[:recorder.Body.Len()/2]); err != nil {
			panic(http.ErrAbortHandler)
		}
		broken.Add(1)
		if err := http.NewResponseController(out).Flush(); err != nil {
			return true
		}
		panic(http.ErrAbortHandler)
	}
	filled, err := w.fill(t, t.TempDir(), 1000)
	require.NoError(t, err)
	require.Equal(t, filled.Bytes, filled.Fetched, "nothing was fetched twice")
	require.EqualValues(t, 4, broken.Load())
	require.EqualValues(t, 4, ranges.Load())
}

func TestFill_registryWithOtherBytes(t *testing.T) {
	w := newFixture(t)
	w.instead = func(out http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/team/app/blobs/") {
			return false
		}
		recorder := httptest.NewRecorder()
		w.outside.ServeHTTP(recorder, r)
		if _, err := out.Write(bytes.Repeat([]byte("x"), recorder.Body.Len())); err != nil {
			panic(http.ErrAbortHandler)
		}
		return true
	}
	dir := t.TempDir()
	_, err := w.fill(t, dir, 0)
	require.ErrorContains(t, err, "returned wrong content for sha256:")
	_, err = w.push(t, dir)
	require.ErrorContains(t, err, "is incomplete")
}

func TestPush_damagedManifest(t *testing.T) {
	w := newFixture(t)
	dir := t.TempDir()
	_, err := w.fill(t, dir, 0)
	require.NoError(t, err)
	_, sum, _ := strings.Cut(w.list.Items[0].Source, "sha256:")
	path := filepath.Join(dir, "blobs", sum)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, ' '), 0o600))
	_, err = w.push(t, dir)
	require.ErrorContains(t, err, "sha256:"+sum+" in "+dir+" is damaged")
	require.NoError(t, os.Remove(path))
	_, err = w.push(t, dir)
	require.ErrorContains(t, err, dir+" has no sha256:"+sum)
}

func TestList_alteredAfterSigning(t *testing.T) {
	w := newFixture(t)
	got, key, err := courier.Parse(w.text)
	require.NoError(t, err)
	require.Equal(t, w.key.Public().Fingerprint(), key.Fingerprint())
	require.Equal(t, w.list.Created, got.Created)
	require.Equal(t, w.list.Release, got.Release)

	sum := sha256.Sum256([]byte("another image"))
	other := strings.Index(string(w.text), "quay.io/team/app@sha256:") + len("quay.io/team/app@sha256:")
	forged := append(append([]byte{}, w.text[:other]...), append([]byte(hex.EncodeToString(sum[:])),
		w.text[other+64:]...)...)
	lines := strings.Split(string(w.text), "\n")
	for name, bad := range map[string]struct {
		text []byte
		says string
	}{
		"another image": {forged, "altered since"},
		"an image more": {[]byte(strings.Replace(string(w.text), "# key: ", "quay.io/a/b@sha256:"+
			hex.EncodeToString(sum[:])+"=mirror.example.com/a:1\n# key: ", 1)), "altered since"},
		"cut off":         {w.text[:len(w.text)/2], "signature is missing"},
		"a cut signature": {w.text[:len(w.text)-3], "signature is damaged"},
		"something else":  {[]byte("<html>"), "does not begin with"},
		"an empty file":   {nil, "does not begin with"},
		"no digest": {[]byte(strings.Replace(string(w.text), lines[5],
			"quay.io/team/app:1=mirror.example.com/a:1", 1)), "is not a reference to an image by digest"},
		"no destination": {[]byte(strings.Replace(string(w.text), lines[5], "quay.io/team/app", 1)),
			"is not an assignment of an image to a destination"},
		"a wrong date":     {[]byte(strings.Replace(string(w.text), "2026-05-01T10", "yesterday", 1)), "line 2"},
		"a list of CSV":    {must(w.list.CSV(w.key)), "does not begin with"},
		"a list of images": {must(w.list.ImageSet(w.key)), "does not begin with"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := courier.Parse(bad.text)
			require.ErrorContains(t, err, bad.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

func TestList_formats(t *testing.T) {
	w := newFixture(t)
	set := string(must(w.list.ImageSet(w.key)))
	require.Contains(t, set, "# created: 2026-05-01T10:00:00Z\n# release: "+w.list.Release+"\n")
	require.Contains(t, set,
		"kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n    platform:\n        "+
			"architectures:\n            - amd64\n        release: "+w.list.Release+
			"\n    additionalImages:\n        - name: "+w.list.Items[1].Source+"\n")
	table := string(must(w.list.CSV(w.key)))
	require.Contains(t, table, "name,source,destination,missing bytes,why\napp,"+w.list.Items[0].Source+
		",mirror.example.com:5000/team/app:1,15000,missing-manifest\n")
	for _, text := range []string{set, table} {
		require.Contains(t, text, "\n# signature: ")
	}
}

func TestCourier_invalidPartsAndRegistries(t *testing.T) {
	w := newFixture(t)
	_, err := w.fill(t, t.TempDir(), 4<<30)
	require.ErrorContains(t, err, "below 4 GiB")
	dir := t.TempDir()
	_, err = w.fill(t, dir, 0)
	require.NoError(t, err)
	_, err = courier.Push(t.Context(), courier.PushOptions{Dir: dir, To: "https://mirror.example.com",
		Client: w.client})
	require.ErrorContains(t, err, "use host or host:port")
	_, err = courier.Push(t.Context(), courier.PushOptions{Dir: dir, To: "127.0.0.1:1", Client: w.client,
		Insecure: true})
	require.ErrorContains(t, err, "127.0.0.1:1 refused the connection; check that 127.0.0.1:1 is running")
}
