package bmc

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	resetAction = "#ComputerSystem.Reset"

	powerPause    = 2 * time.Second
	powerPatience = 2 * time.Minute
	softPatience  = 3 * time.Minute  // for the operating system to shut down
	silentPower   = 15 * time.Second // for a BMC that does not tell the power
	onAttempts    = 6
	onPause       = 10 * time.Second
)

// The reset types that serve a purpose, the best first (DSP2046, Resource, "ResetType").
var (
	waysOn      = []string{"On", "ForceOn", "PushPowerButton"}
	waysOff     = []string{"ForceOff", "PushPowerButton", "GracefulShutdown"}
	waysSoftOff = []string{"GracefulShutdown", "PushPowerButton", "ForceOff"}
	waysRestart = []string{"ForceRestart", "PowerCycle", "GracefulRestart"}
)

func powerOf(system object) Power {
	switch strings.ToLower(system.text("PowerState")) {
	case "on":
		return PowerOn
	case "off":
		return PowerOff
	case "poweringon":
		return PoweringOn
	case "poweringoff":
		return PoweringOff
	}
	return PowerUnknown
}

// power reads the system anew.
func (s *session) power(ctx context.Context) (Power, error) {
	system, err := s.get(ctx, s.system.path)
	if err != nil {
		return PowerUnknown, err
	}
	s.system = system
	return powerOf(system.object), nil
}

// settled waits until the power is as it shall be. A BMC that tells nothing of it is believed after
// a while.
func (s *session) settled(ctx context.Context, wanted Power, patience time.Duration) (bool, error) {
	now := PowerUnknown
	silent := 0
	done, err := s.until(ctx, powerPause, patience, func() (bool, error) {
		var err error
		now, err = s.power(ctx)
		if now == PowerUnknown {
			silent++
		}
		return now == wanted || time.Duration(silent)*powerPause >= silentPower, err
	})
	if err == nil && done && now != wanted {
		s.note(true, "PowerUnknown", "The BMC does not tell whether the server is on; it is taken to be %s.", wanted)
	}
	return done, err
}

// reset posts the first of the ways that the system knows. That it is so already is no error.
func (s *session) reset(ctx context.Context, ways []string) error {
	target := s.system.target(resetAction)
	if target == "" {
		return &Error{Type: PowerManagementError,
			Message: fmt.Sprintf("The BMC of %s at %s offers no way to switch the server's power; update its firmware.",
				s.name, s.address.URL)}
	}
	allowed, err := s.resetTypes(ctx)
	if err != nil {
		return err
	}
	chosen := ways[0]
	if len(allowed) > 0 {
		if i := slices.IndexFunc(ways, func(way string) bool { return slices.Contains(allowed, way) }); i >= 0 {
			chosen = ways[i]
		}
	}
	restarts := slices.Contains(waysRestart, chosen) || chosen == "PushPowerButton"
	err = s.run(ctx, request{method: http.MethodPost, path: target, body: map[string]any{"ResetType": chosen},
		once: restarts})
	if f, ok := asFailure(err); ok && f.already() {
		return nil
	}
	return err
}

// resetTypes are those that the system says it knows, none if it says nothing.
func (s *session) resetTypes(ctx context.Context) ([]string, error) {
	if allowed := s.system.texts("Actions", resetAction, "ResetType@Redfish.AllowableValues"); len(allowed) > 0 {
		return allowed, nil
	}
	link := s.system.link("Actions", resetAction, "@Redfish.ActionInfo")
	if link == "" {
		return nil, nil
	}
	info, err := s.get(ctx, link)
	if _, ok := asFailure(err); ok {
		return nil, nil // what it can be given is tried out
	}
	if err != nil {
		return nil, err
	}
	parameters, _ := info.at("Parameters").([]any)
	for _, parameter := range parameters {
		if fields, ok := parameter.(map[string]any); ok && object(fields).text("Name") == "ResetType" {
			return object(fields).texts("AllowableValues"), nil
		}
	}
	return nil, nil
}

// powerOff switches the server off at once.
func (s *session) powerOff(ctx context.Context) error {
	now, err := s.power(ctx)
	if err != nil || now == PowerOff {
		return err
	}
	for range 2 {
		if err := s.reset(ctx, waysOff); err != nil {
			return err
		}
		if off, err := s.settled(ctx, PowerOff, powerPatience); off || err != nil {
			return err
		}
	}
	return &Error{Type: PowerManagementError,
		Message: fmt.Sprintf("The server %s was told twice to power off and still is not off after %s; look at it at "+
			"its console, and restart the BMC if it is off in truth.", s.name, 2*powerPatience)}
}

// softOff asks the operating system to shut down, and switches the server off when it does not.
func (s *session) softOff(ctx context.Context) error {
	now, err := s.power(ctx)
	if err != nil || now == PowerOff {
		return err
	}
	err = s.reset(ctx, waysSoftOff)
	if _, refused := asFailure(err); err != nil && !refused {
		return err
	}
	if err == nil {
		if off, err := s.settled(ctx, PowerOff, softPatience); off || err != nil {
			return err
		}
		s.note(true, "PowerOff", "The operating system did not shut down within %s; the server is switched off.",
			softPatience)
	}
	return s.powerOff(ctx)
}

// powerOn switches the server on. BMCs refuse that for a while after it was switched off.
func (s *session) powerOn(ctx context.Context) error {
	now, err := s.power(ctx)
	if err != nil || now == PowerOn {
		return err
	}
	for range 2 {
		for attempt := 1; ; attempt++ {
			err := s.reset(ctx, waysOn)
			if err == nil {
				break
			}
			f, ok := asFailure(err)
			if !ok || f.status != http.StatusConflict && !f.notReady() || attempt == onAttempts {
				return err
			}
			if err := s.pause(ctx, onPause); err != nil {
				return err
			}
		}
		if on, err := s.settled(ctx, PowerOn, powerPatience); on || err != nil {
			return err
		}
		if powerOf(s.system.object) == PoweringOn {
			s.note(true, "PowerOn", "The BMC still says PoweringOn after %s; the server is taken to be on.",
				powerPatience)
			return nil
		}
	}
	return &Error{Type: PowerManagementError,
		Message: fmt.Sprintf("The server %s was told twice to power on and still is not on after %s; look whether it "+
			"has mains power on all its supplies, and whether the chassis allows it.", s.name, 2*powerPatience)}
}

// restart has the server begin anew at once.
func (s *session) restart(ctx context.Context) error {
	now, err := s.power(ctx)
	if err != nil {
		return err
	}
	if now == PowerOff {
		return s.powerOn(ctx)
	}
	if err := s.reset(ctx, waysRestart); err != nil {
		return err
	}
	_, err = s.settled(ctx, PowerOn, powerPatience)
	return err
}

const (
	overrideAttempts = 6
	overridePause    = 5 * time.Second // doubled each time, up to overrideLongest
	overrideLongest  = 30 * time.Second
)

// bootOnce has the next boot come from the virtual CD.
func (s *session) bootOnce(ctx context.Context, mode string, slot *resource) error {
	if s.vendor == Dell && strings.Contains(slot.path, "/Managers/") {
		done, err := s.dellBootOnce(ctx)
		if done || err != nil {
			return err
		}
	}
	return s.override(ctx, s.vendor.bootTarget(s.system.object), mode)
}

// override sets the boot override, once.
func (s *session) override(ctx context.Context, target, mode string) error {
	return s.pastPOST(ctx, func() error { return s.setBoot(ctx, target, mode) })
}

// pastPOST tries to set something until the firmware's self-test lets it be set.
func (s *session) pastPOST(ctx context.Context, set func() error) error {
	pause := overridePause
	for attempt := 1; ; attempt++ {
		err := set()
		f, ok := asFailure(err)
		if !ok || !f.notReady() || attempt == overrideAttempts {
			return err
		}
		if err := s.pause(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, overrideLongest)
	}
}

// setBoot tries the forms of the boot override that BMCs want: as little as possible, with the
// mode, continuous where once is not known, by the resource for settings to come.
func (s *session) setBoot(ctx context.Context, target, mode string) error {
	present := s.system.text("Boot", "BootSourceOverrideMode")
	boot := map[string]any{"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Once"}
	if target == "None" {
		boot["BootSourceOverrideEnabled"] = "Disabled"
	}
	wanted := map[string]string{"UEFI": "UEFI", "UEFISecureBoot": "UEFI", "legacy": "Legacy"}[mode]
	if wanted != "" && present != "" && wanted != present {
		boot["BootSourceOverrideMode"] = wanted
	}
	return s.writeBoot(ctx, boot, orText(wanted, orText(present, "UEFI")))
}

// writeBoot writes the boot override as it is given, or else in the other forms; mode is what BMCs
// that want the whole object are given.
func (s *session) writeBoot(ctx context.Context, boot map[string]any, mode string) error {
	err := s.patch(ctx, s.system, map[string]any{"Boot": boot})
	f, ok := asFailure(err)
	if !ok || f.status >= 500 || f.notReady() || f.status == http.StatusUnauthorized {
		return err
	}
	whole := mapsWith(boot, "BootSourceOverrideMode", mode)
	if s.patch(ctx, s.system, map[string]any{"Boot": whole}) == nil { // AMI's want the whole object
		return nil
	}
	if link := s.system.link("@Redfish.Settings", "SettingsObject"); link != "" {
		if settings, err := s.get(ctx, link); err == nil && s.patch(ctx, settings,
			map[string]any{"Boot": boot}) == nil {
			return nil
		}
	}
	if f.mentions("BootSourceOverrideEnabled") && boot["BootSourceOverrideTarget"] != "None" {
		if s.patch(ctx, s.system, map[string]any{"Boot": mapsWith(boot, "BootSourceOverrideEnabled",
			"Continuous")}) == nil {
			s.note(true, "BootOverride",
				"The BMC knows no boot override for one time; it is set until the image is ejected.")
			return nil
		}
	}
	return err
}

func mapsWith(m map[string]any, key string, value any) map[string]any {
	changed := map[string]any{key: value}
	for k, v := range m {
		if k != key {
			changed[k] = v
		}
	}
	return changed
}

func orText(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

// The older iDRACs' standard override Cd means the physical drive; the virtual one is chosen by
// these attributes (Dell, "iDRAC9 Attribute Registry", group ServerBoot).
const (
	dellBootOnce    = "ServerBoot.1.BootOnce"
	dellFirstDevice = "ServerBoot.1.FirstBootDevice"
	dellVirtualCD   = "VCD-DVD"
)

// dellBootOnce sets the attributes, or has a configuration with them imported. It is false for a
// BMC that knows neither.
func (s *session) dellBootOnce(ctx context.Context) (bool, error) {
	managers, err := s.managers(ctx)
	if err != nil {
		return false, err
	}
	for _, manager := range managers {
		link := orText(firstLink(manager.links("Links", "Oem", "Dell", "DellAttributes")), manager.path+"/Attributes")
		attributes, err := s.get(ctx, link)
		if err == nil {
			err = s.patch(ctx, attributes, map[string]any{"Attributes": map[string]any{dellBootOnce: "Enabled",
				dellFirstDevice: dellVirtualCD}})
		}
		if err == nil {
			return true, nil
		}
		if _, ok := asFailure(err); !ok {
			return false, err
		}
		target := manager.text("Actions", "Oem", "#OemManager.ImportSystemConfiguration", "target")
		if target == "" {
			target = manager.text("Actions", "Oem", "OemManager.v1_0_0#OemManager.ImportSystemConfiguration", "target")
		}
		if target == "" {
			continue
		}
		err = s.post(ctx, target, map[string]any{
			"ShareParameters": map[string]any{"Target": "ALL"},
			"ImportBuffer": `<SystemConfiguration><Component FQDD="iDRAC.Embedded.1"><Attribute Name="ServerBoot.1#BootOnce">Enabled</Attribute>` +
				`<Attribute Name="ServerBoot.1#FirstBootDevice">VCD-DVD</Attribute></Component></SystemConfiguration>`,
		})
		if err == nil {
			return true, nil
		}
		if _, ok := asFailure(err); !ok {
			return false, err
		}
	}
	return false, nil
}

func firstLink(links []string) string {
	if len(links) == 0 {
		return ""
	}
	return links[0]
}
