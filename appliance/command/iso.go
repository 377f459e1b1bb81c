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
		Short: "Manage the live ISOs of an appliance, and build or inspect ISO files",
		Long: "The commands list, import, verify and remove manage the live ISOs of a running appliance (--url), " +
			"from which it makes discovery\nimages. The commands build, inspect, extract and diff work on files and " +
			"need no appliance; - is standard input or output.",
	}
	group(cmd, newISOList(), newISOImport(), newISOVerify(), newISORemove(), newISOBuild(), newISOInspect(),
		newISOExtract(), newISODiff())
	return cmd
}

// meter shows the progress of a long operation on a terminal; without a terminal, it shows nothing.
// The operation continues if the terminal closes.
type meter struct{ bar *progressbar.ProgressBar }

// newMeter returns a meter for total bytes; 0 if the total is unknown.
func newMeter(out io.Writer, total int64, activity string) *meter {
	if !onTerminal(out) {
		return &meter{}
	}
	if total == 0 {
		total = -1 // counts up
	}
	return &meter{progressbar.NewOptions64(total, progressbar.OptionSetWriter(out),
		progressbar.OptionSetDescription(activity),
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

// output opens the file in -o, or standard output for "-". The file is written under a temporary
// name. finish renames it if err is nil, and returns all errors.
func output(name string, stdout io.Writer) (w io.Writer, finish func(err error) error, err error) {
	if name == "-" {
		if onTerminal(stdout) {
			return nil, nil, usage("-o - would write the image to the terminal; redirect the output, or name a file")
		}
		return stdout, func(err error) error { return err }, nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return nil, nil, usage("-o %s is a directory; name the file to write", name)
		}
		file, err := os.OpenFile(name, os.O_WRONLY, 0) // a disk, such as a USB drive
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

// contextReader is a reader that fails after its context has ended.
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
