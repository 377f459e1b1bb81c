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
	described, err := description.NewInfraEnv(testSite, fullInfraEnv(), "id", nil)
	require.NoError(t, err)
	require.NoError(t, testSite.UpdateInfraEnv(described, update))
	require.Empty(t, described.API.SSHAuthorizedKey+described.API.AdditionalTrustBundle+
		described.API.IgnitionConfigOverride)
}

func TestInfraEnvObject_changesReachTheSpec(t *testing.T) {
	spec := &agentinstall.InfraEnvSpec{SSHAuthorizedKey: "key", IgnitionConfigOverride: "{}"}
	require.False(t, description.CopyInfraEnvToObject(spec, &models.InfraEnv{SSHAuthorizedKey: "key\n",
		IgnitionConfigOverride: "{}"}))
	require.True(t, description.CopyInfraEnvToObject(spec, &models.InfraEnv{AdditionalTrustBundle: "pem",
		IgnitionConfigOverride: `{"ignition":{}}`}))
	require.Equal(t, &agentinstall.InfraEnvSpec{AdditionalTrustBundle: "pem",
		IgnitionConfigOverride: `{"ignition":{}}`}, spec)
	require.True(t, description.CopyInfraEnvToObject(spec, &models.InfraEnv{AdditionalTrustBundle: "pem"}))
	require.Empty(t, spec.IgnitionConfigOverride)
}

func TestInfraEnvObject_fieldThatTheSpecLacksPanics(t *testing.T) {
	require.PanicsWithValue(t, "the field SSHAuthorizedKey of infra-envs is marked with inObject, and *struct {} has "+
		"no text of this name", func() {
		description.UpdateInfraEnvFromObject(new(models.InfraEnvUpdateParams), new(struct{}))
	})
}
