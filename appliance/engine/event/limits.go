package event

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/store"
)

// Repeated failures must not fill the disk with events or displace important events. Each host,
// infra-env and cluster therefore has a budget: a burst of events, and then a number of events per
// hour. Events beyond the budget are left out. An event reports the first left-out event, and
// another event reports their number when events are written again. Critical events are always
// written.
//
// The size of the stored events is also limited, per object and in total. The oldest events are
// removed first, and an event reports their number.

// Limits limits the number and size of events.
type Limits struct {
	Burst   int   // consecutive events of one host, infra-env or cluster
	PerHour int   // events per hour after the burst
	Each    int64 // stored bytes of one host, infra-env or cluster
	All     int64 // stored bytes in total
}

// OrDefaults returns the limits with the defaults for zero fields.
func (l Limits) OrDefaults() Limits {
	l.Burst, l.PerHour = cmp.Or(l.Burst, 1000), cmp.Or(l.PerHour, 120)
	l.Each, l.All = cmp.Or(l.Each, 2<<20), cmp.Or(l.All, 64<<20)
	return l
}

// Budgets holds the partly spent budgets by the id of their object. They are only in memory: after
// a restart, all budgets are full. The zero Budgets is ready to use.
type Budgets struct {
	mu   sync.Mutex
	held map[string]Budget
}

// Budget is the part of an object's budget that was spent at a time.
type Budget struct {
	spent float64 // spent events of the burst
	at    time.Time
	left  int // events left out since the last admitted event
}

// of returns the budget of a subject at the present time.
func (b *Budgets) of(subject string, now time.Time, perHour int) Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	budget, ok := b.held[subject]
	if !ok {
		return Budget{at: now}
	}
	if passed := now.Sub(budget.at); passed > 0 {
		budget.spent = max(0, budget.spent-passed.Hours()*float64(perHour))
	}
	budget.at = now
	return budget
}

// Store stores the budgets that a committed change has used.
func (b *Budgets) Store(drawn map[string]Budget) {
	if len(drawn) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = make(map[string]Budget)
	}
	for subject, budget := range drawn {
		b.held[subject] = budget
	}
}

// DropFull drops the budgets that are full again.
func (b *Budgets) DropFull(now time.Time, perHour int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for subject, budget := range b.held {
		if budget.left == 0 && budget.spent <= now.Sub(budget.at).Hours()*float64(perHour) {
			delete(b.held, subject)
		}
	}
}

// Admit reports whether an event is written. The notice, if not nil, is an event to write first: it
// reports that events are left out from now on, or how many were left out. Drawn holds the budgets
// that the change has used so far. Admit creates it when necessary.
func (b *Budgets) Admit(drawn *map[string]Budget, limits *Limits, now time.Time, ev *Event,
	subjects []Subject) (admitted bool, notice *Event) {
	if ev.Severity == models.EventSeverityCritical || len(subjects) == 0 {
		return true, nil
	}
	about := subjects[len(subjects)-1]
	budget, ok := (*drawn)[about.ID]
	if !ok {
		budget = b.of(about.ID, now, limits.PerHour)
	}
	if *drawn == nil {
		*drawn = make(map[string]Budget)
	}
	cost := 1 + float64((len(ev.Message)+len(ev.RawProps))>>10) // reports of other programs may be large
	if budget.spent+cost > float64(limits.Burst) {
		budget.left++
		(*drawn)[about.ID] = budget
		if budget.left > 1 {
			return false, nil
		}
		return false, ev.notice(models.EventSeverityWarning, "This "+about.noun()+
			" has too many events; new events are left out until their rate decreases.", nil)
	}
	left := budget.left
	// Events are admitted again when an eighth of the burst is available, to avoid notices for
	// single events.
	if left > 0 && budget.spent > float64(limits.Burst)*7/8 {
		budget.left++
		(*drawn)[about.ID] = budget
		return false, nil
	}
	budget.spent, budget.left = budget.spent+cost, 0
	(*drawn)[about.ID] = budget
	if left == 0 {
		return true, nil
	}
	return true, ev.notice(models.EventSeverityInfo, countOf(left)+" of this "+about.noun()+
		" were left out; new events are recorded again.", Props{"count": left})
}

// notice returns an event about left-out events with the same subjects.
func (ev *Event) notice(severity, message string, props Props) *Event {
	return &Event{Name: LeftOut, Severity: severity, Message: message, Props: props,
		Cluster: ev.Cluster, InfraEnv: ev.InfraEnv, Host: ev.Host}
}

// RemovedNotice returns the event about removed events. The caller adds its subjects.
func RemovedNotice(count int) Event {
	return Event{Name: Removed, Severity: models.EventSeverityInfo, Props: Props{"count": count},
		Message: countOf(count) + " were removed to save disk space, the oldest first."}
}

func countOf(n int) string {
	if n == 1 {
		return "1 event"
	}
	return strconv.Itoa(n) + " events"
}

// Excess returns the keys of the events to remove, by the id of their last subject. Each size is
// reduced to 7/8 of its limit, so that removals are rare.
func Excess(tx *store.Tx, limits Limits) (map[string][]string, error) {
	type kept struct {
		key, about string
		bytes      int64
	}
	var events []kept
	each, all := make(map[string]int64), int64(0)
	if err := Rows.Sizes(tx, "", func(key string, bytes int) error {
		about := key[strings.LastIndexByte(key, '/')+1:]
		events = append(events, kept{key, about, int64(bytes)})
		each[about] += int64(bytes)
		all += int64(bytes)
		return nil
	}); err != nil {
		return nil, err
	}
	surplus := make(map[string]int64)
	for about, bytes := range each {
		if bytes > limits.Each {
			surplus[about] = bytes - limits.Each*7/8
			all -= surplus[about]
		}
	}
	rest := int64(0)
	if all > limits.All {
		rest = all - limits.All*7/8
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
