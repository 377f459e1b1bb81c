package clusters

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-openapi/swag/conv"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

func TestWriteBack_changesByREST(t *testing.T) {
	b := newSite(t)
	b.applyInstall(threeNodesManifest, nil)
	before := b.aci().Generation
	id := b.cluster().ID.String()
	_, err := b.Engine.UpdateCluster(t.Context(), id, &models.V2ClusterUpdateParams{
		APIVips: []*models.APIVip{{IP: "192.168.10.44"}}, HTTPProxy: conv.Pointer("http://proxy.site.test:3128"),
		Hyperthreading: conv.Pointer("workers"),
	})
	require.NoError(t, err)
	require.NoError(t, b.Engine.SetInstallConfigOverride(t.Context(), id, `{"fips":true}`))
	b.WaitIdle()
	aci := b.aci()
	require.Equal(t, []string{"192.168.10.44"}, aci.Spec.APIVIPs)
	require.Equal(t, "http://proxy.site.test:3128", aci.Spec.Proxy.HTTPProxy)
	require.Equal(t, hiveext.HyperthreadingDisabled, aci.Spec.ControlPlane.Hyperthreading)
	require.Equal(t, `{"fips":true}`, aci.Annotations[annotationInstallConfigOverrides])
	require.Greater(t, aci.Generation, before)
	require.EqualValues(t, "192.168.10.44", b.cluster().APIVips[0].IP, "the controller does not revert it")
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")

	b.alterInstall(func(aci *hiveext.AgentClusterInstall) { aci.Spec.Proxy.HTTPProxy = "http://other.site.test:3128" })
	require.Equal(t, "http://other.site.test:3128", b.cluster().HTTPProxy,
		"a later change of the spec is applied to the cluster")
	require.EqualValues(t, "192.168.10.44", b.cluster().APIVips[0].IP)
}

func TestProjector_clusterMadeByREST(t *testing.T) {
	b := newSite(t)
	register := func(name string) *models.Cluster {
		made, err := b.Engine.RegisterCluster(t.Context(), &models.ClusterCreateParams{
			Name: &name, BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
			PullSecret: conv.Pointer(kubetest.PullSecret),
			APIVips:    []*models.APIVip{{IP: "192.168.10.4"}}, IngressVips: []*models.IngressVip{{IP: "192.168.10.5"}},
		})
		require.NoError(t, err)
		b.WaitIdle()
		return made
	}
	made := register("edge")
	require.True(t, b.exists(objects.Namespaces, "", "edge"))
	aci := object[hiveext.AgentClusterInstall](b, objects.AgentClusterInstalls, "edge", "edge")
	require.True(t, aci.Spec.HoldInstallation, "its user starts the installation")
	require.Equal(t, []string{"192.168.10.4"}, aci.Spec.APIVIPs)
	require.Equal(t, "openshift-4.20.8-x86-64", aci.Spec.ImageSetRef.Name)
	require.True(t, b.exists(objects.ClusterImageSets, "", "openshift-4.20.8-x86-64"))
	require.Equal(t, "True", string(installConditionOf(aci, hiveext.ClusterSpecSyncedCondition).Status))
	require.Equal(t, made.Name, object[unstructured.Unstructured](b, objects.ClusterDeployments, "edge",
		"edge").Object["spec"].(map[string]any)["clusterName"])
	held := *aci

	_, err := b.clusters.Reconcile(t.Context(), "edge", "edge")
	require.NoError(t, err)
	b.WaitIdle()
	require.Equal(t, held.Spec, object[hiveext.AgentClusterInstall](b, objects.AgentClusterInstalls,
		"edge", "edge").Spec, "its reconcile changes nothing")

	second := register("edge")
	require.True(t, b.exists(objects.ClusterDeployments, "edge-"+second.ID.String()[:8], "edge"),
		"a second cluster with the name gets its own namespace")

	for _, cluster := range []*models.Cluster{made, second} {
		require.NoError(t, b.Engine.DeregisterCluster(t.Context(), cluster.ID.String(), false))
	}
	b.WaitIdle()
	b.requireNothingLeft()
	namespace := object[unstructured.Unstructured](b, objects.Namespaces, "", "edge")
	require.NotNil(t, namespace.GetDeletionTimestamp(), "the generated namespace is deleted")
	require.False(t, b.exists(objects.ClusterImageSets, "", "openshift-4.20.8-x86-64"))
	require.False(t, b.exists(objects.Secrets, "edge", "edge-pull-secret"))

	third := register("edge")
	require.True(t, b.exists(objects.ClusterDeployments, "edge-"+third.ID.String()[:8], "edge"),
		"the objects of a new cluster are not deleted with a namespace that is being deleted")
}

func TestProjector_objectsOfOthersStayTheirs(t *testing.T) {
	for name, manifest := range map[string]string{
		"pull secret": `
apiVersion: v1
kind: Secret
metadata: {name: edge-pull-secret, namespace: edge}
data: {.dockerconfigjson: ` + base64.StdEncoding.EncodeToString([]byte(
			`{"auths":{"quay.io":{"auth":"b3RoZXI6cGFzcw=="}}}`)) + `}`,
		"AgentClusterInstall": `
apiVersion: extensions.hive.openshift.io/v1beta1
kind: AgentClusterInstall
metadata: {name: edge, namespace: edge}
spec: {clusterDeploymentRef: {name: later}}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newSite(t)
			b.Apply("kind: Namespace\nmetadata: {name: edge}\napiVersion: v1", manifest)
			made, err := b.Engine.RegisterCluster(t.Context(), &models.ClusterCreateParams{
				Name: conv.Pointer("edge"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
				PullSecret: conv.Pointer(kubetest.PullSecret),
			})
			require.NoError(t, err)
			b.WaitIdle()
			namespace := "edge-" + made.ID.String()[:8]
			require.True(t, b.exists(objects.ClusterDeployments, namespace, "edge"))
			b.Update(func(tx *store.Tx) error {
				return b.clusters.updateInstall(tx, namespace, "edge", func(aci *hiveext.AgentClusterInstall) error {
					aci.Spec.Proxy = &hiveext.Proxy{HTTPProxy: "http://proxy.site.test:3128"}
					return nil
				})
			})
			b.WaitIdle()
			require.NoError(t, b.DB.View(func(tx *store.Tx) error {
				rows := b.Engine.Rows(tx)
				cluster, err := rows.Cluster(made.ID.String())
				require.NoError(t, err)
				require.Equal(t, "http://proxy.site.test:3128", cluster.HTTPProxy)
				stored, err := rows.ClusterPullSecret(cluster)
				require.Equal(t, kubetest.PullSecret, stored)
				return err
			}))
		})
	}
}

// newObjects registers a cluster, an infra-env of it, one without a cluster, and a host in each,
// and projects them. No controller runs.
func newObjects(t *testing.T) (b *testSite, machines []*kubetest.Machine) {
	b = newSite(t)
	b.stop()
	cluster, err := b.Engine.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("edge"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(kubetest.PullSecret), AdditionalNtpSource: conv.Pointer("clock.site.test"),
		APIVips: []*models.APIVip{{IP: "192.168.10.4"}}, IngressVips: []*models.IngressVip{{IP: "192.168.10.5"}},
	})
	require.NoError(t, err)
	for i, params := range []*models.InfraEnvCreateParams{
		{Name: conv.Pointer("bound"), ClusterID: cluster.ID},
		{Name: conv.Pointer("free"), OpenshiftVersion: "4.20.8", AdditionalNtpSources: conv.Pointer("clock.site.test"),
			Proxy: &models.Proxy{HTTPProxy: conv.Pointer("http://proxy.site.test:3128")}},
	} {
		params.PullSecret = conv.Pointer(kubetest.PullSecret)
		env, err := b.Engine.RegisterInfraEnv(t.Context(), params)
		require.NoError(t, err)
		m := b.Machine(env.ID.String(), i+1)
		m.Register()
		machines = append(machines, m)
	}
	require.NoError(t, b.Current(t.Context()))
	return b, machines
}

func TestProjector_newObjectsNeedNoReconcile(t *testing.T) {
	b, machines := newObjects(t)
	reconcilers := map[objects.Kind]controller.Reconciler{objects.ClusterDeployments: b.clusters}
	for _, r := range b.hosts.Reconcilers() {
		reconcilers[r.Kind()] = r
	}
	for _, key := range []controller.Key{
		{Kind: objects.ClusterDeployments, Namespace: "edge", Name: "edge"},
		{Kind: objects.InfraEnvs, Namespace: "edge", Name: "edge"},
		{Kind: objects.InfraEnvs, Namespace: "free", Name: "free"},
		{Kind: objects.Agents, Namespace: "edge", Name: machines[0].ID},
		{Kind: objects.Agents, Namespace: "free", Name: machines[1].ID},
	} {
		require.True(t, b.exists(key.Kind, key.Namespace, key.Name), key)
		before := b.DB.Revision()
		_, err := reconcilers[key.Kind].Reconcile(t.Context(), key.Namespace, key.Name)
		require.NoError(t, err)
		require.Equal(t, before, b.DB.Revision(), "%s agrees with its row from the beginning", key)
	}
}

func TestReconcile_changesOfNewObjectsByOthers(t *testing.T) {
	type names = map[string]string
	cd := func(b *testSite, fn func(*hivev1.ClusterDeployment)) {
		edited(b, objects.ClusterDeployments, "edge", fn)
	}
	aci := func(b *testSite, fn func(*hiveext.AgentClusterInstall)) {
		edited(b, objects.AgentClusterInstalls, "edge", fn)
	}
	secret := func(b *testSite, fn func(*corev1.Secret)) { edited(b, objects.Secrets, "edge-pull-secret", fn) }
	for name, change := range map[string]func(b *testSite){
		"finalizer of the ClusterDeployment": func(b *testSite) {
			cd(b, func(cd *hivev1.ClusterDeployment) { cd.Finalizers = nil })
		},
		"finalizers of both": func(b *testSite) {
			cd(b, func(cd *hivev1.ClusterDeployment) { cd.Finalizers = nil })
			aci(b, func(aci *hiveext.AgentClusterInstall) { aci.Finalizers = nil })
		},
		"label": func(b *testSite) { cd(b, func(cd *hivev1.ClusterDeployment) { cd.Labels = names{} }) },
		"status of the ClusterDeployment": func(b *testSite) {
			cd(b, func(cd *hivev1.ClusterDeployment) { cd.Status = hivev1.ClusterDeploymentStatus{} })
		},
		"owner": func(b *testSite) {
			aci(b, func(aci *hiveext.AgentClusterInstall) { aci.OwnerReferences = nil })
		},
		"condition": func(b *testSite) {
			aci(b, func(aci *hiveext.AgentClusterInstall) { aci.Status.Conditions[2].Message = "?" })
		},
		"state": func(b *testSite) {
			aci(b, func(aci *hiveext.AgentClusterInstall) { aci.Status.DebugInfo.State = "?" })
		},
		"value": func(b *testSite) {
			aci(b, func(aci *hiveext.AgentClusterInstall) { aci.Spec.APIVIPs = []string{"192.168.10.9"} })
		},
		"annotation": func(b *testSite) {
			aci(b, func(aci *hiveext.AgentClusterInstall) {
				setAnnotation(aci, annotationInstallConfigOverrides, `{"fips":true}`, false)
			})
		},
		"labels of the pull secret": func(b *testSite) {
			secret(b, func(secret *corev1.Secret) { secret.Labels = nil })
		},
		"pull secret": func(b *testSite) {
			secret(b, func(secret *corev1.Secret) {
				other := `{"auths":{"quay.io":{"auth":"b3RoZXI6cGFzcw=="}}}`
				secret.Data = map[string][]byte{corev1.DockerConfigJsonKey: []byte(other)}
			})
		},
		"no pull secret": func(b *testSite) {
			b.Update(func(tx *store.Tx) error {
				return b.Objects.Delete(tx, objects.Secrets, "edge", "edge-pull-secret", b.Clock.Now())
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := newObjects(t)
			change(b)
			before := b.DB.Revision()
			_, err := b.clusters.Reconcile(t.Context(), "edge", "edge")
			if reported, ok := errors.AsType[*controller.ReportedError](err); ok {
				err = nil
				require.ErrorContains(t, reported, "edge-pull-secret")
			}
			require.NoError(t, err)
			require.Greater(t, b.DB.Revision(), before, "the reconcile applies or reverts the change")
			require.NotEmpty(t, object[hivev1.ClusterDeployment](b, objects.ClusterDeployments, "edge",
				"edge").Finalizers)
		})
	}
}

// edited changes an object of namespace edge as a user would.
func edited[T any](b *testSite, kind objects.Kind, name string, fn func(*T)) {
	b.Helper()
	b.Update(func(tx *store.Tx) error {
		return objects.UpdateAs(b.Objects, tx, kind, "edge", name, func(object *T) error { fn(object); return nil })
	})
}

func TestCatchUp_clustersBeforeFirstEnable(t *testing.T) {
	b := newSite(t)
	b.stop()
	b.OpenEngine(b.engineOptions(nil))
	_, err := b.Engine.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("old"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(kubetest.PullSecret),
	})
	require.NoError(t, err)
	b.open()
	require.NoError(t, b.catchUp("1.0").Start(t.Context()))
	b.run()
	b.WaitIdle()
	require.True(t, b.exists(objects.AgentClusterInstalls, "old", "old"))
	require.NoError(t, b.catchUp("1.1").Start(t.Context()))
}

// TestReconcile_killedBetweenTransactions runs all steps of a cluster's lifecycle. In each step the
// process is killed after a random transaction of the engine and started again, until the step is
// complete. Then engine and objects agree, and no object exists twice.
func TestReconcile_killedBetweenTransactions(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := newSite(t)
			b.stop()
			random := rand.New(rand.NewPCG(seed, 1))
			b.Put(kubetest.PullSecretManifest)
			b.Put(imageSetManifest)
			b.Put(deploymentManifest)
			b.Put(threeNodesManifest)
			b.Put("kind: ConfigMap\nmetadata: {name: a, namespace: site}\ndata: {a.yaml: 'a: b'}")
			b.edit(func(aci *hiveext.AgentClusterInstall) {
				aci.Spec.ManifestsConfigMapRefs = []hiveext.ManifestsConfigMapReference{{Name: "a"}}
				setAnnotation(aci, annotationInstallConfigOverrides, `{"fips":true}`, false)
				setAnnotation(aci, annotationIgnoredHostValidations, "ntp-synced", false)
			})
			b.killUntilDone(random)
			b.requireAgreement("192.168.10.4")
			first := b.cluster().ID.String()

			b.edit(func(aci *hiveext.AgentClusterInstall) {
				aci.Spec.APIVIPs = []string{"192.168.10.6"}
				aci.Spec.ManifestsConfigMapRefs = nil
			})
			b.killUntilDone(random)
			b.requireAgreement("192.168.10.6")
			require.Equal(t, first, b.cluster().ID.String())
			listed, err := b.Engine.Manifests(first, false)
			require.NoError(t, err)
			require.Empty(t, listed)

			b.Update(func(tx *store.Tx) error {
				return b.Objects.Delete(tx, objects.ClusterDeployments, "site", "one", b.Clock.Now())
			})
			b.killUntilDone(random)
			b.requireNothingLeft()
		})
	}
}

// edit changes the AgentClusterInstall while the controllers are stopped.
func (b *testSite) edit(fn func(*hiveext.AgentClusterInstall)) {
	b.Helper()
	b.Update(func(tx *store.Tx) error {
		return b.clusters.updateInstall(tx, "site", "one",
			func(aci *hiveext.AgentClusterInstall) error { fn(aci); return nil })
	})
}

// killUntilDone reconciles and kills the process after one of the engine's next transactions. It
// repeats that until a reconcile changes nothing.
func (b *testSite) killUntilDone(random *rand.Rand) {
	b.Helper()
	for range 50 {
		b.open()
		before := b.DB.Revision()
		ctx, cancel := context.WithCancel(b.Context())
		b.changed = countdown(1+random.IntN(4), cancel)
		_, err := b.clusters.Reconcile(ctx, "site", "one")
		ended := ctx.Err() != nil
		cancel()
		if !ended {
			require.NoError(b, err)
			if b.DB.Revision() == before {
				return
			}
		}
		require.LessOrEqual(b, b.clusterCount(), 1, "no cluster is created twice")
	}
	b.Fatal("the controller does not become idle")
}

func countdown(left int, cancel context.CancelFunc) func() {
	return func() {
		if left--; left == 0 {
			cancel()
		}
	}
}

func (b *testSite) clusterCount() (count int) {
	b.Helper()
	require.NoError(b, b.DB.View(func(tx *store.Tx) error {
		ids, err := b.Engine.Rows(tx).ClusterIDs()
		count = len(ids)
		return err
	}))
	return count
}

// requireAgreement asserts that the engine's cluster has the values of its objects, and that the
// objects show its state.
func (b *testSite) requireAgreement(apiVIP string) {
	b.Helper()
	b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "")
	cluster, aci := b.cluster(), b.aci()
	require.Equal(b, 1, b.clusterCount())
	require.EqualValues(b, apiVIP, cluster.APIVips[0].IP)
	require.Equal(b, []string{apiVIP}, aci.Status.APIVIPs)
	require.Equal(b, *cluster.Status, aci.Status.DebugInfo.State)
	require.Equal(b, `{"fips":true}`, cluster.InstallConfigOverrides)
	require.Equal(b, `["ntp-synced"]`, cluster.IgnoredHostValidations)
	require.Equal(b, []string{clusterInstallFinalizer}, aci.Finalizers)
	w, err := desiredCluster(clusterPair{cd: b.cd(), aci: aci}, cluster)
	require.NoError(b, err)
	require.Empty(b, differingFields(w, cluster))
}

func TestReferences_ofClusterDeployment(t *testing.T) {
	b := newSite(t)
	naming := func(name string) []controller.Key {
		keys, err := b.clusters.deploymentsReferringTo(nil, "site", name)
		require.NoError(t, err)
		return keys
	}
	b.applyInstall(threeNodesManifest, nil)
	require.Equal(t, []controller.Key{deploymentKey("site", "one")}, naming("pull"))
	b.alterInstall(func(aci *hiveext.AgentClusterInstall) {
		aci.Spec.ManifestsConfigMapRefs = []hiveext.ManifestsConfigMapReference{{Name: "extra"}}
	})
	require.Len(t, naming("extra"), 1)
	b.alterInstall(func(aci *hiveext.AgentClusterInstall) { aci.Spec.ManifestsConfigMapRefs = nil })
	require.Empty(t, naming("extra"))
	b.Delete(objects.ClusterDeployments, "site", "one")
	require.Empty(t, naming("pull"))
	require.Zero(t, b.clusters.references.Len())
}
