// Package replica keeps a continuous copy of an appliance's data in a directory on another disk or
// machine. It loses at most a second of changes, and can be restored to any second of the last
// days.
//
// A replica consists of snapshots and of the log of the changes after them:
//
//	owner.json                        which appliance writes, and since when
//	heartbeat.json                    the newest sign of life of that appliance
//	snapshots/                        backups: a backup.Repository
//	log/<generation>/<commit>.frames  frames: the changes after a commit
//	log/<generation>/<commit>.json    which backup has the state of a commit
//
// The JSON files end with a checksum of themselves; see package checksum.
//
// # Generations
//
// A generation is a sequence of commits without gaps, which begins with a snapshot. Each opening of
// a replica begins a generation: each start of the appliance, and each time that the directory
// comes back after more changes than fit in memory. The number of the generation is the fencing
// token: an appliance whose number is not the newest in owner.json may not write any more. Promote
// writes a new owner, so a former appliance notices that it was replaced, and refuses to serve.
//
// # Frames
//
// A frame has the changes of at most a second: the operations of commits, as in the write-ahead
// log, and the changes of the files beside the store. It has a SHA-256, and names that of the frame
// before it, so that a missing or exchanged frame is noticed. Each frame is read back after it was
// written.
//
// The rows and contents in a replica are sealed, as in the data directory. Without a recipient, a
// replica does not contain the key of the seal. With one, its frames and snapshots are encrypted
// with age, and contain the key; see package backup.
//
// Design: docs/design.md#replicas.
package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"landfall/appliance/checksum"
	"landfall/appliance/durable"
	"landfall/appliance/process"
)

// Owner is the appliance that may write to a replica.
type Owner struct {
	ID   string `json:"id"`   // of its data directory
	Name string `json:"name"` // the URL of the appliance, for people
	// Generation is the number of the newest generation.
	Generation uint64    `json:"generation"`
	Since      time.Time `json:"since"`
	// Former is the owner that this one replaced, if it was promoted.
	Former string `json:"former,omitempty"`
	// Replica is random, and tells the replica from one on another disk.
	Replica string `json:"replica,omitempty"`
}

// Heartbeat is a sign of life of the owner.
type Heartbeat struct {
	Generation uint64    `json:"generation"`
	Time       time.Time `json:"time"`
	Commit     uint64    `json:"commit"` // the newest commit in the replica; 0 before the first snapshot
	Revision   uint64    `json:"revision"`
	Stopped    bool      `json:"stopped,omitempty"` // the appliance was stopped orderly
}

// Snapshot says which backup has the state of a commit.
type Snapshot struct {
	Backup   string    `json:"backup"` // name in the repository
	Commit   uint64    `json:"commit"`
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
}

// Retention says what stays in a replica.
type Retention struct {
	Now   time.Time     `json:"now"`
	Keep  time.Duration `json:"keep"`  // the oldest state that can be restored
	Bytes int64         `json:"bytes"` // the newest snapshot and its log always stay; 0: no limit
	// Interval is the regular time between two snapshots. Two neighbors count as no further apart,
	// so that a clock that is wrong for a while does not remove the states of right times.
	Interval time.Duration `json:"interval"`
}

// Usage is the size of a replica.
type Usage struct {
	Bytes     int64     `json:"bytes"`
	Snapshots int       `json:"snapshots"`
	Oldest    time.Time `json:"oldest,omitzero"` // the oldest state that can be restored
	// Shortened reports that the limit of the bytes removed states that should have stayed.
	Shortened bool `json:"shortened,omitempty"`
}

// Target is a place for a replica.
type Target interface {
	// Open begins a generation. Its error is *FencedError if another appliance owns the replica.
	Open(ctx context.Context, owner Owner) (Session, error)
	// String returns the place for people.
	String() string
}

// Session writes a generation. Its methods may be called concurrently. Their errors are
// *FencedError after another session was opened, and ErrNotContinued after another replica took the
// place of this one.
type Session interface {
	Has(ctx context.Context, sum string) (bool, error)
	// Put stores an object; see backup.Repository.Put.
	Put(ctx context.Context, sum string, stored io.Reader) error
	// AddSnapshot adds a backup whose objects are stored.
	AddSnapshot(ctx context.Context, snapshot Snapshot, manifest []byte, sums []string) error
	// Append appends a frame to the log.
	Append(ctx context.Context, frame []byte) error
	Beat(ctx context.Context, beat Heartbeat) error
	Prune(ctx context.Context, retention Retention) (Usage, error)
	// Resume continues the generation after a failure. It returns the SHA-256 of the last whole
	// frame, or "". The next frame replaces what follows it.
	Resume(ctx context.Context) (last string, err error)
	// Generation returns the number of the generation.
	Generation() uint64
}

// FencedError reports that a replica belongs to another appliance.
type FencedError struct {
	Place string
	Owner Owner
}

// Error implements error.
func (e *FencedError) Error() string {
	if e.Owner.Former != "" {
		return fmt.Sprintf("the replica in %s was promoted on %s: the appliance %s took over from this one. Two "+
			"appliances must not serve one site. If the other one goes on, move this data directory away. If this one "+
			"goes on, stop the other one for good and run landfall replica claim %[1]s", e.Place,
			e.Owner.Since.UTC().Format(time.RFC3339), e.Owner.Name)
	}
	return fmt.Sprintf("the replica in %s belongs to the appliance %s (since %s). Two appliances must not write to "+
		"one replica. Use another directory, or stop the other one for good and run landfall replica claim %[1]s",
		e.Place, e.Owner.Name, e.Owner.Since.UTC().Format(time.RFC3339))
}

// AwayError reports that the place of a replica is not there, such as an unplugged disk.
type AwayError struct {
	Place string
	Err   error
}

// Error implements error.
func (e *AwayError) Error() string {
	return fmt.Sprintf("the replica can't be reached in %s (%v); connect it again", e.Place, e.Err)
}

// Unwrap returns the cause.
func (e *AwayError) Unwrap() error { return e.Err }

// DamagedError reports that a part of a replica is damaged.
type DamagedError struct{ Path, Reason string }

// Error implements error.
func (e *DamagedError) Error() string { return fmt.Sprintf("%s is damaged: %s", e.Path, e.Reason) }

// ErrNotContinued reports that a generation can't be continued.
var ErrNotContinued = errors.New("the replica can't be continued, and begins again")

// Names of files in a replica.
const (
	ownerName     = "owner.json"
	heartbeatName = "heartbeat.json"
	snapshotsName = "snapshots"
	logName       = "log"
	frameSuffix   = ".frames"
	refSuffix     = ".json"
)

// IDName is the name of the file in the data directory with the ID under which the appliance owns
// its replica. It is not part of backups: a restored directory is another appliance.
const IDName = "replica-id"

// ID returns the ID of a data directory. It makes one if there is none.
func ID(dir string) (string, error) {
	path := filepath.Join(dir, IDName)
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return string(text), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	id := uuid.NewString()
	return id, writeID(dir, id)
}

func writeID(dir, id string) error {
	path := filepath.Join(dir, IDName)
	if err := durable.WriteFile(path, []byte(id), 0o600); err != nil {
		return err
	}
	return process.GiveToOwner(dir, path)
}

// IsReplica reports whether a directory is a replica.
func IsReplica(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ownerName))
	return err == nil
}

// ReadOwner returns the owner of a replica, or nil if it has none.
func ReadOwner(dir string) (*Owner, error) {
	owner := new(Owner)
	found, err := readJSON(filepath.Join(dir, ownerName), owner)
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		return nil, fmt.Errorf("%w; move the replica away, and the appliance begins a new one there; landfall restore "+
			"reads the old one", damaged)
	}
	if !found || err != nil {
		return nil, err
	}
	return owner, nil
}

// ReadHeartbeat returns the newest sign of life in a replica, or nil if there is none.
func ReadHeartbeat(dir string) (*Heartbeat, error) {
	beat := new(Heartbeat)
	if found, err := readJSON(filepath.Join(dir, heartbeatName), beat); !found || err != nil {
		return nil, err
	}
	return beat, nil
}

func readJSON(path string, to any) (found bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := checksum.Unmarshal(text, to); err != nil {
		return false, &DamagedError{path, err.Error()}
	}
	return true, nil
}

func writeJSON(path string, value any) error {
	text, err := checksum.Marshal(value)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, text, 0o600)
}
