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

	mediaPause     = 2 * time.Second
	insertPatience = time.Minute
	ejectPatience  = 30 * time.Second
	formsTried     = 8
)

// slots are the virtual drives that take CDs or else DVDs, the most suitable first. They are found
// by what they say of themselves: their names differ between vendors, models and firmware (CD, Cd,
// 1, 2, EXT1).
func (s *session) slots(ctx context.Context) ([]*resource, error) {
	var collections []string
	if link := s.system.link("VirtualMedia"); link != "" {
		collections = append(collections, link) // newer Dell, Lenovo and HPE
	}
	found, err := s.drives(ctx, collections)
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
	return s.drives(ctx, collections)
}

func (s *session) drives(ctx context.Context, collections []string) ([]*resource, error) {
	var found []*resource
	for _, collection := range collections {
		members, err := s.members(ctx, collection)
		if f, ok := asFailure(err); ok && f.status == http.StatusNotFound {
			continue // very old firmware of Lenovo's names a collection that it does not have
		}
		if err != nil {
			return nil, err
		}
		for _, member := range members {
			if drives(member.object) < 2 && !s.vendor.forbiddenSlot(member.object) {
				found = append(found, member)
			}
		}
	}
	rank := func(slot *resource) int {
		rank := drives(slot.object)
		if slot.target(insertAction) == "" {
			rank += 2 // it is written to, if at all
		}
		return rank
	}
	slices.SortStableFunc(found, func(a, b *resource) int { return rank(a) - rank(b) })
	return found, nil
}

// drives is 0 for a drive that takes CDs, 1 for one that takes DVDs, 2 for another one.
func drives(slot object) int {
	types := slot.texts("MediaTypes")
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

// inserted tells whether a drive has something in it.
func inserted(slot object) bool {
	if slot.has("Inserted") {
		return slot.flag("Inserted")
	}
	return slot.text("Image") != "" || slot.text("ImageName") != ""
}

// holds tells whether it is that image. Some BMCs show the file's name alone.
func holds(slot object, image string) bool {
	shown := orText(slot.text("Image"), slot.text("ImageName"))
	if shown == image {
		return true
	}
	parsed, err := url.Parse(image)
	return err == nil && shown != "" && path.Base(parsed.Path) == path.Base(shown)
}

// ejectAll empties all the drives that have something in them. It is the error of the first that
// stays full although it can be emptied.
func (s *session) ejectAll(ctx context.Context, slots []*resource) error {
	for _, slot := range slots {
		if !inserted(slot.object) {
			continue
		}
		if err := s.eject(ctx, slot); err != nil {
			return err
		}
	}
	return nil
}

// eject empties a drive and waits until it says so.
func (s *session) eject(ctx context.Context, slot *resource) error {
	var err error
	if target := slot.target(ejectAction); target != "" {
		err = s.post(ctx, target, map[string]any{}) // HPE refuses a request without a body
	} else {
		err = s.patch(ctx, slot, map[string]any{"Image": nil, "Inserted": false})
	}
	refusal, refused := asFailure(err)
	if err != nil && (!refused || refusal.status == 0 || refusal.status == http.StatusUnauthorized) {
		return err
	}
	empty, lookErr := s.until(ctx, mediaPause, ejectPatience, func() (bool, error) {
		fresh, err := s.get(ctx, slot.path)
		if err != nil {
			return false, err
		}
		*slot = *fresh
		return !inserted(slot.object) || slot.has("Inserted") && slot.text("Image") == "" &&
			slot.text("ImageName") == "" || err == nil && refused, nil
	})
	switch {
	case lookErr != nil:
		return lookErr
	case refused && inserted(slot.object) && refusal.inUse():
		return s.stuck(slot, refusal)
	case refused && inserted(slot.object) && (slot.target(ejectAction) != "" ||
		refusal.status != http.StatusMethodNotAllowed && refusal.status != http.StatusNotFound):
		return err
	case !empty && !refused:
		s.note(true, "Eject", "The BMC says that it ejected what was in %s, and still shows it there.", slot.path)
	}
	return nil
}

// insert puts the image into the first drive that takes it, and returns that.
func (s *session) insert(ctx context.Context, slots []*resource) (*resource, error) {
	var first error
	for _, slot := range slots {
		err := s.insertInto(ctx, slot)
		if err == nil {
			return slot, nil
		}
		f, ok := asFailure(err)
		if !ok || f.imageUnreachable() || f.imageRefused() || f.licence() || f.status != http.StatusBadRequest &&
			f.status != http.StatusNotFound && f.status != http.StatusMethodNotAllowed {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return nil, &Error{Type: ProvisioningError,
			Message: fmt.Sprintf("The BMC of %s at %s has no virtual CD or DVD drive; see that virtual media is "+
				"switched on, licensed, and known to its firmware.", s.name, s.address.URL)}
	}
	return nil, first
}

// insertInto inserts with as little as the BMC takes: what it asks for is added, what it does not
// know is left out. Inserted and WriteProtected are not given unasked, because Supermicro's X11 and
// X12 refuse them.
func (s *session) insertInto(ctx context.Context, slot *resource) error {
	target := slot.target(insertAction)
	body := map[string]any{"Image": s.image}
	if target == "" {
		body["Inserted"], body["WriteProtected"] = true, true
	}
	emptied := false
	for range formsTried {
		var err error
		if target != "" {
			err = s.run(ctx, request{method: http.MethodPost, path: target, body: body, timeout: insertTimeout})
		} else {
			err = s.patch(ctx, slot, body)
		}
		if err == nil {
			return s.seen(ctx, slot)
		}
		f, ok := asFailure(err)
		if !ok {
			return err
		}
		switch {
		case f.inUse():
			if emptied {
				return s.seenInUse(ctx, slot, f)
			}
			emptied = true
			if err := s.eject(ctx, slot); err != nil {
				return err
			}
		case f.status >= 500 || !s.adapt(body, f):
			return err
		}
	}
	return &Error{Type: ProvisioningError,
		Message: fmt.Sprintf("The BMC of %s at %s keeps asking for something else when an image is inserted into %s; "+
			"see its conversation.", s.name, s.address.URL, slot.path)}
}

// seenInUse looks whether a drive that is in use has what was to be inserted.
func (s *session) seenInUse(ctx context.Context, slot *resource, refusal *failure) error {
	fresh, err := s.get(ctx, slot.path)
	if err != nil {
		return err
	}
	if *slot = *fresh; inserted(slot.object) && holds(slot.object, s.image) {
		return nil
	}
	return s.stuck(slot, refusal)
}

func (s *session) stuck(slot *resource, f *failure) error {
	coded := ""
	if f.code() != "" {
		coded = " (" + f.code() + ")"
	}
	return &Error{Type: ProvisioningError, Code: f.code(), Err: f,
		Message: fmt.Sprintf("The virtual drive of %s (%s) is in use and can't be emptied%s; close remote consoles "+
			"that share a medium, or restart the BMC; it says: %q.", s.name, slot.path, coded, f.said())}
}

// adapt alters what is inserted as an answer asks for; it is false when there is nothing to alter.
func (s *session) adapt(body map[string]any, f *failure) bool {
	if f.unknown() {
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
	for _, asked := range []struct{ name, value string }{
		{"TransferProtocolType", protocol}, {"TransferMethod", "Stream"}, {"UserName", "none"}, {"Password", "none"},
		{"MediaType", "CD"},
	} {
		if _, given := body[asked.name]; !given && f.missing(asked.name) {
			body[asked.name] = asked.value
			altered = true
		}
	}
	for _, name := range []string{"Inserted", "WriteProtected"} {
		if _, given := body[name]; !given && f.missing(name) {
			body[name] = true
			altered = true
		}
	}
	if _, user := body["UserName"]; user && body["Password"] == nil {
		body["Password"] = "none"
	}
	return altered
}

// seen waits until a drive says that it has the image.
func (s *session) seen(ctx context.Context, slot *resource) error {
	there, err := s.until(ctx, mediaPause, insertPatience, func() (bool, error) {
		fresh, err := s.get(ctx, slot.path)
		if err != nil {
			return false, err
		}
		*slot = *fresh
		return inserted(slot.object) && holds(slot.object, s.image), nil
	})
	if err != nil || there {
		return err
	}
	return &Error{Type: ProvisioningError,
		Message: fmt.Sprintf("The BMC of %s at %s took the image %s and does not show it in %s after %s; see that it "+
			"reaches this address and port from its own network.", s.name, s.address.URL, s.imageShown(), slot.path,
			insertPatience)}
}

// imageShown is the image's URL without its secret.
func (s *session) imageShown() string { return redact(s.image, s.password) }
