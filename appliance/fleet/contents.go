package fleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// Contents are the contents of files that a member has.
type Contents interface {
	// OpenContent opens a content by its SHA-256. Its error is fs.ErrNotExist if it is not here.
	OpenContent(sum string) (content io.ReadSeekCloser, size int64, err error)
	// MissingContents returns the contents to which files refer and that are not here.
	MissingContents(ctx context.Context) (sums []string, err error)
	StoreContent(ctx context.Context, sum string, r io.Reader) error
}

// ContentStore is a database whose files may lack their contents. *store.DB implements it.
type ContentStore interface {
	Contents
	// NewReferences has an item after references to contents were written that may be missing here.
	NewReferences() <-chan struct{}
}

const (
	// missingPause is the time between two attempts to copy contents that no member could give.
	missingPause = 2 * time.Second
	// assignPause is the time after which a member looks again which contents it has to keep.
	assignPause = time.Minute
	// shareTime is how long an upload waits for another member, besides the time for the bytes at
	// shareRate bytes a second.
	shareTime = 2 * time.Second
	shareRate = 20 << 20
	// silence is how long a member is not asked to take files of a kind after it did not take one.
	silence = 30 * time.Second
)

// CopiesOptions configures [NewCopies].
type CopiesOptions struct {
	Client *Client
	Self   string // name of this member
	Others func(context.Context) ([]Peer, error)
	// All returns all other members, and the name of one that is away, or "".
	All func(context.Context) (others []Peer, away string, err error)
	// Leader returns the name of the member that leads, or "".
	Leader func() string
	// Number is how many members keep each content, with the leader; 0: all.
	Number int
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// Copies keeps the contents of files on several members. The leader has all. It implements
// store.Elsewhere.
type Copies struct {
	CopiesOptions
	mu     sync.Mutex
	silent map[string]time.Time // until when members are not asked, by the kind of file and the name

	permitting sync.Mutex // held while copies are read that must stay
}

// NewCopies returns the copies of a member.
func NewCopies(options CopiesOptions) *Copies {
	return &Copies{CopiesOptions: options, silent: map[string]time.Time{}}
}

// Share sends a new content to another member, which thus has it before a record refers to it. If
// no member takes it in time, the content is copied later: [Copies.Run].
func (c *Copies) Share(ctx context.Context, sum string, open func() (io.ReadSeekCloser, int64, error)) {
	c.share(ctx, "content", sum, func(ctx context.Context, to Peer) error {
		content, size, err := open()
		if err != nil {
			return err
		}
		defer content.Close()
		ctx, cancel := context.WithTimeout(ctx, sendTime(size))
		defer cancel()
		return c.Client.SendContent(ctx, to, sum, content, size)
	})
}

// ShareBlob does the same with a blob of pushed images, by its SHA-256, unless the other member has
// it.
func (c *Copies) ShareBlob(ctx context.Context, sum string, open func() (*os.File, error)) {
	c.share(ctx, "blob", sum, func(ctx context.Context, to Peer) error {
		asking, cancel := context.WithTimeout(ctx, shareTime)
		err := c.Client.HasBlob(asking, to, sum)
		cancel()
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		file, err := open()
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		sending, cancel := context.WithTimeout(ctx, sendTime(info.Size()))
		defer cancel()
		return c.Client.SendBlob(sending, to, sum, file, info.Size())
	})
}

// sendTime is how long another member may take to store a file.
func sendTime(size int64) time.Duration { return shareTime + time.Duration(size)*time.Second/shareRate }

// share calls send for one other member after the other, until one has taken a file. kind is that
// of the file: a content or a blob.
func (c *Copies) share(ctx context.Context, kind, sum string, send func(context.Context, Peer) error) {
	asking, cancel := context.WithTimeout(ctx, shareTime)
	others, err := c.Others(asking)
	cancel()
	if err != nil {
		c.Logger.WarnContext(ctx, "A file could not be sent to another member. It is copied later.", "kind", kind,
			"sha256", sum, "error", err)
		return
	}
	for _, to := range ranked(sum, others) {
		if c.isSilent(kind, to) {
			continue
		}
		if err = send(ctx, to); err == nil || ctx.Err() != nil {
			return
		}
		c.silence(kind, to)
		c.Logger.WarnContext(ctx, "A member did not take a file. It is copied later.", "member", to.Name,
			"kind", kind, "sha256", sum, "error", err)
	}
}

func (c *Copies) isSilent(kind string, member Peer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Clock.Now().Before(c.silent[kind+"/"+member.Name])
}

func (c *Copies) silence(kind string, member Peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent[kind+"/"+member.Name] = c.Clock.Now().Add(silence)
}

// Fetch returns a content of another member.
func (c *Copies) Fetch(ctx context.Context, sum string) (io.ReadCloser, error) {
	others, err := c.Others(ctx)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("no other member is there that has the content %s: %w", sum, fs.ErrNotExist)
	for _, from := range ranked(sum, others) {
		var content io.ReadCloser
		if content, err = c.Client.Content(ctx, from, sum); err == nil {
			return content, nil
		}
	}
	return nil, err
}

// Image returns a live ISO of another member, from an offset on.
func (c *Copies) Image(ctx context.Context, id string, offset int64) (io.ReadCloser, error) {
	return c.file(ctx, c.Client.Image, "live ISO", id, offset)
}

// Blob returns a blob of pushed images of another member, from an offset on.
func (c *Copies) Blob(ctx context.Context, sum string, offset int64) (io.ReadCloser, error) {
	return c.file(ctx, c.Client.Blob, "blob", sum, offset)
}

func (c *Copies) file(ctx context.Context, get func(context.Context, Peer, string, int64) (io.ReadCloser, error),
	what, id string, offset int64) (io.ReadCloser, error) {
	others, err := c.Others(ctx)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("no other member is there that has the %s: %w", what, fs.ErrNotExist)
	var absent error
	// The first one is another one each time: its file may be damaged.
	for _, i := range rand.Perm(len(others)) {
		from := others[i]
		content, one := get(ctx, from, id, offset)
		switch {
		case one == nil:
			return content, nil
		case !errors.Is(one, fs.ErrNotExist):
			absent = one // that member may have it
		}
	}
	return nil, cmp.Or(absent, err)
}

// Run copies the contents that this member has to keep, until the context ends.
func (c *Copies) Run(ctx context.Context, db ContentStore, leads bool) {
	told := false
	for {
		missing, err := c.copy(ctx, db, leads)
		if ctx.Err() != nil {
			return
		}
		failed := err != nil || missing > 0
		if failed && !told {
			c.Logger.WarnContext(ctx, "Contents of files could not be copied from another member. It is tried again.",
				"missing", missing, "error", err)
		}
		told = failed
		pause := assignPause
		if failed {
			pause = missingPause
		}
		select {
		case <-ctx.Done():
			return
		case <-db.NewReferences():
		case <-c.Clock.After(pause):
		}
	}
}

// copy copies what is missing. It returns how many contents no other member has given.
func (c *Copies) copy(ctx context.Context, db ContentStore, leads bool) (missing int, err error) {
	sums, err := db.MissingContents(ctx)
	if err != nil || len(sums) == 0 {
		return 0, err
	}
	others, err := c.Others(ctx)
	if err != nil {
		return len(sums), err
	}
	if !leads {
		sums = c.kept(sums, others)
	}
	missing = len(sums)
	for _, sum := range sums {
		for _, other := range ranked(sum, others) {
			if err = c.one(ctx, db, other, sum); err == nil {
				missing--
				break
			}
			if hangs, ok := errors.AsType[timeout](err); ok && hangs.Timeout() { // it would delay each content
				others = slices.DeleteFunc(slices.Clone(others), func(p Peer) bool { return p == other })
			}
		}
	}
	return missing, err
}

func (c *Copies) one(ctx context.Context, db ContentStore, from Peer, sum string) error {
	content, err := c.Client.Content(ctx, from, sum)
	if err != nil {
		return err
	}
	defer content.Close()
	return db.StoreContent(ctx, sum, content)
}

// Kept returns those of some contents that this member has to keep.
func (c *Copies) Kept(ctx context.Context, sums []string) ([]string, error) {
	if c.Number == 0 || len(sums) == 0 || c.Leader() == c.Self {
		return sums, nil
	}
	others, err := c.Others(ctx)
	if err != nil {
		return nil, err
	}
	return c.kept(sums, others), nil
}

func (c *Copies) kept(sums []string, others []Peer) []string {
	return slices.DeleteFunc(slices.Clone(sums), func(sum string) bool { return !c.keeps(sum, others) })
}

// keeps reports whether this follower has to keep a content. The leader has one of the copies.
func (c *Copies) keeps(sum string, others []Peer) bool {
	if c.Number == 0 {
		return true
	}
	leader := c.Leader()
	followers := slices.DeleteFunc(slices.Clone(others), func(p Peer) bool { return p.Name == leader })
	wanted := c.Number - (len(others) - len(followers))
	own := Peer{Name: c.Self}
	return slices.Contains(c.keepers(sum, append(followers, own), wanted), own)
}

// ranked returns members in the order in which they keep a content: that of the hash of both
// (rendezvous hashing). So another number of members moves few contents.
func ranked(sum string, members []Peer) []Peer {
	rank := func(p Peer) []byte {
		hash := sha256.Sum256([]byte(sum + "/" + p.Name))
		return hash[:]
	}
	return slices.SortedFunc(slices.Values(members), func(a, b Peer) int {
		return cmp.Or(bytes.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
}
