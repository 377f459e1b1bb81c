package bmc

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	insertAction = "#VirtualMedia.InsertMedia"
	ejectAction  = "#VirtualMedia.EjectMedia"

	mediaPollInterval = 2 * time.Second
	insertedTimeout   = time.Minute
	ejectTimeout      = 30 * time.Second
	maxInsertAttempts = 8
)

// virtualMedia returns the virtual media devices for CDs or DVDs, the most suitable first. It
// selects them by their properties, because their names (CD, Cd, 1, 2, EXT1) differ between
// vendors, models and firmware versions.
func (s *session) virtualMedia(ctx context.Context) ([]*resource, error) {
	var collections []string
	if link := s.system.link("VirtualMedia"); link != "" {
		collections = append(collections, link) // newer Dell, Lenovo and HPE
	}
	found, err := s.virtualMediaIn(ctx, collections)
	if err != nil || len(found) > 0 {
		return found, err
	}
	managers, err := s.managers(ctx)
	if err != nil {
		return nil, err
	}
	collections = nil
	for _, manager := range managers {
		if link := manager.link("VirtualMedia"); link != "" {
			collections = append(collections, link)
		}
	}
	return s.virtualMediaIn(ctx, collections)
}

func (s *session) virtualMediaIn(ctx context.Context, collections []string) ([]*resource, error) {
	var found []*resource
	for _, collection := range collections {
		members, err := s.members(ctx, collection)
		if f, ok := asFailure(err); ok && f.status == http.StatusNotFound {
			continue // very old Lenovo firmware lists a collection that does not exist
		}
		if err != nil {
			return nil, err
		}
		for _, member := range members {
			if mediaTypeRank(member.object) < 2 && !s.vendor.excludesDevice(member.object) {
				found = append(found, member)
			}
		}
	}
	rank := func(device *resource) int {
		rank := mediaTypeRank(device.object)
		if device.target(insertAction) == "" {
			rank += 2 // the device has no insert action; it may accept a PATCH
		}
		return rank
	}
	slices.SortStableFunc(found, func(a, b *resource) int { return rank(a) - rank(b) })
	return found, nil
}

// mediaTypeRank returns 0 for a device that accepts CDs, 1 for DVDs, 2 for others.
func mediaTypeRank(device object) int {
	types := device.texts("MediaTypes")
	has := func(name string) bool {
		return slices.ContainsFunc(types, func(t string) bool { return strings.EqualFold(t, name) })
	}
	switch {
	case has("CD"):
		return 0
	case has("DVD"):
		return 1
	}
	return 2
}

// inserted reports whether a device contains media.
func inserted(device object) bool {
	if device.has("Inserted") {
		return device.flag("Inserted")
	}
	return device.text("Image") != "" || device.text("ImageName") != ""
}

// holds reports whether a device contains this image. Some BMCs report only the file name.
func holds(device object, image string) bool {
	current := firstNonEmpty(device.text("Image"), device.text("ImageName"))
	if current == image {
		return true
	}
	parsed, err := url.Parse(image)
	return err == nil && current != "" && path.Base(parsed.Path) == path.Base(current)
}

// ejectAll ejects the media of all devices. It returns the first error.
func (s *session) ejectAll(ctx context.Context, devices []*resource) error {
	for _, device := range devices {
		if !inserted(device.object) {
			continue
		}
		if err := s.eject(ctx, device); err != nil {
			return err
		}
	}
	return nil
}

// eject ejects the media of a device and waits until the device is empty.
func (s *session) eject(ctx context.Context, device *resource) error {
	var err error
	if target := device.target(ejectAction); target != "" {
		err = s.post(ctx, target, map[string]any{}) // HPE rejects a request without a body
	} else {
		err = s.patch(ctx, device, map[string]any{"Image": nil, "Inserted": false})
	}
	refusal, refused := asFailure(err)
	if err != nil && (!refused || refusal.status == 0 || refusal.status == http.StatusUnauthorized) {
		return err
	}
	empty, pollErr := s.poll(ctx, mediaPollInterval, ejectTimeout, func() (bool, error) {
		fresh, err := s.get(ctx, device.path)
		if err != nil {
			return false, err
		}
		*device = *fresh
		return !inserted(device.object) || device.has("Inserted") && device.text("Image") == "" &&
			device.text("ImageName") == "" || err == nil && refused, nil
	})
	switch {
	case pollErr != nil:
		return pollErr
	case refused && inserted(device.object) && refusal.inUse():
		return s.inUseError(device, refusal)
	case refused && inserted(device.object) && (device.target(ejectAction) != "" ||
		refusal.status != http.StatusMethodNotAllowed && refusal.status != http.StatusNotFound):
		return err
	case !empty && !refused:
		s.addEvent(true, "Eject", "The BMC reported the eject from %s, but still shows the media.", device.path)
	}
	return nil
}

// insert inserts the image into the first device that accepts it, and returns the device.
func (s *session) insert(ctx context.Context, devices []*resource) (*resource, error) {
	var first error
	for _, device := range devices {
		err := s.insertInto(ctx, device)
		if err == nil {
			return device, nil
		}
		f, ok := asFailure(err)
		if !ok || f.imageUnreachable() || f.imageRefused() || f.licenseMissing() || f.status != http.StatusBadRequest &&
			f.status != http.StatusNotFound && f.status != http.StatusMethodNotAllowed {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return nil, &Error{Type: ProvisioningError,
			Message: fmt.Sprintf("The BMC of %s at %s has no virtual CD or DVD drive; check that virtual media is "+
				"enabled, licensed, and supported by its firmware.", s.name, s.address.URL)}
	}
	return nil, first
}

// insertInto inserts the image with a minimal request body. It adds properties that the BMC
// requires and removes properties that the BMC rejects. Inserted and WriteProtected are omitted at
// first, because Supermicro's X11 and X12 reject them.
func (s *session) insertInto(ctx context.Context, device *resource) error {
	target := device.target(insertAction)
	body := map[string]any{"Image": s.image}
	if target == "" {
		body["Inserted"], body["WriteProtected"] = true, true
	}
	ejected := false
	for range maxInsertAttempts {
		var err error
		if target != "" {
			err = s.run(ctx, request{method: http.MethodPost, path: target, body: body, timeout: insertTimeout})
		} else {
			err = s.patch(ctx, device, body)
		}
		if err == nil {
			return s.awaitInserted(ctx, device)
		}
		f, ok := asFailure(err)
		if !ok {
			return err
		}
		switch {
		case f.inUse():
			if ejected {
				return s.checkInUse(ctx, device, f)
			}
			ejected = true
			if err := s.eject(ctx, device); err != nil {
				return err
			}
		case f.status >= 500 || !s.adaptBody(body, f):
			return err
		}
	}
	return &Error{Type: ProvisioningError,
		Message: fmt.Sprintf("The BMC of %s at %s keeps requiring other properties when an image is inserted into %s; "+
			"see its request log.", s.name, s.address.URL, device.path)}
}

// checkInUse returns nil if the device that is in use already contains the image.
func (s *session) checkInUse(ctx context.Context, device *resource, refusal *failure) error {
	fresh, err := s.get(ctx, device.path)
	if err != nil {
		return err
	}
	if *device = *fresh; inserted(device.object) && holds(device.object, s.image) {
		return nil
	}
	return s.inUseError(device, refusal)
}

func (s *session) inUseError(device *resource, f *failure) error {
	coded := ""
	if f.code() != "" {
		coded = " (" + f.code() + ")"
	}
	return &Error{Type: ProvisioningError, Code: f.code(), Err: f,
		Message: fmt.Sprintf("The virtual drive of %s (%s) is in use and its media can't be ejected%s; close remote "+
			"consoles "+
			"that share media, or restart the BMC; it reports: %q.", s.name, device.path, coded, f.text())}
}

// adaptBody adapts the request body to an error response. It returns false if no change is
// possible.
func (s *session) adaptBody(body map[string]any, f *failure) bool {
	if f.propertyUnknown() {
		for name := range body {
			if name != "Image" && f.mentions(name) {
				delete(body, name)
				return true
			}
		}
	}
	protocol := "HTTP"
	if strings.HasPrefix(s.image, "https:") {
		protocol = "HTTPS"
	}
	altered := false
	for _, parameter := range []struct{ name, value string }{
		{"TransferProtocolType", protocol}, {"TransferMethod", "Stream"}, {"UserName", "none"}, {"Password", "none"},
		{"MediaType", "CD"},
	} {
		if _, given := body[parameter.name]; !given && f.propertyMissing(parameter.name) {
			body[parameter.name] = parameter.value
			altered = true
		}
	}
	for _, name := range []string{"Inserted", "WriteProtected"} {
		if _, given := body[name]; !given && f.propertyMissing(name) {
			body[name] = true
			altered = true
		}
	}
	if _, user := body["UserName"]; user && body["Password"] == nil {
		body["Password"] = "none"
	}
	return altered
}

// awaitInserted waits until the device reports the image.
func (s *session) awaitInserted(ctx context.Context, device *resource) error {
	found, err := s.poll(ctx, mediaPollInterval, insertedTimeout, func() (bool, error) {
		fresh, err := s.get(ctx, device.path)
		if err != nil {
			return false, err
		}
		*device = *fresh
		return inserted(device.object) && holds(device.object, s.image), nil
	})
	if err != nil || found {
		return err
	}
	return &Error{Type: ProvisioningError,
		Message: fmt.Sprintf("The BMC of %s at %s accepted the image %s but does not show it in %s after %s; check "+
			"that it "+
			"reaches this address and port from its own network.", s.name, s.address.URL, s.redactedImage(),
			device.path,
			insertedTimeout)}
}

// redactedImage returns the image's URL without its secret.
func (s *session) redactedImage() string { return redact(s.image, s.password) }
