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

	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"landfall/appliance/engine/validation"
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

// TestDefinitions_enumsOfEngine compares the enums of the Assisted Installer's kinds with the values
// that the engine and the controllers take.
func TestDefinitions_enumsOfEngine(t *testing.T) {
	hyperthreading := []string{"", string(hiveext.HyperthreadingEnabled), string(hiveext.HyperthreadingDisabled)}
	architectures := []string{"x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi"}
	want := map[string][]string{
		"AgentClusterInstall.spec.arbiter.hyperthreading":      hyperthreading,
		"AgentClusterInstall.spec.compute.hyperthreading":      hyperthreading,
		"AgentClusterInstall.spec.controlPlane.hyperthreading": hyperthreading,
		"AgentClusterInstall.spec.diskEncryption.enableOn": {models.DiskEncryptionEnableOnNone,
			models.DiskEncryptionEnableOnAll, models.DiskEncryptionEnableOnMasters,
			models.DiskEncryptionEnableOnArbiters, models.DiskEncryptionEnableOnWorkers,
			models.DiskEncryptionEnableOnMastersArbiters, models.DiskEncryptionEnableOnMastersWorkers,
			models.DiskEncryptionEnableOnArbitersWorkers, models.DiskEncryptionEnableOnMastersArbitersWorkers},
		"AgentClusterInstall.spec.diskEncryption.mode": {models.DiskEncryptionModeTpmv2,
			models.DiskEncryptionModeTang},
		"AgentClusterInstall.spec.external.cloudControllerManager": {"",
			hiveext.CloudControllerManagerTypeExternal},
		"AgentClusterInstall.spec.loadBalancer.type": {string(hiveext.LoadBalancerTypeClusterManaged),
			string(hiveext.LoadBalancerTypeUserManaged)},
		"AgentClusterInstall.spec.networking.networkType": validation.NetworkTypes(),
		"AgentClusterInstall.spec.platformType": {"", string(hiveext.BareMetalPlatformType),
			string(hiveext.NonePlatformType), string(hiveext.VSpherePlatformType),
			string(hiveext.NutanixPlatformType), string(hiveext.ExternalPlatformType)},
		"AgentServiceConfig.spec.iPXEHTTPRoute":                    {"enabled", "disabled"},
		"AgentServiceConfig.spec.mustGatherImages.cpuArchitecture": architectures,
		"InfraEnv.spec.imageType":                                  {string(models.ImageTypeFullIso), string(models.ImageTypeMinimalIso)},
		"InfraEnv.spec.ipxeScriptType":                             {"", "DiscoveryImageAlways", "BootOrderControl"},
		"InfraEnv.spec.kernelArguments.operation": {models.KernelArgumentOperationAppend,
			models.KernelArgumentOperationReplace, models.KernelArgumentOperationDelete},
	}
	rows, err := crds.Rows(time.Time{})
	require.NoError(t, err)
	found := map[string][]string{}
	for _, row := range rows {
		crd := new(v1.CustomResourceDefinition)
		require.NoError(t, json.Unmarshal(row.Object, crd))
		if crd.Spec.Group == "agent-install.openshift.io" || crd.Spec.Group == "extensions.hive.openshift.io" {
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			addEnums(t, found, crd.Spec.Names.Kind+".spec", &spec)
		}
	}
	for path := range found {
		require.Contains(t, want, path)
		require.ElementsMatch(t, want[path], found[path], path)
	}
	require.Len(t, found, len(want))
}

// TestDefinitions_describeEverySpecField holds that "kubectl explain" explains the fields that users
// write, in the kinds whose types are in this repository.
func TestDefinitions_describeEverySpecField(t *testing.T) {
	rows, err := crds.Rows(time.Time{})
	require.NoError(t, err)
	var undescribed []string
	for _, row := range rows {
		crd := new(v1.CustomResourceDefinition)
		require.NoError(t, json.Unmarshal(row.Object, crd))
		switch kind := crd.Spec.Names.Kind; kind {
		case "InfraEnv", "Agent", "NMStateConfig":
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			undescribed = append(undescribed, fieldsWithoutDescription(kind+".spec", &spec)...)
		}
	}
	require.Empty(t, undescribed)
}

// fieldsWithoutDescription lists the paths of the fields of a schema that have no description.
func fieldsWithoutDescription(path string, s *v1.JSONSchemaProps) (paths []string) {
	if s.Items != nil {
		return fieldsWithoutDescription(path, s.Items.Schema)
	}
	for name, field := range s.Properties {
		if field.Description == "" {
			paths = append(paths, path+"."+name)
		}
		paths = append(paths, fieldsWithoutDescription(path+"."+name, &field)...)
	}
	return paths
}

// addEnums adds the enums of a schema and of its parts by their paths.
func addEnums(t *testing.T, found map[string][]string, path string, s *v1.JSONSchemaProps) {
	for _, value := range s.Enum {
		var text string
		require.NoError(t, json.Unmarshal(value.Raw, &text))
		found[path] = append(found[path], text)
	}
	for name, property := range s.Properties {
		addEnums(t, found, path+"."+name, &property)
	}
	if s.Items != nil {
		addEnums(t, found, path, s.Items.Schema)
	}
}
