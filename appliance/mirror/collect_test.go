package mirror

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// workspaceV2 returns the files of a workspace of oc-mirror version 2 after a run for a release and
// an operator catalog.
func workspaceV2() map[string]string {
	return map[string]string{
		"working-dir/cluster-resources/idms-oc-mirror.yaml": `---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata:
  annotations:
    createdAt: "2026-05-01T10:00:00Z"
    createdBy: oc-mirror v2
  name: idms-release-0
spec:
  imageDigestMirrors:
  - mirrors: [mirror.example.com:5000/openshift/release]
    source: quay.io/openshift-release-dev/ocp-v4.0-art-dev
  - mirrors: [mirror.example.com:5000/openshift/release-images]
    source: quay.io/openshift-release-dev/ocp-release
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata:
  name: idms-operator-0
spec:
  imageDigestMirrors:
  - mirrors: [mirror.example.com:5000/openshift4]
    source: registry.redhat.io/openshift4
`,
		"working-dir/cluster-resources/itms-oc-mirror.yaml": `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata:
  name: itms-generic-0
spec:
  imageTagMirrors:
  - mirrors: [mirror.example.com:5000/ubi9]
    source: registry.redhat.io/ubi9
`,
		"working-dir/cluster-resources/cs-redhat-operator-index-v4-19.yaml": `apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata:
  name: cs-redhat-operator-index-v4-19
  namespace: openshift-marketplace
spec:
  image: mirror.example.com:5000/redhat/redhat-operator-index:v4.19
  sourceType: grpc
status: {}
`,
		"working-dir/cluster-resources/signature-configmap.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  labels:
    release.openshift.io/verification-signatures: ""
  name: mirrored-release-signatures
  namespace: openshift-config-managed
binaryData:
  sha256-1111111111111111111111111111111111111111111111111111111111111111-1: c2lnbmF0dXJl
`,
		"working-dir/cluster-resources/signature-configmap.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mirrored-release-signatures","namespace":"openshift-config-managed","labels":{"release.openshift.io/verification-signatures":""}},"binaryData":{"sha256-1111111111111111111111111111111111111111111111111111111111111111-1":"c2lnbmF0dXJl"}}`,
		"working-dir/operator-catalogs/index/catalog.yaml":       "schema: olm.package\nname: a\n",
		"working-dir/logs/oc-mirror.txt":                         "nothing of interest",
	}
}

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func tarOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(files))) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "./" + name, Mode: 0o644, Size: int64(len(files[name])),
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}))
		_, err := w.Write([]byte(files[name]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zipOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range files {
		entry, err := w.Create(name)
		require.NoError(t, err)
		_, err = entry.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func gzipOf(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestCollect_workspaceOfOcMirror(t *testing.T) {
	files := workspaceV2()
	var documents []Document
	for name, text := range files {
		documents = append(documents, Document{name, []byte(text)})
	}
	for _, from := range []struct {
		name    string
		collect func() (*Import, error)
	}{
		{"directory", func() (*Import, error) { return CollectPath(writeTree(t, files)) }},
		{"cluster-resources alone", func() (*Import, error) {
			return CollectPath(filepath.Join(writeTree(t, files), "working-dir", "cluster-resources"))
		}},
		{"tar", func() (*Import, error) { return Collect("workspace.tar", bytes.NewReader(tarOf(t, files))) }},
		{"tar.gz", func() (*Import, error) {
			return Collect("workspace.tgz",
				bytes.NewReader(gzipOf(t, tarOf(t, files))))
		}},
		{"zip", func() (*Import, error) { return Collect("workspace.zip", bytes.NewReader(zipOf(t, files))) }},
		{"files of a browser", func() (*Import, error) { return CollectFiles("workspace", documents) }},
	} {
		t.Run(from.name, func(t *testing.T) {
			got, err := from.collect()
			require.NoError(t, err)
			rules, err := Parse(got.Sources("workspace"))
			require.NoError(t, err)
			require.Len(t, rules.List(), 4)
			require.Equal(t, []CatalogSource{{Name: "cs-redhat-operator-index-v4-19",
				Image:       "mirror.example.com:5000/redhat/redhat-operator-index:v4.19",
				DefaultName: "redhat-operators", Version: "4.19", Document: rules.CatalogSources()[0].Document}},
				rules.CatalogSources())
			require.Equal(t, []string{"sha256:" + strings.Repeat("1", 64)}, rules.Signatures())
			require.Len(t, rules.Objects(), 2, "the signatures exist as YAML and as JSON, but count as one object")
			for _, file := range got.Files {
				require.NotContains(t, file.Name, "operator-catalogs")
			}
		})
	}
}

func TestCollect_severalRunsOfOcMirrorV1(t *testing.T) {
	policy := func(source string) string {
		return "apiVersion: operator.openshift.io/v1alpha1\nkind: ImageContentSourcePolicy\nmetadata:\n  name: " +
			"p\nspec:\n  repositoryDigestMirrors:\n  - source: " + source + "\n    mirrors: [mirror.example.com/" +
			strings.ReplaceAll(source, ".", "-") + "]\n"
	}
	catalog := func(tag string) string {
		return "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: redhat, namespace: " +
			"openshift-marketplace}\nspec: {image: \"mirror.example.com/redhat/redhat-operator-index:" + tag + "\"}\n"
	}
	got, err := CollectPath(writeTree(t, map[string]string{
		"oc-mirror-workspace/results-1700000009/imageContentSourcePolicy.yaml": policy(
			"quay.io/first"),
		"oc-mirror-workspace/results-1700000009/catalogSource-redhat.yaml": catalog("v4.18"),
		"oc-mirror-workspace/results-1700000009/mapping.txt": "quay.io/first/a@sha256:1=" +
			"mirror.example.com/a:tag\n",
		"oc-mirror-workspace/results-1800000000/imageContentSourcePolicy.yaml": policy(
			"quay.io/second"),
		"oc-mirror-workspace/results-1800000000/catalogSource-redhat.yaml":                           catalog("v4.19"),
		"oc-mirror-workspace/results-1800000000/release-signatures/signature-sha256-2222222222.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s","namespace":"openshift-config-managed","labels":{"release.openshift.io/verification-signatures":""}},"binaryData":{"sha256-2222-1":"c2ln"}}`,
		"oc-mirror-workspace/publish/.metadata.json":                                                 `{"kind":"Metadata"}`,
	}))
	require.NoError(t, err)
	rules, err := Parse(got.Sources("w"))
	require.NoError(t, err)
	require.Len(t, rules.List(), 2)
	require.Equal(t, "4.19", rules.CatalogSources()[0].Version)
	require.Equal(t, []string{"sha256:2222"}, rules.Signatures())
	require.Contains(t, got.Ignored, Ignored{"oc-mirror-workspace/results-1700000009/mapping.txt",
		"the mirror sets contain the same rules"})
}

func TestCollect_otherInputs(t *testing.T) {
	for _, input := range []struct {
		name  string
		files map[string]string
		want  map[string]string // prefix to its mirrors
	}{
		{"registries.conf with drop-ins", map[string]string{
			"registries.conf": "[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = " +
				"\"a.example.com\"\n[[registry]]\nlocation = \"docker.io\"\n[[registry.mirror]]\nlocation = " +
				"\"d.example.com\"\n",
			"registries.conf.d/50-b.conf": "[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = " +
				"\"b.example.com\"\n",
			"other.conf": "this = is nothing of ours",
		}, map[string]string{"quay.io": "b.example.com", "docker.io": "d.example.com"}},
		{"a list by hand",
			map[string]string{"mirrors.list": "# ours\nquay.io/team = " +
				"mirror.example.com:5000/team\nregistry.redhat.io/ubi9 -> a.example.com/ubi9, b.example.com/ubi9 # " +
				"two\n"},
			map[string]string{"quay.io/team": "mirror.example.com:5000/team",
				"registry.redhat.io/ubi9": "a.example.com/ubi9, b.example.com/ubi9"}},
		{"a mapping of images",
			map[string]string{
				"mapping.txt": "quay.io/team/a@sha256:0123=mirror.example.com:5000/team/a:tag\ndocker://quay.io/team/b:1 docker://mirror.example.com:5000/team/b:1\n"},
			map[string]string{"quay.io/team/a": "mirror.example.com:5000/team/a",
				"quay.io/team/b": "mirror.example.com:5000/team/b"}},
		{"what oc adm release mirror prints",
			map[string]string{"printed.yaml": "imageDigestSources:\n- mirrors: [mirror.example.com/ocp]\n  source: " +
				"quay.io/openshift-release-dev/ocp-release\n"},
			map[string]string{"quay.io/openshift-release-dev/ocp-release": "mirror.example.com/ocp"}},
	} {
		t.Run(input.name, func(t *testing.T) {
			got, err := CollectPath(writeTree(t, input.files))
			require.NoError(t, err)
			rules, err := Parse(got.Sources("site"))
			require.NoError(t, err)
			have := map[string]string{}
			for i := range rules.tables {
				have[rules.tables[i].prefix] = locations(rules.tables[i].mirrors)
			}
			require.Equal(t, input.want, have)
		})
	}
}

func TestCollect_rejectedImports(t *testing.T) {
	damaged := gzipOf(t, tarOf(t, workspaceV2()))
	for name, bad := range map[string]struct {
		file string
		data []byte
		says string
	}{
		"no mirror configuration": {"notes.yaml", []byte("kind: Pod\napiVersion: v1\nmetadata: {name: a}\n"),
			"notes.yaml: contains no mirror configuration"},
		"an empty archive": {"empty.tar", tarOf(t, nil), "empty.tar: "},
		"a damaged gzip":   {"a.tgz", damaged[:len(damaged)/2], "unexpected EOF"},
		"a damaged zip":    {"a.zip", zipOf(t, workspaceV2())[:200], "a.zip: is a damaged zip archive"},
		"no YAML":          {"a.yaml", []byte("kind: [\n"), "a.yaml: is not YAML"},
		"an entry alone":   {"a.list", []byte("quay.io/team\n"), `a.list: line 1: "quay.io/team" has no mirror`},
		"a wrong mirror by hand": {"a.list", []byte("quay.io/team = mirror\n"),
			`a.list: line 1: the mirror "mirror" must`},
		"a wrong source": {"a.list", []byte("team = mirror.example.com/a\n"),
			`a.list: line 1: the source "team" must begin with a registry's host`},
		"a large file": {"a.yaml", bytes.Repeat([]byte("#"), importedFileLimit+1),
			"a.yaml: is larger than 4 MiB"},
		"no certificate": {"a.pem", []byte("hello"), "a.pem: has no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Collect(bad.file, bytes.NewReader(bad.data))
			require.ErrorContains(t, err, bad.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestCollect_namesInAnArchive(t *testing.T) {
	files := map[string]string{
		"../../etc/cluster-resources/idms.yaml": workspaceV2()["working-dir/cluster-resources/idms-oc-mirror.yaml"]}
	got, err := Collect("a.tar", bytes.NewReader(tarOf(t, files)))
	require.NoError(t, err)
	require.Equal(t, "etc/cluster-resources/idms.yaml", got.Files[0].Name)
	require.Equal(t, "a b", cleanName("a\n b"))
}

func FuzzCollect(f *testing.F) {
	f.Add("mirrors.list", []byte("quay.io/team = mirror.example.com:5000/team"))
	f.Add("a.yaml", []byte(workspaceV2()["working-dir/cluster-resources/idms-oc-mirror.yaml"]))
	f.Add("a.zip", []byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		got, err := Collect(name, bytes.NewReader(data))
		if err != nil {
			return
		}
		_, err = Parse(got.Sources(name))
		require.NoError(t, err)
	})
}

func TestCollect_refusesDERCertificate(t *testing.T) {
	for _, name := range []string{"ca.der", "ca.crt", "ca"} {
		_, err := Collect(name, strings.NewReader("0\x82\x03\x05\x02\x01\x00"))
		require.EqualError(t, err, name+": is binary; convert a DER certificate with openssl x509 -inform der")
	}
}
