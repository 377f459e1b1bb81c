package ignition

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// Edition tells one way to write discovery configs from another: a program of the same edition makes the same bytes of
// the same [DiscoveryConfig]. It is a digest over configs that use all that there is.
func Edition() (string, error) { return edition() }

var edition = sync.OnceValues(func() (string, error) {
	sum := sha256.New()
	for _, config := range samples() {
		text, err := Discovery(config)
		if err != nil {
			return "", fmt.Errorf("make a sample discovery config: %w", err)
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
})

func samples() []DiscoveryConfig {
	const pem = "-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n"
	return []DiscoveryConfig{{
		InfraEnvID: "sample", ServiceURL: "https://appliance.example:8090", AgentImage: "registry.example/agent:sample",
		PullSecretToken: "token", PullSecret: "{}", ServiceCA: []byte(pem), TrustBundle: []byte(pem),
		RegistriesConf: []byte("unqualified-search-registries = []\n"), PolicyJSON: []byte("{}"),
		Proxy:   Proxy{HTTP: "http://proxy.example:3128", HTTPS: "http://proxy.example:3128", No: ".example"},
		SSHKeys: []string{"ssh-ed25519 AAAA sample"}, NTPSources: []string{"ntp.example"},
	}}
}
