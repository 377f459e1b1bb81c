package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Past is a past change with the object's JSON before and after it; nil means no object.
type Past struct {
	Revision      uint64
	Key           string
	Before, After []byte
}

// Builder makes a recording from the present state and the steps that led to it. The steps are
// added newest first.
type Builder struct {
	redactor *Redactor
	state    State // before the step that was added last
	hash     string
	steps    []Step // the newest first
}

// NewBuilder returns a builder for the present objects, which are JSON by key.
func NewBuilder(redactor *Redactor, present map[string][]byte) (*Builder, error) {
	b := &Builder{redactor: redactor, state: make(State)}
	for key, text := range present {
		value, err := redactor.read(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", key, err)
		}
		b.state[key] = value
	}
	var err error
	b.hash, err = b.state.Hash()
	return b, err
}

// Add adds the step before those that were added already. The changes are in order.
func (b *Builder) Add(step Step, changes []Past) error {
	step.Changes = make([]Change, len(changes))
	for i := len(changes) - 1; i >= 0; i-- {
		var err error
		if step.Changes[i], err = b.undo(changes[i]); err != nil {
			return fmt.Errorf("read %s at revision %d: %w", changes[i].Key, changes[i].Revision, err)
		}
	}
	if step.Reply != nil {
		reply := *step.Reply
		reply.Output, reply.Error = b.redactor.Text(reply.Output), b.redactor.Text(reply.Error)
		step.Reply = &reply
	}
	b.steps = append(b.steps, step)
	return nil
}

// undo returns the record of a change and sets the state back to before it.
func (b *Builder) undo(past Past) (change Change, err error) {
	change = Change{Revision: past.Revision, Key: past.Key}
	var after []byte
	if past.After == nil {
		change.Deleted = true
		delete(b.state, past.Key)
	} else {
		if after, err = canonical(b.state[past.Key]); err != nil {
			return change, err
		}
		change.Sum = sum(after)
	}
	if past.Before == nil {
		change.Created = after
		delete(b.state, past.Key)
		return change, nil
	}
	before, err := b.redactor.read(past.Before)
	if err != nil {
		return change, err
	}
	if past.After != nil {
		change.Patch, err = diff(before, b.state[past.Key])
	}
	b.state[past.Key] = before
	return change, err
}

// Recording returns the recording. The caller adds the cluster's names.
func (b *Builder) Recording() (*Recording, error) {
	r := &Recording{Hash: b.hash, Steps: b.steps}
	slices.Reverse(r.Steps)
	for i := range r.Steps {
		r.Steps[i].Number = i + 1
	}
	for _, key := range slices.Sorted(maps.Keys(b.state)) {
		text, err := canonical(b.state[key])
		if err != nil {
			return nil, err
		}
		r.Base = append(r.Base, Object{Key: key, Value: json.RawMessage(text)})
	}
	return r, nil
}
