package hcp

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/web/maestro"
)

// newConnection returns the commands on the connection to a management cluster.
func newConnection() *cobra.Command {
	a := action.New()
	cmd := a.Reading(&cobra.Command{
		Use:   "connection MANAGEMENT-CLUSTER",
		Short: "Show the connection to a management cluster, and what contradicts this appliance",
		Long: "Show since when a management cluster is connected, its certificates, and why nothing is sent to it. " +
			"After a restore\nfrom a backup, bundles on the management cluster can contradict this appliance. " +
			"Nothing is sent until somebody has\ndecided about each of them with landfall hcp connection decide.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			object, err := a.Fetch(cmd.Context(), consumerPath(arguments[0], "connection"))
			if err != nil {
				return err
			}
			return connectionKind().One(cmd.OutOrStdout(), &a.Format, object, describeConnection)
		},
	})
	cmd.AddCommand(newHold(), newRelease(), newDecide())
	return cmd
}

func consumerPath(consumer, rest string) string {
	return maestro.Root + "/consumers/" + url.PathEscape(consumer) + "/" + rest
}

func connectionKind() *output.Kind[maestro.Connection] {
	return &output.Kind[maestro.Connection]{Name: "connection",
		NameOf: func(c *maestro.Connection) string { return c.Consumer }}
}

func describeConnection(d *output.Description, c *maestro.Connection) {
	d.Add("Management cluster", "%s", c.Consumer)
	d.Add("Broker", "%s", c.Broker)
	switch {
	case c.Connected != nil:
		d.Add("Connected", "since %s from %s", timeText(c.Connected.Since), c.Connected.Remote)
		if c.Connected.Replaced > 2 {
			d.Add("Problem", "Two agents seem to use the same certificate. Stop one of them.")
		}
	case c.SeenAt == "":
		d.Add("Connected", "never")
	default:
		d.Add("Connected", "no; last message at %s", c.SeenAt)
	}
	if c.Problem != "" {
		d.Add("Problem", "%s", c.Problem)
	}
	if c.Refused != nil {
		d.Add("Refused", "%s from %s: %s", timeText(c.Refused.At), c.Refused.Remote, c.Refused.Reason)
	}
	if c.Clock != nil {
		d.Add("Clock", "was set back to %s; reports count again at %s", timeText(c.Clock.Agent),
			timeText(c.Clock.Until))
	}
	if c.Hold != nil && c.Hold.Since.IsZero() {
		d.Add("Held", "%s", c.Hold.Reason)
	} else if c.Hold != nil {
		d.Add("Held", "since %s: %s", timeText(c.Hold.Since), c.Hold.Reason)
	}
	if len(c.Findings) > 0 {
		d.Heading("Bundles that contradict this appliance")
	}
	for _, f := range c.Findings {
		decided := "open"
		if f.Decision != "" {
			decided = string(f.Decision) + " by " + f.By
		}
		d.Add(f.ID, "%s (%s) %s", f.Kind, decided, f.Sentence)
	}
	d.Heading("Certificates")
	for _, held := range c.Credentials {
		state := "not used yet"
		switch {
		case !held.Revoked.IsZero():
			state = "revoked at " + timeText(held.Revoked)
		case !held.Used.IsZero():
			state = "used since " + timeText(held.Used)
		}
		d.Add(held.Serial, "valid until %s, %s", timeText(held.Until), state)
	}
}

func newHold() *cobra.Command {
	a := action.New()
	return a.Changing(&cobra.Command{
		Use: "hold MANAGEMENT-CLUSTER", Short: "Send nothing more to a management cluster", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			_, err := a.Send(cmd, http.MethodPost, consumerPath(arguments[0], "hold"), nil)
			return err
		},
	})
}

func newRelease() *cobra.Command {
	a := action.New()
	return a.Removing(&cobra.Command{
		Use: "release MANAGEMENT-CLUSTER", Short: "Send to a management cluster again", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := a.Confirm(cmd, arguments[0], "The state of this appliance will replace that of the management "+
				"cluster."); err != nil {
				return err
			}
			_, err := a.Send(cmd, http.MethodDelete, consumerPath(arguments[0], "hold"), nil)
			return err
		},
	})
}

func newDecide() *cobra.Command {
	a := action.New()
	var name string
	cmd := a.Changing(&cobra.Command{
		Use:   "decide MANAGEMENT-CLUSTER BUNDLE adopt|delete|ignore",
		Short: "Decide about a bundle that contradicts this appliance",
		Long: "Decide about a bundle that contradicts this appliance. adopt takes it over, ignore leaves it as it " +
			"is, and delete removes\nan unknown bundle with its objects; repeat its name with --name.",
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			_, err := a.Send(cmd, http.MethodPost, consumerPath(arguments[0], "findings/"+url.PathEscape(arguments[1])),
				action.Object{"decision": arguments[2], "name": name})
			return err
		},
	})
	cmd.Flags().StringVar(&name, "name", "", "name of the bundle, for delete")
	return cmd
}
