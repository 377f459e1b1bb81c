// Package catalog determines the origin of the operators of a cluster on a disconnected site: which
// CatalogSource or mirror rule serves each of OpenShift's catalogs, which images the mirror must
// hold for an operator, and whether the mirror holds them.
//
// Design: docs/design.md#one-table-of-operators.
package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/validation"
	"landfall/appliance/mirror"
)

// DefaultCatalogs lists OpenShift's own catalogs.
var DefaultCatalogs = []string{"redhat-operators", "certified-operators", "community-operators", "redhat-marketplace"}

// Cluster holds the facts that determine the origins of a cluster's operators.
type Cluster struct {
	API     *models.Cluster
	Objects []ManifestObject  // in the cluster's own manifests
	Sources []operator.Source // from the mirror rules
	Mirror  MirrorRules
}

// MirrorRules provides the mirror rules of a cluster; *mirror.Rules implements it.
type MirrorRules interface {
	Endpoints(name.Reference) []mirror.Endpoint
	RegistriesConf() []byte
	ImageDigestSources() []mirror.ImageDigestSource
}

const (
	kindCatalogSource = "CatalogSource"
	kindOperatorHub   = "OperatorHub"
)

// ManifestObject is a CatalogSource or OperatorHub in a cluster's manifests.
type ManifestObject struct {
	Manifest string `json:"manifest"` // folder and name
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Image    string `json:"image,omitempty"`
}

// ReplaceManifest returns the objects after the change of a manifest. Nil content means that the
// manifest was deleted. The given list does not change.
func ReplaceManifest(objects []ManifestObject, manifest string, content []byte) []ManifestObject {
	objects = slices.DeleteFunc(slices.Clone(objects), func(o ManifestObject) bool { return o.Manifest == manifest })
	for _, source := range operator.Sources(content) {
		objects = append(objects, ManifestObject{manifest, kindCatalogSource, source.Name, source.Image})
	}
	if strings.Contains(string(content), "kind: "+kindOperatorHub) {
		objects = append(objects, ManifestObject{Manifest: manifest, Kind: kindOperatorHub})
	}
	return objects
}

// HasSource reports whether the cluster's manifests contain a CatalogSource.
func (c Cluster) HasSource(name string) bool {
	return slices.ContainsFunc(c.Objects,
		func(o ManifestObject) bool { return o.Kind == kindCatalogSource && o.Name == name })
}

// HasOperatorHub reports whether the cluster's manifests contain an OperatorHub.
func (c Cluster) HasOperatorHub() bool {
	return slices.ContainsFunc(c.Objects, func(o ManifestObject) bool { return o.Kind == kindOperatorHub })
}

// Origin describes the origin of one of OpenShift's catalogs in a cluster.
type Origin struct {
	Catalog string `json:"catalog"`         // OpenShift's name, such as redhat-operators
	Image   string `json:"image,omitempty"` // the pull spec that nodes use
	// Source is the CatalogSource that replaces the catalog in the cluster. It is empty for
	// OpenShift's own.
	Source string `json:"source,omitempty"`
	// From describes the reason for the origin.
	From string `json:"from,omitempty"`
	// Missing describes how the user can provide the catalog. It is empty if the cluster has the
	// catalog.
	Missing string `json:"missing,omitempty"`

	// Document is the CatalogSource as YAML. It is empty if the cluster's own manifests contain the
	// object.
	Document []byte `json:"-"`
}

// Origins returns the origins of the catalogs of the cluster's operators.
func (c Cluster) Origins() []Origin {
	var found []Origin
	for _, selected := range operator.Selected(c.API, true) {
		o, ok := operator.ByName(selected)
		if !ok {
			continue
		}
		catalog := o.SubscriptionFor(c.API.OpenshiftVersion).Catalog
		if !slices.ContainsFunc(found, func(origin Origin) bool { return origin.Catalog == catalog }) {
			found = append(found, c.origin(catalog))
		}
	}
	return found
}

// origin returns the origin of one of OpenShift's catalogs. The first of these applies: a
// CatalogSource in the cluster's manifests, a CatalogSource from the mirror rules, OpenShift's own
// catalog if a rule maps its image to a mirror. A site without rules is assumed to reach the
// registries directly.
func (c Cluster) origin(catalog string) Origin {
	origin := Origin{Catalog: catalog, Image: operator.IndexImage(catalog, c.API.OpenshiftVersion)}
	var own []operator.Source
	for _, object := range c.Objects {
		if object.Kind == kindCatalogSource {
			own = append(own, operator.Source{Name: object.Name, Image: object.Image})
		}
	}
	if source, ok := operator.Pick(catalog, own); ok {
		origin.Source, origin.Image = source.Name, cmp.Or(source.Image, origin.Image)
		origin.From = "a CatalogSource of the cluster's manifests"
		return origin
	}
	fitting := slices.DeleteFunc(slices.Clone(c.Sources),
		func(source operator.Source) bool { return !source.Fits(c.API.OpenshiftVersion) })
	if source, ok := operator.Pick(catalog, fitting); ok {
		origin.Source, origin.Image = source.Name, cmp.Or(source.Image, origin.Image)
		origin.From, origin.Document = "a CatalogSource that came with the site's mirror rules", source.Document
		return origin
	}
	switch rule, served := RuleFor(c.Mirror, origin.Image); {
	case served:
		origin.From = rule
	case len(c.Mirror.RegistriesConf()) > 0 || len(c.Mirror.ImageDigestSources()) > 0:
		origin.Missing = fmt.Sprintf("no mirror rule maps %s to a mirror, and no CatalogSource replaces the catalog "+
			"%s; mirror it with oc-mirror and add its CatalogSource to the cluster's manifests or to "+
			"mirror.idms_files.", origin.Image, catalog)
	default:
		origin.From = "the site has no mirror rules"
	}
	return origin
}

// RuleFor returns the rule that maps an image to a mirror, by tag or digest as in the pull spec.
// The second value is false if no rule matches.
func RuleFor(rules interface {
	Endpoints(name.Reference) []mirror.Endpoint
}, image string) (rule string, served bool) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return "", false
	}
	for _, endpoint := range rules.Endpoints(ref) {
		if !endpoint.Source {
			return endpoint.Rule, true
		}
	}
	return "", false
}

// Missing returns the unavailable catalogs of the cluster's operators, with the remedies. It is nil
// if there are none.
func (c Cluster) Missing() map[string]string {
	var missing map[string]string
	for _, origin := range c.Origins() {
		if origin.Missing == "" {
			continue
		}
		if missing == nil {
			missing = make(map[string]string)
		}
		missing[origin.Catalog] = origin.Missing
	}
	return missing
}

// OperatorHub returns the manifest that disables OpenShift's unused catalogs in a cluster with
// other CatalogSources. A single unreachable catalog would block the installation of all operators.
// It is nil if all origins are OpenShift's own catalogs.
func OperatorHub(origins []Origin) ([]byte, error) {
	var used []string
	replaced := false
	for _, origin := range origins {
		if origin.Source == "" {
			used = append(used, origin.Catalog)
		} else {
			replaced = true
		}
	}
	if !replaced {
		return nil, nil
	}
	type source struct {
		Name     string `yaml:"name"`
		Disabled bool   `yaml:"disabled"`
	}
	var hub struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   struct {
			Name string `yaml:"name"`
		} `yaml:"metadata"`
		Spec struct {
			DisableAll bool     `yaml:"disableAllDefaultSources"`
			Sources    []source `yaml:"sources,omitempty"`
		} `yaml:"spec"`
	}
	hub.APIVersion, hub.Kind, hub.Metadata.Name = "config.openshift.io/v1", kindOperatorHub, "cluster"
	hub.Spec.DisableAll = true
	for _, catalog := range DefaultCatalogs {
		if slices.Contains(used, catalog) {
			hub.Spec.Sources = append(hub.Spec.Sources, source{catalog, false})
		}
	}
	return yaml.Marshal(hub)
}

// Availability describes the images that the mirror must hold for one operator, and the rules and
// catalogs that serve them.
type Availability struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Selected   bool     `json:"chosen"`          // the cluster has the operator
	Dependency bool     `json:"dependency_only"` // selected only because other operators depend on it
	DependsOn  []string `json:"depends_on"`
	Package    string   `json:"package"`
	// the operator's package and other packages of the catalog that it needs
	Packages []string `json:"packages"`
	Channel  string   `json:"channel,omitempty"` // empty for the default channel of the catalog
	Origin
	Images []Repository `json:"images"`
	// AdditionalImages lists images outside of the catalog.
	AdditionalImages []string `json:"additional_images"`
}

// Repository is a repository of an operator's images.
type Repository struct {
	Repository string `json:"repository"`
	Rule       string `json:"rule,omitempty"` // the mirror rule for its images, by digest
	Missing    string `json:"missing,omitempty"`
}

// Availability returns the availability of all operators for the cluster.
func (c Cluster) Availability() []Availability {
	version, singleNode := c.API.OpenshiftVersion, validation.SingleNode(c.API)
	digestRules := len(c.Mirror.ImageDigestSources()) > 0
	selected, direct := operator.Selected(c.API, true), operator.Selected(c.API, false)
	list := []Availability{}
	for i := range operator.All() {
		o := &operator.All()[i]
		s := o.SubscriptionFor(version)
		available := Availability{
			Name: o.Name, Title: o.Title, DependsOn: o.Dependencies(singleNode), Package: s.Package,
			Channel: s.Channel, Packages: o.Packages(version), Origin: c.origin(s.Catalog), Images: []Repository{},
			AdditionalImages: append([]string{}, o.AdditionalImages...),
		}
		available.Selected = slices.Contains(selected, o.Name)
		available.Dependency = available.Selected && !slices.Contains(direct, o.Name)
		for _, repository := range o.Images {
			image := Repository{Repository: repository}
			rule, served := RuleFor(c.Mirror, repository+"/image@sha256:"+strings.Repeat("0", 64))
			switch {
			case served:
				image.Rule = rule
			case digestRules:
				image.Missing = fmt.Sprintf("No mirror rule maps images of %s to a mirror; %s needs them.", repository,
					o.Title)
			}
			available.Images = append(available.Images, image)
		}
		list = append(list, available)
	}
	return list
}
