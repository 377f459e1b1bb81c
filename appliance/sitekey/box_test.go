package sitekey_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/sitekey"
)

func newBox(t *testing.T, purpose sitekey.Purpose) *sitekey.Box {
	t.Helper()
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	box, err := key.Box(purpose, nil)
	require.NoError(t, err)
	return box
}

func TestBox_roundTrip(t *testing.T) {
	box := newBox(t, "secrets")
	const secret = `{"auths":{"quay.io":{"auth":"c2l0ZQ=="}}}`
	sealed, err := box.Seal(secret)
	require.NoError(t, err)
	require.NotContains(t, sealed, "auths")
	opened, err := box.Open(sealed)
	require.NoError(t, err)
	require.Equal(t, secret, opened)

	require.True(t, sitekey.IsSealed(sealed))
	again, err := box.Seal(sealed)
	require.NoError(t, err)
	opened, err = box.Open(again)
	require.NoError(t, err)
	require.Equal(t, sealed, opened, "a text that looks sealed is a text like any other")
	plain, err := box.Open(secret)
	require.NoError(t, err)
	require.Equal(t, secret, plain, "a text from before the box existed")

	file, err := box.SealBytes([]byte(secret))
	require.NoError(t, err)
	require.True(t, sitekey.Sealed(file[:sitekey.SealedPrefix]))
	require.NotContains(t, string(file), "auths")
	content, err := box.OpenBytes(file)
	require.NoError(t, err)
	require.Equal(t, secret, string(content))
}

func TestBox_otherKeyOrPurposeFails(t *testing.T) {
	box, other := newBox(t, "secrets"), newBox(t, "secrets")
	sealed, err := box.Seal("secret")
	require.NoError(t, err)
	file, err := box.SealBytes([]byte("secret"))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"cut off": sealed[:len(sealed)-3], "only its beginning": sealed[:9], "not base64": sealed[:9] + "!",
		"altered": sealed[:12] + swap(sealed[12:]),
	} {
		_, err := box.Open(text)
		require.ErrorIs(t, err, sitekey.ErrSealed, name)
	}
	var none *sitekey.Box
	for _, b := range []*sitekey.Box{other, none} {
		_, err = b.Open(sealed)
		require.ErrorIs(t, err, sitekey.ErrSealed)
		_, err = b.OpenBytes(file)
		require.ErrorIs(t, err, sitekey.ErrSealed)
	}
}

func swap(text string) string {
	return strings.ToLower(text[:4]) + strings.ToUpper(text[4:8]) + text[8:]
}
