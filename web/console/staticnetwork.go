package console

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/ignition"
	"landfall/web/operation"
)

// StaticNetworks evaluates the static network configurations of hosts.
type StaticNetworks interface {
	// PreviewStaticNetwork returns the network files that the configurations produce for the hosts
	// of an infra-env. It stores nothing.
	PreviewStaticNetwork(infraEnvID string, hosts []*models.HostStaticNetworkConfig) (*ignition.NetworkPreview, error)
}

// NetworkPreview is the result of static network configurations.
type NetworkPreview struct {
	// Way is the form of the files: "keyfiles" (keyfiles that identify NICs by MAC address),
	// "script" (keyfiles that a script on the host selects), or "policy" (an nmstate policy, which
	// requires OpenShift 4.18 and the full image).
	Way string `json:"way"`
	// Reason is the reason why keyfiles are not possible; "" unless Way is "policy".
	Reason string               `json:"reason,omitempty"`
	Hosts  []HostNetworkPreview `json:"hosts"`
}

// HostNetworkPreview holds the addresses and files of one host.
type HostNetworkPreview struct {
	// NetworkYAML is the stored configuration as the API returns it to callers who may not read its
	// secrets; "" if it is the given one.
	NetworkYAML string        `json:"network_yaml,omitempty"`
	Fault       *NetworkFault `json:"fault,omitempty"`
	// Warnings are valid settings that are probably mistakes, each as a sentence.
	Warnings  []string         `json:"warnings,omitempty"`
	Addresses []NetworkAddress `json:"addresses"`
	Files     []NetworkFile    `json:"files"`
}

// NetworkFault is an error in the network configuration of a host.
type NetworkFault struct {
	Field   string `json:"field,omitempty"`
	Line    int    `json:"line,omitempty"` // line of the YAML; the first is 1
	Message string `json:"message"`
}

// NetworkAddress is an address of a host.
type NetworkAddress struct {
	Interface string `json:"interface"`
	Address   string `json:"address"`
}

// NetworkFile is a keyfile or a policy.
type NetworkFile struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// StaticNetworkOperations returns the operation on static network configurations.
func StaticNetworkOperations(networks StaticNetworks) []operation.Operation {
	type request struct {
		Hosts []*models.HostStaticNetworkConfig `json:"static_network_config"`
	}
	return []operation.Operation{
		{ID: "previewStaticNetwork", Method: http.MethodPost, Path: infraEnvPath + "/static-network/preview",
			Access: operation.For(access.Operator),
			Handler: func(c echo.Context) error {
				var wanted request
				if err := operation.ReadJSON(c, &wanted); err != nil {
					return err
				}
				preview, err := networks.PreviewStaticNetwork(c.Param("infra_env_id"), wanted.Hosts)
				if err != nil {
					return err
				}
				return answer(c, encodePreview(preview, wanted.Hosts), nil)
			},
			Summary: "Show the network files that configurations produce for hosts",
			Body:    request{},
			Status:  http.StatusOK, Answer: NetworkPreview{}, Errors: []int{400, 404}},
	}
}

func encodePreview(preview *ignition.NetworkPreview, hosts []*models.HostStaticNetworkConfig) NetworkPreview {
	shown := NetworkPreview{Way: preview.Form, Hosts: []HostNetworkPreview{}}
	if preview.Beyond != nil {
		shown.Reason = preview.Beyond.Error()
	}
	for i, host := range preview.Hosts {
		one := HostNetworkPreview{Addresses: []NetworkAddress{}, Files: []NetworkFile{}}
		if hosts[i] != nil {
			one.NetworkYAML, _ = ignition.StoredNetworkWithoutSecrets(hosts[i].NetworkYaml)
		}
		if host.Fault != nil {
			one.Fault = &NetworkFault{Field: host.Fault.Field, Line: host.Fault.Line, Message: host.Fault.Sentence()}
		}
		for _, doubt := range host.Doubts {
			one.Warnings = append(one.Warnings, doubt.Sentence())
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
