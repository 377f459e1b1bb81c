// Package acm exports what a hub (Advanced Cluster Management, multicluster engine) needs to adopt
// a cluster that the appliance has installed, and reads such an export. It knows clusters only by
// their Kubernetes objects.
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

// API is the part of an appliance's API that the export uses.
type API interface {
	Get(ctx context.Context, kind objects.Kind, namespace, name string) (map[string]any, error)
	List(ctx context.Context, kind objects.Kind, namespace string) ([]map[string]any, error)
}

// Options selects the Secrets that are exported besides those of the cluster.
type Options struct {
	PullSecret     bool // those of the cluster and of its infra-envs
	BMCCredentials bool // those of its BareMetalHosts
}

// Directory is what is brought to a hub.
type Directory struct {
	Name    string
	Files   []File
	LeftOut []string // Secrets that are named and not brought, each namespace/name
}

// File is a file of a directory.
type File struct {
	Name   string // without a folder
	Data   []byte
	Secret bool // gives access to the cluster or its servers
}

// importSecret is the name of the Secret with the kubeconfig that ACM imports a cluster by. ACM
// deletes the Secret afterwards.
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
	pausedAnnotation   = "baremetalhost.metal3.io/paused" // prevents that the state is restored
)

// Export returns the directory of an installed cluster, which is named by its ClusterDeployment
// (name, or namespace/name), its cluster name or its id.
func Export(ctx context.Context, api API, cluster string, options Options) (*Directory, error) {
	deployment, err := find(ctx, api, cluster)
	if err != nil {
		return nil, err
	}
	e := &export{api: api, options: options, deployment: object{deployment},
		folder: &Directory{Name: nameOf(deployment) + "-acm"}}
	if err := e.run(ctx); err != nil {
		return nil, err
	}
	return e.folder, nil
}

// find finds a ClusterDeployment by any name of its cluster.
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
	return nil, fmt.Errorf("there is no cluster %s; there are %s", cluster, strings.Join(known, ", "))
}

// object is the content of an object.
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

// desired returns an object as a user would write it: without the fields that only a server
// writes, without owners, whose ids differ elsewhere, and without finalizers, which controllers
// add.
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
	// it would hold a Secret's values in another place
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

// kinds are the kinds of an adoption.
func kinds() []objects.Kind {
	return []objects.Kind{
		objects.Namespaces, objects.Secrets, objects.ConfigMaps, objects.ClusterImageSets, objects.ClusterDeployments,
		objects.AgentClusterInstalls,
		objects.NMStateConfigs, objects.InfraEnvs, objects.BareMetalHosts, objects.ManagedClusters,
		objects.KlusterletAddonConfigs,
	}
}

// Adoption selects from manifests of an appliance or a hub what is applied to adopt the cluster.
// notes say what is left out. It returns an error for manifests without an installed cluster, or
// without the access to it.
func Adoption(list []*apply.Object) (chosen []*apply.Object, notes []string, err error) {
	for _, o := range list {
		if !slices.ContainsFunc(kinds(), o.Is) {
			notes = append(notes, fmt.Sprintf("%s: %s is left out", o.Source, o))
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
				fmt.Errorf("%s: %s names no kubeconfig in spec.clusterMetadata.adminKubeconfigSecretRef, by which "+
					"the cluster is reached", o.Source, o)
		}
		held := slices.ContainsFunc(chosen, func(s *apply.Object) bool {
			return s.Is(objects.Secrets) && s.Name == secret && s.Namespace == o.Namespace
		})
		if !held {
			return nil, nil, fmt.Errorf("%s: %s names the Secret %s with the kubeconfig, which is not here; add it",
				o.Source, o, secret)
		}
	}
	if deployments == 0 {
		return nil, nil, errors.New("there is no ClusterDeployment, so it is not known which cluster is adopted")
	}
	return chosen, notes, nil
}
