package iso

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/osimage"
)

// An image that is usable after a verification without a result is not valid.
func TestVerify_interrupted(t *testing.T) {
	verified := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	image := osimage.Image{ID: "a1", Name: "live.iso", State: osimage.StateReady, VerifiedAt: verified}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(image)
	}))
	defer server.Close()
	l := newLibrary(t, server.URL)
	_, err := l.verify(t.Context(), image, t.Output())
	require.EqualError(t, err, "the verification of live.iso was interrupted, for example by a restart of the "+
		"appliance; run landfall iso verify a1 again")
	before := image
	image.VerifiedAt = verified.Add(time.Second)
	_, err = l.verify(t.Context(), before, t.Output())
	require.NoError(t, err)
}
