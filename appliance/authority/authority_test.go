package authority_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
)

func TestAuthority_createdOnce(t *testing.T) {
	dir := t.TempDir()
	box := newBox(t, dir)
	first, err := authority.LoadOrCreate(dir, box)
	require.NoError(t, err)
	again, err := authority.LoadOrCreate(dir, box)
	require.NoError(t, err)
	require.Equal(t, first.PEM(), again.PEM())
	require.Equal(t, first.Fingerprint(), again.Fingerprint())
	require.Regexp(t, `^([0-9A-F]{2}:){31}[0-9A-F]{2}$`, first.Fingerprint())

	other, err := authority.LoadOrCreate(t.TempDir(), box)
	require.NoError(t, err)
	require.NotEqual(t, first.Fingerprint(), other.Fingerprint())
}

func TestAuthority_files(t *testing.T) {
	dir := t.TempDir()
	made, err := authority.LoadOrCreate(dir, newBox(t, dir))
	require.NoError(t, err)
	public, err := os.ReadFile(filepath.Join(dir, authority.FileName))
	require.NoError(t, err)
	require.Equal(t, made.PEM(), public)
	secret, err := os.ReadFile(filepath.Join(dir, authority.KeyFileName))
	require.NoError(t, err)
	require.NotContains(t, string(secret), "PRIVATE KEY")
	for name, mode := range map[string]os.FileMode{authority.FileName: 0o644, authority.KeyFileName: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
}

// TestAuthority_signsServersOnly checks the limits of the certificate.
func TestAuthority_signsServersOnly(t *testing.T) {
	dir := t.TempDir()
	made, err := authority.LoadOrCreate(dir, newBox(t, dir))
	require.NoError(t, err)
	block, _ := pem.Decode(made.PEM())
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	require.True(t, certificate.IsCA)
	require.True(t, certificate.MaxPathLenZero, "no further authorities")
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, certificate.ExtKeyUsage)
	require.Equal(t, x509.ECDSA, certificate.PublicKeyAlgorithm)
	require.EqualValues(t, 0, certificate.NotBefore.Unix(), "clocks may show 1970")
}

// TestAuthority_crashAtEachStep removes what a crash may leave unwritten.
func TestAuthority_crashAtEachStep(t *testing.T) {
	dir := t.TempDir()
	box := newBox(t, dir)
	made, err := authority.LoadOrCreate(dir, box)
	require.NoError(t, err)
	public := filepath.Join(dir, authority.FileName)
	for name, left := range map[string]func() error{
		"no public file":    func() error { return os.Remove(public) },
		"empty public file": func() error { return os.WriteFile(public, nil, 0o600) },
		"temporary files": func() error {
			return os.WriteFile(filepath.Join(dir, ".ca.crt.123"), []byte("-----BEGIN"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, left())
			again, err := authority.LoadOrCreate(dir, box)
			require.NoError(t, err)
			require.Equal(t, made.Fingerprint(), again.Fingerprint())
			content, err := os.ReadFile(public)
			require.NoError(t, err)
			require.Equal(t, made.PEM(), content)
		})
	}
}

// TestAuthority_damagedFilesAreKept checks that nothing replaces an authority that hosts trust.
func TestAuthority_damagedFilesAreKept(t *testing.T) {
	for name, damaged := range map[string]struct {
		damage   func(t *testing.T, key string)
		sentence string
	}{
		"key file missing": {func(t *testing.T, key string) { require.NoError(t, os.Remove(key)) },
			"restore the missing file from a backup"},
		"key file altered": {func(t *testing.T, key string) {
			content, err := os.ReadFile(key)
			require.NoError(t, err)
			content[len(content)/2] ^= 1
			require.NoError(t, os.WriteFile(key, content, 0o600))
		}, "sealed with another key than site.key"},
		"key file cut off": {func(t *testing.T, key string) { require.NoError(t, os.Truncate(key, 100)) },
			"sealed with another key than site.key"},
		"key file empty": {func(t *testing.T, key string) { require.NoError(t, os.Truncate(key, 0)) },
			"does not contain a private key and a certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			box := newBox(t, dir)
			made, err := authority.LoadOrCreate(dir, box)
			require.NoError(t, err)
			damaged.damage(t, filepath.Join(dir, authority.KeyFileName))
			_, err = authority.LoadOrCreate(dir, box)
			require.ErrorIs(t, err, authority.ErrUnusable)
			require.ErrorContains(t, err, damaged.sentence)
			require.NotContains(t, err.Error(), "\n")
			content, err := os.ReadFile(filepath.Join(dir, authority.FileName))
			require.NoError(t, err)
			require.Equal(t, made.PEM(), content)
		})
	}
}
