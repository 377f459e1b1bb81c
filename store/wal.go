package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// The write-ahead log: what an update wrote stands here, safe on the disk, before bbolt's file has it. An update then waits for one sync of
// adjacent blocks instead of two of pages all over bbolt's file, which are synced together with many others' at the next checkpoint (see
// checkpoint.go).
//
// The file is a row of blocks of 4096 bytes; all numbers are big-endian:
//
//	block 0, 1   headers of the even and the odd generations: magic, generation (8 bytes), base (see base), CRC (4 bytes)
//	block 2...   records: CRC (4 bytes), length of what follows the sequence (4), generation (8), sequence (8), operations
//
// A checkpoint begins a generation: its header names the state of bbolt's file to which the records are added, and records of older generations
// behind the new ones no longer count. A record begins with a block, so that no write touches a block in which something acknowledged stands.
// The CRCs are CRC-32C, of all that follows them in a record and stands before them in a header.
//
// An operation is the bucket (1 byte), whether the row is put (1) or removed (0), the length of the key as uvarint, the key, and for a row that is
// put the length of the value as uvarint and the value.

const (
	walName  = "landfall.wal"
	walBlock = 4096
	walFirst = 2 * walBlock // where the records begin
	// walKept is the size of the largest buffer that is kept for the next record, in bytes.
	walKept = 1 << 20

	recordHead = 24 // bytes before a record's operations
)

var (
	walMagic = []byte("LFWAL\x00\x00\x01")
	crcTable = crc32.MakeTable(crc32.Castagnoli)
)

// base is a state of bbolt's file: one that is on the disk, and stays there for as long as the log goes on from it.
type base struct {
	meta     [boltMeta]byte    // bbolt's meta page as far as it is used
	root     [sha256.Size]byte // of the page that is the root of all buckets, by which the file is known to have this state
	pageSize uint32            // of bbolt's file, bytes
}

// Where bbolt's meta page says what (go.etcd.io/bbolt, internal/common: Page, Meta); numbers are in the machine's own order.
const (
	boltMeta     = 80 // bytes in use: 16 of the page's header, 64 of the meta itself
	boltMetaRoot = 32
	boltMetaTxid = 64
)

func (b *base) txid() uint64 { return binary.NativeEndian.Uint64(b.meta[boltMetaTxid:]) }

// readBase reads the state that bbolt's transaction txid left in its file.
func readBase(file *os.File, pageSize int, txid int) (*base, error) {
	b := &base{pageSize: uint32(pageSize)}
	if _, err := file.ReadAt(b.meta[:], int64(txid%2)*int64(pageSize)); err != nil {
		return nil, fmt.Errorf("read the meta page: %w", err)
	}
	if b.txid() != uint64(txid) {
		return nil, fmt.Errorf("the meta page is that of transaction %d instead of %d", b.txid(), txid)
	}
	var err error
	b.root, err = b.readRoot(file)
	return b, err
}

func (b *base) readRoot(file *os.File) ([sha256.Size]byte, error) {
	page := make([]byte, b.pageSize)
	if _, err := file.ReadAt(page, int64(binary.NativeEndian.Uint64(b.meta[boltMetaRoot:]))*int64(b.pageSize)); err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("read the root page: %w", err)
	}
	return sha256.Sum256(page), nil
}

// isIn reports whether the file has the state.
func (b *base) isIn(file *os.File) bool {
	root, err := b.readRoot(file)
	return err == nil && root == b.root
}

// restore makes the file be in the state again: of what was written to it later nobody knows how much has reached the disk. It may be
// interrupted and begun again.
func (b *base) restore(file *os.File) error {
	meta := b.meta
	for _, slot := range []uint64{1 - b.txid()%2, b.txid() % 2} {
		binary.NativeEndian.PutUint64(meta[:], slot) // the page's number
		if _, err := file.WriteAt(meta[:], int64(slot)*int64(b.pageSize)); err != nil {
			return err
		}
	}
	return nil
}

// wal is the log, opened; it belongs to who holds the turn.
type wal struct {
	file       *os.File
	disk       disk
	generation uint64 // 0: none has begun
	sequence   uint64 // of the next record
	end        int64  // where the next record begins
	allocated  int64  // the size of the file
	last       int64  // size of the newest record
	doubtful   bool   // the newest record stands in the file, or may, and its update may still fail
	buffer     []byte
}

// openWAL opens the log and makes it if it is missing. What it holds shows head and records; begin or goOn then says what is written.
func openWAL(path string, disk disk) (*wal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &wal{file: file, disk: disk, allocated: info.Size()}, nil
}

// head reads the newest header; nil if the log has none.
func (w *wal) head() (generation uint64, from *base, err error) {
	front := make([]byte, min(walFirst, w.allocated))
	if _, err := w.file.ReadAt(front, 0); err != nil {
		return 0, nil, err
	}
	for ; len(front) >= walBlock; front = front[walBlock:] {
		g, b, ok := parseHeader(front[:walBlock])
		if ok && g > generation {
			generation, from = g, b
		}
	}
	return generation, from, nil
}

func appendHeader(to []byte, generation uint64, from *base) []byte {
	start := len(to)
	to = append(to, walMagic...)
	to = binary.BigEndian.AppendUint64(to, generation)
	to = binary.BigEndian.AppendUint32(to, from.pageSize)
	to = append(append(to, from.meta[:]...), from.root[:]...)
	return binary.BigEndian.AppendUint32(to, crc32.Checksum(to[start:], crcTable))
}

func parseHeader(block []byte) (generation uint64, from *base, ok bool) {
	const size = 8 + 8 + 4 + boltMeta + sha256.Size
	if !bytes.HasPrefix(block, walMagic) || crc32.Checksum(block[:size], crcTable) != binary.BigEndian.Uint32(block[size:]) {
		return 0, nil, false
	}
	from = &base{pageSize: binary.BigEndian.Uint32(block[16:])}
	copy(from.meta[:], block[20:])
	copy(from.root[:], block[20+boltMeta:])
	return binary.BigEndian.Uint64(block[8:]), from, true
}

// records reads the records of a generation, the oldest first, and has the log go on behind them. An interrupted write leaves none; anything else
// that is missing before another record is an error.
func (w *wal) records(generation uint64) (operations [][]byte, err error) {
	w.generation, w.sequence, w.end = generation, 0, walFirst
	for {
		record, err := w.record(w.end)
		if err != nil {
			return nil, err
		}
		if record == nil || binary.BigEndian.Uint64(record[16:]) != w.sequence {
			break
		}
		operations = append(operations, record[recordHead:])
		w.sequence++
		w.end += blocks(len(record))
	}
	for at := w.end; at < w.allocated; at += walBlock {
		record, err := w.record(at)
		if err != nil {
			return nil, err
		}
		if record != nil {
			return nil, fmt.Errorf("record %d is damaged, and more follow it", w.sequence)
		}
	}
	return operations, nil
}

// record reads the record of the generation at hand that begins there; nil if none does.
func (w *wal) record(at int64) ([]byte, error) {
	head := make([]byte, recordHead)
	if at+walBlock > w.allocated {
		return nil, nil
	}
	if _, err := w.file.ReadAt(head, at); err != nil {
		return nil, err
	}
	size := recordHead + int64(binary.BigEndian.Uint32(head[4:]))
	if binary.BigEndian.Uint64(head[8:]) != w.generation || at+size > w.allocated {
		return nil, nil
	}
	record := make([]byte, size)
	if _, err := w.file.ReadAt(record, at); err != nil {
		return nil, err
	}
	if crc32.Checksum(record[4:], crcTable) != binary.BigEndian.Uint32(record) {
		return nil, nil
	}
	return record, nil
}

// begin starts the next generation, which goes on from a state that is on the disk. If it fails, the log must not be written any more: whether the
// header is on the disk, and with it the end of the generation before, isn't known.
func (w *wal) begin(generation uint64, from *base) error {
	block := make([]byte, walBlock)
	copy(block, appendHeader(nil, generation, from))
	if _, err := w.file.WriteAt(block, int64(generation%2)*walBlock); err != nil {
		return err
	}
	if err := w.disk.sync(w.file); err != nil {
		return err
	}
	w.generation, w.sequence, w.end, w.doubtful = generation, 0, walFirst, false
	w.allocated = max(w.allocated, walFirst)
	return nil
}

// append adds a record of the operations that write appends to what it is given, and returns when it is on the disk. Then, or after an error,
// accept or takeBack has to follow.
func (w *wal) append(write func([]byte) []byte) error {
	record := write(append(w.buffer[:0], make([]byte, recordHead)...))
	size := len(record)
	binary.BigEndian.PutUint32(record[4:], uint32(size-recordHead))
	binary.BigEndian.PutUint64(record[8:], w.generation)
	binary.BigEndian.PutUint64(record[16:], w.sequence)
	binary.BigEndian.PutUint32(record, crc32.Checksum(record[4:], crcTable))
	record = append(record, make([]byte, blocks(size)-int64(size))...)
	if w.buffer = record; cap(record) > walKept {
		w.buffer = nil
	}
	if _, err := w.file.WriteAt(record, w.end); err != nil {
		return err
	}
	w.doubtful, w.last = true, int64(len(record))
	w.end += w.last
	w.sequence++
	w.allocate()
	return w.disk.sync(w.file)
}

// allocate writes zeros ahead of the records, so that their syncs find blocks allocated and need not write the file system's journal as well. If
// that fails, they take longer, or say what is wrong.
func (w *wal) allocate() {
	if w.end <= w.allocated {
		return
	}
	w.allocated = w.end
	if n, err := w.file.WriteAt(make([]byte, w.disk.ahead), w.end); err == nil {
		w.allocated += int64(n)
	}
}

// accept makes the newest record stay: its update is committed.
func (w *wal) accept() { w.doubtful = false }

// takeBack takes the newest record out of the log, because its update failed. An error says that it may still be there at the next start; the next
// record takes its place.
func (w *wal) takeBack() error {
	if !w.doubtful {
		return nil // none was written, or not in full
	}
	w.doubtful = false
	w.end -= w.last
	w.sequence--
	if _, err := w.file.WriteAt(make([]byte, walBlock), w.end); err != nil {
		return err
	}
	return w.disk.sync(w.file)
}

// blocks is the size of so many bytes in whole blocks.
func blocks(size int) int64 { return (int64(size) + walBlock - 1) / walBlock * walBlock }

// appendPut and appendRemove add an operation to a record.
func appendPut(to []byte, id bucketID, key, value []byte) []byte {
	to = append(binary.AppendUvarint(append(to, byte(id), 1), uint64(len(key))), key...)
	return append(binary.AppendUvarint(to, uint64(len(value))), value...)
}

func appendRemove(to []byte, id bucketID, key []byte) []byte {
	return append(binary.AppendUvarint(append(to, byte(id), 0), uint64(len(key))), key...)
}

// operation is a row that a record puts or removes.
type operation struct {
	bucket     bucketID
	put        bool
	key, value []byte
}

var errOperation = errors.New("an operation of the log is cut off")

// parseOperation reads the first operation and returns what follows it.
func parseOperation(from []byte) (o operation, rest []byte, err error) {
	if len(from) < 2 || from[0] > byte(metaBucket) || from[1] > 1 {
		return o, nil, errOperation
	}
	o.bucket, o.put = bucketID(from[0]), from[1] == 1
	if o.key, rest, err = parseBytes(from[2:]); err != nil || !o.put {
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
