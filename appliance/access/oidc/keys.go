package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/fault"
)

// keySet holds the provider's public keys. Keys that were read once remain valid while the provider
// is unreachable.
type keySet struct {
	client     *http.Client
	url        string
	algorithms []string
	clock      clockwork.Clock

	reading sync.Mutex // guards tried and failure, and the request
	tried   time.Time
	failure error      // of the last request
	lock    sync.Mutex // guards keys
	keys    []jose.JSONWebKey
}

// keyFunc verifies a signed token and returns its payload.
type keyFunc func(ctx context.Context, token string) ([]byte, error)

// VerifySignature implements oidc.KeySet.
func (f keyFunc) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	return f(ctx, token)
}

var errSignature = errors.New("the token's signature is not by a key of the identity provider")

// keysError is a failure to read the provider's keys.
type keysError struct{ cause error }

func (e *keysError) Error() string { return "read the identity provider's keys: " + e.cause.Error() }
func (e *keysError) Unwrap() error { return e.cause }

// current verifies a token that the provider has just sent. An unknown key makes it read the keys
// again, so new keys are accepted at once.
func (k *keySet) current(ctx context.Context, token string) ([]byte, error) {
	return k.verify(ctx, token, 0)
}

// cached verifies a token of an unknown client. It reads the keys at most every retryAfter, so that
// clients with wrong tokens cannot make the appliance flood the provider.
func (k *keySet) cached(ctx context.Context, token string) ([]byte, error) {
	return k.verify(ctx, token, retryAfter)
}

func (k *keySet) verify(ctx context.Context, token string, pause time.Duration) ([]byte, error) {
	algorithms := make([]jose.SignatureAlgorithm, len(k.algorithms))
	for i, name := range k.algorithms {
		algorithms[i] = jose.SignatureAlgorithm(name)
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, errSignature
	}
	if payload := k.try(signed); payload != nil {
		return payload, nil
	}
	if err := k.renew(ctx, pause); err != nil {
		return nil, err
	}
	if payload := k.try(signed); payload != nil {
		return payload, nil
	}
	return nil, errSignature
}

// renew reads the keys again. If that was tried less than pause ago, it returns the result of then.
func (k *keySet) renew(ctx context.Context, pause time.Duration) error {
	k.reading.Lock()
	defer k.reading.Unlock()
	if !k.tried.IsZero() && k.clock.Since(k.tried) < pause {
		return k.failure
	}
	k.tried = k.clock.Now()
	keys, err := k.read(ctx)
	if err != nil {
		k.failure = &keysError{err}
		return k.failure
	}
	k.failure = nil
	k.lock.Lock()
	defer k.lock.Unlock()
	k.keys = keys
	return nil
}

// try verifies a token with the known keys. It returns nil if none of them fits.
func (k *keySet) try(signed *jose.JSONWebSignature) []byte {
	k.lock.Lock()
	keys := k.keys
	k.lock.Unlock()
	id := signed.Signatures[0].Header.KeyID
	for _, key := range keys {
		if id != "" && key.KeyID != id {
			continue
		}
		if payload, err := signed.Verify(&key); err == nil {
			return payload
		}
	}
	return nil
}

// read reads the keys. One caller's request serves later callers too, so it does not end with this
// caller's.
func (k *keySet) read(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return nil, err
	}
	response, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d of %s", response.StatusCode, k.url)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("%s is not a set of keys: %w", k.url, err)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		// RFC 7517, section 5: keys of unknown kinds are ignored. A set must not make the appliance
		// accept a shared secret.
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// verify verifies a token's signature, issuer and audience, but not its times.
func (p *Provider) verify(ctx context.Context, d *discovered, raw string, keys keyFunc) (*oidc.IDToken, error) {
	var failed error // The verifier returns only its text.
	recorded := keyFunc(func(ctx context.Context, token string) (payload []byte, err error) {
		payload, failed = keys(ctx, token)
		return payload, failed
	})
	token, err := oidc.NewVerifier(p.options.Issuer, recorded, &oidc.Config{
		ClientID: p.options.ClientID, SupportedSigningAlgs: d.keys.algorithms,
		SkipExpiryCheck: true, // The caller checks the times, with a tolerance.
	}).Verify(ctx, raw)
	if unread, ok := errors.AsType[*keysError](failed); ok {
		return nil, p.unavailable(unread)
	}
	if failed != nil {
		err = failed
	}
	switch {
	case err != nil:
		return nil, fault.New(fault.Forbidden, "the token is not valid for this appliance: %s",
			strings.TrimPrefix(err.Error(), "oidc: "))
	case token.Subject == "" || token.Expiry.IsZero() || token.IssuedAt.IsZero():
		return nil, fault.New(fault.Forbidden, "the token lacks its subject, its end or its time of issue")
	}
	return token, nil
}
