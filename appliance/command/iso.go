package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

func newISO() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "iso",
		Short: "Work with live ISOs, on a running appliance and without one",
		Long: "list, import, verify and remove manage the live ISOs of a running appliance (--url), from which it " +
			"makes discovery\n" +
			"images from. build, inspect, extract and diff work on files and need no appliance; - is standard input " +
			"or output.",
	}
	group(cmd, newISOList(), newISOImport(), newISOVerify(), newISORemove(), newISOBuild(), newISOInspect(),
		newISOExtract(), newISODiff())
	return cmd
}

// meter shows the progress of a long operation on a terminal, and nothing elsewhere. A terminal
// that goes away does not stop the operation.
type meter struct{ bar *progressbar.ProgressBar }

// newMeter returns a meter for total bytes; 0 if the total is unknown.
func newMeter(out io.Writer, total int64, doing string) *meter {
	if !onTerminal(out) {
		return &meter{}
	}
	if total == 0 {
		total = -1 // counts up
	}
	return &meter{progressbar.NewOptions64(total, progressbar.OptionSetWriter(out),
		progressbar.OptionSetDescription(doing),
		progressbar.OptionShowBytes(true), progressbar.OptionSetWidth(30), progressbar.OptionUseIECUnits(true),
		progressbar.OptionClearOnFinish())}
}

func (m *meter) show(update func(*progressbar.ProgressBar) error) {
	if m.bar != nil && update(m.bar) != nil {
		m.bar = nil
	}
}

// Write counts bytes.
func (m *meter) Write(p []byte) (int, error) {
	m.show(func(bar *progressbar.ProgressBar) error { return bar.Add(len(p)) })
	return len(p), nil
}

func (m *meter) set(done, total int64) {
	m.show(func(bar *progressbar.ProgressBar) error {
		if total > 0 {
			bar.ChangeMax64(total)
		}
		return bar.Set64(done)
	})
}

// end restores the terminal.
func (m *meter) end() { m.show((*progressbar.ProgressBar).Clear) }

// outcomeError ends a command with a special exit code after it has printed its result.
type outcomeError struct{ code int }

func (e *outcomeError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// output opens the file in -o: "-" for standard output, otherwise a file that gets its name when it
// is complete. finish renames the file if err is nil, and returns the error of the whole.
func output(name string, stdout io.Writer) (w io.Writer, finish func(err error) error, err error) {
	if name == "-" {
		if onTerminal(stdout) {
			return nil, nil, usage("-o - would write the image to the terminal; redirect it, or name a file")
		}
		return stdout, func(err error) error { return err }, nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return nil, nil, usage("-o %s is a directory; name the file to write", name)
		}
		file, err := os.OpenFile(name, os.O_WRONLY, 0) // a disk, such as a USB stick
		if err != nil {
			return nil, nil, fmt.Errorf("write to %s: %w", name, err)
		}
		return file, func(err error) error { return errors.Join(err, file.Sync(), file.Close()) }, nil
	}
	file, err := os.Create(name + ".part")
	if err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", name, err)
	}
	return file, func(err error) error {
		if err = errors.Join(err, file.Close()); err != nil {
			return errors.Join(err, os.Remove(file.Name()))
		}
		return os.Rename(file.Name(), name)
	}, nil
}

// contextReader ends a long read when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
