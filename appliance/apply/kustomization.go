package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"landfall/appliance/objects"
)

// kustomization is the part of a kustomization.yaml that is done here: what a site's manifests are kept with. The names of generated
// objects get no hash, and lists in patches replace lists, as kustomize has it for kinds that it has no schema of. Other fields are
// refused by their line, see kustomizationFields.
type kustomization struct {
	Kind                  string            `yaml:"kind"`
	Namespace             string            `yaml:"namespace"`
	Resources             []string          `yaml:"resources"`
	Bases                 []string          `yaml:"bases"` // an old name for resources
	Components            []string          `yaml:"components"`
	Patches               []patch           `yaml:"patches"`
	PatchesStrategicMerge []string          `yaml:"patchesStrategicMerge"`
	PatchesJSON6902       []patch           `yaml:"patchesJson6902"`
	Labels                []labelPairs      `yaml:"labels"`
	CommonLabels          map[string]string `yaml:"commonLabels"`
	CommonAnnotations     map[string]string `yaml:"commonAnnotations"`
	ConfigMapGenerator    []generator       `yaml:"configMapGenerator"`
	SecretGenerator       []generator       `yaml:"secretGenerator"`
	GeneratorOptions      generatorOptions  `yaml:"generatorOptions"`
}

type labelPairs struct {
	Pairs map[string]string `yaml:"pairs"`
}

// kustomizationFields are the fields of a kustomization.yaml: true for those that are done, false for those without an effect on a
// site's objects. What is not among them is refused.
func kustomizationFields() map[string]bool {
	return map[string]bool{
		"kind": true, "namespace": true, "resources": true, "bases": true, "components": true, "patches": true, "patchesStrategicMerge": true,
		"patchesJson6902": true, "labels": true, "commonLabels": true, "commonAnnotations": true, "configMapGenerator": true,
		"secretGenerator": true, "generatorOptions": true,
		"apiVersion": false, "metadata": false, "sortOptions": false, "buildMetadata": false,
	}
}

// kustomizationIn is the kustomization of a folder, "" when it has none.
func kustomizationIn(dir string) string {
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// building is a kustomization that is being built, and those that led to it.
type building struct {
	*reader
	file  string
	dir   string
	lines map[string]int // of the fields
	trail []string       // folders, from the outermost
	spec  kustomization
	list  []*Object
}

// build gives the objects of a kustomization. Faults in it are problems; the error is for a file that can't be read.
func (r *reader) build(file string, trail []string) ([]*Object, error) {
	b, err := r.open(file, trail)
	if b == nil || err != nil {
		return nil, err
	}
	return b.list, b.run()
}

// open reads a kustomization; nil when it is wrong, which has been said.
func (r *reader) open(file string, trail []string) (*building, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	b := &building{reader: r, file: file, dir: filepath.Dir(file), lines: map[string]int{}, trail: append(slices.Clip(trail), dir)}
	if slices.Contains(trail, dir) {
		r.problem(Source{file, 1}, "this kustomization leads back to itself; take it out of the resources of one that it names")
		return nil, nil
	}
	data, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	whole := part{Source{file, 1}, data}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		r.problem(whole.yamlPlace(err), "%s", yamlReason(err))
		return nil, nil
	}
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		r.problem(whole.source, "this kustomization names nothing; expected at least resources")
		return nil, nil
	}
	known := kustomizationFields()
	fields := root.Content[0].Content
	before := len(r.problems)
	for i := 0; i+1 < len(fields); i += 2 {
		b.lines[fields[i].Value] = fields[i].Line
		if _, ok := known[fields[i].Value]; !ok {
			r.problem(Source{file, fields[i].Line}, "%s is not done by this program; build the folder with kustomize and apply what it writes", fields[i].Value)
		}
	}
	if err := root.Decode(&b.spec); err != nil {
		r.problem(whole.yamlPlace(err), "this kustomization has a field of another kind than expected: %s", strings.TrimPrefix(yamlReason(err), "this is no YAML that can be read: "))
	}
	if len(r.problems) > before {
		return nil, nil
	}
	return b, nil
}

// at is where a field of the kustomization is.
func (b *building) at(field string) Source { return Source{b.file, max(b.lines[field], 1)} }

func (b *building) run() error {
	if err := b.resources("resources", b.spec.Resources); err != nil {
		return err
	}
	if err := b.resources("bases", b.spec.Bases); err != nil {
		return err
	}
	b.generate("configMapGenerator", objects.ConfigMaps, b.spec.ConfigMapGenerator)
	b.generate("secretGenerator", objects.Secrets, b.spec.SecretGenerator)
	if err := b.components(); err != nil {
		return err
	}
	b.patch()
	b.transform()
	b.list = b.unique(b.list)
	return nil
}

func (b *building) resources(field string, names []string) error {
	for _, name := range names {
		path, ok := b.local(field, name)
		if !ok {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			b.problem(b.at(field), "%s can not be read: %s", name, reason(err))
			continue
		}
		if !info.IsDir() {
			data, err := readFile(path)
			if err != nil {
				return fmt.Errorf("read manifests: %w", err)
			}
			b.list = append(b.list, b.objects(path, data)...)
			continue
		}
		file := kustomizationIn(path)
		if file == "" {
			b.problem(b.at(field), "the folder %s has no kustomization.yaml; name its files instead", name)
			continue
		}
		inner, err := b.open(file, b.trail)
		if err != nil {
			return err
		}
		if inner == nil {
			continue
		}
		if err := inner.run(); err != nil {
			return err
		}
		b.list = append(b.list, inner.list...)
	}
	return nil
}

// components change what was gathered so far.
func (b *building) components() error {
	for _, name := range b.spec.Components {
		path, ok := b.local("components", name)
		if !ok {
			continue
		}
		file := kustomizationIn(path)
		if file == "" {
			b.problem(b.at("components"), "there is no kustomization.yaml in %s", name)
			continue
		}
		inner, err := b.open(file, b.trail)
		if err != nil {
			return err
		}
		if inner == nil {
			continue
		}
		if inner.spec.Kind != "Component" {
			b.problem(Source{file, 1}, "this is no Component; name it under resources")
			continue
		}
		inner.list = b.list
		if err := inner.run(); err != nil {
			return err
		}
		b.list = inner.list
	}
	return nil
}

// local gives the path of what a field names; a place elsewhere is refused, for a site has no network to fetch it by.
func (b *building) local(field, name string) (string, bool) {
	if strings.Contains(name, "://") || strings.HasPrefix(name, "git@") || strings.Contains(name, "?ref=") || strings.HasPrefix(name, "github.com/") {
		b.problem(b.at(field), "%s is elsewhere; bring it to a folder beside this one and name that", name)
		return "", false
	}
	if name == "" {
		b.problem(b.at(field), "a name is empty")
		return "", false
	}
	if filepath.IsAbs(name) {
		return name, true
	}
	return filepath.Join(b.dir, filepath.FromSlash(name)), true
}

// inside reads a file that a kustomization makes something of. As in kustomize it must lie in its folder.
func (b *building) inside(field, name string) ([]byte, bool) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		b.problem(b.at(field), "%s is outside of the kustomization's folder; bring it there", name)
		return nil, false
	}
	data, err := readFile(filepath.Join(b.dir, filepath.FromSlash(name)))
	if err != nil {
		b.problem(b.at(field), "%s can not be read: %s", name, reason(err))
		return nil, false
	}
	return data, true
}

// reason is an error of the file system without the path, which is said beside it.
func reason(err error) string {
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		return cause.Err.Error()
	}
	return err.Error()
}

// transform sets what is the same for all objects.
func (b *building) transform() {
	for _, o := range b.list {
		metadata := b.metadata(o)
		for _, l := range append(b.spec.Labels, labelPairs{b.spec.CommonLabels}) {
			setAll(metadata, "labels", l.Pairs)
		}
		setAll(metadata, "annotations", b.spec.CommonAnnotations)
		switch {
		case b.spec.Namespace == "":
		case o.Is(objects.Namespaces):
			metadata["name"], o.Name = b.spec.Namespace, b.spec.Namespace
		case namespaced(o):
			metadata["namespace"], o.Namespace = b.spec.Namespace, b.spec.Namespace
		}
	}
}

// metadata is that of an object; there is one, or the object would have no name.
func (b *building) metadata(o *Object) map[string]any {
	metadata, _ := o.Content["metadata"].(map[string]any)
	return metadata
}

func setAll(metadata map[string]any, field string, pairs map[string]string) {
	if len(pairs) == 0 {
		return
	}
	values, ok := metadata[field].(map[string]any)
	if !ok {
		values = map[string]any{}
		metadata[field] = values
	}
	for key, value := range pairs {
		values[key] = value
	}
}

// namespaced tells whether objects of the kind lie in namespaces; a kind that is not known here does.
func namespaced(o *Object) bool {
	i := slices.IndexFunc(objects.Kinds(), o.Is)
	return i < 0 || objects.Kinds()[i].Namespaced
}

// encode is decode's other way.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return out.Bytes(), err
}
