package network

import (
	"fmt"
	"strings"
)

// Maximum lengths of DNS names (RFC 1035, 2.3.4). The name of a cluster is shorter, because it is
// part of longer labels.
const (
	maxLabel       = 63
	maxName        = 255
	maxClusterName = 54
	// longestRecord is the longest name relative to the cluster's domain that an installation
	// needs.
	longestRecord = "alertmanager-main-openshift-monitoring.apps."
)

// CheckClusterName returns a sentence about the fault in the name of a cluster, or "" for a valid
// name. The name becomes a label of the cluster's DNS names (RFC 1123, 2.1).
func CheckClusterName(name string) string {
	switch {
	case name == "":
		return "The cluster has no name: give one, which becomes part of the cluster's DNS names."
	case len(name) > maxClusterName:
		return fmt.Sprintf("The cluster name %q has %d characters: use at most %d.", name, len(name), maxClusterName)
	}
	if fault := labelFault(name); fault != "" {
		return fmt.Sprintf("The cluster name %q %s.", name, fault)
	}
	return ""
}

// CheckBaseDomain returns a sentence about the fault in the base domain of a cluster, or "" for a
// valid domain.
func CheckBaseDomain(domain string) string {
	if domain == "" {
		return "The cluster has no base domain: give the DNS domain of its names, such as example.com."
	}
	if len(domain)+len(longestRecord)+maxClusterName > maxName {
		return fmt.Sprintf("The base domain %q has %d characters: use at most %d, so that the cluster's names fit "+
			"into %d.",
			domain, len(domain), maxName-len(longestRecord)-maxClusterName, maxName)
	}
	labels := strings.Split(domain, ".")
	for _, label := range labels {
		if fault := labelFault(label); fault != "" {
			return fmt.Sprintf("The base domain %q cannot be used: the part %q %s.", domain, label, fault)
		}
	}
	if top := labels[len(labels)-1]; len(top) == 1 && !allDigits(top) {
		return fmt.Sprintf("The base domain %q cannot be used: its last part %q has one character, and no top-level "+
			"domain has fewer than two.", domain, top)
	}
	if allDigits(labels[len(labels)-1]) {
		return fmt.Sprintf("The base domain %q looks like an IP address: give a DNS domain, as in example.com.", domain)
	}
	return ""
}

// CheckHostname returns a sentence about the fault in a host name, or "" for a valid name. A name
// has at most 63 characters and consists of lower-case DNS labels. Names of the loopback interface
// are invalid, because hosts without a name report them.
func CheckHostname(name string) string {
	switch {
	case name == "":
		return "The host has no name: set a name, or provide one by DHCP or DNS."
	case len(name) > maxLabel:
		return fmt.Sprintf("The host name %q has %d characters: use at most %d.", name, len(name), maxLabel)
	}
	switch name {
	case "localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6",
		"localhost6.localdomain6":
		return fmt.Sprintf("The host name %q denotes the local machine: give the host another name.", name)
	}
	for _, label := range strings.Split(name, ".") {
		if fault := labelFault(label); fault != "" {
			return fmt.Sprintf("The host name %q cannot be used: the part %q %s.", name, label, fault)
		}
	}
	return ""
}

// labelFault returns the fault of a DNS label as the end of a sentence, or "".
func labelFault(label string) string {
	switch {
	case label == "":
		return "is empty, remove the extra dot"
	case len(label) > maxLabel:
		return fmt.Sprintf("has %d characters; use at most %d", len(label), maxLabel)
	}
	for _, r := range label {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return fmt.Sprintf("has the character %q; use only lower-case letters, digits and hyphens", r)
		}
	}
	if label[0] == '-' || label[len(label)-1] == '-' {
		return "begins or ends with a hyphen; use a letter or digit there"
	}
	return ""
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
