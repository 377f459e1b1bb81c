package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"landfall/appliance/checksum"
	"landfall/appliance/replica"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
)

// receiver serves the replica of another appliance. It checks the credential of that appliance
// itself: no account of this one may write there.
type receiver struct {
	*replica.Receiver
	logger *slog.Logger

	mu     sync.Mutex
	logged string // the newest failure; "" after a success
}

// maxSnapshot is the largest body that describes a snapshot, in bytes.
const maxSnapshot = 256 << 20

// ReplicaOperations returns the operations with which another appliance writes its replica here.
// The audit trail records the begin of a generation and a new owner. All other requests are too
// many.
func ReplicaOperations(of *replica.Receiver, logger *slog.Logger) []operation.Operation {
	r := &receiver{Receiver: of, logger: logger}
	operations := []operation.Operation{
		{ID: "getReceivedReplica", Method: http.MethodGet, Path: replica.ReceiverRoute, Handler: r.signs,
			Summary: "Show the owner of the replica that is received, and its newest sign of life"},
		{ID: "openReceivedReplica", Method: http.MethodPost, Path: replica.SessionsRoute, Handler: r.open,
			Summary: "Begin a generation of the replica"},
		{ID: "claimReceivedReplica", Method: http.MethodPost, Path: replica.ClaimsRoute, Handler: r.claim,
			Summary: "Make another appliance the owner of the replica"},
		{ID: "receiveReplicaPresence", Method: http.MethodGet, Path: replica.ObjectRoute, Handler: r.within(r.has),
			Summary: "Show whether the replica has an object"},
		{ID: "receiveReplicaObject", Method: http.MethodPut, Path: replica.ObjectRoute, Handler: r.within(r.put),
			BodyLimit: maxUpload, Streams: true, Summary: "Store an object in the replica"},
		{ID: "receiveReplicaSnapshot", Method: http.MethodPost, Path: replica.SnapshotsRoute,
			Handler: r.within(r.addSnapshot), BodyLimit: maxSnapshot, Streams: true,
			Summary: "Add a snapshot whose objects are stored"},
		{ID: "receiveReplicaFrame", Method: http.MethodPost, Path: replica.FramesRoute, Handler: r.within(r.append),
			BodyLimit: replica.MaxFrame, Streams: true, Summary: "Append a frame to the log of the replica"},
		{ID: "receiveReplicaHeartbeat", Method: http.MethodPut, Path: replica.HeartbeatRoute,
			Handler: r.within(r.beat), Summary: "Write a sign of life"},
		{ID: "receiveReplicaRetention", Method: http.MethodPost, Path: replica.PrunesRoute,
			Handler: r.within(r.prune), Summary: "Remove the states that need not stay"},
		{ID: "receiveReplicaContinuation", Method: http.MethodPost, Path: replica.ResumesRoute,
			Handler: r.within(r.resume), Summary: "Continue a generation, and show its last frame"},
	}
	for i := range operations {
		operations[i].Access, operations[i].Quiet = operation.CheckedBy("the receiver of replicas").Admitting(), true
		operations[i].Handler = r.authorized(operations[i].Handler)
	}
	return operations
}

// maxUpload is the largest object in bytes.
const maxUpload = 256 << 30

// authorized lets only the appliance with the credential call a handler, and answers errors of the
// handler in the form that it reads.
func (r *receiver) authorized(handler echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		token, _ := strings.CutPrefix(c.Request().Header.Get(echo.HeaderAuthorization), "Bearer ")
		switch err := r.Authorize(token); {
		case errors.Is(err, replica.ErrCredential):
			return problem.Unauthorized("%v", err)
		case errors.Is(err, replica.ErrNotReceiving):
			return problem.NotFound("%v", err)
		case err != nil: // the client is unknown, so only the log has the cause
			return fmt.Errorf("%w: %w", problem.New(http.StatusInternalServerError, "the credential in "+
				"replica.receive_token_file can't be read; read the log of the second appliance"), err)
		}
		err := handler(c)
		r.log(c.Request().Context(), err)
		if err == nil {
			return nil
		}
		refusal := replica.Refuse(err)
		return c.JSON(refusal.Status(), refusal)
	}
}

// log logs a failure of this appliance once.
func (r *receiver) log(ctx context.Context, err error) {
	failure := ""
	if err != nil && replica.Refuse(err).Status() >= http.StatusInternalServerError {
		failure = err.Error()
	}
	r.mu.Lock()
	same := failure == r.logged
	r.logged = failure
	r.mu.Unlock()
	if failure != "" && !same {
		r.logger.WarnContext(ctx, "The replica of another appliance was not written; that appliance tries again.",
			"place", r.Dir, "error", err)
	}
}

// within returns the handler of a request within a session.
func (r *receiver) within(handler func(echo.Context, replica.Session) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		generation, err := strconv.ParseUint(c.Param("generation"), 10, 64)
		if err != nil {
			return err
		}
		session, err := r.Session(c.Request().Context(), replica.SessionKey{Replica: c.Param("replica"),
			Owner: c.Param("owner"), Generation: generation})
		if err != nil {
			return err
		}
		return handler(c, session)
	}
}

func (r *receiver) signs(c echo.Context) error {
	signs, err := r.Signs(c.Request().Context())
	return answer(c, signs, err)
}

func (r *receiver) open(c echo.Context) error {
	var owner replica.Owner
	if err := r.read(c, &owner); err != nil {
		return err
	}
	if err := recording.Admit(c.Request().Context()); err != nil {
		return err
	}
	opened, err := r.Open(c.Request().Context(), owner)
	return answer(c, opened, err)
}

func (r *receiver) claim(c echo.Context) error {
	var owner replica.Owner
	if err := r.read(c, &owner); err != nil {
		return err
	}
	if err := recording.Admit(c.Request().Context()); err != nil {
		return err
	}
	return done(c, r.Claim(c.Request().Context(), owner))
}

// read decodes a body. The other appliance may be newer, so unknown fields are left out.
func (*receiver) read(c echo.Context, into any) error {
	if err := json.NewDecoder(c.Request().Body).Decode(into); err != nil {
		return fmt.Errorf("the body is not the JSON object that this operation expects: %w", err)
	}
	return nil
}

var errSum = errors.New("the name of the object is no SHA-256")

func (r *receiver) has(c echo.Context, s replica.Session) error {
	if !checksum.ValidSum(c.Param("sum")) {
		return errSum
	}
	has, err := s.Has(c.Request().Context(), c.Param("sum"))
	return answer(c, replica.Presence{Has: has}, err)
}

func (r *receiver) put(c echo.Context, s replica.Session) error {
	if !checksum.ValidSum(c.Param("sum")) {
		return errSum
	}
	return done(c, s.Put(c.Request().Context(), c.Param("sum"), c.Request().Body))
}

func (r *receiver) addSnapshot(c echo.Context, s replica.Session) error {
	var added replica.NewSnapshot
	if err := r.read(c, &added); err != nil {
		return err
	}
	return done(c, s.AddSnapshot(c.Request().Context(), added.Snapshot, added.Manifest, added.Objects))
}

func (r *receiver) append(c echo.Context, s replica.Session) error {
	frame, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return err
	}
	return done(c, s.Append(c.Request().Context(), frame))
}

func (r *receiver) beat(c echo.Context, s replica.Session) error {
	var beat replica.Heartbeat
	if err := r.read(c, &beat); err != nil {
		return err
	}
	return done(c, s.Beat(c.Request().Context(), beat))
}

func (r *receiver) prune(c echo.Context, s replica.Session) error {
	var retention replica.Retention
	if err := r.read(c, &retention); err != nil {
		return err
	}
	usage, err := s.Prune(c.Request().Context(), retention)
	return answer(c, usage, err)
}

func (r *receiver) resume(c echo.Context, s replica.Session) error {
	last, err := s.Resume(c.Request().Context())
	return answer(c, replica.Resumed{Last: last}, err)
}
