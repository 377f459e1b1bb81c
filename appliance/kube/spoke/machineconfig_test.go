package spoke_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	pools      = "apis/machineconfiguration.openshift.io/v1/machineconfigpools"
	configMaps = "api/v1/configmaps"
)

func TestPausePool(t *testing.T) {
	s := newSite(t)
	paused := func() any { return s.cluster.Object(pools, "", "worker").Object["spec"].(map[string]any)["paused"] }
	for _, want := range []bool{true, true, false} {
		require.NoError(t, s.open().PausePool(t.Context(), "worker", want))
		require.Equal(t, want, paused())
	}
	require.ErrorContains(t, s.open().PausePool(t.Context(), "infra", true),
		"set paused to true in the MachineConfigPool infra")
}

func TestServerCA_places(t *testing.T) {
	s := newSite(t)
	put := func(namespace, name, key, value string) {
		s.cluster.Put(configMaps, map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name},
			"data": map[string]any{key: value}})
	}
	found, err := s.open().ServerCA(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(s.spokes.CA()), found)
	put("openshift-machine-config-operator", "machine-config-server-ca", "ca-bundle.crt", "nothing")
	_, err = s.open().ServerCA(t.Context())
	require.ErrorContains(t, err,
		"openshift-machine-config-operator/machine-config-server-ca as the certificate authority of the machine "+
			"config server: "+
			"the value is not a list of PEM certificates", "the first ConfigMap is used")
	put("openshift-machine-config-operator", "machine-config-server-ca", "ca-bundle.crt", string(s.spokes.CA()))
	_, err = s.open().ServerCA(t.Context())
	require.NoError(t, err)
	s.cluster.Answer(func(*http.Request) int { return http.StatusNotFound })
	_, err = s.open().ServerCA(t.Context())
	require.ErrorContains(t, err, "has no ConfigMap with the certificate authority")
}
