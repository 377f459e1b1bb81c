package spoke_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/spoke"
)

const (
	machines    = "apis/machine.openshift.io/v1beta1/machines"
	machineSets = "apis/machine.openshift.io/v1beta1/machinesets"
	metalHosts  = "apis/metal3.io/v1alpha1/baremetalhosts"
	machineAPI  = "openshift-machine-api"
)

// object creates an object in the cluster.
func (s *site) object(collection, namespace, name string, metadata map[string]any, spec map[string]any) {
	full := map[string]any{"name": name}
	if namespace != "" {
		full["namespace"] = namespace
	}
	for field, value := range metadata {
		full[field] = value
	}
	s.cluster.Put(collection, map[string]any{"metadata": full, "spec": spec})
}

func (s *site) controlPlane() {
	s.object(machines, machineAPI, "one-master-0",
		map[string]any{"labels": map[string]any{"machine.openshift.io/cluster-api-machine-type": "master"}},
		map[string]any{"providerSpec": map[string]any{"value": map[string]any{"image": map[string]any{"checksum": "sum",
			"url": "http://image"}}}})
}

func server() spoke.Server {
	return spoke.Server{
		Name: "node0", Cluster: "one", Role: "worker", Hardware: `{"hostname":"worker-1"}`,
		Spec: map[string]any{"online": true, "bootMACAddress": "52:54:00:00:00:01",
			"bmc": map[string]any{"address": "redfish://10.0.0.9", "credentialsName": "bmc"}},
	}
}

func TestEnsureMachine(t *testing.T) {
	s := newSite(t)
	s.controlPlane()
	for range 2 { // a repeated call changes nothing
		require.NoError(t, s.open().EnsureMachine(t.Context(), server()))
	}
	host := s.cluster.Object(metalHosts, machineAPI, "node0")
	require.Equal(t, map[string]any{
		"online": true, "bootMACAddress": "52:54:00:00:00:01", "externallyProvisioned": true,
		"consumerRef": map[string]any{"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
			"namespace": machineAPI, "name": "one-node0"},
	}, host.Object["spec"], "the cluster does not manage the server")
	require.Equal(t, map[string]string{"inspect.metal3.io": "disabled",
		"inspect.metal3.io/hardwaredetails": `{"hostname":"worker-1"}`}, host.GetAnnotations())
	machine := s.cluster.Object(machines, machineAPI, "one-node0")
	require.Equal(t, "openshift-machine-api/node0", machine.GetAnnotations()["metal3.io/BareMetalHost"])
	require.Equal(t, "worker", machine.GetLabels()["machine.openshift.io/cluster-api-machine-role"])
	url, _, err := unstructured.NestedString(machine.Object, "spec", "providerSpec", "value", "image", "url")
	require.NoError(t, err)
	require.Equal(t, "http://image", url)
}

func TestEnsureMachine_formerOneIsBeingDeleted(t *testing.T) {
	for kind, name := range map[string]string{machines: "one-node0", metalHosts: "node0"} {
		s := newSite(t)
		s.controlPlane()
		s.object(kind, machineAPI, name, map[string]any{"deletionTimestamp": "2026-11-01T12:00:00Z",
			"finalizers": []any{"example.com/drain"}}, map[string]any{})
		require.ErrorContains(t, s.open().EnsureMachine(t.Context(), server()),
			machineAPI+"/"+name+": the one of a former node is still being deleted")
		s.cluster.Remove(kind, machineAPI, name)
		require.NoError(t, s.open().EnsureMachine(t.Context(), server()))
	}
}

func TestEnsureMachine_noMachines(t *testing.T) {
	s := newSite(t)
	require.ErrorIs(t, s.open().EnsureMachine(t.Context(), server()), spoke.ErrNoMachines)
	s.object(machines, machineAPI, "one-master-0",
		map[string]any{"labels": map[string]any{"machine.openshift.io/cluster-api-machine-type": "master"}}, nil)
	require.ErrorContains(t, s.open().EnsureMachine(t.Context(), server()), "names no image")
}

func TestRemoveNode(t *testing.T) {
	onNode := map[string]any{"annotations": map[string]any{"machine.openshift.io/machine": machineAPI + "/one-node0"}}
	ofHost := map[string]any{"metal3.io/BareMetalHost": machineAPI + "/node0"}
	machineOf := func(s *site, labels map[string]any) {
		s.object(nodes, "", "worker-1", onNode, nil)
		s.object(metalHosts, machineAPI, "node0", nil, nil)
		s.object(machines, machineAPI, "one-node0", map[string]any{"annotations": ofHost, "labels": labels}, nil)
	}
	for name, c := range map[string]struct {
		given func(s *site)
		gone  [][2]string
	}{
		"no objects": {func(*site) {}, nil},
		"only the node": {func(s *site) { s.object(nodes, "", "worker-1", nil, nil) },
			[][2]string{{nodes, "worker-1"}}},
		"Machine deleted": {func(s *site) { s.object(nodes, "", "worker-1", onNode, nil) },
			[][2]string{{nodes, "worker-1"}}},
		"Machine without a MachineSet": {func(s *site) { machineOf(s, nil) }, [][2]string{{machines, "one-node0"},
			{metalHosts, "node0"}}},
		"MachineSet deleted": {func(s *site) {
			machineOf(s,
				map[string]any{"machine.openshift.io/cluster-api-machineset": "w"})
		},
			[][2]string{{machines, "one-node0"}}},
		"BareMetalHost deleted": {func(s *site) {
			machineOf(s, nil)
			s.cluster.Remove(metalHosts, machineAPI,
				"node0")
		}, [][2]string{{machines, "one-node0"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			c.given(s)
			require.NoError(t, s.open().RemoveNode(t.Context(), "Worker-1"))
			for _, gone := range c.gone {
				namespace := machineAPI
				if gone[0] == nodes {
					namespace = ""
				}
				require.Nil(t, s.cluster.Object(gone[0], namespace, gone[1]), gone)
			}
		})
	}
	t.Run("Machine of a MachineSet", func(t *testing.T) {
		s := newSite(t)
		machineOf(s, map[string]any{"machine.openshift.io/cluster-api-machineset": "w"})
		s.object(machineSets, machineAPI, "w", nil, nil)
		require.NoError(t, s.open().RemoveNode(t.Context(), "worker-1"))
		require.Equal(t, "true", s.cluster.Object(machineSets, machineAPI,
			"w").GetAnnotations()["metal3.io/autoscale-to-hosts"])
		left := s.cluster.Object(machines, machineAPI, "one-node0").GetAnnotations()
		require.Equal(t, []string{"true", "true"}, []string{left["machine.openshift.io/delete-machine"],
			left["machine.openshift.io/exclude-node-draining"]})
		require.Nil(t, s.cluster.Object(metalHosts, machineAPI, "node0"), "the deletion scales down the set")
	})
	t.Run("rejected by the cluster", func(t *testing.T) {
		s := newSite(t)
		s.object(nodes, "", "worker-1", nil, nil)
		s.cluster.Answer(func(r *http.Request) int {
			if r.Method == http.MethodDelete {
				return http.StatusForbidden
			}
			return 0
		})
		require.ErrorContains(t, s.open().RemoveNode(t.Context(), "worker-1"), "delete the node worker-1")
	})
}

func TestDrainNode(t *testing.T) {
	const pods = "api/v1/pods"
	s := newSite(t)
	s.object(nodes, "", "worker-1", nil, map[string]any{})
	on := map[string]any{"nodeName": "worker-1"}
	s.object(pods, "shop", "web", nil, on)
	s.object(pods, "shop", "other", nil, map[string]any{"nodeName": "worker-2"})
	s.object(pods, "shop", "daemon", map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1",
		"kind": "DaemonSet", "name": "d", "uid": "u"}}}, on)
	s.object(pods, "shop", "static", map[string]any{"annotations": map[string]any{"kubernetes.io/config.mirror": "x"}},
		on)
	budget := http.StatusTooManyRequests
	s.cluster.Answer(func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/eviction") {
			return budget
		}
		return 0
	})
	drained, err := s.open().DrainNode(t.Context(), "worker-1")
	require.NoError(t, err)
	require.False(t, drained, "a disruption budget protects the pod")
	unschedulable, _, err := unstructured.NestedBool(s.cluster.Object(nodes, "", "worker-1").Object,
		"spec", "unschedulable")
	require.NoError(t, err)
	require.True(t, unschedulable)

	s.cluster.Answer(nil)
	_, err = s.open().DrainNode(t.Context(), "worker-1")
	require.NoError(t, err)
	drained, err = s.open().DrainNode(t.Context(), "worker-1")
	require.NoError(t, err)
	require.True(t, drained)
	require.Nil(t, s.cluster.Object(pods, "shop", "web"))
	for _, left := range []string{"other", "daemon", "static"} {
		require.NotNil(t, s.cluster.Object(pods, "shop", left))
	}
	drained, err = s.open().DrainNode(t.Context(), "worker-9")
	require.NoError(t, err)
	require.True(t, drained, "a missing node is drained")
}

func TestTasks(t *testing.T) {
	var tasks spoke.Tasks
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tasks.Run(ctx) }()
	release, again := make(chan struct{}), make(chan struct{}, 1)
	failure := errors.New("no")
	do := func() (bool, error) {
		return tasks.Do("a", func(ctx context.Context) error {
			select {
			case <-release:
				return failure
			case <-ctx.Done():
				return ctx.Err()
			}
		}, func() { again <- struct{}{} })
	}
	for range 2 {
		done, err := do()
		require.False(t, done)
		require.NoError(t, err)
	}
	release <- struct{}{}
	<-again
	done, err := do()
	require.True(t, done)
	require.ErrorIs(t, err, failure)
	done, _ = do()
	require.False(t, done, "the task starts again")
	end()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		require.Fail(t, "the task does not end")
	}
}
