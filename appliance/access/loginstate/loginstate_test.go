package loginstate_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/loginstate"
)

type state struct {
	Nonce string `json:"nonce"`
}

func newBox(t *testing.T) (*loginstate.Box, *clockwork.FakeClock) {
	t.Helper()
	clock := clockwork.NewFakeClock()
	box, err := loginstate.New(time.Minute, clock)
	require.NoError(t, err)
	return box, clock
}

func TestBox_opensWhatItSealed(t *testing.T) {
	box, clock := newBox(t)
	sealed, err := box.Seal(state{"secret"})
	require.NoError(t, err)
	require.NotContains(t, sealed, "secret")
	require.Regexp(t, `^[A-Za-z0-9_-]+$`, sealed, "the value of a cookie")
	clock.Advance(time.Minute - time.Nanosecond)
	var opened state
	_, err = box.Open(sealed, &opened)
	require.NoError(t, err)
	require.Equal(t, state{"secret"}, opened)
	clock.Advance(time.Nanosecond)
	_, err = box.Open(sealed, &opened)
	require.ErrorIs(t, err, loginstate.ErrExpired)
}

func TestBox_foreignStatesAreRejected(t *testing.T) {
	box, _ := newBox(t)
	other, _ := newBox(t)
	sealed, err := box.Seal(state{"a"})
	require.NoError(t, err)
	foreign, err := other.Seal(state{"a"})
	require.NoError(t, err)
	for name, text := range map[string]string{
		"empty": "", "not base64": "!", "short": "AAAA", "cut off": sealed[:len(sealed)-2],
		"altered": strings.Repeat("A", 4) + sealed[4:], "of another key, such as before a restart": foreign,
		"too long": strings.Repeat("A", 1<<20),
	} {
		var opened state
		_, err := box.Open(text, &opened)
		require.ErrorIs(t, err, loginstate.ErrForeign, name)
		require.Zero(t, opened, name)
	}
}

func TestBox_loginIsCompletedOnce(t *testing.T) {
	box, clock := newBox(t)
	sealed, err := box.Seal(state{"a"})
	require.NoError(t, err)
	var opened state
	id, err := box.Open(sealed, &opened)
	require.NoError(t, err)
	var completed atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if box.Spend(id) == nil {
				completed.Add(1)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, completed.Load())
	_, err = box.Open(sealed, &opened)
	require.ErrorIs(t, err, loginstate.ErrSpent)
	clock.Advance(time.Minute)
	_, err = box.Open(sealed, &opened)
	require.ErrorIs(t, err, loginstate.ErrExpired, "the memory of completed logins may end now")
}

func FuzzBox_open(f *testing.F) {
	box, err := loginstate.New(time.Minute, clockwork.NewFakeClock())
	require.NoError(f, err)
	sealed, err := box.Seal(state{"a"})
	require.NoError(f, err)
	f.Add(sealed)
	f.Fuzz(func(t *testing.T, text string) {
		var opened state
		if _, err := box.Open(text, &opened); err == nil {
			require.Equal(t, state{"a"}, opened)
		}
	})
}
