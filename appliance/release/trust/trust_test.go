package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/store"
)

var (
	now    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	digest = "sha256:" + strings.Repeat("ab", 32)
	other  = "sha256:" + strings.Repeat("cd", 32)
)

const repository = "quay.io/openshift-release-dev/ocp-release"

func openDB(t *testing.T) *store.DB {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func newPolicy(t *testing.T, options Options) *Policy {
	if options.DB == nil {
		options.DB = openDB(t)
	}
	if options.Clock == nil {
		options.Clock = clockwork.NewFakeClockAt(now)
	}
	p, err := New(options)
	require.NoError(t, err)
	return p
}

// signer is a person with an OpenPGP key.
type signer struct {
	t      testing.TB
	entity *openpgp.Entity
}

func newSigner(t testing.TB, name string) *signer {
	entity, err := openpgp.NewEntity(name, "", name+"@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA,
		Time: func() time.Time { return now.AddDate(-1, 0, 0) }})
	require.NoError(t, err)
	return &signer{t, entity}
}

// keyFile writes the public key to a file, as gpg --armor --export does.
func (s *signer) keyFile() string {
	var text bytes.Buffer
	w, err := armor.Encode(&text, openpgp.PublicKeyType, nil)
	require.NoError(s.t, err)
	require.NoError(s.t, s.entity.Serialize(w))
	require.NoError(s.t, w.Close())
	path := filepath.Join(s.t.TempDir(), "key.asc")
	require.NoError(s.t, os.WriteFile(path, text.Bytes(), 0o600))
	return path
}

// sign returns a signed message.
func (s *signer) sign(text string, change ...func(*packet.Config)) []byte {
	config := &packet.Config{Time: func() time.Time { return now.AddDate(0, -1, 0) }}
	for _, c := range change {
		c(config)
	}
	var message bytes.Buffer
	w, err := openpgp.Sign(&message, s.entity, nil, config)
	require.NoError(s.t, err)
	_, err = w.Write([]byte(text))
	require.NoError(s.t, err)
	require.NoError(s.t, w.Close())
	return message.Bytes()
}

// claim returns the text that a signature of a release signs.
func claim(digest string) string {
	return fmt.Sprintf(`{"critical":{"image":{"docker-manifest-digest":%q},"type":"atomic container signature",`+
		`"identity":{"docker-reference":"quay.io/openshift-release-dev/ocp-release:4.20.8-x86_64"}},`+
		`"optional":{"creator":"Red Hat OpenShift Signing Authority 0.0.1"}}`, digest)
}

func requireNotAllowed(t *testing.T, err error, text string) {
	t.Helper()
	var refused *NotAllowedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, text)
}

func TestPolicy_configuredDigest(t *testing.T) {
	p := newPolicy(t, Options{Configured: []string{repository + "@" + digest}})
	require.NoError(t, p.Check(t.Context(), repository+"@"+digest, digest, nil))
	require.NoError(t, p.Check(t.Context(), "mirror.example.com/copy@"+digest, digest, nil), "the digest decides")
	requireNotAllowed(t, p.Check(t.Context(), repository+"@"+digest, other, nil), "landfall release allow "+other)
	requireNotAllowed(t, p.CheckName(t.Context(), repository+"@"+other, nil), "is not in release_images")
	require.NoError(t, p.CheckName(t.Context(), repository+":4.20.8", nil), "a tag is checked when it is resolved")
	require.Error(t, p.CheckName(t.Context(), "not a pull spec", nil))

	_, err := New(Options{Configured: []string{"not a pull spec"}})
	require.ErrorContains(t, err, `"not a pull spec"`)
}

func TestPolicy_tagKeepsItsFirstDigest(t *testing.T) {
	tag := repository + ":4.20.8-x86_64"
	db, means := openDB(t), other
	options := Options{DB: db, Configured: []string{tag},
		Resolve: func(context.Context, string, authn.Keychain) (string, error) { return means, nil }}
	p := newPolicy(t, options)
	requireNotAllowed(t, p.Check(t.Context(), tag, digest, nil), "meant "+other+" at its first use and means "+digest)
	means = digest
	require.NoError(t, p.Check(t.Context(), tag, other, nil), "the rules of the appliance decide, once")
	restarted := newPolicy(t, options)
	requireNotAllowed(t, restarted.Check(t.Context(), tag, digest, nil), "at its first use")
	requireNotAllowed(t, p.Check(t.Context(), repository+":other", other, nil), "is not in release_images")

	broken := errors.New("the mirror is down")
	options.DB, options.Resolve = openDB(t), func(context.Context, string, authn.Keychain) (string, error) {
		return "", broken
	}
	require.ErrorIs(t, newPolicy(t, options).Check(t.Context(), tag, digest, nil), broken)
	options.Resolve = nil
	requireNotAllowed(t, newPolicy(t, options).Check(t.Context(), tag, digest, nil), "")
}

func TestPolicy_adoptsAllowedReleases(t *testing.T) {
	first, second := newPolicy(t, Options{}), newPolicy(t, Options{})
	require.NoError(t, first.DB.Update(t.Context(), func(tx *store.Tx) error {
		return allowedRows.Put(tx, digest, &Allowed{Digest: digest, By: "person ana", At: now})
	}))
	requireNotAllowed(t, second.Check(t.Context(), repository+"@"+digest, digest, nil), "")
	require.NoError(t, second.Adopt(t.Context(), first))
	require.NoError(t, second.Check(t.Context(), repository+"@"+digest, digest, nil))
}

func TestPolicy_signatures(t *testing.T) {
	vendor, stranger := newSigner(t, "vendor"), newSigner(t, "stranger")
	lifetime := func(c *packet.Config) { c.SigLifetimeSecs = 3600 }
	later := func(c *packet.Config) { c.Time = func() time.Time { return now.AddDate(5, 0, 0) } }
	good := vendor.sign(claim(digest))
	altered := vendor.sign(claim(other))
	require.Contains(t, string(altered), other, "the message is not compressed")
	altered = bytes.Replace(altered, []byte(other), []byte(digest), 1)
	for name, c := range map[string]struct {
		signatures [][]byte
		allowed    bool
	}{
		"good":                 {[][]byte{good}, true},
		"good after others":    {[][]byte{stranger.sign(claim(digest)), {}, good}, true},
		"made after the clock": {[][]byte{vendor.sign(claim(digest), later)}, true},
		"none":                 {nil, false},
		"by a stranger":        {[][]byte{stranger.sign(claim(digest))}, false},
		"of another release":   {[][]byte{vendor.sign(claim(other))}, false},
		"altered":              {[][]byte{altered}, false},
		"truncated":            {[][]byte{good[:len(good)-10]}, false},
		"expired":              {[][]byte{vendor.sign(claim(digest), lifetime)}, false},
		"not signed":           {[][]byte{[]byte(claim(digest))}, false},
		"another type": {[][]byte{vendor.sign(strings.Replace(claim(digest), "atomic container", "other", 1))},
			false},
		"without a name": {[][]byte{vendor.sign(strings.Replace(claim(digest), "docker-reference", "x", 1))}, false},
		"not JSON":       {[][]byte{vendor.sign(digest)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := ReadKeys([]string{vendor.keyFile()})
			require.NoError(t, err)
			p := newPolicy(t, Options{Keys: keys, Signatures: func(of string) [][]byte {
				require.Equal(t, digest, of)
				return c.signatures
			}})
			err = p.Check(t.Context(), repository+"@"+digest, digest, nil)
			if c.allowed {
				require.NoError(t, err)
				return
			}
			requireNotAllowed(t, err, "no signature by a key in releases.signing_keys")
		})
	}
	p := newPolicy(t, Options{Signatures: func(string) [][]byte { return [][]byte{good} }})
	requireNotAllowed(t, p.Check(t.Context(), repository+"@"+digest, digest, nil), "") // no keys
}

func TestReadKeys(t *testing.T) {
	vendor := newSigner(t, "vendor")
	keys, err := ReadKeys([]string{vendor.keyFile()})
	require.NoError(t, err)
	require.Len(t, keys.List(), 1)
	require.Equal(t, "vendor <vendor@example.com>", keys.List()[0].Owner)
	require.Len(t, keys.List()[0].Fingerprint, 40)

	var binary bytes.Buffer
	require.NoError(t, vendor.entity.Serialize(&binary))
	path := filepath.Join(t.TempDir(), "key.gpg")
	require.NoError(t, os.WriteFile(path, binary.Bytes(), 0o600))
	keys, err = ReadKeys([]string{path})
	require.NoError(t, err)
	require.Len(t, keys.List(), 1)

	keys, err = ReadKeys(nil)
	require.NoError(t, err)
	require.Empty(t, keys.List())

	require.NoError(t, os.WriteFile(path, []byte("no key"), 0o600))
	_, err = ReadKeys([]string{path})
	require.ErrorContains(t, err, path+" has no OpenPGP public key and no public key in PEM")
	_, err = ReadKeys([]string{path + ".missing"})
	require.ErrorContains(t, err, "read releases.signing_keys")
}

// FuzzVerify holds that no input but the vendor's own signature counts, and that none is fatal.
func FuzzVerify(f *testing.F) {
	vendor := newSigner(f, "vendor")
	keys := &Keys{}
	var binary bytes.Buffer
	require.NoError(f, vendor.entity.Serialize(&binary))
	require.NoError(f, keys.add("key.gpg", binary.Bytes()))
	good := vendor.sign(claim(other))
	f.Add(good)
	f.Add(good[:20])
	f.Add([]byte(claim(digest)))
	f.Fuzz(func(t *testing.T, signature []byte) {
		_, _, err := keys.verify(signature, digest, now)
		require.Error(t, err)
	})
}
