package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/audittrail"
	"landfall/appliance/command/remote"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/sentence"
	"landfall/web/console"
)

// trails are the audit trails of an appliance. The name of a member is "" on a single machine.
type trails struct {
	appliance remote.Client
	only      string // the member of --member; "": all
}

func (t *trails) addFlags(cmd *cobra.Command) {
	t.appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&t.only, "member", "", "only the audit trail of this member of a fleet")
}

// members returns the members whose trails are wanted, and the one that was asked. On a single
// machine, this is one without a name.
func (t *trails) members(ctx context.Context) (names []string, asked string, err error) {
	if t.only != "" {
		return []string{t.only}, t.only, nil
	}
	status, err := t.fleet(ctx)
	if err != nil {
		return nil, "", err
	}
	if status.Fleet == "" {
		return []string{""}, "", nil
	}
	for _, member := range status.Members {
		names = append(names, member.Name)
	}
	if len(names) == 0 { // etcd does not answer, and the member that was asked has just started
		names = append(names, status.Member)
	}
	return names, status.Member, nil
}

func (t *trails) fleet(ctx context.Context) (*membership.Status, error) {
	status := new(membership.Status)
	return status, t.appliance.Call(ctx, http.MethodGet, console.FleetRoute, nil, status)
}

func isFleet(members []string) bool { return members[0] != "" }

// path returns the path of a request for the trail of a member.
func path(operation, member string, query url.Values) string {
	if member != "" {
		query.Set("member", member)
	}
	return console.AuditRoute + operation + "?" + query.Encode()
}

// page returns the records of a member before a number, at most size; 0: the newest.
func (t *trails) page(ctx context.Context, member string, of url.Values, before uint64, size int) (
	*audittrail.Page, error) {
	query := url.Values{"limit": {strconv.Itoa(size)}}
	for name, values := range of {
		query[name] = values
	}
	if before > 0 {
		query.Set("before", strconv.FormatUint(before, 10))
	}
	page := new(audittrail.Page)
	return page, t.appliance.Call(ctx, http.MethodGet, path("", member, query), nil, page)
}

// verify returns the report of the appliance on the trail of a member.
func (t *trails) verify(ctx context.Context, member string, expect audittrail.Expect) (*audittrail.Report, error) {
	query := url.Values{"trust": expect.Trusted}
	for _, head := range expect.Heads {
		query.Add("head", head.String())
	}
	report := new(audittrail.Report)
	return report, t.appliance.Call(ctx, http.MethodGet, path("/verify", member, query), nil, report)
}

// after returns the lines of the trail of a member after a number.
func (t *trails) after(ctx context.Context, member string, number uint64) (text []byte, err error) {
	query := url.Values{"after": {strconv.FormatUint(number, 10)}}
	return text, t.appliance.Call(ctx, http.MethodGet, path("/export", member, query), nil, &text)
}

// away are the members whose trails can't be read now.
type away struct {
	members []string
	reasons []string
}

// isAway reports whether an error says that the trail of a member can't be read now.
func isAway(err error) bool {
	refused, ok := errors.AsType[*remote.RefusedError](err)
	return ok && refused.Status == http.StatusServiceUnavailable
}

func (a *away) add(member string, err error) {
	a.members, a.reasons = append(a.members, member), append(a.reasons, sentence.New(err))
}

func (a *away) names() string { return strings.Join(a.members, ", ") }

// warn says in one line which members are away, and what that means.
func (a *away) warn(errOut io.Writer, what string) {
	if len(a.members) > 0 {
		fmt.Fprintf(errOut, "%s: %s. %s\n", what, a.names(), strings.Join(a.reasons, " "))
	}
}
