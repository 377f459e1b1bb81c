package description

import "github.com/openshift/assisted-service/models"

// Bodies of the API that are newer than its models.
type (
	// ClusterCreateParams describes a new cluster.
	ClusterCreateParams struct {
		models.ClusterCreateParams
		OperatorBundles []*BundleCreateParams `json:"operator_bundles"`
	}
	// V2ClusterUpdateParams describes a change of a cluster.
	V2ClusterUpdateParams struct {
		models.V2ClusterUpdateParams
		OperatorBundles []*BundleCreateParams `json:"operator_bundles"`
	}
	// BundleCreateParams chooses a set of operators, and those of its optional ones that are
	// wanted.
	BundleCreateParams struct {
		ID                string   `json:"id"`
		OptionalOperators []string `json:"optional_operators"`
	}
)
