package engine

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-openapi/swag"
	"github.com/openshift/assisted-service/models"

	"landfall/ignition"
)

// discoveryConfig joins what an infra-env and the appliance's configuration say of the discovery config.
func (e *Engine) discoveryConfig(row *infraEnvRecord, agentImage string) (ignition.DiscoveryConfig, error) {
	env := &row.API
	config := ignition.DiscoveryConfig{
		InfraEnvID: env.ID.String(), ServiceURL: e.URL, AgentImage: agentImage, PullSecretToken: row.Token, PullSecret: row.PullSecret,
		ServiceCA: e.ServiceCA, TrustBundle: joinBundles(string(e.Mirror.CABundle()), env.AdditionalTrustBundle),
		SSHKeys: lines(env.SSHAuthorizedKey), NTPSources: commaList(env.AdditionalNtpSources),
		Overrides: env.IgnitionConfigOverride, OpenshiftVersion: env.OpenshiftVersion,
	}
	if !e.Mirror.Empty() {
		config.RegistriesConf = e.Mirror.RegistriesConf()
	}
	if env.Proxy != nil {
		config.Proxy = ignition.Proxy{HTTP: swag.StringValue(env.Proxy.HTTPProxy), HTTPS: swag.StringValue(env.Proxy.HTTPSProxy), No: swag.StringValue(env.Proxy.NoProxy)}
	}
	if env.StaticNetworkConfig != "" {
		var hosts []*models.HostStaticNetworkConfig
		if err := json.Unmarshal([]byte(env.StaticNetworkConfig), &hosts); err != nil {
			return config, err
		}
		for _, host := range hosts {
			if host == nil {
				host = new(models.HostStaticNetworkConfig)
			}
			network := ignition.HostNetwork{YAML: host.NetworkYaml}
			for _, nic := range host.MacInterfaceMap {
				if nic == nil {
					nic = new(models.MacInterfaceMapItems0)
				}
				network.Interfaces = append(network.Interfaces, ignition.NetworkInterface{MAC: nic.MacAddress, Name: nic.LogicalNicName})
			}
			config.StaticNetwork = append(config.StaticNetwork, network)
		}
	}
	return config, nil
}

func joinBundles(bundles ...string) []byte {
	var kept []string
	for _, bundle := range bundles {
		if text := strings.TrimSpace(bundle); text != "" {
			kept = append(kept, text)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return []byte(strings.Join(kept, "\n") + "\n")
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
