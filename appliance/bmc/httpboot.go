package bmc

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// UEFI HTTP boot: the server's firmware downloads the image into memory over the server's own
// network and boots it. The BMC only receives the URL (DSP0266 and schema ComputerSystem 1.9 and
// newer: Boot.HttpBootUri). This needs no virtual media device and no eject. The boot override
// applies to one boot.

// The properties and the value that request UEFI HTTP boot.
const (
	httpBootTarget = "UefiHttp"
	httpBootURI    = "HttpBootUri"
)

// bootByHTTP boots the session's image without virtual media. It returns false if the firmware does
// not support this. It then adds an event that virtual media is used instead.
func (s *session) bootByHTTP(ctx context.Context, from step, begin func(step) error) (bool, error) {
	if !s.allowsTarget(httpBootTarget) {
		s.reportVirtualMediaUsed(fmt.Sprintf("its boot sources are %s", strings.Join(s.bootTargets(), ", ")))
		return false, nil
	}
	if from == stepOn && s.system.text("Boot", httpBootURI) == s.image {
		now, err := s.power(ctx)
		if err != nil {
			return false, s.explain(ProvisioningError, stepText[stepOn], err)
		}
		if now != PowerOff || s.system.text("Boot", "BootSourceOverrideTarget") == httpBootTarget {
			return true, s.explain(PowerManagementError, stepText[stepOn], s.powerOn(ctx))
		}
	}
	offered := true
	err := s.runSteps([]bootStep{
		{stepOff, func() error { return s.powerOff(ctx) }},
		{stepOverride, func() (err error) { offered, err = s.overrideHTTP(ctx); return err }},
	}, begin)
	if err != nil || !offered {
		return false, err
	}
	return true, s.runSteps([]bootStep{{stepOn, func() error { return s.powerOn(ctx) }}}, begin)
}

// overrideHTTP sets the boot override to the image's URL. It returns false if the BMC does not
// support this, and an error if the BMC rejects the URL.
func (s *session) overrideHTTP(ctx context.Context) (bool, error) {
	boot := map[string]any{
		"BootSourceOverrideTarget": httpBootTarget, "BootSourceOverrideEnabled": "Once",
		"BootSourceOverrideMode": "UEFI", httpBootURI: s.image,
	}
	err := s.retryDuringPOST(ctx, func() error { return s.writeBoot(ctx, boot, "UEFI") })
	f, ok := asFailure(err)
	switch {
	case !ok:
		return err == nil, err
	case f.imageRefused() || f.mentions("https"):
		return false, &Error{Type: ProvisioningError, Code: f.code(), Err: f, Message: fmt.Sprintf(
			"The BMC of %s at %s rejects the image's URL %s for UEFI HTTP boot; give the appliance a shorter "+
				"address, in plain http (boot_listen), or write redfish-virtualmedia in the BMC's address; it "+
				"reports: "+
				"%q.",
			s.name, s.address.URL, s.redactedImage(), f.text())}
	case f.status == http.StatusNotFound, f.status == http.StatusMethodNotAllowed,
		f.status == http.StatusNotImplemented,
		f.status == http.StatusBadRequest && (f.propertyUnknown() || f.mentions(httpBootURI, httpBootTarget,
			"BootSourceOverrideTarget", "UnsupportedOperation")):
		s.reportVirtualMediaUsed(fmt.Sprintf("its BMC reports: %q", f.text()))
		return false, nil
	}
	return false, err
}

// reportVirtualMediaUsed adds an event that virtual media is used instead, with the reason.
func (s *session) reportVirtualMediaUsed(reason string) {
	s.addEvent(true, "VirtualMediaUsed",
		"The firmware of the server does not support UEFI HTTP boot by Redfish (%s); virtual media is "+
			"used instead.", reason)
}
