package oidc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Limits of tokens.
const (
	maxToken  = 64 << 10 // bytes
	maxGroups = 10_000
)

// claims are the claims of a token, by their names.
type claims map[string]any

func readClaims(token *oidc.IDToken) (claims, error) {
	var read claims
	if err := token.Claims(&read); err != nil {
		return nil, errors.New("its ID token is not an object")
	}
	return read, nil
}

// find returns a claim by its name. Without such a claim, dots separate the names of nested claims.
func (c claims) find(name string) (any, bool) {
	if value, ok := c[name]; ok {
		return value, true
	}
	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		return nil, false
	}
	object, ok := c[outer].(map[string]any)
	if !ok {
		return nil, false
	}
	return claims(object).find(inner)
}

func (c claims) text(name string) (string, bool) {
	value, _ := c.find(name)
	text, ok := value.(string)
	return text, ok
}

// begin returns the time before which a token is not valid (nbf: RFC 7519, section 4.1.5). Without
// it, the time is zero.
func (c claims) begin() time.Time {
	seconds, ok := c["nbf"].(float64)
	if !ok {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// groups returns the groups in a claim: a list of texts, or one text. A missing claim means no
// groups.
func (c claims) groups(name string) ([]string, error) {
	value, ok := c.find(name)
	if !ok || value == nil {
		return nil, nil
	}
	if one, ok := value.(string); ok {
		return []string{one}, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("its claim %s is not a list of groups", name)
	}
	if len(list) > maxGroups {
		return nil, fmt.Errorf("its claim %s has %d groups, more than %d", name, len(list), maxGroups)
	}
	groups := make([]string, 0, len(list))
	for _, item := range list {
		group, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("its claim %s is not a list of groups", name)
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// issuerOf returns the issuer that a token names. It does not verify the token.
func issuerOf(raw string) (string, bool) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return "", false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", false
	}
	var named struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(payload, &named); err != nil {
		return "", false
	}
	return named.Issuer, true
}
