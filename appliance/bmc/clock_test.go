package bmc

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/store"
)

// After the clock was set back by a day, no work of a server waits for that day.
func TestWorker_clockSetBack(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tomorrow := now.Add(24 * time.Hour)
	for name, c := range map[string]struct {
		row         row
		lastSession time.Time
		job         job
		wait        time.Duration
	}{
		"a poll": {lastSession: tomorrow, job: jobPoll, wait: pollInterval},
		"the next attempt": {row: row{Server: Server{Power: PowerOff, Desired: Desired{Online: new(true)},
			Error: &ErrorStatus{RetryAt: tomorrow}}}, job: jobPower, wait: maxBackoff},
		"the eject after a failure": {row: row{EjectAt: tomorrow, Server: Server{Error: &ErrorStatus{
			RetryAt: now.Add(time.Hour)}}}, lastSession: tomorrow, job: jobPoll, wait: maxBackoff},
		"the registration of the agent": {row: row{Server: Server{Booted: &BootStatus{At: tomorrow}}},
			lastSession: tomorrow, job: jobPoll, wait: pollInterval},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := newIdleSite(t), clockwork.NewFakeClockAt(now)
			s.manager.clock = clock
			r := c.row
			r.ID, r.System, r.CredentialsGood, r.State = "n1", &System{}, true, Available
			require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
				return serverRows.Put(tx, r.ID, &r)
			}))
			w := &worker{m: s.manager, id: r.ID, lastSession: c.lastSession}
			wait, gone := w.runNext(t.Context())
			require.False(t, gone)
			require.Equal(t, c.wait, wait)
			clock.Advance(wait - time.Second)
			wait, _ = w.runNext(t.Context())
			require.Equal(t, time.Second, wait, "the time does not move with the clock")
			stored, err := s.manager.load(r.ID)
			require.NoError(t, err)
			next, _ := stored.nextJob(w.lastSession)
			require.Equal(t, c.job, next)
			require.False(t, stored.EjectAt.After(now.Add(failedEjectDelay)))
			if stored.Booted != nil {
				require.Equal(t, now, stored.Booted.At)
			}
		})
	}
}
