package appliance_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/google/uuid"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/pagetest"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/simulate"
	"landfall/web/console"
)

// A reading holds facts of a cluster as one of the appliance's interfaces shows them.
type reading map[fact]string

type fact string

// shownSite is an appliance with a client that has a token of the local AMS API, as ocm.
type shownSite struct {
	*connection
	ocm *http.Client
}

func showSite(t *testing.T, d *connection) *shownSite {
	t.Helper()
	var issued struct{ Token string }
	d.call(t, http.MethodPost, console.BasePath+"/ams/tokens", object{"kind": "access"}).read(t, http.StatusCreated,
		&issued)
	sender := headerSender{"Authorization", "Bearer " + issued.Token, http.DefaultTransport}
	return &shownSite{d, &http.Client{Transport: sender}}
}

// reader reads a cluster through one interface.
type reader struct {
	name string
	read func(t *testing.T, d *shownSite, cluster, env string) reading
}

func readers() []reader {
	return []reader{
		{"REST", readREST}, {"Kubernetes", readKubernetes}, {"page", readPage}, {"`ocm`", readOCM},
	}
}

// factSources names the source of each fact in each interface, in the order of readers. An
// interface without the fact has the reason in parentheses.
var factSources = []struct {
	fact    fact
	sources [4]string
}{
	{"name", [4]string{"`name`", "ClusterDeployment `spec.clusterName`", "list: `name`", "`display_name`"}},
	{"id", [4]string{"`id`", "(names identify objects)", "list: `id`", "`cluster_id`"}},
	{"base domain", [4]string{"`base_dns_domain`", "ClusterDeployment `spec.baseDomain`", "list: `base_dns_domain`",
		"(no field)"}},
	{"version", [4]string{"`openshift_version`",
		"ClusterDeployment `status.installVersion`, after the installation",
		"list: `openshift_version`", "(reported by the cluster itself)"}},
	{"release image", [4]string{"`ocp_release_image`",
		"ClusterImageSet `spec.releaseImage` of AgentClusterInstall `spec.imageSetRef`", "list: `ocp_release_image`",
		"(no field)"}},
	{"architecture", [4]string{"`cpu_architecture`", "(of InfraEnvs only)", "list: `cpu_architecture`",
		"(no field)"}},
	{"architecture of the infra-env", [4]string{"infra-env `cpu_architecture`", "InfraEnv `spec.cpuArchitecture`",
		"(the page reads REST's)", "(no field)"}},
	{"control planes wanted", [4]string{"`control_plane_count`",
		"AgentClusterInstall `spec.provisionRequirements.controlPlaneAgents`", "list: `control_plane_count`",
		"(no field)"}},
	{"control planes", [4]string{"`hosts[].role`", "Agent `status.role`", "hosts of the infra-env: `role`",
		"(reported by the cluster itself)"}},
	{"arbiters", [4]string{"`hosts[].role`", "Agent `status.role`", "hosts of the infra-env: `role`", "(no field)"}},
	{"workers", [4]string{"`hosts[].role`", "Agent `status.role`", "hosts of the infra-env: `role`",
		"(reported by the cluster itself)"}},
	{"hosts", [4]string{"number of `hosts`", "number of Agents", "list: `total_host_count`", "(no field)"}},
	{"cores", [4]string{"`hosts[].inventory`: `cpu.count`", "Agent `status.inventory.cpu.count`",
		"hosts of the infra-env: `cpu.count`", "(`cpu_total` is reported by the cluster itself)"}},
	{"host states", [4]string{"`hosts[].status`", "Agent `status.debugInfo.state`",
		"hosts of the infra-env: `status`", "(no field)"}},
	{"platform", [4]string{"`platform.type`", "AgentClusterInstall `status.platformType`", "list: `platform.type`",
		"(no field; `cloud_provider_id` is `baremetal` for all)"}},
	{"user-managed networking", [4]string{"`user_managed_networking`",
		"AgentClusterInstall `status.userManagedNetworking`", "list: `user_managed_networking`", "(no field)"}},
	{"API VIPs", [4]string{"`api_vips`", "AgentClusterInstall `status.apiVIPs`", "list: `api_vips`", "(no field)"}},
	{"ingress VIPs", [4]string{"`ingress_vips`", "AgentClusterInstall `status.ingressVIPs`", "list: `ingress_vips`",
		"(no field)"}},
	{"machine networks", [4]string{"`machine_networks`", "AgentClusterInstall `status.machineNetwork`",
		"list: `machine_networks`", "(no field)"}},
	{"cluster networks", [4]string{"`cluster_networks`", "AgentClusterInstall `spec.networking.clusterNetwork`",
		"list: `cluster_networks`", "(no field)"}},
	{"service networks", [4]string{"`service_networks`", "AgentClusterInstall `spec.networking.serviceNetwork`",
		"list: `service_networks`", "(no field)"}},
	{"network type", [4]string{"`network_type`", "AgentClusterInstall `spec.networking.networkType`",
		"list: `network_type`", "(no field)"}},
	{"state", [4]string{"`status`", "AgentClusterInstall `status.debugInfo.state`", "list: `status`",
		"(see: installed)"}},
	{"installed", [4]string{"`status` is installed or adding-hosts", "ClusterDeployment `spec.installed`",
		"list: `status` is installed or adding-hosts", "`status` is Active instead of Reserved"}},
	{"OpenShift's id", [4]string{"`openshift_cluster_id`", "ClusterDeployment `spec.clusterMetadata.clusterID`",
		"list: `openshift_cluster_id`", "`external_cluster_id`"}},
	{"console", [4]string{"credentials: `console_url`", "ClusterDeployment `status.webConsoleURL`",
		"(the page reads REST's)", "`console_url`"}},
	{"subscription", [4]string{"`ams_subscription_id`", "(no field)", "list: `ams_subscription_id`", "`id`"}},
}

func yesNo(yes bool) string { return strconv.FormatBool(yes) }

// ofCluster returns the facts that a cluster of the REST API shows without its hosts.
func ofCluster(c *models.Cluster) reading {
	var api, ingress, machine, clusterNetworks, service []string
	for _, vip := range c.APIVips {
		api = append(api, string(vip.IP))
	}
	for _, vip := range c.IngressVips {
		ingress = append(ingress, string(vip.IP))
	}
	for _, network := range c.MachineNetworks {
		machine = append(machine, string(network.Cidr))
	}
	for _, network := range c.ClusterNetworks {
		clusterNetworks = append(clusterNetworks, fmt.Sprint(network.Cidr, " ", network.HostPrefix))
	}
	for _, network := range c.ServiceNetworks {
		service = append(service, string(network.Cidr))
	}
	return reading{
		"name": c.Name, "id": c.ID.String(), "base domain": c.BaseDNSDomain, "version": c.OpenshiftVersion,
		"release image": c.OcpReleaseImage, "architecture": c.CPUArchitecture,
		"control planes wanted": fmt.Sprint(c.ControlPlaneCount), "platform": platformOf(c),
		"user-managed networking": yesNo(conv.Value(c.UserManagedNetworking)),
		"API VIPs":                strings.Join(api, " "), "ingress VIPs": strings.Join(ingress, " "),
		"machine networks": strings.Join(machine, " "), "cluster networks": strings.Join(clusterNetworks, " "),
		"service networks": strings.Join(service, " "), "network type": conv.Value(c.NetworkType),
		"state": conv.Value(c.Status), "OpenShift's id": c.OpenshiftClusterID.String(),
		"installed":    yesNo(slices.Contains([]string{"installed", "adding-hosts"}, conv.Value(c.Status))),
		"subscription": c.AmsSubscriptionID.String(),
	}
}

func platformOf(c *models.Cluster) string {
	if c.Platform == nil {
		return ""
	}
	return string(conv.Value(c.Platform.Type))
}

// addHosts adds the facts of hosts, each of which has a role, a state and a number of cores.
func (r reading) addHosts(hosts []hostFacts) {
	count := map[models.HostRole]int{}
	var cores int64
	var states []string
	for _, h := range hosts {
		count[h.role]++
		cores += h.cores
		states = append(states, h.state)
	}
	sort.Strings(states)
	r["control planes"] = fmt.Sprint(count["master"] + count["bootstrap"])
	r["arbiters"] = fmt.Sprint(count["arbiter"])
	r["workers"], r["cores"] = fmt.Sprint(count["worker"]), fmt.Sprint(cores)
	r["host states"] = strings.Join(states, " ")
}

type hostFacts struct {
	role  models.HostRole
	state string
	cores int64
}

func hostsOf(t *testing.T, hosts []*models.Host) []hostFacts {
	t.Helper()
	var found []hostFacts
	for _, h := range hosts {
		var inventory models.Inventory
		if h.Inventory != "" {
			require.NoError(t, json.Unmarshal([]byte(h.Inventory), &inventory))
		}
		facts := hostFacts{role: effectiveRole(h), state: *h.Status}
		if inventory.CPU != nil {
			facts.cores = inventory.CPU.Count
		}
		found = append(found, facts)
	}
	return found
}

// effectiveRole is the role that clients show: that of the host, or the suggested role.
func effectiveRole(h *models.Host) models.HostRole {
	if h.Role == models.HostRoleAutoAssign && h.SuggestedRole != "" {
		return h.SuggestedRole
	}
	return h.Role
}

func readREST(t *testing.T, d *shownSite, cluster, env string) reading {
	c := d.cluster(t, cluster)
	r := ofCluster(c)
	r.addHosts(hostsOf(t, c.Hosts))
	r["hosts"] = fmt.Sprint(len(c.Hosts))
	var infraEnv models.InfraEnv
	d.call(t, http.MethodGet, apiPath+"/infra-envs/"+env, nil).read(t, http.StatusOK, &infraEnv)
	r["architecture of the infra-env"] = infraEnv.CPUArchitecture
	var credentials models.Credentials
	got := d.call(t, http.MethodGet, apiPath+"/clusters/"+cluster+"/credentials", nil)
	if got.status == http.StatusOK {
		got.read(t, http.StatusOK, &credentials)
	}
	r["console"] = credentials.ConsoleURL
	return r
}

// readPage reads what the page reads: the list of clusters, and the hosts of their infra-envs.
func readPage(t *testing.T, d *shownSite, cluster, env string) reading {
	var list []*models.Cluster
	d.call(t, http.MethodGet, apiPath+"/clusters/", nil).read(t, http.StatusOK, &list)
	i := slices.IndexFunc(list, func(c *models.Cluster) bool { return c.ID.String() == cluster })
	require.GreaterOrEqual(t, i, 0)
	r := ofCluster(list[i])
	r["hosts"] = fmt.Sprint(list[i].TotalHostCount)
	var hosts []*models.Host
	d.call(t, http.MethodGet, apiPath+"/infra-envs/"+env+"/hosts", nil).read(t, http.StatusOK, &hosts)
	r.addHosts(hostsOf(t, hosts))
	return r
}

func readOCM(t *testing.T, d *shownSite, cluster, _ string) reading {
	var list struct{ Items []map[string]any }
	query := url.Values{"search": {"cluster_id = '" + cluster + "'"}}
	address := d.address + "/api/accounts_mgmt/v1/subscriptions?" + query.Encode()
	callWith(t, d.ocm, http.MethodGet, address, nil).read(t, http.StatusOK, &list)
	require.Len(t, list.Items, 1)
	text := func(name string) string { value, _ := list.Items[0][name].(string); return value }
	return reading{
		"name": text("display_name"), "id": text("cluster_id"), "OpenShift's id": text("external_cluster_id"),
		"console": text("console_url"), "installed": yesNo(text("status") == "Active"), "subscription": text("id"),
	}
}

func readKubernetes(t *testing.T, d *shownSite, cluster, env string) reading {
	name := d.cluster(t, cluster).Name
	var cd hivev1.ClusterDeployment
	var aci hiveext.AgentClusterInstall
	get := func(path string, into any) {
		d.call(t, http.MethodGet, "/apis/"+path, nil).read(t, http.StatusOK, into)
	}
	get("hive.openshift.io/v1/namespaces/"+name+"/clusterdeployments/"+name, &cd)
	get("extensions.hive.openshift.io/v1beta1/namespaces/"+name+"/agentclusterinstalls/"+name, &aci)
	var images hivev1.ClusterImageSet
	get("hive.openshift.io/v1/clusterimagesets/"+aci.Spec.ImageSetRef.Name, &images)
	var machine, clusterNetworks []string
	for _, network := range aci.Status.MachineNetwork {
		machine = append(machine, network.CIDR)
	}
	for _, network := range aci.Spec.Networking.ClusterNetwork {
		clusterNetworks = append(clusterNetworks, fmt.Sprint(network.CIDR, " ", network.HostPrefix))
	}
	r := reading{
		"name": cd.Spec.ClusterName, "base domain": cd.Spec.BaseDomain, "release image": images.Spec.ReleaseImage,
		"control planes wanted":   fmt.Sprint(aci.Spec.ProvisionRequirements.ControlPlaneAgents),
		"platform":                strings.ToLower(string(aci.Status.PlatformType)),
		"user-managed networking": yesNo(conv.Value(aci.Status.UserManagedNetworking)),
		"API VIPs":                strings.Join(aci.Status.APIVIPs, " "),
		"ingress VIPs":            strings.Join(aci.Status.IngressVIPs, " "),
		"machine networks":        strings.Join(machine, " "), "cluster networks": strings.Join(clusterNetworks, " "),
		"service networks": strings.Join(aci.Spec.Networking.ServiceNetwork, " "),
		"network type":     aci.Spec.Networking.NetworkType, "state": aci.Status.DebugInfo.State,
		"installed": yesNo(cd.Spec.Installed), "console": cd.Status.WebConsoleURL, "OpenShift's id": "",
	}
	if cd.Spec.ClusterMetadata != nil {
		r["OpenShift's id"] = cd.Spec.ClusterMetadata.ClusterID
	}
	if cd.Status.InstallVersion != nil {
		r["version"] = *cd.Status.InstallVersion
	}
	var envs struct{ Items []agentinstall.InfraEnv }
	get("agent-install.openshift.io/v1beta1/namespaces/"+name+"/infraenvs", &envs)
	for _, infraEnv := range envs.Items {
		if infraEnv.Spec.ClusterRef != nil && infraEnv.Spec.ClusterRef.Name == name {
			r["architecture of the infra-env"] = infraEnv.Spec.CPUArchitecture
		}
	}
	var agents struct{ Items []agentinstall.Agent }
	get("agent-install.openshift.io/v1beta1/namespaces/"+name+"/agents", &agents)
	var hosts []hostFacts
	for _, agent := range agents.Items {
		if of := agent.Spec.ClusterDeploymentName; of != nil && of.Name == name {
			hosts = append(hosts, hostFacts{agent.Status.Role, agent.Status.DebugInfo.State,
				agent.Status.Inventory.CPU.Count})
		}
	}
	r["hosts"] = fmt.Sprint(len(hosts))
	r.addHosts(hosts)
	return r
}

// disagreements lists the facts whose readings differ. A reading without the fact agrees.
func disagreements(readings []reading) (lines []string) {
	for _, row := range factSources {
		values := map[string][]string{}
		for i, r := range readings {
			if value, has := r[row.fact]; has {
				values[value] = append(values[value], readers()[i].name)
			}
		}
		if len(values) > 1 {
			lines = append(lines, fmt.Sprintf("%s: %v", row.fact, values))
		}
	}
	return lines
}

func TestReadings_differenceIsNamed(t *testing.T) {
	require.Empty(t, disagreements([]reading{
		{"name": "east", "state": "ready"}, {"state": "ready"}, {}, {"name": "east"}}))
	require.Equal(t, []string{"state: map[installed:[Kubernetes] ready:[REST page]]"}, disagreements([]reading{
		{"name": "east", "state": "ready"}, {"state": "installed"}, {"state": "ready"}, {"name": "east"}}))
}

// architectures are the names of REST, with the names of the kernel.
var architectures = []struct{ name, kernel string }{
	{"x86_64", "x86_64"}, {"arm64", "aarch64"}, {"ppc64le", "ppc64le"}, {"s390x", "s390x"}, {"multi", "x86_64"},
}

func (s *site) withAllArchitectures(t *testing.T) *site {
	t.Helper()
	release, iso := s.config.ReleaseImages[0], s.config.OSImages[0]
	s.config.ReleaseImages, s.config.OSImages = nil, nil
	for _, architecture := range architectures {
		of := release
		of.CPUArchitecture, of.Default = architecture.name, architecture.name == "x86_64"
		s.config.ReleaseImages = append(s.config.ReleaseImages, of)
		if architecture.name != "multi" {
			image := iso
			image.CPUArchitecture, image.Path = architecture.name, filepath.Join(t.TempDir(), "live.iso")
			var err error
			image.SHA256, err = simulate.WriteBaseISO(image.Path, simulate.BaseISO{Architecture: architecture.kernel})
			require.NoError(t, err)
			s.config.OSImages = append(s.config.OSImages, image)
		}
	}
	return s
}

const readingsPage = "../docs/readings.md"

// kindsToRead adds the usual topologies to the kinds of clusters that are installed elsewhere.
func kindsToRead() []kindOfCluster {
	count := conv.Pointer[int64]
	kinds := slices.Clone(kindsOfClusters())
	compact := kinds[0]
	compact.name, compact.workers = "compact", 0
	return append([]kindOfCluster{
		{name: "single", asked: models.ClusterCreateParams{ControlPlaneCount: count(1)}, masters: 1},
		compact,
	}, kinds...)
}

// TestReadings_agree creates clusters of every topology, platform and architecture with hosts, and
// reads each through all interfaces, also after an installation. All readings must agree.
func TestReadings_agree(t *testing.T) {
	s := newSite(t).withAllArchitectures(t)
	s.config.Kubernetes.Enabled = true
	d := showSite(t, s.connect(t))
	awaitReady(t, func() answer { return d.call(t, http.MethodGet, "/readyz", nil) })
	facts := map[fact]int{}
	rows := map[string]string{} // of the table, by their kinds
	for _, kind := range kindsToRead() {
		row := fmt.Sprintf("| %s | %d | %d | %d |", kind.name, kind.masters, kind.arbiters, kind.workers)
		for _, architecture := range architectures {
			row += " " + s.readKind(t, d, kind, architecture.name, architecture.kernel, facts) + " |"
		}
		rows[kind.name] = row
	}
	installed := []string{}
	for _, kind := range kindsToRead() {
		if slices.Contains([]string{"single", "compact", "external-single"}, kind.name) {
			s.readInstallation(t, d, kind, facts)
			installed = append(installed, kind.name)
		}
	}
	var table []string
	for _, kind := range kindsToRead() {
		table = append(table, rows[kind.name])
	}
	page := pagetest.Wrap(fmt.Sprintf(readingsText, strings.Join(installed, ", "), strings.Join(table, "\n"),
		factsTable(t, facts)))
	if flag.Lookup("update").Value.String() == "true" { // of the page of operations
		require.NoError(t, os.WriteFile(readingsPage, []byte(page), 0o644))
	}
	written, err := os.ReadFile(readingsPage)
	require.NoError(t, err)
	pagetest.Current(t, "docs/readings.md", page, string(written))
}

// readKind creates a cluster with hosts, compares its readings, and returns the cell of the table.
func (s *site) readKind(t *testing.T, d *shownSite, kind kindOfCluster, architecture, kernel string,
	facts map[fact]int) string {
	t.Helper()
	title := kind.name + "-" + strings.ReplaceAll(architecture, "_", "-")
	params := kind.asked
	params.Name, params.BaseDNSDomain, params.OpenshiftVersion, params.PullSecret = &title, "site.test",
		conv.Pointer(s.release.Version), conv.Pointer(pullSecret)
	params.CPUArchitecture = architecture
	got := d.call(t, http.MethodPost, apiPath+"/clusters", params)
	if got.status != http.StatusCreated {
		require.Regexp(t, "is not available|can't be used together", got.reason(t), title)
		return "rejected"
	}
	var created models.Cluster
	got.read(t, http.StatusCreated, &created)
	id := created.ID.String()
	env := d.create(t, "/infra-envs", object{"name": title, "cluster_id": id, "pull_secret": pullSecret,
		"openshift_version": s.release.Version,
		"cpu_architecture":  strings.Replace(architecture, "multi", "x86_64", 1)})
	roles := slices.Concat(slices.Repeat([]string{"master"}, kind.masters),
		slices.Repeat([]string{"arbiter"}, kind.arbiters), slices.Repeat([]string{"worker"}, kind.workers))
	for i, role := range roles {
		if !d.addHost(t, env, i, role, kind.maker, kernel) {
			return "role rejected"
		}
	}
	return fmt.Sprint(d.compare(t, title, id, env, facts), " agree")
}

// addHost registers a host with an inventory. It reports whether the host may have the role.
func (d *shownSite) addHost(t *testing.T, env string, number int, role, maker, kernel string) bool {
	t.Helper()
	id := uuid.NewString()
	at := apiPath + "/infra-envs/" + env + "/hosts"
	d.call(t, http.MethodPost, at, object{"host_id": id}).read(t, http.StatusCreated, new(models.Host))
	mac := fmt.Sprintf("52:54:00:00:%02x:%02x", number, len(env))
	inventory, err := json.Marshal(&models.Inventory{
		Hostname: fmt.Sprintf("host-%d", number), CPU: &models.CPU{Architecture: kernel, Count: int64(8 + number)},
		Memory:       &models.Memory{PhysicalBytes: 64 << 30, UsableBytes: 64 << 30},
		SystemVendor: &models.SystemVendor{Manufacturer: maker},
		Interfaces: []*models.Interface{{Name: "eno1", MacAddress: mac, Flags: []string{"up"},
			IPV4Addresses: []string{fmt.Sprintf("192.168.100.%d/24", 10+number)}, IPV6Addresses: []string{}}},
		Disks: []*models.Disk{{ID: "/dev/disk/by-id/wwn-1", Name: "sda", Path: "/dev/sda",
			DriveType: models.DriveTypeSSD, SizeBytes: 480_000_000_000}},
	})
	require.NoError(t, err)
	reply := d.call(t, http.MethodPost, at+"/"+id+"/instructions", object{"step_type": "inventory",
		"step_id": "inventory-00000001", "output": string(inventory)})
	require.Equal(t, http.StatusNoContent, reply.status, string(reply.body))
	changed := d.call(t, http.MethodPatch, at+"/"+id, object{"host_role": role})
	if changed.status != http.StatusCreated {
		require.Contains(t, changed.reason(t), "is not available")
	}
	return changed.status == http.StatusCreated
}

// compare requires that the readings agree within a few moments, because controllers and the feed
// follow the engine. It returns the number of facts that are read in more than one way.
func (d *shownSite) compare(t *testing.T, title, id, env string, facts map[fact]int) int {
	t.Helper()
	var readings []reading
	var lines []string
	require.Eventually(t, func() bool {
		readings = nil
		for _, reader := range readers() {
			readings = append(readings, reader.read(t, d, id, env))
		}
		lines = disagreements(readings)
		return len(lines) == 0
	}, time.Minute, 100*time.Millisecond, "%s: %v", title, &lines)
	compared := 0
	for _, row := range factSources {
		read := 0
		for i, r := range readings {
			_, has := r[row.fact]
			absent := strings.HasPrefix(row.sources[i], "(")
			require.False(t, has && absent, "%s has %s", readers()[i].name, row.fact)
			if has {
				read++
				facts[row.fact] |= 1 << i
			}
		}
		if read > 1 {
			compared++
		}
	}
	return compared
}

// readInstallation installs a cluster and compares its readings when it is ready, when it is
// installed, and when it accepts more hosts.
func (s *site) readInstallation(t *testing.T, d *shownSite, kind kindOfCluster, facts map[fact]int) {
	t.Helper()
	title := "installed-" + kind.name
	params := kind.asked
	params.Name, params.BaseDNSDomain, params.OpenshiftVersion, params.PullSecret = &title, "site.test",
		conv.Pointer(s.release.Version), conv.Pointer(pullSecret)
	var created models.Cluster
	d.call(t, http.MethodPost, apiPath+"/clusters", params).read(t, http.StatusCreated, &created)
	id := created.ID.String()
	env := d.create(t, "/infra-envs", object{"name": title, "cluster_id": id, "pull_secret": pullSecret,
		"openshift_version": s.release.Version})
	group := &simulate.HostGroup{URL: d.address, HTTP: d.trusted, Token: d.token, InfraEnvID: env,
		Count: kind.masters + kind.workers, Speed: 1000}
	ended := make(chan error, 1)
	go func() { ended <- group.Run(t.Context()) }()
	state := func(wanted string) {
		eventuallySlow(t, title+" is "+wanted, func() bool { return *d.cluster(t, id).Status == wanted })
		d.compare(t, title, id, env, facts)
	}
	state(models.ClusterStatusReady)
	install := d.call(t, http.MethodPost, apiPath+"/clusters/"+id+"/actions/install", nil)
	require.Equal(t, http.StatusAccepted, install.status, string(install.body))
	state(models.ClusterStatusInstalled)
	require.NoError(t, <-ended)
	for _, installed := range []fact{"OpenShift's id", "console", "machine networks", "version"} {
		require.NotEmpty(t, readREST(t, d, id, env)[installed], installed)
	}
	more := d.call(t, http.MethodPost, apiPath+"/clusters/"+id+"/actions/allow-add-hosts", nil)
	require.Equal(t, http.StatusAccepted, more.status, string(more.body))
	require.True(t, d.addHost(t, env, 9, "worker", "", "x86_64"))
	state(models.ClusterStatusAddingHosts)
}

// factsTable returns the table of the facts. Every named source must have been read.
func factsTable(t *testing.T, facts map[fact]int) string {
	t.Helper()
	var lines []string
	for _, row := range factSources {
		for i, source := range row.sources {
			require.Equal(t, !strings.HasPrefix(source, "("), facts[row.fact]&(1<<i) != 0, "%s of %s", row.fact,
				readers()[i].name)
		}
		lines = append(lines, "| "+string(row.fact)+" | "+strings.Join(row.sources[:], " | ")+" |")
	}
	return strings.Join(lines, "\n")
}

const readingsText = `# Four readings of one cluster

A cluster can be read through the REST API, through the Kubernetes API, on the page, and with ` + "`ocm`" + `
(the local AMS API). The readings must show the same facts. ` + "`TestReadings_agree`" + ` creates the
clusters of the first table with hosts on one appliance, and compares the readings of each. It also
installs some of the clusters (%s), and compares the
readings before and after the installation, and when the cluster accepts more hosts. ` + "`make docs`" + `
writes this page from the result.

## Clusters

The numbers of hosts are those of control planes, arbiters and workers. A cell has the number of
facts that agree in at least two readings, or "rejected" if the support levels of features exclude
the cluster, or the role of one of its hosts ("role rejected"). A cluster of a multi-architecture
release has hosts of x86_64 here.

| cluster | control planes | arbiters | workers | x86_64 | arm64 | ppc64le | s390x | multi |
|---|---|---|---|---|---|---|---|---|
%s

## Facts

A source in parentheses is absent; the text is the reason. "List" is the list of clusters that the
page shows. The role of a host is its suggested role if it is automatic.

| fact | REST | Kubernetes | page | ` + "`ocm`" + ` |
|---|---|---|---|---|
%s
`
