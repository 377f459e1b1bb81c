// Package iso has the commands on live ISOs: those of an appliance, and files.
package iso

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "iso",
		Short: "Manage the live ISOs of an appliance, and build or inspect ISO files",
		Long: "The commands list, import, verify and remove manage the live ISOs of a running appliance (--url), " +
			"from which it makes discovery\nimages. The commands build, inspect, extract and diff work on files and " +
			"need no appliance; - is standard input or output.",
	}
	cmd.AddCommand(newList(), newImport(), newVerify(), newRemove(), newBuild(), newInspect(),
		newExtract(), newDiff())
	return cmd
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
