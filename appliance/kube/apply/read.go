package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxFile is the size limit of a file in bytes: far larger than any manifest, and small enough to
// be read into memory.
const maxFile = 32 << 20

// Sources are the inputs of Read.
type Sources struct {
	Paths     []string // files, directories, or "-" for Stdin
	Recursive bool     // also read subdirectories
	Stdin     io.Reader
}

// Manifests holds the objects that were read.
type Manifests struct {
	Objects []*Object // in the order of applying
	Notes   []string  // a sentence with file and line about each ignored part
}

// Read reads manifests. Kustomize builds a directory with a kustomization.yaml. In other
// directories, all .yaml, .yml and .json files are read. The error is a Problems value, or the
// error of a path that can't be read.
func Read(sources Sources) (*Manifests, error) {
	r := &reader{recursive: sources.Recursive}
	for _, path := range sources.Paths {
		if path == "-" {
			data, err := readAll(sources.Stdin)
			if err != nil {
				return nil, fmt.Errorf("read the standard input: %w", err)
			}
			r.document("-", data)
			continue
		}
		if err := r.path(path); err != nil {
			return nil, err
		}
	}
	return r.manifests(strings.Join(sources.Paths, ", "))
}

// manifests returns the objects if there are no problems.
func (r *reader) manifests(from string) (*Manifests, error) {
	found := r.unique(r.found)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no object found in %s", from)
	}
	sortForApplying(found)
	return &Manifests{Objects: found, Notes: r.notes}, nil
}

// File is a file with its content.
type File struct {
	Name string
	Data []byte
}

// ReadFiles reads the files of one directory. Kustomizations among them are skipped.
func ReadFiles(files []File) (*Manifests, error) {
	r := &reader{}
	for _, file := range files {
		r.document(file.Name, file.Data)
	}
	return r.manifests("the files")
}

type reader struct {
	recursive bool
	found     []*Object
	problems  Problems
	notes     []string
}

func (r *reader) problem(at Source, format string, arguments ...any) {
	r.problems = append(r.problems, Problem{at, fmt.Sprintf(format, arguments...)})
}

func (r *reader) note(at Source, format string, arguments ...any) {
	r.notes = append(r.notes, at.String()+": "+fmt.Sprintf(format, arguments...))
}

func (r *reader) path(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	if !info.IsDir() {
		return r.file(path)
	}
	return r.directory(path)
}

func (r *reader) directory(dir string) error {
	if file := kustomizationIn(dir); file != "" {
		built, err := r.build(file)
		r.found = append(r.found, built...)
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.IsDir() && r.recursive && !strings.HasPrefix(entry.Name(), "."):
			err = r.directory(path)
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
			err = r.file(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) file(path string) error {
	data, err := readFile(path)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	r.document(path, data)
	return nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := readAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, nil
}

func readAll(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("the file is larger than the limit of %d MiB", maxFile>>20)
	}
	return data, err
}

// document reads a file with one or more JSON or YAML documents.
func (r *reader) document(file string, data []byte) {
	r.found = append(r.found, r.objects(file, data)...)
}

func (r *reader) objects(file string, data []byte) []*Object {
	var found []*Object
	for _, part := range split(file, data) {
		value, err := decode(part.data)
		if err != nil {
			r.problem(part.yamlPlace(err), "%s", part.yamlReason(err))
			continue
		}
		if value != nil {
			found = append(found, r.expand(part.source, value)...)
		}
	}
	return found
}

// expand returns the objects of a document: itself, or the items of a List.
func (r *reader) expand(at Source, value any) []*Object {
	content, ok := value.(map[string]any)
	if !ok {
		r.problem(at, "this document is not an object; expected apiVersion, kind and metadata")
		return nil
	}
	o := &Object{Content: content, Source: at}
	o.APIVersion, o.Kind, o.Name, o.Namespace = o.text("apiVersion"), o.text("kind"), o.text("metadata", "name"),
		o.text("metadata", "namespace")
	items, isList := content["items"].([]any)
	switch {
	case o.APIVersion == "" || o.Kind == "":
		r.problem(at, "this document has no apiVersion and kind, so it is not a Kubernetes object")
	case isList && strings.HasSuffix(o.Kind, "List"):
		var found []*Object
		for _, item := range items {
			found = append(found, r.expand(at, item)...)
		}
		return found
	case o.Name == "" && o.text("metadata", "generateName") != "":
		r.problem(at, "%s has metadata.generateName; an applied object requires metadata.name", o.Kind)
	case o.Name == "":
		r.problem(at, "%s has no metadata.name", o.Kind)
	case o.Kind == clusterInstanceKind && o.group() == siteconfigGroup:
		return r.render(o)
	default:
		return []*Object{o}
	}
	return nil
}

// unique removes repeated objects, such as a Namespace in each file of a directory. Two different
// objects with the same name are a problem.
func (r *reader) unique(list []*Object) []*Object {
	type id struct{ group, kind, namespace, name string }
	known := map[id]*Object{}
	var unique []*Object
	for _, o := range list {
		key := id{o.group(), o.Kind, o.Namespace, o.Name}
		first := known[key]
		switch {
		case first == nil:
			known[key] = o
			unique = append(unique, o)
		case !reflect.DeepEqual(first.Content, o.Content):
			r.problem(o.Source, "%s differs from the object with the same name at %s; keep one of them",
				o, first.Source)
		}
	}
	return unique
}

// part is one document of a file.
type part struct {
	source Source
	data   []byte
}

// split returns the documents of a file: consecutive JSON values, or YAML between lines of ---.
func split(file string, data []byte) []part {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		if parts, ok := splitJSON(file, data); ok {
			return parts
		}
	}
	var parts []part
	begin, line := 0, 1
	for at := 0; at < len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if separates(data[at:end]) {
			parts = append(parts, part{Source{file, line}, data[begin:at]})
			begin = end
			line = 1 + bytes.Count(data[:end], []byte("\n"))
		}
		at = end
	}
	return append(parts, part{Source{file, line}, data[begin:]})
}

func separates(line []byte) bool {
	rest, found := bytes.CutPrefix(line, []byte("---"))
	return found && (len(bytes.TrimSpace(rest)) == 0 || (rest[0] == ' ' || rest[0] == '\t') &&
		bytes.HasPrefix(bytes.TrimSpace(rest), []byte("#")))
}

// splitJSON splits consecutive JSON values, which are not valid YAML.
func splitJSON(file string, data []byte) ([]part, bool) {
	var parts []part
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return parts, true
		}
		if err != nil {
			return nil, false
		}
		begin := int(decoder.InputOffset()) - len(value)
		parts = append(parts, part{Source{file, 1 + bytes.Count(data[:begin], []byte("\n"))}, value})
	}
}

// decode parses a document by kubectl's rules: keys must be unique, and YAML 1.1 defines the forms
// of booleans. It returns nil for an empty document.
func decode(data []byte) (any, error) {
	raw := data
	if !json.Valid(data) { // JSON may be indented with tabs, YAML may not
		var err error
		if raw, err = yaml.YAMLToJSONStrict(data); err != nil {
			return nil, err
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	return value, decoder.Decode(&value)
}

// encode formats a value as JSON that decode reads.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return out.Bytes(), err
}

// Print writes objects as YAML, one document each.
func Print(to io.Writer, list []*Object) error {
	for _, o := range list {
		text, err := encode(o.Content)
		if err == nil {
			text, err = yaml.JSONToYAML(text)
		}
		if err == nil {
			_, err = fmt.Fprintf(to, "---\n%s", text)
		}
		if err != nil {
			return fmt.Errorf("print %s: %w", o, err)
		}
	}
	return nil
}

var yamlLine = regexp.MustCompile(`line (\d+)(: )?`)

// yamlPlace converts the line in the parser's error to a line of the file. For a missing token the
// parser reports the line before the error.
func (p part) yamlPlace(err error) Source {
	match := yamlLine.FindStringSubmatch(err.Error())
	if match == nil {
		return p.source
	}
	line, convErr := strconv.Atoi(match[1])
	if convErr != nil {
		return p.source
	}
	if strings.Contains(err.Error(), "did not find expected") {
		line = min(line+1, max(1, bytes.Count(bytes.TrimSpace(p.data), []byte("\n"))+1))
	}
	return Source{p.source.File, p.source.Line + line - 1}
}

// tabbed matches a line that begins with a tab.
var tabbed = regexp.MustCompile(`^ *\t`)

func (p part) yamlReason(err error) string {
	lines := bytes.Split(p.data, []byte("\n"))
	line := lines[min(p.yamlPlace(err).Line-p.source.Line, len(lines)-1)]
	if strings.Contains(err.Error(), "cannot start any token") && tabbed.Match(line) {
		return "invalid YAML: the line begins with a tab; YAML is indented with blanks"
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "error converting YAML to JSON: "), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors: ")
	return "invalid YAML: " + yamlLine.ReplaceAllString(text, "")
}
