package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"

	"landfall/appliance/audittrail"
	"landfall/appliance/fault"
)

// Trail is the audit trail of a member. *audittrail.Trail and audittrail.Reader implement it.
type Trail interface {
	List(ctx context.Context, filter audittrail.Filter) (*audittrail.Page, error)
	Verify(ctx context.Context, expect audittrail.Expect) (*audittrail.Report, error)
	Export(ctx context.Context, w io.Writer, after uint64) error
}

// TrailName returns the name under which the store keeps the head of a member's audit trail.
// directory is the ID of its data directory: a machine that joins again under its former name has
// other files, so it has another trail.
func TrailName(member, directory string) string { return member + "/" + directory }

// SingleTrail returns the name of the audit trail of a single machine: "", or that of the member that
// it was. In the database that the members shared, the trail "" is that of the machine that made the
// fleet. The caller has found that the state of the directory can be read.
func SingleTrail(dir string) string {
	state, err := ReadState(dir)
	if err != nil || state == nil {
		return ""
	}
	return TrailName(state.Member, state.ID)
}

// Paths of the requests for the audit trail of a member, and their parameters. The filter and what
// is expected are JSON.
const (
	listPath   = trailPath + "list"
	verifyPath = trailPath + "verify"
	exportPath = trailPath + "export"

	filterParameter = "filter"
	expectParameter = "expect"
	afterParameter  = "after"
)

// trail answers requests for the audit trail of this member.
func (p *Peers) trail(w http.ResponseWriter, r *http.Request) {
	var err error
	switch r.URL.Path {
	case listPath:
		err = p.listTrail(w, r)
	case verifyPath:
		err = p.verifyTrail(w, r)
	case exportPath:
		err = p.exportTrail(w, r)
	default:
		err = p.unknown(r)
	}
	if err != nil {
		p.Refuse(w, r, err)
	}
}

func (p *Peers) listTrail(w http.ResponseWriter, r *http.Request) error {
	var filter audittrail.Filter
	if err := decode(r, filterParameter, &filter); err != nil {
		return err
	}
	page, err := p.Trail.List(r.Context(), filter)
	if err != nil {
		return err
	}
	writeJSON(w, page)
	return nil
}

// verifyTrail answers with a report. The answer begins before the verification, which may take
// longer than a member waits for the begin of an answer.
func (p *Peers) verifyTrail(w http.ResponseWriter, r *http.Request) error {
	var expect audittrail.Expect
	if err := decode(r, expectParameter, &expect); err != nil {
		return err
	}
	err := begin(w)
	if err == nil {
		var report *audittrail.Report
		if report, err = p.Trail.Verify(r.Context(), expect); err == nil {
			err = json.NewEncoder(w).Encode(report)
		}
	}
	p.interruptAfter(r, err)
	return nil
}

func (p *Peers) exportTrail(w http.ResponseWriter, r *http.Request) error {
	var after uint64
	if err := decode(r, afterParameter, &after); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/jsonl")
	p.interruptAfter(r, p.Trail.Export(r.Context(), w, after))
	return nil
}

func decode(r *http.Request, parameter string, into any) error {
	if err := json.Unmarshal([]byte(r.URL.Query().Get(parameter)), into); err != nil {
		return fault.New(fault.Invalid, "the parameter %s is no JSON: %v", parameter, err)
	}
	return nil
}

// interruptAfter ends an answer after an error, so that the member does not take it for complete.
func (p *Peers) interruptAfter(r *http.Request, err error) {
	if err != nil {
		p.Logger.WarnContext(r.Context(), "The audit trail could not be given to another member.",
			"member", sender(r), "error", err)
		panic(http.ErrAbortHandler)
	}
}

// Trail returns the audit trail of a member. kept is the newest record that the store knows of it:
// a verification must find it.
func (c *Client) Trail(of Peer, kept audittrail.Head) Trail { return trailOf{c, of, kept} }

// trailOf is the audit trail of another member.
type trailOf struct {
	client *Client
	of     Peer
	kept   audittrail.Head
}

// List implements Trail.
func (t trailOf) List(ctx context.Context, filter audittrail.Filter) (*audittrail.Page, error) {
	page := new(audittrail.Page)
	return page, t.ask(ctx, listPath, filterParameter, filter, readJSON(page))
}

// Verify implements Trail.
func (t trailOf) Verify(ctx context.Context, expect audittrail.Expect) (*audittrail.Report, error) {
	expect.Heads = append(expect.Heads[:len(expect.Heads):len(expect.Heads)], t.kept)
	report := new(audittrail.Report)
	return report, t.ask(ctx, verifyPath, expectParameter, expect, readJSON(report))
}

// Export implements Trail.
func (t trailOf) Export(ctx context.Context, w io.Writer, after uint64) error {
	return t.ask(ctx, exportPath, afterParameter, after, func(body io.Reader) error {
		_, err := io.Copy(w, body)
		return err
	})
}

func readJSON(into any) func(io.Reader) error {
	return func(body io.Reader) error { return json.NewDecoder(body).Decode(into) }
}

// ask sends a request with a parameter in JSON, and reads the answer.
func (t trailOf) ask(ctx context.Context, path, parameter string, value any, read func(io.Reader) error) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("ask for an audit trail: %w", err)
	}
	body, err := t.client.ask(ctx, asked{method: http.MethodGet, of: t.of,
		at: path + "?" + url.Values{parameter: {string(text)}}.Encode(), pauses: path == verifyPath})
	if err == nil {
		err = errors.Join(read(body), body.Close())
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Unavailable, "the audit trail of the member %s can't be read, because it runs an older "+
			"version of Landfall; upgrade it", t.of.Name)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the query
	}
	return TrailAway(t.of, err)
}

// TrailAway returns the error for the audit trail of a member that does not answer, for a reason.
func TrailAway(of Peer, reason error) error {
	return &fault.Error{Kind: fault.Unavailable, Err: reason, Reason: fmt.Sprintf("the audit trail of the member %s "+
		"can't be read now (%v); it is on the machine with the URL %s: start the member there, or look at its log",
		of.Name, reason, of.URL)}
}
