package ams

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"landfall/appliance/ams/local"
	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/web/accounts"
	"landfall/web/console"
)

func newToken() *cobra.Command {
	var order console.AMSToken
	var offline, asClient bool
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create a token for the ocm command to use this appliance instead of AMS",
		Long: "Create a token with which the ocm command uses this appliance instead of AMS, and write it to " +
			"standard output. The token\ncannot be shown again, because the appliance stores only its digest:\n\n" +
			"  SSL_CERT_FILE=ca.crt ocm login --token \"$(landfall ams token)\" --url https://APPLIANCE:8090\n\n" +
			"All ocm commands need the variable SSL_CERT_FILE, unless the system trusts ca.crt of the appliance.\n" +
			"With --offline, the ocm command exchanges the token at the appliance:\n\n" +
			"  ocm login --token … --token-url https://APPLIANCE:8090" + accounts.TokenPath + "\n\n" +
			"With --client, the token is the secret of a client ID:\n\n" +
			"  ocm login --client-id … --client-secret … --token-url …",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case offline && asClient:
				return outcome.Usagef("give --offline or --client, not both")
			case offline:
				order.Kind = local.Offline
			case asClient || order.ClientID != "":
				order.Kind = local.Client
			}
			var issued local.Issued
			if err := appliance.Call(cmd.Context(), http.MethodPost, console.AMSPath+"/tokens", order,
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
	appliance.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&order.Username, "username", "", "user name of the token's owner (default: the site's own account)")
	flags.IntVar(&order.Days, "days", 365, "validity in days; 0 for unlimited")
	flags.BoolVar(&order.ReadOnly, "read-only", false, "the token cannot change labels")
	flags.BoolVar(&offline, "offline", false,
		"create an offline token, which is exchanged for access tokens that are valid for an hour")
	flags.BoolVar(&asClient, "client", false, "create a client ID with a secret")
	flags.StringVar(&order.ClientID, "client-id", "",
		"the client ID, such as assisted-installer-int (default: a generated one)")
	cmd.AddCommand(newTokenList(), newTokenRevoke())
	return cmd
}

func lifeOf(token local.Token) string {
	if token.ExpiresAt.IsZero() {
		return "without a time limit"
	}
	return "until " + output.Time(token.ExpiresAt)
}

func newTokenList() *cobra.Command {
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens that are not revoked",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []local.Token
			if err := appliance.Call(cmd.Context(), http.MethodGet, console.AMSPath+"/tokens", nil, &all); err != nil {
				return err
			}
			return tokens().Objects(cmd.OutOrStdout(), &appliance.Format, all)
		},
	}
	appliance.Formerly(cmd)
	return cmd
}

func tokens() *output.Kind[local.Token] {
	type column = output.Column[local.Token]
	return &output.Kind[local.Token]{
		Name: "token", Empty: "No tokens. Create one with landfall ams token.",
		NameOf: func(t *local.Token) string { return t.ID },
		Columns: []column{
			{Title: "ID", Value: func(t *local.Token) string { return t.ID }},
			{Title: "KIND", Value: func(t *local.Token) string { return string(t.Kind) }},
			{Title: "USER NAME", Value: func(t *local.Token) string { return t.Username }},
			{Title: "READ ONLY", Value: func(t *local.Token) string { return fmt.Sprint(t.ReadOnly) }},
			{Title: "CREATED", Value: func(t *local.Token) string { return output.Time(t.CreatedAt) }},
			{Title: "VALID", Value: func(t *local.Token) string { return lifeOf(*t) }},
		},
	}
}

func newTokenRevoke() *cobra.Command {
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token and all tokens that were issued in exchange for it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return appliance.Call(cmd.Context(), http.MethodDelete, console.AMSPath+"/tokens/"+
				url.PathEscape(arguments[0]), nil, nil)
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}
