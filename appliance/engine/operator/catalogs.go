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

// Source is a catalog that a cluster is given as a CatalogSource, as oc-mirror writes them for the
// catalogs that it copied.
type Source struct {
	Name  string `json:"name"`
	Image string `json:"image,omitempty"`
	// Document is the object itself as YAML.
	Document []byte `json:"-"`
}

// Sources finds the CatalogSource objects in YAML or JSON documents. What else is in them, and what
// can't be read, is skipped.
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

// indexes are the repositories of the images of OpenShift's own catalogs.
var indexes = map[string]string{
	"redhat-operators":    "registry.redhat.io/redhat/redhat-operator-index",
	"certified-operators": "registry.redhat.io/redhat/certified-operator-index",
	"community-operators": "registry.redhat.io/redhat/community-operator-index",
}

// Index is the last part of the repository of one of OpenShift's own catalogs, such as
// redhat-operator-index.
func Index(catalog string) string { return path.Base(indexes[catalog]) }

// IndexImage is the image of one of OpenShift's own catalogs in an OpenShift version, which nodes
// pull by this tag.
func IndexImage(catalog, version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return indexes[catalog]
	}
	minor, _, _ := strings.Cut(parts[1], "-")
	return indexes[catalog] + ":v" + parts[0] + "." + minor
}

// Fits tells whether a source may stand for a catalog of an OpenShift version: its image's tag does
// not say that it is for another one.
func (s Source) Fits(version string) bool {
	at := strings.LastIndex(s.Image, ":v")
	if at < 0 || strings.Contains(s.Image, "@") || strings.Contains(s.Image[at:], "/") {
		return true
	}
	_, own, _ := strings.Cut(IndexImage("redhat-operators", version), ":")
	return strings.Count(s.Image[at:], ".") != 1 || s.Image[at+1:] == own
}

// Pick finds the source that stands for one of OpenShift's own catalogs: the one of its name, or
// the one whose image is in a repository of the name of the catalog's.
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

// repository is the last part of the name of an image's repository.
func repository(image string) string {
	name, _, _ := strings.Cut(path.Base(image), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}
