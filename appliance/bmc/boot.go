package bmc

import (
	"context"
	"strings"
)

// step is a step of the boot sequence. Every step can be repeated: a step that a crash interrupted
// runs again.
type step string

// The steps in order.
const (
	stepOff      step = "off"      // power the server off
	stepEject    step = "eject"    // eject all media
	stepInsert   step = "insert"   // insert the image
	stepOverride step = "override" // set the boot override to the virtual media device
	stepOn       step = "on"       // power the server on
)

// stepText describes the steps for users.
var stepText = map[step]string{
	stepOff: "power off the server", stepEject: "eject its virtual media", stepInsert: "insert the image",
	stepOverride: "set the boot override", stepOn: "power on the server",
}

// boot boots the session's image. It calls begin before each step. If only the last step (power on)
// was interrupted, and media and boot override are unchanged, boot resumes with that step.
// Otherwise it runs all steps again.
func (s *session) boot(ctx context.Context, mode string, from step, begin func(step) error) (*Media, error) {
	if s.address.HTTPBoot {
		if done, err := s.bootByHTTP(ctx, from, begin); done || err != nil {
			return nil, err
		}
		from = ""
	}
	devices, err := s.virtualMedia(ctx)
	if err != nil {
		return nil, s.explain(ProvisioningError, "list its virtual media", err)
	}
	if from == stepOn {
		if media, done, err := s.resumePowerOn(ctx, devices); done || err != nil {
			return media, s.explain(ProvisioningError, stepText[stepOn], err)
		}
	}
	var device *resource
	err = s.runSteps([]bootStep{
		{stepOff, func() error { return s.powerOff(ctx) }},
		{stepEject, func() error { return s.ejectAll(ctx, devices) }},
		{stepInsert, func() (err error) { device, err = s.insert(ctx, devices); return err }},
		{stepOverride, func() error { return s.bootOnce(ctx, mode, device) }},
		{stepOn, func() error { return s.powerOn(ctx) }},
	}, begin)
	if err != nil {
		return nil, err
	}
	return &Media{Device: device.path, Image: s.image, Inserted: true}, nil
}

// bootStep is a step with its function.
type bootStep struct {
	step step
	do   func() error
}

// runSteps runs steps in order and calls begin before each step.
func (s *session) runSteps(actions []bootStep, begin func(step) error) error {
	for _, next := range actions {
		if err := begin(next.step); err != nil {
			return err
		}
		kind := ProvisioningError
		if next.step == stepOff || next.step == stepOn {
			kind = PowerManagementError
		}
		if err := next.do(); err != nil {
			return s.explain(kind, stepText[next.step], err)
		}
	}
	return nil
}

// resumePowerOn completes a sequence that was interrupted in its last step. The server may be on or
// off. It returns false if the whole sequence must run again.
func (s *session) resumePowerOn(ctx context.Context, devices []*resource) (*Media, bool, error) {
	for _, device := range devices {
		if !inserted(device.object) || !holds(device.object, s.image) {
			continue
		}
		now, err := s.power(ctx)
		if err != nil {
			return nil, false, err
		}
		if now == PowerOff && !s.bootOverrideSet() {
			return nil, false, nil
		}
		if err := s.powerOn(ctx); err != nil {
			return nil, false, err
		}
		return &Media{Device: device.path, Image: s.image, Inserted: true}, true, nil
	}
	return nil, false, nil
}

// bootOverrideSet reports whether the next boot uses a CD. It does not detect Dell's BootOnce
// attribute.
func (s *session) bootOverrideSet() bool {
	target := s.system.text("Boot", "BootSourceOverrideTarget")
	return (target == "Cd" || target == "UsbCd") && s.system.text("Boot", "BootSourceOverrideEnabled") != "Disabled"
}

// ejectMedia ejects the image and clears the boot override if the BMC allows it. It does not change
// the power state.
func (s *session) ejectMedia(ctx context.Context) error {
	devices, err := s.virtualMedia(ctx)
	if err != nil {
		return s.explain(ProvisioningError, "list its virtual media", err)
	}
	if err := s.ejectAll(ctx, devices); err != nil {
		return s.explain(ProvisioningError, "eject the image", err)
	}
	further := map[string]any{}
	if s.address.HTTPBoot && s.system.text("Boot", httpBootURI) != "" {
		further[httpBootURI] = nil
	}
	if len(further) > 0 || s.system.text("Boot", "BootSourceOverrideEnabled") == "Continuous" {
		s.clearOverride(ctx, further)
	}
	return nil
}

// restartFromDisk ejects the image and restarts the server with a one-time boot override to its
// disk.
func (s *session) restartFromDisk(ctx context.Context) error {
	if err := s.ejectMedia(ctx); err != nil {
		return err
	}
	if !s.allowsTarget("Hdd") {
		s.addEvent(true, "BootOverride", "The BMC allows no boot override to the disk, only to %s.",
			strings.Join(s.bootTargets(), ", "))
	} else if err := s.override(ctx, "Hdd", ""); err != nil {
		s.addEvent(true, "BootOverride", "The BMC rejects a boot override to the disk; it reports: %q.", s.report(err))
	}
	return s.explain(PowerManagementError, "restart the server", s.restart(ctx))
}
