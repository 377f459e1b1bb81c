package remote

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// member is a server that stands in for a member of a fleet. It answers with its name.
type member struct {
	*httptest.Server
	received []string    // method, token and body of each request
	silent   atomic.Bool // it closes connections instead of answering
}

func newMember(t *testing.T, name string) *member {
	t.Helper()
	m := new(member)
	m.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		m.received = append(m.received, strings.TrimSpace(r.Method+" "+r.Header.Get("Authorization")+" "+string(body)))
		if m.silent.Load() {
			panic(http.ErrAbortHandler)
		}
		if _, err := io.WriteString(w, `"`+name+`"`); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(m.Close)
	return m
}

// fleet stores a login at the first of two members.
func fleet(t *testing.T) (one, two *member) {
	t.Helper()
	home(t)
	one, two = newMember(t, "one"), newMember(t, "two")
	login := Context{Name: "site", URL: one.URL, CA: authorityOf(one.Server), Token: "t1"}
	login.SetMembers([]string{one.URL + "/", two.URL, "http://192.0.2.1:8090"})
	require.Equal(t, []string{two.URL}, login.Members, "others, and only with TLS")
	store(t, login)
	return one, two
}

func TestMembers_nextOneIsAsked(t *testing.T) {
	one, two := fleet(t)
	client := new(Client)
	ask := func(method string) (answer string) {
		require.NoError(t, client.Call(t.Context(), method, "/", map[string]int{"a": 1}, &answer))
		return answer
	}
	require.Equal(t, "one", ask(http.MethodPost))
	one.Close()
	client = new(Client) // of the next command
	require.Equal(t, "two", ask(http.MethodPost), "the first one has not received the request")
	require.Equal(t, "two", ask(http.MethodGet))
	require.Equal(t, []string{`POST Bearer t1 {"a":1}`, `GET Bearer t1 {"a":1}`}, two.received)

	two.Close()
	err := client.Call(t.Context(), http.MethodGet, "/", nil, nil)
	require.ErrorAs(t, err, new(*UnreachableError))
	require.ErrorContains(t, err, "no member of the fleet answers at "+one.URL+" or "+two.URL)
}

func TestMembers_changeIsNotRepeated(t *testing.T) {
	one, two := fleet(t)
	one.silent.Store(true)
	client := new(Client)
	err := client.Call(t.Context(), http.MethodPost, "/", nil, nil)
	require.ErrorAs(t, err, new(*UnreachableError))
	require.EqualError(t, err, one.URL+" received the request, but its answer was lost (EOF): the change may have "+
		"been made; check before you repeat it")
	require.Empty(t, two.received, "the first member may have made the change")
	require.NoError(t, client.Call(t.Context(), http.MethodGet, "/", nil, nil))
	require.Equal(t, []string{"GET Bearer t1"}, two.received)
}

func TestMembers_chosenMemberOnly(t *testing.T) {
	one, two := fleet(t)
	require.NoError(t, New(two.URL, "").Call(t.Context(), http.MethodGet, "/", nil, nil))
	require.Equal(t, []string{"GET Bearer t1"}, two.received, "the login is one at all members")
	one.Close()
	for name, client := range map[string]*Client{"--url": New(one.URL, ""), "leave": new(Client)} {
		client.OnlyThis()
		err := client.Call(t.Context(), http.MethodGet, "/", nil, nil)
		require.ErrorContains(t, err, "no appliance listens at "+one.URL, name)
	}
	require.ErrorContains(t, New(one.URL, "").Call(t.Context(), http.MethodGet, "/", nil, nil),
		"no appliance listens at "+one.URL)
	require.Len(t, two.received, 1)
}

// A server with another certificate at the address of a member is not skipped: a person must know.
func TestMembers_unknownCertificate(t *testing.T) {
	one, two := fleet(t)
	contexts, err := LoadContexts()
	require.NoError(t, err)
	contexts.All[0].CA = foreignAuthority(t)
	require.NoError(t, contexts.Save())
	require.ErrorContains(t, new(Client).Call(t.Context(), http.MethodGet, "/", nil, nil), "the certificate of "+
		one.URL+" is not signed by a known authority")
	require.Empty(t, two.received)
	one.Close()
	require.ErrorContains(t, new(Client).Call(t.Context(), http.MethodGet, "/", nil, nil), "the certificate of "+
		two.URL+" is not signed by a known authority")
}

func TestContext_membersNeedTLS(t *testing.T) {
	local := Context{URL: "http://127.0.0.1:8090"}
	local.SetMembers([]string{"https://192.0.2.2:8090"})
	require.Empty(t, local.Members)
}

func TestClient_noteMembers(t *testing.T) {
	one, two := fleet(t)
	members := func() []string {
		contexts, err := LoadContexts()
		require.NoError(t, err)
		return contexts.All[0].Members
	}
	require.NoError(t, new(Client).NoteMembers([]string{one.URL, two.URL, "https://192.0.2.3:8090"}))
	require.Equal(t, []string{two.URL, "https://192.0.2.3:8090"}, members())
	require.NoError(t, New("https://other.example.com", "").NoteMembers([]string{"https://192.0.2.4"}))
	require.Len(t, members(), 2, "another appliance")
	require.NoError(t, new(Client).NoteMembers(nil))
	require.Empty(t, members(), "a single machine")
}
