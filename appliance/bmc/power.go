package bmc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	resetAction = "#ComputerSystem.Reset"

	powerPollInterval   = 2 * time.Second
	powerTimeout        = 2 * time.Minute
	shutdownTimeout     = 3 * time.Minute  // time for the shutdown of the operating system
	unknownPowerTimeout = 15 * time.Second // delay for a BMC that does not report the power state
	powerOnAttempts     = 6
	powerOnDelay        = 10 * time.Second
)

// Reset types for each purpose, the preferred type first (DSP2046, Resource, "ResetType").
var (
	powerOnTypes  = []string{"On", "ForceOn", "PushPowerButton"}
	powerOffTypes = []string{"ForceOff", "PushPowerButton", "GracefulShutdown"}
	shutdownTypes = []string{"GracefulShutdown", "PushPowerButton", "ForceOff"}
	restartTypes  = []string{"ForceRestart", "PowerCycle", "GracefulRestart"}
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

// power reads the system again and returns its power state.
func (s *session) power(ctx context.Context) (Power, error) {
	system, err := s.get(ctx, s.system.path)
	if err != nil {
		return PowerUnknown, err
	}
	s.system = system
	return powerOf(system.object), nil
}

// lastPower returns the power state that the BMC reported last. If it reports none, lastPower
// returns the state that was assumed after a request, or PowerUnknown.
func (s *session) lastPower() Power {
	if now := powerOf(s.system.object); now != PowerUnknown {
		return now
	}
	return s.assumed
}

// awaitPower waits for a power state. If the BMC has not reported the power state for
// unknownPowerTimeout, however few answers a slow BMC gave, awaitPower assumes success.
func (s *session) awaitPower(ctx context.Context, wanted Power, timeout time.Duration) (bool, error) {
	now := PowerUnknown
	var silent time.Time // since when the BMC has not reported the power state; zero: it has
	done, err := s.poll(ctx, powerPollInterval, timeout, func() (bool, error) {
		var err error
		now, err = s.power(ctx)
		switch {
		case now != PowerUnknown:
			silent = time.Time{}
		case silent.IsZero():
			silent = s.clock.Now()
		default:
			return s.clock.Since(silent) >= unknownPowerTimeout, err
		}
		return now == wanted, err
	})
	if err == nil && done && now != wanted {
		s.assumed = wanted
		s.addEvent(true, "PowerUnknown", "The BMC does not report the power state; the server is assumed to be %s.",
			wanted)
	}
	return done, err
}

// reset posts the first reset type of the candidates that the system supports. It is not an error
// if the system already has the requested state.
func (s *session) reset(ctx context.Context, candidates []string) error {
	target := s.system.target(resetAction)
	if target == "" {
		return &Error{Type: PowerManagementError,
			Message: fmt.Sprintf("The BMC of %s at %s offers no reset action for the server; update its firmware.",
				s.name, s.address.URL)}
	}
	allowed, err := s.resetTypes(ctx)
	if err != nil {
		return err
	}
	chosen := candidates[0]
	if len(allowed) > 0 {
		if i := slices.IndexFunc(candidates, func(candidate string) bool {
			return slices.Contains(allowed,
				candidate)
		}); i >= 0 {
			chosen = candidates[i]
		}
	}
	restarts := slices.Contains(restartTypes, chosen)
	if restarts {
		if err := s.noteRestart(); err != nil {
			return err
		}
	}
	err = s.run(ctx, request{method: http.MethodPost, path: target, body: map[string]any{"ResetType": chosen},
		notIdempotent: restarts || chosen == "PushPowerButton"})
	if restarts {
		s.restarting = err == nil || !refused(err)
	}
	if f, ok := asFailure(err); ok && f.alreadyDone() {
		return nil
	}
	return err
}

// resetTypes returns the reset types that the system declares, or nil.
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
		return nil, nil // reset tries its candidates without this information
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

// minutes returns a limit in minutes, for sentences.
func minutes(limit time.Duration) int { return int(limit.Minutes()) }

// powerOff powers the server off immediately.
func (s *session) powerOff(ctx context.Context) error {
	now, err := s.power(ctx)
	if err != nil || now == PowerOff {
		return err
	}
	for range 2 {
		if err := s.reset(ctx, powerOffTypes); err != nil {
			return err
		}
		if off, err := s.awaitPower(ctx, PowerOff, powerTimeout); off || err != nil {
			return err
		}
	}
	return &Error{Type: PowerManagementError,
		Message: fmt.Sprintf("The server %s did not power off after two requests and %d minutes; check its "+
			"console, and restart the BMC if the server is actually off.", s.name,
			minutes(2*powerTimeout))}
}

// shutdown requests a shutdown of the operating system. If the server stays on, shutdown
// powers it off.
func (s *session) shutdown(ctx context.Context) error {
	now, err := s.power(ctx)
	if err != nil || now == PowerOff {
		return err
	}
	err = s.reset(ctx, shutdownTypes)
	if _, refused := asFailure(err); err != nil && !refused {
		return err
	}
	if err == nil {
		if off, err := s.awaitPower(ctx, PowerOff, shutdownTimeout); off || err != nil {
			return err
		}
		s.addEvent(true, "PowerOff", "The operating system did not shut down within %d minutes; the server is "+
			"powered off.", minutes(shutdownTimeout))
	}
	return s.powerOff(ctx)
}

// powerOn powers the server on. BMCs reject this for some time after a power-off.
func (s *session) powerOn(ctx context.Context) error {
	now, err := s.power(ctx)
	if err != nil || now == PowerOn {
		return err
	}
	for range 2 {
		for attempt := 1; ; attempt++ {
			err := s.reset(ctx, powerOnTypes)
			if err == nil {
				break
			}
			f, ok := asFailure(err)
			if !ok || f.status != http.StatusConflict && !f.notReady() || attempt == powerOnAttempts {
				return err
			}
			if err := s.sleep(ctx, powerOnDelay); err != nil {
				return err
			}
		}
		if on, err := s.awaitPower(ctx, PowerOn, powerTimeout); on || err != nil {
			return err
		}
		if powerOf(s.system.object) == PoweringOn {
			s.addEvent(true, "PowerOn", "The BMC still reports PoweringOn after %d minutes; the server is assumed to "+
				"be on.", minutes(powerTimeout))
			return nil
		}
	}
	return &Error{Type: PowerManagementError,
		Message: fmt.Sprintf("The server %s did not power on after two requests and %d minutes; check that it "+
			"has mains power on all its supplies, and whether the chassis allows it.", s.name,
			minutes(2*powerTimeout))}
}

// restart restarts the server immediately. A server that is on does not show whether it has
// restarted. So restart does not ask the BMC again if an earlier request, whose outcome is unknown,
// may have been carried out: the server may be in use again since.
func (s *session) restart(ctx context.Context) error {
	now, err := s.power(ctx)
	if err != nil {
		return err
	}
	if now == PowerOff {
		return s.powerOn(ctx)
	}
	if s.restarting {
		s.uncertain = true
		s.addEvent(true, "PowerReset", "%s", unknownRestart(s.ordered))
		return nil
	}
	if err := s.reset(ctx, restartTypes); err != nil {
		return err
	}
	_, err = s.awaitPower(ctx, PowerOn, powerTimeout)
	return err
}

// refused reports whether a BMC has certainly not done what it was asked for by a POST: it answered
// the POST with an error, did not get it, or reports that its task ended without success. Another
// failure after the POST does not show what the BMC has done.
func refused(err error) bool {
	f, ok := asFailure(err)
	switch {
	case !ok:
		return false
	case f.method != http.MethodPost:
		return f.taskEnded
	case f.unanswered():
		var connection *net.OpError
		return permanent(f.err) || errors.As(f.err, &connection) && connection.Op == "dial"
	}
	return f.status >= http.StatusBadRequest
}

const (
	overrideAttempts = 6
	overrideDelay    = 5 * time.Second // doubled each time, up to maxOverrideDelay
	maxOverrideDelay = 30 * time.Second
)

// bootOnce sets the boot override of the next boot to the virtual CD.
func (s *session) bootOnce(ctx context.Context, mode string, device *resource) error {
	if s.vendor == Dell && strings.Contains(device.path, "/Managers/") {
		done, err := s.dellBootOnce(ctx)
		if done || err != nil {
			return err
		}
	}
	return s.override(ctx, s.vendor.bootTarget(s.system.object), mode)
}

// override sets the boot override for one boot.
func (s *session) override(ctx context.Context, target, mode string) error {
	return s.retryDuringPOST(ctx, func() error { return s.setBoot(ctx, target, mode) })
}

// bootTargets returns the boot sources that the BMC allows, or nil if it does not list them.
func (s *session) bootTargets() []string {
	return s.system.texts("Boot", "BootSourceOverrideTarget@Redfish.AllowableValues")
}

// allowsTarget reports whether the BMC allows a boot source. A BMC without a list may allow it.
func (s *session) allowsTarget(target string) bool {
	allowed := s.bootTargets()
	return len(allowed) == 0 || slices.Contains(allowed, target)
}

// clearOverride disables the boot override, which the BMC would otherwise use at the next boot, and
// sets further properties of Boot. A BMC that does not allow None gets its disk as boot source.
func (s *session) clearOverride(ctx context.Context, further map[string]any) {
	target := "None"
	if !s.allowsTarget(target) {
		target = "Hdd"
	}
	if !s.allowsTarget(target) {
		s.addEvent(true, "BootOverride", "The boot override stays, because the BMC allows only %s as boot sources.",
			strings.Join(s.bootTargets(), ", "))
		return
	}
	boot := map[string]any{"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Disabled"}
	maps.Copy(boot, further)
	err := s.writeBoot(ctx, boot, firstNonEmpty(s.system.text("Boot", "BootSourceOverrideMode"), "UEFI"))
	if err != nil {
		s.addEvent(true, "BootOverride", "The BMC does not clear the boot override; it reports: %q.", s.report(err))
	}
}

// report returns what a BMC reported about a failed request, without secrets.
func (s *session) report(err error) string {
	if f, ok := asFailure(err); ok && f.text() != "" {
		return redact(f.text(), s.password)
	}
	return redact(err.Error(), s.password)
}

// retryDuringPOST retries a change while the firmware's self-test rejects it.
func (s *session) retryDuringPOST(ctx context.Context, set func() error) error {
	delays := newBackoff(overrideDelay, maxOverrideDelay)
	for attempt := 1; ; attempt++ {
		err := set()
		f, ok := asFailure(err)
		if !ok || !f.notReady() || attempt == overrideAttempts {
			return err
		}
		if err := s.sleep(ctx, delays.Step()); err != nil {
			return err
		}
	}
}

// setBoot sets the boot override. It tries the forms that BMCs require, in this order: the minimal
// request, a request with the boot mode, a continuous override if "Once" is not supported, and the
// settings resource.
func (s *session) setBoot(ctx context.Context, target, mode string) error {
	present := s.system.text("Boot", "BootSourceOverrideMode")
	boot := map[string]any{"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Once"}
	wanted := map[string]string{"UEFI": "UEFI", "UEFISecureBoot": "UEFI", "legacy": "Legacy"}[mode]
	if wanted != "" && present != "" && wanted != present {
		boot["BootSourceOverrideMode"] = wanted
	}
	return s.writeBoot(ctx, boot, firstNonEmpty(wanted, firstNonEmpty(present, "UEFI")))
}

// writeBoot writes the boot override in the given form, then in other forms. The mode is for BMCs
// that require the whole object.
func (s *session) writeBoot(ctx context.Context, boot map[string]any, mode string) error {
	err := s.patch(ctx, s.system, map[string]any{"Boot": boot})
	f, ok := asFailure(err)
	if !ok || f.status >= 500 || f.notReady() || f.status == http.StatusUnauthorized {
		return err
	}
	whole := mapsWith(boot, "BootSourceOverrideMode", mode)
	if s.patch(ctx, s.system, map[string]any{"Boot": whole}) == nil { // AMI's BMCs require the whole object
		return nil
	}
	if link := s.system.link("@Redfish.Settings", "SettingsObject"); link != "" {
		if settings, err := s.get(ctx, link); err == nil && s.patch(ctx, settings,
			map[string]any{"Boot": boot}) == nil {
			return nil
		}
	}
	if f.mentions("BootSourceOverrideEnabled") && boot["BootSourceOverrideEnabled"] == "Once" {
		if s.patch(ctx, s.system, map[string]any{"Boot": mapsWith(boot, "BootSourceOverrideEnabled",
			"Continuous")}) == nil {
			s.addEvent(true, "BootOverride",
				"The BMC does not support a one-time boot override; the override stays until the image is ejected.")
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

func firstNonEmpty(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

// On older iDRACs, the standard override Cd selects the physical drive. These attributes select the
// virtual drive (Dell, "iDRAC9 Attribute Registry", group ServerBoot).
const (
	dellBootOnce    = "ServerBoot.1.BootOnce"
	dellFirstDevice = "ServerBoot.1.FirstBootDevice"
	dellVirtualCD   = "VCD-DVD"
)

// dellBootOnce sets the attributes, or imports a configuration that contains them. It returns false
// if the BMC supports neither.
func (s *session) dellBootOnce(ctx context.Context) (bool, error) {
	managers, err := s.managers(ctx)
	if err != nil {
		return false, err
	}
	for _, manager := range managers {
		link := firstNonEmpty(firstLink(manager.links("Links", "Oem", "Dell", "DellAttributes")),
			manager.path+"/Attributes")
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
