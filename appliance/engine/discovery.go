package engine

import (
	"bytes"
	"encoding/pem"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"

	"landfall/ignition"
)

// discoveryConfig joins what an infra-env and the appliance's configuration say of the discovery
// config.
func (e *Engine) discoveryConfig(row *infraEnvRecord, agentImage string) (ignition.DiscoveryConfig, error) {
	env := &row.API
	rules := e.infraEnvAccess(env).Mirror
	secret, err := e.openSecret(row.PullSecret)
	if err != nil {
		return ignition.DiscoveryConfig{}, err
	}
	config := ignition.DiscoveryConfig{
		InfraEnvID: env.ID.String(), ServiceURL: e.URL, AgentImage: agentImage, PullSecretToken: row.Token,
		PullSecret: secret,
		ServiceCA:  e.ServiceCA, TrustBundle: joinBundles(string(rules.CABundle()), env.AdditionalTrustBundle),
		SSHKeys: lines(env.SSHAuthorizedKey), NTPSources: commaList(env.AdditionalNtpSources),
		Overrides: env.IgnitionConfigOverride, OpenshiftVersion: env.OpenshiftVersion,
	}
	if !rules.Empty() {
		config.RegistriesConf = rules.RegistriesConf()
	}
	if env.Proxy != nil {
		config.Proxy = ignition.Proxy{HTTP: conv.Value(env.Proxy.HTTPProxy), HTTPS: conv.Value(env.Proxy.HTTPSProxy),
			No: conv.Value(env.Proxy.NoProxy)}
	}
	config.StaticNetwork, err = staticNetwork(env)
	return config, err
}

// joinBundles writes the certificates of bundles (PEM) one after the other, each once and with
// nothing between or behind them: openshift-install stumbles over comments behind the last one.
// What is no PEM stays as it is, for others to refuse.
func joinBundles(bundles ...string) []byte {
	var joined bytes.Buffer
	seen := make(map[string]bool)
	for _, bundle := range bundles {
		for rest := []byte(bundle); ; {
			block, left := pem.Decode(rest)
			if block == nil {
				if text := bytes.TrimSpace(rest); len(rest) == len(bundle) && len(text) > 0 {
					joined.Write(append(text, '\n'))
				}
				break
			}
			if rest = left; !seen[string(block.Bytes)] {
				seen[string(block.Bytes)] = true
				joined.Write(pem.EncodeToMemory(block))
			}
		}
	}
	if joined.Len() == 0 {
		return nil
	}
	return joined.Bytes()
}

func lines(text string) []string {
	var kept []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			kept = append(kept, line)
		}
	}
	return kept
}

func commaList(lists ...string) []string {
	var kept []string
	for _, list := range lists {
		for part := range strings.SplitSeq(list, ",") {
			if part = strings.TrimSpace(part); part != "" && !slices.Contains(kept, part) {
				kept = append(kept, part)
			}
		}
	}
	return kept
}

func orText(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
