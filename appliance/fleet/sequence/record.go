package sequence

import (
	"encoding/binary"
	"errors"
	"fmt"

	"landfall/store/wal"
)

// Position identifies a record of the log, and a database that contains all records up to it. A
// number alone is not enough: an etcd that was restored from an older snapshot gets other records
// under the same numbers. A digest that is 0 is not known.
type Position = wal.Position

// differ reports whether two positions with the same number are those of different records.
func differ(a, b Position) bool {
	return a.Number == b.Number && a.Digest != b.Digest && a.Digest != 0 && b.Digest != 0
}

// head is the value of the key head: the newest record of the log. It is written in the same
// transaction as that record.
type head struct {
	Position
	// size is the number of bytes of all records that were ever appended.
	size uint64
}

const headSize = 8 + 8 + 8

func (h head) encode() string {
	value := make([]byte, 0, headSize)
	value = binary.BigEndian.AppendUint64(value, h.Number)
	value = binary.BigEndian.AppendUint64(value, h.Digest)
	return string(binary.BigEndian.AppendUint64(value, h.size))
}

func decodeHead(value []byte) (head, error) {
	if len(value) != headSize {
		err := fmt.Errorf("it has %d bytes instead of %d", len(value), headSize)
		return head{}, &DamagedError{Key: "head", Err: err}
	}
	return head{Position: Position{Number: binary.BigEndian.Uint64(value), Digest: binary.BigEndian.Uint64(value[8:])},
		size: binary.BigEndian.Uint64(value[16:])}, nil
}

// entry is the value of a key of the log:
//
//	version of the encoding (1 byte), digest of the operations (8),
//	bytes that were appended before (8), number of parts (4), operations
//
// Numbers are big-endian. If the number of parts is not 0, the operations are the values of that
// many keys below "parts/", one after the other.
type entry struct {
	digest     uint64
	before     uint64
	parts      uint32
	operations []byte
}

const (
	entryVersion = 1
	entryHeader  = 1 + 8 + 8 + 4
)

func (e entry) encode() string {
	value := make([]byte, 0, entryHeader+len(e.operations))
	value = append(value, entryVersion)
	value = binary.BigEndian.AppendUint64(value, e.digest)
	value = binary.BigEndian.AppendUint64(value, e.before)
	value = binary.BigEndian.AppendUint32(value, e.parts)
	return string(append(value, e.operations...))
}

func decodeEntry(value []byte) (entry, error) {
	if len(value) < entryHeader {
		return entry{}, fmt.Errorf("it has %d bytes, fewer than its header", len(value))
	}
	if value[0] != entryVersion {
		return entry{}, fmt.Errorf("its encoding has version %d, which this program does not know", value[0])
	}
	e := entry{digest: binary.BigEndian.Uint64(value[1:]), before: binary.BigEndian.Uint64(value[9:]),
		parts: binary.BigEndian.Uint32(value[17:]), operations: value[entryHeader:]}
	if e.parts != 0 && len(e.operations) != 0 {
		return entry{}, errors.New("it has both parts and operations")
	}
	return e, nil
}
