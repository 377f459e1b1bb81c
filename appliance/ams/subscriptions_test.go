package ams

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
)

// Members of a completely reported subscription, from AMS's documentation.
var members = []string{
	"id", "kind", "href", "plan", "cluster_id", "external_cluster_id", "organization_id", "last_telemetry_date",
	"created_at", "updated_at", "support_level",
	"display_name", "creator", "managed", "status", "provenance", "last_reconcile_date", "console_url",
	"last_released_at", "metrics", "cloud_provider_id",
	"trial_end_date",
}

func TestSubscriptions_existFromRegistration(t *testing.T) {
	s := newSite(t)
	s.offline()
	id := s.register("one")
	fresh, err := s.relay.Subscriptions(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, fresh, 1)
	require.Equal(t, "Reserved", fresh[0]["status"])
	require.Equal(t, ClusterWaiting, fresh[0]["landfall"].(map[string]any)["state"])
	provisional := fresh[0]["id"].(string)
	require.Len(t, provisional, 27)
	require.Equal(t, id, outbox.ClusterOf(provisional))
	s.install(id, external, "one.example.com")
	whole, err := s.relay.Subscription(t.Context(), provisional)
	require.NoError(t, err)
	for _, member := range members {
		require.Contains(t, whole, member)
	}
	require.Equal(t, "Active", whole["status"], "the desired status is shown immediately")
	require.Equal(t, external, whole["external_cluster_id"])

	s.online()
	s.settle(soon)
	s.ams.Report(external, ours.Username)
	require.NoError(t, s.relay.Retry(t.Context(), id, "Ann"))
	s.settle(soon)
	found, err := s.relay.Subscription(t.Context(), provisional)
	require.NoError(t, err, "the provisional ID still identifies the subscription")
	again, err := s.relay.Subscription(t.Context(), found["id"].(string))
	require.NoError(t, err)
	require.Equal(t, found, again)
	delete(found, "landfall")
	inAMS, err := json.Marshal(s.row(id))
	require.NoError(t, err)
	here, err := json.Marshal(found)
	require.NoError(t, err)
	require.JSONEq(t, string(inAMS), string(here), "AMS's own object, including metrics and unknown fields")
	_, err = s.relay.Subscription(t.Context(), "2GOuuT2l3odeHRdWqY57fviSE2K")
	require.ErrorIs(t, err, ErrNoSubscription)
}

// readClock calls a function when it is read.
type readClock struct {
	clockwork.Clock
	onRead func()
}

func (c *readClock) Now() time.Time {
	c.onRead()
	return c.Clock.Now()
}

func TestSubscriptions_clusterRegistersMeanwhile(t *testing.T) {
	clock := &readClock{onRead: func() {}}
	s := newSite(t, func(o *Options) {
		clock.Clock = o.Clock
		o.Clock = clock
	})
	s.offline()
	s.register("one")
	clock.onRead = func() { // the list has read the status of the first cluster
		clock.onRead = func() {}
		s.register("two")
	}
	for _, clusters := range []int{1, 2} {
		shown, err := s.relay.Subscriptions(t.Context(), "")
		require.NoError(t, err)
		require.Len(t, shown, clusters)
	}
}
