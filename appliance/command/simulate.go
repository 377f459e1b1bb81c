package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/config"
	"landfall/appliance/simulate"
)

func newSimulate() *cobra.Command {
	cmd := &cobra.Command{Use: "simulate", Short: "Simulate hosts, or whole sites over a long time"}
	group(cmd, newSimulateHosts(), newSimulateRun(), newSimulateExample())
	return cmd
}

func newSimulateHosts() *cobra.Command {
	var faults, level string
	target := &client{}
	group := &simulate.HostGroup{}
	cmd := &cobra.Command{
		Use:   "hosts --infra-env ID",
		Short: "Boot simulated hosts from an infra-env's discovery ISO",
		Long: "Boot simulated hosts: they download the discovery ISO of an infra-env, read its configuration, and " +
			"speak the agent's, the\n" +
			"installer's and the controller's protocol until their cluster is installed. The command ends when all " +
			"hosts are done.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if group.Faults, err = simulate.ParseFaults(faults); err != nil {
				return usage("--faults: %w", err)
			}
			if group.InfraEnvID == "" {
				return usage("--infra-env is missing; the page and GET /api/assisted-install/v2/infra-envs show the " +
					"ids of infra-envs")
			}
			if group.Count < 1 || group.Speed <= 0 {
				return usage("--count and --speed are %d and %g; both must be above zero", group.Count, group.Speed)
			}
			if group.Logger, err = newLogger(config.Log{Format: "auto", Level: level},
				cmd.ErrOrStderr()); err != nil {
				return err
			}
			group.URL = target.url
			group.Observer = hostPrinter(cmd.OutOrStdout())
			return stoppedQuietly(cmd.Context(), group.Run(cmd.Context()))
		},
	}
	target.addFlag(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&group.InfraEnvID, "infra-env", "", "id of the infra-env whose ISO the hosts boot")
	flags.IntVar(&group.Count, "count", 1, "number of hosts")
	flags.IntVar(&group.First, "first", 1,
		"number of the first host; a later group of the same infra-env begins after the last")
	flags.Uint64Var(&group.Seed, "seed", 0, "another seed gives other machines; the same gives the same ones")
	flags.Float64Var(&group.Speed, "speed", 20, "how many times faster than real hosts they are")
	flags.StringVar(&faults, "faults", "",
		"what goes wrong, with commas: slow-disk,host=2:clock-skew=90s,fail-at=Rebooting")
	flags.StringVar(&level, "log-level", "warn", "least level that is logged: debug, info, warn, error")
	return cmd
}

// hostPrinter returns an observer of a group that prints a line for each event except steps, which
// are frequent.
func hostPrinter(out io.Writer) func(simulate.Event) {
	return func(event simulate.Event) {
		if event.Kind != simulate.EventStep {
			fmt.Fprintln(out, event.Time.Format(time.TimeOnly), event.Hostname, event.Kind, event.Stage, event.Info)
		}
	}
}
