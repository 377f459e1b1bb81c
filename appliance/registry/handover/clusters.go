package handover

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"landfall/appliance/mirror"
)

type resource = schema.GroupVersionResource

// api is the API of an installed cluster; *spoke.Client implements it.
type api interface {
	Get(ctx context.Context, kind resource, namespace, name string, into any) error
	List(ctx context.Context, kind resource, namespace, selector string, into any) error
	Merge(ctx context.Context, kind resource, namespace, name string, patch any) error
	Apply(ctx context.Context, kind resource, namespace, name string, object any) error
}

// mirrorSet is a kind of objects with mirrors, and the field of its list.
type mirrorSet struct {
	kind  resource
	field string
}

// mirrorSets are the kinds of mirror sets of all supported versions of OpenShift.
func mirrorSets() []mirrorSet {
	const config = "config.openshift.io"
	return []mirrorSet{
		{resource{Group: config, Version: "v1", Resource: "imagedigestmirrorsets"}, "imageDigestMirrors"},
		{resource{Group: config, Version: "v1", Resource: "imagetagmirrorsets"}, "imageTagMirrors"},
		{resource{Group: "operator.openshift.io", Version: "v1alpha1", Resource: "imagecontentsourcepolicies"},
			"repositoryDigestMirrors"},
	}
}

// reference is a field of a kind that names an image or a repository of the registry itself.
type reference struct {
	kind resource
	path []string
}

// references are the fields of objects that oc-mirror writes with the name of the registry.
func references() []reference {
	service := resource{Group: "updateservice.operator.openshift.io", Version: "v1", Resource: "updateservices"}
	return []reference{
		{resource{Group: "operators.coreos.com", Version: "v1alpha1", Resource: "catalogsources"},
			[]string{"spec", "image"}},
		{resource{Group: "olm.operatorframework.io", Version: "v1", Resource: "clustercatalogs"},
			[]string{"spec", "source", "image", "ref"}},
		{service, []string{"spec", "releases"}},
		{service, []string{"spec", "graphDataImage"}},
	}
}

var (
	imageConfigKind = resource{Group: "config.openshift.io", Version: "v1", Resource: "images"}
	configMapKind   = resource{Version: "v1", Resource: "configmaps"}
	secretKind      = resource{Version: "v1", Resource: "secrets"}
)

const (
	configNamespace = "openshift-config"
	caMapName       = "landfall-registry-cas"
)

// listed lists the objects of a kind. A cluster without the kind has none.
func listed(ctx context.Context, in api, kind resource) ([]unstructured.Unstructured, error) {
	var found struct {
		Items []map[string]any `json:"items"`
	}
	err := in.List(ctx, kind, "", "", &found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
	}
	var objects []unstructured.Unstructured
	for _, item := range found.Items {
		objects = append(objects, unstructured.Unstructured{Object: item})
	}
	return objects, nil
}

// at reports whether an image or a repository is below a registry, and returns the rest.
func at(image, registry string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(image, registry)
	return rest, ok && (rest == "" || strings.HasPrefix(rest, "/"))
}

// withSecond returns mirrors with the new registry after each mirror of the old one.
func withSecond(mirrors []string, from, to string) []string {
	var changed []string
	for _, m := range mirrors {
		changed = append(changed, m)
		if rest, ok := at(m, from); ok && !slices.Contains(mirrors, to+rest) {
			changed = append(changed, to+rest)
		}
	}
	return changed
}

// withoutFirst returns mirrors without those of the old registry that the new one replaces.
func withoutFirst(mirrors []string, from, to string) []string {
	return slices.DeleteFunc(slices.Clone(mirrors), func(m string) bool {
		rest, ok := at(m, from)
		return ok && slices.Contains(mirrors, to+rest)
	})
}

// without returns mirrors without those of a registry.
func without(mirrors []string, registry string) []string {
	return slices.DeleteFunc(slices.Clone(mirrors), func(m string) bool {
		_, ok := at(m, registry)
		return ok
	})
}

// editMirrors changes the mirrors in all mirror sets of a cluster. It reports whether it changed
// any. dry only reports whether it would.
func editMirrors(ctx context.Context, in api, edit func([]string) []string, dry bool) (changed bool, err error) {
	for _, set := range mirrorSets() {
		objects, err := listed(ctx, in, set.kind)
		if err != nil {
			return changed, err
		}
		for _, object := range objects {
			entries, _, err := unstructured.NestedSlice(object.Object, "spec", set.field)
			if err != nil {
				return changed, fmt.Errorf("read %s %s: %w", set.kind.Resource, object.GetName(), err)
			}
			edited := false
			for _, entry := range entries {
				fields, ok := entry.(map[string]any)
				if !ok {
					continue
				}
				before, _, err := unstructured.NestedStringSlice(fields, "mirrors")
				if err != nil {
					return changed, fmt.Errorf("read %s %s: %w", set.kind.Resource, object.GetName(), err)
				}
				if after := edit(before); !slices.Equal(before, after) {
					edited = true
					if err := unstructured.SetNestedStringSlice(fields, after, "mirrors"); err != nil {
						return changed, err
					}
				}
			}
			if !edited {
				continue
			}
			changed = true
			if dry {
				continue
			}
			// A list is replaced as a whole, so a change by somebody else in between is a conflict.
			if err := in.Merge(ctx, set.kind, "", object.GetName(), map[string]any{
				"metadata": map[string]any{"resourceVersion": object.GetResourceVersion()},
				"spec":     map[string]any{set.field: entries}}); err != nil {
				return changed, fmt.Errorf("change %s %s: %w", set.kind.Resource, object.GetName(), err)
			}
		}
	}
	return changed, nil
}

// moveReferences makes catalogs and the update service name the new registry.
func moveReferences(ctx context.Context, in api, from, to string) error {
	for _, field := range references() {
		objects, err := listed(ctx, in, field.kind)
		if err != nil {
			return err
		}
		for _, object := range objects {
			value, _, err := unstructured.NestedString(object.Object, field.path...)
			if err != nil {
				continue // another kind of source
			}
			rest, ok := at(value, from)
			if !ok {
				continue
			}
			patch := map[string]any{}
			if err := unstructured.SetNestedField(patch, to+rest, field.path...); err != nil {
				return err
			}
			if err := in.Merge(ctx, field.kind, object.GetNamespace(), object.GetName(), patch); err != nil {
				return fmt.Errorf("change %s %s: %w", field.kind.Resource, object.GetName(), err)
			}
		}
	}
	return nil
}

// caKey returns the key of a registry in the ConfigMap with the CAs of registries: a colon is not
// allowed in it (OpenShift documentation, "Adding certificate authorities to the cluster").
func caKey(host string) string { return strings.Replace(host, ":", "..", 1) }

// trustCA makes the nodes of a cluster trust a CA for a registry.
func trustCA(ctx context.Context, in api, host, ca string) error {
	var config struct {
		Spec struct {
			AdditionalTrustedCA struct {
				Name string `json:"name"`
			} `json:"additionalTrustedCA"`
		} `json:"spec"`
	}
	if err := in.Get(ctx, imageConfigKind, "", "cluster", &config); err != nil {
		return fmt.Errorf("read the image configuration: %w", err)
	}
	if name := config.Spec.AdditionalTrustedCA.Name; name != "" {
		var held struct {
			Data map[string]string `json:"data"`
		}
		err := in.Get(ctx, configMapKind, configNamespace, name, &held)
		before := held.Data[caKey(host)]
		switch {
		case err == nil && strings.Contains(before, strings.TrimSpace(ca)):
			return nil
		case err == nil: // CAs that the cluster trusts for the registry stay
			err = in.Merge(ctx, configMapKind, configNamespace, name,
				map[string]any{"data": map[string]string{
					caKey(host): strings.TrimLeft(strings.TrimSuffix(before, "\n")+"\n"+ca, "\n")}})
		}
		if err != nil {
			return fmt.Errorf("add the CA of %s to the ConfigMap %s/%s: %w", host, configNamespace, name, err)
		}
		return nil
	}
	if err := in.Apply(ctx, configMapKind, configNamespace, caMapName, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": caMapName,
			"namespace": configNamespace},
		"data": map[string]string{caKey(host): ca}}); err != nil {
		return fmt.Errorf("create the ConfigMap %s/%s: %w", configNamespace, caMapName, err)
	}
	if err := in.Merge(ctx, imageConfigKind, "", "cluster", map[string]any{"spec": map[string]any{
		"additionalTrustedCA": map[string]any{"name": caMapName}}}); err != nil {
		return fmt.Errorf("name the CAs in the image configuration: %w", err)
	}
	return nil
}

// pullSecretName is the Secret with the pull secret of all nodes, and pullSecretKey its key.
const (
	pullSecretName = "pull-secret"
	pullSecretKey  = ".dockerconfigjson"
)

// addCredentials adds the credentials of nodes for the registry to the pull secret of a cluster.
func addCredentials(ctx context.Context, in api, with func(secret string) (string, error)) error {
	var held struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Data map[string]string `json:"data"`
	}
	fail := func(err error) error {
		return fmt.Errorf("add the credentials of nodes to the Secret %s/%s: %w", configNamespace, pullSecretName, err)
	}
	if err := in.Get(ctx, secretKind, configNamespace, pullSecretName, &held); err != nil {
		return fail(err)
	}
	before, err := base64.StdEncoding.DecodeString(held.Data[pullSecretKey])
	if err != nil {
		return fail(err)
	}
	after, err := with(string(before))
	if err != nil {
		return fail(err)
	}
	if after == string(before) {
		return nil
	}
	if !json.Valid([]byte(after)) {
		return fail(fmt.Errorf("the result is not JSON"))
	}
	if err := in.Merge(ctx, secretKind, configNamespace, pullSecretName, map[string]any{
		"metadata": map[string]any{"resourceVersion": held.Metadata.ResourceVersion},
		"data":     map[string]string{pullSecretKey: base64.StdEncoding.EncodeToString([]byte(after))}}); err != nil {
		return fail(err)
	}
	return nil
}

// moved returns the rules of a cluster with the new registry in place of the appliance's.
func (s *Service) moved(of *row, clusterID string) (*mirror.Rules, error) {
	rules := s.Rules(mirror.Level{Cluster: clusterID})
	if of.Way == MoveName {
		return rules.Trusting([]byte(of.CA)), nil
	}
	rules, err := rules.Moved(of.Name, of.To)
	return rules.Trusting([]byte(of.CA)), err
}
