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

// Builder builds a recording from the current objects and the steps that led to them. The steps are
// added from the newest to the oldest.
type Builder struct {
	redactor *Redactor
	state    State // the state before the step that was added last
	hash     string
	steps    []Step // the newest first
}

// NewBuilder returns a builder for the current objects, as JSON by key.
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

// Add adds the step that precedes the added ones. The changes are in chronological order.
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

// undo returns the record of a change and restores the state before the change.
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

// Recording returns the recording. The caller must set the cluster's ID and name.
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
