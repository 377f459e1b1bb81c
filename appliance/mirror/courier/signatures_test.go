package courier_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
