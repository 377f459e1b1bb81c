package registry

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"landfall/appliance/mirror"
	"landfall/appliance/registry/medium"
)

// Place is how nodes reach the registry.
type Place struct {
	Host  string // name:port
	CA    []byte // PEM; verifies the certificate
	Plain bool   // without TLS, on the loopback
}

// rulesName is the name of the documents with the registry's rules, for people.
const rulesName = "the appliance's registry"

// Rules returns the mirror rules for the content of the known media, present or missing, as
// oc-mirror makes them for a registry: sources, catalogs, the update service and signatures.
func (r *Registry) Rules(at Place) (mirror.Sources, error) {
	c := r.current.Load()
	var sources mirror.Sources
	digests, tags := c.mappings(at.Host)
	if len(digests) == 0 && len(c.signatures) == 0 {
		return sources, nil
	}
	objects := c.objects(at.Host)
	if at.Plain {
		sources.RegistriesConf = []mirror.Document{{Name: rulesName, Data: plainRules(digests, tags)}}
	} else {
		objects = append(mirrorSets(digests, tags), objects...)
	}
	var text []byte
	for _, object := range objects {
		encoded, err := yaml.Marshal(object)
		if err != nil {
			return mirror.Sources{}, fmt.Errorf("encode the mirror rules of the registry: %w", err)
		}
		text = append(append(text, "---\n"...), encoded...)
	}
	if len(text) > 0 {
		sources.MirrorSets = []mirror.Document{{Name: rulesName, Data: text}}
	}
	if len(at.CA) > 0 {
		sources.CABundle = []mirror.Document{{Name: rulesName, Data: at.CA}}
	}
	for _, name := range slices.Sorted(maps.Keys(c.signatures)) {
		if mirror.IsSignature(name, c.signatures[name]) {
			sources.Signatures = append(sources.Signatures, mirror.Document{Name: name, Data: c.signatures[name]})
		}
	}
	return sources, nil
}

// mapping is a source and its mirror.
type mapping struct{ source, mirror string }

// mappings returns the rules for digests and for tags. Images of a release have rules for their two
// repositories; the others by namespace, where the names of oc-mirror permit it.
func (c *content) mappings(host string) (digests, tags []mapping) {
	add := func(source, repository string) {
		digests = append(digests, mapping{source, host + "/" + repository})
	}
	for _, release := range []mapping{{releaseSource, releaseRepository}, {componentSource, componentRepository}} {
		if c.repositories[release.mirror] != nil {
			add(release.source, release.mirror)
		}
	}
	for _, source := range c.sources {
		registry, repository, _ := strings.Cut(source, "/")
		if source == releaseSource || source == componentSource {
			continue
		}
		namespace, _, nested := strings.Cut(repository, "/")
		switch kept := medium.HostPath(registry) + "/" + repository; {
		case c.repositories[kept] != nil:
			add(source, kept)
			tags = append(tags, mapping{source, host + "/" + kept})
		case c.repositories[repository] != nil && nested:
			// Digests and tags have one source: nodes use only the rule with the longest source.
			add(registry+"/"+namespace, namespace)
			tags = append(tags, mapping{registry + "/" + namespace, host + "/" + namespace})
		case c.repositories[repository] != nil:
			add(source, repository)
			tags = append(tags, mapping{source, host + "/" + repository})
		}
	}
	order := func(a, b mapping) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.mirror, b.mirror))
	}
	slices.SortFunc(digests, order)
	slices.SortFunc(tags, order)
	return slices.Compact(digests), slices.Compact(tags)
}

type object = map[string]any

func meta(name, namespace string) object {
	made := object{"name": name}
	if namespace != "" {
		made["namespace"] = namespace
	}
	return made
}

// mirrorSets returns an ImageDigestMirrorSet and an ImageTagMirrorSet.
func mirrorSets(digests, tags []mapping) (sets []object) {
	for _, set := range []struct {
		kind, name, field string
		rules             []mapping
	}{{"ImageDigestMirrorSet", "idms-landfall", "imageDigestMirrors", digests},
		{"ImageTagMirrorSet", "itms-landfall", "imageTagMirrors", tags}} {
		if len(set.rules) == 0 {
			continue
		}
		var list []object
		for _, rule := range set.rules {
			list = append(list, object{"source": rule.source, "mirrors": []string{rule.mirror}})
		}
		sets = append(sets, object{"apiVersion": "config.openshift.io/v1", "kind": set.kind,
			"metadata": meta(set.name, ""),
			"spec":     object{set.field: list}})
	}
	return sets
}

// plainRules returns the rules as registries.conf, because a mirror set can't permit plain HTTP.
func plainRules(digests, tags []mapping) []byte {
	var text strings.Builder
	for i, rules := range [][]mapping{digests, tags} {
		for _, rule := range rules {
			if i == 1 && slices.Contains(digests, rule) {
				continue
			}
			use := "digest-only"
			if slices.Contains(tags, rule) {
				use = "all"
			}
			fmt.Fprintf(&text, "[[registry]]\nlocation = %q\n\n[[registry.mirror]]\nlocation = %q\ninsecure = true\n"+
				"pull-from-mirror = %q\n\n", rule.source, rule.mirror, use)
		}
	}
	return []byte(text.String())
}

// objects returns the objects with which a cluster uses the catalogs and the update graph.
func (c *content) objects(host string) (objects []object) {
	for _, catalog := range c.catalogs {
		name := catalogName(catalog)
		image := host + "/" + catalog.repository + ":" + catalog.tag
		objects = append(objects,
			object{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
				"metadata": meta("cs-"+name, "openshift-marketplace"),
				"spec":     object{"sourceType": "grpc", "image": image}},
			object{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
				"metadata": meta("cc-"+name, ""),
				"spec":     object{"source": object{"type": "Image", "image": object{"ref": image}}}})
	}
	if c.repositories["openshift/graph-image"] != nil && c.repositories[releaseRepository] != nil {
		objects = append(objects, object{"apiVersion": "updateservice.operator.openshift.io/v1",
			"kind": "UpdateService", "metadata": meta("update-service-landfall", "openshift-update-service"),
			"spec": object{"replicas": 2, "releases": host + "/" + releaseRepository,
				"graphDataImage": host + "/openshift/graph-image:latest"}})
	}
	return objects
}

// catalogName returns the name of a catalog's objects as oc-mirror forms it.
func catalogName(catalog catalog) string {
	tag := catalog.tag[:min(len(catalog.tag), 12)]
	name := path.Base(catalog.repository) + "-" + tag
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r == '.' || r == '_' {
			return '-'
		}
		return r
	}, name))
}
