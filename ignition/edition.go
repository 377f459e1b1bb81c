package ignition

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
)

// Edition identifies the output of [Discovery] and [InitrdFiles]. Programs with the same edition
// generate the same bytes for the same [DiscoveryConfig]. The edition is a digest of sample configs
// that use all features.
func Edition() (string, error) { return edition() }

var edition = sync.OnceValues(func() (string, error) {
	sum := sha256.New()
	for _, config := range samples() {
		text, err := Discovery(config)
		if err != nil {
			return "", fmt.Errorf("generate a sample discovery config: %w", err)
		}
		files, err := InitrdFiles(config)
		if err != nil && !errors.As(err, new(*InitrdNetworkError)) {
			return "", fmt.Errorf("generate sample files: %w", err)
		}
		sum.Write(text)
		for _, f := range files {
			fmt.Fprintf(sum, "%s %o %q\n", f.Path, f.Mode, f.Data)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
})

// samples returns configs with each form of a static network.
func samples() []DiscoveryConfig {
	const pem = "-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n"
	config := DiscoveryConfig{
		InfraEnvID: "sample", ServiceURL: "https://appliance.example:8090", AgentImage: "registry.example/agent:sample",
		PullSecretToken: "token", PullSecret: "{}", ServiceCA: []byte(pem), TrustBundle: []byte(pem),
		RegistriesConf: []byte("unqualified-search-registries = []\n"), PolicyJSON: []byte("{}"),
		Proxy:   Proxy{HTTP: "http://proxy.example:3128", HTTPS: "http://proxy.example:3128", No: ".example"},
		SSHKeys: []string{"ssh-ed25519 AAAA sample"}, NTPSources: []string{"ntp.example"},
	}
	const (
		nic = `interfaces:
- {name: eth0, mtu: 9000, ipv4: {enabled: true, address: [{ip: 192.0.2.2, prefix-length: 24}]}, ipv6: {enabled: true, dhcp: true}}
- {name: eth0.5, type: vlan, vlan: {base-iface: eth0, id: 5}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0}]}
dns-resolver: {config: {server: [192.0.2.1], search: [example]}}
`
		bond   = "interfaces:\n- {name: bond0, type: bond, link-aggregation: {mode: active-backup, port: [eth0]}}\n"
		bridge = "interfaces:\n- {name: eth0}\n- {name: br0, type: linux-bridge, bridge: {port: [{name: eth0}]}}\n"
	)
	all := []DiscoveryConfig{config}
	for _, network := range []string{nic, bond, bridge} {
		config.StaticNetwork = []HostNetwork{{network, []NetworkInterface{{MAC: "02:00:00:00:00:01", Name: "eth0"}}}}
		all = append(all, config)
	}
	return all
}
