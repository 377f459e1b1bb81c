package ignition

import "fmt"

// NetworkPreview is what becomes of the network descriptions of an infra-env.
type NetworkPreview struct {
	// Way is how machines get their settings: "keyfiles" that name cards by MAC address, keyfiles
	// that a "script" chooses from, or a "policy" for nmstate.
	Way string
	// Beyond is what keeps the whole from being keyfiles; nil unless the way is a policy. Minimal
	// images and machines that boot over the network need keyfiles.
	Beyond *NetworkFault
	Hosts  []HostPreview
}

// HostPreview is what one host gets.
type HostPreview struct {
	Fault     *NetworkFault // nil if it can be used
	Beyond    *NetworkFault // what keyfiles can't say; nil if nothing
	Addresses []StaticAddress
	Files     []File // keyfiles by their names, or the policy; none with a fault
}

// PreviewNetwork shows what becomes of descriptions, the faults of all hosts included. What is
// taken must not be theirs.
func PreviewNetwork(hosts []HostNetwork, openshiftVersion string, taken Taken) (*NetworkPreview, error) {
	plan, faults := surveyNetwork(hosts, openshiftVersion, taken)
	preview := &NetworkPreview{Way: map[way]string{byMAC: "keyfiles", byScript: "script",
		byNmstate: "policy"}[plan.way], Beyond: plan.beyond, Hosts: make([]HostPreview, len(hosts))}
	for i := range plan.hosts {
		host, shown := &plan.hosts[i], &preview.Hosts[i]
		if shown.Fault = faults[i]; shown.Fault != nil {
			continue
		}
		shown.Beyond, shown.Addresses, shown.Files = host.beyond, host.addresses(i), host.files
		if plan.way == byNmstate {
			policy, err := nmPolicy(host.state.document, host.cards)
			if err != nil {
				return nil, fmt.Errorf("host %d: %w", i, err)
			}
			shown.Files = []File{{Path: fmt.Sprintf("ymlFile%d.yml", i), Mode: 0o600, Data: policy}}
		}
	}
	return preview, nil
}

// StaticAddresses are the addresses that descriptions give to hosts and that others can reach, as
// far as they can be read.
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

// CheckNetwork refuses descriptions with a fault, or that give a host what is taken.
func CheckNetwork(hosts []HostNetwork, openshiftVersion string, taken Taken) error {
	_, faults := surveyNetwork(hosts, openshiftVersion, taken)
	for _, fault := range faults {
		if fault != nil {
			return fmt.Errorf("static network: %w", fault)
		}
	}
	return nil
}
