package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// The write-ahead log: what an update wrote stands here, safe on the disk, before anybody sees it.
// It is two files that take turns: while the rows of one's records are put into bbolt's file (see
// checkpoint.go), the other one is written.
//
// A file is a row of blocks of 4096 bytes in which records stand, each from the beginning of a
// block on, so that no write touches a block in which something acknowledged stands. All numbers
// are big-endian:
//
//	magic and version of the format (4 bytes), CRC-32C of all that follows in the record (4), length of the operations (4),
//	epoch (8), commit at which the file begins (8), commit (8), operations
//
// An epoch is one process's writing, so that a log is never taken for that of another copy of the
// database. Commits are numbered without a gap. Those behind a file's newest record are of earlier
// turns: bbolt's file has them.
//
// An operation is the bucket (1 byte), whether the row is put (1) or removed (0), the length of the
// key as uvarint, the key, and for a row that is put the length of the value as uvarint and the
// value.

const (
	walBlock   = 4096
	walMagic   = 0x4c465701 // "LFW", version 1
	recordHead = 36
	// walKept is the size of the largest buffer that is kept for the next record, in bytes.
	walKept = 1 << 20
	// recordLimit bounds a record, in bytes.
	recordLimit = 1 << 30
)

// walNames are the log's files in the data directory.
var walNames = [2]string{"landfall-1.wal", "landfall-2.wal"}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// wal is the log of this process; it belongs to who holds the pen.
type wal struct {
	disk  disk
	epoch uint64
	files [2]walFile
	turn  int // which of the files is written

	first    uint64 // the commit at which that file begins
	end      int64  // where its next record begins
	last     int64  // size of its newest record
	doubtful bool   // the newest record stands in the file, or may, and its update may still fail
	remains  bool   // one that failed could not be taken back, so the next one must take its place
	buffer   []byte
}

type walFile struct {
	*os.File
	allocated int64 // its size
}

// newWAL makes the files of a new epoch. The first record is that of the commit first.
func newWAL(dir string, disk disk, epoch, first uint64) (*wal, error) {
	w := &wal{disk: disk, epoch: epoch, first: first}
	for i, name := range walNames {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.files[i].File = file
	}
	if err := syncDirs(dir); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *wal) close() error {
	var errs []error
	for _, file := range w.files {
		if file.File != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// removeWAL removes the log's files.
func removeWAL(dir string) error {
	for _, name := range walNames {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// alternate has the log go on in the other file from the commit first on. What stands in that file
// must be in bbolt's by now, and nothing remain in this one.
func (w *wal) alternate(first uint64) {
	w.turn, w.first, w.end = 1-w.turn, first, 0
}

// compose makes the record of what an update's transaction has written. It holds until the next one
// is composed.
func (w *wal) compose(tx *Tx) ([]byte, error) {
	if err := tx.seal(); err != nil {
		return nil, err
	}
	record := tx.appendOperations(append(w.buffer[:0], make([]byte, recordHead)...))
	size := len(record)
	if size > recordLimit {
		return nil, fmt.Errorf("one transaction changes %d MiB, more than %d", size>>20, recordLimit>>20)
	}
	head := record[:0]
	head = binary.BigEndian.AppendUint32(head, walMagic)
	head = binary.BigEndian.AppendUint32(head, 0)
	head = binary.BigEndian.AppendUint32(head, uint32(size-recordHead))
	head = binary.BigEndian.AppendUint64(head, w.epoch)
	head = binary.BigEndian.AppendUint64(head, w.first)
	binary.BigEndian.AppendUint64(head, tx.commit)
	record = append(record, make([]byte, blocks(size)-int64(size))...)
	if w.buffer = record; cap(record) > walKept {
		w.buffer = nil
	}
	return record, nil
}

// append writes a record and returns when it is on the disk. Then accept, or after an error
// takeBack, has to follow.
func (w *wal) append(record []byte) error {
	size := recordHead + binary.BigEndian.Uint32(record[8:])
	binary.BigEndian.PutUint32(record[4:], crc32.Checksum(record[8:size], crcTable))
	file := &w.files[w.turn]
	if _, err := file.WriteAt(record, w.end); err != nil {
		return err
	}
	w.doubtful, w.last = true, int64(len(record))
	w.end += w.last
	file.allocate(w.end, w.disk.ahead)
	return w.disk.sync(file.File)
}

// allocate writes zeros ahead of the records, so that their syncs find blocks allocated and need
// not write the file system's journal as well. If that fails, they take longer, or say what is
// wrong.
func (f *walFile) allocate(end int64, ahead int) {
	if end <= f.allocated {
		return
	}
	f.allocated = end
	if n, err := f.WriteAt(make([]byte, ahead), end); err == nil {
		f.allocated += int64(n)
	}
}

// accept makes the newest record stay: its update is committed.
func (w *wal) accept() { w.doubtful, w.remains = false, false }

// takeBack takes the newest record out of the log, because its update failed. An error says that it
// may still be there at the next start; the next record takes its place.
func (w *wal) takeBack() error {
	if !w.doubtful {
		return nil // none was written, or not in full
	}
	w.doubtful, w.remains = false, true
	w.end -= w.last
	file := &w.files[w.turn]
	if _, err := file.WriteAt(make([]byte, walBlock), w.end); err != nil {
		return err
	}
	if err := w.disk.sync(file.File); err != nil {
		return err
	}
	w.remains = false
	return nil
}

// blocks is the size of so many bytes in whole blocks.
func blocks(size int) int64 { return (int64(size) + walBlock - 1) / walBlock * walBlock }

// walRecord is a record that was found in a log.
type walRecord struct {
	path                 string
	epoch, first, commit uint64
	operations           []byte
}

// readWAL reads the whole records in a file of the log, in the order in which they stand there. One
// that isn't there has none.
func readWAL(path string) (records []walRecord, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	for at := int64(0); at < info.Size(); {
		r, size, err := readRecord(file, at, info.Size())
		if err != nil {
			return nil, err
		}
		if size == 0 {
			at += walBlock
			continue
		}
		records = append(records, r)
		at += blocks(size)
	}
	return records, nil
}

// readRecord reads the record that begins there; its size is 0 if none does.
func readRecord(file *os.File, at, end int64) (r walRecord, size int, err error) {
	var head [recordHead]byte
	if at+recordHead > end {
		return r, 0, nil
	}
	if _, err := file.ReadAt(head[:], at); err != nil {
		return r, 0, err
	}
	size = recordHead + int(binary.BigEndian.Uint32(head[8:]))
	if binary.BigEndian.Uint32(head[:]) != walMagic || size > recordLimit || at+int64(size) > end {
		return r, 0, nil
	}
	record := make([]byte, size)
	if _, err := file.ReadAt(record, at); err != nil {
		return r, 0, err
	}
	if crc32.Checksum(record[8:], crcTable) != binary.BigEndian.Uint32(record[4:]) {
		return r, 0, nil
	}
	return walRecord{
		path:       file.Name(),
		epoch:      binary.BigEndian.Uint64(record[12:]),
		first:      binary.BigEndian.Uint64(record[20:]),
		commit:     binary.BigEndian.Uint64(record[28:]),
		operations: record[recordHead:],
	}, size, nil
}

// appendOperation adds an operation to a record; without a value the row is removed.
func appendOperation(to []byte, id bucketID, key, value []byte) []byte {
	put := byte(1)
	if value == nil {
		put = 0
	}
	to = append(binary.AppendUvarint(append(to, byte(id), put), uint64(len(key))), key...)
	if value == nil {
		return to
	}
	return append(binary.AppendUvarint(to, uint64(len(value))), value...)
}

// operation is a row that a record puts or, without a value, removes.
type operation struct {
	bucket     bucketID
	key, value []byte
}

var errOperation = errors.New("an operation of the log is cut off")

// parseOperation reads the first operation and returns what follows it.
func parseOperation(from []byte) (o operation, rest []byte, err error) {
	if len(from) < 2 || from[0] >= buckets || from[1] > 1 {
		return o, nil, errOperation
	}
	o.bucket = bucketID(from[0])
	put := from[1] == 1
	if o.key, rest, err = parseBytes(from[2:]); err != nil || !put {
		return o, rest, err
	}
	o.value, rest, err = parseBytes(rest)
	return o, rest, err
}

// parseBytes reads a length as uvarint and so many bytes.
func parseBytes(from []byte) (b, rest []byte, err error) {
	length, n := binary.Uvarint(from)
	if n <= 0 || length > uint64(len(from)-n) {
		return nil, nil, errOperation
	}
	from = from[n:]
	return from[:length:length], from[length:], nil
}
