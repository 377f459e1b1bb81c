// Package apply reads Kubernetes manifests from files, directories and kustomizations, and applies
// them to an appliance's Kubernetes API. Referenced objects are applied first.
package apply

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"landfall/appliance/kube/objects"
)

// Source is the file and line that an object was read from.
type Source struct {
	File string // path as the user gave it; "-" for the standard input
	Line int    // first line of the document; lines are counted from 1
}

func (s Source) String() string { return fmt.Sprintf("%s:%d", s.File, s.Line) }

// Object is one object of a manifest.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	Content                           map[string]any // as decoded from JSON, with numbers as json.Number
	Source                            Source
	// withoutNetworks reports whether the object is an InfraEnv of a ClusterInstance whose nodes have
	// no static network. Its selector is that of the operator's template, and selects nothing.
	withoutNetworks bool
}

// String returns the object as kubectl names it:
// agentclusterinstall.extensions.hive.openshift.io/sno.
func (o *Object) String() string {
	kind := strings.ToLower(o.Kind)
	if group := o.group(); group != "" {
		kind += "." + group
	}
	return kind + "/" + o.Name
}

func (o *Object) group() string {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// Is reports whether the object is of a kind, in any version.
func (o *Object) Is(kind objects.Kind) bool { return o.Kind == kind.Kind && o.group() == kind.Group }

// namespaced reports whether objects of the kind are in namespaces. It is true for unknown kinds.
func namespaced(o *Object) bool {
	i := slices.IndexFunc(objects.Kinds(), o.Is)
	return i < 0 || objects.Kinds()[i].Namespaced
}

// at returns the value at a path of the object; nil if it does not exist.
func (o *Object) at(path ...string) any { return valueAt(o.Content, path...) }

func (o *Object) text(path ...string) string {
	text, _ := o.at(path...).(string)
	return text
}

func valueAt(value any, path ...string) any {
	for _, key := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[key]
	}
	return value
}

func textAt(value any, path ...string) string {
	text, _ := valueAt(value, path...).(string)
	return text
}

// Problem is an error in a manifest, with its file and line.
type Problem struct {
	Source Source
	Text   string
}

func (p Problem) Error() string { return fmt.Sprintf("%s: %s", p.Source, p.Text) }

// Problems lists all errors in the manifests, in the order of reading. Each is a sentence.
type Problems []Problem

func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = problem.Error()
	}
	return strings.Join(texts, "\n")
}

// sortForApplying puts referenced objects before the objects that refer to them: namespaces first,
// then Secrets, and NMStateConfigs before the InfraEnv whose image contains them. Unknown kinds
// come last. Objects of a kind keep their order.
func sortForApplying(list []*Object) {
	kinds := objects.Kinds()
	rank := func(o *Object) int {
		if i := slices.IndexFunc(kinds, o.Is); i >= 0 {
			return i
		}
		return len(kinds)
	}
	slices.SortStableFunc(list, func(a, b *Object) int { return cmp.Compare(rank(a), rank(b)) })
}
