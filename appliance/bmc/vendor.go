package bmc

import (
	"slices"
	"strings"
)

// Vendor is the manufacturer of a BMC, if requests depend on it.
type Vendor string

// Vendors whose BMCs need special requests.
const (
	Generic    Vendor = "generic"
	Dell       Vendor = "dell"
	HPE        Vendor = "hpe"
	Lenovo     Vendor = "lenovo"
	Supermicro Vendor = "supermicro"
	Fujitsu    Vendor = "fujitsu"
	AMI        Vendor = "ami"
	Cisco      Vendor = "cisco"
	NVIDIA     Vendor = "nvidia"
)

// vendorNames lists the names of vendors in the properties Vendor, Manufacturer, Product and Oem,
// in lower case.
var vendorNames = []struct {
	vendor Vendor
	words  []string
}{
	{Dell, []string{"dell"}},
	{HPE, []string{"hpe", "hewlett", "hp "}},
	{Lenovo, []string{"lenovo"}},
	{Supermicro, []string{"supermicro", "super micro"}},
	{Fujitsu, []string{"fujitsu", "ts_fujitsu"}},
	{Cisco, []string{"cisco"}},
	{NVIDIA, []string{"nvidia"}},
	{AMI, []string{"ami", "american megatrends", "asrock", "asrockrack", "gigabyte", "openbmc"}},
}

// vendorOf determines the vendor from the service root and the system.
func vendorOf(root, system object) Vendor {
	names := []string{root.text("Vendor"), system.text("Manufacturer"), root.text("Product")}
	for _, from := range []object{root, system} {
		if oem, ok := from.at("Oem").(map[string]any); ok {
			for name := range oem {
				names = append(names, name)
			}
		}
	}
	for _, text := range names {
		text = strings.ToLower(text)
		for _, candidate := range vendorNames {
			if slices.ContainsFunc(candidate.words, func(word string) bool {
				return text == strings.TrimSpace(word) || strings.HasPrefix(text, strings.TrimSpace(word)+" ") ||
					len(word) > 4 && strings.Contains(text, word)
			}) {
				return candidate.vendor
			}
		}
	}
	return Generic
}

// excludesDevice reports whether a virtual media device does not accept images by URL. Lenovo's
// RDOC devices accept uploads to the BMC's memory, and its Remote devices belong to the remote
// console.
func (v Vendor) excludesDevice(device object) bool {
	if v != Lenovo {
		return false
	}
	id := device.text("Id")
	return strings.HasPrefix(id, "RDOC") || strings.HasPrefix(id, "Remote")
}

// noUSBCd is the Supermicro model whose virtual CD is not a USB device.
const noUSBCd = "ARS-111GL-NHR"

// bootTarget returns the BootSourceOverrideTarget of a system's virtual CD.
func (v Vendor) bootTarget(system object) string {
	allowed := system.texts("Boot", "BootSourceOverrideTarget@Redfish.AllowableValues")
	if v == Supermicro && slices.Contains(allowed, "UsbCd") && !strings.Contains(system.text("Model"), noUSBCd) {
		return "UsbCd"
	}
	if len(allowed) > 0 && !slices.Contains(allowed, "Cd") && slices.Contains(allowed, "UsbCd") {
		return "UsbCd"
	}
	return "Cd"
}
