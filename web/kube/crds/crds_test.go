package crds_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"landfall/appliance/kube/objects"
	"landfall/web/kube/crds"
)

const root = "../../.."

func TestDefinitions_sources(t *testing.T) {
	for _, modules := range []string{filepath.Join(root, "go.mod"), "generate/go.mod"} {
		text, err := os.ReadFile(modules)
		require.NoError(t, err)
		sources, err := os.ReadFile("sources.txt")
		require.NoError(t, err)
		for line := range strings.Lines(string(sources)) {
			fields := strings.Fields(line)
			if strings.HasSuffix(fields[1], ".go") {
				source, err := os.ReadFile(filepath.Join(root, fields[1]))
				require.NoError(t, err)
				digest := sha256.Sum256(source)
				require.Equal(t, fields[0], hex.EncodeToString(digest[:]), "%s has changed: run make crds", fields[1])
				continue
			}
			require.Contains(t, string(text), strings.Join(fields, " "), "%s: run make crds", modules)
		}
	}
}

func TestDefinitions_digest(t *testing.T) {
	file, err := os.Open("crds.json.gz")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	unpacked, err := gzip.NewReader(file)
	require.NoError(t, err)
	text, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	digest := sha256.Sum256(text)
	require.Equal(t, crds.Digest(), hex.EncodeToString(digest[:]))
}

func TestDefinitions_everyKind(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rows, err := crds.Rows(at)
	require.NoError(t, err)
	found := map[string]*v1.CustomResourceDefinition{}
	for _, row := range rows {
		crd := new(v1.CustomResourceDefinition)
		require.NoError(t, json.Unmarshal(row.Object, crd))
		require.Equal(t, row.Name, crd.Name)
		require.Equal(t, at, crd.CreationTimestamp.UTC())
		require.Empty(t, crd.ResourceVersion)
		for _, condition := range crd.Status.Conditions {
			require.Equal(t, v1.ConditionTrue, condition.Status)
			require.Equal(t, at, condition.LastTransitionTime.UTC())
		}
		require.Len(t, crd.Status.Conditions, 2)
		found[crd.Name] = crd
	}
	for _, kind := range objects.Kinds() {
		if kind.Group == "" {
			continue
		}
		crd := found[kind.String()]
		require.NotNil(t, crd, kind)
		require.Equal(t, kind.Kind, crd.Spec.Names.Kind)
	}
	require.Equal(t, "true",
		found["agentclusterinstalls.extensions.hive.openshift.io"].Labels["contracts.hive.openshift.io/clusterinstall"])
}
