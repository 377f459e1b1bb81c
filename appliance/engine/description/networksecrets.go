package description

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/ignition"
)

// HideNetworkSecrets returns the static networks of an infra-env, in the form of the API, without
// their passwords and keys.
func HideNetworkSecrets(text string) string {
	hosts, err := staticNetworkConfig(&models.InfraEnv{StaticNetworkConfig: text})
	if err != nil {
		return ignition.HiddenSecret
	}
	changed := false
	for _, host := range hosts {
		if host == nil {
			continue
		}
		if hidden := ignition.HideNetworkSecrets(host.NetworkYaml); hidden != host.NetworkYaml {
			host.NetworkYaml, changed = hidden, true
		}
	}
	if !changed {
		return text
	}
	hidden, err := json.Marshal(hosts)
	if err != nil {
		return ignition.HiddenSecret
	}
	return string(hidden)
}

// RestoreNetworkSecrets replaces the hidden secrets in the networks that a client sends by the
// secrets of the stored network of the same host: it has one of its MAC addresses.
func RestoreNetworkSecrets(sent []*models.HostStaticNetworkConfig, env *models.InfraEnv) error {
	stored, err := staticNetworkConfig(env)
	if err != nil {
		return err
	}
	for i, host := range sent {
		if host == nil {
			continue
		}
		before := ""
		if at := slices.IndexFunc(stored, func(other *models.HostStaticNetworkConfig) bool {
			return sharesMAC(host, other)
		}); at >= 0 {
			before = stored[at].NetworkYaml
		}
		restored, err := ignition.RestoreNetworkSecrets(host.NetworkYaml, before)
		var missing *ignition.NetworkFault
		if errors.As(err, &missing) {
			missing.Host = i
			return invalid("Static network: %s.", missing)
		}
		if err != nil {
			return err
		}
		host.NetworkYaml = restored
	}
	return nil
}

func sharesMAC(a, b *models.HostStaticNetworkConfig) bool {
	return a != nil && b != nil && slices.ContainsFunc(a.MacInterfaceMap, func(nic *models.MacInterfaceMapItems0) bool {
		return nic != nil && slices.ContainsFunc(b.MacInterfaceMap, func(other *models.MacInterfaceMapItems0) bool {
			return other != nil && strings.EqualFold(nic.MacAddress, other.MacAddress)
		})
	})
}
