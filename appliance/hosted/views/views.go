// Package views computes the Kubernetes objects of hosted clusters from their rows, as people know
// them from a management cluster: HostedClusters, NodePools, and a ManifestWork for each bundle.
//
// The spec of an object is the desired state in this appliance. The status is the last report of
// the management cluster. Annotations have what the rows know besides: the state, what it waits
// for, and when and about which version the management cluster has reported last.
package views

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/appliance/kube/view"
	"landfall/store"
)

// WorkNamespace is the namespace of ManifestWorks. Engineers' commands expect it.
const WorkNamespace = controlplane.LocalCluster

// The annotations of the objects.
const (
	annotation         = "landfall.io/"
	annotationState    = annotation + "state"
	annotationReason   = annotation + "reason"
	annotationConsumer = annotation + "management-cluster"
	annotationResource = annotation + "resource-id"
	annotationBundle   = annotation + "bundle"
	annotationVersion  = annotation + "bundle-version"
	annotationReported = annotation + "reported-version"
	annotationAt       = annotation + "reported-at"
)

type object = map[string]any

const instead = "hosted clusters are changed by the page, by landfall hcp create, scale and delete, " +
	"or by the resource provider's API"

// Kinds returns the kinds of hosted clusters, or none if they are not enabled.
func Kinds(enabled bool) []view.Kind {
	if !enabled {
		return nil
	}
	return []view.Kind{hostedClusters(), nodePools(), manifestWorks()}
}

func state(name, path string) view.Column {
	return view.Column{Name: name, Type: "string", Path: `.metadata.annotations.landfall\.io/` + path}
}

func text(name, path string) view.Column { return view.Column{Name: name, Type: "string", Path: path} }

func wide(c view.Column) view.Column {
	c.Wide = true
	return c
}

func age() view.Column {
	return view.Column{Name: "Age", Type: "date", Path: ".metadata.creationTimestamp"}
}

func hostedClusters() view.Kind {
	return view.Kind{
		Group: "hypershift.openshift.io", Version: "v1beta1", Kind: "HostedCluster", Plural: "hostedclusters",
		Singular: "hostedcluster", Short: []string{"hc", "hcs"}, Instead: instead,
		Columns: []view.Column{
			text("Version", `.status.version.history[?(@.state=="Completed")].version`),
			text("KubeConfig", ".status.kubeconfig.name"),
			text("Progress", ".status.version.history[0].state"),
			text("Available", `.status.conditions[?(@.type=="Available")].status`),
			text("Progressing", `.status.conditions[?(@.type=="Progressing")].status`),
			state("State", "state"), state("Waits For", "reason"),
			wide(state("Management Cluster", "management-cluster")), wide(state("Reported", "reported-at")), age(),
		},
		Prefixes: []string{record.ClusterPrefix()},
		Keys:     record.EachClusterID,
		Find: func(_ *store.Tx, namespace, _ string) (string, error) {
			return strings.TrimPrefix(namespace, controlplane.Namespace("")), nil
		},
		Object: hostedCluster,
	}
}

// metadata returns the metadata of an object of a hosted cluster or a node pool.
func metadata(kind, key, namespace, name string, r *record.Resource, observed time.Time) object {
	annotations := object{annotationState: r.State, annotationResource: r.ID.String()}
	if r.Reason != "" {
		annotations[annotationReason] = r.Reason
	}
	if !observed.IsZero() {
		annotations[annotationAt] = observed.UTC().Format(time.RFC3339)
	}
	m := object{"namespace": namespace, "name": name, "creationTimestamp": at(r.Created),
		"uid": uuid.NewSHA1(uuid.NameSpaceOID, []byte(kind+"/"+key)).String(), "annotations": annotations}
	if !r.Deleted.IsZero() {
		m["deletionTimestamp"] = at(r.Deleted)
	}
	return m
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func hostedCluster(tx *store.Tx, cid string) (object, uint64, error) {
	c, err := record.GetCluster(tx, cid)
	if err != nil || c == nil {
		return nil, 0, err
	}
	revision, err := record.ClusterRevision(tx, cid)
	if err != nil {
		return nil, 0, err
	}
	m := metadata("HostedCluster", cid, controlplane.Namespace(cid), c.Prefix, &c.Resource, c.Observed.At)
	m["labels"] = object{bundle.LabelCluster: cid, bundle.LabelName: strings.ToLower(c.ID.Cluster)}
	o := object{"metadata": m, "spec": object{}, "status": object{}}
	return o, revision, complete(tx, o, "HostedCluster", c.Consumer, c.Control)
}

// complete adds to an object the spec of its manifest in a bundle, and the status that the
// management cluster reported. id may be "" or name a bundle that is gone.
func complete(tx *store.Tx, o object, kind, consumer, id string) error {
	m := o["metadata"].(object)
	annotations := m["annotations"].(object)
	if consumer != "" {
		annotations[annotationConsumer] = consumer
	}
	b, err := bundle.Get(tx, id)
	if errors.Is(err, bundle.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	m["generation"], annotations[annotationVersion] = b.Version, strconv.FormatInt(b.Version, 10)
	for _, text := range controlplane.Manifests(b) {
		var manifest struct {
			Kind string `json:"kind"`
			Spec any    `json:"spec"`
		}
		if err := json.Unmarshal(text, &manifest); err != nil {
			return fmt.Errorf("read the manifests of the bundle %s: %w", b.Name, err)
		}
		if manifest.Kind == kind {
			o["spec"] = manifest.Spec
		}
	}
	status, err := bundle.GetStatus(tx, id)
	if err != nil || status == nil {
		return err
	}
	annotations[annotationReported] = strconv.FormatInt(status.ResourceVersion, 10)
	annotations[annotationAt] = at(status.Received)
	if reported, ok := controlplane.LastStatus(status, kind); ok {
		o["status"] = reported
	}
	return nil
}

func nodePools() view.Kind {
	return view.Kind{
		Group: "hypershift.openshift.io", Version: "v1beta1", Kind: "NodePool", Plural: "nodepools",
		Singular: "nodepool", Short: []string{"np", "nps"}, Instead: instead,
		Columns: []view.Column{
			text("Cluster", ".spec.clusterName"),
			{Name: "Desired Nodes", Type: "integer", Path: ".spec.replicas"},
			{Name: "Current Nodes", Type: "integer", Path: ".status.replicas"},
			text("Autoscaling", `.status.conditions[?(@.type=="AutoscalingEnabled")].status`),
			text("Autorepair", `.status.conditions[?(@.type=="AutorepairEnabled")].status`),
			text("Version", ".status.version"),
			state("State", "state"), state("Waits For", "reason"),
			wide(state("Management Cluster", "management-cluster")), wide(state("Reported", "reported-at")), age(),
		},
		Prefixes: []string{record.NodePoolPrefix()},
		Keys:     record.EachNodePoolKey,
		Find: func(tx *store.Tx, namespace, name string) (string, error) {
			cid := strings.TrimPrefix(namespace, controlplane.Namespace(""))
			c, err := record.GetCluster(tx, cid)
			if err != nil || c == nil {
				return "", err
			}
			return cid + "/" + strings.TrimPrefix(name, c.Prefix+"-"), nil
		},
		Object: nodePool,
	}
}

func nodePool(tx *store.Tx, key string) (object, uint64, error) {
	cid, name, _ := strings.Cut(key, "/")
	pool, err := record.GetNodePool(tx, cid, name)
	if err != nil || pool == nil {
		return nil, 0, err
	}
	c, err := record.GetCluster(tx, cid)
	if err != nil || c == nil {
		return nil, 0, err
	}
	revision, err := record.NodePoolRevision(tx, key)
	if err != nil {
		return nil, 0, err
	}
	m := metadata("NodePool", key, controlplane.Namespace(cid), c.Prefix+"-"+name, &pool.Resource, pool.Observed.At)
	m["labels"] = object{bundle.LabelCluster: cid}
	o := object{"metadata": m, "spec": object{"clusterName": c.Prefix}, "status": object{}}
	return o, revision, complete(tx, o, "NodePool", c.Consumer, pool.Bundle)
}

func manifestWorks() view.Kind {
	return view.Kind{
		Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWork", Plural: "manifestworks",
		Singular: "manifestwork", Short: []string{"mw", "mws"},
		Instead: "Landfall makes bundles from the hosted clusters: " + instead,
		Columns: []view.Column{
			state("Bundle", "bundle"), state("Management Cluster", "management-cluster"),
			{Name: "Version", Type: "integer", Path: ".metadata.generation"}, state("Reported", "reported-version"),
			text("Applied", `.status.conditions[?(@.type=="Applied")].status`), state("State", "state"),
			state("Reason", "reason"), wide(state("Reported At", "reported-at")), age(),
		},
		Prefixes: []string{bundle.Prefix(), bundle.StatusPrefix()},
		Keys: func(tx *store.Tx, fn func(string) error) error {
			return bundle.Each(tx, func(b *bundle.Bundle) error { return fn(b.ID) })
		},
		Find:   findWork,
		Object: manifestWork,
	}
}

// findWork returns the ID of a bundle by the name of its ManifestWork: the ID, or the name of the
// ManifestWork within a nested bundle.
func findWork(tx *store.Tx, namespace, name string) (id string, err error) {
	if namespace != WorkNamespace {
		return "", nil
	}
	cid, _, _ := strings.Cut(name, "-")
	err = bundle.EachOfCluster(tx, cid, func(b *bundle.Bundle) error {
		if work, nested := controlplane.Work(b); nested && work == name {
			id = b.ID
		}
		return nil
	})
	if id == "" {
		id = name
	}
	return id, err
}

// manifestWork returns the ManifestWork of a bundle: the one within a nested bundle, as the
// management cluster shows it, or the one that the agent makes of a flat bundle.
func manifestWork(tx *store.Tx, id string) (object, uint64, error) {
	b, err := bundle.Get(tx, id)
	if errors.Is(err, bundle.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	revision, err := bundle.Revision(tx, id)
	if err != nil {
		return nil, 0, err
	}
	labels, annotations := object{}, object{annotationBundle: b.Name, annotationConsumer: b.Consumer}
	for key, value := range b.Labels {
		labels[key] = value
	}
	for key, value := range b.Annotations {
		annotations[key] = value
	}
	m := object{"namespace": WorkNamespace, "name": b.ID, "uid": b.ID, "generation": b.Version, "labels": labels,
		"annotations": annotations, "creationTimestamp": at(b.Created)}
	if b.Deleting() {
		m["deletionTimestamp"] = at(b.Deleted)
	}
	manifests := bundle.WithoutSecrets(b.Manifests)
	spec := object{"workload": object{"manifests": manifests}, "manifestConfigs": b.Configs}
	if len(b.DeleteOption) > 0 {
		spec["deleteOption"] = b.DeleteOption
	}
	work, nested := controlplane.Work(b)
	if nested {
		m["name"] = work
		inner, _ := manifests[0].(object)
		spec, _ = inner["spec"].(object)
	}
	o := object{"metadata": m, "spec": spec, "status": object{}}
	status, err := bundle.GetStatus(tx, id)
	if err != nil {
		return nil, 0, err
	}
	annotations[annotationState], annotations[annotationReason] = controlplane.BundleState(b, status)
	if annotations[annotationReason] == "" {
		delete(annotations, annotationReason)
	}
	if status == nil {
		return o, revision, nil
	}
	reported, err := bundle.StatusRevision(tx, id)
	if err != nil {
		return nil, 0, err
	}
	annotations[annotationReported] = strconv.FormatInt(status.ResourceVersion, 10)
	annotations[annotationAt] = at(status.Received)
	if nested {
		if reported, ok := controlplane.LastStatus(status, "ManifestWork"); ok {
			o["status"] = reported
		}
		return o, max(revision, reported), nil
	}
	var data struct {
		Conditions []any `json:"conditions"`
		Resources  []any `json:"resourceStatus"`
	}
	if !b.IsCredential() && json.Unmarshal(status.Data, &data) == nil {
		o["status"] = object{"conditions": data.Conditions, "resourceStatus": object{"manifests": data.Resources}}
	}
	return o, max(revision, reported), nil
}
