// Package audit has the commands that read and verify the audit trail.
package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"

	"landfall/appliance/audittrail"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/web/console"
)

// followInterval is the interval in which --follow asks for new records.
const followInterval = time.Second

// list holds the options of landfall audit.
type list struct {
	appliance *remote.Client
	since     time.Duration
	filter    audittrail.Filter // without a time and a limit
	limit     int
	format    output.Format
	asJSON    bool
	follow    bool
	clock     clockwork.Clock
}

// New returns the command audit.
func New() *cobra.Command {
	l := &list{appliance: new(remote.Client), clock: clockwork.NewRealClock()}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, and who read which secret",
		Long: "Show the audit trail: every change and every reading of a secret, by whom, from where and with which " +
			"outcome,\nthe newest first. landfall audit verify checks that nobody altered it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.follow {
				if !l.format.Tabular() {
					return outcome.Usagef("--follow writes lines: use --json with it instead of -o")
				}
				return l.followRecords(cmd.Context(), cmd.OutOrStdout())
			}
			return l.show(cmd.Context(), cmd.OutOrStdout())
		},
	}
	l.appliance.AddFlags(cmd.Flags())
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

// maxPage is the largest number of items that the API returns at once.
const maxPage = 1000

func (l *list) show(ctx context.Context, out io.Writer) error {
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
	items := []audittrail.Item{}
	for left := l.limit; ; {
		query.Set("limit", strconv.Itoa(maxPage))
		if l.limit > 0 {
			query.Set("limit", strconv.Itoa(min(left, maxPage)))
		}
		var page audittrail.Page
		if err := l.appliance.Call(ctx, http.MethodGet, console.AuditRoute+"?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		if !l.asJSON {
			items = append(items, page.Items...)
		} else if err := writeLines(out, page.Items); err != nil {
			return err
		}
		left -= len(page.Items)
		if page.Next == 0 || l.limit > 0 && left <= 0 {
			break
		}
		query.Set("before", strconv.FormatUint(page.Next, 10))
	}
	if l.asJSON {
		return nil
	}
	return newRecords().Objects(out, &l.format, items)
}

func writeLines(out io.Writer, items []audittrail.Item) error {
	encoder := json.NewEncoder(out)
	for i := range items {
		if err := encoder.Encode(&items[i]); err != nil {
			return err
		}
	}
	return nil
}

// newRecords describes the records. Texts of clients are quoted if they could confuse a terminal.
func newRecords() *output.Kind[audittrail.Item] {
	column := func(title string, value func(*audittrail.Item) string) output.Column[audittrail.Item] {
		return output.Column[audittrail.Item]{Title: title, Value: value}
	}
	return &output.Kind[audittrail.Item]{
		Name:   "record",
		Empty:  "The audit trail has no such records.",
		NameOf: number,
		Columns: []output.Column[audittrail.Item]{
			column("RECORD", number),
			column("TIME", func(item *audittrail.Item) string { return item.Time.Format(time.RFC3339) }),
			column("ACTOR", actor),
			column("ADDRESS", func(item *audittrail.Item) string { return cmp.Or(item.Actor.Address, "-") }),
			column("OPERATION", operation),
			column("OUTCOME", result),
		},
	}
}

func number(item *audittrail.Item) string { return strconv.FormatUint(item.Sequence, 10) }

func actor(item *audittrail.Item) string {
	return printable(cmp.Or(strings.TrimSpace(string(item.Actor.Kind)+" "+item.Actor.Name), "-"))
}

func operation(item *audittrail.Item) string {
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

func result(item *audittrail.Item) string {
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

// followRecords prints the records that are written from now on. The begin of an operation is not
// printed, because its end follows.
func (l *list) followRecords(ctx context.Context, out io.Writer) error {
	var page audittrail.Page
	if err := l.appliance.Call(ctx, http.MethodGet, console.AuditRoute+"?limit=1", nil, &page); err != nil {
		return err
	}
	last := uint64(0)
	if len(page.Items) > 0 {
		last = page.Items[0].Sequence
	}
	for {
		var text []byte
		if err := l.appliance.Call(ctx, http.MethodGet, console.AuditRoute+"/export?after="+
			strconv.FormatUint(last, 10), nil, &text); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for row := range strings.Lines(string(text)) {
			var item audittrail.Item
			if err := json.Unmarshal([]byte(row), &item); err != nil || item.Sequence == 0 {
				continue // the signed head
			}
			last = item.Sequence
			if item.Kind == audittrail.Begin || !l.filter.Matches(&item.Record) {
				continue
			}
			if l.asJSON {
				fmt.Fprint(out, row)
			} else {
				columns := []string{}
				for _, column := range newRecords().Columns {
					columns = append(columns, column.Value(&item))
				}
				fmt.Fprintln(out, strings.Join(columns, "  "))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.clock.After(followInterval):
		}
	}
}

func newVerify() *cobra.Command {
	var heads, trusted []string
	var asJSON bool
	appliance := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "verify [FILE|DIRECTORY]",
		Short: "Check whether the audit trail was altered or shortened",
		Long: "Check whether the audit trail was altered or shortened. Without an argument, the running appliance " +
			"checks its own trail.\nWith a file of landfall audit export, or a copy of the directory audit of a data " +
			"directory, no appliance is needed;\n--trust names the fingerprint of the site's key, which the " +
			"appliance logs at its start.\n\nThe last line of the output is the head. Note it down elsewhere; a " +
			"later verification with --head finds out\nwhether the records up to it were replaced.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			expect := audittrail.Expect{Trusted: trusted}
			for _, text := range heads {
				head, err := audittrail.ParseHead(text)
				if err != nil {
					return err
				}
				expect.Heads = append(expect.Heads, head)
			}
			report, err := verify(cmd.Context(), appliance, arguments, expect)
			if err != nil {
				return err
			}
			return writeReport(cmd.OutOrStdout(), report, asJSON, len(arguments) > 0 && len(trusted) == 0)
		},
	}
	appliance.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringSliceVar(&heads, "head", nil, "head SEQUENCE:HASH that was noted earlier; may be repeated")
	flags.StringSliceVar(&trusted, "trust", nil, "fingerprint SHA256:… of a key of the site; may be repeated")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func verify(ctx context.Context, appliance *remote.Client, arguments []string, expect audittrail.Expect,
) (*audittrail.Report, error) {
	if len(arguments) == 0 {
		query := url.Values{"trust": expect.Trusted}
		for _, head := range expect.Heads {
			query.Add("head", head.String())
		}
		report := new(audittrail.Report)
		return report, appliance.Call(ctx, http.MethodGet, console.AuditRoute+"/verify?"+query.Encode(), nil, report)
	}
	info, err := os.Stat(arguments[0])
	if err != nil {
		return nil, fmt.Errorf("read the audit trail: %w", err)
	}
	if info.IsDir() {
		return audittrail.VerifyDir(arguments[0], expect)
	}
	file, err := os.Open(arguments[0])
	if err != nil {
		return nil, fmt.Errorf("read the audit trail: %w", err)
	}
	report, err := audittrail.VerifyExport(file, expect)
	return report, errors.Join(err, file.Close())
}

func writeReport(out io.Writer, report *audittrail.Report, asJSON, compare bool) error {
	if asJSON {
		if err := remote.WriteJSON(out, report); err != nil {
			return err
		}
	} else {
		for _, problem := range report.Problems {
			fmt.Fprintf(out, "problem: %s\n", problem)
		}
		for _, note := range report.Notes {
			fmt.Fprintf(out, "note: %s\n", note)
		}
		for _, key := range report.Keys {
			fmt.Fprintf(out, "signed with %s\n", key)
		}
		if compare {
			fmt.Fprintln(out, "note: compare the fingerprint with the one that the site publishes, or give --trust")
		}
		fmt.Fprintf(out, "%d records\nhead %s\n", report.Records, report.Last)
	}
	if !report.Intact() {
		return fmt.Errorf("the audit trail was altered or shortened (%d problems)", len(report.Problems))
	}
	return nil
}

func newExport() *cobra.Command {
	var output string
	var after uint64
	appliance := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the audit trail with its signed head, as JSON lines",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return export(cmd.Context(), appliance, after, output, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "-", "file; - is standard output")
	cmd.Flags().Uint64Var(&after, "after", 0, "only the records after this number")
	return cmd
}

func export(ctx context.Context, appliance *remote.Client, after uint64, to string, stdout, errOut io.Writer) (
	err error) {
	path := console.AuditRoute + "/export?after=" + strconv.FormatUint(after, 10)
	response, err := appliance.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode >= http.StatusBadRequest {
		answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err != nil {
			return err
		}
		return appliance.Refusal(http.MethodGet, path, response, answer)
	}
	if to == "-" {
		_, err := io.Copy(stdout, response.Body)
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", to, err)
	}
	body, end := output.Metered(errOut, "audit trail", response.Body, response.ContentLength)
	_, err = io.Copy(file, body)
	end()
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", to, errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}
