package cluster

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/appliance/progress"
	"landfall/web/console"
)

func newProgress() *cobra.Command {
	a := action.New()
	shown := &output.Kind[progress.Progress]{Name: "cluster",
		NameOf: func(p *progress.Progress) string { return p.Name }}
	return a.Listing(&cobra.Command{
		Use:   "progress NAME",
		Short: "Explain an installation: stages with their durations, time left, cause of a failure",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			id, err := a.ClusterID(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			return a.Repeat(cmd, func() error {
				answer, err := a.Fetch(cmd.Context(), console.BasePath+"/clusters/"+id+"/progress")
				if err != nil {
					return err
				}
				return shown.One(cmd.OutOrStdout(), &a.Format, answer, explain)
			}, "clusters", "hosts")
		},
	})
}

func explain(d *output.Description, p *progress.Progress) {
	d.Add("Cluster", "%s, OpenShift %s", p.Name, p.Version)
	d.State("Status", p.Status)
	d.Add("Progress", "%d%%", p.Percent)
	if p.Estimate != nil {
		d.Add("Time left", "%s, by %d installations of this site", seconds(p.Estimate.Seconds),
			p.Estimate.Installations)
	}
	if failure := p.Failure; failure != nil {
		d.Heading(failure.Title)
		d.Add("Cause", "%s %s: %s", failure.Cause.Kind, failure.Cause.Name, failure.Cause.Text)
		for _, part := range failure.Stopped {
			d.Add("Stopped by it", "%s %s", part.Kind, part.Name)
		}
		for _, step := range failure.Advice {
			d.Add("To do", "%s", step.Text)
		}
	}
	stages(d, "Phases", p.Phases)
	for i := range p.Hosts {
		stages(d, "Host "+p.Hosts[i].Name, p.Hosts[i].Stages)
	}
	stages(d, "Finalizing", p.Finalizing)
}

func stages(d *output.Description, title string, all []progress.Stage) {
	if len(all) == 0 {
		return
	}
	d.Heading(title)
	for _, stage := range all {
		text := string(stage.State)
		if stage.Seconds > 0 {
			text += ", " + seconds(stage.Seconds)
		}
		if stage.Usual > 0 {
			text += fmt.Sprintf(" (usually %s)", seconds(stage.Usual))
		}
		if stage.Late {
			text += ", late"
		}
		d.State(stage.Name, text)
	}
}

func seconds(value float64) string {
	return (time.Duration(value * float64(time.Second))).Round(time.Second).String()
}
