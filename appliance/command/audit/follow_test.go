package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/membership"
	"landfall/web/console"
)

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
	clock := clockwork.NewFakeClock()
	l := &list{clock: clock, asJSON: true}
	command := new(cobra.Command)
	l.trails.addFlags(command)
	require.NoError(t, command.Flags().Set("url", appliance.URL))
	ctx, cancel := context.WithCancel(t.Context())
	var out, errOut bytes.Buffer
	followed := make(chan error)
	go func() { followed <- l.followRecords(ctx, &out, &errOut) }()
	next := func() {
		require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
		clock.Advance(followInterval)
	}
	next()
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	ended.Store(true)
	for range 3 {
		next()
	}
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	cancel()
	require.NoError(t, <-followed)
	require.Empty(t, errOut.String())
	require.Equal(t, `{"seq":8,"kind":"end","operation":"endFleet"}`+"\n", out.String())
}
