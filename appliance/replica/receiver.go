package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"landfall/appliance/backup"
	"landfall/appliance/checksum"
)

// ErrNotReceiving reports that an appliance receives no replica.
var ErrNotReceiving = errors.New("this appliance receives no replica; set replica.receive and " +
	"replica.receive_token_file in its configuration")

// minToken is the least number of characters of the credential with which a replica is sent.
const minToken = 32

// readToken reads the credential in a file.
func readToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the credential of the replica: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minToken {
		return "", fmt.Errorf("the credential of the replica in %s has %d characters; it needs at least %d random ones",
			path, len(token), minToken)
	}
	return token, nil
}

// Receiver writes the replica of another appliance into a directory. It has the form of one that
// the other appliance writes itself, so what reads a replica in a directory reads this one.
type Receiver struct {
	Dir       string // "": nothing is received
	TokenFile string

	mu      sync.Mutex
	session *receiving // the newest one
}

// SessionKey names a session of another appliance.
type SessionKey struct {
	Replica, Owner string // IDs
	Generation     uint64
}

// receiving is a session whose appliance is at another place. After a restart of this process it
// does not know what the appliance was told before.
type receiving struct {
	*directorySession
	key SessionKey
	// known reports that the session knows all objects that the appliance may refer to.
	known atomic.Bool
}

// Prune implements Session. After a restart of this process, it leaves everything once: the
// appliance may refer to objects that it sent before.
func (s *receiving) Prune(ctx context.Context, retention Retention) (Usage, error) {
	if s.known.CompareAndSwap(false, true) {
		if err := s.allowed(ctx); err != nil {
			return Usage{}, err
		}
		return s.usage()
	}
	return s.directorySession.Prune(ctx, retention)
}

// Authorize returns an error unless a request has the credential.
func (r *Receiver) Authorize(token string) error {
	if r.Dir == "" || r.TokenFile == "" {
		return ErrNotReceiving
	}
	want, err := readToken(r.TokenFile)
	if err != nil {
		return err
	}
	a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(want))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return ErrCredential
	}
	return nil
}

// ErrCredential reports that the credential of an appliance is wrong.
var ErrCredential = errors.New("the credential is not that of replica.receive_token_file")

func (r *Receiver) directory() Directory { return Directory{Path: r.Dir} }

// Open begins a generation. It returns the owner that was written. Requests to open run one after
// the other, so that the session is that of the newest generation.
func (r *Receiver) Open(ctx context.Context, owner Owner) (*Owner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	opened, err := r.directory().Open(ctx, owner)
	if err != nil {
		return nil, err
	}
	s, ok := opened.(*directorySession)
	if !ok {
		return nil, fmt.Errorf("%T is not the session of a directory", opened)
	}
	r.session = &receiving{directorySession: s, key: SessionKey{s.owner.Replica, s.owner.ID, s.owner.Generation}}
	r.session.known.Store(true)
	return &s.owner, nil
}

// Session returns a session that was opened, possibly before a restart.
func (r *Receiver) Session(ctx context.Context, key SessionKey) (Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session == nil || r.session.key != key {
		s := newDirectorySession(r.directory(), Owner{ID: key.Owner, Replica: key.Replica, Generation: key.Generation})
		if _, err := s.Resume(ctx); err != nil {
			return nil, err
		}
		r.session = &receiving{directorySession: s, key: key}
	}
	return r.session, nil
}

// AddSnapshot implements Session.
func (s *receiving) AddSnapshot(ctx context.Context, snapshot Snapshot, manifest []byte, sums []string) error {
	if err := s.require(ctx, sums); err != nil {
		return err
	}
	return s.directorySession.AddSnapshot(ctx, snapshot, manifest, sums)
}

// Append implements Session.
func (s *receiving) Append(ctx context.Context, frame []byte) error {
	read, err := readFrame(bytes.NewReader(frame))
	if err != nil {
		return fmt.Errorf("the frame was damaged on its way: %w", err)
	}
	if err := s.require(ctx, read.Objects); err != nil {
		return err
	}
	return s.directorySession.Append(ctx, frame)
}

// require returns ErrNotContinued if an object is missing: after a restart of this process, nothing
// protected it from a removal.
func (s *receiving) require(ctx context.Context, sums []string) error {
	for _, sum := range sums {
		if !checksum.ValidSum(sum) {
			return fmt.Errorf("%q is no name of a content", sum)
		}
		if has, err := s.Has(ctx, sum); err != nil {
			return err
		} else if !has {
			return ErrNotContinued
		}
	}
	return nil
}

// Signs are the owner of a replica and its newest sign of life; nil if there is none.
type Signs struct {
	Dir       string     `json:"directory"` // for people
	Owner     *Owner     `json:"owner"`
	Heartbeat *Heartbeat `json:"heartbeat"`
}

// Signs returns the signs of life in the directory.
func (r *Receiver) Signs(ctx context.Context) (*Signs, error) { return r.directory().Signs(ctx) }

// Claim makes another appliance the owner; see Directory.Claim.
func (r *Receiver) Claim(ctx context.Context, owner Owner) error {
	return r.directory().Claim(ctx, owner)
}

// Signs returns the signs of life in a directory.
func (d Directory) Signs(ctx context.Context) (*Signs, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	owner, err := ReadOwner(d.Path)
	if err != nil {
		return nil, err
	}
	beat, err := ReadHeartbeat(d.Path)
	return &Signs{Dir: d.Path, Owner: owner, Heartbeat: beat}, err
}

// Refusal is the answer of a receiver that can't do what was asked.
type Refusal struct {
	Code   string `json:"code"` // of the codes below
	Reason string `json:"reason"`
	Dir    string `json:"directory,omitempty"`
	Owner  *Owner `json:"owner,omitempty"` // of a fenced session
}

// Codes of Refusal.
const (
	codeFenced       = "fenced"
	codeNotContinued = "not-continued"
	codeAway         = "away"
	codeFull         = "full"
	codeOther        = "failed"
)

// Refuse returns the answer to an error.
func Refuse(err error) *Refusal {
	r := &Refusal{Code: codeOther, Reason: err.Error()}
	if fenced, ok := errors.AsType[*FencedError](err); ok {
		r.Code, r.Dir, r.Owner = codeFenced, fenced.Place, &fenced.Owner
	} else if errors.Is(err, ErrNotContinued) {
		r.Code = codeNotContinued
	} else if _, ok := errors.AsType[*AwayError](err); ok {
		r.Code = codeAway
	} else if full, ok := errors.AsType[*backup.MediumError](backup.ExplainMedium("replica", "its directory",
		err)); ok {
		r.Code, r.Reason = codeFull, full.Error()
	}
	return r
}

// Status returns the status of the answer.
func (r *Refusal) Status() int {
	return map[string]int{codeFenced: http.StatusConflict, codeNotContinued: http.StatusGone,
		codeAway: http.StatusServiceUnavailable, codeFull: http.StatusInsufficientStorage,
		codeOther: http.StatusInternalServerError}[r.Code]
}

// error returns the error of a refusal by the appliance at a place.
func (r *Refusal) error(place string) error {
	switch r.Code {
	case codeFenced:
		if r.Owner != nil {
			return &FencedError{Place: place, Owner: *r.Owner}
		}
	case codeNotContinued:
		return ErrNotContinued
	}
	return fmt.Errorf("the appliance at %s could not write the replica: %s", place, r.Reason)
}
