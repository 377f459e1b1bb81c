package accounts

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/ams/local"
	"landfall/web/operation"
)

// object is the decoded JSON of an object of AMS.
type object = map[string]any

func reference(kind, path, id string) object {
	return object{"kind": kind, "id": id, "href": Root + path + "/" + id}
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000Z") }

func (s *service) account(a local.Account) (object, error) {
	organization, err := s.organization(a.Organization)
	if err != nil {
		return nil, err
	}
	shown := reference("Account", "/accounts", a.ID)
	shown["username"], shown["first_name"], shown["last_name"], shown["email"] = a.Username, a.Username, "", ""
	shown["banned"], shown["organization_id"], shown["organization"] = false, a.Organization.ID, organization
	return shown, nil
}

func (s *service) organization(o local.Organization) (object, error) {
	shown := reference("Organization", "/organizations", o.ID)
	shown["name"] = o.Name
	return shown, s.addLabels(shown, local.Bearer{Type: local.OfOrganization}, o.ID)
}

// addLabels adds the labels of an object and its capabilities, which are part of the labels.
func (s *service) addLabels(shown object, on local.Bearer, id string) error {
	labels, err := s.Site.Labels(on)
	if err != nil || len(labels) == 0 {
		return err
	}
	var all, capabilities []any
	for _, label := range labels {
		all = append(all, labelObject(on, id, label))
		if strings.HasPrefix(label.Key, local.CapabilityPrefix) {
			capabilities = append(capabilities, object{"kind": "Capability", "name": label.Key, "value": label.Value,
				"inherited": false})
		}
	}
	shown["labels"] = all
	if len(capabilities) > 0 {
		shown["capabilities"] = capabilities
	}
	return nil
}

// accountOperations returns the operations on accounts and organizations. The caller adds the
// access rule to all of them.
func (s *service) accountOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "getCurrentAccount", Method: http.MethodGet, Path: "/current_account", Handler: s.currentAccount,
			Summary: "Show the caller's account", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "getAccessToken", Method: http.MethodPost, Path: "/access_token", Handler: s.accessToken,
			Access:  operation.Access{}.WithSecret(),
			Summary: "Show the site's pull secret", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "authorizeToken", Method: http.MethodPost, Path: "/token_authorization", Handler: noAccountForToken,
			Summary: "Find the account of a token (never found)", Status: http.StatusNotFound},
		{ID: "listAccounts", Method: http.MethodGet, Path: "/accounts", Handler: s.listAccounts,
			Summary: "List the accounts", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "getAccount", Method: http.MethodGet, Path: "/accounts/:id", Handler: s.getAccount,
			Summary: "Show an account", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "listOrganizations", Method: http.MethodGet, Path: "/organizations", Handler: s.listOrganizations,
			Summary: "List the organizations", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "getOrganization", Method: http.MethodGet, Path: "/organizations/:id", Handler: s.getOrganization,
			Summary: "Show an organization", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "listQuotaCost", Method: http.MethodGet, Path: "/organizations/:id/quota_cost",
			Handler: empty("QuotaCostList"),
			Summary: "List quota costs (always empty)", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "listOrganizationQuota", Method: http.MethodGet, Path: "/organizations/:id/resource_quota",
			Handler: empty("ResourceQuotaList"),
			Summary: "List resource quotas (always empty)", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "listResourceQuota", Method: http.MethodGet, Path: "/resource_quota", Handler: empty("ResourceQuotaList"),
			Summary: "List resource quotas (always empty)", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "listRoleBindings", Method: http.MethodGet, Path: "/role_bindings", Handler: empty("RoleBindingList"),
			Summary: "List role bindings (always empty)", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "listRoles", Method: http.MethodGet, Path: "/roles", Handler: empty("RoleList"),
			Summary: "List roles (always empty)", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "listSKUs", Method: http.MethodGet, Path: "/skus", Handler: empty("SKUList"),
			Summary: "List SKUs (always empty)", Status: http.StatusOK, Answer: operation.AnyObject{}},
	}
}

func noAccountForToken(echo.Context) error { return notFound("no account of this site has the token") }

func (s *service) currentAccount(c echo.Context) error {
	shown, err := s.account(callerOf(c).Account)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, shown)
}

func (s *service) listAccounts(c echo.Context) error {
	accounts, err := s.Site.Accounts()
	if err != nil {
		return err
	}
	var all []object
	for _, account := range accounts {
		shown, err := s.account(account)
		if err != nil {
			return err
		}
		if err := s.addLabels(shown, local.Bearer{Type: local.OfAccount, Name: account.Username},
			account.ID); err != nil {
			return err
		}
		all = append(all, shown)
	}
	return list(c, "AccountList", all, append(accountFields, organizationFields("organization.")...))
}

var accountFields = []string{
	"id", "kind", "href", "username", "first_name", "last_name", "email", "created_at", "updated_at", "banned",
	"organization_id",
	"labels.key", "labels.value", "capabilities.name", "capabilities.value",
}

func organizationFields(before string) []string {
	names := []string{"id", "kind", "href", "name", "created_at", "updated_at", "labels.key", "labels.value",
		"capabilities.name", "capabilities.value"}
	for i := range names {
		names[i] = before + names[i]
	}
	return names
}

// findAccount returns an existing account by its ID or user name.
func (s *service) findAccount(id string) (local.Account, error) {
	accounts, err := s.Site.Accounts()
	if err != nil {
		return local.Account{}, err
	}
	for _, account := range accounts {
		if account.ID == id || account.Username == id {
			return account, nil
		}
	}
	return local.Account{}, notFound("Account with id='%s' not found", id)
}

func (s *service) getAccount(c echo.Context) error {
	account, err := s.findAccount(c.Param("id"))
	if err != nil {
		return err
	}
	shown, err := s.account(account)
	if err != nil {
		return err
	}
	if err := s.addLabels(shown, local.Bearer{Type: local.OfAccount, Name: account.Username}, account.ID); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, shown)
}

func (s *service) listOrganizations(c echo.Context) error {
	shown, err := s.organization(s.Site.Organization())
	if err != nil {
		return err
	}
	return list(c, "OrganizationList", []object{shown}, organizationFields(""))
}

func (s *service) getOrganization(c echo.Context) error {
	if err := s.checkOrganization(c.Param("id")); err != nil {
		return err
	}
	shown, err := s.organization(s.Site.Organization())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, shown)
}

// checkOrganization returns an error if the ID is not that of the site's organization.
func (s *service) checkOrganization(id string) error {
	if id != s.Site.Organization().ID {
		return notFound("Organization with id='%s' not found; the organization of this site is %s",
			id, s.Site.Organization().ID)
	}
	return nil
}
