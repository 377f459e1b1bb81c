package mirror

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Manifest is an object by which a finished cluster keeps to the mirror.
type Manifest struct {
	// Folder is where openshift-install looks for it: manifests or openshift.
	Folder string
	// Name is the file's.
	Name string
	// Kind and Object are the object's kind and name: somebody else's object of both goes over it.
	Kind, Object string
	YAML         []byte
}

// Target is what a cluster's version of OpenShift understands of mirror rules.
type Target struct {
	// MirrorSets: ImageDigestMirrorSet and ImageTagMirrorSet, beside what openshift-install makes
	// of install-config. Before 4.14 that is an ImageContentSourcePolicy, which does not go
	// together with them.
	MirrorSets bool
	// SourcePolicy: install-config's imageDigestSources take sourcePolicy, and the bootstrap keeps
	// to it (openshift-install 4.21; github.com/openshift/installer pull requests 10050 and 10073).
	SourcePolicy bool
	// ClusterCatalogs: the cluster has OLM v1 by the time that its manifests are applied.
	ClusterCatalogs bool
}

// manifestPrefix is what the names of our manifests begin with; they are applied behind the
// installer's own.
const manifestPrefix = "99_mirror_"

// The ImageDigestMirrorSet that openshift-install makes of install-config: its file, and the
// object's name (github.com/openshift/installer, pkg/asset/manifests/imagedigestmirrorset.go).
const (
	installersDigestSetFile = "image-digest-mirror-set.yaml"
	installersDigestSet     = "image-digest-mirror"
)

// InstallConfig returns the rules for pulls by digest as install-config has them. Sources that it
// has no form for (*.host, a single image) are left out; see [Rules.Manifests].
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

// isRepository tells sources that name registries, namespaces and repositories from wildcards and
// single images.
func isRepository(source string) bool {
	return !strings.HasPrefix(source, "*.") && !strings.Contains(source, "@") && bareRepository(source) == source
}

// Manifests returns what install-config has no word for:
//   - the policy NeverContactSource, where the installer takes none: its ImageDigestMirrorSet again, with the policy. OpenShift
//     takes no mirror set at all when two differ in the policy of one source, so it can't be an object beside it;
//   - mirrors of digests for *.host (ImageDigestMirrorSet), and mirrors of tags (ImageTagMirrorSet), with the same policies;
//   - registries without TLS, and blocked ones without mirrors (Image);
//   - signatures of releases (ConfigMap), and catalogs of OLM v1 (ClusterCatalog).
//
// CatalogSources are not among them: which of them a cluster gets depends on its operators.
// UpdateServices are not, because their kind comes with an operator: see [Rules.LaterObjects].
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

// LaterObjects are what a cluster can only be given when it runs, because the kind comes with an
// operator or with a part that starts late: UpdateServices, and ClusterCatalogs unless the target
// has them. A manifest of a kind that nobody knows would keep the bootstrap waiting for ever.
func (r *Rules) LaterObjects(target Target) []Object {
	var later []Object
	for _, o := range r.Objects() {
		if o.Kind == KindUpdateService || o.Kind == KindClusterCatalog && !target.ClusterCatalogs {
			later = append(later, o)
		}
	}
	return later
}

// object is a Kubernetes object to be written.
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

// mirrorSet is an ImageDigestMirrorSet or an ImageTagMirrorSet.
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

// wildcards are the mirrors of digests for *.host.
func (r *Rules) wildcards() []ImageDigestSource {
	return slices.DeleteFunc(r.ImageDigestSources(), func(s ImageDigestSource) bool {
		return len(s.Mirrors) == 0 || !strings.HasPrefix(s.Source, "*.")
	})
}

// tagSources are the mirrors of tags that an ImageTagMirrorSet has a form for.
func (r *Rules) tagSources() []ImageDigestSource {
	return slices.DeleteFunc(r.ImageTagSources(), func(s ImageDigestSource) bool {
		return len(s.Mirrors) == 0 || !isRepository(s.Source) && !strings.HasPrefix(s.Source, "*.")
	})
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
	return &object{"config.openshift.io/v1", "Image", map[string]string{"name": "cluster"},
		map[string]registrySources{"registrySources": sources}}
}

func registryOf(location string) string {
	host, _, _ := strings.Cut(location, "/")
	return host
}
