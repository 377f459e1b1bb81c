package apply

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const infraEnv = "apiVersion: agent-install.openshift.io/v1beta1\nkind: InfraEnv\nmetadata: {name: sno, labels: {a: b}}\nspec:\n  pullSecretRef: {name: pull}\n  ntpSources: [a, b]\n  proxy: {httpProxy: http://p}\n"

func TestAKustomizationIsBuilt(t *testing.T) {
	folder(t, map[string]string{
		"base/kustomization.yaml": "resources: [env.yaml, ns.yaml]\nlabels:\n- pairs: {site: base}\n",
		"base/env.yaml":           infraEnv,
		"base/ns.yaml":            "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\napiVersion: hive.openshift.io/v1\nkind: ClusterImageSet\nmetadata: {name: set}\nspec: {releaseImage: a}\n",
		"site/kustomization.yaml": `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: berlin
resources: [../base, more.yaml]
components: [../proxyless]
commonAnnotations: {owner: me}
patches:
- path: over.yaml
- target: {kind: Cluster.*, name: set}
  patch: |
    - op: replace
      path: /spec/releaseImage
      value: b
- target: {kind: InfraEnv, labelSelector: "site=base"}
  patch: '{"spec": {"sshAuthorizedKey": "k"}}'
- patch: "{apiVersion: v1, kind: Secret, metadata: {name: more}, $patch: delete}"
- target: {kind: Nothing}
  patch: "a: 1"
configMapGenerator:
- name: extra
  files: [files/10.yaml, other=files/10.yaml]
  literals: [a=b, 'c="d e"']
- {name: extra, behavior: merge, literals: [late=x]}
secretGenerator:
- name: pull
  type: kubernetes.io/dockerconfigjson
  envs: [secret.env]
  options: {disableNameSuffixHash: true, labels: {l: v}}
`,
		"site/more.yaml":                secret("more"),
		"site/over.yaml":                "apiVersion: agent-install.openshift.io/v1beta1\nkind: InfraEnv\nmetadata: {name: sno, labels: {a: null}}\nspec: {ntpSources: [c]}\n",
		"site/files/10.yaml":            "kind: A\n",
		"site/secret.env":               "# comment\n.dockerconfigjson={}\n",
		"proxyless/kustomization.yaml":  "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatchesStrategicMerge:\n- |\n  apiVersion: agent-install.openshift.io/v1beta1\n  kind: InfraEnv\n  metadata: {name: sno}\n  spec: {proxy: null}\n",
		"proxyless/not-a-resource.yaml": "x",
	})
	read, err := Read(Sources{Paths: []string{"site"}})
	require.NoError(t, err)
	require.Equal(t, []string{"namespace/berlin", "secret/pull", "configmap/extra", "clusterimageset.hive.openshift.io/set", "infraenv.agent-install.openshift.io/sno"}, names(read.Objects))
	pull, extra, set, env := read.Objects[1], read.Objects[2], read.Objects[3], read.Objects[4]
	require.Equal(t, map[string]any{"releaseImage": "b"}, set.at("spec"))
	require.Empty(t, set.Namespace)
	require.Equal(t, "berlin", env.Namespace)
	require.Equal(t, map[string]any{"pullSecretRef": map[string]any{"name": "pull"}, "ntpSources": []any{"c"}, "sshAuthorizedKey": "k"}, env.at("spec"))
	require.Equal(t, map[string]any{"site": "base"}, env.at("metadata", "labels"))
	require.Equal(t, map[string]any{"owner": "me"}, env.at("metadata", "annotations"))
	require.Equal(t, map[string]any{"10.yaml": "kind: A\n", "other": "kind: A\n", "a": "b", "c": "d e", "late": "x"}, extra.at("data"))
	require.Equal(t, Source{"site/kustomization.yaml", 19}, extra.Source)
	require.Equal(t, "kubernetes.io/dockerconfigjson", pull.text("type"))
	require.Equal(t, map[string]any{".dockerconfigjson": "e30="}, pull.at("data"))
	require.Equal(t, "v", pull.at("metadata", "labels", "l"))
	require.Equal(t, []string{
		"site/kustomization.yaml:19: extra keeps its name: no hash is put behind it",
		"site/kustomization.yaml:19: extra keeps its name: no hash is put behind it",
		"site/kustomization.yaml:7: a patch is for no object",
	}, read.Notes)
}

func TestWhatAKustomizationAsksForAndIsNotDoneIsSaidByLine(t *testing.T) {
	const resources = "resources: [env.yaml]\n"
	for name, c := range map[string]struct{ text, says string }{
		"a field that is not done":  {resources + "namePrefix: a-\n", "kustomization.yaml:2: namePrefix is not done by this program; build the folder with kustomize and apply what it writes"},
		"a generator of ZTP":        {"generators: [site.yaml]\n", "kustomization.yaml:1: generators is not done"},
		"no YAML":                   {resources + "a: [\n", "kustomization.yaml:2: this is no YAML"},
		"empty":                     {"# nothing\n", "this kustomization names nothing"},
		"a field of another kind":   {"resources: env.yaml\n", "kustomization.yaml:1: this kustomization has a field of another kind than expected: cannot unmarshal"},
		"a missing file":            {"\nresources: [gone.yaml]\n", "kustomization.yaml:2: gone.yaml can not be read: no such file or directory"},
		"a folder without one":      {"resources: [plain]\n", "the folder plain has no kustomization.yaml"},
		"something elsewhere":       {"resources: ['https://github.com/x/y?ref=v1']\n", "is elsewhere; bring it to a folder beside this one"},
		"itself":                    {"resources: [../site]\n", "leads back to itself"},
		"a file outside":            {resources + "configMapGenerator: [{name: a, files: [../../etc/passwd]}]\n", "kustomization.yaml:2: ../../etc/passwd is outside of the kustomization's folder"},
		"a line without =":          {resources + "secretGenerator: [{name: a, literals: [b]}]\n", "a line of a has no ="},
		"a key twice":               {resources + "configMapGenerator: [{name: a, literals: [b=1, b=2]}]\n", `a has the key "b" twice`},
		"a generator of no name":    {resources + "configMapGenerator: [{literals: [b=1]}]\n", "a generator has no name"},
		"a merge into nothing":      {resources + "configMapGenerator: [{name: a, behavior: merge}]\n", "there is no ConfigMap a whose values"},
		"a behaviour like none":     {resources + "configMapGenerator: [{name: a, behavior: append}]\n", `behavior of a is "append"; expected create, merge or replace`},
		"a patch for nothing":       {resources + "patches: [{patch: '{apiVersion: v1, kind: Secret, metadata: {name: x}}'}]\n", "there is no secret/x to patch"},
		"a patch of nothing":        {resources + "patches: [{target: {kind: X}}]\n", "a patch needs either path or patch"},
		"a patch without a name":    {resources + "patches: [{patch: '{spec: {}}'}]\n", "a patch without a target needs apiVersion, kind and metadata.name"},
		"operations without target": {resources + "patches: [{patch: '[{op: remove, path: /spec}]'}]\n", "a patch of operations needs a target"},
		"operations that fail":      {resources + "patches: [{target: {kind: InfraEnv}, patch: '[{op: remove, path: /spec/nowhere}]'}]\n", "infraenv.agent-install.openshift.io/sno can not be patched: "},
		"a target's bad pattern":    {resources + "patches: [{target: {name: '('}, patch: 'a: 1'}]\n", "is no regular expression"},
		"a target's bad selector":   {resources + "patches: [{target: {labelSelector: 'a=(b'}, patch: 'a: 1'}]\n", `the target's selector "a=(b"`},
		"a component that is none":  {resources + "components: [../other]\n", "this is no Component; name it under resources"},
	} {
		t.Run(name, func(t *testing.T) {
			folder(t, map[string]string{
				"site/kustomization.yaml": c.text, "site/env.yaml": infraEnv, "site/plain/a.yaml": infraEnv, "other/kustomization.yaml": "resources: [a.yaml]\n", "other/a.yaml": infraEnv,
			})
			_, err := Read(Sources{Paths: []string{"site"}})
			require.ErrorContains(t, err, c.says)
		})
	}
}
