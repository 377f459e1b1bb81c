package command

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

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
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
					"version": Version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
					"data_version": dataversion.Supported(),
				})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "landfall %s (%s, %s/%s)\n", Version(), runtime.Version(),
				runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}
