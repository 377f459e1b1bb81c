package mirror

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/stretchr/testify/require"
)

// signedMessage returns a signature as gpg --sign makes it.
func signedMessage(t testing.TB, text string, compression packet.CompressionAlgo) []byte {
	t.Helper()
	config := &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, DefaultCompressionAlgo: compression}
	entity, err := openpgp.NewEntity("vendor", "", "vendor@example.com", config)
	require.NoError(t, err)
	var message bytes.Buffer
	w, err := openpgp.Sign(&message, entity, nil, config)
	require.NoError(t, err)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return message.Bytes()
}

func TestCollect_signatureFiles(t *testing.T) {
	hex := strings.Repeat("2", 64)
	digest := "sha256:" + hex
	first, second := signedMessage(t, "one", packet.CompressionNone), signedMessage(t, "two", packet.CompressionZIP)
	merge := func(base, added map[string]string) map[string]string {
		merged := maps.Clone(base)
		maps.Copy(merged, added)
		return merged
	}
	for name, input := range map[string]struct {
		files map[string]string
		below string // the imported directory
		want  [][]byte
	}{
		"signature store": {map[string]string{"sha256=" + hex + "/signature-1": string(first),
			"sha256=" + hex + "/signature-2": string(second)}, "", [][]byte{first, second}},
		"signature store with repositories": {map[string]string{
			"sigstore/openshift-release-dev/ocp-release@sha256=" + hex + "/signature-1": string(first)}, "",
			[][]byte{first}},
		"workspace of oc-mirror": {merge(workspaceV2(), map[string]string{
			"working-dir/signatures/4.20.8-x86_64-sha256-" + hex: string(first)}), "", [][]byte{first}},
		"signatures of oc-mirror alone": {map[string]string{
			"working-dir/signatures/4.20.8-x86_64-sha256-" + hex: string(first)}, "working-dir/signatures",
			[][]byte{first}},
		"the same signature twice": {map[string]string{
			"working-dir/signatures/4.20.8-x86_64-sha256-" + hex:          string(first),
			"signatures/openshift/release/sha256=" + hex + "/signature-1": string(first)}, "", [][]byte{first}},
		"version 1 without results": {map[string]string{
			"src/release-signatures/signature-sha256-2222222222222222.json": strings.Replace(
				workspaceV2()["working-dir/cluster-resources/signature-configmap.json"], strings.Repeat("1", 64), hex,
				1),
		}, "", [][]byte{[]byte("signature")}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeTree(t, input.files)
			var documents []Document
			for file, text := range input.files {
				documents = append(documents, Document{file, []byte(text)})
			}
			for source, collect := range map[string]func() (*Import, error){
				"directory": func() (*Import, error) { return CollectPath(filepath.Join(dir, input.below)) },
				"tar": func() (*Import, error) {
					return Collect("a.tar", bytes.NewReader(tarOf(t,
						input.files)))
				},
				"zip": func() (*Import, error) {
					return Collect("a.zip", bytes.NewReader(zipOf(t,
						input.files)))
				},
				"browser": func() (*Import, error) { return CollectFiles("a", documents) },
			} {
				got, err := collect()
				require.NoError(t, err, source)
				rules, err := Parse(got.Sources("site"))
				require.NoError(t, err, source)
				require.Contains(t, rules.Signatures(), digest, source)
				require.ElementsMatch(t, input.want, rules.SignaturesOf(digest), source)
			}
		})
	}
}

// TestRules_signatureFilesForClusters holds that clusters get the signatures of files too, and that
// a signature which a ConfigMap has already is not repeated.
func TestRules_signatureFilesForClusters(t *testing.T) {
	hex, signature := strings.Repeat("2", 64), signedMessage(t, "one", packet.CompressionNone)
	sources := Sources{Signatures: []Document{{"a/sha256=" + hex + "/signature-1", signature}}}
	rules, err := Parse(sources)
	require.NoError(t, err)
	manifests, err := rules.Manifests(Target{})
	require.NoError(t, err)
	require.Len(t, manifests, 1)
	require.Equal(t, "99_mirror_signatures_landfall-sha256-"+hex+".yaml", manifests[0].Name)
	require.Contains(t, string(manifests[0].YAML), "namespace: openshift-config-managed")
	sources.MirrorSets = []Document{{"signatures.yaml", manifests[0].YAML}}
	again, err := Parse(sources)
	require.NoError(t, err)
	require.Len(t, again.Objects(), 1)
	require.Equal(t, [][]byte{signature}, again.SignaturesOf("sha256:"+hex))
}

func TestCollect_rejectedSignatureFiles(t *testing.T) {
	hex, signature := strings.Repeat("2", 64), signedMessage(t, "one", packet.CompressionNone)
	named := "4.20.8-x86_64-sha256-" + hex
	for name, bad := range map[string]struct {
		file string
		data []byte
		says string
	}{
		"without a digest": {"signature-1", signature, "import its directory, or name it release-sha256-<digest>"},
		"text":             {named, []byte("404 not found"), "is not an OpenPGP signature of a release"},
		"empty":            {named, nil, "is not an OpenPGP signature of a release"},
		"too large":        {named, append(signature[:1:1], make([]byte, maxSignature)...), "is not an OpenPGP"},
		"armored":          {named, []byte("-----BEGIN PGP MESSAGE-----\n"), "is not an OpenPGP"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Collect(bad.file, bytes.NewReader(bad.data))
			require.ErrorContains(t, err, bad.says)
			require.ErrorContains(t, err, bad.file+": ")
			if bad.file == named { // in a directory with other files
				got, err := CollectFiles("a", []Document{{named, bad.data}, {"sha256=" + hex + "/signature-1",
					signature}})
				require.NoError(t, err)
				require.Len(t, got.Files, 1)
				require.Equal(t, []Ignored{{named, notSignature}}, got.Ignored)
			}
		})
	}
	for _, name := range []string{"sha256=" + hex[1:] + "/signature-1", "sha256-" + hex + ".json", "xsha256-" + hex,
		"sha256-" + hex + ".sig", "sha256=" + hex + "/signature-"} {
		require.Empty(t, signatureDigest(name), name)
		_, err := Parse(Sources{Signatures: []Document{{name, signature}}})
		require.ErrorContains(t, err, "is not named after its release", fmt.Sprint(name))
	}
	_, err := Parse(Sources{Signatures: []Document{{named, []byte("text")}}})
	require.ErrorContains(t, err, "is not an OpenPGP signature")
}
