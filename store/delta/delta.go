// Package delta encodes a value as its difference from a similar value, such as the previous
// version of a row.
//
// A delta has the length of the target (uvarint), followed by pieces. A piece starts with a
// uvarint: twice the length of the piece, plus one if the piece is copied from the base. A copied
// piece continues with its offset in the base, a varint relative to the end of the previous copy.
// Any other piece continues with its bytes.
package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

const (
	// window is the length of the sequences that are searched in the base, in bytes.
	window = 8
	// tableBits is the binary logarithm of the number of indexed offsets of the base.
	tableBits = 12
	// shortest is the minimum length of a copied piece in bytes. Pieces at the start and the end
	// may be shorter.
	shortest = 12
)

// Encoder encodes deltas. It holds working memory only. It is not safe for concurrent use.
type Encoder struct {
	table [1 << tableBits]int32 // hash of a window -> offset in the base plus one
	used  bool
	at    int // end of the last copy in the base
}

// Append appends the delta from base to target to dst. Apply reverses it.
func (e *Encoder) Append(dst, base, target []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(target)))
	e.at = 0
	head := prefix(base, target)
	tail := suffix(base[head:], target[head:])
	dst = e.copy(dst, 0, head)
	dst = e.between(dst, base, target, head, tail)
	return e.copy(dst, len(base)-tail, tail)
}

func (e *Encoder) copy(dst []byte, from, length int) []byte {
	if length == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(length)<<1|1)
	dst = binary.AppendVarint(dst, int64(from-e.at))
	e.at = from + length
	return dst
}

func insert(dst, text []byte) []byte {
	if len(text) == 0 {
		return dst
	}
	return append(binary.AppendUvarint(dst, uint64(len(text))<<1), text...)
}

// between appends the pieces for the part of the target between the common prefix and the common
// suffix.
func (e *Encoder) between(dst, base, target []byte, head, tail int) []byte {
	base, middle := base[:len(base)-tail], target[head:len(target)-tail]
	if len(middle) < 2*window || len(base)-head < window {
		return insert(dst, middle)
	}
	e.index(base, head)
	done := 0
	for i := 0; i+window <= len(middle); {
		from := int(e.table[hash(middle[i:])]) - 1
		if from < 0 {
			i++
			continue
		}
		length := prefix(base[from:], middle[i:])
		back := min(suffix(base[head:from], middle[done:i]), i-done)
		if length+back < shortest {
			i++
			continue
		}
		dst = insert(dst, middle[done:i-back])
		dst = e.copy(dst, from-back, length+back)
		i += length
		done = i
	}
	return insert(dst, middle[done:])
}

// index adds windows of the base to the table, at equal distances, as many as the table can hold.
func (e *Encoder) index(base []byte, from int) {
	if e.used {
		clear(e.table[:])
	}
	e.used = true
	step := max(window/2, (len(base)-from)>>(tableBits-1))
	for i := from; i+window <= len(base); i += step {
		e.table[hash(base[i:])] = int32(i) + 1
	}
}

func hash(b []byte) uint32 {
	return uint32(binary.LittleEndian.Uint64(b) * 0x9e3779b97f4a7c15 >> (64 - tableBits))
}

// prefix returns the length of the common prefix of a and b in bytes.
func prefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// suffix returns the length of the common suffix of a and b in bytes.
func suffix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[len(a)-i-8:]) ^ binary.LittleEndian.Uint64(b[len(b)-i-8:]); x != 0 {
			return i + bits.LeadingZeros64(x)/8
		}
	}
	for i < n && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	return i
}

// ErrDamaged reports that a delta is damaged or was made for another base.
var ErrDamaged = errors.New("the delta does not match the base")

// Apply returns the target of a delta. It returns ErrDamaged for a target of more than limit bytes.
func Apply(base, delta []byte, limit int) ([]byte, error) {
	length, n := binary.Uvarint(delta)
	if n <= 0 || length > uint64(limit) {
		return nil, fmt.Errorf("%w: the target's length is missing or greater than %d bytes", ErrDamaged, limit)
	}
	delta = delta[n:]
	target := make([]byte, 0, min(length, uint64(len(base)+len(delta))))
	at := int64(0)
	for len(delta) > 0 {
		piece, n := binary.Uvarint(delta)
		size := piece >> 1
		if n <= 0 || size > length-uint64(len(target)) {
			return nil, fmt.Errorf("%w: a piece is longer than the target", ErrDamaged)
		}
		delta = delta[n:]
		if piece&1 == 0 {
			if size > uint64(len(delta)) {
				return nil, fmt.Errorf("%w: the delta ends within a piece", ErrDamaged)
			}
			target = append(target, delta[:size]...)
			delta = delta[size:]
			continue
		}
		skip, n := binary.Varint(delta)
		from := at + skip
		if n <= 0 || from < 0 || from > int64(len(base)) || size > uint64(int64(len(base))-from) {
			return nil, fmt.Errorf("%w: a copied piece lies outside the base", ErrDamaged)
		}
		delta = delta[n:]
		at = from + int64(size)
		target = append(target, base[from:at]...)
	}
	if uint64(len(target)) != length {
		return nil, fmt.Errorf("%w: the delta ends before the target is complete", ErrDamaged)
	}
	return target, nil
}
