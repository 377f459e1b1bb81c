package event

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"landfall/store"
)

// ID identifies and orders events. It consists of the revision of the store at which the event was
// written, and the number of earlier events of the same change.
type ID struct {
	Revision uint64
	Number   int
}

// String returns the prefix of the event's key. The strings sort like the IDs.
func (id ID) String() string { return fmt.Sprintf("%016x-%04x", id.Revision, id.Number) }

// Key returns the key of an event's row, "<id>/<subject>/<subject>". The subjects are the ids of
// its cluster, infra-env and host. Therefore an index of events needs only their keys.
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
		return id, nil, fmt.Errorf("parse the event key %q: %w", key, err)
	}
	return id, strings.Split(rest, "/"), nil
}

// Index finds the events of a cluster, an infra-env or a host. It is held in memory and updated
// when it is read. In the store, each change would have to write a page for each subject of each
// event. The zero Index is ready to use.
type Index struct {
	mu        sync.Mutex
	last      string // the newest key in the index
	bySubject map[string][]ID
}

// Reset clears the index after events were removed. The next read builds it again.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last, x.bySubject = "", nil
}

// Of returns the events of a subject, the oldest first. The result may include events that have
// been removed or that are newer than the transaction.
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
