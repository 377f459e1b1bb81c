// Package rehearse has the command that rehearses the installation of a cluster.
package rehearse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/rehearsal"
	"landfall/appliance/sentence"
	"landfall/web/console"
)

// askAgain is the time between two requests for the progress.
const askAgain = 200 * time.Millisecond

// errRehearsal is the error of a failed rehearsal. The report contains the cause.
var errRehearsal = errors.New("the rehearsal failed: see the failed steps above")

// New returns the command.
func New() *cobra.Command {
	appliance := action.New()
	var cluster string
	var request rehearsal.Request
	cmd := &cobra.Command{
		Use:   "rehearse --cluster ID",
		Short: "Rehearse a cluster's installation with simulated hosts and the site's own registry and DNS",
		Long: "Rehearse the installation of a cluster with simulated hosts, in an isolated copy of the cluster. The " +
			"rehearsal checks the site's\nDNS names and clocks, the discovery image, the hosts' validations, every " +
			"image in the mirror, the release's own\nopenshift-install, the ignition configs and the stages of " +
			"the installation. The simulated hosts are copies of the registered\nhosts. Without registered " +
			"hosts, they come from the cluster's agent-based installer directory or static networks, or " +
			"from\nthe flags. The command prints a report. The exit code is 1 if a step failed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return outcome.Usagef("--cluster is missing; landfall cluster list lists all clusters")
			}
			if err := appliance.Resolve(cmd.Context(), &cluster); err != nil {
				return err
			}
			report, err := run(cmd.Context(), &appliance.Client, cluster, request, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			write := func(out io.Writer) error { return writeRehearsal(out, report) }
			err = appliance.Format.Document(cmd.OutOrStdout(), "rehearsal", report.ID, report, write)
			if err == nil && !report.Passed {
				err = errRehearsal
			}
			return err
		},
	}
	appliance.Formerly(cmd)
	flags := cmd.Flags()
	flags.StringVar(&cluster, "cluster", "", "ID or name of the cluster")
	flags.IntVar(&request.ControlPlanes, "control-planes", 0,
		"number of control-plane hosts, if no hosts are registered")
	flags.IntVar(&request.Workers, "workers", 0, "number of workers, if no hosts are registered")
	flags.IntVar(&request.Arbiters, "arbiters", 0, "number of arbiters, if no hosts are registered")
	return cmd
}

// run starts a rehearsal, prints its progress and waits for its end.
func run(ctx context.Context, c *remote.Client, cluster string, request rehearsal.Request,
	errOut io.Writer) (*rehearsal.Rehearsal, error) {
	path := console.BasePath + "/clusters/" + url.PathEscape(cluster) + "/rehearsals"
	report := new(rehearsal.Rehearsal)
	if err := c.Call(ctx, http.MethodPost, path, request, report); err != nil {
		return nil, err
	}
	doing := ""
	ticker := time.NewTicker(askAgain)
	defer ticker.Stop()
	for report.State == "running" {
		if report.Doing != doing && report.Doing != "" {
			doing = report.Doing
			fmt.Fprintf(errOut, "%s …\n", doing)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
		id := report.ID
		report = new(rehearsal.Rehearsal)
		if err := c.Call(ctx, http.MethodGet, path+"/"+id, nil, report); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// pageWidth is the width of a report's lines.
const pageWidth = 100

// writeRehearsal prints a report that fits on a page.
func writeRehearsal(out io.Writer, report *rehearsal.Rehearsal) error {
	result := "PASSED"
	if !report.Passed {
		result = "FAILED"
	}
	var page strings.Builder
	fmt.Fprintf(&page, "Rehearsal of cluster %s: %s\n", report.Cluster, result)
	fmt.Fprintf(&page, "%s, %.1f s; OpenShift %s; %s\n\n", output.Time(report.Started), report.Seconds,
		report.Release, report.Shape)
	for _, step := range report.Steps {
		fmt.Fprintf(&page, "%-8s %-18s %7.1f s\n", step.Result, step.Name, step.Seconds)
		wrap(&page, "         ", step.Message)
		if step.Advice != "" {
			wrap(&page, "         → ", step.Advice)
		}
	}
	fmt.Fprintln(&page)
	wrap(&page, "", "Not proven: "+strings.Join(report.NotProven, "; ")+".")
	_, err := io.WriteString(out, page.String())
	return err
}

// wrap breaks a text into lines with an indent. The mark in the indent appears in the first line
// only.
func wrap(out *strings.Builder, indent, text string) {
	width := utf8.RuneCountInString(indent)
	for _, line := range output.Wrap(text, pageWidth-width) {
		fmt.Fprintln(out, indent+sentence.Printable(line))
		indent = strings.Repeat(" ", width)
	}
}
