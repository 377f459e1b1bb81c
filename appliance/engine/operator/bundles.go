package operator

import (
	"slices"

	"github.com/openshift/assisted-service/models"
)

// Bundle is a set of operators that are selected together.
type Bundle struct {
	models.Bundle
	Optional []string `json:"optional_operators"` // may be added; the API's models lack the field
}

// membership is the membership of an operator in a bundle.
type membership struct {
	ID         string `yaml:"id"`
	SingleNode string `yaml:"single_node"` // "on": single-node clusters only; "off": other clusters only
	Optional   bool   `yaml:"optional"`
}

// applies reports whether the bundle has the operator on this topology.
func (m membership) applies(singleNode bool) bool {
	return m.SingleNode == "" || (m.SingleNode == "on") == singleNode
}

// Bundles returns all bundles with the names of their operators in alphabetical order.
func Bundles(singleNode bool) []Bundle {
	bundles := []Bundle{
		{Bundle: models.Bundle{ID: "virtualization", Title: "Virtualization",
			Description: "Virtual machines and containers on one platform."}},
		{Bundle: models.Bundle{ID: "openshift-ai", Title: "OpenShift AI",
			Description: "Training, serving and monitoring of machine-learning models on GPUs."}},
	}
	for i := range bundles {
		b := &bundles[i]
		b.Operators, b.Optional = []string{}, []string{}
		for _, o := range All() {
			for _, m := range o.Bundles {
				switch {
				case m.ID != b.ID || !m.applies(singleNode):
				case m.Optional:
					b.Optional = append(b.Optional, o.Name)
				default:
					b.Operators = append(b.Operators, o.Name)
				}
			}
		}
		slices.Sort(b.Operators)
		slices.Sort(b.Optional)
	}
	return bundles
}
