package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"landfall/appliance/command/output"
	"landfall/appliance/simulate/scenario"
)

func newSimulateRun() *cobra.Command {
	var example string
	options := scenario.Options{}
	cmd := &cobra.Command{
		Use:   "run SCENARIO.yaml",
		Short: "Simulate whole sites for a year in some minutes, and check the results",
		Long: "Run a scenario: sites with appliances, machines and users, with a clock that jumps from one event to " +
			"the next. Each site runs\nthe real engine with its own store, without HTTP. The invariants are checked " +
			"after each change.\nThe command prints a summary. After an error, it prints the seed, the site and " +
			"the day, and the exit code is 1. The same\n--seed and --site repeat the result. Included " +
			"scenarios: " +
			strings.Join(scenario.Examples(), ", ") + "; see landfall simulate example.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			chosen, err := chosenScenario(example, arguments)
			if err != nil {
				return err
			}
			if options.Site < 0 || options.Days < 0 || options.Parallel < 0 {
				return usage("--site %d, --days %d or --parallel %d is invalid; negative values are not allowed",
					options.Site,
					options.Days, options.Parallel)
			}
			bar := newRunBar(cmd.ErrOrStderr())
			options.Progress = bar.show
			report, err := scenario.Run(cmd.Context(), chosen, options)
			bar.end()
			if err != nil {
				return err
			}
			return report.Write(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&example, "example", "", "run an included scenario: "+
		strings.Join(scenario.Examples(), ", "))
	flags.Uint64Var(&options.Seed, "seed", 0, "seed to use instead of the scenario's")
	flags.IntVar(&options.Site, "site", 0, "run only the site with this number")
	flags.IntVar(&options.Days, "days", 0, "number of days to use instead of the scenario's")
	flags.IntVar(&options.Parallel, "parallel", 0,
		"number of concurrent sites; 0 means one for each processor")
	flags.StringVar(&options.Dir, "dir", "",
		"directory for the stores of the running sites; a memory file system is fastest")
	return cmd
}

func chosenScenario(example string, arguments []string) (*scenario.Scenario, error) {
	switch {
	case example != "" && len(arguments) > 0:
		return nil, usage("--example %s and the file %s exclude each other; name one of them", example, arguments[0])
	case example != "":
		chosen, err := scenario.Example(example)
		if err != nil {
			return nil, usage("--example: %w", err)
		}
		return chosen, nil
	case len(arguments) == 0:
		return nil, usage("the scenario is missing; name a file, or give --example %s",
			strings.Join(scenario.Examples(), ", "))
	}
	return scenario.Load(arguments[0])
}

func newSimulateExample() *cobra.Command {
	return &cobra.Command{
		Use:   "example [NAME]",
		Short: "Print an included scenario, or the names of all included scenarios",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if len(arguments) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(scenario.Examples(), "\n"))
				return err
			}
			text, err := scenario.ExampleText(arguments[0])
			if err != nil {
				return usage("%w", err)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

// runBar shows the progress of a run: a bar on a terminal, a line for each tenth elsewhere.
type runBar struct {
	out   io.Writer
	bar   *progressbar.ProgressBar // nil without a terminal
	tenth int
}

func newRunBar(out io.Writer) *runBar {
	p := &runBar{out: out}
	if output.OnTerminal(out) {
		p.bar = progressbar.NewOptions(1, progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish())
	}
	return p
}

func (p *runBar) show(now scenario.Progress) {
	text := fmt.Sprintf("%d of %d sites, %d installations, %d checks", now.Sites, now.Of, now.Installations, now.Checks)
	if p.bar != nil {
		p.bar.ChangeMax(now.Of)
		p.bar.Describe(text)
		if err := p.bar.Set(now.Sites); err != nil {
			p.bar = nil // the terminal was closed
		}
		return
	}
	if tenth := now.Sites * 10 / now.Of; tenth > p.tenth {
		p.tenth = tenth
		fmt.Fprintln(p.out, text)
	}
}

func (p *runBar) end() {
	if p.bar != nil {
		if err := p.bar.Clear(); err != nil {
			p.bar = nil
		}
	}
}
