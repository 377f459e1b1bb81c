package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"landfall/appliance/audittrail"
	"landfall/appliance/command/remote"
	"landfall/appliance/sentence"
)

const (
	// followInterval is the interval in which --follow asks for new records.
	followInterval = time.Second
	// membersInterval is the number of these intervals between two looks at the members of a fleet.
	membersInterval = 30
)

// followed is a trail of which --follow prints the new records.
type followed struct {
	member string
	known  bool   // the number is known
	last   uint64 // number of the newest record that was printed, or of the newest one at the beginning
	told   string // why it can't be read now
}

// followRecords prints the records that are written from now on. In a fleet, these are those of the
// present leader and of its successors: all trails are read. A machine that is away is asked again.
// After the end of the fleet, the trail of the machine that was asked goes on.
func (l *list) followRecords(ctx context.Context, out, errOut io.Writer) error {
	var all []*followed
	var asked string // the member that was asked
	ended := false
	for tick := 0; ; tick++ {
		if ended || tick%membersInterval == 0 {
			members, by, err := l.trails.members(ctx)
			if err == nil {
				all = withMembers(all, members, asked)
				asked, ended = by, false
			} else if tick == 0 {
				return err
			}
		}
		for _, f := range all {
			err := l.printNew(ctx, f, out)
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				f.told = ""
			case f.member != "" && l.hasNoFleet(err):
				ended = true
			case !f.known && f.member == "" || !l.mayReturn(err):
				return err
			case f.told != err.Error():
				f.told = err.Error()
				fmt.Fprintf(errOut, "The records of %s are printed when it can be asked again. %s\n",
					cmp.Or(f.member, "the appliance"), sentence.New(err))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.clock.After(followInterval):
		}
	}
}

// mayReturn reports whether a trail may be read later, after an error. The next look at the members
// of a fleet shows whether the fleet has forgotten one.
func (l *list) mayReturn(err error) bool {
	_, unreachable := errors.AsType[*remote.UnreachableError](err)
	refused, ok := errors.AsType[*remote.RefusedError](err)
	return unreachable || isAway(err) || ok && refused.Status == http.StatusNotFound && l.trails.only == ""
}

// hasNoFleet reports whether an appliance refused to read the trail of a member because it is in no
// fleet.
func (l *list) hasNoFleet(err error) bool {
	refused, ok := errors.AsType[*remote.RefusedError](err)
	return ok && refused.Status == http.StatusBadRequest && l.trails.only == ""
}

// withMembers returns the trails of members; those that were followed before stay as they are. The
// trail of a single machine continues that of the member that was asked before.
func withMembers(all []*followed, members []string, asked string) []*followed {
	before := map[string]*followed{}
	for _, f := range all {
		before[f.member] = f
	}
	if last := before[asked]; !isFleet(members) && last != nil {
		last.member = ""
		before[""] = last
	}
	all = nil
	for _, name := range members {
		if before[name] == nil {
			before[name] = &followed{member: name}
		}
		all = append(all, before[name])
	}
	return all
}

// printNew prints the new records of a trail. The begin of an operation is not printed, because its
// end follows.
func (l *list) printNew(ctx context.Context, f *followed, out io.Writer) error {
	if !f.known {
		page, err := l.trails.page(ctx, f.member, nil, 0, 1)
		if err != nil {
			return err
		}
		if f.known = true; len(page.Items) > 0 {
			f.last = page.Items[0].Sequence
		}
	}
	text, err := l.trails.after(ctx, f.member, f.last)
	if err != nil {
		return err
	}
	for row := range strings.Lines(string(text)) {
		item := record{Member: f.member}
		if err := json.Unmarshal([]byte(row), &item.Item); err != nil || item.Sequence == 0 {
			continue // the signed head
		}
		f.last = item.Sequence
		if item.Kind == audittrail.Begin || !l.filter.Matches(&item.Record) {
			continue
		}
		if err := l.printLine(out, &item, row); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints a record, whose line in the trail is row.
func (l *list) printLine(out io.Writer, item *record, row string) error {
	if l.asJSON && item.Member != "" {
		name, err := json.Marshal(item.Member)
		if err != nil {
			return err
		}
		row = fmt.Sprintf(`{"member":%s,%s`, name, strings.TrimPrefix(row, "{"))
	}
	if l.asJSON {
		_, err := fmt.Fprint(out, row)
		return err
	}
	columns := []string{}
	for _, column := range newRecords(item.Member != "").Columns {
		columns = append(columns, column.Value(item))
	}
	_, err := fmt.Fprintln(out, sentence.Printable(strings.Join(columns, "  ")))
	return err
}
