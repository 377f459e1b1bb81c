package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/registry/handover"
	"landfall/web/console"
)

// handOver is the command landfall registry hand-over.
type handOver struct {
	*action.Action
	format output.Format

	moveName, addMirror, needed, plan, detach, status, removeFirst, cancel bool
	ca, pullSecret, nodeSecret                                             string
	clusters                                                               []string
}

func newHandOver() *cobra.Command {
	h := &handOver{Action: action.New()}
	cmd := &cobra.Command{
		Use:   "hand-over [REGISTRY]",
		Short: "Hand the images over to a registry of the site, so that the appliance can leave",
		Long: `Copy the images of the appliance's registry to a registry of the site, prove them there, and let the
clusters use it. REGISTRY is host or host:port, with --add-mirror also with a path.

--move-name keeps everything in the clusters: when all is proven, the DNS name of the appliance's
registry must lead to REGISTRY, which needs a certificate for this name of a CA that the clusters trust.
The command shows the DNS record and waits for it.

--add-mirror adds REGISTRY to the mirror sets of the clusters as the second mirror, with its CA and the
credentials of --node-pull-secret, when all is proven. Then --remove-first removes the appliance's
registry from them. The nodes take over both, one after the other.

A trial upload finds what the registry refuses before anything is copied. The copy goes on after
interruptions and restarts, and what the registry has is not sent again.`,
		Example: `  landfall registry hand-over mirror.example.com:5000 --add-mirror --registry-ca ca.pem --pull-secret writer.json
  landfall registry hand-over --status
  landfall registry hand-over --remove-first`,
		Args: cobra.MaximumNArgs(1),
		RunE: h.run,
	}
	h.format.AddFlag(cmd)
	h.Removing(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&h.moveName, "move-name", false, "move the DNS name of the appliance's registry to REGISTRY")
	flags.BoolVar(&h.addMirror, "add-mirror", false, "add REGISTRY to the clusters as the second mirror")
	flags.StringVar(&h.ca, "registry-ca", "", "file with the CA of REGISTRY (PEM)")
	flags.StringVar(&h.pullSecret, "pull-secret", "", "file with an entry that may push to REGISTRY")
	flags.StringVar(&h.nodeSecret, "node-pull-secret", "", "file with the entry that nodes get to pull from REGISTRY")
	flags.BoolVar(&h.needed, "needed", false, "copy only the releases with which dependent clusters were installed")
	flags.BoolVar(&h.plan, "plan", false, "only show what would be copied")
	flags.BoolVar(&h.detach, "detach", false, "do not wait; --status shows the progress")
	flags.BoolVar(&h.status, "status", false, "show the hand-over")
	flags.BoolVar(&h.removeFirst, "remove-first", false,
		"remove the appliance's registry from the clusters that have both mirrors")
	flags.StringSliceVar(&h.clusters, "cluster", nil, "with --remove-first: only from these clusters (ID or full name)")
	flags.BoolVar(&h.cancel, "cancel", false, "stop the hand-over; what was copied and added stays")
	cmd.MarkFlagsMutuallyExclusive("move-name", "add-mirror", "status", "remove-first", "cancel")
	cmd.MarkFlagsOneRequired("move-name", "add-mirror", "status", "remove-first", "cancel")
	return cmd
}

func (h *handOver) run(cmd *cobra.Command, arguments []string) error {
	starts := h.moveName || h.addMirror
	switch {
	case starts && len(arguments) == 0:
		return outcome.Usagef("name the site's registry: landfall registry hand-over host:port")
	case !starts && len(arguments) > 0:
		return outcome.Usagef("this flag needs no registry; the hand-over knows it")
	case h.status:
		status, err := h.read(cmd.Context())
		if err != nil {
			return err
		}
		return h.show(cmd, status)
	case h.removeFirst:
		if err := h.Confirm(cmd, "remove", "The nodes lose the appliance's registry, one after the other. They "+
			"are drained for that."); err != nil {
			return err
		}
		return h.send(cmd, console.HandOverConfirmRoute, action.Object{"clusters": h.clusters})
	case h.cancel:
		return h.send(cmd, console.HandOverCancelRoute, nil)
	}
	return h.start(cmd, arguments[0])
}

func (h *handOver) read(ctx context.Context) (*handover.Status, error) {
	status := new(handover.Status)
	return status, h.Call(ctx, http.MethodGet, console.HandOverRoute, nil, status)
}

// send sends a request, and shows the hand-over until it waits for something.
func (h *handOver) send(cmd *cobra.Command, path string, body action.Object) error {
	answer, err := h.Send(cmd, http.MethodPost, path, body)
	if err != nil || answer == nil {
		return err
	}
	if h.detach || h.cancel {
		status, err := h.read(cmd.Context())
		if err != nil {
			return err
		}
		return h.show(cmd, status)
	}
	return h.follow(cmd)
}

func (h *handOver) start(cmd *cobra.Command, to string) error {
	body := action.Object{"to": to, "way": handover.MoveName, "needed": h.needed, "plan": true}
	if h.addMirror {
		body["way"] = handover.AddMirror
	}
	for field, name := range map[string]string{"ca": h.ca, "pull_secret": h.pullSecret, "node_secret": h.nodeSecret} {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		body[field] = string(text)
	}
	planned := new(handover.Status)
	if err := h.Call(cmd.Context(), http.MethodPost, console.HandOverRoute, body, planned); err != nil {
		return err
	}
	if h.plan {
		return h.format.Document(cmd.OutOrStdout(), "hand-over", "site", planned, func(out io.Writer) error {
			return writePlan(out, planned)
		})
	}
	if err := writePlan(cmd.ErrOrStderr(), planned); err != nil {
		return err
	}
	if err := h.Confirm(cmd, to, "The images are copied to "+to+"."); err != nil {
		return err
	}
	body["plan"] = false
	return h.send(cmd, console.HandOverRoute, body)
}

func writePlan(out io.Writer, planned *handover.Status) error {
	fmt.Fprintf(out, "%d images with %s are copied to %s\n", planned.Images, output.Size(planned.Bytes), planned.To)
	for _, image := range planned.Incomplete {
		fmt.Fprintf(out, "%s is left out, because parts of it are on no medium\n", image)
	}
	for _, cluster := range planned.Clusters {
		fmt.Fprintf(out, "%s depends on %s\n", cluster.Name, planned.Name)
	}
	return nil
}

// follow shows the progress until the hand-over ends or waits for a person.
func (h *handOver) follow(cmd *cobra.Command) error {
	out := cmd.ErrOrStderr()
	meter := output.NewMeter(out, "copied", 0)
	defer meter.End()
	shown := ""
	for {
		status, err := h.read(cmd.Context())
		if err != nil {
			return err
		}
		line := string(status.State) + ": " + status.Message
		if line != shown {
			meter.End()
			fmt.Fprintln(out, line)
			shown = line
		}
		switch status.State {
		case handover.Copying:
			meter.Set(status.BytesDone, status.Bytes)
		case handover.Refused:
			return errors.New("the hand-over was refused; correct this and start it again")
		case handover.Done, handover.Stopped, handover.Asking:
			meter.End()
			return h.show(cmd, status)
		case handover.Naming:
			if status.Record != nil {
				meter.End()
				return h.show(cmd, status)
			}
		}
		select {
		case <-cmd.Context().Done():
			fmt.Fprintln(out, "the hand-over goes on in the appliance; landfall registry hand-over --status shows it")
			return context.Cause(cmd.Context())
		case <-time.After(pollInterval):
		}
	}
}

func (h *handOver) show(cmd *cobra.Command, status *handover.Status) error {
	return h.format.Document(cmd.OutOrStdout(), "hand-over", "site", status, func(out io.Writer) error {
		return writeHandOver(out, status)
	})
}

func writeHandOver(out io.Writer, status *handover.Status) error {
	fmt.Fprintf(out, "%s of %s to %s, started by %s at %s\n", status.Way, status.Name, status.To, status.By,
		output.Time(status.Started))
	fmt.Fprintf(out, "%s since %s: %s\n", status.State, output.Time(status.Changed), status.Message)
	fmt.Fprintf(out, "copied %d of %d images, %s of %s\n", status.ImagesDone, status.Images,
		output.Size(status.BytesDone), output.Size(status.Bytes))
	for _, note := range status.Notes {
		fmt.Fprintln(out, note)
	}
	for _, image := range status.Incomplete {
		fmt.Fprintf(out, "%s was left out, because parts of it are on no medium\n", image)
	}
	for _, proof := range status.Proofs {
		fmt.Fprintf(out, "proof for %s: %s\n", proof.Name, proof.Summary)
	}
	if status.Record != nil && status.State != handover.Done {
		fmt.Fprintf(out, "\nset in the site's DNS:\n%s\n", status.Record.Text)
	}
	if len(status.Clusters) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nCLUSTER\tSTATE\tNODES")
	for _, cluster := range status.Clusters {
		var pools []string
		for _, pool := range cluster.Pools {
			pools = append(pools, fmt.Sprintf("%s %d/%d", pool.Name, pool.Updated, pool.Machines))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", cluster.Name, cluster.State, output.OrDash(strings.Join(pools, ", ")))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, cluster := range status.Clusters {
		if cluster.Message != "" {
			fmt.Fprintf(out, "%s: %s\n", cluster.Name, cluster.Message)
		}
	}
	return nil
}
