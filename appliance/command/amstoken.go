package command

import (
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"landfall/appliance/ams/local"
	"landfall/web/accounts"
	"landfall/web/console"
)

func newAMSToken() *cobra.Command {
	var order console.AMSToken
	var offline, asClient bool
	appliance := newClient()
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create a token for the ocm command to use this appliance instead of AMS",
		Long: "Create a token with which the ocm command uses this appliance instead of AMS, and write it to " +
			"standard output. The token\ncannot be shown again, because the appliance stores only its digest:\n\n" +
			"  ocm login --token \"$(landfall ams token)\" --url http://APPLIANCE:8090\n\n" +
			"With --offline, the ocm command exchanges the token at the appliance:\n\n" +
			"  ocm login --token … --token-url http://APPLIANCE:8090" + accounts.TokenPath + "\n\n" +
			"With --client, the token is the secret of a client ID:\n\n" +
			"  ocm login --client-id … --client-secret … --token-url …",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case offline && asClient:
				return usage("give --offline or --client, not both")
			case offline:
				order.Kind = local.Offline
			case asClient || order.ClientID != "":
				order.Kind = local.Client
			}
			var issued local.Issued
			if err := appliance.call(cmd.Context(), http.MethodPost, console.AMSPath+"/tokens", order,
				&issued); err != nil {
				return err
			}
			if issued.Kind == local.Client {
				fmt.Fprintf(cmd.ErrOrStderr(), "The client's ID is %s, and its secret is:\n", issued.ID)
			}
			fmt.Fprintln(cmd.OutOrStdout(), issued.Secret)
			fmt.Fprintf(cmd.ErrOrStderr(),
				"The token belongs to %s and is valid %s; revoke it with landfall ams token revoke %s.\n",
				issued.Username, lifeOf(issued.Token), issued.ID)
			return nil
		},
	}
	appliance.addFlag(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&order.Username, "username", "", "user name of the token's owner (default: the site's own account)")
	flags.IntVar(&order.Days, "days", 365, "validity in days; 0 for unlimited")
	flags.BoolVar(&order.ReadOnly, "read-only", false, "the token cannot change labels")
	flags.BoolVar(&offline, "offline", false,
		"create an offline token, which is exchanged for access tokens that are valid for an hour")
	flags.BoolVar(&asClient, "client", false, "create a client ID with a secret")
	flags.StringVar(&order.ClientID, "client-id", "",
		"the client ID, such as assisted-installer-int (default: a generated one)")
	cmd.AddCommand(newAMSTokenList(), newAMSTokenRevoke())
	return cmd
}

func lifeOf(token local.Token) string {
	if token.ExpiresAt.IsZero() {
		return "without a time limit"
	}
	return "until " + formatTime(token.ExpiresAt)
}

func newAMSTokenList() *cobra.Command {
	var asJSON bool
	appliance := newClient()
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens that are not revoked",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []local.Token
			if err := appliance.call(cmd.Context(), http.MethodGet, console.AMSPath+"/tokens", nil, &all); err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "ID\tKIND\tUSER NAME\tREAD ONLY\tMADE\tGOOD")
			for _, t := range all {
				fmt.Fprintf(table, "%s\t%s\t%s\t%t\t%s\t%s\n", t.ID, t.Kind, t.Username, t.ReadOnly,
					formatTime(t.CreatedAt), lifeOf(t))
			}
			return table.Flush()
		},
	}
	appliance.addFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func newAMSTokenRevoke() *cobra.Command {
	appliance := newClient()
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token and all tokens that were issued in exchange for it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return appliance.call(cmd.Context(), http.MethodDelete, console.AMSPath+"/tokens/"+
				url.PathEscape(arguments[0]), nil, nil)
		},
	}
	appliance.addFlag(cmd.Flags())
	return cmd
}
