package sitekey

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Box encrypts secrets in the data directory with a key that is derived from the site's key.
// Without the key file, they cannot be read. The cipher is AES-256-GCM. A nil box does not encrypt,
// and opens only unsealed data.
type Box struct {
	aead   cipher.AEAD
	random io.Reader
}

// ErrSealed is returned for data that was sealed with another site's key, or that was changed.
var ErrSealed = errors.New("the data was sealed with another key than " + FileName +
	" of the data directory; restore the right key file, or enter the secret again")

// Prefixes of sealed data. The number is the version of the format.
const (
	sealedText  = "sealed:1:"
	sealedBytes = "landfall sealed 1\n"
)

// Box returns the box for a purpose. random is the source of nonces; nil means the system's source.
func (k *Key) Box(purpose Purpose, random io.Reader) (*Box, error) {
	secret, err := k.Derive(purpose)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, fmt.Errorf("make a box for %q: %w", purpose, err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make a box for %q: %w", purpose, err)
	}
	if random == nil {
		random = rand.Reader
	}
	return &Box{aead, random}, nil
}

// IsSealed reports whether a stored text is sealed. Do not ask it about a text of a client, because
// a client can send anything.
func IsSealed(stored string) bool { return strings.HasPrefix(stored, sealedText) }

// Seal encrypts a text. It returns the empty text unchanged.
func (b *Box) Seal(text string) (string, error) {
	if b == nil || text == "" {
		return text, nil
	}
	sealed, err := b.seal(nil, []byte(text))
	return sealedText + base64.RawStdEncoding.EncodeToString(sealed), err
}

// Open decrypts a sealed text. It returns an unsealed text unchanged. Errors are ErrSealed.
func (b *Box) Open(text string) (string, error) {
	coded, ok := strings.CutPrefix(text, sealedText)
	if !ok {
		return text, nil
	}
	sealed, err := base64.RawStdEncoding.DecodeString(coded)
	if err != nil {
		return "", ErrSealed
	}
	plain, err := b.open(sealed)
	return string(plain), err
}

// SealBytes encrypts the content of a file.
func (b *Box) SealBytes(content []byte) ([]byte, error) {
	if b == nil {
		return content, nil
	}
	return b.seal([]byte(sealedBytes), content)
}

// OpenBytes decrypts sealed content. It returns unsealed content unchanged. Errors are ErrSealed.
func (b *Box) OpenBytes(content []byte) ([]byte, error) {
	sealed, ok := bytes.CutPrefix(content, []byte(sealedBytes))
	if !ok {
		return content, nil
	}
	return b.open(sealed)
}

// Sealed reports whether a file is sealed, based on its first SealedPrefix bytes.
func Sealed(beginning []byte) bool { return bytes.HasPrefix(beginning, []byte(sealedBytes)) }

// SealedPrefix is the number of bytes that Sealed needs.
const SealedPrefix = len(sealedBytes)

func (b *Box) seal(to, plain []byte) ([]byte, error) {
	nonce := make([]byte, b.aead.NonceSize())
	if _, err := io.ReadFull(b.random, nonce); err != nil {
		return nil, fmt.Errorf("seal a secret: %w", err)
	}
	return b.aead.Seal(append(to, nonce...), nonce, plain, nil), nil
}

func (b *Box) open(sealed []byte) ([]byte, error) {
	if b == nil || len(sealed) < b.aead.NonceSize() {
		return nil, ErrSealed
	}
	plain, err := b.aead.Open(nil, sealed[:b.aead.NonceSize()], sealed[b.aead.NonceSize():], nil)
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}
