package fleet

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/jonboulle/clockwork"
)

// Contents are the contents of files that a member has.
type Contents interface {
	// OpenContent opens a content by its SHA-256. Its error is fs.ErrNotExist if it is not here.
	OpenContent(sum string) (content io.ReadSeekCloser, size int64, err error)
	// MissingContents returns the contents to which files refer and that are not here.
	MissingContents(ctx context.Context) (sums []string, err error)
}

// ContentStore is a database whose files may lack their contents. *store.DB implements it.
type ContentStore interface {
	Contents
	// NewReferences has an item after references to contents were written that may be missing here.
	NewReferences() <-chan struct{}
	StoreContent(ctx context.Context, sum string, r io.Reader) error
}

// missingPause is the time between two attempts to copy contents that no member could give.
const missingPause = 2 * time.Second

// Copier copies the contents that a database lacks from other members.
type Copier struct {
	Client *Client
	Others func(context.Context) ([]Peer, error)
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// Run copies contents until the context ends.
func (c *Copier) Run(ctx context.Context, db ContentStore) {
	told := false
	for {
		missing, err := c.copy(ctx, db)
		if ctx.Err() != nil {
			return
		}
		if (err != nil || missing > 0) && !told {
			c.Logger.WarnContext(ctx, "Contents of files could not be copied from another member. It is tried again.",
				"missing", missing, "error", err)
		}
		told = err != nil || missing > 0
		again := (<-chan time.Time)(nil)
		if told {
			again = c.Clock.After(missingPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-db.NewReferences():
		case <-again:
		}
	}
}

// copy copies what is missing. It returns how many contents no other member has given.
func (c *Copier) copy(ctx context.Context, db ContentStore) (missing int, err error) {
	sums, err := db.MissingContents(ctx)
	if err != nil || len(sums) == 0 {
		return 0, err
	}
	others, err := c.Others(ctx)
	if err != nil {
		return len(sums), err
	}
	missing = len(sums)
	for _, sum := range sums {
		for _, other := range others {
			if err = c.one(ctx, db, other, sum); err == nil {
				missing--
				break
			}
		}
	}
	return missing, err
}

func (c *Copier) one(ctx context.Context, db ContentStore, from Peer, sum string) error {
	content, err := c.Client.Content(ctx, from, sum)
	if err != nil {
		return err
	}
	defer content.Close()
	return db.StoreContent(ctx, sum, content)
}
