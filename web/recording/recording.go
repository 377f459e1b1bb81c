// Package recording records the requests of operations in the audit trail: changes, and readings of
// secrets. The record is on the disk before the handler has an effect. If it cannot be written, the
// operation fails, and nothing changes.
//
// Design: docs/design.md#an-audit-trail-of-chained-records.
package recording

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/audittrail"
	"landfall/store"
	"landfall/web"
	"landfall/web/operation"
	"landfall/web/problem"
)

// registration is the ID of the only operation of agents that is recorded. Their other requests are
// too many.
const registration = "v2RegisterHost"

// oidcLogin is the ID of the only GET that is recorded although it returns no secret: browsers log
// in with it.
const oidcLogin = "finishOIDCLogin"

// Recorder records requests.
type Recorder struct{ trail *audittrail.Trail }

// New returns a recorder for a trail.
func New(trail *audittrail.Trail) *Recorder { return &Recorder{trail} }

// Wrap returns the handler of an operation with the recording of its requests. The identity with
// the client's address must be in the request's context.
func (r *Recorder) Wrap(o operation.Operation) echo.HandlerFunc {
	if o.Access.Admits {
		return r.admitted(o)
	}
	if !mayRecord(o) {
		return o.Handler
	}
	if o.Access.Public {
		return r.afterwards(o)
	}
	return func(c echo.Context) error {
		secret, recorded := records(c, o)
		if !recorded {
			return o.Handler(c)
		}
		if o.Access.CheckedBy != "" && access.From(c.Request().Context()).Kind == access.Nobody {
			return r.afterwards(o)(c)
		}
		begun := describe(c, o)
		begun.Secret = secret
		created := new(objects)
		ctx := c.Request().Context()
		ctx, end, err := r.begin(ctx, o, begun)
		if err != nil {
			return err
		}
		c.SetRequest(c.Request().WithContext(context.WithValue(ctx, objectsKey{}, created)))
		status := http.StatusInternalServerError // of a panic
		defer func() { end(status, created.all()) }()
		if err = o.Handler(c); err == nil || c.Response().Committed {
			status = c.Response().Status
		} else {
			status = problem.From(err).Status
		}
		return err
	}
}

// begin records the begin of an operation. If the first effect of the operation is an update, begin
// returns at once, and the updates with the returned context are saved when the record is on the
// disk. Otherwise begin returns when it is.
func (r *Recorder) begin(ctx context.Context, o operation.Operation, begun audittrail.Entry) (context.Context,
	func(int, map[string]string), error) {
	if begun.Secret || !updatesFirst(o, begun.Path) {
		end, err := r.trail.Begin(ctx, begun)
		return ctx, end, err
	}
	written, end, err := r.trail.Start(ctx, begun)
	return store.After(ctx, written), end, err
}

// updatesFirst reports whether an operation neither changes anything nor shows a secret before the
// end of its first update. This is so for operations with dry runs, and for the Kubernetes API,
// except that each request for a Secret may show it.
func updatesFirst(o operation.Operation, path string) bool {
	return o.DryRun || o.Method == operation.Any && !kubernetesSecret(path)
}

// afterwards returns the handler of an operation that everybody may call, such as a login, or of a
// request without credentials for an API that checks its clients itself. Its failures are recorded
// as refused requests, which are counted, so that a flood of them does not displace other records.
// Its successes are recorded when the handler has ended, with the identity that the handler put
// into the request's context.
func (r *Recorder) afterwards(o operation.Operation) echo.HandlerFunc {
	return func(c echo.Context) error {
		created := new(objects)
		c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(),
			objectsKey{}, created)))
		err := o.Handler(c)
		ctx, ended := c.Request().Context(), describe(c, o)
		maps.Copy(ended.Objects, created.all())
		if ended.Status = c.Response().Status; err != nil {
			ended.Status = problem.From(err).Status
		}
		if ended.Status >= http.StatusBadRequest {
			r.trail.Refuse(ctx, ended)
			return err
		}
		return errors.Join(err, r.trail.RecordPast(ctx, ended))
	}
}

// admitted returns the handler of an operation that checks its clients itself. The handler calls
// [Admit] when it has accepted a client. A request that fails before is recorded as refused, so
// that a flood of such requests does not displace other records. Reads that return no secret are
// not recorded.
func (r *Recorder) admitted(o operation.Operation) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		admitting := func(begin func(context.Context) error) {
			c.SetRequest(c.Request().WithContext(context.WithValue(ctx, admitKey{}, begin)))
		}
		secret, recorded := records(c, o)
		if !recorded {
			admitting(func(context.Context) error { return nil })
			return o.Handler(c)
		}
		entry := describe(c, o)
		entry.Secret = secret
		var end func(status int, created map[string]string)
		admitting(func(ctx context.Context) (err error) {
			end, err = r.trail.Begin(ctx, entry)
			return err
		})
		status := http.StatusInternalServerError // of a panic
		defer func() {
			if end != nil {
				end(status, nil)
			}
		}()
		err := o.Handler(c)
		if status = c.Response().Status; err != nil && !c.Response().Committed {
			status = problem.From(err).Status
		}
		if end == nil && status >= http.StatusBadRequest {
			entry.Status = status
			r.trail.Refuse(ctx, entry)
		}
		return err
	}
}

type admitKey struct{}

// Admit records that the handler of an operation has accepted a client. The context must be derived
// from the request's, with the client's identity if it has one. After an error, the handler must
// neither change anything nor return a secret.
func Admit(ctx context.Context) error {
	begin, ok := ctx.Value(admitKey{}).(func(context.Context) error)
	if !ok {
		return errors.New("the request is not recorded: its operation has no such rule")
	}
	return begin(ctx)
}

// Refused records a request that the client was not permitted to make, with the reason if its token
// was refused. Reads without credentials are not recorded, unless they are for a secret: the page,
// for example, asks who is logged in.
func (r *Recorder) Refused(c echo.Context, o operation.Operation, status int) {
	request := c.Request()
	if access.From(request.Context()).Kind == access.Nobody && safe(request.Method) && !o.Access.Secret {
		return
	}
	refused := describe(c, o)
	refused.Status = status
	if failure := access.Failure(request.Context()); failure != nil {
		refused.Text = failure.Error()
	}
	r.trail.Refuse(request.Context(), refused)
}

// mayRecord reports whether some requests of an operation are recorded.
func mayRecord(o operation.Operation) bool {
	return o.Access.Secret || !safe(o.Method) || o.Method == operation.Any || o.ID == oidcLogin
}

// records reports whether a request reads a secret, and whether it is recorded.
func records(c echo.Context, o operation.Operation) (secret, recorded bool) {
	request := c.Request()
	switch {
	case o.Access.Secret:
		secret = o.Access.RoleFor(c.QueryParam) == o.Access.Role
	case o.Method == operation.Any && safe(request.Method):
		secret = kubernetesSecret(request.URL.Path)
	}
	if secret {
		return true, true
	}
	if safe(request.Method) || store.IsDryRun(request.Context()) {
		return false, false
	}
	// Without authentication, agents are not told apart from other clients.
	kind := access.From(request.Context()).Kind
	person := kind == access.Person || kind == access.Program
	return false, !o.Access.Agents || person || o.ID == registration
}

func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions ||
		method == operation.RouteNotFound
}

// kubernetesSecret reports whether a path of the Kubernetes API contains Secrets.
func kubernetesSecret(path string) bool {
	return strings.HasPrefix(path, "/api/v1/") && (strings.HasSuffix(path, "/secrets") ||
		strings.Contains(path, "/secrets/"))
}

// secretParameters are the parameters of paths that are tokens or codes, or begin with one.
var secretParameters = []string{"token", "code", "file"}

// describe returns the description of a request. It contains neither the query nor the parts of the
// path that are tokens or codes.
func describe(c echo.Context, o operation.Operation) audittrail.Entry {
	ids := make(map[string]string)
	segments := strings.Split(o.Path, "/")
	for i, segment := range segments {
		name, parameter := strings.CutPrefix(segment, ":")
		switch {
		case segment == "*" && o.Method == operation.Any:
			segments[i] = c.Param("*")
		case parameter && !slices.Contains(secretParameters, name):
			segments[i] = c.Param(name)
			ids[name] = c.Param(name)
		}
	}
	return audittrail.Entry{
		Operation: cmp.Or(o.ID, o.Access.CheckedBy), Method: c.Request().Method, Path: strings.Join(segments, "/"),
		Objects: ids, Request: web.RequestID(c.Request().Context()),
	}
}

// objects are the objects that an operation created.
type objects struct {
	mu  sync.Mutex
	ids map[string]string
}

type objectsKey struct{}

// Created adds an object that an operation created to the record of the request. The context must
// be the request's.
func Created(ctx context.Context, name, id string) {
	created, ok := ctx.Value(objectsKey{}).(*objects)
	if !ok {
		return // the request is not recorded
	}
	created.mu.Lock()
	defer created.mu.Unlock()
	if created.ids == nil {
		created.ids = make(map[string]string)
	}
	created.ids[name] = id
}

func (o *objects) all() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids
}
