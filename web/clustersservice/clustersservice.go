// Package clustersservice serves the hosted clusters in the format of Clusters Service, for
// reading: the lines of engineers and the tools that look into a cluster's creation.
//
// Clusters Service is not public. The types are those of github.com/openshift-online/ocm-sdk-go.
//
// Design: docs/design.md#hosted-control-planes.
package clustersservice

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/appliance/hosted/search"
	"landfall/store"
	"landfall/web/operation"
	"landfall/web/problem"
)

// The prefixes of the API. Both serve the same objects.
const (
	Root    = "/api/clusters_mgmt/v1"
	ARORoot = "/api/aro_hcp/v1alpha1"
)

// object is an object of the API.
type object = map[string]any

// service answers requests under one of the prefixes.
type service struct {
	*provider.Service
	root string
}

// Operations returns the operations of the API under both prefixes.
func Operations(p *provider.Service) []operation.Operation {
	return slices.Concat(service{p, Root}.operations(""), service{p, ARORoot}.operations("ARO"))
}

func (s service) operations(suffix string) []operation.Operation {
	var all []operation.Operation
	add := func(id, path, summary string, handler echo.HandlerFunc) {
		all = append(all, operation.Operation{ID: id + suffix, Method: http.MethodGet, Path: s.root + path,
			Access: operation.For(access.Viewer), Handler: s.wrap(handler), Summary: summary, Quiet: true})
	}
	const cluster = "/clusters/:id"
	add("listServiceClusters", "/clusters", "List hosted clusters by a search", s.listClusters)
	add("getServiceCluster", cluster, "Show a hosted cluster", s.ofCluster(s.cluster))
	add("getServiceClusterStatus", cluster+"/status", "Show the state of a hosted cluster", s.ofCluster(s.status))
	add("getServiceClusterShard", cluster+"/provision_shard", "Show the management cluster of a hosted cluster",
		s.ofCluster(s.shardOf))
	add("getServiceClusterHypershift", cluster+"/hypershift", "Show the namespace of a hosted cluster",
		s.ofCluster(s.hypershift))
	add("listServiceChecks", cluster+"/inflight_checks", "List the checks of a creation", s.ofCluster(s.checks))
	add("getServiceAutoscaler", cluster+"/autoscaler", "Show the limits of the autoscaler", s.ofCluster(s.autoscaler))
	add("listServiceUpgrades", cluster+"/upgrade_policies", "List planned upgrades", s.ofCluster(s.noPolicies))
	add("listServiceControlPlaneUpgrades", cluster+"/control_plane/upgrade_policies", "List planned upgrades",
		s.ofCluster(s.noPolicies))
	add("listServiceNodePools", cluster+"/node_pools", "List node pools", s.ofCluster(s.nodePools))
	add("getServiceNodePool", cluster+"/node_pools/:child", "Show a node pool", s.ofCluster(s.nodePool))
	add("getServiceNodePoolStatus", cluster+"/node_pools/:child/status", "Show the state of a node pool",
		s.ofCluster(s.nodePoolStatus))
	add("listServiceCredentials", cluster+"/break_glass_credentials", "List the requests for kubeconfigs",
		s.ofCluster(s.credentials))
	add("getServiceCredential", cluster+"/break_glass_credentials/:child", "Show a request for a kubeconfig",
		s.ofCluster(s.credential))
	add("listServiceExternalAuths", cluster+"/external_auth_config/external_auths", "List external authentications",
		s.ofCluster(s.externalAuths))
	add("listServiceVersions", "/versions", "List versions", s.versions)
	add("getServiceVersion", "/versions/:id", "Show a version", s.version)
	add("listServiceShards", "/provision_shards", "List management clusters", s.shards)
	add("getServiceShard", "/provision_shards/:id", "Show a management cluster", s.shard)
	if s.root == ARORoot { // package accounts answers other paths below Root
		all = append(all, operation.Operation{Method: operation.RouteNotFound, Path: s.root + "/*",
			Access: operation.For(access.Viewer), Handler: s.wrap(echo.NotFoundHandler)})
	}
	return all
}

// wrap returns a handler whose errors have the format of Clusters Service.
func (s service) wrap(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
		err := next(c)
		if err == nil || c.Response().Committed {
			return err
		}
		failure := problem.From(err)
		if failure.Status >= http.StatusInternalServerError {
			return err
		}
		id := strconv.Itoa(failure.Status)
		return c.JSON(failure.Status, object{"kind": "Error", "id": id, "href": s.root + "/errors/" + id,
			"code": "CLUSTERS-MGMT-" + id, "reason": failure.Reason,
			"operation_id": c.Response().Header().Get(echo.HeaderXRequestID)})
	}
}

// ofCluster returns a handler that answers with an object about the cluster in the path.
func (s service) ofCluster(show func(echo.Context, *store.Tx, *record.Cluster) (object, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		var answer object
		if err := s.DB.View(func(tx *store.Tx) error {
			cluster, err := record.GetCluster(tx, strings.ToLower(c.Param("id")))
			if err != nil {
				return err
			}
			if cluster == nil {
				return problem.NotFound("Cluster '%s' not found", c.Param("id"))
			}
			answer, err = show(c, tx, cluster)
			return err
		}); err != nil {
			return err
		}
		return c.JSON(http.StatusOK, answer)
	}
}

// maxSize limits the size of a page.
const maxSize = 1_000

// paging is the page that a request wants.
type paging struct{ page, size int }

func pagingOf(c echo.Context) (paging, error) {
	p := paging{1, 100}
	for name, to := range map[string]*int{"page": &p.page, "size": &p.size} {
		text := c.QueryParam(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < -1 || name == "page" && n < 1 {
			return p, problem.BadRequest("The parameter %s is %q; it must be a positive number", name, text)
		}
		*to = n
	}
	if p.size < 0 || p.size > maxSize {
		p.size = maxSize
	}
	return p, nil
}

// bounds returns the positions of the page's first item and of the one after its last.
func (p paging) bounds(total int) (from, to int) {
	if p.page-1 > total/max(1, p.size) { // the product could be too large for an int
		return total, total
	}
	from = min(total, (p.page-1)*p.size)
	return from, min(total, from+p.size)
}

// list answers a page of items.
func (p paging) list(kind string, items []object) object {
	from, to := p.bounds(len(items))
	return p.answer(kind, items[from:to], len(items))
}

// answer answers the items of a page.
func (p paging) answer(kind string, part []object, total int) object {
	if part == nil {
		part = []object{}
	}
	return object{"kind": kind + "List", "page": p.page, "size": len(part), "total": total, "items": part}
}

// fields are the fields by which clusters are found.
var fields = []string{"id", "name", "external_id", "domain_prefix", "state", "region.id", "product.id",
	"cloud_provider.id", "hypershift.enabled", "azure.subscription_id", "azure.resource_group_name",
	"azure.resource_name",
	"azure.tenant_id", "creation_timestamp"}

func (s service) listClusters(c echo.Context) error {
	p, err := pagingOf(c)
	if err != nil {
		return err
	}
	expression, err := search.ParseClusters(c.QueryParam("search"))
	if err != nil {
		return problem.BadRequest("The search can't be read: %s", err)
	}
	for _, field := range expression.Fields() {
		if !slices.Contains(fields, field) && !strings.HasPrefix(field, "properties.") {
			return problem.BadRequest("Clusters can't be searched by %s; the fields are %s and properties.KEY", field,
				strings.Join(fields, ", "))
		}
	}
	var answer object
	err = s.DB.View(func(tx *store.Tx) error {
		tenants := map[string]string{}
		var found []*record.Cluster
		if err := candidates(tx, expression, func(cluster *record.Cluster) error {
			matches, err := expression.Match(func(field string) any { return valueOf(tx, tenants, cluster, field) })
			if err != nil {
				return problem.BadRequest("The search can't be applied: %s", err)
			}
			if matches {
				found = append(found, cluster)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := sortBy(found, c.QueryParam("order")); err != nil {
			return err
		}
		from, to := p.bounds(len(found))
		var items []object
		for _, cluster := range found[from:to] {
			item, err := s.cluster(c, tx, cluster)
			if err != nil {
				return err
			}
			items = append(items, item)
		}
		answer = p.answer("Cluster", items, len(found))
		return nil
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, answer)
}

// candidates calls fn with the clusters that a search can match, by the indexes if it names IDs or
// a subscription.
func candidates(tx *store.Tx, expression search.Expression, fn func(*record.Cluster) error) error {
	if ids, ok := expression.Required("id"); ok {
		for _, id := range ids {
			cluster, err := record.GetCluster(tx, id)
			if err == nil && cluster != nil {
				err = fn(cluster)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	subscriptions, ok := expression.Required("azure.subscription_id")
	if !ok {
		return record.EachCluster(tx, "", "", fn)
	}
	groups, inGroups := expression.Required("azure.resource_group_name")
	var prefixes []string // the search has the texts of azure.* in lower case, like the index
	for _, subscription := range subscriptions {
		if !inGroups {
			prefixes = append(prefixes, subscription+"/")
		}
		for _, group := range groups {
			prefixes = append(prefixes, subscription+"/"+group+"/")
		}
	}
	for _, prefix := range prefixes {
		if err := record.EachCluster(tx, prefix, "", fn); err != nil {
			return err
		}
	}
	return nil
}

// valueOf returns the value of a field for a search.
func valueOf(tx *store.Tx, tenants map[string]string, c *record.Cluster, field string) any {
	switch field {
	case "id":
		return c.CID
	case "name":
		return strings.ToLower(c.ID.Cluster)
	case "external_id":
		return c.UUID
	case "domain_prefix":
		return c.Prefix
	case "state":
		return State(c)
	case "region.id":
		return c.Document.Text("location")
	case "product.id":
		return "aro"
	case "cloud_provider.id":
		return "azure"
	case "hypershift.enabled":
		return true
	case "azure.subscription_id":
		return strings.ToLower(c.ID.Subscription)
	case "azure.resource_group_name":
		return strings.ToLower(c.ID.Group)
	case "azure.resource_name":
		return strings.ToLower(c.ID.Cluster)
	case "azure.tenant_id":
		return tenantOf(tx, tenants, c)
	case "creation_timestamp":
		return c.Created
	}
	return nil
}

func tenantOf(tx *store.Tx, known map[string]string, c *record.Cluster) string {
	tenant, ok := known[c.ID.Subscription]
	if !ok {
		if row, err := record.GetSubscription(tx, c.ID.Subscription); err == nil && row != nil {
			tenant = strings.ToLower(row.Tenant)
		}
		known[c.ID.Subscription] = tenant
	}
	return tenant
}

// sortBy sorts clusters by an order such as "creation_timestamp desc, name".
func sortBy(clusters []*record.Cluster, order string) error {
	if order == "" {
		return nil
	}
	var by []func(a, b *record.Cluster) int
	for part := range strings.SplitSeq(order, ",") {
		name, direction, _ := strings.Cut(strings.TrimSpace(part), " ")
		compare := map[string]func(a, b *record.Cluster) int{
			"id":   func(a, b *record.Cluster) int { return cmp.Compare(a.CID, b.CID) },
			"name": func(a, b *record.Cluster) int { return cmp.Compare(a.ID.Cluster, b.ID.Cluster) },
			"creation_timestamp": func(a, b *record.Cluster) int {
				return a.Created.Compare(b.Created)
			},
			"state": func(a, b *record.Cluster) int { return cmp.Compare(State(a), State(b)) },
		}[name]
		switch direction = strings.ToLower(strings.TrimSpace(direction)); {
		case compare == nil || direction != "" && direction != "asc" && direction != "desc":
			return problem.BadRequest("Clusters can't be ordered by %q; use id, name, creation_timestamp or state, "+
				"with asc or desc", part)
		case direction == "desc":
			by = append(by, func(a, b *record.Cluster) int { return compare(b, a) })
		default:
			by = append(by, compare)
		}
	}
	slices.SortStableFunc(clusters, func(a, b *record.Cluster) int {
		for _, compare := range by {
			if result := compare(a, b); result != 0 {
				return result
			}
		}
		return 0
	})
	return nil
}

// href returns the path of an object.
func (s service) href(format string, args ...any) string {
	return s.root + fmt.Sprintf(format, args...)
}
