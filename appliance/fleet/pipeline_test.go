package fleet_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
	"landfall/appliance/sitekey"
)

// pollPath is the path of a poll of an agent.
const pollPath = "/api/assisted-install/v2/infra-envs/1/hosts/2/instructions"

// pollsLeader is a leader whose connections are counted.
type pollsLeader struct {
	*httptest.Server
	name        string
	leads       atomic.Bool
	ending      chan struct{}
	connections atomic.Int32
}

func newPollsLeader(t *testing.T, key *sitekey.Key, name string, main http.HandlerFunc) *pollsLeader {
	t.Helper()
	l := &pollsLeader{name: name, ending: make(chan struct{})}
	l.leads.Store(true)
	front := &fleet.Front{Leads: l.leads.Load, Ending: l.ending, Refuse: refuse,
		Peers: fleet.Peers{Refuse: refuse, Logger: quiet()}}
	boot := func(fleet.Listener) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "boot ")
			main(w, r)
		})
	}
	l.Server = httptest.NewUnstartedServer(front.Wrap(main, boot, nil, nil, nil, func(netip.Addr) {}))
	l.TLS = credential(t, key, name).Listener(&tls.Config{Certificates: []tls.Certificate{selfSigned(t, name)}})
	l.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			l.connections.Add(1)
		}
	}
	l.StartTLS()
	t.Cleanup(l.Close)
	return l
}

func (l *pollsLeader) peer() fleet.Peer { return fleet.Peer{Name: l.name, URL: l.URL} }

func TestPolls_applyToClientOfFollower(t *testing.T) {
	key := newKey(t)
	to, f := newPollsLeader(t, key, "leader", describe), newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	host := strings.TrimPrefix(f.main.URL, "https://")

	_, seen := get(t, client(t), f.main.URL+"/a%2Fb/instructions?x=1;2&y")
	require.Equal(t, fmt.Sprintf(`127.0.0.1 tls %s/a%%2Fb/instructions?x=1;2&y  through "follower"`, host), seen)
	_, seen = get(t, client(t, selfSigned(t, "program")), f.main.URL+pollPath)
	require.Contains(t, seen, "tls of program")
	_, seen = get(t, f.boot.Client(), f.boot.URL+pollPath)
	require.Contains(t, seen, "boot 127.0.0.1 plain")

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.main.URL+pollPath, nil)
	require.NoError(t, err)
	request.Header.Set("Landfall-Fleet-Client", "192.0.2.1:1")
	request.Header.Set("Landfall-Fleet-Number", "7")
	request.Header.Set("Landfall-Fleet-Listener", "boot")
	_, seen = ask(t, client(t), request)
	require.Contains(t, seen, "127.0.0.1 tls", "what a client says about itself does not count")
	require.NotContains(t, seen, "boot")
	require.EqualValues(t, 1, to.connections.Load())
}

// A query with a space is valid in HTTP/2, but not in a line of HTTP/1.1. A poll with one must not
// end the connection on which the other polls wait.
func TestPolls_badQueryEndsNoOther(t *testing.T) {
	key := newKey(t)
	begun, end := make(chan struct{}, 10), make(chan struct{})
	to := newPollsLeader(t, key, "leader", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "slow" {
			begun <- struct{}{}
			<-end
		}
		fmt.Fprint(w, r.URL.RawQuery)
	})
	f := newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	slow := make(chan string)
	go func() {
		_, text := get(t, client(t), f.main.URL+pollPath+"?slow")
		slow <- text
	}()
	<-begun
	for _, query := range []string{"a b", "a\x80"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, pollPath, nil)
		request.URL.RawQuery = query
		f.Handler(fleet.Main).ServeHTTP(httptest.NewRecorder(), request)
	}
	close(end)
	require.Equal(t, "slow", <-slow)
	require.Empty(t, begun, "it was sent once")
}

// HTTP/2 has the host and the end of a request in its frames. Clients may send these headers, too.
// In the pipeline, they would contradict the poll, and end the connection of all polls.
func TestPolls_headersOfHTTP2EndNoOther(t *testing.T) {
	key := newKey(t)
	to := newPollsLeader(t, key, "leader", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, r.Header["Host"], r.Header["Content-Length"])
	})
	f := newFollower(t, key, time.Second)
	f.Lead(to.peer())
	for name, value := range map[string]string{"Host": "other.test", "Content-Length": "5"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, pollPath, nil)
		request.Header.Set(name, value)
		answer := httptest.NewRecorder()
		f.Handler(fleet.Main).ServeHTTP(answer, request)
		require.Equal(t, "example.com[] []", answer.Body.String(), name)
	}
	require.EqualValues(t, 1, to.connections.Load())
}

func TestPolls_shareOneConnection(t *testing.T) {
	const clients = 50
	key := newKey(t)
	arrived, all := make(chan struct{}, clients), make(chan struct{})
	to := newPollsLeader(t, key, "leader", func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-all // an answer needs no other answer
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "for ", r.URL.RawQuery)
	})
	f := newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	through := client(t)
	var asking sync.WaitGroup
	for i := range clients {
		asking.Go(func() {
			status, text := get(t, through, fmt.Sprint(f.main.URL, pollPath, "?", i))
			if status != http.StatusTeapot || text != fmt.Sprint("for ", i) {
				t.Error(i, status, text)
			}
		})
	}
	for range clients {
		<-arrived
	}
	close(all)
	asking.Wait()
	require.EqualValues(t, 1, to.connections.Load())
}

// The leader answers polls of one connection one after the other in the same memory.
func TestPolls_getNothingOfEarlierAnswers(t *testing.T) {
	key := newKey(t)
	to := newPollsLeader(t, key, "leader", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RawQuery {
		case "first":
			w.Header().Set("Secret", "of the first")
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, "a long answer")
		case "panics":
			fmt.Fprint(w, "a part")
			panic("of the test")
		}
	})
	f := newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	for range 3 {
		status, seen := get(t, client(t), f.main.URL+pollPath+"?first")
		require.Equal(t, http.StatusTeapot, status)
		require.Equal(t, "a long answer", seen)
		_, seen = get(t, client(t), f.main.URL+pollPath+"?panics")
		require.NotContains(t, seen, "a part")
		answer, err := client(t).Get(f.main.URL + pollPath)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Zero(t, answer.ContentLength)
		require.Empty(t, answer.Header.Get("Secret"))
	}
}

func TestPolls_slowOneHoldsUpNoOther(t *testing.T) {
	key := newKey(t)
	begun, end := make(chan struct{}), make(chan struct{})
	to := newPollsLeader(t, key, "leader", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow/instructions":
			close(begun)
			<-end
		case "/broken/instructions":
			panic("broken")
		}
		fmt.Fprint(w, r.URL.Path)
	})
	f := newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	answered := make(chan string)
	go func() {
		_, text := get(t, client(t), f.main.URL+"/slow/instructions")
		answered <- text
	}()
	<-begun
	_, text := get(t, client(t), f.main.URL+pollPath)
	require.Equal(t, pollPath, text)
	status, _ := get(t, client(t), f.main.URL+"/broken/instructions")
	require.Equal(t, http.StatusInternalServerError, status)
	close(end)
	require.Equal(t, "/slow/instructions", <-answered)
	require.EqualValues(t, 1, to.connections.Load())
}

// A client that goes away leaves the others their connection.
func TestPolls_clientGoesAway(t *testing.T) {
	key := newKey(t)
	begun, end := make(chan struct{}, 1), make(chan struct{})
	to := newPollsLeader(t, key, "leader", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow/instructions" {
			begun <- struct{}{}
			<-end
		}
		fmt.Fprint(w, r.URL.Path)
	})
	f := newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.main.URL+"/slow/instructions", nil)
	require.NoError(t, err)
	left := make(chan error)
	go func() {
		answer, err := client(t).Do(request)
		if err == nil {
			err = answer.Body.Close()
		}
		left <- err
	}()
	<-begun
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	close(end)
	_, text := get(t, client(t), f.main.URL+pollPath)
	require.Equal(t, pollPath, text)
	require.EqualValues(t, 1, to.connections.Load())
}

// Polls only read, so the next leader gets those that the first one has not answered.
func TestPolls_sentAgainToNextLeader(t *testing.T) {
	for name, end := range map[string]func(*pollsLeader){
		"it ends":       func(l *pollsLeader) { close(l.ending) },
		"it has died":   func(l *pollsLeader) { l.CloseClientConnections(); l.Listener.Close() },
		"it was paused": func(l *pollsLeader) { l.leads.Store(false) },
	} {
		t.Run(name, func(t *testing.T) {
			key := newKey(t)
			f := newFollower(t, key, time.Minute)
			begun, woken := make(chan struct{}, 1), make(chan struct{})
			first := newPollsLeader(t, key, "first", func(w http.ResponseWriter, _ *http.Request) {
				begun <- struct{}{}
				<-woken
				fmt.Fprint(w, "old")
			})
			second := newPollsLeader(t, key, "second", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, "new")
			})
			f.Lead(first.peer())
			answered := make(chan string)
			go func() {
				_, text := get(t, client(t), f.main.URL+pollPath)
				answered <- text
			}()
			<-begun
			f.Lead(second.peer())
			end(first)
			if name == "it was paused" { // otherwise its handler goes on, and nobody waits for it
				close(woken)
			} else {
				defer close(woken)
			}
			require.Equal(t, "new", <-answered)
			_, text := get(t, client(t), f.main.URL+pollPath)
			require.Equal(t, "new", text)
		})
	}
}

func TestPolls_sameMemberLeadsAgain(t *testing.T) {
	key := newKey(t)
	to, f := newPollsLeader(t, key, "leader", describe), newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	get(t, client(t), f.main.URL+pollPath)
	to.leads.Store(false)
	answered := make(chan int)
	go func() {
		status, _ := get(t, client(t), f.main.URL+pollPath)
		answered <- status
	}()
	require.Eventually(t, func() bool { return to.connections.Load() > 1 }, time.Minute, time.Millisecond)
	to.leads.Store(true)
	require.Equal(t, http.StatusOK, <-answered)
}

// A network may lose a connection without an error. The polls on it are sent again on another one.
func TestPolls_silentConnectionIsReplaced(t *testing.T) {
	key := newKey(t)
	end := make(chan struct{})
	var asked atomic.Int32
	to := newPollsLeader(t, key, "leader", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			<-end
		}
		fmt.Fprint(w, "answer")
	})
	defer close(end)
	f := newFollower(t, key, 3*time.Second)
	f.Lead(to.peer())
	_, text := get(t, client(t), f.main.URL+pollPath)
	require.Equal(t, "answer", text)
	require.EqualValues(t, 2, to.connections.Load())
}

func TestPolls_withoutPipeline(t *testing.T) {
	key := newKey(t)
	f := newFollower(t, key, time.Minute)
	f.Lead(newPollsLeader(t, key, "leader", describe).peer())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.main.URL+pollPath, nil)
	require.NoError(t, err)
	request.Header.Set("Large", strings.Repeat("x", 200<<10))
	status, seen := ask(t, client(t), request)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, seen, `127.0.0.1 tls`)

	of := credential(t, key, "older")
	front := &fleet.Front{Leads: func() bool { return true }, Refuse: refuse}
	all := front.Wrap(http.HandlerFunc(describe), nil, nil, nil, nil, func(netip.Addr) {})
	older := serve(t, of, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fleet/polls" {
			http.NotFound(w, r)
			return
		}
		all.ServeHTTP(w, r)
	}))
	f.Lead(fleet.Peer{Name: "older", URL: older.URL})
	for range 2 {
		_, seen = get(t, client(t), f.main.URL+pollPath)
		require.Contains(t, seen, `through "follower"`)
	}
}

func TestPolls_strangersGetNoPipeline(t *testing.T) {
	key := newKey(t)
	to := newPollsLeader(t, key, "leader", describe)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to.URL+"/fleet/polls", nil)
	require.NoError(t, err)
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "landfall-polls")
	status, seen := ask(t, client(t), request)
	require.Equal(t, http.StatusOK, status, "it is a request like others")
	require.Contains(t, seen, "127.0.0.1 tls")
}
