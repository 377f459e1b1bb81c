package bmc

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// UEFI HTTP boot: the server's firmware fetches the image, over the server's own network, into
// memory, and boots it from there. The BMC is only told the URL (DSP0266 and the schema
// ComputerSystem 1.9 and newer: Boot.HttpBootUri). There is no drive and nothing to eject; the boot
// override holds for one boot.

// The properties and the value by which it is asked for.
const (
	httpBootTarget = "UefiHttp"
	httpBootURI    = "HttpBootUri"
)

// bootByHTTP boots the session's image without a virtual drive. It is false for a server whose
// firmware does not offer that; the history then says that virtual media is used in its place.
func (s *session) bootByHTTP(ctx context.Context, from step, begin func(step) error) (bool, error) {
	allowed := s.system.texts("Boot", "BootSourceOverrideTarget@Redfish.AllowableValues")
	if len(allowed) > 0 && !slices.Contains(allowed, httpBootTarget) {
		s.instead(fmt.Sprintf("its boot sources are %s", strings.Join(allowed, ", ")))
		return false, nil
	}
	if from == stepOn && s.system.text("Boot", httpBootURI) == s.image {
		now, err := s.power(ctx)
		if err != nil {
			return false, s.explain(ProvisioningError, doing[stepOn], err)
		}
		if now != PowerOff || s.system.text("Boot", "BootSourceOverrideTarget") == httpBootTarget {
			return true, s.explain(PowerManagementError, doing[stepOn], s.powerOn(ctx))
		}
	}
	offered := true
	err := s.steps([]action{
		{stepOff, func() error { return s.powerOff(ctx) }},
		{stepOverride, func() (err error) { offered, err = s.overrideHTTP(ctx); return err }},
	}, begin)
	if err != nil || !offered {
		return false, err
	}
	return true, s.steps([]action{{stepOn, func() error { return s.powerOn(ctx) }}}, begin)
}

// overrideHTTP has the next boot come from the image's URL. It is false for a BMC that knows no
// such URL, and an error for one that does not take this one.
func (s *session) overrideHTTP(ctx context.Context) (bool, error) {
	boot := map[string]any{
		"BootSourceOverrideTarget": httpBootTarget, "BootSourceOverrideEnabled": "Once",
		"BootSourceOverrideMode": "UEFI", httpBootURI: s.image,
	}
	err := s.pastPOST(ctx, func() error { return s.writeBoot(ctx, boot, "UEFI") })
	f, ok := asFailure(err)
	switch {
	case !ok:
		return err == nil, err
	case f.imageRefused() || f.mentions("https"):
		return false, &Error{Type: ProvisioningError, Code: f.code(), Err: f, Message: fmt.Sprintf(
			"The BMC of %s at %s does not take the image's URL %s for UEFI HTTP boot; give the appliance a shorter "+
				"address, in plain http (boot_listen), or write redfish-virtualmedia in the BMC's address; it says: "+
				"%q.",
			s.name, s.address.URL, s.imageShown(), f.said())}
	case f.status == http.StatusNotFound, f.status == http.StatusMethodNotAllowed,
		f.status == http.StatusNotImplemented,
		f.status == http.StatusBadRequest && (f.unknown() || f.mentions(httpBootURI, httpBootTarget,
			"BootSourceOverrideTarget", "UnsupportedOperation")):
		s.instead(fmt.Sprintf("its BMC says: %q", f.said()))
		return false, nil
	}
	return false, err
}

// instead says that virtual media is used, and why.
func (s *session) instead(why string) {
	s.note(true, "VirtualMediaUsed",
		"The firmware of the server can't be told by Redfish to boot an image by UEFI HTTP (%s); virtual media is "+
			"used in its place.", why)
}

// forgetHTTPBoot takes the image's URL back, as well as the BMC lets it be: it is of no use any
// more.
func (s *session) forgetHTTPBoot(ctx context.Context) {
	if !s.address.HTTPBoot || s.system.text("Boot", httpBootURI) == "" {
		return
	}
	boot := map[string]any{"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled",
		httpBootURI: nil}
	if err := s.writeBoot(ctx, boot, "UEFI"); err != nil {
		s.note(true, "BootOverride", "The URL for UEFI HTTP boot could not be taken back: %s",
			redact(err.Error(), s.password))
	}
}
