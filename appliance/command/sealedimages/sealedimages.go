// Package sealedimages has the commands on sealed images: images that contain a token instead of
// the discovery config. Machines fetch the config with it, for a limited time.
package sealedimages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/agents"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/web/console"
)

// Commands returns the commands.
func Commands() []*cobra.Command {
	return []*cobra.Command{newShow(), newSeal(), newClose(), newUnseal()}
}

// command holds what all commands have in common.
type command struct {
	client   remote.Client
	infraEnv string
	format   output.Format
}

func (c *command) addFlags(cmd *cobra.Command) *cobra.Command {
	c.client.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&c.infraEnv, "infra-env", "", "infra-env of the images")
	c.format.AddFlag(cmd)
	c.format.AddFormerFlag(cmd)
	cmd.Args = cobra.NoArgs
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		if c.infraEnv == "" {
			return errors.New("--infra-env is missing; landfall infra-env list lists all infra-envs")
		}
		c.infraEnv, err = c.client.InfraEnvID(cmd.Context(), c.infraEnv)
		return err
	}
	return cmd
}

// call sends a request about the sealed images of the infra-env, and writes the answer.
func (c *command) call(ctx context.Context, out io.Writer, method, action string, body any) error {
	path := console.BasePath + "/infra-envs/" + url.PathEscape(c.infraEnv) + "/sealed-image" + action
	var sealed agents.Sealed
	if err := c.client.Call(ctx, method, path, body, &sealed); err != nil {
		return err
	}
	return c.format.Document(out, "infra-env", c.infraEnv, &sealed, func(out io.Writer) error {
		return write(out, &sealed)
	})
}

func newShow() *cobra.Command {
	c := new(command)
	return c.addFlags(&cobra.Command{
		Use:   "show --infra-env NAME",
		Short: "Show whether images are sealed, until when they are open, and who fetched their config",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.call(cmd.Context(), cmd.OutOrStdout(), http.MethodGet, "", nil)
		},
	})
}

func newSeal() *cobra.Command {
	c, during, machines := new(command), agents.DefaultSealed, 0
	cmd := c.addFlags(&cobra.Command{
		Use:   "seal --infra-env NAME",
		Short: "Seal the images of an infra-env, or open sealed images again",
		Long: "Seal the images of an infra-env: they contain a token, and neither the pull secret nor a key. " +
			"Machines fetch their config\nwith the token for the time --for. Images that are already sealed remain " +
			"usable, and are open again for that time.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.call(cmd.Context(), cmd.OutOrStdout(), http.MethodPut, "",
				map[string]int64{"seconds": int64(during / time.Second), "machines": int64(machines)})
		},
	})
	cmd.Flags().DurationVar(&during, "for", during, "time for which machines may fetch the config, up to 2160h")
	cmd.Flags().IntVar(&machines, "machines", 0, "largest number of machines that may fetch it; 0 means no limit")
	return cmd
}

func newClose() *cobra.Command {
	c := new(command)
	return c.addFlags(&cobra.Command{
		Use:   "close --infra-env NAME",
		Short: "End the time in which machines may fetch the config of sealed images",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.call(cmd.Context(), cmd.OutOrStdout(), http.MethodPost, "/close", nil)
		},
	})
}

func newUnseal() *cobra.Command {
	c := new(command)
	return c.addFlags(&cobra.Command{
		Use:   "unseal --infra-env NAME",
		Short: "Make images that contain their config again",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.call(cmd.Context(), cmd.OutOrStdout(), http.MethodDelete, "", nil)
		},
	})
}

// write describes the sealed images of an infra-env.
func write(out io.Writer, sealed *agents.Sealed) error {
	name := cmp.Or(sealed.Name, sealed.InfraEnvID)
	switch {
	case !sealed.Sealed:
		fmt.Fprintf(out, "The images of infra-env %s are not sealed.\n", name)
	case sealed.Open && sealed.Machines > 0:
		fmt.Fprintf(out,
			"The images of infra-env %s are sealed. Until %s, machines may fetch their config, at most %d.\n",
			name, output.Time(*sealed.Until), sealed.Machines)
	case sealed.Open:
		fmt.Fprintf(out, "The images of infra-env %s are sealed. Machines may fetch their config until %s.\n", name,
			output.Time(*sealed.Until))
	default:
		fmt.Fprintf(out, "The images of infra-env %s are sealed, and no machine may fetch their config.\n", name)
	}
	if len(sealed.Fetches) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ADDRESS\tFIRST FETCH\tLAST FETCH\tFETCHES")
	for _, fetch := range sealed.Fetches {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\n", fetch.Address, output.Time(fetch.First), output.Time(fetch.Last),
			fetch.Times)
	}
	return table.Flush()
}
