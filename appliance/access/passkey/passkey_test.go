package passkey_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/loginstate"
	"landfall/appliance/access/passkey"
	"landfall/appliance/access/passkey/passkeytest"
	"landfall/appliance/fault"
)

const origin = "https://landfall.example.com:8090"

func party(origin string) virtualwebauthn.RelyingParty {
	host, err := passkey.Host(origin)
	if err != nil {
		panic(err)
	}
	return virtualwebauthn.RelyingParty{Name: "Landfall", ID: host, Origin: origin}
}

// device is an authenticator with one key.
type device struct {
	virtualwebauthn.Authenticator
	key virtualwebauthn.Credential
}

func newDevice(t *testing.T) *device {
	t.Helper()
	key, err := passkeytest.NewCredential()
	require.NoError(t, err)
	return &device{virtualwebauthn.NewAuthenticator(), key}
}

func (d *device) create(t *testing.T, at string, options json.RawMessage) []byte {
	t.Helper()
	parsed, err := virtualwebauthn.ParseAttestationOptions(string(options))
	require.NoError(t, err)
	return []byte(virtualwebauthn.CreateAttestationResponse(party(at), d.Authenticator, d.key, *parsed))
}

func (d *device) answer(t *testing.T, at string, options json.RawMessage) []byte {
	t.Helper()
	parsed, err := virtualwebauthn.ParseAssertionOptions(string(options))
	require.NoError(t, err)
	d.key.Counter++
	return []byte(virtualwebauthn.CreateAssertionResponse(party(at), d.Authenticator, d.key, *parsed))
}

type setting struct {
	*passkey.Passkeys
	clock *clockwork.FakeClock
}

func newSetting(t *testing.T) setting {
	t.Helper()
	clock := clockwork.NewFakeClock()
	passkeys, err := passkey.New(clock)
	require.NoError(t, err)
	return setting{passkeys, clock}
}

// register registers a device, and stores the passkey as the account's row does.
func (s setting) register(t *testing.T, account *passkey.Account, d *device) {
	t.Helper()
	begun, err := s.BeginRegistration(origin, *account)
	require.NoError(t, err)
	made, err := s.FinishRegistration(*account, begun.State, "my key", d.create(t, origin, begun.Options))
	require.NoError(t, err)
	text, err := json.Marshal(made)
	require.NoError(t, err)
	var stored passkey.Credential
	require.NoError(t, json.Unmarshal(text, &stored))
	require.Equal(t, made.ID(), stored.ID())
	account.Credentials = append(account.Credentials, stored)
}

func TestPasskey_registeredAndUsed(t *testing.T) {
	s := newSetting(t)
	ana := passkey.Account{ID: "1", Name: "ana"}
	_, err := s.BeginLogin(origin, ana)
	require.ErrorIs(t, err, passkey.ErrNone)
	first, second := newDevice(t), newDevice(t)
	s.register(t, &ana, first)
	s.register(t, &ana, second)
	require.Equal(t, "landfall.example.com", ana.Credentials[0].Host)
	require.Equal(t, "my key", ana.Credentials[0].Label)
	for _, d := range []*device{first, second, first} {
		s.clock.Advance(time.Hour)
		begun, err := s.BeginLogin(origin, ana)
		require.NoError(t, err)
		require.Less(t, len(begun.State), 1000, "fits into a cookie")
		used, err := s.FinishLogin(ana, begun.State, d.answer(t, origin, begun.Options))
		require.NoError(t, err)
		require.Equal(t, s.clock.Now().UTC(), used.Used)
		require.Equal(t, "my key", used.Label)
		require.Equal(t, d.key.Counter, used.Record.Authenticator.SignCount)
		for i := range ana.Credentials {
			if ana.Credentials[i].ID() == used.ID() {
				ana.Credentials[i] = used
			}
		}
	}
	require.NotEqual(t, ana.Credentials[0].ID(), ana.Credentials[1].ID())
}

func TestPasskey_registeredOnlyOnce(t *testing.T) {
	s := newSetting(t)
	ana := passkey.Account{ID: "1", Name: "ana"}
	d := newDevice(t)
	s.register(t, &ana, d)
	begun, err := s.BeginRegistration(origin, ana)
	require.NoError(t, err)
	require.Contains(t, string(begun.Options), ana.Credentials[0].ID(), "the browser excludes it")
	_, err = s.FinishRegistration(ana, begun.State, "", d.create(t, origin, begun.Options))
	require.Equal(t, fault.Conflict, fault.KindOf(err))

	for len(ana.Credentials) < passkey.MaxCredentials {
		ana.Credentials = append(ana.Credentials, ana.Credentials[0])
	}
	_, err = s.BeginRegistration(origin, ana)
	require.ErrorContains(t, err, "the account has 20 passkeys, and more are not possible; remove one")
}

// Each case answers a challenge in a way that must not log ana in.
func TestPasskey_wrongAnswers(t *testing.T) {
	type attempt struct {
		setting
		ana    *passkey.Account
		device *device
		begun  passkey.Ceremony
		answer []byte
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, a *attempt)
		want   string
	}{
		"another device": {func(t *testing.T, a *attempt) {
			a.answer = newDevice(t).answer(t, origin, a.begun.Options)
		}, "not owned"},
		"another key": {func(t *testing.T, a *attempt) {
			id := a.device.key.ID
			a.device = newDevice(t)
			a.device.key.ID = id
			a.answer = a.device.answer(t, origin, a.begun.Options)
		}, "the passkey was not accepted"},
		"another origin": {func(t *testing.T, a *attempt) {
			a.answer = a.device.answer(t, "https://landfall.example.com", a.begun.Options)
		}, "the passkey was not accepted"},
		"another host": {func(t *testing.T, a *attempt) {
			a.answer = a.device.answer(t, "https://evil.example.com:8090", a.begun.Options)
		}, "the passkey was not accepted"},
		"another challenge": {func(t *testing.T, a *attempt) {
			other, err := a.BeginLogin(origin, *a.ana)
			require.NoError(t, err)
			a.answer = a.device.answer(t, origin, other.Options)
		}, "the passkey was not accepted"},
		"nobody touched it": {func(t *testing.T, a *attempt) {
			a.device.Options.UserNotPresent = true
			a.answer = a.device.answer(t, origin, a.begun.Options)
		}, "the passkey was not accepted"},
		"a copy": {func(t *testing.T, a *attempt) {
			a.ana.Credentials[0].Record.Authenticator.SignCount = 100
		}, "it may be a copy; remove it and register another one"},
		"removed meanwhile": {func(_ *testing.T, a *attempt) { a.ana.Credentials = nil },
			"has no passkey for this address"},
		"another account": {func(_ *testing.T, a *attempt) { a.ana.ID = "2" },
			"the login was not begun in this browser"},
		"too late": {func(_ *testing.T, a *attempt) { a.clock.Advance(5 * time.Minute) }, "took too long"},
		"no state": {func(_ *testing.T, a *attempt) { a.begun.State = "" }, "not begun in this browser"},
		"state of a registration": {func(t *testing.T, a *attempt) {
			other, err := a.BeginRegistration(origin, *a.ana)
			require.NoError(t, err)
			a.begun.State = other.State
		}, "not begun in this browser"},
		"after a restart": {func(t *testing.T, a *attempt) { a.setting = newSetting(t) },
			"the appliance was restarted"},
		"not JSON": {func(_ *testing.T, a *attempt) { a.answer = []byte("x") }, "the passkey was not accepted"},
		"empty":    {func(_ *testing.T, a *attempt) { a.answer = nil }, "the passkey was not accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &attempt{setting: newSetting(t), ana: &passkey.Account{ID: "1", Name: "ana"}, device: newDevice(t)}
			a.register(t, a.ana, a.device)
			var err error
			a.begun, err = a.BeginLogin(origin, *a.ana)
			require.NoError(t, err)
			a.answer = a.device.answer(t, origin, a.begun.Options)
			test.change(t, a)
			used, err := a.FinishLogin(*a.ana, a.begun.State, a.answer)
			require.ErrorContains(t, err, test.want)
			require.Contains(t, []fault.Kind{fault.Forbidden, fault.Invalid}, fault.KindOf(err))
			require.Zero(t, used)
		})
	}
}

func TestPasskey_answersAreUsedOnce(t *testing.T) {
	s := newSetting(t)
	ana := passkey.Account{ID: "1", Name: "ana"}
	d := newDevice(t)
	s.register(t, &ana, d)
	begun, err := s.BeginLogin(origin, ana)
	require.NoError(t, err)
	answer := d.answer(t, origin, begun.Options)
	_, err = s.FinishLogin(ana, begun.State, answer)
	require.NoError(t, err)
	_, err = s.FinishLogin(ana, begun.State, answer)
	require.ErrorIs(t, err, loginstate.ErrSpent)
}

func TestPasskey_belongsToItsHost(t *testing.T) {
	s := newSetting(t)
	ana := passkey.Account{ID: "1", Name: "ana"}
	s.register(t, &ana, newDevice(t))
	_, err := s.BeginLogin("https://landfall.example.org:8090", ana)
	require.ErrorIs(t, err, passkey.ErrNone)
	_, err = s.BeginLogin("https://LANDFALL.example.com", ana)
	require.NoError(t, err, "another port of the same host")
}

func TestPasskey_registrationElsewhere(t *testing.T) {
	s := newSetting(t)
	ana := passkey.Account{ID: "1", Name: "ana"}
	begun, err := s.BeginRegistration(origin, ana)
	require.NoError(t, err)
	_, err = s.FinishRegistration(ana, begun.State, "", newDevice(t).create(t, "https://evil.example.com",
		begun.Options))
	require.ErrorContains(t, err, "the passkey was not accepted")
	_, err = s.FinishRegistration(passkey.Account{ID: "2"}, begun.State, "", newDevice(t).create(t, origin,
		begun.Options))
	require.ErrorIs(t, err, loginstate.ErrForeign)
	made, err := s.FinishRegistration(ana, begun.State, strings.Repeat("a", 1000)+"\n",
		newDevice(t).create(t, origin, begun.Options))
	require.NoError(t, err)
	require.Less(t, len(made.Label), 120)
	_, err = s.FinishRegistration(ana, begun.State, "", newDevice(t).create(t, origin, begun.Options))
	require.ErrorIs(t, err, loginstate.ErrSpent)
}

func TestHost(t *testing.T) {
	for origin, want := range map[string]string{
		"https://landfall.example.com":  "landfall.example.com",
		"https://Landfall.example.com.": "landfall.example.com",
		"http://localhost:8090":         "localhost",
	} {
		host, err := passkey.Host(origin)
		require.NoError(t, err)
		require.Equal(t, want, host)
	}
	for origin, want := range map[string]string{
		"https://192.0.2.10:8090":     "passkeys need a DNS name, and the page is open at the IP address 192.0.2.10",
		"https://[2001:db8::1]:8090":  "the page is open at the IP address 2001:db8::1",
		"https://landfall:8090":       "passkeys need a full DNS name, such as landfall.example.com, and the page",
		"http://landfall.example.com": "passkeys need TLS; open the page at https://landfall.example.com",
		"":                            "is not the origin of a page",
		"https://a/path":              "is not the origin of a page",
		"null":                        "is not the origin of a page",
	} {
		_, err := passkey.Host(origin)
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		s := newSetting(t)
		_, err = s.BeginRegistration(origin, passkey.Account{ID: "1", Name: "ana"})
		require.ErrorContains(t, err, want)
		_, err = s.BeginLogin(origin, passkey.Account{ID: "1", Name: "ana"})
		require.ErrorContains(t, err, want)
	}
}

func FuzzFinishLogin_answer(f *testing.F) {
	s := setting{clock: clockwork.NewFakeClock()}
	var err error
	s.Passkeys, err = passkey.New(s.clock)
	require.NoError(f, err)
	f.Add([]byte(`{"id":"AAAA","rawId":"AAAA","type":"public-key","response":{}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		ana := passkey.Account{ID: "1", Name: "ana"}
		d := newDevice(t)
		s.register(t, &ana, d)
		begun, err := s.BeginLogin(origin, ana)
		require.NoError(t, err)
		_, err = s.FinishLogin(ana, begun.State, answer)
		require.Error(t, err)
		registration, err := s.BeginRegistration(origin, ana)
		require.NoError(t, err)
		_, err = s.FinishRegistration(ana, registration.State, "", answer)
		require.Error(t, err)
	})
}
