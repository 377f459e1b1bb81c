package sitekey_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/sitekey"
)

func TestKey_createdOnceWithMode0600(t *testing.T) {
	dir := t.TempDir()
	_, err := sitekey.Load(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	made, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, sitekey.FileName))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	again, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	require.Equal(t, made.Public(), again.Public())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no other files remain")

	other, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	require.NotEqual(t, made.Public().Fingerprint(), other.Public().Fingerprint())
	require.Regexp(t, `^SHA256:[A-Za-z0-9+/]{43}$`, made.Public().Fingerprint())
}

func TestSignature_boundToDataPurposeAndKey(t *testing.T) {
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	other, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	signature, err := key.Sign("journal", []byte("what happened"))
	require.NoError(t, err)

	text, err := key.Public().MarshalText()
	require.NoError(t, err)
	var public sitekey.Public
	require.NoError(t, public.UnmarshalText(text))
	require.NoError(t, public.Verify("journal", []byte("what happened"), signature))
	require.ErrorIs(t, public.Verify("journal", []byte("what happenec"), signature), sitekey.ErrSignature)
	require.ErrorIs(t, public.Verify("courier", []byte("what happened"), signature), sitekey.ErrSignature)
	require.ErrorIs(t, other.Public().Verify("journal", []byte("what happened"), signature), sitekey.ErrSignature)
	require.ErrorIs(t, public.Verify("journal", []byte("what happened"), signature[:63]), sitekey.ErrSignature)
	require.ErrorIs(t, sitekey.Public{}.Verify("journal", []byte("what happened"), signature), sitekey.ErrSignature)
}

func TestDerivedSecrets_stablePerPurposeAndKey(t *testing.T) {
	dir := t.TempDir()
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	again, err := sitekey.Load(dir)
	require.NoError(t, err)
	other, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	derive := func(key *sitekey.Key, purpose sitekey.Purpose) []byte {
		secret, err := key.Derive(purpose)
		require.NoError(t, err)
		require.Len(t, secret, 32)
		return secret
	}
	require.Equal(t, derive(key, "tokens"), derive(again, "tokens"))
	require.NotEqual(t, derive(key, "tokens"), derive(key, "pull secrets"))
	require.NotEqual(t, derive(key, "tokens"), derive(other, "tokens"))
}

func TestKey_unusableFileIsKept(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	foreign, err := x509.MarshalPKCS8PrivateKey(ec)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		text string
		mode fs.FileMode
		want string
	}{
		"empty":   {"", 0o600, "holds no PEM block PRIVATE KEY"},
		"cut off": {"-----BEGIN PRIVATE KEY-----\nMC4CAQ", 0o600, "holds no PEM block PRIVATE KEY"},
		"no key": {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})),
			0o600, "holds no PKCS #8 key"},
		"another kind": {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: foreign})), 0o600,
			"not an ed25519 key"},
		"open to everyone": {"", 0o644, "has mode 0644, so others may have read it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, sitekey.FileName)
			require.NoError(t, os.WriteFile(path, []byte(c.text), c.mode))
			_, err := sitekey.LoadOrCreate(dir)
			require.ErrorIs(t, err, sitekey.ErrUnusable)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, path)
			left, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, c.text, string(left))
		})
	}
}

func TestPublicKey_invalidIsRejected(t *testing.T) {
	var public sitekey.Public
	require.ErrorContains(t, public.UnmarshalText([]byte("!")), "read a site's public key")
	require.ErrorContains(t, public.UnmarshalText([]byte("AAAA")), "it has 3 bytes, not 32")
}

func TestKey_writeErrorIsReported(t *testing.T) {
	_, err := sitekey.LoadOrCreate(filepath.Join(t.TempDir(), "missing"))
	require.ErrorContains(t, err, "write the site's key")
}
