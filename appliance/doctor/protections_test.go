package doctor

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/audittrail"
	"landfall/appliance/authority"
	"landfall/appliance/keyring"
	"landfall/appliance/sandbox"
	"landfall/appliance/sitekey"
	"landfall/appliance/storage"
	"landfall/store"
)

// newProtections returns the protections of an appliance with TLS that listens on an address.
func newProtections(t *testing.T, address string, log *bytes.Buffer) *Protections {
	t.Helper()
	dir, clock := t.TempDir(), clockwork.NewFakeClockAt(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	logger := slog.New(slog.NewTextHandler(log, nil))
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true, Clock: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	keys := keyring.New(dir, keyring.Options{})
	_, err = keys.Open(false)
	require.NoError(t, err)
	trail, err := audittrail.Open(audittrail.Options{Dir: dir + "/audit", Key: key, DB: db, Logger: logger})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, trail.Close()) })
	box, err := key.Box(authority.Purpose, nil)
	require.NoError(t, err)
	own, err := authority.LoadOrCreate(dir, box)
	require.NoError(t, err)
	certificates, err := authority.NewCertificates(authority.Options{Authority: own, Clock: clock, Logger: logger})
	require.NoError(t, err)
	restricted, err := sandbox.New(sandbox.Options{Dir: t.TempDir(), Logger: logger})
	require.NoError(t, err)
	listener, err := net.ResolveTCPAddr("tcp", address)
	require.NoError(t, err)
	return &Protections{Listener: Listener{Address: listener, Authenticates: true}, TLS: true, Sandbox: restricted,
		Keys: keys, Certificates: certificates, Trail: trail, Storage: storage.NewUsage(dir, clock),
		Clock: clock, Logger: logger}
}

// finding returns the finding about a subject.
func finding(t *testing.T, findings []Finding, subject string) Finding {
	t.Helper()
	for _, f := range findings {
		require.Equal(t, Protection, f.Area)
		if f.Subject == subject {
			return f
		}
	}
	require.Fail(t, "no finding", subject)
	return Finding{}
}

func TestProtections_accountsAndTLS(t *testing.T) {
	for name, c := range map[string]struct {
		address            string
		authenticates, tls bool
		accounts, line     Status
	}{
		"protected":             {"0.0.0.0:8090", true, true, Green, Green},
		"open to the network":   {"0.0.0.0:8090", false, true, Red, Green},
		"open on one address":   {"192.0.2.10:8090", false, false, Red, Amber},
		"open on all addresses": {"[::]:8090", false, false, Red, Amber},
		"clear":                 {"192.0.2.10:8090", true, false, Green, Amber},
		"demo":                  {"127.0.0.1:8090", false, false, Green, Green},
		"demo with IPv6":        {"[::1]:8090", false, false, Green, Green},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProtections(t, c.address, new(bytes.Buffer))
			p.Authenticates, p.TLS = c.authenticates, c.tls
			findings := p.Findings()
			for subject, status := range map[string]Status{"accounts": c.accounts, "TLS": c.line} {
				found := finding(t, findings, subject)
				require.Equal(t, status, found.Status, found)
				require.Equal(t, status == Green, found.Advice == "", found)
			}
		})
	}
}

// lineWriter sends each line of a log to a channel.
type lineWriter struct{ lines chan<- string }

func (w lineWriter) Write(line []byte) (int, error) {
	w.lines <- string(line)
	return len(line), nil
}

func TestProtections_warnsEachHour(t *testing.T) {
	p := newProtections(t, "0.0.0.0:8090", new(bytes.Buffer))
	p.Authenticates = false
	clock := p.Clock.(*clockwork.FakeClock)
	lines := make(chan string, 8)
	p.Logger = slog.New(slog.NewTextHandler(lineWriter{lines}, nil))
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(running) }()
	require.Contains(t, <-lines, "level=WARN")
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	clock.Advance(time.Hour)
	require.Contains(t, <-lines, "Set auth to local")
	stop()
	require.NoError(t, <-ended)

	p.Address = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8090}
	require.NoError(t, p.Run(t.Context()), "an appliance that only this machine reaches needs no warning")
	require.Empty(t, lines)
}

func TestListener_reach(t *testing.T) {
	address := func(text string) net.Addr {
		bound, err := net.ResolveTCPAddr("tcp", text)
		require.NoError(t, err)
		return bound
	}
	all := Listener{Address: address("0.0.0.0:8090"), Authenticates: true}
	require.False(t, all.IsLocal())
	const own = "https://127.0.0.1:9000"
	require.Equal(t, Green, all.reach("https://192.0.2.10:8090", false).Status)
	require.False(t, Listener{}.IsLocal())
	local := Listener{Address: address("127.0.0.1:9000"), Authenticates: true}
	require.Equal(t, Finding{Area: Addresses, Subject: "the appliance", Status: Red,
		Check:  "whether hosts can reach it",
		Result: "it listens on 127.0.0.1:9000, which only this machine reaches",
		Advice: "Set listen to 0.0.0.0:9000 in the configuration file (or LANDFALL_LISTEN, or the flag --listen), " +
			"and restart the appliance."}, local.reach(own, false))
	require.Equal(t, Amber, local.reach(own, true).Status)
	proxied := local.reach("https://landfall.site.test", false)
	require.Equal(t, Green, proxied.Status)
	require.Contains(t, proxied.Result, "through a proxy at https://landfall.site.test")
	require.NotContains(t, local.Advice(), "auth")
	local = Listener{Address: address("[::1]:9000")}
	require.True(t, local.IsLocal())
	require.Contains(t, local.Advice(), "Set auth to local as well")
}

func TestProtections_others(t *testing.T) {
	p := newProtections(t, "0.0.0.0:8090", new(bytes.Buffer))
	findings := p.Diagnose(t.Context())
	require.Contains(t, finding(t, findings, "data key").Result, "a key file")
	box := finding(t, findings, "sandbox")
	require.Contains(t, box.Result, "limits")
	require.Equal(t, strings.Contains(box.Result, "missing"), box.Status == Amber)
	require.Equal(t, Green, finding(t, findings, "the appliance's authority").Status)
	require.Equal(t, Green, finding(t, findings, "audit trail").Status)
	require.Contains(t, finding(t, findings, "disk space").Result, "GiB are free")
	require.Contains(t, findings[len(findings)-1].Result, "records are intact")
}

func TestProtections_certificateEnds(t *testing.T) {
	p := newProtections(t, "0.0.0.0:8090", new(bytes.Buffer))
	until := p.Certificates.Validities()[0].Until
	for _, c := range []struct {
		at     time.Time
		status Status
	}{{until.Add(-endsSoon), Green}, {until.Add(-endsSoon + time.Second), Amber}, {until, Red}} {
		p.Clock = clockwork.NewFakeClockAt(c.at)
		found := finding(t, p.Findings(), "the appliance's authority")
		require.Equal(t, c.status, found.Status)
		require.Equal(t, c.status != Green, found.Advice != "")
	}
}

func TestProtections_certificateNotYetValid(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	v := authority.Validity{Subject: "the certificate in tls.cert_file", From: now.Add(time.Hour),
		Until: now.AddDate(1, 0, 0), Remedy: "Replace the files."}
	found := validity(v, now)
	require.Equal(t, Red, found.Status)
	require.Contains(t, found.Result, "valid from 2026-03-01 13:00 UTC on")
	require.Contains(t, found.Advice, "Correct the clock")
	require.Equal(t, Green, validity(v, v.From).Status)
}

func TestProtections_certificateNotRenewed(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	v := authority.Validity{Subject: "the certificate for a.example", Until: now.AddDate(0, 0, 10), Renewed: true,
		Remedy: "Check the CA."}
	require.Equal(t, Green, validity(v, now).Status, "the appliance will renew it")
	v.Late = true
	found := validity(v, now)
	require.Equal(t, Amber, found.Status)
	require.Equal(t, "until 2026-03-11, and it should have been renewed before now", found.Result)
	require.Equal(t, v.Remedy, found.Advice)
	require.Equal(t, Red, validity(v, v.Until).Status)
}
