package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"landfall/appliance/simulate/scenario"
)

func newSimulateRun() *cobra.Command {
	var example string
	options := scenario.Options{}
	cmd := &cobra.Command{
		Use:   "run SCENARIO.yaml",
		Short: "Simulate whole sites for a year in some minutes, and check the results",
		Long: "Run a scenario: sites with appliances, machines and users, under a clock that jumps from one " +
			"event to the next. Each site runs\n" +
			"the real engine over a store of its own, without HTTP; the invariants are " +
			"checked after each change.\n" +
			"The command ends with a summary, or with exit code 1 and the seed, the site, the day and the " +
			"error; with the same seed and\n" +
			"--site the result is the same. Included scenarios: " +
			strings.Join(scenario.Examples(), ", ") + "; see landfall simulate example.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			played, err := chosenScenario(example, arguments)
			if err != nil {
				return err
			}
			if options.Site < 0 || options.Days < 0 || options.Parallel < 0 {
				return usage("--site, --days and --parallel are %d, %d and %d; none may be below zero", options.Site,
					options.Days, options.Parallel)
			}
			bar := newPlayBar(cmd.ErrOrStderr())
			options.Progress = bar.show
			report, err := scenario.Run(cmd.Context(), played, options)
			bar.end()
			if err != nil && cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return errors.New("the simulation was stopped")
			}
			if err != nil {
				return err
			}
			return report.Write(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&example, "example", "", "play a scenario that comes with the program: "+
		strings.Join(scenario.Examples(), ", "))
	flags.Uint64Var(&options.Seed, "seed", 0, "another seed than the scenario's")
	flags.IntVar(&options.Site, "site", 0, "play only the site of this number")
	flags.IntVar(&options.Days, "days", 0, "another number of days than the scenario's")
	flags.IntVar(&options.Parallel, "parallel", 0,
		"sites that are played at the same time; 0 is one for each processor")
	flags.StringVar(&options.Dir, "dir", "",
		"folder for the sites' stores while they are played; a memory file system is fastest")
	return cmd
}

func chosenScenario(example string, arguments []string) (*scenario.Scenario, error) {
	switch {
	case example != "" && len(arguments) > 0:
		return nil, usage("both --example %s and the file %s are named; name one of them", example, arguments[0])
	case example != "":
		played, err := scenario.Example(example)
		if err != nil {
			return nil, usage("--example: %w", err)
		}
		return played, nil
	case len(arguments) == 0:
		return nil, usage("there is no scenario; name a file, or --example %s", strings.Join(scenario.Examples(), ", "))
	}
	return scenario.Load(arguments[0])
}

func newSimulateExample() *cobra.Command {
	return &cobra.Command{
		Use:   "example [NAME]",
		Short: "Print an included scenario, or the names of all",
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

func newPlayBar(out io.Writer) *runBar {
	p := &runBar{out: out}
	if onTerminal(out) {
		p.bar = progressbar.NewOptions(1, progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish())
	}
	return p
}

func (p *runBar) show(now scenario.Progress) {
	news := fmt.Sprintf("%d of %d sites, %d installations, %d checks", now.Sites, now.Of, now.Installations, now.Checks)
	if p.bar != nil {
		p.bar.ChangeMax(now.Of)
		p.bar.Describe(news)
		if err := p.bar.Set(now.Sites); err != nil {
			p.bar = nil // the terminal went away
		}
		return
	}
	if tenth := now.Sites * 10 / now.Of; tenth > p.tenth {
		p.tenth = tenth
		fmt.Fprintln(p.out, news)
	}
}

func (p *runBar) end() {
	if p.bar != nil {
		if err := p.bar.Clear(); err != nil {
			p.bar = nil
		}
	}
}
