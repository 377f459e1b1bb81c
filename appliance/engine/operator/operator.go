// Package operator knows the optional operators that a cluster can be installed with: what each
// depends on, what it needs of hosts, which manifests bring it in, and from which catalog of the
// site's mirror. The knowledge is one table (catalogue.yaml) and the custom resources beside it
// (manifests/); everything that is made of them is pure.
package operator

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/inventory"
)

// Operator is one row of the table.
type Operator struct {
	Name    string                       `yaml:"name"`  // as the API calls it
	Title   string                       `yaml:"title"` // as people do
	Feature models.FeatureSupportLevelID `yaml:"feature"`
	// Validation is the operator's name in the ids of validations; as a rule its name.
	Validation string `yaml:"validation"`
	// Since is the first OpenShift version that has it, SinceOnSeveralNodes the first where it
	// takes more than one; "" is any.
	Since               string `yaml:"since"`
	SinceOnSeveralNodes string `yaml:"since_on_several_nodes"`

	// Against are operators that it can't be installed with before an OpenShift version. What it
	// never goes with is said by the support levels of features.
	Against []against `yaml:"against"`

	Needs             []string      `yaml:"needs"`
	NeedsOnSingleNode []string      `yaml:"needs_on_single_node"`
	Timeout           time.Duration `yaml:"timeout"`
	Namespace         Namespace     `yaml:"namespace"`
	Group             *Group        `yaml:"group"`
	Subscription      Subscription  `yaml:"subscription"`
	// Images are the repositories that its images are in, as far as is known without the catalog
	// itself.
	Images []string `yaml:"images"`
	// AdditionalImages are images outside of its catalog that its custom resources name.
	AdditionalImages []string `yaml:"additional_images"`
	// With are further packages of its catalog.
	With         []with       `yaml:"with"`
	Requirements Requirements `yaml:"requirements"`

	Bundles []membership `yaml:"bundles"`
	Before  *former      `yaml:"before"`
}

// Namespace is where an operator lives.
type Namespace struct {
	Name      string `yaml:"name"`
	Shared    bool   `yaml:"shared"`    // it is there already, or another operator's manifests make it
	Monitored bool   `yaml:"monitored"` // the cluster's own monitoring looks at it
}

// Group is an OperatorGroup: it watches the operator's namespace, or all of them.
type Group struct {
	Name string `yaml:"name"`
	All  bool   `yaml:"all"`
}

// Subscription says what of which catalog is installed. An empty channel is the catalog's default
// one.
type Subscription struct {
	Name    string `yaml:"name"`
	Package string `yaml:"package"`
	Channel string `yaml:"channel"`
	Catalog string `yaml:"catalog"`
}

type against struct {
	Name   string `yaml:"name"`
	Before string `yaml:"before"`
}

// former is the subscription of OpenShift versions before one.
type former struct {
	Version      string       `yaml:"version"`
	Subscription Subscription `yaml:"subscription"`
}

//go:embed catalogue.yaml manifests
var files embed.FS

// table is the catalogue as it is embedded; a test reads it, so that it can't fail to be read.
var table = sync.OnceValues(func() ([]Operator, error) {
	text, err := files.ReadFile("catalogue.yaml")
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var rows []Operator
	if err := decoder.Decode(&rows); err != nil {
		return nil, fmt.Errorf("read the catalogue of operators: %w", err)
	}
	for i := range rows {
		if rows[i].Validation == "" {
			rows[i].Validation = rows[i].Name
		}
	}
	return rows, nil
})

// All returns every operator in the order in which their checks are shown. The rows are shared and
// not to be altered.
func All() []Operator {
	rows, _ := table()
	return rows
}

// ByName finds an operator by the name that the API calls it by. The former name ocs stands for
// odf.
func ByName(name string) (*Operator, bool) {
	if name == "ocs" {
		name = "odf"
	}
	rows := All()
	at := slices.IndexFunc(rows, func(o Operator) bool { return o.Name == name })
	if at < 0 {
		return nil, false
	}
	return &rows[at], true
}

// Names lists all operators' names in alphabetical order.
func Names() []string {
	var names []string
	for _, o := range All() {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return names
}

// SubscriptionFor is the operator's subscription in an OpenShift version.
func (o *Operator) SubscriptionFor(version string) Subscription {
	if o.Before != nil && !atLeast(version, o.Before.Version) {
		return o.Before.Subscription
	}
	return o.Subscription
}

// Unfit tells in a sentence why an OpenShift version does not have the operator; "" when it has.
func (o *Operator) Unfit(version string, singleNode bool) string {
	if o.Since != "" && !atLeast(version, o.Since) {
		return fmt.Sprintf("%s needs OpenShift %s or later and the cluster gets %s; choose a later version or leave "+
			"the operator out.", o.Title, o.Since, version)
	}
	if o.SinceOnSeveralNodes != "" && !singleNode && !atLeast(version, o.SinceOnSeveralNodes) {
		return fmt.Sprintf("%s on several nodes needs OpenShift %s or later and the cluster gets %s; choose a later "+
			"version or leave the operator out.", o.Title, o.SinceOnSeveralNodes, version)
	}
	return ""
}

// dependencies are the operators that an operator does not work without.
func (o *Operator) dependencies(singleNode bool) []string {
	if singleNode {
		return slices.Concat(o.Needs, o.NeedsOnSingleNode)
	}
	return o.Needs
}

// Dependencies are the operators that an operator does not work without, those of its dependencies
// not among them.
func (o *Operator) Dependencies(singleNode bool) []string {
	return append([]string{}, o.dependencies(singleNode)...)
}

// Resolve adds to the chosen operators all those that they depend on, directly or not, behind them
// and each once. A name that is no operator's is left out.
func Resolve(chosen []string, singleNode bool) []string {
	var all []string
	for _, name := range chosen {
		if o, ok := ByName(name); ok && !slices.Contains(all, o.Name) {
			all = append(all, o.Name)
		}
	}
	for i := 0; i < len(all); i++ {
		o, _ := ByName(all[i])
		for _, name := range o.dependencies(singleNode) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// Clash tells in a sentence which two of the chosen operators an OpenShift version can't be
// installed with at once; "" when there are none.
func Clash(chosen []string, version string) string {
	for _, name := range chosen {
		o, ok := ByName(name)
		if !ok {
			continue
		}
		for _, other := range o.Against {
			if with, _ := ByName(other.Name); slices.Contains(chosen, other.Name) && !atLeast(version, other.Before) {
				return fmt.Sprintf("%s and %s can be installed together from OpenShift %s on and the cluster gets "+
					"%s; choose a later version or leave one of them out.", o.Title, with.Title, other.Before, version)
			}
		}
	}
	return ""
}

// atLeast compares two versions by their first two numbers, such as 4.19.3 and 4.19.
func atLeast(version, least string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(least, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return inventory.AtLeast(version, major, minor)
}
