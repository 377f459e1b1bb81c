// Package acm exports the objects that a hub (Advanced Cluster Management, multicluster engine)
// needs to import a cluster that the appliance has installed, and reads such an export. It uses
// only the Kubernetes objects of clusters.
package acm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"landfall/appliance/kube/apply"
	"landfall/appliance/kube/objects"
)

// API is the part of an appliance's Kubernetes API that the export uses.
type API interface {
	Get(ctx context.Context, kind objects.Kind, namespace, name string) (map[string]any, error)
	List(ctx context.Context, kind objects.Kind, namespace string) ([]map[string]any, error)
}

// Options selects additional Secrets for the export. The Secrets of the cluster itself are always
// exported.
type Options struct {
	PullSecret     bool // pull secrets of the cluster and of its infra-envs
	BMCCredentials bool // credentials of its BareMetalHosts
}

// Directory holds the files for a hub.
type Directory struct {
	Name    string
	Files   []File
	LeftOut []string // referenced Secrets that are not exported, as <namespace>/<name>
}

// File is one file of a Directory.
type File struct {
	Name   string // file name, without a path
	Data   []byte
	Secret bool // the file gives access to the cluster or its servers
}

// importSecret is the name of the Secret with the kubeconfig with which ACM imports a cluster. ACM
// deletes the Secret after the import.
const (
	importSecret  = "auto-import-secret"
	importRetries = "5"
)

// Annotations of metal3 that detach a host and restore its state when its BareMetalHost is created
// again.
const (
	detachedAnnotation = "baremetalhost.metal3.io/detached"
	detachedBy         = "assisted-service-controller"
	statusAnnotation   = "baremetalhost.metal3.io/status"
	pausedAnnotation   = "baremetalhost.metal3.io/paused" // prevents restoring the state
)

// Export returns the directory of an installed cluster. The cluster is named by its
// ClusterDeployment (<name> or <namespace>/<name>), its cluster name or its id.
func Export(ctx context.Context, api API, cluster string, options Options) (*Directory, error) {
	deployment, err := find(ctx, api, cluster)
	if err != nil {
		return nil, err
	}
	e := &export{api: api, options: options, deployment: object{deployment},
		directory: &Directory{Name: nameOf(deployment) + "-acm"}}
	if err := e.run(ctx); err != nil {
		return nil, err
	}
	return e.directory, nil
}

// find finds a ClusterDeployment by any name or id of its cluster.
func find(ctx context.Context, api API, cluster string) (map[string]any, error) {
	all, err := api.List(ctx, objects.ClusterDeployments, "")
	if err != nil {
		return nil, err
	}
	var found, known []string
	var match map[string]any
	for _, content := range all {
		o := object{content}
		full := o.text("metadata", "namespace") + "/" + nameOf(content)
		known = append(known, full)
		if slices.Contains([]string{full, nameOf(content), o.text("spec", "clusterName"),
			o.text("spec", "clusterMetadata", "infraID"), o.text("spec", "clusterMetadata", "clusterID")}, cluster) {
			found, match = append(found, full), content
		}
	}
	slices.Sort(known)
	switch {
	case len(found) > 1:
		return nil, fmt.Errorf("%s is the name of several clusters: %s; give one of these", cluster,
			strings.Join(found, ", "))
	case len(found) == 1:
		return match, nil
	case len(known) == 0:
		return nil, errors.New("the appliance has no cluster")
	}
	return nil, fmt.Errorf("cluster %s not found; the appliance has %s", cluster, strings.Join(known, ", "))
}

// object wraps the decoded content of a Kubernetes object.
type object struct{ content map[string]any }

func nameOf(content map[string]any) string { return object{content}.text("metadata", "name") }

func (o object) at(path ...string) any {
	var value any = o.content
	for _, key := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[key]
	}
	return value
}

func (o object) text(path ...string) string {
	text, _ := o.at(path...).(string)
	return text
}

// condition returns the status and the message of a condition.
func (o object) condition(kind string) (status, message string) {
	list, _ := o.at("status", "conditions").([]any)
	for _, value := range list {
		if fields, ok := value.(map[string]any); ok && fields["type"] == kind {
			c := object{fields}
			return c.text("status"), c.text("message")
		}
	}
	return "", ""
}

// desired returns the user's part of an object: without the fields that only a server writes,
// without owner references, whose uids differ on another server, and without finalizers, which
// controllers add.
func desired(kind objects.Kind, content map[string]any) map[string]any {
	content = maps.Clone(content)
	delete(content, "status")
	content["apiVersion"], content["kind"] = kind.APIVersion(), kind.Kind
	metadata, _ := content["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields",
		"selfLink", "ownerReferences", "finalizers", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		delete(metadata, field)
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations = maps.Clone(annotations)
	// The annotation contains a copy of a Secret's values.
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	delete(metadata, "annotations")
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	content["metadata"] = metadata
	return content
}

// toYAML formats an object for users.
func toYAML(content map[string]any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(content); err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(text.Bytes())
}

// kinds returns the kinds of an export.
func kinds() []objects.Kind {
	return []objects.Kind{
		objects.Namespaces, objects.Secrets, objects.ConfigMaps, objects.ClusterImageSets, objects.ClusterDeployments,
		objects.AgentClusterInstalls,
		objects.NMStateConfigs, objects.InfraEnvs, objects.BareMetalHosts, objects.ManagedClusters,
		objects.KlusterletAddonConfigs,
	}
}

// Adoption selects the objects to apply from manifests of an appliance or a hub, to adopt the
// cluster. notes lists the omitted objects. It returns an error for manifests without an installed
// cluster or without its kubeconfig.
func Adoption(list []*apply.Object) (chosen []*apply.Object, notes []string, err error) {
	for _, o := range list {
		if !slices.ContainsFunc(kinds(), o.Is) {
			notes = append(notes, fmt.Sprintf("%s: %s is omitted", o.Source, o))
			continue
		}
		for _, kind := range kinds() {
			if o.Is(kind) {
				o.Content = desired(kind, o.Content)
			}
		}
		chosen = append(chosen, o)
	}
	deployments := 0
	for _, o := range chosen {
		if !o.Is(objects.ClusterDeployments) {
			continue
		}
		deployments++
		d := object{o.Content}
		if installed, _ := d.at("spec", "installed").(bool); !installed {
			return nil, nil,
				fmt.Errorf("%s: %s is not installed (spec.installed), so there is nothing to adopt; apply it with "+
					"landfall apply to install it", o.Source, o)
		}
		secret := d.text("spec", "clusterMetadata", "adminKubeconfigSecretRef", "name")
		if secret == "" {
			return nil, nil,
				fmt.Errorf("%s: %s names no kubeconfig in spec.clusterMetadata.adminKubeconfigSecretRef, which is "+
					"required to connect to the cluster", o.Source, o)
		}
		held := slices.ContainsFunc(chosen, func(s *apply.Object) bool {
			return s.Is(objects.Secrets) && s.Name == secret && s.Namespace == o.Namespace
		})
		if !held {
			return nil, nil, fmt.Errorf("%s: %s names the Secret %s with the kubeconfig, which is missing; add it",
				o.Source, o, secret)
		}
	}
	if deployments == 0 {
		return nil, nil,
			errors.New("there is no ClusterDeployment; the manifests must contain that of the cluster to adopt")
	}
	return chosen, notes, nil
}
