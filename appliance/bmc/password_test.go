package bmc

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
)

// A stored password must not go to a person who changes the BMC's address.
func TestPassword_removedWithTheAddress(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	s.await("n1", func(server *Server) bool { return server.CredentialsGood })
	var connections atomic.Int32
	attacker := httptest.NewUnstartedServer(http.NotFoundHandler())
	attacker.Config.ConnState = func(net.Conn, http.ConnState) { connections.Add(1) }
	attacker.Start()
	t.Cleanup(attacker.Close)
	redirect := func(d Desired) (Desired, error) {
		d.Address = "redfish+" + attacker.URL
		return d, nil
	}
	server, err := s.manager.Change(bg, "n1", nil, redirect)
	require.NoError(t, err)
	require.True(t, server.PasswordRemoved)
	require.Contains(t, server.Error.Message, "enter the password again")
	require.Equal(t, "It waits for the password of its BMC.", server.Activity)
	_, err = s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err)
	server, err = s.manager.Change(bg, "n1", nil, func(d Desired) (Desired, error) {
		d.BootMode = "UEFI"
		return d, nil
	})
	require.NoError(t, err)
	require.True(t, server.PasswordRemoved, "another change does not restore it")

	password := desired(b).Password
	server, err = s.manager.Change(bg, "n1", &password, func(d Desired) (Desired, error) {
		d.Address = desired(b).Address
		return d, nil
	})
	require.NoError(t, err)
	require.False(t, server.PasswordRemoved)
	s.await("n1", func(server *Server) bool { return server.CredentialsGood && server.Error == nil })
	require.Zero(t, connections.Load())
}

func TestPassword_removedWithTheVerification(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	for name, change := range map[string]func(*Desired){
		"no verification": func(d *Desired) { d.SkipVerify = true },
		"another CA":      func(d *Desired) { d.CA = testCA(t) },
		"another port":    func(d *Desired) { d.Address = "redfish+http://127.0.0.1:1" },
		"another scheme":  func(d *Desired) { d.Address = "redfish://127.0.0.1" },
	} {
		t.Run(name, func(t *testing.T) {
			before := desired(b)
			after := before
			change(&after)
			require.True(t, before.otherServer(after))
		})
	}
	same := desired(b)
	same.Name, same.Username, same.BootMode = "n9", "admin", "legacy"
	require.False(t, desired(b).otherServer(same))
}

func testCA(t *testing.T) string {
	t.Helper()
	return "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
}

func TestHide_shortPasswordsAsWholeWords(t *testing.T) {
	for _, c := range []struct{ text, password, hidden string }{
		{"user root, password abc, label abcdef", "abc", "user root, password (hidden), label abcdef"},
		{`{"PowerState":"On","Boot":{"BootSourceOverrideTarget":"None"}}`, "o",
			`{"PowerState":"On","Boot":{"BootSourceOverrideTarget":"None"}}`},
		{"a-b_a a.", "a", "(hidden)-b_a (hidden)."},
		{"xhunter22hunter22", "hunter22", "x(hidden)(hidden)"},
		{base64.StdEncoding.EncodeToString([]byte("calvin")), "calvin", "(hidden)"},
	} {
		require.Equal(t, c.hidden, redact(c.text, c.password), c.text)
	}
}

// The word of a short password is an ordinary word in answers to requests without it.
func TestRecorder_shortPasswordHidesNoWords(t *testing.T) {
	r := &recorder{password: "root"}
	require.Equal(t, "the role of root", r.redact("the role of root"))
	r.carried = true
	require.Equal(t, "wrong password (hidden)", r.redact("wrong password root"))
}

func TestRequestLog_answersOfStrangers(t *testing.T) {
	s := newTestSite(t)
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", "inside")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("the key of the inner service is 4711"))
	}))
	t.Cleanup(inside.Close)
	_, err := s.manager.Ensure(bg, "n1", Desired{Name: "n1", Address: "redfish+" + inside.URL, Username: "root",
		Password: "calvin"})
	require.NoError(t, err)
	server := s.await("n1", func(server *Server) bool { return server.Error != nil })
	require.NotContains(t, server.Error.Message, "4711")
	logs, err := s.manager.RequestLogs("n1")
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	require.True(t, logs[0].Stranger)
	require.Empty(t, logs[0].Exchanges[0].Error)
	require.Contains(t, logs[0].Exchanges[0].Response, "4711", "for administrators")
	for _, exchange := range logs[0].WithoutAnswers().Exchanges {
		require.NotContains(t, exchange.Response, "4711")
		require.Empty(t, exchange.ResponseHeaders)
	}
	require.Contains(t, logs[0].Exchanges[0].Response, "4711", "the original is unchanged")
}

// A BMC may lock the account after a few wrong passwords, so the appliance does not try them often.
// New credentials, the order of an inspection, and the same password given again are tried at once.
func TestPassword_fewAttempts(t *testing.T) {
	s, clock := newIdleSite(t), clockwork.NewFakeClock()
	b := s.startBMC("generic", redfish.WrongPassword)
	s.manager.clock = clock
	logins := func() int {
		return strings.Count(strings.Join(b.Requests(), "\n"), "POST /redfish/v1/SessionService/Sessions")
	}
	s.ensure(b, nil)
	w := &worker{m: s.manager, id: "n1"}
	w.runNext(t.Context())
	for _, expected := range []time.Duration{time.Minute, 15 * time.Minute, time.Hour, time.Hour} {
		tried := logins()
		wait, _ := w.runNext(t.Context())
		require.Equal(t, expected, wait)
		require.Equal(t, tried, logins())
		clock.Advance(wait)
		w.runNext(t.Context())
		require.Equal(t, tried+1, logins())
	}
	atOnce := func(order func(), next time.Duration) {
		tried := logins()
		order()
		w.runNext(t.Context())
		require.Equal(t, tried+1, logins())
		wait, _ := w.runNext(t.Context())
		require.Equal(t, next, wait)
	}
	atOnce(func() {
		_, err := s.manager.RequestAction(bg, "n1", ActionInspect)
		require.NoError(t, err)
	}, time.Hour)
	same := func(d Desired) (Desired, error) { return d, nil }
	atOnce(func() {
		password := secret
		_, err := s.manager.Change(bg, "n1", &password, same)
		require.NoError(t, err)
	}, time.Hour)
	tried := logins()
	_, err := s.manager.Change(bg, "n1", nil, same)
	require.NoError(t, err)
	s.ensure(b, nil) // a BareMetalHost repeats its desired state
	wait, _ := w.runNext(t.Context())
	require.Equal(t, time.Hour, wait)
	require.Equal(t, tried, logins())
	atOnce(func() { s.ensure(b, func(d *Desired) { d.Password = "another" }) }, time.Minute)
}

// A BMC without a free session has not rejected the credentials.
func TestPassword_noFreeSession(t *testing.T) {
	s, clock := newIdleSite(t), clockwork.NewFakeClock()
	s.manager.clock = clock
	full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redfish/v1/" {
			_, _ = w.Write([]byte(`{"Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}}}`))
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error": {"code": "RAC0218", "message": "The maximum number of user sessions is ` +
			`reached."}}`))
	}))
	t.Cleanup(full.Close)
	_, err := s.manager.Ensure(bg, "n1", Desired{Name: "n1", Address: addressOf(full.URL), Username: operator,
		Password: secret})
	require.NoError(t, err)
	w := &worker{m: s.manager, id: "n1"}
	for _, expected := range []time.Duration{minBackoff, 2 * minBackoff} {
		w.runNext(t.Context())
		r, err := s.manager.load("n1")
		require.NoError(t, err)
		require.Contains(t, r.Error.Message, "has no free session")
		require.Zero(t, r.Rejections)
		wait, _ := w.runNext(t.Context())
		require.Equal(t, expected, wait)
		clock.Advance(wait)
	}
}
