// Package sealing has the command that changes the data key of a running appliance.
package sealing

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"landfall/appliance/command/remote"
	"landfall/web/console"
)

// New returns landfall seal.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seal",
		Short: "Change the key that seals the data directory",
	}
	appliance := new(remote.Client)
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Seal everything again with a new data key",
		Long: "Make a new data key, seal everything in the data directory again with it, and forget the older key. " +
			"The appliance\nkeeps running. If the rotation is interrupted, the next start completes it.\n\n" +
			"With a key file, copy seal.key to its other place again. Backups that were made before need the former " +
			"seal.key,\nwhich stays as seal.key.former-<time> until you remove it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := appliance.Call(cmd.Context(), http.MethodPost, console.DataKeyRoute, nil, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "Everything is sealed with a new data key.\n"+
				"If a key file seals it (seal.with: file): copy seal.key to its other place again. Backups that were "+
				"made before need the former one.\nIt stays beside the new one as seal.key.former-<time>: move it to "+
				"the place of those backups' key.")
			return err
		},
	}
	appliance.AddFlags(rotate.Flags())
	cmd.AddCommand(rotate)
	return cmd
}
