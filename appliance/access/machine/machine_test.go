package machine_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/machine"
	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
)

const (
	ours    = "11111111-1111-4111-8111-111111111111"
	another = "22222222-2222-4222-8222-222222222222"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// site is an appliance with infra-envs and a clock.
type site struct {
	testing.TB
	*machine.Verifier
	issuer *machine.Issuer
	keys   map[string]*machine.Keys
	clock  *clockwork.FakeClock
	reads  int
}

func newSite(t testing.TB, infraEnvs ...string) *site {
	t.Helper()
	s := &site{TB: t, keys: make(map[string]*machine.Keys), clock: clockwork.NewFakeClockAt(start)}
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	s.issuer, err = machine.NewIssuer(key, nil)
	require.NoError(t, err)
	for _, id := range infraEnvs {
		s.keys[id] = &machine.Keys{Current: s.newKey(id)}
	}
	s.Verifier = machine.NewVerifier(s.issuer, func(id string) (machine.Keys, error) {
		s.reads++
		if keys, ok := s.keys[id]; ok {
			return *keys, nil
		}
		return machine.Keys{}, fault.New(fault.NotFound, "There is no infra-env %s.", id)
	}, s.clock)
	return s
}

func (s *site) newKey(infraEnvID string) *machine.Key {
	s.Helper()
	key, err := s.issuer.NewKey(infraEnvID, s.clock.Now())
	require.NoError(s, err)
	return key
}

func (s *site) token(id string, use machine.Use) string {
	s.Helper()
	token, err := s.issuer.Token(s.keys[id], id, use)
	require.NoError(s, err)
	return token
}

func (s *site) accepts(token string) {
	s.Helper()
	identity, err := s.Verify(token)
	require.NoError(s, err)
	require.Equal(s, access.Identity{Kind: access.Agent, InfraEnv: ours}, identity)
}

// refuses requires that a token is refused with a kind of error.
func (s *site) refuses(token string, kind fault.Kind, contains string) {
	s.Helper()
	identity, err := s.Verify(token)
	require.ErrorContains(s, err, contains)
	require.Equal(s, kind, fault.KindOf(err), err)
	require.Zero(s, identity)
	var refusal *machine.Refusal
	require.ErrorAs(s, err, &refusal)
}

func part(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// sign signs any header and claims with a key, as an attacker with that key does.
func sign(t testing.TB, pair *ecdsa.PrivateKey, header, claims string) string {
	t.Helper()
	text := part(header) + "." + part(claims)
	digest := sha256.Sum256([]byte(text))
	coded, err := pair.Sign(rand.Reader, digest[:], crypto.SHA256)
	require.NoError(t, err)
	var points struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(coded, &points)
	require.NoError(t, err)
	signature := make([]byte, 64)
	points.R.FillBytes(signature[:32])
	points.S.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// pairOf returns the private key of an infra-env.
func (s *site) pairOf(id string) *ecdsa.PrivateKey {
	s.Helper()
	scalar, err := base64.RawStdEncoding.DecodeString(s.keys[id].Current.Private)
	require.NoError(s, err)
	pair, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	require.NoError(s, err)
	return pair
}

func TestVerifier_acceptsOwnToken(t *testing.T) {
	s := newSite(t, ours, another)
	token := s.token(ours, machine.ForAgent)
	s.accepts(token)
	s.accepts(token)
	require.Equal(t, 1, s.reads, "a verified token needs no row")
	require.Less(t, len(token), 400)
	require.Equal(t, token, s.token(ours, machine.ForAgent), "the signature is deterministic")
	require.NotEqual(t, token, s.token(another, machine.ForAgent))
}

// TestVerifier_foreignTokens goes through tokens that can never become valid. An agent stops at
// 401.
func TestVerifier_foreignTokens(t *testing.T) {
	s := newSite(t, ours, another)
	good := s.token(ours, machine.ForAgent)
	parts := strings.Split(good, ".")
	id := s.keys[ours].Current.ID
	header, claims := fmt.Sprintf(`{"alg":"ES256","kid":%q,"typ":"JWT"}`, id), fmt.Sprintf(`{"infra_env_id":%q}`, ours)
	pair := s.pairOf(ours)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	large, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	mac := hmac.New(sha256.New, s.keys[ours].Current.Public)
	hs256 := part(fmt.Sprintf(`{"alg":"HS256","kid":%q,"typ":"JWT"}`, id)) + "." + part(claims)
	mac.Write([]byte(hs256))
	require.Equal(t, parts[0], part(header), "the table below alters the token that the appliance signs")
	require.Equal(t, parts[1], part(claims))
	s.accepts(sign(t, pair, header, claims))

	for name, token := range map[string]string{
		"empty":              "",
		"a word":             "token",
		"two parts":          parts[0] + "." + parts[1],
		"four parts":         good + "." + parts[2],
		"no signature":       parts[0] + "." + parts[1] + ".",
		"short signature":    parts[0] + "." + parts[1] + "." + parts[2][:40],
		"zero signature":     parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64)),
		"altered claims":     parts[0] + "." + part(strings.Replace(claims, ours, another, 1)) + "." + parts[2],
		"altered signature":  parts[0] + "." + parts[1] + "." + flip(parts[2]),
		"another's key":      sign(t, s.pairOf(another), header, claims),
		"a stranger's key":   sign(t, stranger, header, claims),
		"another site's":     newSite(t, ours).token(ours, machine.ForAgent),
		"unknown infra-env":  newSite(t, another).token(another, machine.ForAgent),
		"without a key id":   sign(t, stranger, `{"alg":"ES256","typ":"JWT"}`, claims),
		"alg none":           part(fmt.Sprintf(`{"alg":"none","kid":%q,"typ":"JWT"}`, id)) + "." + parts[1] + ".",
		"alg none, signed":   sign(t, pair, `{"alg":"none","kid":"`+id+`","typ":"JWT"}`, claims),
		"alg None":           sign(t, pair, `{"alg":"None","kid":"`+id+`","typ":"JWT"}`, claims),
		"alg HS256":          hs256 + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)),
		"alg ES384":          sign(t, pair, `{"alg":"ES384","kid":"`+id+`","typ":"JWT"}`, claims),
		"another curve":      signWith384(t, large, header, claims),
		"an own key in jwk":  sign(t, stranger, `{"alg":"ES256","kid":"`+id+`","typ":"JWT","jwk":{}}`, claims),
		"critical extension": sign(t, pair, `{"alg":"ES256","kid":"`+id+`","typ":"JWT","crit":["exp"]}`, claims),
		"no infra-env":       sign(t, pair, header, `{}`),
		"a cluster":          sign(t, pair, header, `{"cluster_id":"`+ours+`"}`),
		"a name":             sign(t, pair, header, `{"infra_env_id":"site"}`),
		"a path":             sign(t, pair, header, `{"infra_env_id":"`+ours+`/x"}`),
		"a person's subject": sign(t, pair, header, `{"sub":"`+ours+`"}`),
		"expired":            sign(t, pair, header, `{"infra_env_id":"`+ours+`","exp":1}`),
		"not yet valid":      sign(t, pair, header, `{"infra_env_id":"`+ours+`","nbf":99999999999}`),
		"for images":         s.token(ours, machine.ForImage),
		"for persons":        sign(t, pair, header, `{"auth_scheme":"userAuth","infra_env_id":"`+ours+`"}`),
		"two values":         sign(t, pair, header, claims+claims),
		"not JSON":           sign(t, pair, header, `infra_env_id`),
		"padded":             good + "==",
		"with a blank":       " " + good,
		"with a line end":    good + "\n",
		"a megabyte":         parts[0] + "." + parts[1] + "." + strings.Repeat("A", 1<<20),
		"pull secret":        `{"auths":{"cloud.openshift.com":{"auth":"eHg="}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			(&site{TB: t, Verifier: s.Verifier}).refuses(token, fault.Unauthenticated, "The machine is not accepted: ")
		})
	}
}

// TestVerifier_temporaryRefusals goes through tokens that may become valid again. An agent repeats
// its request after 503.
func TestVerifier_temporaryRefusals(t *testing.T) {
	s := newSite(t, ours)
	token := s.token(ours, machine.ForAgent)
	keys := s.keys[ours]
	t.Run("missing infra-env", func(t *testing.T) {
		delete(s.keys, ours)
		s.refuses(token, fault.Unavailable, "restore the latest backup")
		s.keys[ours] = keys
		s.accepts(token)
	})
	t.Run("key of a later backup", func(t *testing.T) {
		s.keys[ours] = &machine.Keys{Current: s.newKey(ours)}
		s.Drop(ours)
		s.refuses(token, fault.Unavailable, "restore the latest backup")
		s.keys[ours] = keys
		s.accepts(token)
	})
	t.Run("infra-env without keys", func(t *testing.T) {
		s.keys[ours] = &machine.Keys{}
		s.Drop(ours)
		s.refuses(token, fault.Unavailable, "was deleted")
		s.keys[ours] = keys
	})
	t.Run("clock a year ahead in a renewal", func(t *testing.T) {
		keys.Renew(s.newKey(ours), start.Add(24*time.Hour), start)
		s.Drop(ours)
		s.accepts(token)
		s.clock.Advance(365 * 24 * time.Hour)
		s.refuses(token, fault.Unavailable, "check the clock")
		s.clock.Advance(-365 * 24 * time.Hour)
		s.accepts(token)
	})
	t.Run("failure of the store", func(t *testing.T) {
		broken := errors.New("disk error")
		v := machine.NewVerifier(s.issuer, func(string) (machine.Keys, error) {
			return machine.Keys{}, broken
		}, s.clock)
		_, err := v.Verify(token)
		require.ErrorIs(t, err, broken)
		require.Zero(t, fault.KindOf(err), "a failure is an internal error, which agents survive")
	})
}

// TestVerifier_anyClock verifies tokens while the clock is wrong by years: they contain no times.
func TestVerifier_anyClock(t *testing.T) {
	for name, now := range map[string]time.Time{"1970": time.Unix(0, 0), "a year ahead": start.AddDate(1, 0, 0)} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, ours)
			token := s.token(ours, machine.ForAgent)
			s.accepts(token)
			s.clock.Advance(now.Sub(start))
			s.accepts(token)
			s.Drop(ours)
			s.accepts(token)
			key := s.newKey(ours)
			s.keys[ours].Renew(key, now.Add(time.Hour), now)
			s.Drop(ours)
			s.accepts(token)
			s.accepts(s.token(ours, machine.ForAgent))
			s.clock.Advance(time.Hour)
			s.refuses(token, fault.Unavailable, "was renewed")
		})
	}
}

func TestKeys_renewalHasGraceTime(t *testing.T) {
	s := newSite(t, ours)
	first, image := s.token(ours, machine.ForAgent), s.token(ours, machine.ForImage)
	s.accepts(first)
	id, err := s.VerifyImage(image)
	require.NoError(t, err)
	require.Equal(t, ours, id)

	s.keys[ours].Renew(s.newKey(ours), start.Add(time.Hour), start)
	s.Drop(ours)
	second := s.token(ours, machine.ForAgent)
	require.NotEqual(t, first, second)
	s.accepts(first)
	s.accepts(second)
	_, err = s.VerifyImage(image)
	require.ErrorContains(t, err, "the image URL was renewed", "image URLs have no grace time")

	s.clock.Advance(time.Hour - time.Second)
	s.accepts(first)
	s.clock.Advance(time.Second)
	s.refuses(first, fault.Unavailable, "was renewed")
	s.accepts(second)

	s.keys[ours].Renew(s.newKey(ours), s.clock.Now().Add(time.Hour), s.clock.Now())
	require.Len(t, s.keys[ours].Retired, 1, "a renewal drops keys whose grace time is over")
}

func TestKeys_revocationIsImmediate(t *testing.T) {
	s := newSite(t, ours)
	first := s.token(ours, machine.ForAgent)
	s.keys[ours].Renew(s.newKey(ours), start.Add(time.Hour), start)
	second, image := s.token(ours, machine.ForAgent), s.token(ours, machine.ForImage)
	s.accepts(first)
	s.accepts(second)
	s.keys[ours].AcceptTokenless(start, start.Add(time.Hour))
	s.keys[ours].Revoke(s.newKey(ours))
	s.Drop(ours)
	s.refuses(first, fault.Unauthenticated, "was revoked")
	s.refuses(second, fault.Unauthenticated, "was revoked")
	_, err := s.VerifyImage(image)
	require.ErrorContains(t, err, "was revoked")
	s.accepts(s.token(ours, machine.ForAgent))
	require.False(t, s.keys[ours].AcceptsTokenless(start))
}

func TestKeys_acceptTokenlessByTheClock(t *testing.T) {
	var keys machine.Keys
	keys.AcceptTokenless(start, start.Add(time.Hour))
	require.True(t, keys.AcceptsTokenless(start))
	require.False(t, keys.AcceptsTokenless(start.Add(time.Hour)))
	require.False(t, keys.AcceptsTokenless(start.AddDate(-1, 0, 0)), "the clock was a year ahead, and was corrected")
	keys = machine.Keys{TokenlessUntil: start.Add(time.Hour)}
	require.True(t, keys.AcceptsTokenless(start), "stored without a begin by an older release")
}

func TestKeys_manyRevocationsAreBounded(t *testing.T) {
	s := newSite(t, ours)
	for range 100 {
		s.keys[ours].Revoke(s.newKey(ours))
	}
	require.Len(t, s.keys[ours].Revoked, 64)
}

func TestVerifier_cacheIsBounded(t *testing.T) {
	s := newSite(t)
	for i := range 5000 {
		id := fmt.Sprintf("11111111-1111-4111-8111-%012d", i)
		s.keys[id] = &machine.Keys{Current: s.newKey(id)}
		_, err := s.Verify(s.token(id, machine.ForAgent))
		require.NoError(t, err)
	}
	s.keys[ours] = &machine.Keys{Current: s.newKey(ours)}
	token, reads := s.token(ours, machine.ForAgent), s.reads
	s.accepts(token)
	s.accepts(token)
	require.Equal(t, reads+1, s.reads)
}

func FuzzVerifier_neverAcceptsOthers(f *testing.F) {
	s := newSite(f, ours)
	good := s.token(ours, machine.ForAgent)
	f.Add(good)
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := s.Verify(token); err == nil && token != good {
			t.Errorf("accepted %q", token)
		}
	})
}

// BenchmarkVerify measures the check of a known token. The limit is 5 µs.
func BenchmarkVerify(b *testing.B) {
	s := newSite(b, ours)
	token := s.token(ours, machine.ForAgent)
	s.accepts(token)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Verify(token); err != nil {
			b.Fatal(err)
		}
	}
}

func flip(signature string) string {
	raw, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		panic(err)
	}
	raw[10] ^= 1
	return base64.RawURLEncoding.EncodeToString(raw)
}

func signWith384(t *testing.T, pair *ecdsa.PrivateKey, header, claims string) string {
	t.Helper()
	text := part(header) + "." + part(claims)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, pair, digest[:])
	require.NoError(t, err)
	signature := make([]byte, 96)
	r.FillBytes(signature[:48])
	s.FillBytes(signature[48:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}
