package operator

import (
	"bytes"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Source is a CatalogSource. oc-mirror writes one for each catalog that it copies.
type Source struct {
	Name  string `json:"name"`
	Image string `json:"image,omitempty"`
	// Document is the object as YAML.
	Document []byte `json:"-"`
}

// Sources returns the CatalogSource objects in YAML or JSON documents. It skips other objects and
// invalid documents.
func Sources(documents ...[]byte) []Source {
	var found []Source
	for _, text := range documents {
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var node yaml.Node
			if err := decoder.Decode(&node); errors.Is(err, io.EOF) || err != nil {
				break
			}
			found = append(found, sourcesIn(&node)...)
		}
	}
	return found
}

func sourcesIn(node *yaml.Node) []Source {
	var o struct {
		Kind     string `yaml:"kind"`
		Metadata struct {
			Name string `yaml:"name"`
		} `yaml:"metadata"`
		Spec struct {
			Image string `yaml:"image"`
		} `yaml:"spec"`
		Items []yaml.Node `yaml:"items"`
	}
	if err := node.Decode(&o); err != nil {
		return nil
	}
	if o.Kind != "CatalogSource" {
		var found []Source
		for i := range o.Items {
			found = append(found, sourcesIn(&o.Items[i])...)
		}
		return found
	}
	text, err := yaml.Marshal(node)
	if err != nil || o.Metadata.Name == "" {
		return nil
	}
	return []Source{{Name: o.Metadata.Name, Image: o.Spec.Image, Document: text}}
}

// indexes maps OpenShift's own catalogs to the repositories of their images.
var indexes = map[string]string{
	"redhat-operators":    "registry.redhat.io/redhat/redhat-operator-index",
	"certified-operators": "registry.redhat.io/redhat/certified-operator-index",
	"community-operators": "registry.redhat.io/redhat/community-operator-index",
}

// Index returns the last part of the repository of one of OpenShift's own catalogs, such as
// redhat-operator-index.
func Index(catalog string) string { return path.Base(indexes[catalog]) }

// IndexImage returns the image of one of OpenShift's own catalogs for an OpenShift version. Nodes
// pull it by this tag.
func IndexImage(catalog, version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return indexes[catalog]
	}
	minor, _, _ := strings.Cut(parts[1], "-")
	return indexes[catalog] + ":v" + parts[0] + "." + minor
}

// Fits reports whether a source can replace a catalog of an OpenShift version. It cannot if the tag
// of its image names another version.
func (s Source) Fits(version string) bool {
	at := strings.LastIndex(s.Image, ":v")
	if at < 0 || strings.Contains(s.Image, "@") || strings.Contains(s.Image[at:], "/") {
		return true
	}
	_, own, _ := strings.Cut(IndexImage("redhat-operators", version), ":")
	return strings.Count(s.Image[at:], ".") != 1 || s.Image[at+1:] == own
}

// Pick returns the source that replaces one of OpenShift's own catalogs. A source with the
// catalog's name has precedence over one whose repository has the same last part.
func Pick(catalog string, sources []Source) (Source, bool) {
	at := slices.IndexFunc(sources, func(s Source) bool { return s.Name == catalog })
	if at < 0 {
		at = slices.IndexFunc(sources, func(s Source) bool { return repository(s.Image) == Index(catalog) })
	}
	if at < 0 {
		return Source{}, false
	}
	return sources[at], true
}

// repository returns the last part of an image's repository.
func repository(image string) string {
	name, _, _ := strings.Cut(path.Base(image), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}
