package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"landfall/appliance/durable"
	"landfall/appliance/fault"
	"landfall/store"
)

// StateFile is the name of the file in the data directory of a member that says of which fleet it
// is.
const StateFile = "fleet.json"

// State says of which fleet a data directory is.
type State struct {
	Fleet  string `json:"fleet"`  // ID of the fleet
	ID     string `json:"id"`     // of this data directory: two directories must not share a name
	Member string `json:"member"` // name of this member
	// Etcd, Prefix and URL are those of the command that made the fleet or joined it. The
	// configuration precedes them.
	Etcd   []string `json:"etcd,omitempty"`
	Prefix string   `json:"prefix,omitempty"`
	URL    string   `json:"url,omitempty"`
	// Left reports that this member has left the fleet. The others go on with the data, so no
	// appliance may start with this copy.
	Left bool `json:"left,omitempty"`
	// Ended reports that the fleet has ended and that this machine goes on with the data, whatever
	// the configuration says.
	Ended bool `json:"ended,omitempty"`
}

// HasLeft reports whether the machine has left its fleet.
func (s *State) HasLeft() bool { return s != nil && s.Left }

// Takes reports whether a data directory takes part in a fleet, or is to make one because the
// configuration names an etcd.
func (s *State) Takes(configured bool) bool {
	if s == nil {
		return configured
	}
	return !s.Ended
}

// CheckAlone returns an error if a data directory is that of a member of a fleet. A change that is
// made in it while the member is stopped is not in the log of the fleet.
func CheckAlone(dir string) error {
	state, err := ReadState(dir)
	if err != nil || state == nil || state.Ended {
		return err
	}
	return fault.New(fault.Conflict, "the data directory %s is that of the member %s of a fleet, and a change here "+
		"would not reach the other members: start this member, or use another one; if no member is left, make it a "+
		"single machine first: landfall fleet end --data-dir %[1]s", dir, state.Member)
}

// Detach makes the data directory of a stopped member that of a single machine, for a fleet that is
// lost. No other member may go on with the data. Its error is a *store.HeldError if the member
// runs.
func Detach(dir string) error {
	if err := store.CheckFree(dir); err != nil {
		return err
	}
	state, err := ReadState(dir)
	switch {
	case err != nil:
		return err
	case state == nil || state.Ended:
		return fault.New(fault.Conflict, "the data directory %s belongs to no fleet", dir)
	case state.Left:
		return fault.New(fault.Conflict, "the member with the data directory %s has left its fleet, which went on "+
			"with the data", dir)
	}
	state.Ended = true
	return state.Write(dir)
}

// ReadState reads the state of a data directory. It returns nil for the directory of a single
// machine.
func ReadState(dir string) (*State, error) {
	text, err := os.ReadFile(filepath.Join(dir, StateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &store.DirError{Dir: dir, Err: err}
	}
	state := new(State)
	if err := json.Unmarshal(text, state); err != nil {
		return nil, fmt.Errorf("the file %s is damaged (%w); remove the data directory, and let this machine join the "+
			"fleet again with landfall fleet join", filepath.Join(dir, StateFile), err)
	}
	return state, nil
}

// Write writes the state into a data directory.
func (s *State) Write(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, StateFile), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the fleet of the data directory: %w", err)
	}
	return nil
}
