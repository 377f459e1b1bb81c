package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/filecopy"
	"landfall/appliance/sitekey"
)

// contents is a database with files, by the SHA-256 of their contents.
type contents struct {
	mu         sync.Mutex
	wanted     []string
	have       map[string]string
	references chan struct{}
	stored     chan string
	full       bool            // the disk
	hangs      <-chan struct{} // until when the disk hangs; nil: it does not
	opened     int             // contents on the disk that hangs
}

func newContents(wanted ...string) *contents {
	return &contents{wanted: wanted, have: map[string]string{}, references: make(chan struct{}, 1),
		stored: make(chan string, 100)}
}

func (c *contents) NewReferences() <-chan struct{} { return c.references }

func (c *contents) MissingContents(context.Context) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.wanted), func(sum string) bool { return c.have[sum] != "" }), nil
}

func (c *contents) StoreContent(_ context.Context, sum string, r io.Reader) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if c.full {
		return errors.New("the disk is full")
	}
	if string(content) != "content of "+sum {
		return errors.New("it has another SHA-256")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.have[sum] = string(content)
	c.stored <- sum
	return nil
}

func (c *contents) OpenContent(sum string) (io.ReadSeekCloser, int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hangs != nil {
		c.opened++
		beginning := bytes.Repeat([]byte("x"), 1<<20)
		return hanging{bytes.NewReader(beginning), c.hangs}, int64(len(beginning)) + 1, nil
	}
	if c.have[sum] == "" {
		return nil, 0, fs.ErrNotExist
	}
	return seeker{bytes.NewReader([]byte(c.have[sum]))}, int64(len(c.have[sum])), nil
}

type seeker struct{ *bytes.Reader }

func (seeker) Close() error { return nil }

// hanging is a content on a disk that hangs at its last byte.
type hanging struct {
	*bytes.Reader
	until <-chan struct{}
}

func (hanging) Close() error { return nil }

func (h hanging) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if err != nil {
		<-h.until
	}
	return n, err
}

func (h hanging) Seek(offset int64, whence int) (int64, error) {
	at, err := h.Reader.Seek(offset, whence)
	if whence == io.SeekEnd {
		at++
	}
	return at, err
}

// contentFleet is a fleet whose members have contents.
type contentFleet struct {
	key     *sitekey.Key
	others  []fleet.Peer
	members []*contents
}

// newContentFleet starts members with contents.
func newContentFleet(t *testing.T, members ...*contents) *contentFleet {
	t.Helper()
	f := &contentFleet{key: newKey(t), members: members}
	for i, of := range members {
		name := fmt.Sprint("member-", i)
		peers := &fleet.Peers{Contents: of, Refuse: refuse, Logger: quiet()}
		behind := &fleet.Behind{Forwarder: newFollower(t, f.key, 0).Forwarder, Peers: peers,
			Own: func(http.ResponseWriter, *http.Request) bool { return false }}
		server := serve(t, credential(t, f.key, name), behind.Handler(fleet.Main))
		f.others = append(f.others, fleet.Peer{Name: name, URL: server.URL})
	}
	return f
}

// copies returns the copies of a further member. number is that of the wanted copies.
func (f *contentFleet) copies(t *testing.T, number int, clock clockwork.Clock) *fleet.Copies {
	t.Helper()
	asking := fleet.NewClient(credential(t, f.key, "own"), clockwork.NewRealClock())
	t.Cleanup(asking.Close)
	return fleet.NewCopies(fleet.CopiesOptions{Client: asking, Self: "own", Clock: clock, Logger: quiet(),
		Others: func(context.Context) ([]fleet.Peer, error) { return f.others, nil }, Number: number,
		Leader: func() string { return "member-0" }})
}

func TestCopies_copyWhatOthersHave(t *testing.T) {
	first, second := newContents(), newContents()
	first.have["a"], first.have["damaged"] = "content of a", "another content"
	second.have["b"] = "content of b"
	clock := clockwork.NewFakeClock()
	copies := newContentFleet(t, first, second).copies(t, 0, clock)
	own := newContents("a", "b", "damaged", "nowhere")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { copies.Run(ctx, own, false) })
	require.ElementsMatch(t, []string{"a", "b"}, []string{<-own.stored, <-own.stored})

	require.NoError(t, clock.BlockUntilContext(t.Context(), 1)) // it tries the others again
	second.mu.Lock()
	second.have["nowhere"] = "content of nowhere"
	second.mu.Unlock()
	clock.Advance(2 * time.Second)
	require.Equal(t, "nowhere", <-own.stored)
	cancel()
	running.Wait()
	require.Equal(t, []string{"a", "b", "nowhere"}, slices.Sorted(maps.Keys(own.have)))
}

// TestCopies_memberThatHangs copies contents of two members. The disk of one of them hangs in the
// middle of a content.
func TestCopies_memberThatHangs(t *testing.T) {
	first, second, own := newContents(), newContents(), newContents()
	for i := range 20 {
		sum := fmt.Sprint("sum-", i)
		own.wanted = append(own.wanted, sum)
		second.have[sum] = "content of " + sum
	}
	first.hangs = t.Context().Done()
	clock := clockwork.NewFakeClock()
	f := newContentFleet(t, first, second)
	copies := f.copies(t, 0, clock)
	copies.Client = fleet.NewClient(credential(t, f.key, "own"), clock)
	t.Cleanup(copies.Client.Close)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { copies.Run(ctx, own, false) })
	passTime(t, clock)
	for range own.wanted {
		<-own.stored
	}
	cancel()
	running.Wait()
	require.Less(t, first.opened, len(own.wanted)/2, "it is not asked for each of the other contents")
}

// hangingSnapshots stop in the middle of a snapshot.
type hangingSnapshots struct{}

func (hangingSnapshots) Write(ctx context.Context, to io.Writer, _ bool) error {
	_, err := to.Write(make([]byte, 1<<20))
	<-ctx.Done()
	return errors.Join(err, ctx.Err())
}

func TestClient_snapshotThatStops(t *testing.T) {
	key, clock := newKey(t), clockwork.NewFakeClock()
	two := member(t, key, &fleet.Peers{Snapshots: hangingSnapshots{}})
	asking := fleet.NewClient(credential(t, key, "one"), clock)
	t.Cleanup(asking.Close)
	snapshot, err := asking.Snapshot(t.Context(), two)
	require.NoError(t, err)
	passTime(t, clock)
	_, err = io.Copy(io.Discard, snapshot)
	require.EqualError(t, err, "the member two sent nothing for 30s")
	require.NoError(t, snapshot.Close())
}

func TestCopies_numberIsThatOfTheConfiguration(t *testing.T) {
	var sums []string
	leader := newContents()
	for i := range 60 {
		sum := fmt.Sprint("sum-", i)
		sums = append(sums, sum)
		leader.have[sum] = "content of " + sum
	}
	f := newContentFleet(t, leader, newContents(), newContents())
	for number, least := range map[int]int{0: 60, 2: 10, 3: 25, 4: 60, 5: 60} {
		own := newContents(sums...)
		ctx, cancel := context.WithCancel(t.Context())
		clock := clockwork.NewFakeClock()
		copies := f.copies(t, number, clock)
		var running sync.WaitGroup
		running.Go(func() { copies.Run(ctx, own, false) })
		require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
		cancel()
		running.Wait()
		require.GreaterOrEqual(t, len(own.have), least, "%d copies", number)
		if number == 2 {
			require.Less(t, len(own.have), 30, "one of three followers has it")
		}
		missing, err := own.MissingContents(t.Context())
		require.NoError(t, err)
		kept, err := copies.Kept(t.Context(), missing)
		require.NoError(t, err)
		require.Empty(t, kept)
	}
	own := newContents(sums...)
	ctx, cancel := context.WithCancel(t.Context())
	clock := clockwork.NewFakeClock()
	var running sync.WaitGroup
	running.Go(func() { f.copies(t, 2, clock).Run(ctx, own, true) })
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	cancel()
	running.Wait()
	require.Len(t, own.have, 60, "the leader has all")
}

func TestCopies_oneMemberHasAContentBeforeItsRow(t *testing.T) {
	f := newContentFleet(t, newContents(), newContents())
	clock := clockwork.NewFakeClock()
	copies := f.copies(t, 0, clock)
	own := newContents()
	own.have["a"], own.have["b"] = "content of a", "content of b"
	have := func(sum string) (n int) {
		for _, member := range f.members {
			n += len(member.have[sum])
		}
		return n / len("content of a")
	}
	share := func(sum string) {
		copies.Share(t.Context(), sum, func() (io.ReadSeekCloser, int64, error) { return own.OpenContent(sum) })
	}
	share("a")
	require.Equal(t, 1, have("a"))
	copy, err := copies.Fetch(t.Context(), "a")
	require.NoError(t, err)
	text, err := io.ReadAll(copy)
	require.NoError(t, errors.Join(err, copy.Close()))
	require.Equal(t, "content of a", string(text))
	_, err = copies.Fetch(t.Context(), "unknown")
	require.Error(t, err)

	for _, member := range f.members {
		member.full = true
	}
	share("b")
	require.Zero(t, have("b"), "the upload goes on when no member takes the content")
	for _, member := range f.members {
		member.full = false
	}
	share("b")
	require.Zero(t, have("b"), "members that failed are not asked at once")
	clock.Advance(time.Minute)
	share("b")
	require.Equal(t, 1, have("b"))
	f.others = nil
	share("c")
}

func TestCopies_filesOfOtherMembers(t *testing.T) {
	key := newKey(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sum"), []byte("content"), 0o600))
	open := func(dir string) func(string) (*os.File, error) {
		return func(id string) (*os.File, error) { return os.Open(filepath.Join(dir, id)) }
	}
	refuse := func(w http.ResponseWriter, _ *http.Request, err error) {
		require.Equal(t, fault.NotFound, fault.KindOf(err))
		w.WriteHeader(http.StatusNotFound)
	}
	damaged := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(damaged, "damaged"), []byte("CONTENT"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "damaged"), []byte("content"), 0o600))
	var others []fleet.Peer
	for name, has := range map[string]string{"without": t.TempDir(), "damaged": damaged, "with": dir} {
		peers := &fleet.Peers{Image: open(has), Blob: open(has), Refuse: refuse, Logger: quiet()}
		behind := &fleet.Behind{Forwarder: newFollower(t, key, 0).Forwarder, Peers: peers}
		server := serve(t, credential(t, key, name), behind.Handler(fleet.Main))
		others = append(others, fleet.Peer{Name: name, URL: server.URL})
	}
	asking := fleet.NewClient(credential(t, key, "own"), clockwork.NewRealClock())
	t.Cleanup(asking.Close)
	copies := fleet.NewCopies(fleet.CopiesOptions{Client: asking, Logger: quiet(),
		Others: func(context.Context) ([]fleet.Peer, error) { return others, nil }})
	for _, open := range []filecopy.Source{copies.Image, copies.Blob, fleet.Paced(copies.Blob)} {
		for offset, want := range map[int64]string{0: "content", 3: "tent"} {
			content, err := open(t.Context(), "sum", offset)
			require.NoError(t, err)
			text, err := io.ReadAll(content)
			require.NoError(t, errors.Join(err, content.Close()))
			require.Equal(t, want, string(text))
		}
		_, err := open(t.Context(), "unknown", 0)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	given := map[string]bool{}
	for range 100 {
		content, err := copies.Blob(t.Context(), "damaged", 0)
		require.NoError(t, err)
		text, err := io.ReadAll(content)
		require.NoError(t, errors.Join(err, content.Close()))
		given[string(text)] = true
	}
	require.Len(t, given, 2, "the next attempt may ask another member than one whose file is damaged")
}

func TestCopies_shareBlob(t *testing.T) {
	key, source := newKey(t), t.TempDir()
	var others []fleet.Peer
	taken := make(chan string, 10)
	refused := func(w http.ResponseWriter, _ *http.Request, err error) {
		if fault.KindOf(err) == fault.NotFound {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		taken <- "refused: " + err.Error()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for _, name := range []string{"follower", "without a registry"} {
		has := t.TempDir()
		peers := &fleet.Peers{Refuse: refused, Logger: quiet(),
			Blob: func(sum string) (*os.File, error) { return os.Open(filepath.Join(has, sum)) }}
		if name == "follower" {
			peers.TakeBlob = func(_ context.Context, sum string, content io.Reader) error {
				all, err := io.ReadAll(content)
				taken <- string(all)
				return errors.Join(err, os.WriteFile(filepath.Join(has, sum), all, 0o600))
			}
		}
		behind := &fleet.Behind{Forwarder: newFollower(t, key, 0).Forwarder, Peers: peers}
		server := serve(t, credential(t, key, name), behind.Handler(fleet.Main))
		others = append(others, fleet.Peer{Name: name, URL: server.URL})
	}
	asking := fleet.NewClient(credential(t, key, "own"), clockwork.NewRealClock())
	t.Cleanup(asking.Close)
	copies := fleet.NewCopies(fleet.CopiesOptions{Client: asking, Clock: clockwork.NewFakeClock(), Logger: quiet(),
		Others: func(context.Context) ([]fleet.Peer, error) { return others, nil }})
	var outcomes []string
	for i := range 10 {
		sum := fmt.Sprint("sum", i)
		require.NoError(t, os.WriteFile(filepath.Join(source, sum), []byte("content "+sum), 0o600))
		open := func() (*os.File, error) { return os.Open(filepath.Join(source, sum)) }
		copies.ShareBlob(t.Context(), sum, open)
		outcomes = append(outcomes, <-taken)
		if strings.HasPrefix(outcomes[len(outcomes)-1], "refused") {
			outcomes = append(outcomes, <-taken)
		}
		copies.ShareBlob(t.Context(), sum, open)
		require.Empty(t, taken, "the member that has it is asked first, or the other one is not asked for a while")
	}
	refusals := slices.DeleteFunc(slices.Clone(outcomes),
		func(s string) bool { return !strings.HasPrefix(s, "refused") })
	require.Len(t, refusals, 1)
	require.Contains(t, refusals[0], "its configuration has no registry")
	require.Contains(t, outcomes, "content sum9")
	require.Len(t, outcomes, 11)
}

// A follower sends the requests of clients with its own certificate. A client may not use the paths
// of members through it, whatever headers it sends, also if the follower passes them on.
func TestPeers_clientsOfFollowerGetNothing(t *testing.T) {
	key := newKey(t)
	to, f := newLeader(t, key, "leader", describe), newFollower(t, key, time.Minute)
	f.Lead(to.peer())
	trusting := serve(t, credential(t, key, "trusting"), f.Handler(fleet.Main))
	for _, path := range []string{"/fleet/snapshot", "/fleet/content/a", "/fleet/blob/a", "/fleet/trail/list?filter={}",
		"/fleet/trail/verify?expect={}", "/fleet/trail/export?after=0", "/fleet/condition", "/fleet/contacts",
		"/fleet/reads", "/fleet/verified/a", "/fleet/surplus/a", "/fleet/image/a", "/fleet/leave", "/fleet/polls"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
			sent := func(address string) *http.Request {
				request, err := http.NewRequestWithContext(t.Context(), method, address+path, nil)
				require.NoError(t, err)
				request.Header.Set("Landfall-Fleet-Client", "")
				request.Header.Set("Connection", "Upgrade, Landfall-Fleet-Client")
				request.Header.Set("Upgrade", "landfall-polls")
				return request
			}
			for _, at := range []string{f.main.URL, f.boot.URL} {
				status, text := ask(t, client(t), sent(at))
				require.Equal(t, http.StatusNotFound, status, text)
				require.Contains(t, text, "only members of the fleet", "%s %s", method, path)
			}
			status, text := ask(t, client(t), sent(trusting.URL))
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, text, `through "follower"`, "the leader takes %s %s for that of a client", method, path)
		}
	}
}
