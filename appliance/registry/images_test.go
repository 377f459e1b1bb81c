package registry

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/architecture"
	"landfall/appliance/registry/medium"
	"landfall/store"
)

// Before the media were read, nobody knows all images, so a copy of them would not be complete.
func TestImages_beforeTheMediaWereRead(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	clock := clockwork.NewFakeClock()
	stick := t.TempDir()
	r, err := Open(t.Context(), Options{DB: db, Media: []string{stick}, Dir: t.TempDir(),
		Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	_, err = r.Images()
	require.ErrorContains(t, err, "the media are being read")
	clock.Advance(time.Hour)
	_, err = r.Images()
	require.ErrorContains(t, err, stick+" does not answer")
}

// A list names architectures that were not mirrored.
func TestArchitectures_onTheMedia(t *testing.T) {
	c := merge(nil)
	amd, arm, list := digestOf("amd64"), digestOf("arm64"), digestOf("list")
	c.manifests[arm] = medium.Manifest{Data: []byte("{}")}
	c.manifests[list] = medium.Manifest{Data: fmt.Appendf(nil, `{"manifests": [
		{"digest": %q, "platform": {"architecture": "amd64"}},
		{"digest": %q, "platform": {"architecture": "arm64"}}]}`, amd, arm)}
	r := new(Registry)
	r.current.Store(c)
	require.Equal(t, []architecture.Architecture{architecture.ARM}, r.Architectures("quay.io/release@"+list))
	require.Empty(t, r.Architectures("quay.io/release@"+arm))
	require.Empty(t, r.Architectures("quay.io/release@"+amd))
}

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }
