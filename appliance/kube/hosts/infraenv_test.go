package hosts

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/access/machine"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/sitekey"
	"landfall/store"
)

func TestInfraEnv_imageAndAgent(t *testing.T) {
	b := newSite(t)
	b.RegisterCluster("one")
	b.Apply(kubetest.InfraEnvManifest("one", "clusterRef: {namespace: site, name: one}", "agentLabels: {rack: r7}"))
	env := b.RequireImage("one", corev1.ConditionTrue, "InfraEnvAvailable",
		"InfraEnv is available: Image has been created")
	require.Regexp(t, `^http://appliance\.site\.test:8090/byapikey/[^/]+\.[^/]+\.[^/]+/4\.20\.8/x86_64/minimal\.iso$`,
		env.Status.ISODownloadURL)
	require.Equal(t, kubetest.Morning, env.Status.CreatedTime.UTC())
	require.Equal(t, map[string]string{labelInfraEnv: "one"}, env.Status.AgentLabelSelector.MatchLabels)
	require.Equal(t, []string{infraEnvFinalizer}, env.Finalizers)
	id := b.InfraEnvID("one")
	require.Equal(t, "http://appliance.site.test:8090/api/assisted-install/v2/events?infra_env_id="+id,
		env.Status.DebugInfo.EventsURL)
	recipe, err := b.Engine.RecipeDigest(id)
	require.NoError(t, err)
	require.Equal(t, agentinstall.BootArtifacts{
		KernelURL: "http://appliance.site.test:8090/boot-artifacts/kernel?arch=x86_64&version=4.20.8",
		RootfsURL: "http://appliance.site.test:8090/boot-artifacts/rootfs?arch=x86_64&version=4.20.8",
		InitrdURL: "http://appliance.site.test:8090/images/" + id + "/pxe-initrd?arch=x86_64&version=4.20.8&image=" +
			recipe[:12],
		IpxeScriptURL: "http://appliance.site.test:8090/api/assisted-install/v2/infra-envs/" +
			id + "/downloads/files?file_name=ipxe-script",
		DiscoveryIgnitionURL: "http://appliance.site.test:8090/api/assisted-install/v2/infra-envs/" +
			id + "/downloads/files?file_name=discovery.ign",
	}, env.Status.BootArtifacts)

	m := b.Boot("one", 1)
	agent := b.Agent(m)
	require.Equal(t, &agentinstall.ClusterReference{Namespace: "site", Name: "one"}, agent.Spec.ClusterDeploymentName)
	require.False(t, agent.Spec.Approved)
	require.Equal(t, "r7", agent.Labels["rack"])
	require.Equal(t, "one", agent.Labels[labelInfraEnv])
	require.Equal(t, env.UID, agent.OwnerReferences[0].UID)
	require.Equal(t, "node-1", agent.Status.Inventory.Hostname)
	b.RequireCondition(m, conditionRequirementsMet, corev1.ConditionFalse, "AgentIsNotApproved")

	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.Approved = true })
	b.RequireCondition(m, conditionRequirementsMet, corev1.ConditionTrue, "AgentIsReady")
	b.RequireCondition(m, conditionSpecSynced, corev1.ConditionTrue, "SyncOK")
}

// TestInfraEnv_finalizerComesWithTheURL counts the writes of an InfraEnv. A client may change it as
// soon as it has the URL of the image, so no later write adds the finalizer.
func TestInfraEnv_finalizerComesWithTheURL(t *testing.T) {
	b := newSite(t)
	watcher := b.DB.Watch(t.Context(), b.DB.Revision(), objects.Prefix())
	b.Apply(kubetest.InfraEnvManifest("one"))
	require.Equal(t, []string{infraEnvFinalizer}, b.InfraEnv("one").Finalizers)
	require.NotEmpty(t, b.InfraEnv("one").Status.ISODownloadURL)
	b.Apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: last, namespace: site}\n")
	writes := 0
	for changes := range watcher.C() {
		for _, change := range changes {
			switch kind, _, name, _ := objects.ParseKey(change.Key); {
			case name == "last":
				require.Equal(t, 2, writes, "it is created, and gets its status")
				return
			case kind == objects.InfraEnvs:
				writes++
			}
		}
	}
	require.NoError(t, watcher.Err())
}

func TestInfraEnv_imageURLFollowsContent(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	url, created := b.InfraEnv("pool").Status.ISODownloadURL, b.InfraEnv("pool").Status.CreatedTime
	initrd := b.InfraEnv("pool").Status.BootArtifacts.InitrdURL
	for _, c := range []struct {
		name    string
		changes bool
		apply   func()
	}{
		{"an annotation", false, func() {
			b.Apply("kind: InfraEnv\nmetadata: {namespace: site, name: pool, annotations: {note: x}, labels: {rack: " +
				"r7}}\nspec: {pullSecretRef: {name: pull}}")
		}},
		{"labels of Agents", false, func() { b.Apply(kubetest.InfraEnvManifest("pool", "agentLabels: {a: b}")) }},
		{"an ignition override", true, func() {
			b.Apply(kubetest.InfraEnvManifest("pool",
				`ignitionConfigOverride: '{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/x","contents":{"source":"data:,x"}}]}}'`))
		}},
		{"a kernel argument", true, func() {
			b.Apply(kubetest.InfraEnvManifest("pool",
				"kernelArguments: [{operation: append, value: rd.net.timeout.carrier=60}]"))
		}},
		{"kernel argument removed", true, func() { b.Apply(kubetest.InfraEnvManifest("pool")) }},
		{"the type", true, func() { b.Apply(kubetest.InfraEnvManifest("pool", "imageType: full-iso")) }},
		{"the version", true, func() {
			b.Apply(kubetest.InfraEnvManifest("pool", "imageType: full-iso",
				"osImageVersion: \"4.19.9\""))
		}},
		{"a trust bundle", true, func() {
			b.Apply(kubetest.InfraEnvManifest("pool", "additionalTrustBundle: |\n    "+
				strings.ReplaceAll(strings.TrimSpace(siteCertificate(t)), "\n", "\n    ")))
		}},
		{"a wildcard in the proxy's exceptions", true, func() {
			b.Apply(kubetest.InfraEnvManifest("pool",
				"proxy: {httpProxy: 'http://proxy.site.test:3128', noProxy: '*'}"))
		}},
		{"an NMStateConfig", true, func() {
			b.Apply(nmStateManifest("m1", "52:54:00:00:00:01", "192.0.2.1"))
			b.Apply(kubetest.InfraEnvManifest("pool", "nmStateConfigLabelSelector: {matchLabels: {net: pool}}"))
		}},
		{"an additional NMStateConfig", true, func() {
			b.Apply(nmStateManifest("m0", "52:54:00:00:00:02",
				"192.0.2.2"))
		}},
		{"NMStateConfig removed", true, func() {
			b.Delete(objects.NMStateConfigs, "site", "m0")
			b.Delete(objects.NMStateConfigs, "site", "m1")
			env, err := b.Engine.InfraEnv(b.InfraEnvID("pool"))
			require.NoError(t, err)
			require.Empty(t, env.StaticNetworkConfig)
		}},
		{"the pull secret", true, func() {
			b.Apply(strings.ReplaceAll(kubetest.PullSecretManifest, "dXNlcjpwYXNz", "dXNlcjpvdGhlcg=="))
		}},
	} {
		b.Clock.Advance(time.Minute)
		c.apply()
		env := b.RequireImage("pool", corev1.ConditionTrue, "InfraEnvAvailable", "")
		if !c.changes {
			require.Equal(t, url, env.Status.ISODownloadURL, c.name)
			require.Equal(t, initrd, env.Status.BootArtifacts.InitrdURL, c.name)
			require.Equal(t, created, env.Status.CreatedTime, c.name)
			continue
		}
		require.NotEqual(t, url, env.Status.ISODownloadURL, c.name)
		require.NotEqual(t, initrd, env.Status.BootArtifacts.InitrdURL, c.name)
		initrd = env.Status.BootArtifacts.InitrdURL
		require.Equal(t, b.Clock.Now().UTC(), env.Status.CreatedTime.UTC(), c.name)
		url, created = env.Status.ISODownloadURL, env.Status.CreatedTime
	}
}

func TestInfraEnv_errorsAndCorrections(t *testing.T) {
	b := newSite(t)
	b.RegisterCluster("one")
	b.Apply("kind: ConfigMap\nmetadata: {namespace: site, name: empty}\ndata: {}\n---\n" +
		"kind: ConfigMap\nmetadata: {namespace: site, name: broken}\ndata: {registries.conf: '[[registry'}\n---\n" +
		"kind: Secret\nmetadata: {namespace: site, name: other}\nstringData: {password: x}\n---\n" +
		"kind: Secret\nmetadata: {namespace: site, name: nonsense}\nstringData: {.dockerconfigjson: x}")
	for name, c := range map[string]struct {
		lines []string
		says  string
	}{
		"invalid ignition override": {
			[]string{`ignitionConfigOverride: '{"ignition":{"version":"9.9.9"}}'`},
			"Failed to create image: error parsing ignition: config is not valid"},
		"a kernel argument without a value": {[]string{"kernelArguments: [{operation: replace, value: quiet}]"},
			"is not a replacement"},
		"unknown operation": {[]string{"kernelArguments: [{operation: prepend, value: quiet}]"},
			"should be one of [append replace delete]"},
		"invalid trust bundle": {[]string{"additionalTrustBundle: nonsense"}, "not in PEM form"},
		"a version without an image": {[]string{"osImageVersion: \"9.99\""},
			"Specified OSImageVersion is missing from AgentServiceConfig"},
		"architecture differs from the cluster's": {[]string{"cpuArchitecture: arm64",
			"clusterRef: {namespace: site, name: one}"},
			"Failed to create image: Specified CPU architecture (arm64) doesn't match the cluster (x86_64)"},
		"invalid item of noProxy": {[]string{"proxy: {httpProxy: 'http://192.0.2.1:3128', noProxy: 'a b'}"},
			`Failed to create image: spec.proxy.noProxy has "a b"`},
		"invalid selector": {
			[]string{"nmStateConfigLabelSelector: {matchExpressions: [{key: a, operator: Near, values: [b]}]}"},
			"nmStateConfigLabelSelector"},
		"missing ConfigMap of a mirror": {[]string{"mirrorRegistryRef: {namespace: site, name: absent}"},
			`Failed to get referenced ConfigMap: ConfigMap "absent" not found`},
		"ConfigMap of a mirror without rules": {[]string{"mirrorRegistryRef: {namespace: site, name: empty}"},
			"ConfigMap site/empty does not contain registries.conf key"},
		"invalid mirror rules": {[]string{"mirrorRegistryRef: {namespace: site, name: broken}"},
			"ConfigMap site/broken: "},
		"missing pull secret": {[]string{"pullSecretRef: {name: absent}"},
			"failed to find secret site/absent"},
		"Secret without a pull secret": {[]string{"pullSecretRef: {name: other}"},
			"secret site/other did not contain key .dockerconfigjson"},
		"invalid pull secret": {[]string{"pullSecretRef: {name: nonsense}"},
			"Failed to create image: invalid pull secret data in secret nonsense: the pull secret is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			b.TB = t
			env := "env-" + strconv.Itoa(len(b.objectNames()))
			manifest := kubetest.InfraEnvManifest(env)
			for _, line := range c.lines {
				if field, _, _ := strings.Cut(line, ":"); field == "pullSecretRef" {
					manifest = strings.ReplaceAll(manifest, "pullSecretRef: {name: pull}", line)
				} else {
					manifest += "  " + line + "\n"
				}
			}
			b.Apply(manifest)
			shown := b.RequireImage(env, corev1.ConditionFalse, "ImageCreationError", c.says)
			require.Empty(t, shown.Status.ISODownloadURL)
			require.Nil(t, shown.Status.CreatedTime)
			b.Update(func(tx *store.Tx) error {
				return b.Objects.Update(tx, objects.InfraEnvs, "site", env, func(u *unstructured.Unstructured) error {
					u.Object["spec"] = map[string]any{"pullSecretRef": map[string]any{"name": "pull"}}
					return nil
				})
			})
			b.WaitIdle()
			shown = b.RequireImage(env, corev1.ConditionTrue, "InfraEnvAvailable", "")
			require.NotEmpty(t, shown.Status.ISODownloadURL)
		})
	}
}

func TestInfraEnv_invalidChangeRemovesImage(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	b.Apply(kubetest.InfraEnvManifest("pool", "kernelArguments: [{operation: replace, value: quiet}]"))
	require.Empty(t, b.RequireImage("pool", corev1.ConditionFalse, "ImageCreationError",
		"is not a replacement").Status.ISODownloadURL)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	require.NotEmpty(t, b.RequireImage("pool", corev1.ConditionTrue, "InfraEnvAvailable", "").Status.ISODownloadURL)
}

func TestInfraEnv_waitsForReferences(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("one", "clusterRef: {namespace: site, name: one}"))
	b.RequireImage("one", corev1.ConditionUnknown, "MissingClusterDeployment",
		"failed to get clusterDeployment with name one in namespace site")
	require.Equal(t, map[string]string{labelInfraEnv: "one"}, b.InfraEnv("one").Status.AgentLabelSelector.MatchLabels)
	b.Apply("kind: ClusterDeployment\nmetadata: {namespace: site, name: one}\nspec: {clusterName: one}")
	b.RequireImage("one", corev1.ConditionUnknown, "MissingClusterDeployment", "check AgentClusterInstall conditions")
	id := b.RegisterCluster("one")
	env, err := b.Engine.InfraEnv(b.InfraEnvID("one"))
	require.NoError(t, err)
	require.Equal(t, id, env.ClusterID.String())
	b.RequireImage("one", corev1.ConditionTrue, "InfraEnvAvailable", "")

	require.NoError(t, b.Engine.DeregisterCluster(t.Context(), id, false))
	b.WaitIdle()
	lost := b.RequireImage("one", corev1.ConditionUnknown, "MissingClusterDeployment", "")
	require.Empty(t, lost.Status.ISODownloadURL, "the image belonged to the deleted cluster")
	again := b.RegisterCluster("one")
	env, err = b.Engine.InfraEnv(b.InfraEnvID("one"))
	require.NoError(t, err)
	require.Equal(t, again, env.ClusterID.String(), "the next cluster has a new image")
}

func TestInfraEnv_laterSecretOrMirror(t *testing.T) {
	b := newSite(t)
	b.Apply("kind: InfraEnv\nmetadata: {namespace: site, name: pool}\nspec: {pullSecretRef: {name: pull}, " +
		"mirrorRegistryRef: {namespace: mirrors, name: m}}")
	b.RequireImage("pool", corev1.ConditionFalse, "ImageCreationError", "failed to find secret site/pull")
	b.Apply(kubetest.PullSecretManifest)
	b.RequireImage("pool", corev1.ConditionFalse, "ImageCreationError",
		`Failed to get referenced ConfigMap: ConfigMap "m" not found`)
	b.Apply("kind: ConfigMap\nmetadata: {namespace: mirrors, name: m}\ndata: {registries.conf: " +
		"\"[[registry]]\\nlocation = 'quay.io'\\n[[registry.mirror]]\\nlocation = 'mirror.site.test:5000'\\n\"}")
	b.RequireImage("pool", corev1.ConditionTrue, "InfraEnvAvailable", "")
	require.Contains(t, string(b.rules[ruleSet{infraEnvLevel(b.InfraEnvID("pool")), mirrorOfInfraEnv}].Files[0].Data),
		"mirror.site.test:5000")
	b.Apply("kind: InfraEnv\nmetadata: {namespace: site, name: pool}\nspec: {pullSecretRef: {name: pull}}")
	require.Empty(t, b.rules, "the rules are removed with the reference")
}

func TestReferences_ofInfraEnv(t *testing.T) {
	b := newSite(t)
	naming := func(kind objects.Kind, name string) []key {
		keys, err := b.infraEnvsReferringTo(kind)(nil, "site", name)
		require.NoError(t, err)
		return keys
	}
	pool := []key{{Kind: objects.InfraEnvs, Namespace: "site", Name: "pool"}}
	b.Apply(kubetest.InfraEnvManifest("pool", "nmStateConfigLabelSelector: {matchLabels: {net: pool}}",
		"clusterRef: {namespace: site, name: one}"))
	require.Equal(t, pool, naming(objects.Secrets, "pull"))
	require.Equal(t, pool, naming(objects.ClusterDeployments, "one"))
	require.Equal(t, pool, naming(objects.NMStateConfigs, ""))
	require.Equal(t, pool, naming(objects.AgentClusterInstalls, ""))
	b.Apply(kubetest.InfraEnvManifest("pool"))
	require.Empty(t, naming(objects.NMStateConfigs, ""))
	b.Delete(objects.InfraEnvs, "site", "pool")
	require.Empty(t, naming(objects.Secrets, "pull"))
	require.Zero(t, b.references.Len())
}

func TestInfraEnv_architectures(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("z", "cpuArchitecture: s390x", "imageType: minimal-iso"))
	require.Contains(t, b.RequireImage("z", corev1.ConditionTrue, "InfraEnvAvailable", "").Status.ISODownloadURL,
		"/s390x/full.iso")
	b.Apply(kubetest.InfraEnvManifest("arm", "cpuArchitecture: arm64", "ipxeScriptType: BootOrderControl"))
	arm := b.RequireImage("arm", corev1.ConditionTrue, "InfraEnvAvailable", "")
	require.Contains(t, arm.Status.ISODownloadURL, "/arm64/minimal.iso")
	require.Contains(t, arm.Status.BootArtifacts.IpxeScriptURL,
		"file_name=ipxe-script&ipxe_script_type=boot-order-control")
}

// The status shows no script whose code has expired, although nothing else changes then.
func TestInfraEnv_codeExpires(t *testing.T) {
	b := newBootSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	id := b.InfraEnvID("pool")
	script := func() string { return b.InfraEnv("pool").Status.BootArtifacts.IpxeScriptURL }
	lasting, _, err := b.Engine.CodeOfImage(id)
	require.NoError(t, err)
	require.Equal(t, "http://192.0.2.10:8091/i/"+lasting+".ipxe", script())
	require.Zero(t, b.reconcileAgain(infraEnvs{b.Controllers}, "pool"), "the code does not expire")

	code, _, err := b.Engine.RenewImageCode(t.Context(), id, time.Hour)
	require.NoError(t, err)
	b.WaitIdle()
	require.Equal(t, "http://192.0.2.10:8091/i/"+code+".ipxe", script())
	require.Equal(t, time.Hour, b.reconcileAgain(infraEnvs{b.Controllers}, "pool"))
	b.Clock.Advance(time.Hour)
	b.Eventually("the script has no URL", func() bool { return script() == "" })
	b.WaitIdle()
	require.Zero(t, b.reconcileAgain(infraEnvs{b.Controllers}, "pool"))

	code, _, err = b.Engine.RenewImageCode(t.Context(), id, 0)
	require.NoError(t, err)
	b.WaitIdle()
	require.Equal(t, "http://192.0.2.10:8091/i/"+code+".ipxe", script())
	require.NoError(t, b.Engine.RevokeImageCode(t.Context(), id))
	b.WaitIdle()
	require.Empty(t, script())
}

// The script's URL also follows its code while the InfraEnv has an error.
func TestInfraEnv_codeExpiresDespiteAnError(t *testing.T) {
	b := newBootSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	id := b.InfraEnvID("pool")
	script := func() string {
		return b.RequireImage("pool", corev1.ConditionFalse, "ImageCreationError", "failed to find secret site/pull").
			Status.BootArtifacts.IpxeScriptURL
	}
	first, _, err := b.Engine.CodeOfImage(id)
	require.NoError(t, err)
	b.Delete(objects.Secrets, "site", "pull")
	require.Equal(t, "http://192.0.2.10:8091/i/"+first+".ipxe", script())

	require.NoError(t, b.Engine.RevokeImageCode(t.Context(), id))
	b.WaitIdle()
	require.Empty(t, script())
	code, _, err := b.Engine.RenewImageCode(t.Context(), id, time.Hour)
	require.NoError(t, err)
	b.WaitIdle()
	require.Equal(t, "http://192.0.2.10:8091/i/"+code+".ipxe", script())
	require.Equal(t, time.Hour, b.reconcileAgain(infraEnvs{b.Controllers}, "pool"))
	b.Clock.Advance(time.Hour)
	b.Eventually("the script has no URL", func() bool { return script() == "" })
}

// newBootSite returns a site whose machines are authenticated, with another URL for boot loaders.
func newBootSite(t *testing.T) *testSite {
	t.Helper()
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	issuer, err := machine.NewIssuer(key, nil)
	require.NoError(t, err)
	b := &testSite{Site: kubetest.New(t), bootURL: "http://192.0.2.10:8091", tokens: issuer}
	b.start()
	return b
}

func TestNMStateConfigs_orderAndErrors(t *testing.T) {
	b := newSite(t)
	selects := "nmStateConfigLabelSelector: {matchLabels: {net: pool}}"
	b.Apply(nmStateManifest("m2", "52:54:00:00:00:02", "192.0.2.2"))
	b.Apply(kubetest.InfraEnvManifest("pool", selects))
	one := b.RequireImage("pool", corev1.ConditionTrue, "InfraEnvAvailable", "").Status
	require.Contains(t, one.DebugInfo.StaticNetworkDownloadURL, "file_name=static-network-config")
	b.Apply(nmStateManifest("m1", "52:54:00:00:00:01", "192.0.2.1"))
	env, err := b.Engine.InfraEnv(b.InfraEnvID("pool"))
	require.NoError(t, err)
	require.Less(t, strings.Index(env.StaticNetworkConfig, "192.0.2.1"), strings.Index(env.StaticNetworkConfig,
		"192.0.2.2"), "the error names the NMStateConfigs")

	b.Apply(nmStateManifest("m3", "52:54:00:00:00:0A", "192.0.2.3") + "\n---\n" + nmStateManifest("m4",
		"52:54:00:00:00:0a", "192.0.2.4"))
	b.RequireImage("pool", corev1.ConditionFalse, "ImageCreationError",
		"NMStateConfigs site/m3 and site/m4 both name the MAC address 52:54:00:00:00:0a")
	b.Delete(objects.NMStateConfigs, "site", "m4")
	b.RequireImage("pool", corev1.ConditionTrue, "InfraEnvAvailable", "")

	b.Apply(nmStateManifest("m3", "52:54:00:00:00:03", "192.0.2.2"))
	b.RequireImage("pool", corev1.ConditionFalse, "ImageCreationError", "NMStateConfig site/m3")
	b.Apply(nmStateManifest("m3", "52:54:00:00:00:03", "not an address"))
	require.Contains(t, b.RequireImage("pool", corev1.ConditionFalse, "ImageCreationError",
		"Failed to create image: Invalid YAML: ").Status.Conditions[0].Message, "NMStateConfig site/m3")
	b.Apply("kind: NMStateConfig\nmetadata: {namespace: site, name: m3, labels: {net: pool}}\nspec:\n" +
		"  interfaces: [{name: eth0, macAddress: '52:54:00:00:00:03'}]\n  config: {foo: bar}")
	b.RequireImage("pool", corev1.ConditionFalse, "ImageCreationError", "Failed to create image: Invalid YAML: ")
	b.Apply(strings.ReplaceAll(nmStateManifest("m3", "52:54:00:00:00:03", "192.0.2.2"), "net: pool", "net: other"))
	b.RequireImage("pool", corev1.ConditionTrue, "InfraEnvAvailable", "")
}

func TestInfraEnv_changesByREST(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool", "imageType: minimal-iso",
		"kernelArguments: [{operation: append, value: a=b}]"))
	network := []*models.HostStaticNetworkConfig{{
		NetworkYaml: "interfaces: [{name: eth0, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: " +
			"192.0.2.9, prefix-length: 24}]}}]",
		MacInterfaceMap: models.MacInterfaceMap{{MacAddress: "52:54:00:00:00:09", LogicalNicName: "eth0"}},
	}}
	_, err := b.Engine.UpdateInfraEnv(t.Context(), b.InfraEnvID("pool"), &models.InfraEnvUpdateParams{
		SSHAuthorizedKey: conv.Pointer(
			"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0hVBmRHzYOOQJt7UQ9XDUYzyUKwqmVRAtcUiGqGTfd me"),
		ImageType:           models.ImageTypeFullIso,
		StaticNetworkConfig: network,
	})
	require.NoError(t, err)
	b.WaitIdle()
	env := b.InfraEnv("pool")
	require.Contains(t, env.Spec.SSHAuthorizedKey, "ssh-ed25519")
	require.Equal(t, "full-iso", env.Spec.ImageType)
	require.EqualValues(t, 2, env.Generation)
	b.Update(func(tx *store.Tx) error {
		return b.Objects.Update(tx, objects.InfraEnvs, "site", "pool", func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, "http://proxy.site.test:3128", "spec", "proxy", "httpProxy")
		})
	})
	b.WaitIdle()
	held, err := b.Engine.InfraEnv(b.InfraEnvID("pool"))
	require.NoError(t, err)
	require.Contains(t, held.SSHAuthorizedKey, "ssh-ed25519")
	require.Equal(t, models.ImageTypeFullIso, *held.Type)
	require.Contains(t, held.StaticNetworkConfig, "192.0.2.9", "a network from REST stays")
	require.Equal(t, "http://proxy.site.test:3128", *held.Proxy.HTTPProxy)
	require.EqualValues(t, 3, b.InfraEnv("pool").Generation)

	require.NoError(t, b.Engine.DeregisterInfraEnv(t.Context(), b.InfraEnvID("pool")))
	b.WaitIdle()
	require.False(t, b.Get(objects.InfraEnvs, "site", "pool", &agentinstall.InfraEnv{}),
		"deleting the infra-env over REST deletes the InfraEnv")
}

func TestInfraEnv_deletionWaitsForHosts(t *testing.T) {
	b := newSite(t)
	b.RegisterCluster("one")
	b.Apply(kubetest.InfraEnvManifest("pool"))
	free, bound := b.Boot("pool", 1), b.Boot("pool", 2)
	b.EditAgent(bound, func(spec *agentinstall.AgentSpec) {
		spec.ClusterDeploymentName = &agentinstall.ClusterReference{Namespace: "site", Name: "one"}
	})
	bound.Register() // the agent restarts in the cluster
	bound.Report()
	b.Delete(objects.InfraEnvs, "site", "pool")
	require.NotNil(t, b.InfraEnv("pool").DeletionTimestamp)
	require.True(t, b.Get(objects.Agents, "site", free.ID, &agentinstall.Agent{}),
		"no host is deleted while a bound host blocks the deletion")
	var said []string
	require.NoError(t, b.DB.View(func(tx *store.Tx) error {
		return b.Objects.Each(tx, objects.Events, "site", func(u *unstructured.Unstructured) error {
			message, _, err := unstructured.NestedString(u.Object, "message")
			said = append(said, message)
			return err
		})
	}))
	require.Contains(t, strings.Join(said, "\n"), bound.ID)

	require.Equal(t, retryDeletion, b.reconcileAgain(infraEnvs{b.Controllers}, "pool"))
	b.Delete(objects.Agents, "site", bound.ID) // the InfraEnv is queued without a delay
	require.False(t, b.Get(objects.InfraEnvs, "site", "pool", &agentinstall.InfraEnv{}))
	require.False(t, b.Get(objects.Agents, "site", free.ID, &agentinstall.Agent{}))
	envs, err := b.Engine.InfraEnvs("")
	require.NoError(t, err)
	require.Empty(t, envs)
}

func TestInfraEnv_finalizerRemovedByUser(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	for _, kind := range []objects.Kind{objects.Agents, objects.InfraEnvs} {
		name := "pool"
		if kind == objects.Agents {
			name = m.ID
		}
		b.Update(func(tx *store.Tx) error {
			if err := b.Objects.Delete(tx, kind, "site", name, b.Clock.Now()); err != nil {
				return err
			}
			return b.Objects.Update(tx, kind, "site", name, func(u *unstructured.Unstructured) error {
				u.SetFinalizers(nil)
				return nil
			})
		})
		b.WaitIdle()
		require.False(t, b.Get(kind, "site", name, &unstructured.Unstructured{}))
	}
	envs, err := b.Engine.InfraEnvs("")
	require.NoError(t, err)
	require.Empty(t, envs)
}

func TestInfraEnv_backoffWithoutRegistry(t *testing.T) {
	site := kubetest.New(t)
	site.WithoutAgentImage = true
	b := openSite(site)
	b.release.err = errors.New("the registry does not answer")
	b.Apply(kubetest.InfraEnvManifest("pool"))
	b.RequireImage("pool", corev1.ConditionFalse, "ImageCreationError",
		"Failed to create image due to an internal error: ")
	for range 4 * 60 {
		b.Clock.Advance(15 * time.Second)
		b.WaitIdle()
	}
	requests := b.release.requests.Load()
	require.Less(t, requests, int64(30), "requests per hour")
	b.Apply(strings.ReplaceAll(kubetest.PullSecretManifest, "dXNlcjpwYXNz", "dXNlcjpvdGhlcg=="))
	require.Greater(t, b.release.requests.Load(), requests, "a new pull secret is tried immediately")
	b.release.err = nil
	b.Loop.RetryFailed()
	b.WaitIdle()
	b.RequireImage("pool", corev1.ConditionTrue, "InfraEnvAvailable", "")
}

func nmStateManifest(name, mac, address string) string {
	return "kind: NMStateConfig\nmetadata: {namespace: site, name: " + name +
		", labels: {net: pool}}\nspec:\n  interfaces: [{name: eth0, macAddress: '" + mac + "'}]\n" +
		"  config: {interfaces: [{name: eth0, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: " +
		address + ", prefix-length: 24}]}}]}"
}

// siteCertificate creates a certificate authority and returns its certificate (PEM).
func siteCertificate(t testing.TB) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "site"},
		NotBefore: kubetest.Morning, NotAfter: kubetest.Morning.AddDate(1, 0, 0), IsCA: true,
		BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
