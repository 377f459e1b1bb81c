// Package apply takes Kubernetes manifests as people keep them, in files of several documents,
// folders and kustomizations, and brings them to an appliance's Kubernetes API in an order in which
// each finds what it refers to.
package apply

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"landfall/appliance/kube/objects"
)

// Source is where an object was read.
type Source struct {
	File string // as it was named; "-" for the standard input
	Line int    // of its document's first line, from 1
}

func (s Source) String() string { return fmt.Sprintf("%s:%d", s.File, s.Line) }

// Object is one object of a manifest.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	Content                           map[string]any // as JSON gives it, numbers as json.Number
	Source                            Source
}

// String is the object as kubectl names it: agentclusterinstall.extensions.hive.openshift.io/sno.
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

// Is tells whether the object is of a kind, in any version.
func (o *Object) Is(kind objects.Kind) bool { return o.Kind == kind.Kind && o.group() == kind.Group }

// namespaced tells whether objects of the kind lie in namespaces; a kind that is not known here
// does.
func namespaced(o *Object) bool {
	i := slices.IndexFunc(objects.Kinds(), o.Is)
	return i < 0 || objects.Kinds()[i].Namespaced
}

// at is a value inside the object, nil where there is none.
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

// Problem is what is wrong with a manifest, and where.
type Problem struct {
	Source Source
	Text   string
}

func (p Problem) Error() string { return fmt.Sprintf("%s: %s", p.Source, p.Text) }

// Problems are all that is wrong with what was read, in the order of reading. Each is a sentence of
// its own.
type Problems []Problem

func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = problem.Error()
	}
	return strings.Join(texts, "\n")
}

// sortForApplying puts what others refer to before them: namespaces, then secrets, and network
// configurations before the infra-env whose image is made of them. What is not known here comes
// last. Objects of a kind stay as they were read.
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
