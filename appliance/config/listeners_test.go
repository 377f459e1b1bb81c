package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBootAddress_avoidsOtherListeners(t *testing.T) {
	for _, c := range []struct{ listen, boot, registry, kubernetes, want string }{
		{"0.0.0.0:8090", "", "", "", "0.0.0.0:8091"},
		{"0.0.0.0:8090", "", "0.0.0.0:8091", "127.0.0.1:8092", "0.0.0.0:8093"},
		{"192.0.2.1:8090", "", "192.0.2.2:8091", "", "192.0.2.1:8091"},
		{"192.0.2.1:8090", "", ":8091", "", "192.0.2.1:8092"},
		{"0.0.0.0:8090", "0.0.0.0:8091", "0.0.0.0:8091", "", "0.0.0.0:8091"},
		{"0.0.0.0:8090", NoListener, "", "", ""},
		{"0.0.0.0:443", "", "", "", "0.0.0.0:80"},
		{"0.0.0.0:0", "", "0.0.0.0:0", "", "0.0.0.0:0"},
		{"[::]:65534", "", "[::]:65535", "", ""},
	} {
		config := Config{Listen: c.listen, BootListen: c.boot}
		config.TLS.Enabled, config.Kubernetes.Enabled = true, true
		config.Registry.Listen, config.Kubernetes.Listen = c.registry, c.kubernetes
		require.Equal(t, c.want, config.BootAddress(), "%v", c)
	}
	require.Empty(t, Config{Listen: "0.0.0.0:8090"}.BootAddress(), "without TLS, the main listener serves images")
}

func TestCheckListeners(t *testing.T) {
	config := Config{Listen: "0.0.0.0:8090", BootListen: "0.0.0.0:8091"}
	config.TLS.Enabled = true
	require.NoError(t, config.CheckListeners())
	config.Registry.Listen = "192.0.2.1:8091"
	require.EqualError(t, config.CheckListeners(), "registry.listen (192.0.2.1:8091) and boot_listen (0.0.0.0:8091) "+
		"have the same port; set one of them to another port")
	config.Registry.Listen, config.Kubernetes.Listen = "0.0.0.0:5000", "127.0.0.1:8090"
	require.NoError(t, config.CheckListeners(), "the Kubernetes API is disabled")
	config.Kubernetes.Enabled = true
	require.ErrorContains(t, config.CheckListeners(), "listen (0.0.0.0:8090) and kubernetes.listen (127.0.0.1:8090)")
}
