package engine

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"landfall/store"
)

// eventID tells an event from all others and orders them: the revision of the store at which it was
// written, and how many events of the same change were before it.
type eventID struct {
	revision uint64
	number   int
}

// String is what the event's key begins with; ids sort as their strings do.
func (id eventID) String() string { return fmt.Sprintf("%016x-%04x", id.revision, id.number) }

// eventKey is the key of an event's row, "<id>/<subject>/<subject>": the ids of its cluster, its
// infra-env and its host, of those that it has. So an index of events is made of their keys alone.
func eventKey(id eventID, subjects []subject) string {
	var key strings.Builder
	key.WriteString(id.String())
	for _, s := range subjects {
		key.WriteByte('/')
		key.WriteString(s.id)
	}
	return key.String()
}

func parseEventKey(key string) (id eventID, subjects []string, err error) {
	head, rest, _ := strings.Cut(key, "/")
	revision, number, _ := strings.Cut(head, "-")
	id.revision, err = strconv.ParseUint(revision, 16, 64)
	if err == nil {
		var n uint64
		n, err = strconv.ParseUint(number, 16, 32)
		id.number = int(n)
	}
	if err != nil {
		return id, nil, fmt.Errorf("the key %q is no event's: %w", key, err)
	}
	return id, strings.Split(rest, "/"), nil
}

// eventIndex finds the events of a cluster, an infra-env or a host. It lies in memory and is
// brought up to date when it is asked, because in the store it would cost each change a page for
// each subject of each event.
type eventIndex struct {
	mu        sync.Mutex
	last      string // the newest key that it holds
	bySubject map[string][]eventID
}

// reset has the index be made anew, after events were removed.
func (x *eventIndex) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last, x.bySubject = "", nil
}

// of lists the events about a subject, the oldest first. Some may be gone since, or be newer than
// the transaction.
func (x *eventIndex) of(tx *store.Tx, subject string) ([]eventID, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bySubject == nil {
		x.bySubject = make(map[string][]eventID)
	}
	err := eventRows.KeysAfter(tx, x.last, func(key string) error {
		id, subjects, err := parseEventKey(key)
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
