package ams

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/amstest"
	"landfall/appliance/ams/outbox"
	"landfall/store"
)

func TestRelay_unexpectedStatesInAMS(t *testing.T) {
	runFaults(t, []faultCase{
		{29, "restored from an older backup", func(s *site) {
			id, vanished, doubled := s.reserved("one"), s.reserved("vanished"), s.reserved("doubled")
			backup := map[string]outbox.Desired{}
			replies := map[string]outbox.Recorded{}
			for _, cluster := range []string{id, vanished, doubled} {
				d, r, err := (&dbState{s.db, s}).Load(s.Context(), cluster)
				require.NoError(s, err)
				backup[cluster], replies[cluster] = d, r
			}
			pending := backup[doubled] // the backup was made just before the report
			pending.Generation, pending.DisplayName = pending.Generation+1, "older"
			backup[doubled] = pending
			s.rename(id, "two")
			s.rename(doubled, "newer")
			s.settle(soon)
			s.ams.Remove(replies[vanished].SubscriptionID)
			require.NoError(s, s.db.Update(s.Context(), func(tx *store.Tx) error {
				for cluster := range backup {
					d, r := backup[cluster], replies[cluster]
					if err := errors.Join(outbox.PutDesired(tx, cluster, &d), outbox.PutRecorded(tx, cluster, &d,
						&r)); err != nil {
						return err
					}
				}
				return nil
			}))
			s.reset()
			s.restart()
			require.NoError(s, s.relay.Reverify(s.Context()))
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
			s.requireRow(doubled, "Reserved", map[string]any{"display_name": "newer"})
			require.Empty(s, s.ams.RowsOf(vanished), "the relay does not recreate the subscription without a request")
			s.requireSent(id)
			s.requireStopped(vanished, outbox.Attention, "gone from AMS")
			s.requireStopped(doubled, outbox.Attention, `"newer"`)
			require.Empty(s, s.calls("update", "create", "delete"))
			require.NoError(s, s.relay.CreateAgain(s.Context(), vanished, "Ann"))
			s.settle(soon)
			s.requireRow(vanished, "Reserved", nil)
		}},
		{35, "metrics arrive first", func(s *site) {
			s.offline()
			id := s.register("one")
			s.install(id, external, "one.example.com")
			s.settle(time.Minute)
			s.ams.Report(external, ours.Username)
			s.online()
			s.settle(soon)
			rows := s.ams.Rows()
			require.Len(s, rows, 1, "no second row")
			require.Equal(s, "one", rows[0]["display_name"])
			require.Equal(s, "https://console-openshift-console.apps.one.example.com", rows[0]["console_url"])
			require.Equal(s, "Active", rows[0]["status"])
			s.requireSent(id)
			require.True(s, s.hasEvent("metrics reached AMS first"))

			late := s.reserved("late") // metrics arrive between the registration and the cluster's own ID
			s.ams.Report(external2, ours.Username)
			s.install(late, external2, "late.example.com")
			s.settle(soon)
			s.requireRow(late, "Active", map[string]any{"external_cluster_id": external2})
			require.Contains(s, s.line(late).Note, "created a separate subscription")
		}},
		{37, "installed and deleted offline", func(s *site) {
			s.offline()
			id := s.register("one")
			s.install(id, external, "one.example.com")
			s.delete(id)
			s.settle(soon)
			require.Equal(s, ClusterWaiting, s.line(id).State, "the record outlives the cluster")
			s.online()
			s.settle(soon)
			s.requireRow(id, "Active", map[string]any{
				"display_name": "one", "external_cluster_id": external,
				"console_url": "https://console-openshift-console.apps.one.example.com",
			})
			require.Equal(s, ClusterLeft, s.line(id).State)
		}},
		{39, "deleted here before the answer to its creation", func(s *site) {
			s.once("create", amstest.CommitThenDrop())
			made := s.register("one")
			s.relay.step(s.Context())
			s.delete(made)
			s.settle(soon)
			s.requireGone(made)
			require.Equal(s, "deleted", s.recorded(made).Closed)
			require.Len(s, s.calls("delete"), 1)

			s.once("create", amstest.DropBefore())
			unmade := s.register("two")
			s.relay.step(s.Context())
			s.delete(unmade)
			from := s.clock.Now()
			s.settle(soon)
			require.Empty(s, s.ams.RowsOf(unmade))
			require.Equal(s, "never", s.recorded(unmade).Closed)
			require.GreaterOrEqual(s, s.clock.Now().Sub(from), 15*time.Minute)
		}},
		{40, "the row becomes Stale, then Archived", func(s *site) {
			s.ams.Ageing = true
			id := s.active("one")
			s.clock.Advance(26 * time.Hour)
			s.settle(soon)
			require.Equal(s, "Stale", s.line(id).RemoteStatus)
			s.clock.Advance(31 * 24 * time.Hour)
			s.settle(soon)
			require.Equal(s, "Archived", s.line(id).RemoteStatus)
			s.rename(id, "two")
			s.settle(soon)
			s.requireRow(id, "Archived", map[string]any{"display_name": "one"})
			s.requireSent(id)
			require.Contains(s, s.line(id).Note, "archived in AMS")
			require.Empty(s, s.calls("update"))
		}},
		{41, "the row of an installed cluster vanishes", func(s *site) {
			id := s.active("one")
			s.ams.Remove(s.recorded(id).SubscriptionID)
			s.rename(id, "two")
			s.settle(soon)
			require.Empty(s, s.ams.RowsOf(id), "the relay does not recreate the subscription silently")
			s.requireStopped(id, outbox.Attention, "gone from AMS")
			require.NoError(s, s.relay.Leave(s.Context(), id, "Ann"))
			s.settle(soon)
			require.Empty(s, s.ams.RowsOf(id))
			s.requireSent(id)
		}},
		{42, "activated in OCM by hand, then deleted here", func(s *site) {
			id := s.reserved("one")
			s.ams.Edit(s.recorded(id).SubscriptionID, map[string]any{"status": "Active"})
			s.delete(id)
			s.settle(soon)
			s.requireRow(id, "Active", nil)
			require.Equal(s, "left", s.recorded(id).Closed)
			require.Empty(s, s.calls("delete"))
		}},
		{45, "renamed in OCM by a person", func(s *site) {
			id := s.active("one")
			s.ams.Edit(s.recorded(id).SubscriptionID, map[string]any{"display_name": "theirs"})
			s.desire(id,
				func(d *outbox.Desired) { d.ConsoleURL = "https://console-openshift-console.apps.other.example.com" })
			s.settle(soon)
			s.requireRow(id, "Active", map[string]any{"display_name": "theirs",
				"console_url": "https://console-openshift-console.apps.other.example.com"})
			require.Contains(s, s.line(id).Note, `"theirs"`)
			s.requireSent(id)
		}},
		{46, "renamed here and in OCM, reported by the relay", func(s *site) {
			id := s.reserved("one")
			s.offline()
			s.rename(id, "ours")
			s.ams.Edit(s.recorded(id).SubscriptionID, map[string]any{"display_name": "theirs"})
			s.online()
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "ours"})
			s.requireSent(id)
		}},
		{53, "the garbage collector deregisters a hundred offline", func(s *site) {
			var waiting, installed []string
			for i := range 100 {
				id := s.register(fmt.Sprintf("c%d", i))
				if i%10 == 0 {
					s.install(id, uuid.NewString(), fmt.Sprintf("c%d.example.com", i))
					installed = append(installed, id)
					continue
				}
				waiting = append(waiting, id)
			}
			s.settle(soon)
			s.offline()
			for _, id := range slices.Concat(waiting, installed) {
				s.delete(id)
			}
			s.settle(time.Minute)
			s.online()
			s.settle(soon)
			require.Len(s, s.ams.Rows(), len(installed))
			for _, id := range installed {
				s.requireRow(id, "Active", nil)
			}
			require.Empty(s, s.ams.WrongDeletes())
		}},
		{54, "a cluster that is not reported to AMS", func(s *site) {
			// package engine tests the decision not to report a cluster
			s.relay.enqueue(uuid.NewString(), s.clock.Now(), false)
			s.settle(soon)
			require.Empty(s, s.calls())
			require.True(s, s.idle())
		}},
		{55, "reset and installed under another domain", func(s *site) {
			id := s.active("one")
			s.prepare(id, external2)
			s.desire(id,
				func(
					d *outbox.Desired) {
					d.ConsoleURL = "https://console-openshift-console.apps.one.other.example.com"
				})
			s.settle(soon)
			s.requireRow(id, "Active", map[string]any{
				"external_cluster_id": external2,
				"console_url":         "https://console-openshift-console.apps.one.other.example.com",
			})
		}},
	})
}
