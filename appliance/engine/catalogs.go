package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/operator"
)

// Supply is where one of OpenShift's catalogs of operators comes from in a cluster.
type Supply struct {
	Catalog string `json:"catalog"`         // OpenShift's own name of it, such as redhat-operators
	Image   string `json:"image,omitempty"` // the catalog's, as nodes pull it
	// Source is the CatalogSource that stands for it in the cluster; "" is OpenShift's own.
	Source string `json:"source,omitempty"`
	// From says in words where that is known from.
	From string `json:"from,omitempty"`
	// Missing says what is to be done so that the cluster has the catalog; "" when nothing is.
	Missing string `json:"missing,omitempty"`

	document []byte // the CatalogSource, when the cluster does not have it by its own manifests
}

// supplies tells where the catalogs of a cluster's operators come from: from the CatalogSources of
// its own manifests, those that came with the site's mirror rules, and else from OpenShift's own,
// when a rule leads their images anywhere. Without any rules the site is taken to reach what its
// names say.
func (e *Engine) supplies(row *clusterRecord) []Supply {
	var found []Supply
	for _, chosen := range chosenOperators(&row.API, true) {
		o, ok := operator.ByName(chosen)
		if !ok {
			continue
		}
		catalog := o.SubscriptionFor(row.API.OpenshiftVersion).Catalog
		if !slices.ContainsFunc(found, func(s Supply) bool { return s.Catalog == catalog }) {
			found = append(found, e.supply(row, catalog))
		}
	}
	return found
}

func (e *Engine) supply(row *clusterRecord, catalog string) Supply {
	s := Supply{Catalog: catalog, Image: operator.IndexImage(catalog, row.API.OpenshiftVersion)}
	var own []operator.Source
	for _, note := range row.Catalogs {
		if note.Kind == kindCatalogSource {
			own = append(own, operator.Source{Name: note.Name, Image: note.Image})
		}
	}
	if source, ok := operator.Pick(catalog, own); ok {
		s.Source, s.Image, s.From = source.Name, orText(source.Image, s.Image),
			"a CatalogSource of the cluster's manifests"
		return s
	}
	access := e.clusterAccess(&row.API)
	sites := slices.DeleteFunc(slices.Clone(access.Catalogs),
		func(source operator.Source) bool { return !source.Fits(row.API.OpenshiftVersion) })
	if source, ok := operator.Pick(catalog, sites); ok {
		s.Source, s.Image, s.From, s.document = source.Name, orText(source.Image, s.Image),
			"a CatalogSource that came with the site's mirror rules", source.Document
		return s
	}
	switch rule, leads := mirrored(access.Mirror, s.Image); {
	case leads:
		s.From = rule
	case len(access.Mirror.RegistriesConf()) > 0 || len(access.Mirror.ImageDigestSources()) > 0:
		s.Missing = fmt.Sprintf("no mirror rule leads %s anywhere and no CatalogSource stands for the catalog %s; "+
			"mirror it with oc-mirror and add its CatalogSource to the cluster's manifests or to mirror.idms_files.",
			s.Image, catalog)
	default:
		s.From = "the site has no mirror rules"
	}
	return s
}

// mirrored tells which of the rules leads an image to a mirror, by tag or by digest as its name is.
func mirrored(rules Mirror, image string) (rule string, leads bool) {
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

// missingCatalogs says of each catalog that a cluster's operators need what is missing so that it
// has them.
func (e *Engine) missingCatalogs(row *clusterRecord) map[string]string {
	var missing map[string]string
	for _, s := range e.supplies(row) {
		if s.Missing == "" {
			continue
		}
		if missing == nil {
			missing = make(map[string]string)
		}
		missing[s.Catalog] = s.Missing
	}
	return missing
}

// RefreshOperators looks anew at where the operators of clusters that are not installed yet come
// from, after the mirror rules have changed. What can't be refreshed is logged.
func (e *Engine) RefreshOperators(ctx context.Context) {
	err := e.update(ctx, func(c *change) error {
		return clusterRows.Each(c.tx, "", func(id string, row *clusterRecord) error {
			if len(chosenOperators(&row.API, true)) > 0 && manifestsOpen(row) {
				c.settleCluster(id)
			}
			return nil
		})
	})
	if err != nil && ctx.Err() == nil {
		e.Logger.Error("Clusters with operators could not be looked at after the mirror rules changed.", "error", err)
	}
}

// ownCatalogs are the catalogs that OpenShift comes with.
var ownCatalogs = []string{"redhat-operators", "certified-operators", "community-operators", "redhat-marketplace"}

// operatorHub switches those of OpenShift's own catalogs off that a cluster with catalogs of the
// mirror does not use: one that can't be reached keeps every operator from being installed. Nil
// when all of the cluster's catalogs are OpenShift's own.
func operatorHub(supplies []Supply) ([]byte, error) {
	var used []string
	mirrored := false
	for _, s := range supplies {
		if s.Source == "" {
			used = append(used, s.Catalog)
		} else {
			mirrored = true
		}
	}
	if !mirrored {
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
	for _, catalog := range ownCatalogs {
		if slices.Contains(used, catalog) {
			hub.Spec.Sources = append(hub.Spec.Sources, source{catalog, false})
		}
	}
	return yaml.Marshal(hub)
}

// OperatorSupply is what the mirror must hold for one operator, and what of it is known to be
// there.
type OperatorSupply struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Chosen     bool     `json:"chosen"`          // the cluster gets it
	Dependency bool     `json:"dependency_only"` // as others depend on it
	DependsOn  []string `json:"depends_on"`
	Package    string   `json:"package"`
	Packages   []string `json:"packages"`          // with those of the same catalog that the package needs
	Channel    string   `json:"channel,omitempty"` // "" is the catalog's default one
	Supply
	Images []ImageSupply `json:"images"`
	// AdditionalImages are images outside of the catalog.
	AdditionalImages []string `json:"additional_images"`
}

// ImageSupply is a repository that images of an operator are in.
type ImageSupply struct {
	Repository string `json:"repository"`
	Rule       string `json:"rule,omitempty"` // the mirror rule that leads its images, by digest
	Missing    string `json:"missing,omitempty"`
}

// OperatorSupplies tells for each operator that a cluster could have what it needs from the mirror,
// and whether mirror rules lead there.
func (e *Engine) OperatorSupplies(id string) ([]OperatorSupply, error) {
	row, err := e.clusterRow(id)
	if err != nil {
		return nil, err
	}
	return e.operatorSupplies(row), nil
}

// OperatorSuppliesFor is [Engine.OperatorSupplies] of a cluster that there is not yet, of an
// OpenShift version.
func (e *Engine) OperatorSuppliesFor(version string) []OperatorSupply {
	return e.operatorSupplies(&clusterRecord{API: models.Cluster{OpenshiftVersion: version}})
}

func (e *Engine) operatorSupplies(row *clusterRecord) []OperatorSupply {
	api := &row.API
	rules := e.clusterAccess(api).Mirror
	ruled := len(rules.ImageDigestSources()) > 0
	list := []OperatorSupply{}
	for i := range operator.All() {
		o := &operator.All()[i]
		s := o.SubscriptionFor(api.OpenshiftVersion)
		supply := OperatorSupply{
			Name: o.Name, Title: o.Title, DependsOn: o.Dependencies(api.ControlPlaneCount == 1), Package: s.Package,
			Channel:  s.Channel,
			Packages: o.Packages(api.OpenshiftVersion), Supply: e.supply(row, s.Catalog), Images: []ImageSupply{},
			AdditionalImages: append([]string{}, o.AdditionalImages...),
		}
		supply.Chosen = slices.Contains(chosenOperators(api, true), o.Name)
		supply.Dependency = supply.Chosen && !slices.Contains(chosenOperators(api, false), o.Name)
		for _, repository := range o.Images {
			image := ImageSupply{Repository: repository}
			rule, leads := mirrored(rules, repository+"/image@sha256:"+strings.Repeat("0", 64))
			switch {
			case leads:
				image.Rule = rule
			case ruled:
				image.Missing = fmt.Sprintf("No mirror rule leads images of %s anywhere; %s needs them.", repository,
					o.Title)
			}
			supply.Images = append(supply.Images, image)
		}
		list = append(list, supply)
	}
	return list
}

// OperatorImageSet is what oc-mirror is to be given so that it copies what a cluster's operators
// need.
func (e *Engine) OperatorImageSet(id string) ([]byte, error) {
	row, err := e.clusterRow(id)
	if err != nil {
		return nil, err
	}
	return operator.ImageSet(chosenOperators(&row.API, true), row.API.OpenshiftVersion)
}
