package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"landfall/appliance/fault"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
	"landfall/appliance/registry/quota"
	"landfall/appliance/registry/staging"
	"landfall/store"
)

// stageRows stores which media are to be copied to the disk, by their identity.
var stageRows = store.NewBucket[time.Time]("registry-staging", 1)

// States of the copy of a medium.
const (
	StageCopying = "copying" // in the background, or by the clients
	StageWaiting = "waiting" // for the medium
	StageFull    = "full"    // the disk or the limit has no room
	StageDamaged = "damaged" // all is copied except damaged blobs
	StageWhole   = "whole"   // the medium is not needed any more
)

// Staging describes the copy of a medium on the disk.
type Staging struct {
	State   string `json:"state"` // "" unless a copy was ordered
	Done    int64  `json:"done_bytes"`
	Total   int64  `json:"total_bytes"`
	Message string `json:"message,omitempty"`
}

// StagePlan is what a copy of media to the disk needs.
type StagePlan struct {
	Media     []string `json:"media"` // labels
	Needed    int64    `json:"needed_bytes"`
	Room      int64    `json:"room_bytes"`
	LimitedBy string   `json:"limited_by"` // what limits Room, for people
	Fits      bool     `json:"fits"`
	LeftOut   []string `json:"left_out"` // paths of media that are still being copied
	// AtLeast is set if more bytes may be needed: a compressed archive does not tell its unpacked
	// size.
	AtLeast bool `json:"at_least"`
}

// local reports whether a blob is on the disk: pushed, or a whole copy.
func (r *Registry) local(digest string) bool {
	_, copied := r.copies.size(digest)
	_, pushed := r.pushed.size(digest)
	return copied || pushed
}

// inOrder returns the digests of a medium in its order, so that a stick reads without jumps.
func (m *held) inOrder() []string {
	return slices.SortedFunc(maps.Keys(m.index.Blobs), func(a, b string) int {
		x, y := m.index.Blobs[a][0], m.index.Blobs[b][0]
		return slices.Compare([]int64{int64(x.File), x.Offset}, []int64{int64(y.File), y.Offset})
	})
}

// named returns the media with a label, a path or a path that led to them. "all" are all of them.
// Compressed archives are apart, also those whose tar archives are media.
func (r *Registry) named(name string) (found []*held, archives []*packed, err error) {
	var labels []string
	matches := func(location medium.Location, label, path string) bool {
		labels = append(labels, label)
		return name == "all" || name == label || name == location.Path || name == path
	}
	for _, m := range r.current.Load().media {
		switch p := r.packedOf(m); {
		case !matches(m.location, r.labelOf(m), m.path):
		case p == nil:
			found = append(found, m)
		default:
			archives = append(archives, p)
		}
	}
	for _, p := range r.allPacked() {
		r.mu.Lock()
		row, known := p.row, p.present || p.row.Wanted
		r.mu.Unlock()
		if known && matches(row.Location, r.labelOfPacked(p), row.Path) && !slices.Contains(archives, p) {
			archives = append(archives, p)
		}
	}
	if len(found)+len(archives) > 0 {
		return found, archives, nil
	}
	if len(labels) == 0 {
		return nil, nil, fault.New(fault.NotFound, "The registry knows no medium; landfall registry add adds one.")
	}
	return nil, nil, fault.New(fault.NotFound, "%q is not a medium of the registry. Its media are %s; all means all "+
		"of them.", name, strings.Join(labels, ", "))
}

// toStage returns the media with a name, as named does, except those that are still being copied,
// which it returns apart. A folder that is served is not left out: an order for a part of it
// becomes one for all of it.
func (r *Registry) toStage(name string) (found []*held, archives []*packed, leftOut []medium.Location, err error) {
	r.mu.Lock()
	incoming := map[string][]medium.Location{}
	for _, p := range r.paths {
		incoming[p.path] = p.incoming
	}
	r.mu.Unlock()
	for path, locations := range incoming {
		for _, location := range locations {
			switch {
			case location.Container == medium.Folder && r.presentIn(location) != nil:
			case name == location.Label(), name == location.Path:
				return nil, nil, nil, incomingError(location)
			case name == "all", name == path:
				leftOut = append(leftOut, location)
			}
		}
	}
	slices.SortFunc(leftOut, func(a, b medium.Location) int { return cmp.Compare(a.Path, b.Path) })
	found, archives, err = r.named(name)
	found = slices.DeleteFunc(found, func(m *held) bool { return slices.Contains(leftOut, m.location) })
	archives = slices.DeleteFunc(archives, func(p *packed) bool {
		return slices.Contains(leftOut, r.rowOf(p).Location)
	})
	if len(found)+len(archives) == 0 && len(leftOut) > 0 {
		return nil, nil, nil, incomingError(leftOut[0])
	}
	return found, archives, leftOut, err
}

func incomingError(location medium.Location) error {
	return fault.New(fault.Conflict, "%s is still being copied: it changed less than %s ago. Order its copy when "+
		"landfall registry status shows it as a medium.", location.Path, settleTime)
}

// labelOf returns the label of a medium. Where another medium lies in its place now, and its copy
// stays, the label has a part of its identity.
func (r *Registry) labelOf(m *held) string {
	if r.isReplaced(m) {
		return withPart(m.location.Label(), m.index.Identity)
	}
	return r.shortOf(m.location)
}

// shortOf returns the label of a location, or its path if a medium at another one has that label:
// sticks often have folders and archives with equal names.
func (r *Registry) shortOf(location medium.Location) string {
	label := location.Label()
	shares := func(other medium.Location) bool { return other != location && other.Label() == label }
	if slices.ContainsFunc(r.current.Load().media, func(m *held) bool {
		return shares(m.location) && !r.isReplaced(m)
	}) || slices.ContainsFunc(r.allPacked(), func(p *packed) bool {
		return shares(r.rowOf(p).Location) && r.successor(p) == nil
	}) {
		return location.Path
	}
	return label
}

// labelOfPacked does the same for a compressed archive.
func (r *Registry) labelOfPacked(p *packed) string {
	location := r.rowOf(p).Location
	if r.successor(p) != nil {
		return withPart(location.Label(), p.key)
	}
	return r.shortOf(location)
}

func withPart(label, identity string) string { return label + "@" + identity[:min(len(identity), 8)] }

// isReplaced reports whether another medium lies where a medium lay.
func (r *Registry) isReplaced(m *held) bool {
	if p := r.packedOf(m); p != nil {
		return r.successor(p) != nil
	}
	return r.inPlaceOf(m) != nil
}

// inPlaceOf returns the medium that lies now where a missing one lay, or nil.
func (r *Registry) inPlaceOf(m *held) *held {
	media := r.current.Load().media
	i := slices.IndexFunc(media, func(other *held) bool {
		return other != m && other.location == m.location && !other.missing()
	})
	if i < 0 || !m.missing() {
		return nil
	}
	return media[i]
}

// PlanStage returns what a copy of media to the disk needs. Media is a label, a path, or all.
func (r *Registry) PlanStage(media string) (StagePlan, error) {
	found, archives, leftOut, err := r.toStage(media)
	if err != nil {
		return StagePlan{}, err
	}
	return r.plan(found, archives, leftOut)
}

func (r *Registry) plan(media []*held, archives []*packed, leftOut []medium.Location) (StagePlan, error) {
	plan := StagePlan{Media: []string{}, LeftOut: []string{}}
	for _, location := range leftOut {
		plan.LeftOut = append(plan.LeftOut, location.Path)
	}
	counted := map[string]bool{}
	for _, m := range media {
		plan.Media = append(plan.Media, r.labelOf(m))
	}
	// Media whose copies were ordered before need their rest as well.
	for _, m := range slices.Concat(media, r.ordered()) {
		for digest, blob := range m.index.Blobs {
			if !counted[digest] {
				counted[digest] = true
				plan.Needed += max(0, blob.Size()-r.staging.Written(digest))
			}
		}
	}
	for _, p := range r.allPacked() {
		isNamed := slices.Contains(archives, p)
		if isNamed {
			plan.Media = append(plan.Media, r.labelOfPacked(p))
		}
		if _, whole := r.written(p); (isNamed || r.isWanted(p)) && !whole {
			plan.Needed, plan.AtLeast = plan.Needed+r.needed(p), true
		}
	}
	var err error
	plan.Room, plan.LimitedBy, err = r.quota.Room()
	plan.Fits = plan.Needed <= plan.Room
	return plan, err
}

// Stage orders a copy of media to the disk, in the background and while clients pull. It refuses a
// copy for which there is no room.
func (r *Registry) Stage(ctx context.Context, media string) (StagePlan, error) {
	found, archives, leftOut, err := r.toStage(media)
	if err != nil {
		return StagePlan{}, err
	}
	plan, err := r.plan(found, archives, leftOut)
	if err != nil {
		return plan, err
	}
	if !plan.Fits {
		return plan, fault.New(fault.NoSpace, "The copy of %s needs %.1f GiB, and there is room for %.1f GiB: it is "+
			"limited by %s.", strings.Join(plan.Media, ", "), float64(plan.Needed)/(1<<30), float64(plan.Room)/(1<<30),
			plan.LimitedBy)
	}
	if err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		now := r.options.Clock.Now().UTC()
		for _, m := range found {
			if err := stageRows.Put(tx, m.index.Identity, &now); err != nil {
				return err
			}
		}
		return r.wantPacked(tx, archives, true)
	}); err != nil {
		return plan, fmt.Errorf("record the copy of a medium: %w", err)
	}
	r.mu.Lock()
	for _, m := range found {
		r.orders[m.index.Identity] = r.options.Clock.Now()
	}
	r.mu.Unlock()
	r.setWanted(archives, true)
	r.notify()
	return plan, nil
}

// CancelStage ends the copies of media. The registry serves the copied blobs until a collection.
func (r *Registry) CancelStage(ctx context.Context, media string) error {
	found, archives, err := r.named(media)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(m *held) bool { return !r.isOrdered(m) })
	archives = slices.DeleteFunc(archives, func(p *packed) bool { return !r.isWanted(p) })
	if len(found)+len(archives) == 0 {
		return fault.New(fault.Conflict, "No copy of %s was ordered.", media)
	}
	if err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		for _, m := range found {
			if err := stageRows.Delete(tx, m.index.Identity); err != nil {
				return err
			}
		}
		return r.wantPacked(tx, archives, false)
	}); err != nil {
		return fmt.Errorf("record the end of the copy of a medium: %w", err)
	}
	r.mu.Lock()
	for _, m := range found {
		delete(r.orders, m.index.Identity)
		delete(r.stageProblems, m.index.Identity)
	}
	r.mu.Unlock()
	r.setWanted(archives, false)
	r.notify()
	return nil
}

// readOrders reads which copies were ordered.
func (r *Registry) readOrders() (map[string]time.Time, error) {
	orders := map[string]time.Time{}
	return orders, r.options.DB.View(func(tx *store.Tx) error {
		return stageRows.Each(tx, "", func(identity string, at *time.Time) error {
			orders[identity] = *at
			return nil
		})
	})
}

func (r *Registry) isOrdered(m *held) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.orders[m.index.Identity]
	return ok
}

// ordered returns the media whose copies were ordered, those ordered first at the front.
func (r *Registry) ordered() []*held {
	media := slices.Clone(r.current.Load().media)
	r.mu.Lock()
	defer r.mu.Unlock()
	media = slices.DeleteFunc(media, func(m *held) bool {
		_, ok := r.orders[m.index.Identity]
		return !ok
	})
	slices.SortStableFunc(media, func(a, b *held) int {
		return cmp.Or(r.orders[a.index.Identity].Compare(r.orders[b.index.Identity]),
			cmp.Compare(a.location.Path, b.location.Path))
	})
	return media
}

// stageAll carries out the copies that Stage orders. It reports whether one waits.
func (r *Registry) stageAll(ctx context.Context) (waits bool) {
	for _, m := range r.ordered() {
		err := r.stageMedium(ctx, m)
		waits = waits || err != nil
		if err != nil && ctx.Err() == nil && !errors.Is(err, quota.ErrFull) {
			r.log.Warn("The copy of a medium waits.", "medium", m.location.Label(), "error", err)
		}
	}
	if err := r.forgetReplaced(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("A medium that was replaced can't be forgotten.", "error", err)
	}
	return waits
}

// forgetReplaced forgets the media whose whole content is in those that lie in their place now, if
// the copies of these are whole as well. They have the same blobs.
func (r *Registry) forgetReplaced(ctx context.Context) error {
	replaced := slices.DeleteFunc(r.ordered(), func(m *held) bool {
		by := r.inPlaceOf(m)
		return by == nil || !by.index.Contains(m.index) || !r.isOrdered(by) || !r.wholeOf(by)
	})
	if len(replaced) == 0 {
		return nil
	}
	r.mu.Lock()
	r.media = slices.DeleteFunc(slices.Clone(r.media), func(m *held) bool { return slices.Contains(replaced, m) })
	replaced = slices.DeleteFunc(replaced, func(m *held) bool { // a copy of it lies elsewhere
		return slices.ContainsFunc(r.media, func(o *held) bool { return o.index.Identity == m.index.Identity })
	})
	for _, m := range replaced {
		delete(r.orders, m.index.Identity)
		delete(r.stageProblems, m.index.Identity)
	}
	r.mu.Unlock()
	r.rebuild()
	r.notify()
	return r.options.DB.Update(ctx, func(tx *store.Tx) error {
		for _, m := range replaced {
			if err := errors.Join(mediumRows.Delete(tx, m.index.Identity), IndexFiles.Delete(tx, m.index.Identity),
				stageRows.Delete(tx, m.index.Identity)); err != nil {
				return err
			}
		}
		return nil
	})
}

// whileWaiting calls work after each change of the media or of the orders, and from time to time
// while something waits, until the context ends.
func (r *Registry) whileWaiting(ctx context.Context, work func(ctx context.Context) (waits bool)) {
	for ctx.Err() == nil {
		changed := r.Changed()
		if !work(ctx) {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		timer := r.options.Clock.NewTimer(watchInterval) // there may be room then, or the medium answers
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.Chan():
		}
		timer.Stop()
	}
}

// stageMedium copies the rest of a medium. It ends early if the medium goes, if there is no room,
// or if the copy is no longer wanted.
func (r *Registry) stageMedium(ctx context.Context, m *held) error {
	damaged := 0
	for _, digest := range m.inOrder() {
		if _, ok := r.staging.Size(digest); ok {
			continue
		}
		source, err := r.blobOnMedia(r.current.Load(), digest)
		if _, ok := errors.AsType[*DamagedError](err); ok {
			damaged++
			continue
		}
		if err != nil {
			return nil // the medium is missing; the status shows it
		}
		err = r.whileWanted(ctx, func() bool { return r.isOrdered(m) }, func(ctx context.Context) error {
			return r.staging.Stage(ctx, digest, source.Size, &source)
		})
		switch {
		case errors.Is(err, errNotOrdered), ctx.Err() != nil:
			return nil
		case errors.Is(err, quota.ErrFull):
			if r.setStageProblem(m, StageFull) {
				r.log.Warn("The copy of a medium waits for room on the disk.", "medium", m.location.Label())
			}
			return err
		case err != nil:
			if _, ok := errors.AsType[*DamagedError](err); ok {
				damaged++
				continue
			}
			return err
		}
		r.setStageProblem(m, "")
	}
	if damaged > 0 {
		r.setStageProblem(m, StageDamaged)
		return nil
	}
	m.rest()
	if r.setStageProblem(m, StageWhole) {
		r.log.Info("A medium is copied. It may be removed.", "medium", m.location.Label())
	}
	return nil
}

// errNotOrdered ends a copy that a person cancelled.
var errNotOrdered = errors.New("the copy is no longer wanted")

// whileWanted calls fn with a context that ends when a copy is no longer wanted.
func (r *Registry) whileWanted(ctx context.Context, wanted func() bool, fn func(ctx context.Context) error) error {
	within, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			changed := r.Changed()
			if !wanted() {
				cancel(errNotOrdered)
			}
			select {
			case <-within.Done():
				return
			case <-changed:
			}
		}
	}()
	err := fn(within)
	cancel(nil)
	<-watched
	return err
}

// setStageProblem notes why the copy of a medium does not go on. It reports whether this is new.
func (r *Registry) setStageProblem(m *held, state string) bool {
	r.mu.Lock()
	before := r.stageProblems[m.index.Identity]
	r.stageProblems[m.index.Identity] = state
	r.mu.Unlock()
	if before != state {
		r.notify()
	}
	return before != state
}

// rest closes the files of a medium that is not needed any more, so that it can be unmounted.
func (m *held) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reader != nil {
		m.reader.Rest()
	}
}

// stagingOf returns the state of the copy of a medium.
func (r *Registry) stagingOf(m *held) Staging {
	var s Staging
	missing := m.missing()
	for digest, blob := range m.index.Blobs {
		s.Total += blob.Size()
		s.Done += min(blob.Size(), r.staging.Written(digest))
	}
	r.mu.Lock()
	_, ordered := r.orders[m.index.Identity]
	problem := r.stageProblems[m.index.Identity]
	r.mu.Unlock()
	archive := r.packedOf(m)
	switch {
	case archive != nil && r.isWanted(archive) && r.isDamaged(archive):
		s.State, s.Message = r.repairState(archive)
		if s.Message == "" {
			s.Message = "damaged: " + cmp.Or(r.replacedMessage(m), r.remedy(m))
		}
	case archive != nil && r.isWanted(archive):
		s.State, s.Done, s.Message = StageWhole, s.Total, "it is unpacked; the compressed archive may be removed"
		s.Message = cmp.Or(r.replacedMessage(m), s.Message)
	case !ordered:
	case r.wholeOf(m):
		s.State = StageWhole
		s.Message = cmp.Or(r.replacedMessage(m), "all is on the disk; the medium may be removed")
	case missing:
		s.State, s.Message = StageWaiting, "plug the medium in again; the copy continues where it stopped"
	case problem == StageFull:
		s.State, s.Message = StageFull, r.fullMessage()
	case problem == StageDamaged:
		s.State, s.Message = StageDamaged, "what is left is damaged on the medium; copy the medium again"
	default:
		s.State = StageCopying
	}
	return s
}

// replacedMessage says what a person can do with the copy of a medium in whose place another one
// lies now, or "". Nobody but a person knows whether its content is still needed.
func (r *Registry) replacedMessage(m *held) string {
	if p := r.packedOf(m); p != nil {
		by := r.successor(p)
		if by == nil {
			return ""
		}
		switch tar := r.tarOf(by); {
		case tar == nil || !r.isWanted(by):
			return fmt.Sprintf("another archive lies in its place now; landfall registry stage %q copies that one",
				r.labelOfPacked(by))
		case r.isDamaged(by):
			return "another archive lies in its place now, whose copy is damaged; keep this copy"
		case tar.index.Contains(m.index):
			return fmt.Sprintf("another archive lies in its place now, which is copied and has all of its content; "+
				"landfall registry stage %q --cancel and landfall registry gc remove this copy from the disk",
				r.labelOf(m))
		}
	} else if !r.isReplaced(m) {
		return ""
	}
	if by := r.inPlaceOf(m); by != nil && by.index.Contains(m.index) {
		return "another medium with all of its content lies in its place now; this copy is removed when that one is " +
			"copied as well"
	}
	return fmt.Sprintf("another medium lies in its place now, which lacks some of its content; if nobody needs it any "+
		"more, landfall registry stage %q --cancel and landfall registry gc remove this copy from the disk",
		r.labelOf(m))
}

// repairState returns the state of an archive whose damaged copy is made again. The message is ""
// if a person has to do something.
func (r *Registry) repairState(p *packed) (state, message string) {
	r.mu.Lock()
	state, present := p.state, p.present
	r.mu.Unlock()
	switch {
	case state == StageFull:
		return state, r.fullMessage()
	case state != "":
		return state, ""
	case !present:
		return StageWaiting, ""
	}
	return StageCopying, "the damaged copy is being made again; leave the medium plugged in"
}

// fullMessage says what keeps a copy from going on.
func (r *Registry) fullMessage() string {
	_, limitedBy, _ := r.quota.Room() // an error leaves the message short
	return strings.TrimSuffix("there is no room; the copy continues when there is, limited by "+limitedBy,
		", limited by ")
}

// wholeOf reports whether all blobs of a medium are copied.
func (r *Registry) wholeOf(m *held) bool {
	for digest := range m.index.Blobs {
		if _, ok := r.staging.Size(digest); !ok {
			return false
		}
	}
	return true
}

// Collect removes pushed blobs that no manifest needs, uploads that nobody continued, and copies of
// blobs of media whose copies nobody ordered. It never touches a medium.
func (r *Registry) Collect(ctx context.Context) (overlay.Collected, error) {
	done, err := r.Overlay.Collect(ctx)
	if err != nil {
		return done, err
	}
	keep, err := r.Overlay.Needed()
	if err != nil {
		return done, err
	}
	for _, m := range r.ordered() {
		for digest := range m.index.Blobs {
			keep[digest] = true
		}
	}
	files, bytes, err := r.staging.Collect(ctx, func(digest string) bool { return keep[digest] })
	done.Files, done.Bytes = done.Files+files, done.Bytes+bytes
	if err != nil {
		return done, err
	}
	files, bytes, err = r.collectPacked(ctx)
	done.Files, done.Bytes = done.Files+files, done.Bytes+bytes
	return done, err
}

// Read implements staging.Source.
func (b *Blob) Read(ctx context.Context, w io.Writer, offset int64) error {
	b.suppliers = nil
	return b.fromPlaces(ctx, w, offset, b.Size-offset, false)
}

// Changed implements staging.Source.
func (b *Blob) Changed(whole bool) error {
	if !whole || len(b.suppliers) != 1 {
		return &UnavailableError{RetryAfter: retryAfter, Reason: fmt.Sprintf("the copy of %s was wrong and is made "+
			"again", b.Digest)}
	}
	return b.damaged(b.suppliers[0])
}

// damaged notes that a medium has other bytes for the blob.
func (b *Blob) damaged(m *held) error {
	m.setDamaged(b.Digest)
	b.registry.log.Error("A blob is damaged. Its medium is not used for it any more.", "digest", b.Digest, "place",
		m.place(b.Digest))
	b.registry.notify() // a copy is made again
	return b.registry.damagedError(m, b.Digest)
}

func (r *Registry) damagedError(m *held, digest string) error {
	return &DamagedError{Digest: digest, Place: m.place(digest), Remedy: r.remedy(m)}
}

// remedy says as a clause what makes damaged blobs of a medium sound.
func (r *Registry) remedy(m *held) string {
	p := r.packedOf(m)
	if p == nil {
		return "copy the medium again"
	}
	label := r.labelOf(m)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !p.row.Wanted:
		return fmt.Sprintf("order its copy again with landfall registry stage %q", label)
	case p.message != "":
		return p.message
	case !p.present:
		return "plug in " + p.row.Location.Label() + " again, from which this copy is made again"
	}
	return "this copy is made again from " + p.row.Location.Path
}

// join starts or joins the copy of a blob to the disk, for a client. If there is no room for a
// copy, the blob is read from the media.
func (b *Blob) join(ctx context.Context) (end func(), err error) {
	timer := b.registry.options.Clock.NewTimer(startWait)
	defer timer.Stop()
	source := *b
	reader, err := b.registry.staging.Join(b.Digest, b.Size, &source, func(changed <-chan struct{}) error {
		select {
		case <-changed:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.Chan():
			return &BusyError{Label: b.media[0].location.Label()}
		}
	})
	switch {
	case errors.Is(err, quota.ErrFull):
		return b.startReading(ctx)
	case err != nil:
		return nil, err
	case reader == nil:
		b.disks = []*disk{b.registry.copies}
		return func() {}, nil
	}
	b.reader = reader
	return reader.Close, nil
}

// ahead is how far behind the range of a client a copy may be. A client that asks for what is
// farther away would wait for long without a byte, so it gets its range from the medium.
const ahead = 32 << 20

// fromCopy writes a range of the blob from its copy. If the disk becomes full, the rest is from the
// media.
func (b *Blob) fromCopy(ctx context.Context, w io.Writer, offset, size int64) error {
	if offset > b.reader.Reached()+ahead {
		return b.fromPlaces(ctx, w, offset, size, false)
	}
	n, err := b.reader.Copy(ctx, w, offset, size)
	if errors.Is(err, quota.ErrFull) {
		return b.fromPlaces(ctx, w, offset+n, size-n, offset+n == 0)
	}
	return err
}

var _ staging.Source = (*Blob)(nil)

// blobOnMedia returns a blob that present media have.
func (r *Registry) blobOnMedia(c *content, digest string) (Blob, error) {
	b := Blob{Digest: digest, registry: r}
	for _, m := range c.places[digest] {
		if m.state(digest) != statePresent {
			continue
		}
		// Of two sizes, one is of a damaged copy. The comparison of the first pull decides.
		if size := m.index.Blobs[digest].Size(); len(b.media) == 0 || size == b.Size {
			b.media, b.Size = append(b.media, m), size
		}
	}
	if len(b.media) == 0 {
		return b, r.onNoMedium(c, medium.Descriptor{Digest: digest})
	}
	return b, nil
}
