//go:build etcd

package sequence

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"landfall/appliance/fleet/etcdtest"
	"landfall/store/wal"
)

// A fleet whose etcd is away, slow, full, restored, of others or not trusted.

func TestBadEtcd_awayIsReported(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL(), func(o *Options) { o.Timeout = 300 * time.Millisecond })
	leader := lead(t, s, "a")
	require.NoError(t, leader.Append(t.Context(), 1, []byte("one")))
	followed := make(chan error)
	go func() { followed <- s.Follow(t.Context(), Position{}, func([]wal.Record) error { return nil }) }()
	campaigned := make(chan error)
	go func() {
		_, err := s.Campaign(t.Context(), Member{ID: "b"})
		campaigned <- err
	}()
	require.Eventually(t, func() bool {
		response, err := s.get(t.Context(), s.electionKey()+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && response.Count == 2
	}, time.Minute, 5*time.Millisecond)
	server.Kill()
	require.ErrorAs(t, leader.Append(t.Context(), 2, []byte("two")), new(*UnknownError))
	var unreachable *UnreachableError
	_, err := s.Fleet(t.Context())
	require.ErrorAs(t, err, &unreachable)
	require.ErrorContains(t, err, "refused")
	require.ErrorAs(t, <-followed, &unreachable)
	require.ErrorAs(t, <-campaigned, &unreachable)
	<-leader.Done()
	require.ErrorAs(t, s.Cluster(t.Context()).Servers[0].Err, &unreachable)

	server.Run(t)
	require.NoError(t, leadSoon(t, s, "a").Append(t.Context(), 2, []byte("again two")))
	require.Equal(t, []string{"one", "again two"}, contents(t, s, Position{}))
}

func TestBadEtcd_campaignEndsWhileItIsAway(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	lead(t, s, "a")
	ctx, cancel := context.WithCancel(t.Context())
	campaigned := make(chan error)
	go func() {
		_, err := s.Campaign(ctx, Member{ID: "b"})
		campaigned <- err
	}()
	require.Eventually(t, func() bool {
		response, err := s.get(t.Context(), s.electionKey()+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && response.Count == 2
	}, time.Minute, 5*time.Millisecond)
	server.Kill()
	cancel()
	require.ErrorIs(t, <-campaigned, context.Canceled)
}

// A server that hangs for less than a lease delays writes. One that hangs for longer ends the
// leadership.
func TestBadEtcd_hangs(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	leader := lead(t, s, "a")
	require.NoError(t, server.Stop())
	continued := make(chan error)
	go func() {
		time.Sleep(shortLease / 3)
		continued <- server.Continue()
	}()
	require.NoError(t, leader.Append(t.Context(), 1, []byte("one")))
	require.NoError(t, <-continued)

	require.NoError(t, server.Stop())
	require.ErrorAs(t, leader.Append(t.Context(), 2, []byte("two")), new(*UnknownError))
	require.NoError(t, server.Continue())
	second := leadSoon(t, s, "b")
	if second.Head().Number == 1 { // the request did not get to etcd
		require.NoError(t, second.Append(t.Context(), 2, []byte("two")))
	}
	require.Equal(t, []string{"one", "two"}, contents(t, s, Position{}))
}

func TestBadEtcd_fullRefusesAndRecovers(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{Arguments: []string{"--quota-backend-bytes", "8000000"}})
	s := created(t, server.URL(), func(o *Options) { o.Lease = time.Minute }) // large records delay its renewal
	leader := lead(t, s, "a")
	record := []byte(strings.Repeat("x", 900_000))
	number := uint64(1)
	var err error
	for err == nil {
		err = leader.Append(t.Context(), number, record)
		number++
		require.Less(t, number, uint64(200))
	}
	number--
	require.ErrorAs(t, err, new(*wal.RefusedError))
	require.ErrorAs(t, err, new(*NoSpaceError))
	require.True(t, leader.Leads(), "reads go on")
	require.Len(t, contents(t, s, Position{}), int(number-1))
	require.True(t, s.Cluster(t.Context()).Servers[0].NoSpace)

	require.NoError(t, leader.Compact(t.Context(), Kept{After: number - 1, Most: 1 << 30}))
	require.Eventually(t, func() bool { // etcd frees the space in the background
		_, err = s.client.Defragment(t.Context(), server.URL())
		require.NoError(t, err)
		_, err = s.client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
		require.NoError(t, err)
		return leader.Append(t.Context(), number, record) == nil
	}, time.Minute, 50*time.Millisecond)
	require.False(t, s.Cluster(t.Context()).Servers[0].NoSpace)
}

// restored returns to an older state of etcd, as after a restored snapshot, while change runs on
// the newer one.
func restored(t *testing.T, server *etcdtest.Server, change func()) {
	t.Helper()
	server.Kill()
	older := t.TempDir()
	require.NoError(t, os.CopyFS(older, os.DirFS(server.DataDir)))
	server.Run(t)
	change()
	server.Kill()
	require.NoError(t, os.RemoveAll(server.DataDir))
	require.NoError(t, os.CopyFS(server.DataDir, os.DirFS(older)))
	require.NoError(t, os.Chmod(server.DataDir, 0o700))
	server.Run(t)
}

func TestBadEtcd_restoredFromOlderSnapshot(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL(), func(o *Options) { o.Lease = 5 * time.Second })
	leader := lead(t, s, "a")
	require.NoError(t, leader.Append(t.Context(), 1, []byte("one")))
	newest := make(chan uint64, 10)
	followed := make(chan error, 1)
	restored(t, server, func() {
		go func() {
			followed <- s.Follow(t.Context(), Position{}, func(records []wal.Record) error {
				newest <- records[len(records)-1].Number
				return nil
			})
		}()
		require.NoError(t, leader.Append(t.Context(), 2, []byte("two")))
		require.NoError(t, leader.Append(t.Context(), 3, []byte("three")))
		for <-newest != 3 {
		}
	})
	var older *OlderError
	require.ErrorAs(t, <-followed, &older)
	require.Equal(t, OlderError{Head: 1, Have: 3}, *older)

	// The leader's key and lease are in the snapshot too.
	err := leader.Append(t.Context(), 4, []byte("four"))
	require.ErrorAs(t, err, new(*wal.RefusedError))
	require.ErrorAs(t, err, &older)
	<-leader.Done()
	leader.Close()
	require.Equal(t, []string{"one"}, contents(t, s, Position{}))

	// Another member goes on from there.
	second := lead(t, open(t, server.URL()), "b")
	for number := uint64(2); number <= 4; number++ {
		require.NoError(t, second.Append(t.Context(), number, []byte("other")))
		position := wal.Record{Number: 3, Operations: []byte("three")}.Position()
		if err := s.Follow(t.Context(), position, nil); number < 3 {
			require.ErrorAs(t, err, &older)
		} else {
			require.ErrorAs(t, err, new(*DivergedError))
		}
	}
}

func TestBadEtcd_compactedByOthers(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	line := etcdtest.NewLine(t, server.Address)
	s := created(t, server.URL())
	leader := lead(t, s, "a")
	got := make(chan uint64, 100)
	follower := open(t, "http://"+line.Address)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	followed := make(chan error)
	go func() {
		followed <- follower.Follow(ctx, Position{}, func(records []wal.Record) error {
			for _, r := range records {
				got <- r.Number
			}
			return nil
		})
	}()
	won := make(chan *Leadership)
	go func() {
		for {
			if second, err := follower.Campaign(ctx, Member{ID: "b"}); err == nil {
				won <- second
				return
			}
		}
	}()
	number := uint64(0)
	for range 5 {
		line.Cut()
		var revision int64
		for range 3 {
			number++
			require.NoError(t, leader.Append(t.Context(), number, []byte("record")))
			response, err := s.client.Get(t.Context(), s.headKey())
			require.NoError(t, err)
			revision = response.Header.Revision
		}
		_, err := s.client.Compact(t.Context(), revision, clientv3.WithCompactPhysical())
		require.NoError(t, err)
		line.Mend()
		for want := number - 2; want <= number; want++ {
			require.Equal(t, want, <-got)
		}
	}
	leader.Close()
	(<-won).Close()
	cancel()
	require.ErrorIs(t, <-followed, context.Canceled)
}

func TestBadEtcd_twoFleetsOnOnePrefix(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	results := make(chan error, 8)
	for i := range 8 {
		s := open(t, server.URL(), func(o *Options) { o.Fleet = string(rune('a' + i)) })
		go func() { results <- s.Create(t.Context(), string(rune('a'+i)), Position{Number: uint64(i)}) }()
	}
	made := 0
	for range 8 {
		if err := <-results; err == nil {
			made++
		} else {
			require.ErrorAs(t, err, new(*ExistsError))
		}
	}
	require.Equal(t, 1, made)
}

// A member of a newer version raises the format of the fleet while an older one leads.
func TestBadEtcd_newerFormat(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	leader := lead(t, s, "a")
	require.NoError(t, leader.Append(t.Context(), 1, []byte("one")))
	followed := make(chan error)
	go func() { followed <- s.Follow(t.Context(), Position{}, func([]wal.Record) error { return nil }) }()
	_, err := s.client.Put(t.Context(), s.fleetKey(), `{"id":"fleet-1","format":2}`)
	require.NoError(t, err)
	var format *FormatError
	err = leader.Append(t.Context(), 2, []byte("two"))
	require.ErrorAs(t, err, new(*wal.RefusedError))
	require.ErrorAs(t, err, &format)
	require.ErrorAs(t, leader.Err(), &format)
	require.ErrorAs(t, <-followed, &format)
	_, err = s.Campaign(t.Context(), Member{})
	require.ErrorAs(t, err, &format)
	_, err = s.Join(t.Context(), Member{})
	require.ErrorAs(t, err, &format)
}

func TestBadEtcd_damagedValues(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL(), func(o *Options) { o.partSize = 10 })
	leader := lead(t, s, "a")
	require.NoError(t, leader.Append(t.Context(), 1, []byte("one record of several parts")))
	parts, err := s.client.Get(t.Context(), s.Prefix+"parts/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, parts.Kvs, 3)
	for _, key := range []string{s.fleetKey(), s.headKey(), s.logKey(1), string(parts.Kvs[1].Key)} {
		good, err := s.client.Get(t.Context(), key)
		require.NoError(t, err)
		_, err = s.client.Put(t.Context(), key, "damaged")
		require.NoError(t, err)
		require.ErrorAs(t, s.Follow(t.Context(), Position{}, nil), new(*DamagedError), key)
		_, err = s.client.Put(t.Context(), key, string(good.Kvs[0].Value))
		require.NoError(t, err)
	}
	_, err = s.client.Delete(t.Context(), string(parts.Kvs[1].Key))
	require.NoError(t, err)
	require.ErrorAs(t, s.Follow(t.Context(), Position{}, nil), new(*DamagedError))
}

func TestBadEtcd_certificates(t *testing.T) {
	t.Parallel()
	ours, theirs := etcdtest.NewAuthority(t), etcdtest.NewAuthority(t)
	later := time.Now().AddDate(0, 1, 0)
	serverCert, serverKey := ours.Issue(t, "server", later)
	server := etcdtest.Start(t, etcdtest.Options{CertFile: serverCert, KeyFile: serverKey, ClientCAFile: ours.CAFile})
	good := func(o *Options) {
		o.CAFile, o.Timeout = ours.CAFile, 500*time.Millisecond
		o.CertFile, o.KeyFile = ours.Issue(t, "landfall", later)
	}
	s := created(t, server.URL(), good)
	require.NoError(t, lead(t, s, "a").Append(t.Context(), 1, []byte("one")))
	require.NoError(t, s.Cluster(t.Context()).Servers[0].Err)

	for name, change := range map[string]func(*Options){
		"server of another authority": func(o *Options) { o.CAFile = theirs.CAFile },
		"no client certificate":       func(o *Options) { o.CertFile, o.KeyFile = "", "" },
		"client of another authority": func(o *Options) { o.CertFile, o.KeyFile = theirs.Issue(t, "landfall", later) },
		"expired client": func(o *Options) {
			o.CertFile, o.KeyFile = ours.Issue(t, "expired", time.Now().Add(-time.Hour))
		},
	} {
		s := open(t, server.URL(), good, change)
		_, err := s.Fleet(t.Context())
		require.ErrorAs(t, err, new(*CertificateError), name)
		t.Log(err)
	}
	s = open(t, "http://"+server.Address, good)
	_, err := s.Fleet(t.Context())
	require.ErrorAs(t, err, new(*UnreachableError))

	for name, change := range map[string]func(*Options){
		"no such authority": func(o *Options) { o.CAFile = "/nonexistent" },
		"not PEM":           func(o *Options) { o.CAFile = serverKey },
		"another key":       func(o *Options) { o.KeyFile = serverKey },
	} {
		options := Options{Endpoints: []string{server.URL()}}
		good(&options)
		change(&options)
		_, err := Open(options)
		require.ErrorAs(t, err, new(*CertificateError), name)
	}
}

func TestBadEtcd_withoutPermission(t *testing.T) {
	t.Parallel()
	authority := etcdtest.NewAuthority(t)
	later := time.Now().AddDate(0, 1, 0)
	cert, key := authority.Issue(t, "server", later)
	server := etcdtest.Start(t, etcdtest.Options{CertFile: cert, KeyFile: key, ClientCAFile: authority.CAFile})
	user := func(name string) func(*Options) {
		return func(o *Options) {
			o.CAFile = authority.CAFile
			o.CertFile, o.KeyFile = authority.Issue(t, name, later)
		}
	}
	ctx := t.Context()
	root := created(t, server.URL(), user("root"))
	for _, name := range []string{"root", "landfall"} {
		_, err := root.client.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
		require.NoError(t, err)
		_, err = root.client.RoleAdd(ctx, name)
		require.NoError(t, err)
		_, err = root.client.UserGrantRole(ctx, name, name)
		require.NoError(t, err)
	}
	_, err := root.client.AuthEnable(ctx)
	require.NoError(t, err)
	s := open(t, server.URL(), user("landfall"))
	_, err = s.Fleet(ctx)
	require.ErrorAs(t, err, new(*AccessError))
	t.Log(err)
	grant := func(kind clientv3.PermissionType) {
		_, err := root.client.RoleGrantPermission(ctx, "landfall", s.Prefix, clientv3.GetPrefixRangeEnd(s.Prefix), kind)
		require.NoError(t, err)
	}
	grant(clientv3.PermissionType(clientv3.PermReadWrite))
	leader := lead(t, s, "a")
	require.NoError(t, leader.Append(ctx, 1, []byte("one")))
	grant(clientv3.PermissionType(clientv3.PermRead))
	err = leader.Append(ctx, 2, []byte("two"))
	require.ErrorAs(t, err, new(*wal.RefusedError))
	require.ErrorAs(t, err, new(*AccessError))
	require.Equal(t, []string{"one"}, contents(t, s, Position{}))
}

// A leader ends between two parts of a record.
func TestBadEtcd_partsWithoutTheirRecord(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL(), func(o *Options) { o.partSize = 10 })
	first := lead(t, s, "a")
	position := wal.Record{Number: 1, Operations: []byte("a record in parts")}.Position()
	require.NoError(t, first.attempt(t.Context(), position,
		clientv3.OpPut(s.partKey(position, 0), "a record i")))
	first.Close()
	second := lead(t, s, "b")
	parts, err := s.client.Get(t.Context(), s.Prefix+"parts/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Empty(t, parts.Kvs)
	require.NoError(t, second.Append(t.Context(), 1, []byte("another record in parts")))
	require.Equal(t, []string{"another record in parts"}, contents(t, s, Position{}))
}
