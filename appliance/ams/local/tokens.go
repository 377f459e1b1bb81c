package local

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/ksuid"

	"landfall/appliance/fault"
	"landfall/store"
)

// Kind is the kind of a token.
type Kind string

// Kinds of tokens.
const (
	Access  Kind = "access"  // sent with each request: the argument of ocm login --token
	Offline Kind = "offline" // exchanged for tokens that are valid for an hour
	Client  Kind = "client"  // an ID and a secret, which are exchanged for such tokens as well
)

const (
	// Issuer is the issuer claim of the site's own tokens.
	Issuer = "landfall"
	// SessionLife is the lifetime of a token from an exchange.
	SessionLife = time.Hour
)

// Token describes an issued token, without the token itself.
type Token struct {
	ID        string    `json:"id"`
	Kind      Kind      `json:"kind"`
	Username  string    `json:"username"`
	ReadOnly  bool      `json:"read_only,omitempty"` // cannot set labels
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero for no expiry
}

type tokenRow struct {
	Token
	Hash []byte `json:"sha256"` // SHA-256 of the token, or of a client's secret
}

var tokenRows = store.NewBucket[tokenRow]("local-tokens", 1)

// Request describes a token to issue.
type Request struct {
	Kind     Kind          `json:"kind"`      // "" for access
	Username string        `json:"username"`  // "" for the site's own
	ClientID string        `json:"client_id"` // of a client; "" for a generated ID
	Life     time.Duration `json:"life"`      // 0 for no expiry
	ReadOnly bool          `json:"read_only"`
}

// Issued is a new token. The site cannot show it again.
type Issued struct {
	Token
	Secret string `json:"token"` // the token, or the client's secret
}

// ErrRequest is returned for an invalid request.
var ErrRequest = fault.Sentinel(fault.Invalid, "the token cannot be issued")

var (
	usernameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$`)
	clientForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// Issue issues a token.
func (s *Site) Issue(ctx context.Context, wanted Request) (*Issued, error) {
	wanted.Kind, wanted.Username = cmp.Or(wanted.Kind, Access), cmp.Or(wanted.Username, s.options.Owner().Username)
	switch {
	case !slices.Contains([]Kind{Access, Offline, Client}, wanted.Kind):
		return nil, fmt.Errorf("%w: the kind is %q; expected access, offline or client", ErrRequest, wanted.Kind)
	case !usernameForm.MatchString(wanted.Username):
		return nil, fmt.Errorf("%w: the user name is %q; expected letters, digits and ._@+-", ErrRequest,
			wanted.Username)
	case wanted.ClientID != "" && (wanted.Kind != Client || !clientForm.MatchString(wanted.ClientID)):
		return nil,
			fmt.Errorf("%w: the client's id is %q; only the kind client has one, of letters, digits and ._-",
				ErrRequest, wanted.ClientID)
	case wanted.Life < 0:
		return nil, fmt.Errorf("%w: its expiry is in the past", ErrRequest)
	}
	now := s.options.Clock.Now().UTC()
	row := tokenRow{Token: Token{ID: ksuid.New().String(), Kind: wanted.Kind, Username: wanted.Username,
		ReadOnly: wanted.ReadOnly, CreatedAt: now}}
	if wanted.Life > 0 {
		row.ExpiresAt = now.Add(wanted.Life)
	}
	var secret string
	var err error
	if row.Kind == Client {
		row.ID = cmp.Or(wanted.ClientID, row.ID)
		secret = rand.Text()
	} else if secret, err = s.encode(row.Token, row.ExpiresAt, ""); err != nil {
		return nil, err
	}
	row.Hash = hash(secret)
	err = s.options.DB.Update(ctx, func(tx *store.Tx) error {
		if tokenRows.Exists(tx, row.ID) {
			return fmt.Errorf("%w: a token with the ID %s exists already; revoke it first", ErrRequest, row.ID)
		}
		return tokenRows.Put(tx, row.ID, &row)
	})
	return &Issued{row.Token, secret}, err
}

// Tokens returns the issued tokens that are not revoked, the newest first.
func (s *Site) Tokens() ([]Token, error) {
	all := []Token{}
	err := s.options.DB.View(func(tx *store.Tx) error {
		return tokenRows.Each(tx, "", func(_ string, row *tokenRow) error {
			all = append(all, row.Token)
			return nil
		})
	})
	slices.SortFunc(all, func(a, b Token) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt),
			cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

// Revoke revokes a token and all tokens that were exchanged for it.
func (s *Site) Revoke(ctx context.Context, id string) error {
	return s.options.DB.Update(ctx, func(tx *store.Tx) error {
		if !tokenRows.Exists(tx, id) {
			return unknown("token %s", id)
		}
		return tokenRows.Delete(tx, id)
	})
}

// ErrToken is returned for a token that is not valid.
var ErrToken = errors.New("the token is not valid here")

// Caller is the owner of a token in a request.
type Caller struct {
	Account  Account
	ReadOnly bool
}

// Authenticate returns the owner of an access token. The error is ErrToken.
func (s *Site) Authenticate(token string) (*Caller, error) {
	row, claims, err := s.verify(token)
	if err != nil {
		return nil, err
	}
	if claims.Type != typeAccess {
		return nil, fmt.Errorf("%w: exchange it for a token of type %s first", ErrToken, typeAccess)
	}
	return &Caller{s.Account(row.Username), row.ReadOnly}, nil
}

// Refresh exchanges an offline token for a token that is valid for an hour. The error is ErrToken.
func (s *Site) Refresh(token string) (access string, err error) {
	row, claims, err := s.verify(token)
	if err != nil {
		return "", err
	}
	if claims.Type != typeOffline {
		return "", fmt.Errorf("%w: only an offline token can be exchanged", ErrToken)
	}
	return s.session(row)
}

// Login exchanges a client's ID and secret for a token that is valid for an hour. The error is
// ErrToken.
func (s *Site) Login(id, secret string) (access string, err error) {
	row, err := s.row(id)
	if err != nil {
		return "", err
	}
	if row.Kind != Client || subtle.ConstantTimeCompare(row.Hash, hash(secret)) != 1 {
		return "", ErrToken
	}
	return s.session(row)
}

func (s *Site) session(row *tokenRow) (string, error) {
	until := s.options.Clock.Now().Add(SessionLife)
	if !row.ExpiresAt.IsZero() && row.ExpiresAt.Before(until) {
		until = row.ExpiresAt
	}
	session := row.Token
	session.Kind = Access
	return s.encode(session, until, row.sessions())
}

// sessions returns what the tokens contain that were exchanged for this one. An ID can be issued
// again after its revocation, so the ID alone would make the former tokens valid again.
func (r *tokenRow) sessions() string {
	return base64.RawURLEncoding.EncodeToString(hash(string(r.Hash)))
}

func (s *Site) row(id string) (row *tokenRow, err error) {
	err = s.options.DB.View(func(tx *store.Tx) error {
		row, err = tokenRows.Get(tx, id)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrToken
	}
	if err == nil && !row.ExpiresAt.IsZero() && !s.options.Clock.Now().Before(row.ExpiresAt) {
		return nil, fmt.Errorf("%w: it expired on %s", ErrToken, row.ExpiresAt.Format(time.DateOnly))
	}
	return row, err
}

// claims contains the claims that the ocm command and the site read.
type claims struct {
	Issuer       string `json:"iss"`
	ID           string `json:"jti"`
	Session      string `json:"session,omitempty"` // the token with this ID was exchanged for it
	Type         string `json:"typ"`
	Issued       int64  `json:"iat"`
	Expires      int64  `json:"exp,omitempty"`
	Subject      string `json:"sub"`
	Username     string `json:"username"`
	Preferred    string `json:"preferred_username"`
	Organization string `json:"org_id"`
}

// Token types that the ocm command supports.
const (
	typeAccess  = "Bearer"
	typeOffline = "Offline"
)

var jwtHeader = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))

func (s *Site) encode(token Token, until time.Time, session string) (string, error) {
	account := s.Account(token.Username)
	c := claims{
		Issuer: Issuer, ID: token.ID, Session: session, Type: typeAccess, Issued: s.options.Clock.Now().Unix(),
		Subject:  account.ID,
		Username: account.Username, Preferred: account.Username, Organization: account.Organization.ID,
	}
	if token.Kind == Offline {
		c.Type = typeOffline
	}
	if !until.IsZero() {
		c.Expires = until.Unix()
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write a token: %w", err)
	}
	signed := jwtHeader + "." + base64.RawURLEncoding.EncodeToString(text)
	return signed + "." + base64.RawURLEncoding.EncodeToString(s.mac(signed)), nil
}

func (s *Site) mac(text string) []byte {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// verify parses a token of the site and returns its issued record.
func (s *Site) verify(token string) (*tokenRow, *claims, error) {
	signed, signature, ok := cutLast(token)
	given, err := base64.RawURLEncoding.DecodeString(signature)
	if !ok || err != nil || !hmac.Equal(given, s.mac(signed)) {
		return nil, nil, fmt.Errorf("%w: another site issued it; create a token with landfall ams token", ErrToken)
	}
	_, body, _ := strings.Cut(signed, ".")
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return nil, nil, ErrToken
	}
	var c claims
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, nil, ErrToken
	}
	if c.Expires != 0 && s.options.Clock.Now().Unix() >= c.Expires {
		return nil, nil, fmt.Errorf("%w: it has expired", ErrToken)
	}
	row, err := s.row(c.ID)
	if errors.Is(err, ErrToken) {
		return nil, nil, fmt.Errorf("%w: it was revoked", err)
	}
	if err != nil {
		return nil, nil, err
	}
	if c.Session == "" && subtle.ConstantTimeCompare(row.Hash, hash(token)) != 1 {
		return nil, nil, ErrToken
	}
	if c.Session != "" && c.Session != row.sessions() {
		return nil, nil, fmt.Errorf("%w: it was revoked", ErrToken)
	}
	return row, &c, nil
}

func cutLast(token string) (signed, signature string, ok bool) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 {
		return "", "", false
	}
	return token[:i], token[i+1:], true
}

func hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
