package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"

	"landfall/appliance/command/outcome"
	"landfall/appliance/sentence"
)

// OnTerminal reports whether a person sees what is written to out.
func OnTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// Meter shows the progress of a long operation on a terminal. It writes nothing elsewhere. A
// terminal that was closed does not end the operation.
type Meter struct{ bar *progressbar.ProgressBar }

// NewMeter returns the progress of an operation with total bytes; 0 or less means that they are
// unknown.
func NewMeter(out io.Writer, title string, total int64) *Meter {
	if !OnTerminal(out) {
		return new(Meter)
	}
	if total <= 0 {
		total = -1 // counts up
	}
	return &Meter{progressbar.NewOptions64(total, progressbar.OptionSetWriter(out),
		progressbar.OptionSetDescription(title), progressbar.OptionShowBytes(true), progressbar.OptionSetWidth(30),
		progressbar.OptionUseIECUnits(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		// By itself, a bar without a total would be drawn again after End, over a question.
		progressbar.OptionSetSpinnerChangeInterval(0))}
}

func (m *Meter) show(update func(*progressbar.ProgressBar) error) {
	if m.bar != nil && update(m.bar) != nil {
		m.bar = nil
	}
}

// Write counts bytes.
func (m *Meter) Write(p []byte) (int, error) {
	m.show(func(bar *progressbar.ProgressBar) error { return bar.Add(len(p)) })
	return len(p), nil
}

// Set shows what is done of a total.
func (m *Meter) Set(done, total int64) {
	m.show(func(bar *progressbar.ProgressBar) error {
		if total > 0 {
			bar.ChangeMax64(total)
		}
		if done == 0 {
			return bar.RenderBlank() // nothing yet, but at work
		}
		return bar.Set64(done)
	})
}

// End removes the bar.
func (m *Meter) End() { m.show((*progressbar.ProgressBar).Clear) }

// Metered returns a reader of r that shows what was read of total bytes, and a function that
// removes the bar.
func Metered(out io.Writer, title string, r io.Reader, total int64) (metered io.Reader, end func()) {
	meter := NewMeter(out, title, total)
	return io.TeeReader(r, meter), meter.End
}

// Modes of files.
const (
	Private os.FileMode = 0o600 // a file with a key or a pull secret, such as an image
	Shared  os.FileMode = 0o644 // a file for other people, such as a courier
)

// OpenFile opens the file of -o, or standard output for "-". A regular file is written under a
// temporary name, with the mode [Private] or [Shared]. finish renames it if err is nil, and returns
// all errors. A symbolic link stays, and its target is written.
func OpenFile(name string, mode os.FileMode, stdout io.Writer) (w io.Writer, finish func(err error) error, err error) {
	if name == "-" {
		if OnTerminal(stdout) {
			return nil, nil, outcome.Usagef("-o - would write the file to the terminal; redirect the output, or name " +
				"a file")
		}
		return stdout, func(err error) error { return err }, nil
	}
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return nil, nil, outcome.Usagef("-o %s is a directory; name the file to write", name)
		}
		file, err := os.OpenFile(name, os.O_WRONLY, 0) // a disk, such as a USB drive, or a pipe
		if err != nil {
			return nil, nil, fmt.Errorf("write to %s: %w", name, err)
		}
		sync := file.Sync
		if info.Mode()&os.ModeDevice == 0 || info.Mode()&os.ModeCharDevice != 0 {
			sync = func() error { return nil } // the kernel refuses it
		}
		return file, func(err error) error { return errors.Join(err, sync(), file.Close()) }, nil
	}
	// The rest of an interrupted command may belong to somebody else.
	if err := os.Remove(name + ".part"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("write %s: %w; choose another file with -o", name, err)
	}
	file, err := os.OpenFile(name+".part", os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return nil, nil, fmt.Errorf("write %s: %w; choose another file with -o", name, err)
	}
	return file, func(err error) error {
		if err == nil {
			err = file.Sync()
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return errors.Join(err, os.Remove(file.Name()))
		}
		return os.Rename(file.Name(), name)
	}, nil
}

// Size returns a number of bytes as the sentences of the appliance do: 1.2 GiB, 512 bytes.
func Size(bytes int64) string { return sentence.Size(bytes) }
