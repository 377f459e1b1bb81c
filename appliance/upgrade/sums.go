package upgrade

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Proof is what the caller has to check the new program.
type Proof struct {
	SHA256 string // expected; "": not checked
	Sums   string // file in the format of sha256sum; "": not checked
	Key    string // PEM file with the Ed25519 key that signed Sums into Sums.sig; "": not checked
}

// signatureSuffix is the end of the name of the signature of a file.
const signatureSuffix = ".sig"

// Check compares a program with a proof.
func (p Proof) Check(program *Program) error {
	if p.Key != "" && p.Sums == "" {
		return errors.New("a key checks the signature of a file with checksums; name the file too")
	}
	if want := strings.ToLower(strings.TrimSpace(p.SHA256)); want != "" && want != program.SHA256 {
		return fmt.Errorf("%s has the SHA-256 %s and not %s; copy it again", program.Path, program.SHA256, want)
	}
	if p.Sums == "" {
		return nil
	}
	sums, err := os.ReadFile(p.Sums)
	if err != nil {
		return fmt.Errorf("read the checksums: %w", err)
	}
	if err := p.verify(sums); err != nil {
		return err
	}
	name, others := filepath.Base(program.Path), 0
	for lines := bufio.NewScanner(bytes.NewReader(sums)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 {
			continue
		}
		switch listed := filepath.Base(strings.TrimPrefix(fields[1], "*")); {
		case strings.EqualFold(fields[0], program.SHA256):
			return nil
		case listed == name:
			return fmt.Errorf("%s differs from its SHA-256 in %s; copy it again", program.Path, p.Sums)
		}
		others++
	}
	return fmt.Errorf("%s has no line with the SHA-256 of %s (%d other lines); use the checksums of the same release",
		p.Sums, program.Path, others)
}

// verify checks the signature of the checksums.
func (p Proof) verify(sums []byte) error {
	if p.Key == "" {
		return nil
	}
	text, err := os.ReadFile(p.Key)
	if err != nil {
		return fmt.Errorf("read the key of the signature: %w", err)
	}
	wrong := fmt.Errorf("%s is no public Ed25519 key in PEM", p.Key)
	block, _ := pem.Decode(text)
	if block == nil {
		return wrong
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return wrong
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return wrong
	}
	signature, err := os.ReadFile(p.Sums + signatureSuffix)
	if err != nil {
		return fmt.Errorf("read the signature of the checksums: %w", err)
	}
	if !ed25519.Verify(key, sums, signature) {
		return fmt.Errorf("the signature %s does not fit %s and the key %s; do not use the program",
			p.Sums+signatureSuffix, p.Sums, p.Key)
	}
	return nil
}
