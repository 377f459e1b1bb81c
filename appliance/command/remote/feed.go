package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/web/console"
)

const (
	// reconnect is the time between two attempts to open the live feed.
	reconnect = time.Second
	// gather is the time after a change in which further changes are waited for, so that a burst of
	// changes causes one request.
	gather = 50 * time.Millisecond
)

// Changes tell when objects of the appliance have changed, by its live feed. While the feed is not
// available, they assume a change each second.
type Changes struct {
	client *Client
	wanted func(console.Change) bool
	clock  clockwork.Clock

	noted   chan struct{} // has an element if something changed since the last call of Next
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Follow returns the changes from now on for which wanted returns true. The caller closes them.
func (c *Client) Follow(ctx context.Context, clock clockwork.Clock, wanted func(console.Change) bool) *Changes {
	f := &Changes{client: c, wanted: wanted, clock: clock, noted: make(chan struct{}, 1)}
	ctx, f.cancel = context.WithCancel(ctx)
	feed := f.open(ctx)
	f.running.Go(func() { f.run(ctx, feed) })
	return f
}

// Close ends the feed.
func (f *Changes) Close() {
	f.cancel()
	f.running.Wait()
}

// Next waits for a change. It returns the cause of the context's end.
func (f *Changes) Next(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.noted:
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.clock.After(gather):
		return nil
	}
}

// run reads feeds until the context ends. After each attempt to open one, any object may have
// changed.
func (f *Changes) run(ctx context.Context, feed *http.Response) {
	for ctx.Err() == nil {
		if feed != nil {
			f.read(feed)
		}
		select {
		case <-ctx.Done():
		case <-f.clock.After(reconnect):
			feed = f.open(ctx)
			f.note()
		}
	}
	if feed != nil {
		feed.Body.Close()
	}
}

// open returns a feed, or nil if it is not available.
func (f *Changes) open(ctx context.Context) *http.Response {
	response, err := f.client.Do(ctx, http.MethodGet, console.FeedRoute, nil, nil)
	if err != nil {
		return nil
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil
	}
	return response
}

// read notes the changes of a feed until it ends.
func (f *Changes) read(feed *http.Response) {
	defer feed.Body.Close()
	lines := bufio.NewScanner(feed.Body)
	event := ""
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
			continue
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || event == "ping" {
			continue
		}
		var change console.Change
		if event != "change" || json.Unmarshal([]byte(data), &change) != nil || f.wanted(change) {
			f.note()
		}
	}
}

func (f *Changes) note() {
	select {
	case f.noted <- struct{}{}:
	default: // the reader has not seen the former change yet
	}
}
