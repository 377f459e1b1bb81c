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

// armoredKey begins an armored OpenPGP key.
const armoredKey = "-----BEGIN PGP PUBLIC KEY BLOCK-----"

// maxSignedText limits the signed text in bytes. Real texts have about 400 bytes.
const maxSignedText = 64 << 10

// Key is a public key of the configuration that may sign releases.
type Key struct {
	File string `json:"file"`
	// Fingerprint is the fingerprint of an OpenPGP key, or the SHA-256 of a PEM key, in
	// hexadecimal.
	Fingerprint string `json:"fingerprint"`
	// Owner is such as "Red Hat, Inc. (release key 2) <security@redhat.com>", or the name of the
	// file with a PEM key.
	Owner string `json:"owner"`
}

// Keys are the public keys that may sign releases.
type Keys struct {
	keys   []Key
	ring   openpgp.EntityList // for OpenPGP signatures
	public []publicKey        // for Sigstore signatures
}

// ReadKeys reads files with OpenPGP public keys, armored or binary, or with public keys in PEM.
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
			return nil, fmt.Errorf("read releases.signing_keys: %s has no OpenPGP public key and no public key in PEM "+
				"(%w); use a key as gpg --export or cosign public-key writes it", file, err)
		}
	}
	return keys, nil
}

func (k *Keys) add(file string, data []byte) error {
	read := openpgp.ReadKeyRing
	switch {
	case bytes.Contains(data, []byte(armoredKey)):
		read = readArmored
	case bytes.Contains(data, []byte("-----BEGIN ")):
		return k.addPEM(file, data)
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

// readArmored reads all armored blocks of a file, such as RPM-GPG-KEY-redhat-release.
func readArmored(in io.Reader) (ring openpgp.EntityList, err error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	for _, block := range strings.Split(string(text), armoredKey)[1:] {
		keys, err := openpgp.ReadArmoredKeyRing(strings.NewReader(armoredKey + block))
		if err != nil {
			return nil, err
		}
		ring = append(ring, keys...)
	}
	return ring, nil
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

// verify returns the key that made a signature of a release, and the name under which the release
// was signed. The signature is a signed OpenPGP
// message, as in openshift-config-managed and in the signature store of the update service.
func (k *Keys) verify(signature []byte, digest string, now time.Time) (*Key, string, error) {
	details, text, err := k.read(signature, now)
	if details != nil && details.Signature != nil && details.Signature.CreationTime.After(now) &&
		(errors.Is(err, openpgperrors.ErrSignatureExpired) || errors.Is(err, openpgperrors.ErrKeyExpired)) {
		// The clock of this machine is behind: it counts as the time of the signature.
		details, text, err = k.read(signature, details.Signature.CreationTime)
	}
	if err != nil {
		return nil, "", err
	}
	reference, err := checkText(text, signatureType, digest)
	if err != nil {
		return nil, "", err
	}
	fingerprint := hex.EncodeToString(details.SignedBy.Entity.PrimaryKey.Fingerprint)
	i := slices.IndexFunc(k.keys, func(key Key) bool { return key.Fingerprint == fingerprint })
	return &k.keys[i], reference, nil
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

// checkText checks that a signed text has a type and is about the release with a digest. It returns
// the name of the release in the text.
func checkText(text []byte, kind, digest string) (reference string, err error) {
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
		return "", fmt.Errorf("read the signed text: %w", err)
	case signed.Critical.Type != kind:
		return "", fmt.Errorf("the signed text is of the type %q", signed.Critical.Type)
	case signed.Critical.Identity.Reference == "":
		return "", errors.New("the signed text names no image")
	case signed.Critical.Image.Digest != digest:
		return "", fmt.Errorf("the signature is for %s", signed.Critical.Image.Digest)
	}
	return signed.Critical.Identity.Reference, nil
}
