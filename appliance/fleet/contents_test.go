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
	"slices"
	"sync"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
)

// contents is a database with files, by the SHA-256 of their contents.
type contents struct {
	mu         sync.Mutex
	wanted     []string
	have       map[string]string
	references chan struct{}
	stored     chan string
}

func newContents(wanted ...string) *contents {
	return &contents{wanted: wanted, have: map[string]string{}, references: make(chan struct{}, 1),
		stored: make(chan string, 10)}
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
	if c.have[sum] == "" {
		return nil, 0, fs.ErrNotExist
	}
	return seeker{bytes.NewReader([]byte(c.have[sum]))}, int64(len(c.have[sum])), nil
}

type seeker struct{ *bytes.Reader }

func (seeker) Close() error { return nil }

func TestCopier_copiesWhatOthersHave(t *testing.T) {
	key := newKey(t)
	first, second := newContents(), newContents()
	first.have["a"], first.have["damaged"] = "content of a", "another content"
	second.have["b"] = "content of b"
	var others []fleet.Peer
	for i, of := range []*contents{first, second} {
		name := fmt.Sprint("member-", i)
		peers := &fleet.Peers{Contents: of, Refuse: refuse, Logger: quiet()}
		behind := &fleet.Behind{Forwarder: newFollower(t, key, 0).Forwarder, Peers: peers,
			Own: func(http.ResponseWriter, *http.Request) bool { return false }}
		server := serve(t, credential(t, key, name), behind.Handler(false))
		others = append(others, fleet.Peer{Name: name, URL: server.URL})
	}
	asking := fleet.NewClient(credential(t, key, "third"))
	t.Cleanup(asking.Close)
	clock := clockwork.NewFakeClock()
	copier := &fleet.Copier{Client: asking, Clock: clock, Logger: quiet(),
		Others: func(context.Context) ([]fleet.Peer, error) { return others, nil }}
	own := newContents("a", "b", "damaged", "nowhere")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { copier.Run(ctx, own) })
	require.ElementsMatch(t, []string{"a", "b"}, []string{<-own.stored, <-own.stored})

	require.NoError(t, clock.BlockUntilContext(t.Context(), 1)) // the copier tries the others again
	second.mu.Lock()
	second.have["nowhere"] = "content of nowhere"
	second.mu.Unlock()
	clock.Advance(1e10)
	require.Equal(t, "nowhere", <-own.stored)
	cancel()
	running.Wait()
	require.Equal(t, []string{"a", "b", "nowhere"}, slices.Sorted(maps.Keys(own.have)))
}

func TestPeers_strangersGetNothing(t *testing.T) {
	key := newKey(t)
	f := newFollower(t, key, 0)
	for _, path := range []string{"/fleet/snapshot", "/fleet/content/a"} {
		status, _ := get(t, client(t), f.main.URL+path)
		require.Equal(t, http.StatusServiceUnavailable, status, "a client's %s goes to the leader", path)
	}
}
