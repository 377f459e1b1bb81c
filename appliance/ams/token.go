package ams

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/sentence"
)

// Secret authenticates the site to AMS: an offline token, or the ID and secret of a service
// account.
type Secret struct {
	OfflineToken string `json:"offline_token,omitempty"`
	ClientID     string `json:"client_id,omitempty"`
	ClientSecret string `json:"client_secret,omitempty"`
}

// Empty reports whether the secret contains no credentials.
func (s Secret) Empty() bool {
	return s.OfflineToken == "" && (s.ClientID == "" || s.ClientSecret == "")
}

// Credentials stores the secret.
type Credentials interface {
	// Secret returns the secret. It is empty without credentials.
	Secret(ctx context.Context) (Secret, error)
	// Rotate stores a new refresh token before its first use. It does nothing if old is no longer
	// the stored token, because the credentials were replaced since.
	Rotate(ctx context.Context, old, fresh string) error
	// Remedy is a sentence that tells a person how to replace rejected credentials.
	Remedy() string
}

// tokenMargin is the remaining validity at which an access token is replaced.
const tokenMargin = time.Minute

// tokens exchanges the secret for access tokens, which stay in memory. An access token is used only
// as long as the secret stays the same. Its lifetime starts at its receipt, so a wrong clock does
// not matter.
type tokens struct {
	url      string
	exchange *exchange
	source   Credentials
	clock    clockwork.Clock

	refreshLock sync.Mutex // held during a token request

	mu     sync.Mutex
	secret Secret // secret of the access token
	access string
	until  time.Time
}

func (t *tokens) validUntil() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}

// replace sets the access token and its secret.
func (t *tokens) replace(secret Secret, access string, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.secret, t.access, t.until = secret, access, until
}

// held returns the valid access token of a secret, or "".
func (t *tokens) held(secret Secret) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.secret != secret || !t.clock.Now().Before(t.until) {
		return ""
	}
	return t.access
}

// used returns the secret of the last access token, or an empty secret.
func (t *tokens) used() Secret {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.secret
}

// get returns an access token. It requests a new token if the present one expires soon, was
// rejected, or belongs to replaced credentials.
func (t *tokens) get(ctx context.Context, rejected string) (string, error) {
	t.refreshLock.Lock()
	defer t.refreshLock.Unlock()
	secret, err := t.source.Secret(ctx)
	if err != nil {
		return "", &CallError{Class: CredentialsChanged, Op: "token",
			Text: sentence.New(err), Err: err}
	}
	if access := t.held(secret); access != "" && access != rejected {
		return access, nil
	}
	t.replace(Secret{}, "", time.Time{})
	if secret.Empty() {
		return "", &CallError{Class: CredentialsChanged, Op: "token", Text: "There are no credentials for AMS."}
	}
	got, err := t.request(ctx, secret)
	if err != nil {
		return "", err
	}
	var wire struct {
		AccessToken  string  `json:"access_token"`
		RefreshToken string  `json:"refresh_token"`
		ExpiresIn    float64 `json:"expires_in"`
	}
	if !got.object || json.Unmarshal(got.body, &wire) != nil || wire.AccessToken == "" {
		return "", intercepted("token", got)
	}
	if secret.OfflineToken != "" && wire.RefreshToken != "" && wire.RefreshToken != secret.OfflineToken {
		if err := t.source.Rotate(ctx, secret.OfflineToken, wire.RefreshToken); err != nil {
			return "", err
		}
		secret.OfflineToken = wire.RefreshToken
	}
	lifetime := max(time.Duration(wire.ExpiresIn*float64(time.Second))-tokenMargin, 0)
	t.replace(secret, wire.AccessToken, t.clock.Now().Add(lifetime))
	return wire.AccessToken, nil
}

func (t *tokens) request(ctx context.Context, secret Secret) (*answer, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"cloud-services"},
		"refresh_token": {secret.OfflineToken}}
	if secret.OfflineToken == "" {
		form = url.Values{"grant_type": {"client_credentials"}, "client_id": {secret.ClientID}, "scope": {"openid"}}
		basic := http.Request{Header: header}
		basic.SetBasicAuth(url.QueryEscape(secret.ClientID), url.QueryEscape(secret.ClientSecret))
	}
	got, err := t.exchange.send(ctx, "token", http.MethodPost, t.url, header, []byte(form.Encode()))
	if err != nil {
		return nil, err
	}
	if got.status >= 200 && got.status < 300 {
		return got, nil
	}
	var refusal struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	own := got.object && json.Unmarshal(got.body, &refusal) == nil && refusal.Error != ""
	failure := &CallError{Op: "token", HTTP: got.status, Class: classOf(got, own),
		RetryAfter: retryAfter(got.header.Get("Retry-After"), t.clock.Now())}
	failure.Text = describe(got.status, failure, "")
	if own && failure.Class != Failing && failure.Class != Throttled {
		failure.Class = Unauthorized
		failure.Text = "AMS rejected the credentials (" + refusal.Error + "). " + t.source.Remedy()
	}
	return nil, failure
}

// Fixed holds credentials only in memory.
type Fixed struct {
	mu     sync.Mutex
	secret Secret
}

// NewFixed returns credentials that are not stored.
func NewFixed(secret Secret) *Fixed { return &Fixed{secret: secret} }

// Secret implements [Credentials].
func (f *Fixed) Secret(context.Context) (Secret, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.secret, nil
}

// Rotate implements [Credentials].
func (f *Fixed) Rotate(_ context.Context, old, fresh string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.secret.OfflineToken == old {
		f.secret.OfflineToken = fresh
	}
	return nil
}

// Remedy implements [Credentials].
func (*Fixed) Remedy() string { return "Repeat the command with valid credentials." }
