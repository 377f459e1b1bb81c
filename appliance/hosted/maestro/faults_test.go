package maestro

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/appliance/simulate/workagent"
	"landfall/store"
)

// faults are what can go wrong between an appliance and a management cluster, with their numbers
// (see appliance/hosted/faults_test.go). deleted are the hosted clusters that a person deleted: no
// other one may be deleted.
var faults = []struct {
	name    string
	deleted []string
	run     func(t *testing.T, s *site)
}{
	{"01 broker not listening at create", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		require.Equal(t, "1", s.release("c1"))
		require.EqualValues(t, 1, s.status(id).ResourceVersion)
	}},
	{"02 broker dies between PUBACK and commit", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.toService = func(messages []cloudevent.Message) []cloudevent.Message {
			return slices.DeleteFunc(messages, func(m cloudevent.Message) bool {
				event, err := cloudevent.Parse(m)
				return err == nil && event.SubResource == cloudevent.Status
			})
		}
		s.connect()
		require.Nil(t, s.status(id), "the status is lost")
		s.toService = nil
		s.restart()
		s.connect()
		require.NotNil(t, s.status(id), "the request for statuses brings it again")
	}},
	{"03 appliance killed before, between and after outbox row, publish, PUBACK", nil, func(t *testing.T, s *site) {
		id := s.create("c1") // killed after the commit
		s.restart()
		s.dial()
		_, err := s.link.Send(context.Background()) // killed after publish
		require.NoError(t, err)
		s.restart()
		s.connect()
		require.Equal(t, "1", s.release("c1"))
		s.edit(id, "2")
		s.settle()
		s.restart()
		s.connect()
		require.Equal(t, "2", s.release("c1"))
		require.EqualValues(t, 2, s.status(id).ResourceVersion)
	}},
	{"04 agent never connected: 7 days of edits, then one resync", nil, func(t *testing.T, s *site) {
		var ids []string
		for i := range 20 {
			ids = append(ids, s.create(fmt.Sprintf("c%d", i)))
		}
		for day := range 7 {
			s.clock.Advance(24 * time.Hour)
			for _, id := range ids {
				s.edit(id, fmt.Sprintf("day %d", day))
			}
		}
		s.connect()
		require.Equal(t, len(ids), s.specs, "each bundle once")
		require.Equal(t, "day 6", s.release("c7"))
	}},
	{"05 agent offline for days with 30 updates: only the last version is sent", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		s.cut()
		before := s.specs
		for i := range 30 {
			s.clock.Advance(6 * time.Hour)
			s.edit(id, fmt.Sprint(i))
		}
		s.connect()
		require.Equal(t, before+1, s.specs)
		require.Equal(t, "29", s.release("c1"))
		require.EqualValues(t, 31, s.status(id).ResourceVersion)
	}},
	{"06 agent killed and restarted (empty cache): all rows sent, no status lost", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.create("c2")
		s.connect()
		before := s.status(id)
		s.restartAgent(0)
		s.connect()
		require.Equal(t, 4, s.specs, "all rows are sent")
		require.Equal(t, before.ResourceVersion, s.status(id).ResourceVersion, "no status is lost")
	}},
	{"07 duplicate spec", nil, func(t *testing.T, s *site) {
		s.toAgent = func(messages []cloudevent.Message) []cloudevent.Message { return append(messages, messages...) }
		id := s.create("c1")
		s.connect()
		require.EqualValues(t, 1, s.status(id).ResourceVersion)
	}},
	{"08 duplicate status", nil, func(t *testing.T, s *site) {
		s.toService = func(messages []cloudevent.Message) []cloudevent.Message { return append(messages, messages...) }
		id := s.create("c1")
		s.connect()
		require.EqualValues(t, 1, s.status(id).ResourceVersion)
	}},
	{"09 specs out of order", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		var kept []cloudevent.Message
		s.toAgent = func(messages []cloudevent.Message) []cloudevent.Message {
			kept = append(kept, messages...)
			return nil
		}
		s.edit(id, "2")
		s.settle()
		s.edit(id, "3")
		s.settle()
		s.toAgent = nil
		slices.Reverse(kept)
		s.handle(kept)
		s.settle()
		require.Equal(t, "3", s.release("c1"))
		require.EqualValues(t, 3, s.status(id).ResourceVersion)
	}},
	{"10 statuses out of order (sequenceid)", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		var kept []cloudevent.Message
		s.connect()
		s.toService = func(messages []cloudevent.Message) []cloudevent.Message {
			kept = append(kept, messages...)
			return nil
		}
		s.edit(id, "2")
		s.settle()
		require.Len(t, kept, 2)
		s.toService = nil
		s.send(kept[1], kept[0])
		var data statusData
		require.NoError(t, json.Unmarshal(s.status(id).Data, &data))
		require.Contains(t, string(s.status(id).Data), `"observedGeneration":2`, "the older status has no effect")
	}},
	{"11 status with old resourceversion", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		before := s.status(id)
		s.cut()
		s.edit(id, "2")
		s.dial()
		s.service.delivery("mc1").queue = nil // the agent does not get version 2
		s.send(s.agent.Poll(1 << 62)...)
		require.Equal(t, before, s.status(id))
	}},
	{"13 agent clock one day back, then right again", nil, func(t *testing.T, s *site) {
		ids := []string{s.create("c1"), s.create("c2"), s.create("c3")}
		s.connect()
		s.restartAgent(-24 * time.Hour)
		s.connect()
		for _, id := range ids {
			s.edit(id, "2")
			s.settle()
			require.EqualValues(t, 1, s.status(id).ResourceVersion, "its statuses seem to be older")
		}
		clock := s.service.ClockFaults()["mc1"]
		require.InDelta(t, 24*time.Hour, clock.Until.Sub(clock.Agent), float64(time.Minute), "it is shown")
		s.service.delivery("mc1").probe()
		s.settle()
		require.NotEmpty(t, s.service.ClockFaults(), "the clock is still wrong")
		s.agent.WithClockError(0) // the session goes on, and the agent has nothing new to report
		s.poll()
		require.EqualValues(t, 1, s.status(ids[0]).ResourceVersion)
		s.service.delivery("mc1").probe()
		s.settle()
		for _, id := range ids {
			require.EqualValues(t, 2, s.status(id).ResourceVersion, "one is asked for; then the others")
		}
		require.Empty(t, s.service.ClockFaults())
		require.False(t, s.service.delivery("mc1").misses())
	}},
	{"13 the same; another status shows that the clock is right again", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		s.restartAgent(-24 * time.Hour)
		s.connect()
		s.edit(id, "2")
		other := s.create("c2")
		s.settle()
		require.EqualValues(t, 1, s.status(other).ResourceVersion, "it has no newer one")
		require.NotEmpty(t, s.service.ClockFaults(), "the other bundle still waits")
		s.agent.WithClockError(0)
		s.edit(other, "2")
		s.settle()
		require.EqualValues(t, 2, s.status(id).ResourceVersion)
		require.Empty(t, s.service.ClockFaults())
	}},
	{"13 the same; the agent restarts when its clock is right again", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		s.restartAgent(-24 * time.Hour)
		s.connect()
		s.edit(id, "2")
		s.settle()
		s.restartAgent(0)
		s.connect()
		require.EqualValues(t, 2, s.status(id).ResourceVersion)
		require.Empty(t, s.service.ClockFaults())
	}},
	{"13 the same; nothing is missing in the next session", nil, func(t *testing.T, s *site) {
		s.create("c1")
		s.connect()
		s.restartAgent(-24 * time.Hour)
		s.connect()
		require.NotEmpty(t, s.service.ClockFaults())
		s.agent.WithClockError(0)
		s.connect() // the agent's status is the stored one, so it is not asked for
		require.Empty(t, s.service.ClockFaults())
	}},
	{"13 the same; a person ends a hold before the clock is right again", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		s.restartAgent(-24 * time.Hour) // it names no bundles
		s.connect()
		s.edit(id, "2")
		s.settle()
		// The bundle is sent again. The real agent has this version, and does not report again.
		s.toAgent = func(messages []cloudevent.Message) []cloudevent.Message {
			return slices.DeleteFunc(messages, func(m cloudevent.Message) bool {
				event, err := cloudevent.Parse(m)
				require.NoError(t, err)
				return event.SubResource == cloudevent.Spec
			})
		}
		require.NoError(t, s.service.HoldConsumer(t.Context(), "mc1", "anna"))
		require.NoError(t, s.service.Release(t.Context(), "mc1", "anna"))
		s.settle()
		require.EqualValues(t, 1, s.status(id).ResourceVersion)
		s.agent.WithClockError(0)
		s.service.delivery("mc1").probe()
		s.settle()
		require.EqualValues(t, 2, s.status(id).ResourceVersion)
		require.Empty(t, s.service.ClockFaults())
	}},
	{"15 two consumers, status for the other's bundle: refused, logged", nil, func(t *testing.T, s *site) {
		s.update(func(tx *store.Tx) error {
			return bundle.CreateConsumer(tx, &bundle.Consumer{Name: "mc2"}, s.clock.Now())
		})
		id := s.create("c1")
		s.connect()
		before := s.status(id)
		s.service.receive(context.Background(), "mc2", []cloudevent.Message{
			statusOf(id, 1, func(e *cloudevent.Event) { e.Consumer = "mc2" }),
			statusOf(id, 1, func(*cloudevent.Event) {})})
		require.Equal(t, before, s.status(id))
	}},
	{"17 spec update with wrong version: 409", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		err := s.db.Update(context.Background(), func(tx *store.Tx) error {
			_, err := bundle.Update(tx, id, 7, s.clock.Now(), func(*bundle.Bundle) error { return nil })
			return err
		})
		require.Equal(t, fault.Conflict, fault.KindOf(err))
	}},
	{"18 update of a deleting bundle: 409", []string{"c1"}, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		s.remove(id)
		err := s.db.Update(context.Background(), func(tx *store.Tx) error {
			_, err := bundle.Update(tx, id, 0, s.clock.Now(), func(*bundle.Bundle) error { return nil })
			return err
		})
		require.Equal(t, fault.Conflict, fault.KindOf(err))
		s.settle()
		require.Nil(t, s.row(id))
	}},
	{"19 delete while offline, then resync", []string{"c1"}, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		s.cut()
		s.remove(id)
		require.NotNil(t, s.row(id))
		s.connect()
		require.Nil(t, s.row(id))
		require.Nil(t, s.status(id))
	}},
	{"20 delete, Deleted status lost, resync heals", []string{"c1"}, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		s.remove(id)
		s.toService = func([]cloudevent.Message) []cloudevent.Message { return nil }
		s.settle()
		require.NotNil(t, s.row(id))
		s.toService = nil
		s.connect()
		require.Nil(t, s.row(id))
	}},
	{"21 create and delete while offline: the resync sends only the delete", nil, func(t *testing.T, s *site) {
		s.create("c2")
		s.connect()
		before := s.specs
		s.cut()
		id := s.create("c1")
		s.edit(id, "2")
		s.remove(id)
		s.connect()
		require.Equal(t, before+1, s.specs)
		require.Equal(t, 1, s.deletes, "the resync sends only the delete")
		require.Empty(t, s.release("c1"), "nothing is applied")
		require.Nil(t, s.row(id))
	}},
	{"24 broken status: no JSON, wrong type, 4 MiB, no sequenceid, unknown id, foreign originalsource", nil, func(
		t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		before := s.status(id)
		for name, change := range map[string]func(*cloudevent.Event){
			"wrong type":              func(e *cloudevent.Event) { e.Data = json.RawMessage(`{"conditions":3}`) },
			"missing sequenceid":      func(e *cloudevent.Event) { e.SequenceID = "" },
			"sequenceid no number":    func(e *cloudevent.Event) { e.SequenceID = "-1" },
			"foreign originalsource":  func(e *cloudevent.Event) { e.OriginalSource = "other" },
			"missing originalsource":  func(e *cloudevent.Event) { e.OriginalSource = "" },
			"other consumer":          func(e *cloudevent.Event) { e.Consumer = "mc2" },
			"a path as the ID":        func(e *cloudevent.Event) { e.ResourceID = "a/b" },
			"a spec of an agent":      func(e *cloudevent.Event) { e.SubResource = cloudevent.Spec },
			"a request for a resync":  func(e *cloudevent.Event) { e.Action = cloudevent.ResyncRequest },
			"an ID of the wrong size": func(e *cloudevent.Event) { e.ResourceID = strings.Repeat("a", 300) },
		} {
			s.send(statusOf(id, 1, change))
			require.Equal(t, before, s.status(id), name)
		}
		broken := statusOf(id, 1, func(*cloudevent.Event) {})
		broken.Payload = []byte(`{"conditions":[`)
		s.send(broken)
		require.Equal(t, before, s.status(id))
		hold, _ := s.held()
		require.Nil(t, hold)
		large := statusOf(id, 1, func(e *cloudevent.Event) {
			e.Metadata = s.status(id).Metadata
			e.Data = json.RawMessage(`{"conditions":[],"resourceStatus":[],"x":"` + strings.Repeat("x", 4<<20-1<<16) + `"}`)
		})
		s.send(large)
		require.Greater(t, len(s.status(id).Data), 4<<20-1<<16, "a large status is stored")

		s.send(statusOf("11112222", 1, func(*cloudevent.Event) {}))
		_, open := s.held()
		require.Len(t, open, 1, "a person decides about an unknown ID")
		require.NoError(t, s.decide("11112222", Ignore, ""))
	}},
	{"34 10,000 bundles on one consumer, paced, 0 lost, agent restart in the middle", nil,
		func(t *testing.T, s *site) {
			l := newListening(t, bundles)
			s.cluster = l.cluster
			agent, stop := l.start()
			l.wait("half of the bundles", func() bool { return agent.Known() >= bundles/2 })
			stop()
			agent, _ = l.start()
			l.wait("all bundles and statuses", func() bool {
				return agent.Known() == bundles && l.statuses() == bundles
			})
			require.Empty(t, l.cluster.Deleted("Namespace"))
		}},
	{"36 full disk during a status: negative PUBACK, retry", nil, func(t *testing.T, s *site) {
		var kept []cloudevent.Message
		s.toService = func(messages []cloudevent.Message) []cloudevent.Message {
			for _, m := range messages {
				if event, err := cloudevent.Parse(m); err == nil && event.SubResource == cloudevent.Status {
					kept = append(kept, m)
				}
			}
			return messages
		}
		id := s.create("c1")
		s.connect()
		kept = nil
		s.edit(id, "2")
		s.toService = func(messages []cloudevent.Message) []cloudevent.Message {
			kept = append(kept, messages...)
			return nil
		}
		s.settle()
		require.NotEmpty(t, kept)
		before := s.status(id)
		free := fullDisk(t)
		failures := s.service.receive(context.Background(), "mc1", kept)
		free()
		require.Len(t, failures, len(kept))
		for _, err := range failures {
			require.Error(t, err, "the broker refuses the message, and the agent repeats it")
		}
		require.Equal(t, before, s.status(id))
		for _, err := range s.service.receive(context.Background(), "mc1", kept) {
			require.NoError(t, err)
		}
		require.EqualValues(t, 2, s.status(id).ResourceVersion)
		s.toService = nil
		s.connect()
		require.Equal(t, "2", s.release("c1"))
	}},
	{"29 restore from an older backup: hold, no delete", nil, func(t *testing.T, s *site) {
		s.create("c1")
		s.connect()
		backup := s.backup()
		s.connect()
		lost := s.create("c2")
		s.settle()
		s.restore(backup)
		s.connect()
		hold, open := s.held()
		require.NotNil(t, hold)
		require.Len(t, open, 1)
		require.Equal(t, Unknown, open[0].Kind)
		require.Equal(t, lost, open[0].ID)
		require.Equal(t, "c2", open[0].Name, "the agent returns the name")
		require.Equal(t, "c2", open[0].Labels[bundle.LabelCluster])
		require.Len(t, open[0].Objects, 2)
		sent := s.specs
		other := s.create("c3")
		s.settle()
		require.Equal(t, sent, s.specs, "nothing is sent while the consumer is held")
		require.Zero(t, s.deletes)

		require.NoError(t, s.decide(lost, Adopt, ""))
		s.settle()
		s.poll()
		require.EqualValues(t, 1, s.row(lost).Version)
		require.NotNil(t, s.status(other))
		require.Equal(t, "1", s.release("c2"))
		s.restartAgent(0)
		s.connect()
		require.Equal(t, "1", s.release("c2"), "an adopted bundle is only observed")
		require.NotNil(t, s.status(lost))
	}},
	{"29 the same; a person deletes by name", []string{"c2"}, func(t *testing.T, s *site) {
		backup := s.backup()
		s.connect()
		lost := s.create("c2")
		s.settle()
		s.restore(backup)
		s.connect()
		require.Equal(t, fault.Invalid, fault.KindOf(s.decide(lost, DeleteThere, "")))
		require.Equal(t, fault.Invalid, fault.KindOf(s.decide(lost, DeleteThere, "c1")))
		require.NoError(t, s.decide(lost, DeleteThere, "c2"))
		s.settle()
		hold, _ := s.held()
		require.Nil(t, hold)
		require.Empty(t, s.cluster.Objects())
	}},
	{"30 restore with lower versions: named+1", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		backup := s.backup()
		s.connect()
		for i := range 5 {
			s.edit(id, fmt.Sprintf("lost %d", i))
			s.settle()
		}
		s.restore(backup)
		s.edit(id, "mine")
		s.connect()
		_, open := s.held()
		require.Len(t, open, 1)
		require.Equal(t, Newer, open[0].Kind)
		require.Equal(t, "lost 4", s.release("c1"), "the older state is not sent without a decision")
		require.NoError(t, s.decide(id, Adopt, ""))
		s.settle()
		require.EqualValues(t, 7, s.row(id).Version)
		require.Equal(t, "mine", s.release("c1"))
		require.EqualValues(t, 7, s.status(id).ResourceVersion)
	}},
	{"30 the same; as many edits as before", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		backup := s.backup()
		s.connect()
		s.edit(id, "lost")
		s.settle()
		s.restore(backup)
		s.edit(id, "mine")
		s.edit(id, "mine again") // version 3; the agent holds 2
		s.connect()
		_, open := s.held()
		require.Len(t, open, 1)
		require.Equal(t, Foreign, open[0].Kind, "the stamp shows it")
		require.Equal(t, "lost", s.release("c1"))
		require.NoError(t, s.decide(id, Adopt, ""))
		s.settle()
		require.Equal(t, "mine again", s.release("c1"))
		require.EqualValues(t, s.row(id).Version, s.status(id).ResourceVersion)
	}},
	{"30 the same; a snapshot of the running appliance", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		snapshot := t.TempDir()
		copyDir(t, s.dir, snapshot)
		s.edit(id, "lost")
		s.settle()
		s.restore(snapshot)
		s.edit(id, "mine")
		s.edit(id, "mine again")
		s.connect()
		_, open := s.held()
		require.Len(t, open, 1)
		require.Equal(t, Foreign, open[0].Kind, "the run is known, its revision is not")
		require.Equal(t, "lost", s.release("c1"))
		require.NoError(t, s.decide(id, Ignore, ""))
		s.settle()
		s.restartAgent(0)
		s.connect()
		require.Equal(t, "lost", s.release("c1"))
	}},
	{"31 second appliance with the same source id", nil, func(t *testing.T, s *site) {
		s.create("c1")
		s.connect()
		s.cut()
		other := newSite(t)
		other.cluster, other.agent = s.cluster, s.agent
		mine := other.create("c9")
		other.connect()
		hold, open := other.held()
		require.NotNil(t, hold)
		require.Equal(t, Unknown, open[0].Kind)
		require.NotEmpty(t, open[0].Stamp.Run)
		require.Zero(t, other.specs, "nothing is sent")
		require.NoError(t, other.decide(open[0].ID, Ignore, ""))
		other.settle()
		require.NotNil(t, other.status(mine))
		other.cut()
		s.connect()
		hold, open = s.held()
		require.NotNil(t, hold, "the first appliance sees the second one")
		require.Len(t, open, 1)
		require.Equal(t, mine, open[0].ID)
	}},
	{"31 the same; a copy of the data directory", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		s.identity = "second"
		s.restart()
		hold, _ := s.held()
		require.Equal(t, HoldCopied, hold.Cause)
		s.edit(id, "2")
		s.connect()
		hold, _ = s.held()
		require.Nil(t, hold, "the agent has confirmed the rows")
		require.Equal(t, "2", s.release("c1"))
		s.identity = "third"
		s.restart()
		s.restartAgent(0)
		sent := s.specs
		s.connect()
		hold, _ = s.held()
		require.NotNil(t, hold, "a restarted agent can't confirm anything")
		require.Equal(t, sent, s.specs)
		require.NoError(t, s.service.Release(context.Background(), "mc1", "anna"))
		s.settle()
		require.Equal(t, sent+1, s.specs)
	}},
	{"32 broker name changed: eviction flag holds", nil, func(t *testing.T, s *site) {
		s.create("c1")
		s.connect()
		s.restartAgent(0) // the source is silent
		s.clock.Advance(365 * 24 * time.Hour)
		s.agent.Poll(876000 * time.Hour)
		s.clock.Advance(365 * 24 * time.Hour)
		s.agent.Poll(876000 * time.Hour)
		require.Equal(t, "1", s.release("c1"))
	}},
	{"33 empty status batch after full batches: not sent", nil, func(t *testing.T, s *site) {
		for i := range statusBatch {
			s.create(fmt.Sprintf("c%d", i))
		}
		s.connect()
		s.cut()
		requests := 0
		s.toAgent = func(messages []cloudevent.Message) []cloudevent.Message {
			for _, m := range messages {
				event, err := cloudevent.Parse(m)
				require.NoError(t, err)
				if event.SubResource == cloudevent.Status {
					requests++
					var list cloudevent.KnownStatuses
					require.NoError(t, json.Unmarshal(event.Data, &list))
					require.Len(t, list.Hashes, statusBatch)
				}
			}
			return messages
		}
		before := s.specs
		s.connect()
		require.Equal(t, 1, requests)
		require.Equal(t, before, s.specs, "nothing has changed")
	}},
	{"removed there, but not here", nil, func(t *testing.T, s *site) {
		id := s.create("c1")
		s.connect()
		s.send(statusOf(id, 1, func(e *cloudevent.Event) {
			e.Metadata = s.status(id).Metadata
			e.Data = json.RawMessage(`{"conditions":[{"type":"Deleted","status":"True"}]}`)
		}))
		require.NotNil(t, s.row(id))
		_, open := s.held()
		require.Equal(t, Gone, open[0].Kind)
		require.NoError(t, s.decide(id, Adopt, ""))
		s.settle()
		require.EqualValues(t, 2, s.row(id).Version)
		require.EqualValues(t, 2, s.status(id).ResourceVersion)
	}},
	{"an appliance without annotations has sent it", nil, func(t *testing.T, s *site) {
		data, err := json.Marshal(cloudevent.BundleData{Manifests: manifests("c9", "1")})
		require.NoError(t, err)
		foreign := &cloudevent.Event{ID: "1", Source: broker.SourceID, SubResource: cloudevent.Spec,
			Action: cloudevent.Create, Time: began, Consumer: "mc1", ResourceID: "11112222", ResourceVersion: 4,
			Data: data}
		s.agent.Handle(foreign.Message())
		s.connect()
		_, open := s.held()
		require.Len(t, open, 1)
		require.Equal(t, "11112222", open[0].ID)
		require.NoError(t, s.decide("11112222", Ignore, ""))
		hold, _ := s.held()
		require.Nil(t, hold)
		s.connect()
		hold, _ = s.held()
		require.Nil(t, hold, "nobody is asked again")
		require.Equal(t, "1", s.release("c9"))
	}},
}

func TestFaults(t *testing.T) {
	for _, test := range faults {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t)
			test.run(t, s)
			s.requireDeleted(test.deleted...)
		})
	}
}

// The stand-in evicts like the real agent, without the flag that the appliance's manifest sets.
func TestAgent_evictsWithoutFlag(t *testing.T) {
	s := newSite(t)
	s.create("c1")
	s.connect()
	s.restartAgent(0)
	s.agent.Poll(time.Hour)
	s.clock.Advance(2 * time.Hour)
	s.agent.Poll(time.Hour)
	s.requireDeleted("c1")
	require.Equal(t, []workagent.Ref(nil), s.cluster.Deleted("NodePool"))
}

// A person who decides about a bundle knows the hosted cluster by its name.
func TestFinding_namesHostedCluster(t *testing.T) {
	f := Finding{ID: "b1", Name: "2udq-workers", Kind: Unknown, Labels: map[string]string{bundle.LabelName: "edge5"}}
	require.Contains(t, f.Sentence(), "The bundle 2udq-workers (b1) of the hosted cluster edge5 runs on the management")
	f = Finding{ID: "b1", Kind: Gone}
	require.Contains(t, f.Sentence(), "The bundle b1 was removed")
}
