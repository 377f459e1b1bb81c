package validation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseOverrides(t *testing.T) {
	o, err := ParseOverrides([]byte(`[
		{"version": "4.20.8", "worker": {"disk_size_gb": 60}},
		{"version": "4.20", "match_type": "min_version", "worker": {"cpu_cores": 3, "disk_size_gb": 70}},
		{"version": "default", "worker": {"cpu_cores": 1, "packet_loss_percentage": 25}, "sno": {"ram_mib": 12288}},
		{"version": "4.18", "master": {"network_latency_threshold_ms": 250.5}}
	]`))
	require.NoError(t, err)
	require.EqualValues(t, 1, o.For("4.19.2").Worker.CPUCores)
	require.EqualValues(t, 25, *o.For("4.19.2").Worker.PacketLossPercentage)
	require.EqualValues(t, 8192, o.For("4.19.2").Worker.RAMMib, "other values stay")
	require.EqualValues(t, 12288, o.For("").SNO.RAMMib)
	require.EqualValues(t, 3, o.For("4.20.8").Worker.CPUCores)
	require.EqualValues(t, 60, o.For("4.20.8").Worker.DiskSizeGb,
		"an entry for one version overrides an entry with min_version")
	require.EqualValues(t, 70, o.For("4.21.0-ec.2").Worker.DiskSizeGb)
	require.EqualValues(t, 250.5, *o.For("4.18.0-rc.1").Master.NetworkLatencyThresholdMs)
	require.EqualValues(t, 100, *o.For("4.180.1").Master.NetworkLatencyThresholdMs)
	require.Equal(t, DefaultRequirements("4.22.0"), (*Overrides)(nil).For("4.22.0"))
}

func TestParseOverrides_invalid(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no JSON":          {`{`, "not a JSON list"},
		"no list":          {`{"version": "default"}`, "not a JSON list"},
		"an unknown role":  {`[{"version": "default", "king": {}}]`, `"king"`},
		"an unknown field": {`[{"version": "default", "master": {"cores": 4}}]`, `"cores"`},
		"no version":       {`[{"master": {}}]`, "entry 1"},
		"a strange version": {`[{"version": "default"}, {"version": "latest"}]`,
			`entry 2 of the hardware requirements: the version "latest"`},
		"a strange match": {`[{"version": "4.20", "match_type": "like"}]`, `"like"`},
		"no cores":        {`[{"version": "default", "sno": {"cpu_cores": 0}}]`, "cpu_cores of role sno is 0"},
		"no latency":      {`[{"version": "default", "worker": {"network_latency_threshold_ms": 0}}]`, "above 0"},
		"more than all":   {`[{"version": "default", "worker": {"packet_loss_percentage": 101}}]`, "from 0 to 100"},
		"two lists":       {`[] []`, "after the end of their list"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseOverrides([]byte(tt.text))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// TestDefaultRequirements_matchUpstream compares the defaults with the configuration of a real
// service.
func TestDefaultRequirements_matchUpstream(t *testing.T) {
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA is not set to a directory of real data")
	}
	text, err := os.ReadFile(filepath.Join(dir, "assisted", "defaults", "default_hw_requirements.json"))
	require.NoError(t, err)
	o, err := ParseOverrides(text)
	require.NoError(t, err)
	for _, version := range []string{"", "4.14.3", "4.21.9", "4.22.0", "4.23.1"} {
		require.Equal(t, DefaultRequirements(version), o.For(version), version)
	}
}
