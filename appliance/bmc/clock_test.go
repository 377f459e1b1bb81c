package bmc

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
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
		"the next login": {row: row{Rejections: 1, Server: Server{Error: &ErrorStatus{RetryAt: tomorrow},
			Pending: &Action{Kind: ActionPowerOn, At: tomorrow}}}, job: jobPower, wait: maxRejectedDelay},
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

// The clock is set back by a day after a boot. The host that registers then is the one that booted.
func TestWorker_clockSetBackDuringBoot(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tomorrow := now.Add(24 * time.Hour)
	s := newIdleSite(t)
	s.manager.clock = clockwork.NewFakeClockAt(now)
	r := row{Server: Server{ID: "n1", System: &System{}, CredentialsGood: true, State: Provisioned,
		Booted: &BootStatus{At: tomorrow}}}
	r.Operations.Provision = OperationMetric{Start: tomorrow.Add(-time.Minute), End: tomorrow}
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error { return serverRows.Put(tx, r.ID, &r) }))
	w := &worker{m: s.manager, id: r.ID, lastSession: tomorrow}
	w.runNext(t.Context())
	require.NoError(t, s.manager.updateServerOf(t.Context(), r.ID,
		Host{HostRef: HostRef{infraEnv, "h"}, Registered: now.Add(time.Minute)}))
	stored, err := s.manager.load(r.ID)
	require.NoError(t, err)
	require.Equal(t, &HostRef{infraEnv, "h"}, stored.Booted.Host)
	require.Equal(t, OperationMetric{Start: now, End: now}, stored.Operations.Provision, "its length is not a day")
}

// The clock of the appliance was ahead when the host registered, and was set back since. The host
// has not registered again after the boot.
func TestBoot_hostRegisteredByALaterClock(t *testing.T) {
	s := newIdleSite(t)
	s.image = newTestSite(t).image
	b := s.startBMC("generic")
	s.ensure(b, nil)
	former := Host{HostRef: HostRef{infraEnv, "h1"}, MACs: []string{"52:54:00:00:00:07"},
		Status: models.HostStatusKnown, Registered: s.clock.Now().Add(24 * time.Hour)}
	s.setHost(former)
	w := &worker{m: s.manager, id: "n1"}
	w.runNext(t.Context())
	_, err := s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err)
	w.runNext(t.Context())
	require.Equal(t, s.image, b.Inserted())
	require.NoError(t, s.manager.updateServerOf(bg, "n1", former))
	server, err := s.manager.Server("n1")
	require.NoError(t, err)
	require.Nil(t, server.Booted.Host, "the host registered before the boot")

	former.Registered = s.clock.Now()
	require.NoError(t, s.manager.updateServerOf(bg, "n1", former))
	server, err = s.manager.Server("n1")
	require.NoError(t, err)
	require.Equal(t, &former.HostRef, server.Booted.Host)
}
