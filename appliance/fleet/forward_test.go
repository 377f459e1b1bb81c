package fleet_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
	"landfall/appliance/fleet/forwarding"
	"landfall/appliance/sitekey"
)

// leader is a member whose handler stands for the appliance.
type leader struct {
	*httptest.Server
	name  string
	front *fleet.Front
	boots atomic.Int32 // requests at the boot listener
}

func newLeader(t testing.TB, key *sitekey.Key, name string, main http.HandlerFunc) *leader {
	t.Helper()
	return newFormerLeader(t, key, name, func() bool { return true }, main)
}

// newFormerLeader returns a member that leads as long as leads says so.
func newFormerLeader(t testing.TB, key *sitekey.Key, name string, leads func() bool, main http.HandlerFunc) *leader {
	t.Helper()
	l := &leader{name: name, front: &fleet.Front{Leads: leads, Refuse: refuse, Peers: fleet.Peers{Refuse: refuse,
		Condition: func([]string) fleet.Condition { return fleet.Condition{Leads: leads()} }, Logger: quiet()}}}
	boot := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.boots.Add(1)
		main(w, r)
	})
	others := func(fleet.Listener) http.Handler { return boot }
	l.Server = serve(t, credential(t, key, name), l.front.Wrap(main, others, nil, nil, nil, func(netip.Addr) {}))
	return l
}

func (l *leader) peer() fleet.Peer { return fleet.Peer{Name: l.name, URL: l.URL} }

// follower is a member that forwards requests.
type follower struct {
	*fleet.Forwarder
	main, boot *httptest.Server
}

func newFollower(t testing.TB, key *sitekey.Key, wait time.Duration) *follower {
	t.Helper()
	own := credential(t, key, "follower")
	hosts := func(header string) bool { return header == "follower.site.test" }
	f := &follower{Forwarder: fleet.NewForwarder(own, wait, hosts, refuse, quiet())}
	t.Cleanup(f.Close)
	behind := &fleet.Behind{Forwarder: f.Forwarder, Peers: http.NotFoundHandler(),
		Own: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/livez" {
				_, _ = io.WriteString(w, "alive") // the client reads it
			}
			return r.URL.Path == "/livez"
		}}
	f.main = serve(t, own, behind.Handler(fleet.Main))
	f.boot = httptest.NewServer(behind.Handler(fleet.Boot))
	t.Cleanup(f.boot.Close)
	return f
}

// client returns a client of the members' listeners.
func client(t *testing.T, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	through := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}
	t.Cleanup(through.CloseIdleConnections)
	return &http.Client{Transport: through}
}

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return ask(t, client, request)
}

func ask(t *testing.T, client *http.Client, request *http.Request) (int, string) {
	t.Helper()
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

// describe answers with what the appliance sees of a request.
func describe(w http.ResponseWriter, r *http.Request) {
	client, _, _ := net.SplitHostPort(r.RemoteAddr)
	line, certificate := "plain", ""
	if r.TLS != nil {
		line = "tls"
		for _, presented := range r.TLS.PeerCertificates {
			certificate = " of " + presented.Subject.CommonName
		}
	}
	if local := r.Context().Value(http.LocalAddrContextKey); forwarding.Of(r.Context()).Member != "" && local != nil {
		line += " with an address of the leader" // the client used none
	}
	fmt.Fprintf(w, "%s %s%s %s%s %s through %q", client, line, certificate, r.Host, r.RequestURI,
		r.Header.Get("Landfall-Fleet-Client"), forwarding.Of(r.Context()).Member)
}

func TestForward_appliesToClientOfFollower(t *testing.T) {
	key := newKey(t)
	to, f := newLeader(t, key, "leader", describe), newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	host := strings.TrimPrefix(f.main.URL, "https://")

	_, seen := get(t, client(t), f.main.URL+"/a%2Fb?x=1;2&y")
	require.Equal(t, fmt.Sprintf(`127.0.0.1 tls %s/a%%2Fb?x=1;2&y  through "follower"`, host), seen)
	_, seen = get(t, client(t, selfSigned(t, "program")), f.main.URL+"/")
	require.Contains(t, seen, "tls of program")
	_, seen = get(t, f.boot.Client(), f.boot.URL+"/image")
	require.Contains(t, seen, "127.0.0.1 plain")
	require.EqualValues(t, 1, to.boots.Load(), "a request at the boot listener arrives at the boot listener")
	_, seen = get(t, client(t), f.main.URL+"/livez")
	require.Equal(t, "alive", seen)
}

func TestForward_namesOfTheFollower(t *testing.T) {
	key := newKey(t)
	to, f := newLeader(t, key, "leader", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, forwarding.Of(r.Context()).Addressed, r.Header.Get("Landfall-Fleet-Addressed"))
	}), newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	seen := func(at, host string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		require.NoError(t, err)
		request.Host = host
		request.Header.Set("Landfall-Fleet-Addressed", "true")
		_, text := ask(t, client(t), request)
		return text
	}
	require.Equal(t, "true", seen(f.main.URL, "follower.site.test"))
	require.Equal(t, "false", seen(f.main.URL, "evil.example.net"))
	require.Equal(t, "falsetrue", seen(to.URL, "follower.site.test"), "the header of a client has no meaning")
}

func TestForward_leaderAdmitsClients(t *testing.T) {
	key := newKey(t)
	to, f := newLeader(t, key, "leader", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead || r.Host != "localhost" || r.URL.Path != "/metrics" ||
			r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}), newFollower(t, key, time.Minute)
	asks := func(token string) bool {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", strings.NewReader("ignored"))
		r.Header.Set("Authorization", "Bearer "+token)
		return f.Admits(r)
	}
	f.Lead(to.peer())
	require.True(t, asks("secret"))
	require.False(t, asks("other"))
	to.Close()
	require.False(t, asks("secret"), "a leader that does not answer admits nobody")
}

// A member knows the addresses of the others by their own requests, not by those of their clients.
func TestForward_membersAreKnown(t *testing.T) {
	key := newKey(t)
	var known []netip.Addr
	remember := func(at netip.Addr) { known = append(known, at) }
	peers := fleet.Peers{Refuse: refuse, Condition: func([]string) fleet.Condition { return fleet.Condition{} },
		Logger: quiet()}
	front := &fleet.Front{Leads: func() bool { return true }, Refuse: refuse, Peers: peers}
	leader := serve(t, credential(t, key, "leader"),
		front.Wrap(http.HandlerFunc(describe), nil, nil, nil, nil, remember))
	f := newFollower(t, key, time.Minute)
	f.Lead(fleet.Peer{Name: "leader", URL: leader.URL})
	behind := &fleet.Behind{Forwarder: f.Forwarder, Peers: &peers, Remember: remember,
		Own: func(http.ResponseWriter, *http.Request) bool { return false }}
	follower := serve(t, credential(t, key, "follower"), behind.Handler(fleet.Main))
	other := fleet.NewClient(credential(t, key, "other"), clockwork.NewRealClock())
	t.Cleanup(other.Close)
	for name, at := range map[string]string{"leader": leader.URL, "follower": follower.URL} {
		known = nil
		get(t, client(t), follower.URL)
		get(t, client(t), at+"/fleet/condition")
		require.Empty(t, known, name)
		_, err := other.Condition(t.Context(), fleet.Peer{Name: name, URL: at})
		require.NoError(t, err)
		require.Equal(t, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, known, name)
	}
}

func TestForward_countsChangesOfTheLeader(t *testing.T) {
	f := newFollower(t, newKey(t), time.Minute)
	one, two := fleet.Peer{Name: "one"}, fleet.Peer{Name: "two"}
	for _, step := range []struct {
		leader  fleet.Peer
		changes uint64
	}{{fleet.Peer{}, 0}, {one, 0}, {one, 0}, {two, 1}, {fleet.Peer{}, 1}, {two, 2}} {
		f.Lead(step.leader)
		require.Equal(t, step.changes, f.Changes())
	}
}

func TestForward_doubtIsAboutOneMember(t *testing.T) {
	f := newFollower(t, newKey(t), time.Minute)
	one, two := fleet.Peer{Name: "one"}, fleet.Peer{Name: "two"}
	f.Doubt(one)
	require.False(t, f.Led(), "nobody leads")
	f.Lead(one)
	require.True(t, f.Led())
	f.Doubt(one)
	require.False(t, f.Led())
	f.Lead(one)
	require.True(t, f.Led(), "etcd says that it still leads")
	f.Lead(two)
	f.Doubt(one)
	require.True(t, f.Led(), "the former leader noticed its end when the next one was known")
}

func TestForward_strangersCantPretendToBeMembers(t *testing.T) {
	key := newKey(t)
	to, f := newLeader(t, key, "leader", describe), newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	pretending := func(client *http.Client, url string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		request.Header.Set("Landfall-Fleet-Client", "192.0.2.1:1")
		request.Header.Set("Landfall-Fleet-Listener", "boot")
		answer, err := client.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return string(body)
	}
	require.Contains(t, pretending(client(t), to.URL), "127.0.0.1 tls")
	require.Contains(t, pretending(client(t), f.main.URL), "127.0.0.1 tls")
	require.Zero(t, to.boots.Load())

	other := newFollower(t, newKey(t), 10*time.Millisecond) // of another fleet
	other.Lead(to.peer())
	status, _ := get(t, client(t), other.main.URL)
	require.Equal(t, http.StatusServiceUnavailable, status, "the leader refuses its certificate")
}

func TestForward_streams(t *testing.T) {
	key := newKey(t)
	more := make(chan struct{})
	to := newLeader(t, key, "leader", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			for range 2 {
				fmt.Fprintln(w, "data: event")
				w.(http.Flusher).Flush()
				<-more
			}
		case "/upload":
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		case "/upgrade":
			conn, both, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			line, _ := both.ReadString('\n')
			fmt.Fprint(conn, line)
		}
	})
	f := newFollower(t, key, time.Minute)
	f.Lead(to.peer())

	answer, err := client(t).Get(f.main.URL + "/events")
	require.NoError(t, err)
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for range 2 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "data: event\n", line, "it arrives before the next one is sent")
		more <- struct{}{}
	}

	uploaded, err := client(t).Post(f.main.URL+"/upload", "application/octet-stream",
		bytes.NewReader(make([]byte, 8<<20)))
	require.NoError(t, err)
	defer uploaded.Body.Close()
	text, err := io.ReadAll(uploaded.Body)
	require.NoError(t, err)
	require.Equal(t, "8388608 <nil>", string(text))

	conn, err := net.Dial("tcp", strings.TrimPrefix(f.boot.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	changed, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, changed.StatusCode)
	fmt.Fprintln(conn, "both ways")
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "both ways\n", line)
}

// TestForward_leaderChanges sends a request to a leader that ends in the meantime. A change that it
// may have made is not sent to its successor; one that it has refused is, unless its body is large.
func TestForward_leaderChanges(t *testing.T) {
	type outcome struct {
		status        int
		first, second int // requests that the leaders began to handle
	}
	for name, c := range map[string]struct {
		knows               bool // the first leader knows that it no longer leads
		read, change, large outcome
	}{
		"it was replaced":          {true, outcome{200, 0, 1}, outcome{200, 0, 1}, outcome{503, 0, 0}},
		"it dies while it answers": {false, outcome{200, 1, 1}, outcome{503, 1, 0}, outcome{503, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sent := range []struct {
				method, body string
				want         outcome
			}{
				{http.MethodGet, "", c.read}, {http.MethodPost, "body", c.change},
				{http.MethodPost, strings.Repeat("large", 20_000), c.large},
			} {
				key := newKey(t)
				f := newFollower(t, key, time.Minute)
				got, received := outcome{}, ""
				second := newLeader(t, key, "second", func(_ http.ResponseWriter, r *http.Request) {
					got.second++
					text, err := io.ReadAll(r.Body)
					received = fmt.Sprint(string(text), err)
				})
				first := newFormerLeader(t, key, "first", func() bool {
					f.Lead(second.peer())
					return !c.knows
				}, func(http.ResponseWriter, *http.Request) {
					got.first++
					panic(http.ErrAbortHandler)
				})
				f.Lead(first.peer())
				request, err := http.NewRequestWithContext(t.Context(), sent.method, f.main.URL,
					strings.NewReader(sent.body))
				require.NoError(t, err)
				answer, err := client(t).Do(request)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				got.status = answer.StatusCode
				require.Equal(t, sent.want, got, "%s %.10s", sent.method, sent.body)
				if got.status == http.StatusServiceUnavailable {
					require.Equal(t, "1", answer.Header.Get("Retry-After"))
				} else {
					require.Equal(t, sent.body+"<nil>", received)
				}
			}
		})
	}
}

// TestForward_leaderIsPaused pauses a leader in the middle of a request. When it wakes, another one
// leads, and the first one must not answer with what it read before.
func TestForward_leaderIsPaused(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"text":           func(w http.ResponseWriter) { fmt.Fprint(w, "old") },
		"status":         func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"status of none": func(http.ResponseWriter) {},
		"feed":           func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
		"file":           func(w http.ResponseWriter) { _, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("old")) },
		"connection":     func(w http.ResponseWriter) { _, _, _ = http.NewResponseController(w).Hijack() },
	} {
		t.Run(name, func(t *testing.T) {
			key := newKey(t)
			f := newFollower(t, key, time.Minute)
			second := newLeader(t, key, "second", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "new") })
			var paused atomic.Bool
			first := newFormerLeader(t, key, "first", func() bool { return !paused.Load() },
				func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("ETag", "old")
					paused.Store(true)
					f.Lead(second.peer())
					answer(w)
				})
			ask := func(method, url string) (*http.Response, string) {
				paused.Store(false)
				f.Lead(first.peer())
				request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
				require.NoError(t, err)
				answer, err := client(t).Do(request)
				require.NoError(t, err)
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				require.Empty(t, answer.Header.Get("ETag"))
				return answer, string(text)
			}
			got, text := ask(http.MethodGet, f.main.URL)
			require.Equal(t, http.StatusOK, got.StatusCode)
			require.Equal(t, "new", text)
			got, _ = ask(http.MethodGet, first.URL)
			require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
			for _, url := range []string{f.main.URL, first.URL} {
				got, text = ask(http.MethodPost, url)
				require.Equal(t, http.StatusServiceUnavailable, got.StatusCode, "it is not repeated")
				require.Equal(t, "1", got.Header.Get("Retry-After"))
				require.Contains(t, text, "may have had its effect")
			}
		})
	}
}

func TestForward_waitsForLeader(t *testing.T) {
	key := newKey(t)
	to, f := newLeader(t, key, "leader", describe), newFollower(t, key, time.Minute)
	answered := make(chan int, 1)
	go func() {
		status, _ := get(t, client(t), f.main.URL)
		answered <- status
	}()
	f.Lead(fleet.Peer{})
	f.Lead(to.peer())
	require.Equal(t, http.StatusOK, <-answered)

	impatient := newFollower(t, key, time.Millisecond)
	status, text := get(t, client(t), impatient.main.URL)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "the fleet has no leader now")
}
