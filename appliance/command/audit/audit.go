// Package audit has the commands that read and verify the audit trails of an appliance: that of a
// single machine, or those of the members of a fleet.
//
//	audit.go    landfall audit, and the columns of records
//	trails.go   the trails of an appliance
//	merge.go    records of several trails by time
//	follow.go   landfall audit --follow
//	verify.go   landfall audit verify
//	export.go   landfall audit export
package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"

	"landfall/appliance/audittrail"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
)

// list holds the options of landfall audit.
type list struct {
	trails trails
	since  time.Duration
	filter audittrail.Filter // without a time and a limit
	limit  int
	format output.Format
	asJSON bool
	follow bool
	clock  clockwork.Clock
}

// New returns the command audit.
func New() *cobra.Command {
	l := &list{clock: clockwork.NewRealClock()}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, and who read which secret",
		Long: "Show the audit trail: every change and every reading of a secret, by whom, from where and with which " +
			"outcome,\nthe newest first. landfall audit verify checks that nobody altered it.\n\nEach member of a " +
			"fleet has a trail of the times when it led. The command shows the records of all members by time;\nit " +
			"names those that are away. With --follow, it goes on after a restart, a new leader and the " +
			"end of a fleet.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.follow {
				if !l.format.Tabular() {
					return outcome.Usagef("--follow writes lines: use --json with it instead of -o")
				}
				return l.followRecords(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return l.show(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	l.trails.addFlags(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&l.since, "since", 0, "only the time before now, such as 24h")
	flags.StringVar(&l.filter.Person, "person", "", "only an account or a token")
	flags.StringVar(&l.filter.Operation, "operation", "", "only an operation, such as v2DeregisterCluster")
	flags.StringVar(&l.filter.Cluster, "cluster", "", "only a cluster or another object, by its ID")
	flags.IntVar(&l.limit, "limit", 50, "largest number of records; 0 for all")
	l.format.AddFlag(cmd)
	flags.BoolVar(&l.asJSON, "json", false, "write each record as a line of JSON, as it arrives")
	flags.BoolVarP(&l.follow, "follow", "f", false, "print new records as they are written, until interrupted")
	cmd.AddCommand(newVerify(), newExport())
	return cmd
}

// record is a record of a trail.
type record struct {
	Member string `json:"member,omitempty"` // whose trail it is; "" on a single machine
	audittrail.Item
}

func (l *list) show(ctx context.Context, out, errOut io.Writer) error {
	members, _, err := l.trails.members(ctx)
	if err != nil {
		return err
	}
	query := url.Values{}
	for name, value := range map[string]string{"person": l.filter.Person, "operation": l.filter.Operation,
		"cluster": l.filter.Cluster} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if l.since > 0 {
		query.Set("since", l.clock.Now().Add(-l.since).UTC().Format(time.RFC3339))
	}
	records, lines := []record{}, json.NewEncoder(out)
	var unread damage
	m := merge{limit: l.limit, page: func(ctx context.Context, member string, before uint64, size int) (
		*audittrail.Page, error) {
		page, err := l.trails.page(ctx, member, query, before, size)
		if err == nil {
			unread.add(member, page.Unread)
		}
		return page, err
	}}
	away, err := m.run(ctx, members, func(one *record) error {
		if l.asJSON {
			return lines.Encode(one)
		}
		records = append(records, *one)
		return nil
	})
	if err != nil {
		return err
	}
	away.warn(errOut, "The records of these members are not shown")
	if !l.asJSON {
		if err := newRecords(isFleet(members)).Objects(out, &l.format, records); err != nil {
			return err
		}
	}
	return unread.err()
}

// damage are the parts of trails that can't be read, as clauses. Each page of a trail names them.
type damage []string

func (d *damage) add(member string, unread []audittrail.Unread) {
	for _, part := range unread {
		text := part.String()
		if member != "" {
			text = "at the member " + member + ", " + text
		}
		if !slices.Contains(*d, text) {
			*d = append(*d, text)
		}
	}
}

func (d damage) err() error {
	if len(d) == 0 {
		return nil
	}
	return fmt.Errorf("the records in damaged parts of the audit trail are not shown: %s; replace the disk, and look "+
		"for these records in an export, a backup or at the receiver of audit.syslog", strings.Join(d, "; "))
}

// newRecords describes the records. Texts of clients are quoted if they could confuse a terminal.
func newRecords(ofFleet bool) *output.Kind[record] {
	column := func(title string, value func(*record) string) output.Column[record] {
		return output.Column[record]{Title: title, Value: value}
	}
	columns := []output.Column[record]{
		column("RECORD", number),
		column("TIME", func(item *record) string { return output.Time(item.Time) }),
		column("ACTOR", actor),
		column("ADDRESS", func(item *record) string { return cmp.Or(item.Actor.Address, "-") }),
		column("OUTCOME", result),
		column("OPERATION", operation), // the longest text is at the end, where no other column moves
	}
	name := number
	if ofFleet {
		columns = append([]output.Column[record]{column("MEMBER", member)}, columns...)
		name = func(item *record) string { return item.Member + "/" + number(item) }
	}
	return &output.Kind[record]{Name: "record", Empty: "The audit trail has no such records.", NameOf: name,
		Columns: columns}
}

func member(item *record) string { return item.Member }

func number(item *record) string { return strconv.FormatUint(item.Sequence, 10) }

func actor(item *record) string {
	return printable(cmp.Or(strings.TrimSpace(string(item.Actor.Kind)+" "+item.Actor.Name), "-"))
}

func operation(item *record) string {
	text := strings.TrimSpace(cmp.Or(item.Operation, string(item.Kind)) + " " + item.Path)
	if name := item.Objects["name"]; name != "" && !strings.Contains(item.Path, name) {
		text += " " + name
	}
	if item.Text != "" {
		text += ": " + item.Text
	}
	if item.Repeated > 0 {
		text += fmt.Sprintf(" (%d more)", item.Repeated)
	}
	return printable(text)
}

func result(item *record) string {
	if item.Status > 0 {
		return strconv.Itoa(item.Status)
	}
	return cmp.Or(item.Outcome, "-")
}

func printable(text string) string {
	quoted := strconv.Quote(text)
	if quoted == `"`+text+`"` {
		return text
	}
	return quoted
}
