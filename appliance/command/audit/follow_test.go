package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/membership"
	"landfall/web/console"
)

// following is a running landfall audit --follow --json.
type following struct {
	clock       *clockwork.FakeClock
	out, errOut bytes.Buffer
	cancel      context.CancelFunc
	ended       chan error
}

// follow follows the trails of the appliance at a URL. It returns after the first look at them.
func follow(t *testing.T, url string) *following {
	t.Helper()
	f := &following{clock: clockwork.NewFakeClock(), ended: make(chan error, 1)}
	l := &list{clock: f.clock, asJSON: true}
	command := new(cobra.Command)
	l.trails.addFlags(command)
	require.NoError(t, command.Flags().Set("url", url))
	ctx, cancel := context.WithCancel(t.Context())
	f.cancel = cancel
	go func() { f.ended <- l.followRecords(ctx, &f.out, &f.errOut) }()
	require.NoError(t, f.clock.BlockUntilContext(t.Context(), 1))
	return f
}

// wait waits until the command has looked at the trails for some more times.
func (f *following) wait(t *testing.T, times int) {
	t.Helper()
	for range times {
		f.clock.Advance(followInterval)
		require.NoError(t, f.clock.BlockUntilContext(t.Context(), 1))
	}
}

func (f *following) end(t *testing.T) (out, errOut string) {
	t.Helper()
	f.cancel()
	require.NoError(t, <-f.ended)
	return f.out.String(), f.errOut.String()
}

// TestFollow_continuesAfterTheEndOfTheFleet follows a fleet of two members through the one that
// ends the fleet. Its trail goes on with the next number.
func TestFollow_continuesAfterTheEndOfTheFleet(t *testing.T) {
	var ended atomic.Bool
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch {
		case r.URL.Path == console.FleetRoute && ended.Load():
			assert.NoError(t, json.NewEncoder(w).Encode(membership.Status{}))
		case r.URL.Path == console.FleetRoute:
			assert.NoError(t, json.NewEncoder(w).Encode(membership.Status{Fleet: "f", Member: "two",
				Members: []membership.Member{{Name: "one"}, {Name: "two"}}}))
		case ended.Load() == query.Has("member"):
			w.WriteHeader(http.StatusBadRequest)
		case query.Get("after") == "":
			number := map[string]int{"one": 3, "two": 7}[query.Get("member")]
			fmt.Fprintf(w, `{"items":[{"seq":%d}]}`, number)
		case ended.Load() && query.Get("after") == "7":
			fmt.Fprintln(w, `{"seq":8,"kind":"end","operation":"endFleet"}`)
		}
	}))
	defer appliance.Close()
	f := follow(t, appliance.URL)
	f.wait(t, 1)
	ended.Store(true)
	f.wait(t, 3)
	out, errOut := f.end(t)
	require.Empty(t, errOut)
	require.Equal(t, `{"seq":8,"kind":"end","operation":"endFleet"}`+"\n", out)
}

// TestFollow_continuesAfterRestart follows a single machine that is away for some seconds.
func TestFollow_continuesAfterRestart(t *testing.T) {
	var down atomic.Bool
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch after := r.URL.Query().Get("after"); {
		case down.Load():
			panic(http.ErrAbortHandler)
		case r.URL.Path == console.FleetRoute:
			assert.NoError(t, json.NewEncoder(w).Encode(membership.Status{}))
		case after == "":
			fmt.Fprint(w, `{"items":[{"seq":1}]}`)
		case after == "1":
			fmt.Fprintln(w, `{"seq":2,"kind":"end"}`)
		}
	}))
	defer appliance.Close()
	f := follow(t, appliance.URL)
	down.Store(true)
	f.wait(t, 3)
	down.Store(false)
	f.wait(t, 2)
	out, errOut := f.end(t)
	require.Equal(t, `{"seq":2,"kind":"end"}`+"\n", out)
	require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
	require.Contains(t, errOut, "The records of the appliance are printed when it can be asked again.")
}
