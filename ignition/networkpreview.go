package ignition

import "fmt"

// NetworkPreview describes how the network descriptions of an infra-env are applied.
type NetworkPreview struct {
	// Form is the form of the settings: "keyfiles" that identify NICs by MAC address, keyfiles that
	// a "script" copies, or a "policy" for nmstate.
	Form string
	// Beyond is the first field that keyfiles do not support. It is nil unless Form is "policy".
	// Minimal images and network boot need keyfiles.
	Beyond *NetworkFault
	Hosts  []HostPreview
}

// HostPreview describes how the network description of one host is applied.
type HostPreview struct {
	Fault     *NetworkFault // nil if the description is valid
	Beyond    *NetworkFault // first field that keyfiles do not support, or nil
	Addresses []StaticAddress
	Files     []File // keyfiles by name, or the policy; empty if the description has a fault
	// Doubts are valid settings that are probably mistakes.
	Doubts []*NetworkFault
}

// PreviewNetwork returns the preview of network descriptions, with the faults of all hosts. Hosts
// must not use taken addresses.
func PreviewNetwork(hosts []HostNetwork, openshiftVersion string, taken Claims) (*NetworkPreview, error) {
	plan, faults := surveyNetwork(hosts, openshiftVersion, taken)
	preview := &NetworkPreview{Form: map[form]string{byMAC: "keyfiles", byScript: "script",
		byNmstate: "policy"}[plan.form], Beyond: plan.beyond, Hosts: make([]HostPreview, len(hosts))}
	for i := range plan.hosts {
		host, shown := &plan.hosts[i], &preview.Hosts[i]
		if shown.Fault = faults[i]; shown.Fault != nil {
			continue
		}
		shown.Beyond, shown.Addresses, shown.Files = host.beyond, host.addresses(i), host.files
		shown.Doubts = host.state.doubts(i)
		if plan.form == byNmstate && !host.isUnfinished() {
			policy, err := nmPolicy(host.state.document, host.nics)
			if err != nil {
				return nil, fmt.Errorf("host %d: %w", i, err)
			}
			shown.Files = []File{{Path: fmt.Sprintf("ymlFile%d.yml", i), Mode: 0o600, Data: policy}}
		}
	}
	return preview, nil
}

// StaticAddresses returns the addresses in descriptions that other machines can reach. It skips
// descriptions that cannot be read.
func StaticAddresses(hosts []HostNetwork) []StaticAddress {
	var all []StaticAddress
	plan, faults := surveyNetwork(hosts, "", nil)
	for i := range plan.hosts {
		if faults[i] == nil {
			all = append(all, plan.hosts[i].addresses(i)...)
		}
	}
	return all
}

// CheckNetwork returns an error for an invalid description, or for a description with a taken
// address.
func CheckNetwork(hosts []HostNetwork, openshiftVersion string, taken Claims) error {
	_, faults := surveyNetwork(hosts, openshiftVersion, taken)
	for _, fault := range faults {
		if fault != nil {
			return fmt.Errorf("static network: %w", fault)
		}
	}
	return nil
}
