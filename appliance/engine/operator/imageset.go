package operator

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// with is another package of the catalog. The operator needs it in OpenShift Since and later, or in
// all versions if Since is empty.
type with struct {
	Package string `yaml:"package"`
	Since   string `yaml:"since"`
}

// Packages returns the packages of the catalog that the operator needs in an OpenShift version. Its
// own package comes first.
func (o *Operator) Packages(version string) []string {
	packages := []string{o.SubscriptionFor(version).Package}
	for _, w := range o.With {
		if w.Since == "" || atLeast(version, w.Since) {
			packages = append(packages, w.Package)
		}
	}
	return packages
}

type (
	imageSetPackage struct {
		Name     string            `yaml:"name"`
		Channels []imageSetChannel `yaml:"channels,omitempty"`
	}
	imageSetChannel struct {
		Name string `yaml:"name"`
	}
	imageSetCatalog struct {
		Catalog  string            `yaml:"catalog"`
		Packages []imageSetPackage `yaml:"packages"`
	}
	imageSetImage struct {
		Name string `yaml:"name"`
	}
	imageSet struct {
		Kind       string `yaml:"kind"`
		APIVersion string `yaml:"apiVersion"`
		Mirror     struct {
			Operators []imageSetCatalog `yaml:"operators"`
			Images    []imageSetImage   `yaml:"additionalImages,omitempty"`
		} `yaml:"mirror"`
	}
)

// ImageSet returns the ImageSetConfiguration (YAML) with which oc-mirror v2 copies operators for an
// OpenShift version. It does not add dependencies; see [Resolve].
func ImageSet(names []string, version string) ([]byte, error) {
	set := imageSet{Kind: "ImageSetConfiguration", APIVersion: "mirror.openshift.io/v2alpha1"}
	set.Mirror.Operators = []imageSetCatalog{}
	for _, name := range names {
		o, ok := ByName(name)
		if !ok {
			continue
		}
		s := o.SubscriptionFor(version)
		index := IndexImage(s.Catalog, version)
		at := slices.IndexFunc(set.Mirror.Operators, func(c imageSetCatalog) bool { return c.Catalog == index })
		if at < 0 {
			at = len(set.Mirror.Operators)
			set.Mirror.Operators = append(set.Mirror.Operators, imageSetCatalog{Catalog: index})
		}
		catalog := &set.Mirror.Operators[at]
		for _, wanted := range o.Packages(version) {
			entry := imageSetPackage{Name: wanted}
			if wanted == s.Package && s.Channel != "" {
				entry.Channels = []imageSetChannel{{s.Channel}}
			}
			catalog.Packages = append(catalog.Packages, entry)
		}
		for _, image := range o.AdditionalImages {
			set.Mirror.Images = append(set.Mirror.Images, imageSetImage{image})
		}
	}
	return yaml.Marshal(set)
}
