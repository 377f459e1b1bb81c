package apply

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inDirectory writes files into a temporary directory and makes it the working directory, so that
// file names in errors are short.
func inDirectory(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	t.Chdir(dir)
}

func secret(name string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata:\n  name: " + name +
		"\n  namespace: sno\nstringData:\n  username: admin\n"
}

func names(list []*Object) []string {
	var found []string
	for _, o := range list {
		found = append(found, o.String())
	}
	return found
}

const wholeSite = `# a site in one file
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: n1, namespace: sno, labels: {infraenvs.agent-install.openshift.io: sno}}
spec: {online: yes, bootMACAddress: "52:54:00:00:00:01", bmc: {address: "redfish-virtualmedia://[fd00::1]/redfish/v1/Systems/1", credentialsName: bmc, disableCertificateVerification: True}}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: sno, namespace: sno}
spec:
  clusterRef: {name: sno, namespace: sno}
  pullSecretRef: {name: pull}
  nmStateConfigLabelSelector: {matchLabels: {net: sno}}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: NMStateConfig
metadata: {name: n1, namespace: sno, labels: {net: sno}}
spec: {interfaces: [{name: eth0, macAddress: "52:54:00:00:00:01"}], config: {}}
--- # the cluster
apiVersion: extensions.hive.openshift.io/v1beta1
kind: AgentClusterInstall
metadata: {name: sno, namespace: sno}
spec:
  clusterDeploymentRef: {name: sno}
  imageSetRef: {name: v4.20}
  manifestsConfigMapRefs: [{name: extra}]
  provisionRequirements: {controlPlaneAgents: 1}
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: sno, namespace: sno}
spec:
  baseDomain: example.com
  clusterName: sno
  clusterInstallRef: {group: extensions.hive.openshift.io, kind: AgentClusterInstall, name: sno, version: v1beta1}
  pullSecretRef: {name: pull}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: hive.openshift.io/v1, kind: ClusterImageSet, metadata: {name: v4.20}, spec: {releaseImage: "quay.io/r@sha256:1"}}
- {apiVersion: v1, kind: Secret, metadata: {name: bmc, namespace: sno}, stringData: {username: u, password: p}}
- {apiVersion: v1, kind: Secret, metadata: {name: pull, namespace: sno}, stringData: {.dockerconfigjson: '{"auths":{"r:5000":{"auth":"dTpw"}}}'}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: extra, namespace: sno}, data: {a.yaml: "kind: A"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: sno, creationTimestamp: null}
`

func TestRead_applyOrder(t *testing.T) {
	inDirectory(t, map[string]string{"site.yaml": wholeSite})
	read, err := Read(Sources{Paths: []string{"site.yaml"}})
	require.NoError(t, err)
	require.Equal(t, []string{
		"namespace/sno", "secret/bmc", "secret/pull", "configmap/extra", "clusterimageset.hive.openshift.io/v4.20",
		"clusterdeployment.hive.openshift.io/sno", "agentclusterinstall.extensions.hive.openshift.io/sno",
		"nmstateconfig.agent-install.openshift.io/n1", "infraenv.agent-install.openshift.io/sno",
		"baremetalhost.metal3.io/n1",
	}, names(read.Objects))
	host := read.Objects[9]
	require.Equal(t, true, host.at("spec", "online"), "YAML 1.1's yes, as kubectl reads it")
	require.Equal(t, Source{"site.yaml", 1}, host.Source)
	require.Equal(t, Source{"site.yaml", 20}, read.Objects[6].Source)
}

func TestRead_directoryOrder(t *testing.T) {
	inDirectory(t, map[string]string{
		"a.yaml": secret("a"), "b.yml": secret("b"), "README.md": "no manifest", "deeper/c.yaml": secret("c"),
		".git/d.yaml": "{",
		"two.json": `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}` + "\n" + `{"apiVersion":"v1",` +
			"\t" + `"kind":"Secret","metadata":{"name":"y"}}`,
	})
	read, err := Read(Sources{Paths: []string{"."}})
	require.NoError(t, err)
	require.Equal(t, []string{"secret/a", "secret/b", "secret/x", "secret/y"}, names(read.Objects))
	require.Equal(t, 2, read.Objects[3].Source.Line)
	read, err = Read(Sources{Paths: []string{"."}, Recursive: true})
	require.NoError(t, err)
	require.Contains(t, names(read.Objects), "secret/c")
	read, err = Read(Sources{Paths: []string{"-", "a.yaml"}, Stdin: strings.NewReader(secret("a") + "---\n" +
		secret("z"))})
	require.NoError(t, err)
	require.Equal(t, []string{"secret/a", "secret/z"}, names(read.Objects), "a repeated object is read once")
}

func TestRead_errorsNameFileAndLine(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"not YAML": {secret("a") + "---\na: [1\n", "in.yaml:9: invalid YAML"},
		"an open bracket": {"apiVersion: v1\nkind: Secret\nmetadata: {name: [a}\nx: y\n",
			"in.yaml:3: invalid YAML: did not find expected ',' or ']'"},
		"duplicate key": {"apiVersion: v1\nkind: Secret\nkind: Secret\nmetadata: {name: a}\n",
			`in.yaml:3: invalid YAML`},
		"a tab": {"a:\n\tb: 1\n",
			"in.yaml:2: invalid YAML: the line begins with a tab; YAML is indented with blanks"},
		"a forbidden character": {"a:\n  b: @1\n",
			"in.yaml:2: invalid YAML: found character that cannot start any token"},
		"a forbidden character before a text with tabs": {"a:\n  b: @1\nc: |\n  x\n  \ty\n",
			"in.yaml:2: invalid YAML: found character that cannot start any token"},
		"a list": {"# list\n- a\n",
			"in.yaml:1: this document is not an object; expected apiVersion, kind and metadata"},
		"values for Helm": {"image: x\n", "in.yaml:1: this document has no apiVersion and kind"},
		"without a name":  {"apiVersion: v1\nkind: Secret\n", "in.yaml:1: Secret has no metadata.name"},
		"a generated name": {"apiVersion: v1\nkind: Secret\nmetadata: {generateName: a-}\n",
			"metadata.generateName; an applied object requires metadata.name"},
		"same name": {secret("a") + "---\n" + strings.Replace(secret("a"), "admin", "root", 1),
			"in.yaml:9: secret/a differs from the object with the same name at in.yaml:1"},
		"nothing":           {"# nothing\n---\n", "no object found in in.yaml"},
		"name not a string": {"apiVersion: v1\nkind: Secret\nmetadata: {name: 7}\n", "Secret has no metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			inDirectory(t, map[string]string{"in.yaml": c.text})
			_, err := Read(Sources{Paths: []string{"in.yaml"}})
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	_, err := Read(Sources{Paths: []string{"nowhere.yaml"}})
	require.ErrorContains(t, err, "read manifests: stat nowhere.yaml: no such file or directory")
}

func TestRead_aliasesAreLimited(t *testing.T) {
	text := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		text += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]\n"
	}
	inDirectory(t, map[string]string{"in.yaml": text})
	_, err := Read(Sources{Paths: []string{"in.yaml"}})
	require.ErrorContains(t, err, "excessive aliasing")
}
