package bmc

import (
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/store"
)

// fullDisk makes writes to files fail, as on a full disk, until free is called.
func fullDisk(t *testing.T) (free func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	limit := new(syscall.Rlimit)
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, limit))
	free = func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, limit)) }
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: limit.Max}))
	return free
}

// A job runs once, also if its outcome can be stored only later.
func TestWorker_fullDisk(t *testing.T) {
	s := newIdleSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	w := &worker{m: s.manager, id: "n1"}
	wait, _ := w.runNext(t.Context())
	require.Zero(t, wait)
	_, err := s.manager.RequestAction(bg, "n1", ActionPowerOff)
	require.NoError(t, err)

	free := fullDisk(t)
	defer free()
	for range 3 {
		wait, gone := w.runNext(t.Context())
		require.False(t, gone)
		require.Equal(t, minBackoff, wait)
	}
	free()
	w.runNext(t.Context())
	server, err := s.manager.Server("n1")
	require.NoError(t, err)
	require.Nil(t, server.Pending)
	require.Nil(t, server.Error)
	require.Equal(t, 1, powerChanges(b))
}

// A server is not restarted while that cannot be noted.
func TestWorker_fullDiskBeforeRestart(t *testing.T) {
	s := newIdleSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	w := &worker{m: s.manager, id: "n1"}
	w.runNext(t.Context())
	_, err := s.manager.RequestAction(bg, "n1", ActionReset)
	require.NoError(t, err)
	free := fullDisk(t)
	defer free()
	wait, _ := w.runNext(t.Context())
	require.Equal(t, minBackoff, wait)
	require.Zero(t, powerChanges(b))
	free()
	wait, _ = w.runNext(t.Context())
	require.Positive(t, wait)
	r, err := s.manager.load("n1")
	require.NoError(t, err)
	require.Contains(t, r.Error.Message, "The server n1 was not restarted, because Landfall could not note the "+
		"restart first: no space is left to write ")
	require.NoError(t, w.updateRow(bg, r.Generation, func(r *row, now time.Time) { r.Error.RetryAt = now }))
	w.runNext(t.Context())
	require.Equal(t, 1, powerChanges(b))
}

// The outcome of a job is not stored if the desired state has changed since.
func TestWorker_fullDiskThenNewState(t *testing.T) {
	s := newIdleSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	w := &worker{m: s.manager, id: "n1"}
	w.runNext(t.Context())
	require.NoError(t, s.manager.Remove(bg, "n1", false))
	free := fullDisk(t)
	defer free()
	w.runNext(t.Context())
	free()
	require.NoError(t, s.manager.Remove(bg, "n1", true))
	w.runNext(t.Context())
	require.Equal(t, "Off", b.Power(), "the server was removed without a change of its power")
}

func TestWorker_fullDiskWithoutSession(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, alter := range map[string]func(*row){
		"no agent has registered": func(r *row) {
			r.BootMAC, r.Booted = "52:54:00:00:00:07", &BootStatus{At: now.Add(-agentTimeout)}
		},
		"the server is removed":            func(r *row) { r.State, r.Detached = Deleting, true },
		"the address is no longer correct": func(r *row) { r.Address, r.CredentialsGood = "nonsense", false },
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdleSite(t)
			s.manager.clock = clockwork.NewFakeClockAt(now)
			r := row{Server: Server{ID: "n1", System: &System{}, CredentialsGood: true, State: Provisioned}}
			alter(&r)
			require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
				return serverRows.Put(tx, r.ID, &r)
			}))
			w := &worker{m: s.manager, id: r.ID, lastSession: now}
			free := fullDisk(t)
			defer free()
			wait, _ := w.runNext(t.Context())
			require.Equal(t, minBackoff, wait)
			free()
			wait, gone := w.runNext(t.Context())
			require.True(t, gone || wait >= minBackoff, "%s", wait)
		})
	}
}
