package engine

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/store"
)

// A site where something goes wrong again and again must not fill the disk with events, nor drive
// out those that matter. So each host, infra-env and cluster has a budget of events: a burst, and
// then so many an hour. What is beyond is left out, and an event says from when on, and another how
// many they were. Critical events are never left out. What is kept is bounded besides, for each of
// them and in all; the oldest go first, and an event says so.

// EventLimits bound the events that are written and kept.
type EventLimits struct {
	Burst   int   // events in a row of one host, infra-env or cluster
	PerHour int   // and then so many an hour
	Each    int64 // bytes that are kept of one host, infra-env or cluster
	All     int64 // bytes that are kept in all
}

func (l EventLimits) orDefaults() EventLimits {
	l.Burst, l.PerHour = cmp.Or(l.Burst, 1000), cmp.Or(l.PerHour, 120)
	l.Each, l.All = cmp.Or(l.Each, 2<<20), cmp.Or(l.All, 64<<20)
	return l
}

// Names of the events that tell of limits; they are ours.
const (
	eventsLeftOut = "events_left_out"
	eventsRemoved = "events_removed"
)

// eventBudgets holds the budgets that are partly spent, by the id of their object, in memory only:
// after a restart all are full again.
type eventBudgets struct {
	mu   sync.Mutex
	held map[string]eventBudget
}

type eventBudget struct {
	spent float64   // events of the burst
	at    time.Time // when that was so
	left  int       // events left out since then, 0 when none is
}

// of returns a budget as it is now.
func (b *eventBudgets) of(subject string, now time.Time, perHour int) eventBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	budget, ok := b.held[subject]
	if !ok {
		return eventBudget{at: now}
	}
	if passed := now.Sub(budget.at); passed > 0 {
		budget.spent = max(0, budget.spent-passed.Hours()*float64(perHour))
	}
	budget.at = now
	return budget
}

// store notes what a committed change made of budgets.
func (b *eventBudgets) store(budgets map[string]eventBudget) {
	if len(budgets) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = make(map[string]eventBudget)
	}
	for subject, budget := range budgets {
		b.held[subject] = budget
	}
}

// dropWhole drops budgets that are whole again.
func (b *eventBudgets) dropWhole(now time.Time, perHour int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for subject, budget := range b.held {
		if budget.left == 0 && budget.spent <= now.Sub(budget.at).Hours()*float64(perHour) {
			delete(b.held, subject)
		}
	}
}

// admit tells whether an event is written, and writes what is to be said of that.
func (c *change) admit(ev event, subjects []subject) (bool, error) {
	if ev.severity == models.EventSeverityCritical || len(subjects) == 0 {
		return true, nil
	}
	limits := c.e.options.EventLimits
	about := subjects[len(subjects)-1]
	budget, ok := c.budgets[about.id]
	if !ok {
		budget = c.e.budgets.of(about.id, c.now, limits.PerHour)
	}
	if c.budgets == nil {
		c.budgets = make(map[string]eventBudget)
	}
	notice := event{name: eventsLeftOut, severity: models.EventSeverityWarning, cluster: ev.cluster,
		infraEnv: ev.infraEnv, host: ev.host}
	cost := 1 + float64((len(ev.message)+len(ev.rawProps))>>10) // what programs outside report may be large
	if budget.spent+cost > float64(limits.Burst) {
		budget.left++
		c.budgets[about.id] = budget
		if budget.left > 1 {
			return false, nil
		}
		notice.message = "There are so many events of this " + about.name() +
			" that some are left out until it calms down."
		return false, c.writeEvent(notice, subjects)
	}
	left := budget.left
	// Events are written again when some room has come, not one at a time.
	if left > 0 && budget.spent > float64(limits.Burst)*7/8 {
		budget.left++
		c.budgets[about.id] = budget
		return false, nil
	}
	budget.spent, budget.left = budget.spent+cost, 0
	c.budgets[about.id] = budget
	if left == 0 {
		return true, nil
	}
	notice.severity, notice.props = models.EventSeverityInfo, props{"count": left}
	notice.message = countOf(left) + " of this " + about.name() + " were left out; now they are written again."
	return true, c.writeEvent(notice, subjects)
}

func (s subject) name() string { return strings.ReplaceAll(s.kind, "_", "-") }

func countOf(n int) string {
	if n == 1 {
		return "1 event"
	}
	return strconv.Itoa(n) + " events"
}

// TrimEvents removes the oldest events beyond the limits. It is to be called now and then.
func (e *Engine) TrimEvents(ctx context.Context) error {
	e.budgets.dropWhole(e.options.Clock.Now(), e.options.EventLimits.PerHour)
	excess, err := e.excessEvents()
	if err != nil || len(excess) == 0 {
		return err
	}
	const atOnce = 500
	for subject, keys := range excess {
		total := len(keys)
		for len(keys) > 0 {
			batch := keys[:min(len(keys), atOnce)]
			keys = keys[len(batch):]
			err := e.update(withOperation(ctx, operationTrim), func(c *change) error {
				for _, key := range batch {
					if err := eventRows.Delete(c.tx, key); err != nil {
						return err
					}
				}
				if len(keys) > 0 {
					return nil
				}
				return c.emitEventsRemoved(subject, batch[len(batch)-1], total)
			})
			if err != nil {
				return err
			}
		}
	}
	e.events.reset()
	return nil
}

// excessEvents lists the keys of the events to remove, by what they are about. What is too much is
// brought an eighth below its bound, so that it is not looked for each time.
func (e *Engine) excessEvents() (map[string][]string, error) {
	type kept struct {
		key, about string
		bytes      int64
	}
	var events []kept
	each, all := make(map[string]int64), int64(0)
	if err := e.options.DB.View(func(tx *store.Tx) error {
		return eventRows.Sizes(tx, "", func(key string, bytes int) error {
			about := key[strings.LastIndexByte(key, '/')+1:]
			events = append(events, kept{key, about, int64(bytes)})
			each[about] += int64(bytes)
			all += int64(bytes)
			return nil
		})
	}); err != nil {
		return nil, err
	}
	surplus := make(map[string]int64)
	for about, bytes := range each {
		if bytes > e.options.EventLimits.Each {
			surplus[about] = bytes - e.options.EventLimits.Each*7/8
			all -= surplus[about]
		}
	}
	rest := int64(0)
	if all > e.options.EventLimits.All {
		rest = all - e.options.EventLimits.All*7/8
	}
	excess := make(map[string][]string)
	for _, ev := range events { // the oldest first
		switch {
		case surplus[ev.about] > 0:
			surplus[ev.about] -= ev.bytes
		case rest > 0:
			rest -= ev.bytes
		default:
			continue
		}
		excess[ev.about] = append(excess[ev.about], ev.key)
	}
	return excess, nil
}

// emitEventsRemoved says, where the events were, that they are no more. Nothing is said of what is
// gone itself.
func (c *change) emitEventsRemoved(about, key string, count int) error {
	ev := event{name: eventsRemoved, severity: models.EventSeverityInfo, props: props{"count": count}}
	ev.message = countOf(count) + " were removed, the oldest, so that they do not fill the disk."
	id := strfmt.UUID(about)
	_, subjects, err := parseEventKey(key)
	switch {
	case err != nil:
		return err
	case clusterRows.Exists(c.tx, about):
		ev.cluster = &id
	case infraEnvRows.Exists(c.tx, about):
		ev.infraEnv = &id
	case len(subjects) > 1 && hostRows.Exists(c.tx, subjects[len(subjects)-2]+"/"+about):
		env := strfmt.UUID(subjects[len(subjects)-2])
		ev.host, ev.infraEnv = &id, &env
		if h, err := c.host(subjects[len(subjects)-2] + "/" + about); err == nil {
			ev.cluster = h.API.ClusterID
		}
	default:
		return nil
	}
	return c.writeEvent(ev, ev.subjects())
}
