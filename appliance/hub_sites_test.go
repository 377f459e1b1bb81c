package appliance_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	hive "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"landfall/appliance/simulate"
)

// JSONPath templates with which the Assisted Installer's documentation prints conditions.
const (
	installConditions = `jsonpath={range .items[*]}{"\n"}{.metadata.name}{"\n"}{range .status.conditions[*]}{.type}{"\t"}{.message}{"\n"}{end}`
	agentConditions   = `jsonpath={range .items[*]}{"\n"}{.spec.clusterDeploymentName.name}{"\n"}{.status.inventory.hostname}{"\n"}{range .status.conditions[*]}{.type}{"\t"}{.message}{"\n"}{end}`
)

// installed returns the output of the first template for an installed cluster.
func installed(name string) []string {
	return []string{
		name,
		"SpecSynced\tThe Spec has been successfully applied",
		"Validated\tThe cluster's validations are passing",
		"RequirementsMet\tThe cluster installation stopped",
		"Completed\tThe installation has completed: Cluster is installed",
		"Failed\tThe installation has not failed",
		"Stopped\tThe installation has stopped because it completed successfully",
	}
}

// installedAgent returns the output of the second template for an installed host.
func installedAgent(cluster, hostname string) []string {
	return []string{
		cluster, hostname,
		"SpecSynced\tThe Spec has been successfully applied",
		"Connected\tThe agent's connection to the installation service is unimpaired",
		"RequirementsMet\tThe agent installation stopped",
		"Validated\tThe agent's validations are passing",
		"Installed\tThe installation has completed: The host is installed.",
		"Bound\tThe agent is bound to a cluster deployment",
	}
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// TestHub_installsSitesFromManifests applies the manifests of sites in random orders with kubectl
// and reads the results as the Assisted Installer's documentation does.
func TestHub_installsSitesFromManifests(t *testing.T) {
	openAndAuthenticated(t, func(t *testing.T, s *site) {
		d := s.openHub(t)
		t.Run("sites", func(t *testing.T) {
			t.Run("a single node by its BareMetalHost", func(t *testing.T) {
				t.Parallel()
				d.installSingleNode(t)
			})
			t.Run("three nodes without BMCs, and a day-2 host", func(t *testing.T) {
				t.Parallel()
				d.installThreeNodes(t)
			})
			t.Run("late binding", func(t *testing.T) {
				t.Parallel()
				d.bindLate(t)
			})
		})
		t.Run("the converged flow", d.installConverged)
	})
}

func (d *hub) installSingleNode(t *testing.T) {
	server := newMachine(t, "hpe-ilo5", "sno1", "94:40:c9:1f:bf:64")
	d.apply(t, "single-node.yaml", siteValues{BMC: server.address}, "sno1")
	d.wait(t, "sno1", "agentclusterinstall/sno1", "condition=Completed")
	require.Equal(t, installed("sno1"), lines(d.kubectl(t, "get", "agentclusterinstalls.extensions.hive.openshift.io",
		"-n", "sno1", "-o", installConditions))[:7])
	require.Equal(t, installedAgent("sno1", "sno1"), lines(d.kubectl(t, "get", "agents.agent-install.openshift.io",
		"-n", "sno1", "-o", agentConditions)))

	d.wait(t, "sno1", "baremetalhost/sno1", "jsonpath={.status.operationalStatus}=detached")
	var host struct {
		Metadata struct{ Annotations map[string]string }
		Status   struct {
			Provisioning struct{ State string }
			PoweredOn    bool
			Hardware     struct{ Hostname string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(d.kubectl(t, "get", "bmh", "sno1", "-n", "sno1", "-o", "json")), &host))
	require.Equal(t, "provisioned", host.Status.Provisioning.State)
	require.True(t, host.Status.PoweredOn)
	require.Equal(t, "sno1", host.Status.Hardware.Hostname)
	require.Equal(t, "assisted-service-controller", host.Metadata.Annotations["baremetalhost.metal3.io/detached"])
	require.Empty(t, server.Inserted(), "the image was ejected")
	require.Equal(t, "On", server.Power())
	require.Contains(t, d.kubectl(t, "describe", "bmh", "sno1", "-n", "sno1"), "ProvisioningComplete")

	agents := d.kubectl(t, "get", "agents", "-n", "sno1", "-o",
		`jsonpath={.items[0].spec.installerArgs}|{.items[0].spec.nodeLabels}|{.items[0].metadata.labels.agent-install\.openshift\.io/bmh}|{.items[0].spec.approved}`)
	require.Equal(t, `["--append-karg", "ip=dhcp", "--save-partindex", "1", "-n"]|{"site/hall":"h1"}|sno1|true`, agents)
	require.Equal(t, "true", d.kubectl(t, "get", "managedcluster", "sno1", "-o", "jsonpath={.spec.hubAcceptsClient}"))

	d.readSingleNode(t)
	d.teardown(t, server)
}

// readSingleNode reads the remaining objects with controller-runtime's client, like an operator.
func (d *hub) readSingleNode(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, hive.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(d.dir, "kubeconfig"))
	require.NoError(t, err)
	reader, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	deployment := &hive.ClusterDeployment{}
	at := client.ObjectKey{Namespace: "sno1", Name: "sno1"}
	eventually(t, "the ClusterDeployment is installed", func() bool {
		return reader.Get(t.Context(), at, deployment) == nil && deployment.Spec.Installed
	})
	require.NotNil(t, deployment.Spec.ClusterMetadata)
	kubeconfig, password := &corev1.Secret{}, &corev1.Secret{}
	require.NoError(t, reader.Get(t.Context(), client.ObjectKey{Namespace: "sno1", Name: "sno1-admin-kubeconfig"},
		kubeconfig))
	require.Contains(t, string(kubeconfig.Data["kubeconfig"]), "api.sno1.site.test:6443")
	require.NoError(t, reader.Get(t.Context(), client.ObjectKey{Namespace: "sno1", Name: "sno1-admin-password"},
		password))
	require.Equal(t, "kubeadmin", string(password.Data["username"]))
	deployment.Labels["site"] = "hall"
	require.NoError(t, reader.Update(t.Context(), deployment))
}

// teardown deletes the site's namespace and checks that nothing of it remains.
func (d *hub) teardown(t *testing.T, server *machine) {
	t.Helper()
	if _, err := d.try(t.Context(), "", "delete", "namespace", "sno1", "--timeout=20s"); err != nil {
		for _, kind := range []string{"bmh", "agents", "infraenvs", "aci", "cd", "secrets", "configmaps",
			"hardwaredata", "nmstateconfigs"} {
			left, showErr := d.try(t.Context(), "", "get", kind, "-n", "sno1", "-o",
				`jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.finalizers} {.metadata.deletionTimestamp} {.status.conditions[*].message}{"\n"}{end}`)
			t.Logf("%v %s", showErr, left)
		}
		require.NoError(t, err)
	}
	d.kubectl(t, "delete", "managedcluster", "sno1")
	require.Equal(t, "On", server.Power(), "the cluster keeps running")
	api := d.upstream(t).Installer
	clusters, err := api.V2ListClusters(t.Context(), &installer.V2ListClustersParams{})
	require.NoError(t, err)
	for _, cluster := range clusters.Payload {
		require.NotEqual(t, "sno1", cluster.Name)
	}
	infraEnvs, err := api.ListInfraEnvs(t.Context(), &installer.ListInfraEnvsParams{})
	require.NoError(t, err)
	for _, infraEnv := range infraEnvs.Payload {
		require.NotEqual(t, "sno1", *infraEnv.Name)
	}
}

// infraEnv waits for the infra-env of an InfraEnv and returns its ID.
func (d *hub) infraEnv(t *testing.T, namespace, name string) string {
	t.Helper()
	d.wait(t, namespace, "infraenv/"+name, "condition=ImageCreated")
	found, err := d.upstream(t).Installer.ListInfraEnvs(t.Context(), &installer.ListInfraEnvsParams{})
	require.NoError(t, err)
	for _, infraEnv := range found.Payload {
		if *infraEnv.Name == name {
			return infraEnv.ID.String()
		}
	}
	t.Fatalf("there is no infra-env %s", name)
	return ""
}

// boot boots machines from an InfraEnv's image without BMCs and returns the names of all its
// Agents.
func (d *hub) boot(t *testing.T, namespace, infraEnv string, first, count int) []string {
	t.Helper()
	group := &simulate.HostGroup{URL: d.address, InfraEnvID: d.infraEnv(t, namespace, infraEnv), First: first,
		Count: count, Speed: 1000, HTTP: d.trusted, Token: d.token, Spokes: d.spokes}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended // an error is ignored: the hosts may or may not have been installed
	})
	var agents []string
	eventually(t, "the Agents exist", func() bool {
		agents = strings.Fields(d.kubectl(t, "get", "agents", "-n", namespace, "-o",
			"jsonpath={.items[*].metadata.name}"))
		return len(agents) == first+count-1
	})
	return agents
}

func (d *hub) approve(t *testing.T, namespace, agent, patch string) {
	t.Helper()
	require.Equal(t, "agent.agent-install.openshift.io/"+agent+" patched\n",
		d.kubectl(t, "-n", namespace, "patch", "agents.agent-install.openshift.io", agent, "-p", patch, "--type",
			"merge"))
}

func (d *hub) installThreeNodes(t *testing.T) {
	d.apply(t, "three-nodes.yaml", siteValues{}, "three")
	day1 := d.boot(t, "three", "three", 1, 3)
	d.wait(t, "three", "agentclusterinstall/test-cluster",
		"jsonpath={.status.conditions[?(@.type==\"RequirementsMet\")].reason}=UnapprovedAgents")
	for _, agent := range day1 {
		d.approve(t, "three", agent, `{"spec":{"approved":true}}`)
	}
	d.wait(t, "three", "agentclusterinstall/test-cluster", "condition=Completed")
	require.Equal(t, installed("test-cluster"),
		lines(d.kubectl(t, "get", "agentclusterinstalls.extensions.hive.openshift.io", "-n", "three",
			"-o", installConditions))[:7])
	d.wait(t, "three", "agentclusterinstall/test-cluster", "jsonpath={.status.debugInfo.state}="+
		models.ClusterStatusAddingHosts)

	for _, agent := range d.boot(t, "three", "three", 4, 1) {
		known := false
		for _, other := range day1 {
			known = known || agent == other
		}
		if known {
			continue
		}
		d.wait(t, "three", "agent/"+agent,
			"jsonpath={.status.conditions[?(@.type==\"RequirementsMet\")].reason}=AgentIsNotApproved")
		d.approve(t, "three", agent, `{"spec":{"approved":true,"role":"worker","nodeLabels":{"rack":"7"}}}`)
		d.wait(t, "three", "agent/"+agent, "jsonpath={.status.debugInfo.state}=added-to-existing-cluster")
		require.Equal(t, "Done client serving", d.kubectl(t, "get", "agent", agent, "-n", "three",
			"-o", "jsonpath={.status.progress.currentStage}{range .status.csrStatus.approvedCSRs[*]} {.type}{end}"))
		name := d.kubectl(t, "get", "agent", agent, "-n", "three", "-o", "jsonpath={.status.inventory.hostname}")
		node := d.spokes.Cluster("api.three.site.test").Object("api/v1/nodes", "", name)
		require.NotNil(t, node, "the host is a node of its cluster")
		require.Equal(t, "7", node.GetLabels()["rack"])
	}
}

func (d *hub) bindLate(t *testing.T) {
	d.apply(t, "late-binding.yaml", siteValues{}, "pool", "late")
	agent := d.boot(t, "pool", "pool", 1, 1)[0]
	d.wait(t, "pool", "agent/"+agent, "jsonpath={.status.conditions[?(@.type==\"Bound\")].reason}=Unbound")
	require.Equal(t, "small", d.kubectl(t, "get", "agent", agent, "-n", "pool", "-o",
		"jsonpath={.metadata.labels.size}"))
	d.approve(t, "pool", agent, `{"spec":{"approved":true,"clusterDeploymentName":{"name":"late","namespace":"late"}}}`)
	d.wait(t, "late", "agentclusterinstall/late", "condition=Completed")
	require.Equal(t, installed("late"), lines(d.kubectl(t, "get", "agentclusterinstalls.extensions.hive.openshift.io",
		"-n", "late", "-o", installConditions))[:7])
}

func (d *hub) installConverged(t *testing.T) {
	server := newMachine(t, "dell-idrac9", "sno2", "94:40:c9:1f:bf:65")
	// The settings are first, because a host may begin the other flow while they are missing.
	d.apply(t, "converged-settings.yaml", siteValues{}, "sno2")
	d.apply(t, "converged.yaml", siteValues{BMC: server.address}, "sno2")
	d.wait(t, "sno2", "agentclusterinstall/sno2", "condition=Completed")
	require.Equal(t, "start_assisted_install", d.kubectl(t, "get", "bmh", "node0", "-n", "sno2", "-o",
		"jsonpath={.spec.customDeploy.method}{.spec.image}"))
	require.Equal(t, "True InfraEnvAvailable", d.kubectl(t, "get", "ppimg", "node0", "-n", "sno2",
		"-o",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].reason}`))
	d.wait(t, "sno2", "baremetalhost/node0", "jsonpath={.status.operationalStatus}=detached")
}
