// Package waltest has a shared log in memory for tests.
package waltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"landfall/store/wal"
)

// Fault is what happens to a record.
type Fault int

// The faults.
const (
	None     Fault = iota
	Refused        // the record is not in the log, and the caller knows
	NoRecord       // the record is not in the log, and the caller does not know
	NoAnswer       // the record is in the log, and the caller does not know
)

// Faults are all faults but None.
func Faults() []Fault { return []Fault{Refused, NoRecord, NoAnswer} }

// ErrTimeout is the error of a record whose outcome the caller does not know.
var ErrTimeout = errors.New("no answer from the shared log")

// Log is a shared log in memory. It is safe for concurrent use.
type Log struct {
	// Next returns what happens to the next record; nil: None.
	Next func() Fault
	// Wrote is called after each record, before the answer; nil: no call.
	Wrote func()

	mu      sync.Mutex
	records []wal.Record
}

// Append implements wal.SharedLog.
func (l *Log) Append(_ context.Context, number uint64, operations []byte) error {
	fault := None
	if l.Next != nil {
		fault = l.Next()
	}
	if l.Wrote != nil {
		defer l.Wrote()
	}
	return l.add(wal.Record{Number: number, Operations: bytes.Clone(operations)}, fault)
}

func (l *Log) add(record wal.Record, fault Fault) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if newest := uint64(len(l.records)); record.Number != newest+1 {
		return &wal.RefusedError{Err: fmt.Errorf("record %d does not follow record %d", record.Number, newest)}
	}
	switch fault {
	case Refused:
		return &wal.RefusedError{Err: errors.New("another member leads")}
	case NoRecord:
		return ErrTimeout
	}
	l.records = append(l.records, record)
	if fault == NoAnswer {
		return ErrTimeout
	}
	return nil
}

// Prefix returns a log with copies of the first records.
func (l *Log) Prefix(count int) *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Log{records: slices.Clone(l.records[:count])}
}

// Len returns the number of records.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.records)
}

// After returns copies of the records after a number.
func (l *Log) After(number uint64) []wal.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []wal.Record
	for _, r := range l.records[min(number, uint64(len(l.records))):] {
		found = append(found, wal.Record{Number: r.Number, Operations: bytes.Clone(r.Operations)})
	}
	return found
}
