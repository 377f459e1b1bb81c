package fleet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
)

// held is a database whose contents can be removed.
type held struct {
	*contents
	collected int
	stays     bool // no content may be removed now
	opened    int  // contents
}

func (h *held) OpenContent(sum string) (io.ReadSeekCloser, int64, error) {
	h.mu.Lock()
	h.opened++
	h.mu.Unlock()
	return h.contents.OpenContent(sum)
}

func (h *held) CollectBlobs(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.collected++
	return nil
}

func (h *held) HeldContents(context.Context) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.have)), nil
}

func (h *held) RemovableContent(sum string) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stays {
		return 0, nil
	}
	return int64(len(h.have[sum])), nil
}

func (h *held) RemoveContent(_ context.Context, sum string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.have, sum)
	return true, nil
}

// surplusFleet is a fleet of members that all have all contents. The first one leads.
type surplusFleet struct {
	peers   []fleet.Peer
	held    []*held
	copies  []*fleet.Copies
	peersOf []*fleet.Peers
	sums    []string
	clock   *clockwork.FakeClock
	away    string
}

func newSurplusFleet(t *testing.T, members, number int) *surplusFleet {
	t.Helper()
	f := &surplusFleet{clock: clockwork.NewFakeClock()}
	key := newKey(t)
	texts := map[string]string{}
	for i := range 30 {
		text := fmt.Sprint("text ", i)
		sum := sha256.Sum256([]byte(text))
		texts[hex.EncodeToString(sum[:])] = text
	}
	f.sums = slices.Sorted(maps.Keys(texts))
	for i := range members {
		of := &held{contents: newContents()}
		of.have = maps.Clone(texts)
		name := fmt.Sprint("member-", i)
		asking := fleet.NewClient(credential(t, key, name), clockwork.NewRealClock())
		t.Cleanup(asking.Close)
		copies := fleet.NewCopies(fleet.CopiesOptions{Client: asking, Self: name, Number: number, Clock: f.clock,
			Logger: quiet(), Leader: func() string { return "member-0" },
			All: func(context.Context) ([]fleet.Peer, string, error) {
				others := slices.DeleteFunc(slices.Clone(f.peers), func(p fleet.Peer) bool { return p.Name == name })
				return others, f.away, nil
			}})
		peers := &fleet.Peers{Contents: of, Refuse: refuse, Logger: quiet()}
		if i == 0 {
			peers.Permit = copies.Permit
		}
		f.peersOf = append(f.peersOf, peers)
		behind := &fleet.Behind{Forwarder: newFollower(t, key, 0).Forwarder, Peers: peers,
			Own: func(http.ResponseWriter, *http.Request) bool { return false }}
		server := serve(t, credential(t, key, name), behind.Handler(fleet.Main))
		f.peers = append(f.peers, fleet.Peer{Name: name, URL: server.URL})
		f.held, f.copies = append(f.held, of), append(f.copies, copies)
	}
	return f
}

// trim lets followers search once for what they need not keep, at the same time.
func (f *surplusFleet) trim(t *testing.T, followers ...int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, i := range followers {
		running.Go(func() { f.copies[i].Trim(ctx, f.held[i]) })
	}
	require.NoError(t, f.clock.BlockUntilContext(ctx, len(followers)))
	before := f.collected()
	f.clock.Advance(time.Hour)
	for f.collected() < before+len(followers) {
		require.NoError(t, ctx.Err())
	}
	for range f.sums { // each removal is followed by a pause of less than a second
		require.NoError(t, f.clock.BlockUntilContext(ctx, len(followers)))
		f.clock.Advance(time.Second)
	}
	require.NoError(t, f.clock.BlockUntilContext(ctx, len(followers)))
	cancel()
	running.Wait()
}

func (f *surplusFleet) collected() (n int) {
	for _, of := range f.held {
		of.mu.Lock()
		n += of.collected
		of.mu.Unlock()
	}
	return n
}

// members returns the number of members that have a content.
func (f *surplusFleet) members(sum string) (n int) {
	for _, of := range f.held {
		if of.have[sum] != "" {
			n++
		}
	}
	return n
}

func TestCopies_surplusIsRemoved(t *testing.T) {
	for number, wanted := range map[int]int{0: 4, 2: 2, 3: 3, 4: 4, 5: 4} {
		f := newSurplusFleet(t, 4, number)
		f.trim(t, 1, 2, 3)
		for _, sum := range f.sums {
			require.Equal(t, wanted, f.members(sum), "%d copies", number)
		}
		require.Len(t, f.held[0].have, len(f.sums), "the leader has all")
		require.Equal(t, 3, f.collected(), "contents without a file are removed")
	}
}

func TestCopies_surplusStays(t *testing.T) {
	for name, change := range map[string]func(f *surplusFleet){
		"a member is away":                        func(f *surplusFleet) { f.away = "member-3" },
		"the member that has to keep it lacks it": func(f *surplusFleet) { clear(f.held[2].have) },
		"the copy of that member is damaged":      func(f *surplusFleet) { damage(f.held[2]) },
		"the copy of the leader is damaged":       func(f *surplusFleet) { damage(f.held[0]) },
		"the leader has another number":           func(f *surplusFleet) { f.copies[0].Number = 3 },
		"another member leads":                    func(f *surplusFleet) { f.copies[1].Leader = named("member-2") },
		"nobody leads":                            func(f *surplusFleet) { f.copies[1].Leader = named("") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newSurplusFleet(t, 3, 2)
			change(f)
			f.trim(t, 1)
			require.Len(t, f.held[1].have, len(f.sums))
		})
	}
}

func named(name string) func() string { return func() string { return name } }

func damage(of *held) {
	for sum := range of.have {
		of.have[sum] = "damaged"
	}
}

// The leader changes while a follower waits for the permission.
func TestCopies_permissionOfAFormerLeader(t *testing.T) {
	f := newSurplusFleet(t, 3, 2)
	var mu sync.Mutex
	leader := "member-0"
	f.copies[1].Leader = func() string {
		mu.Lock()
		defer mu.Unlock()
		return leader
	}
	all := f.copies[0].All
	f.copies[0].All = func(ctx context.Context) ([]fleet.Peer, string, error) {
		mu.Lock()
		defer mu.Unlock()
		leader = "member-2"
		return all(ctx)
	}
	f.trim(t, 1)
	require.Len(t, f.held[1].have, len(f.sums))
}

// A content that is too new, or that a snapshot may need, is not read at the other members.
func TestCopies_membersDoNotReadWhatStays(t *testing.T) {
	f := newSurplusFleet(t, 3, 2)
	f.held[1].stays = true
	f.trim(t, 1)
	require.Len(t, f.held[1].have, len(f.sums))
	require.Zero(t, f.held[0].opened)
	require.Zero(t, f.held[2].opened)
}

func TestCopies_damagedContentHoldsUpNoOther(t *testing.T) {
	f := newSurplusFleet(t, 3, 2)
	var follower, leader bytes.Buffer
	f.copies[1].Logger = slog.New(slog.NewTextHandler(&follower, nil))
	f.peersOf[0].Logger = slog.New(slog.NewTextHandler(&leader, nil))
	want := newSurplusFleet(t, 3, 2)
	want.trim(t, 1)
	damaged := slices.DeleteFunc(slices.Clone(f.sums), func(sum string) bool { return want.held[1].have[sum] != "" })[0]
	f.held[2].have[damaged] = "damaged"
	f.trim(t, 1)
	require.NotEmpty(t, f.held[1].have[damaged])
	require.Len(t, f.held[1].have, len(want.held[1].have)+1)
	for name, log := range map[string]string{"follower": follower.String(), "leader": leader.String()} {
		require.Contains(t, log, "too few members have an intact copy of the content "+damaged, name)
		require.Contains(t, log, "the member member-2 answers: read the content "+damaged, name)
	}
}

// A large content takes longer to read than a member waits for the begin of an answer.
func TestPeers_answerBeginsBeforeTheReading(t *testing.T) {
	key, hangs := newKey(t), make(chan struct{})
	of := newContents()
	of.hangs = hangs
	two := member(t, key, &fleet.Peers{Contents: of,
		Permit: func(_ context.Context, _, sum string, own fleet.Contents) error {
			content, _, err := own.OpenContent(sum)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, content)
			return err
		}})
	own := credential(t, key, "one")
	asking := &http.Client{Transport: &http.Transport{TLSClientConfig: own.Client()}}
	t.Cleanup(asking.CloseIdleConnections)
	answers := map[string]*http.Response{}
	for _, path := range []string{"verified", "surplus"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, two.URL+"/fleet/"+path+"/a", nil)
		require.NoError(t, err)
		answers[path], err = asking.Do(request)
		require.NoError(t, err)
	}
	close(hangs)
	for path, want := range map[string]string{"verified": `"yes":false`, "surplus": `"yes":true`} {
		body, err := io.ReadAll(answers[path].Body)
		require.NoError(t, errors.Join(err, answers[path].Body.Close()))
		require.Contains(t, string(body), want)
	}
}

// A URL may be that of another member, such as after an exchange of addresses.
func TestPeers_copiesOfAnotherMemberDoNotCount(t *testing.T) {
	key := newKey(t)
	of := newContents()
	sum := sha256.Sum256([]byte("text"))
	name := hex.EncodeToString(sum[:])
	of.have[name] = "text"
	two := member(t, key, &fleet.Peers{Contents: of,
		Permit: func(context.Context, string, string, fleet.Contents) error { return nil }})
	asking := fleet.NewClient(credential(t, key, "one"), clockwork.NewRealClock())
	t.Cleanup(asking.Close)
	for _, ask := range []func(context.Context, fleet.Peer, string) error{asking.Verified, asking.MayRemove} {
		require.NoError(t, ask(t.Context(), two, name))
		require.ErrorContains(t, ask(t.Context(), fleet.Peer{Name: "three", URL: two.URL}, name),
			"the member two answered at its URL "+two.URL)
	}
}
