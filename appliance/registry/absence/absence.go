// Package absence remembers when the appliance's registry was away while clusters depended on it:
// the appliance did not run, so their nodes could not pull images.
package absence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/registry"
	"landfall/store"
)

// rows stores the absences under rowKey.
var rows = store.NewBucket[row]("registry-absences", 1).Derived()

const (
	rowKey = "all"
	// interval is the time between two notes that the registry is there. A kill is noticed with
	// this precision.
	interval = time.Minute
	// kept is the number of absences that are remembered.
	kept = 50
)

// row has the absences, the oldest first, and what was true at the last note.
type row struct {
	Seen       time.Time `json:"seen"`
	Dependents []string  `json:"dependents"` // IDs of clusters
	Absences   []Absence `json:"absences"`
	// Hosts are the names (host:port) of the registry with which clusters were installed, by ID.
	Hosts map[string]string `json:"hosts"`
}

// Absence is a time in which the registry was away.
type Absence struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Clusters []string  `json:"clusters"` // IDs of those that depended on it
}

// Log has the absences of a registry.
type Log struct {
	db         *store.DB
	clock      clockwork.Clock
	host       string
	dependents func() ([]registry.Dependent, error)
	log        *slog.Logger

	opened   time.Time
	recorded bool // the absence before opened is stored, if there was one
}

// Open returns the log of the registry at host:port. If clusters depended on the registry when it
// was last there, it records the time until now as an absence.
func Open(ctx context.Context, db *store.DB, clock clockwork.Clock, host string,
	dependents func() ([]registry.Dependent, error), log *slog.Logger) *Log {
	l := &Log{db: db, clock: clock, host: host, dependents: dependents, log: log, opened: clock.Now().UTC()}
	l.report(l.change(ctx, func(*row) {}))
	return l
}

// change changes the stored row. The first change adds the absence before the registry was opened.
// A row without clusters is only written if it had some before.
func (l *Log) change(ctx context.Context, with func(*row)) error {
	err := l.db.Update(ctx, func(tx *store.Tx) error {
		held, err := read(tx)
		if err != nil {
			return err
		}
		depended := len(held.Dependents) > 0
		if depended && !l.recorded && l.opened.After(held.Seen) {
			held.Absences = append(held.Absences, Absence{held.Seen, l.opened, held.Dependents})
			held.Absences = held.Absences[max(0, len(held.Absences)-kept):]
			held.Seen = l.opened
		}
		if with(held); !depended && len(held.Dependents) == 0 {
			return nil
		}
		return rows.Put(tx, rowKey, held)
	})
	l.recorded = l.recorded || err == nil
	return err
}

// report logs an error. A full disk must not end the appliance.
func (l *Log) report(err error) {
	if err != nil {
		l.log.Error("The presence of the registry could not be recorded.", "error", err)
	}
}

func read(tx *store.Tx) (*row, error) {
	held, err := rows.Get(tx, rowKey)
	if errors.Is(err, store.ErrNotFound) {
		return new(row), nil
	}
	return held, err
}

// Run notes that the registry is there until the context ends, and then a last time. A nil log does
// nothing.
func (l *Log) Run(ctx context.Context) error {
	if l == nil {
		return nil
	}
	ticker := l.clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		l.report(l.note(context.WithoutCancel(ctx)))
		select {
		case <-ctx.Done():
			l.report(l.note(context.WithoutCancel(ctx)))
			return nil
		case <-ticker.Chan():
		}
	}
}

// note records that the registry is there, and which clusters depend on it.
func (l *Log) note(ctx context.Context) error {
	found, err := l.dependents()
	if err != nil {
		return err
	}
	ids := []string{}
	for _, d := range found {
		ids = append(ids, d.ID)
	}
	return l.change(ctx, func(held *row) {
		held.Seen, held.Dependents = l.clock.Now().UTC(), ids
		hosts := map[string]string{}
		for _, id := range ids { // those of deleted clusters are dropped
			hosts[id] = cmp.Or(held.Hosts[id], l.host)
		}
		held.Hosts = hosts
	})
}

// Misled returns a note for each cluster that was installed with another name of the registry than
// it has now, for example with an address that the machine has lost. A nil log has none.
func (l *Log) Misled(dependents []registry.Dependent) (notes []string, err error) {
	if l == nil {
		return nil, nil
	}
	err = l.db.View(func(tx *store.Tx) error {
		held, err := read(tx)
		if err != nil {
			return err
		}
		for i, name := range registry.NamesOf(dependents) {
			if was := held.Hosts[dependents[i].ID]; was != "" && was != l.host {
				notes = append(notes, fmt.Sprintf("%s was installed with the registry at %s, which is at %s now; give "+
					"the former name or address back to this machine, or hand the registry over with --add-mirror",
					name, was, l.host))
			}
		}
		return nil
	})
	return notes, err
}

// NoteMisled adds the notes of [Log.Misled] about the dependents in a status to its notes.
func (l *Log) NoteMisled(status *registry.Status) error {
	notes, err := l.Misled(status.Dependents)
	status.Notes = append(status.Notes, notes...)
	return err
}

// Of returns the absences during which a cluster depended on the registry, the latest first. A nil
// log has none.
func (l *Log) Of(clusterID string) ([]Absence, error) {
	found := []Absence{}
	if l == nil {
		return found, nil
	}
	err := l.db.View(func(tx *store.Tx) error {
		held, err := read(tx)
		if err != nil {
			return err
		}
		for _, a := range slices.Backward(held.Absences) {
			if slices.Contains(a.Clusters, clusterID) {
				found = append(found, Absence{From: a.From, To: a.To, Clusters: []string{clusterID}})
			}
		}
		return nil
	})
	return found, err
}
