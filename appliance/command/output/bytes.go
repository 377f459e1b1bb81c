package output

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
)

// Bytes shows the progress of a transfer on a terminal. It writes nothing elsewhere.
type Bytes struct{ bar *progressbar.ProgressBar }

// NewBytes returns the progress of a transfer of total bytes; -1 means that they are unknown.
func NewBytes(out io.Writer, title string, total int64) *Bytes {
	file, ok := out.(*os.File)
	if !ok || !isatty.IsTerminal(file.Fd()) {
		return new(Bytes)
	}
	return &Bytes{progressbar.NewOptions64(total, progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(30),
		progressbar.OptionShowBytes(true), progressbar.OptionSetDescription(title),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())}
}

// Write counts bytes. A terminal that was closed does not end the transfer.
func (b *Bytes) Write(p []byte) (int, error) {
	if b.bar != nil {
		if err := b.bar.Add(len(p)); err != nil {
			b.bar = nil
		}
	}
	return len(p), nil
}

// End removes the bar.
func (b *Bytes) End() {
	if b.bar != nil {
		if err := b.bar.Clear(); err != nil {
			b.bar = nil
		}
	}
}

// Size returns a number of bytes in its largest unit.
func Size(bytes int64) string {
	const unit = 1024
	if bytes < unit {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unitName := float64(bytes)/unit, "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if value < unit {
			break
		}
		value, unitName = value/unit, next
	}
	return fmt.Sprintf("%.1f %s", value, unitName)
}
