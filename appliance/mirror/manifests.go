package mirror

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Manifest is an object that makes an installed cluster use the mirror.
type Manifest struct {
	// Folder is a directory of openshift-install: manifests or openshift.
	Folder string
	// Name is the file name.
	Name string
	// Kind and Object are the object's kind and name. A user's object of the same kind and name
	// replaces it.
	Kind, Object string
	YAML         []byte
}

// Target describes which forms of mirror rules a cluster's OpenShift version supports.
type Target struct {
	// MirrorSets is true if ImageDigestMirrorSet and ImageTagMirrorSet objects can be added to
	// those that openshift-install creates from the install-config. Before 4.14 the installer
	// creates an ImageContentSourcePolicy, which excludes them.
	MirrorSets bool
	// SourcePolicy is true if the imageDigestSources of the install-config support sourcePolicy,
	// which the bootstrap then follows (openshift-install 4.21; github.com/openshift/installer pull
	// requests 10050 and 10073).
	SourcePolicy bool
	// ClusterCatalogs is true if the cluster has OLM v1 when its manifests are applied.
	ClusterCatalogs bool
}

// manifestPrefix is the prefix of the names of our manifests. It sorts them after the installer's
// manifests.
const manifestPrefix = "99_mirror_"

// These constants are the file name and the object name of the ImageDigestMirrorSet that
// openshift-install creates from the install-config (github.com/openshift/installer,
// pkg/asset/manifests/imagedigestmirrorset.go).
const (
	installersDigestSetFile = "image-digest-mirror-set.yaml"
	installersDigestSet     = "image-digest-mirror"
)

// InstallConfig returns the rules for pulls by digest in the form of the install-config. It omits
// sources that this form does not support (*.host, a single image); see [Rules.Manifests].
func (r *Rules) InstallConfig(target Target) []ImageDigestSource {
	var sources []ImageDigestSource
	for _, s := range r.ImageDigestSources() {
		if len(s.Mirrors) == 0 || !isRepository(s.Source) {
			continue
		}
		if s.NeverContactSource && target.SourcePolicy {
			s.SourcePolicy = neverContact
		}
		sources = append(sources, s)
	}
	return sources
}

// isRepository reports whether a source is a registry, namespace or repository, and neither a
// wildcard nor a single image.
func isRepository(source string) bool {
	return !strings.HasPrefix(source, "*.") && !strings.Contains(source, "@") && bareRepository(source) == source
}

// Manifests returns the rules that an install-config cannot express:
//   - the policy NeverContactSource, if the installer does not support it: a copy of its
//     ImageDigestMirrorSet with the policy. It replaces the installer's object, because OpenShift
//     rejects all mirror sets if two have different policies for one source;
//   - digest mirrors for *.host (ImageDigestMirrorSet) and tag mirrors (ImageTagMirrorSet), with
//     the same policies;
//   - registries without TLS, and blocked ones without mirrors (Image);
//   - release signatures (ConfigMap) and catalogs of OLM v1 (ClusterCatalog).
//
// It does not return CatalogSources, which depend on the cluster's operators, and UpdateServices,
// whose kind an operator installs; see [Rules.LaterObjects].
func (r *Rules) Manifests(target Target) ([]Manifest, error) {
	var manifests []Manifest
	add := func(folder, file, kind, name string, value any) error {
		text, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("write the manifest %s: %w", file, err)
		}
		manifests = append(manifests, Manifest{Folder: folder, Name: file, Kind: kind, Object: name, YAML: text})
		return nil
	}
	if target.MirrorSets {
		if sources := r.InstallConfig(target); !target.SourcePolicy && slices.ContainsFunc(sources,
			func(s ImageDigestSource) bool { return s.NeverContactSource }) {
			if err := add("manifests", installersDigestSetFile, kindDigestSet, installersDigestSet,
				mirrorSet(kindDigestSet, installersDigestSet, sources)); err != nil {
				return nil, err
			}
		}
		for _, set := range []struct {
			file, kind, name string
			sources          []ImageDigestSource
		}{
			{"idms.yaml", kindDigestSet, "landfall-digests", r.wildcards()},
			{"itms.yaml", kindTagSet, "landfall-tags", r.tagSources()},
		} {
			if len(set.sources) == 0 {
				continue
			}
			if err := add("openshift", manifestPrefix+set.file, set.kind, set.name,
				mirrorSet(set.kind, set.name, set.sources)); err != nil {
				return nil, err
			}
		}
	}
	if image := r.imageConfig(); image != nil {
		if err := add("openshift", manifestPrefix+"image.yaml", "Image", "cluster", image); err != nil {
			return nil, err
		}
	}
	for _, o := range r.Objects() {
		switch {
		case o.Kind == KindSignatures:
			manifests = append(manifests, o.manifest("signatures"))
		case o.Kind == KindClusterCatalog && target.ClusterCatalogs:
			manifests = append(manifests, o.manifest("clustercatalog"))
		}
	}
	return manifests, nil
}

func (o *Object) manifest(what string) Manifest {
	return Manifest{Folder: "openshift", Name: manifestPrefix + what + "_" + o.Name + ".yaml", Kind: o.Kind,
		Object: o.Name, YAML: o.YAML}
}

// LaterObjects returns the objects that can be created only in a running cluster, because an
// operator or a late component installs their kind: UpdateServices, and ClusterCatalogs unless the
// target has them. The bootstrap would wait forever for a manifest of an unknown kind.
func (r *Rules) LaterObjects(target Target) []Object {
	var later []Object
	for _, o := range r.Objects() {
		if o.Kind == KindUpdateService || o.Kind == KindClusterCatalog && !target.ClusterCatalogs {
			later = append(later, o)
		}
	}
	return later
}

// object is a Kubernetes object to render.
type object struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Spec       any               `yaml:"spec"`
}

type setMirrors struct {
	Source  string   `yaml:"source"`
	Mirrors []string `yaml:"mirrors"`
	Policy  string   `yaml:"mirrorSourcePolicy,omitempty"`
}

// mirrorSet is an ImageDigestMirrorSet or ImageTagMirrorSet.
func mirrorSet(kind, name string, sources []ImageDigestSource) *object {
	entries := make([]setMirrors, len(sources))
	for i, s := range sources {
		entries[i] = setMirrors{Source: s.Source, Mirrors: s.Mirrors}
		if s.NeverContactSource {
			entries[i].Policy = neverContact
		}
	}
	list := "imageDigestMirrors"
	if kind == kindTagSet {
		list = "imageTagMirrors"
	}
	return &object{"config.openshift.io/v1", kind, map[string]string{"name": name},
		map[string][]setMirrors{list: entries}}
}

// wildcards returns the digest mirrors for *.host.
func (r *Rules) wildcards() []ImageDigestSource {
	return slices.DeleteFunc(r.ImageDigestSources(), func(s ImageDigestSource) bool {
		return len(s.Mirrors) == 0 || !strings.HasPrefix(s.Source, "*.")
	})
}

// tagSources returns the tag mirrors that an ImageTagMirrorSet can express.
func (r *Rules) tagSources() []ImageDigestSource {
	return slices.DeleteFunc(r.ImageTagSources(), func(s ImageDigestSource) bool {
		return len(s.Mirrors) == 0 || !isRepository(s.Source) && !strings.HasPrefix(s.Source, "*.")
	})
}

// registrySources is the registries section of an Image (config.openshift.io/v1).
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
	return &object{"config.openshift.io/v1", "Image", map[string]string{"name": "cluster"},
		map[string]registrySources{"registrySources": sources}}
}

func registryOf(location string) string {
	host, _, _ := strings.Cut(location, "/")
	return host
}
