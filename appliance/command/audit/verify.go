package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/audittrail"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
)

// verification holds the options of landfall audit verify.
type verification struct {
	trails  trails
	heads   []string
	trusted []string
	asJSON  bool
}

func newVerify() *cobra.Command {
	v := new(verification)
	cmd := &cobra.Command{
		Use:   "verify [FILE|DIRECTORY]",
		Short: "Check whether the audit trail was altered or shortened",
		Long: "Check whether the audit trail was altered or shortened. Without an argument, the running appliance " +
			"checks its own trail.\nIn a fleet, each member checks its own. The exit code is 1 if a trail was " +
			"altered or shortened, and 4 if a member\nis away and the other trails are intact.\nWith a file of " +
			"landfall audit export, or a copy of the directory audit of a data directory, no appliance is " +
			"needed;\n--trust names the fingerprint of the site's key, which the appliance logs at its " +
			"start. A copy is reported as intact\nonly with --trust, and if a signed head or --head shows where " +
			"it ends.\n\nThe last line of the output is the head. Note it down elsewhere; a later verification " +
			"with --head finds out\nwhether the records up to it were replaced. The head of a member needs " +
			"--member.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			expect := audittrail.Expect{Trusted: v.trusted}
			for _, text := range v.heads {
				head, err := audittrail.ParseHead(text)
				if err != nil {
					return err
				}
				expect.Heads = append(expect.Heads, head)
			}
			if len(arguments) > 0 {
				return v.copied(cmd.OutOrStdout(), arguments[0], expect)
			}
			return v.running(cmd.Context(), cmd.OutOrStdout(), expect)
		},
	}
	v.trails.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&v.heads, "head", nil, "head SEQUENCE:HASH that was noted earlier; may be repeated")
	flags.StringSliceVar(&v.trusted, "trust", nil, "fingerprint SHA256:… of a key of the site; may be repeated")
	flags.BoolVar(&v.asJSON, "json", false, "write JSON")
	return cmd
}

// copied verifies an export, or a copy of a trail's directory.
func (v *verification) copied(out io.Writer, path string, expect audittrail.Expect) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read the audit trail: %w", err)
	}
	var report *audittrail.Report
	if info.IsDir() {
		report, err = audittrail.VerifyDir(path, expect)
	} else {
		report, err = verifyFile(path, expect)
	}
	if err != nil {
		return err
	}
	var open []string
	ended := slices.Contains(expect.Heads, report.Last)
	if info.IsDir() && !ended {
		open = append(open, "a directory has no signed head; a missing end is found only with --head and the newest "+
			"head")
	}
	if len(v.trusted) == 0 {
		open = append(open, "compare the fingerprint with the one that the site publishes, or give --trust")
	}
	return v.write(out, report, len(open) == 0 && (ended || report.Exported), open)
}

func verifyFile(path string, expect audittrail.Expect) (*audittrail.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the audit trail: %w", err)
	}
	report, err := audittrail.VerifyExport(file, expect)
	return report, errors.Join(err, file.Close())
}

// running verifies the trails of a running appliance.
func (v *verification) running(ctx context.Context, out io.Writer, expect audittrail.Expect) error {
	members, _, err := v.trails.members(ctx)
	if err != nil {
		return err
	}
	if !isFleet(members) {
		report, err := v.trails.verify(ctx, "", expect)
		if err != nil {
			return err
		}
		return v.write(out, report, true, nil)
	}
	if len(expect.Heads) > 0 && v.trails.only == "" {
		return outcome.Usagef("a head is that of one trail; name the member with --member: %s",
			strings.Join(members, ", "))
	}
	return v.fleet(ctx, out, members, expect)
}

// memberReport is the report on the trail of a member, or why there is none.
type memberReport struct {
	Member string             `json:"member"`
	Report *audittrail.Report `json:"report,omitempty"`
	Away   string             `json:"away,omitempty"`
}

// fleet verifies the trails of members.
func (v *verification) fleet(ctx context.Context, out io.Writer, members []string, expect audittrail.Expect) error {
	var altered []string
	var missing away
	reports := []memberReport{}
	for _, name := range members {
		report, err := v.trails.verify(ctx, name, expect)
		one := memberReport{Member: name}
		switch {
		case err == nil:
			if one.Report = report; !report.Intact() {
				altered = append(altered, name)
			}
		case !isAway(err):
			return err
		default:
			one.Away = err.Error()
			missing.add(name, err)
		}
		reports = append(reports, one)
		if !v.asJSON {
			one.write(out)
		}
	}
	if v.asJSON {
		if err := remote.WriteJSON(out, reports); err != nil {
			return err
		}
	}
	switch {
	case len(altered) > 0:
		return fmt.Errorf("the audit trail was altered or shortened on these members: %s", strings.Join(altered, ", "))
	case len(missing.members) > 0:
		return &outcome.CodeError{Code: outcome.Attention, Cause: fmt.Errorf("the audit trails of these members were "+
			"not verified: %s; verify them when they are there", missing.names())}
	}
	return nil
}

func (r memberReport) write(out io.Writer) {
	fmt.Fprintf(out, "member %s\n", r.Member)
	switch {
	case r.Report == nil:
		fmt.Fprintf(out, "not verified: %s\n", r.Away)
	case r.Report.Last.Sequence == 0 && r.Report.Intact():
		fmt.Fprintln(out, "no records: it has not led yet")
	default:
		writeReport(out, r.Report, true, nil)
	}
}

// write writes the report on one trail, as writeReport does.
func (v *verification) write(out io.Writer, report *audittrail.Report, complete bool, open []string) error {
	if !v.asJSON {
		writeReport(out, report, complete, open)
	} else if err := remote.WriteJSON(out, report); err != nil {
		return err
	}
	if !report.Intact() {
		return fmt.Errorf("the audit trail was altered or shortened (%d problems)", len(report.Problems))
	}
	return nil
}

// writeReport writes a report. complete is set if the verification finds every change; open says
// what it does not find.
func writeReport(out io.Writer, report *audittrail.Report, complete bool, open []string) {
	for _, problem := range report.Problems {
		fmt.Fprintf(out, "problem: %s\n", problem)
	}
	for _, note := range report.Notes {
		fmt.Fprintf(out, "note: %s\n", note)
	}
	for _, key := range report.Keys {
		fmt.Fprintf(out, "signed with %s\n", key)
	}
	for _, note := range open {
		fmt.Fprintf(out, "note: %s\n", note)
	}
	switch {
	case !report.Intact():
	case complete:
		fmt.Fprintln(out, "intact: the trail was neither altered nor shortened")
	default:
		fmt.Fprintln(out, "no problem was found; see the notes")
	}
	fmt.Fprintf(out, "%d records\nhead %s\n", report.Records, report.Last)
}
