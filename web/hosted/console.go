package hosted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/hosted"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/appliance/hosted/workers"
	"landfall/appliance/sentence"
	"landfall/store"
	"landfall/web/clustersservice"
	"landfall/web/console"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
)

// The routes of the console's operations.
const (
	Route           = console.BasePath + "/hosted"
	ClustersRoute   = Route + "/clusters"
	BundlesRoute    = Route + "/bundles"
	ManagementRoute = Route + "/management-clusters"
)

// Overview is what the page on hosted clusters shows.
type Overview struct {
	// Disabled is true if the configuration disables hosted clusters. Then the rest is empty.
	Disabled bool `json:"disabled,omitempty"`

	Subscription string              `json:"subscription"`
	Versions     []string            `json:"versions"`
	Clusters     []Cluster           `json:"clusters"`
	Management   []ManagementCluster `json:"management_clusters"`
}

// Cluster is a hosted cluster.
type Cluster struct {
	ResourceID string `json:"resource_id"`
	CID        string `json:"cid"`
	Name       string `json:"name"`
	Group      string `json:"group"`
	State      string `json:"state"`
	// Reason is what it waits for, or the reason of the first node pool that has one.
	Reason string `json:"reason,omitempty"`
	// AsOf is the time of the last report; zero: none yet.
	AsOf       time.Time  `json:"as_of,omitzero"`
	Version    string     `json:"version,omitempty"` // completed
	Wanted     string     `json:"wanted_version"`
	APIURL     string     `json:"api_url,omitempty"`
	Management string     `json:"management_cluster,omitempty"`
	Delivered  bool       `json:"delivered"`
	Created    time.Time  `json:"created_at"`
	NodePools  []NodePool `json:"node_pools"`
}

// NodePool is a node pool of a hosted cluster.
type NodePool struct {
	Name    string    `json:"name"`
	Profile string    `json:"profile"`
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	Wanted  int64     `json:"wanted"`
	Most    int64     `json:"most,omitempty"` // with autoscaling
	Ready   int64     `json:"ready"`
	AsOf    time.Time `json:"as_of,omitzero"`
}

// ManagementCluster is a management cluster and its connection.
type ManagementCluster struct {
	record.Management
	Clusters int       `json:"clusters"`
	Seen     time.Time `json:"seen_at,omitzero"` // last message; zero: never
	// Since is the time since which the agent is connected; zero: it is not connected.
	Since time.Time `json:"connected_since,omitzero"`
	Held  string    `json:"held,omitempty"` // why nothing is delivered to it
	// Problems are sentences about its connection.
	Problems []string `json:"problems,omitempty"`
}

// Detail is everything about a hosted cluster.
type Detail struct {
	Cluster
	Conditions []record.Condition `json:"conditions"`
	DNS        []DNSRecord        `json:"dns_records"`
	Bundles    []Bundle           `json:"bundles"`
	Lines      []Line             `json:"lines"`
}

// DNSRecord is a record that a person must add to the site's DNS.
type DNSRecord struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
}

// Line is a command that looks into a part of the cluster's creation.
type Line struct {
	Title   string `json:"title"`
	Command string `json:"command"`
}

// Bundle is a bundle and its last status.
type Bundle struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Consumer  string            `json:"consumer"`
	CID       string            `json:"cid,omitempty"`
	Version   int64             `json:"version"`
	Reported  int64             `json:"reported_version"` // 0: never
	At        time.Time         `json:"reported_at,omitzero"`
	Updated   time.Time         `json:"updated_at"`
	Deleted   time.Time         `json:"deleted_at,omitzero"`
	State     string            `json:"state"` // waiting, applied, refused, deleting
	Reason    string            `json:"reason,omitempty"`
	Manifests []json.RawMessage `json:"manifests,omitempty"` // of one bundle; without the data of Secrets
	Status    json.RawMessage   `json:"status,omitempty"`    // of one bundle
}

// NewCluster is a request for a hosted cluster.
type NewCluster struct {
	Name string `json:"name"`
	// Version is X.Y or X.Y.Z; empty: the site's default release.
	Version      string    `json:"version,omitempty"`
	Group        string    `json:"group,omitempty"`         // resource group; empty: site
	Location     string    `json:"location,omitempty"`      // management cluster, if there are several
	DomainPrefix string    `json:"domain_prefix,omitempty"` // empty: from the name
	NodePools    []NewPool `json:"node_pools,omitempty"`
}

// NewPool is a node pool of a request for a hosted cluster.
type NewPool struct {
	Name     string `json:"name"`
	Profile  string `json:"profile"`
	Replicas int64  `json:"replicas"`
}

// Kubeconfig is a request for a kubeconfig of a hosted cluster's administrator.
type Kubeconfig struct {
	Operation  string    `json:"operation"`
	Status     string    `json:"status"`
	Error      string    `json:"error,omitempty"`
	Kubeconfig string    `json:"kubeconfig,omitempty"`
	Expires    time.Time `json:"expires_at,omitzero"`
}

type consoleService struct {
	*hosted.Service
	clusters Clusters
}

// consoleOperations returns the operations of the page and the commands.
func consoleOperations(h *hosted.Service, clusters Clusters) []operation.Operation {
	s := consoleService{h, clusters}
	viewer, administrator := operation.For(access.Viewer), operation.For(access.Administrator)
	return []operation.Operation{
		overviewOperation(s.overview),
		{ID: "getHostedDetail", Method: http.MethodGet, Path: ClustersRoute + "/:cid", Access: viewer,
			Handler: s.detail,
			Summary: "Show a hosted cluster by its ID in Clusters Service or its name", Status: http.StatusOK,
			Answer: Detail{}, Errors: []int{404, 409}},
		{ID: "createHosted", Method: http.MethodPost, Path: ClustersRoute, Access: operation.For(access.Operator),
			Handler: s.create, Summary: "Create a hosted cluster with its node pools", Body: NewCluster{},
			Status: http.StatusCreated, Answer: Cluster{}, Errors: []int{400, 409}},
		{ID: "requestHostedKubeconfig", Method: http.MethodPost, Path: ClustersRoute + "/:cid/kubeconfigs",
			Access: administrator, Handler: s.requestKubeconfig,
			Summary: "Request a kubeconfig of a hosted cluster's administrator", Status: http.StatusAccepted,
			Answer: Kubeconfig{}, Errors: []int{404, 409}},
		{ID: "getHostedKubeconfig", Method: http.MethodGet, Path: ClustersRoute + "/:cid/kubeconfigs/:operation",
			Access: administrator.WithSecret(), Handler: s.getKubeconfig,
			Summary: "Show a requested kubeconfig", Status: http.StatusOK, Answer: Kubeconfig{}, Errors: []int{404}},
		{ID: "listHostedBundles", Method: http.MethodGet, Path: BundlesRoute, Access: viewer, Handler: s.bundles,
			Summary:    "List bundles without their manifests",
			Parameters: []operation.Parameter{{Name: "cluster"}, {Name: "consumer"}},
			Status:     http.StatusOK, Answer: map[string][]Bundle{}},
		{ID: "getHostedBundle", Method: http.MethodGet, Path: BundlesRoute + "/:bundle", Access: viewer,
			Handler: s.bundle,
			Summary: "Show a bundle with its manifests and status", Status: http.StatusOK, Answer: Bundle{},
			Errors: []int{404}},
		{ID: "addManagementCluster", Method: http.MethodPost, Path: ManagementRoute, Access: administrator,
			Handler: s.addManagement, Summary: "Use a cluster for hosted control planes", Body: record.Management{},
			Parameters: []operation.Parameter{{Name: "force", Type: operation.Flag}},
			Status:     http.StatusCreated, Answer: record.Management{}, Errors: []int{400, 409}},
		{ID: "checkManagementCluster", Method: http.MethodPost, Path: ManagementRoute + "/check",
			Access: administrator, Handler: s.checkManagement,
			Summary: "Say what a cluster lacks before it runs hosted control planes", Body: record.Management{},
			Status: http.StatusOK, Answer: Findings{}, Errors: []int{400, 404, 409}},
		{ID: "applyManagementAgent", Method: http.MethodPost, Path: ManagementRoute + "/:consumer/agent",
			Access: administrator, Handler: s.applyAgent,
			Summary:    "Issue a certificate for the agent of a management cluster, and apply its manifests there",
			Parameters: []operation.Parameter{{Name: "image"}}, Status: http.StatusOK, Answer: Applied{},
			Errors: []int{400, 404, 409, 503}},
		{ID: "getManagementAgent", Method: http.MethodGet, Path: ManagementRoute + "/:consumer/agent",
			Access: administrator.WithSecret(), Handler: s.agent,
			Summary:    "Issue a certificate for the agent of a management cluster, and return its manifests",
			Parameters: []operation.Parameter{{Name: "image"}},
			Status:     http.StatusOK, Answer: operation.File{}, Errors: []int{400, 404, 409}},
		{ID: "getManagementWorkers", Method: http.MethodGet, Path: ManagementRoute + "/:consumer/workers",
			Access: viewer, Handler: s.workers,
			Summary: "List the hosts of the appliance that are offered to a management cluster as workers",
			Status:  http.StatusOK, Answer: workers.Overview{}, Errors: []int{404}},
		{ID: "setManagementWorkers", Method: http.MethodPut, Path: ManagementRoute + "/:consumer/workers",
			Access: administrator, Handler: s.setWorkers,
			Summary: "Choose the infra-envs whose hosts are offered to a management cluster as workers",
			Body:    ChosenWorkers{}, Status: http.StatusOK, Answer: workers.Overview{}, Errors: []int{400, 404, 409}},
		{ID: "removeManagementCluster", Method: http.MethodDelete, Path: ManagementRoute + "/:consumer",
			Access: administrator, Handler: s.removeManagement,
			Summary: "Stop using a cluster for hosted control planes", Status: http.StatusNoContent,
			Errors: []int{404, 409}},
	}
}

func overviewOperation(handler echo.HandlerFunc) operation.Operation {
	return operation.Operation{ID: "getHosted", Method: http.MethodGet, Path: Route,
		Access: operation.For(access.Viewer), Handler: handler,
		Summary: "List hosted clusters and management clusters", Status: http.StatusOK, Answer: Overview{}}
}

// DisabledOperations returns the operation of an appliance whose configuration disables hosted
// clusters. The page and the commands ask it whether they are enabled.
func DisabledOperations() []operation.Operation {
	return []operation.Operation{overviewOperation(func(c echo.Context) error {
		return c.JSON(http.StatusOK, Overview{Disabled: true, Versions: []string{}, Clusters: []Cluster{},
			Management: []ManagementCluster{}})
	})}
}

func (s consoleService) overview(c echo.Context) error {
	seeded, err := s.Provider.Seeded()
	if err != nil {
		return err
	}
	answer := Overview{Versions: []string{}, Clusters: []Cluster{}, Management: []ManagementCluster{}}
	if seeded != nil {
		answer.Subscription = seeded.ID
	}
	for _, r := range s.Provider.Site.Releases() {
		answer.Versions = append(answer.Versions, r.Version)
	}
	err = s.Provider.DB.View(func(tx *store.Tx) error {
		counts := map[string]int{}
		if err := record.EachCluster(tx, "", "", func(row *record.Cluster) error {
			counts[row.Consumer]++
			shown, err := clusterOf(tx, row)
			answer.Clusters = append(answer.Clusters, shown)
			return err
		}); err != nil {
			return err
		}
		all, err := record.Managements(tx)
		if err != nil {
			return err
		}
		for _, m := range all {
			shown := ManagementCluster{Management: *m, Clusters: counts[m.Consumer]}
			if consumer, err := bundle.GetConsumer(tx, m.Consumer); err == nil {
				shown.Seen = consumer.Seen
			}
			shown.Since, shown.Problems = s.connectionOf(m)
			certificates, err := broker.ListCredentials(tx, m.Consumer)
			if err != nil {
				return err
			}
			if problem := problemOfEnd(certificates, s.Provider.Clock.Now()); problem != "" {
				shown.Problems = append(shown.Problems, problem)
			}
			if shown.Seen.Before(shown.Since) {
				shown.Seen = shown.Since // the stored time can be a minute old
			}
			hold, err := maestro.GetHold(tx, m.Consumer)
			if err != nil {
				return err
			}
			if hold != nil {
				shown.Held = hold.Reason
			}
			answer.Management = append(answer.Management, shown)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, answer)
}

// connectionOf returns since when a management cluster is connected, and what is wrong with its
// connection.
func (s consoleService) connectionOf(m *record.Management) (since time.Time, problems []string) {
	if s.Broker == nil {
		return since, nil
	}
	consumer := m.Consumer
	if problem := s.BrokerProblem(m); problem != "" {
		problems = append(problems, problem)
	}
	connection := s.Broker.Connections()[consumer]
	if refused, ok := s.Broker.Refusals()[consumer]; ok {
		problems = append(problems, fmt.Sprintf("Its last connection was refused at %s: %s",
			refused.At.UTC().Format(time.RFC3339), sentence.Close(refused.Reason)))
	}
	if clock, ok := s.Maestro.ClockFaults()[consumer]; ok {
		problems = append(problems, problemOfClock(clock))
	}
	if connection.Replaced > 2 {
		problems = append(problems, "Two agents use the same certificate and end each other's connections. Stop one "+
			"of them.")
	}
	return connection.Since, problems
}

// endsSoon is the time before the end of an agent's certificate from which on it is a problem.
const endsSoon = 90 * 24 * time.Hour

// problemOfEnd says that the last certificate that the agent uses ends soon, or returns "".
func problemOfEnd(all []broker.Credential, now time.Time) string {
	var end time.Time
	for _, c := range all {
		if !c.Used.IsZero() && c.Revoked.IsZero() && c.Until.After(end) {
			end = c.Until
		}
	}
	if end.IsZero() || end.Sub(now) >= endsSoon {
		return ""
	}
	return fmt.Sprintf("The certificate of its agent is valid until %s. Write new manifests with landfall hcp "+
		"consumers agent, and apply them.", end.UTC().Format(time.DateOnly))
}

func problemOfClock(clock maestro.ClockFault) string {
	return fmt.Sprintf("Its clock was set back to %s. Its reports count again when it shows %s; the missed ones are "+
		"asked for then.", clock.Agent.UTC().Format(time.RFC3339), clock.Until.UTC().Format(time.RFC3339))
}

func clusterOf(tx *store.Tx, row *record.Cluster) (Cluster, error) {
	shown := Cluster{ResourceID: row.ID.String(), CID: row.CID, Name: row.ID.Cluster, Group: row.ID.Group,
		State: row.State, Reason: row.Reason, AsOf: row.Observed.At, Version: row.Observed.Version,
		Wanted: row.Release.Version, APIURL: row.Observed.APIURL, Management: row.Consumer,
		Delivered: row.Observed.Delivered, Created: row.Created, NodePools: []NodePool{}}
	pools, err := record.NodePools(tx, row.CID)
	if err != nil {
		return shown, err
	}
	for _, pool := range pools {
		p, err := arm.NodePoolPropertiesOf(pool.Document)
		if err != nil {
			return shown, err
		}
		one := NodePool{Name: pool.ID.Child, Profile: p.Platform.VMSize, State: pool.State, Reason: pool.Reason,
			Wanted: p.Replicas, Ready: pool.Observed.NodesReady, AsOf: pool.Observed.At}
		if p.AutoScaling != nil {
			one.Wanted, one.Most = p.AutoScaling.Min, p.AutoScaling.Max
		}
		shown.NodePools = append(shown.NodePools, one)
		if shown.Reason == "" && one.Reason != "" {
			shown.Reason = "The node pool " + one.Name + ": " + one.Reason
		}
	}
	return shown, nil
}

// find returns the cluster with an ID of Clusters Service or a name.
func find(tx *store.Tx, idOrName string) (*record.Cluster, error) {
	found, err := record.GetCluster(tx, strings.ToLower(idOrName))
	if err != nil || found != nil {
		return found, err
	}
	err = record.EachCluster(tx, "", "", func(c *record.Cluster) error {
		if !strings.EqualFold(c.ID.Cluster, idOrName) {
			return nil
		}
		if found != nil {
			return problem.Conflict("several hosted clusters have the name %s; use one of the IDs %s and %s", idOrName,
				found.CID, c.CID)
		}
		found = c
		return nil
	})
	if err == nil && found == nil {
		err = problem.NotFound("there is no hosted cluster %s; landfall hcp list shows the existing ones", idOrName)
	}
	return found, err
}

func (s consoleService) detail(c echo.Context) error {
	var answer Detail
	if err := s.Provider.DB.View(func(tx *store.Tx) error {
		row, err := find(tx, c.Param("cid"))
		if err != nil {
			return err
		}
		if answer.Cluster, err = clusterOf(tx, row); err != nil {
			return err
		}
		answer.Conditions = append([]record.Condition{}, row.Observed.Conditions...)
		m, err := record.GetManagement(tx, row.Consumer)
		if store.SkipDamaged(err) != nil { // the rest is known
			return err
		}
		answer.DNS, answer.Lines = dnsRecords(row, m), lines(row, m)
		answer.Bundles = []Bundle{}
		return bundle.EachOfCluster(tx, row.CID, func(b *bundle.Bundle) error {
			shown, err := bundleOf(tx, b)
			answer.Bundles = append(answer.Bundles, shown)
			return err
		})
	}); err != nil {
		return err
	}
	slices.SortFunc(answer.Bundles, func(a, b Bundle) int { return strings.Compare(a.Name, b.Name) })
	return c.JSON(http.StatusOK, answer)
}

// dnsRecords returns the records that a person must add for a cluster.
func dnsRecords(c *record.Cluster, m *record.Management) []DNSRecord {
	records := []DNSRecord{}
	if m == nil {
		return records
	}
	value, note := m.Address, "One address is a single point of failure. Add a record for each node of the management "+
		"cluster."
	if m.Publish == controlplane.LoadBalancer {
		value, note = "", "Use the address that the load balancer of the management cluster gave the service."
	}
	for _, name := range []string{"api", "api-int"} {
		records = append(records, DNSRecord{name + "." + controlplane.Domain(c, m), "A", value, note})
	}
	return append(records, DNSRecord{"*.apps." + controlplane.Domain(c, m), "A", "",
		"Use the addresses of the workers that run the router, or of their load balancer."})
}

// lines returns the commands that look into the parts of a cluster's creation. m may be nil.
func lines(c *record.Cluster, m *record.Management) []Line {
	applied := []Line{{"Applied bundles", "kubectl get appliedmanifestworks"}}
	if m != nil && m.Layout == controlplane.Nested {
		applied = []Line{{"ManifestWorks", `kubectl get manifestwork -l "` + bundle.LabelCluster + "=" + c.CID + `" -n ` +
			controlplane.LocalCluster}, {"ManagedClusters", "kubectl get managedclusters"}}
	}
	subscription, group := strings.ToLower(c.ID.Subscription), strings.ToLower(c.ID.Group)
	return slices.Concat([]Line{
		{"State at the resource provider", "curl -s 'localhost:8443" + c.ID.String() + "?api-version=" +
			arm.DefaultVersion + "' | jq"},
		{"State in Clusters Service", "curl -sG http://localhost:8001" + clustersservice.Root +
			"/clusters --data-urlencode \"search=azure.subscription_id='" + subscription +
			"' and azure.resource_group_name='" + group + "'\" | jq"},
		{"Management cluster", "curl -sG http://localhost:8001" + clustersservice.Root + "/clusters/" + c.CID +
			"/provision_shard | jq"},
		{"Bundles in Maestro", "curl -sG http://localhost:8002/api/maestro/v1/resource-bundles --data-urlencode " +
			"\"search=payload->'metadata'->'labels'->>'" + bundle.LabelCluster + "'='" + c.CID + "'\" | jq"},
		{"Log of the agent", "kubectl logs -n maestro deployment/maestro-agent -c maestro-agent"},
	}, applied, []Line{
		{"HostedClusters", "kubectl get hostedclusters -A"},
		{"Pods of the control plane", "kubectl get pods -n " + controlplane.ControlPlaneNamespace(c)},
	})
}

func bundleOf(tx *store.Tx, b *bundle.Bundle) (Bundle, error) {
	shown := Bundle{ID: b.ID, Name: b.Name, Consumer: b.Consumer, CID: b.Labels[bundle.LabelCluster],
		Version: b.Version,
		Updated: b.Updated, Deleted: b.Deleted}
	status, err := bundle.GetStatus(tx, b.ID)
	if err != nil {
		return shown, err
	}
	if status != nil {
		shown.Reported, shown.At = status.ResourceVersion, status.Received
	}
	shown.State, shown.Reason = controlplane.BundleState(b, status)
	return shown, nil
}

func (s consoleService) bundles(c echo.Context) error {
	all := []Bundle{}
	if err := s.Provider.DB.View(func(tx *store.Tx) error {
		add := func(b *bundle.Bundle) error {
			shown, err := bundleOf(tx, b)
			all = append(all, shown)
			return err
		}
		switch cluster, consumer := c.QueryParam("cluster"), c.QueryParam("consumer"); {
		case cluster != "":
			row, err := find(tx, cluster)
			if err != nil {
				return err
			}
			return bundle.EachOfCluster(tx, row.CID, add)
		case consumer != "":
			return bundle.EachOfConsumer(tx, consumer, add)
		}
		return bundle.Each(tx, add)
	}); err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b Bundle) int { return strings.Compare(a.Name, b.Name) })
	return c.JSON(http.StatusOK, map[string][]Bundle{"bundles": all})
}

func (s consoleService) bundle(c echo.Context) error {
	var shown Bundle
	if err := s.Provider.DB.View(func(tx *store.Tx) error {
		b, err := bundle.Get(tx, c.Param("bundle"))
		if err != nil {
			return err
		}
		if shown, err = bundleOf(tx, b); err != nil {
			return err
		}
		for _, manifest := range bundle.WithoutSecrets(b.Manifests) {
			text, err := json.Marshal(manifest)
			if err != nil {
				return err
			}
			shown.Manifests = append(shown.Manifests, text)
		}
		status, err := bundle.GetStatus(tx, b.ID)
		if status != nil && !b.IsCredential() {
			shown.Status = status.Data
		}
		return err
	}); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, shown)
}

func (s consoleService) removeManagement(c echo.Context) error {
	if err := s.Provider.RemoveManagement(c.Request().Context(), c.Param("consumer")); err != nil {
		return err
	}
	s.Disconnect(strings.ToLower(c.Param("consumer")))
	return c.NoContent(http.StatusNoContent)
}

// resourceID returns the resource ID of the cluster in the path of a request.
func (s consoleService) resourceID(c echo.Context) (id arm.ID, err error) {
	err = s.Provider.DB.View(func(tx *store.Tx) error {
		row, err := find(tx, c.Param("cid"))
		if err == nil {
			id = row.ID
		}
		return err
	})
	return id, err
}

func callerOf(c echo.Context) provider.Caller {
	return provider.Caller{Name: access.From(c.Request().Context()).String(), Version: arm.DefaultVersion}
}

func (s consoleService) requestKubeconfig(c echo.Context) error {
	id, err := s.resourceID(c)
	if err != nil {
		return err
	}
	o, err := s.Provider.RequestCredential(c.Request().Context(), callerOf(c), id, "")
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, Kubeconfig{Operation: o.ID, Status: o.Status})
}

func (s consoleService) getKubeconfig(c echo.Context) error {
	id, err := s.resourceID(c)
	if err != nil {
		return err
	}
	result, err := s.Provider.Result(id.Subscription, c.Param("operation"), callerOf(c))
	if err != nil {
		return err
	}
	if result == nil {
		return problem.NotFound("there is no request %s for a kubeconfig", c.Param("operation"))
	}
	answer := Kubeconfig{Operation: result.Operation.ID, Status: result.Operation.Status}
	if result.Operation.Error != nil {
		answer.Error = result.Operation.Error.Error()
	}
	if result.Credential != nil {
		answer.Kubeconfig, answer.Expires = result.Credential.Kubeconfig, result.Credential.Expires
	}
	return c.JSON(http.StatusOK, answer)
}

func (s consoleService) create(c echo.Context) error {
	var wanted NewCluster
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	seeded, err := s.Provider.Seeded()
	if err != nil {
		return err
	}
	if seeded == nil {
		return problem.Conflict("the subscription that the appliance made at its first start is missing")
	}
	id := arm.ID{Subscription: seeded.ID, Group: cmp.Or(wanted.Group, "site"), Cluster: wanted.Name}
	if wanted.Name == "" {
		return problem.BadRequest("the name of the hosted cluster is missing")
	}
	location := cmp.Or(wanted.Location, "site")
	body := arm.Document{"location": location}
	if wanted.Version != "" {
		body.Set("properties.version.id", wanted.Version)
	}
	if wanted.DomainPrefix != "" {
		body.Set("properties.dns.baseDomainPrefix", wanted.DomainPrefix)
	}
	var pools []provider.NewNodePool
	for _, pool := range wanted.NodePools {
		document := arm.Document{"location": location}
		document.Set("properties.platform.vmSize", pool.Profile)
		document.Set("properties.replicas", pool.Replicas)
		pools = append(pools, provider.NewNodePool{Name: pool.Name, Body: document})
	}
	if _, err := s.Provider.CreateCluster(c.Request().Context(), callerOf(c), id, body, pools); err != nil {
		return err
	}
	var shown Cluster
	if err := s.Provider.DB.View(func(tx *store.Tx) error {
		row, err := record.FindCluster(tx, id)
		if err != nil || row == nil {
			return err
		}
		shown, err = clusterOf(tx, row)
		return err
	}); err != nil {
		return err
	}
	recording.Created(c.Request().Context(), "hosted_cluster", shown.CID)
	return c.JSON(http.StatusCreated, shown)
}
