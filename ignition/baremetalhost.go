package ignition

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vincent-petithory/dataurl"
	"go.yaml.in/yaml/v3"
)

// BareMetalHost is a discovered host for which openshift-install wrote a BareMetalHost object. The
// object receives the discovered hardware and is marked as externally provisioned, so that the
// cluster neither inspects nor provisions the host.
type BareMetalHost struct {
	// Name is the host name.
	Name string
	// Role is master, arbiter or worker.
	Role     string
	Hardware Hardware
}

// Hardware is HardwareDetails of metal3, in its JSON format
// (github.com/metal3-io/baremetal-operator, apis/metal3.io/v1alpha1).
type Hardware struct {
	SystemVendor HardwareVendor    `json:"systemVendor,omitempty"`
	RAMMebibytes int               `json:"ramMebibytes,omitempty"`
	NICs         []HardwareNIC     `json:"nics,omitempty"`
	Storage      []HardwareStorage `json:"storage,omitempty"`
	CPU          HardwareCPU       `json:"cpu,omitempty"`
	Hostname     string            `json:"hostname,omitempty"`
}

// HardwareVendor identifies the manufacturer and the model of the machine.
type HardwareVendor struct {
	Manufacturer string `json:"manufacturer,omitempty"`
	ProductName  string `json:"productName,omitempty"`
	SerialNumber string `json:"serialNumber,omitempty"`
}

// HardwareNIC is an address of a NIC. A NIC with an IPv4 and an IPv6 address is listed twice.
type HardwareNIC struct {
	Name      string `json:"name,omitempty"`
	Model     string `json:"model,omitempty"`
	MAC       string `json:"mac,omitempty"`
	IP        string `json:"ip,omitempty"`
	SpeedGbps int    `json:"speedGbps,omitempty"`
}

// HardwareStorage is a disk.
type HardwareStorage struct {
	Name         string `json:"name,omitempty"`
	Rotational   bool   `json:"rotational,omitempty"`
	SizeBytes    int64  `json:"sizeBytes,omitempty"`
	Vendor       string `json:"vendor,omitempty"`
	Model        string `json:"model,omitempty"`
	SerialNumber string `json:"serialNumber,omitempty"`
	WWN          string `json:"wwn,omitempty"`
	HCTL         string `json:"hctl,omitempty"`
}

// HardwareCPU is the processor.
type HardwareCPU struct {
	Arch           string   `json:"arch,omitempty"`
	Model          string   `json:"model,omitempty"`
	ClockMegahertz float64  `json:"clockMegahertz,omitempty"`
	Flags          []string `json:"flags,omitempty"`
	Count          int      `json:"count,omitempty"`
}

// bareMetalHosts assigns a host to each BareMetalHost object of a bootstrap config.
type bareMetalHosts struct {
	free []BareMetalHost
}

func newBareMetalHosts(hosts []BareMetalHost) *bareMetalHosts {
	free := slices.Clone(hosts)
	slices.SortStableFunc(free, func(a, b BareMetalHost) int { return strings.Compare(a.Name, b.Name) })
	return &bareMetalHosts{free}
}

// isBareMetalHost reports whether a file contains a BareMetalHost object. It recognizes the name
// that the installer gives the file.
func isBareMetalHost(path string) bool {
	return strings.Contains(path, "openshift-cluster-api_hosts") || strings.Contains(path,
		"openshift-cluster-api_arbiter_hosts")
}

// edit rewrites the BareMetalHost object in a file of an Ignition config.
func (b *bareMetalHosts) edit(path string, file map[string]any) error {
	contents, _ := file["contents"].(map[string]any)
	source, _ := contents["source"].(string)
	data, err := dataurl.DecodeString(source)
	if err != nil {
		return fmt.Errorf("the BareMetalHost in %s cannot be read: %w", path, err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data.Data, &doc); err != nil {
		return fmt.Errorf("the BareMetalHost in %s cannot be read: %w", path, err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return fmt.Errorf("the BareMetalHost in %s is not an object", path)
	}
	object := doc.Content[0]
	name := ""
	if n := field(section(object, "metadata"), "name"); n != nil {
		name = n.Value
	}
	host, err := b.take(name, path)
	if err != nil {
		return err
	}
	status, err := json.Marshal(map[string]any{"hardware": host.Hardware, "poweredOn": true})
	if err != nil {
		return fmt.Errorf("encode the hardware of %s: %w", host.Name, err)
	}
	setField(section(section(object, "metadata"), "annotations"), "baremetalhost.metal3.io/status", string(status),
		"!!str")
	setField(section(object, "spec"), "externallyProvisioned", "true", "!!bool")
	removeField(object, "status")
	edited, err := yaml.Marshal(&doc)
	if err != nil {
		return fmt.Errorf("write the BareMetalHost %s: %w", name, err)
	}
	contents["source"] = dataurl.EncodeBytes(edited)
	delete(contents, "verification")
	return nil
}

// take removes and returns the host with the given name. If no host has the name, it takes the
// first host with the role in the name of the object.
func (b *bareMetalHosts) take(name, path string) (BareMetalHost, error) {
	i := slices.IndexFunc(b.free, func(h BareMetalHost) bool { return h.Name == name })
	if i < 0 {
		role := "worker"
		switch {
		case strings.Contains(path, "_arbiter_hosts"):
			role = "arbiter"
		case strings.Contains(name, "-master-"):
			role = "master"
		}
		i = slices.IndexFunc(b.free, func(h BareMetalHost) bool { return h.Role == role })
		if i < 0 {
			return BareMetalHost{}, fmt.Errorf("the BareMetalHost %q in %s has no host left with the role %s",
				name, path, role)
		}
	}
	host := b.free[i]
	b.free = slices.Delete(b.free, i, i+1)
	return host, nil
}

// section returns a mapping within a mapping. It creates a missing mapping.
func section(n *yaml.Node, name string) *yaml.Node {
	if s := field(n, name); s != nil {
		if s.Kind != yaml.MappingNode {
			*s = yaml.Node{Kind: yaml.MappingNode}
		}
		return s
	}
	s := &yaml.Node{Kind: yaml.MappingNode}
	appendField(n, name, s)
	return s
}

func setField(n *yaml.Node, name, value, tag string) {
	removeField(n, name)
	appendField(n, name, &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value})
}

func removeField(n *yaml.Node, name string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}
