package accounts

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/ams/local"
	"landfall/web/operation"
)

// reviewOperations returns the operations on reviews.
func (s *service) reviewOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "reviewAccess", Method: http.MethodPost, Path: "/access_review", Handler: s.accessReview,
			Summary: "Review whether an account may perform an action", Status: http.StatusOK,
			Answer: operation.AnyObject{}},
		{ID: "reviewOwnAccess", Method: http.MethodPost, Path: "/self_access_review", Handler: s.accessReview,
			Summary: "Review whether the caller may perform an action", Status: http.StatusOK,
			Answer: operation.AnyObject{}},
		{ID: "reviewCapability", Method: http.MethodPost, Path: "/capability_review", Handler: s.capabilityReview,
			Summary: "Review whether an object has a capability", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "reviewFeature", Method: http.MethodPost, Path: "/feature_review", Handler: s.featureReview,
			Summary: "Review whether a feature is enabled", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "reviewOwnFeature", Method: http.MethodPost, Path: "/self_feature_review", Handler: s.featureReview,
			Summary: "Review whether a feature is enabled for the caller", Status: http.StatusOK,
			Answer: operation.AnyObject{}},
		{ID: "reviewTerms", Method: http.MethodPost, Path: "/terms_review", Handler: terms,
			Summary: "Review whether terms must be accepted (never at a site)", Status: http.StatusOK,
			Answer: operation.AnyObject{}},
		{ID: "reviewOwnTerms", Method: http.MethodPost, Path: "/self_terms_review", Handler: terms,
			Summary: "Review whether the caller must accept terms (never at a site)", Status: http.StatusOK,
			Answer: operation.AnyObject{}},
	}
}

// planOperations returns the operations on plans and feature toggles.
func (s *service) planOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "getPlan", Method: http.MethodGet, Path: "/plans/:id", Handler: plan,
			Summary: "Show a plan", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "queryFeatureToggle", Method: http.MethodPost, Path: "/feature_toggles/:id/query",
			Handler: s.featureToggle,
			Summary: "Show whether a feature is enabled", Status: http.StatusOK, Answer: operation.AnyObject{}},
	}
}

// accessReview answers whether an account may perform an action. Every action is allowed, except
// writing with a read-only token.
func (s *service) accessReview(c echo.Context) error {
	var body struct {
		Username     string `json:"account_username"`
		Action       string `json:"action"`
		Type         string `json:"resource_type"`
		Subscription string `json:"subscription_id"`
		Cluster      string `json:"cluster_id"`
		Organization string `json:"organization_id"`
	}
	if err := readBody(c, &body); err != nil {
		return err
	}
	if body.Action == "" || body.Type == "" {
		return badRequest(codeValidation, "action and resource_type are missing from the body")
	}
	caller := callerOf(c)
	username := cmp.Or(body.Username, caller.Account.Username)
	allowed := !caller.ReadOnly || slices.Contains([]string{"get", "list"}, body.Action)
	if _, err := s.findAccount(username); err != nil {
		allowed = false
	}
	if body.Subscription != "" {
		if _, err := s.Subscriptions.Subscription(c.Request().Context(), body.Subscription); err != nil {
			allowed = false
		}
	}
	if body.Organization != "" && body.Organization != s.Site.Organization().ID {
		allowed = false
	}
	return c.JSON(http.StatusOK, object{
		"allowed": allowed, "account_username": username, "action": body.Action, "resource_type": body.Type,
		"subscription_id": body.Subscription,
		"cluster_id":      body.Cluster, "organization_id": cmp.Or(body.Organization, s.Site.Organization().ID),
		"is_ocm_internal": false, "reason": "",
	})
}

// capabilityReview answers whether an object has a capability, by its labels.
func (s *service) capabilityReview(c echo.Context) error {
	var body struct {
		Username     string `json:"account_username"`
		Capability   string `json:"capability"`
		Type         string `json:"type"`
		Organization string `json:"organization_id"`
		Subscription string `json:"subscription_id"`
		Cluster      string `json:"cluster_id"`
	}
	if err := readBody(c, &body); err != nil {
		return err
	}
	var on local.Bearer
	switch body.Type {
	case "Organization":
		on = local.Bearer{Type: local.OfOrganization}
		if id := body.Organization; id != "" && id != s.Site.Organization().ID {
			return c.JSON(http.StatusOK, object{"result": "false"})
		}
	case "Account":
		account, err := s.findAccount(cmp.Or(body.Username, callerOf(c).Account.Username))
		if err != nil {
			return c.JSON(http.StatusOK, object{"result": "false"})
		}
		on = local.Bearer{Type: local.OfAccount, Name: account.Username}
	case "Cluster", "Subscription":
		cluster := body.Cluster
		if body.Subscription != "" {
			subscription, err := s.Subscriptions.Subscription(c.Request().Context(), body.Subscription)
			if err != nil {
				return c.JSON(http.StatusOK, object{"result": "false"})
			}
			cluster = text(subscription["cluster_id"])
		}
		on = local.Bearer{Type: local.OfSubscription, Name: cluster}
	default:
		return badRequest(codeValidation, "The type is %q; expected Account, Organization, Cluster or Subscription",
			body.Type)
	}
	capable, err := s.Site.Capable(on, body.Capability)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, object{"result": strconv.FormatBool(capable)})
}

// featureReview answers whether a feature is enabled. It is enabled if the organization has the
// capability of the same name.
func (s *service) featureReview(c echo.Context) error {
	var body struct {
		Feature string `json:"feature"`
	}
	if err := readBody(c, &body); err != nil {
		return err
	}
	enabled, err := s.feature(body.Feature)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, object{"enabled": enabled, "feature_id": body.Feature})
}

func (s *service) feature(name string) (bool, error) {
	return s.Site.Capable(local.Bearer{Type: local.OfOrganization}, strings.ReplaceAll(name, "-", "_"))
}

func (s *service) featureToggle(c echo.Context) error {
	enabled, err := s.feature(c.Param("id"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, object{"kind": "FeatureToggle", "id": c.Param("id"),
		"href": Root + "/feature_toggles/" + c.Param("id"), "enabled": enabled})
}

func terms(c echo.Context) error {
	return c.JSON(http.StatusOK, object{"account_id": callerOf(c).Account.ID, "terms_available": false,
		"terms_required": false})
}

func plan(c echo.Context) error {
	if c.Param("id") != "OCP-AssistedInstall" {
		return notFound("Plan with id='%s' not found", c.Param("id"))
	}
	shown := reference("Plan", "/plans", c.Param("id"))
	shown["type"], shown["category"], shown["name"] = "OCP", "AssistedInstall",
		"OpenShift Container Platform, Assisted Installer"
	return c.JSON(http.StatusOK, shown)
}
