// Package replica has the commands on the replica of an appliance: its state, its verification, and
// the replacement of the appliance that writes to it.
package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/backup"
	"landfall/appliance/command/action"
	commandbackup "landfall/appliance/command/backup"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/replica"
	"landfall/appliance/sentence"
	"landfall/web/console"
)

// New returns landfall replica.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replica",
		Short: "Show and verify the replica, the continuous copy of the data",
		Long: "A replica is a continuous copy of the data of an appliance, in a directory on another disk or " +
			"machine, or at a second\nappliance (replica.to in the configuration). It lacks at most the changes of " +
			"the last second. landfall restore restores\nit to any second of the last days; landfall promote " +
			"replaces the appliance.",
	}
	cmd.AddCommand(newStatus(), newVerify(), newClaim())
	return cmd
}

func newStatus() *cobra.Command {
	a := action.New()
	return a.Reading(&cobra.Command{
		Use:   "status [DIR]",
		Short: "Show the state of a running appliance's replica, or of a replica in a directory",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			out := cmd.OutOrStdout()
			if len(arguments) > 0 {
				found, err := replica.Reader{Directory: replica.Directory{Path: arguments[0]}}.Summary()
				if err != nil {
					return err
				}
				return a.Format.Document(out, "replica", arguments[0], found,
					func(out io.Writer) error { return writeSummary(out, found, time.Now()) })
			}
			var status console.Status
			if err := a.Call(cmd.Context(), http.MethodGet, console.BasePath+"/status", nil, &status); err != nil {
				return err
			}
			if status.Replica == nil {
				return errors.New("the appliance has no replica; set replica.to in its configuration")
			}
			return a.Format.Document(out, "replica", status.Replica.Place, status.Replica,
				func(out io.Writer) error { return writeState(out, status.Replica) })
		},
	})
}

func writeState(out io.Writer, state *replica.State) error {
	fmt.Fprintf(out, "Replica in %s\n", state.Place)
	switch {
	case state.Failure != "":
		fmt.Fprintf(out, "It lacks the changes since %s: %s\n", state.Shipped.Format(time.RFC3339), state.Failure)
	case !state.Ready:
		fmt.Fprintln(out, "The first snapshot is being written.")
	default:
		fmt.Fprintf(out, "It has all changes up to %.1f s ago.\n", state.Lag)
	}
	if state.PruneFailure != "" {
		fmt.Fprintf(out, "States that are too old stay in it: %s\n", state.PruneFailure)
	}
	usage := state.Usage
	if usage.Snapshots > 0 {
		fmt.Fprintf(out, "%s, %s. It can be restored to any time since %s.\n",
			sentence.Count(usage.Snapshots, "snapshot"),
			output.Size(usage.Bytes), usage.Oldest.Format(time.RFC3339))
	}
	return nil
}

func writeSummary(out io.Writer, s *replica.Summary, now time.Time) error {
	if s.Owner != nil {
		fmt.Fprintf(out, "The appliance %s writes to it since %s.\n", s.Owner.Name, s.Owner.Since.Format(time.RFC3339))
		if s.Owner.Former != "" {
			fmt.Fprintf(out, "It was promoted in place of %s.\n", s.Owner.Former)
		}
	}
	if beat := s.Heartbeat; beat != nil && beat.Stopped {
		fmt.Fprintf(out, "The appliance was stopped at %s.\n", beat.Time.Format(time.RFC3339))
	} else if beat != nil {
		fmt.Fprintf(out, "The appliance was alive %s ago.\n", now.Sub(beat.Time).Round(time.Second))
	}
	if s.Snapshots == 0 {
		fmt.Fprintln(out, "It has no complete snapshot yet, so it can't be restored.")
		return nil
	}
	fmt.Fprintf(out, "%s, %s. It can be restored to any time since %s.\n", sentence.Count(s.Snapshots, "snapshot"),
		output.Size(s.Bytes), s.Oldest.Format(time.RFC3339))
	return nil
}

type verifying struct {
	format  output.Format
	opening commandbackup.Opening
}

func newVerify() *cobra.Command {
	v := new(verifying)
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Read a whole replica and say what is damaged",
		Long: "Read every snapshot and every frame of the log of a replica, compare them with their checksums, and " +
			"check that no\nchange is missing. The exit code is 0 if everything is whole, and 1 if something is " +
			"damaged.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return v.run(cmd.Context(), arguments[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	v.format.AddFlag(cmd)
	v.opening.AddFlags(cmd.Flags())
	return cmd
}

func (v *verifying) run(ctx context.Context, dir string, out, errOut io.Writer) error {
	identities, err := v.opening.Identities()
	if err != nil {
		return err
	}
	meter := output.NewMeter(errOut, "verify", 0)
	defer meter.End()
	found, err := replica.Reader{Directory: replica.Directory{Path: dir}, Identities: identities,
		Progress: meter.Set}.Verify(ctx)
	meter.End()
	if err != nil {
		return err
	}
	if err := v.format.Document(out, "replica", dir, found,
		func(out io.Writer) error { return writeVerified(out, found) }); err != nil {
		return err
	}
	if len(found.Damage) > 0 {
		return &outcome.CodeError{Code: outcome.Failure}
	}
	return nil
}

func writeVerified(out io.Writer, s *replica.Summary) error {
	fmt.Fprintf(out, "Read: %s, %s and %s.\n", sentence.Count(s.Snapshots, "snapshot"),
		sentence.Count(s.Frames, "frame"), sentence.Count(s.Objects, "content"))
	if s.Unread > 0 {
		fmt.Fprintf(out, "%d of them are encrypted and were not opened; give --identity to check them.\n", s.Unread)
	}
	for _, damage := range s.Damage {
		fmt.Fprintf(out, "%s: %s\n", damage.Path, damage.Reason)
	}
	if len(s.Damage) == 0 {
		fmt.Fprintln(out, "Everything is whole.")
	}
	return nil
}

// place is where a replica is: a directory, or a second appliance.
type place interface {
	Signs(ctx context.Context) (*replica.Signs, error)
	Claim(ctx context.Context, owner replica.Owner) error
}

// guard lets a person decide about the appliance that owns a replica.
type guard struct {
	action *action.Action
	force  bool
}

func (g *guard) addFlags(cmd *cobra.Command) {
	g.action = action.New()
	cmd.Flags().BoolVarP(&g.action.Yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&g.force, "force", false, "go on although the other appliance seems to be alive")
}

// watched is the time for which a replica is watched for signs of life. Heartbeats come each five
// seconds, and the clocks of two machines may differ.
const watched = 7 * time.Second

// check returns an error unless a person has decided that the owner is replaced.
func (g *guard) check(cmd *cobra.Command, at place, id string) error {
	first, err := at.Signs(cmd.Context())
	if err != nil {
		return err
	}
	owner := first.Owner
	if owner == nil {
		return fmt.Errorf("the directory %s contains no replica", first.Dir)
	}
	if owner.ID == id {
		return nil
	}
	alive, said, err := signs(cmd.Context(), cmd.ErrOrStderr(), at, first)
	if err != nil {
		return err
	}
	if alive && !g.force {
		return fmt.Errorf("%s Two appliances must not serve one site: stop it first. If it can't be stopped, and no "+
			"host can reach it, give --force", said)
	}
	return g.action.Confirm(cmd, owner.Name, said+" It is replaced: when it starts again and reaches this replica, it "+
		"refuses to serve. Until then, nothing stops it: be sure that it is off.")
}

// signs says when the owner of a replica was alive last.
func signs(ctx context.Context, errOut io.Writer, in place, before *replica.Signs) (alive bool, said string,
	err error) {
	owner, first := before.Owner, before.Heartbeat
	if first != nil && first.Stopped {
		at := first.Time.Format(time.RFC3339)
		return false, fmt.Sprintf("The appliance %s was stopped at %s.", owner.Name, at), nil
	}
	fmt.Fprintf(errOut, "Watching for signs of life of %s for %s.\n", owner.Name, watched)
	select {
	case <-ctx.Done():
		return false, "", ctx.Err()
	case <-time.After(watched):
	}
	after, err := in.Signs(ctx)
	if err != nil {
		return false, "", err
	}
	second := after.Heartbeat
	if second == nil {
		return false, fmt.Sprintf("The appliance %s has given no sign of life.", owner.Name), nil
	}
	said = fmt.Sprintf("The appliance %s was alive %s ago.", owner.Name, time.Since(second.Time).Round(time.Second))
	return !second.Stopped && (first == nil || *second != *first), said, nil
}

func newClaim() *cobra.Command {
	g := new(guard)
	var data, token, authority string
	cmd := &cobra.Command{
		Use:   "claim DIR|URL --data-dir DIR",
		Short: "Let the appliance of a data directory write to a replica that another one owns",
		Long: "An appliance refuses to start when its replica belongs to another appliance, for example because the " +
			"replica was\npromoted. This command decides for the data directory, and against the other appliance. " +
			"The states of the other\none stay in the replica until they are too old.\n\nA URL is that of a second " +
			"appliance that receives the replica.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if data == "" {
				return outcome.Usagef("--data-dir is missing: name the data directory of the appliance that goes on")
			}
			if _, err := os.Stat(data); err != nil {
				return fmt.Errorf("read the data directory: %w", err)
			}
			var at place = replica.Directory{Path: arguments[0]}
			if strings.Contains(arguments[0], "://") {
				at = replica.Remote{URL: strings.TrimRight(arguments[0], "/"), TokenFile: token, CAFile: authority}
			}
			id, err := replica.ID(data)
			if err != nil {
				return err
			}
			if err := g.check(cmd, at, id); err != nil {
				return err
			}
			owner := replica.Owner{ID: id, Name: thisMachine(), Since: time.Now()}
			if err := at.Claim(cmd.Context(), owner); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The replica belongs to %s. Start the appliance.\n", data)
			return err
		},
	}
	cmd.Flags().StringVar(&data, "data-dir", "", "data directory of the appliance that goes on")
	cmd.Flags().StringVar(&token, "token-file", "", "file with the credential for a second appliance "+
		"(replica.token_file)")
	cmd.Flags().StringVar(&authority, "ca", "", "file with the certificate authority of a second appliance "+
		"(replica.ca_file)")
	g.addFlags(cmd)
	return cmd
}

// thisMachine names this machine until its appliance starts and writes its URL.
func thisMachine() string {
	name, err := os.Hostname()
	if err != nil {
		return "of another machine"
	}
	return "on " + name
}

type promotion struct {
	guard
	dir, at string
	opening commandbackup.Opening
}

// NewPromote returns landfall promote.
func NewPromote() *cobra.Command {
	p := new(promotion)
	cmd := &cobra.Command{
		Use:   "promote DIR --data-dir DIR",
		Short: "Replace a lost appliance by its replica",
		Long: "Restore the newest state of a replica into a new data directory, and make it the owner of the " +
			"replica. The\nappliance that wrote to the replica is replaced: it refuses to serve as soon as it " +
			"reaches the replica again.\n\nThe command says when that appliance was alive last, and asks. While " +
			"it is alive, the command refuses.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error { return p.run(cmd, arguments[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&p.dir, "data-dir", "", "new data directory")
	flags.StringVar(&p.at, "at", "", "time of the state, such as 2026-03-01T12:00:00Z; default: the newest")
	p.opening.AddFlags(flags)
	p.opening.AddKeyFlag(flags)
	p.addFlags(cmd)
	return cmd
}

func (p *promotion) run(cmd *cobra.Command, from string) error {
	if p.dir == "" {
		return outcome.Usagef("--data-dir is missing: name the new data directory")
	}
	at, err := commandbackup.ParseTime(p.at)
	if err != nil {
		return err
	}
	identities, err := p.opening.Identities()
	if err != nil {
		return err
	}
	reader := replica.Reader{Directory: replica.Directory{Path: from}, Identities: identities}
	if err := p.check(cmd, reader.Directory, ""); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	meter := output.NewMeter(cmd.ErrOrStderr(), "restore", 0)
	defer meter.End()
	manifest, err := reader.Promote(cmd.Context(), at, thisMachine(), backup.Target{Dir: p.dir, Now: time.Now,
		Progress: meter,
		Describe: func(m *backup.Manifest, dir string) error {
			meter.End()
			content, err := backup.DescribeWith(cmd.Context(), m, dir, p.opening.Keys())
			if err != nil {
				return err
			}
			return content.Write(out)
		}})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The data directory %s has the state of %s, and owns the replica.\n", p.dir,
		manifest.Time.Format(time.RFC3339))
	return commandbackup.StartNotice(out, manifest, p.dir)
}
