package engine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/machine"
	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/audit"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/appliance/sitekey"
	"landfall/store"
)

const testPullSecret = `{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}`

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// harness is an engine with a fake clock. Tests handle deadlines and run preparations explicitly;
// Engine.Run does not run.
type harness struct {
	testing.TB
	*Engine
	clock     *clockwork.FakeClock
	releases  *testReleases
	authority string          // PEM
	auditor   *audit.Auditor  // nil: changes are not checked
	secrets   *sitekey.Box    // for the engines of engineOver; nil stores clear text
	issuer    *machine.Issuer // of tokens; nil does not authenticate machines
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	clock := clockwork.NewFakeClockAt(noon)
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Clock: clock, NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	b := &harness{TB: t, clock: clock, authority: testCertificate(t)}
	b.releases = &testReleases{authority: b.authority}
	b.Engine = b.engineOver(db)
	return b
}

// newSealingHarness returns a harness whose engine seals pull secrets and generated files.
func newSealingHarness(t testing.TB) *harness {
	t.Helper()
	b := newHarness(t)
	var key *sitekey.Key
	key, b.secrets = testBox(t)
	var err error
	b.issuer, err = machine.NewIssuer(key, b.secrets)
	require.NoError(t, err)
	b.Engine = b.engineOver(b.options.DB)
	return b
}

// testBox returns a new key and a box with it.
func testBox(t testing.TB) (*sitekey.Key, *sitekey.Box) {
	t.Helper()
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	box, err := key.Box("pull-secrets", nil)
	require.NoError(t, err)
	return key, box
}

// engineOver returns an engine on a database that an earlier engine may have used.
func (b *harness) engineOver(db *store.DB) *Engine {
	e, err := New(Options{
		Observer: b.observe,
		DB:       db, Releases: b.releases, Mirror: &mirror.Rules{}, Clock: b.clock,
		Secrets: b.secrets, Tokens: b.issuer, URL: "http://appliance.site.test:8090",
		ReleaseList: []ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64",
			URL: "quay.io/release:4.20.8", Default: true}},
	})
	require.NoError(b, err)
	return e
}

func (b *harness) observe(e *Engine, c Committed) {
	if b.auditor != nil {
		b.auditor.Check(audit.Site{Engine: e, DB: e.options.DB, Now: b.clock.Now}, audit.Change(c))
	}
}

// sweep audits the whole store.
func (b *harness) sweep() *audit.Violation {
	return b.auditor.Sweep(audit.Site{Engine: b.Engine, DB: b.options.DB, Now: b.clock.Now})
}

// testReleases contains one release. Its installer generates minimal files of a cluster.
type testReleases struct {
	authority string
	failure   error         // returned by Generate
	started   chan struct{} // if set, Generate sends to it and then waits until its context ends
	running   atomic.Int64
	made      atomic.Int64 // number of calls of Generate
	onPayload func()       // if set, Payload calls it first
}

func (r *testReleases) Payload(_ context.Context, pullSpec, arch string, _ authn.Keychain) (*release.Payload, error) {
	if r.onPayload != nil {
		r.onPayload()
	}
	images := make(map[string]string)
	for _, tag := range []string{release.TagInstaller, release.TagAgent, release.TagHostInstaller,
		release.TagController, release.TagMachineConfigOperator, release.TagMustGather, release.TagCoreOS} {
		images[tag] = "quay.io/parts/" + tag + "@sha256:" + strings.Repeat("a", 64)
	}
	return &release.Payload{PullSpec: pullSpec, Image: "quay.io/release@sha256:" + strings.Repeat("b", 64),
		Version: "4.20.8", Architecture: arch, Images: images}, nil
}

func (r *testReleases) Installer(_ context.Context, _ *release.Payload, _ authn.Keychain,
	progress func(done, total int64)) (*release.Installer, func(), error) {
	for done := range int64(11) {
		progress(done*10, 100)
	}
	return &release.Installer{Path: "/nowhere/openshift-install"}, func() {}, nil
}

func (r *testReleases) Generate(ctx context.Context, _ *release.Installer,
	_ release.GenerateRequest) (*release.Generated, error) {
	r.running.Add(1)
	defer r.running.Add(-1)
	if r.started != nil {
		r.started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if r.failure != nil {
		return nil, r.failure
	}
	r.made.Add(1)
	ignition := []byte(`{"ignition":{"version":"3.2.0"}}`)
	return &release.Generated{
		ClusterID: "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", InfraID: "bench-x7kq2",
		Files: map[string][]byte{
			release.BootstrapIgnition: ignition, release.MasterIgnition: ignition, release.WorkerIgnition: ignition,
			release.KubeadminPassword: []byte("aaaaa-bbbbb-ccccc-ddddd"), release.Metadata: []byte("{}"),
			release.InstallConfig: []byte("{}"),
			release.Kubeconfig: []byte("clusters:\n- name: bench\n  cluster:\n    server: " +
				"https://api.bench.site.test:6443\n    certificate-authority-data: " +
				base64.StdEncoding.EncodeToString([]byte(r.authority)) + "\nusers:\n- name: admin\n"),
		},
	}, nil
}

// testCertificate makes a certificate authority.
func testCertificate(t testing.TB) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: noon,
		NotAfter: noon.AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// pass moves the clock forward in short steps and handles due deadlines. The polling hosts stay
// connected.
func (b *harness) pass(d time.Duration, polling ...*testHost) {
	b.Helper()
	const step = time.Minute
	for d > 0 {
		b.clock.Advance(min(d, step))
		d -= step
		for _, h := range polling {
			h.poll()
		}
		b.handle()
	}
}

// handle handles all deadlines that have passed.
func (b *harness) handle() {
	b.Helper()
	for range 1000 {
		wait, err := b.handleDue(b.Context())
		require.NoError(b, err)
		if wait > 0 {
			return
		}
	}
	b.Fatal("some deadline becomes due again and again")
}

// prepareAll runs the pending preparations.
func (b *harness) prepareAll() {
	b.Helper()
	wanted, err := b.unfinishedPreparations()
	require.NoError(b, err)
	for id, preparation := range wanted {
		b.prepare(b.Context(), id, preparation)
	}
}

// singleNode registers a cluster of one node and its infra-env.
func (b *harness) singleNode() (cluster, env string) {
	b.Helper()
	created, err := b.RegisterCluster(b.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("bench"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret:        conv.Pointer(testPullSecret),
		ControlPlaneCount: conv.Pointer[int64](1),
	})
	require.NoError(b, err)
	return created.ID.String(), b.infraEnvOf(created.ID)
}

// clusterOfThree registers a cluster of three nodes without hosts.
func (b *harness) clusterOfThree() *models.Cluster {
	b.Helper()
	created, err := b.RegisterCluster(b.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("bench"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(testPullSecret),
	})
	require.NoError(b, err)
	return created
}

// threeNodes registers a cluster of three nodes with hosts that pass all validations. Without vips,
// the cluster lacks its virtual addresses.
func (b *harness) threeNodes(vips bool) (cluster string, hosts []*testHost) {
	b.Helper()
	params := &models.ClusterCreateParams{
		Name: conv.Pointer("bench"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(testPullSecret),
	}
	if vips {
		params.APIVips = []*models.APIVip{{IP: "192.168.10.4"}}
		params.IngressVips = []*models.IngressVip{{IP: "192.168.10.5"}}
	}
	created, err := b.RegisterCluster(b.Context(), params)
	require.NoError(b, err)
	env := b.infraEnvOf(created.ID)
	for number := 1; number <= 3; number++ {
		hosts = append(hosts, b.member(env, number))
	}
	b.reportAll(hosts)
	return created.ID.String(), hosts
}

// member registers a host for a cluster of several hosts, which has virtual IPs instead of a load
// balancer.
func (b *harness) member(env string, number int) *testHost {
	b.Helper()
	h := b.newHost(env, number)
	h.loadBalancer = false
	require.NoError(b, h.register())
	return h
}

// reportAll sends reports of the hosts until the connectivity reports of all hosts are complete.
func (b *harness) reportAll(hosts []*testHost) {
	b.Helper()
	for range 4 {
		for _, h := range hosts {
			h.reportOnce()
		}
	}
}

// infraEnvOf registers an infra-env. It belongs to no cluster if cluster is nil.
func (b *harness) infraEnvOf(cluster *strfmt.UUID) string {
	b.Helper()
	env, err := b.RegisterInfraEnv(b.Context(), &models.InfraEnvCreateParams{
		Name: conv.Pointer("bench_infra-env"), ClusterID: cluster, PullSecret: conv.Pointer(testPullSecret),
		OpenshiftVersion: "4.20.8",
	})
	require.NoError(b, err)
	select { // Run does this for infra-envs whose agent image must be resolved
	case id := <-b.unfrozen:
		require.NoError(b, b.freeze(b.Context(), id, ""))
	default:
	}
	return env.ID.String()
}

func (b *harness) requireCluster(id, status string) *models.Cluster {
	b.Helper()
	cluster, err := b.Cluster(id)
	require.NoError(b, err)
	require.Equal(b, status, *cluster.Status, *cluster.StatusInfo)
	return cluster
}

// names lists the names of the events about a cluster, infra-env or host, in order.
func (b *harness) names(filter event.Filter) []string {
	b.Helper()
	page, err := b.Events(filter)
	require.NoError(b, err)
	var names []string
	for _, ev := range page.Events {
		names = append(names, ev.Name)
	}
	return names
}

// subscriptionOf reads the outbox entry of a cluster.
func (b *harness) subscriptionOf(id string) *outbox.Desired {
	b.Helper()
	var row *outbox.Desired
	require.NoError(b, b.options.DB.View(func(tx *store.Tx) (err error) {
		row, err = outbox.DesiredRows.Get(tx, id)
		return err
	}))
	return row
}

func (b *harness) outboxKeys() []string {
	b.Helper()
	var keys []string
	require.NoError(b, b.options.DB.View(func(tx *store.Tx) error {
		return outbox.DesiredRows.Keys(tx, "", func(key string) error {
			keys = append(keys, key)
			return nil
		})
	}))
	return keys
}

// testHost is a machine whose agent executes steps when the test calls its methods.
type testHost struct {
	b         *harness
	env, id   string
	number    int
	skew      time.Duration // of the machine's clock
	memory    int64         // bytes
	maker     string
	agent     string
	dualStack bool
	diskFails bool
	imageGone bool
	// loadBalancer is true if the site's DNS resolves the cluster's names to this host.
	loadBalancer bool
	balancedTo   int                     // number of the host to which the names resolve instead
	alter        func(*models.Inventory) // changes the inventory; may be nil
}

func (b *harness) newHost(env string, number int) *testHost {
	return &testHost{b: b, env: env, number: number, id: fmt.Sprintf("00000000-0000-4000-8000-%012d", number),
		memory: 64 << 30, maker: "Dell Inc.", agent: "quay.io/parts/agent", loadBalancer: true}
}

// host registers a host, which then replies to its steps.
func (b *harness) host(env string, number int) *testHost {
	b.Helper()
	h := b.newHost(env, number)
	require.NoError(b, h.register())
	h.report()
	return h
}

func (h *testHost) register() error {
	id := strfmt.UUID(h.id)
	_, err := h.b.RegisterHost(h.b.Context(), h.env, &models.HostCreateParams{HostID: &id,
		DiscoveryAgentVersion: h.agent})
	return err
}

func (h *testHost) poll() *models.Steps {
	h.b.Helper()
	body, err := h.b.Instructions(h.b.Context(), Poll{
		InfraEnvID: h.env, HostID: h.id, AgentVersion: h.agent, Timestamp: h.b.clock.Now().Add(h.skew).Unix(),
	})
	require.NoError(h.b, err)
	var steps models.Steps
	require.NoError(h.b, json.Unmarshal(body, &steps))
	return &steps
}

// report polls and replies repeatedly, because replies cause new steps.
func (h *testHost) report() {
	h.b.Helper()
	for range 3 {
		h.reportOnce()
	}
}

// reportOnce polls once and replies to the steps.
func (h *testHost) reportOnce() {
	h.b.Helper()
	for _, step := range h.poll().Instructions {
		if answer := h.answer(step); answer != nil {
			require.NoError(h.b, h.reply(answer), string(step.StepType))
		}
	}
}

func (h *testHost) reply(reply *models.StepReply) error {
	return h.b.ApplyStepReply(h.b.Context(), h.env, h.id, reply)
}

// answer returns the host's reply to a step, or nil if it does not reply.
func (h *testHost) answer(step *models.Step) *models.StepReply {
	reply := &models.StepReply{StepType: step.StepType, StepID: step.StepID}
	var output any
	switch step.StepType {
	case models.StepTypeInventory:
		output = h.inventory()
	case models.StepTypeNtpSynchronizer:
		output = models.NtpSynchronizationResponse{NtpSources: []*models.NtpSource{{SourceName: "ntp.site.test",
			SourceState: models.SourceStateSynced}}}
	case models.StepTypeDomainResolution:
		output = h.resolve(step.Args[0])
	case models.StepTypeConnectivityCheck:
		output = h.fullConnectivity(step.Args[0])
	case models.StepTypeVerifyVips:
		output = h.verify(step.Args[0])
	case models.StepTypeInstallationDiskSpeedCheck:
		if h.diskFails {
			reply.ExitCode, reply.Error = 1, "input/output error"
			return reply
		}
		output = models.DiskSpeedCheckResponse{IoSyncDuration: 2, Path: "/dev/sda"}
	case models.StepTypeAPIVipConnectivityCheck:
		output = models.APIVipConnectivityResponse{IsSuccess: true}
	case models.StepTypeContainerImageAvailability:
		output = h.pull(step.Args[0])
	default:
		return nil
	}
	text, err := json.Marshal(output)
	require.NoError(h.b, err)
	reply.Output = string(text)
	return reply
}

func (h *testHost) inventory() *models.Inventory {
	inventory := h.plainInventory()
	if h.dualStack {
		inventory.Interfaces[0].IPV6Addresses = []string{fmt.Sprintf("fd00:10::%d/64", 10+h.number)}
	}
	if h.alter != nil {
		h.alter(inventory)
	}
	return inventory
}

func (h *testHost) plainInventory() *models.Inventory {
	return &models.Inventory{
		Hostname: fmt.Sprintf("node-%d", h.number), CPU: &models.CPU{Count: 16, Architecture: "x86_64"},
		Memory: &models.Memory{PhysicalBytes: h.memory, UsableBytes: h.memory},
		SystemVendor: &models.SystemVendor{Manufacturer: h.maker, ProductName: "PowerEdge R650",
			SerialNumber: fmt.Sprintf("S%d", h.number)},
		Boot: &models.Boot{CurrentBootMode: "uefi"},
		Disks: []*models.Disk{
			{ID: "/dev/disk/by-id/a", ByID: "/dev/disk/by-id/a", Name: "sda", Path: "/dev/sda",
				DriveType: models.DriveTypeSSD, SizeBytes: 480e9, HasUUID: true,
				InstallationEligibility: models.DiskInstallationEligibility{Eligible: true}},
			{ID: "/dev/disk/by-id/b", ByID: "/dev/disk/by-id/b", Name: "sdb", Path: "/dev/sdb",
				DriveType: models.DriveTypeSSD, SizeBytes: 480e9, HasUUID: true,
				InstallationEligibility: models.DiskInstallationEligibility{Eligible: true}},
			{ID: "/dev/disk/by-id/c", ByID: "/dev/disk/by-id/c", Name: "sdc", Path: "/dev/sdc",
				DriveType: models.DriveTypeSSD, SizeBytes: 10e9},
		},
		Interfaces: []*models.Interface{{Name: "eno1", HasCarrier: true, MacAddress: fmt.Sprintf("52:54:00:00:00:%02d",
			h.number), IPV4Addresses: []string{fmt.Sprintf("192.168.10.%d/24", 10+h.number)}}},
		Routes:     []*models.Route{{Destination: "0.0.0.0", Gateway: "192.168.10.1", Interface: "eno1", Family: 2}},
		TpmVersion: models.InventoryTpmVersionNr20,
	}
}

// fullConnectivity reports that the host can connect to all others.
func (h *testHost) fullConnectivity(argument string) *models.ConnectivityReport {
	var others models.ConnectivityCheckParams
	require.NoError(h.b, json.Unmarshal([]byte(argument), &others))
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

func (h *testHost) verify(argument string) models.VerifyVipsResponse {
	var request models.VerifyVipsRequest
	require.NoError(h.b, json.Unmarshal([]byte(argument), &request))
	var response models.VerifyVipsResponse
	for _, vip := range request {
		free := models.VipVerificationSucceeded
		response = append(response, &models.VerifiedVip{Vip: vip.Vip, VipType: vip.VipType, Verification: &free})
	}
	return response
}

// resolve reports that the site's DNS resolves the cluster's names to the host, except for names
// that must not exist.
func (h *testHost) resolve(argument string) *models.DomainResolutionResponse {
	var request models.DomainResolutionRequest
	require.NoError(h.b, json.Unmarshal([]byte(argument), &request))
	response := &models.DomainResolutionResponse{}
	for _, domain := range request.Domains {
		found := &models.DomainResolutionResponseDomain{DomainName: domain.DomainName}
		if h.loadBalancer && (strings.HasPrefix(*domain.DomainName, "api") || strings.Contains(*domain.DomainName,
			".apps.")) {
			balanced := h.number
			if h.balancedTo != 0 {
				balanced = h.balancedTo
			}
			found.IPV4Addresses = []strfmt.IPv4{strfmt.IPv4(fmt.Sprintf("192.168.10.%d", 10+balanced))}
		}
		response.Resolutions = append(response.Resolutions, found)
	}
	return response
}

func (h *testHost) pull(argument string) *models.ContainerImageAvailabilityResponse {
	var request models.ContainerImageAvailabilityRequest
	require.NoError(h.b, json.Unmarshal([]byte(argument), &request))
	response := &models.ContainerImageAvailabilityResponse{}
	for _, image := range request.Images {
		result := models.ContainerImageAvailabilityResultSuccess
		if h.imageGone {
			result = models.ContainerImageAvailabilityResultFailure
		}
		response.Images = append(response.Images, &models.ContainerImageAvailability{Name: image, Result: result,
			Time: 1, SizeBytes: 1e8, DownloadRate: 1e8})
	}
	return response
}

func (h *testHost) progress(stage models.HostStage, info string) error {
	return h.b.RecordHostProgress(h.b.Context(), h.env, h.id, &models.HostProgress{CurrentStage: stage,
		ProgressInfo: info})
}

// reportStagesUpTo reports the stages of an installation up to the given one.
func (h *testHost) reportStagesUpTo(last models.HostStage) {
	h.b.Helper()
	host := h.require("")
	for _, stage := range host.ProgressStages {
		require.NoError(h.b, h.progress(stage, ""))
		if stage == last {
			return
		}
	}
	h.b.Fatalf("host %d has no stage %q", h.number, last)
}

// require returns the host and asserts its status, unless the status is "".
func (h *testHost) require(status string) *models.Host {
	h.b.Helper()
	host, err := h.b.Host(h.env, h.id)
	require.NoError(h.b, err)
	if status != "" {
		require.Equal(h.b, status, *host.Status, "%s %s", *host.StatusInfo, host.ValidationsInfo)
	}
	return host
}

// startInstallation starts the installation of a cluster, whose hosts are then being prepared.
func (b *harness) startInstallation(cluster string) {
	b.Helper()
	_, err := b.InstallCluster(b.Context(), cluster)
	require.NoError(b, err)
	b.requireCluster(cluster, lifecycle.ClusterPreparing)
}

// installing starts the installation of a single-node cluster.
func (b *harness) installing() (cluster string, h *testHost) {
	b.Helper()
	cluster, env := b.singleNode()
	h = b.host(env, 1)
	h.require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	h.require(lifecycle.HostInstalling)
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
	return cluster, h
}

// finalizing installs a single-node cluster until its host is installed.
func (b *harness) finalizing() (cluster string, h *testHost) {
	b.Helper()
	cluster, h = b.installing()
	h.reportStagesUpTo(models.HostStageDone)
	h.require(lifecycle.HostInstalled)
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	return cluster, h
}

// installed installs a single-node cluster completely.
func (b *harness) installed() (cluster string, h *testHost) {
	b.Helper()
	cluster, h = b.finalizing()
	b.complete(cluster)
	return cluster, h
}

// complete sends the last reports of an installation.
func (b *harness) complete(cluster string) {
	b.Helper()
	require.NoError(b, b.UploadIngressCert(b.Context(), cluster, b.authority))
	_, err := b.CompleteInstallation(b.Context(), cluster, true, "")
	require.NoError(b, err)
	b.requireCluster(cluster, lifecycle.ClusterInstalled)
}

// requireRejected asserts that an error has the given kind and contains the text want.
func (b *harness) requireRejected(err error, kind fault.Kind, want string) {
	b.Helper()
	require.ErrorContains(b, err, want)
	require.Equal(b, kind, fault.KindOf(err), err.Error())
}

var errNoMachine = errors.New("install-config: no machine has that address")
