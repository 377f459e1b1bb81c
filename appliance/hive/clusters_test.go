package hive

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/jonboulle/clockwork"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"landfall/appliance/controller"
	"landfall/appliance/engine"
	"landfall/appliance/mirror"
	"landfall/appliance/objects"
	"landfall/appliance/release"
	"landfall/store"
)

const testPullSecret = `{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}`

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clusterBench is the clusters' half over a real store and a real engine, on a clock that stands still.
type clusterBench struct {
	testing.TB
	db       *store.DB
	engine   *engine.Engine
	objects  *objects.Objects
	clusters *Clusters
	clock    *clockwork.FakeClock
	releases *clusterReleases
	mirrors  map[string]*mirror.Import
}

func newClusterBench(t testing.TB) *clusterBench {
	t.Helper()
	b := &clusterBench{TB: t, clock: clockwork.NewFakeClockAt(noon), releases: &clusterReleases{}, mirrors: map[string]*mirror.Import{}}
	var err error
	b.db, err = store.Open(t.Context(), t.TempDir(), store.Options{Clock: b.clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.db.Close()) })
	b.start()
	return b
}

// start begins a process over the store.
func (b *clusterBench) start() {
	b.objects = objects.New(nil, nil)
	b.clusters = NewClusters(ClustersOptions{DB: b.db, Objects: b.objects, Mirrors: b, URL: "http://appliance.site.test:8090", Clock: b.clock, Logger: slog.New(slog.DiscardHandler)})
	var err error
	b.engine, err = engine.New(engine.Options{
		DB: b.db, Releases: b.releases, Mirror: &mirror.Rules{}, Clock: b.clock, URL: "http://appliance.site.test:8090", Projector: Projectors{b.clusters},
		ReleaseList: []engine.ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64", URL: "quay.io/release:4.20.8", Default: true}},
		Images:      engine.Images{Agent: "quay.io/parts/agent"},
	})
	require.NoError(b, err)
	b.clusters.Use(b.engine)
}

// SetMirror implements Mirrors.
func (b *clusterBench) SetMirror(_ context.Context, level mirror.Level, name string, rules *mirror.Import) error {
	b.mirrors[level.Cluster+"/"+name] = rules
	return nil
}

// settle runs the controllers until they have nothing to do.
func (b *clusterBench) settle() {
	b.Helper()
	loop := controller.New(b.db, b.clock, slog.New(slog.DiscardHandler))
	b.clusters.AddTo(loop)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	require.NoError(b, loop.Quiet(b.Context()))
	cancel()
	require.NoError(b, <-ended)
}

// apply writes manifests as a person would, without the API server.
func (b *clusterBench) apply(manifests ...string) {
	b.Helper()
	for _, manifest := range manifests {
		for _, document := range strings.Split(manifest, "\n---\n") {
			u := &unstructured.Unstructured{}
			content, err := yaml.YAMLToJSON([]byte(document))
			require.NoError(b, err)
			require.NoError(b, u.UnmarshalJSON(content))
			kind := b.kindOf(u)
			b.update(func(tx *store.Tx) error {
				if !b.objects.Exists(tx, kind, u.GetNamespace(), u.GetName()) {
					return b.objects.Create(tx, kind, u.DeepCopy(), b.clock.Now())
				}
				return b.objects.Update(tx, kind, u.GetNamespace(), u.GetName(), func(held *unstructured.Unstructured) error {
					for _, part := range []string{"spec", "data", "stringData"} {
						if u.Object[part] != nil {
							held.Object[part] = u.Object[part]
						}
					}
					if u.GetAnnotations() != nil {
						held.SetAnnotations(u.GetAnnotations())
					}
					return nil
				})
			})
		}
	}
}

func (b *clusterBench) kindOf(u *unstructured.Unstructured) objects.Kind {
	for _, kind := range objects.Kinds() {
		if kind.Kind == u.GetKind() {
			return kind
		}
	}
	b.Fatalf("no kind %s", u.GetKind())
	return objects.Kind{}
}

func (b *clusterBench) update(fn func(*store.Tx) error) {
	b.Helper()
	require.NoError(b, b.db.Update(b.Context(), fn))
}

// delete asks for an object's deletion, as kubectl does.
func (b *clusterBench) delete(kind objects.Kind, namespace, name string) {
	b.Helper()
	b.update(func(tx *store.Tx) error { return b.objects.Delete(tx, kind, namespace, name, b.clock.Now()) })
}

func (b *clusterBench) exists(kind objects.Kind, namespace, name string) (there bool) {
	b.Helper()
	require.NoError(b, b.db.View(func(tx *store.Tx) error { there = b.objects.Exists(tx, kind, namespace, name); return nil }))
	return there
}

func get[T any](b *clusterBench, kind objects.Kind, namespace, name string) *T {
	b.Helper()
	var object T
	require.NoError(b, b.db.View(func(tx *store.Tx) error { return b.objects.Get(tx, kind, namespace, name, &object) }))
	return &object
}

func (b *clusterBench) aci() *hiveext.AgentClusterInstall {
	b.Helper()
	return get[hiveext.AgentClusterInstall](b, objects.AgentClusterInstalls, "site", "one")
}

func (b *clusterBench) cd() *hivev1.ClusterDeployment {
	b.Helper()
	return get[hivev1.ClusterDeployment](b, objects.ClusterDeployments, "site", "one")
}

// cluster is the engine's cluster of the ClusterDeployment, nil if there is none.
func (b *clusterBench) cluster() *models.Cluster {
	b.Helper()
	var id string
	require.NoError(b, b.db.View(func(tx *store.Tx) (err error) { id, err = b.engine.Rows(tx).ClusterOf("site/one"); return err }))
	if id == "" {
		return nil
	}
	cluster, err := b.engine.Cluster(id)
	require.NoError(b, err)
	return cluster
}

// condition wants a condition of the AgentClusterInstall to be so.
func (b *clusterBench) condition(kind hivev1.ClusterInstallConditionType, status, reason, message string) {
	b.Helper()
	is := installConditionOf(b.aci(), kind)
	require.Equal(b, []string{status, reason}, []string{string(is.Status), is.Reason}, is.Message)
	require.Contains(b, is.Message, message)
}

const (
	pullManifest = `
apiVersion: v1
kind: Secret
metadata: {name: pull, namespace: site}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: eyJhdXRocyI6eyJxdWF5LmlvIjp7ImF1dGgiOiJkWE5sY2pwd1lYTnoifX19}`
	imageSetManifest = `
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: v4.20}
spec: {releaseImage: "quay.io/release:4.20.8"}`
	deploymentManifest = `
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: one, namespace: site}
spec:
  clusterName: edge
  baseDomain: site.test
  platform: {agentBareMetal: {agentSelector: {}}}
  pullSecretRef: {name: pull}
  clusterInstallRef: {group: extensions.hive.openshift.io, version: v1beta1, kind: AgentClusterInstall, name: one}`
	singleNodeManifest = `
apiVersion: extensions.hive.openshift.io/v1beta1
kind: AgentClusterInstall
metadata: {name: one, namespace: site}
spec:
  clusterDeploymentRef: {name: one}
  imageSetRef: {name: v4.20}
  networking:
    clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
    serviceNetwork: [172.30.0.0/16]
    machineNetwork: [{cidr: 192.168.10.0/24}]
  provisionRequirements: {controlPlaneAgents: 1}`
	threeNodesManifest = `
apiVersion: extensions.hive.openshift.io/v1beta1
kind: AgentClusterInstall
metadata: {name: one, namespace: site}
spec:
  clusterDeploymentRef: {name: one}
  imageSetRef: {name: v4.20}
  apiVIPs: [192.168.10.4]
  ingressVIPs: [192.168.10.5]
  networking:
    clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
    serviceNetwork: [172.30.0.0/16]
    machineNetwork: [{cidr: 192.168.10.0/24}]
  provisionRequirements: {controlPlaneAgents: 3}`
)

// alterInstall edits the AgentClusterInstall as a person would.
func (b *clusterBench) alterInstall(fn func(*hiveext.AgentClusterInstall)) {
	b.Helper()
	b.update(func(tx *store.Tx) error {
		return b.clusters.alterInstall(tx, "site", "one", func(aci *hiveext.AgentClusterInstall) error { fn(aci); return nil })
	})
}

// clusterReleases has one release, whose installer writes the smallest files that are taken for a cluster's.
type clusterReleases struct {
	failure error // of Payload
	multi   bool
}

func (r *clusterReleases) Payload(_ context.Context, pullSpec, _ string, _ authn.Keychain) (*release.Payload, error) {
	if r.failure != nil {
		return nil, r.failure
	}
	images := make(map[string]string)
	for _, tag := range []string{release.TagInstaller, release.TagAgent, release.TagHostInstaller, release.TagController, release.TagMachineConfigOperator, release.TagMustGather} {
		images[tag] = "quay.io/parts/" + tag + "@sha256:" + strings.Repeat("a", 64)
	}
	version := pullSpec[strings.LastIndex(pullSpec, ":")+1:]
	return &release.Payload{PullSpec: pullSpec, Image: "quay.io/release@sha256:" + strings.Repeat("b", 64), Version: version, Architecture: "x86_64", Multi: r.multi, Images: images}, nil
}

func (r *clusterReleases) Installer(_ context.Context, _ *release.Payload, _ authn.Keychain, _ func(done, total int64)) (*release.Installer, func(), error) {
	return &release.Installer{Path: "/nowhere/openshift-install"}, func() {}, nil
}

func (r *clusterReleases) Generate(context.Context, *release.Installer, release.GenerateRequest) (*release.Generated, error) {
	ignition := []byte(`{"ignition":{"version":"3.2.0"}}`)
	return &release.Generated{
		ClusterID: "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", InfraID: "bench-x7kq2",
		Files: map[string][]byte{
			release.BootstrapIgnition: ignition, release.MasterIgnition: ignition, release.WorkerIgnition: ignition,
			release.KubeadminPassword: []byte("aaaaa-bbbbb-ccccc-ddddd\n"), release.Metadata: []byte("{}"), release.InstallConfig: []byte("{}"),
			release.Kubeconfig: []byte("clusters:\n- name: bench\n  cluster:\n    server: https://api.bench.site.test:6443\nusers:\n- name: admin\n"),
		},
	}, nil
}

func TestAClusterIsRegisteredWhenAllThatItRefersToIsThereInAnyOrder(t *testing.T) {
	manifests := []string{pullManifest, imageSetManifest, deploymentManifest, threeNodesManifest}
	for start := range manifests {
		b := newClusterBench(t)
		for i := range manifests {
			require.Nil(t, b.cluster())
			b.apply(manifests[(start+i)%len(manifests)])
			b.settle()
		}
		cluster := b.cluster()
		require.NotNil(t, cluster)
		require.Equal(t, "edge", cluster.Name)
		require.Equal(t, "4.20.8", cluster.OpenshiftVersion)
		require.EqualValues(t, "192.168.10.4", cluster.APIVips[0].IP)
		b.condition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK", "The Spec has been successfully applied")
		b.condition(hiveext.ClusterRequirementsMetCondition, "False", "ClusterNotReady", "The cluster is not ready to begin the installation")

		aci, cd := b.aci(), b.cd()
		var order []string
		for _, c := range aci.Status.Conditions {
			order = append(order, string(c.Type))
		}
		require.Equal(t, []string{"SpecSynced", "Validated", "RequirementsMet", "Completed", "Failed", "Stopped", "LastInstallationPreparationFailed"}, order)
		require.Equal(t, []string{clusterInstallFinalizer}, aci.Finalizers)
		require.Equal(t, []string{clusterDeploymentFinalizer}, cd.Finalizers)
		require.Equal(t, cd.UID, aci.OwnerReferences[0].UID)
		require.Equal(t, "http://appliance.site.test:8090/api/assisted-install/v2/events?cluster_id="+cluster.ID.String(), aci.Status.DebugInfo.EventsURL)
		require.Equal(t, *cluster.Status, aci.Status.DebugInfo.State)
		secret := get[unstructured.Unstructured](b, objects.Secrets, "site", "pull")
		require.Equal(t, "true", secret.GetLabels()[labelWatch])
		b.deploymentCondition("Provisioned", "False", "Provisioning")
	}
}

func (b *clusterBench) deploymentCondition(kind, status, reason string) {
	b.Helper()
	for _, c := range b.cd().Status.Conditions {
		if string(c.Type) == kind {
			require.Equal(b, []string{status, reason}, []string{string(c.Status), c.Reason}, c.Message)
			return
		}
	}
	text, _ := json.Marshal(b.cd().Status.Conditions)
	b.Fatalf("no condition %s in %s", kind, text)
}
