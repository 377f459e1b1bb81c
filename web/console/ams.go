package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/labstack/echo/v4"

	"landfall/appliance/ams"
	"landfall/appliance/ams/outbox"
	"landfall/web/problem"
)

// AMSPath is where the operations on OpenShift Cluster Manager's subscriptions begin.
const AMSPath = BasePath + "/ams"

// Subscriptions tells OpenShift Cluster Manager (AMS) of the clusters, and what it knows.
type Subscriptions interface {
	// Status tells how the site stands with AMS.
	Status(ctx context.Context, of ams.Selection) (*ams.Status, error)
	// WriteMetrics writes figures about it as Prometheus reads them.
	WriteMetrics(ctx context.Context, out io.Writer) error
	// Plan is what AMS would be told now.
	Plan(ctx context.Context, clusterID string) ([]ams.Planned, error)
	// Subscriptions are those of all clusters, or of one, in AMS's own JSON.
	Subscriptions(ctx context.Context, clusterID string) ([]map[string]any, error)
	// Subscription is one of them, by the id that AMS gave it or by the one that it had before.
	Subscription(ctx context.Context, id string) (map[string]any, error)
	// Give keeps credentials; empty ones are forgotten.
	SetCredentials(ctx context.Context, secret ams.Secret) error
	// Connect ends all waits, and lets a site that connects by hand speak for so long.
	Connect(span time.Duration)
	// Accept ends a pause that a person decides.
	Accept(ctx context.Context) error
	// Reverify has nothing made again or overwritten in AMS that differs from what is kept here.
	Reverify(ctx context.Context) error
	// ExportFile writes what waits as a courier's file and returns its id too.
	ExportFile(ctx context.Context) (file []byte, id string, err error)
	// Revoke gives what a courier was sent with back to the relay; "" is all couriers.
	Revoke(ctx context.Context, export string) error
	// ImportReceipts takes what a courier brings back; trust is the fingerprint of a key to trust
	// from now on, or "".
	ImportReceipts(ctx context.Context, from io.Reader, trust string) (ams.Imported, error)
	Retry(ctx context.Context, clusterID, by string) error
	CreateAgain(ctx context.Context, clusterID, by string) error
	Leave(ctx context.Context, clusterID, by string) error
	// Edit has other values told than the cluster has; the empty ones are the cluster's own.
	Edit(ctx context.Context, clusterID, by string, fields outbox.Fields) error
}

// AMSReceiptsRoute is the route of a courier's receipts, which hold AMS's own objects of all
// clusters.
const AMSReceiptsRoute = AMSPath + "/receipts"

// AMSOrder is the body of an order about a cluster's subscription.
type AMSOrder struct {
	By string `json:"by"` // who orders it, as the event says
}

// AMSEdit is the body of an order to tell other values than a cluster has; the empty ones are its
// own.
type AMSEdit struct {
	AMSOrder
	outbox.Fields
}

// AMSConnect is the body of the order to connect.
type AMSConnect struct {
	Minutes int `json:"minutes"` // 0: ten
}

// MetricsPath is where Prometheus reads.
const MetricsPath = "/metrics"

const defaultConnection = 10 * time.Minute

func (o AMSOrder) who() string { return cmp.Or(o.By, "Somebody") }

type subscriptions struct{ of Subscriptions }

func registerSubscriptions(router *echo.Echo, of Subscriptions, off bool) {
	s := subscriptions{of}
	router.GET(AMSPath, s.status)
	router.GET(MetricsPath, s.metrics)
	router.GET(AMSPath+"/plan", func(c echo.Context) error {
		plan, err := of.Plan(c.Request().Context(), c.QueryParam("cluster_id"))
		if err != nil {
			return err
		}
		return answer(c, plan)
	})
	router.GET(AMSPath+"/subscriptions", func(c echo.Context) error {
		all, err := of.Subscriptions(c.Request().Context(), "")
		if err != nil {
			return err
		}
		return answer(c, map[string]any{"kind": "SubscriptionList", "page": 1, "size": len(all), "total": len(all),
			"items": append([]map[string]any{}, all...)})
	})
	router.GET(AMSPath+"/subscriptions/:id", func(c echo.Context) error {
		one, err := of.Subscription(c.Request().Context(), c.Param("id"))
		if err != nil {
			return orderProblem(err)
		}
		return answer(c, one)
	})
	if off {
		refuse := func(echo.Context) error {
			return problem.Conflict("this appliance does not speak to OpenShift Cluster Manager; set ams.enabled in " +
				"the configuration if it is to")
		}
		router.POST(AMSPath+"/*", refuse)
		router.DELETE(AMSPath+"/*", refuse)
		return
	}
	router.POST(AMSPath+"/credentials", s.give)
	router.DELETE(AMSPath+"/credentials", func(c echo.Context) error {
		if err := of.SetCredentials(c.Request().Context(), ams.Secret{}); err != nil {
			return orderProblem(err)
		}
		of.Connect(0)
		return c.NoContent(http.StatusNoContent)
	})
	router.POST(AMSPath+"/connect", s.connect)
	router.POST(AMSPath+"/accept", s.plain(of.Accept))
	router.POST(AMSPath+"/reverify", s.plain(of.Reverify))
	router.POST(AMSPath+"/exports", s.export)
	router.DELETE(AMSPath+"/exports/:id", func(c echo.Context) error {
		if err := of.Revoke(c.Request().Context(), c.Param("id")); err != nil {
			return orderProblem(err)
		}
		return c.NoContent(http.StatusNoContent)
	})
	router.POST(AMSReceiptsRoute, s.receipts)
	router.POST(AMSPath+"/clusters/:id/retry", s.order(of.Retry))
	router.POST(AMSPath+"/clusters/:id/create-again", s.order(of.CreateAgain))
	router.POST(AMSPath+"/clusters/:id/leave", s.order(of.Leave))
	router.POST(AMSPath+"/clusters/:id/edit", func(c echo.Context) error {
		var edit AMSEdit
		if err := read(c, &edit); err != nil {
			return err
		}
		if err := of.Edit(c.Request().Context(), c.Param("id"), edit.who(), edit.Fields); err != nil {
			return orderProblem(err)
		}
		return c.NoContent(http.StatusNoContent)
	})
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
			return problem.BadRequest("%s is %q; expected a number from 0 on", number.name, text)
		}
	}
	status, err := s.of.Status(c.Request().Context(), of)
	if err != nil {
		return err
	}
	return answer(c, status)
}

// metrics answers in Prometheus's text format.
func (s subscriptions) metrics(c echo.Context) error {
	var text bytes.Buffer
	if err := s.of.WriteMetrics(c.Request().Context(), &text); err != nil {
		return err
	}
	metrics.WriteProcessMetrics(&text)
	return c.Blob(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", text.Bytes())
}

func (s subscriptions) give(c echo.Context) error {
	var secret ams.Secret
	if err := read(c, &secret); err != nil {
		return err
	}
	if secret.Empty() {
		return problem.BadRequest("there is neither an offline_token nor a client_id with its client_secret in the " +
			"body")
	}
	if err := s.of.SetCredentials(c.Request().Context(), secret); err != nil {
		return orderProblem(err)
	}
	s.of.Connect(defaultConnection)
	return c.NoContent(http.StatusNoContent)
}

func (s subscriptions) connect(c echo.Context) error {
	var order AMSConnect
	if err := read(c, &order); err != nil {
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
		return orderProblem(err)
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="landfall-ams-`+id+`.lfc"`)
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Blob(http.StatusOK, "application/octet-stream", file)
}

func (s subscriptions) receipts(c echo.Context) error {
	came, err := s.of.ImportReceipts(c.Request().Context(), c.Request().Body, c.QueryParam("trust"))
	if err != nil {
		return orderProblem(err)
	}
	return answer(c, came)
}

func (s subscriptions) plain(do func(context.Context) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := do(c.Request().Context()); err != nil {
			return orderProblem(err)
		}
		return c.NoContent(http.StatusNoContent)
	}
}

func (s subscriptions) order(do func(ctx context.Context, clusterID, by string) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		var order AMSOrder
		if err := read(c, &order); err != nil {
			return err
		}
		if err := do(c.Request().Context(), c.Param("id"), order.who()); err != nil {
			return orderProblem(err)
		}
		return c.NoContent(http.StatusNoContent)
	}
}

func orderProblem(err error) error {
	switch {
	case errors.Is(err, ams.ErrNothing), errors.Is(err, ams.ErrNoSubscription):
		return &problem.Error{Status: http.StatusNotFound, Reason: err.Error(), Err: err}
	case errors.Is(err, ams.ErrCourier), errors.Is(err, ams.ErrEdit):
		return &problem.Error{Status: http.StatusBadRequest, Reason: err.Error(), Err: err}
	case errors.Is(err, ams.ErrUntrusted), errors.Is(err, ams.ErrPaused), errors.Is(err, ams.ErrConfigured):
		return &problem.Error{Status: http.StatusConflict, Reason: err.Error(), Err: err}
	}
	return err
}
