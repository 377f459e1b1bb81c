package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
)

// renamed returns a command that has a new name. It works as before and says the new name.
func renamed(cmd *cobra.Command, now string) *cobra.Command {
	run := cmd.RunE
	cmd.Hidden = true
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s is now %s\n", cmd.CommandPath(), now)
		return run(cmd, arguments)
	}
	return cmd
}

// completionTime limits the request for the names that a shell completes.
const completionTime = 2 * time.Second

// nounNames returns the names of the objects of an appliance by the name of the flag or command
// that takes them.
func nounNames() map[string]func(context.Context, *remote.Client) ([]string, error) {
	return map[string]func(context.Context, *remote.Client) ([]string, error){
		"cluster": func(ctx context.Context, c *remote.Client) ([]string, error) { return c.ClusterNames(ctx) },
		"infra-env": func(ctx context.Context, c *remote.Client) ([]string, error) {
			return c.InfraEnvNames(ctx)
		},
		"host": func(ctx context.Context, c *remote.Client) ([]string, error) {
			hosts, err := c.Hosts(ctx, "")
			var names []string
			for _, host := range hosts {
				names = append(names, host.Name())
			}
			return names, err
		},
	}
}

// completeNames lets the shell complete names of clusters, infra-envs and hosts: as the values of
// flags, and as the arguments of the commands on these nouns.
func completeNames(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		completeNames(cmd)
		for noun, names := range nounNames() {
			complete := completion(names)
			if flag := cmd.Flags().Lookup(noun); flag != nil && flag.Value.Type() == "string" {
				output.Complete(cmd, noun, complete)
			}
			if parent.Name() == noun && cmd.Name() != "create" && cmd.Name() != "list" {
				cmd.ValidArgsFunction = complete
			}
		}
	}
}

func completion(names func(context.Context, *remote.Client) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, arguments []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(arguments) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		value := func(flag string) string {
			if found := cmd.Flags().Lookup(flag); found != nil {
				return found.Value.String()
			}
			return ""
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		found, err := names(ctx, remote.New(value("url"), value("ca")))
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
			return nil, cobra.ShellCompDirectiveError
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
