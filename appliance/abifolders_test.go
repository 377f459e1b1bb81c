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
	"landfall/appliance/simulate"
	"landfall/web/console"
)

// abiFolder is a folder that describes a cluster of three nodes at a site, whose second host has no name in it.
func (s *site) abiFolder(t *testing.T, name string) []abi.File {
	t.Helper()
	replacer := strings.NewReplacer("NAME", name, "RELEASE", s.release.Release, "IDMS", strings.SplitN(s.release.Release, "/", 2)[0])
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
		file("openshift/99-extra.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: default}\n"),
	}
}

// sendFolder posts a folder as browsers do.
func sendFolder(t *testing.T, address string, files []abi.File) answer {
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
	response, err := http.Post(address, form.FormDataContentType(), &body)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{status: response.StatusCode, body: text}
}

const abiPath = "/api/landfall/v1/abi"

func exportFolder(t *testing.T, address, cluster string) *console.ABIExport {
	t.Helper()
	folder := new(console.ABIExport)
	ask(t, http.MethodGet, address+"/api/landfall/v1/clusters/"+cluster+"/abi?format=json", nil).read(t, http.StatusOK, folder)
	return folder
}

func TestAFolderOfTheAgentBasedInstallerIsInstalledAndGivenBackAsItWas(t *testing.T) {
	s := newSite(t)
	address, stop := s.start(t)
	given := s.abiFolder(t, "folder")
	var checked, made console.ABIImport
	sendFolder(t, address+abiPath+"?check=true", given).read(t, http.StatusOK, &checked)
	require.Empty(t, checked.ClusterID)
	requireNothing(t, address+apiPath+"/clusters")
	sendFolder(t, address+abiPath, given).read(t, http.StatusCreated, &made)
	require.Equal(t, 3, made.Hosts)
	require.Equal(t, textsOf(given), textsOf(exportFolder(t, address, made.ClusterID).Files))

	crew := &simulate.Crew{URL: address, InfraEnvID: made.InfraEnvID, Count: 3, Speed: 1000}
	for i := range 3 {
		crew.Planned = append(crew.Planned, simulate.Planned{MAC: fmt.Sprintf("52:54:00:aa:00:0%d", i+1), Hostname: fmt.Sprintf("unnamed-%d", i+1)})
	}
	ended := make(chan error, 1)
	go func() { ended <- crew.Run(t.Context()) }()
	requireStatus(t, address, made.ClusterID, models.ClusterStatusReady)
	names := map[string]*models.Host{}
	eventually(t, "the hosts are what the folder says", func() bool {
		for _, host := range clusterAt(t, address, made.ClusterID).Hosts {
			names[host.RequestedHostname] = host
		}
		return names["rack-a"] != nil && names["rack-c"] != nil
	})
	require.Equal(t, models.HostRoleMaster, names["rack-a"].Role)
	require.Equal(t, "/dev/nvme1n1", names["rack-a"].InstallationDiskPath)
	var events []models.Event
	ask(t, http.MethodGet, address+apiPath+"/events?host_id="+names["rack-c"].ID.String(), nil).read(t, http.StatusOK, &events)
	var told []string
	for _, event := range events {
		told = append(told, *event.Message)
	}
	require.Contains(t, strings.Join(told, "\n"), "fits its rootDeviceHints; choose its installation disk. (agent-config.yaml:10)")

	eventually(t, "Install can be pressed", func() bool {
		return ask(t, http.MethodPost, address+apiPath+"/clusters/"+made.ClusterID+"/actions/install", nil).status == http.StatusAccepted
	})
	requireStatus(t, address, made.ClusterID, models.ClusterStatusInstalled)
	require.NoError(t, <-ended)
	var config struct {
		FIPS bool `json:"fips"`
	}
	ask(t, http.MethodGet, address+apiPath+"/clusters/"+made.ClusterID+"/downloads/files?file_name=install-config.yaml", nil).read(t, http.StatusOK, &config)
	require.True(t, config.FIPS)
	folder := exportFolder(t, address, made.ClusterID)
	require.Empty(t, folder.Changed)
	require.Equal(t, textsOf(given), textsOf(folder.Files), "an installation touches nothing")
	stop()
	database, err := os.ReadFile(filepath.Join(s.config.DataDir, "landfall.db"))
	require.NoError(t, err)
	require.NotContains(t, string(database), "dXNlcjpwYXNz", "the folder's pull secret lies sealed")
}

func TestAFolderThatIsChangedOrRefused(t *testing.T) {
	s := newSite(t)
	address, _ := s.start(t)
	given := s.abiFolder(t, "changed")
	var made console.ABIImport
	sendFolder(t, address+abiPath, given).read(t, http.StatusCreated, &made)

	t.Run("a changed value changes its document alone", func(t *testing.T) {
		require.Equal(t, http.StatusCreated, ask(t, http.MethodPatch, address+apiPath+"/clusters/"+made.ClusterID, object{"base_dns_domain": "far.test"}).status)
		folder := exportFolder(t, address, made.ClusterID)
		require.Equal(t, []string{"base_domain"}, folder.Changed)
		for i, file := range folder.Files {
			before := given[indexOf(given, file.Name)]
			if file.Name == "cluster-manifests/cluster-deployment.yaml" {
				require.Contains(t, string(file.Data), "# who: the people of the site\n")
				require.Contains(t, string(file.Data), "baseDomain: far.test\n")
			} else {
				require.Equal(t, string(before.Data), string(file.Data), i)
			}
		}
	})
	t.Run("a cluster that came from no folder gets one", func(t *testing.T) {
		id := create(t, address+apiPath+"/clusters", s.newCluster("plain"))
		folder := exportFolder(t, address, id)
		require.Equal(t, "plain-abi", folder.Name)
		for i := range folder.Files { // and it can be imported again under another name
			folder.Files[i].Data = bytes.ReplaceAll(folder.Files[i].Data, []byte("plain"), []byte("again"))
		}
		var again console.ABIImport
		sendFolder(t, address+abiPath, folder.Files).read(t, http.StatusCreated, &again)
		require.Equal(t, "again", clusterAt(t, address, again.ClusterID).Name)
	})
	for name, wrong := range map[string]struct {
		file, old, new string
		status         int
		says           string
	}{
		"an unknown field":         {"agent-config.yaml", "hosts:", "hots:", 422, "agent-config.yaml:4: hots is no field of AgentConfig"},
		"an unknown release":       {"cluster-manifests/cluster-image-set.yaml", s.release.Release, "quay.io/a/b:4.1.0-x86_64", 422, "cluster-manifests/cluster-image-set.yaml:5: spec.releaseImage is \"quay.io/a/b:4.1.0-x86_64\", which the appliance does not have"},
		"an override of nothing":   {"cluster-manifests/agent-cluster-install.yaml", `{"fips":true}`, `{"fipz":true}`, 400, "fipz"},
		"a manifest that is none":  {"openshift/99-extra.yaml", "kind: ConfigMap", "\tkind", 400, "99-extra.yaml"},
		"networks that overlap":    {"cluster-manifests/agent-cluster-install.yaml", "172.30.0.0/16", "10.128.0.0/16", 400, "overlaps"},
		"mirror rules of nonsense": {"mirror/registries.conf", `prefix = ""`, `prefix = [`, 422, "registries.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			files := s.abiFolder(t, "wrong")
			i := indexOf(files, wrong.file)
			require.Contains(t, string(files[i].Data), wrong.old)
			files[i].Data = []byte(strings.Replace(string(files[i].Data), wrong.old, wrong.new, 1))
			requireRefusal(t, sendFolder(t, address+abiPath, files), wrong.status, wrong.says)
			var clusters []models.Cluster
			ask(t, http.MethodGet, address+apiPath+"/clusters", nil).read(t, http.StatusOK, &clusters)
			for _, cluster := range clusters {
				require.NotEqual(t, "wrong", cluster.Name, "nothing of it stays")
			}
			var rules console.MirrorModel
			ask(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &rules)
			for _, imported := range rules.Imports {
				require.NotEqual(t, "abi-wrong", imported.Name)
			}
		})
	}
	requireRefusal(t, ask(t, http.MethodPost, address+abiPath, object{}), http.StatusBadRequest, "neither a form with the folder's files nor a tar.gz")
	requireRefusal(t, ask(t, http.MethodGet, address+"/api/landfall/v1/clusters/none/abi", nil), http.StatusNotFound, "There is no cluster none")
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
