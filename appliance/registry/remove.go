package registry

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"landfall/appliance/fault"
	"landfall/store"
)

// Remove undoes [Registry.Add] for a path, or forgets a missing medium, by its label or path. Media
// are not touched, and the releases that were named with them may still be used.
func (r *Registry) Remove(ctx context.Context, name string) error {
	path, err := r.addedPath(name)
	if err != nil {
		return err
	}
	var media []*held
	var archives []*packed
	if path != "" {
		media, archives = r.at(path)
	} else if media, archives, err = r.missingNamed(name); err != nil {
		return err
	}
	if label := r.orderedOf(media, archives); label != "" {
		return fault.New(fault.Conflict, "A copy of %s to the disk was ordered; end that with landfall registry stage "+
			"%q --cancel first.", label, label)
	}
	if path == "" && len(media) == 0 {
		return fault.New(fault.Conflict, "A copy of %s is still on the disk; landfall registry gc removes it.", name)
	}
	var forgotten []string
	for _, m := range media {
		if !slices.ContainsFunc(r.current.Load().media, func(o *held) bool {
			return o.index.Identity == m.index.Identity && !slices.Contains(media, o)
		}) {
			forgotten = append(forgotten, m.index.Identity)
		}
	}
	if err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		for _, identity := range forgotten {
			if err := errors.Join(mediumRows.Delete(tx, identity), IndexFiles.Delete(tx, identity)); err != nil {
				return err
			}
		}
		if path == "" {
			return nil
		}
		for _, p := range archives { // the next start would watch the path again, and removes the files
			if err := packedRows.Delete(tx, p.key); err != nil {
				return err
			}
		}
		return addedRows.Delete(tx, path)
	}); err != nil {
		return fmt.Errorf("remove media of the registry: %w", err)
	}
	r.mu.Lock()
	r.media = slices.DeleteFunc(slices.Clone(r.media), func(m *held) bool {
		return path == "" && slices.Contains(media, m)
	})
	if path != "" {
		r.forgetPath(path)
	}
	r.mu.Unlock()
	r.rebuild()
	r.notify()
	return nil
}

// addedPath returns the path that a name means, if an administrator added that path, or "".
func (r *Registry) addedPath(name string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", nil
	}
	path := filepath.Clean(name)
	if slices.Contains(r.options.Media, path) {
		return "", fault.New(fault.Conflict, "%s is in registry.media of the configuration; remove it there, and "+
			"restart the appliance.", path)
	}
	added, err := r.addedPaths()
	if err != nil || !slices.Contains(added, path) {
		return "", err
	}
	return path, nil
}

// at returns the media and the compressed archives of a path.
func (r *Registry) at(path string) (media []*held, archives []*packed) {
	for _, m := range r.current.Load().media {
		if m.path == path {
			media = append(media, m)
		}
	}
	for _, p := range r.allPacked() {
		if r.rowOf(p).Path == path {
			archives = append(archives, p)
		}
	}
	return media, archives
}

// missingNamed returns the missing media with a label or path.
func (r *Registry) missingNamed(name string) ([]*held, []*packed, error) {
	if name == "all" {
		return nil, nil, fault.New(fault.Invalid, "Name one medium or path.")
	}
	media, archives, err := r.named(name)
	if fault.KindOf(err) == fault.NotFound {
		err = r.notRemovable(name)
	}
	if err != nil {
		return nil, nil, err
	}
	present := slices.ContainsFunc(media, func(m *held) bool { return !m.missing() })
	for _, p := range archives {
		r.mu.Lock()
		present = present || p.present
		r.mu.Unlock()
	}
	if present {
		return nil, nil, fault.New(fault.Conflict, "%s is there; unplug it first. What lies at a path that "+
			"landfall registry add added is removed with the path.", strings.TrimSuffix(name, "/"))
	}
	return media, archives, nil
}

// notRemovable returns the error for the removal of something that the registry does not know.
func (r *Registry) notRemovable(name string) error {
	names, err := r.addedPaths()
	if err != nil {
		return err
	}
	for _, m := range r.current.Load().media {
		if m.missing() {
			names = append(names, r.labelOf(m))
		}
	}
	if len(names) == 0 {
		return fault.New(fault.NotFound, "The registry does not know %q, and nothing can be removed: no path was "+
			"added with landfall registry add, and no medium is missing.", name)
	}
	return fault.New(fault.NotFound, "The registry does not know %q. The paths that were added and the missing media "+
		"can be removed: %s.", name, strings.Join(names, ", "))
}

// orderedOf returns the label of one of the media and archives whose copy was ordered, or "".
func (r *Registry) orderedOf(media []*held, archives []*packed) string {
	for _, m := range media {
		if r.isOrdered(m) {
			return r.labelOf(m)
		}
	}
	for _, p := range archives {
		if r.isWanted(p) {
			return r.labelOfPacked(p)
		}
	}
	return ""
}
