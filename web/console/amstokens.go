package console

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/ams/local"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
)

// Tokens manages the tokens of programs, such as the ocm command, that use the site's API instead
// of AMS.
type Tokens interface {
	Issue(ctx context.Context, wanted local.Request) (*local.Issued, error)
	Tokens() ([]local.Token, error)
	Revoke(ctx context.Context, id string) error
}

// AMSToken is the body of a request for a token.
type AMSToken struct {
	Kind     local.Kind `json:"kind,omitempty"`      // access, offline or client; "" means access
	Username string     `json:"username,omitempty"`  // "": the site's own account
	ClientID string     `json:"client_id,omitempty"` // of a client token
	Days     int        `json:"days,omitempty"`      // of validity; 0 means no limit
	ReadOnly bool       `json:"read_only,omitempty"` // the token does not permit changes of labels
}

const maxTokenDays = 100 * 366

type amsTokens struct{ Tokens }

// AMSTokenOperations returns the operations on the tokens for the accounts API.
func AMSTokenOperations(tokens Tokens) []operation.Operation {
	t := amsTokens{tokens}
	return []operation.Operation{
		{ID: "listAMSTokens", Method: http.MethodGet, Path: AMSPath + "/tokens",
			Access:  operation.For(access.Administrator),
			Handler: t.list,
			Summary: "List the tokens for the accounts API",
			Status:  http.StatusOK, Answer: []local.Token{}},
		{ID: "issueAMSToken", Method: http.MethodPost, Path: AMSPath + "/tokens",
			Access: operation.For(access.Administrator).WithSecret(), Handler: t.issue,
			Summary: "Issue a token for the accounts API",
			Body:    AMSToken{},
			Status:  http.StatusCreated, Answer: local.Issued{}, Errors: []int{400}},
		{ID: "revokeAMSToken", Method: http.MethodDelete, Path: AMSPath + "/tokens/:id",
			Access: operation.For(access.Administrator), Handler: t.revoke,
			Summary: "Revoke a token for the accounts API",
			Status:  http.StatusNoContent, Errors: []int{404}},
	}
}

func (t amsTokens) list(c echo.Context) error {
	all, err := t.Tokens.Tokens()
	return answer(c, all, err)
}

func (t amsTokens) issue(c echo.Context) error {
	var order AMSToken
	if err := operation.ReadJSON(c, &order); err != nil {
		return err
	}
	if order.Days < 0 || order.Days > maxTokenDays {
		return problem.BadRequest("days is %d; expected 1 to %d, or 0 for a token that never expires", order.Days,
			maxTokenDays)
	}
	issued, err := t.Issue(c.Request().Context(), local.Request{
		Kind: order.Kind, Username: order.Username, ClientID: order.ClientID,
		Life: time.Duration(order.Days) * 24 * time.Hour, ReadOnly: order.ReadOnly,
	})
	if err != nil {
		return err
	}
	recording.Created(c.Request().Context(), "token_id", issued.ID)
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.JSON(http.StatusCreated, issued)
}

func (t amsTokens) revoke(c echo.Context) error {
	err := t.Revoke(c.Request().Context(), c.Param("id"))
	if errors.Is(err, local.ErrUnknown) {
		return problem.NotFound("there is no token %s; landfall ams token list shows them", c.Param("id"))
	}
	return done(c, err)
}
