package kube

import (
	"encoding/json"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericdiscovery "k8s.io/apiserver/pkg/endpoints/discovery"

	"landfall/appliance/kube/objects"
)

// discovery holds the served kinds: the built-in kinds and those of custom resource definitions. It
// lists the groups of custom resources for old clients; the server lists them only for new clients.
type discovery struct {
	groups  genericdiscovery.GroupManager
	builtIn []objects.Kind
	custom  map[string]definition // by the definition's name
}

// definition is the part of a custom resource definition that discovery uses.
type definition struct {
	kind     objects.Kind
	versions []string
}

func newDiscovery(groups genericdiscovery.GroupManager) discovery {
	d := discovery{groups: groups, custom: map[string]definition{}, builtIn: []objects.Kind{objects.Namespaces,
		definitionKind}}
	for _, r := range resources(0) {
		d.builtIn = append(d.builtIn, objects.Kind{Group: r.kind.Group, Version: r.kind.Version, Kind: r.kind.Kind,
			Resource: r.plural, Namespaced: r.namespaced})
	}
	return d
}

// kind finds a served kind.
func (d discovery) kind(apiVersion, name string) (objects.Kind, bool) {
	group := groupOf(apiVersion)
	for _, kind := range d.builtIn {
		if kind.Group == group && kind.Kind == name {
			return kind, true
		}
	}
	for _, definition := range d.custom {
		if definition.kind.Group == group && definition.kind.Kind == name {
			return definition.kind, true
		}
	}
	return objects.Kind{}, false
}

var definitionPrefix = definitionKind.Key("", "")

// update updates the kinds from a row if it is a custom resource definition. value is nil for a
// deleted row.
func (d discovery) update(key string, row []byte) {
	name, ok := strings.CutPrefix(key, definitionPrefix)
	if !ok {
		return
	}
	old := d.custom[name]
	delete(d.custom, name)
	if row == nil {
		d.publish(old.kind.Group)
		return
	}
	var object struct {
		Spec struct {
			Group    string                                        `json:"group"`
			Names    apiextensionsv1.CustomResourceDefinitionNames `json:"names"`
			Scope    apiextensionsv1.ResourceScope                 `json:"scope"`
			Versions []struct {
				Name   string `json:"name"`
				Served bool   `json:"served"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(row, &object); err != nil {
		return // the server reports the error
	}
	now := definition{kind: objects.Kind{
		Group: object.Spec.Group, Kind: object.Spec.Names.Kind, Resource: object.Spec.Names.Plural,
		Namespaced: object.Spec.Scope == apiextensionsv1.NamespaceScoped,
	}}
	for _, version := range object.Spec.Versions {
		if version.Served {
			now.versions = append(now.versions, version.Name)
		}
	}
	d.custom[name] = now
	if !slices.Equal(now.versions, old.versions) {
		d.publish(now.kind.Group)
	}
}

// publish updates the listed versions of a group.
func (d discovery) publish(name string) {
	group := metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: name}
	var versions []string
	for _, definition := range d.custom {
		if definition.kind.Group == name {
			versions = append(versions, definition.versions...)
		}
	}
	slices.Sort(versions)
	for _, version := range slices.Compact(versions) {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + version,
			Version: version})
	}
	if len(group.Versions) == 0 {
		d.groups.RemoveGroup(name)
		return
	}
	group.PreferredVersion = group.Versions[len(group.Versions)-1]
	d.groups.AddGroup(group)
}
