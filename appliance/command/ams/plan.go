package ams

import (
	"fmt"
	"io"
	"net/http"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"

	"landfall/appliance/ams"
	"landfall/appliance/command/action"
	"landfall/web/console"
)

func newPlan() *cobra.Command {
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "plan [FILE]",
		Short: "Show the planned updates of the appliance or of a courier's file; nothing is sent",
		Long: "Show the planned updates of the appliance or of a courier's file. The plan assumes that AMS still has " +
			"the last recorded state.\nNothing is sent. A push reads the state of AMS first, which may have changed.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			var plans []ams.Planned
			var err error
			if len(arguments) == 0 {
				err = appliance.Call(cmd.Context(), http.MethodGet, console.AMSPath+"/plan", nil, &plans)
			} else {
				plans, err = planOfFile(cmd, arguments[0])
			}
			if err != nil {
				return err
			}
			if !appliance.Format.Tabular() {
				return appliance.Format.Document(cmd.OutOrStdout(), "plan", "site", plans, nil)
			}
			writePlans(cmd.OutOrStdout(), plans)
			return nil
		},
	}
	appliance.Formerly(cmd)
	return cmd
}

func planOfFile(cmd *cobra.Command, path string) ([]ams.Planned, error) {
	file, err := readExport(path, nil)
	if err != nil {
		return nil, err
	}
	return ams.PlanPush(cmd.Context(), file, ams.PushOptions{Clock: clockwork.NewRealClock()})
}

func writePlans(out io.Writer, plans []ams.Planned) {
	if len(plans) == 0 {
		fmt.Fprintln(out, "Nothing is to be sent.")
	}
	for _, plan := range plans {
		fmt.Fprintf(out, "%s %s\n", plan.ClusterID, plan.Name)
		for _, call := range plan.Calls {
			fmt.Fprintf(out, "  %s\n", call)
		}
		switch {
		case plan.Reason != "":
			fmt.Fprintf(out, "  then a user must decide: %s\n", plan.Reason)
		case len(plan.Calls) == 0:
			fmt.Fprintln(out, "  no request: the update is closed")
		}
	}
}
