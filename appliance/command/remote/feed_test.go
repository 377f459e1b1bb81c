package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/web/console"
)

// feedServer serves a live feed with the events that the test sends. After an empty event, it
// closes the connection.
func feedServer(t *testing.T) (client *Client, events chan<- string) {
	t.Helper()
	home(t)
	sent := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case event := <-sent:
				if event == "" {
					return
				}
				fmt.Fprint(w, event)
				w.(http.Flusher).Flush()
			}
		}
	}))
	t.Cleanup(server.Close)
	return At(server.URL), sent
}

func changeOf(kind string) string {
	return fmt.Sprintf("id: 7\nevent: change\ndata: {\"revision\": 7, \"kind\": %q, \"id\": \"a\"}\n\n", kind)
}

func ofHosts(change console.Change) bool { return change.Kind == "hosts" }

// next calls Next, and lets the time pass in which further changes are gathered.
func next(t *testing.T, changes *Changes, clock *clockwork.FakeClock) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- changes.Next(t.Context()) }()
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	clock.Advance(gather)
	require.NoError(t, <-done)
}

func TestChanges_wantedKinds(t *testing.T) {
	client, events := feedServer(t)
	clock := clockwork.NewFakeClock()
	changes := client.Follow(t.Context(), clock, ofHosts)
	defer changes.Close()
	events <- "event: ping\ndata: {}\n\n"
	events <- changeOf("clusters")
	events <- changeOf("hosts")
	events <- changeOf("hosts")
	next(t, changes, clock)
	events <- "id: 9\nevent: reset\ndata: {}\n\n"
	next(t, changes, clock)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, changes.Next(ctx), context.Canceled)
}

func TestChanges_reconnectsAfterEnd(t *testing.T) {
	client, events := feedServer(t)
	clock := clockwork.NewFakeClock()
	changes := client.Follow(t.Context(), clock, ofHosts)
	defer changes.Close()
	events <- "" // the connection ends
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	clock.Advance(reconnect)
	next(t, changes, clock)
	events <- changeOf("hosts") // on the new connection
	next(t, changes, clock)
}

func TestChanges_withoutFeedEachSecond(t *testing.T) {
	home(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	clock := clockwork.NewFakeClock()
	changes := At(server.URL).Follow(t.Context(), clock, ofHosts)
	defer changes.Close()
	for range 2 {
		require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
		clock.Advance(reconnect)
		<-changes.noted
	}
}
