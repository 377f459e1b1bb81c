package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestManifests_neverEvictAndKeepTheBrokersName(t *testing.T) {
	text, err := Manifests(Options{Consumer: "mc1", Broker: "landfall.example.com:8883", CA: []byte("CA"),
		Certificate: []byte("CERT"), Key: []byte("KEY")})
	require.NoError(t, err)
	var kinds []string
	for document := range strings.SplitSeq(strings.TrimPrefix(string(text), "---\n"), "\n---\n") {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		kinds = append(kinds, object["kind"].(string))
		if object["kind"] != "Secret" {
			continue
		}
		var config map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(object["stringData"].(map[string]any)["config.yaml"].(string)),
			&config))
		require.Equal(t, "landfall.example.com:8883", config["brokerHost"])
		require.Equal(t, "sources/maestro/consumers/mc1/sourceevents",
			config["topics"].(map[string]any)["sourceEvents"])
	}
	require.Equal(t, []string{"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRoleBinding", "Secret",
		"Deployment"}, kinds)
	require.Contains(t, string(text), "--appliedmanifestwork-eviction-grace-period=876000h")
}

func TestCheckImage_mustNotChangeUnnoticed(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, ok := range map[string]bool{"registry.example.com:5000/maestro" + digest: true,
		"registry.example.com/maestro:v1": true, "registry.example.com/maestro:latest" + digest: true,
		"registry.example.com:5000/maestro": false, "registry.example.com/maestro:latest": false, "": false,
		"registry.example.com/maestro@sha256:…": false, "registry.example.com/maestro:v1 ": false} {
		err := CheckImage(image)
		require.Equal(t, ok, err == nil, "%s: %v", image, err)
		if !ok {
			require.ErrorContains(t, err, "by its digest")
		}
	}
}
