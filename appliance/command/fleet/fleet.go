// Package fleet has the commands on a fleet: several machines with one state.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/config"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/process"
	"landfall/appliance/sentence"
	"landfall/web/console"
)

// New returns landfall fleet.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Run several machines as one appliance",
		Long: "A fleet is two or three machines with one state. Their log is in etcd. One member leads; when it " +
			"is lost, another one\ntakes over within seconds. landfall docs fleet describes it.",
	}
	cmd.AddCommand(newStatus(), newInit(), newJoin(), newLeave(), newForget(), newEnd())
	return cmd
}

func newStatus() *cobra.Command {
	a := action.New()
	cmd := a.Reading(&cobra.Command{
		Use:   "status",
		Short: "Show who leads, the members, and what a loss would cost",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var status membership.Status
			if err := a.Call(cmd.Context(), http.MethodGet, console.FleetRoute, nil, &status); err != nil {
				return err
			}
			if err := a.Format.Document(cmd.OutOrStdout(), "fleet", status.Fleet, &status,
				func(out io.Writer) error { return write(out, &status) }); err != nil || status.Problem != "" {
				return err // without etcd, a member may not know all others
			}
			return a.NoteMembers(status.URLs())
		},
	})
	a.Format.AddJSONFlag(cmd)
	return cmd
}

func write(out io.Writer, s *membership.Status) error {
	if s.Fleet == "" {
		_, err := fmt.Fprintln(out, s.Loss)
		return err
	}
	switch {
	case s.Problem != "":
		fmt.Fprintf(out, "This member is %s. It is not known which member leads.\n", s.Member)
	case s.Leading == "":
		fmt.Fprintln(out, "No member leads.")
	case s.Leader:
		fmt.Fprintf(out, "This member, %s, leads since %s.\n", s.Member, output.Time(s.Since))
	default:
		fmt.Fprintf(out, "This member is %s. %s leads since %s.\n", s.Member, s.Leading, output.Time(s.Since))
	}
	if err := writeMembers(out, s.Members); err != nil {
		return err
	}
	fmt.Fprintf(out, "The log in etcd (below %s) has %d records.\n", s.Prefix, s.Records)
	if v := s.VirtualIP; v != nil {
		fmt.Fprintf(out, "The virtual IP is %s, on the interface %s of the leader. %s\n", v.Address, v.Interface,
			v.Problem)
	}
	if err := writeServers(out, s); err != nil {
		return err
	}
	if s.Problem != "" {
		fmt.Fprintf(out, "The members are those that were known last. %s\n", s.Problem)
	}
	_, err := fmt.Fprintln(out, s.Loss)
	return err
}

func writeMembers(out io.Writer, members []membership.Member) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "MEMBER\tROLE\tURL\tVERSION\tRECORDS\tBEHIND\tLACKS\tCLOCK")
	versions := map[string]bool{}
	for _, m := range members {
		versions[m.Version] = true
		role, behind, clock := m.Role, "0", fmt.Sprintf("%+.1f s", m.ClockSeconds)
		lacks := "nothing"
		if missing := m.MissingContents + m.MissingLiveISOs + m.MissingBlobs; missing > 0 {
			lacks = sentence.Count(missing, "file")
		}
		if m.Behind > 0 {
			behind = fmt.Sprintf("%d (%.0f s)", m.Behind, m.LagSeconds)
		}
		if m.Role == membership.RoleAway {
			role, lacks, clock = "away since "+output.Time(m.Seen), "", ""
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", m.Name, role, m.URL, m.Version, m.Records, behind, lacks,
			clock)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(versions) > 1 {
		fmt.Fprintln(out, "The members have different versions of Landfall: upgrade the others.")
	}
	for _, m := range members {
		if m.Problem != "" {
			fmt.Fprintf(out, "%s: %s\n", m.Name, m.Problem)
		}
	}
	return nil
}

func writeServers(out io.Writer, s *membership.Status) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "ETCD\tVERSION\tSTATE\tLATENCY\tDATABASE")
	for _, server := range s.Servers {
		if server.Problem != "" {
			fmt.Fprintf(table, "%s\t\tdoes not answer\t\t\n", server.URL)
			continue
		}
		state := "answers"
		switch {
		case server.Damaged:
			state = "databases differ"
		case server.NoSpace:
			state = "no space"
		case server.Leader:
			state = "answers, leads etcd"
		}
		size := output.Size(server.Bytes)
		if server.QuotaBytes > 0 {
			size += " of " + output.Size(server.QuotaBytes)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.0f ms\t%s\n", server.URL, server.Version, state, 1000*server.LatencySeconds,
			size)
	}
	return table.Flush()
}

func newInit() *cobra.Command {
	a, wanted := action.New(), new(membership.Wanted)
	cmd := a.Changing(&cobra.Command{
		Use:   "init --etcd URL",
		Short: "Make a fleet whose first member is a running appliance",
		Long: "Make a fleet whose first member is a running appliance. Its data becomes that of the fleet. The " +
			"appliance goes on\nas the leader within a second; hosts and installations continue. Other machines " +
			"join with landfall fleet join.\nFiles for TLS connections to etcd are those of the configuration " +
			"(fleet.ca_file, fleet.cert_file, fleet.key_file).",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(wanted.Etcd) == 0 {
				return outcome.Usagef("--etcd is missing; give the URLs of etcd, such as --etcd http://192.0.2.5:2379")
			}
			body := action.Object{"etcd": wanted.Etcd}
			for key, value := range map[string]string{"prefix": wanted.Prefix, "name": wanted.Name,
				"url": wanted.URL} {
				if value != "" {
					body[key] = value
				}
			}
			if _, err := a.Send(cmd, http.MethodPost, console.FleetRoute, body); err != nil || a.DryRun {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "The fleet was made. This machine leads it. On another machine: "+
				"landfall fleet join URL")
			return err
		},
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&wanted.Etcd, "etcd", nil, "URLs of etcd")
	flags.StringVar(&wanted.Prefix, "prefix", "", "beginning of all keys in etcd; default: that of the configuration")
	flags.StringVar(&wanted.Name, "name", "", "name of the first member; default: the name of its machine")
	flags.StringVar(&wanted.URL, "member-url", "", "https:// URL by which other members reach the first one; default: "+
		"an address of its machine")
	return cmd
}

func newLeave() *cobra.Command {
	a := action.New()
	a.OnlyThis()
	return a.Removing(&cobra.Command{
		Use:   "leave",
		Short: "Make a member leave its fleet",
		Long: "Make the member that is asked leave its fleet. It stops, and its data directory can't be started " +
			"again, because the\nothers go on with the data. The directory still has all keys: erase it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.Confirm(cmd, "this member", "It leaves its fleet and stops."); err != nil {
				return err
			}
			if _, err := a.Send(cmd, http.MethodPost, console.FleetLeaveRoute, nil); err != nil || a.DryRun {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "The member leaves the fleet and stops.")
			return err
		},
	})
}

func newForget() *cobra.Command {
	a := action.New()
	return a.Removing(&cobra.Command{
		Use:   "forget MEMBER",
		Short: "Forget a member that is away and will not come back",
		Long: "Forget a member that is away and will not come back. It is no longer shown, and no longer reported as " +
			"away. A member\nthat comes back nevertheless is a member again.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := a.Confirm(cmd, "the member "+arguments[0], "The fleet forgets it."); err != nil {
				return err
			}
			route := console.FleetMembersRoute + "/" + url.PathEscape(arguments[0])
			if _, err := a.Send(cmd, http.MethodDelete, route, nil); err != nil || a.DryRun {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "The fleet has forgotten the member %s.\n", arguments[0])
			return err
		},
	})
}

func newEnd() *cobra.Command {
	a, dir := action.New(), ""
	a.OnlyThis()
	cmd := a.Removing(&cobra.Command{
		Use:   "end",
		Short: "End a fleet: its leader goes on as a single machine",
		Long: "End a fleet. The leader, which must be asked, goes on as a single machine without etcd. The other " +
			"members stop.\nIf etcd is lost for ever, no member can lead. Then stop all members, and give the data " +
			"directory of the one that goes on\n(--data-dir). Never start another one with its data again.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir != "" {
				return detach(cmd, a, dir)
			}
			if err := a.Confirm(cmd, "the fleet", "Its leader goes on as a single machine, and the other "+
				"members stop."); err != nil {
				return err
			}
			if _, err := a.Send(cmd, http.MethodDelete, console.FleetRoute, nil); err != nil || a.DryRun {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "The fleet has ended. This machine goes on as a single one.")
			return err
		},
	})
	cmd.Flags().StringVar(&dir, "data-dir", "", "data directory of a stopped member of a fleet that is lost")
	return cmd
}

// detach makes the data directory of a stopped member that of a single machine.
func detach(cmd *cobra.Command, a *action.Action, dir string) error {
	if err := a.Confirm(cmd, "the fleet of "+dir, "This machine goes on alone with its data. No other member may be "+
		"started again."); err != nil || a.DryRun {
		return err
	}
	if err := process.BecomeOwner(dir); err != nil {
		return err
	}
	if err := fleet.Detach(dir); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "The data directory is that of a single machine. Start it: landfall "+
		"serve --data-dir %s\n", dir)
	return err
}

// joining is a machine that joins a fleet.
type joining struct {
	appliance remote.Client
	dir       string
	tokenFile string
	name, url string
}

func newJoin() *cobra.Command {
	j := new(joining)
	cmd := &cobra.Command{
		Use:   "join URL",
		Short: "Make a data directory on this machine with which it joins a fleet",
		Long: "Get the keys and a snapshot of the data from a member of a fleet, and make a data directory with " +
			"them. landfall serve\nwith this directory then is a member. The command needs the role administrator: " +
			"log in first (landfall login URL), or\ngive a token.\nThe directory contains all secrets of the site, " +
			"like that of every member.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := cmd.Flags().Set("url", arguments[0]); err != nil {
				return err
			}
			if err := j.run(cmd.Context(), cmd.ErrOrStderr()); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "The data directory %s was made. Start the member: "+
				"landfall serve --data-dir %s\n", j.dir, j.dir)
			return err
		},
	}
	j.appliance.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&j.dir, "data-dir", config.Default().DataDir, "new data directory")
	flags.StringVar(&j.tokenFile, "token-file", "", "file with a token of the role administrator; default: "+
		"$LANDFALL_TOKEN, or that of landfall login")
	flags.StringVar(&j.name, "name", "", "name of this member; default: the name of the machine")
	flags.StringVar(&j.url, "member-url", "", "https:// URL by which other members reach this one; default: an "+
		"address of this machine")
	return cmd
}

func (j *joining) run(ctx context.Context, progress io.Writer) (err error) {
	from := &j.appliance
	if j.tokenFile != "" {
		token, err := os.ReadFile(j.tokenFile)
		if err != nil {
			return fmt.Errorf("read the token: %w", err)
		}
		from = from.As(strings.TrimSpace(string(token)))
	}
	var invitation membership.Invitation
	if err := from.Call(ctx, http.MethodGet, console.FleetInvitationRoute, nil, &invitation); err != nil {
		return err
	}
	name := j.name
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return fmt.Errorf("find the name of this machine: %w; give --name", err)
		}
	}
	var status membership.Status
	if err := from.Call(ctx, http.MethodGet, console.FleetRoute, nil, &status); err != nil {
		return err
	}
	for _, member := range status.Members {
		if member.Name == name {
			return fmt.Errorf("the fleet has a member with the name %s; give another one with --name", name)
		}
	}
	path := console.BackupRoute + "?" + url.Values{"key": {"true"}}.Encode()
	answer, err := from.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		text, err := io.ReadAll(answer.Body)
		return errors.Join(from.Refusal(http.MethodGet, path, answer, text), err)
	}
	meter := output.NewMeter(progress, "snapshot", 0)
	defer meter.End()
	state := fleet.State{Fleet: invitation.Fleet, Member: name, Etcd: invitation.Etcd, Prefix: invitation.Prefix,
		URL: j.url}
	return membership.Unpack(ctx, answer.Body, j.dir, &state)
}
