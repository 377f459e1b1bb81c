// Package ams has the commands on the updates for OpenShift Cluster Manager (AMS).
package ams

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/ams"
	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/web/console"
)

// New returns the command. version is that of the program, for the User-Agent.
func New(version string) *cobra.Command {
	cmd := &cobra.Command{Use: "ams",
		Short: "Show and control the updates about clusters for OpenShift Cluster Manager (AMS)"}
	cmd.AddCommand(newStatus(), newPlan(), newToken(), newExport(), newPush(version), newImport(),
		newRevoke(), newLogin(), newLogout(), newConnect(),
		newClusterAction("retry", "Send a cluster's updates to AMS again after an error"),
		newClusterAction("create-again", "Create a cluster's subscription again after it was removed from AMS"),
		newEdit(),
		newLeave(),
		newAction("accept", "Confirm a changed organization of the credentials, or a move of the appliance to "+
			"another machine"),
		newAction("reverify",
			"After a restored backup: compare with AMS before subscriptions are created or overwritten"))
	return cmd
}

func newStatus() *cobra.Command {
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what was sent to AMS, what waits and why, and what needs attention",
		Long: "Show what was sent to AMS, what waits and why, and what needs attention.\n\n" +
			"The exit code is 0 if everything was sent, 3 if something waits and 4 if something needs attention.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var status ams.Status
			if err := appliance.Call(cmd.Context(), http.MethodGet, console.AMSPath, nil, &status); err != nil {
				return err
			}
			write := writeAMSStatus
			if !appliance.Format.Tabular() {
				write = func(out io.Writer, status *ams.Status) error {
					return appliance.Format.Document(out, "ams", "site", status, nil)
				}
			}
			if err := write(cmd.OutOrStdout(), &status); err != nil {
				return err
			}
			switch {
			case status.Attention > 0:
				return &outcome.CodeError{Code: outcome.Attention}
			case status.Waiting > 0:
				return &outcome.CodeError{Code: outcome.Waiting}
			}
			return nil
		},
	}
	appliance.Formerly(cmd)
	return cmd
}

func writeAMSStatus(out io.Writer, s *ams.Status) error {
	fmt.Fprintf(out, "AMS %s: %s", s.URL, s.State)
	if s.Problem != "" {
		fmt.Fprintf(out, ". %s", s.Problem)
	}
	fmt.Fprintln(out)
	for _, line := range []struct {
		name  string
		value string
	}{
		{"site key", s.SiteKey}, {"organization", s.Organization}, {"account", s.Account},
		{"last contact", output.Time(s.LastContact)}, {"next attempt", output.Time(s.NextTry)},
		{"oldest waiting", output.Time(s.OldestWaiting)}, {"token until", output.Time(s.TokenUntil)},
	} {
		if line.value != "" {
			fmt.Fprintf(out, "  %-15s %s\n", line.name, line.value)
		}
	}
	if skew := time.Duration(s.ClockSkew * float64(time.Second)); skew.Abs() > time.Minute {
		fmt.Fprintf(out, "  %-15s the clock of AMS differs from this machine's clock by %s; check this machine's "+
			"clock\n", "clock", skew)
	}
	fmt.Fprintf(out, "  %d waiting, %d sent, %d need attention, %d ended\n", s.Waiting, s.Sent, s.Attention, s.Left)
	if len(s.Clusters) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tNAME\tSTATE\tSINCE\tSUBSCRIPTION\tIN AMS\tREASON")
	for _, c := range s.Clusters {
		reason := strings.TrimSpace(c.Reason + " " + c.Note)
		if c.Code != "" {
			reason += fmt.Sprintf(" (%d %s, operation %s)", c.HTTP, c.Code, c.OperationID)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.ClusterID, c.Name, c.State, output.Time(c.Since),
			c.SubscriptionID, c.RemoteStatus, reason)
	}
	return table.Flush()
}

func newLogin() *cobra.Command {
	var tokenFile, clientID, secretFile string
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Give the appliance credentials for AMS",
		Long: "Give the appliance credentials for AMS: an offline token, or the ID and secret of a service account. " +
			"The command reads them from\na file, or from standard input if the file is \"-\"; on a terminal, it " +
			"asks for them. The appliance stores them\nencrypted.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var secret ams.Secret
			var err error
			switch {
			case clientID != "" && secretFile != "" && !cmd.Flags().Changed("offline-token-file"):
				secret.ClientID = clientID
				secret.ClientSecret, err = readSecret(cmd, secretFile, "Client secret: ")
			case clientID == "" && secretFile == "":
				secret.OfflineToken, err = readSecret(cmd, tokenFile, "Offline token: ")
			default:
				return outcome.Usagef("give --client-id and --client-secret-file together, or --offline-token-file " +
					"alone")
			}
			if err != nil {
				return err
			}
			if err := appliance.Call(cmd.Context(), http.MethodPost, console.AMSPath+"/credentials",
				secret, nil); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "The appliance has stored the credentials; see landfall ams status.")
			return nil
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&tokenFile, "offline-token-file", "-", "file with an offline token; - is standard input")
	cmd.Flags().StringVar(&clientID, "client-id", "", "name of a service account")
	cmd.Flags().StringVar(&secretFile, "client-secret-file", "",
		"file with the service account's secret; - is standard input")
	return cmd
}

func newLogout() *cobra.Command {
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "logout",
		Short: "Remove the appliance's credentials for AMS",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return appliance.Call(cmd.Context(), http.MethodDelete, console.AMSPath+"/credentials", nil, nil)
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}

func newConnect() *cobra.Command {
	var minutes int
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Send all waiting updates now; if connections are manual, allow them for some minutes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return appliance.Call(cmd.Context(), http.MethodPost, console.AMSPath+"/connect",
				console.AMSConnect{Minutes: minutes}, nil)
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().IntVar(&minutes, "minutes", 10, "time in minutes, 1 to 1440")
	return cmd
}

func newClusterAction(name, short string) *cobra.Command {
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   name + " CLUSTER",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			by := os.Getenv("USER")
			return appliance.Call(cmd.Context(), http.MethodPost, console.AMSPath+"/clusters/"+
				url.PathEscape(arguments[0])+"/"+name, console.AMSOrder{By: by}, nil)
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}

func newLeave() *cobra.Command {
	a := action.New()
	return a.Removing(&cobra.Command{
		Use: "leave CLUSTER", Short: "Stop updating a cluster's subscription in AMS", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := a.Confirm(cmd, arguments[0], "The appliance no longer updates the subscription of the cluster "+
				arguments[0]+" in AMS until the cluster changes again."); err != nil {
				return err
			}
			_, err := a.Send(cmd, http.MethodPost, console.AMSPath+"/clusters/"+url.PathEscape(arguments[0])+"/leave",
				action.Object{"by": os.Getenv("USER")})
			return err
		},
	})
}

func newEdit() *cobra.Command {
	edit := console.AMSEdit{}
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "edit CLUSTER",
		Short: "Send another name or console URL of a cluster to AMS; without values, send the cluster's own again",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			edit.By = os.Getenv("USER")
			return appliance.Call(cmd.Context(), http.MethodPost, console.AMSPath+"/clusters/"+
				url.PathEscape(arguments[0])+"/edit", edit, nil)
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&edit.DisplayName, "name", "", "name to show in OpenShift Cluster Manager")
	cmd.Flags().StringVar(&edit.ConsoleURL, "console-url", "", "URL of the cluster's console")
	return cmd
}

func newAction(name, short string) *cobra.Command {
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return appliance.Call(cmd.Context(), http.MethodPost, console.AMSPath+"/"+name, nil, nil)
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}
