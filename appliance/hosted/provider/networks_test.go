package provider

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCluster_networkOfAnotherType(t *testing.T) {
	s := withManagement(t)
	for value, says := range map[string]string{`42`: "is not a text", `""`: "not a network", `[]`: "is not a text"} {
		_, err := s.PutCluster(t.Context(), s.caller, s.id("edge1"),
			document(`{"location":"site","properties":{"network":{"podCidr":`+value+`}}}`))
		require.ErrorContains(t, err, "properties.network.podCidr", value)
		require.ErrorContains(t, err, says, value)
	}
	s.put("edge1", `{"location":"site","properties":{"network":{"podCidr":null}}}`)
}

func TestCluster_nodePoolNamedTwice(t *testing.T) {
	s := withManagement(t)
	_, err := s.CreateCluster(t.Context(), s.caller, s.id("edge1"), document(plain),
		[]NewNodePool{{"a", document(poolBody)}, {"A", document(poolBody)}})
	require.EqualError(t, err, "The node pool A is named twice.")
	require.Nil(t, s.cluster("edge1"))
}
