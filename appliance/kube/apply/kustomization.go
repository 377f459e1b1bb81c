package apply

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	kresource "sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomizationIn returns the kustomization file of a directory; "" if it has none.
func kustomizationIn(dir string) string {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// build returns the objects of a kustomization, as kustomize builds them. Errors in it are
// problems.
func (r *reader) build(file string) ([]*Object, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	source := &kustomizeFiles{FileSystem: filesys.MakeFsOnDisk(), absolute: dir, named: filepath.Dir(file),
		top: filepath.Join(dir, filepath.Base(file))}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(source, dir)
	if source.refused != nil {
		r.problems = append(r.problems, source.refused...)
		return nil, nil
	}
	if err != nil {
		r.problem(Source{file, 1}, "kustomize can not build this: %s", shorten(err))
		return nil, nil
	}
	var found []*Object
	for _, one := range made.Resources() {
		objects, err := r.built(source, file, one)
		if err != nil {
			return nil, err
		}
		found = append(found, objects...)
	}
	return found, nil
}

// built returns an object that kustomize has built.
func (r *reader) built(source *kustomizeFiles, file string, made *kresource.Resource) ([]*Object, error) {
	at := Source{file, 1}
	origin, err := made.GetOrigin()
	if err != nil {
		return nil, fmt.Errorf("read where %s comes from: %w", made.CurId(), err)
	}
	if origin != nil {
		at = source.place(file, origin, made)
	}
	if !source.origins {
		if err := made.SetOrigin(nil); err != nil {
			return nil, fmt.Errorf("take its origin from %s: %w", made.CurId(), err)
		}
	}
	text, err := made.RNode.String() // not MarshalJSON, to which YAML 1.1's yes is a word
	if err != nil {
		return nil, fmt.Errorf("read what kustomize made of %s: %w", made.CurId(), err)
	}
	value, err := decode([]byte(text))
	if err != nil {
		r.problem(at, "%s", yamlReason(err))
		return nil, nil
	}
	if origin != nil && origin.ConfiguredIn != "" && hashed.MatchString(made.GetName()) {
		r.note(at, "%s carries the hash that kustomize puts behind what it generates; the kinds of a site name what "+
			"they refer to without it: "+
			"set generatorOptions.disableNameSuffixHash", made.GetName())
	}
	found := r.expand(at, value)
	for _, o := range found {
		if metadata, ok := o.Content["metadata"].(map[string]any); ok && !namespaced(o) {
			delete(metadata, "namespace") // kustomize does not know that the kind has none
			o.Namespace = ""
		}
	}
	return found, nil
}

// hashed matches a name with kustomize's hash of the content.
var hashed = regexp.MustCompile(`-[2456789bcdfghkmt]{10}$`)

// kustomizeFiles are the files that kustomize reads. Each is limited in size and local: a site has
// no network to fetch remote ones, and kustomize would try.
type kustomizeFiles struct {
	filesys.FileSystem
	absolute, named string // the folder: as kustomize has it, and as the person named it
	top             string // the file of the kustomization that is built
	origins         bool   // the kustomization itself enables annotations of origins
	refused         Problems
}

// ReadFile returns a file. In a kustomization it also enables the annotations of origins.
func (f *kustomizeFiles) ReadFile(path string) ([]byte, error) {
	data, err := readFile(path)
	if err != nil || !slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(path)) {
		return data, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		whole := part{Source{f.name(path), 1}, data}
		return nil, f.refuse(whole.yamlPlace(err), yamlReason(err))
	}
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil, f.refuse(Source{f.name(path), 1}, "this kustomization names nothing; expected at least resources")
	}
	if away := elsewhere(root.Content[0]); away != nil {
		return nil, f.refuse(Source{f.name(path), away.Line}, away.Value+
			" is elsewhere; bring it to a folder beside this one and name that")
	}
	if path != f.top {
		return data, nil
	}
	return f.withOrigins(data, root.Content[0])
}

func (f *kustomizeFiles) refuse(at Source, text string) error {
	problem := Problem{at, text}
	if !slices.Contains(f.refused, problem) {
		f.refused = append(f.refused, problem)
	}
	return problem
}

// withOrigins returns a kustomization with annotations of origins enabled.
func (f *kustomizeFiles) withOrigins(data []byte, fields *yaml.Node) ([]byte, error) {
	var asked struct {
		BuildMetadata []string `yaml:"buildMetadata"`
	}
	if err := fields.Decode(&asked); err != nil {
		return data, nil // kustomize reports the error
	}
	if f.origins = slices.Contains(asked.BuildMetadata, types.OriginAnnotations); f.origins {
		return data, nil
	}
	list := &yaml.Node{}
	if err := list.Encode(append(asked.BuildMetadata, types.OriginAnnotations)); err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(fields.Content); i += 2 {
		if fields.Content[i].Value == "buildMetadata" {
			fields.Content = slices.Delete(fields.Content, i, i+2)
			break
		}
	}
	fields.Content = append(fields.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "buildMetadata"}, list)
	return yaml.Marshal(fields)
}

// elsewhere returns the first remote file or directory that a kustomization names.
func elsewhere(fields *yaml.Node) *yaml.Node {
	texts := map[string]bool{"literals": true, "patch": true, "value": true, "commonLabels": true,
		"commonAnnotations": true, "labels": true,
		"annotations": true, "options": true, "generatorOptions": true, "images": true, "metadata": true}
	for i := 0; i+1 < len(fields.Content); i += 2 {
		if value := fields.Content[i+1]; !texts[fields.Content[i].Value] {
			if away := remote(value); away != nil {
				return away
			}
		}
	}
	return nil
}

// address matches what kustomize takes for a URL or a repository.
var address = regexp.MustCompile(`://|^[\w.-]+@[\w.-]+:|^gh:|^(?i:github\.com)[/:]|\?ref=|_git/|\.git(/|$)`)

func remote(node *yaml.Node) *yaml.Node {
	switch node.Kind {
	case yaml.ScalarNode:
		if !strings.Contains(node.Value, "\n") && address.MatchString(node.Value) {
			return node
		}
	case yaml.MappingNode:
		return elsewhere(node)
	case yaml.SequenceNode:
		for _, item := range node.Content {
			if away := remote(item); away != nil {
				return away
			}
		}
	}
	return nil
}

// name returns the name of a file relative to the working directory.
func (f *kustomizeFiles) name(path string) string {
	relative, err := filepath.Rel(f.absolute, path)
	if err != nil {
		return path
	}
	return filepath.Join(f.named, relative)
}

// place returns where an object was written: the first line of its document, or the kustomization
// that generates it.
func (f *kustomizeFiles) place(file string, origin *kresource.Origin, made *kresource.Resource) Source {
	if origin.Path == "" {
		if origin.ConfiguredIn != "" {
			return Source{f.name(filepath.Join(f.absolute, origin.ConfiguredIn)), 1}
		}
		return Source{file, 1}
	}
	path := filepath.Join(f.absolute, origin.Path)
	at := Source{f.name(path), 1}
	data, err := readFile(path)
	if err != nil {
		return at // kustomize has read it; only the line is missing
	}
	original := made.OrgId()
	for _, part := range split(at.File, data) {
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if yaml.Unmarshal(part.data, &head) == nil && head.Kind == original.Kind &&
			head.Metadata.Name == original.Name {
			return part.source
		}
	}
	return at
}

// shorten returns kustomize's error in one line, with file names relative to the working
// directory. Kustomize tries each name as a file and then as a directory, and nests both errors in
// those of all kustomizations on the way; only one is the cause.
func shorten(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if here, err := os.Getwd(); err == nil {
		text = strings.ReplaceAll(text, here+string(filepath.Separator), "")
	}
	i := strings.LastIndex(text, "accumulating resources from ")
	if i < 0 {
		return text
	}
	text = strings.TrimPrefix(text[i:], "accumulating resources from ")
	if _, asFolder, found := strings.Cut(text, "' must resolve to a file': "); found {
		return asFolder
	}
	asFile, asFolder, found := strings.Cut(text, "': must build at directory: ")
	if found && !strings.HasPrefix(asFolder, "not a valid directory: ") && !strings.HasSuffix(asFolder,
		": file is not directory") {
		return asFolder
	}
	return asFile
}
