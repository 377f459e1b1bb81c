//go:build registry

package appliance_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/mirror"
	"landfall/appliance/mirror/registrytest"
	mirrorsite "landfall/appliance/mirror/site"
	"landfall/appliance/registry/handover"
	"landfall/appliance/simulate"
	"landfall/web/console"
)

const (
	digestSets = "apis/config.openshift.io/v1/imagedigestmirrorsets"
	poolsOf    = "apis/machineconfiguration.openshift.io/v1/machineconfigpools"
)

// TestHandOver_applianceIsSwitchedOff hands a simulated cluster over to Debian's docker-registry.
// When the appliance is off, a client of containers/image pulls every image by its name, with the
// mirror sets, the CA and the pull secret that the cluster has.
func TestHandOver_applianceIsSwitchedOff(t *testing.T) {
	b := newBareSite(t)
	b.config.Egress.Allow = []string{"127.0.0.0/8"}
	address, stop := b.start(t)
	requireServed(t, address)
	id := b.readyCluster(t, address, "", "")
	pressInstall(t, address, id)
	cluster := requireStatus(t, address, id, models.ClusterStatusInstalled)
	spoke := b.spokes.Cluster("api." + cluster.Name + "." + cluster.BaseDNSDomain)
	own := registryHost(t, address)
	putInstalled(t, spoke, mirrorRules(t, address))
	later := registrytest.Start(t, registrytest.Options{})

	call(t, http.MethodPost, address+console.HandOverRoute, object{"way": handover.AddMirror, "to": later.Host,
		"ca": string(later.CA), "pull_secret": later.PullSecret(registrytest.Password),
		"node_secret": later.PullSecret(registrytest.Password)}).read(t, http.StatusAccepted, new(handover.Status))
	rolled := 1
	roll := func(state handover.State) {
		eventually(t, "the hand-over is "+string(state), func() bool {
			var now handover.Status
			call(t, http.MethodGet, address+console.HandOverRoute, nil).read(t, http.StatusOK, &now)
			require.NotEqual(t, handover.Refused, now.State, now.Message)
			if len(now.Clusters) == 1 && strings.Contains(now.Clusters[0].Message, "not rendered") {
				rolled++
				setPool(spoke, rolled)
			}
			return now.State == state
		})
	}
	roll(handover.Asking)
	call(t, http.MethodPost, address+console.HandOverConfirmRoute, object{}).read(t, http.StatusAccepted,
		new(handover.Status))
	roll(handover.Done)
	require.Empty(t, dependents(t, address))
	stop()

	node := newNode(t, spoke)
	require.NotContains(t, node.rules, own, "no rule leads to the appliance")
	for name, image := range b.release.Images {
		node.pull(t, image, filepath.Join(t.TempDir(), name))
	}
	node.pull(t, b.release.Release, filepath.Join(t.TempDir(), "release"))
}

func mirrorRules(t *testing.T, address string) []mirror.Rule {
	t.Helper()
	var model mirrorsite.Model
	call(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &model)
	return model.Rules
}

// putInstalled gives a simulated cluster the objects with which it was installed.
func putInstalled(t *testing.T, spoke *simulate.Spoke, rules []mirror.Rule) {
	t.Helper()
	spoke.Serve(digestSets, "ImageDigestMirrorSet")
	spoke.Serve("apis/config.openshift.io/v1/images", "Image")
	var entries []any
	for _, rule := range rules {
		var mirrors []any
		for _, m := range rule.Mirrors {
			mirrors = append(mirrors, m.Location)
		}
		entries = append(entries, map[string]any{"source": rule.Prefix, "mirrors": mirrors,
			"mirrorSourcePolicy": "NeverContactSource"})
	}
	require.NotEmpty(t, entries)
	spoke.Put(digestSets, map[string]any{"metadata": map[string]any{"name": "image-digest-mirror"},
		"spec": map[string]any{"imageDigestMirrors": entries}})
	spoke.Put("apis/config.openshift.io/v1/images", map[string]any{"metadata": map[string]any{"name": "cluster"},
		"spec": map[string]any{}})
	spoke.Put("api/v1/secrets", map[string]any{"metadata": map[string]any{"name": "pull-secret",
		"namespace": "openshift-config"}, "data": map[string]any{".dockerconfigjson": "eyJhdXRocyI6e319"}})
	setPool(spoke, 1)
}

// setPool makes all nodes of the cluster have a configuration.
func setPool(spoke *simulate.Spoke, number int) {
	for _, name := range []string{"master", "worker"} {
		configuration := map[string]any{"name": fmt.Sprintf("rendered-%s-%d", name, number)}
		spoke.Put(poolsOf, map[string]any{"metadata": map[string]any{"name": name},
			"spec": map[string]any{"paused": false, "configuration": configuration},
			"status": map[string]any{"configuration": configuration,
				"machineCount": int64(3), "updatedMachineCount": int64(3),
				"conditions": []any{map[string]any{"type": "Updated", "status": "True"}}}})
	}
}

// node pulls images as a node of a cluster does.
type node struct {
	dir, rules, conf, secret, certificates, policy string
}

// newNode takes the configuration of a node from the objects of its cluster, as the machine config
// operator does.
func newNode(t *testing.T, spoke *simulate.Spoke) *node {
	t.Helper()
	n := &node{dir: t.TempDir()}
	write := func(name string, content []byte) string {
		path := filepath.Join(n.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	sets, err := spoke.Object(digestSets, "", "image-digest-mirror").MarshalJSON()
	require.NoError(t, err)
	rules, err := mirror.Parse(mirror.Sources{MirrorSets: []mirror.Document{{Name: "idms.json", Data: sets}}})
	require.NoError(t, err)
	n.rules = string(rules.RegistriesConf())
	n.conf = write("registries.conf", rules.RegistriesConf())
	config := spoke.Object("apis/config.openshift.io/v1/images", "", "cluster")
	name, found, err := unstructured.NestedString(config.Object, "spec", "additionalTrustedCA", "name")
	require.NoError(t, err)
	require.True(t, found)
	authorities, _, err := unstructured.NestedStringMap(spoke.Object("api/v1/configmaps", "openshift-config",
		name).Object, "data")
	require.NoError(t, err)
	for key, ca := range authorities {
		n.certificates = filepath.Dir(write("certs/"+strings.Replace(key, "..", ":", 1)+".crt", []byte(ca)))
	}
	secret, _, err := unstructured.NestedString(spoke.Object("api/v1/secrets", "openshift-config",
		"pull-secret").Object, "data", ".dockerconfigjson")
	require.NoError(t, err)
	decoded, err := base64.StdEncoding.DecodeString(secret)
	require.NoError(t, err)
	n.secret = write("config.json", decoded)
	n.policy = write("policy.json", []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`))
	return n
}

// pull pulls an image by its name.
func (n *node) pull(t *testing.T, image, to string) {
	t.Helper()
	command := exec.CommandContext(context.Background(), "skopeo", "--policy", n.policy, "--registries-conf", n.conf,
		"copy", "--src-authfile", n.secret, "--src-cert-dir", n.certificates, "docker://"+image, "dir:"+to)
	command.Env = append(os.Environ(), "HOME="+n.dir, "XDG_RUNTIME_DIR="+n.dir)
	text, err := command.CombinedOutput()
	require.NoError(t, err, "%s", text)
}
