package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// sumsName is the file with the checksums of all others, in the format of sha256sum.
const sumsName = "SHA256SUMS"

// writeSums writes the checksums, and their signature if there is a key.
func (b *build) writeSums(out io.Writer) error {
	all, err := names(b.output)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range all {
		sum, err := sumOf(b.file(name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	if err := os.WriteFile(b.file(sumsName), []byte(sums.String()), 0o644); err != nil {
		return err
	}
	if b.signer == "" {
		fmt.Fprintln(out, "The checksums are not signed: LANDFALL_SIGNING_KEY names no file with a private key.")
		return nil
	}
	key, err := readKey(b.signer)
	if err != nil {
		return err
	}
	return os.WriteFile(b.file(sumsName+".sig"), ed25519.Sign(key, []byte(sums.String())), 0o644)
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// readKey reads a private key of openssl genpkey -algorithm ed25519.
func readKey(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key in LANDFALL_SIGNING_KEY: %w", err)
	}
	wrong := errors.New("the file in LANDFALL_SIGNING_KEY has no Ed25519 key in PEM without a passphrase; make one " +
		"with openssl genpkey -algorithm ed25519")
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, wrong
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, wrong
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, wrong
	}
	return private, nil
}
