package registry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/registry"
	"landfall/web/console"
)

func newStage() *cobra.Command {
	appliance := new(remote.Client)
	var plan, cancel, wait bool
	cmd := &cobra.Command{
		Use:   "stage MEDIUM",
		Short: "Copy a medium to the appliance's disk while it is served, so that it can be removed",
		Long: "Copy a medium to the appliance's disk while it is served. MEDIUM is its label or path in landfall " +
			"registry status, or all.\nThe needed space is shown first, and a copy without room is refused. Pulls " +
			"have priority, and what they read is kept.\nWhen all is copied, the medium may be removed. A restart or " +
			"a removal of the medium does not lose what was copied.\nA compressed archive (gzip or zstd) is " +
			"unpacked, and served when all of it is on the disk.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			if cancel {
				if err := appliance.Call(ctx, http.MethodPost, console.RegistryCancelRoute,
					console.StageRequest{Medium: arguments[0]}, new(registry.Status)); err != nil {
					return err
				}
				fmt.Fprintln(out, "what was copied is served until landfall registry gc removes it")
				return nil
			}
			wanted := console.StageRequest{Medium: arguments[0], Plan: true}
			needs := new(registry.StagePlan)
			if err := appliance.Call(ctx, http.MethodPost, console.RegistryStageRoute, wanted, needs); err != nil {
				return err
			}
			needed := output.Size(needs.Needed)
			if needs.AtLeast {
				needed = "at least " + needed
			}
			fmt.Fprintf(out, "the copy of %s needs %s; there is room for %s, limited by %s\n",
				strings.Join(needs.Media, ", "), needed, output.Size(needs.Room), needs.LimitedBy)
			for _, path := range needs.LeftOut {
				fmt.Fprintf(out, "%s is left out: it is still being copied; order its copy when landfall registry "+
					"status shows it as a medium\n", path)
			}
			if plan {
				return nil
			}
			wanted.Plan = false
			if err := appliance.Call(ctx, http.MethodPost, console.RegistryStageRoute, wanted, needs); err != nil {
				return err
			}
			if !wait {
				fmt.Fprintln(out, "the copy runs in the background; landfall registry status shows it")
				return nil
			}
			return follow(ctx, appliance, out, needs.Media)
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&plan, "plan", false, "only show the needed space")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "stop copying; what was copied is served until landfall registry gc")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until all is copied, and show the progress")
	cmd.MarkFlagsMutuallyExclusive("plan", "cancel", "wait")
	return cmd
}

// follow shows the progress of copies until they end.
func follow(ctx context.Context, appliance *remote.Client, out io.Writer, labels []string) error {
	shown := map[string]string{}
	for {
		status := new(registry.Status)
		if err := appliance.Call(ctx, http.MethodGet, console.RegistryRoute, nil, status); err != nil {
			return err
		}
		running := 0
		for _, m := range status.Media {
			if !slices.Contains(labels, m.Label) {
				continue
			}
			switch m.Staging.State {
			case registry.StageDamaged:
				return fmt.Errorf("%s can't be copied completely: %s", m.Label, m.Staging.Message)
			case "":
				return fmt.Errorf("the copy of %s was cancelled", m.Label)
			case registry.StageWhole:
			default:
				running++
			}
			if line := m.Label + ": " + copyState(m.Staging); line != shown[m.Label] {
				shown[m.Label] = line
				fmt.Fprintln(out, line)
			}
		}
		if running == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollInterval):
		}
	}
}

// copyState describes the copy of a medium in a few words.
func copyState(s registry.Staging) string {
	percent := int64(100)
	if s.Total > 0 {
		percent = s.Done * 100 / s.Total
	}
	switch s.State {
	case registry.StageWhole:
		return "copied, the medium is not needed"
	case registry.StageCopying:
		return fmt.Sprintf("copying, %d %%", percent)
	}
	return fmt.Sprintf("copied %d %%, %s", percent, s.Message)
}
