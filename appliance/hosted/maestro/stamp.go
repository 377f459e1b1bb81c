package maestro

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"

	"landfall/appliance/hosted/bundle"
	"landfall/store"
)

// Annotations of a stamp.
const (
	runAnnotation      = "landfall.io/run"
	revisionAnnotation = "landfall.io/revision"
)

// Stamp marks a bundle that was sent: the run of the store in which it was sent, and the store's
// revision at which the bundle had last changed. Agents return the stamp with each status.
type Stamp struct {
	Run      string `json:"run,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
}

// run is the time from a start of the service to the next one. A restored store continues with
// another run, and with revisions above all earlier ones (see store.Options.Floor). So a stamp that
// a lost part of the store wrote is never one of this store.
type run struct {
	ID      string    `json:"id"`
	Started time.Time `json:"started_at"` // UTC
	// Before is the store's revision at the start: the last one of the earlier runs.
	Before uint64 `json:"before"`
	// Identity identifies the file of the database.
	Identity string `json:"identity,omitempty"`
}

// runs holds the runs under numbers with leading zeros.
var runs = store.NewBucket[run]("hosted-runs", 1)

// keptRuns is the number of runs that are always kept. Older ones are removed when there are twice
// as many, if no agent can return a stamp of them.
const keptRuns = 100

// startRun reads the runs and adds the present one. If the database is a copy of another file, it
// holds all consumers.
func (s *Service) startRun(ctx context.Context, identity string) error {
	return s.db.Update(ctx, func(tx *store.Tx) error {
		number, err := s.readRuns(tx)
		if err != nil {
			return err
		}
		now := s.clock.Now().UTC()
		copied := false
		if n := len(s.runs); n > 0 && identity != "" && s.runs[n-1].Identity != "" {
			copied = s.runs[n-1].Identity != identity
		}
		next := run{ID: uuid.NewString(), Started: now, Before: tx.Revision(), Identity: identity}
		if err := runs.Put(tx, fmt.Sprintf("%08d", number), &next); err != nil {
			return err
		}
		s.runs = append(s.runs, next)
		if !copied {
			return nil
		}
		return bundle.EachConsumer(tx, func(c *bundle.Consumer) error {
			return s.hold(tx, c.Name, HoldCopied, "The database file is a copy: the data directory was restored from "+
				"a backup, or moved.", now)
		})
	})
}

// readRuns reads the runs, removes those that nothing needs, and returns the number of the next
// one.
func (s *Service) readRuns(tx *store.Tx) (next int, err error) {
	s.runs = nil
	var keys []string
	if err := runs.Each(tx, "", func(key string, r *run) error {
		keys, s.runs = append(keys, key), append(s.runs, *r)
		return nil
	}); err != nil {
		return 0, err
	}
	if err := runs.Keys(tx, "", func(key string) error { // also of a damaged row
		last, err := strconv.Atoi(key)
		next = last + 1
		return err
	}); err != nil {
		return 0, fmt.Errorf("read the number of the last run: %w", err)
	}
	if len(s.runs) < 2*keptRuns {
		return next, nil
	}
	named, err := s.oldestNamed(tx)
	if err != nil {
		return 0, err
	}
	unneeded := min(named, len(s.runs)-keptRuns)
	for _, key := range keys[:unneeded] {
		if err := runs.Delete(tx, key); err != nil {
			return 0, err
		}
	}
	s.runs = s.runs[unneeded:]
	return next, nil
}

// oldestNamed returns the index of the oldest run whose stamp an agent may return. An agent holds
// the stamp of the last status of a bundle, or one that was sent later. While a bundle has no
// status, or its row is damaged, all runs are needed.
func (s *Service) oldestNamed(tx *store.Tx) (oldest int, err error) {
	index := make(map[string]int, len(s.runs))
	for i, r := range s.runs {
		index[r.ID] = i
	}
	oldest = len(s.runs)
	return oldest, bundle.EachID(tx, func(id string) error {
		b, err := bundle.Get(tx, id)
		if store.IsDamaged(err) {
			oldest = 0
			return store.ErrStop
		}
		if err != nil || !needsStamp(b) {
			return err
		}
		status, err := bundle.GetStatus(tx, id)
		if err != nil {
			return err
		}
		at, known := 0, false
		if status != nil {
			_, stamp := readMeta(status.Metadata)
			at, known = index[stamp.Run]
		}
		if !known {
			oldest = 0
			return store.ErrStop
		}
		oldest = min(oldest, at)
		return nil
	})
}

// needsStamp reports whether the statuses of a bundle are accepted only with a known stamp.
func needsStamp(b *bundle.Bundle) bool {
	return !b.Deleting() && b.Annotations[observedAnnotation] == ""
}

// Identity returns what identifies a file even if a copy has the same name and content: its inode
// and the inode of its directory. It is "" if the file system has none.
func Identity(file, dir string) string {
	text := ""
	for _, path := range []string{file, dir} {
		info, err := os.Stat(path)
		if err != nil {
			return ""
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || stat.Ino == 0 {
			return ""
		}
		text += strconv.FormatUint(stat.Ino, 36) + "."
	}
	return text
}

// known reports whether this store wrote a stamp.
func (s *Service) known(stamp Stamp) bool {
	for i, r := range s.runs {
		if r.ID != stamp.Run {
			continue
		}
		return i == len(s.runs)-1 || stamp.Revision <= s.runs[i+1].Before
	}
	return false
}

// stamp returns the stamp of a bundle that is sent now.
func (s *Service) stamp(revision uint64) Stamp { return Stamp{s.runs[len(s.runs)-1].ID, revision} }

// objectMeta is the part of a ManifestWork's metadata that this package reads and writes.
type objectMeta struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// readMeta reads metadata that an agent returned.
func readMeta(metadata json.RawMessage) (objectMeta, Stamp) {
	var meta objectMeta
	if len(metadata) == 0 || json.Unmarshal(metadata, &meta) != nil {
		return objectMeta{}, Stamp{}
	}
	revision, _ := strconv.ParseUint(meta.Annotations[revisionAnnotation], 10, 64) // 0 is never known
	return meta, Stamp{meta.Annotations[runAnnotation], revision}
}
