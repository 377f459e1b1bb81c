package accounts

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// subscriptionFields are those that a subscription can have, whether one of the site has them or
// not.
var subscriptionFields = []string{
	"id", "kind", "href", "cluster_id", "external_cluster_id", "organization_id", "last_telemetry_date", "created_at",
	"updated_at", "support_level",
	"usage", "service_level", "system_units", "product_bundle", "cluster_billing_model", "display_name", "managed",
	"status", "provenance", "released",
	"last_reconcile_date", "console_url", "last_released_at", "cloud_provider_id", "region_id", "trial_end_date",
	"eval_expiration_date", "cpu_total",
	"socket_total", "plan_id", "consumer_uuid", "cloud_account_id", "created_by", "rh_region_id",
}

// groups are the fields that have fields themselves.
var groups = []string{"plan", "creator", "labels", "metrics", "landfall", "capabilities", "organization"}

func subscriptionField(name string) bool {
	group, _, nested := strings.Cut(name, ".")
	if nested {
		return slices.Contains(groups, group)
	}
	return slices.Contains(subscriptionFields, name)
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

// wantsLabels tells whether a list is asked for, or about, labels; finding them costs a look for
// each subscription.
func (s *service) wantsLabels(c echo.Context, q *query) bool {
	about := func(name string) bool {
		return strings.HasPrefix(name, "labels") || strings.HasPrefix(name, "capabilities")
	}
	return c.QueryParam("fetchLabels") == "true" || c.QueryParam("fetchCapabilities") == "true" || len(q.labels) > 0 ||
		slices.ContainsFunc(q.search.Names(), about) || slices.ContainsFunc(q.fields, about)
}

func (s *service) getSubscription(c echo.Context) error {
	subscription, err := s.Subscriptions.Subscription(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	if err := s.addLabels(subscription, subscriptionBearer(subscription), text(subscription["id"])); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, subscription)
}
