package access

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/access/tokens"
	"landfall/web/operation"
	"landfall/web/recording"
)

// Token describes the token of a program.
type Token struct {
	ID        string      `json:"id"`
	Name      string      `json:"name"`
	Role      access.Role `json:"role"`
	Clusters  []string    `json:"clusters,omitempty"`
	InfraEnvs []string    `json:"infra_envs,omitempty"`
	CreatedBy string      `json:"created_by,omitempty"`
	CreatedAt time.Time   `json:"created_at"`
	ExpiresAt time.Time   `json:"expires_at,omitzero"`
	LastUse   time.Time   `json:"last_use,omitzero"`
	// Token is the token itself. Only the response to its creation contains it.
	Token string `json:"token,omitempty"`
}

// NewToken is the body of the creation of a token.
type NewToken struct {
	Name      string      `json:"name"`
	Role      access.Role `json:"role"`
	Clusters  []string    `json:"clusters,omitempty"`
	InfraEnvs []string    `json:"infra_envs,omitempty"`
	ExpiresAt time.Time   `json:"expires_at,omitzero"`
}

func tokenOf(t tokens.Token) Token {
	return Token{ID: t.ID, Name: t.Name, Role: t.Role, Clusters: t.Scope.Clusters, InfraEnvs: t.Scope.InfraEnvs,
		CreatedBy: t.By, CreatedAt: t.CreatedAt, ExpiresAt: t.Ends, LastUse: t.LastUse}
}

func (s *Service) tokenOperations() []operation.Operation {
	const path = BasePath + "/tokens"
	administrators := operation.For(access.Administrator)
	return []operation.Operation{
		{ID: "listTokens", Method: http.MethodGet, Path: path, Access: administrators, Handler: s.listTokens,
			Summary: "List the tokens of programs", Status: 200, Answer: []Token{}, Errors: []int{401, 403}},
		{ID: "createToken", Method: http.MethodPost, Path: path, Access: administrators.WithSecret(),
			Handler: s.createToken,
			Summary: "Create a token for a program; the response contains it once",
			Body:    NewToken{}, Status: 201, Answer: Token{}, Errors: []int{400, 401, 403, 409}},
		{ID: "revokeToken", Method: http.MethodDelete, Path: path + "/:name", Access: administrators,
			Handler: s.revokeToken, DryRun: true,
			Summary: "Revoke a token by its name or ID", Status: 204, NoContent: true, Errors: []int{401, 403, 404}},
	}
}

func (s *Service) listTokens(c echo.Context) error {
	list := []Token{}
	for _, t := range s.Tokens.List() {
		list = append(list, tokenOf(t))
	}
	return answer(c, http.StatusOK, list, nil)
}

func (s *Service) createToken(c echo.Context) error {
	var body NewToken
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	scope, err := s.newScope(body.Clusters, body.InfraEnvs, access.Scope{})
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	text, made, err := s.Tokens.Create(ctx, tokens.NewToken{Name: body.Name, Role: body.Role,
		Scope: scope, Ends: body.ExpiresAt,
		By: access.From(ctx).Name})
	recording.Created(ctx, "name", made.Name)
	token := tokenOf(made)
	token.Token = text
	return answer(c, http.StatusCreated, token, err)
}

func (s *Service) revokeToken(c echo.Context) error {
	if err := s.Tokens.Revoke(c.Request().Context(), c.Param("name")); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
