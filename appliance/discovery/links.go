package discovery

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/fault"
	"landfall/store"
)

// linkLifetime is the validity of a signed link.
const linkLifetime = 10 * time.Minute

// Parameters of a signed link.
const (
	linkExpires   = "expires"   // Unix seconds
	linkSignature = "signature" // of the path and all other parameters, base64url
)

type linkKey struct {
	Key []byte `json:"key"`
}

// linkKeys contains a single row, downloadKey.
var linkKeys = store.NewBucket[linkKey]("link-keys", 1)

const downloadKey = "downloads"

// Links signs download links for users without an account. The key is generated for the first link
// and never leaves the appliance.
type Links struct {
	db    *store.DB
	clock clockwork.Clock
	url   string
}

// NewLinks returns a signer of links to the appliance at a URL.
func NewLinks(db *store.DB, clock clockwork.Clock, url string) *Links { return &Links{db, clock, url} }

// Sign returns a signed link to a path of the appliance with the given parameters, and the time at
// which the link expires.
func (l *Links) Sign(ctx context.Context, path string, query url.Values) (string, time.Time, error) {
	key, err := l.key()
	if errors.Is(err, store.ErrNotFound) {
		key, err = l.newKey(ctx)
	}
	if err != nil {
		return "", time.Time{}, err
	}
	expires := l.clock.Now().UTC().Add(linkLifetime).Truncate(time.Second)
	signed := url.Values{}
	for name, values := range query {
		signed[name] = values
	}
	signed.Set(linkExpires, strconv.FormatInt(expires.Unix(), 10))
	signed.Set(linkSignature, signature(key, path, signed))
	return l.url + path + "?" + signed.Encode(), expires, nil
}

// Signed reports whether a link has a valid signature. Its error is that of Check.
func (l *Links) Signed(path string, query url.Values) (bool, error) {
	err := l.Check(path, query)
	return query.Get(linkSignature) != "" && err == nil, err
}

// Check returns an error of kind Forbidden for a signed link that was altered or has expired. It
// accepts a link without a signature.
func (l *Links) Check(path string, query url.Values) error {
	given := query.Get(linkSignature)
	if given == "" {
		return nil
	}
	key, err := l.key()
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	unsigned := url.Values{}
	for name, values := range query {
		if name != linkSignature {
			unsigned[name] = values
		}
	}
	if err != nil || !hmac.Equal([]byte(given), []byte(signature(key, path, unsigned))) {
		return fault.New(fault.Forbidden,
			"The link's signature is invalid: the link was altered, or another appliance signed it. Request a new "+
				"link.")
	}
	expires, err := strconv.ParseInt(query.Get(linkExpires), 10, 64)
	if err != nil || !l.clock.Now().Before(time.Unix(expires, 0)) {
		return fault.New(fault.Forbidden, "The link has expired. Request a new link.")
	}
	return nil
}

func signature(key []byte, path string, query url.Values) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(path + "?" + query.Encode())) // Encode sorts the parameters
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (l *Links) key() ([]byte, error) {
	var key []byte
	err := l.db.View(func(tx *store.Tx) error {
		row, err := linkKeys.Get(tx, downloadKey)
		if err == nil {
			key = row.Key
		}
		return err
	})
	return key, err
}

// newKey generates the key, unless a concurrent request has generated it.
func (l *Links) newKey(ctx context.Context) ([]byte, error) {
	key := make([]byte, sha256.Size)
	rand.Read(key)
	err := l.db.Update(ctx, func(tx *store.Tx) error {
		row, err := linkKeys.Get(tx, downloadKey)
		if err == nil {
			key = row.Key
			return nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return linkKeys.Put(tx, downloadKey, &linkKey{Key: key})
	})
	return key, err
}
