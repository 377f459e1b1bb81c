package console

import (
	"cmp"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/audittrail"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/web/operation"
	"landfall/web/problem"
)

// AuditRoute is the route of the audit trail.
const AuditRoute = BasePath + "/audit"

// The largest and the default number of items of a page of the audit trail.
const (
	maxAuditItems     = 1000
	defaultAuditItems = 100
)

// memberParameter is the parameter with the name of the member of a fleet whose trail is read.
const memberParameter = "member"

type audit struct {
	own membership.OwnTrail
	of  membership.Trails
}

// AuditOperations returns the operations on audit trails: that of the appliance that answers, and
// those of other members of its fleet.
func AuditOperations(own membership.OwnTrail, of membership.Trails) []operation.Operation {
	a := audit{own, of}
	return []operation.Operation{
		{ID: "listAuditTrail", Method: http.MethodGet, Path: AuditRoute,
			Access: operation.For(access.Administrator), Handler: a.list, WithoutLeader: true,
			Summary: "List the changes and the readings of secrets, the newest first. member is the member of a " +
				"fleet whose audit trail is read, by default the one that leads",
			Parameters: []operation.Parameter{
				{Name: "since"}, {Name: "until"}, {Name: "person"}, {Name: "operation"}, {Name: "cluster"},
				{Name: "before", Type: operation.Number}, {Name: "limit", Type: operation.Number},
				{Name: memberParameter},
			},
			Status: http.StatusOK, Answer: audittrail.Page{}, Errors: []int{400, 404, 503}},
		{ID: "verifyAuditTrail", Method: http.MethodGet, Path: AuditRoute + "/verify",
			Access: operation.For(access.Administrator), Handler: a.verify, WithoutLeader: true,
			Summary: "Check whether the audit trail was altered or shortened. head is a head SEQUENCE:HASH that was " +
				"noted earlier, trust the fingerprint of a former key of the site, member the member of a fleet",
			Parameters: []operation.Parameter{
				{Name: "head", Type: operation.TextList}, {Name: "trust", Type: operation.TextList},
				{Name: memberParameter},
			},
			Status: http.StatusOK, Answer: audittrail.Report{}, Errors: []int{400, 404, 503}},
		{ID: "exportAuditTrail", Method: http.MethodGet, Path: AuditRoute + "/export",
			Access: operation.For(access.Administrator), Handler: a.export, WithoutLeader: true,
			Summary: "Download the records after a number as JSON lines; the last line is the signed head. member is " +
				"the member of a fleet whose audit trail is read",
			Parameters: []operation.Parameter{{Name: "after", Type: operation.Number}, {Name: memberParameter}},
			Status:     http.StatusOK, Answer: operation.File{}, Errors: []int{400, 404, 503}},
	}
}

// trail returns the audit trail that a request names.
func (a audit) trail(c echo.Context) (fleet.Trail, error) {
	member := c.QueryParam(memberParameter)
	if member == "" {
		return a.own, nil
	}
	return a.of(c.Request().Context(), member)
}

func (a audit) list(c echo.Context) error {
	filter := audittrail.Filter{Person: c.QueryParam("person"), Operation: c.QueryParam("operation"),
		Cluster: c.QueryParam("cluster"), Limit: defaultAuditItems}
	var err error
	if filter.Since, err = timeParameter(c, "since"); err != nil {
		return err
	}
	if filter.Until, err = timeParameter(c, "until"); err != nil {
		return err
	}
	if filter.Before, err = numberParameter(c, "before"); err != nil {
		return err
	}
	limit, err := numberParameter(c, "limit")
	switch {
	case err != nil:
		return err
	case limit > maxAuditItems:
		return problem.BadRequest("limit is %d; expected at most %d", limit, maxAuditItems)
	case limit > 0:
		filter.Limit = int(limit)
	}
	trail, err := a.trail(c)
	if err != nil {
		return err
	}
	page, err := trail.List(c.Request().Context(), filter)
	return answer(c, page, err)
}

func (a audit) verify(c echo.Context) error {
	var expect audittrail.Expect
	for _, texts := range c.QueryParams()["head"] {
		for text := range strings.SplitSeq(texts, ",") {
			head, err := audittrail.ParseHead(text)
			if err != nil {
				return problem.BadRequest("%v", err)
			}
			expect.Heads = append(expect.Heads, head)
		}
	}
	for _, texts := range c.QueryParams()["trust"] {
		expect.Trusted = append(expect.Trusted, strings.Split(texts, ",")...)
	}
	trail, err := a.trail(c)
	if err != nil {
		return err
	}
	report, err := trail.Verify(c.Request().Context(), expect)
	return answer(c, report, err)
}

func (a audit) export(c echo.Context) error {
	after, err := numberParameter(c, "after")
	if err != nil {
		return err
	}
	trail, err := a.trail(c)
	if err != nil {
		return err
	}
	name := cmp.Or(c.QueryParam(memberParameter), strconv.FormatUint(a.own.Head().Sequence, 10))
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, "application/jsonl")
	header.Set(echo.HeaderContentDisposition, mime.FormatMediaType("attachment",
		map[string]string{"filename": "audit-" + name + ".jsonl"}))
	header.Set(echo.HeaderCacheControl, "no-store")
	return trail.Export(c.Request().Context(), c.Response(), after) // the first bytes begin the answer
}

// timeParameter returns the time in a parameter of the query, or the zero time.
func timeParameter(c echo.Context, name string) (time.Time, error) {
	text := c.QueryParam(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, problem.BadRequest("%s is %q; expected a time such as 2026-03-01T12:00:00Z", name, text)
	}
	return at, nil
}

// numberParameter returns the number in a parameter of the query, or 0.
func numberParameter(c echo.Context, name string) (uint64, error) {
	text := c.QueryParam(name)
	if text == "" {
		return 0, nil
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, problem.BadRequest("%s is %q; expected a whole number", name, text)
	}
	return number, nil
}
