package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ImageDigestSource is one entry of install-config's imageDigestSources.
type ImageDigestSource struct {
	Source  string   `json:"source"`
	Mirrors []string `json:"mirrors,omitempty"`
	// SourcePolicy is NeverContactSource or empty. It is set only for installers that support it;
	// see [Rules.InstallConfig].
	SourcePolicy       string `json:"sourcePolicy,omitempty"`
	NeverContactSource bool   `json:"-"`
}

// ImageDigestSources returns the rules for pulls by digest, grouped by source. This form cannot
// mark insecure mirrors.
func (r *Rules) ImageDigestSources() []ImageDigestSource { return r.sources(true) }

// ImageTagSources returns the rules for pulls by tag in the same form. An install-config has no
// field for them; the cluster receives them as an ImageTagMirrorSet.
func (r *Rules) ImageTagSources() []ImageDigestSource { return r.sources(false) }

func (r *Rules) sources(digest bool) []ImageDigestSource {
	if r == nil {
		return nil
	}
	var sources []ImageDigestSource
	for _, t := range r.tables {
		s := ImageDigestSource{Source: t.prefix, NeverContactSource: t.blocked}
		for _, m := range t.mirrors {
			if m.use.allows(digest) {
				s.Mirrors = append(s.Mirrors, m.location)
			}
		}
		if !t.blocked && t.location != "" && t.location != t.prefix {
			// The source has another location, so its own name is never contacted.
			s.Mirrors, s.NeverContactSource = append(s.Mirrors, t.location), true
		}
		if s.NeverContactSource { // OpenShift rejects a source that is its own mirror, and would contact the source
			s.Mirrors = slices.DeleteFunc(s.Mirrors, func(m string) bool { return m == s.Source })
		}
		if len(s.Mirrors) > 0 || s.NeverContactSource {
			sources = append(sources, s)
		}
	}
	return sources
}

const (
	kindDigestSet = "ImageDigestMirrorSet"
	kindTagSet    = "ImageTagMirrorSet"
)

// setKinds are the kinds of objects with mirror rules: their group and version, the list in their
// spec, and the references that their mirrors serve.
var setKinds = []struct {
	kind, apiVersion, list string
	use                    use
}{
	{kindDigestSet, "config.openshift.io/v1", "imageDigestMirrors", useDigestOnly},
	{kindTagSet, "config.openshift.io/v1", "imageTagMirrors", useTagOnly},
	{"ImageContentSourcePolicy", "operator.openshift.io/v1alpha1", "repositoryDigestMirrors", useDigestOnly},
}

// mirrorSets collects the entries of mirror sets by source.
type mirrorSets struct {
	sources []*setSource
	objects []Object
}

type setSource struct {
	name   string
	origin string
	lists  [][]mirror
	// policy is the mirrorSourcePolicy of an entry; empty if no entry has one.
	policy, policyOrigin string
}

const (
	allowContacting = "AllowContactingSource"
	neverContact    = "NeverContactSource"
)

// add reads all YAML documents of a file. It skips other kinds of objects, which oc-mirror writes
// to the same files.
func (s *mirrorSets) add(doc Document) error {
	dec := yaml.NewDecoder(bytes.NewReader(doc.Data))
	for {
		var node yaml.Node
		if err := dec.Decode(&node); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return &InputError{doc.Name, "", "is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
		}
		if len(node.Content) == 0 || isNull(node.Content[0]) {
			continue
		}
		if err := s.addObject(doc.Name, node.Content[0]); err != nil {
			return err
		}
	}
}

type setObject struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name        string            `yaml:"name"`
		Namespace   string            `yaml:"namespace"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	} `yaml:"metadata"`
	Spec  yaml.Node `yaml:"spec"`
	Items yaml.Node `yaml:"items"`

	// oc prints parts of an install-config together with the objects.
	DigestSources  yaml.Node `yaml:"imageDigestSources"`
	ContentSources yaml.Node `yaml:"imageContentSources"`
}

func (s *mirrorSets) addObject(document string, node *yaml.Node) error {
	var o setObject
	if node.Kind != yaml.MappingNode {
		return &InputError{document, line(node),
			"is not a Kubernetes object; expected an ImageDigestMirrorSet, ImageTagMirrorSet or " +
				"ImageContentSourcePolicy"}
	}
	if err := node.Decode(&o); err != nil {
		return &InputError{document, line(node), "is not a Kubernetes object: " + strings.TrimPrefix(err.Error(),
			"yaml: ")}
	}
	if strings.HasSuffix(o.Kind, "List") && o.Items.Kind == yaml.SequenceNode {
		for _, item := range o.Items.Content {
			if err := s.addObject(document, item); err != nil {
				return err
			}
		}
		return nil
	}
	if o.Kind == "" {
		for _, list := range []*yaml.Node{&o.DigestSources, &o.ContentSources} {
			if err := s.addList(document, document, list, useDigestOnly); err != nil {
				return err
			}
		}
		return nil
	}
	for _, k := range setKinds {
		if o.Kind != k.kind {
			continue
		}
		if o.APIVersion != k.apiVersion {
			return &InputError{document, line(node), fmt.Sprintf("apiVersion is %q; %s has %s", o.APIVersion, k.kind,
				k.apiVersion)}
		}
		list := mapValue(&o.Spec, k.list)
		if list == nil {
			return &InputError{document, line(node), fmt.Sprintf("%s %q has no spec.%s", k.kind, o.Metadata.Name,
				k.list)}
		}
		return s.addList(document, fmt.Sprintf("%s %s", k.kind, o.Metadata.Name), list, k.use)
	}
	return s.keepObject(document, node, o)
}

type setEntry struct {
	Source       string   `yaml:"source"`
	Mirrors      []string `yaml:"mirrors"`
	MirrorPolicy string   `yaml:"mirrorSourcePolicy"`
	SourcePolicy string   `yaml:"sourcePolicy"` // its name in the install-config
}

func (s *mirrorSets) addList(document, origin string, list *yaml.Node, u use) error {
	if list.Kind == 0 || isNull(list) {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		return &InputError{document, line(list), "must be a list of entries with source and mirrors"}
	}
	for _, node := range list.Content {
		var e setEntry
		if err := node.Decode(&e); err != nil {
			return &InputError{document, line(node),
				"must be an entry with source (a string) and mirrors (a list of strings)"}
		}
		if err := s.addEntry(document, origin, node, e, u); err != nil {
			return err
		}
	}
	return nil
}

func (s *mirrorSets) addEntry(document, origin string, node *yaml.Node, e setEntry, u use) error {
	fail := func(problem string, args ...any) error {
		return &InputError{document, line(node), fmt.Sprintf(problem, args...)}
	}
	if e.Source == "" {
		return fail("source is missing; it names the registry or repository that is mirrored")
	}
	if problem := checkSource(e.Source); problem != "" {
		return fail("source %q %s", e.Source, problem)
	}
	var mirrors []mirror
	for _, m := range e.Mirrors {
		if problem := checkLocation(m); problem != "" {
			return fail("the mirror %q of %q %s", m, e.Source, problem)
		}
		mirrors = append(mirrors, mirror{location: m, use: u})
	}
	policy := e.MirrorPolicy
	if policy == "" {
		policy = e.SourcePolicy
	}
	if policy != "" && policy != allowContacting && policy != neverContact {
		return fail("mirrorSourcePolicy is %q; it must be %s or %s", policy, allowContacting, neverContact)
	}
	src := s.source(e.Source)
	if policy != "" && src.policy != "" && src.policy != policy {
		return fail("%s sets %s for %q, but %s sets %s; use the same policy in both", origin, policy, e.Source,
			src.policyOrigin,
			src.policy)
	}
	if policy != "" {
		src.policy, src.policyOrigin = policy, origin
	}
	src.lists = append(src.lists, mirrors)
	if !strings.Contains(src.origin, origin) {
		src.origin = strings.TrimPrefix(src.origin+" and "+origin, " and ")
	}
	return nil
}

func (s *mirrorSets) source(name string) *setSource {
	i := slices.IndexFunc(s.sources, func(src *setSource) bool { return src.name == name })
	if i >= 0 {
		return s.sources[i]
	}
	src := &setSource{name: name}
	s.sources = append(s.sources, src)
	return src
}

func (s *mirrorSets) tables() []table {
	tables := make([]table, 0, len(s.sources))
	for _, src := range s.sources {
		t := table{prefix: src.name, location: src.name, origin: src.origin,
			blocked: src.policy == neverContact, mirrors: mergeMirrors(src.lists)}
		if strings.HasPrefix(src.name, "*.") {
			t.location = ""
		}
		tables = append(tables, t)
	}
	return tables
}

func line(n *yaml.Node) string { return fmt.Sprintf("line %d", n.Line) }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func mapValue(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
