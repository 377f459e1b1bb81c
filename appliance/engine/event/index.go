package event

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"landfall/store"
)

// ID identifies and orders events: the revision of the store at which an event was written, and the
// number of events that the same change wrote before it.
type ID struct {
	Revision uint64
	Number   int
}

// String returns the beginning of the event's key. IDs sort as their strings do.
func (id ID) String() string { return fmt.Sprintf("%016x-%04x", id.Revision, id.Number) }

// Key returns the key of an event's row, "<id>/<subject>/<subject>": the ids of its cluster, its
// infra-env and its host, without those that it lacks. So an index of events needs their keys only.
func Key(id ID, subjects []Subject) string {
	var key strings.Builder
	key.WriteString(id.String())
	for _, s := range subjects {
		key.WriteByte('/')
		key.WriteString(s.ID)
	}
	return key.String()
}

// ParseKey returns the ids of an event and of its subjects.
func ParseKey(key string) (id ID, subjects []string, err error) {
	head, rest, _ := strings.Cut(key, "/")
	revision, number, _ := strings.Cut(head, "-")
	id.Revision, err = strconv.ParseUint(revision, 16, 64)
	if err == nil {
		var n uint64
		n, err = strconv.ParseUint(number, 16, 32)
		id.Number = int(n)
	}
	if err != nil {
		return id, nil, fmt.Errorf("the key %q is not the key of an event: %w", key, err)
	}
	return id, strings.Split(rest, "/"), nil
}

// Index finds the events of a cluster, an infra-env or a host. It is in memory and is updated when
// it is read. In the store, it would cost each change a page for each subject of each event. The
// zero Index is ready to use.
type Index struct {
	mu        sync.Mutex
	last      string // the newest key in the index
	bySubject map[string][]ID
}

// Reset empties the index, after events were removed. It is built again when it is read.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last, x.bySubject = "", nil
}

// Of returns the events of a subject, the oldest first. Some may have been removed since, or be
// newer than the transaction.
func (x *Index) Of(tx *store.Tx, subject string) ([]ID, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bySubject == nil {
		x.bySubject = make(map[string][]ID)
	}
	err := Rows.KeysAfter(tx, x.last, func(key string) error {
		id, subjects, err := ParseKey(key)
		if err != nil {
			return err
		}
		for _, s := range subjects {
			x.bySubject[s] = append(x.bySubject[s], id)
		}
		x.last = key
		return nil
	})
	list := x.bySubject[subject]
	return list[:len(list):len(list)], err
}
