package metal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/bmc"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/metal"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// fakeServers is a fake of the BMC manager. It stores the desired state of each server; tests set
// the actual state.
type fakeServers struct {
	mu      sync.Mutex
	servers map[string]*bmc.Server
	removed map[string]bool // by id: whether the request wanted a power off
	ensured int
	changed func(id string) // writes the row of a server, like the BMC manager
	changes int
}

func (r *fakeServers) Ensure(_ context.Context, id string, desired bmc.Desired) (*bmc.Server, error) {
	if _, err := bmc.ParseAddress(desired.Address); err != nil {
		return nil, &bmc.RequestError{Field: "address", Reason: err.Error()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.servers {
		if other.ID != id && other.Address == desired.Address {
			return nil, &bmc.DuplicateError{Name: desired.Name, Other: other.Name, Shared: "the BMC address"}
		}
	}
	server := r.servers[id]
	if server == nil {
		server = &bmc.Server{ID: id, State: bmc.Registering}
		r.servers[id] = server
	}
	r.ensured++
	server.Desired = desired
	stored := *server
	return &stored, nil
}

func (r *fakeServers) Find(name string) (*bmc.Server, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, server := range r.servers {
		if server.Name == name {
			stored := *server
			return &stored, nil
		}
	}
	return nil, &bmc.NotFoundError{ID: name}
}

func (r *fakeServers) RequestAction(_ context.Context, id string, kind bmc.ActionKind) (*bmc.Server, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	server := r.servers[id]
	if server == nil {
		return nil, &bmc.NotFoundError{ID: id}
	}
	server.Pending = &bmc.Action{Kind: kind}
	stored := *server
	return &stored, nil
}

func (r *fakeServers) Remove(_ context.Context, id string, powerOff bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.servers[id] != nil {
		r.removed[id] = powerOff
	}
	return nil
}

// site is a store with the controllers of the package and fakes of their interfaces.
type site struct {
	*testing.T
	db      *store.DB
	o       *objects.Objects
	servers *fakeServers
	clock   *clockwork.FakeClock
	loop    *controller.Loop
	infra   map[string]string // ids of InfraEnvs in the engine
	cluster *fakeCluster      // nil: no connection to installed clusters

	restarted    []string // keys of the hosts that RestartHost was called for
	restartState string   // state that RestartHost sets
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const settles = 20 * time.Second

func newSite(t *testing.T) *site { return newSiteWith(t, nil) }

// newSiteWith returns a site that connects to an installed cluster; nil: it connects to none.
func newSiteWith(t *testing.T, cluster *fakeCluster) *site {
	t.Helper()
	db, err := store.Open(context.Background(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	s := &site{
		T: t, db: db, o: objects.New(nil, nil), clock: clockwork.NewFakeClockAt(noon),
		servers: &fakeServers{servers: map[string]*bmc.Server{}, removed: map[string]bool{}},
		infra:   map[string]string{"site/env": "d1e2", "site/other": "d1e3"}, cluster: cluster,
		restartState: "disconnected",
	}
	logger := slog.New(slog.DiscardHandler)
	s.loop = controller.New(db, s.clock, logger)
	controllers := metal.New(metal.Options{
		DB: db, Objects: s.o, Servers: s.servers, Spokes: s.spokes(), ImageSettles: settles, Clock: s.clock,
		Loop: s.loop, Logger: logger,
		InfraEnvID: func(_ *store.Tx, namespace, name string) (string, error) {
			return s.infra[namespace+"/"+name],
				nil
		},
		HostKey:     func(_ *store.Tx, _, name string) (string, error) { return "d1e2/" + name, nil },
		RestartHost: s.restartHost,
	})
	s.loop.Add(controllers.Reconcilers()...)
	rows := store.NewBucket[int](strings.Trim(bmc.ServerPrefix(), "/"), 1)
	s.servers.changed = func(id string) {
		s.servers.changes++
		require.NoError(t, db.Update(context.Background(), func(tx *store.Tx) error {
			return rows.Put(tx, id, &s.servers.changes)
		}))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, db.Close())
	})
	return s
}

// restartHost is a fake of Options.RestartHost: it sets the state of the Agent.
func (s *site) restartHost(ctx context.Context, infraEnvID, hostID string) error {
	return s.db.Update(ctx, func(tx *store.Tx) error {
		s.restarted = append(s.restarted, infraEnvID+"/"+hostID)
		host := &metal3.BareMetalHost{}
		if err := s.o.Get(tx, objects.BareMetalHosts, "site", "node0", host); err != nil || host.Spec.Image == nil {
			return fmt.Errorf("the image was removed before the engine was notified: %w", err)
		}
		return s.o.Update(tx, objects.Agents, "site", hostID,
			func(u *unstructured.Unstructured) error {
				return unstructured.SetNestedField(u.Object, s.restartState, "status", "debugInfo", "state")
			})
	})
}

// waitIdle waits until the controllers are idle.
func (s *site) waitIdle() {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(s, s.loop.WaitIdle(ctx))
}

func (s *site) apply(kind objects.Kind, typed any) {
	s.Helper()
	require.NoError(s, s.db.Update(context.Background(), func(tx *store.Tx) error {
		return s.o.Create(tx, kind,
			typed, s.clock.Now())
	}))
	s.waitIdle()
}

func (s *site) edit(kind objects.Kind, name string, fn func(u *unstructured.Unstructured)) {
	s.Helper()
	require.NoError(s, s.db.Update(context.Background(), func(tx *store.Tx) error {
		return s.o.Update(tx, kind, "site", name, func(u *unstructured.Unstructured) error {
			fn(u)
			return nil
		})
	}))
	s.waitIdle()
}

func (s *site) delete(kind objects.Kind, name string) {
	s.Helper()
	require.NoError(s, s.db.Update(context.Background(), func(tx *store.Tx) error {
		return s.o.Delete(tx, kind, "site", name, s.clock.Now())
	}))
	s.waitIdle()
}

func (s *site) annotate(kind objects.Kind, name, key, value string) {
	s.Helper()
	s.edit(kind, name, func(u *unstructured.Unstructured) {
		require.NoError(s, unstructured.SetNestedField(u.Object, value, "metadata", "annotations", key))
	})
}

// find returns an object as its Go type; nil if it does not exist.
func find[T any](s *site, kind objects.Kind, name string) *T {
	s.Helper()
	typed := new(T)
	err := s.db.View(func(tx *store.Tx) error { return s.o.Get(tx, kind, "site", name, typed) })
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	require.NoError(s, err)
	return typed
}

func (s *site) host() *metal3.BareMetalHost {
	s.Helper()
	return find[metal3.BareMetalHost](s, objects.BareMetalHosts, "node0")
}

func (s *site) agent() *agentinstall.Agent {
	s.Helper()
	return find[agentinstall.Agent](s, objects.Agents, "a0")
}

// server changes the state of the host's server with fn, waits until the controllers are idle, and
// returns the desired state of the server.
func (s *site) server(fn func(*bmc.Server)) bmc.Desired {
	s.Helper()
	host := s.host()
	require.NotNil(s, host)
	s.servers.mu.Lock()
	server := s.servers.servers[string(host.UID)]
	require.NotNil(s, server, "no server was requested")
	fn(server)
	desired := server.Desired
	s.servers.mu.Unlock()
	s.servers.changed(string(host.UID))
	s.waitIdle()
	return desired
}

func (s *site) desired() bmc.Desired {
	s.Helper()
	return s.server(func(*bmc.Server) {})
}

// events returns the messages of the Events about an object, by reason.
func (s *site) events(name string) map[string]string {
	s.Helper()
	found := map[string]string{}
	require.NoError(s, s.db.View(func(tx *store.Tx) error {
		return s.o.Each(tx, objects.Events, "site", func(u *unstructured.Unstructured) error {
			var event corev1.Event
			require.NoError(s, objects.Into(u, &event))
			if event.InvolvedObject.Name == name {
				found[event.Reason] += event.Message + "\n"
			}
			return nil
		})
	}))
	return found
}

const mac = "52:54:00:AA:bb:01"

func hostObject(alter ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "node0",
			Labels: map[string]string{"infraenvs.agent-install.openshift.io": "env"}},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BootMACAddress: mac,
			BMC: metal3.BMCDetails{Address: "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1",
				CredentialsName: "bmc", DisableCertificateVerification: true},
		},
	}
	for _, fn := range alter {
		fn(host)
	}
	return host
}

func secretObject() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "bmc"}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"username": []byte("root"), "password": []byte("calvin")},
	}
}

const imageURL = "https://landfall.site/byid/d1e2/4.18/x86_64/minimal.iso"

func infraEnvObject(alter ...func(*agentinstall.InfraEnv)) *agentinstall.InfraEnv {
	created := metav1.NewTime(noon)
	infraEnv := &agentinstall.InfraEnv{
		ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "env"},
		Status: agentinstall.InfraEnvStatus{
			ISODownloadURL: imageURL, CreatedTime: &created,
			Conditions: []agentinstall.Condition{{
				Type: "ImageCreated", Status: corev1.ConditionTrue, Reason: "InfraEnvAvailable",
				Message: "InfraEnv is available: Image has been created",
			}},
		},
	}
	for _, fn := range alter {
		fn(infraEnv)
	}
	return infraEnv
}

func agentObject(alter ...func(*agentinstall.Agent)) *agentinstall.Agent {
	agent := &agentinstall.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "a0",
			Labels: map[string]string{"infraenvs.agent-install.openshift.io": "env"}},
		Status: agentinstall.AgentStatus{
			DebugInfo: agentinstall.DebugInfo{State: "known"},
			Inventory: agentinstall.HostInventory{
				Hostname: "localhost",
				Memory:   agentinstall.HostMemory{PhysicalBytes: 34359738368},
				CPU: agentinstall.HostCPU{Count: 16, ClockMegahertz: 2394, Architecture: "x86_64",
					ModelName: "Xeon", Flags: []string{"fpu"}},
				Interfaces: []agentinstall.HostInterface{
					{Name: "ens1", MACAddress: "52:54:00:aa:BB:01", IPV4Addresses: []string{"10.0.0.5/24"},
						IPV6Addresses: []string{"fd00::5/64"}, Flags: []string{}, SpeedMbps: 10240, Vendor: "0x1af4"},
					{Name: "ens2", MACAddress: "52:54:00:aa:BB:02", IPV4Addresses: []string{},
						IPV6Addresses: []string{}, Flags: []string{}},
				},
				Disks: []agentinstall.HostDisk{
					{ID: "/dev/disk/by-id/wwn-1", Path: "/dev/sda", ByPath: "/dev/disk/by-path/pci-0", DriveType: "HDD",
						SizeBytes: 480_000_000_000, InstallationEligibility: agentinstall.DiskEligibility{
							Eligible: true}},
					{ID: "/dev/disk/by-id/nvme-1", Path: "/dev/nvme0n1", DriveType: "SSD", Model: "INTEL SSDPE2KX010T8",
						SizeBytes: 1_000_000_000_000, InstallationEligibility: agentinstall.DiskEligibility{
							Eligible: true}},
				},
				SystemVendor: agentinstall.HostSystemVendor{Manufacturer: "Dell Inc.", ProductName: "R640",
					SerialNumber: "S1"},
			},
		},
	}
	for _, fn := range alter {
		fn(agent)
	}
	return agent
}

// registered sets the state of a server after the first contact with its BMC.
func registered(server *bmc.Server) {
	server.State, server.CredentialsGood, server.Power = bmc.Available, true, bmc.PowerOff
	server.System = &bmc.System{Manufacturer: "Dell Inc.", Model: "PowerEdge R640", SerialNumber: "S1",
		BIOSVersion: "2.19.1"}
	server.History = append(server.History,
		bmc.Event{At: noon.Add(time.Second), Reason: "BMCAccessValidated", Message: "Verified access to BMC"})
}

// booted sets the state of a server that has booted the image.
func booted(server *bmc.Server) {
	server.State, server.Power = bmc.Provisioned, bmc.PowerOn
	server.Media = &bmc.Media{Inserted: true}
	server.Booted = &bmc.BootStatus{InfraEnvID: server.InfraEnvID, At: noon}
}
