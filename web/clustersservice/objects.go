package clustersservice

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/store"
	"landfall/web/problem"
)

// State returns the state of a cluster in Clusters Service.
func State(c *record.Cluster) string { return stateOf(&c.Resource, c.Observed.State) }

func stateOf(resource *record.Resource, observed string) string {
	switch resource.State {
	case record.Succeeded:
		return controlplane.Ready
	case record.Failed:
		return controlplane.Failed
	case record.Deleting:
		return controlplane.Uninstalling
	case record.Updating:
		return controlplane.Changing
	}
	return observed
}

func timestamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

func versionID(version, channel string) string {
	if channel == "" || channel == "stable" {
		return "openshift-v" + version
	}
	return "openshift-v" + version + "-" + channel
}

func (s service) cluster(_ echo.Context, tx *store.Tx, c *record.Cluster) (object, error) {
	p, err := arm.ClusterPropertiesOf(c.Document)
	if err != nil {
		return nil, err
	}
	m, err := record.GetManagement(tx, c.Consumer)
	if err != nil {
		return nil, err
	}
	listening := "external"
	if p.API.Visibility == "Private" {
		listening = "internal"
	}
	status, err := s.status(nil, tx, c)
	if err != nil {
		return nil, err
	}
	tenant := tenantOf(tx, map[string]string{}, c)
	answer := object{
		"kind": "Cluster", "id": c.CID, "href": s.href("/clusters/%s", c.CID), "name": strings.ToLower(c.ID.Cluster),
		"external_id": c.UUID, "domain_prefix": c.Prefix, "region": object{"kind": "CloudRegionLink",
			"id": c.Document.Text("location")},
		"cloud_provider": object{"kind": "CloudProviderLink", "id": "azure"}, "product": object{"kind": "ProductLink",
			"id": "aro"},
		"hypershift": object{"enabled": true}, "ccs": object{"enabled": true},
		"version": object{"kind": "Version", "id": versionID(c.Release.Version, p.Version.ChannelGroup),
			"channel_group": p.Version.ChannelGroup, "raw_id": c.Release.Version},
		"openshift_version": c.Observed.Version,
		"network": object{"type": p.Network.Type, "pod_cidr": p.Network.PodCIDR, "service_cidr": p.Network.ServiceCIDR,
			"machine_cidr": p.Network.MachineCIDR, "host_prefix": p.Network.HostPrefix},
		"api": object{"url": c.Observed.APIURL, "listening": listening,
			"cidr_block_access": object{"allow": object{"values": p.API.AuthorizedCIDRs}}},
		"image_registry": object{"state": strings.ToLower(p.ClusterImageRegistry.State)}, "fips": c.FIPS,
		"node_pools": object{"kind": "NodePoolListLink", "href": s.href("/clusters/%s/node_pools", c.CID)},
		"properties": object{}, "state": State(c), "status": status,
		"azure": object{"subscription_id": strings.ToLower(c.ID.Subscription),
			"resource_group_name": strings.ToLower(c.ID.Group), "resource_name": strings.ToLower(c.ID.Cluster),
			"tenant_id":                          tenant,
			"managed_resource_group_name":        c.Document.Text("properties.platform.managedResourceGroup"),
			"subnet_resource_id":                 c.Document.Text("properties.platform.subnetId"),
			"network_security_group_resource_id": c.Document.Text("properties.platform.networkSecurityGroupId"),
		},
		"creation_timestamp": timestamp(c.Created),
	}
	if m != nil {
		answer["dns"] = object{"base_domain": m.BaseDomain}
		if c.Observed.APIURL != "" {
			answer["console"] = object{"url": "https://console-openshift-console.apps." + controlplane.Domain(c, m)}
		}
	}
	return answer, nil
}

func (s service) status(_ echo.Context, tx *store.Tx, c *record.Cluster) (object, error) {
	pools, err := record.NodePools(tx, c.CID)
	if err != nil {
		return nil, err
	}
	nodes := int64(0)
	for _, p := range pools {
		nodes += p.Observed.NodesReady
	}
	known := c.Observed.APIURL != ""
	status := object{"kind": "ClusterStatus", "id": c.CID, "href": s.href("/clusters/%s/status", c.CID),
		"state": State(c), "description": c.Reason, "dns_ready": known, "oidc_ready": known,
		"configuration_mode": "full",
		"current_compute":    nodes, "limited_support_reason_count": 0}
	if c.State == record.Failed {
		status["provision_error_code"], status["provision_error_message"] = "OCM4001", c.Reason
		if c.Observed.ErrorCode != "" {
			status["provision_error_code"] = c.Observed.ErrorCode
		}
	}
	return status, nil
}

func (s service) shardOf(_ echo.Context, tx *store.Tx, c *record.Cluster) (object, error) {
	m, err := record.GetManagement(tx, c.Consumer)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, problem.NotFound("Cluster '%s' has no management cluster yet", c.CID)
	}
	shard := s.shardObject(m)
	shard["href"] = s.href("/clusters/%s/provision_shard", c.CID)
	return shard, nil
}

// shardObject returns a management cluster. The URL with the stamp number leads nowhere: it has the
// form from which engineers read the number.
func (s service) shardObject(m *record.Management) object {
	return object{"kind": "ProvisionShard", "id": m.Consumer, "href": s.href("/provision_shards/%s", m.Consumer),
		"status": "active", "topology": "shared", "region": object{"kind": "CloudRegionLink", "id": provider.Location},
		"cloud_provider": object{"kind": "CloudProviderLink", "id": "azure"},
		"azure_shard": object{"aks_management_cluster_resource_id": "",
			"cx_managed_identities_key_vault_url": stampURL(m), "cx_secrets_key_vault_url": stampURL(m),
			"public_dns_zone_resource_id": m.BaseDomain},
		"maestro_config": object{"consumer_name": m.Consumer,
			"rest_api_config": object{"url": "/api/maestro/v1"}},
		"creation_timestamp": timestamp(m.Created), "last_update_timestamp": timestamp(m.Created)}
}

func stampURL(m *record.Management) string {
	return "https://landfall.invalid/shards/" + strconv.Itoa(m.Number)
}

func (s service) hypershift(_ echo.Context, _ *store.Tx, c *record.Cluster) (object, error) {
	return object{"kind": "HypershiftConfig", "href": s.href("/clusters/%s/hypershift", c.CID), "enabled": true,
		"hcp_namespace": controlplane.ControlPlaneNamespace(c), "management_cluster": c.Consumer}, nil
}

// checks are what a creation depends on before HyperShift works on it.
func (s service) checks(c echo.Context, _ *store.Tx, cluster *record.Cluster) (object, error) {
	p, err := pagingOf(c)
	if err != nil {
		return nil, err
	}
	state := func(passed bool) string {
		if passed {
			return "passed"
		}
		return "pending"
	}
	var items []object
	for _, check := range []struct {
		name, details string
		passed        bool
	}{
		{"release", cluster.Release.Version + " " + cluster.Release.Image, cluster.Release.Image != ""},
		{"management-cluster", cluster.Consumer, cluster.Consumer != ""},
		{"networks", "compared with those of the management cluster", cluster.Consumer != ""},
		{"manifests", cluster.Reason, cluster.Observed.Delivered},
	} {
		id := cluster.CID + "-" + check.name
		items = append(items, object{"kind": "InflightCheck", "id": id,
			"href": s.href("/clusters/%s/inflight_checks/%s", cluster.CID, id), "name": check.name,
			"state": state(check.passed), "details": check.details, "started_at": timestamp(cluster.Created)})
	}
	return p.list("InflightCheck", items), nil
}

func (s service) autoscaler(_ echo.Context, _ *store.Tx, c *record.Cluster) (object, error) {
	p, err := arm.ClusterPropertiesOf(c.Document)
	if err != nil {
		return nil, err
	}
	return object{"kind": "ClusterAutoscaler", "href": s.href("/clusters/%s/autoscaler", c.CID),
		"max_pod_grace_period":    p.Autoscaling.MaxPodGracePeriodSeconds,
		"max_node_provision_time": (time.Duration(p.Autoscaling.MaxNodeProvisionTimeSeconds) * time.Second).String(),
		"pod_priority_threshold":  p.Autoscaling.PodPriorityThreshold,
		"resource_limits":         object{"max_nodes_total": p.Autoscaling.MaxNodesTotal}}, nil
}

func (s service) noPolicies(c echo.Context, _ *store.Tx, _ *record.Cluster) (object, error) {
	p, err := pagingOf(c)
	return p.list("UpgradePolicy", nil), err
}

func (s service) nodePools(c echo.Context, tx *store.Tx, cluster *record.Cluster) (object, error) {
	p, err := pagingOf(c)
	if err != nil {
		return nil, err
	}
	pools, err := record.NodePools(tx, cluster.CID)
	if err != nil {
		return nil, err
	}
	var items []object
	for _, pool := range pools {
		item, err := s.poolObject(cluster, pool)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return p.list("NodePool", items), nil
}

func (s service) poolObject(cluster *record.Cluster, pool *record.NodePool) (object, error) {
	p, err := arm.NodePoolPropertiesOf(pool.Document)
	if err != nil {
		return nil, err
	}
	of, err := arm.ClusterPropertiesOf(cluster.Document)
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(pool.ID.Child)
	labels := object{}
	for _, label := range p.Labels {
		labels[label.Key] = label.Value
	}
	answer := object{"kind": "NodePool", "id": name, "href": s.href("/clusters/%s/node_pools/%s", pool.CID, name),
		"auto_repair": p.AutoRepair, "availability_zone": p.Platform.AvailabilityZone, "labels": labels,
		"taints": p.Taints, "azure_node_pool": object{"vm_size": p.Platform.VMSize, "resource_name": pool.ID.Child,
			"os_disk": object{"size_gibibytes": p.Platform.OSDisk.SizeGiB}},
		"version": object{"id": versionID(pool.Release.Version, p.Version.ChannelGroup),
			"raw_id": pool.Release.Version},
		"node_drain_grace_period": object{"value": p.DrainTimeoutMinutes(of), "unit": "minutes"},
		"status":                  poolStatus(pool)}
	if p.AutoScaling != nil {
		answer["autoscaling"] = object{"min_replica": p.AutoScaling.Min, "max_replica": p.AutoScaling.Max}
	} else {
		answer["replicas"] = p.Replicas
	}
	return answer, nil
}

func poolStatus(pool *record.NodePool) object {
	return object{"kind": "NodePoolStatus", "current_replicas": pool.Observed.NodesReady, "message": pool.Reason,
		"state": object{"value": stateOf(&pool.Resource, pool.Observed.State),
			"last_updated_timestamp": timestamp(pool.Updated)}}
}

func poolOf(c echo.Context, tx *store.Tx, cluster *record.Cluster) (*record.NodePool, error) {
	pool, err := record.GetNodePool(tx, cluster.CID, c.Param("child"))
	if err == nil && pool == nil {
		err = problem.NotFound("Node pool '%s' not found", c.Param("child"))
	}
	return pool, err
}

func (s service) nodePool(c echo.Context, tx *store.Tx, cluster *record.Cluster) (object, error) {
	pool, err := poolOf(c, tx, cluster)
	if err != nil {
		return nil, err
	}
	return s.poolObject(cluster, pool)
}

func (s service) nodePoolStatus(c echo.Context, tx *store.Tx, cluster *record.Cluster) (object, error) {
	pool, err := poolOf(c, tx, cluster)
	if err != nil {
		return nil, err
	}
	return poolStatus(pool), nil
}

// credentialObject returns a request for a kubeconfig, without the kubeconfig.
func (s service) credentialObject(credential *record.Credential) object {
	return object{"kind": "BreakGlassCredential", "id": credential.ID, "username": credential.User,
		"href":   s.href("/clusters/%s/break_glass_credentials/%s", credential.CID, credential.ID),
		"status": credential.Status, "expiration_timestamp": timestamp(credential.Expires)}
}

func (s service) credentials(c echo.Context, tx *store.Tx, cluster *record.Cluster) (object, error) {
	p, err := pagingOf(c)
	if err != nil {
		return nil, err
	}
	all, err := record.Credentials(tx, cluster.CID)
	var items []object
	for _, credential := range all {
		items = append(items, s.credentialObject(credential))
	}
	return p.list("BreakGlassCredential", items), err
}

func (s service) credential(c echo.Context, tx *store.Tx, cluster *record.Cluster) (object, error) {
	credential, err := record.GetCredential(tx, cluster.CID, c.Param("child"))
	if err != nil {
		return nil, err
	}
	if credential == nil {
		return nil, problem.NotFound("Break glass credential '%s' not found", c.Param("child"))
	}
	return s.credentialObject(credential), nil
}

func (s service) externalAuths(c echo.Context, tx *store.Tx, cluster *record.Cluster) (object, error) {
	p, err := pagingOf(c)
	if err != nil {
		return nil, err
	}
	all, err := record.ExternalAuths(tx, cluster.CID)
	var items []object
	for _, auth := range all {
		items = append(items, object{"kind": "ExternalAuth", "id": strings.ToLower(auth.ID.Child),
			"href": s.href("/clusters/%s/external_auth_config/external_auths/%s", auth.CID,
				strings.ToLower(auth.ID.Child)),
			"issuer": object{"url": auth.Document.Text("properties.issuer.url")}})
	}
	return p.list("ExternalAuth", items), err
}

func (s service) versionObject(r provider.Release) object {
	id := versionID(r.Version, "stable")
	return object{"kind": "Version", "id": id, "href": s.href("/versions/%s", id), "raw_id": r.Version,
		"channel_group": "stable", "enabled": true, "default": r.Default, "rosa_enabled": false,
		"hosted_control_plane_enabled": true, "release_image": r.Image}
}

func (s service) versions(c echo.Context) error {
	p, err := pagingOf(c)
	if err != nil {
		return err
	}
	var items []object
	for _, r := range s.Site.Releases() {
		items = append(items, s.versionObject(r))
	}
	return c.JSON(http.StatusOK, p.list("Version", items))
}

func (s service) version(c echo.Context) error {
	for _, r := range s.Site.Releases() {
		if versionID(r.Version, "stable") == c.Param("id") {
			return c.JSON(http.StatusOK, s.versionObject(r))
		}
	}
	return problem.NotFound("Version '%s' not found", c.Param("id"))
}

func (s service) shards(c echo.Context) error {
	p, err := pagingOf(c)
	if err != nil {
		return err
	}
	all, err := s.Managements()
	if err != nil {
		return err
	}
	var items []object
	for _, m := range all {
		items = append(items, s.shardObject(m))
	}
	return c.JSON(http.StatusOK, p.list("ProvisionShard", items))
}

func (s service) shard(c echo.Context) error {
	all, err := s.Managements()
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Consumer == c.Param("id") {
			return c.JSON(http.StatusOK, s.shardObject(m))
		}
	}
	return problem.NotFound("Provision shard '%s' not found", c.Param("id"))
}
