package apply

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const infraEnv = "apiVersion: agent-install.openshift.io/v1beta1\nkind: InfraEnv\nmetadata: {name: sno, labels: {a: " +
	"b}}\nspec:\n  pullSecretRef: {name: pull}\n  ntpSources: [a, b]\n  proxy: {httpProxy: http://p}\n"

func TestKustomization(t *testing.T) {
	inDirectory(t, map[string]string{
		"base/kustomization.yaml": "resources: [env.yaml, ns.yaml]\nlabels:\n- pairs: {site: base}\n",
		"base/env.yaml":           infraEnv,
		"base/ns.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\napiVersion: " +
			"hive.openshift.io/v1\nkind: ClusterImageSet\nmetadata: {name: set}\nspec: {releaseImage: a}\n",
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
  patch: '{"apiVersion": "agent-install.openshift.io/v1beta1", "kind": "InfraEnv", "metadata": {"name": "any"}, "spec": {"sshAuthorizedKey": "k"}}'
- patch: "{apiVersion: v1, kind: Secret, metadata: {name: more, namespace: sno}, $patch: delete}"
replacements:
- source: {kind: ClusterImageSet, name: set, fieldPath: spec.releaseImage}
  targets:
  - select: {kind: InfraEnv}
    fieldPaths: [metadata.annotations.release]
    options: {create: true}
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
		"site/more.yaml": secret("more"),
		"site/over.yaml": "apiVersion: agent-install.openshift.io/v1beta1\nkind: InfraEnv\nmetadata: " +
			"{name: sno, labels: {a: null}}\nspec: {ntpSources: [c]}\n",
		"site/files/10.yaml": "kind: A\n",
		"site/secret.env":    "# comment\n.dockerconfigjson={}\n",
		"proxyless/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: " +
			"Component\npatchesStrategicMerge:\n- |\n  apiVersion: agent-install.openshift.io/v1beta1\n  kind: " +
			"InfraEnv\n  metadata: {name: sno}\n  spec: {proxy: null}\n",
		"proxyless/not-a-resource.yaml": "x",
	})
	read, err := Read(Sources{Paths: []string{"site"}})
	require.NoError(t, err)
	extra := read.Objects[2]
	require.Regexp(t, `^extra-[0-9a-z]{10}$`, extra.Name)
	require.Equal(t, []string{
		"namespace/berlin", "secret/pull", "configmap/" + extra.Name, "clusterimageset.hive.openshift.io/set",
		"infraenv.agent-install.openshift.io/sno",
	}, names(read.Objects))
	pull, set, env := read.Objects[1], read.Objects[3], read.Objects[4]
	require.Equal(t, map[string]any{"releaseImage": "b"}, set.at("spec"))
	require.Empty(t, set.Namespace)
	require.Equal(t, "berlin", env.Namespace)
	require.Equal(t, map[string]any{"pullSecretRef": map[string]any{"name": "pull"}, "ntpSources": []any{"c"},
		"sshAuthorizedKey": "k"}, env.at("spec"))
	require.Equal(t, map[string]any{"site": "base"}, env.at("metadata", "labels"))
	require.Equal(t, map[string]any{"owner": "me", "release": "b"}, env.at("metadata", "annotations"),
		"no annotation with the origin")
	require.Equal(t, map[string]any{"10.yaml": "kind: A\n", "other": "kind: A\n", "a": "b", "c": "d e", "late": "x"},
		extra.at("data"))
	require.Equal(t, "kubernetes.io/dockerconfigjson", pull.text("type"))
	require.Equal(t, map[string]any{".dockerconfigjson": "e30="}, pull.at("data"))
	require.Equal(t, "v", pull.at("metadata", "labels", "l"))
	require.Equal(t, Source{"base/env.yaml", 1}, env.Source)
	require.Equal(t, Source{"base/ns.yaml", 5}, set.Source)
	require.Equal(t, Source{"site/kustomization.yaml", 1}, extra.Source)
	require.Equal(t, []string{
		"site/kustomization.yaml:1: " + extra.Name +
			" has a name with kustomize's hash suffix, " +
			"but the objects of a site refer to the name without it: set generatorOptions.disableNameSuffixHash",
	}, read.Notes)
}

func TestKustomization_kubectlRules(t *testing.T) {
	inDirectory(t, map[string]string{
		"kustomization.yaml": "buildMetadata: [originAnnotations]\nresources: [host.yaml]\n",
		"host.yaml": "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: n1}\nspec: " +
			"{online: yes}\n",
	})
	read, err := Read(Sources{Paths: []string{"."}})
	require.NoError(t, err)
	require.Equal(t, true, read.Objects[0].at("spec", "online"), "YAML 1.1's yes")
	require.Equal(t, map[string]any{"config.kubernetes.io/origin": "path: host.yaml\n"},
		read.Objects[0].at("metadata", "annotations"), "requested annotations stay")
}

func TestKustomization_errors(t *testing.T) {
	const (
		resources = "resources: [env.yaml]\n"
		builtin   = "site/kustomization.yaml:1: kustomize can't build this: "
	)
	for name, c := range map[string]struct{ text, says string }{
		"not YAML": {resources + "a: [\n", "site/kustomization.yaml:2: invalid YAML"},
		"empty":    {"# nothing\n", "site/kustomization.yaml:1: this kustomization is empty"},
		"a list":   {"- a\n", "site/kustomization.yaml:1: this kustomization is empty"},
		"an unknown field": {resources + "namePrefx: a-\n",
			builtin + `invalid Kustomization: json: unknown field "namePrefx"`},
		"field of another type": {"resources: env.yaml\n",
			builtin + "invalid Kustomization: json: cannot unmarshal string"},
		"a program as generator": {"generators: [ztp.yaml]\n",
			builtin + "loading generator plugins: failed to load generator: external plugins disabled; unable to " +
				"load external plugin 'SiteConfig'"},
		"a missing file": {"resources: [gone.yaml]\n",
			"evalsymlink failure on 'site/gone.yaml' : lstat site/gone.yaml: no such file or directory"},
		"directory without a kustomization": {"resources: [plain]\n",
			"unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory " +
				"'site/plain'"},
		"remote component": {resources + "components:\n- 'https://github.com/x/y?ref=v1'\n",
			"site/kustomization.yaml:3: https://github.com/x/y?ref=v1 is remote; copy it to a directory beside this " +
				"one"},
		"repository": {"resources: [github.com/x/y//z]\n",
			"site/kustomization.yaml:1: github.com/x/y//z is remote"},
		"a repository by ssh": {"resources: ['git@example.org:x/y']\n",
			"site/kustomization.yaml:1: git@example.org:x/y is remote"},
		"repository of another user": {"resources: ['me@example.org:x/y']\n",
			"site/kustomization.yaml:1: me@example.org:x/y is remote"},
		"remote patch": {resources + "patches:\n- path: http://example.org/p.yaml\n",
			"site/kustomization.yaml:3: http://example.org/p.yaml is remote"},
		"remote resource of a resource": {"resources: [../away]\n",
			"away/kustomization.yaml:1: https://example.org/a.yaml is remote"},
		"itself": {"resources: [../site]\n",
			"cycle detected: candidate root 'site' contains visited root 'site'"},
		"a file outside": {"resources: [../other/a.yaml]\n", "file 'other/a.yaml' is not in or below 'site'"},
		"merge without a target": {resources + "configMapGenerator: [{name: a, behavior: merge}]\n",
			"does not exist; cannot merge or replace"},
		"patch without a target": {resources +
			"patches: [{patch: '{apiVersion: v1, kind: Secret, metadata: {name: x}}'}]\n",
			"no matches for Id Secret.v1.[noGrp]/x.[noNs]"},
		"component of another kind": {resources + "components: [../other]\n",
			"expected kind 'Component' for path 'other' but got 'Kustomization'"},
	} {
		t.Run(name, func(t *testing.T) {
			inDirectory(t, map[string]string{
				"site/kustomization.yaml": c.text, "site/env.yaml": infraEnv, "site/plain/a.yaml": infraEnv,
				"other/kustomization.yaml": "resources: [a.yaml]\n", "other/a.yaml": infraEnv,
				"away/kustomization.yaml": "resources: [https://example.org/a.yaml]\n",
				"site/ztp.yaml": "apiVersion: ran.openshift.io/v1\nkind: SiteConfig\nmetadata: {name: " +
					"site}\n",
			})
			_, err := Read(Sources{Paths: []string{"site"}})
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}
