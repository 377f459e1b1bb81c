package journal

import (
	"fmt"
)

// Player applies the steps of a recording one after the other.
type Player struct {
	recording *Recording
	state     State
	next      int
}

// NewPlayer begins before the first step.
func NewPlayer(recording *Recording) (*Player, error) {
	p := &Player{recording: recording, state: make(State)}
	for _, object := range recording.Base {
		value, err := decode(object.Value)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", object.Key, err)
		}
		p.state[object.Key] = value
	}
	return p, nil
}

// State is the state behind the last step that was played. It changes with the next.
func (p *Player) State() State { return p.state }

// Next returns the step that Play plays next, or nil at the end.
func (p *Player) Next() *Step {
	if p.next == len(p.recording.Steps) {
		return nil
	}
	return &p.recording.Steps[p.next]
}

// Play applies the next step and tells what it did. It is an error if the step does not lead to
// what was recorded.
func (p *Player) Play() (*Played, error) {
	step := p.Next()
	if step == nil {
		return nil, nil
	}
	p.next++
	played := &Played{Step: step, state: p.state}
	for i := range step.Changes {
		effect, err := p.apply(&step.Changes[i])
		if err != nil {
			return nil, fmt.Errorf("step %d: %s: %w", step.Number, step.Changes[i].Key, err)
		}
		played.Effects = append(played.Effects, effect)
	}
	return played, nil
}

// Played is a step that was just played.
type Played struct {
	*Step
	Effects []Effect
	state   State
}

// Effect is what a change did to one object.
type Effect struct {
	*Change
	Before any   // of an object that was deleted
	Was    []any // what stood in the place of each edit of the patch; nil where nothing was
}

func (p *Player) apply(change *Change) (effect Effect, err error) {
	effect.Change = change
	value, held := p.state[change.Key]
	switch {
	case change.Deleted:
		if !held {
			return effect, fmt.Errorf("it is deleted and is not there")
		}
		effect.Before = value
		delete(p.state, change.Key)
		return effect, nil
	case change.Created != nil:
		if held {
			return effect, fmt.Errorf("it is created and is there already")
		}
		if value, err = decode(change.Created); err != nil {
			return effect, err
		}
	case !held:
		return effect, fmt.Errorf("it is changed and is not there")
	}
	for _, edit := range change.Patch {
		var was any
		if value, was, err = edit.apply(value); err != nil {
			return effect, err
		}
		effect.Was = append(effect.Was, was)
	}
	p.state[change.Key] = value
	text, err := canonical(value)
	if err != nil {
		return effect, err
	}
	if got := sum(text); got != change.Sum {
		return effect, fmt.Errorf("it became another object (%s) than was recorded (%s)", got, change.Sum)
	}
	return effect, nil
}

// Finish plays what is left and compares the last state with the one that was recorded.
func (p *Player) Finish() error {
	for p.Next() != nil {
		if _, err := p.Play(); err != nil {
			return err
		}
	}
	hash, err := p.state.Hash()
	if err != nil {
		return err
	}
	if hash != p.recording.Hash {
		return fmt.Errorf("the last state has the hash %s, the recording says %s: it is not complete",
			hash, p.recording.Hash)
	}
	return nil
}
