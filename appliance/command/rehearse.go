package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/web/console"
)

// errRehearsal is the end of a rehearsal in which something failed. The report has said what.
var errRehearsal = errors.New("the rehearsal failed: see above what and what to do")

func newRehearse() *cobra.Command {
	appliance := &client{}
	var cluster string
	var asJSON bool
	var wanted console.RehearsalRequest
	cmd := &cobra.Command{
		Use:   "rehearse --cluster ID",
		Short: "Play a cluster's installation, all but the boot, against the site's own registry and DNS",
		Long: "Have a running appliance play the installation of a cluster with simulated hosts, in a copy that is " +
			"thrown away: names and\n" +
			"clocks of the site, the discovery image, the hosts' validations, every image in the mirror, the " +
			"release's own\n" +
			"openshift-install, the ignition configs, the stages. The hosts are like those that have reported, or " +
			"like those that the\n" +
			"cluster's folder or static networks tell of, or as many as are asked for. Ends with a report of a page, " +
			"and with 1 if\n" +
			"anything failed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := appliance.resolveOne(cmd.Context(), &cluster); err != nil {
				return err
			}
			played, err := appliance.rehearse(cmd.Context(), cluster, wanted, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), played)
			} else {
				err = writeRehearsal(cmd.OutOrStdout(), played)
			}
			if err == nil && !played.Passed {
				err = errRehearsal
			}
			return err
		},
	}
	appliance.addFlag(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&cluster, "cluster", "", "id or name of the cluster")
	flags.IntVar(&wanted.ControlPlanes, "control-planes", 0, "number of control-plane hosts, where no hosts are known")
	flags.IntVar(&wanted.Workers, "workers", 0, "number of workers, where no hosts are known")
	flags.IntVar(&wanted.Arbiters, "arbiters", 0, "number of arbiters, where no hosts are known")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// rehearse starts a rehearsal and waits for its end, saying what it does.
func (c *client) rehearse(ctx context.Context, cluster string, wanted console.RehearsalRequest,
	errOut io.Writer) (*console.Rehearsal, error) {
	path := console.BasePath + "/clusters/" + url.PathEscape(cluster) + "/rehearsals"
	played := new(console.Rehearsal)
	if err := c.call(ctx, http.MethodPost, path, wanted, played); err != nil {
		return nil, err
	}
	doing := ""
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for played.State == "running" {
		if played.Doing != doing && played.Doing != "" {
			doing = played.Doing
			fmt.Fprintf(errOut, "%s …\n", doing)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
		id := played.ID
		played = new(console.Rehearsal)
		if err := c.call(ctx, http.MethodGet, path+"/"+id, nil, played); err != nil {
			return nil, err
		}
	}
	return played, nil
}

// pageWidth is how long the lines of a report are.
const pageWidth = 100

// writeRehearsal writes a report that fits a page.
func writeRehearsal(out io.Writer, played *console.Rehearsal) error {
	verdict := "PASSED"
	if !played.Passed {
		verdict = "FAILED"
	}
	var page strings.Builder
	fmt.Fprintf(&page, "Rehearsal of cluster %s: %s\n", played.Cluster, verdict)
	fmt.Fprintf(&page, "%s, %.1f s; OpenShift %s; %s\n\n", played.Started.Format(time.DateTime+" MST"), played.Seconds,
		played.Release, played.Shape)
	for _, step := range played.Steps {
		fmt.Fprintf(&page, "%-8s %-18s %7.1f s\n", step.Verdict, step.Name, step.Seconds)
		wrap(&page, "         ", step.Said)
		if step.Do != "" {
			wrap(&page, "         → ", step.Do)
		}
	}
	fmt.Fprintln(&page)
	wrap(&page, "", "Not proven: "+strings.Join(played.NotProven, "; ")+".")
	_, err := io.WriteString(out, page.String())
	return err
}

// wrap writes a text in lines that begin with an indent; the indent's mark stands in the first one
// only.
func wrap(out *strings.Builder, indent, text string) {
	blank := strings.Repeat(" ", len([]rune(indent)))
	line := indent
	for i, word := range strings.Fields(text) {
		if i > 0 && len(line)+1+len(word) > pageWidth {
			fmt.Fprintln(out, strings.TrimRight(line, " "))
			line = blank
		}
		if strings.TrimSpace(line) != "" && line != indent {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(out, line)
}
