// Package agenttokens has the commands on the tokens of machines: agents, installers and the
// controllers in new clusters.
package agenttokens

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/agents"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/sentence"
	"landfall/web/console"
)

// Commands returns the commands.
func Commands() []*cobra.Command {
	return []*cobra.Command{newList(), newRenew(), newRevoke(), newAcceptNone()}
}

// command holds what all commands have in common.
type command struct {
	client   remote.Client
	infraEnv string
	format   output.Format
}

// addFlags adds the common flags. need is true if the command needs an infra-env.
func (c *command) addFlags(cmd *cobra.Command, need bool) {
	c.client.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&c.infraEnv, "infra-env", "", "infra-env of the machines")
	c.format.AddFlag(cmd)
	c.format.AddFormerFlag(cmd)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		switch {
		case c.infraEnv != "":
			c.infraEnv, err = c.client.InfraEnvID(cmd.Context(), c.infraEnv)
		case need:
			err = errors.New("--infra-env is missing; landfall infra-env list lists all infra-envs")
		}
		return err
	}
}

func (c *command) path(action string) string {
	return console.BasePath + "/infra-envs/" + url.PathEscape(c.infraEnv) + "/agent-tokens" + action
}

// post sends a time (nil for none) to an action, and decodes the answer.
func (c *command) post(ctx context.Context, action string, during *time.Duration, answer any) error {
	var body any
	if during != nil {
		body = map[string]int64{"seconds": int64(*during / time.Second)}
	}
	return c.client.Call(ctx, http.MethodPost, c.path(action), body, answer)
}

func newList() *cobra.Command {
	c := new(command)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the tokens of an infra-env, or all hosts without a token",
		Long: "With --infra-env, show since when and until when the tokens of its machines are valid. Without it, " +
			"list the hosts of all\ninfra-envs that booted an image without a token.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.infraEnv != "" {
				var tokens agents.Tokens
				if err := c.client.Call(cmd.Context(), http.MethodGet, c.path(""), nil, &tokens); err != nil {
					return err
				}
				return c.write(cmd.OutOrStdout(), &tokens, func(out io.Writer) {
					writeTokens(out, &tokens, tokenlessTitle)
				})
			}
			var all struct {
				Authenticated bool            `json:"authenticated"`
				InfraEnvs     []agents.Tokens `json:"infra_envs"`
			}
			if err := c.client.Call(cmd.Context(), http.MethodGet, console.BasePath+"/tokenless-hosts", nil,
				&all); err != nil {
				return err
			}
			return c.write(cmd.OutOrStdout(), &all, func(out io.Writer) {
				title := tokenlessTitle
				switch {
				case !all.Authenticated:
					title = "Hosts without a token:"
					fmt.Fprintln(out, "The appliance does not authenticate machines (auth: none).")
				case len(all.InfraEnvs) == 0:
					fmt.Fprintln(out, "No host that still needs the appliance lacks a token.")
				}
				for _, tokens := range all.InfraEnvs {
					writeTokens(out, &tokens, title)
				}
			})
		},
	}
	c.addFlags(cmd, false)
	return cmd
}

func newRenew() *cobra.Command {
	c, grace := new(command), agents.DefaultGrace
	cmd := &cobra.Command{
		Use:   "renew --infra-env NAME",
		Short: "Renew the token of an infra-env; the previous one remains valid for some time",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var change agents.Change
			if err := c.post(cmd.Context(), "/renew", &grace, &change); err != nil {
				return err
			}
			return c.write(cmd.OutOrStdout(), &change, func(out io.Writer) {
				until := "now"
				if change.PreviousUntil != nil {
					until = formatTime(change.PreviousUntil)
				}
				fmt.Fprintf(out, "The token of infra-env %s is renewed. The previous token is valid until %s.\n",
					change.Name, until)
				writeURLs(out, change.InvalidURLs)
				writeHosts(out, "Hosts with the previous token; boot them from the new image before it ends:",
					change.Hosts)
			})
		},
	}
	c.addFlags(cmd, true)
	cmd.Flags().DurationVar(&grace, "grace", grace, "time for which the previous token remains valid, up to 720h")
	return cmd
}

func newRevoke() *cobra.Command {
	c, yes := new(command), false
	cmd := &cobra.Command{
		Use:   "revoke --infra-env NAME",
		Short: "After a theft: make all tokens and image URLs of an infra-env invalid",
		Long: "Make all tokens of an infra-env's machines and all URLs of its images invalid at once, also the short " +
			"URL. Its hosts must\nboot the new image. The command names them and asks before it changes anything.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				if err := c.confirm(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			var change agents.Change
			if err := c.post(cmd.Context(), "/revoke", nil, &change); err != nil {
				return err
			}
			return c.write(cmd.OutOrStdout(), &change, func(out io.Writer) {
				fmt.Fprintf(out, "All tokens of infra-env %s are revoked.\n", change.Name)
				writeURLs(out, change.InvalidURLs)
				writeHosts(out, "Boot these hosts from the new image:", change.Hosts)
			})
		},
	}
	c.addFlags(cmd, true)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// errNotConfirmed is the error of a person who does not confirm a revocation.
var errNotConfirmed = errors.New("nothing was changed, because the answer was not yes; --yes answers it")

// confirm names the effects of a revocation and asks for an answer.
func (c *command) confirm(ctx context.Context, in io.Reader, out io.Writer) error {
	var tokens agents.Tokens
	if err := c.client.Call(ctx, http.MethodGet, c.path(""), nil, &tokens); err != nil {
		return err
	}
	var hosts []struct {
		ID       string `json:"id"`
		Hostname string `json:"requested_hostname"`
		Status   string `json:"status"`
	}
	path := "/api/assisted-install/v2/infra-envs/" + url.PathEscape(c.infraEnv) + "/hosts"
	if err := c.client.Call(ctx, http.MethodGet, path, nil, &hosts); err != nil {
		return err
	}
	fmt.Fprintf(out, "This makes all tokens and image URLs of infra-env %s invalid. Running installations of its "+
		"hosts fail.\n", tokens.Name)
	if len(hosts) > 0 {
		fmt.Fprintln(out, "Its hosts:")
	}
	for _, host := range hosts {
		fmt.Fprintf(out, "  %s (%s)\n", cmp.Or(host.Hostname, host.ID), host.Status)
	}
	fmt.Fprint(out, "Revoke? Enter yes: ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(line) != "yes" {
		return errNotConfirmed
	}
	return nil
}

func newAcceptNone() *cobra.Command {
	c := new(command)
	cmd := &cobra.Command{
		Use:   "accept-none TIME --infra-env NAME",
		Short: "Accept the machines of an infra-env without a token for some time, such as 4h; 0 ends it",
		Long: "Accept the machines of an infra-env without a token for some time, up to 168h; 0 ends it. It is for " +
			"hosts that booted before\nthe appliance authenticated machines, and can be given before auth is set to " +
			"local. During this time, everyone who\nreaches the appliance can act as a machine of this infra-env, " +
			"also over plain HTTP.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			during, err := parseTime(arguments[0])
			if err != nil {
				return err
			}
			var tokens agents.Tokens
			if err := c.post(cmd.Context(), "/accept-none", &during, &tokens); err != nil {
				return err
			}
			return c.write(cmd.OutOrStdout(), &tokens, func(out io.Writer) {
				writeTokens(out, &tokens, tokenlessTitle)
			})
		},
	}
	c.addFlags(cmd, true)
	return cmd
}

// parseTime returns a duration of whole seconds.
func parseTime(text string) (time.Duration, error) {
	during, err := time.ParseDuration(text)
	if seconds, numberErr := strconv.ParseInt(text, 10, 32); numberErr == nil {
		during, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || during < 0 || during > 0 && during < time.Second {
		return 0, fmt.Errorf("the time is %q; enter a time such as 4h, or 0", text)
	}
	return during, nil
}

// write writes a value in the format of -o, or as text.
func (c *command) write(out io.Writer, value any, text func(io.Writer)) error {
	return c.format.Document(out, "agent-tokens", c.infraEnv, value, func(out io.Writer) error {
		text(out)
		return nil
	})
}

// tokenlessTitle is the title of hosts that need a token.
const tokenlessTitle = "Hosts without a token; boot them from the present image:"

func writeTokens(out io.Writer, tokens *agents.Tokens, title string) {
	fmt.Fprintf(out, "Infra-env %s (%s)\n", tokens.Name, tokens.InfraEnvID)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range []struct {
		name string
		at   *time.Time
	}{
		{"images contain tokens since", tokens.Since},
		{"key made at", tokens.Renewed},
		{"previous token valid until", tokens.PreviousUntil},
		{"machines without a token accepted until", tokens.TokenlessUntil},
	} {
		fmt.Fprintf(table, "  %s\t%s\n", row.name, formatTime(row.at))
	}
	table.Flush()
	writeHosts(out, title, tokens.TokenlessHosts)
}

// maxURLBytes is the largest shown length of a URL. The tokens in URLs have some 300 characters.
const maxURLBytes = 100

func writeURLs(out io.Writer, urls []string) {
	if len(urls) > 0 {
		fmt.Fprintln(out, "These image URLs are no longer valid:")
	}
	for _, address := range urls {
		fmt.Fprintf(out, "  %s\n", sentence.Shorten(address, maxURLBytes))
	}
}

func writeHosts(out io.Writer, title string, hosts []agents.Host) {
	if len(hosts) == 0 {
		return
	}
	fmt.Fprintln(out, title)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  HOST\tSTATUS\tREGISTERED\tLAST CONTACT")
	for _, host := range hosts {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", cmp.Or(host.Name, host.ID), host.Status,
			formatTime(&host.Registered), formatTime(host.LastSeen))
	}
	table.Flush()
}

func formatTime(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return output.OrDash(output.Time(*at))
}
