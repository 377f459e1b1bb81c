package audittrail

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"landfall/appliance/sitekey"
)

// Filter selects records. Zero values select all.
type Filter struct {
	Since, Until time.Time
	Person       string // name of an account or a token
	Operation    string // ID of the operation
	Cluster      string // ID of a cluster, or of any other object
	// Before selects records with smaller numbers: the next page.
	Before uint64
	// Limit is the largest number of items.
	Limit int
}

// Outcomes of operations without a status.
const (
	Running = "running" // the operation has not ended yet
	// Unknown means that the appliance ended during the operation. It may have taken place.
	Unknown = "unknown"
)

// Item is an operation or an event of the trail. For an operation, it is the record Begin with the
// status of the record End.
type Item struct {
	Record
	Ended   *time.Time `json:"ended,omitempty"`
	Outcome string     `json:"outcome,omitempty"` // Running or Unknown
}

// Page is a part of the trail, the newest items first.
type Page struct {
	Items []Item `json:"items"`
	// Next is the value of Filter.Before for the next page; 0 means that there are no more items.
	Next uint64 `json:"next,omitempty"`
	// Unread are the parts of the files that could not be read. Records are missing there.
	Unread []Unread `json:"unread,omitempty"`
}

// List returns the newest items that a filter selects. It reads the files from their end, so
// the first pages need little time.
func (t *Trail) List(ctx context.Context, filter Filter) (*Page, error) {
	t.flush()
	return listContents(ctx, t.contents, filter)
}

// listContents implements List for the contents of a trail.
func listContents(ctx context.Context, read readContents, filter Filter) (*Page, error) {
	all, err := read(0)
	if err != nil {
		return nil, fmt.Errorf("list the audit trail: %w", err)
	}
	if all.open == nil {
		all.open = func(path string) (readFile, error) { return os.Open(path) }
	}
	l := lister{ctx: ctx, filter: filter, page: &Page{Items: []Item{}}, ends: map[uint64]*Record{},
		earlier: all.ended, open: all.open}
	for _, from := range slices.Backward(all.sources) {
		err := l.file(from)
		if errors.Is(err, errStop) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list the audit trail: %w", err)
		}
	}
	return l.page, nil
}

// lister reads the records from the newest to the oldest. It meets the End of an operation before
// its Begin.
type lister struct {
	ctx     context.Context
	filter  Filter
	page    *Page
	ends    map[uint64]*Record
	earlier bool // the records belong to an earlier start
	open    func(path string) (readFile, error)
}

func (l *lister) file(from source) error {
	content, err := l.open(from.path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		return nil
	case damages(err):
		l.page.Unread = append(l.page.Unread, Unread{from.path, 0, max(from.size, from.whole), reasonOf(err)})
		return nil
	case err != nil:
		return err
	}
	defer content.Close()
	if err := l.ctx.Err(); err != nil {
		return err
	}
	full := false
	readable := &salvage{ReaderAt: content, path: from.path}
	err = eachLineBackward(readable, max(from.size, from.whole), func(line []byte, _ int64) error {
		err := l.line(line)
		full = errors.Is(err, errStop)
		return err
	})
	if damages(err) { // bytes that are no lines
		readable.unread, err = []Unread{{from.path, 0, max(from.size, from.whole), reasonOf(err)}}, nil
	}
	l.page.Unread = append(l.page.Unread, readable.unread...)
	if err == nil && full {
		return errStop
	}
	return err
}

var endMark, openedMark = []byte(`"kind":"` + string(End) + `"`), []byte(`"kind":"` + string(Opened) + `"`)

func (l *lister) line(line []byte) error {
	isEnd, isOpened := bytes.Contains(line, endMark), bytes.Contains(line, openedMark)
	later := l.filter.Before > 0 && sequenceOf(line) >= l.filter.Before
	end := l.ends[sequenceOf(line)]
	if !isOpened && (later && !isEnd || end == nil && !l.mayMatch(line)) {
		return nil
	}
	var record Record
	if err := json.Unmarshal(line, &record); err != nil {
		return nil // an altered line; the verification reports it
	}
	item := Item{Record: record}
	switch record.Kind {
	case End:
		l.ends[record.Began] = &record
		return nil
	case Begin:
		if end != nil {
			item.Status, item.Objects, item.Ended = end.Status, end.Objects, &end.Time
			delete(l.ends, record.Sequence)
		} else if item.Outcome = Running; l.earlier {
			item.Outcome = Unknown
		}
	}
	if isOpened {
		defer func() { l.earlier = true }()
	}
	if later || !l.filter.Matches(&item.Record) {
		return nil
	}
	if l.filter.Limit > 0 && len(l.page.Items) == l.filter.Limit {
		l.page.Next = l.page.Items[len(l.page.Items)-1].Sequence
		return errStop
	}
	l.page.Items = append(l.page.Items, item)
	return nil
}

// mayMatch reports whether a line contains the texts of the filter. It saves decoding most lines.
func (l *lister) mayMatch(line []byte) bool {
	return bytes.Contains(line, []byte(l.filter.Operation)) && bytes.Contains(line, []byte(l.filter.Cluster))
}

// Matches reports whether the filter selects a record. It ignores Before and Limit.
func (f Filter) Matches(record *Record) bool {
	if !f.Since.IsZero() && record.Time.Before(f.Since) || !f.Until.IsZero() && !record.Time.Before(f.Until) {
		return false
	}
	if f.Person != "" && record.Actor.Name != f.Person || f.Operation != "" && record.Operation != f.Operation {
		return false
	}
	if f.Cluster == "" || record.Actor.Cluster == f.Cluster {
		return true
	}
	for _, id := range record.Objects {
		if id == f.Cluster {
			return true
		}
	}
	return false
}

// Export writes the lines of all records after a number, and the signed head. The number 0 exports
// the whole trail.
func (t *Trail) Export(ctx context.Context, w io.Writer, after uint64) error {
	t.flush()
	return exportContents(ctx, t.contents, w, after, signer{t.options.Key, t.now()})
}

// signer signs the head of an export at a time.
type signer struct {
	key *sitekey.Key
	at  time.Time
}

// exportContents implements Export for the contents of a trail.
func exportContents(ctx context.Context, read readContents, w io.Writer, after uint64, by signer) error {
	all, err := read(after)
	if err != nil {
		return fmt.Errorf("export the audit trail: %w", err)
	}
	out := bufio.NewWriter(w)
	if err := all.eachLine(ctx, after, func(line []byte) error {
		_, err := out.Write(line)
		return errors.Join(err, out.WriteByte('\n'))
	}); err != nil {
		return fmt.Errorf("export the audit trail: %w", err)
	}
	line, err := json.Marshal(signedHead{Head: all.head, Time: by.at, Key: by.key.Public()})
	if err == nil {
		line, err = sign(by.key, headPurpose, line)
	}
	if err == nil {
		_, err = out.Write(append(line, '\n'))
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("export the audit trail: %w", err)
	}
	return nil
}

// contents are the records of a trail at one time.
type contents struct {
	head    Head                                // the newest record
	sources []source                            // the files with the records, the oldest first
	ended   bool                                // nobody writes the trail now, so none of its operations runs
	open    func(path string) (readFile, error) // for a list; nil: os.Open
}

// readContents returns the contents of a trail after a number.
type readContents func(after uint64) (contents, error)

// contents implements readContents.
func (t *Trail) contents(after uint64) (contents, error) {
	t.mu.Lock()
	head, tail := t.head, t.tail
	t.mu.Unlock()
	return contentsUntil(t.options.Dir, head, tail, after)
}

// contentsUntil returns the records after a number, up to the head, with which the file tail ends.
func contentsUntil(dir string, head Head, tail source, after uint64) (contents, error) {
	paths, err := segmentPaths(dir)
	if err != nil {
		return contents{}, err
	}
	found := contents{head: head}
	for i, path := range paths {
		if firstOf(path) >= firstOf(tail.path) {
			break
		}
		if i+1 < len(paths) && firstOf(paths[i+1]) <= after+1 {
			continue
		}
		_, size, err := lastSigned(path)
		from := source{path: path, size: size}
		if damages(err) { // a verification finds its records missing
			from, err = damagedSource(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return contents{}, err
		}
		found.sources = append(found.sources, from)
	}
	found.sources = append(found.sources, tail)
	return found, nil
}

// eachLine calls fn for each record after a number. Its error is fs.ErrNotExist if a file was
// removed meanwhile because of the limit of space.
func (c contents) eachLine(ctx context.Context, after uint64, fn func(line []byte) error) error {
	for _, from := range c.sources {
		err := eachLine(from, func(line []byte) error {
			if sequenceOf(line) <= after {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			return fn(line)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
