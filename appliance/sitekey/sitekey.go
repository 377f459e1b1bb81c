// Package sitekey holds the ed25519 key with which a site signs exported files: journals and
// courier files.
//
// The private key is in the data directory, and only its owner can read it. Each signature comes
// with the public key, so recipients can verify that a file is unchanged. To verify that the key
// belongs to the site, recipients compare its fingerprint with the one that the site publishes by
// other means.
package sitekey

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the name of the private key's file in the data directory. The format is PKCS #8 in
// PEM, as in openssl.
const FileName = "site.key"

const pemType = "PRIVATE KEY"

// Purpose is the purpose of a signature. A signature is valid for its purpose only, so a file of
// one kind is not accepted as another kind. The purpose is the context of RFC 8032 (Ed25519ctx),
// with at most 255 bytes.
type Purpose string

// Key is a site's private key.
type Key struct {
	private ed25519.PrivateKey
}

// ErrUnusable is the error for an unusable key file. The key is not replaced, because others may
// have the public key.
var ErrUnusable = errors.New("the site's key can't be used")

// LoadOrCreate reads the key of a data directory. It creates a missing key. The caller must have
// locked the directory.
func LoadOrCreate(dir string) (*Key, error) {
	key, err := Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return create(dir)
	}
	return key, err
}

// Load reads the key of a data directory. The error is fs.ErrNotExist if the key is missing.
func Load(dir string) (*Key, error) {
	path := filepath.Join(dir, FileName)
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the site's key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil,
			fmt.Errorf("%w: %s has mode %04o, so others may have read it; set the mode to 0600 if nobody "+
				"has, otherwise remove the file to get a new key", ErrUnusable, path, mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the site's key: %w", err)
	}
	private, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %w; restore the file from a backup, or remove it to get a new key", ErrUnusable,
			path, err)
	}
	return &Key{private}, nil
}

func parse(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return nil, errors.New("holds no PEM block " + pemType)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("holds no PKCS #8 key (%w)", err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("holds a %T, not an ed25519 key", key)
	}
	return private, nil
}

// create creates a key. After a crash, the file is either complete or missing.
func create(dir string) (_ *Key, err error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("create the site's key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("create the site's key: %w", err)
	}
	file, err := os.CreateTemp(dir, FileName+".*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("write the site's key: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the site's key: %w", err)
			if rest := os.Remove(file.Name()); !errors.Is(rest, fs.ErrNotExist) {
				err = errors.Join(err, rest)
			}
		}
	}()
	if _, err = file.Write(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if err = os.Rename(file.Name(), filepath.Join(dir, FileName)); err != nil {
		return nil, err
	}
	return &Key{private}, syncDir(dir)
}

// syncDir makes the directory's new entry durable: after a crash, a signature without its key would
// be useless.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// Sign returns the signature of data for a purpose. It has 64 bytes.
func (k *Key) Sign(purpose Purpose, data []byte) ([]byte, error) {
	signature, err := k.private.Sign(nil, data, &ed25519.Options{Context: string(purpose)})
	if err != nil {
		return nil, fmt.Errorf("sign for %q: %w", purpose, err)
	}
	return signature, nil
}

// Derive returns a secret of 32 bytes for a purpose. It is the same in each call. The secret
// reveals neither the key nor the secrets for other purposes.
func (k *Key) Derive(purpose Purpose) ([]byte, error) {
	secret, err := hkdf.Key(sha256.New, k.private.Seed(), nil, string(purpose), sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive a key for %q: %w", purpose, err)
	}
	return secret, nil
}

// Public returns the public key.
func (k *Key) Public() Public {
	return Public{k.private.Public().(ed25519.PublicKey)}
}

// Public is a site's public key. Its text form is the base64 of its 32 bytes.
type Public struct {
	key ed25519.PublicKey
}

// ErrSignature is returned for an invalid signature.
var ErrSignature = errors.New("the signature is not valid: the data was altered since, or it was signed with " +
	"another key or for another purpose")

// Verify returns ErrSignature unless the signature is valid for this key, data and purpose.
func (p Public) Verify(purpose Purpose, data, signature []byte) error {
	if len(p.key) != ed25519.PublicKeySize || ed25519.VerifyWithOptions(p.key, data, signature,
		&ed25519.Options{Context: string(purpose)}) != nil {
		return ErrSignature
	}
	return nil
}

// Fingerprint returns the fingerprint for comparison by users, in the format of ssh: "SHA256:" and
// the unpadded base64 of the key's SHA-256.
func (p Public) Fingerprint() string {
	sum := sha256.Sum256(p.key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

func (p Public) String() string { return base64.StdEncoding.EncodeToString(p.key) }

// MarshalText implements encoding.TextMarshaler.
func (p Public) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Public) UnmarshalText(text []byte) error {
	key, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		return fmt.Errorf("read a site's public key: %w", err)
	}
	if len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("read a site's public key: it has %d bytes, not %d", len(key), ed25519.PublicKeySize)
	}
	p.key = key
	return nil
}
