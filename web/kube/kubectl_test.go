package kube_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/objects"
)

// kubectl is the upstream program with a kubeconfig for a site.
type kubectl struct{ program, config string }

func newKubectl(t *testing.T, s *site) kubectl {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir, "./kubectl")
	build.Dir = filepath.Join("..", "clients") // a separate module
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	k := kubectl{filepath.Join(dir, "kubectl"), filepath.Join(dir, "config")}
	require.NoError(t, os.WriteFile(k.config,
		[]byte(
			`{"apiVersion":"v1","kind":"Config","current-context":"site","clusters":[{"name":"site","cluster":{"server":"`+overHTTP(t, s)+
				`"}}],"users":[{"name":"site","user":{}}],"contexts":[{"name":"site","context":{"cluster":"site","user":"site","namespace":"default"}}]}`), 0o600))
	return k
}

func (k kubectl) command(ctx context.Context, arguments ...string) *exec.Cmd {
	kubectl := exec.CommandContext(ctx, k.program, arguments...)
	kubectl.Env = []string{"KUBECONFIG=" + k.config, "HOME=" + filepath.Dir(k.config), "PATH=" + os.Getenv("PATH"),
		"KUBE_EDITOR=sed -i s/example.org/example.net/"}
	return kubectl
}

// run runs kubectl until it exits and returns its output.
func (k kubectl) run(t *testing.T, input string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	process := k.command(ctx, arguments...)
	process.Stdin = strings.NewReader(input)
	said, complained := new(bytes.Buffer), new(bytes.Buffer)
	process.Stdout, process.Stderr = said, complained
	require.NoError(t, process.Run(), "kubectl %s: %s%s", strings.Join(arguments, " "), said, complained)
	return said.String()
}

const clusterManifest = `
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: one, namespace: default}
spec: {clusterName: one, baseDomain: example.com, platform: {agentBareMetal: {agentSelector: {}}}}
---
apiVersion: v1
kind: Secret
metadata: {name: bmc, namespace: default}
stringData: {username: admin, password: secret}
`

func TestKubectl(t *testing.T) {
	hosted := newHostedSite(t)
	s := hosted.site
	k := newKubectl(t, s)
	hosted.seedLines(t, k)
	require.Contains(t, k.run(t, "", "api-resources"), "agentclusterinstalls")
	require.Equal(t, "yes\n", k.run(t, "", "auth", "can-i", "create", "clusterdeployments"))
	require.Contains(t, k.run(t, "", "auth", "whoami"), "kube:admin")
	require.Contains(t, k.run(t, "", "cluster-info"), "Kubernetes control plane")
	require.Contains(t, k.run(t, "", "cluster-info", "dump"), `"kind": "PodList"`)
	require.Empty(t, k.run(t, "", "get", "pods,nodes,svc,pvc", "-A"))
	require.Empty(t, k.run(t, "", "get", "all"))
	require.Contains(t, k.run(t, "", "explain", "clusterdeployment.spec.baseDomain"), "FIELD: baseDomain <string>")
	require.Contains(t, k.run(t, "", "explain", "secret.data"), "base64")

	watched := new(bytes.Buffer)
	ctx, cancel := context.WithCancel(t.Context())
	watching := k.command(ctx, "get", "clusterdeployments", "-w", "-o", "jsonpath={.spec.baseDomain}{\"\\n\"}")
	watching.Stdout = watched
	require.NoError(t, watching.Start())

	require.Equal(t, "clusterdeployment.hive.openshift.io/one created\nsecret/bmc created\n",
		k.run(t, clusterManifest, "apply", "-f", "-"))
	require.Contains(t, k.run(t, clusterManifest, "apply", "-f", "-"),
		"clusterdeployment.hive.openshift.io/one unchanged")
	require.Contains(t, k.run(t, clusterManifest, "apply", "--server-side", "-f", "-"),
		"serverside-applied")
	require.Contains(t, k.run(t, strings.ReplaceAll(clusterManifest, "example.com", "example.org"), "apply", "-f", "-"),
		"one configured")
	require.Contains(t, k.run(t, "", "edit", "cd", "one"), "edited")
	require.Contains(t, k.run(t, "", "patch", "cd", "one", "--type", "merge", "-p",
		`{"spec":{"baseDomain":"example.edu"}}`), "patched")
	require.Contains(t, k.run(t, "", "patch", "secret", "bmc", "-p", `{"stringData":{"password":"other"}}`), "patched")
	require.Contains(t, k.run(t, "", "annotate", "cd", "one", "a=b"), "annotated")
	require.Contains(t, k.run(t, "", "label", "cd", "one", "c=d"), "labeled")
	require.Contains(t, k.run(t, "", "get", "cd", "-l", "c=d"), "PROVISIONSTATUS")
	require.Contains(t, k.run(t, "", "get", "secret", "bmc"), "Opaque   2")
	require.Regexp(t, `assisted-image-service +1/1 +1 +1 `, k.run(t, "", "get", "-n", "open-cluster-management",
		"deployment"))
	require.Contains(t, k.run(t, "", "describe", "cd", "one"), "example.edu")
	require.Equal(t, "b3RoZXI=", k.run(t, "", "get", "secret", "bmc", "-o", "jsonpath={.data.password}"))

	for _, cascade := range []string{"orphan", "foreground", "background"} {
		owner := s.create(t, objects.ClusterDeployments, "default", cascade, deployment)
		s.create(t, objects.ConfigMaps, "default", cascade, ownedBy(owner))
		require.Contains(t, k.run(t, "", "delete", "cd", cascade, "--cascade="+cascade, "--timeout=30s"), "deleted")
	}
	s.gone(t, objects.ConfigMaps, "default", "background")
	s.get(t, objects.ConfigMaps, "default", "orphan")
	k.run(t, "", "create", "namespace", "site")
	k.run(t, "", "-n", "site", "create", "configmap", "a", "--from-literal=b=c")
	require.Contains(t, k.run(t, "", "delete", "namespace", "site", "--timeout=30s"), "deleted")

	require.Eventually(t, func() bool {
		return s.get(t, objects.ClusterDeployments, "default",
			"one").GetLabels()["c"] == "d"
	}, time.Second, time.Millisecond)
	cancel()
	require.Error(t, watching.Wait(), "kubectl was killed while it watched")
	for _, domain := range []string{"example.com", "example.org", "example.net", "example.edu"} {
		require.Contains(t, watched.String(), domain+"\n")
	}
}

// seedLines types the lines with kubectl of the document on a cluster's creation, as they stand,
// into a shell. The appliance answers them like the management cluster, while that is away.
func (s *hostedSite) seedLines(t *testing.T, k kubectl) {
	t.Helper()
	s.addManagement(t)
	c := s.put(t, "Edge1")
	for _, line := range []struct{ line, prints string }{
		{`kubectl get manifestwork -l "api.openshift.com/id=${CLUSTERS_SERVICE_ID}" -n local-cluster`,
			`(?s)^NAME +BUNDLE.*` + c.CID + `.*` + c.CID + `.*` + c.CID},
		{`kubectl get managedclusters`, `^$`}, // the management cluster has them
		{`kubectl get hostedclusters -A`, `ocm-landfall-` + c.CID + ` +edge1 `},
		{`kubectl get pods -n ocm-xxx-${CLUSTER_ID}-${CLUSTER_NAME}`, `^$`},
	} {
		shell := exec.CommandContext(t.Context(), "bash", "-c", line.line)
		shell.Env = append(k.command(t.Context()).Env, "CLUSTERS_SERVICE_ID="+c.CID, "CLUSTER_ID="+c.CID,
			"CLUSTER_NAME=edge1", "PATH="+filepath.Dir(k.program)+string(os.PathListSeparator)+os.Getenv("PATH"))
		complained := new(bytes.Buffer)
		shell.Stderr = complained
		printed, err := shell.Output()
		require.NoError(t, err, "%s: %s", line.line, complained)
		require.Regexp(t, line.prints, string(printed), "%s: %s", line.line, complained)
	}
}
