package api

import "github.com/openshift/assisted-service/models"

// Request bodies with fields that the upstream models lack.
type (
	// ClusterCreateParams describes a new cluster.
	ClusterCreateParams struct {
		models.ClusterCreateParams
		OperatorBundles []*BundleCreateParams `json:"operator_bundles"`
		NtpSources      *string               `json:"ntp_sources"`
	}
	// V2ClusterUpdateParams describes a change of a cluster.
	V2ClusterUpdateParams struct {
		models.V2ClusterUpdateParams
		OperatorBundles []*BundleCreateParams `json:"operator_bundles"`
		NtpSources      *string               `json:"ntp_sources"`
	}
	// InfraEnvCreateParams describes a new infra-env.
	InfraEnvCreateParams struct {
		models.InfraEnvCreateParams
		NtpSources *string `json:"ntp_sources"`
	}
	// InfraEnvUpdateParams describes a change of an infra-env.
	InfraEnvUpdateParams struct {
		models.InfraEnvUpdateParams
		NtpSources *string `json:"ntp_sources"`
		// IgnitionConfigOverride replaces the field of the model, which does not distinguish an
		// empty text, which removes the override, from an absent one.
		IgnitionConfigOverride *string `json:"ignition_config_override"`
	}
	// BundleCreateParams selects an operator bundle and some of its optional operators.
	BundleCreateParams struct {
		ID                string   `json:"id"`
		OptionalOperators []string `json:"optional_operators"`
	}
)
