package abi

import (
	"encoding/json"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Site contains the values, manifests and files of a directory.
type Site struct {
	Values    Values
	Hosts     []Host
	Manifests []File    // files of openshift/, with names relative to it
	Notes     []Problem // settings without effect, with the reasons
	Files     []File    // files of the directory, unchanged

	documents []*document
	places    map[Field][]place
}

// Host contains the settings of one host. The host is identified by its network interfaces.
type Host struct {
	MACs     []string          `json:"macs"`
	NICs     []string          `json:"-"` // names of the interfaces, for a new directory
	Hostname string            `json:"hostname,omitempty"`
	Role     string            `json:"role,omitempty"`
	Hints    map[string]any    `json:"root_device_hints,omitempty"`
	Fencing  map[string]string `json:"fencing,omitempty"`
	Where    string            `json:"where"` // file and line
}

// Interface is a network interface. The field names are those of nmstate and agent-config.
type Interface struct {
	Name string `json:"name" yaml:"name"`
	MAC  string `json:"macAddress" yaml:"macAddress"`
}

// Network is the nmstate description of one host.
type Network struct {
	Interfaces []Interface `json:"interfaces"`
	YAML       string      `json:"yaml"`
}

// place is a place in a document that sets a value.
type place struct {
	document *document
	path     string
	line     int
	write    func(any) any
}

func (p place) String() string { return fmt.Sprintf("%s:%d: %s", p.document.file, p.line, p.path) }

// reader collects the values of the documents in a directory.
type reader struct {
	site     *Site
	problems []Problem
}

// Read reads a directory. Settings that the appliance does not support are errors in a
// [*DirectoryError], with file and line. Settings without effect become Notes of the Site.
func Read(files []File) (*Site, error) {
	included, omitted := unwrap(files)
	r := &reader{site: &Site{Values: Values{}, Files: included, places: map[Field][]place{}}}
	for _, name := range omitted {
		r.site.Notes = append(r.site.Notes, Problem{name, 0,
			"is ignored, because the agent-based installer does not read it"})
	}
	size := 0
	for _, file := range included {
		if size += len(file.Data); len(file.Data) > FileBytes || size > DirectoryBytes {
			return nil, refuse(file.Name, 0,
				"is too large; the limits are %d KiB for a file and %d MiB for a directory",
				FileBytes>>10, DirectoryBytes>>20)
		}
		r.file(file)
	}
	r.hosts()
	r.networks()
	r.complete()
	if len(r.problems) > 0 {
		sortProblems(r.problems)
		return nil, &DirectoryError{r.problems}
	}
	sortProblems(r.site.Notes)
	return r.site, nil
}

func (r *reader) file(file File) {
	switch {
	case file.Name == registriesConfFile:
		r.site.Values[RegistriesConf] = string(file.Data)
		return
	case file.Name == caBundleFile:
		r.site.Values[CABundle] = string(file.Data)
		return
	case strings.HasPrefix(file.Name, manifestDirectory):
		r.site.Manifests = append(r.site.Manifests, File{path.Base(file.Name), file.Data})
		return
	}
	found, err := documents(file)
	if err != nil {
		r.problems = append(r.problems, err.(*DirectoryError).Problems...)
		return
	}
	r.site.documents = append(r.site.documents, found...)
	for _, d := range found {
		if d.node != nil && r.recognise(d) {
			r.walk(d, "", d.node, false)
		}
	}
}

// recognise determines the kind of a document. It rejects a document in the wrong file.
func (r *reader) recognise(d *document) bool {
	name, _ := d.plain["kind"].(string)
	if d.file == agentConfigFile && name == "" {
		name = "AgentConfig" // the kind is optional in this file
	}
	d.kind = kindOf(name)
	switch alone := d.file == installConfigFile || d.file == agentConfigFile; {
	case d.kind == nil || name == "" && d.file != installConfigFile:
		r.refuse(d, d.node, "the kind %q is unknown to the agent-based installer; remove the document", name)
	case alone && d.kind.file != d.file, !alone && !strings.HasPrefix(d.kind.file, clusterDirectory):
		r.refuse(d, d.node, "a document of the kind %s must be in %s", d.kind.title(), d.kind.file)
	default:
		version, _ := d.plain["apiVersion"].(string)
		if !slices.Contains(d.kind.apiVersions, version) {
			r.refuse(d, orNode(nodeAt(d.node, "apiVersion"), d.node), "the apiVersion of %s is %s, not %q",
				d.kind.title(), strings.Join(d.kind.apiVersions, " or "), version)
			break
		}
		if other := r.document(d.kind.name, d); other != nil && !d.kind.several {
			r.refuse(d, d.node, "%s:%d already contains a %s; a directory describes one cluster", other.file,
				other.at(other.node), d.kind.title())
			break
		}
		return true
	}
	d.kind = nil
	return false
}

// document returns the first document of a kind before another document, or nil.
func (r *reader) document(kind string, before *document) *document {
	for _, d := range r.site.documents {
		if d == before {
			return nil
		}
		if d.kind != nil && d.kind.name == kind {
			return d
		}
	}
	return nil
}

func orNode(node, otherwise *yaml.Node) *yaml.Node {
	if node == nil {
		return otherwise
	}
	return node
}

func (r *reader) refuse(d *document, node *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, d.problem(node, format, args...))
}

func (r *reader) note(d *document, node *yaml.Node, format string, args ...any) {
	r.site.Notes = append(r.site.Notes, d.problem(node, format, args...))
}

// walk handles each field of a document according to its use. All fields below an ignored field are
// ignored.
func (r *reader) walk(d *document, at string, node *yaml.Node, ignored bool) {
	node = resolved(node)
	u, above := d.kind.find(at)
	if u != nil {
		if !above {
			r.take(d, u, at, node)
			return
		}
		if ignored = ignored || u.ignored; u.is != nil {
			r.state(d, u, at, node, u.is)
		}
	}
	switch {
	case u == nil && !above && ignored:
	case u == nil && !above:
		r.refuse(d, node, "%s is not a field of %s supported by the appliance; correct or remove it",
			at, d.kind.title())
	case node.Tag == "!!null":
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			next := field(at, node.Content[i].Value)
			if found, deeper := d.kind.find(next); found == nil && !deeper && !ignored {
				r.refuse(d, node.Content[i], "%s is not a field of %s supported by the appliance; correct or remove it",
					next, d.kind.title())
				continue
			}
			r.walk(d, next, node.Content[i+1], ignored)
		}
	case node.Kind == yaml.SequenceNode:
		for i, inner := range node.Content {
			if i > 0 {
				r.refuse(d, inner, "%s has more than one entry; only one pool of this kind is supported", at)
				break
			}
			r.walk(d, item(at, i), inner, ignored)
		}
	case !ignored:
		r.refuse(d, node, "%s takes an object", at)
	}
}

// take handles one field according to its use.
func (r *reader) take(d *document, u *use, at string, node *yaml.Node) {
	var value any
	if err := node.Decode(&value); err != nil {
		r.refuse(d, node, "%s can't be read: %v", at, err)
		return
	}
	empty := value == nil || value == "" || text(value) == "[]" || text(value) == "{}"
	switch {
	case u.ignored:
	case empty && u.is == nil:
	case u.is != nil:
		r.state(d, u, at, node, u.is)
	case u.only != nil && slices.Contains(u.only, fmt.Sprint(value)):
	case u.refused != "":
		r.refuse(d, node, "%s is not supported: %s", at, u.refused)
	case u.note != "":
		r.note(d, node, "%s has no effect: %s", at, u.note)
	case u.over:
		r.override(d, at, node, value)
	default:
		read := u.read
		if read == nil {
			read = asText
		}
		got, err := read(value)
		if err != nil {
			r.refuse(d, node, "%s %v", at, err)
			return
		}
		r.state(d, u, at, node, got)
	}
}

// state records the value that a document sets. It rejects a different value in another place.
func (r *reader) state(d *document, u *use, at string, node *yaml.Node, value any) {
	here := place{d, at, d.at(node), u.write}
	if u.is != nil {
		here.write = nil
	}
	r.claim(u.field, value, here, node)
}

func (r *reader) claim(f Field, value any, here place, node *yaml.Node) {
	held, ok := r.site.Values[f]
	if ok && !agree(held, value) {
		where := ""
		if before := r.site.places[f]; len(before) > 0 {
			where = before[0].String()
		}
		if f == PullSecret || len(text(value))+len(text(held)) > shownBytes {
			r.refuse(here.document, node, "%s differs from %s; both must be equal in a directory", here.path, where)
		} else {
			r.refuse(here.document, node, "%s is %s, but %s is %s; both must be equal in a directory", here.path,
				text(value), where, text(held))
		}
		return
	}
	if !ok || longer(value, held) { // a list of addresses replaces its first address
		r.site.Values[f] = value
	}
	r.site.places[f] = append(r.site.places[f], here)
}

// agree reports whether two values are equal. A list of addresses equals its first address.
func agree(a, b any) bool {
	if text(a) == text(b) {
		return true
	}
	x, ok := a.([]string)
	y, also := b.([]string)
	return ok && also && len(x) > 0 && len(y) > 0 && (len(x) == 1 || len(y) == 1) && x[0] == y[0]
}

// shownBytes limits the length of two values that an error quotes.
const shownBytes = 200

func longer(a, b any) bool {
	x, _ := a.([]string)
	y, _ := b.([]string)
	return len(x) > len(y)
}

// override records, one by one, the fields of install-config that have no other representation.
func (r *reader) override(d *document, at string, node *yaml.Node, value any) {
	flat := map[string]any{}
	flatten(at, value, flat)
	for path, leaf := range flat {
		r.claim(overrideField(path), leaf, place{d, path, d.at(node), nil}, node)
	}
}

func flatten(at string, value any, into map[string]any) {
	object, ok := value.(map[string]any)
	if !ok || len(object) == 0 {
		into[at] = value
		return
	}
	for name, inner := range object {
		flatten(field(at, name), inner, into)
	}
}

// Override returns the install-config override for the values, or "".
func (v Values) Override() (string, error) {
	root := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	found := false
	for f, value := range v {
		if path, ok := strings.CutPrefix(string(f), overridePrefix); ok {
			found = true
			if err := set(root, path, value); err != nil {
				return "", err
			}
		}
	}
	if !found {
		return "", nil
	}
	var plain map[string]any
	if err := root.Decode(&plain); err != nil {
		return "", err
	}
	data, err := json.Marshal(plain)
	return string(data), err
}

// setOverride adds the fields of an install-config override to the values.
func (v Values) setOverride(override string) error {
	if strings.TrimSpace(override) == "" {
		return nil
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(override), &object); err != nil {
		return err
	}
	flat := map[string]any{}
	for name, value := range object {
		flatten(field("", name), value, flat)
	}
	for path, value := range flat {
		v[overrideField(path)] = value
	}
	return nil
}

// Refuse returns an error about a value, with the place that sets it.
func (s *Site) Refuse(f Field, format string, args ...any) error {
	places := s.places[f]
	if len(places) == 0 {
		return fmt.Errorf(format, args...)
	}
	at := places[0]
	return refuse(at.document.file, at.line, "%s %s", at.path, fmt.Sprintf(format, args...))
}

// complete checks that all required documents exist.
func (r *reader) complete() {
	if d := r.document("AgentClusterInstall", nil); d != nil {
		r.annotation(d)
	}
	var have []string
	for _, d := range r.site.documents {
		if d.kind != nil {
			have = append(have, d.kind.name)
		}
	}
	if slices.Contains(have, "") || len(r.problems) > 0 {
		return
	}
	for _, name := range []string{"AgentClusterInstall", "ClusterDeployment", "ClusterImageSet", "InfraEnv", "Secret"} {
		if !slices.Contains(have, name) {
			k := kindOf(name)
			r.problems = append(r.problems, Problem{k.file, 0,
				"is missing; without install-config.yaml the directory needs its " + name})
		}
	}
	if _, ok := r.site.Values[PullSecret]; !ok && len(r.problems) == 0 {
		r.problems = append(r.problems, Problem{kindOf("Secret").file, 0,
			`has no stringData[".dockerconfigjson"], the pull secret`})
	}
}

func (r *reader) annotation(d *document) {
	at := field("metadata.annotations", overrideAnnotation)
	node := nodeAt(d.node, at)
	if node == nil || node.Value == "" {
		return
	}
	stated := Values{}
	if err := stated.setOverride(node.Value); err != nil {
		r.refuse(d, node, "the annotation %s is not a JSON object: %v", overrideAnnotation, err)
		return
	}
	for f, value := range stated {
		r.claim(f, value, place{document: d, path: at, line: d.at(node)}, node)
	}
}

// interfaces reads the network interfaces of a host.
func (r *reader) interfaces(d *document, at string) (nics []Interface, node *yaml.Node) {
	node = nodeAt(d.node, at)
	if node == nil {
		return nil, nil
	}
	for i, inner := range resolved(node).Content {
		var plain any
		if err := inner.Decode(&plain); err != nil {
			r.refuse(d, inner, "%s can't be read: %v", item(at, i), err)
			continue
		}
		object, err := fields(plain, "name", "macAddress")
		if err != nil {
			r.refuse(d, inner, "%s %v", item(at, i), err)
			continue
		}
		name, _ := object["name"].(string)
		mac, _ := object["macAddress"].(string)
		if _, err := net.ParseMAC(mac); err != nil {
			r.refuse(d, inner, "%s has the invalid macAddress %q", item(at, i), mac)
			continue
		}
		nics = append(nics, Interface{name, strings.ToLower(mac)})
	}
	return nics, node
}

func macsOf(nics []Interface) []string {
	var macs []string
	for _, nic := range nics {
		macs = append(macs, nic.MAC)
	}
	return macs
}
