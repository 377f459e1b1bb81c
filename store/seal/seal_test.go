package seal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/store/seal"
)

func TestRing_opensWhatItSealed(t *testing.T) {
	first := seal.NewKey(1)
	ring, err := seal.NewRing(first)
	require.NoError(t, err)
	old, err := ring.Seal([]byte("head"), []byte("secret"), []byte("context"))
	require.NoError(t, err)
	require.Equal(t, "head", string(old[:4]))
	require.NotContains(t, string(old), "secret")
	require.LessOrEqual(t, len(old), 4+6+seal.Overhead)

	require.NoError(t, ring.Add(seal.NewKey(2)))
	require.EqualValues(t, 2, ring.Current())
	sealed, err := ring.Seal(nil, nil, nil)
	require.NoError(t, err)
	number, err := seal.Number(sealed)
	require.NoError(t, err)
	require.EqualValues(t, 2, number)

	again, err := seal.NewRing(ring.Keys()...)
	require.NoError(t, err)
	for _, r := range []*seal.Ring{ring, again} {
		plain, err := r.Open(old[4:], []byte("context"))
		require.NoError(t, err)
		require.Equal(t, "secret", string(plain))
		plain, err = r.Open(sealed, nil)
		require.NoError(t, err)
		require.Empty(t, plain)
	}
	without, err := seal.NewRing(first)
	require.NoError(t, err)
	_, err = without.Open(sealed, nil)
	require.ErrorIs(t, err, seal.ErrOpen)
}

func TestRing_rejectsWhatItDidNotSeal(t *testing.T) {
	ring, err := seal.NewRing(seal.NewKey(1))
	require.NoError(t, err)
	other, err := seal.NewRing(seal.NewKey(1))
	require.NoError(t, err)
	sealed, err := ring.Seal(nil, []byte("secret"), []byte("context"))
	require.NoError(t, err)
	_, err = other.Open(sealed, []byte("context"))
	require.ErrorIs(t, err, seal.ErrOpen)
	_, err = ring.Open(sealed, []byte("another context"))
	require.ErrorIs(t, err, seal.ErrOpen)
	for i := range sealed {
		_, err = ring.Open(sealed[:i], []byte("context"))
		require.ErrorIs(t, err, seal.ErrOpen)
		altered := append([]byte{}, sealed...)
		altered[i] ^= 1
		_, err = ring.Open(altered, []byte("context"))
		require.ErrorIs(t, err, seal.ErrOpen)
	}
}

func TestRing_unusableKeysAreRejected(t *testing.T) {
	key := seal.NewKey(2)
	for name, keys := range map[string][]seal.Key{
		"none": nil, "short": {{Number: 1, Secret: key.Secret[1:]}}, "number 0": {{Secret: key.Secret}},
		"twice": {key, key}, "wrong order": {key, seal.NewKey(1)},
	} {
		_, err := seal.NewRing(keys...)
		require.Error(t, err, name)
	}
}

func BenchmarkRing(b *testing.B) {
	ring, err := seal.NewRing(seal.NewKey(1))
	require.NoError(b, err)
	plain := make([]byte, 8<<10)
	sealed, err := ring.Seal(nil, plain, nil)
	require.NoError(b, err)
	b.Run("seal 8 KiB", func(b *testing.B) {
		for b.Loop() {
			_, _ = ring.Seal(nil, plain, nil)
		}
	})
	b.Run("open 8 KiB", func(b *testing.B) {
		for b.Loop() {
			_, _ = ring.Open(sealed, nil)
		}
	})
}
