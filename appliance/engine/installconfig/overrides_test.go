package installconfig

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
)

// FuzzInstallConfigOverride checks that an override is either rejected with a sentence or merged. A
// merge changes only the given fields. A second merge of the same override changes nothing.
func FuzzInstallConfigOverride(f *testing.F) {
	const config = `{"apiVersion":"v1","fips":false,"compute":[{"name":"worker","replicas":0}],"networking":{"networkType":"OVNKubernetes","serviceNetwork":["172.30.0.0/16"]}}`
	for _, seed := range []string{
		`{"fips": true}`, `{"fips": null}`, `{"compute": [{"replicas": 2}, {"name": "edge"}]}`, `{"compute": []}`,
		`{"networking": {"networkType": null}}`,
		`{"networking": {"serviceNetwork": ["fd02::/112"]}}`, `{"platform": {"vsphere": {"a": [{"b": {}}]}}}`,
		`{"compute": [{"replicas": 1e2}]}`,
		`{"controlPlane": {"replicas": 9223372036854775808}}`, `[]`, `null`, `{}{}`, `{"compute": [null]}`, `{"":{}}`,
		"\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		over, err := parseOverride(text)
		if err != nil {
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.NotEmpty(t, err.Error())
			return
		}
		var base map[string]any
		require.NoError(t, json.Unmarshal([]byte(config), &base))
		merged := mergeOverride(base, over)
		requireMerged(t, base, over, merged)
		require.Equal(t, merged, mergeOverride(merged, over))
		_, err = json.Marshal(merged)
		require.NoError(t, err)
		var again map[string]any
		require.NoError(t, json.Unmarshal([]byte(config), &again))
		require.Equal(t, again, base, "the base value does not change")
	})
}

// requireMerged requires the given fields to be merged and the others to be unchanged.
func requireMerged(t *testing.T, base, over, merged any) {
	t.Helper()
	named, ok := over.(map[string]any)
	if !ok {
		return
	}
	held, _ := base.(map[string]any)
	result, ok := merged.(map[string]any)
	require.True(t, ok)
	for name, value := range held {
		if _, changed := named[name]; !changed {
			require.Equal(t, value, result[name], name)
		}
	}
	for name, value := range named {
		switch value := value.(type) {
		case nil:
			require.NotContains(t, result, name)
		case map[string]any:
			requireMerged(t, held[name], value, result[name])
		case []any:
			require.Len(t, result[name], len(value))
		default:
			require.Equal(t, value, result[name])
		}
	}
}

func TestInstallConfigOverride_nullInAList(t *testing.T) {
	_, err := parseOverride(`{"platform": {"baremetal": {"apiVIPs": ["192.0.2.4", null]}}}`)
	require.ErrorContains(t, err, "platform.baremetal.apiVIPs[1] is null")
	_, err = parseOverride(`{"compute": [null]}`)
	require.ErrorContains(t, err, "compute[0] is null")
}
