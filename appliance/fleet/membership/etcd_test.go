//go:build etcd

package membership_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/etcdtest"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/fleet/sequence"
	"landfall/appliance/sitekey"
	"landfall/store/wal"
)

// machine is a machine with its part in a fleet.
type machine struct {
	*membership.Leader
	options    membership.Options
	credential *fleet.Credential
	stop       func()
}

// start makes the member of a data directory known in etcd until stop is called.
func start(t *testing.T, options membership.Options) *machine {
	t.Helper()
	member, err := membership.Open(options)
	require.NoError(t, err)
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	credential, err := fleet.NewCredential(key, options.Settings.Name)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- member.Run(ctx, func() membership.Network { return membership.Network{} }) }()
	m := &machine{Leader: &membership.Leader{Membership: member, Peers: fleet.NewClient(credential, options.Clock),
		VirtualIP: func() *membership.VirtualIP { return nil }}, options: options, credential: credential}
	stopped := false
	m.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
			require.NoError(t, member.Close())
		}
	}
	t.Cleanup(m.stop)
	return m
}

// two returns the options of two machines of a new fleet, whose programs support versions of the
// data.
func two(t *testing.T, url string, ofFirst, ofSecond int) (first, second membership.Options) {
	t.Helper()
	options := func(name string, data int) membership.Options {
		return membership.Options{Dir: t.TempDir(), Version: "v" + name, Data: data, Clock: clockwork.NewRealClock(),
			Logger: slog.New(slog.DiscardHandler), URL: "https://127.0.0.1:1",
			Settings: membership.Settings{Etcd: []string{url}, Name: name, Lease: 2 * time.Second}}
	}
	first, second = options("a", ofFirst), options("b", ofSecond)
	require.NoError(t, membership.Found(t.Context(), first))
	state, err := fleet.ReadState(first.Dir)
	require.NoError(t, err)
	state.ID, state.Member = "2", "b"
	require.NoError(t, state.Write(second.Dir))
	return first, second
}

// roles returns the roles of the members as a machine sees them.
func (m *machine) roles(t *testing.T) map[string]string {
	t.Helper()
	status, err := m.Status(t.Context())
	require.NoError(t, err)
	roles := map[string]string{}
	for _, member := range status.Members {
		roles[member.Name] = member.Role
	}
	return roles
}

func (m *machine) await(t *testing.T, want map[string]string) {
	t.Helper()
	for {
		roles := m.roles(t)
		if len(roles) == len(want) && roles["a"] == want["a"] && roles["b"] == want["b"] {
			return
		}
		select {
		case <-t.Context().Done():
			require.FailNow(t, "the roles are not as wanted", "%v", roles)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// empty is a database without records.
type empty struct{ fleet.Copy }

func (empty) Sequence() uint64       { return 0 }
func (empty) SyncedSequence() uint64 { return 0 }
func (empty) Position() wal.Position { return wal.Position{} }

func TestStatus_listsMembersThatAreAway(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	first, second := two(t, server.URL(), 1, 1)
	a, b := start(t, first), start(t, second)
	a.await(t, map[string]string{"a": membership.RoleFollower, "b": membership.RoleFollower})
	leadership, err := a.Log().Campaign(t.Context())
	require.NoError(t, err)
	a.await(t, map[string]string{"a": membership.RoleLeader, "b": membership.RoleFollower})
	status, err := a.Status(t.Context())
	require.NoError(t, err)
	require.True(t, status.Leader)
	require.Equal(t, "a", status.Leading)
	require.Equal(t, 1, status.Voters)
	require.Equal(t, "vb", status.Members[1].Version)
	require.NotEmpty(t, status.Members[1].Problem, "nobody listens at its URL")

	b.stop()
	a.await(t, map[string]string{"a": membership.RoleLeader, "b": membership.RoleAway})
	status, err = a.Status(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), status.Members[1].Seen, time.Minute)
	require.Contains(t, status.Loss, "no other member is there")
	require.Error(t, a.Forget(t.Context(), "a"))
	require.Error(t, a.Forget(t.Context(), "c"))
	require.NoError(t, a.Forget(t.Context(), "b"))
	a.await(t, map[string]string{"a": membership.RoleLeader})

	require.NoError(t, leadership.Resign(t.Context()))
	server.Kill()
	status, err = a.Status(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, status.Problem)
	require.Len(t, status.Members, 1, "they are those that were known last")
	require.NotEmpty(t, status.Servers[0].Problem)
	server.Run(t)
}

// A member that leaves is forgotten by itself.
func TestLeave_isNotAway(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	first, second := two(t, server.URL(), 1, 1)
	a, b := start(t, first), start(t, second)
	a.await(t, map[string]string{"a": membership.RoleFollower, "b": membership.RoleFollower})
	require.NoError(t, b.LeaveHere())
	b.stop()
	a.await(t, map[string]string{"a": membership.RoleFollower})
}

func TestCampaign_olderProgramLeadsBeforeUpgrade(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	first, second := two(t, server.URL(), 1, 2)
	older, newer := start(t, first), start(t, second)
	older.await(t, map[string]string{"a": membership.RoleFollower, "b": membership.RoleFollower})
	won := make(chan fleet.Leadership)
	go func() {
		leadership, err := newer.Log().Campaign(t.Context())
		if err == nil {
			won <- leadership
		}
	}()
	for range 3 { // a candidate that waits would be elected at the second time
		leadership, err := older.Log().Campaign(t.Context())
		require.NoError(t, err)
		require.NoError(t, leadership.Resign(t.Context()))
	}
	older.stop()
	upgraded := <-won
	require.NoError(t, upgraded.Append(t.Context(), 1, []byte("of version 2")))

	again := start(t, first)
	err := again.Log().Follow(t.Context(), empty{}, func() {})
	require.ErrorAs(t, err, new(*fleet.UnusableError))
	require.ErrorAs(t, err, new(*sequence.DataError))
	require.ErrorContains(t, err, "upgrade this member")
	require.NoError(t, upgraded.Resign(t.Context()))
	require.NoFileExists(t, filepath.Join(first.Dir, "landfall.db"), "nothing was applied")
}

// remove removes the fleet from etcd like a member that does not get the answer.
func remove(t *testing.T, by membership.Options) {
	t.Helper()
	state, err := fleet.ReadState(by.Dir)
	require.NoError(t, err)
	log, err := sequence.Open(sequence.Options{Endpoints: state.Etcd, Prefix: state.Prefix, Fleet: state.Fleet,
		Clock: by.Clock, Data: 1})
	require.NoError(t, err)
	require.NoError(t, log.Remove(t.Context(), state.ID))
	require.NoError(t, log.Close())
}

// The end of a fleet is one transaction in etcd. A member that does not know its outcome asks etcd
// later, also after a restart. It goes on alone only if the transaction was its own: another member
// may have ended the fleet meanwhile.
func TestEnd_outcomeIsFoundLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		removed, byOther bool // etcd carried a transaction out
		another          bool // another fleet was made then
		want             bool
	}{
		"it was carried out":                              {removed: true, want: true},
		"it was carried out and another fleet made":       {removed: true, another: true, want: true},
		"that of another one was carried out":             {removed: true, byOther: true},
		"that of another one was, and another fleet made": {removed: true, byOther: true, another: true},
		"it was not carried out":                          {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := etcdtest.Start(t, etcdtest.Options{})
			first, second := two(t, server.URL(), 1, 1)
			a, b := start(t, first), start(t, second)
			leads := a
			require.NoError(t, a.CheckFleet(t.Context()))
			if c.byOther {
				leads = b
				require.Error(t, a.End(t.Context()))
			}
			leadership, err := leads.Log().Campaign(t.Context())
			require.NoError(t, err)
			defer func() { _ = leadership.Resign(t.Context()) }() // the fleet may have ended
			if c.removed {
				remove(t, leads.options)
			}
			a.stop()
			if c.another {
				log, err := sequence.Open(sequence.Options{Endpoints: []string{server.URL()}, Clock: first.Clock})
				require.NoError(t, err)
				require.NoError(t, log.Create(t.Context(), "other", sequence.Position{}))
				require.NoError(t, log.Close())
			}
			a = start(t, first)
			failure := errors.New("any")
			if c.removed {
				failure = a.Log().Follow(t.Context(), empty{}, func() {})
				require.ErrorAs(t, failure, new(*fleet.UnusableError))
				require.Equal(t, failure, a.CheckFleet(t.Context()), "it would wait for a snapshot in vain")
				b.stop()
				server.Kill() // etcd can't be asked again
			}
			require.Equal(t, c.want, errors.Is(a.AfterFailure(t.Context(), failure), membership.ErrChanged))
			state, err := fleet.ReadState(first.Dir)
			require.NoError(t, err)
			require.Equal(t, c.want, state.Ended)
		})
	}
}

func TestEnd_canBeRepeatedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	first, second := two(t, server.URL(), 1, 1)
	a, b := start(t, first), start(t, second)
	leadership, err := a.Log().Campaign(t.Context())
	require.NoError(t, err)
	remove(t, first)
	require.ErrorContains(t, b.End(t.Context()), "etcd has not confirmed the end", "another member has ended it")
	require.False(t, b.IsAlone())
	require.NoError(t, a.End(t.Context()))
	<-a.Ended()
	require.True(t, a.IsAlone())
	_ = leadership.Resign(t.Context()) // the fleet has ended
}

// A copy of the leader's data directory from before the end belongs to no fleet.
func TestEnd_copyOfItsDirectoryIsNotAlone(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	first, _ := two(t, server.URL(), 1, 1)
	before, err := fleet.ReadState(first.Dir)
	require.NoError(t, err)
	a := start(t, first)
	leadership, err := a.Log().Campaign(t.Context())
	require.NoError(t, err)
	require.NoError(t, a.End(t.Context()))
	_ = leadership.Resign(t.Context()) // the fleet has ended
	a.stop()
	require.NoError(t, before.Write(first.Dir))
	a = start(t, first)
	failure := a.CheckFleet(t.Context())
	require.ErrorAs(t, failure, new(*sequence.NoFleetError))
	require.NotErrorIs(t, a.AfterFailure(t.Context(), failure), membership.ErrChanged)
	require.False(t, a.IsAlone())
}

func TestEnd_onlyWhileItLeads(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	first, second := two(t, server.URL(), 1, 1)
	var log bytes.Buffer
	second.Logger = slog.New(slog.NewTextHandler(&log, nil))
	a, b := start(t, first), start(t, second)
	leadership, err := b.Log().Campaign(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, a.End(t.Context()), "has not confirmed the end of the fleet: this member does not lead")
	require.False(t, b.IsAlone())
	require.NoError(t, b.End(t.Context()))
	<-b.Ended()
	require.True(t, b.IsAlone(), "it may answer the request that ended the fleet")
	_ = leadership.Resign(t.Context()) // the fleet has ended
	b.stop()
	require.NotContains(t, log.String(), "The other members still show this member")
	require.ErrorContains(t, membership.Found(t.Context(), first), "is a member of a fleet already")
	require.NoError(t, membership.Found(t.Context(), second), "a single machine can make a fleet again")
}

// leading starts two machines of a new fleet, the first of which leads.
func leading(t *testing.T, server *etcdtest.Server) (a, b *machine) {
	t.Helper()
	first, second := two(t, server.URL(), 1, 1)
	a, b = start(t, first), start(t, second)
	a.await(t, map[string]string{"a": membership.RoleFollower, "b": membership.RoleFollower})
	_, err := a.Log().Campaign(t.Context())
	require.NoError(t, err)
	return a, b
}

// requireOneOutcome holds that the data goes on at one place: at the other member, or here.
func requireOneOutcome(t *testing.T, a, b *machine, left, ended error) {
	t.Helper()
	require.NotEqual(t, left == nil, ended == nil, "leave: %v; end: %v", left, ended)
	state, err := fleet.ReadState(a.options.Dir)
	require.NoError(t, err)
	require.Equal(t, left == nil, state.Left)
	require.Equal(t, ended == nil, state.Ended)
	require.Equal(t, fault.Conflict, fault.KindOf(cmp.Or(left, ended)))
	if unusable := new(fleet.UnusableError); left == nil {
		require.NoError(t, b.CheckFleet(t.Context()), "the other member goes on")
	} else {
		require.ErrorAs(t, b.CheckFleet(t.Context()), &unusable)
	}
}

func TestLeave_andEndAtOnce(t *testing.T) {
	t.Parallel()
	a, b := leading(t, etcdtest.Start(t, etcdtest.Options{}))
	var left, ended error
	var asking sync.WaitGroup
	asking.Go(func() { left = a.Leave(t.Context()) })
	asking.Go(func() { ended = a.End(t.Context()) })
	asking.Wait()
	requireOneOutcome(t, a, b, left, ended)
}

func TestLeave_thenEnd(t *testing.T) {
	t.Parallel()
	a, b := leading(t, etcdtest.Start(t, etcdtest.Options{}))
	left := a.Leave(t.Context())
	requireOneOutcome(t, a, b, left, a.End(t.Context()))
}

func TestEnd_thenLeave(t *testing.T) {
	t.Parallel()
	a, b := leading(t, etcdtest.Start(t, etcdtest.Options{}))
	ended := a.End(t.Context())
	requireOneOutcome(t, a, b, a.LeaveHere(), ended)
}

// etcd may end the fleet after the leader was told that this is not known.
func TestEnd_notConfirmedThenLeave(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	a, _ := leading(t, server)
	server.Kill()
	require.ErrorContains(t, a.End(t.Context()), "etcd has not confirmed the end of the fleet")
	err := a.LeaveHere()
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, "repeat landfall fleet end")
}

// If etcd did not confirm an end, the election of another member proves that there was none.
func TestEnd_notConfirmedAndAnotherLeads(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	first, second := two(t, server.URL(), 1, 1)
	a, b := start(t, first), start(t, second)
	leadership, err := a.Log().Campaign(t.Context())
	require.NoError(t, err)
	server.Kill()
	require.ErrorContains(t, a.End(t.Context()), "etcd has not confirmed the end of the fleet")
	server.Run(t)
	require.NoError(t, leadership.Resign(t.Context()))
	require.Equal(t, fault.Conflict, fault.KindOf(a.LeaveHere()), "nobody leads")
	other, err := b.Log().Campaign(t.Context())
	require.NoError(t, err)
	require.NoError(t, a.LeaveHere())
	require.NoError(t, other.Resign(t.Context()))
}

func TestEnd_refusedWhileContentsAreMissing(t *testing.T) {
	t.Parallel()
	a, b := leading(t, etcdtest.Start(t, etcdtest.Options{}))
	missing := []string{"a", "b"}
	a.Missing = func(context.Context) ([]string, error) { return missing, nil }
	err := a.End(t.Context())
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, "this member still lacks 2 contents of files")
	require.NoError(t, b.CheckFleet(t.Context()))
	missing = nil
	require.NoError(t, a.End(t.Context()))
}

// leaveThrough makes the member leave that forwards the request.
func (m *machine) leaveThrough(t *testing.T, member string) (err error) {
	t.Helper()
	front := &fleet.Front{Leads: func() bool { return true }, Refuse: func(_ http.ResponseWriter, _ *http.Request,
		err error) {
		require.NoError(t, err)
	}}
	front.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		err = m.Leave(r.Context())
	}), nil, nil, nil, nil, nil).ServeHTTP(httptest.NewRecorder(), forwardedBy(t, member))
	return err
}

// The leader learns the members from etcd, where a member that leaves stays for a moment.
func TestLeave_oneMemberStays(t *testing.T) {
	t.Parallel()
	a, b := leading(t, etcdtest.Start(t, etcdtest.Options{}))
	require.Error(t, a.leaveThrough(t, "b"), "its answer is lost")
	require.ErrorContains(t, a.Leave(t.Context()), "the member b was told to leave a moment ago")
	b.stop()
	require.NoError(t, a.Forget(t.Context(), "b"))
	require.ErrorContains(t, a.Leave(t.Context()), "no other member is there")
}

// A member that refuses to leave goes on with the data.
func TestLeave_refusedByTheMember(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	first, second := two(t, server.URL(), 1, 1)
	a := start(t, first)
	at := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, err := w.Write([]byte(`{"reason": "this machine goes on with the data"}`))
		require.NoError(t, err)
	}))
	at.TLS = a.credential.Listener(&tls.Config{})
	at.StartTLS()
	t.Cleanup(at.Close)
	second.Settings.URL = at.URL
	start(t, second)
	a.await(t, map[string]string{"a": membership.RoleFollower, "b": membership.RoleFollower})
	_, err := a.Log().Campaign(t.Context())
	require.NoError(t, err)
	err = a.leaveThrough(t, "b")
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.Equal(t, "the member b answers: this machine goes on with the data", fault.Reason(err))
	require.NoError(t, a.Leave(t.Context()))
}

// forwardedBy returns a request that a member has forwarded.
func forwardedBy(t *testing.T, member string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	own := &x509.Certificate{Subject: pkix.Name{CommonName: member}}
	r.TLS = &tls.ConnectionState{ServerName: "member.fleet.landfall.internal",
		PeerCertificates: []*x509.Certificate{own}, VerifiedChains: [][]*x509.Certificate{{own}}}
	r.Header.Set("Landfall-Fleet-Client", "192.0.2.1:50000")
	return r
}
