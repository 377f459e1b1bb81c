package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// The write-ahead log. The operations of a transaction are synced to the log before any reader sees
// its rows. The log has two files, used in alternation: while the rows of one file are
// checkpointed, records are written to the other.
//
// A file is a sequence of blocks of 4096 bytes. Each record starts at a block boundary, so that no
// write touches a block with an acknowledged record. All numbers are big-endian:
//
//	magic and version of the format (4 bytes), CRC-32C of the rest of the record (4),
//	length of the operations (4), epoch (8), first commit of the file (8), commit (8),
//	operations
//
// An epoch identifies the writes of one process, so that the log of another copy of the database is
// recognized. Commits are numbered without gaps. Records after the newest record of a file are left
// over from the previous use of the file: the bbolt file has their rows.
//
// An operation has the bucket (1 byte), the kind (1 byte: 1 put, 0 delete), the length of the key
// (uvarint) and the key. A put also has the length of the value (uvarint) and the value.

const (
	blockSize  = 4096
	magic      = 0x4c465701 // "LFW", version 1
	headerSize = 36
	// keptBuffer is the maximum size of a buffer that is reused for the next record, in bytes.
	keptBuffer = 1 << 20
	// recordLimit is the maximum size of a record, in bytes.
	recordLimit = 1 << 30
)

// FileNames are the names of the log's files, which lie in the directory of the bbolt file.
var FileNames = [2]string{"landfall-1.wal", "landfall-2.wal"}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// log is the write-ahead log of this process. logLock guards it.
type log struct {
	disk    Disk
	epoch   uint64
	files   [2]logFile
	current int // index of the file that is written
	ack     *ackFile

	firstCommit uint64 // first commit of that file
	end         int64  // offset of its next record
	lastSize    int64  // size of its newest record
	// unconfirmed reports that the newest record is, or may be, in the file, and that its commit
	// can still fail.
	unconfirmed bool
	// overwriteNext reports that a failed record could not be discarded. The next record must
	// overwrite it.
	overwriteNext bool
	buffer        []byte
}

type logFile struct {
	*os.File
	allocated int64 // size in bytes
}

// newLog creates the files of a new epoch. firstCommit is the commit of the first record.
func newLog(dir string, disk Disk, epoch, firstCommit uint64) (*log, error) {
	l := &log{disk: disk, epoch: epoch, firstCommit: firstCommit}
	for i, name := range FileNames {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.files[i].File = file
	}
	var err error
	if l.ack, err = createAckFile(dir, epoch); err != nil {
		return nil, errors.Join(err, l.close())
	}
	if err := SyncDirs(dir); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *log) close() error {
	var errs []error
	for _, file := range l.files {
		if file.File != nil {
			errs = append(errs, file.Close())
		}
	}
	if l.ack != nil {
		_ = l.ack.Sync() // like note
		errs = append(errs, l.ack.Close())
	}
	return errors.Join(errs...)
}

// removeLog removes the log's files.
func removeLog(dir string) error {
	for _, name := range FileNames {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// switchFile continues the log in the other file. The rows of that file's records must be in the
// bbolt file, and overwriteNext must be false.
func (l *log) switchFile(firstCommit uint64) {
	l.current, l.firstCommit, l.end = 1-l.current, firstCommit, 0
}

// compose returns the record of a group. It is valid until the next call of compose. shared adds
// the digest of the record, which the shared log does not get.
func (l *log) compose(g *group, shared bool) ([]byte, error) {
	record := g.tx.appendOperations(append(l.buffer[:0], make([]byte, headerSize)...))
	if shared {
		g.shared = len(record) - headerSize
		if err := g.digest(record[headerSize:]); err != nil {
			return nil, err
		}
		record = g.tx.appendOperations(record)
	}
	size := len(record)
	if size > recordLimit {
		return nil, fmt.Errorf("the transaction changes %d MiB; the limit is %d MiB", size>>20, recordLimit>>20)
	}
	head := record[:0]
	head = binary.BigEndian.AppendUint32(head, magic)
	head = binary.BigEndian.AppendUint32(head, 0)
	head = binary.BigEndian.AppendUint32(head, uint32(size-headerSize))
	head = binary.BigEndian.AppendUint64(head, l.epoch)
	head = binary.BigEndian.AppendUint64(head, l.firstCommit)
	binary.BigEndian.AppendUint64(head, g.tx.commit)
	record = append(record, make([]byte, roundUp(size)-int64(size))...)
	if l.buffer = record; cap(record) > keptBuffer {
		l.buffer = nil
	}
	return record, nil
}

// operationsOf returns a copy of the operations of a composed record.
func operationsOf(record []byte) []byte {
	return bytes.Clone(record[headerSize : headerSize+binary.BigEndian.Uint32(record[8:])])
}

// append writes a record and returns when it is on the disk. The caller must call confirm
// afterwards, or discard after an error.
func (l *log) append(record []byte) error {
	size := headerSize + binary.BigEndian.Uint32(record[8:])
	binary.BigEndian.PutUint32(record[4:], crc32.Checksum(record[8:size], crcTable))
	file := &l.files[l.current]
	if _, err := file.WriteAt(record, l.end); err != nil {
		return err
	}
	l.unconfirmed, l.lastSize = true, int64(len(record))
	l.end += l.lastSize
	file.preallocate(l.end, l.disk.Preallocate)
	return l.disk.Sync(file.File)
}

// preallocate writes zeros after the records. Later syncs then find allocated blocks and need not
// write the file system's journal. preallocate ignores errors: without allocated blocks, later
// syncs are only slower, and a disk that fails also fails the next write.
func (f *logFile) preallocate(end int64, ahead int) {
	if end <= f.allocated {
		return
	}
	f.allocated = end
	if n, err := f.WriteAt(make([]byte, ahead), end); err == nil {
		f.allocated += int64(n)
	}
}

// confirm makes the newest record permanent, because its transaction is committed.
func (l *log) confirm() { l.unconfirmed, l.overwriteNext = false, false }

// discard removes the newest record, because its commit failed. If discard fails, the next start
// may find the record, unless the next record overwrites it.
func (l *log) discard() error {
	if !l.unconfirmed {
		return nil // no complete record was written
	}
	l.unconfirmed, l.overwriteNext = false, true
	l.end -= l.lastSize
	file := &l.files[l.current]
	if _, err := file.WriteAt(make([]byte, blockSize), l.end); err != nil {
		return err
	}
	if err := l.disk.Sync(file.File); err != nil {
		return err
	}
	l.overwriteNext = false
	return nil
}

// roundUp rounds a size up to whole blocks.
func roundUp(size int) int64 { return (int64(size) + blockSize - 1) / blockSize * blockSize }

// record is a record that was read from a log file.
type record struct {
	path                       string
	epoch, firstCommit, commit uint64
	operations                 []byte
}

// readLog reads the complete records of a log file, in the order of the file. A missing file has no
// records.
//
// It also returns the heads of records that are incomplete or damaged.
func readLog(path string) (records, broken []record, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	for at := int64(0); at < info.Size(); {
		r, size, err := readRecord(file, at, info.Size())
		if err != nil {
			return nil, nil, err
		}
		if size == 0 {
			if r.path != "" {
				broken = append(broken, r)
			}
			at += blockSize
			continue
		}
		records = append(records, r)
		at += roundUp(size)
	}
	return records, broken, nil
}

// readRecord reads the record at an offset. size is 0 if no complete record starts there. The head
// of an incomplete record is returned as far as it can be read.
func readRecord(file *os.File, at, end int64) (r record, size int, err error) {
	var head [headerSize]byte
	if at+headerSize > end {
		return r, 0, nil
	}
	if _, err := file.ReadAt(head[:], at); err != nil {
		return r, 0, err
	}
	if binary.BigEndian.Uint32(head[:]) != magic {
		return r, 0, nil
	}
	r = record{
		path:        file.Name(),
		epoch:       binary.BigEndian.Uint64(head[12:]),
		firstCommit: binary.BigEndian.Uint64(head[20:]),
		commit:      binary.BigEndian.Uint64(head[28:]),
	}
	size = headerSize + int(binary.BigEndian.Uint32(head[8:]))
	if size > recordLimit || at+int64(size) > end {
		return r, 0, nil
	}
	text := make([]byte, size)
	if _, err := file.ReadAt(text, at); err != nil {
		return r, 0, err
	}
	if crc32.Checksum(text[8:], crcTable) != binary.BigEndian.Uint32(text[4:]) {
		return r, 0, nil
	}
	r.operations = text[headerSize:]
	return r, size, nil
}

// appendOperation adds an operation to a record. A nil value deletes the row.
func appendOperation(to []byte, bucket Bucket, key, value []byte) []byte {
	put := byte(1)
	if value == nil {
		put = 0
	}
	to = append(binary.AppendUvarint(append(to, byte(bucket), put), uint64(len(key))), key...)
	if value == nil {
		return to
	}
	return append(binary.AppendUvarint(to, uint64(len(value))), value...)
}

// operation is the put of a row, or its deletion if the value is nil.
type operation struct {
	bucket     Bucket
	key, value []byte
}

var errOperation = errors.New("an operation of the log is truncated")

// parseOperation parses the first operation and returns the rest.
func parseOperation(from []byte) (o operation, rest []byte, err error) {
	if len(from) < 2 || from[0] >= bucketCount || from[1] > 1 {
		return o, nil, errOperation
	}
	o.bucket = Bucket(from[0])
	put := from[1] == 1
	if o.key, rest, err = parseBytes(from[2:]); err != nil || !put {
		return o, rest, err
	}
	o.value, rest, err = parseBytes(rest)
	return o, rest, err
}

// parseBytes parses a length (uvarint) and as many bytes.
func parseBytes(from []byte) (b, rest []byte, err error) {
	length, n := binary.Uvarint(from)
	if n <= 0 || length > uint64(len(from)-n) {
		return nil, nil, errOperation
	}
	from = from[n:]
	return from[:length:length], from[length:], nil
}
