package wal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	bolt "go.etcd.io/bbolt"
)

// The bbolt file contains digests of its rows, so that a row that is missing, or is stored under
// another key, is noticed. A digest is the number of the rows and the sum of their hashes, so a
// checkpoint updates it with the hashes of the former and the new rows only. Each group of rows has
// a digest of its own. The rows of Meta have one hash.
//
// The format of the row "digest" of Meta: the hash of the other rows of Meta (8 bytes), then for
// each group its bucket (1 byte), its name (length as uvarint, then bytes), the number of rows
// (uvarint) and the sum (8 bytes).

var digestKey = []byte("digest")

// IsDigest reports whether a row of Meta contains the digests.
func IsDigest(key []byte) bool { return bytes.Equal(key, digestKey) }

// IsOfFile reports whether a row of Meta describes its own bbolt file, and not the data in it.
func IsOfFile(key []byte) bool { return IsDigest(key) || bytes.Equal(key, epochKey) }

// Group is a set of rows with a common beginning of their keys.
type Group struct {
	Bucket Bucket
	Name   string
}

// Digest is the digest of the rows of a group.
type Digest struct {
	Rows, Sum uint64
}

// Digests are the digests of all groups that have rows.
type Digests map[Group]Digest

// groupOf returns the group of a row: the first part of its key.
func groupOf(bucket Bucket, key []byte) Group {
	if bucket == Log {
		return Group{Bucket: Log}
	}
	name := key
	if len(key) > 0 {
		if end := bytes.IndexByte(key[1:], '/'); end >= 0 {
			name = key[:end+2]
		}
	}
	if bytes.HasPrefix(key, deadlinesPrefix) {
		if end := bytes.IndexByte(key[len(deadlinesPrefix):], '/'); end >= 0 {
			name = key[:len(deadlinesPrefix)+end+1]
		}
	}
	return Group{bucket, string(name)}
}

var deadlinesPrefix = []byte("deadlines/")

func rowHash(key, value []byte) uint64 {
	var hash xxhash.Digest
	var size [8]byte
	hash.Reset()
	binary.BigEndian.PutUint64(size[:], uint64(len(key)))
	for _, part := range [][]byte{size[:], key, value} {
		_, _ = hash.Write(part) // never fails
	}
	return hash.Sum64()
}

// Add adds a row. A nil value means that there is no row.
func (d Digests) Add(bucket Bucket, key, value []byte) { d.change(bucket, key, value, 1) }

func (d Digests) remove(bucket Bucket, key, value []byte) { d.change(bucket, key, value, ^uint64(0)) }

func (d Digests) change(bucket Bucket, key, value []byte, sign uint64) {
	if value == nil || bucket == Meta {
		return
	}
	group := groupOf(bucket, key)
	digest := d[group]
	digest.Rows += sign
	digest.Sum += sign * rowHash(key, value)
	if d[group] = digest; digest == (Digest{}) {
		delete(d, group)
	}
}

// adder adds rows in the order of their keys. It looks a group up once for all its rows.
type adder struct {
	digests Digests
	group   Group
	digest  Digest
}

func (a *adder) row(bucket Bucket, key []byte, hash uint64) {
	same := bucket == a.group.Bucket && (bucket == Log || len(a.group.Name) > len(deadlinesPrefix) &&
		len(key) >= len(a.group.Name) && string(key[:len(a.group.Name)]) == a.group.Name)
	if !same || a.digest.Rows == 0 {
		a.flush()
		a.group = groupOf(bucket, key)
	}
	a.digest.Rows++
	a.digest.Sum += hash
}

func (a *adder) flush() {
	if a.digest.Rows == 0 {
		return
	}
	before := a.digests[a.group]
	a.digests[a.group] = Digest{before.Rows + a.digest.Rows, before.Sum + a.digest.Sum}
	a.digest = Digest{}
}

// metaHash returns the hash of the rows of Meta without the digests.
func metaHash(each func(row func(key, value []byte) error) error) (uint64, error) {
	sum := uint64(0)
	err := each(func(key, value []byte) error {
		if !bytes.Equal(key, digestKey) {
			sum += rowHash(key, value)
		}
		return nil
	})
	return sum, err
}

func (d Digests) encode(meta uint64) []byte {
	text := binary.BigEndian.AppendUint64(nil, meta)
	for _, group := range slices.SortedFunc(maps.Keys(d), compareGroups) {
		text = binary.AppendUvarint(append(text, byte(group.Bucket)), uint64(len(group.Name)))
		text = binary.AppendUvarint(append(text, group.Name...), d[group].Rows)
		text = binary.BigEndian.AppendUint64(text, d[group].Sum)
	}
	return text
}

var errDigests = errors.New("the digests can't be read")

func decodeDigests(text []byte) (d Digests, meta uint64, err error) {
	if len(text) < 8 {
		return nil, 0, errDigests
	}
	meta, text = binary.BigEndian.Uint64(text), text[8:]
	for d = make(Digests); len(text) > 0; {
		if text[0] >= bucketCount {
			return nil, 0, errDigests
		}
		bucket := Bucket(text[0])
		name, rest, err := parseBytes(text[1:])
		if err != nil {
			return nil, 0, errDigests
		}
		rows, n := binary.Uvarint(rest)
		if n <= 0 || len(rest) < n+8 {
			return nil, 0, errDigests
		}
		d[Group{bucket, string(name)}] = Digest{rows, binary.BigEndian.Uint64(rest[n:])}
		text = rest[n+8:]
	}
	return d, meta, nil
}

func compareGroups(a, b Group) int {
	return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Name, b.Name))
}

// putDigests writes the digests to the bbolt file.
func putDigests(b *bolt.Tx, d Digests) error {
	meta := b.Bucket(BucketNames[Meta])
	hash, err := metaHash(meta.ForEach)
	if err != nil {
		return err
	}
	return meta.Put(digestKey, d.encode(hash))
}

// loadDigests reads the digests of the bbolt file. It computes them if there are none.
func loadDigests(b *bolt.Tx) (Digests, error) {
	d, _, err := decodeDigests(b.Bucket(BucketNames[Meta]).Get(digestKey))
	if err != nil {
		return countDigests(b)
	}
	return d, nil
}

// countDigests computes the digests of all rows of the bbolt file.
func countDigests(b *bolt.Tx) (Digests, error) {
	d := make(Digests)
	for id, name := range BucketNames {
		if err := b.Bucket(name).ForEach(func(key, value []byte) error {
			d.Add(Bucket(id), key, value)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return d, nil
}
