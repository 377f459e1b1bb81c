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

// build returns the objects that kustomize builds from a kustomization. Errors in the kustomization
// are reported as problems.
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
		r.problem(Source{file, 1}, "kustomize can't build this: %s", shorten(err))
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
		return nil, fmt.Errorf("read the origin of %s: %w", made.CurId(), err)
	}
	if origin != nil {
		at = source.place(file, origin, made)
	}
	if !source.origins {
		if err := made.SetOrigin(nil); err != nil {
			return nil, fmt.Errorf("remove the origin annotation of %s: %w", made.CurId(), err)
		}
	}
	text, err := made.RNode.String() // not MarshalJSON, which reads YAML 1.1's yes as a string
	if err != nil {
		return nil, fmt.Errorf("read kustomize's result for %s: %w", made.CurId(), err)
	}
	value, err := decode([]byte(text))
	if err != nil {
		r.problem(at, "%s", part{at, []byte(text)}.yamlReason(err))
		return nil, nil
	}
	if origin != nil && origin.ConfiguredIn != "" && hashed.MatchString(made.GetName()) {
		r.note(at, "%s has a name with kustomize's hash suffix, but the objects of a site refer to the "+
			"name without it: "+
			"set generatorOptions.disableNameSuffixHash", made.GetName())
	}
	found := r.expand(at, value)
	for _, o := range found {
		if metadata, ok := o.Content["metadata"].(map[string]any); ok && !namespaced(o) {
			// kustomize sets a namespace because it does not know this cluster-scoped kind
			delete(metadata, "namespace")
			o.Namespace = ""
		}
	}
	return found, nil
}

// hashed matches a name with kustomize's hash of the content.
var hashed = regexp.MustCompile(`-[2456789bcdfghkmt]{10}$`)

// kustomizeFiles is the file system for kustomize. It limits the size of files and rejects remote
// files and directories: kustomize would try to fetch them, and a site may have no internet access.
type kustomizeFiles struct {
	filesys.FileSystem
	absolute, named string // the directory: its absolute path, and the path that the user named
	top             string // file of the kustomization that is built
	origins         bool   // the kustomization itself enables origin annotations
	refused         Problems
}

// ReadFile returns the content of a file. In the top kustomization it also enables the origin
// annotations.
func (f *kustomizeFiles) ReadFile(path string) ([]byte, error) {
	data, err := readFile(path)
	if err != nil || !slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(path)) {
		return data, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		whole := part{Source{f.name(path), 1}, data}
		return nil, f.refuse(whole.yamlPlace(err), whole.yamlReason(err))
	}
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil, f.refuse(Source{f.name(path), 1}, "this kustomization is empty; expected at least resources")
	}
	if away := remoteSource(root.Content[0]); away != nil {
		return nil, f.refuse(Source{f.name(path), away.Line}, away.Value+
			" is remote; copy it to a directory beside this one and name that directory")
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

// withOrigins returns a kustomization with origin annotations enabled.
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

// remoteSource returns the first remote file or directory that a kustomization names.
func remoteSource(fields *yaml.Node) *yaml.Node {
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

// address matches names that kustomize treats as a URL or a repository.
var address = regexp.MustCompile(`://|^[\w.-]+@[\w.-]+:|^gh:|^(?i:github\.com)[/:]|\?ref=|_git/|\.git(/|$)`)

func remote(node *yaml.Node) *yaml.Node {
	switch node.Kind {
	case yaml.ScalarNode:
		if !strings.Contains(node.Value, "\n") && address.MatchString(node.Value) {
			return node
		}
	case yaml.MappingNode:
		return remoteSource(node)
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

// place returns the source of an object: the first line of its document, or the kustomization that
// generates it.
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
		return at // without a line number, although kustomize could read the file
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

// shorten returns kustomize's error in one line, with file names relative to the working directory.
// Kustomize tries each name as a file and then as a directory. It nests both errors in those of all
// kustomizations that lead to the name; only one is the cause.
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
	if _, asDirectory, found := strings.Cut(text, "' must resolve to a file': "); found {
		return asDirectory
	}
	asFile, asDirectory, found := strings.Cut(text, "': must build at directory: ")
	if found && !strings.HasPrefix(asDirectory, "not a valid directory: ") && !strings.HasSuffix(asDirectory,
		": file is not directory") {
		return asDirectory
	}
	return asFile
}
