package membership

import (
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

func TestLoss_namesWhatWouldStop(t *testing.T) {
	t.Parallel()
	member := func(name string, missing ...string) Member {
		return Member{Name: name, URL: "https://" + name + ":8090", Role: RoleFollower, Answered: true,
			missing: missing}
	}
	away := func(m Member) Member { m.Role = RoleAway; return m }
	leads := func(m Member) Member { m.Leader = true; return m }
	without := func(blobs int, m Member) Member { m.MissingBlobs = blobs; return m }
	restoring := func(m Member) Member { m.Role = RoleRestoring; return m }
	server := func(url string) Server { return Server{URL: url, Configured: true} }
	other := func(url string) Server { return Server{URL: url} }
	silent := func(s Server) Server { s.Problem = "It does not answer."; return s }
	three := []Server{server("http://a:2379"), server("http://b:2379"), server("http://c:2379")}
	for name, c := range map[string]struct {
		members []Member
		servers []Server
		voters  int
		want    string
	}{
		"nothing": {[]Member{member("a"), member("b")}, three, 3,
			"A loss of one machine costs nothing: etcd has every change that was acknowledged, and another member " +
				"takes over."},
		"the only member": {[]Member{member("a"), away(member("b"))},
			[]Server{server("http://x"), server("http://y"), server("http://z")}, 3,
			"A loss of a stops the appliance until its machine is back, because no other member is there."},
		"the only one with the data": {[]Member{member("a"), restoring(member("b"))}, three, 3,
			"A loss of a loses the data: b has no snapshot of it yet."},
		"etcd on one of them": {[]Member{member("a"), member("b")}, []Server{server("http://b:2379")}, 1,
			"A loss of b stops all changes, because etcd's only server is there."},
		"etcd on the loopback": {[]Member{member("a"), member("b")}, []Server{server("http://127.0.0.1:2379")}, 1,
			"A loss of a stops all changes, because etcd's only server is there."},
		"one of three servers is away": {[]Member{member("a"), member("b")},
			[]Server{three[0], three[1], silent(server("http://x:2379"))}, 3,
			"A loss of a stops all changes, because one of etcd's 3 servers is there. A loss of b stops all " +
				"changes, because one of etcd's 3 servers is there."},
		"etcd alone elsewhere": {[]Member{member("a"), member("b")}, []Server{server("http://x:2379")}, 1,
			"A loss of etcd at http://x:2379 stops all changes, because etcd has no other server."},
		"two servers elsewhere": {[]Member{member("a"), member("b")},
			[]Server{server("http://x"), server("http://y")}, 2,
			"A loss of etcd at http://x or http://y stops all changes, because etcd needs two of its 2 servers."},
		"only one of three servers is named": {[]Member{member("a"), member("b")},
			[]Server{three[0], other("http://b:2379"), other("http://c:2379")}, 3,
			"A loss of a stops all changes, because fleet.etcd names no other server of etcd that answers; add the " +
				"others to it on each member."},
		"only one elsewhere is named": {[]Member{member("a"), member("b")},
			[]Server{server("http://x:2379"), other("http://a:2379"), other("http://b:2379")}, 3,
			"A loss of etcd at http://x:2379 stops all changes, because fleet.etcd names no other server of etcd " +
				"that answers; add the others to it on each member."},
		"files of one member": {[]Member{member("a"), member("b", "1", "2", "3"), member("c", "2", "3", "4")}, three, 3,
			"2 contents of files are only on a."},
		"pushed images": {[]Member{leads(member("a")), without(2, member("b")), away(member("c"))}, three, 3,
			"Parts of images that were pushed to the registry may be only on a."},
		"pushed images on two members": {[]Member{leads(member("a")), without(2, member("b")), member("c")}, three, 3,
			"A loss of one machine costs nothing: etcd has every change that was acknowledged, and another member " +
				"takes over."},
		"a file that all lack": {[]Member{member("a", "1"), member("b", "1")}, three, 3,
			"A loss of one machine costs nothing: etcd has every change that was acknowledged, and another member " +
				"takes over."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Status{Leading: "a", Members: c.members, Servers: c.servers, Voters: c.voters}
			text, safe := s.loss("a")
			require.Equal(t, c.want, text)
			require.Equal(t, strings.Contains(c.want, "costs nothing"), safe)
		})
	}
	text, safe := (&Status{Members: []Member{member("a"), member("b")}, Servers: three}).loss("a")
	require.Contains(t, text, "No member leads now")
	require.False(t, safe)
	for alarm, one := range map[string]Server{"Etcd has no space left": {NoSpace: true},
		"The databases of etcd's servers differ": {Damaged: true}} {
		one.URL = "http://c:2379"
		text, safe = (&Status{Leading: "a", Members: []Member{member("a"), member("b")}, Voters: 3,
			Servers: []Server{three[0], three[1], one}}).loss("a")
		require.Contains(t, text, alarm)
		require.False(t, safe)
	}
	text, safe = (&Status{Problem: "Etcd does not answer."}).loss("a")
	require.Contains(t, text, "changes wait")
	require.False(t, safe)
}

func TestProgress_lagOfTheOldestMissingRecord(t *testing.T) {
	t.Parallel()
	clock := clockwork.NewFakeClock()
	p := new(progress)
	for number := range uint64(10) {
		p.note(clock.Now(), number)
		p.note(clock.Now(), number)
		clock.Advance(time.Second)
	}
	require.Zero(t, p.lag(clock.Now(), 9, 9))
	require.Equal(t, 3*time.Second, p.lag(clock.Now(), 6, 9))
	for range maxSteps {
		p.note(clock.Now(), uint64(clock.Now().Unix()))
		clock.Advance(time.Second)
	}
	require.LessOrEqual(t, len(p.steps), maxSteps)
	require.Positive(t, p.lag(clock.Now(), 6, 1<<60))
}
