// Package oidc logs people in with an OpenID Connect provider of the site, and verifies the ID
// tokens of programs. The provider may be unreachable when the appliance starts: its description is
// read when it is needed first.
//
// The flow is the authorization code flow (OpenID Connect Core 1.0, section 3.1) with PKCE (RFC
// 7636). The browser keeps the state of a begun login, sealed, in a cookie.
//
// Design: docs/design.md#identity-providers.
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/jonboulle/clockwork"
	"golang.org/x/oauth2"

	"landfall/appliance/access/external"
	"landfall/appliance/access/loginstate"
	"landfall/appliance/fault"
	"landfall/appliance/sentence"
)

// RolesKey is the key of the configuration that maps groups to roles.
const RolesKey = "oidc.roles"

// Options configure a provider.
type Options struct {
	// Issuer is the provider's URL, exactly as the provider spells it.
	Issuer   string
	ClientID string
	// ClientSecretFile is empty for a public client. It is read for each login.
	ClientSecretFile string
	// Scopes are requested on top of "openid".
	Scopes   []string
	CABundle string // a file with CA certificates on top of the system's; may be empty
	// NameClaim and GroupsClaim name the claims with the person's name and groups. A claim inside
	// another one is written with dots, such as realm_access.roles.
	NameClaim, GroupsClaim string
	Rules                  external.Rules
	Clock                  clockwork.Clock
}

// Limits of the conversation with the provider.
const (
	// requestTime limits one request, answerTime all requests for one login or token.
	requestTime = 10 * time.Second
	answerTime  = 20 * time.Second
	// loginTime is the time that a person has at the provider's pages.
	loginTime = 15 * time.Minute
	// tolerance is the accepted difference of the clocks.
	tolerance = 5 * time.Minute
	// retryAfter is the time without further requests after the provider failed, and between two
	// requests for its keys for programs' tokens.
	retryAfter = 10 * time.Second
)

// Provider is an OpenID Connect provider.
type Provider struct {
	options Options
	client  *http.Client
	logins  *loginstate.Box

	lock       sync.Mutex // guards the fields below, and the discovery
	discovered *discovered
	failed     error // the result of the last discovery
	failedAt   time.Time
}

// discovered is what the provider says about itself.
type discovered struct {
	provider *oidc.Provider
	oauth    oauth2.Config
	keys     *keySet
	issued   bool // whether authorization responses name the issuer (RFC 9207)
}

// New returns a provider. It makes no requests.
func New(options Options) (*Provider, error) {
	issuer, err := url.Parse(options.Issuer)
	if err != nil || issuer.Host == "" {
		return nil, fmt.Errorf("oidc.issuer is %q; write the provider's URL", options.Issuer)
	}
	if !secure(issuer) {
		return nil, fmt.Errorf("oidc.issuer is %s; write an https:// URL, because passwords and tokens are sent there",
			options.Issuer)
	}
	if options.ClientID == "" {
		return nil, fmt.Errorf("oidc.client_id is missing; write the ID under which the provider knows this appliance")
	}
	authorities, err := external.Authorities(options.CABundle)
	if err != nil {
		return nil, fmt.Errorf("oidc.ca_bundle: %w", err)
	}
	logins, err := loginstate.New(loginTime, options.Clock)
	if err != nil {
		return nil, err
	}
	return &Provider{options: options, client: newClient(authorities), logins: logins}, nil
}

// secure reports whether a URL of the provider protects what is sent to it: https, or http on the
// loopback.
func secure(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// Close closes idle connections.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// Start is a begun login.
type Start struct {
	// URL is the provider's page to which the browser goes.
	URL string
	// Cookie is the value of the cookie that [Provider.Finish] needs. Set it HttpOnly, Secure and
	// SameSite=Lax, with Lifetime as its maximum age. With SameSite=Strict, the browser would not
	// send it when the provider redirects the person back.
	Cookie   string
	Lifetime time.Duration
}

// login is the state of a begun login.
type login struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"` // PKCE
	Redirect string `json:"redirect"`
}

// Begin begins a login. The provider sends the person back to redirect, a URL of the appliance,
// where [Provider.Finish] gets the query.
func (p *Provider) Begin(ctx context.Context, redirect string) (Start, error) {
	ctx, cancel := p.context(ctx)
	defer cancel()
	d, err := p.discover(ctx)
	if err != nil {
		return Start{}, err
	}
	begun := login{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Redirect: redirect}
	cookie, err := p.logins.Seal(begun)
	if err != nil {
		return Start{}, err
	}
	config := d.oauth
	config.RedirectURL = redirect
	return Start{
		URL:    config.AuthCodeURL(begun.State, oidc.Nonce(begun.Nonce), oauth2.S256ChallengeOption(begun.Verifier)),
		Cookie: cookie, Lifetime: p.logins.Lifetime(),
	}, nil
}

// Finish completes a login with the cookie of [Provider.Begin] and the query with which the
// provider sent the person back. If the person is known but has no role, the error has the kind
// Forbidden and the person is returned with it.
func (p *Provider) Finish(ctx context.Context, cookie string, query url.Values) (external.Person, error) {
	ctx, cancel := p.context(ctx)
	defer cancel()
	var begun login
	id, err := p.logins.Open(cookie, &begun)
	if err != nil {
		return external.Person{}, err
	}
	if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(begun.State)) != 1 {
		return external.Person{}, loginstate.ErrForeign
	}
	d, err := p.discover(ctx)
	if err != nil {
		return external.Person{}, err
	}
	if err := d.checkIssuer(query, p.options.Issuer); err != nil {
		return external.Person{}, err
	}
	if code := query.Get("error"); code != "" {
		return external.Person{}, rejected(code, query.Get("error_description"))
	}
	if query.Get("code") == "" {
		return external.Person{}, fault.New(fault.Invalid, "the identity provider sent no code; begin the login again")
	}
	person, err := p.exchange(ctx, d, begun, query.Get("code"))
	if err != nil {
		return person, err
	}
	return person, p.logins.Spend(id)
}

// checkIssuer checks the issuer that an authorization response names (RFC 9207). With it, another
// provider cannot make the appliance send its codes here.
func (d *discovered) checkIssuer(query url.Values, issuer string) error {
	if named := query.Get("iss"); named != issuer && (named != "" || d.issued) {
		return fault.New(fault.Forbidden, "the login was answered by another identity provider than %s; begin again",
			issuer)
	}
	return nil
}

// longestReason is the maximum length of the provider's own words in an error.
const longestReason = 200

// rejected returns the error for a login that the provider did not permit (RFC 6749, section
// 4.1.2.1).
func rejected(code, description string) error {
	reason := code
	if description != "" {
		reason += ": " + description
	}
	return fault.New(fault.Forbidden, "the identity provider did not permit the login (%s); ask its administrator",
		sentence.Shorten(sentence.Clause(reason), longestReason))
}

// exchange turns a code into a person.
func (p *Provider) exchange(ctx context.Context, d *discovered, begun login, code string) (external.Person, error) {
	config := d.oauth
	config.RedirectURL = begun.Redirect
	if p.options.ClientSecretFile != "" {
		secret, err := external.ReadSecret(p.options.ClientSecretFile)
		if err != nil {
			return external.Person{}, fault.New(fault.Unavailable, "oidc.client_secret_file cannot be used: %v", err)
		}
		config.ClientSecret = secret
	}
	tokens, err := config.Exchange(ctx, code, oauth2.VerifierOption(begun.Verifier))
	if err != nil {
		return external.Person{}, p.exchangeError(err)
	}
	raw, ok := tokens.Extra("id_token").(string)
	if !ok {
		return external.Person{},
			p.wrongAnswer("it sent no ID token; allow the scope openid for the client " + p.options.ClientID)
	}
	token, err := p.verify(ctx, d, raw, d.keys.current)
	if err != nil {
		return external.Person{}, err
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(begun.Nonce)) != 1 {
		return external.Person{}, p.wrongAnswer("the ID token is not for this login (its nonce is wrong)")
	}
	if err := p.fresh(token); err != nil {
		return external.Person{}, err
	}
	claims, err := readClaims(token)
	if err != nil {
		return external.Person{}, p.wrongAnswer(err.Error())
	}
	if authorized, named := claims.text("azp"); named && authorized != p.options.ClientID {
		return external.Person{}, p.wrongAnswer(fmt.Sprintf("the ID token was issued for the client %q", authorized))
	}
	if err := p.userInfo(ctx, d, tokens, token.Subject, claims); err != nil {
		return external.Person{}, err
	}
	return p.person(token, claims)
}

// userInfo adds the claims of the provider's user info to those of the ID token. Some providers
// report the groups only there. It makes no request if the ID token has the name and the groups.
func (p *Provider) userInfo(ctx context.Context, d *discovered, tokens *oauth2.Token, subject string, to claims) error {
	_, named := to.find(p.options.NameClaim)
	_, grouped := to.find(p.options.GroupsClaim)
	if named && grouped || d.provider.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := d.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return p.unavailable(err)
	}
	// OpenID Connect Core 1.0, section 5.3.2: an answer about another person must not be used.
	if info.Subject != subject {
		return p.wrongAnswer("its user info is about another person")
	}
	var more claims
	if err := info.Claims(&more); err != nil {
		return p.wrongAnswer("its user info is not an object")
	}
	for name, value := range more {
		if _, known := to[name]; !known {
			to[name] = value
		}
	}
	return nil
}

// ErrOtherToken is returned for a bearer token that is no ID token of any provider.
var ErrOtherToken = fault.Sentinel(fault.Forbidden, "the token is not an ID token")

// VerifyBearer verifies an ID token that a program sends as its bearer token. Its audience must be
// the appliance's client ID. The error says why the token is refused, without the token. If the
// person is known but has no role, the error has the kind Forbidden and the person is returned with
// it.
func (p *Provider) VerifyBearer(ctx context.Context, raw string) (external.Person, error) {
	ctx, cancel := p.context(ctx)
	defer cancel()
	if len(raw) > maxToken {
		return external.Person{}, fault.New(fault.Forbidden, "the token is too long")
	}
	issuer, ok := issuerOf(raw)
	if !ok {
		return external.Person{}, ErrOtherToken
	}
	if issuer != p.options.Issuer { // a token of another issuer costs no request to the provider
		return external.Person{}, fault.New(fault.Forbidden, "the token is not an ID token of %s", p.options.Issuer)
	}
	d, err := p.discover(ctx)
	if err != nil {
		return external.Person{}, err
	}
	token, err := p.verify(ctx, d, raw, d.keys.cached)
	if err != nil {
		return external.Person{}, err
	}
	if now := p.options.Clock.Now(); now.After(token.Expiry.Add(tolerance)) {
		return external.Person{}, fault.New(fault.Forbidden,
			"the token expired at %s, and the appliance's clock says %s; "+
				"request a new token, or correct the clock", stamp(token.Expiry), stamp(now))
	} else if token.IssuedAt.After(now.Add(tolerance)) {
		return external.Person{}, fault.New(fault.Forbidden,
			"the token was issued at %s, but the appliance's clock says "+
				"%s; correct the clock that is wrong", stamp(token.IssuedAt), stamp(now))
	}
	claims, err := readClaims(token)
	if err != nil {
		return external.Person{}, p.wrongAnswer(err.Error())
	}
	// A logout token (OpenID Connect Back-Channel Logout 1.0) has the same issuer, audience and
	// keys.
	if _, logout := claims["events"]; logout {
		return external.Person{}, fault.New(fault.Forbidden, "the token is not an ID token of %s", p.options.Issuer)
	}
	return p.person(token, claims)
}

// person makes a person of the claims.
func (p *Provider) person(token *oidc.IDToken, claims claims) (external.Person, error) {
	if begin, now := claims.begin(), p.options.Clock.Now(); begin.After(now.Add(tolerance)) {
		return external.Person{}, fault.New(fault.Forbidden,
			"the token is not valid before %s, but the appliance's clock says %s; "+
				"use it later, or correct the clock that is wrong", stamp(begin), stamp(now))
	}
	name, _ := claims.text(p.options.NameClaim)
	if err := external.CheckName(name); err != nil {
		return external.Person{},
			p.wrongAnswer(fmt.Sprintf("its claim %s is unusable: %v; set oidc.name_claim, or add the claim "+
				"to the client's ID tokens", p.options.NameClaim, err))
	}
	groups, err := claims.groups(p.options.GroupsClaim)
	if err != nil {
		return external.Person{}, p.wrongAnswer(err.Error())
	}
	person := external.Person{Issuer: p.options.Issuer, Subject: token.Subject, Name: name, Groups: groups}
	return p.options.Rules.Apply(person, RolesKey)
}

// fresh checks the times of an ID token that the provider has just issued. Its age is known from
// the nonce, so a wrong time means a wrong clock.
func (p *Provider) fresh(token *oidc.IDToken) error {
	if !token.Expiry.After(token.IssuedAt) {
		return p.wrongAnswer("the ID token ends before it begins")
	}
	now := p.options.Clock.Now()
	if difference := now.Sub(token.IssuedAt).Abs(); difference > loginTime+tolerance ||
		token.IssuedAt.After(now.Add(tolerance)) || now.After(token.Expiry.Add(tolerance)) {
		return fault.New(fault.Unavailable,
			"the clocks of the appliance and of the identity provider differ by %s (%s "+
				"here, %s there); correct the clock that is wrong, or log in with a local account meanwhile",
			about(difference), stamp(now), stamp(token.IssuedAt))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// about returns a duration in its largest unit.
func about(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		return fmt.Sprintf("%d days", d/day)
	}
	if d >= 2*time.Hour {
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return fmt.Sprintf("%d minutes", d/time.Minute)
}

// requested returns the scopes of a login.
func (o Options) requested() []string {
	return append([]string{oidc.ScopeOpenID}, slices.DeleteFunc(slices.Clone(o.Scopes), func(scope string) bool {
		return strings.TrimSpace(scope) == "" || scope == oidc.ScopeOpenID
	})...)
}
