package engine

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

	"landfall/store"
)

// A download link can be handed to somebody who has no account: it is signed with a key of the
// appliance and holds for a while. The key is made when the first link is, and never leaves the
// appliance.

// LinkLifetime is how long a signed link holds.
const LinkLifetime = 10 * time.Minute

const (
	linkExpires   = "expires"   // Unix seconds
	linkSignature = "signature" // of the path and all other parameters, base64url
)

type linkKey struct {
	Key []byte `json:"key"`
}

var linkKeys = store.NewBucket[linkKey]("link-keys", 1)

const theLinkKey = "downloads"

// SignLink returns the address under which a path of the appliance can be downloaded with the given
// parameters by whoever has the link, and until when.
func (e *Engine) SignLink(ctx context.Context, path string, query url.Values) (string, time.Time, error) {
	key, err := e.linkKey()
	if errors.Is(err, store.ErrNotFound) {
		key, err = e.newLinkKey(ctx)
	}
	if err != nil {
		return "", time.Time{}, err
	}
	expires := e.options.Clock.Now().UTC().Add(LinkLifetime).Truncate(time.Second)
	signed := url.Values{}
	for name, values := range query {
		signed[name] = values
	}
	signed.Set(linkExpires, strconv.FormatInt(expires.Unix(), 10))
	signed.Set(linkSignature, signature(key, path, signed))
	return e.options.URL + path + "?" + signed.Encode(), expires, nil
}

// CheckLink refuses a signed link that was altered or has expired, with kind Forbidden. A link
// without a signature is none of its affair.
func (e *Engine) CheckLink(path string, query url.Values) error {
	given := query.Get(linkSignature)
	if given == "" {
		return nil
	}
	key, err := e.linkKey()
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
		return &Error{Kind: Forbidden,
			Reason: "The link's signature does not fit: it was altered, or it is of another appliance. Ask for a new " +
				"link."}
	}
	expires, err := strconv.ParseInt(query.Get(linkExpires), 10, 64)
	if err != nil || !e.options.Clock.Now().Before(time.Unix(expires, 0)) {
		return &Error{Kind: Forbidden, Reason: "The link has expired. Ask for a new one."}
	}
	return nil
}

func signature(key []byte, path string, query url.Values) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(path + "?" + query.Encode())) // Encode sorts
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (e *Engine) linkKey() ([]byte, error) {
	var key []byte
	err := e.options.DB.View(func(tx *store.Tx) error {
		row, err := linkKeys.Get(tx, theLinkKey)
		if err == nil {
			key = row.Key
		}
		return err
	})
	return key, err
}

// newLinkKey makes the key, unless another request has made it meanwhile.
func (e *Engine) newLinkKey(ctx context.Context) ([]byte, error) {
	fresh := make([]byte, sha256.Size)
	rand.Read(fresh)
	err := e.update(ctx, func(c *change) error {
		row, err := linkKeys.Get(c.tx, theLinkKey)
		if err == nil {
			fresh = row.Key
			return nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return linkKeys.Put(c.tx, theLinkKey, &linkKey{Key: fresh})
	})
	return fresh, err
}
