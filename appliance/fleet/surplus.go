package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall/appliance/fault"
	"landfall/store/blob"
)

// A follower has surplus contents after it led, after another member was away, and after the
// configured number of copies was lowered. It asks the leader before it removes one. The leader
// permits it only while all members of the fleet are connected, and after each member that has to
// keep the content, and the leader itself, have read their copies and compared the digests.
//
// So a content is never lost: the leader, which permits a removal, has a copy, and a leader removes
// none. Two members do not both remove the copies that are wanted: the members that have to keep
// one follow from the digest and the names. If members join or leave at the same time, a copy may
// be missing until its member copies it again.

const (
	// trimPause is the time between two searches for contents that a follower need not keep.
	trimPause = time.Hour
	// trimRate limits the contents that are removed, in bytes a second: members read each before.
	trimRate = pace
	// permitWait and permitRate, in bytes a second, limit the time for a permission.
	permitWait = 10 * time.Minute
	permitRate = 1 << 20
)

// Held are the contents that a follower has. *store.DB implements it.
type Held interface {
	// CollectBlobs removes contents to which no file refers.
	CollectBlobs(ctx context.Context) error
	// HeldContents returns the contents to which files refer and that are here.
	HeldContents(ctx context.Context) (sums []string, err error)
	// RemovableContent returns the size in bytes of a content that RemoveContent would remove now,
	// or 0 if it would stay.
	RemovableContent(sum string) (size int64, err error)
	// RemoveContent removes a content unless it stays for now.
	RemoveContent(ctx context.Context, sum string) (gone bool, err error)
}

// Trim removes contents that this follower need not keep, until the context ends.
func (c *Copies) Trim(ctx context.Context, db Held) {
	for told := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.Clock.After(trimPause):
		}
		err := c.trim(ctx, db)
		switch {
		case err == nil:
			told = ""
		case ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			c.Logger.WarnContext(ctx, "Contents of files that this member need not keep could not be removed. It is "+
				"tried again.", "error", err)
		}
	}
}

// trim removes the contents to which no file refers, and those of which enough other members have a
// copy. If some stay because of a problem of their own, the error is that of the first one.
func (c *Copies) trim(ctx context.Context, db Held) error {
	if err := db.CollectBlobs(ctx); err != nil || c.Number == 0 {
		return err
	}
	held, err := db.HeldContents(ctx)
	if err != nil {
		return err
	}
	others, leader, err := c.followed(ctx)
	if err != nil || leader.Name == "" {
		return err
	}
	removed := 0
	defer func() {
		if removed > 0 {
			c.Logger.InfoContext(ctx, "Contents of files were removed because enough other members have them.",
				"removed", removed)
		}
	}()
	var first error
	for _, sum := range held {
		if c.keeps(sum, others) {
			continue
		}
		size, err := db.RemovableContent(sum) // the members read their copies only if this one may go
		if err != nil {
			return err
		}
		if size == 0 {
			continue
		}
		gone, err := c.remove(ctx, db, leader, sum, size)
		if stays := new(staysError); errors.As(err, &stays) {
			first = cmp.Or(first, err)
		} else if err != nil {
			return err
		}
		if gone {
			removed++
		}
		select { // members may have read the content also if it stays
		case <-ctx.Done():
			return ctx.Err()
		case <-c.Clock.After(time.Duration(size) * time.Second / trimRate):
		}
	}
	return first
}

// remove removes a content if the leader permits it.
func (c *Copies) remove(ctx context.Context, db Held, leader Peer, sum string, size int64) (gone bool, err error) {
	surplus := func() (bool, error) {
		others, present, err := c.followed(ctx)
		return present == leader && !c.keeps(sum, others), err
	}
	if is, err := surplus(); err != nil || !is {
		return false, err
	}
	asking, cancel := context.WithTimeout(ctx, permitTime(size))
	defer cancel()
	if err := c.Client.MayRemove(asking, leader, sum); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // the copies of the other members are not enough yet
			return false, nil
		}
		return false, err
	}
	// The permission counts only while the same member leads, and while this member still need not
	// keep the content.
	if is, err := surplus(); err != nil || !is {
		return false, err
	}
	return db.RemoveContent(ctx, sum)
}

// permitTime is how long the leader may take to permit the removal of a content: a disk of a member
// may hang. Permissions for other followers come first.
func permitTime(size int64) time.Duration {
	return permitWait + time.Duration(size)*time.Second/permitRate
}

// followed returns all other members, and the one that leads. The leader is the zero value if none
// leads. It is also the zero value if a member is away, because no content is surplus then.
func (c *Copies) followed(ctx context.Context) (others []Peer, leader Peer, err error) {
	others, away, err := c.All(ctx)
	if err != nil || away != "" {
		return nil, Peer{}, err
	}
	name := c.Leader()
	if at := slices.IndexFunc(others, func(p Peer) bool { return p.Name == name }); at >= 0 {
		leader = others[at]
	}
	return others, leader, nil
}

// Permit returns nil if a follower may remove a content. own are the contents of this leader.
// Permit is slow: all copies that stay are read.
func (c *Copies) Permit(ctx context.Context, follower, sum string, own Contents) error {
	c.permitting.Lock()
	defer c.permitting.Unlock()
	others, away, err := c.All(ctx)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if away != "" {
		return fault.New(fault.Conflict, "the member %s is away; no copies are removed until it is back, or forgotten "+
			"with landfall fleet forget", away)
	}
	keepers := c.keepers(sum, others, c.Number-1)
	if slices.ContainsFunc(keepers, func(p Peer) bool { return p.Name == follower }) {
		return fault.New(fault.Conflict, "the member %s has to keep the content %s: look whether fleet.copies is the "+
			"same on each member", follower, sum)
	}
	group, reading := errgroup.WithContext(ctx)
	for _, keeper := range keepers {
		group.Go(func() error { return c.Client.Verified(reading, keeper, sum) })
	}
	group.Go(func() error { return verify(reading, own, sum) })
	if err := group.Wait(); err != nil {
		return &fault.Error{Kind: fault.Conflict, Err: err, Reason: fmt.Sprintf("too few members have an intact copy "+
			"of the content %s: %v", sum, err)}
	}
	return nil
}

// keepers returns the followers that have to keep a content. number is how many; below 0: all.
func (c *Copies) keepers(sum string, followers []Peer, number int) []Peer {
	if number < 0 {
		return followers
	}
	return ranked(sum, followers)[:min(number, len(followers))]
}

// verify reads a content of this member. Its error is fs.ErrNotExist if it is not here.
func verify(ctx context.Context, of Contents, sum string) error {
	content, _, err := of.OpenContent(sum)
	if err != nil {
		return err
	}
	defer content.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, blob.NewReader(ctx, content)); err != nil {
		return fmt.Errorf("read the content %s: %w", sum, err)
	}
	if hex.EncodeToString(hash.Sum(nil)) != sum {
		return fmt.Errorf("read the content %s: %w", sum, blob.ErrOther)
	}
	return nil
}

// outcome is the answer to a question about a content.
type outcome struct {
	// Yes: the content is intact, or may be removed.
	Yes bool `json:"yes"`
	// Absent: the reason is that a member does not have the content.
	Absent bool   `json:"absent"`
	Reason string `json:"reason,omitempty"`
}

// verified answers whether this member has an intact copy of a content.
func (p *Peers) verified(w http.ResponseWriter, r *http.Request, sum string) {
	p.conclude(w, r, sum, func() error { return verify(r.Context(), p.Contents, sum) })
}

// permit answers whether the follower that asks may remove a content.
func (p *Peers) permit(w http.ResponseWriter, r *http.Request, sum string) {
	if p.Permit == nil {
		refuseAsFollower(w, r, p.Refuse)
		return
	}
	p.conclude(w, r, sum, func() error { return p.Permit(r.Context(), sender(r), sum, p.Contents) })
}

// conclude answers with the outcome of a check of a content, which reads it. The answer begins
// before, because the check may take longer than a member waits for the begin of an answer.
func (p *Peers) conclude(w http.ResponseWriter, r *http.Request, sum string, check func() error) {
	if err := begin(w); err != nil {
		return // the member has gone
	}
	err := check()
	if err == nil {
		writeJSON(w, outcome{Yes: true})
		return
	}
	absent := errors.Is(err, fs.ErrNotExist)
	if !absent && r.Context().Err() == nil {
		p.Logger.WarnContext(r.Context(), "A content could not be verified for another member.", "member", sender(r),
			"sha256", sum, "error", err)
	}
	writeJSON(w, outcome{Absent: absent, Reason: fault.Reason(err)})
}

// Verified returns nil if a member has an intact copy of a content, and fs.ErrNotExist if it has
// none.
func (c *Client) Verified(ctx context.Context, of Peer, sum string) error {
	return c.outcome(ctx, of, verifiedPath, sum)
}

// MayRemove asks the leader whether this member may remove a content. It returns nil if so, and
// fs.ErrNotExist if a member lacks the content that has to keep it.
func (c *Client) MayRemove(ctx context.Context, leader Peer, sum string) error {
	return c.outcome(ctx, leader, surplusPath, sum)
}

// staysError is the reason for which a content stays. Others may be removed.
type staysError struct {
	of  Peer
	err error
}

// Error implements error.
func (e *staysError) Error() string {
	return fmt.Sprintf("the member %s answers: %v", e.of.Name, e.err)
}

// Unwrap returns the cause.
func (e *staysError) Unwrap() error { return e.err }

// outcome asks a member about a content. The error is a *staysError if it has begun to answer.
func (c *Client) outcome(ctx context.Context, of Peer, path, sum string) error {
	body, err := c.ask(ctx, asked{method: http.MethodGet, of: of, at: path + sum, pauses: true, named: true})
	if err != nil {
		return err
	}
	var found outcome
	err = json.NewDecoder(io.LimitReader(body, maxCondition)).Decode(&found)
	err = errors.Join(err, body.Close())
	switch {
	case err == nil && found.Yes:
		return nil
	case err == nil && found.Absent:
		err = fmt.Errorf("%s: %w", found.Reason, fs.ErrNotExist)
	case err == nil:
		err = errors.New(found.Reason)
	}
	return &staysError{of, err}
}
