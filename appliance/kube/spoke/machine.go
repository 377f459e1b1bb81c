package spoke

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// API resources of clusters with the Machine API.
var (
	machineKind    = resource{Group: "machine.openshift.io", Version: "v1beta1", Resource: "machines"}
	machineSetKind = resource{Group: "machine.openshift.io", Version: "v1beta1", Resource: "machinesets"}
	hostKind       = resource{Group: "metal3.io", Version: "v1alpha1", Resource: "baremetalhosts"}
)

// Names of the Machine API and of metal3.
const (
	machineNamespace  = "openshift-machine-api"
	machineHost       = "metal3.io/BareMetalHost" // on a Machine: <namespace>/<name> of its BareMetalHost
	machineCluster    = "machine.openshift.io/cluster-api-cluster"
	machineRole       = "machine.openshift.io/cluster-api-machine-role"
	machineType       = "machine.openshift.io/cluster-api-machine-type"
	providerVersion   = "baremetal.cluster.k8s.io/v1alpha1"
	inspectAnnotation = "inspect.metal3.io"
	hardwareDetails   = "inspect.metal3.io/hardwaredetails"
)

// ErrNoMachines is the error for a cluster whose control plane has no Machines. Such a cluster does
// not manage Machines.
var ErrNoMachines = errors.New("the cluster's control plane has no Machines")

// Server is a server that joins a cluster as a node but is not managed by the cluster.
type Server struct {
	Name     string         // name of its BareMetalHost
	Cluster  string         // name of the ClusterDeployment
	Role     string         // master or worker
	Spec     map[string]any // spec of its BareMetalHost on the appliance
	Hardware string         // hardware details as JSON, "" for none
}

// EnsureMachine creates a BareMetalHost and a Machine for a server in a cluster, so that the
// cluster itself approves the certificate requests of the server's kubelet. It is idempotent. If
// the cluster has no Machines, it returns [ErrNoMachines].
func (c *Client) EnsureMachine(ctx context.Context, server Server) error {
	image, err := c.machineImage(ctx)
	if err != nil {
		return err
	}
	name := server.Cluster + "-" + server.Name
	spec := maps.Clone(server.Spec)
	delete(spec, "bmc") // the cluster must not manage the server
	spec["externallyProvisioned"] = true
	spec["consumerRef"] = map[string]any{"apiVersion": machineKind.GroupVersion().String(), "kind": "Machine",
		"namespace": machineNamespace, "name": name}
	annotations := map[string]any{inspectAnnotation: "disabled"}
	if server.Hardware != "" {
		annotations[hardwareDetails] = server.Hardware
	}
	if err := c.ensure(ctx, hostKind, map[string]any{
		"apiVersion": hostKind.GroupVersion().String(), "kind": "BareMetalHost",
		"metadata": map[string]any{"namespace": machineNamespace, "name": server.Name, "annotations": annotations},
		"spec":     spec,
	}); err != nil {
		return err
	}
	return c.ensure(ctx, machineKind, map[string]any{
		"apiVersion": machineKind.GroupVersion().String(), "kind": "Machine",
		"metadata": map[string]any{
			"namespace": machineNamespace, "name": name, "annotations": map[string]any{machineHost: machineNamespace +
				"/" + server.Name},
			"labels": map[string]any{machineCluster: server.Cluster, machineRole: server.Role,
				machineType: server.Role},
		},
		"spec": map[string]any{"providerSpec": map[string]any{"value": map[string]any{
			"apiVersion": providerVersion, "kind": "BareMetalMachineProviderSpec", "image": image,
		}}},
	})
}

// ensure creates an object, or merges the object into the existing one. It returns an error for one
// that is being deleted: the object of a former node would take the new node with it.
func (c *Client) ensure(ctx context.Context, kind resource, object map[string]any) error {
	u := &unstructured.Unstructured{Object: object}
	at := place{kind: kind, namespace: u.GetNamespace()}
	err := c.objects.create(ctx, at, object)
	if apierrors.IsAlreadyExists(err) {
		at.name = u.GetName()
		present := &unstructured.Unstructured{}
		if err = c.objects.get(ctx, at, &present.Object); err == nil && present.GetDeletionTimestamp() != nil {
			err = errors.New("the one of a former node is still being deleted")
		}
		if err == nil {
			err = c.objects.merge(ctx, at, object)
		}
	}
	if err != nil {
		return fmt.Errorf("create the %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return nil
}

// machineImage returns the image of the Machines of the control plane.
func (c *Client) machineImage(ctx context.Context) (map[string]any, error) {
	var list unstructured.UnstructuredList
	err := c.objects.list(ctx, place{kind: machineKind}, url.Values{"labelSelector": {machineType + "=master"}}, &list)
	if apierrors.IsNotFound(err) || err == nil && len(list.Items) == 0 {
		return nil, ErrNoMachines
	}
	if err != nil {
		return nil, fmt.Errorf("list the Machines of the control plane: %w", err)
	}
	image, _, err := unstructured.NestedMap(list.Items[0].Object, "spec", "providerSpec", "value", "image")
	if err != nil || image == nil {
		return nil, fmt.Errorf("the Machine %s of the control plane names no image", list.Items[0].GetName())
	}
	return map[string]any{"checksum": image["checksum"], "url": image["url"]}, nil
}
