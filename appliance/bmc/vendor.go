package bmc

import (
	"slices"
	"strings"
)

// Vendor is who made a BMC, as far as it matters for what has to be said to it.
type Vendor string

// The vendors whose BMCs want something of their own.
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

// vendorWords are what vendors call themselves in Vendor, Manufacturer, Product and Oem, in lower
// case.
var vendorWords = []struct {
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

// vendorOf reads who made the BMC out of the service root and the system.
func vendorOf(root, system object) Vendor {
	said := []string{root.text("Vendor"), system.text("Manufacturer"), root.text("Product")}
	for _, from := range []object{root, system} {
		if oem, ok := from.at("Oem").(map[string]any); ok {
			for name := range oem {
				said = append(said, name)
			}
		}
	}
	for _, text := range said {
		text = strings.ToLower(text)
		for _, candidate := range vendorWords {
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

// forbiddenSlot tells of virtual drives that are for something else than images by URL: Lenovo's
// RDOC takes uploads to the BMC's memory, and Remote is the remote console's.
func (v Vendor) forbiddenSlot(slot object) bool {
	if v != Lenovo {
		return false
	}
	id := slot.text("Id")
	return strings.HasPrefix(id, "RDOC") || strings.HasPrefix(id, "Remote")
}

// noUSBCd is Supermicro's one model whose virtual CD is not on USB.
const noUSBCd = "ARS-111GL-NHR"

// bootTarget is the value of BootSourceOverrideTarget by which a system boots from its virtual CD.
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
