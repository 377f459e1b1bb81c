package ignition

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vincent-petithory/dataurl"
	"go.yaml.in/yaml/v3"
)

func bootstrapWithHosts(names ...string) []byte {
	files := ""
	for i, name := range names {
		object := fmt.Sprintf("apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata:\n  name: %s\n  "+
			"namespace: openshift-machine-api\nspec:\n  bootMACAddress: 52:54:00:00:00:0%d\n  online: "+
			"true\nstatus:\n  errorCount: 0\n", name, i)
		files += fmt.Sprintf(
			`,{"path":"/opt/openshift/openshift/99_openshift-cluster-api_hosts-%d.yaml","contents":{"source":%q,"verification":{}}}`, i, dataurl.EncodeBytes([]byte(object)))
	}
	return []byte(`{"ignition":{"version":"3.2.0"},"storage":{"files":[` + files[1:] + `]}}`)
}

func TestEditBootstrap_bareMetalHosts(t *testing.T) {
	hosts := []BareMetalHost{
		{Name: "b", Role: "master", Hardware: Hardware{Hostname: "b", RAMMebibytes: 16384,
			CPU: HardwareCPU{Arch: "x86_64", Count: 8}}},
		{Name: "a", Role: "master", Hardware: Hardware{Hostname: "a"}},
		{Name: "w", Role: "worker", Hardware: Hardware{Hostname: "w"}},
	}
	raw, err := EditBootstrap(bootstrapWithHosts("b", "site-worker-0", "site-master-1"), BootstrapEdits{Hosts: hosts})
	require.NoError(t, err)
	config, err := parseLifted(raw)
	require.NoError(t, err)
	var got []string
	for _, f := range config.Storage.Files {
		if !isBareMetalHost(f.Path) {
			continue
		}
		data, err := resource(f.Contents)
		require.NoError(t, err)
		var object struct {
			Metadata struct {
				Name        string            `yaml:"name"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"metadata"`
			Spec   map[string]any `yaml:"spec"`
			Status any            `yaml:"status"`
		}
		require.NoError(t, yaml.Unmarshal(data, &object))
		require.Equal(t, true, object.Spec["externallyProvisioned"])
		require.Equal(t, true, object.Spec["online"])
		require.Nil(t, object.Status)
		var status struct {
			Hardware  Hardware `json:"hardware"`
			PoweredOn bool     `json:"poweredOn"`
		}
		require.NoError(t, json.Unmarshal([]byte(object.Metadata.Annotations["baremetalhost.metal3.io/status"]),
			&status))
		require.True(t, status.PoweredOn)
		got = append(got, object.Metadata.Name+" is "+status.Hardware.Hostname)
		if object.Metadata.Name == "b" {
			require.Equal(t, hosts[0].Hardware, status.Hardware)
		}
	}
	require.Equal(t, []string{"b is b", "site-worker-0 is w", "site-master-1 is a"}, got)
}

func TestEditBootstrap_bareMetalHostWithoutHost(t *testing.T) {
	_, err := EditBootstrap(bootstrapWithHosts("site-master-0", "site-master-1"),
		BootstrapEdits{Hosts: []BareMetalHost{{Name: "a", Role: "master"}}})
	require.EqualError(t, err,
		`the BareMetalHost "site-master-1" in /opt/openshift/openshift/99_openshift-cluster-api_hosts-1.yaml has no host left with the role master`)
	bad := []byte(
		`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/x/99_openshift-cluster-api_hosts-0.yaml","contents":{"source":"data:,%5B"}}]}}`)
	_, err = EditBootstrap(bad, BootstrapEdits{Hosts: []BareMetalHost{{Name: "a", Role: "master"}}})
	require.ErrorContains(t, err, "hosts-0.yaml cannot be read")
}

func TestEditBootstrap_withoutHosts(t *testing.T) {
	raw, err := EditBootstrap(bootstrapWithHosts("site-master-0"), BootstrapEdits{})
	require.NoError(t, err)
	require.NotContains(t, describe(t, raw), "externallyProvisioned")
}
