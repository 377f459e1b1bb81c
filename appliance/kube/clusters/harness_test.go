package clusters

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/projection"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/store"
)

// testSite is a site with the controllers of clusters and hosts.
type testSite struct {
	*kubetest.Site
	clusters  *Controller
	hosts     *hosts.Controllers
	projector engine.Projector // projects hosts and clusters
	deferred  *projection.Deferred
	configure func(*engine.Options)
	releases  *clusterReleases
	mirrorsMu sync.Mutex
	mirrors   map[string]*mirror.Import
	mirrorErr error // returned by SetMirror
	stop      func()
	changed   func() // called in each transaction of the engine; may be nil
}

// newSite returns a site whose controllers run. configure may change the options of the engine.
func newSite(t testing.TB, configure ...func(*engine.Options)) *testSite {
	t.Helper()
	b := &testSite{Site: kubetest.New(t), releases: &clusterReleases{authority: kubetest.Authority(t)},
		mirrors: map[string]*mirror.Import{}, configure: func(*engine.Options) {}}
	if len(configure) > 0 {
		b.configure = configure[0]
	}
	b.open()
	b.run()
	return b
}

// open creates an engine and the controllers, as the appliance does when it starts.
func (b *testSite) open() {
	b.Helper()
	ofHosts := hosts.Projector{Objects: b.Objects, URL: kubetest.URL}
	ofClusters := Projector{Objects: b.Objects, URL: kubetest.URL}
	b.projector = projection.Chain{ofHosts, ofClusters}
	b.deferred = projection.NewDeferred(b.projector)
	options := b.engineOptions(projection.Chain{b.deferred, b})
	b.Open(options)
	b.Current = b.catchUp("").Current
	b.clusters = New(Options{Projector: ofClusters, DB: b.DB, Engine: b.Engine, Loop: b.Loop, Mirrors: b,
		KeepCluster: options.KeepCluster, Clock: b.Clock})
	b.hosts = hosts.New(hosts.Options{Projector: ofHosts, DB: b.DB, Engine: b.Engine, Loop: b.Loop, Clock: b.Clock,
		Mirrors: b, OSImages: b})
	b.Loop.Add(b.clusters)
	b.Loop.Add(b.hosts.Reconcilers()...)
}

func (b *testSite) engineOptions(projector engine.Projector) engine.Options {
	options := engine.Options{
		Releases: b.releases, Projector: projector,
		ReleaseList: []engine.ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64",
			URL: "quay.io/release:4.20.8", Default: true}},
	}
	b.configure(&options)
	return options
}

// run starts the loop.
func (b *testSite) run() { b.stop = b.Run() }

// Known implements hosts.OSImages.
func (b *testSite) Known(version, _ string) bool { return version != "9.99" }

// Project implements engine.Projector. It runs after the tested projectors.
func (b *testSite) Project(*store.Tx, engine.Touched) error {
	if b.changed != nil {
		b.changed()
	}
	return nil
}

// SetMirror implements Mirrors.
func (b *testSite) SetMirror(_ context.Context, level mirror.Level, name string, rules *mirror.Import) error {
	if b.mirrorErr != nil {
		return b.mirrorErr
	}
	b.mirrorsMu.Lock()
	defer b.mirrorsMu.Unlock()
	b.mirrors[level.Cluster+"/"+name] = rules
	return nil
}

func (b *testSite) exists(kind objects.Kind, namespace, name string) bool {
	b.Helper()
	return b.Get(kind, namespace, name, &unstructured.Unstructured{})
}

func object[T any](b *testSite, kind objects.Kind, namespace, name string) *T {
	b.Helper()
	var object T
	require.True(b, b.Get(kind, namespace, name, &object), "%s %s/%s", kind, namespace, name)
	return &object
}

func (b *testSite) aci() *hiveext.AgentClusterInstall {
	b.Helper()
	return object[hiveext.AgentClusterInstall](b, objects.AgentClusterInstalls, "site", "one")
}

func (b *testSite) cd() *hivev1.ClusterDeployment {
	b.Helper()
	return object[hivev1.ClusterDeployment](b, objects.ClusterDeployments, "site", "one")
}

// cluster returns the engine's cluster of the ClusterDeployment; nil if it does not exist.
func (b *testSite) cluster() *models.Cluster {
	b.Helper()
	var id string
	require.NoError(b, b.DB.View(func(tx *store.Tx) (err error) {
		id,
			err = b.Engine.Rows(tx).ClusterOf("site/one")
		return err
	}))
	if id == "" {
		return nil
	}
	cluster, err := b.Engine.Cluster(id)
	require.NoError(b, err)
	return cluster
}

// requireCondition asserts a condition of the AgentClusterInstall. message is a part of its
// message.
func (b *testSite) requireCondition(kind hivev1.ClusterInstallConditionType, status, reason, message string) {
	b.Helper()
	is := installConditionOf(b.aci(), kind)
	require.Equal(b, []string{status, reason}, []string{string(is.Status), is.Reason}, is.Message)
	require.Contains(b, is.Message, message)
}

const (
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

// alterInstall changes the AgentClusterInstall as a user would.
func (b *testSite) alterInstall(fn func(*hiveext.AgentClusterInstall)) {
	b.Helper()
	b.Update(func(tx *store.Tx) error {
		return b.clusters.updateInstall(tx, "site", "one",
			func(aci *hiveext.AgentClusterInstall) error { fn(aci); return nil })
	})
	b.WaitIdle()
}

// clusterReleases serves one release. Its installer writes minimal files that pass as those of a
// cluster.
type clusterReleases struct {
	failure   error // returned by Payload
	multi     bool
	arch      string // as payloads spell it; "" is x86_64
	authority string // PEM
}

func (r *clusterReleases) Payload(_ context.Context, pullSpec, _ string, _ authn.Keychain) (*release.Payload, error) {
	if r.failure != nil {
		return nil, r.failure
	}
	images := make(map[string]string)
	for _, tag := range []string{release.TagInstaller, release.TagAgent, release.TagHostInstaller,
		release.TagController, release.TagMachineConfigOperator, release.TagMustGather} {
		images[tag] = "quay.io/parts/" + tag + "@sha256:" + strings.Repeat("a", 64)
	}
	version := pullSpec[strings.LastIndex(pullSpec, ":")+1:]
	return &release.Payload{PullSpec: pullSpec, Image: "quay.io/release@sha256:" + strings.Repeat("b", 64),
		Version: version, Architecture: cmp.Or(r.arch, "x86_64"), Multi: r.multi, Images: images}, nil
}

func (r *clusterReleases) Installer(_ context.Context, _ *release.Payload, _ authn.Keychain,
	_ func(done, total int64)) (*release.Installer, func(), error) {
	return &release.Installer{Path: "/nowhere/openshift-install"}, func() {}, nil
}

func (r *clusterReleases) Generate(context.Context, *release.Installer,
	release.GenerateRequest) (*release.Generated, error) {
	ignition := []byte(`{"ignition":{"version":"3.2.0"}}`)
	return &release.Generated{
		ClusterID: "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", InfraID: "bench-x7kq2",
		Files: map[string][]byte{
			release.BootstrapIgnition: ignition, release.MasterIgnition: ignition, release.WorkerIgnition: ignition,
			release.KubeadminPassword: []byte("aaaaa-bbbbb-ccccc-ddddd\n"), release.Metadata: []byte("{}"),
			release.InstallConfig: []byte("{}"),
			release.Kubeconfig: []byte("clusters:\n- name: bench\n  cluster:\n    server: " +
				"https://api.edge.site.test:6443\n    certificate-authority-data: " +
				base64.StdEncoding.EncodeToString([]byte(r.authority)) + "\nusers:\n- name: admin\n"),
		},
	}, nil
}

// report lets machines poll and reply four times, so that all have reported their connectivity to
// each other.
func (b *testSite) report(machines ...*kubetest.Machine) {
	b.Helper()
	for range 4 {
		for _, m := range machines {
			body, err := b.Engine.Instructions(b.Context(), engine.Poll{InfraEnvID: m.InfraEnv, HostID: m.ID,
				AgentVersion: "quay.io/parts/agent:1", Timestamp: b.Clock.Now().Unix()})
			require.NoError(b, err)
			var steps models.Steps
			require.NoError(b, json.Unmarshal(body, &steps))
			for _, step := range steps.Instructions {
				if output := answerOf(m, step); output != nil {
					text, err := json.Marshal(output)
					require.NoError(b, err)
					require.NoError(b, b.Engine.ApplyStepReply(b.Context(), m.InfraEnv, m.ID,
						&models.StepReply{StepType: step.StepType, StepID: step.StepID, Output: string(text)}))
				}
			}
		}
	}
	b.WaitIdle()
}

// answerOf returns the output of a step. It adds the steps of an installation to those of
// [kubetest.Machine.Answer].
func answerOf(m *kubetest.Machine, step *models.Step) any {
	switch step.StepType {
	case models.StepTypeConnectivityCheck:
		return reached(m, step.Args[0])
	case models.StepTypeVerifyVips:
		var request models.VerifyVipsRequest
		require.NoError(m, json.Unmarshal([]byte(step.Args[0]), &request))
		var response models.VerifyVipsResponse
		for _, vip := range request {
			free := models.VipVerificationSucceeded
			response = append(response, &models.VerifiedVip{Vip: vip.Vip, VipType: vip.VipType, Verification: &free})
		}
		return response
	case models.StepTypeContainerImageAvailability:
		var request models.ContainerImageAvailabilityRequest
		require.NoError(m, json.Unmarshal([]byte(step.Args[0]), &request))
		response := &models.ContainerImageAvailabilityResponse{}
		for _, image := range request.Images {
			response.Images = append(response.Images, &models.ContainerImageAvailability{Name: image,
				Result: models.ContainerImageAvailabilityResultSuccess, Time: 1, SizeBytes: 1e8, DownloadRate: 1e8})
		}
		return response
	}
	return m.Answer(step)
}

func reached(t testing.TB, asked string) *models.ConnectivityReport {
	var others models.ConnectivityCheckParams
	require.NoError(t, json.Unmarshal([]byte(asked), &others))
	report := &models.ConnectivityReport{}
	for _, other := range others {
		nic := other.Nics[0]
		remote := &models.ConnectivityRemoteHost{HostID: other.HostID}
		for _, address := range nic.IPAddresses {
			remote.L2Connectivity = append(remote.L2Connectivity, &models.L2Connectivity{OutgoingNic: "eno1",
				RemoteIPAddress: address, RemoteMac: string(nic.Mac), Successful: true})
			remote.L3Connectivity = append(remote.L3Connectivity, &models.L3Connectivity{OutgoingNic: "eno1",
				RemoteIPAddress: address, AverageRTTMs: 0.3, Successful: true})
			remote.MtuReport = append(remote.MtuReport, &models.MtuReport{OutgoingNic: "eno1", RemoteIPAddress: address,
				MtuSuccessful: true})
		}
		report.RemoteHosts = append(report.RemoteHosts, remote)
	}
	return report
}

// prepare runs the installer for the clusters that are being prepared, and lets the machines reply
// to their steps.
func (b *testSite) prepare(machines ...*kubetest.Machine) {
	b.Helper()
	stepper := b.Engine.Stepper()
	planned, err := stepper.Preparations()
	require.NoError(b, err)
	require.NotEmpty(b, planned, "an installation has started")
	for cluster, preparation := range planned {
		stepper.Prepare(b.Context(), cluster, preparation)
	}
	b.report(machines...)
}

// installThreeNodes installs a cluster of three nodes.
func (b *testSite) installThreeNodes() []*kubetest.Machine {
	b.Helper()
	b.applyInstall(threeNodesManifest, nil)
	b.Apply(infraEnvOfOne)
	machines := b.machines(3)
	b.approve(machines...)
	b.prepare(machines...)
	b.finish(machines...)
	return machines
}

// finish reports all stages of the machines, and the end of the installation as the controller in
// the cluster does.
func (b *testSite) finish(machines ...*kubetest.Machine) {
	b.Helper()
	for _, m := range machines {
		for _, stage := range m.Host().ProgressStages {
			require.NoError(b, b.Engine.RecordHostProgress(b.Context(), m.InfraEnv, m.ID,
				&models.HostProgress{CurrentStage: stage}))
		}
	}
	id := b.cluster().ID.String()
	require.NoError(b, b.Engine.UploadIngressCert(b.Context(), id, b.releases.authority))
	_, err := b.Engine.CompleteInstallation(b.Context(), id, true, "")
	require.NoError(b, err)
	b.WaitIdle()
}

// approve approves the Agents of machines.
func (b *testSite) approve(machines ...*kubetest.Machine) {
	b.Helper()
	for _, m := range machines {
		b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.Approved = true })
	}
}

// machines returns machines that have booted the image of the InfraEnv "one" and reported.
func (b *testSite) machines(count int) []*kubetest.Machine {
	b.Helper()
	var machines []*kubetest.Machine
	for number := range count {
		machines = append(machines, b.Machine(b.InfraEnvID("one"), number+1))
		machines[number].Register()
	}
	b.report(machines...)
	return machines
}

func (b *testSite) requireDeploymentCondition(kind, status, reason string) {
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
