// Package filecopy copies files from other members of a fleet: live ISOs, and the blobs of images
// that were pushed to the registry. An interrupted copy goes on where it stopped, and a copy counts
// only after its digest was compared.
package filecopy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/store"
	"landfall/store/blob"
)

// Source opens a file of another member, from an offset on. Its error is fs.ErrNotExist if no
// connected member has the file.
type Source func(ctx context.Context, id string, offset int64) (io.ReadCloser, error)

// File is a file that other members have.
type File struct {
	ID     string // for a Source
	Name   string // for people
	Size   int64  // bytes
	SHA256 string // hex
}

// DigestError reports a copy with another digest. It was removed.
type DigestError struct {
	Name, Got, Want string
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("the copy of %s has sha256 %s instead of %s; it is copied again", e.Name, e.Got, e.Want)
}

// bufferSize is the size in bytes of one step of a copy.
const bufferSize = 256 << 10

// Copy copies a file to a path, synced. It continues an interrupted copy at this path. It calls
// progress with the number of bytes that were copied.
func (s Source) Copy(ctx context.Context, f File, path string, progress func(int64)) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	hash := sha256.New()
	offset, err := io.Copy(hash, blob.NewReader(ctx, file))
	if err == nil && offset < f.Size {
		err = s.receive(ctx, f, offset, &counter{to: io.MultiWriter(file, hash), done: offset, progress: progress})
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != f.SHA256 {
		return errors.Join(&DigestError{Name: f.Name, Got: sum, Want: f.SHA256}, os.Remove(path))
	}
	return nil
}

// receive writes the rest of a file.
func (s Source) receive(ctx context.Context, f File, offset int64, to io.Writer) error {
	content, err := s(ctx, f.ID, offset)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(to, io.LimitReader(content, f.Size-offset), make([]byte, bufferSize))
	if err = errors.Join(err, content.Close()); err == nil && n < f.Size-offset {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// counter counts what is written.
type counter struct {
	to       io.Writer
	done     int64
	progress func(int64)
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.done += int64(n)
	c.progress(c.done)
	return n, err
}

// retry is the time between two attempts to copy what no member could give.
const retry = 5 * time.Second

// Mirror copies the files to which the rows of a database refer.
type Mirror struct {
	DB     *store.DB
	Prefix string // of the rows
	Files  string // what the files are, for the log
	// Copy copies what is missing. It returns the number of files that no member had. changes are
	// the changes of the rows since the last call; nil means that it reads all rows.
	Copy func(ctx context.Context, changes []store.Change) (missing int, err error)
	// Every is the time after which it reads all rows again; 0: never.
	Every  time.Duration
	Wake   <-chan struct{} // an item means that it reads all rows at once; nil: never
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// Run copies until the context ends, one file after the other.
func (m *Mirror) Run(ctx context.Context) {
	var changes []store.Change
	from := m.DB.Revision()
	for told := ""; ctx.Err() == nil; {
		missing, err := m.Copy(ctx, changes)
		if ctx.Err() != nil {
			return
		}
		pause, text := m.Every, ""
		if err != nil {
			pause, text = retry, err.Error()
		}
		if err != nil && text != told {
			m.Logger.Warn("Files could not be copied from another member. It is tried again.", "files", m.Files,
				"missing", missing, "error", err)
		}
		told = text
		if changes = m.next(ctx, from, pause); len(changes) > 0 {
			from = changes[len(changes)-1].Revision
		} else {
			from = m.DB.Revision()
		}
	}
}

// next waits for changes after a revision, at most for a time. It returns nil if all rows are to be
// looked at.
func (m *Mirror) next(ctx context.Context, from uint64, pause time.Duration) []store.Change {
	var again <-chan time.Time
	if pause > 0 {
		again = m.Clock.After(pause)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	select {
	case <-ctx.Done():
	case changes := <-m.DB.Watch(watching, from, m.Prefix).C(): // none if the log of changes was compacted
		return changes
	case <-again:
	case <-m.Wake:
	}
	return nil
}
