package accounts

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/ams/local"
	"landfall/web/operation"
)

// subscriptionFields lists the fields that a subscription of AMS can have.
var subscriptionFields = []string{
	"id", "kind", "href", "cluster_id", "external_cluster_id", "organization_id", "last_telemetry_date", "created_at",
	"updated_at", "support_level",
	"usage", "service_level", "system_units", "product_bundle", "cluster_billing_model", "display_name", "managed",
	"status", "provenance", "released",
	"last_reconcile_date", "console_url", "last_released_at", "cloud_provider_id", "region_id", "trial_end_date",
	"eval_expiration_date", "cpu_total",
	"socket_total", "plan_id", "consumer_uuid", "cloud_account_id", "created_by", "rh_region_id",
}

// objectFields lists the fields that are objects or lists of objects.
var objectFields = []string{"plan", "creator", "labels", "metrics", "landfall", "capabilities", "organization"}

func subscriptionField(name string) bool {
	group, _, nested := strings.Cut(name, ".")
	if nested {
		return slices.Contains(objectFields, group)
	}
	return slices.Contains(subscriptionFields, name)
}

// subscriptionOperations returns the operations on subscriptions.
func (s *service) subscriptionOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "listSubscriptions", Method: http.MethodGet, Path: "/subscriptions", Handler: s.listSubscriptions,
			Summary: "List the subscriptions", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "getSubscription", Method: http.MethodGet, Path: "/subscriptions/:id", Handler: s.getSubscription,
			Summary: "Show a subscription", Status: http.StatusOK, Answer: operation.AnyObject{}},
		{ID: "postClusterAuthorization", Method: http.MethodPost, Path: "/cluster_authorizations",
			Handler: refuseChange,
			Summary: "Refuse to create a subscription", Status: http.StatusForbidden, Answer: operation.AnyObject{}},
		{ID: "postSubscription", Method: http.MethodPost, Path: "/subscriptions", Handler: refuseChange,
			Summary: "Refuse to create a subscription", Status: http.StatusForbidden, Answer: operation.AnyObject{}},
		{ID: "patchSubscription", Method: http.MethodPatch, Path: "/subscriptions/:id", Handler: refuseChange,
			Summary: "Refuse to change a subscription", Status: http.StatusForbidden, Answer: operation.AnyObject{}},
		{ID: "deleteSubscription", Method: http.MethodDelete, Path: "/subscriptions/:id", Handler: refuseChange,
			Summary: "Refuse to delete a subscription", Status: http.StatusForbidden, Answer: operation.AnyObject{}},
	}
}

func refuseChange(echo.Context) error {
	return &failure{http.StatusForbidden, codeForbidden,
		"The appliance updates subscriptions by itself when its clusters change; change the cluster instead"}
}

func (s *service) listSubscriptions(c echo.Context) error {
	q, err := readQuery(c, subscriptionField)
	if err != nil {
		return err
	}
	cluster, one := q.search.Equal("cluster_id")
	var all []object
	if !one || cluster != "" {
		if all, err = s.Subscriptions.Subscriptions(c.Request().Context(), cluster); err != nil {
			return err
		}
	}
	if wantsAccounts(c, q) {
		if err := s.completeCreators(all...); err != nil {
			return err
		}
	}
	if s.wantsLabels(c, q) {
		for _, subscription := range all {
			if err := s.addLabels(subscription, subscriptionBearer(subscription),
				text(subscription["id"])); err != nil {
				return err
			}
		}
	}
	return q.answer(c, "SubscriptionList", all)
}

// wantsLabels reports whether a request for a list names labels. Reading them costs a query for
// each subscription.
func (s *service) wantsLabels(c echo.Context, q *query) bool {
	about := func(name string) bool {
		return strings.HasPrefix(name, "labels") || strings.HasPrefix(name, "capabilities")
	}
	return c.QueryParam("fetchLabels") == "true" || c.QueryParam("fetchCapabilities") == "true" || len(q.labels) > 0 ||
		slices.ContainsFunc(q.search.Names(), about) || slices.ContainsFunc(q.fields, about)
}

// wantsAccounts reports whether a request for a list names other fields of the creators than those
// of a reference.
func wantsAccounts(c echo.Context, q *query) bool {
	about := func(name string) bool {
		field, isCreator := strings.CutPrefix(name, "creator.")
		return isCreator && !slices.Contains([]string{"id", "kind", "href"}, field)
	}
	return c.QueryParam("fetchAccounts") == "true" || slices.ContainsFunc(q.search.Names(), about) ||
		slices.ContainsFunc(q.fields, about) ||
		slices.ContainsFunc(q.order, func(by ordering) bool { return about(by.name) })
}

// completeCreators adds the fields of the site's accounts to the creators of subscriptions. The
// site does not know other accounts of its organization.
func (s *service) completeCreators(subscriptions ...object) error {
	accounts, err := s.Site.Accounts()
	if err != nil {
		return err
	}
	for _, subscription := range subscriptions {
		creator, _ := subscription["creator"].(object)
		i := slices.IndexFunc(accounts, func(a local.Account) bool { return a.ID == text(creator["id"]) })
		if i < 0 {
			continue
		}
		shown, err := s.account(accounts[i])
		if err != nil {
			return err
		}
		maps.Copy(shown, creator)
		subscription["creator"] = shown
	}
	return nil
}

func (s *service) getSubscription(c echo.Context) error {
	subscription, err := s.Subscriptions.Subscription(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	if c.QueryParam("fetchAccounts") == "true" {
		if err := s.completeCreators(subscription); err != nil {
			return err
		}
	}
	if err := s.addLabels(subscription, subscriptionBearer(subscription), text(subscription["id"])); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, subscription)
}
