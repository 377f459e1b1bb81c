package engine

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/installconfig"
	"landfall/appliance/engine/validation"
)

// manifestsOf returns the appliance's manifests for a cluster of a kind.
func (b *harness) manifestsOf(kind topology, update *models.V2ClusterUpdateParams) map[string]string {
	b.Helper()
	cluster := b.readyCluster(kind)
	if update != nil {
		_, err := b.UpdateCluster(b.Context(), cluster, update)
		require.NoError(b, err)
	}
	return b.systemManifests(cluster)
}

// systemManifests returns the appliance's manifests for a cluster and checks that they are YAML.
func (b *harness) systemManifests(cluster string) map[string]string {
	b.Helper()
	installation, err := b.installation(cluster)
	require.NoError(b, err)
	made, err := installation.SystemManifests()
	require.NoError(b, err)
	texts := make(map[string]string)
	for name, text := range made {
		require.NoError(b, yaml.Unmarshal(text, new(any)), name)
		texts[name] = string(text)
	}
	return texts
}

func kindNamed(name string) topology {
	return topologies()[slices.IndexFunc(topologies(), func(k topology) bool { return k.name == name })]
}

const (
	schedulablePatch = "openshift/cluster-scheduler-02-config.yml.patch_ai_set_masters_schedulable"
	oneWorkerPatch   = "manifests/cluster-infrastructure-02-config.yml.patch_infrastructure_topology"
)

func TestSystemManifests_schedulableControlPlane(t *testing.T) {
	compact := newHarness(t).manifestsOf(kindNamed("compact"), nil)
	require.Equal(t, "---\n- op: replace\n  path: /spec/mastersSchedulable\n  value: true\n", compact[schedulablePatch])
	require.NotContains(t, compact, oneWorkerPatch)

	workers := newHarness(t).manifestsOf(kindNamed("workers"), nil)
	require.NotContains(t, workers, schedulablePatch, "two workers run workloads")
	forced := newHarness(t).manifestsOf(kindNamed("workers"),
		&models.V2ClusterUpdateParams{SchedulableMasters: conv.Pointer(true)})
	require.Contains(t, forced, schedulablePatch)

	one := newHarness(t).manifestsOf(kindNamed("none"), nil)
	require.Contains(t, one[oneWorkerPatch], "path: /status/infrastructureTopology\n  value: HighlyAvailable\n",
		"the control plane also runs workloads")
	require.Contains(t, one, schedulablePatch)
}

func TestSystemManifests_iSCSIUnitForEachRole(t *testing.T) {
	made := newHarness(t).manifestsOf(kindNamed("arbiter"), nil)
	for _, role := range []string{"master", "worker", "arbiter"} {
		require.Contains(t, made["openshift/50-"+role+"s-iscsi-nic-reapply.yaml"],
			"machineconfiguration.openshift.io/role: "+role)
	}
}

func TestSystemManifests_diskEncryption(t *testing.T) {
	encrypted := func(kind, on, mode, servers string) []string {
		made := newHarness(t).manifestsOf(kindNamed(kind), &models.V2ClusterUpdateParams{
			DiskEncryption: &models.DiskEncryption{EnableOn: &on, Mode: &mode, TangServers: servers},
		})
		var names []string
		for _, name := range slices.Sorted(maps.Keys(made)) {
			if strings.HasSuffix(name, "-encryption.yaml") {
				names = append(names, name)
			}
		}
		return names
	}
	const servers = `[{"url":"http://tang.site.test:7500","thumbprint":"PLjNyRdGw03zlRoGjQYMahSZGu9"}]`
	require.Empty(t, encrypted("compact", models.DiskEncryptionEnableOnNone, models.DiskEncryptionModeTpmv2, ""))
	require.Equal(t, []string{"openshift/99-openshift-master-tpm-encryption.yaml",
		"openshift/99-openshift-worker-tpm-encryption.yaml"},
		encrypted("compact", models.DiskEncryptionEnableOnAll, models.DiskEncryptionModeTpmv2, ""))
	require.Equal(t, []string{"openshift/99-openshift-arbiter-tang-encryption.yaml"},
		encrypted("arbiter", models.DiskEncryptionEnableOnArbiters, models.DiskEncryptionModeTang, servers))

	made := newHarness(t).manifestsOf(kindNamed("compact"),
		&models.V2ClusterUpdateParams{DiskEncryption: &models.DiskEncryption{
			EnableOn:    conv.Pointer(models.DiskEncryptionEnableOnMasters),
			Mode:        conv.Pointer(models.DiskEncryptionModeTang),
			TangServers: servers,
		}})
	require.Equal(t, `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: master-tang
  labels:
    machineconfiguration.openshift.io/role: master
spec:
  config:
    ignition:
      version: 3.2.0
    storage:
      filesystems:
        - device: /dev/mapper/root
          format: xfs
          label: root
          wipeFilesystem: true
      luks:
        - clevis:
            tang:
              - url: http://tang.site.test:7500
                thumbprint: PLjNyRdGw03zlRoGjQYMahSZGu9
          device: /dev/disk/by-partlabel/root
          label: luks-root
          name: root
          options:
            - --cipher
            - aes-cbc-essiv:sha256
          wipeVolume: true
  kernelArguments:
    - rd.neednet=1
`, made["openshift/99-openshift-master-tang-encryption.yaml"])
}

func TestSystemManifests_encryptionWithFIPS(t *testing.T) {
	b := newHarness(t)
	cluster := b.readyCluster(kindNamed("compact"))
	_, err := b.UpdateCluster(t.Context(), cluster, &models.V2ClusterUpdateParams{
		DiskEncryption: &models.DiskEncryption{EnableOn: conv.Pointer(models.DiskEncryptionEnableOnAll),
			Mode: conv.Pointer(models.DiskEncryptionModeTpmv2)},
	})
	require.NoError(t, err)
	require.NoError(t, b.SetInstallConfigOverride(t.Context(), cluster, `{"fips": true}`))
	made := b.systemManifests(cluster)
	require.Contains(t, made["openshift/99-openshift-master-tpm-encryption.yaml"], "- aes-xts-plain64\n")
	require.Contains(t, made["openshift/99-openshift-master-tpm-encryption.yaml"], "tpm2: true\n")
}

func TestValidation_requiredCustomManifests(t *testing.T) {
	oracle := external("oci", models.PlatformExternalCloudControllerManagerExternal)
	for name, c := range map[string]struct {
		asked models.ClusterCreateParams
		check validation.ID
	}{
		"third-party network plug-in": {models.ClusterCreateParams{NetworkType: conv.Pointer("Cilium")},
			validation.CustomManifestsRequirementsSatisfied},
		"no network": {models.ClusterCreateParams{NetworkType: conv.Pointer(installconfig.NetworkNone)},
			validation.CustomManifestsRequirementsSatisfied},
		"Oracle Cloud": {models.ClusterCreateParams{Platform: oracle},
			validation.PlatformRequirementsSatisfied},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			c.asked.Name, c.asked.BaseDNSDomain, c.asked.OpenshiftVersion, c.asked.PullSecret = conv.Pointer("bench"),
				"site.test", conv.Pointer("4.20.8"), conv.Pointer(testPullSecret)
			created, err := b.RegisterCluster(t.Context(), &c.asked)
			require.NoError(t, err)
			id := created.ID.String()
			status := func() string {
				shown, err := b.Cluster(id)
				require.NoError(t, err)
				var groups map[string][]validation.Result
				require.NoError(t, json.Unmarshal([]byte(shown.ValidationsInfo), &groups))
				for _, results := range groups {
					for _, result := range results {
						if result.ID == c.check {
							return string(result.Status)
						}
					}
				}
				return ""
			}
			require.Equal(t, "failure", status())
			manifest := Manifest{Folder: "openshift", Name: "plugin.yaml", Content: []byte("kind: Plugin\n")}
			_, err = b.CreateManifest(t.Context(), id, manifest)
			require.NoError(t, err)
			require.Equal(t, "success", status())
			require.NoError(t, b.DeleteManifest(t.Context(), id, manifest))
			require.Equal(t, "failure", status())
		})
	}
}
