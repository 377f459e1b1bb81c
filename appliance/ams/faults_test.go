package ams

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/amstest"
	"landfall/appliance/ams/outbox"
	"landfall/appliance/fault"
	"landfall/store"
)

// faultCase is a row of the table of faults: the fault, and the final state of AMS and of the site.
type faultCase struct {
	number int
	name   string
	run    func(s *site)
}

func runFaults(t *testing.T, cases []faultCase) {
	for _, c := range cases {
		t.Run(fmt.Sprintf("%02d %s", c.number, c.name), func(t *testing.T) { c.run(newSite(t)) })
	}
}

// reserved registers a cluster with the status Reserved in AMS.
func (s *site) reserved(name string) string {
	s.Helper()
	id := s.register(name)
	s.settle(soon)
	s.requireRow(id, "Reserved", map[string]any{"display_name": name})
	s.reset()
	return id
}

// active registers and installs a cluster with the status Active in AMS.
func (s *site) active(name string) string {
	s.Helper()
	id := s.register(name)
	s.install(id, external, name+".example.com")
	s.settle(soon)
	s.requireRow(id, "Active", map[string]any{"display_name": name, "external_cluster_id": external})
	s.reset()
	return id
}

func (s *site) requireSent(id string) {
	s.Helper()
	require.Equal(s, ClusterSent, s.line(id).State, "%+v", s.line(id))
}

func (s *site) requireStopped(id, kind, reason string) {
	s.Helper()
	line := s.line(id)
	require.Equal(s, ClusterAttention, line.State, "%+v", line)
	require.Equal(s, kind, line.Kind)
	require.Contains(s, line.Reason, reason)
}

// once makes the next call of a kind fail.
func (s *site) once(op string, do func(http.ResponseWriter, *http.Request, func(http.ResponseWriter))) {
	s.ams.Break(amstest.Fault{Op: op, Times: 1, Do: do})
}

func TestRelay_connectionFaults(t *testing.T) {
	runFaults(t, []faultCase{
		{1, "offline from start to installed", func(s *site) {
			s.offline()
			id := s.register("one")
			s.settle(soon)
			s.install(id, external, "one.example.com")
			s.settle(soon)
			require.Equal(s, Offline, s.state())
			require.Empty(s, s.calls())
			require.Equal(s, ClusterWaiting, s.line(id).State)
			s.online()
			s.settle(soon)
			s.requireRow(id, "Active", map[string]any{
				"display_name": "one", "external_cluster_id": external,
				"console_url": "https://console-openshift-console.apps.one.example.com",
			})
			s.requireSent(id)
			require.Len(s, s.calls("create", "update"), 2)
		}},
		{2, "offline from preparing to installed", func(s *site) {
			id := s.reserved("one")
			s.offline()
			s.install(id, external, "one.example.com")
			s.settle(soon)
			s.online()
			s.settle(soon)
			s.requireRow(id, "Active", map[string]any{"external_cluster_id": external})
			require.Len(s, s.patches(), 1)
			s.requireSent(id)
		}},
		{3, "create committed, answer lost", func(s *site) {
			s.once("create", amstest.CommitThenDrop())
			id := s.register("one")
			s.settle(soon)
			s.requireRow(id, "Reserved", nil)
			s.requireSent(id)
			require.Len(s, s.calls("create"), 1)
			require.True(s, s.hasEvent("already had the subscription"))
		}},
		{4, "patch committed, answer lost", func(s *site) {
			id := s.reserved("one")
			s.once("update", amstest.CommitThenDrop())
			s.rename(id, "two")
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
			s.requireSent(id)
			require.Len(s, s.calls("update"), 1)
			require.Equal(s, "two", s.recorded(id).Acked.DisplayName)
		}},
		{5, "delete committed, answer lost", func(s *site) {
			for _, tombstones := range []bool{false, true} {
				id := s.reserved("one")
				s.ams.Tombstones = tombstones
				s.once("delete", amstest.CommitThenDrop())
				s.delete(id)
				s.settle(soon)
				s.requireGone(id)
				require.Equal(s, "deleted", s.recorded(id).Closed)
				require.Len(s, s.calls("delete"), 1)
				s.ams.Heal()
			}
		}},
		{6, "killed before the POST", func(s *site) {
			id := s.register("one")
			s.ams.Break(amstest.Fault{Op: "create", Times: 1, Do: amstest.DropBefore()})
			s.relay.step(s.Context())
			s.restart()
			from := s.clock.Now()
			s.settle(soon)
			s.requireRow(id, "Reserved", nil)
			s.requireSent(id)
			posts := s.ams.Requests("create")
			require.Len(s, posts, 2)
			require.GreaterOrEqual(s, posts[1].At.Sub(from), 15*time.Minute, "a search could have missed it before")
		}},
		{7, "killed before the answer", func(s *site) {
			ctx, kill := context.WithCancel(s.Context())
			s.once("create", func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter)) {
				kill()
				amstest.CommitThenDrop()(w, r, serve)
			})
			id := s.register("one")
			s.relay.step(ctx)
			s.restart()
			s.settle(soon)
			s.requireRow(id, "Reserved", nil)
			require.Len(s, s.calls("create"), 1)
			s.requireSent(id)
		}},
		{8, "killed before the commit of the answer", func(s *site) {
			s.once("create", func(w http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
				serve(w)
				s.fill(errors.New("killed"))
			})
			id := s.register("one")
			s.relay.step(s.Context())
			require.Empty(s, s.recorded(id).SubscriptionID)
			s.fill(nil)
			s.restart()
			s.settle(soon)
			s.requireRow(id, "Reserved", nil)
			require.Len(s, s.calls("create"), 1)
			s.requireSent(id)
		}},
		{9, "renamed three times offline", func(s *site) {
			id := s.reserved("one")
			s.offline()
			for _, name := range []string{"two", "three", "four"} {
				s.rename(id, name)
				s.settle(time.Minute)
			}
			s.online()
			s.settle(soon)
			require.Equal(s, []map[string]any{{"display_name": "four"}}, s.patches())
			s.requireSent(id)
		}},
		{10, "created and deleted offline", func(s *site) {
			s.offline()
			id := s.register("one")
			s.settle(time.Minute)
			s.delete(id)
			s.settle(time.Minute)
			s.online()
			s.settle(soon)
			require.Empty(s, s.calls())
			require.Empty(s, s.line(id).ClusterID, "no record remains")
		}},
		{11, "renamed and deleted offline", func(s *site) {
			id := s.reserved("one")
			s.offline()
			s.rename(id, "two")
			s.delete(id)
			s.settle(time.Minute)
			s.reset()
			s.online()
			s.settle(soon)
			s.requireGone(id)
			require.Equal(s, []string{"get", "delete", "get"}, s.calls(),
				"no PATCH, one DELETE, and a read that confirms it")
			require.Equal(s, ClusterLeft, s.line(id).State)
		}},
		{12, "failed and installed again offline", func(s *site) {
			s.offline()
			id := s.register("one")
			s.prepare(id, external2)
			s.settle(time.Minute)
			s.install(id, external, "one.example.com")
			s.online()
			s.settle(soon)
			s.requireRow(id, "Active", map[string]any{"external_cluster_id": external})
			s.requireSent(id)
		}},
		{13, "deleted after it was installed", func(s *site) {
			id := s.active("one")
			s.delete(id)
			s.settle(soon)
			s.requireRow(id, "Active", nil)
			require.Equal(s, "left", s.recorded(id).Closed)
			require.Empty(s, s.calls("delete", "update"))
		}},
		{24, "no DNS, or a private address from DNS", func(s *site) {
			s.dnsGone()
		}},
		{25, "reset in the middle of the body", func(s *site) {
			for _, op := range []string{"account", "search", "create", "get", "update"} {
				s.once(op, amstest.CutBody())
			}
			id := s.register("one")
			s.install(id, external, "one.example.com")
			s.settle(12 * time.Hour)
			s.requireRow(id, "Active", map[string]any{"external_cluster_id": external})
			s.requireSent(id)
			require.Len(s, s.calls("create"), 1, "a search precedes a second POST")
		}},
		{27, "the clock jumps a year forward, then back", func(s *site) {
			s.offline()
			id := s.register("one")
			s.settle(time.Minute)
			s.clock.Advance(365 * 24 * time.Hour)
			s.relay.step(s.Context())
			s.clock.Advance(-365 * 24 * time.Hour)
			next := s.relay.step(s.Context())
			require.LessOrEqual(s, next.Sub(s.clock.Now()), 15*time.Minute, "no wait exceeds its limit")
			s.online()
			s.settle(soon)
			s.requireRow(id, "Reserved", nil)
			s.once("create", amstest.DropBefore()) // a clock jump must not end a quarantine
			other := s.register("two")
			s.relay.step(s.Context())
			s.clock.Advance(time.Minute)
			s.relay.step(s.Context())
			s.clock.Advance(365 * 24 * time.Hour)
			s.relay.step(s.Context())
			require.Empty(s, s.ams.RowsOf(other))
			s.settle(soon)
			s.requireRow(other, "Reserved", nil)
		}},
		{28, "disk full at the receipt", func(s *site) {
			s.once("create", func(w http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
				serve(w)
				s.fill(&store.WriteError{Path: "landfall.db", Err: errors.New("no space left on device")})
			})
			id := s.register("one")
			s.relay.step(s.Context())
			require.Contains(s, s.line(id).Reason, "may have created the subscription")
			// the cluster can still be changed
			s.desire(id, func(d *outbox.Desired) { d.DisplayName = "two" })
			s.fill(nil)
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
			s.requireSent(id)
			require.Len(s, s.calls("create"), 1)
		}},
	})
}

// fill makes writes to the store fail with err; nil ends this.
func (s *site) fill(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = err
}

func (s *site) scan() error {
	_, err := s.relay.scan()
	return err
}

func TestRelay_missingCredentialsAreShown(t *testing.T) {
	s := newSite(t)
	s.secret.secret = Secret{}
	s.settle(soon)
	require.Equal(t, NoCredentials, s.state())
	s.secret.secret.OfflineToken = s.ams.AddAccount(ours)
	s.relay.Connect(0)
	s.settle(soon)
	require.NotEqual(t, NoCredentials, s.state())
}

func TestRelay_credentialFaults(t *testing.T) {
	them := amstest.Account{ID: "2GOuThem", Username: "them", Organization: "2GOuTheirs", OrganizationName: "Theirs"}
	runFaults(t, []faultCase{
		{14, "access token expired", func(s *site) {
			id := s.reserved("one")
			s.ams.ExpireAccess()
			s.rename(id, "two")
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
			require.Len(s, s.ams.Requests("token"), 1)
			require.Equal(s, Online, s.state())
		}},
		{15, "refresh token revoked", func(s *site) {
			id := s.reserved("one")
			s.ams.Revoke()
			s.rename(id, "two")
			s.settle(soon)
			require.Equal(s, PausedCredentials, s.state())
			s.requireRow(id, "Reserved", map[string]any{"display_name": "one"})
			require.Zero(s, s.line(id).Attempts, "the attempt is not counted for the cluster")
			before := len(s.ams.Requests())
			s.clock.Advance(time.Hour)
			s.settle(soon)
			require.Len(s, s.ams.Requests(), before, "the relay sends no request without new credentials")
			s.secret.secret.OfflineToken = s.ams.AddAccount(ours)
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
			s.requireSent(id)
		}},
		{16, "token of another organization", func(s *site) {
			id := s.reserved("one")
			mine := s.secret.secret
			s.secret.secret.OfflineToken = s.ams.AddAccount(them)
			s.restart()
			s.rename(id, "two")
			s.settle(soon)
			require.Equal(s, PausedIdentity, s.state())
			require.Empty(s, s.calls())
			status, err := s.relay.Status(s.Context(), Selection{})
			require.NoError(s, err)
			require.Contains(s, status.Problem, "Theirs")
			require.Contains(s, status.Problem, "Ours")
			s.secret.secret = mine
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
		}},
		{17, "403 on one cluster of many", func(s *site) {
			s.offline()
			var ids []string
			for i := range 6 {
				ids = append(ids, s.register(fmt.Sprintf("c%d", i)))
			}
			s.online()
			s.ams.Break(amstest.Fault{Op: "create", Cluster: ids[2], Do: amstest.Status(403,
				11, "This account may not")})
			s.settle(soon)
			for i, id := range ids {
				if i == 2 {
					s.requireStopped(id, outbox.Blocked, "This account may not")
					require.Equal(s, "ACCT-MGMT-11", s.line(id).Code)
					require.Equal(s, "operation-of-the-fault", s.line(id).OperationID)
					continue
				}
				s.requireSent(id)
			}
			s.ams.Heal()
			require.NoError(s, s.relay.Retry(s.Context(), ids[2], "Ann"))
			s.settle(soon)
			s.requireSent(ids[2])
			require.True(s, s.hasEvent("Requested by Ann"))
		}},
		{30, "two appliances with the same clusters", func(s *site) {
			id := s.reserved("one")
			s.option = func(o *Options) { o.Machine = "there" }
			s.restart() // the same data on another machine
			s.rename(id, "two")
			s.settle(soon)
			require.Equal(s, PausedPerson, s.state())
			require.Empty(s, s.calls())
			require.NoError(s, s.relay.Accept(s.Context()))
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
			s.requireSent(id)
			require.Equal(s, fault.Conflict, fault.KindOf(s.relay.Accept(s.Context())), "no pause is left to confirm")
		}},
		{50, "killed between the new refresh token and its write", func(s *site) {
			s.ams.Rotate = true
			s.secret.broken = errors.New("killed")
			id := s.register("one")
			s.settle(time.Second)
			s.secret.broken = nil
			s.restart()
			s.settle(soon)
			require.Equal(s, PausedCredentials, s.state())
			status, err := s.relay.Status(s.Context(), Selection{})
			require.NoError(s, err)
			require.Contains(s, status.Problem, "invalid_grant")
			require.Equal(s, ClusterWaiting, s.line(id).State)
		}},
		{56, "disabled, then enabled", func(s *site) {
			ids := []string{s.register("one"), s.register("two")}
			s.install(ids[0], external, "one.example.com")
			gone := s.register("three")
			s.delete(gone)
			s.restart() // nothing has run so far
			require.Empty(s, s.ams.Requests())
			require.NotEmpty(s, s.line(ids[0]).SubscriptionID)
			s.settle(soon)
			s.requireRow(ids[0], "Active", map[string]any{"external_cluster_id": external})
			s.requireRow(ids[1], "Reserved", nil)
			require.Empty(s, s.ams.RowsOf(gone))
		}},
	})
}

func TestRelay_answerFaults(t *testing.T) {
	them := amstest.Account{ID: "2GOuThem", Username: "them", Organization: "2GOuTheirs", OrganizationName: "Theirs"}
	runFaults(t, []faultCase{
		{18, "row deleted by hand, then renamed", func(s *site) {
			id := s.reserved("one")
			was := s.recorded(id).SubscriptionID
			s.ams.Remove(was)
			s.rename(id, "two")
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
			now := s.recorded(id)
			require.NotEqual(s, was, now.SubscriptionID)
			require.Equal(s, []string{was}, now.Former)
		}},
		{19, "409 on POST", func(s *site) {
			id := uuid.NewString()
			s.ams.AddAccount(them)
			s.ams.Make("them", id, "theirs")
			s.rename(id, "one")
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "theirs"})
			s.requireStopped(id, outbox.Blocked, "belongs to another account")
		}},
		{20, "429 with and without Retry-After, and a quota", func(s *site) {
			s.once("create", amstest.Status(429, 1, "too fast", "Retry-After", "600"))
			id := s.register("one")
			from := s.clock.Now()
			s.relay.step(s.Context())
			other := s.register("two")
			s.relay.step(s.Context())
			require.Empty(s, s.ams.RowsOf(other), "all clusters wait during a pause that AMS requested")
			s.settle(soon)
			s.requireSent(id)
			s.requireSent(other)
			require.GreaterOrEqual(s, s.ams.Requests("create")[1].At.Sub(from), 10*time.Minute)

			s.ams.Break(amstest.Fault{Op: "update", Times: 2, Do: amstest.Status(429, 1, "too fast", "Retry-After",
				s.clock.Now().Add(30*time.Minute).UTC().Format(http.TimeFormat))})
			s.rename(id, "three")
			s.settle(soon)
			s.requireSent(id)

			s.ams.Break(amstest.Fault{Op: "create", Do: amstest.Status(429, 1,
				"limits of the subscription are exceeded")})
			full := s.register("full")
			s.settle(soon)
			s.requireStopped(full, outbox.Blocked, "limit or quota")
			s.ams.Heal()
			s.clock.Advance(25 * time.Hour)
			s.settle(soon)
			s.requireSent(full)
		}},
		{21, "bursts of 500, 502, 503 and empty bodies", func(s *site) {
			for _, op := range []string{"account", "search", "create", "get", "update"} {
				s.once(op, amstest.Answer(503, "text/html", "<html>unavailable</html>"))
				if op == "create" {
					s.once(op, amstest.CommitThenAnswer(500, "", ""))
					continue
				}
				s.once(op, amstest.Status(500, 9, "general"))
				s.once(op, amstest.Empty(502))
			}
			id := s.register("one")
			s.install(id, external, "one.example.com")
			s.settle(24 * time.Hour)
			s.requireRow(id, "Active", map[string]any{"external_cluster_id": external})
			s.requireSent(id)
		}},
		{38, "403 on the DELETE", func(s *site) {
			id := s.reserved("one")
			s.ams.Break(amstest.Fault{Op: "delete", Do: amstest.Status(403, 11, "not yours to delete")})
			s.delete(id)
			s.settle(soon)
			s.requireRow(id, "Reserved", nil)
			s.requireStopped(id, outbox.Blocked, "not yours to delete")
		}},
		{47, "POST answered with an id only, without a subscription, or not allowed", func(s *site) {
			id := s.reserved("one") // the server answers with a reference
			require.NotEmpty(s, s.recorded(id).Remote, "a GET completes the recorded object")

			s.once("create", amstest.CommitThenAnswer(200, "application/json", `{"allowed": true}`))
			bare := s.register("two")
			s.settle(soon)
			s.requireRow(bare, "Reserved", nil)
			s.requireSent(bare)
			require.Len(s, s.calls("create"), 1)

			s.ams.Allowed = func(string) bool { return false }
			refused := s.register("three")
			s.settle(soon)
			s.requireStopped(refused, outbox.Blocked, "resource_name")
			require.Empty(s, s.ams.RowsOf(refused))
		}},
		{48, "the search lags minutes behind the create", func(s *site) {
			s.ams.SearchLag, s.ams.RepeatMakesAnother = 10*time.Minute, true
			s.once("create", amstest.CommitThenDrop())
			id := s.register("one")
			s.settle(soon)
			s.requireRow(id, "Reserved", nil)
			s.requireSent(id)
		}},
		{49, "two rows for one cluster", func(s *site) {
			s.ams.SearchLag, s.ams.RepeatMakesAnother = 20*time.Minute, true // longer than the quarantine
			s.once("create", amstest.CommitThenDrop())
			s.once("create", amstest.CommitThenDrop())
			id := s.register("one")
			s.settle(12 * time.Hour)
			s.requireRow(id, "Reserved", nil)
			s.requireSent(id)

			s.ams.SearchLag = 0
			twice := uuid.NewString()
			colleague := amstest.Account{ID: "2GOuColleague", Username: "colleague", Organization: ours.Organization}
			s.ams.AddAccount(colleague)
			s.ams.Make("colleague", twice, "a")
			s.ams.Make("colleague", twice, "b")
			s.rename(twice, "two")
			s.settle(soon)
			s.requireStopped(twice, outbox.Attention, "2 subscriptions of this cluster that another client created")
			require.Len(s, s.ams.RowsOf(twice), 2)
		}},
		{51, "the cluster changes during the call", func(s *site) {
			id := s.reserved("one")
			s.once("update", func(w http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
				s.rename(id, "three")
				serve(w)
			})
			s.rename(id, "two")
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "three"})
			s.requireSent(id)
		}},
		{52, "AMS rejects Disconnected", func(s *site) {
			s.option = func(o *Options) { o.FinalStatus = statusDisconnected }
			s.restart()
			s.ams.RefuseDisconnected = true
			id := s.register("one")
			s.install(id, external, "one.example.com")
			s.settle(soon)
			s.requireRow(id, "Active", nil)
			s.requireSent(id)
			require.Contains(s, s.line(id).Note, "rejected the status Disconnected")
			s.ams.RefuseDisconnected = false
			other := s.register("two")
			s.install(other, external2, "two.example.com")
			s.settle(soon)
			s.requireRow(other, "Disconnected", nil)
		}},
	})
}
