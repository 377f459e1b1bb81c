package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

func site(t *testing.T, text string) []*Object {
	t.Helper()
	inDirectory(t, map[string]string{"site.yaml": text})
	read, err := Read(Sources{Paths: []string{"site.yaml"}})
	require.NoError(t, err)
	return read.Objects
}

func collect(into *[]string) func(Result) {
	return func(o Result) {
		line := fmt.Sprintf("%s %s", o.Object, o.Text)
		if o.Err != nil {
			line += ": " + o.Err.Error()
		}
		*into = append(*into, line)
	}
}

func applied(t *testing.T, f *fakeAPI, list []*Object, options Options) []string {
	t.Helper()
	var lines []string
	require.NoError(t, Apply(t.Context(), f.Server, list, options, collect(&lines)))
	return lines
}

func TestApply_twice(t *testing.T) {
	f, list := newFakeAPI(t), site(t, wholeSite)
	first := applied(t, f, list, Options{})
	require.Len(t, first, 10)
	for _, line := range first {
		require.Regexp(t, " created$", line)
	}
	require.Equal(t, "/api/v1/namespaces/sno", f.order[0])
	require.Equal(t, "cA==", f.objects["/api/v1/namespaces/sno/secrets/bmc"]["data"].(map[string]any)["password"],
		"stringData of a Secret is sent as data")
	f.objects["/apis/agent-install.openshift.io/v1beta1/namespaces/sno/infraenvs/sno"]["status"] = map[string]any{
		"createdTime": "now"}
	for _, line := range applied(t, f, list, Options{}) {
		require.Regexp(t, " unchanged$", line)
	}
	list[4].Content["spec"] = map[string]any{"releaseImage": "other"}
	require.Equal(t, []string{"clusterimageset.hive.openshift.io/v4.20 configured"},
		applied(t, f, list[4:5], Options{}))
}

func TestApply_reportsWarnings(t *testing.T) {
	f := newFakeAPI(t)
	f.warn = map[string]string{
		"/api/v1/namespaces/default/configmaps/c": `299 landfall "The value \"b\" has no effect."`,
		"/api/v1/namespaces/default/configmaps/d": `299 - "Prefer a name with a domain."`,
	}
	var warnings [][]Warning
	require.NoError(t, Apply(t.Context(), f.Server, site(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: d}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: e}}
`), Options{}, func(o Result) { warnings = append(warnings, o.Warnings) }))
	require.Equal(t, [][]Warning{{{`The value "b" has no effect.`, true}},
		{{"Prefer a name with a domain.", false}}, nil}, warnings)
}

func TestApply_dryRunInNewNamespace(t *testing.T) {
	f, list := newFakeAPI(t), site(t, wholeSite)
	f.refuse["/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts/n1"] = "strict decoding error:\nunknown " +
		"field \"spec.bmcs\""
	lines := applied(t, f, list, Options{DryRun: true})
	require.Len(t, lines, 10)
	require.Equal(t, "namespace/sno created", lines[0])
	require.Equal(t, "infraenv.agent-install.openshift.io/sno created", lines[8])
	require.Equal(t, `baremetalhost.metal3.io/n1 refused: strict decoding error: unknown field "spec.bmcs"`, lines[9])
	require.Len(t, f.objects, 1)
}

func TestApply_othersAfterRefusal(t *testing.T) {
	f := newFakeAPI(t)
	list := site(t, secret("a")+"---\n"+`{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, metadata: {name: x, namespace: sno}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, resourceVersion: "7", uid: u}, data: {a: b}}
`)
	require.Equal(t, []string{
		`secret/a refused: namespaces "sno" not found`,
		"configmap/c created",
		"policy.policy.open-cluster-management.io/x refused: the appliance has no kind Policy of " +
			"policy.open-cluster-management.io/v1",
		"pod/p refused: the appliance has no kind Pod of v1",
	}, applied(t, f, list, Options{}))
	require.Equal(t, []string{"/api/v1/namespaces/default/configmaps/c"}, f.order)
}

func TestApply_conflict(t *testing.T) {
	require.EqualError(t, explained(&RefusedError{http.StatusConflict, "Conflict",
		`Apply failed with 1 conflict: conflict with "kubectl": .spec.online`}),
		`Apply failed with 1 conflict: conflict with "kubectl": .spec.online; --force-conflicts overwrites these fields`)
}

func TestApply_apiDisabled(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for _, text := range []string{secret("a"), infraEnv} {
		err := Apply(t.Context(), &Server{URL: server.URL, HTTP: server.Client()}, site(t, text), Options{},
			func(Result) { t.Error("no result is reported") })
		var none *NoAPIError
		require.ErrorAs(t, err, &none)
		require.ErrorContains(t, err, "enable it with kubernetes.enabled")
	}
}

func TestApply_apiStarting(t *testing.T) {
	refusals := 3
	f := newFakeAPI(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusals--; refusals >= 0 {
			refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", "it is starting")
			return
		}
		f.ServeHTTP(w, r)
	}))
	defer server.Close()
	f.URL, f.Clock = server.URL, tickingClock(t)
	list := site(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")
	require.Equal(t, []string{"configmap/c created"}, applied(t, f, list, Options{}))
	refusals = 1000
	require.Equal(t, []string{"configmap/c refused: it is starting"}, applied(t, f, list, Options{}))
}

func TestMissingReferences(t *testing.T) {
	f := newFakeAPI(t)
	missing := func(text string) []string {
		problems, err := Missing(t.Context(), f.Server, site(t, text), Options{})
		require.NoError(t, err)
		var lines []string
		for _, p := range problems {
			lines = append(lines, p.Error())
		}
		return lines
	}
	require.Empty(t, missing(wholeSite))
	const alone = "apiVersion: agent-install.openshift.io/v1beta1\nkind: InfraEnv\nmetadata: {name: e, namespace: " +
		"sno}\nspec: {pullSecretRef: {name: pull}, clusterRef: {name: c, namespace: other}, " +
		"nmStateConfigLabelSelector: {matchLabels: {x: z}}, mirrorRegistryRef: {name: m, namespace: sno}}\n"
	require.Equal(t, []string{
		"site.yaml:1: infraenv.agent-install.openshift.io/e is in the namespace sno, which is neither in the " +
			"manifests nor on " +
			"the appliance; add it",
		"site.yaml:1: infraenv.agent-install.openshift.io/e names the Secret pull in spec.pullSecretRef, which is " +
			"neither in the manifests nor on the appliance; add it",
		"site.yaml:1: infraenv.agent-install.openshift.io/e names the ClusterDeployment c in spec.clusterRef, of the " +
			"namespace other, which is neither in the manifests nor on the appliance; add it",
		"site.yaml:1: infraenv.agent-install.openshift.io/e names the ConfigMap m in spec.mirrorRegistryRef, which " +
			"is neither in the manifests nor on the appliance; add it",
		"site.yaml:1: infraenv.agent-install.openshift.io/e selects NMStateConfigs with the labels x=z, but " +
			"sno has none; add them, or remove spec.nmStateConfigLabelSelector",
	}, missing(alone))

	f.set(t, "/api/v1/namespaces/sno", `{}`)
	f.set(t, "/api/v1/namespaces/sno/secrets/pull", `{"kind":"Secret","data":{".dockerconfigjson":"e30="}}`)
	f.set(t, "/api/v1/namespaces/sno/configmaps/m", `{"kind":"ConfigMap","data":{"other":""}}`)
	f.set(t, "/apis/hive.openshift.io/v1/namespaces/other/clusterdeployments/c", `{}`)
	f.set(t, "/apis/agent-install.openshift.io/v1beta1/namespaces/sno/nmstateconfigs/n",
		`{"metadata":{"labels":{"x":"z"}}}`)
	lines := missing(alone)
	require.Len(t, lines, 2)
	require.Regexp(t, `names the Secret pull in spec.pullSecretRef: .*auths`, lines[0])
	require.Contains(t, lines[1],
		"names the ConfigMap m in spec.mirrorRegistryRef, which has no key registries.conf; add it")
}

func TestMissing_clusterInstanceWithoutNetworks(t *testing.T) {
	f := newFakeAPI(t)
	static := "    nodeNetwork: {interfaces: [{name: eno1, macAddress: 52:54:00:00:00:01}], config: {interfaces: " +
		"[{name: eno1}]}}\n"
	require.Contains(t, clusterInstance, static)
	for name, c := range map[string]struct {
		manifests string
		missing   bool
	}{
		"addresses by DHCP": {strings.Replace(clusterInstance, static, "", 1), false},
		"an empty network":  {strings.Replace(clusterInstance, static, "    nodeNetwork: {}\n", 1), false},
		"suppressed NMStateConfigs": {strings.Replace(clusterInstance, "[Klusterlet", "[NMStateConfig, Klusterlet",
			1), true},
	} {
		problems, err := Missing(t.Context(), f.Server, site(t, c.manifests), Options{})
		require.NoError(t, err)
		require.Equal(t, c.missing, strings.Contains(problems.Error(), "selects NMStateConfigs"), "%s: %s", name,
			problems)
	}
}

func TestFollow_wantedClusters(t *testing.T) {
	f := newFakeAPI(t)
	wanted, err := PlannedClusters(t.Context(), f.Server, site(t, wholeSite), Options{})
	require.NoError(t, err)
	require.Equal(t, []PlannedCluster{{
		Source: Source{"site.yaml", 20}, Name: "sno", BaseDomain: "example.com", Release: "quay.io/r@sha256:1",
		PullSecret: `{"auths":{"r:5000":{"auth":"dTpw"}}}`,
	}}, wanted)
	o := site(t, wholeSite)[6]
	for _, c := range []struct {
		spec map[string]any
		want bool
	}{
		{map[string]any{"provisionRequirements": map[string]any{"controlPlaneAgents": 3}}, false},
		{map[string]any{"provisionRequirements": map[string]any{"controlPlaneAgents": 3}, "platformType": "None"},
			true},
		{map[string]any{"provisionRequirements": map[string]any{"controlPlaneAgents": 1},
			"networking": map[string]any{"userManagedNetworking": true}}, false},
		{map[string]any{"provisionRequirements": map[string]any{"controlPlaneAgents": 3},
			"networking": map[string]any{"userManagedNetworking": true}}, true},
		{map[string]any{"networking": map[string]any{"userManagedNetworking": false},
			"loadBalancer": map[string]any{"type": "UserManaged"}}, true},
	} {
		o.Content["spec"] = c.spec
		require.Equal(t, c.want, o.userManaged(), c.spec)
	}
	o.Content["spec"] = map[string]any{"apiVIPs": []any{"10.0.0.1", "fd00::1"}, "ingressVIP": "10.0.0.2"}
	require.Equal(t, []string{"10.0.0.1", "fd00::1"}, vips(o, "apiVIP"))
	require.Equal(t, []string{"10.0.0.2"}, vips(o, "ingressVIP"))
}

// tickingClock returns a fake clock that advances whenever a goroutine waits for it.
func tickingClock(t *testing.T) *clockwork.FakeClock {
	clock := clockwork.NewFakeClock()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for clock.BlockUntilContext(ctx, 1) == nil {
			clock.Advance(time.Second)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	return clock
}

const installPath = "/apis/extensions.hive.openshift.io/v1beta1/namespaces/sno/agentclusterinstalls/sno"

func TestFollow_installation(t *testing.T) {
	for name, c := range map[string]struct {
		statuses []string
		lines    []string
		err      string
	}{
		"installed": {
			[]string{`{}`, `{"conditions":[{"type":"Validated","status":"False","message":"2 hosts are missing"}]}`,
				`{"progress":{"totalPercentage":40},"debugInfo":{"stateInfo":"Installing"}}`,
				`{"progress":{"totalPercentage":100},"conditions":[{"type":"Completed","status":"True","message":"The installation has completed"}]}`},
			[]string{"0 sno: no status yet", "0 sno: 2 hosts are missing", "40 sno: Installing",
				"100 sno: The installation has completed"}, "",
		},
		"failed": {
			[]string{`{}`, `{"conditions":[{"type":"SpecSynced","status":"False","message":"no such release"}]}`,
				`{"conditions":[{"type":"Failed","status":"True","message":"a host has failed"}]}`},
			[]string{"0 sno: no status yet", "0 sno: no such release", "0 sno: a host has failed"},
			"sno: a host has failed",
		},
		"removed": {[]string{`{}`, ""}, []string{"0 sno: no status yet", "0 sno: deleted"},
			"agentclusterinstall.extensions.hive.openshift.io/sno was deleted in the meantime"},
	} {
		t.Run(name, func(t *testing.T) {
			f, list := newFakeAPI(t), site(t, wholeSite)
			applied(t, f, list, Options{})
			f.beforeGet = func(path string) {
				if path != installPath || len(c.statuses) == 0 {
					return
				}
				if c.statuses[0] == "" {
					delete(f.objects, path)
				} else {
					f.set(t, path, `{"status":`+c.statuses[0]+`}`)
				}
				c.statuses = c.statuses[1:]
			}
			var lines []string
			err := Follow(t.Context(), f.Server, tickingClock(t), list, Options{},
				func(s State) { lines = append(lines, fmt.Sprintf("%d %s", s.Percent, s.Text)) })
			require.Equal(t, c.lines, lines)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.err)
		})
	}
}

func TestFollow_blockersWithAdvice(t *testing.T) {
	const image, server = "/apis/agent-install.openshift.io/v1beta1/namespaces/sno/infraenvs/sno",
		"/apis/metal3.io/v1alpha1/namespaces/sno/baremetalhosts/n1"
	imageCreated := func(status, reason, message string) string {
		return fmt.Sprintf(`{"status":{"conditions":[{"type":"ImageCreated","status":%q,"reason":%q,"message":%q}]}}`,
			status, reason, message)
	}
	const agent = "/apis/agent-install.openshift.io/v1beta1/namespaces/sno/agents/a1"
	agentWith := func(spec, condition, reason, message string) string {
		return fmt.Sprintf(`{"metadata":{"name":"a1","namespace":"sno","labels":{"infraenvs.agent-install.openshift.io":"sno"}},"spec":{%s},"status":{"inventory":{"hostname":"node-1"},
			"conditions":[{"type":%q,"status":"False","reason":%q,"message":%q}]}}`, spec, condition, reason, message)
	}
	for name, c := range map[string]struct{ path, content, says string }{
		"invalid pull secret": {image, imageCreated("False", "ImageCreationError",
			"Failed to create image: secret sno/pull did not contain key .dockerconfigjson"),
			"infraenv.agent-install.openshift.io/sno: ImageCreated is False, ImageCreationError: Failed to create " +
				"image: secret sno/pull did not contain key .dockerconfigjson; correct the named values and apply " +
				"the " +
				"object again"},
		"unreachable mirror": {image, imageCreated("False", "ImageCreationError",
			"Failed to create image due to an internal error: the mirror refused the connection."),
			"infraenv.agent-install.openshift.io/sno: ImageCreated is False, ImageCreationError: Failed to create " +
				"image due to an internal error: the mirror refused the connection; " +
				"it is retried automatically, and immediately after a change of a referenced object"},
		"no cluster": {image, imageCreated("Unknown", "MissingClusterDeployment",
			"ClusterDeployment is missing: there is none"),
			"infraenv.agent-install.openshift.io/sno: ImageCreated is Unknown, MissingClusterDeployment: " +
				"ClusterDeployment is missing: there is none; it continues when the ClusterDeployment's cluster is " +
				"registered"},
		"failed validation": {agent, agentWith(`"clusterDeploymentName":{"namespace":"sno","name":"sno"}`,
			"Validated", "ValidationsFailing", "The agent's validations are failing: Require at least 16 GiB RAM."),
			"agent.agent-install.openshift.io/a1 (node-1): Validated is False, ValidationsFailing: The agent's " +
				"validations are failing: Require at least 16 GiB RAM; the host is validated again after each change"},
		"host not approved": {agent, agentWith("", "RequirementsMet", "AgentIsNotApproved",
			"The agent is not approved"),
			"agent.agent-install.openshift.io/a1 (node-1): RequirementsMet is False, AgentIsNotApproved: The agent " +
				"is not approved; approve it: kubectl -n sno patch agents.agent-install.openshift.io a1 " +
				"--type merge -p '{\"spec\":{\"approved\":true}}', or set agentApproval.autoApprove in its InfraEnv"},
		"invalid Agent spec": {agent, agentWith("", "SpecSynced", "InputError",
			"The Spec could not be synced due to an input error: no such disk"),
			"agent.agent-install.openshift.io/a1 (node-1): SpecSynced is False, InputError: The Spec could not be " +
				"synced due to an input error: no such disk; correct the Agent, or the annotations of its " +
				"BareMetalHost"},
		"wrong BMC password": {server,
			`{"status":{"errorType":"registration error","errorMessage":"The BMC refuses the user root."}}`,
			"baremetalhost.metal3.io/n1: registration error: The BMC refuses the user root; it is retried " +
				"automatically, and immediately after a change of a referenced object"},
	} {
		t.Run(name, func(t *testing.T) {
			f, list := newFakeAPI(t), site(t, wholeSite)
			applied(t, f, list, Options{})
			f.set(t, c.path, c.content)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := Follow(ctx, f.Server, clockwork.NewFakeClock(), list, Options{}, func(s State) {
				if s.Text == c.says {
					cancel()
				}
			})
			require.EqualError(t, err, "not finished: sno: no status yet; "+c.says)
		})
	}
	f := newFakeAPI(t)
	list := site(t, "{apiVersion: agent-install.openshift.io/v1beta1, kind: InfraEnv, metadata: {name: sno, "+
		"namespace: sno}, spec: {}}")
	applied(t, f, list, Options{})
	f.set(t, image, imageCreated("False", "ImageCreationError", "Failed to create image: no"))
	var lines []string
	require.NoError(t, Follow(t.Context(), f.Server, tickingClock(t), list, Options{}, func(s State) {
		lines = append(lines, s.Text)
		f.set(t, image, `{"status":{"isoDownloadURL":"http://site/one.iso"}}`)
	}))
	require.Equal(t,
		[]string{"infraenv.agent-install.openshift.io/sno: ImageCreated is False, ImageCreationError: Failed to " +
			"create image: no; " + adviceCorrect, "sno: http://site/one.iso"}, lines)
}

func TestFollow_notStarted(t *testing.T) {
	for want, conditions := range map[string]string{
		"the last preparation of the installation failed: no such image": `{"type":"LastInstallationPreparationFailed","status":"True","message":"no such image"}`,
		"":                            `{"type":"LastInstallationPreparationFailed","status":"True","message":"no such image"},{"type":"RequirementsMet","status":"True","reason":"ClusterAlreadyInstalling"}`,
		"The installation is on hold": `{"type":"Completed","status":"False","reason":"InstallationOnHold","message":"The installation is on hold"}`,
		"exactly 3 master agents":     `{"type":"RequirementsMet","status":"False","reason":"InsufficientAgents","message":"exactly 3 master agents"}`,
	} {
		var content map[string]any
		require.NoError(t, json.Unmarshal([]byte(`{"status":{"conditions":[`+conditions+`]}}`), &content))
		require.Equal(t, want, notStarted(content))
	}
}

func TestFollow_timeout(t *testing.T) {
	f, list := newFakeAPI(t), site(t, wholeSite)
	applied(t, f, list, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	err := Follow(ctx, f.Server, clockwork.NewFakeClock(), list, Options{}, func(State) { cancel() })
	require.EqualError(t, err, "not finished: sno: no status yet")
}

func TestDelete_reverseOrderAndWait(t *testing.T) {
	f, list := newFakeAPI(t), site(t, wholeSite)
	applied(t, f, list, Options{})
	var lines []string
	require.NoError(t, Delete(t.Context(), f.Server, list, Options{DryRun: true}, collect(&lines)))
	require.Len(t, f.objects, 11)
	lines = nil
	require.NoError(t, Delete(t.Context(), f.Server, list, Options{}, collect(&lines)))
	require.Equal(t, "baremetalhost.metal3.io/n1 deleted", lines[0])
	require.Equal(t, "namespace/sno deleted", lines[9])
	lines = nil
	require.NoError(t, Delete(t.Context(), f.Server, list, Options{}, collect(&lines)))
	require.Equal(t, "baremetalhost.metal3.io/n1 not found", lines[0])

	f.set(t, installPath,
		`{"metadata":{"finalizers":["agentclusterinstall.agent-install.openshift.io/ai-deprovision"]}}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := AwaitGone(ctx, f.Server, clockwork.NewFakeClock(), list, Options{})
	require.EqualError(t, err,
		"some objects are not deleted yet: agentclusterinstall.extensions.hive.openshift.io/sno waits for its "+
			"finalizers "+
			"[agentclusterinstall.agent-install.openshift.io/ai-deprovision]; "+
			`to remove them manually: kubectl patch agentclusterinstall.extensions.hive.openshift.io/sno -n sno --type merge -p '{"metadata":{"finalizers":null}}'`)
	looks := 0
	f.beforeGet = func(path string) {
		if looks++; path == installPath && looks > 12 {
			delete(f.objects, path)
		}
	}
	require.NoError(t, AwaitGone(t.Context(), f.Server, tickingClock(t), list, Options{}))
}
