package appliance_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/abi"
	mirrorsite "landfall/appliance/mirror/site"
	"landfall/appliance/simulate"
)

// abiDirectory returns an agent-based installer directory with a cluster of three nodes. The second
// host has no name.
func (s *site) abiDirectory(t *testing.T, name string) []abi.File {
	t.Helper()
	replacer := strings.NewReplacer("NAME", name, "RELEASE", s.release.Release, "IDMS",
		strings.SplitN(s.release.Release, "/", 2)[0])
	file := func(path, text string) abi.File { return abi.File{Name: path, Data: []byte(replacer.Replace(text))} }
	return []abi.File{
		file("cluster-manifests/cluster-deployment.yaml", `# who: the people of the site
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: NAME, namespace: NAME}
spec:
  baseDomain: site.test
  clusterInstallRef: {group: extensions.hive.openshift.io, kind: AgentClusterInstall, name: NAME, version: v1beta1}
  clusterName: NAME
  platform: {agentBareMetal: {agentSelector: {}}}
  pullSecretRef: {name: NAME-pull-secret}
`),
		file("cluster-manifests/agent-cluster-install.yaml", `apiVersion: extensions.hive.openshift.io/v1beta1
kind: AgentClusterInstall
metadata:
  annotations:
    agent-install.openshift.io/install-config-overrides: '{"fips":true}'
  name: NAME
  namespace: NAME
spec:
  apiVIPs: [192.168.100.4]
  ingressVIPs: [192.168.100.5]
  clusterDeploymentRef: {name: NAME}
  imageSetRef: {name: NAME}
  networking:
    clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
    serviceNetwork: [172.30.0.0/16]
  provisionRequirements: {controlPlaneAgents: 3}
`),
		file("cluster-manifests/cluster-image-set.yaml", `apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: NAME}
spec:
  releaseImage: RELEASE
`),
		file("cluster-manifests/infraenv.yaml", `apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: NAME, namespace: NAME}
spec:
  clusterRef: {name: NAME, namespace: NAME}
  pullSecretRef: {name: NAME-pull-secret}
`),
		file("cluster-manifests/pull-secret.yaml", `apiVersion: v1
kind: Secret
metadata: {name: NAME-pull-secret, namespace: NAME}
stringData:
  .dockerconfigjson: '`+pullSecret+`'
`),
		file("agent-config.yaml", `apiVersion: v1beta1
kind: AgentConfig
metadata: {name: NAME}
hosts:
- hostname: rack-a
  role: master
  interfaces: [{name: eno1, macAddress: "52:54:00:aa:00:01"}]
  rootDeviceHints: {deviceName: "/dev/nvme1n1"}   # the second one
- interfaces: [{name: eno1, macAddress: "52:54:00:aa:00:02"}]
- hostname: rack-c
  interfaces: [{name: eno1, macAddress: "52:54:00:AA:00:03"}]
  rootDeviceHints: {minSizeGigabytes: 100000}
`),
		file("mirror/registries.conf", `# of the site
[[registry]]
  prefix = ""
  location = "registry.example.com/tools"
  mirror-by-digest-only = true
  [[registry.mirror]]
    location = "mirror.site.test/tools"
`),
		file("openshift/99-extra.yaml",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: default}\n"),
	}
}

// sendDirectory posts a directory as a form, like a browser.
func (c *connection) sendDirectory(t *testing.T, query string, files []abi.File) answer {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, file := range files {
		part, err := form.CreateFormFile("dropped/"+file.Name, "x")
		require.NoError(t, err)
		_, err = part.Write(file.Data)
		require.NoError(t, err)
	}
	require.NoError(t, form.Close())
	response, err := c.client.Post(c.address+abiPath+query, form.FormDataContentType(), &body)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{status: response.StatusCode, body: text}
}

const abiPath = "/api/landfall/v1/abi"

func (c *connection) exportDirectory(t *testing.T, cluster string) *abi.Export {
	t.Helper()
	directory := new(abi.Export)
	c.call(t, http.MethodGet, "/api/landfall/v1/clusters/"+cluster+"/abi?format=json", nil).read(t, http.StatusOK,
		directory)
	return directory
}

func TestABI_importInstallExport(t *testing.T) {
	openAndAuthenticated(t, importInstallExport)
}

func importInstallExport(t *testing.T, s *site) {
	c := s.connect(t)
	given := s.abiDirectory(t, "directory")
	var checked, made abi.Import
	for _, query := range []string{"?check=true", "?check=1"} {
		c.sendDirectory(t, query, given).read(t, http.StatusOK, &checked)
		require.Empty(t, checked.ClusterID)
	}
	var clusters []any
	c.call(t, http.MethodGet, apiPath+"/clusters", nil).read(t, http.StatusOK, &clusters)
	require.Empty(t, clusters)
	c.sendDirectory(t, "", given).read(t, http.StatusCreated, &made)
	require.Equal(t, 3, made.Hosts)
	require.Equal(t, textsOf(given), textsOf(c.exportDirectory(t, made.ClusterID).Files))

	ended := s.boot(t, c, made.InfraEnvID, 1, "52:54:00:aa:00:01", "52:54:00:aa:00:02", "52:54:00:aa:00:03")
	c.requireStatus(t, made.ClusterID, models.ClusterStatusReady)
	names := map[string]*models.Host{}
	eventually(t, "the hosts have the settings of the directory", func() bool {
		for _, host := range c.cluster(t, made.ClusterID).Hosts {
			names[host.RequestedHostname] = host
		}
		return names["rack-a"] != nil && names["rack-c"] != nil
	})
	require.Equal(t, models.HostRoleMaster, names["rack-a"].Role)
	require.Equal(t, "/dev/nvme1n1", names["rack-a"].InstallationDiskPath)
	require.Contains(t, c.events(t, "host_id="+names["rack-c"].ID.String()),
		"matches the host's rootDeviceHints; choose its installation disk. (agent-config.yaml:10)")

	eventually(t, "the cluster is ready", func() bool {
		return c.call(t, http.MethodPost, apiPath+"/clusters/"+made.ClusterID+"/actions/install",
			nil).status == http.StatusAccepted
	})
	c.requireStatus(t, made.ClusterID, models.ClusterStatusInstalled)
	require.NoError(t, <-ended)
	var config struct {
		FIPS bool `json:"fips"`
	}
	c.call(t, http.MethodGet, apiPath+"/clusters/"+made.ClusterID+
		"/downloads/files?file_name=install-config.yaml",
		nil).read(t, http.StatusOK, &config)
	require.True(t, config.FIPS)
	directory := c.exportDirectory(t, made.ClusterID)
	require.Empty(t, directory.Changed)
	require.Equal(t, textsOf(given), textsOf(directory.Files), "an installation does not change the directory")
	c.stop()
	database, err := os.ReadFile(filepath.Join(s.config.DataDir, "landfall.db"))
	require.NoError(t, err)
	require.NotContains(t, string(database), "dXNlcjpwYXNz", "the directory's pull secret is sealed")
}

// installConfigDirectory returns a directory with an install-config and an agent-config, as users
// write them by hand.
func installConfigDirectory(name, topology string, macs ...string) []abi.File {
	hosts := ""
	for i, mac := range macs {
		hosts += fmt.Sprintf("- hostname: %s-%d\n  interfaces: [{name: eno1, macAddress: %q}]\n", name, i+1, mac)
	}
	return []abi.File{
		{Name: "install-config.yaml", Data: []byte("# by hand\napiVersion: v1\nmetadata: {name: " +
			name + "}\nbaseDomain: site.test\n" + topology +
			"compute: [{name: worker, replicas: 0}]\nnetworking:\n  networkType: OVNKubernetes\n  machineNetwork: " +
			"[{cidr: 192.168.100.0/24}]\n" +
			"  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]\n  serviceNetwork: " +
			"[172.30.0.0/16]\npullSecret: '" + pullSecret + "'   # of the site\n")},
		{Name: "agent-config.yaml", Data: []byte("apiVersion: v1beta1\nkind: AgentConfig\nmetadata: {name: " +
			name + "}\nhosts:\n" + hosts)},
	}
}

// TestABI_topologies installs a single node and two nodes with an arbiter from directories alone. A
// host joins the single node later.
func TestABI_topologies(t *testing.T) {
	openAndAuthenticated(t, installTopologies)
}

func installTopologies(t *testing.T, s *site) {
	c := s.connect(t)
	t.Run("directories", func(t *testing.T) {
		for name, test := range map[string]struct {
			topology string
			macs     []string
			joins    string // MAC of a host that joins after the installation
			roles    map[models.HostRole]int
		}{
			"single": {
				topology: "controlPlane: {name: master, replicas: 1}\nplatform: {none: {}}\n",
				macs:     []string{"52:54:00:ab:00:01"}, joins: "52:54:00:ab:00:02",
				roles: map[models.HostRole]int{models.HostRoleMaster: 1, models.HostRoleWorker: 1},
			},
			"arbiter": {
				topology: "controlPlane: {name: master, replicas: 2}\narbiter: {name: arbiter, replicas: 1}\n" +
					"platform: {baremetal: {apiVIPs: [192.168.100.4], ingressVIPs: [192.168.100.5]}}\n",
				macs:  []string{"52:54:00:ac:00:01", "52:54:00:ac:00:02", "52:54:00:ac:00:03"},
				roles: map[models.HostRole]int{models.HostRoleMaster: 2, models.HostRoleArbiter: 1},
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				given := installConfigDirectory(name, test.topology, test.macs...)
				var made abi.Import
				c.sendDirectory(t, "", given).read(t, http.StatusCreated, &made)
				ended := s.boot(t, c, made.InfraEnvID, 1, test.macs...)
				eventually(t, "the cluster is ready", func() bool {
					return c.call(t, http.MethodPost, apiPath+"/clusters/"+made.ClusterID+"/actions/install",
						nil).status == http.StatusAccepted
				})
				for _, host := range c.cluster(t, made.ClusterID).Hosts {
					require.True(t, strings.HasPrefix(host.RequestedHostname, name+"-"),
						"%s has its name from the directory, even if Install is pressed early",
						host.RequestedHostname)
				}
				c.requireStatus(t, made.ClusterID, models.ClusterStatusInstalled)
				require.NoError(t, <-ended)
				if test.joins != "" {
					s.join(t, c, made, len(test.macs)+1, test.joins)
				}
				roles := make(map[models.HostRole]int)
				for _, host := range c.cluster(t, made.ClusterID).Hosts {
					roles[host.Role]++
				}
				require.Equal(t, test.roles, roles)
				directory := c.exportDirectory(t, made.ClusterID)
				require.Empty(t, directory.Changed)
				require.Equal(t, textsOf(given), textsOf(directory.Files))
			})
		}
	})
}

// boot starts hosts with the given MAC addresses from an infra-env's image. first is the number of
// the first host.
func (s *site) boot(t *testing.T, c *connection, infraEnv string, first int, macs ...string) (ended <-chan error) {
	group := &simulate.HostGroup{URL: c.address, InfraEnvID: infraEnv, Count: len(macs), First: first, Speed: 1000,
		Spokes: s.spokes, HTTP: c.trusted, Token: c.token}
	for i, mac := range macs {
		group.Planned = append(group.Planned, simulate.Planned{MAC: mac, Hostname: fmt.Sprintf("unnamed-%s-%d",
			infraEnv[:8], first+i)})
	}
	done := make(chan error, 1)
	go func() { done <- group.Run(t.Context()) }()
	return done
}

// join adds a host to an installed cluster.
func (s *site) join(t *testing.T, c *connection, made abi.Import, number int, mac string) {
	t.Helper()
	require.Equal(t, http.StatusAccepted, c.call(t, http.MethodPost, apiPath+"/clusters/"+made.ClusterID+
		"/actions/allow-add-hosts", nil).status)
	ended := s.boot(t, c, made.InfraEnvID, number, mac)
	var joining *models.Host
	find := func(status string) func() bool {
		return func() bool {
			for _, host := range c.cluster(t, made.ClusterID).Hosts {
				if host.Kind != nil && *host.Kind == models.HostKindAddToExistingClusterHost && *host.Status == status {
					joining = host
					return true
				}
			}
			return false
		}
	}
	eventually(t, "the joining host is known", find(models.HostStatusKnown))
	started := c.call(t, http.MethodPost, apiPath+"/infra-envs/"+made.InfraEnvID+"/hosts/"+joining.ID.String()+
		"/actions/install", nil)
	require.Equal(t, http.StatusAccepted, started.status, string(started.body))
	eventually(t, "the host is added", find(models.HostStatusAddedToExistingCluster))
	require.NoError(t, <-ended)
}

func TestABI_changedOrRejected(t *testing.T) {
	s := newSite(t)
	c := s.connect(t)
	given := s.abiDirectory(t, "changed")
	var made abi.Import
	c.sendDirectory(t, "", given).read(t, http.StatusCreated, &made)

	t.Run("a changed value changes only its document", func(t *testing.T) {
		require.Equal(t, http.StatusCreated, c.call(t, http.MethodPatch, apiPath+"/clusters/"+made.ClusterID,
			object{"base_dns_domain": "far.test"}).status)
		directory := c.exportDirectory(t, made.ClusterID)
		require.Equal(t, []string{"base_domain"}, directory.Changed)
		for i, file := range directory.Files {
			before := given[indexOf(given, file.Name)]
			if file.Name == "cluster-manifests/cluster-deployment.yaml" {
				require.Contains(t, string(file.Data), "# who: the people of the site\n")
				require.Contains(t, string(file.Data), "baseDomain: far.test\n")
			} else {
				require.Equal(t, string(before.Data), string(file.Data), i)
			}
		}
	})
	t.Run("a cluster without a directory gets one", func(t *testing.T) {
		id := c.create(t, "/clusters", s.newCluster("plain"))
		directory := c.exportDirectory(t, id)
		require.Equal(t, "plain-abi", directory.Name)
		for i := range directory.Files { // import it again under another name
			directory.Files[i].Data = bytes.ReplaceAll(directory.Files[i].Data, []byte("plain"), []byte("again"))
		}
		var again abi.Import
		c.sendDirectory(t, "", directory.Files).read(t, http.StatusCreated, &again)
		require.Equal(t, "again", c.cluster(t, again.ClusterID).Name)
	})
	for name, wrong := range map[string]struct {
		file, old, new string
		status         int
		contains       string
	}{
		"an unknown field": {"agent-config.yaml", "hosts:", "hots:", 422,
			"agent-config.yaml:4: hots is not a field of AgentConfig"},
		"an unknown release": {"cluster-manifests/cluster-image-set.yaml", s.release.Release,
			"quay.io/a/b:4.1.0-x86_64", 422,
			"cluster-manifests/cluster-image-set.yaml:5: spec.releaseImage is \"quay.io/a/b:4.1.0-x86_64\", " +
				"which the site does not offer"},
		"an override of an unknown field": {"cluster-manifests/agent-cluster-install.yaml", `{"fips":true}`,
			`{"fipz":true}`,
			400, "fipz"},
		"an invalid manifest": {"openshift/99-extra.yaml", "kind: ConfigMap", "\tkind", 400, "99-extra.yaml"},
		"networks that overlap": {"cluster-manifests/agent-cluster-install.yaml", "172.30.0.0/16", "10.128.0.0/16",
			400, "overlaps"},
		"invalid mirror rules": {"mirror/registries.conf", `prefix = ""`, `prefix = [`, 422, "registries.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			files := s.abiDirectory(t, "wrong")
			i := indexOf(files, wrong.file)
			require.Contains(t, string(files[i].Data), wrong.old)
			files[i].Data = []byte(strings.Replace(string(files[i].Data), wrong.old, wrong.new, 1))
			requireRefusal(t, c.sendDirectory(t, "", files), wrong.status, wrong.contains)
			var clusters []models.Cluster
			c.call(t, http.MethodGet, apiPath+"/clusters", nil).read(t, http.StatusOK, &clusters)
			for _, cluster := range clusters {
				require.NotEqual(t, "wrong", cluster.Name, "nothing is stored")
			}
			var rules mirrorsite.Model
			c.call(t, http.MethodGet, mirrorPath, nil).read(t, http.StatusOK, &rules)
			for _, imported := range rules.Imports {
				require.NotEqual(t, "abi-wrong", imported.Name)
			}
		})
	}
	requireRefusal(t, c.call(t, http.MethodPost, abiPath, object{}), http.StatusBadRequest,
		"neither a form with the directory's files nor a tar.gz")
	requireRefusal(t, c.call(t, http.MethodGet, "/api/landfall/v1/clusters/none/abi", nil), http.StatusNotFound,
		"There is no cluster none")
}

func textsOf(files []abi.File) map[string]string {
	texts := map[string]string{}
	for _, file := range files {
		texts[file.Name] = string(file.Data)
	}
	return texts
}

func indexOf(files []abi.File, name string) int {
	for i, file := range files {
		if file.Name == name {
			return i
		}
	}
	return -1
}
