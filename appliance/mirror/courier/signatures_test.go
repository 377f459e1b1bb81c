package courier_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror/courier"
)

func TestFill_signatures(t *testing.T) {
	w := newFixture(t)
	_, hex, _ := strings.Cut(w.list.Release, "@sha256:")
	contents := map[string]string{"/release/sha256=" + hex + "/signature-1": "\x90one",
		"/release/sha256=" + hex + "/signature-2": "\x90two"}
	status := http.StatusNotFound
	store := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		text, ok := contents[r.URL.Path]
		if !ok {
			out.WriteHeader(status)
			return
		}
		_, err := out.Write([]byte(text))
		require.NoError(t, err)
	}))
	t.Cleanup(store.Close)
	fill := func(dir string) *courier.Filled {
		filled, err := courier.Fill(t.Context(), w.text, courier.FillOptions{Client: w.client, Dir: dir,
			Pause: time.Millisecond, SignatureStore: store.URL + "/release/"})
		require.NoError(t, err, "the images are more important than the signatures")
		return filled
	}
	dir := t.TempDir()
	require.Equal(t, 2, fill(dir).Signatures)
	data, err := os.ReadFile(filepath.Join(dir, "signatures", "sha256="+hex, "signature-2"))
	require.NoError(t, err)
	require.Equal(t, "\x90two", string(data))

	status = http.StatusForbidden
	require.Contains(t, fill(t.TempDir()).SignatureProblem, "signature-3 answered 403")
	contents["/release/sha256="+hex+"/signature-1"] = strings.Repeat("x", 51<<10)
	filled := fill(t.TempDir())
	require.Zero(t, filled.Signatures)
	require.Contains(t, filled.SignatureProblem, "is not a signature")
}

func TestCourier_sigstoreAttachment(t *testing.T) {
	w := newFixture(t)
	filled, err := w.fill(t, t.TempDir(), 0)
	require.NoError(t, err)
	_, digest, _ := strings.Cut(w.list.Release, "@")
	tag := "team/app:" + strings.Replace(digest, ":", "-", 1) + ".sig"
	require.Equal(t, []string{"the release has no Sigstore signature (quay.io/" + tag + ")"}, filled.Notes)

	attachment, err := random.Image(300, 1)
	require.NoError(t, err)
	at := func(host string) name.Reference {
		ref, err := name.ParseReference(host + "/" + tag)
		require.NoError(t, err)
		return ref
	}
	require.NoError(t, remote.Write(at(w.outsideHost), attachment))
	dir := t.TempDir()
	filled, err = w.fill(t, dir, 0)
	require.NoError(t, err)
	require.Equal(t, 1, filled.Sigstore)
	require.Empty(t, filled.Notes)
	_, err = w.push(t, dir)
	require.NoError(t, err)
	pushed, err := remote.Image(at(w.mirrorHost))
	require.NoError(t, err)
	want, err := attachment.Digest()
	require.NoError(t, err)
	got, err := pushed.Digest()
	require.NoError(t, err)
	require.Equal(t, want, got)

	large, err := random.Image(2<<20, 1)
	require.NoError(t, err)
	require.NoError(t, remote.Write(at(w.outsideHost), large))
	filled, err = w.fill(t, t.TempDir(), 0)
	require.NoError(t, err, "the images are more important than the signature")
	require.Zero(t, filled.Sigstore)
	require.Contains(t, filled.Notes[0], "could not be fetched: it is not a signature")
}

func TestFill_releaseWithoutDigest(t *testing.T) {
	w := newFixture(t)
	w.list.Release = "quay.io/team/app:4.20.1"
	text, err := w.list.Text(w.key)
	require.NoError(t, err)
	filled, err := courier.Fill(t.Context(), text, courier.FillOptions{Client: w.client, Dir: t.TempDir()})
	require.NoError(t, err)
	require.Len(t, filled.Notes, 1)
	require.Contains(t, filled.Notes[0], "the list has no digest for the release quay.io/team/app:4.20.1")
}
