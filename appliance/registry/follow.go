package registry

import (
	"context"
	"errors"
	"slices"

	"landfall/store"
)

// A member that follows serves the media at its own paths, and writes no rows: those of the
// database are the leader's.

// follows reports whether this is the registry of a member that follows.
func (r *Registry) follows() bool { return r.options.Shared != nil && !r.options.Shared.Leads }

// followRows learns of the media that the leader knows until the context ends.
func (r *Registry) followRows(ctx context.Context) {
	told := ""
	for ctx.Err() == nil {
		from := r.options.DB.Revision()
		if err := r.readRows(); err != nil && err.Error() != told {
			told = err.Error()
			r.log.Warn("The media that the leader knows can't be read.", "error", err)
		}
		watching, stop := context.WithCancel(ctx)
		select {
		case <-ctx.Done():
		case <-r.options.DB.Watch(watching, from, mediumRows.Prefix(), addedRows.Prefix(), stageRows.Prefix(),
			packedRows.Prefix()).C():
		}
		stop()
	}
}

// readRows reads the paths and the media that the leader knows.
func (r *Registry) readRows() error {
	added, err := r.addedPaths()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	watched := slices.Concat(added, r.options.Media)
	if err := r.options.DB.View(func(tx *store.Tx) error {
		return errors.Join(mediumRows.Keys(tx, "", func(identity string) error {
			known[identity] = true
			return nil
		}), packedRows.Each(tx, "", func(_ string, row *packedRow) error {
			watched = append(watched, row.Path)
			return nil
		}))
	}); err != nil {
		return err
	}
	orders, err := r.readOrders()
	if err != nil {
		return err
	}
	r.mu.Lock()
	for _, path := range added {
		r.watch(path)
	}
	for _, p := range r.paths {
		if !slices.Contains(watched, p.path) { // it was removed
			r.forgetPath(p.path)
		}
	}
	r.orders = orders
	r.media = slices.DeleteFunc(slices.Clone(r.media), func(m *held) bool {
		return m.missing() && !known[m.index.Identity]
	})
	r.mu.Unlock()
	if err := r.load(); err != nil {
		return err
	}
	r.rebuild()
	r.notify()
	r.Look()
	return nil
}
