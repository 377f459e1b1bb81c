package description_test

import (
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/description"
	"landfall/appliance/kube/objects/agentinstall"
)

func TestInfraEnvObject_textsReachRequests(t *testing.T) {
	spec := &agentinstall.InfraEnvSpec{SSHAuthorizedKey: "key", AdditionalTrustBundle: "pem",
		IgnitionConfigOverride: "{}"}
	params := &models.InfraEnvCreateParams{}
	description.CreateInfraEnvFromObject(params, spec)
	require.Equal(t, &models.InfraEnvCreateParams{SSHAuthorizedKey: conv.Pointer("key"),
		AdditionalTrustBundle: "pem", IgnitionConfigOverride: "{}"}, params)

	update := &models.InfraEnvUpdateParams{}
	description.UpdateInfraEnvFromObject(update, &agentinstall.InfraEnvSpec{})
	require.Equal(t, &models.InfraEnvUpdateParams{SSHAuthorizedKey: conv.Pointer(""),
		AdditionalTrustBundle: conv.Pointer("")}, update, "the engine keeps the override")
}

func TestInfraEnvObject_changesReachTheSpec(t *testing.T) {
	spec := &agentinstall.InfraEnvSpec{SSHAuthorizedKey: "key", IgnitionConfigOverride: "{}"}
	require.False(t, description.CopyInfraEnvToObject(spec, &models.InfraEnv{SSHAuthorizedKey: "key\n"}))
	require.True(t, description.CopyInfraEnvToObject(spec, &models.InfraEnv{AdditionalTrustBundle: "pem",
		IgnitionConfigOverride: `{"ignition":{}}`}))
	require.Equal(t, &agentinstall.InfraEnvSpec{AdditionalTrustBundle: "pem",
		IgnitionConfigOverride: `{"ignition":{}}`}, spec)
}
