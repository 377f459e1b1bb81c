// Package passkey registers and verifies passkeys (WebAuthn) as the second factor of a login. It
// needs no connection: the browser and the authenticator answer a challenge of the appliance.
//
// A passkey belongs to the DNS name under which the page was open (the relying party ID). Browsers
// have no passkeys for IP addresses.
//
// Design: docs/design.md#identity-providers.
package passkey

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/access/loginstate"
	"landfall/appliance/fault"
	"landfall/appliance/sentence"
)

// MaxCredentials is the maximum number of passkeys of an account.
const MaxCredentials = 20

// ceremonyTime is the time that a person has to use the authenticator.
const ceremonyTime = 5 * time.Minute

// ErrNone is returned if an account has no passkey for the DNS name of the page.
var ErrNone = fault.New(fault.Forbidden,
	"the account has no passkey for this address; open the page at the address at "+
		"which the passkey was registered")

// Account is an account that registers or uses passkeys.
type Account struct {
	ID, Name    string
	Credentials []Credential
}

// Credential is a passkey, as it is stored. It contains no secret.
type Credential struct {
	// Host is the DNS name to which the passkey belongs.
	Host       string    `json:"host"`
	Label      string    `json:"label,omitempty"` // given by the person
	Registered time.Time `json:"registered"`
	Used       time.Time `json:"used,omitzero"`

	Record webauthn.Credential `json:"record"`
}

// ID returns the passkey's ID, for URLs.
func (c Credential) ID() string { return base64.RawURLEncoding.EncodeToString(c.Record.ID) }

// Ceremony is a begun registration or login.
type Ceremony struct {
	// Options are the argument of navigator.credentials.create or get, in the JSON form of WebAuthn
	// (parseCreationOptionsFromJSON, parseRequestOptionsFromJSON) under the key publicKey.
	Options json.RawMessage
	// State is the sealed state that the Finish methods need. It can be the value of a cookie.
	State    string
	Lifetime time.Duration
}

// Passkeys registers and verifies passkeys.
type Passkeys struct {
	clock         clockwork.Clock
	registrations *loginstate.Box
	logins        *loginstate.Box
}

// New returns passkeys without begun ceremonies.
func New(clock clockwork.Clock) (*Passkeys, error) {
	registrations, err := loginstate.New(ceremonyTime, clock)
	if err != nil {
		return nil, err
	}
	logins, err := loginstate.New(ceremonyTime, clock)
	if err != nil {
		return nil, err
	}
	return &Passkeys{clock: clock, registrations: registrations, logins: logins}, nil
}

// Host returns the DNS name to which passkeys belong that are registered at an origin, such as
// https://landfall.example.com:8090. It returns an error for an origin without passkeys.
func Host(origin string) (string, error) {
	parsed, err := url.Parse(origin)
	if err != nil || parsed.Hostname() == "" || parsed.Path != "" {
		return "", fault.New(fault.Invalid, "%q is not the origin of a page", origin)
	}
	host := strings.ToLower(strings.TrimSuffix(parsed.Hostname(), "."))
	switch {
	case net.ParseIP(host) != nil || strings.Contains(host, ":"):
		return "", fault.New(fault.Invalid,
			"passkeys need a DNS name, and the page is open at the IP address %s; open it "+
				"under a DNS name of the appliance", host)
	case parsed.Scheme != "https" && host != "localhost":
		return "", fault.New(fault.Invalid, "passkeys need TLS; open the page at https://%s", parsed.Host)
	case protocol.ValidateRPID(host) != nil:
		return "", fault.New(fault.Invalid,
			"passkeys need a full DNS name, such as landfall.example.com, and the page is "+
				"open at %q; open it under a full DNS name of the appliance", host)
	}
	return host, nil
}

// state is the state of a begun ceremony.
type state struct {
	Challenge string `json:"challenge"`
	Account   string `json:"account"` // ID
	Origin    string `json:"origin"`
}

// BeginRegistration begins the registration of a passkey for an account. origin is the origin of
// the page, which the caller has checked.
func (p *Passkeys) BeginRegistration(origin string, account Account) (Ceremony, error) {
	party, host, err := relyingParty(origin)
	if err != nil {
		return Ceremony{}, err
	}
	if len(account.Credentials) >= MaxCredentials {
		return Ceremony{}, fault.New(fault.Conflict,
			"the account has %d passkeys, and more are not possible; remove one",
			len(account.Credentials))
	}
	known := user{account, host}
	creation, session, err := party.BeginRegistration(known,
		webauthn.WithExclusions(webauthn.Credentials(known.WebAuthnCredentials()).CredentialDescriptors()))
	if err != nil {
		return Ceremony{}, fmt.Errorf("begin the registration of a passkey: %w", err)
	}
	return p.begun(p.registrations, creation, state{session.Challenge, account.ID, origin})
}

// FinishRegistration verifies the browser's answer and returns the passkey to store.
func (p *Passkeys) FinishRegistration(account Account, sealed, label string, answer []byte) (Credential, error) {
	party, host, session, id, err := p.open(p.registrations, account, sealed)
	if err != nil {
		return Credential{}, err
	}
	session.CredParams = webauthn.CredentialParametersDefault()
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return Credential{}, rejected(err)
	}
	known := user{account, host}
	record, err := party.CreateCredential(known, session, parsed)
	if err != nil {
		return Credential{}, rejected(err)
	}
	made := Credential{Host: host, Label: sentence.Shorten(sentence.Line(label), maxLabel),
		Registered: p.clock.Now().UTC(), Record: *record}
	for _, existing := range account.Credentials {
		if existing.ID() == made.ID() {
			return Credential{}, fault.New(fault.Conflict, "this passkey is registered already")
		}
	}
	return made, p.registrations.Spend(id)
}

// maxLabel is the maximum length of a label in bytes.
const maxLabel = 100

// BeginLogin begins the use of a passkey. The error is ErrNone if the account has none for the
// page.
func (p *Passkeys) BeginLogin(origin string, account Account) (Ceremony, error) {
	party, host, err := relyingParty(origin)
	if err != nil {
		return Ceremony{}, err
	}
	known := user{account, host}
	if len(known.WebAuthnCredentials()) == 0 {
		return Ceremony{}, ErrNone
	}
	assertion, session, err := party.BeginLogin(known)
	if err != nil {
		return Ceremony{}, fmt.Errorf("begin a login with a passkey: %w", err)
	}
	return p.begun(p.logins, assertion, state{session.Challenge, account.ID, origin})
}

// FinishLogin verifies the browser's answer. It returns the used passkey, with its new counter and
// time, to store in place of the one with the same ID.
func (p *Passkeys) FinishLogin(account Account, sealed string, answer []byte) (Credential, error) {
	party, host, session, id, err := p.open(p.logins, account, sealed)
	if err != nil {
		return Credential{}, err
	}
	known := user{account, host}
	for _, record := range known.WebAuthnCredentials() {
		session.AllowedCredentialIDs = append(session.AllowedCredentialIDs, record.ID)
	}
	if len(session.AllowedCredentialIDs) == 0 {
		return Credential{}, ErrNone // removed meanwhile
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return Credential{}, rejected(err)
	}
	record, err := party.ValidateLogin(known, session, parsed)
	if err != nil {
		return Credential{}, rejected(err)
	}
	if record.Authenticator.CloneWarning {
		return Credential{}, fault.New(fault.Forbidden,
			"the passkey was used more often than this appliance knows, so it "+
				"may be a copy; remove it and register another one")
	}
	// The challenge is used up. Nobody can log in with a recorded answer.
	if err := p.logins.Spend(id); err != nil {
		return Credential{}, err
	}
	for _, credential := range account.Credentials {
		if credential.Host == host && string(credential.Record.ID) == string(record.ID) {
			credential.Record, credential.Used = *record, p.clock.Now().UTC()
			return credential, nil
		}
	}
	return Credential{}, ErrNone
}

// relyingParty returns the ceremonies of an origin.
func relyingParty(origin string) (*webauthn.WebAuthn, string, error) {
	host, err := Host(origin)
	if err != nil {
		return nil, "", err
	}
	party, err := webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "Landfall", RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementDiscouraged, UserVerification: protocol.VerificationPreferred,
		},
		Timeouts: webauthn.TimeoutsConfig{
			Login:        webauthn.TimeoutConfig{Timeout: ceremonyTime, TimeoutUVD: ceremonyTime},
			Registration: webauthn.TimeoutConfig{Timeout: ceremonyTime, TimeoutUVD: ceremonyTime},
		},
	})
	if err != nil {
		return nil, "", fmt.Errorf("use passkeys at %s: %w", origin, err)
	}
	return party, host, nil
}

func (p *Passkeys) begun(box *loginstate.Box, options any, begun state) (Ceremony, error) {
	text, err := json.Marshal(options)
	if err != nil {
		return Ceremony{}, fmt.Errorf("write the options of a passkey: %w", err)
	}
	sealed, err := box.Seal(begun)
	return Ceremony{Options: text, State: sealed, Lifetime: box.Lifetime()}, err
}

// open opens the state of a ceremony of an account.
func (p *Passkeys) open(box *loginstate.Box, account Account, sealed string) (
	*webauthn.WebAuthn, string, webauthn.SessionData, loginstate.ID, error,
) {
	var begun state
	id, err := box.Open(sealed, &begun)
	if err == nil && begun.Account != account.ID {
		err = loginstate.ErrForeign
	}
	if err != nil {
		return nil, "", webauthn.SessionData{}, id, err
	}
	party, host, err := relyingParty(begun.Origin)
	return party, host, webauthn.SessionData{
		Challenge: begun.Challenge, RelyingPartyID: host, Origin: begun.Origin, UserID: user{account,
			host}.WebAuthnID(),
		UserVerification: protocol.VerificationPreferred,
	}, id, err
}

// rejected returns the error for an answer that is not accepted.
func rejected(err error) error {
	reason := err.Error()
	if detailed, ok := errors.AsType[*protocol.Error](err); ok && detailed.Details != "" {
		reason = detailed.Details
	}
	return &fault.Error{Kind: fault.Forbidden, Err: err,
		Reason: fmt.Sprintf("the passkey was not accepted (%s); try again",
			sentence.Shorten(sentence.Clause(reason), 200))}
}

// user is an account with its passkeys for one host.
type user struct {
	Account
	host string
}

// WebAuthnID implements webauthn.User. The ID says nothing about the person.
func (u user) WebAuthnID() []byte {
	sum := sha256.Sum256([]byte(u.ID))
	return sum[:]
}

// WebAuthnName implements webauthn.User.
func (u user) WebAuthnName() string { return u.Name }

// WebAuthnDisplayName implements webauthn.User.
func (u user) WebAuthnDisplayName() string { return u.Name }

// WebAuthnCredentials implements webauthn.User.
func (u user) WebAuthnCredentials() []webauthn.Credential {
	var records []webauthn.Credential
	for _, credential := range u.Credentials {
		if credential.Host == u.host {
			records = append(records, credential.Record)
		}
	}
	return records
}
