// Package registry has the commands on the appliance's own registry.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/registry"
	"landfall/appliance/registry/overlay"
	"landfall/appliance/sentence"
	"landfall/web/console"
)

// New returns the command landfall registry.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Show and change the appliance's own registry, which serves media as they lie there",
	}
	cmd.AddCommand(newStatus(), newAdd(), newRemove(), newVerify(), newStage(), newGC(), newHandOver())
	return cmd
}

func newStatus() *cobra.Command {
	appliance, format := new(remote.Client), new(output.Format)
	cluster := ""
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the media, what they hold and what they lack",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster != "" {
				return showCluster(cmd, appliance, format, cluster)
			}
			status := new(registry.Status)
			if err := appliance.Call(cmd.Context(), http.MethodGet, console.RegistryRoute, nil, status); err != nil {
				return err
			}
			return format.Document(cmd.OutOrStdout(), "registry", "site", status, func(out io.Writer) error {
				return write(out, status)
			})
		},
	}
	appliance.AddFlags(cmd.Flags())
	format.AddFlag(cmd)
	cmd.Flags().StringVar(&cluster, "cluster", "", "show only whether the cluster with this ID depends on the "+
		"registry, and when that was away")
	return cmd
}

// showCluster shows what a cluster needs of the registry.
func showCluster(cmd *cobra.Command, appliance *remote.Client, format *output.Format, id string) error {
	shown := new(console.ClusterRegistry)
	if err := appliance.Call(cmd.Context(), http.MethodGet,
		strings.Replace(console.ClusterRegistryRoute, ":cluster_id", url.PathEscape(id), 1), nil, shown); err != nil {
		return err
	}
	return format.Document(cmd.OutOrStdout(), "registry", id, shown, func(out io.Writer) error {
		if !shown.Depends {
			fmt.Fprintln(out, "The cluster does not depend on this appliance's registry.")
		} else {
			fmt.Fprintln(out, shown.Message)
		}
		for _, a := range shown.Absences {
			fmt.Fprintf(out, "away from %s to %s\n", output.Time(a.From),
				output.Time(a.To))
		}
		return nil
	})
}

func write(out io.Writer, status *registry.Status) error {
	fmt.Fprintf(out, "registry %s\n\n", status.Host)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MEDIUM\tFORM\tSTATE\tIMAGES\tSIZE\tPATH")
	for _, m := range status.Media {
		state := "present"
		if !m.Present {
			state = "missing since " + output.Time(m.Since)
		}
		if m.Staging.State != "" {
			state += ", " + copyState(m.Staging)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", m.Label, m.Form, state, m.Images, output.Size(m.Bytes), m.Path)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if err := writeClients(out, status); err != nil {
		return err
	}
	for _, release := range status.Releases {
		fmt.Fprintf(out, "release %s (%s) %s\n", release.Version, release.Architecture, release.Digest)
	}
	fmt.Fprintf(out, "pushed %s, copied %s, together at most %s; there is room for %s more\n",
		output.Size(status.PushedBytes), output.Size(status.StagedBytes), output.Size(status.LimitBytes),
		output.Size(status.RoomBytes))
	for _, d := range status.Dependents {
		fmt.Fprintf(out, "%s (%s) pulls from this registry\n", registry.NamesOf([]registry.Dependent{d})[0], d.Status)
	}
	for _, m := range status.Media {
		for _, problem := range m.Problems {
			fmt.Fprintf(out, "%s: %s\n", m.Label, problem)
		}
		if m.Staging.Message != "" {
			fmt.Fprintf(out, "%s: %s\n", m.Label, m.Staging.Message)
		}
		for _, digest := range m.Damaged {
			remedy := "; copy the medium again"
			if m.Staging.Message != "" {
				remedy = ""
			}
			fmt.Fprintf(out, "%s: %s is damaged%s\n", m.Label, digest, remedy)
		}
	}
	for _, unusable := range status.Unusable {
		fmt.Fprintf(out, "%s: %s\n", unusable.Path, unusable.Problem)
	}
	for _, note := range status.Notes {
		fmt.Fprintln(out, note)
	}
	for _, gap := range status.Gaps {
		fmt.Fprintf(out, "%s lacks %d parts, the first is %s\n", gap.Image, len(gap.Missing), gap.Missing[0])
	}
	return nil
}

// shownClients is how many clients people see. -o json has all.
const shownClients = 20

func writeClients(out io.Writer, status *registry.Status) error {
	if len(status.Clients) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nCLIENT\tHOST\tPULLS\tRATE\tSENT\tLAST")
	for i, c := range status.Clients {
		if i == shownClients {
			fmt.Fprintf(table, "and %d more; -o json has all\n", len(status.Clients)-i)
			break
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s/s\t%s\t%s\n", c.Address, cmp.Or(c.Host, "-"), c.Pulls,
			output.Size(c.Rate), output.Size(c.Bytes), output.Time(c.Last))
	}
	fmt.Fprintf(table, "all\t\t\t\t%s\n\n", output.Size(status.SentBytes))
	return table.Flush()
}

func newAdd() *cobra.Command {
	appliance := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "add PATH",
		Short: "Serve the media at a path of the appliance's machine, and allow the releases that lie there",
		Long: "Serve the media at a path of the appliance's machine: an archive, a folder, or a stick with several. " +
			"The path stays until\nlandfall registry remove PATH. The releases on the media may be used from now on, " +
			"so add only media that you trust.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			path, err := filepath.Abs(arguments[0])
			if err != nil {
				return err
			}
			status := new(registry.Status)
			call := func(ctx context.Context) error {
				return appliance.Call(ctx, http.MethodPost, console.RegistryMediaRoute,
					console.MediaRequest{Path: path}, status)
			}
			if err := metered(cmd, appliance, "add", onMedia, call); err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), status)
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}

func newRemove() *cobra.Command {
	appliance := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "remove PATH|MEDIUM",
		Short: "Stop serving the media at a path that was added, or forget a missing medium",
		Long: "Stop serving the media at a path that landfall registry add added, or forget a missing medium: its " +
			"label or path in\nlandfall registry status. The images that only it has are then unknown instead of " +
			"missing. The media themselves are not\ntouched. Their releases may still be used; landfall release " +
			"forget ends that.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			status := new(registry.Status)
			if err := appliance.Call(cmd.Context(), http.MethodPost, console.RegistryRemoveRoute,
				console.RemovalRequest{Medium: arguments[0]}, status); err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), status)
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}

// onMedia and onDisk return the bytes that a command changes.
func onMedia(s *registry.Status) (bytes int64) {
	for _, m := range s.Media {
		bytes += m.Bytes
	}
	return bytes
}

func onDisk(s *registry.Status) int64 { return s.PushedBytes + s.StagedBytes }

// metered makes a call whose answer may take long. On a terminal, it shows by how many bytes the
// registry has changed meanwhile.
func metered(cmd *cobra.Command, appliance *remote.Client, title string, measure func(*registry.Status) int64,
	call func(context.Context) error) error {
	errOut := cmd.ErrOrStderr()
	if !output.OnTerminal(errOut) {
		return call(cmd.Context())
	}
	group, ctx := errgroup.WithContext(cmd.Context())
	ended := make(chan struct{})
	group.Go(func() error {
		defer close(ended)
		return call(ctx)
	})
	group.Go(func() error {
		meter := output.NewMeter(errOut, title, 0)
		defer meter.End()
		before := int64(-1)
		for {
			status := new(registry.Status)
			// The other call says what is wrong with the appliance.
			if appliance.Call(ctx, http.MethodGet, console.RegistryRoute, nil, status) == nil {
				now := measure(status)
				if before < 0 {
					before = now
				}
				meter.Set(max(now-before, before-now), 0)
			}
			select {
			case <-ended:
				return nil
			case <-time.After(pollInterval):
			}
		}
	})
	return group.Wait()
}

// pollInterval is the time between two questions for the state of a comparison.
const pollInterval = time.Second

func newVerify() *cobra.Command {
	appliance := new(remote.Client)
	cmd := &cobra.Command{
		Use: "verify",
		Short: "Compare all blobs on media, in copies and of pushes with their digests; the exit code is 1 if one is " +
			"damaged",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return verify(cmd.Context(), appliance, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}

func verify(ctx context.Context, appliance *remote.Client, out, errOut io.Writer) error {
	status := new(registry.Status)
	if err := appliance.Call(ctx, http.MethodPost, console.RegistryVerifyRoute, nil, status); err != nil {
		return err
	}
	meter := output.NewMeter(errOut, "verify", 0)
	defer meter.End()
	interrupted := false
	for done := int64(0); ; done = status.Verify.Done {
		*status = registry.Status{}
		if err := appliance.Call(ctx, http.MethodGet, console.RegistryRoute, nil, status); err != nil {
			return err
		}
		if interrupted = status.Verify.Done < done; interrupted || !status.Verify.Running {
			break
		}
		meter.Set(status.Verify.Done, status.Verify.Total)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollInterval):
		}
	}
	meter.End()
	if interrupted || status.Verify.Total == 0 && !status.Verify.Finished {
		return errors.New("the comparison was interrupted, because the appliance restarted or another member leads " +
			"the fleet now; run landfall registry verify again")
	}
	for _, place := range status.Verify.Damaged {
		fmt.Fprintf(out, "damaged: %s\n", place)
	}
	switch {
	case status.Verify.Message != "":
		return errors.New("not all blobs could be verified: " + status.Verify.Message)
	case len(status.Verify.Damaged) > 0:
		return fmt.Errorf("the registry has %s; the lines above say what makes them sound",
			sentence.Count(len(status.Verify.Damaged), "damaged blob"))
	}
	fmt.Fprintf(out, "%s are sound\n", output.Size(status.Verify.Done))
	return nil
}

func newGC() *cobra.Command {
	appliance := new(remote.Client)
	cmd := &cobra.Command{
		Use: "gc",
		Short: "Remove pushed blobs that no image needs, uploads that nobody continued for a day, and unwanted " +
			"copies; never touches media",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			done := new(overlay.Collected)
			call := func(ctx context.Context) error {
				return appliance.Call(ctx, http.MethodPost, console.RegistryGCRoute, nil, done)
			}
			if err := metered(cmd, appliance, "gc", onDisk, call); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %s, %s\n", sentence.Count(done.Files, "file"),
				output.Size(done.Bytes))
			return nil
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}
