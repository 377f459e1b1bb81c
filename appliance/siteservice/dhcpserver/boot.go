package dhcpserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"landfall/appliance/sentence"
	"landfall/appliance/siteservice/link"
)

// Architecture is the processor of a machine, as in package architecture.
type Architecture string

// Architectures of machines that boot from the network.
const (
	X86   Architecture = "x86_64"
	ARM64 Architecture = "aarch64"
)

// bootTimeout is the time to find out what a machine boots. An image may wait for a registry, and
// the machine gets its address without a boot file then.
const bootTimeout = 2 * time.Second

// Machine is a machine that asks for a boot file.
type Machine struct {
	MAC          net.HardwareAddr
	Architecture Architecture
	Appliance    netip.Addr // the address of the appliance in the machine's network
}

// Boot is what a machine boots from the network.
type Boot struct {
	TFTPFile  string // the first boot loader of UEFI, signed for Secure Boot
	HTTPURL   string // an image for the HTTP boot of UEFI
	ScriptURL string // a script for iPXE
}

// ErrFromDisk is the error of a machine that boots from its disk.
var ErrFromDisk = errors.New("the machine boots from its disk")

// Classes of clients in option 60 (PXE specification 2.1, 2.2.3; UEFI specification 2.10, 24.7.2).
const (
	classPXE  = "PXEClient"
	classHTTP = "HTTPClient"
)

// BIOSLoader is the name of iPXE for BIOS in the operator's directory.
const BIOSLoader = "undionly.kpxe"

// Options of iPXE.
const (
	userClassIPXE     = "iPXE"
	optionIPXE        = 175 // encapsulated options of iPXE
	optionClientGUID  = 97
	optionVendorClass = 60
	optionTFTPServer  = 66
	optionBootFile    = 67
)

// bootDirectly are the vendor options of PXE that make a client boot the file in the same packet
// and not ask another boot server: sub-option 6 (discovery control) with bit 3.
func bootDirectly() []byte { return []byte{6, 1, 8, 255} }

// wantsBoot reports whether a client asks for a boot file.
func wantsBoot(request *dhcpv4.DHCPv4) bool {
	class := request.ClassIdentifier()
	return strings.HasPrefix(class, classPXE) || strings.HasPrefix(class, classHTTP)
}

// isIPXE reports whether the client is iPXE, whose boot file is a script.
func isIPXE(request *dhcpv4.DHCPv4) bool {
	return slices.Contains(request.UserClass(), userClassIPXE) ||
		request.Options.Has(dhcpv4.GenericOptionCode(optionIPXE))
}

// kindOf returns the architecture of a client and whether its firmware is UEFI (RFC 4578, 2.1).
func kindOf(request *dhcpv4.DHCPv4) (arch Architecture, uefi, ok bool) {
	for _, code := range request.ClientArch() {
		switch code {
		case iana.INTEL_X86PC, iana.INTEL_X86PC_HTTP:
			return X86, false, true
		case iana.EFI_X86_64, iana.EFI_BC, iana.EFI_X86_64_HTTP, iana.EFI_BC_HTTP:
			return X86, true, true
		case iana.EFI_ARM64, iana.EFI_ARM64_HTTP:
			return ARM64, true, true
		}
	}
	return "", false, false
}

// addBoot adds the boot file of a client to an answer. It reports false if the client gets none,
// and notes the reason.
func (s *Server) addBoot(ctx context.Context, on link.Link, own netip.Addr, request, answer *dhcpv4.DHCPv4) bool {
	if !wantsBoot(request) || s.Boot == nil {
		return false
	}
	mac := request.ClientHWAddr
	arch, uefi, ok := kindOf(request)
	settings := s.Settings(on)
	switch {
	case !ok:
		s.note(on, KindNoBoot, mac, netip.Addr{}, "The machine asks for a boot file, but its architecture is "+
			"missing or "+
			"unknown (option 93).")
		return false
	case settings.KnownOnly && !s.Known(mac):
		s.note(on, KindNoBoot, mac, netip.Addr{}, "The machine is unknown, and only known machines boot from the "+
			"network "+
			"(site.dhcp.known_only).")
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	boot, err := s.Boot(ctx, Machine{mac, arch, own})
	if err != nil {
		s.note(on, KindNoBoot, mac, netip.Addr{}, "%s", sentence.New(err))
		return false
	}
	http := strings.HasPrefix(request.ClassIdentifier(), classHTTP)
	class, file := classPXE, boot.TFTPFile
	switch {
	case isIPXE(request):
		file = boot.ScriptURL
		if http {
			class = classHTTP
		}
	case http:
		class, file = classHTTP, boot.HTTPURL
	case !uefi && !s.HasLoader(BIOSLoader):
		s.note(on, KindNoBoot, mac, netip.Addr{}, "The machine boots by BIOS, which needs the boot loader %s: copy it "+
			"(on Debian from the package ipxe) to a directory and name that in site.dhcp.loaders, or switch the "+
			"machine "+
			"to UEFI.", BIOSLoader)
		return false
	case !uefi:
		file = BIOSLoader
	}
	if file == "" {
		s.note(on, KindNoBoot, mac, netip.Addr{}, "There is no boot file of this kind for the machine.")
		return false
	}
	setBootFile(answer, request, own, class, file)
	s.note(on, KindBoot, mac, netip.Addr{}, "The machine boots %s.", withoutSecrets(file))
	return true
}

// withoutSecrets returns a boot file without the part of a URL that identifies an image to its
// machines.
func withoutSecrets(file string) string {
	if i := strings.Index(file, "://"); i >= 0 {
		host, _, _ := strings.Cut(file[i+3:], "/")
		return "an image from " + file[:i+3] + host
	}
	return file
}

// setBootFile writes the boot file into all fields and options that firmware reads.
func setBootFile(answer, request *dhcpv4.DHCPv4, own netip.Addr, class, file string) {
	answer.UpdateOption(dhcpv4.OptClassIdentifier(class))
	answer.UpdateOption(dhcpv4.OptBootFileName(file))
	dhcpv4.WithOptionCopied(request, dhcpv4.GenericOptionCode(optionClientGUID))(answer)
	const fieldSize = 128 // of the field file, with its end
	if len(file) < fieldSize {
		answer.BootFileName = file
	}
	if class == classPXE {
		answer.ServerIPAddr = own.AsSlice()
		answer.ServerHostName = own.String()
		answer.UpdateOption(dhcpv4.OptTFTPServerName(own.String()))
		answer.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, bootDirectly()))
	}
}
