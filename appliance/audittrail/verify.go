package audittrail

import (
	"bytes"
	"cmp"
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
	"landfall/store"
)

// Report is the result of a verification.
type Report struct {
	First    uint64   `json:"first"` // numbers of the oldest and the newest record; 0: there are none
	Last     Head     `json:"last"`
	Records  int      `json:"records"`
	Keys     []string `json:"keys"`               // fingerprints of the keys that signed the records
	Notes    []string `json:"notes,omitempty"`    // harmless findings
	Problems []string `json:"problems,omitempty"` // the trail was altered or shortened
	Exported bool     `json:"-"`                  // the signed head of an export was found
}

// Intact reports whether the trail has no problems.
func (r *Report) Intact() bool { return len(r.Problems) == 0 }

// Expect is what the person who verifies a trail knows about it.
type Expect struct {
	// Trusted are the fingerprints of the site's keys. Without any, the report names the keys, and
	// the person compares them.
	Trusted []string
	// Heads are heads that were noted earlier. Their records must be in the trail.
	Heads []Head
}

const maxProblems = 100

// signedHead is the last line of an export.
type signedHead struct {
	Head Head           `json:"head"`
	Time time.Time      `json:"time"`
	Key  sitekey.Public `json:"key"`
}

// headMark begins the last line of an export.
var headMark = []byte(`{"head":`)

// verifier checks the lines of a trail in their order.
type verifier struct {
	report Report
	expect Expect
	last   Head // the newest record
	signed Head // the newest record that a signature covers
	key    *sitekey.Public
	// before is the record before the first one. It must have been removed because of its age.
	before   Head
	removed  bool // a record says that they were removed
	exported bool // the signed head was found
	found    []bool
}

func newVerifier(expect Expect) *verifier {
	return &verifier{expect: expect, found: make([]bool, len(expect.Heads)), report: Report{Keys: []string{}}}
}

func (v *verifier) problem(format string, arguments ...any) {
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, fmt.Sprintf(format, arguments...))
	}
}

func (v *verifier) note(format string, arguments ...any) {
	v.report.Notes = append(v.report.Notes, fmt.Sprintf(format, arguments...))
}

// line checks one line.
func (v *verifier) line(line []byte) error {
	if bytes.HasPrefix(line, headMark) {
		v.head(line)
		return nil
	}
	if v.exported {
		v.problem("a line follows the signed head of the export; the file was put together or altered")
	}
	var record Record
	if err := json.Unmarshal(line, &record); err != nil || record.Sequence == 0 {
		v.problem("the line after record %d is not a record", v.last.Sequence)
		return nil
	}
	v.order(&record)
	v.report.Records++
	v.last = Head{record.Sequence, hashOf(line)}
	for i, head := range v.expect.Heads {
		if head.Sequence == record.Sequence && !v.found[i] {
			v.found[i] = true
			if head.Hash != v.last.Hash {
				v.problem("record %d is not the record that was written with this number", record.Sequence)
			}
		}
	}
	switch record.Kind {
	case Opened, Continued:
		v.useKey(&record)
	case Removed:
		if record.Through > v.before.Sequence || record.Through == v.before.Sequence && record.Hash == v.before.Hash {
			v.removed = true
		}
	case Shortened:
		v.problem("record %d reports a change of the trail before %s: %s", record.Sequence,
			record.Time.Format(time.RFC3339), record.Text)
	}
	v.signature(line, record.Sequence)
	return nil
}

// order checks the number of a record and its hash of the previous one.
func (v *verifier) order(record *Record) {
	switch {
	case v.report.First == 0:
		v.report.First = record.Sequence
		v.before = Head{record.Sequence - 1, record.Previous}
		if record.Sequence == 1 && record.Previous != noHash {
			v.problem("record 1 is not the first record of a trail")
		}
		return
	case record.Sequence <= v.last.Sequence:
		v.problem("record %d follows record %d; the order was changed, or a record was inserted", record.Sequence,
			v.last.Sequence)
	case record.Sequence > v.last.Sequence+1:
		v.problem("the records %d to %d are missing", v.last.Sequence+1, record.Sequence-1)
	}
	if record.Previous != v.last.Hash {
		v.problem("record %d does not contain the hash of record %d; one of them was altered or replaced",
			record.Sequence, v.last.Sequence)
	}
}

func (v *verifier) useKey(record *Record) {
	if record.Key == nil {
		v.problem("record %d lacks the public key", record.Sequence)
		return
	}
	v.key = record.Key
	v.known(*record.Key, record.Sequence)
}

// known checks whether a key is one of the site's.
func (v *verifier) known(key sitekey.Public, sequence uint64) {
	fingerprint := key.Fingerprint()
	if slices.Contains(v.report.Keys, fingerprint) {
		return
	}
	v.report.Keys = append(v.report.Keys, fingerprint)
	if len(v.expect.Trusted) > 0 && !slices.Contains(v.expect.Trusted, fingerprint) {
		v.problem("from record %d on, records are signed with the key %s, which is not the site's; if the site "+
			"had this key at that time, trust it too", sequence, fingerprint)
	}
}

func (v *verifier) signature(line []byte, sequence uint64) {
	signed, signature, ok := unsign(line)
	if !ok {
		return
	}
	switch {
	case v.key == nil:
		v.problem("the key that signed record %d is missing", sequence)
	case v.key.Verify(recordPurpose, signed, signature) != nil:
		v.problem("the signature of record %d is not valid; this record or one before it was altered", sequence)
	}
	v.signed = v.last
}

// head checks the last line of an export.
func (v *verifier) head(line []byte) {
	v.exported = true
	var head signedHead
	signed, signature, ok := unsign(line)
	if !ok || json.Unmarshal(line, &head) != nil {
		v.problem("the signed head of the export cannot be read")
		return
	}
	v.known(head.Key, head.Head.Sequence)
	if head.Key.Verify(headPurpose, signed, signature) != nil {
		v.problem("the signature of the export's head is not valid")
	}
	if head.Head != v.last {
		v.problem("the export was made at record %d, but its records end with %d; records were removed or replaced",
			head.Head.Sequence, v.last.Sequence)
	}
}

// endOfFile ends one file. Records after the last signature belong to a write that was not
// completed, and the next file does not continue them.
func (v *verifier) endOfFile(path string) {
	if v.last != v.signed {
		v.note("%s ends with unsigned records after record %d, from a write that was not completed; they do not "+
			"count", path, v.signed.Sequence)
		v.report.Records -= int(v.last.Sequence - v.signed.Sequence)
		v.last = v.signed
	}
}

func (v *verifier) finish() *Report {
	v.report.Last, v.report.Exported = v.last, v.exported
	if v.report.First > 1 {
		if v.removed {
			v.note("the records before %d were removed, because the space for the trail was used up", v.report.First)
		} else {
			v.problem("the records before %d are missing", v.report.First)
		}
	}
	if v.last != v.signed {
		v.problem("the records after %d are not signed; the end is missing or was altered", v.signed.Sequence)
	}
	for i, head := range v.expect.Heads {
		switch {
		case v.found[i] || head.Sequence == 0:
		case head.Sequence > v.last.Sequence:
			v.problem("the trail had %d records, but it ends with record %d; the end was cut off", head.Sequence,
				v.last.Sequence)
		case head.Sequence < v.report.First:
			v.note("record %d, whose hash is known, was removed with the oldest records", head.Sequence)
		default:
			v.problem("record %d is missing", head.Sequence)
		}
	}
	return &v.report
}

// Verify checks the whole trail against its hashes and signatures, and against the head that the
// store keeps.
func (t *Trail) Verify(ctx context.Context, expect Expect) (*Report, error) {
	kept, err := readHead(t.options.DB, t.options.Member)
	if err != nil {
		return nil, fmt.Errorf("verify the audit trail: %w", err)
	}
	expect.Heads = append(slices.Clone(expect.Heads), kept.Head, t.Head())
	return verifyContents(ctx, t.options.Dir, t.contents, expect, t.options.Key)
}

// Kept returns the head that the store keeps of the trail of a member; see [Options].
func (t *Trail) Kept(member string) (Head, error) { return keptHead(t.options.DB, member) }

func keptHead(db *store.DB, member string) (Head, error) {
	kept, err := readHead(db, member)
	if err != nil {
		return Head{}, fmt.Errorf("read the head of an audit trail: %w", err)
	}
	return kept.Head, nil
}

// verifyContents checks the contents of the site's trail in a directory, with a key.
func verifyContents(ctx context.Context, dir string, read readContents, expect Expect, key *sitekey.Key) (*Report,
	error) {
	expect.Trusted = append(slices.Clone(expect.Trusted), key.Public().Fingerprint())
	for {
		begun := oldest(dir)
		all, err := read(0)
		if err != nil {
			return nil, fmt.Errorf("verify the audit trail: %w", err)
		}
		report, err := all.verify(ctx, expect)
		switch {
		case err == nil && (report.Intact() || oldest(dir) == begun):
			return report, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("verify the audit trail: %w", err)
		}
		// A file was removed meanwhile because of the limit of space. A newer record says so, which
		// may be in a file that began meanwhile.
	}
}

// oldest returns the path of the oldest file, or "".
func oldest(dir string) string {
	paths, err := segmentPaths(dir)
	if err != nil || len(paths) == 0 {
		return ""
	}
	return paths[0]
}

// verify checks the records. Its error is fs.ErrNotExist if a file was removed meanwhile because of
// the limit of space.
func (c contents) verify(ctx context.Context, expect Expect) (*Report, error) {
	v := newVerifier(expect)
	for i, from := range c.sources {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := eachLine(from, v.line)
		if from.whole > 0 {
			v.problem("the file %s is damaged: its end can't be read", from.path)
		}
		if damages(err) {
			v.problem("the file %s can't be read after record %d: %s", from.path, v.last.Sequence, reasonOf(err))
			err = nil
		}
		// The limit of space does not remove the newest file, so its records are missing.
		if isNewest := i == len(c.sources)-1; err != nil && !(isNewest && errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		v.endOfFile(from.path)
	}
	return v.finish(), nil
}

// VerifyExport checks an exported trail, or any copied file of one.
func VerifyExport(content io.Reader, expect Expect) (*Report, error) {
	v := newVerifier(expect)
	ended := &endReader{Reader: content}
	var last []byte
	check := func(line []byte) error {
		if last != nil {
			v.line(last)
		}
		last = append(last[:0], line...)
		return nil
	}
	if err := lines(ended, check); err != nil {
		return nil, fmt.Errorf("read the audit trail: %w", err)
	}
	switch {
	case last == nil:
	case ended.last == '\n' || json.Valid(last) || bytes.HasPrefix(last, headMark):
		v.line(last)
	default:
		v.note("the file ends within the line after record %d, from a write that was not completed; the line does not "+
			"count", v.last.Sequence)
		v.endOfFile("the file")
	}
	if !v.exported {
		v.note("the file has no signed head, so a missing end is found only if a later record is known")
	}
	return v.finish(), nil
}

// endReader notes the last byte that was read.
type endReader struct {
	io.Reader
	last byte
}

// Read implements io.Reader.
func (r *endReader) Read(p []byte) (n int, err error) {
	if n, err = r.Reader.Read(p); n > 0 {
		r.last = p[n-1]
	}
	return n, err
}

// VerifyDir checks a copy of a trail's directory.
func VerifyDir(dir string, expect Expect) (*Report, error) {
	paths, err := segmentPaths(dir)
	if err != nil {
		return nil, fmt.Errorf("read the audit trail: %w", err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("the directory %s contains no files of an audit trail (*%s); give the directory %s of "+
			"a data directory", dir, suffix, DirName)
	}
	v := newVerifier(expect)
	for _, path := range paths {
		_, size, err := lastSigned(path)
		if err == nil {
			err = eachLine(source{path: path, size: size}, v.line)
		}
		info, statErr := os.Stat(path)
		if err := cmp.Or(err, statErr); err != nil {
			return nil, fmt.Errorf("read the audit trail: %w", err)
		}
		if rest := info.Size() - size; rest > 0 {
			v.note("%s ends with %d bytes after record %d, from a write that was not completed; they do not count",
				path, rest, v.last.Sequence)
		}
	}
	return v.finish(), nil
}
