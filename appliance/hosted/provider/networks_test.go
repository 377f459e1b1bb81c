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
