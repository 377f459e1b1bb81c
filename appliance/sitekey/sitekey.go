// Package sitekey holds the ed25519 key with which a site signs exported files: journals and
// courier files.
//
// The private key is in the data directory, sealed with the data key (see package keyring). Only
// its owner can read the file. Each signature comes with the public key, so recipients can verify
// that a file is unchanged. To verify that the key belongs to the site, recipients compare its
// fingerprint with the one that the site publishes by other means.
package sitekey

import (
	"context"
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

	"landfall/appliance/durable"
	"landfall/store/seal"
)

// FileName is the name of the private key's file in the data directory. The format is PKCS #8 in
// PEM, as in openssl.
const FileName = "site.key"

const (
	pemType = "PRIVATE KEY"
	// sealedType is the type of a PEM block that contains a key sealed with the data key.
	sealedType = "LANDFALL SEALED PRIVATE KEY"
)

// sealContext is the context of the sealed key: see package seal.
var sealContext = []byte(FileName)

// Purpose is the purpose of a signature. A signature is valid for its purpose only, so a file of
// one kind is not accepted as another kind. The purpose is the context of RFC 8032 (Ed25519ctx),
// with at most 255 bytes.
type Purpose string

// Key is a site's private key.
type Key struct {
	private ed25519.PrivateKey
	dir     string
	ring    *seal.Ring // seals the file; nil: the file is in clear
}

// ErrUnusable is the error for an unusable key file. The key is not replaced, because others may
// have the public key.
var ErrUnusable = errors.New("the site's key can't be used")

// LoadOrCreate reads the key of a directory without data keys. It creates a missing key. The caller
// must have locked the directory.
func LoadOrCreate(dir string) (*Key, error) { return LoadSealed(dir, nil) }

// LoadSealed does the same as LoadOrCreate for a key file that is sealed with the data keys. It
// seals a key file that is in clear.
func LoadSealed(dir string, ring *seal.Ring) (*Key, error) {
	key, sealed, err := load(dir, ring)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return create(dir, ring)
	case err == nil && !sealed && ring != nil:
		return key, key.write()
	}
	return key, err
}

// Load reads the key of a directory without data keys. The error is fs.ErrNotExist if the key is
// missing.
func Load(dir string) (*Key, error) {
	key, _, err := load(dir, nil)
	return key, err
}

// Check reads the key file and changes nothing. A missing key is no error: it is made when needed.
func Check(dir string, ring *seal.Ring) error {
	_, _, err := load(dir, ring)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// load reads the key file. sealed reports whether it is sealed.
func load(dir string, ring *seal.Ring) (_ *Key, sealed bool, err error) {
	path := filepath.Join(dir, FileName)
	info, err := os.Stat(path)
	if err != nil {
		return nil, false, fmt.Errorf("read the site's key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, false,
			fmt.Errorf("%w: %s has mode %04o, so others may have read it; set the mode to 0600 if nobody "+
				"has, otherwise remove the file to get a new key", ErrUnusable, path, mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, false, fmt.Errorf("read the site's key: %w", err)
	}
	private, sealed, err := parse(text, ring)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %s %w; restore the file from a backup, or remove it to get a new key",
			ErrUnusable, path, err)
	}
	return &Key{private, dir, ring}, sealed, nil
}

func parse(text []byte, ring *seal.Ring) (_ ed25519.PrivateKey, sealed bool, err error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType && block.Type != sealedType {
		return nil, false, errors.New("holds no PEM block " + pemType)
	}
	der := block.Bytes
	if sealed = block.Type == sealedType; sealed {
		if ring == nil {
			return nil, true, errors.New("is sealed with a data key, which this directory does not have")
		}
		if der, err = ring.Open(der, sealContext); err != nil {
			return nil, true, errors.New("is damaged, or sealed with the data key of another data directory")
		}
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, sealed, fmt.Errorf("holds no PKCS #8 key (%w)", err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, sealed, fmt.Errorf("holds a %T, not an ed25519 key", key)
	}
	return private, sealed, nil
}

// Reseal seals the key file with the newest data key.
func (k *Key) Reseal(context.Context) error { return k.write() }

// create creates a key.
func create(dir string, ring *seal.Ring) (*Key, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("create the site's key: %w", err)
	}
	key := &Key{private, dir, ring}
	return key, key.write()
}

// write writes the key file. After a crash, the file is complete, or as it was before.
func (k *Key) write() (err error) {
	block := pem.Block{Type: pemType}
	if block.Bytes, err = x509.MarshalPKCS8PrivateKey(k.private); err != nil {
		return fmt.Errorf("write the site's key: %w", err)
	}
	if k.ring != nil {
		block.Type = sealedType
		if block.Bytes, err = k.ring.Seal(nil, block.Bytes, sealContext); err != nil {
			return fmt.Errorf("write the site's key: %w", err)
		}
	}
	if err := durable.WriteFile(filepath.Join(k.dir, FileName), pem.EncodeToMemory(&block), 0o600); err != nil {
		return fmt.Errorf("write the site's key: %w", err)
	}
	return nil
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
