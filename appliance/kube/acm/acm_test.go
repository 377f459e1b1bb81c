package acm

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"landfall/appliance/kube/apply"
	"landfall/appliance/kube/objects"
)

// memoryAPI is a fake API with its objects in memory.
type memoryAPI map[string]map[string]any

func (k memoryAPI) Get(_ context.Context, kind objects.Kind, namespace, name string) (map[string]any, error) {
	return k[kind.Key(namespace, name)], nil
}

func (k memoryAPI) List(_ context.Context, kind objects.Kind, namespace string) ([]map[string]any, error) {
	var found []map[string]any
	prefix := strings.TrimSuffix(kind.Key(namespace, ""), "/") + "/"
	for _, key := range slices.Sorted(maps.Keys(k)) {
		if strings.HasPrefix(key, prefix) {
			found = append(found, k[key])
		}
	}
	return found, nil
}

// add adds objects from YAML.
func (k memoryAPI) add(t *testing.T, documents string) {
	for text := range strings.SplitSeq(documents, "\n---\n") {
		var content map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(text), &content))
		o := object{content}
		i := slices.IndexFunc(objects.Kinds(), func(kind objects.Kind) bool { return kind.Kind == content["kind"] })
		metadata := content["metadata"].(map[string]any)
		metadata["uid"], metadata["resourceVersion"], metadata["managedFields"], metadata["generation"] = "u",
			"7", []any{"x"}, 2
		k[objects.Kinds()[i].Key(o.text("metadata", "namespace"), nameOf(content))] = content
	}
}

const installedCluster = `{apiVersion: v1, kind: Namespace, metadata: {name: sno, labels: {kubernetes.io/metadata.name: sno}}, spec: {finalizers: [kubernetes]}}
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: sno, namespace: sno, finalizers: [clusterdeployments.agent-install.openshift.io/ai-deprovision], annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}
spec:
  clusterName: berlin
  baseDomain: example.com
  installed: true
  clusterMetadata: {clusterID: c-1, infraID: e-1, adminKubeconfigSecretRef: {name: sno-admin-kubeconfig}, adminPasswordSecretRef: {name: sno-admin-password}}
  clusterInstallRef: {group: extensions.hive.openshift.io, version: v1beta1, kind: AgentClusterInstall, name: sno}
  pullSecretRef: {name: pull}
status: {conditions: []}
---
apiVersion: extensions.hive.openshift.io/v1beta1
kind: AgentClusterInstall
metadata: {name: sno, namespace: sno, ownerReferences: [{kind: ClusterDeployment, name: sno, uid: u}]}
spec: {clusterDeploymentRef: {name: sno}, imageSetRef: {name: v4.20}, manifestsConfigMapRefs: [{name: extra}], mirrorRegistryRef: {name: mirrors, namespace: common}, provisionRequirements: {controlPlaneAgents: 1}}
status: {conditions: [{type: Completed, status: "True"}]}
---
{apiVersion: hive.openshift.io/v1, kind: ClusterImageSet, metadata: {name: v4.20}, spec: {releaseImage: "q@sha256:1"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: extra, namespace: sno}, data: {a.yaml: "kind: A\n"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: mirrors, namespace: common}, data: {registries.conf: ""}}
---
{apiVersion: v1, kind: Secret, metadata: {name: sno-admin-kubeconfig, namespace: sno, labels: {hive.openshift.io/secret-type: kubeconfig}}, type: Opaque, data: {kubeconfig: a3ViZQ==}}
---
{apiVersion: v1, kind: Secret, metadata: {name: sno-admin-password, namespace: sno}, type: Opaque, data: {password: cA==}}
---
{apiVersion: v1, kind: Secret, metadata: {name: pull, namespace: sno}, type: kubernetes.io/dockerconfigjson, data: {.dockerconfigjson: e30=}}
---
{apiVersion: v1, kind: Secret, metadata: {name: bmc, namespace: sno}, type: Opaque, data: {username: dQ==, password: cA==}}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: sno, namespace: sno}
spec: {clusterRef: {name: sno, namespace: sno}, pullSecretRef: {name: pull}, nmStateConfigLabelSelector: {matchLabels: {net: sno}}}
---
{apiVersion: agent-install.openshift.io/v1beta1, kind: InfraEnv, metadata: {name: other, namespace: sno}, spec: {pullSecretRef: {name: pull}}}
---
{apiVersion: agent-install.openshift.io/v1beta1, kind: NMStateConfig, metadata: {name: n1, namespace: sno, labels: {net: sno}}, spec: {config: {}}}
---
{apiVersion: agent-install.openshift.io/v1beta1, kind: NMStateConfig, metadata: {name: n2, namespace: sno, labels: {net: x}}, spec: {config: {}}}
---
{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: n1, namespace: sno, annotations: {baremetalhost.metal3.io/paused: assisted-service-controller}}, spec: {online: true, image: {url: "http://a/byapikey/x.iso"}, bmc: {address: a, credentialsName: bmc}}, status: {provisioning: {state: provisioned}}}
`

func exported(t *testing.T, k memoryAPI, options Options) *Directory {
	t.Helper()
	directory, err := Export(t.Context(), k, "sno", options)
	require.NoError(t, err)
	return directory
}

func fileNames(f *Directory) (all, secrets []string) {
	for _, file := range f.Files {
		all = append(all, file.Name)
		if file.Secret {
			secrets = append(secrets, file.Name)
		}
	}
	return all, secrets
}

func (f *Directory) read(t *testing.T, name string) string {
	i := slices.IndexFunc(f.Files, func(file File) bool { return file.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return string(f.Files[i].Data)
}

func TestExport_objectsForTheHub(t *testing.T) {
	k := memoryAPI{}
	k.add(t, installedCluster)
	directory := exported(t, k, Options{})
	all, secrets := fileNames(directory)
	require.Equal(t, []string{
		"agentclusterinstall-sno.yaml", "baremetalhost-n1.yaml", "clusterdeployment-sno.yaml",
		"clusterimageset-v4.20.yaml", "configmap-extra.yaml",
		"configmap-mirrors-in-common.yaml", "infraenv-sno.yaml", "klusterletaddonconfig-sno.yaml",
		"managedcluster-sno.yaml", "namespace-sno.yaml",
		"nmstateconfig-n1.yaml", "secret-auto-import-secret.yaml", "secret-sno-admin-kubeconfig.yaml",
		"secret-sno-admin-password.yaml", "kustomization.yaml", "README.md",
	}, all)
	require.Equal(t, []string{"baremetalhost-n1.yaml", "secret-auto-import-secret.yaml",
		"secret-sno-admin-kubeconfig.yaml", "secret-sno-admin-password.yaml"}, secrets)
	require.Equal(t, []string{"sno/bmc", "sno/pull"}, directory.LeftOut)
	require.Contains(t, directory.read(t, "README.md"), "create them on the hub first: sno/bmc, sno/pull.")
	require.Equal(t, `# SECRET: gives access to everything in the cluster; the hub removes the Secret after the import.
apiVersion: v1
kind: Secret
metadata:
  name: auto-import-secret
  namespace: sno
stringData:
  autoImportRetry: "5"
  kubeconfig: kube
type: Opaque
`, directory.read(t, "secret-auto-import-secret.yaml"))
	deployment := directory.read(t, "clusterdeployment-sno.yaml")
	for _, field := range []string{"finalizers", "status", "uid", "managedFields", "last-applied", "resourceVersion"} {
		require.NotContains(t, deployment, field)
	}
	require.Contains(t, deployment, "  installed: true\n")
	require.NotContains(t, directory.read(t, "agentclusterinstall-sno.yaml"), "ownerReferences")
	require.Contains(t, directory.read(t, "baremetalhost-n1.yaml"), `    baremetalhost.metal3.io/detached: assisted-service-controller
    baremetalhost.metal3.io/status: '{"provisioning":{"state":"provisioned"}}'
`)
	require.NotContains(t, directory.read(t, "baremetalhost-n1.yaml"), "paused")
	require.Contains(t, directory.read(t, "managedcluster-sno.yaml"), "hubAcceptsClient: true")
	require.Contains(t, directory.read(t, "klusterletaddonconfig-sno.yaml"), "clusterName: sno")
	require.Contains(t, directory.read(t, "kustomization.yaml"), "- secret-auto-import-secret.yaml\n")

	all, _ = fileNames(exported(t, k, Options{PullSecret: true, BMCCredentials: true}))
	require.Contains(t, all, "secret-pull.yaml")
	require.Contains(t, all, "secret-bmc.yaml")
}

func TestExport_appliedObjectsAreKept(t *testing.T) {
	k := memoryAPI{}
	k.add(t, installedCluster+`---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: sno, labels: {du-profile: latest}}, spec: {hubAcceptsClient: true}}
---
{apiVersion: agent.open-cluster-management.io/v1, kind: KlusterletAddonConfig, metadata: {name: sno, namespace: sno}, spec: {clusterName: sno, searchCollector: {enabled: false}}}
`)
	directory := exported(t, k, Options{})
	require.Contains(t, directory.read(t, "managedcluster-sno.yaml"), "du-profile: latest")
	require.Contains(t, directory.read(t, "klusterletaddonconfig-sno.yaml"), "enabled: false")
}

func TestExport_clusterByAnyName(t *testing.T) {
	k := memoryAPI{}
	k.add(t, installedCluster)
	for _, name := range []string{"sno", "sno/sno", "berlin", "c-1", "e-1"} {
		directory, err := Export(t.Context(), k, name, Options{})
		require.NoError(t, err, name)
		require.Equal(t, "sno-acm", directory.Name)
	}
	_, err := Export(t.Context(), k, "paris", Options{})
	require.EqualError(t, err, "cluster paris not found; the appliance has sno/sno")
	_, err = Export(t.Context(), memoryAPI{}, "paris", Options{})
	require.EqualError(t, err, "the appliance has no cluster")
	k.add(t, "{apiVersion: hive.openshift.io/v1, kind: ClusterDeployment, metadata: {name: sno, namespace: a}, spec: "+
		"{clusterName: x}}")
	_, err = Export(t.Context(), k, "sno", Options{})
	require.EqualError(t, err, "sno is the name of several clusters: a/sno, sno/sno; give one of these")
}

func TestExport_clusterNotInstalled(t *testing.T) {
	for name, c := range map[string]struct{ install, says string }{
		"installing": {"status: {debugInfo: {stateInfo: Installation in progress.}}",
			"the cluster sno is not installed (Installation in progress); a hub imports only installed clusters"},
		"no status": {"status: {}", "the cluster sno is not installed; a hub imports only installed clusters"},
		"no ids yet": {`status: {conditions: [{type: Completed, status: "True"}]}`,
			"the cluster sno has no spec.clusterMetadata yet; try again in a moment"},
	} {
		k := memoryAPI{}
		k.add(t, "{apiVersion: hive.openshift.io/v1, kind: ClusterDeployment, metadata: {name: sno, namespace: sno}, "+
			"spec: {clusterName: x, clusterInstallRef: {name: a}}}\n---\napiVersion: "+
			"extensions.hive.openshift.io/v1beta1\nkind: AgentClusterInstall\nmetadata: {name: a, namespace: "+
			"sno}\n"+c.install)
		_, err := Export(t.Context(), k, "sno", Options{})
		require.EqualError(t, err, c.says, name)
	}
	k := memoryAPI{}
	k.add(t, installedCluster)
	delete(k, objects.Secrets.Key("sno", "sno-admin-kubeconfig"))
	_, err := Export(t.Context(), k, "sno", Options{})
	require.EqualError(t, err,
		"the Secret sno/sno-admin-kubeconfig has no kubeconfig, which a hub needs to connect to the cluster")
}

// TestArchive_roundTrip exports a cluster, imports it to another appliance, and exports it from
// there.
func TestArchive_roundTrip(t *testing.T) {
	k := memoryAPI{}
	k.add(t, installedCluster)
	directory := exported(t, k, Options{PullSecret: true, BMCCredentials: true})
	dir := t.TempDir()
	for _, place := range []string{filepath.Join(dir, "directory"), filepath.Join(dir, "site.tar")} {
		require.NoError(t, directory.Write(place, time.Unix(1, 0)))
		read, err := Read(place)
		require.NoError(t, err)
		chosen, notes, err := Adoption(read.Objects)
		require.NoError(t, err)
		require.Empty(t, notes)
		elsewhere := memoryAPI{}
		for _, o := range chosen {
			i := slices.IndexFunc(objects.Kinds(), o.Is)
			elsewhere[objects.Kinds()[i].Key(o.Namespace, o.Name)] = o.Content
		}
		require.Equal(t, directory, exported(t, elsewhere, Options{PullSecret: true, BMCCredentials: true}), place)
		require.Error(t, directory.Write(place, time.Unix(1, 0)), "an existing file is not overwritten")
	}
}

func TestArchive_filePermissions(t *testing.T) {
	k := memoryAPI{}
	k.add(t, installedCluster)
	directory, dir := exported(t, k, Options{}), t.TempDir()
	require.NoError(t, directory.Write(filepath.Join(dir, "out"), time.Now()))
	require.NoError(t, directory.Write(filepath.Join(dir, "out.tar"), time.Now()))
	mode := func(name string) os.FileMode {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	require.Equal(t, os.FileMode(0o700), mode("out"))
	require.Equal(t, os.FileMode(0o600), mode("out.tar"))
	require.Equal(t, os.FileMode(0o600), mode("out/secret-sno-admin-kubeconfig.yaml"))
	file, err := os.Open(filepath.Join(dir, "out.tar"))
	require.NoError(t, err)
	defer file.Close()
	for entries := tar.NewReader(file); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		name := path.Base(header.Name)
		require.Equal(t, strings.HasPrefix(name, "secret-") || strings.HasPrefix(name, "baremetalhost-"),
			header.Mode == 0o600, name)
	}
}

func TestImport_hubFieldsAreRemoved(t *testing.T) {
	k := memoryAPI{}
	k.add(t, installedCluster)
	var list []any
	for _, key := range slices.Sorted(maps.Keys(k)) {
		list = append(list, k[key])
	}
	list = append(list, map[string]any{"apiVersion": "addon.open-cluster-management.io/v1alpha1",
		"kind": "ManagedClusterAddOn", "metadata": map[string]any{"name": "search", "namespace": "sno"}})
	text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": list})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "hub.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	read, err := Read(file)
	require.NoError(t, err)
	chosen, notes, err := Adoption(read.Objects)
	require.NoError(t, err)
	require.Len(t, chosen, len(k))
	require.Equal(t, []string{file + ":1: managedclusteraddon.addon.open-cluster-management.io/search is omitted"},
		notes)
	for _, o := range chosen {
		require.NotContains(t, o.Content, "status")
		require.Nil(t, object{o.Content}.at("metadata", "uid"))
		require.Nil(t, object{o.Content}.at("metadata", "finalizers"))
	}
}

func TestImport_invalidArchive(t *testing.T) {
	const deployment = "apiVersion: hive.openshift.io/v1\nkind: ClusterDeployment\nmetadata: {name: a, namespace: " +
		"a}\nspec: "
	for says, text := range map[string]string{
		"there is no ClusterDeployment":     "{apiVersion: v1, kind: Secret, metadata: {name: a}}",
		"is not installed (spec.installed)": deployment + "{clusterName: a}",
		"names no kubeconfig in spec.":      deployment + "{installed: true}",
		"with the kubeconfig, which is missing": deployment +
			"{installed: true, clusterMetadata: {adminKubeconfigSecretRef: {name: k}}}",
		"this document has no apiVersion and kind": "a: b",
		"no object found in the files":             "# nothing",
	} {
		read, err := apply.ReadFiles([]apply.File{{Name: "a.yaml", Data: []byte(text)}})
		if err == nil {
			_, _, err = Adoption(read.Objects)
		}
		require.ErrorContains(t, err, says)
	}
	_, err := unpack(bytes.NewReader(make([]byte, 100)))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = Read("nowhere.tar")
	require.ErrorContains(t, err, "read the archive: open nowhere.tar: no such file or directory")
}
