package objects_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/objects"
)

func TestInManifest(t *testing.T) {
	for text, want := range map[string]string{
		"Platform \"none\" has user-managed networking; leave user_managed_networking out or choose platform " +
			"\"baremetal\".": "Platform \"none\" has user-managed networking; set " +
			"spec.networking.userManagedNetworking to true or choose spec.platformType BareMetal.",
		"API VIPs cannot be set with User Managed Networking; leave api_vips and ingress_vips out, or set " +
			"user_managed_networking to false.": "API VIPs cannot be set with User Managed Networking; leave " +
			"spec.apiVIPs and spec.ingressVIPs out, or set spec.networking.userManagedNetworking to false.",
		"openshift_version is missing, and no release for arm64 is the default.": "spec.osImageVersion is missing, " +
			"and no release for arm64 is the default.",
		"eth0 has no MAC address in mac_interface_map": "eth0 has no MAC address in spec.interfaces",
		"The API VIP is not an IP address.":            "The API VIP is not an IP address.",
	} {
		require.Equal(t, want, objects.InManifest(text))
	}
}

// The engine may change its sentences. Then the names here must change as well.
func TestInManifest_namesOccurInSentences(t *testing.T) {
	catalogue, err := os.ReadFile("../../../docs/sentences/program.pot")
	require.NoError(t, err)
	for i := 0; i < len(objects.ManifestNames); i += 2 {
		text := objects.ManifestNames[i]
		if strings.HasPrefix(text, "platform ") {
			text = "latform %q"
		}
		require.Contains(t, string(catalogue), text)
	}
}
