package clusters

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/google/go-containerregistry/pkg/authn"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/mirror"
	"landfall/appliance/release/trust"
	"landfall/appliance/siteservice"
	"landfall/store"
)

// These tests cover the groups of behaviours of the Assisted Installer's kube-API suite
// (subsystem/kubeapi) that concern clusters. docs/compatibility.md lists the tests of each group.

// applyInstall applies the objects of a cluster with a changed AgentClusterInstall.
func (b *testSite) applyInstall(install string, alter func(*hiveext.AgentClusterInstall)) {
	b.Helper()
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, install)
	if alter != nil {
		b.alterInstall(alter)
	}
	b.Apply(deploymentManifest)
}

func TestPullSecret_invalid(t *testing.T) {
	b := newSite(t)
	b.Apply(imageSetManifest, deploymentManifest, threeNodesManifest)
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "BackendError",
		"failed to find secret pull: there is no Secret site/pull")
	b.requireCondition(hiveext.ClusterRequirementsMetCondition, "Unknown", "NotAvailable", "Information not available")
	b.Apply("kind: Secret\nmetadata: {name: pull, namespace: site}\nstringData: {.dockerconfigjson: nonsense}")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "BackendError",
		"invalid pull secret data in secret pull: the pull secret is not JSON")
	b.Apply("kind: Secret\nmetadata: {name: pull, namespace: site}\nstringData: {other: a}")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "BackendError", "pull secret")
	require.Nil(t, b.cluster())
	b.Apply(kubetest.PullSecretManifest)
	require.NotNil(t, b.cluster())
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")

	b.Apply(
		`{kind: Secret, metadata: {name: pull, namespace: site}, stringData: {.dockerconfigjson: '{"auths":{"quay.io":{"auth":"b3RoZXI6cGFzcw=="}}}'}}`)
	require.NoError(t, b.DB.View(func(tx *store.Tx) error {
		rows := b.Engine.Rows(tx)
		view, err := rows.Cluster(b.cluster().ID.String())
		require.NoError(t, err)
		secret, err := rows.ClusterPullSecret(view)
		require.Contains(t, secret, "b3RoZXI6cGFzcw==", "a new pull secret is applied to the cluster")
		return err
	}))
}

func TestPullSecret_missingReference(t *testing.T) {
	b := newSite(t)
	b.Apply(imageSetManifest, threeNodesManifest, strings.Replace(deploymentManifest, "  pullSecretRef: {name: pull}\n",
		"", 1))
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", "PullSecret is required")
}

// notAllowed is a policy that allows no release.
type notAllowed struct{}

func (notAllowed) Check(_ context.Context, pullSpec, digest string, _ authn.Keychain) error {
	return &trust.NotAllowedError{PullSpec: pullSpec, Digest: digest}
}

func (notAllowed) CheckName(context.Context, string, authn.Keychain) error { return nil }

func TestImageSet_releaseNotAllowed(t *testing.T) {
	b := newSite(t, func(o *engine.Options) { o.ReleasePolicy = notAllowed{} })
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, threeNodesManifest)
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError",
		"release quay.io/release:4.20.8 is not allowed at this site")
	require.NoError(t, b.DB.View(func(tx *store.Tx) error {
		return record.Clusters.Keys(tx, "", func(id string) error {
			t.Errorf("cluster %s exists", id)
			return nil
		})
	}))
}

// Case 48 of the registry's list of faults: a cluster whose DNS name another cluster has is created
// when the other one is gone.
func TestDeployment_nameOfAnotherCluster(t *testing.T) {
	taken := &siteservice.NameTakenError{Name: "edge.site.test", Cluster: "edge", ID: "e1"}
	var free atomic.Bool
	b := newSite(t, func(o *engine.Options) {
		o.CheckName = func(*store.Tx, *models.Cluster) error {
			if free.Load() {
				return nil
			}
			return taken
		}
	})
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, threeNodesManifest)
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", taken.Error())
	require.Nil(t, b.cluster())
	free.Store(true)
	b.advance(time.Minute)
	require.NotNil(t, b.cluster())
}

func TestImageSet_missingOrInvalid(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.PullSecretManifest, deploymentManifest, threeNodesManifest)
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "BackendError",
		"ClusterImageSet v4.20 not found. Please ensure the ClusterImageSet exists")
	b.requireDeploymentCondition("ClusterImageSetNotFound", "True", "ClusterImageSetNotFound")
	b.releases.failure = errors.New("quay.io/release:4.20.8 is not a release")
	b.Apply(imageSetManifest)
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "BackendError",
		`failed to get release image "quay.io/release:4.20.8"`)
	require.Nil(t, b.cluster())
	b.releases.failure = nil
	b.advance(time.Minute)
	require.NotNil(t, b.cluster())
	b.requireDeploymentCondition("ClusterImageSetNotFound", "False", "ClusterImageSetFound")

	b = newSite(t)
	b.applyInstall(threeNodesManifest, func(aci *hiveext.AgentClusterInstall) { aci.Spec.ImageSetRef = nil })
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", "ClusterImageSet must be specified")
}

// advance advances the clock and waits until the controllers are idle.
func (b *testSite) advance(d time.Duration) {
	b.Helper()
	require.NoError(b, b.Clock.BlockUntilContext(b.Context(), 1))
	b.Clock.Advance(d)
	_, err := b.clusters.Reconcile(b.Context(), "site", "one")
	require.NoError(b, err)
	b.WaitIdle()
}

func TestNetworks(t *testing.T) {
	cases := []struct {
		name  string
		alter func(*hiveext.AgentClusterInstall)
		fault string // part of the InputError in SpecSynced
		is    func(*testing.T, *models.Cluster)
	}{
		{"IPv6 has OVNKubernetes", func(aci *hiveext.AgentClusterInstall) {
			n := &aci.Spec.Networking
			n.ClusterNetwork = []hiveext.ClusterNetworkEntry{{CIDR: "fd01::/48"}}
			n.ServiceNetwork, n.MachineNetwork = []string{"fd02::/112"},
				[]hiveext.MachineNetworkEntry{{CIDR: "fd00:10::/64"}}
			aci.Spec.APIVIPs, aci.Spec.IngressVIPs = []string{"fd00:10::4"}, []string{"fd00:10::5"}
		}, "", func(t *testing.T, c *models.Cluster) {
			require.Equal(t, "OVNKubernetes", *c.NetworkType)
			require.EqualValues(t, 64, c.ClusterNetworks[0].HostPrefix)
		}},
		{"unsupported SDN",
			func(aci *hiveext.AgentClusterInstall) { aci.Spec.Networking.NetworkType = "OpenShiftSDN" }, "OpenShift",
			nil},
		{"host bits", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.Networking.MachineNetwork = []hiveext.MachineNetworkEntry{{CIDR: "192.168.10.7/24"}}
		}, "", func(t *testing.T, c *models.Cluster) {
			require.EqualValues(t, "192.168.10.0/24", c.MachineNetworks[0].Cidr)
		}},
		{"invalid machine network", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.Networking.MachineNetwork = []hiveext.MachineNetworkEntry{{CIDR: "192.168.10.300/24"}}
		}, "is not a network in CIDR notation", nil},
		{"no networks", func(aci *hiveext.AgentClusterInstall) { aci.Spec.Networking = hiveext.Networking{} },
			"", func(t *testing.T, c *models.Cluster) {
				require.Equal(t, description.DefaultClusterNetwork, string(c.ClusterNetworks[0].Cidr))
				require.Equal(t, description.DefaultServiceNetwork, string(c.ServiceNetworks[0].Cidr))
			}},
		{"user-managed networking with virtual addresses", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.Networking.UserManagedNetworking = conv.Pointer(true)
		}, "API VIPs cannot be set with User Managed Networking; leave spec.apiVIPs and spec.ingressVIPs out, or set " +
			"spec.networking.userManagedNetworking to false.", nil},
		{"deprecated single addresses", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.APIVIP, aci.Spec.APIVIPs, aci.Spec.IngressVIP, aci.Spec.IngressVIPs = "192.168.10.6", nil,
				"192.168.10.7", nil
		}, "", func(t *testing.T, c *models.Cluster) { require.EqualValues(t, "192.168.10.6", c.APIVips[0].IP) }},
		{"single addresses not in the list",
			func(aci *hiveext.AgentClusterInstall) { aci.Spec.APIVIP = "192.168.10.9" },
			"apiVIP 192.168.10.9 is not the first of apiVIPs", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newSite(t)
			b.applyInstall(threeNodesManifest, c.alter)
			if c.fault != "" {
				b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", c.fault)
				require.Nil(t, b.cluster())
				return
			}
			b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
			c.is(t, b.cluster())
		})
	}
}

func TestUserManagedNetworking_laterChange(t *testing.T) {
	b := newSite(t)
	b.applyInstall(threeNodesManifest, nil)
	b.alterInstall(func(aci *hiveext.AgentClusterInstall) {
		aci.Spec.Networking.UserManagedNetworking = conv.Pointer(
			true)
	})
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError",
		"User Managed Networking cannot be set with API VIP")
	b.alterInstall(func(aci *hiveext.AgentClusterInstall) { aci.Spec.Networking.UserManagedNetworking = nil })
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
}

func TestPlatforms(t *testing.T) {
	cases := []struct {
		name     hiveext.PlatformType
		vips     bool
		external *hiveext.ExternalPlatformSpec
		kind     models.PlatformType
		users    bool
	}{
		{hiveext.BareMetalPlatformType, true, nil, models.PlatformTypeBaremetal, false},
		{hiveext.NutanixPlatformType, true, nil, models.PlatformTypeNutanix, false},
		{hiveext.VSpherePlatformType, true, nil, models.PlatformTypeVsphere, false},
		{hiveext.NonePlatformType, false, nil, models.PlatformTypeNone, true},
		{hiveext.ExternalPlatformType, false, &hiveext.ExternalPlatformSpec{PlatformName: "acme",
			CloudControllerManager: "External"}, models.PlatformTypeExternal, true},
	}
	for _, c := range cases {
		t.Run(string(c.name), func(t *testing.T) {
			b := newSite(t)
			b.applyInstall(threeNodesManifest, func(aci *hiveext.AgentClusterInstall) {
				aci.Spec.PlatformType, aci.Spec.ExternalPlatformSpec = c.name, c.external
				if !c.vips {
					aci.Spec.APIVIPs, aci.Spec.IngressVIPs = nil, nil
				}
			})
			b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
			require.Equal(t, c.kind, *b.cluster().Platform.Type)
			require.Equal(t, c.users, *b.cluster().UserManagedNetworking)
			require.Equal(t, c.name, b.aci().Status.PlatformType)
			require.Equal(t, c.users, *b.aci().Status.UserManagedNetworking)
			if c.external != nil {
				require.Equal(t, "acme", *b.cluster().Platform.External.PlatformName)
			}
			b.Delete(objects.ClusterDeployments, "site", "one")
			b.requireNothingLeft()
		})
	}
	b := newSite(t)
	b.applyInstall(threeNodesManifest,
		func(aci *hiveext.AgentClusterInstall) { aci.Spec.PlatformType = hiveext.ExternalPlatformType })
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", "spec.external must be given")
}

// requireNothingLeft asserts that a cluster is deleted, with its objects and those that were
// generated for it.
func (b *testSite) requireNothingLeft() {
	b.Helper()
	require.Nil(b, b.cluster())
	require.NoError(b, b.DB.View(func(tx *store.Tx) error {
		ids, err := b.Engine.Rows(tx).ClusterIDs()
		require.Empty(b, ids)
		return err
	}))
	for _, kind := range []objects.Kind{objects.ClusterDeployments, objects.AgentClusterInstalls, objects.Agents} {
		require.NoError(b, b.DB.View(func(tx *store.Tx) error {
			return objects.Names(tx, kind, "", func(_, name string) error {
				b.Fatalf("%s %s still exists",
					kind, name)
				return nil
			})
		}))
	}
	require.False(b, b.exists(objects.Secrets, "site", "one-admin-kubeconfig"))
	require.False(b, b.exists(objects.Secrets, "site", "one-admin-password"))
}

func TestDeletion_dependents(t *testing.T) {
	t.Run("a ClusterDeployment", func(t *testing.T) {
		b := newSite(t)
		b.applyInstall(singleNodeManifest, nil)
		b.Apply(infraEnvOfOne)
		b.machines(1)
		b.Delete(objects.ClusterDeployments, "site", "one")
		b.requireNothingLeft()
		require.True(t, b.exists(objects.InfraEnvs, "site", "one"), "other objects stay")
		require.True(t, b.exists(objects.ClusterImageSets, "", "v4.20"))
	})
	t.Run("an AgentClusterInstall", func(t *testing.T) {
		b := newSite(t)
		b.applyInstall(singleNodeManifest, nil)
		first := b.cluster().ID.String()
		b.Delete(objects.AgentClusterInstalls, "site", "one")
		require.Nil(t, b.cluster())
		require.False(t, b.exists(objects.AgentClusterInstalls, "site", "one"))
		require.True(t, b.exists(objects.ClusterDeployments, "site", "one"))
		b.Apply(singleNodeManifest)
		require.NotNil(t, b.cluster(), "a new AgentClusterInstall registers a new cluster")
		require.NotEqual(t, first, b.cluster().ID.String())
	})
	t.Run("during the installation", func(t *testing.T) {
		b := newSite(t)
		b.installingSingleNode()
		b.Delete(objects.ClusterDeployments, "site", "one")
		b.requireNothingLeft()
	})
	t.Run("during the preparation", func(t *testing.T) {
		b := newSite(t)
		b.applyInstall(singleNodeManifest, nil)
		b.Apply(infraEnvOfOne)
		b.approve(b.machines(1)...)
		require.Equal(t, models.ClusterStatusPreparingForInstallation, *b.cluster().Status)
		b.Delete(objects.AgentClusterInstalls, "site", "one")
		require.Nil(t, b.cluster())
	})
	t.Run("over REST or in the browser", func(t *testing.T) {
		b := newSite(t)
		b.applyInstall(singleNodeManifest, nil)
		require.NoError(t, b.Engine.DeregisterCluster(t.Context(), b.cluster().ID.String(), false))
		b.WaitIdle()
		b.requireNothingLeft()
	})
	t.Run("by removing the finalizers", func(t *testing.T) {
		b := newSite(t)
		b.applyInstall(singleNodeManifest, nil)
		b.stop()
		for _, kind := range []objects.Kind{objects.ClusterDeployments, objects.AgentClusterInstalls} {
			b.Update(func(tx *store.Tx) error {
				if err := b.Objects.Delete(tx, kind, "site", "one", b.Clock.Now()); err != nil {
					return err
				}
				return b.Objects.Update(tx, kind, "site", "one",
					func(u *unstructured.Unstructured) error { u.SetFinalizers(nil); return nil })
			})
		}
		b.run()
		_, err := b.clusters.Reconcile(t.Context(), "site", "one")
		require.NoError(t, err)
		b.requireNothingLeft()
	})
}

// installingSingleNode installs a single node until its installation is in progress.
func (b *testSite) installingSingleNode() []*kubetest.Machine {
	b.Helper()
	b.applyInstall(singleNodeManifest, nil)
	b.Apply(infraEnvOfOne)
	machines := b.machines(1)
	b.approve(machines...)
	b.prepare(machines...)
	require.Equal(b, models.ClusterStatusInstalling, *b.cluster().Status)
	return machines
}

func TestAgentClusterInstall_missingDeployment(t *testing.T) {
	b := newSite(t)
	b.Apply(threeNodesManifest)
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError",
		"ClusterDeployment with name 'one' in namespace 'site' not found")
	b.requireCondition(hiveext.ClusterCompletedCondition, "Unknown", "NotAvailable", "")
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest)
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
}

func TestClusterDeployment_otherInstallKind(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, singleNodeManifest, `
kind: ClusterDeployment
metadata: {name: one, namespace: site}
spec: {clusterName: edge, clusterInstallRef: {group: other.io, version: v1, kind: OtherInstall, name: one}}`)
	require.Nil(t, b.cluster())
	require.Empty(t, b.cd().Finalizers)
}

func TestAgentClusterInstall_options(t *testing.T) {
	cases := []struct {
		name  string
		alter func(*hiveext.AgentClusterInstall)
		is    func(*testing.T, *models.Cluster)
	}{
		{"schedulable masters", func(aci *hiveext.AgentClusterInstall) { aci.Spec.MastersSchedulable = true },
			func(t *testing.T, c *models.Cluster) { require.True(t, *c.SchedulableMasters) }},
		{"hyperthreading disabled", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.ControlPlane = &hiveext.AgentMachinePool{Name: "master", Hyperthreading: "Disabled"}
			aci.Spec.Compute = []hiveext.AgentMachinePool{{Name: "worker", Hyperthreading: "Disabled"}}
		}, func(t *testing.T, c *models.Cluster) { require.Equal(t, "none", c.Hyperthreading) }},
		{"hyperthreading on masters", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.ControlPlane = &hiveext.AgentMachinePool{Name: "master", Hyperthreading: "Enabled"}
		}, func(t *testing.T, c *models.Cluster) { require.Equal(t, "masters", c.Hyperthreading) }},
		{"hyperthreading of all pools", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.ControlPlane = &hiveext.AgentMachinePool{Name: "master", Hyperthreading: "Enabled"}
			aci.Spec.Arbiter = &hiveext.AgentMachinePool{Name: "arbiter", Hyperthreading: "Enabled"}
			aci.Spec.Compute = []hiveext.AgentMachinePool{{Name: "worker", Hyperthreading: "Enabled"}}
		}, func(t *testing.T, c *models.Cluster) { require.Equal(t, "masters,arbiters,workers", c.Hyperthreading) }},
		{"disk encryption", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.DiskEncryption = &hiveext.DiskEncryption{EnableOn: conv.Pointer("all"),
				Mode: conv.Pointer("tpmv2")}
		}, func(t *testing.T, c *models.Cluster) { require.Equal(t, "all", *c.DiskEncryption.EnableOn) }},
		{"proxy", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.Proxy = &hiveext.Proxy{HTTPProxy: "http://proxy.site.test:3128",
				HTTPSProxy: "http://proxy.site.test:3128", NoProxy: "site.test"}
		}, func(t *testing.T, c *models.Cluster) {
			require.Equal(t, "http://proxy.site.test:3128 site.test", c.HTTPProxy+" "+c.NoProxy)
		}},
		{"no proxy for all hosts", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.Proxy = &hiveext.Proxy{HTTPProxy: "http://proxy.site.test:3128", NoProxy: "*"}
		}, func(t *testing.T, c *models.Cluster) { require.Equal(t, "*", c.NoProxy) }},
		{"overrides of the install-config", func(aci *hiveext.AgentClusterInstall) {
			setAnnotation(aci, annotationInstallConfigOverrides, `{"fips":true}`, false)
		}, func(t *testing.T, c *models.Cluster) { require.Equal(t, `{"fips":true}`, c.InstallConfigOverrides) }},
		{"ignored validations", func(aci *hiveext.AgentClusterInstall) {
			setAnnotation(aci, annotationIgnoredHostValidations, "ntp-synced, ntp-synced", false)
		}, func(t *testing.T, c *models.Cluster) { require.Equal(t, `["ntp-synced"]`, c.IgnoredHostValidations) }},
		{"four masters and a worker", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.ProvisionRequirements = hiveext.ProvisionRequirements{ControlPlaneAgents: 4, WorkerAgents: 1}
		}, func(t *testing.T, c *models.Cluster) { require.EqualValues(t, 4, c.ControlPlaneCount) }},
		{"user-managed load balancer", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.LoadBalancer = &hiveext.LoadBalancer{Type: hiveext.LoadBalancerTypeUserManaged}
		}, func(t *testing.T, c *models.Cluster) { require.EqualValues(t, "user-managed", c.LoadBalancer.Type) }},
		{"tags", func(aci *hiveext.AgentClusterInstall) {
			aci.Labels = map[string]string{hiveext.ClusterConsumerLabel: "fleet"}
		}, func(t *testing.T, c *models.Cluster) { require.Equal(t, "fleet", c.Tags) }},
		{"an SSH key", func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.SSHPublicKey = "ssh-ed25519 " +
				"AAAAC3NzaC1lZDI1NTE5AAAAIIvFTKzuhF1vVRh3LfYBR0uEnGGKWjfYUVX7bYjT6mVp me@site \n"
		}, func(t *testing.T, c *models.Cluster) { require.Contains(t, c.SSHPublicKey, "ssh-ed25519 ") }},
	}
	first, later := newSite(t), newSite(t)
	first.applyInstall(threeNodesManifest, func(aci *hiveext.AgentClusterInstall) {
		for _, c := range cases {
			c.alter(aci)
		}
	})
	first.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
	later.applyInstall(threeNodesManifest, nil)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// a later case replaces these values
			if !slices.Contains([]string{"hyperthreading disabled", "hyperthreading on masters", "proxy"}, c.name) {
				c.is(t, first.cluster())
			}
			later.alterInstall(c.alter)
			later.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
			c.is(t, later.cluster())
		})
	}
}

func TestInstallConfigOverrides_invalid(t *testing.T) {
	b := newSite(t)
	b.applyInstall(threeNodesManifest, func(aci *hiveext.AgentClusterInstall) {
		setAnnotation(aci, annotationInstallConfigOverrides, `{"fips":`, false)
	})
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError",
		"Failed to parse 'agent-install.openshift.io/install-config-overrides' annotation")
	b.alterInstall(func(aci *hiveext.AgentClusterInstall) { delete(aci.Annotations, annotationInstallConfigOverrides) })
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
}

func TestManifests_configMaps(t *testing.T) {
	manifests := func(b *testSite) (names []string) {
		b.Helper()
		listed, err := b.Engine.Manifests(b.cluster().ID.String(), false)
		require.NoError(b, err)
		for _, m := range listed {
			names = append(names, m.Folder+"/"+m.FileName)
		}
		return names
	}
	config := func(name, file, content string) string {
		return "kind: ConfigMap\nmetadata: {name: " + name + ", namespace: site}\ndata: {" + file + ": '" + content +
			"'}"
	}
	refer := func(names ...string) func(*hiveext.AgentClusterInstall) {
		return func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.ManifestsConfigMapRefs = nil
			for _, name := range names {
				aci.Spec.ManifestsConfigMapRefs = append(aci.Spec.ManifestsConfigMapRefs,
					hiveext.ManifestsConfigMapReference{Name: name})
			}
		}
	}
	t.Run("invalid, then corrected", func(t *testing.T) {
		b := newSite(t)
		b.Apply(config("a", "a.yaml", "a: [b"))
		b.applyInstall(threeNodesManifest, refer("a"))
		b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", "is not YAML")
		require.Empty(t, manifests(b))
		b.Apply(config("a", "a.yaml", "a: b"))
		b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
		require.Equal(t, []string{"openshift/a.yaml"}, manifests(b))
	})
	t.Run("one of several invalid", func(t *testing.T) {
		b := newSite(t)
		b.Apply(config("a", "a.yaml", "a: b"), config("b", "a.yaml", "a: c"))
		b.applyInstall(threeNodesManifest, refer("a", "b"))
		b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError",
			`Conflict in manifest names ("a.yaml" is not unique)`)
		require.Empty(t, manifests(b))
		b.Apply("kind: ConfigMap\nmetadata: {name: b, namespace: site}\ndata: {b.yaml: 'b: c'}")
		b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
		require.Equal(t, []string{"openshift/a.yaml", "openshift/b.yaml"}, manifests(b))
		b.alterInstall(refer("b"))
		require.Equal(t, []string{"openshift/b.yaml"}, manifests(b), "a manifest is deleted with its reference")
	})
	t.Run("created later", func(t *testing.T) {
		b := newSite(t)
		b.applyInstall(threeNodesManifest, refer("a"))
		b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "BackendError", "there is no ConfigMap site/a")
		b.Apply(config("a", "a.yaml", "a: b"))
		b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
		b.Delete(objects.ConfigMaps, "site", "a")
		b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "BackendError", "there is no ConfigMap site/a")
		require.Empty(t, manifests(b))
		b.Apply(config("a", "a.yaml", "a: b"))
		require.Equal(t, []string{"openshift/a.yaml"}, manifests(b))
	})
	t.Run("deprecated reference", func(t *testing.T) {
		b := newSite(t)
		b.Apply(config("a", "a.yaml", "a: b"))
		b.applyInstall(threeNodesManifest,
			func(aci *hiveext.AgentClusterInstall) { aci.Spec.ManifestsConfigMapRef = localReference("a") })
		require.Equal(t, []string{"openshift/a.yaml"}, manifests(b))
		require.Equal(t, "true", object[unstructured.Unstructured](b, objects.ConfigMaps, "site",
			"a").GetLabels()[objects.LabelWatch])
	})
}

func TestMirrorRegistryRef(t *testing.T) {
	b := newSite(t)
	b.applyInstall(threeNodesManifest, func(aci *hiveext.AgentClusterInstall) {
		aci.Spec.MirrorRegistryRef = &hiveext.MirrorRegistryConfigMapReference{Namespace: "site", Name: "mirror"}
	})
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError",
		"")
	require.Equal(t, "The Spec could not be synced due to an input error: Failed to get referenced ConfigMap: "+
		`ConfigMap "mirror" not found`, installConditionOf(b.aci(), hiveext.ClusterSpecSyncedCondition).Message)
	b.Apply("kind: ConfigMap\nmetadata: {name: mirror, namespace: site}\ndata: {other: a}")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError",
		"ConfigMap site/mirror does not contain registries.conf key")
	b.Apply("kind: ConfigMap\nmetadata: {name: mirror, namespace: site}\ndata: {registries.conf: '[[registry'}")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", "ConfigMap site/mirror:")
	require.Nil(t, b.cluster())
	b.Apply("kind: ConfigMap\nmetadata: {name: mirror, namespace: site}\ndata:\n  registries.conf: |\n    " +
		"[[registry]]\n    location = \"quay.io\"\n    [[registry.mirror]]\n    location = " +
		"\"mirror.site.test:5000/quay\"\n")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
	require.NotNil(t, b.mirrors[b.cluster().ID.String()+"/"+mirrorName])
	b.alterInstall(func(aci *hiveext.AgentClusterInstall) { aci.Spec.MirrorRegistryRef = nil })
	require.Nil(t, b.mirrors[b.cluster().ID.String()+"/"+mirrorName])
}

func TestMirrorRegistryRef_rulesRejectedByTheSite(t *testing.T) {
	for name, rejection := range map[string]error{
		"invalid document":   &mirror.InputError{Document: "registries.conf", Problem: "is empty"},
		"unclassified error": errors.New("registries.conf: is empty"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newSite(t)
			b.mirrorErr = rejection
			b.Apply("kind: ConfigMap\nmetadata: {name: mirror, namespace: site}\ndata:\n  registries.conf: |\n    " +
				"[[registry]]\n    location = \"quay.io\"\n")
			b.applyInstall(threeNodesManifest, func(aci *hiveext.AgentClusterInstall) {
				aci.Spec.MirrorRegistryRef = &hiveext.MirrorRegistryConfigMapReference{Namespace: "site",
					Name: "mirror"}
			})
			b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError",
				"the mirror rules of spec.mirrorRegistryRef can't be used: registries.conf: is empty")
		})
	}
}

func TestImport_installedCluster(t *testing.T) {
	for _, platform := range []hiveext.PlatformType{"", hiveext.NutanixPlatformType, hiveext.VSpherePlatformType} {
		t.Run("platform "+string(platform), func(t *testing.T) {
			b := newSite(t)
			b.Apply(`
kind: AgentClusterInstall
metadata: {name: one, namespace: site}
spec:
  clusterDeploymentRef: {name: one}
  networking: {userManagedNetworking: `+strconv.FormatBool(platform == "")+`}
  platformType: "`+string(platform)+`"
  provisionRequirements: {controlPlaneAgents: 3}`, `
kind: ClusterDeployment
metadata: {name: one, namespace: site}
spec:
  clusterName: edge
  baseDomain: site.test
  installed: true
  clusterMetadata: {clusterID: "", infraID: "", adminKubeconfigSecretRef: {name: edge-kubeconfig}}
  platform: {agentBareMetal: {agentSelector: {}}}
  clusterInstallRef: {group: extensions.hive.openshift.io, version: v1beta1, kind: AgentClusterInstall, name: one}`)
			cluster := b.cluster()
			require.NotNil(t, cluster)
			require.Equal(t, models.ClusterStatusAddingHosts, *cluster.Status)
			require.Equal(t, "api.edge.site.test", *cluster.APIVipDNSName)
			b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
			b.requireCondition(hiveext.ClusterCompletedCondition, "True", "InstallationCompleted", "")
			b.requireCondition(hiveext.ClusterRequirementsMetCondition, "True", "ClusterAlreadyInstalling",
				"The cluster requirements are met")
			b.requireDeploymentCondition("Provisioned", "True", "Provisioned")
			require.Equal(t, "edge-kubeconfig", b.cd().Spec.ClusterMetadata.AdminKubeconfigSecretRef.Name)
		})
	}
}

func TestInstallation_waits(t *testing.T) {
	t.Run("until the hold ends", func(t *testing.T) {
		b := newSite(t)
		b.applyInstall(singleNodeManifest, func(aci *hiveext.AgentClusterInstall) { aci.Spec.HoldInstallation = true })
		b.Apply(infraEnvOfOne)
		b.approve(b.machines(1)...)
		require.Equal(t, models.ClusterStatusReady, *b.cluster().Status)
		b.requireCondition(hiveext.ClusterCompletedCondition, "False", "InstallationOnHold",
			"The installation is on hold. To unhold set holdInstallation to false")
		b.requireCondition(hiveext.ClusterRequirementsMetCondition, "True", "ClusterIsReady",
			"The cluster is ready to begin the installation")
		b.alterInstall(func(aci *hiveext.AgentClusterInstall) { aci.Spec.HoldInstallation = false })
		require.Equal(t, models.ClusterStatusPreparingForInstallation, *b.cluster().Status)
	})
	t.Run("until the pause ends", func(t *testing.T) {
		b := newSite(t)
		b.applyInstall(singleNodeManifest, nil)
		pause := func(value string) {
			b.Update(func(tx *store.Tx) error {
				return b.clusters.updateDeployment(tx, "site", "one", func(cd *hivev1.ClusterDeployment) error {
					cd.Annotations = map[string]string{annotationReconcilePause: value}
					return nil
				})
			})
			b.WaitIdle()
		}
		pause("true")
		b.Apply(infraEnvOfOne)
		b.approve(b.machines(1)...)
		require.Equal(t, models.ClusterStatusReady, *b.cluster().Status)
		pause("false")
		require.Equal(t, models.ClusterStatusPreparingForInstallation, *b.cluster().Status)
	})
	t.Run("until the number of hosts matches", func(t *testing.T) {
		b := newSite(t)
		b.applyInstall(threeNodesManifest, nil)
		b.Apply(infraEnvOfOne)
		machines := b.machines(4)
		b.approve(machines...)
		b.requireCondition(hiveext.ClusterRequirementsMetCondition, "False", "InsufficientAgents",
			"The cluster currently requires exactly 3 master agents, 0 arbiter agents and 0 worker agents, but "+
				"currently registered 3 master agents, 0 arbiter agents and 1 worker agents")
		b.Delete(objects.Agents, "site", machines[3].ID)
		b.report(machines[:3]...)
		require.Equal(t, models.ClusterStatusPreparingForInstallation, *b.cluster().Status, *b.cluster().StatusInfo)
	})
}

func TestInstallation_threeNodesAndWorker(t *testing.T) {
	b := newSite(t)
	b.installThreeNodes()
	require.Equal(t, models.ClusterStatusAddingHosts, *b.cluster().Status)
	b.requireCondition(hiveext.ClusterCompletedCondition, "True", "InstallationCompleted", "Cluster is installed")

	spokes := kubetest.NewSpokes()
	b.clusters.Spokes = spokes
	paused := func(want bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			calls := spokes.Removed()
			return len(calls) > 0 && calls[len(calls)-1] == fmt.Sprintf("site/one worker %t", want)
		}, time.Minute, time.Millisecond)
		b.WaitIdle()
	}
	late := b.Machine(b.InfraEnvID("one"), 4)
	late.Register()
	b.report(late)
	b.Update(func(tx *store.Tx) error {
		return b.Objects.Update(tx, objects.Agents, "site", late.ID, func(u *unstructured.Unstructured) error {
			return errors.Join(unstructured.SetNestedField(u.Object, "infra", "spec", "machineConfigPool"),
				unstructured.SetNestedStringMap(u.Object, map[string]string{"node-role.kubernetes.io/infra": ""},
					"spec", "nodeLabels"))
		})
	})
	b.WaitIdle()
	require.Equal(t, models.HostStatusKnown, *late.Host().Status, *late.Host().StatusInfo)
	b.approve(late)
	require.Equal(t, models.HostStatusInstalling, *late.Host().Status)
	paused(true)
	require.NoError(t, b.Engine.RecordHostProgress(t.Context(), late.InfraEnv, late.ID,
		&models.HostProgress{CurrentStage: models.HostStageRebooting}))
	b.WaitIdle()
	require.Equal(t, models.HostStatusAddedToExistingCluster, *late.Host().Status)
	paused(false)
	b.requireCondition(hiveext.ClusterCompletedCondition, "True", "InstallationCompleted", "Cluster is installed")

	b.Delete(objects.ClusterDeployments, "site", "one")
	b.requireNothingLeft()
}

func TestInstallation_failure(t *testing.T) {
	b := newSite(t)
	machines := b.installingSingleNode()
	require.NoError(t, b.Engine.RecordHostProgress(t.Context(), machines[0].InfraEnv, machines[0].ID,
		&models.HostProgress{CurrentStage: models.HostStageFailed, ProgressInfo: "the disk failed"}))
	b.WaitIdle()
	b.requireCondition(hiveext.ClusterFailedCondition, "True", "InstallationFailed", "The installation failed:")
	b.requireCondition(hiveext.ClusterCompletedCondition, "False", "InstallationFailed", "the disk failed")
	b.requireCondition(hiveext.ClusterStoppedCondition, "True", "InstallationFailed",
		"The installation has stopped due to error")
	b.requireCondition(hiveext.ClusterRequirementsMetCondition, "True", "ClusterInstallationStopped", "")
	b.requireDeploymentCondition("Provisioned", "False", "ProvisionStopped")
	b.requireDeploymentCondition("ProvisionStopped", "True", "InstallAttemptsLimitReached")
}

func TestInstallation_retryAfterFailedPreparation(t *testing.T) {
	b := newSite(t)
	b.applyInstall(threeNodesManifest, nil)
	b.Apply(infraEnvOfOne)
	machines := b.machines(3)
	b.approve(machines...)
	b.releases.failure = errors.New("the registry does not answer")
	b.prepare()
	b.WaitIdle()
	b.requireCondition(hiveext.ClusterLastInstallationPreparationFailedCondition, "True",
		"The last installation preparation failed", "the registry does not answer")
	preparations := func() int {
		planned, err := b.Engine.Stepper().Preparations()
		require.NoError(t, err)
		return len(planned)
	}
	require.Zero(t, preparations(), "the retry is delayed")
	b.releases.failure = nil
	b.report(machines...)
	require.Zero(t, preparations())
	b.advance(retryPreparation)
	b.report(machines...)
	require.Equal(t, 1, preparations())
}

func TestInstallation_cancelled(t *testing.T) {
	b := newSite(t)
	b.installingSingleNode()
	_, err := b.Engine.CancelInstallation(t.Context(), b.cluster().ID.String())
	require.NoError(t, err)
	b.WaitIdle()
	b.requireCondition(hiveext.ClusterStoppedCondition, "True", "InstallationCancelled",
		"The installation has stopped because it was cancelled")
	b.requireCondition(hiveext.ClusterCompletedCondition, "Unknown", "UnknownStatus",
		"The installation status is currently not recognized: cancelled")
	b.requireDeploymentCondition("Provisioned", "Unknown", "Error")
}

func TestIgnitionEndpoint(t *testing.T) {
	b := newSite(t)
	b.applyInstall(threeNodesManifest, func(aci *hiveext.AgentClusterInstall) {
		aci.Spec.IgnitionEndpoint = &hiveext.IgnitionEndpoint{Url: "https://ignition.site.test",
			CaCertificateReference: &hiveext.CaCertificateReference{Namespace: "site", Name: "ca"}}
	})
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", "there is no Secret site/ca")
	b.Apply("kind: Secret\nmetadata: {name: ca, namespace: site}\nstringData: {other: a}")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", "CA Secret is missing tls.crt key")
	b.Apply("kind: Secret\nmetadata: {name: ca, namespace: site}\nstringData: {tls.crt: abc}")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", "not a PEM certificate in base64")
	ca := kubetest.Authority(t)
	b.Apply("kind: Secret\nmetadata: {name: ca, namespace: site}\nstringData: {tls.crt: " + strconv.Quote(ca) + "}")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
	require.Equal(t, "https://ignition.site.test", *b.cluster().IgnitionEndpoint.URL)
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte(ca)), *b.cluster().IgnitionEndpoint.CaCertificate)
	b.alterInstall(func(aci *hiveext.AgentClusterInstall) { aci.Spec.IgnitionEndpoint.CaCertificateReference = nil })
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
	require.Equal(t, "https://ignition.site.test", *b.cluster().IgnitionEndpoint.URL)
	require.Nil(t, b.cluster().IgnitionEndpoint.CaCertificate)
	b.alterInstall(func(aci *hiveext.AgentClusterInstall) { aci.Spec.IgnitionEndpoint = nil })
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
	require.Nil(t, b.cluster().IgnitionEndpoint)
}

func TestDiskEncryption_tangServers(t *testing.T) {
	const servers = `[{"url":"http://tang.site.test:7500","thumbprint":"PLjNyRdGw03zlRoGjQYMahSZGu9"}]`
	b := newSite(t)
	encrypt := func(mode, servers string) {
		t.Helper()
		b.alterInstall(func(aci *hiveext.AgentClusterInstall) {
			aci.Spec.DiskEncryption = &hiveext.DiskEncryption{EnableOn: conv.Pointer("all"), Mode: &mode,
				TangServers: servers}
		})
	}
	b.applyInstall(threeNodesManifest, nil)
	encrypt("tang", servers)
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
	require.Equal(t, servers, b.cluster().DiskEncryption.TangServers)
	encrypt("tang", "")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", "has no servers")
	encrypt("tang", "not json")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "False", "InputError", "are not a JSON list")
	encrypt("tpmv2", "")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
	require.Equal(t, "tpmv2", *b.cluster().DiskEncryption.Mode)
	require.Empty(t, b.aci().Spec.DiskEncryption.TangServers, "the spec must stay as the user wrote it")
}

func localReference(name string) *corev1.LocalObjectReference {
	return &corev1.LocalObjectReference{Name: name}
}
