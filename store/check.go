package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"landfall/store/blob"
	"landfall/store/pages"
	"landfall/store/seal"
	"landfall/store/wal"
)

// Kinds of problems.
const (
	ProblemPage      = "page"      // a page of the database
	ProblemRow       = "row"       // a row that can't be read
	ProblemMissing   = "missing"   // rows or changes that existed
	ProblemReference = "reference" // a reference to something that does not exist
	ProblemFile      = "file"      // a file outside of the database
	ProblemIndex     = "index"     // an index, which is derived from rows
)

// Problem is damage that a check found.
type Problem struct {
	Kind   string `json:"kind"`
	Where  string `json:"where"` // key of a row, or name of a file
	Reason string `json:"reason"`

	// content is the SHA-256 of a content that is missing or damaged for certain; else "".
	content string
	mayPass bool // see MayPass
}

// Report is the result of a check.
type Report struct {
	Pages uint64 `json:"pages"`
	Rows  uint64 `json:"rows"`
	Files int    `json:"files"` // contents of files outside of the database
	// Elsewhere is the number of contents that only other members have.
	Elsewhere int       `json:"elsewhere,omitempty"`
	Problems  []Problem `json:"problems"`
}

func (r *Report) add(kind, where, format string, values ...any) {
	r.addProblem(Problem{Kind: kind, Where: where, Reason: fmt.Sprintf(format, values...)})
}

// addProblem adds a problem, unless another one of its kind and place is known.
func (r *Report) addProblem(found Problem) {
	kind, where := found.Kind, found.Where
	if !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Kind == kind && p.Where == where }) {
		r.Problems = append(r.Problems, found)
	}
}

// Check reads every page, row, reference and content of the open database.
func (db *DB) Check(ctx context.Context) (*Report, error) { return db.CheckSlowly(ctx, nil) }

// CheckSlowly does the same as Check. It calls rest before each content of a file; nil: no call. No
// view is open meanwhile.
func (db *DB) CheckSlowly(ctx context.Context, rest func(context.Context) error) (*Report, error) {
	db.snapshots.Add(1) // contents whose rows are read here are not collected
	defer db.snapshots.Add(-1)
	i := newInspector(db.ring, db.blobs)
	i.rest = rest
	v, err := db.rows.Verify(nil)
	if err != nil {
		return nil, err
	}
	i.verified(v)
	err = db.View(func(tx *Tx) error {
		for id := range wal.BucketNames {
			cursor := tx.rows.Cursor(wal.Bucket(id))
			for key, value := cursor.Seek(nil); key != nil; key, value = cursor.Next() {
				if err := ctx.Err(); err != nil {
					return err
				}
				i.row(wal.Bucket(id), key, value)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := i.finish(ctx); err != nil {
		return nil, err
	}
	for _, known := range db.Damage() {
		i.report.add(ProblemMissing, known.Key, "%s (noticed at %s)", known.Reason, known.At.Format("2006-01-02 15:04"))
	}
	return i.report, db.ReleasePages()
}

// CheckDir reads the same of the data directory of a stopped appliance. It writes nothing but the
// lock. keys returns the data keys, or nil if the database is not sealed; its error is a problem,
// and values are then not read.
func CheckDir(ctx context.Context, dir string, keys func() (*seal.Ring, error)) (_ *Report, err error) {
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); err != nil {
		return nil, &DirError{Dir: dir, Err: err}
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlockDir(lock)) }()
	ring, keyErr := keys()
	i := newInspector(ring, blob.NewDir(filepath.Join(dir, blobsDir), ring))
	i.blind = keyErr != nil
	if keyErr != nil {
		i.report.add(ProblemFile, "data.key", "%v", keyErr)
	}
	v, err := wal.Verify(path, func(bucket wal.Bucket, key, value []byte) error {
		i.row(bucket, key, value)
		return ctx.Err()
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		i.report.add(ProblemPage, FileName, "%v", err)
		return i.report, nil
	}
	i.verified(v)
	problems, err := wal.CheckLog(dir, func(bucket wal.Bucket, key, value []byte) { i.row(bucket, key, value) })
	if err != nil {
		return nil, err
	}
	for _, problem := range problems {
		if i.shared { // the log file is not synced, and the shared log has what it lacks
			break
		}
		i.report.add(ProblemMissing, "write-ahead log", "%s", problem)
	}
	if err := i.finish(ctx); err != nil {
		return nil, err
	}
	recorded := &DB{dir: dir, damages: newDamages()}
	if err := recorded.loadRecorded(); err != nil {
		return nil, err
	}
	for _, known := range recorded.Damage() {
		i.report.add(ProblemMissing, known.Key, "%s (noticed at %s)", known.Reason, known.At.Format("2006-01-02 15:04"))
	}
	return i.report, nil
}

// inspector checks rows one by one and collects their references.
type inspector struct {
	report *Report
	ring   *seal.Ring
	blobs  *blob.Dir
	blind  bool                        // there are no data keys for a sealed database
	shared bool                        // other machines have the same rows
	rest   func(context.Context) error // see CheckSlowly

	data    map[string]uint64 // revisions by key
	newest  map[string]logged // by key
	content map[string][]string
	damaged map[string]bool
}

// logged is the newest change of a key in the change log.
type logged struct {
	revision uint64
	deleted  bool
}

func newInspector(ring *seal.Ring, contents *blob.Dir) *inspector {
	return &inspector{report: &Report{Problems: []Problem{}}, ring: ring, blobs: contents, data: map[string]uint64{},
		newest: map[string]logged{}, content: map[string][]string{}, damaged: map[string]bool{}}
}

// verified adds the problems of pages and digests.
func (i *inspector) verified(v *wal.Verification) {
	i.report.Pages = v.Pages
	for _, problem := range v.Problems {
		i.report.add(ProblemPage, fmt.Sprintf("%s, page %d", FileName, problem.Page), "%s%s", problem.Reason,
			lostRange(problem))
	}
	if v.Meta {
		i.report.add(ProblemPage, FileName+" (numbers)", "the numbers of the database differ from their checksum")
	}
	for _, group := range v.Groups {
		switch {
		case group.Bucket == wal.Index:
			i.report.add(ProblemIndex, group.Name, "its rows differ from those that were written last")
		case v.Missing[group] > 0:
			i.report.add(ProblemMissing, cmp.Or(group.Name, "change log"), "%d rows are missing", v.Missing[group])
		default:
			i.report.add(ProblemRow, cmp.Or(group.Name, "change log"),
				"its rows differ from those that were written last")
		}
	}
}

// lostRange names the keys that a damaged page makes unreadable.
func lostRange(p pages.Problem) string {
	if len(p.From) == 0 && len(p.To) == 0 || p.Bucket != "data" && p.Bucket != "index" {
		return ""
	}
	return fmt.Sprintf(" (keys from %q up to %q)", p.From, p.To)
}

// row checks a stored row.
func (i *inspector) row(bucket wal.Bucket, key, value []byte) {
	i.report.Rows++
	switch bucket {
	case wal.Data:
		i.dataRow(string(key), value)
	case wal.Log:
		i.logEntry(key, value)
	case wal.Meta:
		i.shared = i.shared || wal.IsSequence(key)
	case wal.Index:
		if rest, ok := strings.CutPrefix(string(key), "blobs/"); ok && len(rest) > 2*sha256.Size {
			sum := rest[:2*sha256.Size]
			i.content[sum] = append(i.content[sum], rest[2*sha256.Size:])
		}
	}
}

func (i *inspector) dataRow(key string, row []byte) {
	if row == nil { // a deletion in the log
		delete(i.data, key)
		return
	}
	if len(row) < recordHeader {
		i.report.add(ProblemRow, key, "the row has %d bytes", len(row))
		return
	}
	i.data[key] = binary.BigEndian.Uint64(row[8:])
	if i.ring == nil {
		return
	}
	if _, err := i.ring.Open(row[recordHeader:], rowContext(nil, key, row)); err != nil {
		i.damaged[key] = true
		i.report.add(ProblemRow, key, "%v", err)
	}
}

func (i *inspector) logEntry(key, entry []byte) {
	if entry == nil {
		return
	}
	change, err := parseChange(key, entry)
	if err == nil && !i.blind {
		_, err = openHistory(i.ring, key, entry)
	}
	if err != nil {
		i.report.add(ProblemRow, logName(key), "%v", err)
		return
	}
	if change.Revision > i.newest[change.Key].revision {
		i.newest[change.Key] = logged{change.Revision, change.Deleted}
	}
}

// finish checks the references between rows and contents.
func (i *inspector) finish(ctx context.Context) error {
	for key, last := range i.newest {
		if _, exists := i.data[key]; !exists && !last.deleted {
			i.report.add(ProblemMissing, key, "the change log says that the row exists")
		}
	}
	for sum, keys := range i.content {
		for _, key := range keys {
			if _, exists := i.data[key]; !exists {
				i.report.add(ProblemReference, "blobs/"+sum+key, "the row of the file does not exist")
			}
		}
		if i.blind {
			continue
		}
		if i.rest != nil {
			if err := i.rest(ctx); err != nil {
				return err
			}
		}
		if i.elsewhere(sum) {
			i.report.Elsewhere++
			continue
		}
		i.report.Files++
		if err := i.blobs.Verify(ctx, sum); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			for _, key := range keys {
				i.report.addProblem(Problem{ProblemFile, key, fmt.Sprintf("its content can't be read: %v", err),
					certain(sum, err), mayPass(err)})
			}
		}
	}
	slices.SortStableFunc(i.report.Problems, func(a, b Problem) int {
		return strings.Compare(a.Kind+a.Where, b.Kind+b.Where)
	})
	return nil
}

// elsewhere reports whether only other members have a content.
func (i *inspector) elsewhere(sum string) bool {
	if !i.shared {
		return false
	}
	_, err := i.blobs.Size(sum)
	return errors.Is(err, fs.ErrNotExist)
}

// MayPass reports whether a later check may read the content, such as after too many open files.
func (p Problem) MayPass() bool { return p.mayPass }

// mayPass reports whether an error says nothing about a content. A damaged sector may be read
// later, too, but it is damage.
func mayPass(err error) bool { return certain("a hash", err) == "" && !errors.Is(err, syscall.EIO) }

// certain returns the hash of a content if the error says that the content itself is missing or
// damaged. Other errors of the system, such as too many open files, may pass.
func certain(sum string, err error) string {
	if cause, ok := errors.AsType[syscall.Errno](err); ok && cause != syscall.ENOENT {
		return ""
	}
	return sum
}
