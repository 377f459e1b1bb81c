package apply

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/labels"
)

// patch is one of a kustomization: a piece of an object that goes over it, or the operations of RFC 6902.
type patch struct {
	Path   string       `yaml:"path"`
	Patch  string       `yaml:"patch"`
	Target *patchTarget `yaml:"target"`
}

// patchTarget says which objects are patched: each of its texts is a regular expression for the whole, "" is any.
type patchTarget struct {
	Group              string `yaml:"group"`
	Version            string `yaml:"version"`
	Kind               string `yaml:"kind"`
	Name               string `yaml:"name"`
	Namespace          string `yaml:"namespace"`
	LabelSelector      string `yaml:"labelSelector"`
	AnnotationSelector string `yaml:"annotationSelector"`
}

func (b *building) patch() {
	for _, text := range b.spec.PatchesStrategicMerge {
		p := patch{Path: text}
		if strings.Contains(text, "\n") {
			p = patch{Patch: text}
		}
		b.apply("patchesStrategicMerge", p)
	}
	for _, p := range b.spec.PatchesJSON6902 {
		b.apply("patchesJson6902", p)
	}
	for _, p := range b.spec.Patches {
		b.apply("patches", p)
	}
	b.list = slices.DeleteFunc(b.list, func(o *Object) bool { return o.Content == nil })
}

func (b *building) apply(field string, p patch) {
	at, text := b.at(field), []byte(p.Patch)
	switch {
	case (p.Path == "") == (p.Patch == ""):
		b.problem(at, "a patch needs either path or patch")
		return
	case p.Path != "":
		var ok bool
		if text, ok = b.inside(field, p.Path); !ok {
			return
		}
	}
	for _, document := range split(b.file, text) {
		value, err := decode(document.data)
		switch content := value.(type) {
		case nil:
			if err != nil {
				b.problem(at, "the patch %s: %s", p.Path, yamlReason(err))
			}
		case []any:
			b.operations(at, p, content)
		case map[string]any:
			b.over(at, p, content)
		default:
			b.problem(at, "a patch is neither an object nor a list of operations")
		}
	}
}

// over merges a piece of an object into those that it is for: the target's or, without one, that of its own kind and name.
func (b *building) over(at Source, p patch, content map[string]any) {
	piece := &Object{APIVersion: textAt(content, "apiVersion"), Kind: textAt(content, "kind"), Name: textAt(content, "metadata", "name"), Namespace: textAt(content, "metadata", "namespace")}
	matches, ok := b.matches(at, p.Target)
	if !ok {
		return
	}
	if p.Target == nil {
		if piece.Kind == "" || piece.Name == "" {
			b.problem(at, "a patch without a target needs apiVersion, kind and metadata.name of the object that it is for")
			return
		}
		matches = func(o *Object) bool {
			return o.Kind == piece.Kind && o.group() == piece.group() && o.Name == piece.Name && (piece.Namespace == "" || o.Namespace == piece.Namespace)
		}
	}
	hit := false
	for _, o := range b.list {
		if o.Content == nil || !matches(o) {
			continue
		}
		hit = true
		if content["$patch"] == "delete" {
			o.Content = nil
			continue
		}
		over := maps.Clone(content)
		delete(over, "apiVersion")
		delete(over, "kind")
		if metadata, ok := over["metadata"].(map[string]any); ok {
			metadata = maps.Clone(metadata)
			delete(metadata, "name")
			delete(metadata, "namespace")
			over["metadata"] = metadata
		}
		merge(o.Content, over)
	}
	if !hit && p.Target == nil {
		b.problem(at, "there is no %s to patch", piece)
	} else if !hit {
		b.note(at, "a patch is for no object")
	}
}

// merge lets values go over others: null removes one, {$patch: delete} too, {$patch: replace} replaces instead of merging, and lists
// replace lists.
func merge(into, over map[string]any) {
	for key, value := range over {
		fields, isObject := value.(map[string]any)
		switch {
		case value == nil || isObject && fields["$patch"] == "delete":
			delete(into, key)
		case isObject && fields["$patch"] == "replace":
			fields = maps.Clone(fields)
			delete(fields, "$patch")
			into[key] = fields
		case isObject:
			merge(child(into, key), fields)
		default:
			into[key] = value
		}
	}
}

// operations applies those of RFC 6902 to the target's objects.
func (b *building) operations(at Source, p patch, list []any) {
	if p.Target == nil {
		b.problem(at, "a patch of operations needs a target")
		return
	}
	matches, ok := b.matches(at, p.Target)
	if !ok {
		return
	}
	text, err := encode(list)
	var operations jsonpatch.Patch
	if err == nil {
		operations, err = jsonpatch.DecodePatch(text)
	}
	if err != nil {
		b.problem(at, "the patch's operations can not be read: %s", err)
		return
	}
	hit := false
	for _, o := range b.list {
		if o.Content == nil || !matches(o) {
			continue
		}
		hit = true
		if err := o.operate(operations); err != nil {
			b.problem(at, "%s can not be patched: %s", o, err)
		}
	}
	if !hit {
		b.note(at, "a patch is for no object")
	}
}

func (o *Object) operate(operations jsonpatch.Patch) error {
	text, err := encode(o.Content)
	if err != nil {
		return err
	}
	if text, err = operations.Apply(text); err != nil {
		return err
	}
	value, err := decode(text)
	if err != nil {
		return err
	}
	content, ok := value.(map[string]any)
	if !ok || textAt(content, "metadata", "name") == "" {
		return fmt.Errorf("it leaves no object with a name")
	}
	o.Content, o.Name, o.Namespace = content, textAt(content, "metadata", "name"), textAt(content, "metadata", "namespace")
	return nil
}

// matches makes a target a question; without a target it is nil. What is wrong with the target has been said if ok is false.
func (b *building) matches(at Source, t *patchTarget) (question func(*Object) bool, ok bool) {
	if t == nil {
		return nil, true
	}
	var whole [5]*regexp.Regexp
	for i, text := range [...]string{t.Group, t.Version, t.Kind, t.Name, t.Namespace} {
		if text == "" {
			text = ".*"
		}
		pattern, err := regexp.Compile("^(?:" + text + ")$")
		if err != nil {
			b.problem(at, "the target's %q is no regular expression: %s", text, err)
			return nil, false
		}
		whole[i] = pattern
	}
	selectors := map[string]labels.Selector{}
	for field, text := range map[string]string{"labels": t.LabelSelector, "annotations": t.AnnotationSelector} {
		selector, err := labels.Parse(text)
		if err != nil {
			b.problem(at, "the target's selector %q: %s", text, err)
			return nil, false
		}
		selectors[field] = selector
	}
	return func(o *Object) bool {
		version := o.APIVersion[strings.LastIndex(o.APIVersion, "/")+1:]
		for i, text := range [...]string{o.group(), version, o.Kind, o.Name, o.Namespace} {
			if !whole[i].MatchString(text) {
				return false
			}
		}
		for field, selector := range selectors {
			if !selector.Matches(stringsOf(o.at("metadata", field))) {
				return false
			}
		}
		return true
	}, true
}

func stringsOf(value any) labels.Set {
	set := labels.Set{}
	fields, _ := value.(map[string]any)
	for key, value := range fields {
		set[key] = fmt.Sprint(value)
	}
	return set
}
