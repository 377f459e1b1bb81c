package metal_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/bmc"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/metal"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/simulate/redfish"
	"landfall/store"
)

// fakeEngine is the engine for the BMC manager: it has one image and the host that booted it.
type fakeEngine struct {
	image string

	mu   sync.Mutex
	host *bmc.Host
}

func (e *fakeEngine) ImageURL(context.Context, string, string) (string, error) { return e.image, nil }

func (e *fakeEngine) ClusterName(string) (string, error) { return "", nil }

func (e *fakeEngine) Hosts(fn func(bmc.Host) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.host == nil {
		return nil
	}
	return fn(*e.host)
}

func (e *fakeEngine) Host(bmc.HostRef) (bmc.Host, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.host == nil {
		return bmc.Host{}, false, nil
	}
	return *e.host, true, nil
}

func (e *fakeEngine) set(db *store.DB, host bmc.Host) error {
	e.mu.Lock()
	e.host = &host
	e.mu.Unlock()
	type row struct{ At time.Time }
	return db.Update(context.Background(), func(tx *store.Tx) error {
		return store.NewBucket[row]("hosts", 1).Put(tx, host.InfraEnvID+"/"+host.ID, &row{time.Now()})
	})
}

// TestHost_overRedfish runs the controllers with the real BMC manager. Only the BMC and the engine
// are simulated.
func TestHost_overRedfish(t *testing.T) {
	disc := make([]byte, 64<<10)
	copy(disc[16*2048+1:], "CD001")
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x.iso", time.Unix(1, 0), bytes.NewReader(disc))
	}))
	defer files.Close()
	clock := redfish.Accelerated(1000)
	profile, ok := redfish.ProfileByName("dell-idrac9")
	require.True(t, ok)
	booted := make(chan string, 8)
	machine := redfish.New(redfish.Options{
		Profile: profile, Username: "root", Password: "calvin", Clock: clock, Dir: t.TempDir(), MACs: []string{mac},
		Serial: "S1",
		Boot:   func(_ context.Context, image *redfish.Image) { booted <- image.URL },
	})
	require.NoError(t, machine.Listen("127.0.0.1:0", nil))
	defer func() { require.NoError(t, machine.Close()) }()

	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	engine := &fakeEngine{image: files.URL + "/i/abcdefghijklmnop.iso"}
	manager := bmc.New(bmc.Options{DB: db, Site: engine, Clock: clock})
	logger := slog.New(slog.DiscardHandler)
	s := &site{T: t, db: db, o: objects.New(nil, nil), clock: nil, loop: controller.New(db, clock, logger)}
	controllers := metal.New(metal.Options{
		DB: db, Objects: s.o, Servers: manager, Loop: s.loop, Clock: clock, Logger: logger,
		HostKey: func(*store.Tx, string, string) (string, error) { return "", nil },
		InfraEnvID: func(*store.Tx, string, string) (string, error) {
			return "0a5d0f3e-0000-4000-8000-000000000001",
				nil
		},
	})
	s.loop.Add(controllers.Reconcilers()...)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{s.loop.Run, manager.Run} {
		running.Go(func() { require.NoError(t, run(ctx)) })
	}
	defer func() {
		cancel()
		running.Wait()
		require.NoError(t, db.Close())
	}()

	put := func(kind objects.Kind, typed any) {
		require.NoError(t, db.Update(ctx, func(tx *store.Tx) error { return s.o.Create(tx, kind, typed, clock.Now()) }))
	}
	until := func(what string, yes func(*metal3.BareMetalHost) bool) {
		t.Helper()
		require.Eventually(t, func() bool { return yes(s.host()) }, time.Minute, 5*time.Millisecond, what)
	}
	put(objects.BareMetalHosts, hostObject(func(host *metal3.BareMetalHost) {
		host.Spec.BMC.Address = "redfish-virtualmedia+" + machine.URL()
	}))
	put(objects.InfraEnvs, infraEnvObject())
	put(objects.Secrets, secretObject())
	until("the host is provisioned", func(host *metal3.BareMetalHost) bool {
		return host.Status.Provisioning.State == metal3.StateProvisioned
	})
	require.Equal(t, engine.image, <-booted)
	require.Equal(t, engine.image, machine.Inserted())
	require.True(t, s.host().Status.PoweredOn)

	host := bmc.Host{
		HostRef: bmc.HostRef{InfraEnvID: "0a5d0f3e-0000-4000-8000-000000000001",
			ID: "0a5d0f3e-0000-4000-8000-000000000002"},
		MACs: []string{"52:54:00:aa:bb:01"}, Registered: clock.Now(), Status: "installing-in-progress",
		Stage: "Rebooting", Minimal: true,
	}
	require.NoError(t, engine.set(db, host))
	put(objects.Agents,
		agentObject(func(agent *agentinstall.Agent) { agent.Status.Progress.CurrentStage = "Rebooting" }))
	until("the host is detached without an image", func(host *metal3.BareMetalHost) bool {
		return host.Status.OperationalStatus == metal3.OperationalStatusDetached && machine.Inserted() == ""
	})
	require.Equal(t, "On", machine.Power())
	until("the host is paused", func(host *metal3.BareMetalHost) bool {
		return host.Annotations["baremetalhost.metal3.io/paused"] == "assisted-service-controller"
	})
	for _, reason := range []string{"Registered", "BMCAccessValidated", "ProvisioningStarted", "ProvisioningComplete"} {
		require.Contains(t, s.events("node0"), reason)
	}

	require.NoError(t, db.Update(ctx, func(tx *store.Tx) error {
		return s.o.Delete(tx, objects.BareMetalHosts, "site", "node0", clock.Now())
	}))
	until("the host is deleted", func(host *metal3.BareMetalHost) bool { return host == nil })
	require.Equal(t, "On", machine.Power(), "an installed machine stays on")
	servers, err := manager.Servers()
	require.NoError(t, err)
	require.Empty(t, servers)
	require.Empty(t, find[unstructured.Unstructured](s, objects.Secrets, "bmc").GetFinalizers())
}
