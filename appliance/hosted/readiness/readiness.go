// Package readiness says what a cluster lacks before it becomes a management cluster: operators, a
// storage class for etcd, memory for control planes, hosts for workers, and images in the mirror.
package readiness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/appliance/sentence"
)

// Severity says whether control planes can't run.
type Severity string

// The severities. An Error means that control planes can't run; a Warning, that somebody should
// look.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is something that a cluster lacks.
type Finding struct {
	ID       string   `json:"id"` // such as storage-class
	Severity Severity `json:"severity"`
	Sentence string   `json:"sentence"` // what is missing, and what to do
}

// Errors returns the sentences of the findings without which control planes can't run.
func Errors(findings []Finding) (sentences []string) {
	for _, f := range findings {
		if f.Severity == Error {
			sentences = append(sentences, f.Sentence)
		}
	}
	return sentences
}

// API reads the objects of a cluster. *spoke.Client implements it.
type API interface {
	List(ctx context.Context, kind schema.GroupVersionResource, namespace, selector string, into any) error
}

// The collections that a check reads.
var (
	hostedClusters = schema.GroupVersionResource{Group: "hypershift.openshift.io", Version: "v1beta1",
		Resource: "hostedclusters"}
	agents = schema.GroupVersionResource{Group: "agent-install.openshift.io", Version: "v1beta1",
		Resource: "agents"}
	assistedServices = schema.GroupVersionResource{Group: "agent-install.openshift.io", Version: "v1beta1",
		Resource: "agentserviceconfigs"}
	storageClasses = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1",
		Resource: "storageclasses"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	// managedClusters and works are kinds of the multicluster engine.
	managedClusters = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1",
		Resource: "managedclusters"}
	works = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1",
		Resource: "manifestworks"}
	nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// controlPlane is the memory in bytes that the pods of a control plane request, run once. The
// documentation of OpenShift names 19 GiB for one that runs three times.
const controlPlane = 19 << 30 / 3

// timesHighlyAvailable is how often the parts of a highly available control plane run.
const timesHighlyAvailable = 3

// check is the check of one cluster.
type check struct {
	api      API
	m        *record.Management
	findings []Finding
}

func (c *check) add(id string, severity Severity, format string, args ...any) {
	c.findings = append(c.findings, Finding{id, severity, fmt.Sprintf(format, args...)})
}

// Check returns what a cluster lacks as a management cluster. A part that can't be read is a
// finding, too.
func Check(ctx context.Context, api API, m *record.Management) []Finding {
	c := &check{api: api, m: m}
	for _, part := range []struct {
		id    string
		check func(context.Context) error
	}{{"hypershift", c.operator}, {"agents", c.agents}, {"storage-class", c.storageClass},
		{"memory", c.memory}, {"layout", c.layout}} {
		if err := part.check(ctx); err != nil {
			c.add(part.id, Warning, "%s", Unchecked(err))
		}
	}
	return c.findings
}

// Unchecked returns the sentence about a part of a cluster that can't be read.
func Unchecked(err error) string {
	return "The cluster could not be checked: " + sentence.Close(sentence.Clause(err.Error()))
}

// operator checks that HyperShift's operator runs.
func (c *check) operator(ctx context.Context) error {
	var list struct{}
	if err := c.api.List(ctx, hostedClusters, "", "", &list); apierrors.IsNotFound(err) {
		c.add("hypershift", Error, "The cluster has no HyperShift operator. Install the multicluster engine operator "+
			"with its part hypershift, from the mirror.")
		return nil
	} else if err != nil {
		return err
	}
	var found struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Status struct {
				Available int `json:"availableReplicas"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := c.api.List(ctx, deployments, "hypershift", "", &found); err != nil {
		return err
	}
	for _, d := range found.Items {
		if d.Metadata.Name == "operator" && d.Status.Available > 0 {
			return nil
		}
	}
	c.add("hypershift", Error, "HyperShift's operator has no available pod in the namespace hypershift. Look at its "+
		"events: oc get events -n hypershift.")
	return nil
}

// Workers returns why hosts of the appliance can't become workers of hosted clusters on a cluster,
// or "". The cluster's own assisted service would take their Agents for its own: it adds a
// finalizer, makes hosts of them in its database if it finds their InfraEnv, and then writes their
// statuses. It runs while there is an AgentServiceConfig.
func Workers(ctx context.Context, api API) (problem string, err error) {
	var found struct {
		Items []struct{} `json:"items"`
	}
	err = api.List(ctx, assistedServices, "", "", &found)
	if err == nil && len(found.Items) > 0 {
		return "The cluster has an assisted service of its own (AgentServiceConfig), which would change the Agents " +
			"of this appliance. Delete the AgentServiceConfig there, or use that service for the workers.", nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return "", err
	}
	err = api.List(ctx, agents, "", "landfall.io/none", &found)
	if apierrors.IsNotFound(err) {
		return "The cluster lacks the resource Agent. Install the multicluster engine operator there with its " +
			"component assisted-service, but create no AgentServiceConfig.", nil
	}
	return "", err
}

// agents checks that hosts for workers are there, or that hosts of the appliance can be.
func (c *check) agents(ctx context.Context) error {
	if len(c.m.Workers) > 0 {
		problem, err := Workers(ctx, c.api)
		if problem != "" {
			c.add("agents", Error, "%s", problem)
		}
		return err
	}
	selector := controlplane.LabelProfile
	if len(c.m.Profiles) > 0 {
		selector += " in (" + strings.Join(c.m.Profiles, ",") + ")"
	}
	var found struct {
		Items []struct{} `json:"items"`
	}
	err := c.api.List(ctx, agents, c.m.AgentNamespace, selector, &found)
	switch {
	case apierrors.IsNotFound(err):
		c.add("agents", Error, "The cluster has no assisted service, whose Agents become the workers. Enable it in "+
			"the multicluster engine operator (AgentServiceConfig).")
	case err != nil:
		return err
	case len(found.Items) == 0:
		c.add("agents", Warning, "The namespace %s has no Agents with the label %s: node pools wait until there are "+
			"some.", c.m.AgentNamespace, selector)
	}
	return nil
}

// storageClass checks that etcd gets volumes.
func (c *check) storageClass(ctx context.Context) error {
	var found struct {
		Items []struct {
			Metadata struct {
				Name        string            `json:"name"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := c.api.List(ctx, storageClasses, "", "", &found); err != nil {
		return err
	}
	var names []string
	for _, class := range found.Items {
		if class.Metadata.Name == c.m.StorageClass || c.m.StorageClass == "" &&
			class.Metadata.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return nil
		}
		names = append(names, class.Metadata.Name)
	}
	slices.Sort(names)
	has := "has no storage class"
	if len(names) > 0 {
		has = "has the storage classes " + strings.Join(names, ", ")
	}
	if c.m.StorageClass != "" {
		c.add("storage-class", Error, "The cluster has no storage class %s for etcd; it %s.", c.m.StorageClass, has)
		return nil
	}
	c.add("storage-class", Error, "The cluster has no default storage class, so etcd gets no volume; it %s. Install "+
		"an operator for storage, such as LVM Storage, or name a storage class.", has)
	return nil
}

// memory checks that the nodes have room for a control plane.
func (c *check) memory(ctx context.Context) error {
	var all core.NodeList
	if err := c.api.List(ctx, nodes, "", "", &all); err != nil {
		return err
	}
	free := map[string]int64{}
	for i := range all.Items {
		node := &all.Items[i]
		if !node.Spec.Unschedulable && !slices.ContainsFunc(node.Spec.Taints,
			func(t core.Taint) bool { return t.Effect == core.TaintEffectNoSchedule }) {
			free[node.Name] = node.Status.Allocatable.Memory().Value()
		}
	}
	if len(free) == 0 {
		c.add("memory", Error, "The cluster has no node on which pods can run.")
		return nil
	}
	var running core.PodList
	if err := c.api.List(ctx, pods, "", "", &running); err != nil {
		return err
	}
	for i := range running.Items {
		pod := &running.Items[i]
		if _, there := free[pod.Spec.NodeName]; !there || pod.Status.Phase == core.PodSucceeded ||
			pod.Status.Phase == core.PodFailed {
			continue
		}
		for _, container := range pod.Spec.Containers {
			free[pod.Spec.NodeName] -= container.Resources.Requests.Memory().Value()
		}
	}
	total, needed := int64(0), int64(controlPlane)
	for _, left := range free {
		total += max(left, 0)
	}
	if c.m.HighlyAvailable {
		needed *= timesHighlyAvailable
		if len(free) < timesHighlyAvailable {
			c.add("nodes", Error, "A highly available control plane needs %d nodes on which pods can run; the cluster "+
				"has %d.", timesHighlyAvailable, len(free))
		}
	}
	if total < needed {
		c.add("memory", Error, "A control plane needs %s of memory; the pods of the cluster leave %s. Add nodes or "+
			"memory.", sentence.Size(needed), sentence.Size(total))
	}
	return nil
}

// layout checks that a cluster with the nested layout applies ManifestWorks by itself.
func (c *check) layout(ctx context.Context) error {
	if c.m.Layout != controlplane.Nested {
		return nil
	}
	found, err := Layout(ctx, c.api)
	if err == nil && found != controlplane.Nested {
		c.add("layout", Error, "The nested layout needs the multicluster engine operator, which manages the cluster "+
			"itself as %s. Enable that, or use the flat layout.", controlplane.LocalCluster)
	}
	return err
}

// Layout returns the layout of bundles for a cluster: nested if the multicluster engine manages it
// as local-cluster, so that its own work agent applies ManifestWorks.
func Layout(ctx context.Context, api API) (string, error) {
	var found struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"items"`
	}
	err := api.List(ctx, managedClusters, "", "", &found)
	if err == nil {
		err = api.List(ctx, works, controlplane.LocalCluster, "", &struct{}{}) // is the kind there?
	}
	if apierrors.IsNotFound(err) {
		return controlplane.Flat, nil
	}
	if err != nil {
		return "", err
	}
	for _, item := range found.Items {
		if item.Metadata.Name == controlplane.LocalCluster {
			return controlplane.Nested, nil
		}
	}
	return controlplane.Flat, nil
}
