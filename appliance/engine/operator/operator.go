// Package operator describes the optional operators of clusters: their dependencies, hardware
// requirements, manifests and catalogs. The data is a table (operators.yaml) and the custom
// resources in manifests/. The functions of the package are pure.
//
// Design: docs/design.md#one-table-of-operators, docs/design.md#no-lookup-of-methods-by-name.
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

// Operator is one row of the table of operators.
type Operator struct {
	Name    string                       `yaml:"name"`  // in the API
	Title   string                       `yaml:"title"` // in texts for users
	Feature models.FeatureSupportLevelID `yaml:"feature"`
	// Validation is the operator's name in the ids of validations. It defaults to Name.
	Validation string `yaml:"validation"`
	// Since is the first OpenShift version that has the operator. SinceOnSeveralNodes is the first
	// that has it on more than one node. Empty means all versions.
	Since               string `yaml:"since"`
	SinceOnSeveralNodes string `yaml:"since_on_several_nodes"`

	// Against lists operators that exclude this operator before an OpenShift version. Package
	// support lists the operators that always exclude each other.
	Against []against `yaml:"against"`

	Needs             []string      `yaml:"needs"`
	NeedsOnSingleNode []string      `yaml:"needs_on_single_node"`
	Timeout           time.Duration `yaml:"timeout"`
	Namespace         Namespace     `yaml:"namespace"`
	Group             *Group        `yaml:"group"`
	Subscription      Subscription  `yaml:"subscription"`
	// Images lists the known repositories of the operator's images. The catalog is authoritative.
	Images []string `yaml:"images"`
	// AdditionalImages lists images that the operator's custom resources need, but that its catalog
	// lacks.
	AdditionalImages []string `yaml:"additional_images"`
	// With lists other packages of the catalog that it needs.
	With         []with       `yaml:"with"`
	Requirements Requirements `yaml:"requirements"`

	Bundles []membership `yaml:"bundles"`
	Before  *former      `yaml:"before"`
}

// Namespace is the namespace of an operator.
type Namespace struct {
	Name      string `yaml:"name"`
	Shared    bool   `yaml:"shared"`    // it already exists, or another operator's manifests create it
	Monitored bool   `yaml:"monitored"` // the cluster's monitoring scrapes it
}

// Group is an OperatorGroup. It watches the operator's namespace, or all namespaces.
type Group struct {
	Name string `yaml:"name"`
	All  bool   `yaml:"all"`
}

// Subscription names the package to install and its catalog. An empty channel means the default
// channel of the package.
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

// former is the subscription in OpenShift versions before Version.
type former struct {
	Version      string       `yaml:"version"`
	Subscription Subscription `yaml:"subscription"`
}

//go:embed operators.yaml manifests
var files embed.FS

// table returns the embedded table of operators. A test parses it, so parsing does not fail at
// run time.
var table = sync.OnceValues(func() ([]Operator, error) {
	text, err := files.ReadFile("operators.yaml")
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var rows []Operator
	if err := decoder.Decode(&rows); err != nil {
		return nil, fmt.Errorf("read the table of operators: %w", err)
	}
	for i := range rows {
		if rows[i].Validation == "" {
			rows[i].Validation = rows[i].Name
		}
	}
	return rows, nil
})

// All returns all operators in the order of their validations. Callers must not change the list.
func All() []Operator {
	rows, _ := table()
	return rows
}

// ByName returns the operator with a name of the API. ocs is the former name of odf.
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

// Names returns the names of all operators in alphabetical order.
func Names() []string {
	var names []string
	for _, o := range All() {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return names
}

// SubscriptionFor returns the operator's subscription in an OpenShift version.
func (o *Operator) SubscriptionFor(version string) Subscription {
	if o.Before != nil && !atLeast(version, o.Before.Version) {
		return o.Before.Subscription
	}
	return o.Subscription
}

// Unavailable returns a sentence with the reason why an OpenShift version lacks the operator, or ""
// if it has the operator.
func (o *Operator) Unavailable(version string, singleNode bool) string {
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

// dependencies returns the names of the operators that the operator needs.
func (o *Operator) dependencies(singleNode bool) []string {
	if singleNode {
		return slices.Concat(o.Needs, o.NeedsOnSingleNode)
	}
	return o.Needs
}

// Dependencies returns a copy of the names of the operators that the operator needs directly.
func (o *Operator) Dependencies(singleNode bool) []string {
	return append([]string{}, o.dependencies(singleNode)...)
}

// Resolve returns the selected operators, followed by all direct and indirect dependencies, without
// repetition. Unknown names are left out.
func Resolve(selected []string, singleNode bool) []string {
	var all []string
	for _, name := range selected {
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

// Conflict returns a sentence about two selected operators that exclude each other in an OpenShift
// version, or "".
func Conflict(selected []string, version string) string {
	for _, name := range selected {
		o, ok := ByName(name)
		if !ok {
			continue
		}
		for _, other := range o.Against {
			if with, _ := ByName(other.Name); slices.Contains(selected, other.Name) && !atLeast(version, other.Before) {
				return fmt.Sprintf("%s and %s can be installed together from OpenShift %s on and the cluster gets "+
					"%s; choose a later version or leave one of them out.", o.Title, with.Title, other.Before, version)
			}
		}
	}
	return ""
}

// atLeast reports whether a version such as 4.19.3 has at least the minor version least, such as
// 4.19.
func atLeast(version, least string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(least, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return inventory.AtLeast(version, major, minor)
}
