package bmc

import "context"

// step is one of the boot sequence. All are repeatable: one that was begun before a crash is begun
// again.
type step string

// The steps, in their order.
const (
	stepOff      step = "off"      // the server is switched off
	stepEject    step = "eject"    // what is in its drives is taken out
	stepInsert   step = "insert"   // the image is put in
	stepOverride step = "override" // the next boot is told to come from it
	stepOn       step = "on"       // the server is switched on
)

// doing are the steps as what a person reads.
var doing = map[step]string{
	stepOff: "switch the server off", stepEject: "empty its virtual drives", stepInsert: "insert the image",
	stepOverride: "set the boot override", stepOn: "switch the server on",
}

// boot boots the session's image. It tells of each step before it begins it. A sequence that was
// broken off goes on with its last step, the power-on, where all that this needs is as it was left,
// and begins anew everywhere else.
func (s *session) boot(ctx context.Context, mode string, from step, begin func(step) error) (*Media, error) {
	if s.address.HTTPBoot {
		if done, err := s.bootByHTTP(ctx, from, begin); done || err != nil {
			return nil, err
		}
		from = ""
	}
	slots, err := s.slots(ctx)
	if err != nil {
		return nil, s.explain(ProvisioningError, "list its virtual drives", err)
	}
	if from == stepOn {
		if media, done, err := s.goOn(ctx, slots); done || err != nil {
			return media, s.explain(ProvisioningError, doing[stepOn], err)
		}
	}
	var slot *resource
	err = s.steps([]action{
		{stepOff, func() error { return s.powerOff(ctx) }},
		{stepEject, func() error { return s.ejectAll(ctx, slots) }},
		{stepInsert, func() (err error) { slot, err = s.insert(ctx, slots); return err }},
		{stepOverride, func() error { return s.bootOnce(ctx, mode, slot) }},
		{stepOn, func() error { return s.powerOn(ctx) }},
	}, begin)
	if err != nil {
		return nil, err
	}
	return &Media{Slot: slot.path, Image: s.image, Inserted: true}, nil
}

// action is a step and how it is done.
type action struct {
	step step
	do   func() error
}

// steps does one after the other, telling of each before it begins.
func (s *session) steps(actions []action, begin func(step) error) error {
	for _, next := range actions {
		if err := begin(next.step); err != nil {
			return err
		}
		kind := ProvisioningError
		if next.step == stepOff || next.step == stepOn {
			kind = PowerManagementError
		}
		if err := next.do(); err != nil {
			return s.explain(kind, doing[next.step], err)
		}
	}
	return nil
}

// goOn ends a sequence whose last step had begun: the server may have been switched on, or not yet.
func (s *session) goOn(ctx context.Context, slots []*resource) (*Media, bool, error) {
	for _, slot := range slots {
		if !inserted(slot.object) || !holds(slot.object, s.image) {
			continue
		}
		now, err := s.power(ctx)
		if err != nil {
			return nil, false, err
		}
		if now == PowerOff && !s.overridden() {
			return nil, false, nil
		}
		if err := s.powerOn(ctx); err != nil {
			return nil, false, err
		}
		return &Media{Slot: slot.path, Image: s.image, Inserted: true}, true, nil
	}
	return nil, false, nil
}

// overridden tells whether the next boot comes from a CD. Dell's attribute is not shown here.
func (s *session) overridden() bool {
	target := s.system.text("Boot", "BootSourceOverrideTarget")
	return (target == "Cd" || target == "UsbCd") && s.system.text("Boot", "BootSourceOverrideEnabled") != "Disabled"
}

// takeOut ejects what was booted and has the boot override forgotten as well as the BMC lets it be;
// the power stays.
func (s *session) takeOut(ctx context.Context) error {
	slots, err := s.slots(ctx)
	if err != nil {
		return s.explain(ProvisioningError, "list its virtual drives", err)
	}
	if err := s.ejectAll(ctx, slots); err != nil {
		return s.explain(ProvisioningError, "eject the image", err)
	}
	if s.system.text("Boot", "BootSourceOverrideEnabled") == "Continuous" {
		if err := s.setBoot(ctx, "None", ""); err != nil {
			s.note(true, "BootOverride", "The boot override could not be taken back: %s",
				redact(err.Error(), s.password))
		}
	}
	s.forgetHTTPBoot(ctx)
	return nil
}

// intoDisk ejects the image and restarts the server into its disk, once.
func (s *session) intoDisk(ctx context.Context) error {
	if err := s.takeOut(ctx); err != nil {
		return err
	}
	if err := s.override(ctx, "Hdd", ""); err != nil {
		s.note(true, "BootOverride", "The BMC does not take a boot override to the disk: %s",
			redact(err.Error(), s.password))
	}
	return s.explain(PowerManagementError, "restart the server", s.restart(ctx))
}
