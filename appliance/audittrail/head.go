package audittrail

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"landfall/store"
)

// headRow is the store's row about the trail.
type headRow struct {
	Head
	Sent uint64 `json:"sent,omitempty"` // the last record that the syslog server received
}

var heads = store.NewBucket[headRow]("audit-trail", 1)

// headKey returns the key of the row about the trail of a member of a fleet, or of a single
// machine.
func headKey(member string) string {
	if member == "" {
		return "head"
	}
	return "head/" + member
}

func readHead(db *store.DB, member string) (row headRow, err error) {
	err = db.View(func(tx *store.Tx) error {
		stored, err := heads.Get(tx, headKey(member))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			row = *stored
		}
		return err
	})
	return row, err
}

func writeHead(ctx context.Context, db *store.DB, member string, row headRow) error {
	return db.Update(ctx, func(tx *store.Tx) error { return heads.Put(tx, headKey(member), &row) })
}

// forgetSingle deletes the row about the trail of a single machine once a member has another trail.
// Otherwise the row would remain in the database of all members, and a machine that is a single one
// again, such as one with a restored backup, would take it for that of its own trail.
func forgetSingle(db *store.DB, member string) error {
	if member == "" {
		return nil
	}
	if row, err := readHead(db, ""); err == nil && row == (headRow{}) {
		return nil
	}
	return db.Update(context.Background(), func(tx *store.Tx) error { return heads.Delete(tx, headKey("")) })
}

// String returns the head as a text that a person can note down: SEQUENCE:HASH.
func (h Head) String() string { return fmt.Sprintf("%d:%s", h.Sequence, h.Hash) }

// ParseHead reads the text of a head.
func ParseHead(text string) (Head, error) {
	number, hash, _ := strings.Cut(text, ":")
	sequence, err := strconv.ParseUint(number, 10, 64)
	if _, hexErr := hex.DecodeString(hash); err != nil || hexErr != nil || sequence == 0 || len(hash) != len(noHash) {
		return Head{}, fmt.Errorf("%q is not the head of an audit trail; expected SEQUENCE:HASH, as landfall audit "+
			"verify prints it", text)
	}
	return Head{sequence, strings.ToLower(hash)}, nil
}
