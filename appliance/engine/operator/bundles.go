package operator

import (
	"slices"

	"github.com/openshift/assisted-service/models"
)

// Bundle is a set of operators that are chosen together.
type Bundle struct {
	models.Bundle
	Optional []string `json:"optional_operators"` // may be chosen with them; newer than the model of the API
}

// membership is an operator's place in a bundle.
type membership struct {
	ID         string `yaml:"id"`
	SingleNode string `yaml:"single_node"` // "on": only of a single node; "off": only of several
	Optional   bool   `yaml:"optional"`
}

func (m membership) holds(singleNode bool) bool {
	return m.SingleNode == "" || (m.SingleNode == "on") == singleNode
}

// Bundles returns the sets of operators that there are, each with its operators' names in
// alphabetical order.
func Bundles(singleNode bool) []Bundle {
	bundles := []Bundle{
		{Bundle: models.Bundle{ID: "virtualization", Title: "Virtualization",
			Description: "Virtual machines beside containers, on one platform."}},
		{Bundle: models.Bundle{ID: "openshift-ai", Title: "OpenShift AI",
			Description: "Models and applications of machine learning: trained, served and watched, on GPUs."}},
	}
	for i := range bundles {
		b := &bundles[i]
		b.Operators, b.Optional = []string{}, []string{}
		for _, o := range All() {
			for _, m := range o.Bundles {
				switch {
				case m.ID != b.ID || !m.holds(singleNode):
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
