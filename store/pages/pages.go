// Package pages reads the pages of a bbolt file and reports what is damaged in them.
//
// bbolt trusts its pages: it has no checksums, follows each page number, and ends the program at an
// impossible one. This package trusts nothing. It checks each page before it uses it, reports a
// damaged page with the range of keys that are lost with it, and continues with the next page. It
// reads with ReadAt and not with a mapping, so a file that is cut off causes errors, not signals.
//
// Format: bbolt's internal/common, version 2. All numbers are little-endian here.
//
//	page     id (8 bytes), flags (2), count (2), overflow (4), elements
//	meta     magic (4), version (4), page size (4), flags (4), root page (8), sequence (8),
//	         page of the free list (8), number of pages (8), transaction (8), FNV-1a of these (8)
//	branch   elements of 16 bytes: position of the key (4), its size (4), page (8)
//	leaf     elements of 16 bytes: flags (4), position (4), size of the key (4) and the value (4)
//	bucket   the value of a leaf with the flag 1: root page (8), sequence (8); a root page 0 means
//	         that a page follows inline
//
// Design: docs/design.md#damaged-data.
package pages

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

const (
	magic         = 0xED0CDAED
	version       = 2
	headerSize    = 16
	elementSize   = 16
	metaSize      = 64
	bucketSize    = 16
	branchFlag    = 0x01
	leafFlag      = 0x02
	metaFlag      = 0x04
	freelistFlag  = 0x10
	bucketElement = 1
	// depthLimit limits the depth of a tree. A tree of 2^32 rows has at most 10 levels.
	depthLimit = 32
	// pageLimit limits the size of one page with its overflow, in bytes.
	pageLimit = 2 << 30
)

var le = binary.LittleEndian

// Meta is the state of the file that a meta page describes.
type Meta struct {
	PageSize    int
	Root        uint64 // page of the bucket of buckets
	Freelist    uint64
	Pages       uint64 // number of pages
	Transaction uint64
}

// Problem is damage in the file.
type Problem struct {
	Bucket string // "" if it concerns the whole file
	Page   uint64
	// From and To limit the keys that the problem makes unreadable: keys from From up to To,
	// exclusive. A nil To means the end of the bucket.
	From, To []byte
	Reason   string
}

// String returns the problem as a sentence.
func (p Problem) String() string {
	if p.Bucket == "" {
		return fmt.Sprintf("page %d: %s", p.Page, p.Reason)
	}
	return fmt.Sprintf("page %d of the bucket %s: %s", p.Page, p.Bucket, p.Reason)
}

// File is a bbolt file that is read page by page.
type File struct {
	r    io.ReaderAt
	size int64
	meta Meta
	// other describes a damaged meta page; "": both are whole
	other   string
	used    pageSet // pages that were read
	workers int     // goroutines that read a bucket
}

// reader reads pages. It reads the file ahead while pages follow each other.
type reader struct {
	*File
	// The current leaf page lies in ahead.
	buffer, ahead []byte
	aheadAt, next int64 // offset of ahead, and of the end of the last page
}

// aheadSize is the number of bytes that are read at once, if pages follow each other.
const aheadSize = 128 << 10

// read returns a part of the file. It is valid until the next call.
func (r *reader) read(at, size int64) ([]byte, error) {
	wanted := size
	if at == r.next {
		wanted = max(size, aheadSize)
	}
	if at < r.aheadAt || at+size > r.aheadAt+int64(len(r.ahead)) {
		if int64(cap(r.buffer)) < wanted {
			r.buffer = make([]byte, max(wanted, aheadSize))
		}
		n, err := r.r.ReadAt(r.buffer[:wanted], at)
		if r.ahead, r.aheadAt = r.buffer[:n], at; int64(n) < size {
			return nil, err
		}
	}
	r.next = at + size
	from := at - r.aheadAt
	return r.ahead[from : from+size : from+size], nil
}

// pageSet is a set of page numbers. Several goroutines may change it.
type pageSet []atomic.Uint64

func newPageSet(pages uint64) pageSet {
	const limit = 1 << 32 // pages, so that a damaged number does not need all memory
	s := make(pageSet, min(pages, limit)/64+1)
	s.add(0)
	s.add(1)
	return s
}

func (s pageSet) has(id uint64) bool {
	return id/64 < uint64(len(s)) && s[id/64].Load()&(1<<(id%64)) != 0
}

// add reports whether the page was not in the set.
func (s pageSet) add(id uint64) bool {
	return id/64 >= uint64(len(s)) || s[id/64].Or(1<<(id%64))&(1<<(id%64)) == 0
}

func (s pageSet) remove(id uint64) {
	if id/64 < uint64(len(s)) {
		s[id/64].And(^(uint64(1) << (id % 64)))
	}
}

// Open reads the meta pages of a file.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size, workers: min(runtime.GOMAXPROCS(0), maxWorkers)}
	defer func() { f.used = newPageSet(f.meta.Pages) }()
	first, err := readMeta(r, 0)
	if err == nil {
		second, secondErr := readMeta(r, int64(first.PageSize))
		f.choose(first, second, secondErr)
		return f, nil
	}
	for pageSize := int64(512); pageSize <= 64<<10; pageSize *= 2 {
		if second, secondErr := readMeta(r, pageSize); secondErr == nil && int64(second.PageSize) == pageSize {
			f.meta, f.other = second, "meta page 0: "+err.Error()
			return f, nil
		}
	}
	return nil, fmt.Errorf("no meta page can be read: %w", err)
}

func (f *File) choose(first, second Meta, secondErr error) {
	f.meta = first
	switch {
	case secondErr != nil:
		f.other = "meta page 1: " + secondErr.Error()
	case second.Transaction > first.Transaction:
		f.meta = second
	}
}

// maxWorkers is enough for the disk of an appliance.
const maxWorkers = 4

// OpenAt reads the state of a file that a program has open. meta describes a read transaction,
// which the caller keeps open. One goroutine reads the file, because the program has other work.
func OpenAt(r io.ReaderAt, size int64, meta Meta) *File {
	return &File{r: r, size: size, meta: meta, used: newPageSet(meta.Pages), workers: 1}
}

// Meta returns the newest state of the file.
func (f *File) Meta() Meta { return f.meta }

// DamagedMeta returns the damage of the other meta page, or "". bbolt uses the older state without
// an error if the newer meta page is damaged.
func (f *File) DamagedMeta() string { return f.other }

func readMeta(r io.ReaderAt, at int64) (Meta, error) {
	var page [headerSize + metaSize]byte
	if _, err := r.ReadAt(page[:], at); err != nil {
		return Meta{}, fmt.Errorf("read: %w", err)
	}
	m := page[headerSize:]
	hash := fnv.New64a()
	hash.Write(m[:metaSize-8]) // never fails
	switch {
	case le.Uint32(m) != magic || le.Uint32(m[4:]) != version:
		return Meta{}, errors.New("it is not the page of a bbolt file")
	case hash.Sum64() != le.Uint64(m[metaSize-8:]):
		return Meta{}, errors.New("the checksum does not fit")
	}
	meta := Meta{PageSize: int(le.Uint32(m[8:])), Root: le.Uint64(m[16:]), Freelist: le.Uint64(m[32:]),
		Pages: le.Uint64(m[40:]), Transaction: le.Uint64(m[48:])}
	if meta.PageSize < 512 || meta.PageSize > 1<<20 {
		return Meta{}, fmt.Errorf("a page size of %d bytes is not possible", meta.PageSize)
	}
	return meta, nil
}

// page reads a page with its overflow, and checks its header.
func (r *reader) page(id uint64) ([]byte, error) {
	if id < 2 || id >= r.meta.Pages {
		return nil, fmt.Errorf("the page number is not possible; the file has %d pages", r.meta.Pages)
	}
	if !r.used.add(id) {
		return nil, errors.New("the page is used twice")
	}
	at := int64(id) * int64(r.meta.PageSize)
	page, err := r.read(at, int64(r.meta.PageSize))
	if err != nil {
		r.used.remove(id)
		return nil, r.readError(err)
	}
	if own := le.Uint64(page); own != id {
		r.used.remove(id)
		return nil, fmt.Errorf("the page says that it is page %d", own)
	}
	overflow := uint64(le.Uint32(page[12:]))
	if size := (overflow + 1) * uint64(r.meta.PageSize); overflow > 0 {
		if id+overflow >= r.meta.Pages || size > pageLimit {
			return nil, fmt.Errorf("%d overflow pages are not possible", overflow)
		}
		if at+int64(size) > r.size {
			return nil, r.readError(io.ErrUnexpectedEOF)
		}
		if page, err = r.read(at, int64(size)); err != nil {
			return nil, r.readError(err)
		}
	}
	for n := uint64(1); n <= overflow; n++ {
		if !r.used.add(id + n) {
			return nil, fmt.Errorf("its overflow page %d is used twice", id+n)
		}
	}
	if le.Uint16(page[8:]) != leafFlag {
		page = bytes.Clone(page) // it is still needed when the next page is read
	}
	return page, nil
}

func (f *File) readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the file ends before the page, after %d of %d bytes", f.size,
			int64(f.meta.Pages)*int64(f.meta.PageSize))
	}
	return err
}

// element returns the part of a page that an element refers to. base is the offset of the element,
// to which the position is relative.
func element(page []byte, base, position, size int) ([]byte, bool) {
	from := base + position
	if position < elementSize || from < 0 || size < 0 || from > len(page) || size > len(page)-from {
		return nil, false
	}
	return page[from : from+size : from+size], true
}

// Walk calls row with each row of a bucket that can be read, and problem with each damaged page.
// Several goroutines call row at the same time, each with the rows of a range of keys in the order
// of the pages. Undamaged pages have the order of the keys. Walk returns the error of row.
func (f *File) Walk(bucket string, row func(key, value []byte) error, problem func(Problem)) error {
	found := false
	root := &walker{reader: &reader{File: f}, problem: problem, row: func(key, value []byte) error {
		if string(key) != bucket {
			return nil
		}
		found = true
		return f.bucket(bucket, value, row, problem)
	}}
	// The bucket of buckets is read once for each bucket.
	f.forget(f.meta.Root)
	if err := root.page(f.meta.Root, nil, nil, 0); err != nil {
		return err
	}
	if !found {
		problem(Problem{Bucket: bucket, Page: f.meta.Root, Reason: "the bucket is missing"})
	}
	return nil
}

// bucket reads a bucket from its value in the bucket of buckets.
func (f *File) bucket(name string, value []byte, row func(key, value []byte) error, problem func(Problem)) error {
	var mu sync.Mutex
	var problems []Problem
	forks := &forks{idle: make(chan *reader, f.workers)}
	forks.group.SetLimit(f.workers - 1)
	w := &walker{reader: &reader{File: f}, bucket: name, forks: forks, row: row, problem: func(p Problem) {
		mu.Lock()
		defer mu.Unlock()
		problems = append(problems, p)
	}}
	err := w.root(value)
	err = cmp.Or(err, forks.group.Wait())
	slices.SortStableFunc(problems, func(a, b Problem) int { return bytes.Compare(a.From, b.From) })
	for _, p := range problems {
		problem(p)
	}
	return err
}

// forks are the goroutines that read parts of a bucket.
type forks struct {
	group errgroup.Group
	idle  chan *reader
}

// try reads a part in another goroutine. It reports false if enough of them work.
func (f *forks) try(w *walker, part func(w *walker) error) bool {
	return f.group.TryGo(func() error {
		own := &reader{File: w.reader.File}
		select {
		case own = <-f.idle:
		default:
		}
		defer func() { f.idle <- own }()
		return part(&walker{reader: own, bucket: w.bucket, forks: f, row: w.row, problem: w.problem})
	})
}

// walker reads a bucket or a part of it.
type walker struct {
	reader  *reader
	bucket  string
	forks   *forks // nil for the bucket of buckets
	last    []byte // the last key
	any     bool
	row     func(key, value []byte) error
	problem func(Problem)
}

func (f *File) forget(id uint64) { f.used.remove(id) }

// root reads a bucket from its value in the bucket of buckets.
func (w *walker) root(value []byte) error {
	if len(value) < bucketSize {
		w.problem(Problem{Bucket: w.bucket, Reason: "the description of the bucket is too short"})
		return nil
	}
	if id := le.Uint64(value); id != 0 {
		return w.page(id, nil, nil, 0)
	}
	return w.elements(0, value[bucketSize:], nil, nil, 0)
}

// page reads a page with keys from from up to to.
func (w *walker) page(id uint64, from, to []byte, depth int) error {
	page, err := w.reader.page(id)
	if err == nil && depth > depthLimit {
		err = errors.New("the tree is too deep")
	}
	if err != nil {
		w.damaged(id, from, to, "%s", err)
		return nil
	}
	if w.bucket == "" {
		page = bytes.Clone(page) // the buckets are read while it is needed
	}
	return w.elements(id, page, from, to, depth)
}

func (w *walker) damaged(id uint64, from, to []byte, reason string, values ...any) {
	w.problem(Problem{Bucket: w.bucket, Page: id, From: from, To: to, Reason: fmt.Sprintf(reason, values...)})
}

func (w *walker) elements(id uint64, page, from, to []byte, depth int) error {
	if len(page) < headerSize {
		w.damaged(id, from, to, "the page is too short")
		return nil
	}
	count := int(le.Uint16(page[10:]))
	if headerSize+count*elementSize > len(page) {
		w.damaged(id, from, to, "%d elements are not possible", count)
		return nil
	}
	switch flags := le.Uint16(page[8:]); flags {
	case branchFlag:
		return w.branch(id, page, count, from, to, depth)
	case leafFlag:
		return w.leaf(id, page, count, from, to)
	default:
		w.damaged(id, from, to, "a page of the type 0x%02x does not belong to a bucket", flags)
		return nil
	}
}

func (w *walker) branch(id uint64, page []byte, count int, from, to []byte, depth int) error {
	type child struct {
		key  []byte
		page uint64
	}
	children := make([]child, 0, count)
	for n := range count {
		base := headerSize + n*elementSize
		e := page[base:]
		key, ok := element(page, base, int(le.Uint32(e)), int(le.Uint32(e[4:])))
		previous := from
		if len(children) > 0 {
			previous = children[len(children)-1].key
		}
		if !ok || len(children) > 0 && bytes.Compare(key, previous) <= 0 || to != nil && bytes.Compare(key, to) >= 0 ||
			from != nil && bytes.Compare(key, from) < 0 {
			w.damaged(id, previous, to, "the key of element %d is out of place", n)
			key = nil
		}
		children = append(children, child{key, le.Uint64(e[8:])})
	}
	for n, c := range children {
		low, high := c.key, to
		if n == 0 || low == nil {
			low = from
		}
		if n+1 < len(children) && children[n+1].key != nil {
			high = children[n+1].key
		}
		part := func(w *walker) error { return w.page(c.page, low, high, depth+1) }
		if w.forks != nil && depth < forkDepth && w.forks.try(w, part) {
			continue
		}
		if err := part(w); err != nil {
			return err
		}
	}
	return nil
}

// forkDepth is the depth of the pages from which on one goroutine reads all pages below.
const forkDepth = 2

func (w *walker) leaf(id uint64, page []byte, count int, from, to []byte) error {
	for n := range count {
		base := headerSize + n*elementSize
		e := page[base:]
		position, keySize, valueSize := int(le.Uint32(e[4:])), int(le.Uint32(e[8:])), int(le.Uint32(e[12:]))
		key, ok := element(page, base, position, keySize)
		value, whole := element(page, base, position+keySize, valueSize)
		switch flags := le.Uint32(e); {
		case !ok || !whole:
			w.damaged(id, bytes.Clone(w.last), to, "row %d does not lie within the page", n)
			continue
		case flags > bucketElement || flags == bucketElement && w.bucket != "":
			w.damaged(id, bytes.Clone(key), bytes.Clone(key), "row %d has the type %d", n, flags)
			continue
		case from != nil && bytes.Compare(key, from) < 0 || to != nil && bytes.Compare(key, to) >= 0 ||
			w.any && bytes.Compare(key, w.last) <= 0:
			w.damaged(id, bytes.Clone(key), bytes.Clone(key), "the key of row %d is out of place", n)
		}
		w.last, w.any = append(w.last[:0], key...), true
		if err := w.row(key, value); err != nil {
			return err
		}
	}
	return nil
}

// CheckFreelist reports free pages that are in use, after all buckets were walked. bbolt would
// overwrite them.
func (f *File) CheckFreelist(problem func(Problem)) {
	id := f.meta.Freelist
	page, err := (&reader{File: f}).page(id)
	if err != nil {
		problem(Problem{Page: id, Reason: "the list of free pages can't be read: " + err.Error()})
		return
	}
	if flags := le.Uint16(page[8:]); flags != freelistFlag {
		problem(Problem{Page: id, Reason: fmt.Sprintf("the list of free pages has the type 0x%02x", flags)})
		return
	}
	count, list := uint64(le.Uint16(page[10:])), page[headerSize:]
	if count == 0xffff {
		if len(list) < 8 {
			problem(Problem{Page: id, Reason: "the list of free pages is too short"})
			return
		}
		count, list = le.Uint64(list), list[8:]
	}
	if count > uint64(len(list)/8) {
		problem(Problem{Page: id, Reason: fmt.Sprintf("%d free pages are not possible", count)})
		return
	}
	last := uint64(1)
	for n := range count {
		free := le.Uint64(list[8*n:])
		switch {
		case free <= last || free >= f.meta.Pages:
			problem(Problem{Page: id, Reason: fmt.Sprintf("the free page %d is out of place", free)})
			return
		case f.used.has(free):
			problem(Problem{Page: id, Reason: fmt.Sprintf("the free page %d is in use", free)})
			return
		}
		last = free
	}
}
