package notice

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/egress"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
	"landfall/store"
)

func TestNotifications_kinds(t *testing.T) {
	for name, c := range map[string]struct {
		emit func(*site)
		want Kind // "" for none
	}{
		"installed cluster": {func(s *site) { s.cluster(lifecycle.ClusterInstalled) }, Installed},
		"failed cluster":    {func(s *site) { s.cluster(lifecycle.ClusterFailed) }, Failed},
		"ready cluster":     {func(s *site) { s.cluster(lifecycle.ClusterReady) }, ""},
		"preparation": {func(s *site) { s.states(event.PreparationFailed, false, nil, "It failed.") },
			Attention},
		"wrong boot order": {func(s *site) { s.host(lifecycle.HostPendingUserAction, "Boots the image.") },
			Attention},
		"cluster with it":      {func(s *site) { s.cluster(lifecycle.ClusterPendingUserAction) }, ""},
		"lost host":            {func(s *site) { s.host(lifecycle.HostFailed, "No disk.") }, Failed},
		"host of a failure":    {func(s *site) { s.host(lifecycle.HostFailed, lifecycle.InfoClusterFailed) }, ""},
		"host of an install":   {func(s *site) { s.host(lifecycle.HostInstalled, "") }, ""},
		"host that has joined": {func(s *site) { s.host(lifecycle.HostAdded, "") }, Installed},
		"host to restart":      {func(s *site) { s.host(lifecycle.HostResettingPendingUserAction, "") }, Attention},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.objects(lifecycle.ClusterInstalling)
			c.emit(s)
			_, err := s.collect(t.Context(), "")
			require.NoError(t, err)
			list := s.listed()
			if c.want == "" {
				require.Empty(t, list)
				return
			}
			require.Len(t, list, 1)
			require.Equal(t, c.want, list[0].Kind)
			require.Equal(t, "east", list[0].Cluster.Name)
			require.True(t, strings.HasPrefix(list[0].URL, "https://landfall.test/"))
			if list[0].Host != nil {
				require.Equal(t, &Subject{hostID, "node-1", infraEnvID}, list[0].Host)
				require.Equal(t, "https://landfall.test/hosts/"+infraEnvID+"/"+hostID, list[0].URL)
			}
		})
	}
}

func TestNotifications_hostOfAFailedClusterIsLeftOut(t *testing.T) {
	s := newSite(t)
	s.objects(lifecycle.ClusterFailed)
	s.host(lifecycle.HostFailed, "No disk.")
	s.cluster(lifecycle.ClusterFailed)
	_, err := s.collect(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, s.listed(), 1)
	require.Nil(t, s.listed()[0].Host)
}

func TestNotifications_onceAndTheNewest(t *testing.T) {
	s := newSite(t)
	for range kept + 20 {
		s.cluster(lifecycle.ClusterInstalled)
	}
	last, err := s.collect(t.Context(), "")
	require.NoError(t, err)
	list := s.listed()
	require.Len(t, list, kept)
	require.True(t, strings.HasPrefix(last, list[0].ID), "the newest one is first")
	_, err = s.collect(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, s.listed(), kept)

	none, err := s.List(func(cluster string) bool { return cluster != clusterID })
	require.NoError(t, err)
	require.Empty(t, none)
}

// The position in the events outlives the clusters that they were about, so it does not name them.
func TestPosition_hasNoIDs(t *testing.T) {
	s := newSite(t)
	s.objects(lifecycle.ClusterInstalling)
	s.cluster(lifecycle.ClusterInstalled)
	_, err := s.collect(t.Context(), "")
	require.NoError(t, err)
	var at string
	require.NoError(t, s.DB.View(func(tx *store.Tx) error {
		row, err := positions.Get(tx, position)
		at = *row
		return err
	}))
	require.NotContains(t, at, clusterID)
	last, err := s.collect(t.Context(), at)
	require.NoError(t, err)
	require.Equal(t, at, last, "the event is before the position")
	s.cluster(lifecycle.ClusterFailed)
	last, err = s.collect(t.Context(), at)
	require.NoError(t, err)
	require.Greater(t, last, at)
	require.Len(t, s.listed(), 2)
}

func TestWebhook_retriedAcrossRestart(t *testing.T) {
	s, r := newSite(t), newReceiver(t, 0, 503, 204)
	_, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: r.URL + "/hooks/1", Secret: secret})
	require.NoError(t, err)
	s.run()
	s.cluster(lifecycle.ClusterInstalled)
	s.eventually(func() bool { return s.webhook().Problem != "" }, "the first attempt fails")
	require.Len(t, r.all(), 1)
	require.Equal(t, 1, s.webhook().Pending)

	s.close()
	s.open()
	s.clock.Advance(pauseAfter(1) - time.Second)
	s.run()
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
	require.Len(t, r.all(), 1, "the pause goes on after the restart")
	s.clock.Advance(time.Second)
	s.eventually(func() bool { return strings.Contains(s.webhook().Problem, "status 503") }, "the second attempt")
	s.clock.Advance(pauseAfter(2))
	s.eventually(func() bool { return s.webhook().Pending == 0 }, "the third attempt succeeds")
	require.Empty(t, s.webhook().Problem)
	require.NotNil(t, s.webhook().Delivered)

	got := r.all()
	require.Len(t, got, 3)
	for _, request := range got {
		n := request.notification(t)
		require.Equal(t, Installed, n.Kind)
		require.Equal(t, n.ID, request.header.Get("Webhook-Id"), "an attempt keeps the id")
		require.Equal(t, "v1,"+Signature([]byte(secret), n.ID, request.header.Get("Webhook-Timestamp"), request.body),
			request.header.Get("Webhook-Signature"))
		require.Equal(t, "application/json", request.header.Get("Content-Type"))
	}
	require.NotContains(t, s.log.String(), "hooks/1", "the log does not show the path of the URL")
}

// TestSignature_specification is the example of https://www.standardwebhooks.com.
func TestSignature_specification(t *testing.T) {
	key, err := keyOf("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.NoError(t, err)
	require.Equal(t, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", Signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek",
		"1614265330", []byte(`{"test": 2432232314}`)))
}

func TestWebhook_onlyItsOwnDelivery(t *testing.T) {
	s, broken, working := newSite(t), newReceiver(t, 500), newReceiver(t, 200)
	for name, url := range map[string]string{"broken": broken.URL, "works": working.URL} {
		_, err := s.Add(t.Context(), NewWebhook{Name: name, URL: url, Secret: secret})
		require.NoError(t, err)
	}
	s.run()
	s.cluster(lifecycle.ClusterInstalled)
	s.cluster(lifecycle.ClusterFailed)
	s.eventually(func() bool { return len(working.all()) == 2 && len(broken.all()) >= 2 }, "both are called")
	got := working.all()
	require.Equal(t, Installed, got[0].notification(t).Kind, "the order is that of the events")
	require.Equal(t, Failed, got[1].notification(t).Kind)
}

func TestWebhook_silentReceiverIsAskedOnce(t *testing.T) {
	s := newSite(t)
	_, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: "http://" + port(t), Secret: secret})
	require.NoError(t, err)
	for range 3 {
		s.cluster(lifecycle.ClusterInstalled)
	}
	_, err = s.collect(t.Context(), "")
	require.NoError(t, err)
	next, err := s.sendDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, start.Add(pauseAfter(1)), next)
	require.Equal(t, 3, s.webhook().Pending)
	require.Equal(t, 1, strings.Count(s.log.String(), "attempt=1"), "the others wait with the first one")
	require.NotContains(t, s.webhook().Problem, "http://")
}

// roundTripper calls a function for each request.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A receiver that answers each notification after 14 seconds does not hold up the others for long.
func TestWebhook_slowReceiverWaitsForItsTurn(t *testing.T) {
	s, r := newSite(t), newReceiver(t, 200)
	s.transport = roundTripper(func(request *http.Request) (*http.Response, error) {
		s.clock.Advance(14 * time.Second)
		return http.DefaultTransport.RoundTrip(request)
	})
	_, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: r.URL, Secret: secret})
	require.NoError(t, err)
	for range 3 {
		s.cluster(lifecycle.ClusterInstalled)
	}
	_, err = s.collect(t.Context(), "")
	require.NoError(t, err)
	for sent := 1; sent <= 3; sent++ {
		next, err := s.sendDue(t.Context())
		require.NoError(t, err)
		require.Len(t, r.all(), sent, "one in each look")
		require.Equal(t, sent == 3, next.IsZero(), "the rest is due at once")
	}
	require.Zero(t, s.webhook().Pending)
}

func TestWebhook_droppedAfterAWeek(t *testing.T) {
	s, r := newSite(t), newReceiver(t, 500)
	_, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: r.URL, Secret: secret})
	require.NoError(t, err)
	s.cluster(lifecycle.ClusterInstalled)
	_, err = s.collect(t.Context(), "")
	require.NoError(t, err)
	for s.webhook().Pending > 0 {
		_, err := s.sendDue(t.Context())
		require.NoError(t, err)
		require.Less(t, len(r.all()), 300)
		s.clock.Advance(pauseAfter(len(r.all())))
	}
	require.GreaterOrEqual(t, s.clock.Now().Sub(start), giveUp)
	require.Contains(t, s.log.String(), "is dropped")
}

// After an attempt, the clock is set to the time that it has without a battery, and back.
func TestWebhook_clockIsSet(t *testing.T) {
	s, r := newSite(t), newReceiver(t, 500)
	_, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: r.URL, Secret: secret})
	require.NoError(t, err)
	s.cluster(lifecycle.ClusterInstalled)
	_, err = s.collect(t.Context(), "")
	require.NoError(t, err)
	for attempts, set := range []time.Duration{0, -20 * 365 * 24 * time.Hour, 20 * 365 * 24 * time.Hour} {
		s.clock.Advance(set)
		_, err := s.sendDue(t.Context())
		require.NoError(t, err)
		require.Len(t, r.all(), attempts+1)
		require.Equal(t, 1, s.webhook().Pending, set)
	}
	for range tries {
		s.clock.Advance(time.Hour)
		_, err := s.sendDue(t.Context())
		require.NoError(t, err)
	}
	require.Zero(t, s.webhook().Pending)
	require.Len(t, r.all(), tries)
}

func TestWebhook_removedWithItsDeliveries(t *testing.T) {
	s := newSite(t)
	_, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: "http://" + port(t), Secret: secret})
	require.NoError(t, err)
	s.cluster(lifecycle.ClusterInstalled)
	_, err = s.collect(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, s.Remove(t.Context(), "chat"))
	require.Equal(t, fault.NotFound, fault.KindOf(s.Remove(t.Context(), "chat")))
	next, err := s.sendDue(t.Context())
	require.NoError(t, err)
	require.Zero(t, next)
}

func TestWebhook_secrets(t *testing.T) {
	s := newSite(t)
	added, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: "https://chat.test/hooks/path-secret?token=abc"})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(added.Secret, secretPrefix))
	key, err := keyOf(added.Secret)
	require.NoError(t, err)
	require.Len(t, key, 32)
	require.Equal(t, "https://chat.test/…", s.webhook().URL)
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		row, err := webhooks.Get(tx, "chat")
		require.NotContains(t, row.URL+row.Secret, "path-secret")
		require.NotContains(t, row.URL+row.Secret, added.Secret)
		return err
	}))
	require.NotContains(t, s.log.String(), "path-secret")
}

func TestWebhook_invalid(t *testing.T) {
	s := newSite(t)
	s.only(egress.Options{Deny: []string{"denied.test"}}, nil)
	_, err := s.Add(t.Context(), NewWebhook{Name: "taken", URL: "https://chat.test", Secret: secret})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		wanted NewWebhook
		want   string
		kind   fault.Kind
	}{
		"no name": {NewWebhook{URL: "https://chat.test"}, `"" is not the name of a webhook. Give 1 to 63`,
			fault.Invalid},
		"a slash": {NewWebhook{Name: "a/b", URL: "https://chat.test"}, `"a/b" is not the name`, fault.Invalid},
		"no server": {NewWebhook{Name: "chat", URL: "chat.test"}, "The URL of the webhook must begin with https://",
			fault.Invalid},
		"a password": {NewWebhook{Name: "chat", URL: "https://u:p@chat.test"}, "contains a user or password",
			fault.Invalid},
		"a short secret": {NewWebhook{Name: "chat", URL: "https://chat.test", Secret: "short"}, "shorter than 16 bytes",
			fault.Invalid},
		"no base64": {NewWebhook{Name: "chat", URL: "https://chat.test", Secret: "whsec_%%%%%%%%%%%%%%%%"},
			"without base64", fault.Invalid},
		"a taken name": {NewWebhook{Name: "taken", URL: "https://chat.test"}, "There is a webhook taken.",
			fault.Conflict},
		"a denied host": {NewWebhook{Name: "chat", URL: "https://denied.test"}, "denied.test", fault.Invalid},
		"a loopback":    {NewWebhook{Name: "chat", URL: "http://127.0.0.1:80"}, "loopback", fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Add(t.Context(), c.wanted)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.kind, fault.KindOf(err))
		})
	}
}

func TestWebhook_limitOfNumber(t *testing.T) {
	s := newSite(t)
	for i := range limit {
		_, err := s.Add(t.Context(), NewWebhook{Name: "w" + string(rune('a'+i)), URL: "https://chat.test"})
		require.NoError(t, err)
	}
	_, err := s.Add(t.Context(), NewWebhook{Name: "one-more", URL: "https://chat.test"})
	require.Equal(t, fault.Conflict, fault.KindOf(err))
}

func TestWebhook_try(t *testing.T) {
	s, r := newSite(t), newReceiver(t, 200, 302, 0)
	require.Equal(t, fault.NotFound, fault.KindOf(s.Try(t.Context(), "chat")))
	_, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: r.URL, Secret: secret})
	require.NoError(t, err)
	require.NoError(t, s.Try(t.Context(), "chat"))
	require.Equal(t, Test, r.all()[0].notification(t).Kind)
	require.ErrorContains(t, s.Try(t.Context(), "chat"), "redirect (status 302)")
	err = s.Try(t.Context(), "chat")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.NotContains(t, err.Error(), "http://")
	require.Len(t, r.all(), 3)
}

func TestWebhook_slowReceiver(t *testing.T) {
	s := newSite(t)
	ended := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	defer close(ended)
	s.Timeout = time.Millisecond
	_, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: slow.URL, Secret: secret})
	require.NoError(t, err)
	require.ErrorContains(t, s.Try(context.Background(), "chat"), "did not answer within 1ms")
}

func TestWebhook_rulesAndAuthorities(t *testing.T) {
	s := newSite(t)
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	_, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: receiver.URL, Secret: secret})
	require.NoError(t, err)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw})

	s.only(egress.Options{Allow: []string{"127.0.0.1"}}, nil)
	require.ErrorContains(t, s.Try(t.Context(), "chat"), "certificate")
	s.only(egress.Options{}, authority)
	require.ErrorContains(t, s.Try(t.Context(), "chat"), "loopback")
	s.only(egress.Options{Allow: []string{"127.0.0.1"}}, authority)
	require.NoError(t, s.Try(t.Context(), "chat"))
}

// A start reads the events after the position. Without a new notification, it must not read all
// events again.
func TestNotifications_positionAfterManyOtherEvents(t *testing.T) {
	s := newSite(t)
	s.objects(lifecycle.ClusterInstalling)
	emit := func(events int) {
		for range events {
			s.cluster(lifecycle.ClusterReady)
		}
	}
	emit(batch - 1)
	before := s.db.Revision()
	last, err := s.collect(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, before, s.db.Revision(), "few events are read again, and nothing is written")

	emit(batch)
	_, err = s.collect(t.Context(), last)
	require.NoError(t, err)
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		at, err := positions.Get(tx, position)
		require.NoError(t, err)
		return event.Rows.KeysAfter(tx, *at, func(key string) error {
			require.Fail(t, "a start reads this event again", key)
			return nil
		})
	}))
	s.cluster(lifecycle.ClusterInstalled)
	s.run()
	s.eventually(func() bool { return len(s.listed()) == 1 }, "newer events are read")
}
