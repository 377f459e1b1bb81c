package access

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/access/limit"
	"landfall/appliance/access/people"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
)

// User describes an account.
type User struct {
	Name      string      `json:"name"`
	Role      access.Role `json:"role"`
	Clusters  []string    `json:"clusters,omitempty"`
	InfraEnvs []string    `json:"infra_envs,omitempty"`
	Disabled  bool        `json:"disabled,omitempty"`
	// Issuer is the provider at which the person logs in, or "" for an account with a password.
	Issuer    string    `json:"issuer,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	LastLogin time.Time `json:"last_login,omitzero"`
}

func userOf(account people.Account) User {
	user := User{Name: account.Name, Role: account.Role, Clusters: account.Scope.Clusters,
		InfraEnvs: account.Scope.InfraEnvs, Disabled: account.Disabled, CreatedAt: account.CreatedAt,
		LastLogin: account.LastLogin}
	if account.External != nil {
		user.Issuer = account.External.Issuer
	}
	return user
}

// NewUser is the body of the creation of an account.
type NewUser struct {
	Name      string      `json:"name"`
	Password  string      `json:"password"`
	Role      access.Role `json:"role"`
	Clusters  []string    `json:"clusters,omitempty"`
	InfraEnvs []string    `json:"infra_envs,omitempty"`
}

// UserChange is the body of a change of an account. Absent fields stay as they are.
type UserChange struct {
	Role      *access.Role `json:"role,omitempty"`
	Clusters  *[]string    `json:"clusters,omitempty"`
	InfraEnvs *[]string    `json:"infra_envs,omitempty"`
	Disabled  *bool        `json:"disabled,omitempty"`
}

// PasswordChange is the body of a change of a password.
type PasswordChange struct {
	// Old is required from owners of accounts who are no administrators.
	Old string `json:"old,omitempty"`
	New string `json:"new"`
}

func (s *Service) userOperations() []operation.Operation {
	const users, user = BasePath + "/users", BasePath + "/users/:name"
	administrators := operation.For(access.Administrator)
	return []operation.Operation{
		{ID: "listUsers", Method: http.MethodGet, Path: users, Access: administrators, Handler: s.listUsers,
			Summary: "List the accounts", Status: 200, Answer: []User{}, Errors: []int{401, 403}},
		{ID: "createUser", Method: http.MethodPost, Path: users,
			Access: administrators, Handler: s.createUser, DryRun: true,
			Summary: "Create an account", Body: NewUser{}, Status: 201, Answer: User{},
			Errors: []int{400, 401, 403, 409}},
		{ID: "getUser", Method: http.MethodGet, Path: user, Access: administrators, Handler: s.getUser,
			Summary: "Show an account", Status: 200, Answer: User{}, Errors: []int{401, 403, 404}},
		{ID: "updateUser", Method: http.MethodPatch, Path: user,
			Access: administrators, Handler: s.updateUser, DryRun: true,
			Summary: "Change the role or the scope of an account, or disable it",
			Body:    UserChange{}, Status: 200, Answer: User{}, Errors: []int{400, 401, 403, 404, 409}},
		{ID: "deleteUser", Method: http.MethodDelete, Path: user,
			Access: administrators, Handler: s.deleteUser, DryRun: true,
			Summary: "Delete an account", Status: 204, NoContent: true, Errors: []int{401, 403, 404, 409}},
		{ID: "setUserPassword", Method: http.MethodPut, Path: user + "/password",
			Access: operation.For(access.Viewer).OfOwn(), Handler: s.setPassword, DryRun: true,
			Summary: "Set the password of an account: administrators of any, others of their own",
			Body:    PasswordChange{}, Status: 204, NoContent: true, Errors: []int{400, 401, 403, 404, 409}},
	}
}

func (s *Service) listUsers(c echo.Context) error {
	users := []User{}
	for _, account := range s.People.Accounts() {
		users = append(users, userOf(account))
	}
	return answer(c, http.StatusOK, users, nil)
}

func (s *Service) getUser(c echo.Context) error {
	account, err := s.People.Account(c.Param("name"))
	return answer(c, http.StatusOK, userOf(account), err)
}

func (s *Service) createUser(c echo.Context) error {
	var body NewUser
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	scope, err := s.newScope(body.Clusters, body.InfraEnvs, access.Scope{})
	if err != nil {
		return err
	}
	account, err := s.People.Create(c.Request().Context(), people.NewAccount{Name: body.Name, Password: body.Password,
		Role: body.Role, Scope: scope})
	recording.Created(c.Request().Context(), "name", account.Name)
	return answer(c, http.StatusCreated, userOf(account), err)
}

func (s *Service) updateUser(c echo.Context) error {
	var body UserChange
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	change := people.Change{Role: body.Role, Disabled: body.Disabled}
	if body.Clusters != nil || body.InfraEnvs != nil {
		account, err := s.People.Account(c.Param("name"))
		if err != nil {
			return err
		}
		wanted := account.Scope
		if body.Clusters != nil {
			wanted.Clusters = *body.Clusters
		}
		if body.InfraEnvs != nil {
			wanted.InfraEnvs = *body.InfraEnvs
		}
		if wanted, err = s.newScope(wanted.Clusters, wanted.InfraEnvs, account.Scope); err != nil {
			return err
		}
		change.Scope = &wanted
	}
	account, err := s.People.Update(c.Request().Context(), c.Param("name"), change)
	return answer(c, http.StatusOK, userOf(account), err)
}

func (s *Service) deleteUser(c echo.Context) error {
	if err := s.People.Delete(c.Request().Context(), c.Param("name")); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// setPassword sets a password. An administrator needs no old password, except for the own account,
// so that a stolen session cannot lock its owner out. A wrong old password is a 403: after a 401,
// clients would report that the session has ended.
func (s *Service) setPassword(c echo.Context) error {
	var body PasswordChange
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	ctx, name := c.Request().Context(), c.Param("name")
	caller := access.From(ctx)
	parsed, err := access.ParseName(name)
	if err != nil {
		return err
	}
	own := caller.Session != "" && caller.Name == parsed
	switch {
	case own:
		err = s.limited(c, []string{limit.Account(name)}, func() error {
			return s.People.ChangePassword(ctx, name, body.Old, body.New)
		})
	case caller.Role >= access.Administrator && !caller.Scope.Limited():
		err = s.People.SetPassword(ctx, name, body.New)
	default:
		err = problem.Forbidden("you can set the password of your own account only; ask an administrator")
	}
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
