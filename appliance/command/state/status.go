package state

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/doctor"
	"landfall/web/console"
)

// NewStatus returns the command that shows the state of an appliance.
func NewStatus() *cobra.Command {
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a running appliance",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var status console.Status
			if err := appliance.Call(cmd.Context(), http.MethodGet, console.BasePath+"/status", nil,
				&status); err != nil {
				return err
			}
			if !appliance.Format.Tabular() {
				return appliance.Format.Document(cmd.OutOrStdout(), "appliance", "site", status, nil)
			}
			return writeStatus(cmd.OutOrStdout(), &status)
		},
	}
	appliance.Formerly(cmd)
	return cmd
}

func writeStatus(out io.Writer, status *console.Status) error {
	fmt.Fprintf(out, "Landfall %s at %s\n", status.Version, status.URL)
	if status.AuthorityFingerprint != "" {
		fmt.Fprintf(out, "SHA-256 of its certificate authority: %s\n", status.AuthorityFingerprint)
	}
	for _, finding := range status.Protections {
		fmt.Fprintf(out, "  %-8s%s: %s\n", finding.Status.Word(), finding.Subject, finding.Result)
		if finding.Advice != "" && finding.Status != doctor.Green {
			fmt.Fprintf(out, "          %s\n", finding.Advice)
		}
	}
	fmt.Fprintln(out)
	if len(status.OSImages) == 0 {
		fmt.Fprintln(out, "Without a live ISO, no hosts can be discovered. Import one with landfall iso import, or "+
			"add it to os_images in the configuration.")
	}
	if len(status.Releases) == 0 {
		fmt.Fprintln(out, "Without a release, no clusters can be created. Add one with landfall settings "+
			"release add, or to release_images in the configuration.")
	}
	if len(status.OSImages)+len(status.Releases) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tVERSION\tARCHITECTURE\tSTATE")
	for _, image := range status.OSImages {
		fmt.Fprintf(table, "live ISO\t%s\t%s\t%s %s\n", image.OpenshiftVersion, image.CPUArchitecture, image.State,
			image.Message)
	}
	for _, release := range status.Releases {
		state := cmp.Or(strings.TrimSpace(release.State+" "+release.Message), "ready")
		fmt.Fprintf(table, "release\t%s\t%s\t%s\n", release.OpenshiftVersion, release.CPUArchitecture, state)
	}
	return table.Flush()
}
