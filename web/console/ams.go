package console

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/ams"
	"landfall/appliance/ams/outbox"
	"landfall/web/operation"
	"landfall/web/problem"
)

// AMSPath is the prefix of the operations on the subscriptions of OpenShift Cluster Manager (AMS).
const AMSPath = BasePath + "/ams"

// Subscriptions synchronizes the subscriptions of the clusters with OpenShift Cluster Manager
// (AMS).
type Subscriptions interface {
	// Status returns the state of the site and of its clusters in AMS.
	Status(ctx context.Context, of ams.Selection) (*ams.Status, error)
	// Plan returns the requests that would be sent to AMS now.
	Plan(ctx context.Context, clusterID string) ([]ams.Planned, error)
	// Subscriptions returns the subscriptions of all clusters, or of one, in the JSON of AMS.
	Subscriptions(ctx context.Context, clusterID string) ([]map[string]any, error)
	// Subscription returns a subscription by AMS's ID or by its provisional ID.
	Subscription(ctx context.Context, id string) (map[string]any, error)
	// SetCredentials stores credentials and opens a session with them, if the site connects
	// automatically. Empty credentials delete the stored ones.
	SetCredentials(ctx context.Context, secret ams.Secret) error
	// Connect makes the relay retry immediately. A site that connects only on request may then
	// connect for the given time.
	Connect(span time.Duration)
	// Accept ends a pause of the relay that requires a user's decision.
	Accept(ctx context.Context) error
	// Reverify compares AMS with the stored state without creating or overwriting anything in AMS.
	Reverify(ctx context.Context) error
	// ExportFile returns the queued requests as a courier file with its ID.
	ExportFile(ctx context.Context) (file []byte, id string, err error)
	// Revoke returns the requests of a courier file to the relay. If export is "", it returns those
	// of all courier files.
	Revoke(ctx context.Context, export string) error
	// ImportReceipts imports the receipts of a courier. trust is the fingerprint of a key that
	// becomes trusted, or "".
	ImportReceipts(ctx context.Context, from io.Reader, trust string) (ams.Imported, error)
	Retry(ctx context.Context, clusterID, by string) error
	CreateAgain(ctx context.Context, clusterID, by string) error
	Leave(ctx context.Context, clusterID, by string) error
	// Edit overrides values that are sent to AMS. An empty field restores the cluster's own value.
	Edit(ctx context.Context, clusterID, by string, fields outbox.Fields) error
}

// AMSReceiptsRoute is the route of a courier's receipts.
const AMSReceiptsRoute = AMSPath + "/receipts"

// amsReceiptsBytes limits the size of a courier's receipts, which contain the AMS objects of all
// clusters. It suffices for ten thousand clusters.
const amsReceiptsBytes = ams.MaxCourierBytes

// AMSOrder is the body of a command on a cluster's subscription.
type AMSOrder struct {
	// By is the name of the user, for the event. It is ignored if the appliance authenticates its
	// clients, because it then knows the name.
	By string `json:"by"`
}

// AMSEdit is the body of a command that overrides values sent to AMS. An empty field restores the
// cluster's own value.
type AMSEdit struct {
	AMSOrder
	outbox.Fields
}

// AMSConnect is the body of the command to connect.
type AMSConnect struct {
	Minutes int `json:"minutes"` // 0 means ten
}

const defaultConnection = 10 * time.Minute

// person returns the name of the caller for the event. A program must not look like a person.
func (o AMSOrder) person(ctx context.Context) string {
	switch identity := access.From(ctx); identity.Kind {
	case access.Person:
		return identity.Name
	case access.Nobody, access.Open:
		return cmp.Or(o.By, "Somebody")
	default:
		return identity.String()
	}
}

type subscriptions struct{ of Subscriptions }

// AMSOperations returns the operations on AMS. If disabled is true, the configuration disables AMS,
// and the operations that change something answer 409.
func AMSOperations(of Subscriptions, disabled bool) []operation.Operation {
	s := subscriptions{of}
	operations := s.readOperations()
	if !disabled {
		return append(operations, s.writeOperations()...)
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		operations = append(operations, operation.Operation{Method: method, Path: AMSPath + "/*",
			Access: operation.For(access.Viewer), Handler: refuseDisabled})
	}
	return operations
}

func refuseDisabled(echo.Context) error {
	return problem.Conflict("this appliance does not connect to OpenShift Cluster Manager; to enable the connection, " +
		"set ams.enabled in the configuration")
}

func (s subscriptions) readOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "getAMS", Method: http.MethodGet, Path: AMSPath, Access: operation.For(access.Viewer), Handler: s.status,
			Summary: "Show the state of the site and its clusters in AMS",
			Parameters: []operation.Parameter{
				{Name: "cluster_id", Type: operation.UUID}, {Name: "state"}, {Name: "name"},
				{Name: "offset", Type: operation.Number}, {Name: "limit", Type: operation.Number},
			},
			Status: http.StatusOK, Answer: ams.Status{}, Errors: []int{400}},
		{ID: "getAMSPlan", Method: http.MethodGet, Path: AMSPath + "/plan", Access: operation.For(access.Viewer),
			Handler:    s.plan,
			Summary:    "Show the requests that would be sent to AMS now",
			Parameters: []operation.Parameter{{Name: "cluster_id", Type: operation.UUID}},
			Status:     http.StatusOK, Answer: []ams.Planned{}},
		{ID: "listAMSSubscriptions", Method: http.MethodGet, Path: AMSPath + "/subscriptions",
			Access: operation.For(access.Viewer), Handler: s.list,
			Summary: "List the subscriptions of all clusters, in the JSON of AMS",
			Status:  http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "getAMSSubscription", Method: http.MethodGet, Path: AMSPath + "/subscriptions/:id",
			Access: operation.For(access.Viewer), Handler: s.show,
			Summary: "Show a subscription, in the JSON of AMS",
			Status:  http.StatusOK, Answer: operation.AnyObject{}, Errors: []int{404}},
	}
}

func (s subscriptions) writeOperations() []operation.Operation {
	const cluster = AMSPath + "/clusters/:id"
	return []operation.Operation{
		{ID: "setAMSCredentials", Method: http.MethodPost, Path: AMSPath + "/credentials",
			Access: operation.For(access.Administrator), Handler: s.give,
			Summary: "Store credentials for AMS; connect with them, except for a site that connects by hand",
			Body:    ams.Secret{},
			Status:  http.StatusNoContent, Errors: []int{400, 409}},
		{ID: "deleteAMSCredentials", Method: http.MethodDelete, Path: AMSPath + "/credentials",
			Access: operation.For(access.Administrator), Handler: s.deleteCredentials,
			Summary: "Delete the credentials for AMS",
			Status:  http.StatusNoContent, Errors: []int{409}},
		{ID: "connectAMS", Method: http.MethodPost, Path: AMSPath + "/connect",
			Access: operation.For(access.Administrator), Handler: s.connect,
			Summary: "Connect to AMS for a time",
			Body:    AMSConnect{},
			Status:  http.StatusNoContent, Errors: []int{400}},
		{ID: "acceptAMS", Method: http.MethodPost, Path: AMSPath + "/accept",
			Access: operation.For(access.Administrator), Handler: s.command(s.of.Accept),
			Summary: "End a pause that requires a user's decision",
			Status:  http.StatusNoContent, Errors: []int{409}},
		{ID: "reverifyAMS", Method: http.MethodPost, Path: AMSPath + "/reverify",
			Access: operation.For(access.Administrator), Handler: s.command(s.of.Reverify),
			Summary: "Compare AMS with the stored state, without changing AMS",
			Status:  http.StatusNoContent, Errors: []int{409}},
		{ID: "exportAMS", Method: http.MethodPost, Path: AMSPath + "/exports",
			Access:  operation.For(access.Administrator),
			Handler: s.export,
			Summary: "Download the queued requests as a courier file",
			Status:  http.StatusOK, Answer: operation.File{}, Errors: []int{404, 409}},
		{ID: "revokeAMSExport", Method: http.MethodDelete, Path: AMSPath + "/exports/:id",
			Access: operation.For(access.Administrator), Handler: s.revoke,
			Summary: "Return the requests of a courier file to the queue",
			Status:  http.StatusNoContent, Errors: []int{404}},
		{ID: "importAMSReceipts", Method: http.MethodPost, Path: AMSReceiptsRoute,
			Access: operation.For(access.Administrator), Handler: s.receipts, BodyLimit: amsReceiptsBytes,
			Summary:    "Import the receipts of a courier",
			Parameters: []operation.Parameter{{Name: "trust"}},
			Body:       operation.File{},
			Status:     http.StatusOK, Answer: ams.Imported{}, Errors: []int{400, 409, 413}},
		{ID: "retryAMSCluster", Method: http.MethodPost, Path: cluster + "/retry",
			Access: operation.For(access.Operator), Handler: s.clusterCommand(s.of.Retry),
			Summary: "Send the requests of a cluster again",
			Body:    AMSOrder{},
			Status:  http.StatusNoContent, Errors: []int{404, 409}},
		{ID: "createAMSClusterAgain", Method: http.MethodPost, Path: cluster + "/create-again",
			Access: operation.For(access.Administrator), Handler: s.clusterCommand(s.of.CreateAgain),
			Summary: "Create the subscription of a cluster again",
			Body:    AMSOrder{},
			Status:  http.StatusNoContent, Errors: []int{404, 409}},
		{ID: "leaveAMSCluster", Method: http.MethodPost, Path: cluster + "/leave",
			Access: operation.For(access.Administrator), Handler: s.clusterCommand(s.of.Leave),
			Summary: "Stop sending requests of a cluster",
			Body:    AMSOrder{},
			Status:  http.StatusNoContent, Errors: []int{404, 409}},
		{ID: "editAMSCluster", Method: http.MethodPost, Path: cluster + "/edit",
			Access:  operation.For(access.Administrator),
			Handler: s.edit,
			Summary: "Override values of a cluster that are sent to AMS",
			Body:    AMSEdit{},
			Status:  http.StatusNoContent, Errors: []int{400, 404}},
	}
}

func (s subscriptions) plan(c echo.Context) error {
	plan, err := s.of.Plan(c.Request().Context(), c.QueryParam("cluster_id"))
	return answer(c, plan, err)
}

func (s subscriptions) list(c echo.Context) error {
	all, err := s.of.Subscriptions(c.Request().Context(), "")
	return answer(c, map[string]any{"kind": "SubscriptionList", "page": 1, "size": len(all), "total": len(all),
		"items": nonNil(all)}, err)
}

func (s subscriptions) show(c echo.Context) error {
	one, err := s.of.Subscription(c.Request().Context(), c.Param("id"))
	return answer(c, one, err)
}

func (s subscriptions) deleteCredentials(c echo.Context) error {
	return done(c, s.of.SetCredentials(c.Request().Context(), ams.Secret{}))
}

func (s subscriptions) revoke(c echo.Context) error {
	return done(c, s.of.Revoke(c.Request().Context(), c.Param("id")))
}

func (s subscriptions) edit(c echo.Context) error {
	var edit AMSEdit
	if err := operation.ReadJSON(c, &edit); err != nil {
		return err
	}
	ctx := c.Request().Context()
	return done(c, s.of.Edit(ctx, c.Param("id"), edit.person(ctx), edit.Fields))
}

func (s subscriptions) status(c echo.Context) error {
	of := ams.Selection{ClusterID: c.QueryParam("cluster_id"), State: c.QueryParam("state"), Name: c.QueryParam("name")}
	for _, number := range []struct {
		name string
		into *int
	}{{"offset", &of.Offset}, {"limit", &of.Limit}} {
		text := c.QueryParam(number.name)
		if text == "" {
			continue
		}
		var err error
		if *number.into, err = strconv.Atoi(text); err != nil || *number.into < 0 {
			return problem.BadRequest("%s is %q; expected a whole number, 0 or above", number.name, text)
		}
	}
	status, err := s.of.Status(c.Request().Context(), of)
	return answer(c, status, err)
}

func (s subscriptions) give(c echo.Context) error {
	var secret ams.Secret
	if err := operation.ReadJSON(c, &secret); err != nil {
		return err
	}
	if secret.Empty() {
		return problem.BadRequest("the body contains neither an offline_token nor a client_id with its client_secret")
	}
	return done(c, s.of.SetCredentials(c.Request().Context(), secret))
}

func (s subscriptions) connect(c echo.Context) error {
	var order AMSConnect
	if err := operation.ReadJSON(c, &order); err != nil {
		return err
	}
	if order.Minutes < 0 || order.Minutes > 24*60 {
		return problem.BadRequest("minutes is %d; expected 1 to 1440, or 0 for ten", order.Minutes)
	}
	span := time.Duration(order.Minutes) * time.Minute
	if span == 0 {
		span = defaultConnection
	}
	s.of.Connect(span)
	return c.NoContent(http.StatusNoContent)
}

func (s subscriptions) export(c echo.Context) error {
	file, id, err := s.of.ExportFile(c.Request().Context())
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="landfall-ams-`+id+`.lfc"`)
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Blob(http.StatusOK, "application/octet-stream", file)
}

func (s subscriptions) receipts(c echo.Context) error {
	imported, err := s.of.ImportReceipts(c.Request().Context(), c.Request().Body, c.QueryParam("trust"))
	return answer(c, imported, err)
}

// command returns the handler of a command without a body.
func (s subscriptions) command(do func(context.Context) error) echo.HandlerFunc {
	return func(c echo.Context) error { return done(c, do(c.Request().Context())) }
}

// clusterCommand returns the handler of a command on the subscription of a cluster.
func (s subscriptions) clusterCommand(do func(ctx context.Context, clusterID, by string) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		var order AMSOrder
		if err := operation.ReadJSON(c, &order); err != nil {
			return err
		}
		ctx := c.Request().Context()
		return done(c, do(ctx, c.Param("id"), order.person(ctx)))
	}
}
