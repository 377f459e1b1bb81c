package abi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"
)

// Properties of a host in a directory.
const (
	hostname = "hostname"
	role     = "role"
)

// hosts reads the hosts of agent-config.yaml. If that file has none, it reads the hosts of
// install-config.yaml, as the installer does.
func (r *reader) hosts() {
	if d := r.document("AgentConfig", nil); d != nil {
		if list := nodeAt(d.node, "hosts"); list != nil && len(list.Content) > 0 {
			for i := range list.Content {
				r.host(d, item("hosts", i))
			}
			r.fencing()
			return
		}
	}
	if d := r.document("", nil); d != nil {
		const at = "platform.baremetal.hosts"
		if list := nodeAt(d.node, at); list != nil {
			for i := range list.Content {
				r.host(d, item(at, i))
			}
		}
	}
	r.fencing()
}

// hostNames maps the field names in the two files to properties.
func hostNames() map[string]string {
	return map[string]string{"hostname": hostname, "name": hostname, "role": role}
}

func (r *reader) host(d *document, at string) {
	node := nodeAt(d.node, at)
	var plain any
	if err := node.Decode(&plain); err != nil {
		r.refuse(d, node, "%s can't be read: %v", at, err)
		return
	}
	allowed := []string{"hostname", "role", "rootDeviceHints", "interfaces", "networkConfig", "bmc"}
	if d.kind.name == "" {
		allowed = []string{"name", "role", "bootMACAddress", "rootDeviceHints", "networkConfig", "bmc", "bootMode",
			"hardwareProfile"}
	}
	object, err := fields(plain, allowed...)
	if err != nil {
		r.refuse(d, node, "%s %v", at, err)
		return
	}
	h := Host{Where: fmt.Sprintf("%s:%d", d.file, d.at(node))}
	nics, list := r.interfaces(d, field(at, "interfaces"))
	if d.kind.name == "" {
		mac, _ := object["bootMACAddress"].(string)
		nics, list = []Interface{{"", strings.ToLower(mac)}}, nodeAt(node, "bootMACAddress")
	}
	if list == nil || len(nics) == 0 || nics[0].MAC == "" {
		r.refuse(d, node, "%s has no network interface that identifies it; add its interfaces with their macAddress",
			at)
		return
	}
	h.MACs = macsOf(nics)
	for name, property := range hostNames() {
		value, _ := object[name].(string)
		if !slices.Contains(allowed, name) {
			continue
		}
		if value == "" {
			f := hostField(h.MACs, property) // another document may set the same property
			r.site.places[f] = append(r.site.places[f], place{d, field(at, name), d.at(node), nil})
			continue
		}
		here := nodeAt(node, name)
		r.claim(hostField(h.MACs, property), value, place{d, field(at, name), d.at(here), nil}, here)
		if property == role {
			h.Role = value
		} else {
			h.Hostname = value
		}
	}
	if h.Role != "" && !slices.Contains([]string{"master", "worker", "arbiter"}, h.Role) {
		r.refuse(d, nodeAt(node, "role"), "%s is %q; a role is master, worker or arbiter", field(at, "role"), h.Role)
	}
	if hints := nodeAt(node, "rootDeviceHints"); hints != nil && object["rootDeviceHints"] != nil {
		if h.Hints, err = fields(object["rootDeviceHints"], hintNames()...); err != nil {
			r.refuse(d, hints, "%s %v", field(at, "rootDeviceHints"), err)
		}
	}
	if config := nodeAt(node, "networkConfig"); config != nil && object["networkConfig"] != nil {
		r.network(d, config, field(at, "networkConfig"), nics)
	}
	for name, why := range map[string]string{"bmc": noBMC, "bootMode": "the appliance does not change how hosts boot",
		"hardwareProfile": "OpenShift has not used it since 4.8"} {
		if given := nodeAt(node, name); given != nil && object[name] != nil && text(object[name]) != `""` &&
			text(object[name]) != "{}" {
			r.note(d, given, "%s has no effect: %s", field(at, name), why)
		}
	}
	r.site.Hosts = append(r.site.Hosts, h)
}

// fencing adds the BMC credentials in install-config to their hosts.
func (r *reader) fencing() {
	d := r.document("", nil)
	if d == nil {
		return
	}
	const at = "controlPlane.fencing.credentials"
	list := nodeAt(d.node, at)
	if list == nil {
		return
	}
	for i, node := range list.Content {
		var plain any
		if err := node.Decode(&plain); err != nil {
			r.refuse(d, node, "%s can't be read: %v", item(at, i), err)
			continue
		}
		object, err := fields(plain, "hostName", "hostname", "macAddress", "address", "username", "password",
			"certificateVerification")
		if err != nil {
			r.refuse(d, node, "%s %v", item(at, i), err)
			continue
		}
		credentials := map[string]string{}
		for name, value := range object {
			credentials[strings.ToLower(name)] = fmt.Sprint(value)
		}
		of := slices.IndexFunc(r.site.Hosts, func(h Host) bool {
			return h.Hostname != "" && h.Hostname == credentials["hostname"] || slices.Contains(h.MACs,
				strings.ToLower(credentials["macaddress"]))
		})
		if of < 0 {
			r.refuse(d, node, "%s matches no host in the directory", item(at, i))
			continue
		}
		r.site.Hosts[of].Fencing = credentials
	}
}

// networks reads the NMStateConfigs. It rejects an NMStateConfig that the InfraEnv does not select.
func (r *reader) networks() {
	selector := map[string]string{}
	if env := r.document("InfraEnv", nil); env != nil {
		if labels := nodeAt(env.node, "spec.nmStateConfigLabelSelector.matchLabels"); labels != nil {
			if err := labels.Decode(&selector); err != nil {
				r.refuse(env, labels, "spec.nmStateConfigLabelSelector.matchLabels takes strings: %v", err)
			}
		}
	}
	for _, d := range r.site.documents {
		if d.kind == nil || d.kind.name != "NMStateConfig" {
			continue
		}
		var labels map[string]string
		if node := nodeAt(d.node, "metadata.labels"); node != nil {
			if err := node.Decode(&labels); err != nil {
				r.refuse(d, node, "metadata.labels takes strings: %v", err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(selector)) {
			if labels[name] != selector[name] {
				r.refuse(d, d.node, "the InfraEnv selects NMStateConfigs with the label %s: %s, which this document "+
					"lacks; "+
					"the installer would ignore the document", name, selector[name])
			}
		}
		if len(selector) == 0 && r.document("InfraEnv", nil) != nil {
			r.refuse(d, d.node, "the InfraEnv has no nmStateConfigLabelSelector, so the installer would ignore this "+
				"NMStateConfig")
		}
		nics, list := r.interfaces(d, "spec.interfaces")
		config := nodeAt(d.node, "spec.config")
		if list != nil && len(list.Content) > 0 && len(nics) == 0 {
			continue // reported before
		}
		if len(nics) == 0 || config == nil {
			r.refuse(d, d.node, "an NMStateConfig needs spec.interfaces with macAddress, and spec.config")
			continue
		}
		r.network(d, config, "spec.config", nics)
	}
}

// network stores the nmstate description of a host.
func (r *reader) network(d *document, config *yaml.Node, at string, nics []Interface) {
	written, err := yaml.Marshal(config)
	if err != nil {
		r.refuse(d, config, "%s can't be read: %v", at, err)
		return
	}
	f := networkField(macsOf(nics))
	for held := range r.site.Values {
		if other, ok := strings.CutPrefix(string(held), networkPrefix); ok && held != f {
			for _, nic := range nics {
				if slices.Contains(strings.Split(other, ","), nic.MAC) {
					r.refuse(d, config, "the network interface %s is in two network descriptions; the other is at %s",
						nic.MAC, r.site.places[held][0])
					return
				}
			}
		}
	}
	r.claim(f, Network{nics, string(written)}, place{d, at, d.at(config), nmstate}, config)
}

// nmstate returns a network description in the format of the documents.
func nmstate(value any) any {
	network, _ := value.(Network)
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(network.YAML), &root); err != nil || len(root.Content) == 0 {
		return nil
	}
	return root.Content[0]
}

// hintNames returns the names of metal3's root device hints, which select the installation disk.
func hintNames() []string {
	return []string{"deviceName", "hctl", "model", "vendor", "serialNumber", "minSizeGigabytes", "wwn",
		"wwnWithExtension", "wwnVendorExtension", "rotational"}
}

// Disk returns the first eligible disk that matches the host's root device hints, or nil.
func (h *Host) Disk(disks []*models.Disk) *models.Disk {
	for _, disk := range disks {
		if disk.InstallationEligibility.Eligible && h.fits(disk) {
			return disk
		}
	}
	return nil
}

func (h *Host) fits(disk *models.Disk) bool {
	for name, wanted := range h.Hints {
		want := fmt.Sprint(wanted)
		fits := false
		switch name {
		case "deviceName":
			fits = slices.Contains([]string{disk.Path, disk.ByPath, disk.ByID, disk.ID, "/dev/" + disk.Name}, want)
		case "hctl":
			fits = disk.Hctl == want
		case "model":
			fits = strings.Contains(disk.Model, want)
		case "vendor":
			fits = strings.Contains(disk.Vendor, want)
		case "serialNumber":
			fits = disk.Serial == want
		case "minSizeGigabytes":
			var least int64
			if _, err := fmt.Sscan(want, &least); err == nil {
				fits = disk.SizeBytes >= least<<30
			}
		case "wwn", "wwnWithExtension", "wwnVendorExtension":
			fits = disk.Wwn == want
		case "rotational":
			fits = (disk.DriveType == models.DriveTypeHDD) == (want == "true")
		}
		if !fits {
			return false
		}
	}
	return true
}
