package access_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
)

func TestRole_textOfEachRole(t *testing.T) {
	for _, role := range access.Roles() {
		text, err := role.MarshalText()
		require.NoError(t, err)
		var read access.Role
		require.NoError(t, read.UnmarshalText(text))
		require.Equal(t, role, read)
	}
	require.Less(t, access.Viewer, access.Operator)
	require.Less(t, access.Operator, access.Administrator)
	_, err := access.ParseRole("root")
	require.EqualError(t, err, `the role "root" does not exist; the roles are viewer, operator and admin`)
	_, err = access.ParseRole("")
	require.Error(t, err)
}

func TestScope_limitsToItsObjects(t *testing.T) {
	everything := access.Scope{}
	require.True(t, everything.Cluster("a"))
	require.True(t, everything.InfraEnv("x", ""))
	limited := access.Scope{Clusters: []string{"a"}, InfraEnvs: []string{"x"}}
	require.True(t, limited.Cluster("a"))
	require.False(t, limited.Cluster("b"))
	require.True(t, limited.InfraEnv("x", ""))
	require.True(t, limited.InfraEnv("y", "a"), "an infra-env of a cluster in the scope")
	require.False(t, limited.InfraEnv("y", ""))
	require.False(t, limited.InfraEnv("y", "b"))
}

func TestIdentity_inContext(t *testing.T) {
	require.Equal(t, access.Identity{}, access.From(t.Context()))
	ana := access.Identity{Kind: access.Person, Name: "ana", Role: access.Operator}
	require.Equal(t, ana, access.From(access.With(t.Context(), ana)))
	require.Equal(t, "person ana", ana.String())
	require.Equal(t, "nobody", access.Identity{}.String())
	require.Equal(t, "agent of infra-env x", access.Identity{Kind: access.Agent, InfraEnv: "x"}.String())
}
