package console

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/ams/local"
	"landfall/web/problem"
)

// Tokens are those by which programs, such as the ocm command, ask the site in AMS's place.
type Tokens interface {
	Issue(ctx context.Context, wanted local.Request) (*local.Issued, error)
	Tokens() ([]local.Token, error)
	Revoke(ctx context.Context, id string) error
}

// AMSToken is the body of an order for a token.
type AMSToken struct {
	Kind     local.Kind `json:"kind,omitempty"`      // access, offline or client; "": access
	Username string     `json:"username,omitempty"`  // "": the site's own
	ClientID string     `json:"client_id,omitempty"` // of a client
	Days     int        `json:"days,omitempty"`      // until it ends; 0: never
	ReadOnly bool       `json:"read_only,omitempty"` // may set no labels
}

const longestLife = 100 * 366 // days

func registerTokens(router *echo.Echo, tokens Tokens) {
	router.GET(AMSPath+"/tokens", func(c echo.Context) error {
		all, err := tokens.Tokens()
		if err != nil {
			return err
		}
		return answer(c, all)
	})
	router.POST(AMSPath+"/tokens", func(c echo.Context) error {
		var order AMSToken
		if err := read(c, &order); err != nil {
			return err
		}
		if order.Days < 0 || order.Days > longestLife {
			return problem.BadRequest("days is %d; expected 1 to %d, or 0 for a token that never ends", order.Days,
				longestLife)
		}
		issued, err := tokens.Issue(c.Request().Context(), local.Request{
			Kind: order.Kind, Username: order.Username, ClientID: order.ClientID,
			Life: time.Duration(order.Days) * 24 * time.Hour, ReadOnly: order.ReadOnly,
		})
		if errors.Is(err, local.ErrRequest) {
			return &problem.Error{Status: http.StatusBadRequest, Reason: err.Error(), Err: err}
		}
		if err != nil {
			return err
		}
		c.Response().Header().Set("Cache-Control", "no-store")
		return c.JSON(http.StatusCreated, issued)
	})
	router.DELETE(AMSPath+"/tokens/:id", func(c echo.Context) error {
		err := tokens.Revoke(c.Request().Context(), c.Param("id"))
		if errors.Is(err, local.ErrUnknown) {
			return problem.NotFound("there is no token %s; landfall ams token list shows them", c.Param("id"))
		}
		if err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	})
}
