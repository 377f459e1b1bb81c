package console

import (
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/ignition"
	"landfall/web/problem"
)

// StaticNetworks is what the console asks about the networks of hosts; its errors are fit for
// problem.From.
type StaticNetworks interface {
	// PreviewStaticNetwork shows what the hosts of an infra-env would get by these descriptions.
	// Nothing is kept.
	PreviewStaticNetwork(infraEnvID string, hosts []*models.HostStaticNetworkConfig) (*ignition.NetworkPreview, error)
}

// NetworkPreview is what would become of network descriptions.
type NetworkPreview struct {
	// Way is "keyfiles" that name cards by MAC address, keyfiles that a "script" on the machine
	// chooses from, or a "policy" for nmstate, which needs OpenShift 4.18 and the full image.
	Way string `json:"way"`
	// Reason says what keeps the whole from being keyfiles; "" unless the way is a policy.
	Reason string               `json:"reason,omitempty"`
	Hosts  []HostNetworkPreview `json:"hosts"`
}

// HostNetworkPreview is what one host would get.
type HostNetworkPreview struct {
	Fault     *NetworkFault    `json:"fault,omitempty"`
	Addresses []NetworkAddress `json:"addresses"`
	Files     []NetworkFile    `json:"files"`
}

// NetworkFault is why a host's description can't be used.
type NetworkFault struct {
	Field   string `json:"field,omitempty"`
	Line    int    `json:"line,omitempty"` // of the YAML, from 1
	Message string `json:"message"`
}

// NetworkAddress is an address that a host gets.
type NetworkAddress struct {
	Interface string `json:"interface"`
	Address   string `json:"address"`
}

// NetworkFile is a keyfile or a policy.
type NetworkFile struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

func registerStaticNetworks(router *echo.Echo, networks StaticNetworks) {
	router.POST(BasePath+"/infra-envs/:infra_env_id/static-network/preview", func(c echo.Context) error {
		var wanted struct {
			Hosts []*models.HostStaticNetworkConfig `json:"static_network_config"`
		}
		if err := read(c, &wanted); err != nil {
			return err
		}
		preview, err := networks.PreviewStaticNetwork(c.Param("infra_env_id"), wanted.Hosts)
		if err != nil {
			return problem.From(err)
		}
		return answer(c, shownPreview(preview))
	})
}

func shownPreview(preview *ignition.NetworkPreview) NetworkPreview {
	shown := NetworkPreview{Way: preview.Way, Hosts: []HostNetworkPreview{}}
	if preview.Beyond != nil {
		shown.Reason = preview.Beyond.Error()
	}
	for _, host := range preview.Hosts {
		one := HostNetworkPreview{Addresses: []NetworkAddress{}, Files: []NetworkFile{}}
		if host.Fault != nil {
			one.Fault = &NetworkFault{Field: host.Fault.Field, Line: host.Fault.Line, Message: host.Fault.Sentence()}
		}
		for _, a := range host.Addresses {
			one.Addresses = append(one.Addresses, NetworkAddress{a.Interface, a.Address.String()})
		}
		for _, f := range host.Files {
			one.Files = append(one.Files, NetworkFile{f.Path, string(f.Data)})
		}
		shown.Hosts = append(shown.Hosts, one)
	}
	return shown
}
