package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/hcp"
	"landfall/appliance/config"
	"landfall/appliance/simulate"
)

func newSimulate() *cobra.Command {
	cmd := &cobra.Command{Use: "simulate", Short: "Simulate hosts, management clusters, or sites over weeks and years"}
	group(cmd, newSimulateHosts(), hcp.NewSimulate(), newSimulateRun(), newSimulateExample())
	return cmd
}

func newSimulateHosts() *cobra.Command {
	var faults, level, log string
	var foreground bool
	target := newClient()
	group := &simulate.HostGroup{}
	cmd := &cobra.Command{
		Use:   "hosts --infra-env NAME",
		Short: "Boot simulated hosts from an infra-env's discovery ISO",
		Long: "Boot simulated hosts: they download the discovery ISO of an infra-env, read its configuration, and " +
			"speak the agent's, the\n" +
			"installer's and the controller's protocol until their cluster is installed.\n\n" +
			"The command ends when all hosts are registered. They go on running in the background until they are " +
			"installed or have failed.\n--foreground runs them in this process, and ends when all hosts are done.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if group.Faults, err = simulate.ParseFaults(faults); err != nil {
				return usage("--faults: %w", err)
			}
			if group.InfraEnvID == "" {
				return usage("--infra-env is missing; landfall infra-env list lists all infra-envs")
			}
			if group.Count < 1 || group.Speed <= 0 {
				return usage("--count %d or --speed %g is invalid; both must be above zero", group.Count, group.Speed)
			}
			if group.Logger, err = newLogger(config.Log{Format: "auto", Level: level},
				cmd.ErrOrStderr()); err != nil {
				return err
			}
			if group.URL, err = target.URL(); err != nil {
				return err
			}
			if group.InfraEnvID, err = target.InfraEnvID(cmd.Context(), group.InfraEnvID); err != nil {
				return err
			}
			if !foreground {
				return runInBackground(cmd, group.Count, log)
			}
			if group.Token, group.HTTP, err = target.Credentials(); err != nil {
				return err
			}
			group.Observer = hostPrinter(cmd.OutOrStdout(), group.Count, registeredFile())
			return stoppedQuietly(cmd.Context(), group.Run(cmd.Context()))
		},
	}
	target.addFlag(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&group.InfraEnvID, "infra-env", "", "infra-env whose ISO the hosts boot")
	flags.BoolVar(&foreground, "foreground", false, "run the hosts in this process until they are done")
	flags.StringVar(&log, "log", "", "file for the output of hosts in the background; default: a temporary file")
	flags.IntVar(&group.Count, "count", 1, "number of hosts")
	flags.IntVar(&group.First, "first", 1,
		"number of the first host; for a further group in the same infra-env, choose a number above the last host")
	flags.Uint64Var(&group.Seed, "seed", 0,
		"seed of the simulated hardware; the same seed results in the same machines")
	flags.Float64Var(&group.Speed, "speed", 60, "speed factor of the hosts compared to real ones")
	flags.StringVar(&faults, "faults", "", faultsUsage())
	flags.StringVar(&level, "log-level", "warn", "minimum level of log lines: debug, info, warn, error")
	return cmd
}

// faultsUsage explains the flag with simulated faults.
func faultsUsage() string {
	return "faults of the hosts, separated by commas: slow-disk,host=2:clock-skew=90s,fail-at=Rebooting; the faults " +
		"are " + strings.Join(simulate.KnownFaults(), ", ")
}

// hostPrinter returns a function that prints a line for each event of a group, except for the
// frequent steps. It closes registered (nil for none) when count hosts are registered.
func hostPrinter(out io.Writer, count int, registered io.Closer) func(simulate.Event) {
	known := map[int]bool{}
	return func(event simulate.Event) {
		if event.Kind != simulate.EventStep {
			fmt.Fprintln(out, event.Time.Format(time.TimeOnly), event.Hostname, event.Kind, event.Stage, event.Info)
		}
		if event.Kind != simulate.EventRegistered || known[event.Host] {
			return
		}
		known[event.Host] = true
		if len(known) == count && registered != nil {
			if err := registered.Close(); err != nil {
				fmt.Fprintln(out, "The process that started these hosts does not know that they are registered:", err)
			}
		}
	}
}
