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

// Box seals secrets that are kept in the data directory, with a key that is derived from the
// site's: whoever has the database without the key file has no use of them. AES-256 in GCM; a nil
// box seals nothing and opens what is not sealed.
type Box struct {
	aead   cipher.AEAD
	random io.Reader
}

// ErrSealed is the error of what was sealed with another site's key, or altered since.
var ErrSealed = errors.New("it was sealed with another key than " + FileName +
	" of the data directory; put the right file back, or give the secret anew")

// What is sealed begins with these; the number is that of the format.
const (
	sealedText  = "sealed:1:"
	sealedBytes = "landfall sealed 1\n"
)

// Box returns the box of a purpose. What random gives becomes the nonces; nil is the system's.
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

// Seal seals a text as a text. One that is sealed already stays, and so does "".
func (b *Box) Seal(text string) (string, error) {
	if b == nil || text == "" || strings.HasPrefix(text, sealedText) {
		return text, nil
	}
	sealed, err := b.seal(nil, []byte(text))
	return sealedText + base64.RawStdEncoding.EncodeToString(sealed), err
}

// Open returns the text that was sealed; one that is not sealed is returned as it is. The error is
// ErrSealed.
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

// SealBytes seals a file's content.
func (b *Box) SealBytes(content []byte) ([]byte, error) {
	if b == nil {
		return content, nil
	}
	return b.seal([]byte(sealedBytes), content)
}

// OpenBytes returns the content that was sealed; what is not sealed is returned as it is. The error
// is ErrSealed.
func (b *Box) OpenBytes(content []byte) ([]byte, error) {
	sealed, ok := bytes.CutPrefix(content, []byte(sealedBytes))
	if !ok {
		return content, nil
	}
	return b.open(sealed)
}

// Sealed tells of the beginning of a file's content whether it is sealed; SealedPrefix bytes are
// enough.
func Sealed(beginning []byte) bool { return bytes.HasPrefix(beginning, []byte(sealedBytes)) }

// SealedPrefix is how many bytes Sealed looks at.
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
