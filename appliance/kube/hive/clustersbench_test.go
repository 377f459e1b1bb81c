package hive

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/jonboulle/clockwork"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/store"
)

// clusterBench is both halves of the package over a real store and a real engine, on a clock that
// stands still.
type clusterBench struct {
	*hostsBench
	db       *store.DB
	objects  *objects.Objects
	clusters *Clusters
	releases *clusterReleases
	mirrors  map[string]*mirror.Import
	stop     func()
	changed  func() // called in each transaction of the engine; may be nil
}

func newClusterBench(t testing.TB) *clusterBench {
	t.Helper()
	clock := clockwork.NewFakeClockAt(morning)
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Clock: clock, NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	b := &clusterBench{
		hostsBench: &hostsBench{TB: t, clock: clock, rules: map[ruleSet]*mirror.Import{}},
		db:         db, objects: objects.New(nil, nil), releases: &clusterReleases{authority: testAuthority(t)},
		mirrors: map[string]*mirror.Import{},
	}
	b.open(db)
	b.run()
	t.Cleanup(func() { b.stop() })
	return b
}

// open begins a process over a store; run starts its controllers.
func (b *clusterBench) open(db *store.DB) {
	b.Helper()
	quiet, url := slog.New(slog.DiscardHandler), "http://appliance.site.test:8090"
	b.clusters = NewClusters(ClustersOptions{DB: db, Objects: b.objects, Mirrors: b, URL: url, Clock: b.clock,
		Logger: quiet})
	b.Hosts = NewHosts(HostsOptions{DB: db, Objects: b.objects, Clock: b.clock, Logger: quiet, URL: url, Mirrors: b,
		OSImages: b.hostsBench})
	e, err := engine.New(engine.Options{
		DB: db, Releases: b.releases, Mirror: &mirror.Rules{}, Clock: b.clock, URL: url,
		Projector: Projectors{b.Hosts, b.clusters, EventsOf(b.clusters.Objects), b},
		ReleaseList: []engine.ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64",
			URL: "quay.io/release:4.20.8", Default: true}},
		Images: engine.Images{Agent: "quay.io/parts/agent:1"},
	})
	require.NoError(b, err)
	b.clusters.Use(e)
	b.Use(e)
}

func (b *clusterBench) run() {
	b.loop = controller.New(b.db, b.clock, slog.New(slog.DiscardHandler))
	b.clusters.AddTo(b.loop)
	b.AddTo(b.loop)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- b.loop.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(b, <-ended)
	})
}

// Project implements engine.Projector, behind those that are tried.
func (b *clusterBench) Project(*store.Tx, engine.Touched) error {
	if b.changed != nil {
		b.changed()
	}
	return nil
}

// SetMirror implements Mirrors.
func (b *clusterBench) SetMirror(_ context.Context, level mirror.Level, name string, rules *mirror.Import) error {
	b.mirrors[level.Cluster+"/"+name] = rules
	return nil
}

// apply writes manifests as a person would, without the API server, and waits for what follows.
func (b *clusterBench) apply(manifests ...string) {
	b.Helper()
	for _, manifest := range manifests {
		b.put(manifest)
	}
	b.quiet()
}

func (b *clusterBench) exists(kind objects.Kind, namespace, name string) bool {
	b.Helper()
	return b.get(kind, namespace, name, &unstructured.Unstructured{})
}

func object[T any](b *clusterBench, kind objects.Kind, namespace, name string) *T {
	b.Helper()
	var object T
	require.True(b, b.get(kind, namespace, name, &object), "%s %s/%s", kind, namespace, name)
	return &object
}

func (b *clusterBench) aci() *hiveext.AgentClusterInstall {
	b.Helper()
	return object[hiveext.AgentClusterInstall](b, objects.AgentClusterInstalls, "site", "one")
}

func (b *clusterBench) cd() *hivev1.ClusterDeployment {
	b.Helper()
	return object[hivev1.ClusterDeployment](b, objects.ClusterDeployments, "site", "one")
}

// cluster is the engine's cluster of the ClusterDeployment, nil if there is none.
func (b *clusterBench) made() *models.Cluster {
	b.Helper()
	var id string
	require.NoError(b, b.db.View(func(tx *store.Tx) (err error) {
		id,
			err = b.engine.Rows(tx).ClusterOf("site/one")
		return err
	}))
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
		return b.clusters.alterInstall(tx, "site", "one",
			func(aci *hiveext.AgentClusterInstall) error { fn(aci); return nil })
	})
	b.quiet()
}

// clusterReleases has one release, whose installer writes the smallest files that are taken for a
// cluster's.
type clusterReleases struct {
	failure   error // of Payload
	multi     bool
	authority string // PEM
}

func testAuthority(t testing.TB) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "site"},
		NotBefore: morning, NotAfter: morning.AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
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
		Version: version, Architecture: "x86_64", Multi: r.multi, Images: images}, nil
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

// report has machines answer until they have nothing new to say of each other.
func (b *clusterBench) report(machines ...*machine) {
	b.Helper()
	for range 4 {
		for _, m := range machines {
			body, err := b.engine.Instructions(b.Context(), engine.Poll{InfraEnvID: m.env, HostID: m.id,
				AgentVersion: "quay.io/parts/agent:1", Timestamp: b.clock.Now().Unix()})
			require.NoError(b, err)
			var steps models.Steps
			require.NoError(b, json.Unmarshal(body, &steps))
			for _, step := range steps.Instructions {
				if output := answerOf(m, step); output != nil {
					text, err := json.Marshal(output)
					require.NoError(b, err)
					require.NoError(b, b.engine.StepReply(b.Context(), m.env, m.id,
						&models.StepReply{StepType: step.StepType, StepID: step.StepID, Output: string(text)}))
				}
			}
		}
	}
	b.quiet()
}

// answerOf is what a machine says to a step of a cluster's installation, beside what it says for
// itself.
func answerOf(m *machine, step *models.Step) any {
	switch step.StepType {
	case models.StepTypeConnectivityCheck:
		return reached(m.b, step.Args[0])
	case models.StepTypeVerifyVips:
		var request models.VerifyVipsRequest
		require.NoError(m.b, json.Unmarshal([]byte(step.Args[0]), &request))
		var response models.VerifyVipsResponse
		for _, vip := range request {
			free := models.VipVerificationSucceeded
			response = append(response, &models.VerifiedVip{Vip: vip.Vip, VipType: vip.VipType, Verification: &free})
		}
		return response
	case models.StepTypeContainerImageAvailability:
		var request models.ContainerImageAvailabilityRequest
		require.NoError(m.b, json.Unmarshal([]byte(step.Args[0]), &request))
		response := &models.ContainerImageAvailabilityResponse{}
		for _, image := range request.Images {
			response.Images = append(response.Images, &models.ContainerImageAvailability{Name: image,
				Result: models.ContainerImageAvailabilityResultSuccess, Time: 1, SizeBytes: 1e8, DownloadRate: 1e8})
		}
		return response
	}
	return m.answer(step)
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

// prepare runs the installer for the clusters that are being prepared, and has the machines check
// what they must.
func (b *clusterBench) prepare(machines ...*machine) {
	b.Helper()
	stepper := b.engine.Stepper()
	wanted, err := stepper.Preparations()
	require.NoError(b, err)
	require.NotEmpty(b, wanted, "an installation begins")
	for cluster, preparation := range wanted {
		stepper.Prepare(b.Context(), cluster, preparation)
	}
	b.report(machines...)
}

// finish has machines report all their stages, and the controller in the cluster its end.
func (b *clusterBench) finish(machines ...*machine) {
	b.Helper()
	for _, m := range machines {
		for _, stage := range m.host().ProgressStages {
			require.NoError(b, b.engine.HostProgress(b.Context(), m.env, m.id,
				&models.HostProgress{CurrentStage: stage}))
		}
	}
	id := b.made().ID.String()
	require.NoError(b, b.engine.UploadIngressCert(b.Context(), id, b.releases.authority))
	_, err := b.engine.CompleteInstallation(b.Context(), id, true, "")
	require.NoError(b, err)
	b.quiet()
}

// approve approves machines' Agents.
func (b *clusterBench) approve(machines ...*machine) {
	b.Helper()
	for _, m := range machines {
		b.change(m, func(spec *agentinstall.AgentSpec) { spec.Approved = true })
	}
}

// machines boot the image of the InfraEnv "one" and report.
func (b *clusterBench) machines(count int) []*machine {
	b.Helper()
	var machines []*machine
	for number := range count {
		machines = append(machines, &machine{b: b.hostsBench, env: b.envID("one"), number: number + 1,
			id: fmt.Sprintf("00000000-0000-4000-8000-%012d", number+1)})
		machines[number].register()
	}
	b.report(machines...)
	return machines
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
