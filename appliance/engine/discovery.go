package engine

import (
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"

	"landfall/appliance/engine/description"
	"landfall/appliance/mirror"
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
		InfraEnvID: env.ID.String(), ServiceURL: e.options.URL, AgentImage: agentImage, PullSecretToken: row.Token,
		PullSecret: secret,
		ServiceCA:  e.options.ServiceCA, TrustBundle: mirror.JoinBundles(string(rules.CABundle()),
			env.AdditionalTrustBundle),
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
	config.StaticNetwork, err = description.StaticNetwork(env)
	return config, err
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
