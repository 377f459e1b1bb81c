package trust

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	openpgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// The type of the text that a signature of a release signs (atomic-signature(5)).
const signatureType = "atomic container signature"

// maxSignedText limits the signed text in bytes. Real texts have about 400 bytes.
const maxSignedText = 64 << 10

// Key is a public key of the configuration that may sign releases.
type Key struct {
	File        string `json:"file"`
	Fingerprint string `json:"fingerprint"` // hexadecimal
	Owner       string `json:"owner"`       // such as "Red Hat, Inc. (release key 2) <security@redhat.com>"
}

// Keys are the public keys that may sign releases.
type Keys struct {
	keys []Key
	ring openpgp.EntityList
}

// ReadKeys reads files with OpenPGP public keys, armored or binary.
func ReadKeys(files []string) (*Keys, error) {
	if len(files) == 0 {
		return nil, nil
	}
	keys := &Keys{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read releases.signing_keys: %w", err)
		}
		if err := keys.add(file, data); err != nil {
			return nil, fmt.Errorf("read releases.signing_keys: %s has no OpenPGP public key (%w); use a key as "+
				"gpg --export writes it", file, err)
		}
	}
	return keys, nil
}

func (k *Keys) add(file string, data []byte) error {
	read := openpgp.ReadKeyRing
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")) {
		read = openpgp.ReadArmoredKeyRing
	}
	ring, err := read(bytes.NewReader(data))
	if err == nil && len(ring) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return err
	}
	for _, entity := range ring {
		k.keys = append(k.keys, keyOf(file, entity))
	}
	k.ring = append(k.ring, ring...)
	return nil
}

func keyOf(file string, entity *openpgp.Entity) Key {
	return Key{File: file, Fingerprint: hex.EncodeToString(entity.PrimaryKey.Fingerprint),
		Owner: strings.Join(slices.Sorted(maps.Keys(entity.Identities)), ", ")}
}

// List returns the keys. A nil Keys has none.
func (k *Keys) List() []Key {
	if k == nil {
		return nil
	}
	return k.keys
}

// verify returns the key that made a signature of a release. The signature is a signed OpenPGP
// message, as in openshift-config-managed and in the signature store of the update service.
func (k *Keys) verify(signature []byte, digest string, now time.Time) (*Key, error) {
	details, text, err := k.read(signature, now)
	if details != nil && details.Signature != nil && details.Signature.CreationTime.After(now) &&
		(errors.Is(err, openpgperrors.ErrSignatureExpired) || errors.Is(err, openpgperrors.ErrKeyExpired)) {
		// The clock of this machine is behind: it counts as the time of the signature.
		details, text, err = k.read(signature, details.Signature.CreationTime)
	}
	if err != nil {
		return nil, err
	}
	if err := checkText(text, digest); err != nil {
		return nil, err
	}
	fingerprint := hex.EncodeToString(details.SignedBy.Entity.PrimaryKey.Fingerprint)
	i := slices.IndexFunc(k.keys, func(key Key) bool { return key.Fingerprint == fingerprint })
	return &k.keys[i], nil
}

func (k *Keys) read(signature []byte, now time.Time) (*openpgp.MessageDetails, []byte, error) {
	limit := int64(maxSignedText)
	details, err := openpgp.ReadMessage(bytes.NewReader(signature), k.ring, nil,
		&packet.Config{Time: func() time.Time { return now }, MaxDecompressedMessageSize: &limit})
	if err != nil {
		return nil, nil, fmt.Errorf("read the signature: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(details.UnverifiedBody, maxSignedText))
	switch {
	case !details.IsSigned || details.SignedBy == nil:
		return details, nil, errors.New("no key of the configuration made the signature")
	case details.SignatureError != nil: // set when the body was read to its end
		return details, nil, details.SignatureError
	case err != nil:
		return details, nil, fmt.Errorf("read the signature: %w", err)
	case details.Signature == nil:
		return details, nil, errors.New("the signature is incomplete")
	}
	return details, text, nil
}

// checkText checks that a signed text is about the release with a digest.
func checkText(text []byte, digest string) error {
	var signed struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
		} `json:"critical"`
		Optional json.RawMessage `json:"optional"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(&signed); {
	case err != nil:
		return fmt.Errorf("read the signed text: %w", err)
	case signed.Critical.Type != signatureType:
		return fmt.Errorf("the signed text is of the type %q", signed.Critical.Type)
	case signed.Critical.Identity.Reference == "":
		return errors.New("the signed text names no image")
	case signed.Critical.Image.Digest != digest:
		return fmt.Errorf("the signature is for %s", signed.Critical.Image.Digest)
	}
	return nil
}
