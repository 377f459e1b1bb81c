package maestro

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/store"
)

var histories = flag.Int("histories", 60, "number of random histories")

// history is a random history of an appliance and a management cluster.
type history struct {
	*site
	random *rand.Rand
	live   []string        // IDs of the bundles that were created, also in a lost state
	asked  map[string]bool // the clusters that a person deleted
	names  map[string]string
	saved  []string // backups
	next   int
	log    []string
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// any returns a bundle with a row that is not being deleted, or "".
func (h *history) any() string {
	if len(h.live) == 0 {
		return ""
	}
	id := h.live[h.random.IntN(len(h.live))]
	if b := h.row(id); b == nil || b.Deleting() {
		return ""
	}
	return id
}

// disturb loses, repeats and reorders messages.
func (h *history) disturb(messages []cloudevent.Message) []cloudevent.Message {
	var out []cloudevent.Message
	for _, m := range messages {
		switch h.random.IntN(10) {
		case 0: // lost
		case 1:
			out = append(out, m, m)
		default:
			out = append(out, m)
		}
	}
	if h.random.IntN(3) == 0 {
		h.random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

// step does one random thing.
func (h *history) step() {
	switch h.random.IntN(16) {
	case 0, 1:
		h.next++
		name := fmt.Sprintf("c%d", h.next)
		id := h.create(name)
		h.live, h.names[id] = append(h.live, id), name
		h.note("create %s", name)
	case 2, 3, 4:
		if id := h.any(); id != "" {
			h.next++
			h.edit(id, fmt.Sprint(h.next))
			h.note("edit %s: %d", h.names[id], h.next)
		}
	case 5:
		if id := h.any(); id != "" {
			h.asked[h.names[id]] = true
			h.remove(id)
			h.note("delete %s", h.names[id])
		}
	case 6, 7:
		h.note("connect")
		h.connect()
	case 8:
		h.note("end the connection")
		h.cut()
	case 9:
		h.note("power cut of the appliance")
		if h.random.IntN(2) == 0 {
			h.halfway()
		}
		h.restart()
	case 10:
		h.note("power cut of the management cluster")
		if h.random.IntN(2) == 0 {
			h.halfway()
		}
		h.restartAgent(time.Duration(h.random.IntN(3)-1) * time.Hour)
	case 11:
		if len(h.saved) < 2 {
			h.note("backup")
			h.saved = append(h.saved, h.backup())
		}
	case 12:
		if len(h.saved) > 0 && h.random.IntN(2) == 0 {
			h.note("restore")
			h.restore(h.saved[h.random.IntN(len(h.saved))])
		}
	case 13:
		h.note("the connection gets bad")
		h.toAgent, h.toService = h.disturb, h.disturb
	case 14:
		h.note("the connection gets good")
		h.toAgent, h.toService = nil, nil
	case 15:
		h.poll()
	}
	h.clock.Advance(time.Duration(h.random.IntN(100)) * time.Second)
	h.settle()
	if h.random.IntN(4) == 0 {
		h.decideOne()
	}
}

// halfway lets only a part of what is to be sent arrive.
func (h *history) halfway() {
	h.dial()
	messages, err := h.link.Send(context.Background())
	require.NoError(h.t, err)
	for _, m := range messages {
		if h.random.IntN(2) == 0 {
			return
		}
		replies := h.agent.Handle(m)
		if h.random.IntN(2) == 0 {
			h.send(replies...)
		}
	}
}

// decideOne decides about a finding, if there is one.
func (h *history) decideOne() bool {
	hold, open := h.held()
	if hold == nil {
		return false
	}
	if len(open) == 0 {
		return h.service.Release(context.Background(), "mc1", "anna") == nil
	}
	f := open[h.random.IntN(len(open))]
	decision := []Decision{Adopt, Ignore, DeleteThere}[h.random.IntN(3)]
	if h.decide(f.ID, decision, f.ID) != nil { // such as: the agent has not yet reported the objects
		decision = Ignore
		require.NoError(h.t, h.decide(f.ID, decision, f.ID))
	}
	if decision == DeleteThere {
		h.asked[h.names[f.ID]] = true
	}
	h.note("%s: %s %s", decision, f.Kind, h.names[f.ID])
	return true
}

// end brings both sides to rest: with a good connection, correct clocks, and all decisions made.
func (h *history) end() {
	h.toAgent, h.toService = nil, nil
	h.clock.Advance(3 * time.Hour)
	h.agent = h.agent.WithClockError(0)
	for range 50 {
		h.connect()
		h.poll()
		if !h.decideOne() {
			break
		}
	}
	h.connect()
	h.poll()
}

// check compares the management cluster with the rows.
func (h *history) check() {
	hold, open := h.held()
	require.Nil(h.t, hold)
	require.Empty(h.t, open)
	for _, ref := range h.cluster.Deleted("HostedCluster") {
		require.True(h.t, h.asked[ref.Name], "nobody deleted %s", ref.Name)
	}
	decided := map[string]*Finding{}
	h.view(func(tx *store.Tx) error {
		return EachFinding(tx, "mc1", func(f *Finding) error {
			decided[f.ID] = f
			return nil
		})
	})
	h.view(func(tx *store.Tx) error {
		return bundle.Each(tx, func(b *bundle.Bundle) error {
			if f := decided[b.ID]; f != nil && f.Decision == Ignore {
				return nil
			}
			require.False(h.t, b.Deleting(), "%s is not deleted", b.Name)
			if b.Annotations[observedAnnotation] != "" {
				return nil
			}
			require.Contains(h.t, string(b.Manifests[1]), `"release":"`+h.release(b.Name)+`"`, b.Name)
			status, err := bundle.GetStatus(tx, b.ID)
			require.NotNil(h.t, status, b.Name)
			require.Equal(h.t, b.Version, status.ResourceVersion, b.Name)
			return err
		})
	})
}

// Both sides agree after each history, and no hosted cluster was deleted that nobody deleted.
func TestHistories_random(t *testing.T) {
	for seed := range *histories {
		h := &history{site: newSite(t), random: rand.New(rand.NewPCG(uint64(seed), 1)), asked: map[string]bool{},
			names: map[string]string{}}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h.t = t
			defer func() {
				if t.Failed() {
					t.Log(h.log)
				}
			}()
			for range 20 + h.random.IntN(40) {
				h.step()
			}
			h.end()
			h.check()
		})
		if t.Failed() {
			return
		}
	}
}
