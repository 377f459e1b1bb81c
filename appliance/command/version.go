package command

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"landfall/appliance/command/output"
	"landfall/appliance/dataversion"
)

// version is set by the linker to the output of git describe; see the Makefile.
var version string

// Version returns the version of this binary: the output of git describe in builds by the Makefile,
// otherwise the commit that the Go toolchain recorded, or "unknown".
func Version() string {
	if version != "" {
		return version
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return "unknown"
}

func newVersion() *cobra.Command {
	format := new(output.Format)
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer := map[string]any{
				"version": Version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				"data_version": dataversion.Supported(),
			}
			return format.Document(cmd.OutOrStdout(), "version", Version(), answer, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "landfall %s (%s, %s/%s)\n", Version(), runtime.Version(), runtime.GOOS,
					runtime.GOARCH)
				return err
			})
		},
	}
	format.AddFlag(cmd)
	// Upgrades from former versions run this command with --json.
	cmd.Flags().BoolFunc("json", "same as -o json", func(string) error { return format.Set("json") })
	return cmd
}
