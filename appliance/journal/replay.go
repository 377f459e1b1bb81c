package journal

import (
	"fmt"
)

// Replayer applies the steps of a recording in order.
type Replayer struct {
	recording *Recording
	state     State
	next      int
}

// NewReplayer returns a replayer before the first step.
func NewReplayer(recording *Recording) (*Replayer, error) {
	r := &Replayer{recording: recording, state: make(State)}
	for _, object := range recording.Base {
		value, err := decode(object.Value)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", object.Key, err)
		}
		r.state[object.Key] = value
	}
	return r, nil
}

// State returns the state after the last applied step. The next step changes it in place.
func (r *Replayer) State() State { return r.state }

// Next returns the step that Apply applies next, or nil at the end.
func (r *Replayer) Next() *Step {
	if r.next == len(r.recording.Steps) {
		return nil
	}
	return &r.recording.Steps[r.next]
}

// Apply applies the next step and returns its effects, or nil at the end. It returns an error if
// the result differs from the recorded objects.
func (r *Replayer) Apply() (*AppliedStep, error) {
	step := r.Next()
	if step == nil {
		return nil, nil
	}
	r.next++
	applied := &AppliedStep{Step: step, state: r.state}
	for i := range step.Changes {
		effect, err := r.apply(&step.Changes[i])
		if err != nil {
			return nil, fmt.Errorf("step %d: %s: %w", step.Number, step.Changes[i].Key, err)
		}
		applied.Effects = append(applied.Effects, effect)
	}
	return applied, nil
}

// AppliedStep is the step that was applied last.
type AppliedStep struct {
	*Step
	Effects []Effect
	state   State
}

// Effect is a change with the replaced values.
type Effect struct {
	*Change
	Before any   // the deleted object
	Was    []any // the value that each edit of the patch replaced, or nil
}

func (r *Replayer) apply(change *Change) (effect Effect, err error) {
	effect.Change = change
	value, held := r.state[change.Key]
	switch {
	case change.Deleted:
		if !held {
			return effect, fmt.Errorf("the step deletes the object, but it does not exist")
		}
		effect.Before = value
		delete(r.state, change.Key)
		return effect, nil
	case change.Created != nil:
		if held {
			return effect, fmt.Errorf("the step creates the object, but it exists already")
		}
		if value, err = decode(change.Created); err != nil {
			return effect, err
		}
	case !held:
		return effect, fmt.Errorf("the step changes the object, but it does not exist")
	}
	for _, edit := range change.Patch {
		var was any
		if value, was, err = edit.apply(value); err != nil {
			return effect, err
		}
		effect.Was = append(effect.Was, was)
	}
	r.state[change.Key] = value
	text, err := canonical(value)
	if err != nil {
		return effect, err
	}
	if got := sum(text); got != change.Sum {
		return effect, fmt.Errorf("the result (%s) is not the recorded object (%s)", got, change.Sum)
	}
	return effect, nil
}

// Finish applies the remaining steps and compares the last state with the recorded one.
func (r *Replayer) Finish() error {
	for r.Next() != nil {
		if _, err := r.Apply(); err != nil {
			return err
		}
	}
	hash, err := r.state.Hash()
	if err != nil {
		return err
	}
	if hash != r.recording.Hash {
		return fmt.Errorf("the last state has the hash %s, but the recording states %s: the recording is incomplete",
			hash, r.recording.Hash)
	}
	return nil
}
