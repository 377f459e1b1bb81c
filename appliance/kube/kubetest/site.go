// Package kubetest is the test harness of the controllers: a site with a store, an engine and a
// loop, and simulated machines that register and report.
package kubetest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/mirror"
	"landfall/store"
)

// URL is the address of the simulated appliance.
const URL = "http://appliance.site.test:8090"

// PullSecret is the pull secret of the site.
const PullSecret = `{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}`

// Morning is the time at which the clock of a site starts.
var Morning = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// Site is a store, an engine and a controller loop on a fake clock. A test applies objects as a
// user would.
type Site struct {
	testing.TB
	Clock   *clockwork.FakeClock
	DB      *store.DB
	Objects *objects.Objects
	Engine  *engine.Engine
	Loop    *controller.Loop

	// Current brings the objects up to date; nil if the engine's changes always do.
	Current func(context.Context) error

	WithoutAgentImage bool // the engine reads the agent's image from the release

	dir string // of the store
}

// New returns a site without an engine and a loop; [Site.Open] adds them.
func New(t testing.TB) *Site {
	t.Helper()
	s := &Site{TB: t, Clock: clockwork.NewFakeClockAt(Morning), Objects: objects.New(nil, nil), dir: t.TempDir()}
	s.openStore()
	t.Cleanup(func() { require.NoError(t, s.DB.Close()) })
	return s
}

func (s *Site) openStore() {
	s.Helper()
	var err error
	s.DB, err = store.Open(s.Context(), s.dir, store.Options{Clock: s.Clock, NoSync: true})
	require.NoError(s, err)
}

// Damage makes the row of an object unreadable and opens the store again. The loop must not run.
func (s *Site) Damage(kind objects.Kind, namespace, name string) {
	s.Helper()
	s.DamageRow("/kubernetes/" + kind.Key(namespace, name))
}

// DamageRow is Damage for the row with a key in the store.
func (s *Site) DamageRow(row string) {
	s.Helper()
	require.NoError(s, s.DB.Close())
	db, err := bolt.Open(filepath.Join(s.dir, store.FileName), 0o600, &bolt.Options{Timeout: time.Second})
	require.NoError(s, err)
	require.NoError(s, db.Update(func(tx *bolt.Tx) error {
		rows, key := tx.Bucket([]byte("data")), []byte(row)
		require.NotEmpty(s, rows.Get(key))
		return rows.Put(key, []byte("cut"))
	}))
	require.NoError(s, db.Close())
	s.openStore()
}

// Open creates an engine and a loop over the site's store, as the appliance does when it starts.
// Run starts the loop.
func (s *Site) Open(options engine.Options) {
	s.Helper()
	s.OpenEngine(options)
	s.Loop = controller.New(s.DB, s.Clock, slog.New(slog.DiscardHandler))
}

// OpenEngine creates an engine without a loop, as the appliance does while its Kubernetes API is
// disabled.
func (s *Site) OpenEngine(options engine.Options) {
	s.Helper()
	options.DB, options.Clock, options.URL, options.Mirror = s.DB, s.Clock, URL, &mirror.Rules{}
	if !s.WithoutAgentImage {
		options.Images = engine.Images{Agent: "quay.io/parts/agent:1"}
	}
	e, err := engine.New(options)
	require.NoError(s, err)
	s.Engine = e
}

// Run runs the loop until stop is called or the test ends.
func (s *Site) Run() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Loop.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(s, <-ended)
	})
	s.Cleanup(stop)
	return stop
}

// WaitIdle waits until the objects are up to date and the controllers are idle.
func (s *Site) WaitIdle() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	for before := uint64(0); s.DB.Revision() != before; {
		if s.Current != nil {
			require.NoError(s, s.Current(ctx))
		}
		before = s.DB.Revision()
		require.NoError(s, s.Loop.WaitIdle(ctx))
	}
}

// Update runs a transaction.
func (s *Site) Update(fn func(tx *store.Tx) error) {
	s.Helper()
	require.NoError(s, s.DB.Update(s.Context(), fn))
}

// Apply writes objects as kubectl does and waits until the controllers are idle.
func (s *Site) Apply(manifests ...string) {
	s.Helper()
	for _, manifest := range manifests {
		s.Put(manifest)
	}
	s.WaitIdle()
}

// Put writes objects without waiting. An existing object gets the spec, data, labels and
// annotations of the manifest, and keeps its status and its other metadata.
func (s *Site) Put(manifests string) {
	s.Helper()
	s.Update(func(tx *store.Tx) error {
		for document := range strings.SplitSeq(manifests, "\n---\n") {
			var u unstructured.Unstructured
			require.NoError(s, yaml.Unmarshal([]byte(document), &u.Object))
			kind := kindNamed(u.GetKind())
			if !s.Objects.Exists(tx, kind, u.GetNamespace(), u.GetName()) {
				require.NoError(s, s.Objects.Create(tx, kind, &u, s.Clock.Now()))
				continue
			}
			require.NoError(s, s.Objects.Update(tx, kind, u.GetNamespace(), u.GetName(),
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

// Delete deletes an object and waits until the controllers are idle.
func (s *Site) Delete(kind objects.Kind, namespace, name string) {
	s.Helper()
	s.Update(func(tx *store.Tx) error { return s.Objects.Delete(tx, kind, namespace, name, s.Clock.Now()) })
	s.WaitIdle()
}

// Get reads an object and reports whether it exists.
func (s *Site) Get(kind objects.Kind, namespace, name string, into any) bool {
	s.Helper()
	there := false
	require.NoError(s, s.DB.View(func(tx *store.Tx) error {
		if there = s.Objects.Exists(tx, kind, namespace, name); !there {
			return nil
		}
		return s.Objects.Get(tx, kind, namespace, name, into)
	}))
	return there
}

// InfraEnv returns an InfraEnv, which must exist.
func (s *Site) InfraEnv(name string) *agentinstall.InfraEnv {
	s.Helper()
	env := &agentinstall.InfraEnv{}
	require.True(s, s.Get(objects.InfraEnvs, "site", name, env), "InfraEnv site/%s", name)
	return env
}

// RequireImage asserts the status and reason of an InfraEnv's condition ImageCreated, and a part of
// its message.
func (s *Site) RequireImage(name string, status corev1.ConditionStatus, reason,
	says string) *agentinstall.InfraEnv {
	s.Helper()
	env := s.InfraEnv(name)
	c := condition(env.Status.Conditions, "ImageCreated")
	require.Equal(s, []string{string(status), reason}, []string{string(c.Status), c.Reason}, c.Message)
	require.Contains(s, c.Message, says)
	return env
}

func condition(conditions []agentinstall.Condition, name string) agentinstall.Condition {
	at := slices.IndexFunc(conditions, func(c agentinstall.Condition) bool { return c.Type == name })
	if at < 0 {
		return agentinstall.Condition{}
	}
	return conditions[at]
}

// InfraEnvID returns the id of the infra-env of an InfraEnv, which must exist.
func (s *Site) InfraEnvID(name string) string {
	s.Helper()
	var id string
	require.NoError(s, s.DB.View(func(tx *store.Tx) (err error) {
		id, err = s.Engine.Rows(tx).InfraEnvOf("site/" + name)
		return err
	}))
	require.NotEmpty(s, id, "the InfraEnv %s has an infra-env", name)
	return id
}

// Agent returns the Agent of a machine, which must exist.
func (s *Site) Agent(m *Machine) *agentinstall.Agent {
	s.Helper()
	agent := &agentinstall.Agent{}
	require.True(s, s.Get(objects.Agents, "site", m.ID, agent), "Agent site/%s", m.ID)
	return agent
}

// EditAgent changes the spec of an Agent as kubectl patch does.
func (s *Site) EditAgent(m *Machine, fn func(*agentinstall.AgentSpec)) {
	s.Helper()
	s.Update(func(tx *store.Tx) error {
		return s.Objects.Update(tx, objects.Agents, "site", m.ID, func(u *unstructured.Unstructured) error {
			var agent agentinstall.Agent
			require.NoError(s, objects.Into(u, &agent))
			before, err := objects.Fields(&agent.Spec)
			require.NoError(s, err)
			fn(&agent.Spec)
			return objects.SetSpec(u, before, &agent.Spec)
		})
	})
	s.WaitIdle()
}

// RequireCondition asserts the status and reason of a condition of a machine's Agent.
func (s *Site) RequireCondition(m *Machine, name string, status corev1.ConditionStatus,
	reason string) agentinstall.Condition {
	s.Helper()
	c := condition(s.Agent(m).Status.Conditions, name)
	require.Equal(s, []string{string(status), reason}, []string{string(c.Status), c.Reason}, c.Message)
	return c
}

// RegisterCluster registers a single-node cluster and writes its ClusterDeployment, as the
// controller of clusters does.
func (s *Site) RegisterCluster(name string) string {
	s.Helper()
	made, err := s.Engine.RegisterCluster(s.Context(), &models.ClusterCreateParams{
		Name: &name, BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(PullSecret), ControlPlaneCount: conv.Pointer[int64](1),
	}, record.Object{Key: "site/" + name, Generation: 1})
	require.NoError(s, err)
	s.Apply("kind: ClusterDeployment\nmetadata: {namespace: site, name: " + name + ", labels: {cluster: " +
		made.ID.String() + "}}\nspec: {clusterName: " + name + "}")
	return made.ID.String()
}

// PullSecretManifest is a Secret with the pull secret.
const PullSecretManifest = `
kind: Secret
metadata: {namespace: site, name: pull}
stringData: {.dockerconfigjson: '{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}'}`

// InfraEnvManifest returns an InfraEnv with its pull secret. lines are appended to its spec.
func InfraEnvManifest(name string, lines ...string) string {
	text := PullSecretManifest + "\n---\nkind: InfraEnv\nmetadata: {namespace: site, name: " + name +
		"}\nspec:\n  pullSecretRef: {name: pull}\n"
	for _, line := range lines {
		text += "  " + line + "\n"
	}
	return text
}

// Machine is a simulated host. Its agent runs the steps when the test calls Report.
type Machine struct {
	*Site
	InfraEnv, ID string // ids in the engine
	Number       int
	Architecture string // as the kernel reports it: x86_64, aarch64
}

// Machine returns a machine that boots the image of an infra-env.
func (s *Site) Machine(infraEnvID string, number int) *Machine {
	return &Machine{Site: s, InfraEnv: infraEnvID, Number: number, Architecture: "x86_64",
		ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", number)}
}

// Boot returns a machine that has booted the image of an InfraEnv, registered and reported.
func (s *Site) Boot(env string, number int) *Machine {
	s.Helper()
	m := s.Machine(s.InfraEnvID(env), number)
	m.Register()
	m.Report()
	s.WaitIdle()
	return m
}

// Register registers the host.
func (m *Machine) Register() {
	m.Helper()
	id := strfmt.UUID(m.ID)
	_, err := m.Engine.RegisterHost(m.Context(), m.InfraEnv, &models.HostCreateParams{HostID: &id,
		DiscoveryAgentVersion: "quay.io/parts/agent:1"})
	require.NoError(m, err)
}

// Report polls for steps and sends replies, three times.
func (m *Machine) Report() {
	m.Helper()
	for range 3 {
		body, err := m.Engine.Instructions(m.Context(), engine.Poll{InfraEnvID: m.InfraEnv, HostID: m.ID,
			AgentVersion: "quay.io/parts/agent:1", Timestamp: m.Clock.Now().Unix()})
		require.NoError(m, err)
		var steps models.Steps
		require.NoError(m, json.Unmarshal(body, &steps))
		for _, step := range steps.Instructions {
			if output := m.Answer(step); output != nil {
				text, err := json.Marshal(output)
				require.NoError(m, err)
				require.NoError(m, m.Engine.ApplyStepReply(m.Context(), m.InfraEnv, m.ID,
					&models.StepReply{StepType: step.StepType, StepID: step.StepID, Output: string(text)}))
			}
		}
	}
	m.WaitIdle()
}

// Answer returns the output of a step; nil if the machine does not reply to the step.
func (m *Machine) Answer(step *models.Step) any {
	switch step.StepType {
	case models.StepTypeInventory:
		return m.Inventory()
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

func (m *Machine) resolve(asked string) *models.DomainResolutionResponse {
	var request models.DomainResolutionRequest
	require.NoError(m, json.Unmarshal([]byte(asked), &request))
	response := &models.DomainResolutionResponse{}
	for _, domain := range request.Domains {
		found := &models.DomainResolutionResponseDomain{DomainName: domain.DomainName}
		if strings.HasPrefix(*domain.DomainName, "api") || strings.Contains(*domain.DomainName, ".apps.") {
			found.IPV4Addresses = []strfmt.IPv4{strfmt.IPv4(fmt.Sprintf("192.168.10.%d", 10+m.Number))}
		}
		response.Resolutions = append(response.Resolutions, found)
	}
	return response
}

// Inventory returns the hardware of the machine.
func (m *Machine) Inventory() *models.Inventory {
	return &models.Inventory{
		Hostname: fmt.Sprintf("node-%d", m.Number), CPU: &models.CPU{Count: 16, Architecture: m.Architecture,
			Flags: []string{"vmx"}, Frequency: 2400},
		Memory: &models.Memory{PhysicalBytes: 64 << 30, UsableBytes: 64 << 30},
		SystemVendor: &models.SystemVendor{Manufacturer: "Dell Inc.", ProductName: "PowerEdge R650",
			SerialNumber: fmt.Sprintf("S%d", m.Number)},
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
			m.Number), IPV4Addresses: []string{fmt.Sprintf("192.168.10.%d/24", 10+m.Number)}}},
		Routes:     []*models.Route{{Destination: "0.0.0.0", Gateway: "192.168.10.1", Interface: "eno1", Family: 2}},
		TpmVersion: models.InventoryTpmVersionNr20,
	}
}

// Host reads the machine's host in the engine.
func (m *Machine) Host() *models.Host {
	m.Helper()
	host, err := m.Engine.Host(m.InfraEnv, m.ID)
	require.NoError(m, err)
	return host
}

// Eventually waits until ok returns true. It is needed for effects of goroutines outside of the
// loop. Meanwhile it advances the clock.
func (s *Site) Eventually(what string, ok func() bool) {
	s.Helper()
	require.Eventually(s, func() bool {
		s.Clock.Advance(time.Second)
		return ok()
	}, time.Minute, time.Millisecond, what)
}

// Authority returns the certificate (PEM) of a new certificate authority.
func Authority(t testing.TB) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "site"},
		NotBefore: Morning, NotAfter: Morning.AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// Spokes is a fake of hosts.Spokes and clusters.Spokes: a call starts a task, and the next call
// with the same task name returns the result.
type Spokes struct {
	mu      sync.Mutex
	started map[string]bool
	err     error
	removed []string // removed nodes (<deployment> <node>) and changes of pools
}

// NewSpokes returns a fake whose calls succeed.
func NewSpokes() *Spokes { return &Spokes{started: map[string]bool{}} }

// RemoveNode implements hosts.Spokes.
func (s *Spokes) RemoveNode(task, deployment, node string, requeue func()) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started[task] {
		s.started[task] = true
		go requeue()
		return false, nil
	}
	delete(s.started, task)
	if s.err == nil {
		s.removed = append(s.removed, deployment+" "+node)
	}
	return true, s.err
}

// PausePool implements clusters.Spokes.
func (s *Spokes) PausePool(task, deployment, pool string, paused bool, requeue func()) (bool, error) {
	return s.RemoveNode("pool "+task, deployment, fmt.Sprintf("%s %t", pool, paused), requeue)
}

// Removed lists the removed nodes and the changes of pools.
func (s *Spokes) Removed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.removed...)
}

// Fail sets the error of the next calls. nil makes them succeed.
func (s *Spokes) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}
