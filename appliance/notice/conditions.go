package notice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"landfall/appliance/engine/event"
	"landfall/store"
)

// Condition is a state of the site in which a person is needed while it lasts.
type Condition struct {
	ID      string // unique among the conditions of a source
	Name    string // of its subject, for a message about several conditions
	Message string
	Path    string // of the page about it
	Cluster *Subject
	Host    *Subject
}

// Source finds the conditions of one kind.
type Source struct {
	// Event is the name of the kind in notifications, as the name of an event is for the others.
	Event string
	// Find returns the conditions that exist now. After an error, the last ones still hold.
	Find func(context.Context) ([]Condition, error)
	// Interval is the time between two calls of Find.
	Interval time.Duration
	// Patience is the time that a condition must last before it is reported.
	Patience time.Duration
	// Several follows the number of conditions in a message about many of them, and Path is the
	// page about them.
	Several, Path string
}

// lasting is a condition that exists, or existed a short time ago.
type lasting struct {
	Since    time.Time `json:"since"`
	Reported bool      `json:"reported,omitempty"`
	Ended    time.Time `json:"ended,omitzero"`
}

// conditions are the lasting conditions, by "<event>/<id>".
var conditions = store.NewBucket[lasting]("conditions", 1)

const (
	// calm is the time after the end of a condition in which its return is not reported again.
	calm = time.Hour
	// together is the number of new conditions above which they share a notification. Twenty
	// servers of a site can boot in the same minute.
	together = 5
	// listed is the number of subjects that a message about many conditions names.
	listed = 3
)

// watch looks for conditions until the context ends.
func (s *Service) watch(ctx context.Context) error {
	if len(s.Sources) == 0 {
		return nil
	}
	if s.Started != nil {
		select {
		case <-s.Started():
		case <-ctx.Done():
			return nil
		}
	}
	next := make([]time.Time, len(s.Sources))
	for {
		due := s.Clock.Now().Add(idle)
		for i, source := range s.Sources {
			if !s.Clock.Now().Before(next[i]) {
				if err := s.look(ctx, source); err != nil && ctx.Err() == nil {
					s.Logger.Warn("The conditions of the site could not be read.", "condition", source.Event,
						"error", err)
				}
				next[i] = s.Clock.Now().Add(source.Interval)
			}
			due = earlier(due, next[i])
		}
		timer := s.Clock.NewTimer(max(0, due.Sub(s.Clock.Now())))
		select {
		case <-timer.Chan():
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// look finds the conditions of a source, and reports those that are new.
func (s *Service) look(ctx context.Context, source Source) error {
	found, err := source.Find(ctx)
	if err != nil {
		return err
	}
	now := s.Clock.Now().UTC()
	if err := s.DB.Update(ctx, func(tx *store.Tx) error {
		if err := endOthers(tx, source, found, now); err != nil {
			return err
		}
		var fresh []Condition
		for _, c := range found {
			is, err := begin(tx, source, c, now)
			if err != nil {
				return err
			}
			if is {
				fresh = append(fresh, c)
			}
		}
		var list []*Notification
		for _, c := range shared(source, fresh) {
			list = append(list, &Notification{Kind: Attention, Time: now, Message: c.Message, Event: source.Event,
				Cluster: c.Cluster, Host: c.Host, URL: s.URL + c.Path})
		}
		return write(tx, list, now)
	}); err != nil {
		return fmt.Errorf("record the conditions: %w", err)
	}
	return nil
}

// begin records a condition that exists. It reports whether a notification is due. A condition with
// a damaged row begins again.
func begin(tx *store.Tx, source Source, c Condition, now time.Time) (due bool, err error) {
	key := source.Event + "/" + c.ID
	row, err := conditions.Get(tx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !store.IsDamaged(err) {
		return false, err
	}
	before, after := lasting{}, lasting{Since: now}
	if err == nil {
		before, after = *row, *row
		after.Ended = time.Time{}
	}
	if after.Since.After(now) { // the clock was set back
		after.Since = now
	}
	due = !after.Reported && now.Sub(after.Since) >= source.Patience
	after.Reported = after.Reported || due
	if after == before {
		return false, nil
	}
	return due, conditions.Put(tx, key, &after)
}

// endOthers notes the end of the conditions that were not found, and forgets those that ended long
// ago.
func endOthers(tx *store.Tx, source Source, found []Condition, now time.Time) error {
	exists := make(map[string]bool, len(found))
	for _, c := range found {
		exists[source.Event+"/"+c.ID] = true
	}
	rows := map[string]lasting{}
	if err := conditions.Each(tx, source.Event+"/", func(key string, row *lasting) error {
		if !exists[key] {
			rows[key] = *row
		}
		return nil
	}); err != nil {
		return err
	}
	for key, row := range rows {
		var err error
		setBack := row.Ended.After(now) // the clock was
		switch {
		case !row.Reported, !row.Ended.IsZero() && now.Sub(row.Ended) >= calm, setBack:
			err = conditions.Delete(tx, key)
		case row.Ended.IsZero():
			row.Ended = now
			err = conditions.Put(tx, key, &row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shared returns one condition for many, or the given ones if they are few.
func shared(source Source, fresh []Condition) []Condition {
	if len(fresh) <= together {
		return fresh
	}
	names := make([]string, listed)
	for i := range names {
		names[i] = fresh[i].Name
	}
	return []Condition{{Path: source.Path, Message: fmt.Sprintf("%d %s: %s and %d more.", len(fresh), source.Several,
		strings.Join(names, ", "), len(fresh)-listed)}}
}

// write stores notifications about conditions.
func write(tx *store.Tx, list []*Notification, now time.Time) error {
	for _, n := range list {
		// as the engine does for its events
		n.ID = event.ID{Revision: tx.Revision()}.String()
		n.key = n.ID
		if err := add(tx, n, now); err != nil {
			return err
		}
	}
	return prune(tx)
}
