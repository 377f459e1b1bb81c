package mirror

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Manifest is an object by which a finished cluster keeps to the mirror.
type Manifest struct {
	// Name is the file's.
	Name string
	// Kind and Object are the object's kind and name: somebody else's object of both goes over it.
	Kind, Object string
	YAML         []byte
}

// manifestPrefix is what the names of our manifests begin with; they are applied behind the installer's own.
const manifestPrefix = "99_mirror_"

// Manifests returns what install-config has no word for: the mirrors of tags (ImageTagMirrorSet, which OpenShift knows from 4.13 on), registries
// without TLS and blocked ones (Image), and signatures of releases. Mirrors of digests are install-config's own.
//
// The policy NeverContactSource of a source that has mirrors is not among it: by install-config its digests have another
// policy, and what nodes make of two is not documented. They try the source last.
func (r *Rules) Manifests(mirrorSets bool) ([]Manifest, error) {
	var manifests []Manifest
	add := func(name, kind, object string, value any) error {
		text, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("write the manifest %s: %w", name, err)
		}
		manifests = append(manifests, Manifest{Name: manifestPrefix + name, Kind: kind, Object: object, YAML: text})
		return nil
	}
	if set := r.tagMirrorSet(); set != nil && mirrorSets {
		if err := add("itms.yaml", "ImageTagMirrorSet", "landfall-tags", set); err != nil {
			return nil, err
		}
	}
	if image := r.imageConfig(); image != nil {
		if err := add("image.yaml", "Image", "cluster", image); err != nil {
			return nil, err
		}
	}
	for _, o := range r.Objects() {
		if o.Kind == KindSignatures {
			manifests = append(manifests, Manifest{Name: manifestPrefix + "signatures_" + o.Name + ".yaml", Kind: o.Kind, Object: o.Name, YAML: o.YAML})
		}
	}
	return manifests, nil
}

// object is a Kubernetes object to be written.
type object struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Spec       any               `yaml:"spec"`
}

type tagMirrors struct {
	Source  string   `yaml:"source"`
	Mirrors []string `yaml:"mirrors"`
}

func (r *Rules) tagMirrorSet() *object {
	var entries []tagMirrors
	for _, s := range r.ImageTagSources() {
		if len(s.Mirrors) > 0 && !strings.Contains(s.Source, "@") && bareRepository(s.Source) == s.Source {
			entries = append(entries, tagMirrors{s.Source, s.Mirrors})
		}
	}
	if entries == nil {
		return nil
	}
	return &object{"config.openshift.io/v1", "ImageTagMirrorSet", map[string]string{"name": "landfall-tags"},
		map[string][]tagMirrors{"imageTagMirrors": entries}}
}

// registrySources is the part of an Image (config.openshift.io/v1) about registries.
type registrySources struct {
	Insecure []string `yaml:"insecureRegistries,omitempty"`
	Blocked  []string `yaml:"blockedRegistries,omitempty"`
}

func (r *Rules) imageConfig() *object {
	var sources registrySources
	if r == nil {
		return nil
	}
	add := func(list *[]string, location string) {
		if !slices.Contains(*list, location) {
			*list = append(*list, location)
		}
	}
	for _, t := range r.tables {
		if t.insecure && t.location != "" {
			add(&sources.Insecure, registryOf(t.location))
		}
		if t.blocked && len(t.mirrors) == 0 {
			add(&sources.Blocked, t.prefix)
		}
		for _, m := range t.mirrors {
			if m.insecure {
				add(&sources.Insecure, registryOf(m.location))
			}
		}
	}
	if sources.Insecure == nil && sources.Blocked == nil {
		return nil
	}
	return &object{"config.openshift.io/v1", "Image", map[string]string{"name": "cluster"}, map[string]registrySources{"registrySources": sources}}
}

func registryOf(location string) string {
	host, _, _ := strings.Cut(location, "/")
	return host
}
