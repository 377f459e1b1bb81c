package trust

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/access"
	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	api "landfall/web/access"
)

const tokensPath = api.BasePath + "/tokens"

func newTokenCreate() *cobra.Command {
	var wanted api.NewToken
	var role, expires string
	client := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "create NAME --role viewer|operator|admin",
		Short: "Create a token for a program, and write it to standard output",
		Long: "Create a token for a program, and write it to standard output. It cannot be shown again, because the " +
			"appliance stores\nonly its digest. Commands read it from LANDFALL_TOKEN; other programs send it as " +
			"Authorization: Bearer.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) (err error) {
			wanted.Name = arguments[0]
			if wanted.Role, err = parseRole(role); err != nil {
				return err
			}
			if expires != "" {
				life, err := parseLife(expires)
				if err != nil {
					return err
				}
				wanted.ExpiresAt = time.Now().Add(life).UTC().Truncate(time.Second)
			}
			if err := resolveScope(cmd.Context(), client, wanted.Clusters, wanted.InfraEnvs); err != nil {
				return err
			}
			var made api.Token
			if err := client.Call(cmd.Context(), http.MethodPost, tokensPath, wanted, &made); err != nil {
				return err
			}
			end := "without an end"
			if !made.ExpiresAt.IsZero() {
				end = "until " + formatTime(made.ExpiresAt)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "The token %s is valid %s; revoke it with landfall token revoke %s.\n",
				made.Name, end, made.Name)
			fmt.Fprintln(cmd.OutOrStdout(), made.Token)
			return nil
		},
	}
	client.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&role, "role", "", "viewer, operator or admin")
	addScopeFlags(flags, "token", &wanted.Clusters, &wanted.InfraEnvs)
	flags.StringVar(&expires, "expires", "", "validity, such as 30d or 12h; default: without an end")
	return cmd
}

// parseRole returns the role of the flag --role.
func parseRole(name string) (access.Role, error) {
	if name == "" {
		return access.None, outcome.Usagef("--role is missing; choose viewer, operator or admin")
	}
	role, err := access.ParseRole(name)
	if err != nil {
		return access.None, outcome.Usagef("--role: %w", err)
	}
	return role, nil
}

// parseLife returns a duration, which may have the unit d for days.
func parseLife(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if number, err := strconv.ParseUint(days, 10, 16); err == nil && number > 0 {
			return time.Duration(number) * 24 * time.Hour, nil
		}
	}
	if life, err := time.ParseDuration(text); err == nil && life > 0 {
		return life, nil
	}
	return 0, outcome.Usagef("--expires is %q; expected a time such as 30d or 12h", text)
}

func newTokenList() *cobra.Command {
	return newList("List the tokens", tokensPath, "NAME\tROLE\tSCOPE\tMADE BY\tLAST USE\tUNTIL",
		func(t api.Token) string {
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", t.Name, t.Role, scopeText(t.Clusters, t.InfraEnvs),
				t.CreatedBy, formatTime(t.LastUse), formatTime(t.ExpiresAt))
		})
}

func newTokenRevoke() *cobra.Command {
	return newDelete("revoke NAME", "Revoke a token", tokensPath, "", "The token %s is revoked.\n")
}

// newList returns a command that lists the objects at a path.
func newList[T any](short, path, header string, row func(T) string) *cobra.Command {
	client, format := new(remote.Client), new(output.Format)
	cmd := &cobra.Command{
		Use:   "list",
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := []T{}
			if err := client.Call(cmd.Context(), http.MethodGet, path, nil, &list); err != nil {
				return err
			}
			if !format.Tabular() {
				return format.Document(cmd.OutOrStdout(), "list", path, list, nil)
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, header)
			for _, one := range list {
				fmt.Fprintln(table, row(one))
			}
			return table.Flush()
		},
	}
	client.AddFlags(cmd.Flags())
	format.AddFlag(cmd)
	format.AddFormerFlag(cmd)
	return cmd
}

// newDelete returns a command that deletes the object at a path, named by its argument. The command
// asks before an effect.
func newDelete(use, short, path, effect, done string) *cobra.Command {
	a := action.New()
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if effect != "" {
				if err := a.Confirm(cmd, arguments[0], fmt.Sprintf(effect, arguments[0])); err != nil {
					return err
				}
			}
			if _, err := a.Send(cmd, http.MethodDelete, path+"/"+url.PathEscape(arguments[0]), nil); err != nil ||
				a.DryRun {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), done, arguments[0])
			return err
		},
	}
	if effect == "" {
		return a.Changing(cmd)
	}
	return a.Removing(cmd)
}
