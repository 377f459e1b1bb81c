package hive

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"landfall/appliance/engine"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/store"
)

const sitePullSecret = `{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}`

var morning = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// hostsBench is a site: a store, an engine and the hosts' controllers, whose objects a test applies
// as a person would.
type hostsBench struct {
	testing.TB
	*Hosts
	clock   *clockwork.FakeClock
	loop    *controller.Loop
	rules   map[ruleSet]*mirror.Import // the mirror rules that are kept
	release siteReleases
	images  map[string]string      // that were asked for, with what is said of them: "" for one that is there
	asked   map[string]WantedImage // by URL, as it was asked for last
}

// ruleSet names mirror rules that are kept.
type ruleSet struct {
	level mirror.Level
	name  string
}

func newHostsBench(t testing.TB) *hostsBench {
	t.Helper()
	b := &hostsBench{TB: t, clock: clockwork.NewFakeClockAt(morning), rules: map[ruleSet]*mirror.Import{},
		images: map[string]string{}}
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Clock: b.clock, NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	b.Hosts = NewHosts(HostsOptions{
		DB: db, Objects: objects.New(nil, nil), Clock: b.clock, Logger: slog.New(slog.DiscardHandler),
		URL:     "http://appliance.site.test:8090",
		Mirrors: b, OSImages: b, Images: b,
	})
	e, err := engine.New(engine.Options{
		DB: db, Releases: &b.release, Mirror: &mirror.Rules{}, Clock: b.clock, URL: b.URL, Projector: b.Hosts,
		Images: engine.Images{Agent: "quay.io/parts/agent:1"},
		ReleaseList: []engine.ReleaseImage{
			{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64", URL: "quay.io/release:4.20.8", Default: true},
			{OpenshiftVersion: "4.19.9", CPUArchitecture: "x86_64", URL: "quay.io/release:4.19.9"},
			{OpenshiftVersion: "4.20.8", CPUArchitecture: "arm64", URL: "quay.io/release:4.20.8-arm"},
			{OpenshiftVersion: "4.20.8", CPUArchitecture: "s390x", URL: "quay.io/release:4.20.8-s390x"},
		},
	})
	require.NoError(t, err)
	b.Use(e)
	b.loop = controller.New(db, b.clock, slog.New(slog.DiscardHandler))
	b.AddTo(b.loop)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return b
}

func (b *hostsBench) SetMirror(_ context.Context, level mirror.Level, name string, rules *mirror.Import) error {
	if rules == nil {
		delete(b.rules, ruleSet{level, name})
	} else {
		b.rules[ruleSet{level, name}] = rules
	}
	return nil
}

func (b *hostsBench) FetchImages(_ context.Context, wanted []WantedImage) (waiting []string, fault string, err error) {
	if b.asked == nil {
		b.asked = map[string]WantedImage{}
	}
	for _, image := range wanted {
		b.asked[image.URL] = image
		state, asked := b.images[image.URL]
		if !asked {
			state = "on its way"
			b.images[image.URL] = state
		}
		switch {
		case strings.HasPrefix(state, "bad"):
			fault = image.URL + ": " + state
		case state != "":
			waiting = append(waiting, image.URL+": "+state)
		}
	}
	return waiting, fault, nil
}

func (b *hostsBench) Known(version, _ string) bool { return version != "9.99" }

// quiet waits until the controllers have nothing left to do.
func (b *hostsBench) quiet() {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	require.NoError(b, b.loop.Quiet(ctx))
}

// again has an object looked at once more, as its time does, and returns when that would be after
// this.
func (b *hostsBench) again(r controller.Reconciler, name string) time.Duration {
	b.Helper()
	next, err := r.Reconcile(b.Context(), "site", name)
	require.NoError(b, err)
	b.quiet()
	return next
}

func (b *hostsBench) update(fn func(tx *store.Tx) error) {
	b.Helper()
	require.NoError(b, b.DB.Update(b.Context(), fn))
}

// apply writes objects as kubectl does: what is there is replaced but for its status and metadata
// of others. It waits for what follows.
func (b *hostsBench) apply(manifests string) {
	b.Helper()
	b.put(manifests)
	b.quiet()
}

func (b *hostsBench) put(manifests string) {
	b.Helper()
	b.update(func(tx *store.Tx) error {
		for document := range strings.SplitSeq(manifests, "\n---\n") {
			var u unstructured.Unstructured
			require.NoError(b, yaml.Unmarshal([]byte(document), &u.Object))
			kind := kindNamed(u.GetKind())
			if !b.Objects.Exists(tx, kind, u.GetNamespace(), u.GetName()) {
				require.NoError(b, b.Objects.Create(tx, kind, &u, b.clock.Now()))
				continue
			}
			require.NoError(b, b.Objects.Update(tx, kind, u.GetNamespace(), u.GetName(),
				func(held *unstructured.Unstructured) error {
					for _, part := range []string{"spec", "data", "stringData"} {
						if value, ok := u.Object[part]; ok {
							held.Object[part] = value
						}
					}
					held.SetLabels(u.GetLabels())
					held.SetAnnotations(u.GetAnnotations())
					return nil
				}))
		}
		return nil
	})
}

func kindNamed(name string) objects.Kind {
	for _, kind := range objects.Kinds() {
		if kind.Kind == name {
			return kind
		}
	}
	panic("no kind " + name)
}

func (b *hostsBench) delete(kind objects.Kind, namespace, name string) {
	b.Helper()
	b.update(func(tx *store.Tx) error { return b.Objects.Delete(tx, kind, namespace, name, b.clock.Now()) })
	b.quiet()
}

// get reads an object, and tells whether it is there.
func (b *hostsBench) get(kind objects.Kind, namespace, name string, into any) bool {
	b.Helper()
	there := false
	require.NoError(b, b.DB.View(func(tx *store.Tx) error {
		if there = b.Objects.Exists(tx, kind, namespace, name); !there {
			return nil
		}
		return b.Objects.Get(tx, kind, namespace, name, into)
	}))
	return there
}

func (b *hostsBench) infraEnv(name string) *agentinstall.InfraEnv {
	b.Helper()
	env := &agentinstall.InfraEnv{}
	require.True(b, b.get(objects.InfraEnvs, "site", name, env), "InfraEnv site/%s", name)
	return env
}

// imageCreated requires the condition of an InfraEnv to be so, and its message to have a text.
func (b *hostsBench) imageCreated(name string, status corev1.ConditionStatus, reason,
	says string) *agentinstall.InfraEnv {
	b.Helper()
	env := b.infraEnv(name)
	c := agentConditionOf(env.Status.Conditions, conditionImageCreated)
	require.Equal(b, []string{string(status), reason}, []string{string(c.Status), c.Reason}, c.Message)
	require.Contains(b, c.Message, says)
	return env
}

func (b *hostsBench) envID(name string) string {
	b.Helper()
	var id string
	require.NoError(b, b.DB.View(func(tx *store.Tx) (err error) {
		id, err = b.engine.Rows(tx).InfraEnvOf("site/" + name)
		return err
	}))
	require.NotEmpty(b, id, "the InfraEnv %s has an infra-env", name)
	return id
}

// agent reads the Agent of a machine, which must be there.
func (b *hostsBench) agent(m *machine) *agentinstall.Agent {
	b.Helper()
	agent := &agentinstall.Agent{}
	require.True(b, b.get(objects.Agents, "site", m.id, agent), "Agent site/%s", m.id)
	return agent
}

// change alters an Agent's spec as kubectl patch does.
func (b *hostsBench) change(m *machine, fn func(*agentinstall.AgentSpec)) {
	b.Helper()
	b.update(func(tx *store.Tx) error {
		return b.Objects.Update(tx, objects.Agents, "site", m.id, func(u *unstructured.Unstructured) error {
			var agent agentinstall.Agent
			require.NoError(b, objects.Into(u, &agent))
			before, err := general(&agent.Spec)
			require.NoError(b, err)
			fn(&agent.Spec)
			return putSpec(u, before, &agent.Spec)
		})
	})
	b.quiet()
}

// agentCondition requires a condition of a machine's Agent to be so.
func (b *hostsBench) agentCondition(m *machine, name string, status corev1.ConditionStatus,
	reason string) agentinstall.Condition {
	b.Helper()
	c := agentConditionOf(b.agent(m).Status.Conditions, name)
	require.Equal(b, []string{string(status), reason}, []string{string(c.Status), c.Reason}, c.Message)
	return c
}

// cluster registers a cluster of one node with its ClusterDeployment, as the clusters' half of this
// package does.
func (b *hostsBench) cluster(name string) string {
	b.Helper()
	made, err := b.engine.RegisterCluster(b.Context(), &models.ClusterCreateParams{
		Name: &name, BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(sitePullSecret), ControlPlaneCount: conv.Pointer[int64](1),
	}, engine.Object{Key: "site/" + name, Generation: 1})
	require.NoError(b, err)
	b.apply("kind: ClusterDeployment\nmetadata: {namespace: site, name: " + name + ", labels: {cluster: " +
		made.ID.String() + "}}\nspec: {clusterName: " + name + "}")
	return made.ID.String()
}

const pullSecretManifest = `
kind: Secret
metadata: {namespace: site, name: pull}
stringData: {.dockerconfigjson: '{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}'}`

// infraEnvManifest is an InfraEnv with its pull secret; lines are added to its spec.
func infraEnvManifest(name string, lines ...string) string {
	text := pullSecretManifest + "\n---\nkind: InfraEnv\nmetadata: {namespace: site, name: " + name +
		"}\nspec:\n  pullSecretRef: {name: pull}\n"
	for _, line := range lines {
		text += "  " + line + "\n"
	}
	return text
}

// machine is a host with an agent that does what it is told when the test says so.
type machine struct {
	b       *hostsBench
	env, id string
	number  int
}

// boot has a machine boot the image of an InfraEnv, register, and report what it is asked for.
func (b *hostsBench) boot(env string, number int) *machine {
	b.Helper()
	m := &machine{b: b, env: b.envID(env), number: number, id: fmt.Sprintf("00000000-0000-4000-8000-%012d", number)}
	m.register()
	m.report()
	b.quiet()
	return m
}

func (m *machine) register() {
	m.b.Helper()
	id := strfmt.UUID(m.id)
	_, err := m.b.engine.RegisterHost(m.b.Context(), m.env, &models.HostCreateParams{HostID: &id,
		DiscoveryAgentVersion: "quay.io/parts/agent:1"})
	require.NoError(m.b, err)
}

func (m *machine) report() {
	m.b.Helper()
	for range 3 {
		body, err := m.b.engine.Instructions(m.b.Context(), engine.Poll{InfraEnvID: m.env, HostID: m.id,
			AgentVersion: "quay.io/parts/agent:1", Timestamp: m.b.clock.Now().Unix()})
		require.NoError(m.b, err)
		var steps models.Steps
		require.NoError(m.b, json.Unmarshal(body, &steps))
		for _, step := range steps.Instructions {
			if output := m.answer(step); output != nil {
				text, err := json.Marshal(output)
				require.NoError(m.b, err)
				require.NoError(m.b, m.b.engine.StepReply(m.b.Context(), m.env, m.id,
					&models.StepReply{StepType: step.StepType, StepID: step.StepID, Output: string(text)}))
			}
		}
	}
	m.b.quiet()
}

func (m *machine) answer(step *models.Step) any {
	switch step.StepType {
	case models.StepTypeInventory:
		return m.inventory()
	case models.StepTypeNtpSynchronizer:
		return models.NtpSynchronizationResponse{NtpSources: []*models.NtpSource{{SourceName: "ntp.site.test",
			SourceState: models.SourceStateSynced}}}
	case models.StepTypeInstallationDiskSpeedCheck:
		return models.DiskSpeedCheckResponse{IoSyncDuration: 2, Path: "/dev/sda"}
	case models.StepTypeAPIVipConnectivityCheck:
		return models.APIVipConnectivityResponse{IsSuccess: true}
	case models.StepTypeDomainResolution:
		return m.resolve(step.Args[0])
	}
	return nil
}

func (m *machine) resolve(asked string) *models.DomainResolutionResponse {
	var request models.DomainResolutionRequest
	require.NoError(m.b, json.Unmarshal([]byte(asked), &request))
	response := &models.DomainResolutionResponse{}
	for _, domain := range request.Domains {
		found := &models.DomainResolutionResponseDomain{DomainName: domain.DomainName}
		if strings.HasPrefix(*domain.DomainName, "api") || strings.Contains(*domain.DomainName, ".apps.") {
			found.IPV4Addresses = []strfmt.IPv4{strfmt.IPv4(fmt.Sprintf("192.168.10.%d", 10+m.number))}
		}
		response.Resolutions = append(response.Resolutions, found)
	}
	return response
}

func (m *machine) inventory() *models.Inventory {
	return &models.Inventory{
		Hostname: fmt.Sprintf("node-%d", m.number), CPU: &models.CPU{Count: 16, Architecture: "x86_64",
			Flags: []string{"vmx"}, Frequency: 2400},
		Memory: &models.Memory{PhysicalBytes: 64 << 30, UsableBytes: 64 << 30},
		SystemVendor: &models.SystemVendor{Manufacturer: "Dell Inc.", ProductName: "PowerEdge R650",
			SerialNumber: fmt.Sprintf("S%d", m.number)},
		Boot: &models.Boot{CurrentBootMode: "uefi"},
		Disks: []*models.Disk{
			{ID: "/dev/disk/by-id/a", ByID: "/dev/disk/by-id/a", ByPath: "/dev/disk/by-path/a", Name: "sda",
				Path: "/dev/sda", DriveType: models.DriveTypeSSD, SizeBytes: 480e9, HasUUID: true,
				InstallationEligibility: models.DiskInstallationEligibility{Eligible: true}},
			{ID: "/dev/disk/by-id/b", ByID: "/dev/disk/by-id/b", ByPath: "/dev/disk/by-path/b", Name: "sdb",
				Path: "/dev/sdb", DriveType: models.DriveTypeSSD, SizeBytes: 480e9, HasUUID: true,
				InstallationEligibility: models.DiskInstallationEligibility{Eligible: true}},
		},
		Interfaces: []*models.Interface{{Name: "eno1", HasCarrier: true, MacAddress: fmt.Sprintf("52:54:00:00:00:%02d",
			m.number), IPV4Addresses: []string{fmt.Sprintf("192.168.10.%d/24", 10+m.number)}}},
		Routes:     []*models.Route{{Destination: "0.0.0.0", Gateway: "192.168.10.1", Interface: "eno1", Family: 2}},
		TpmVersion: models.InventoryTpmVersionNr20,
	}
}

// host reads the machine's host in the engine.
func (m *machine) host() *models.Host {
	m.b.Helper()
	host, err := m.b.engine.Host(m.env, m.id)
	require.NoError(m.b, err)
	return host
}

// siteReleases has one release; its agent is found only while the registry is there.
type siteReleases struct {
	away  error
	asked atomic.Int64
}

func (r *siteReleases) Payload(_ context.Context, pullSpec, arch string, _ authn.Keychain) (*release.Payload, error) {
	r.asked.Add(1)
	if r.away != nil {
		return nil, r.away
	}
	images := map[string]string{}
	for _, tag := range []string{release.TagInstaller, release.TagAgent, release.TagHostInstaller,
		release.TagController, release.TagMachineConfigOperator, release.TagMustGather} {
		images[tag] = "quay.io/parts/" + tag + "@sha256:" + strings.Repeat("a", 64)
	}
	return &release.Payload{PullSpec: pullSpec, Image: "quay.io/release@sha256:" + strings.Repeat("b", 64),
		Version: "4.20.8", Architecture: arch, Images: images}, nil
}

func (r *siteReleases) Installer(context.Context, *release.Payload, authn.Keychain,
	func(done, total int64)) (*release.Installer, func(), error) {
	return &release.Installer{Path: "/nowhere/openshift-install"}, func() {}, nil
}

func (r *siteReleases) Generate(context.Context, *release.Installer,
	release.GenerateRequest) (*release.Generated, error) {
	return nil, fmt.Errorf("nothing is installed in these tests")
}
