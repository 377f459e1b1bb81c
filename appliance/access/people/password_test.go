package people

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
)

func TestHasher_verify(t *testing.T) {
	h := newHasher(HashCost{MemoryKiB: 8, Passes: 1})
	hashed, err := h.hash(t.Context(), "correct horse")
	require.NoError(t, err)
	again, err := h.hash(t.Context(), "correct horse")
	require.NoError(t, err)
	require.NotEqual(t, hashed, again, "each hash has its own salt")
	ok, err := h.verify(t.Context(), hashed, "correct horse")
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = h.verify(t.Context(), hashed, "correct horses")
	require.NoError(t, err)
	require.False(t, ok)

	costlier := newHasher(HashCost{MemoryKiB: 16, Passes: 2})
	ok, err = costlier.verify(t.Context(), hashed, "correct horse")
	require.NoError(t, err)
	require.True(t, ok, "a hash with another cost")
}

func TestHasher_damagedHash(t *testing.T) {
	h := newHasher(HashCost{MemoryKiB: 8, Passes: 1})
	hashed, err := h.hash(t.Context(), "correct horse")
	require.NoError(t, err)
	for name, damaged := range map[string]string{
		"empty":             "",
		"another algorithm": strings.Replace(hashed, "argon2id", "argon2i", 1),
		"another version":   strings.Replace(hashed, "v=19", "v=16", 1),
		"no passes":         strings.Replace(hashed, "t=1", "t=0", 1),
		"no numbers":        strings.Replace(hashed, "m=8", "m=x", 1),
		"salt not base64":   strings.Replace(hashed, "p=1$", "p=1$!", 1),
		"cut off":           hashed[:len(hashed)-2],
	} {
		_, err := h.verify(t.Context(), damaged, "correct horse")
		require.ErrorIs(t, err, errHash, name)
		require.NotContains(t, err.Error(), "$")
	}
}

// A flood of logins neither takes memory nor waits: all but a few get ErrBusy at once.
func TestHasher_flood(t *testing.T) {
	h := newHasher(HashCost{MemoryKiB: 8, Passes: 1})
	for range hashesAtOnce { // hashes that do not end
		h.running <- struct{}{}
	}
	ctx, stop := context.WithCancel(t.Context())
	results := make(chan error)
	const logins = 10_000
	for range logins {
		go func() {
			_, err := h.hash(ctx, "correct horse")
			results <- err
		}()
	}
	for range logins - cap(h.queue) {
		err := <-results
		require.ErrorIs(t, err, ErrBusy)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
	}
	stop()
	for range cap(h.queue) {
		require.ErrorIs(t, <-results, context.Canceled)
	}
	<-h.running
	_, err := h.hash(t.Context(), "correct horse")
	require.NoError(t, err, "afterwards, logins work again")
}
