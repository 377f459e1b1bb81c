package redfish

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	postTime  = 12 * time.Second // power-on self-test of the firmware
	staleTime = 5 * time.Second
	taskTime  = 4 * time.Second
	// longestURL is the maximum length of an image's URL in bytes.
	longestURL = 255
	// shortURL is the maximum length of a URL for UEFI HTTP boot with HTTPBootShort, in bytes.
	shortURL = 32
	outage   = 40 * time.Second
)

// act runs an action.
func (b *BMC) act(w http.ResponseWriter, r *http.Request, path string, given fields,
	body bool) (fields, int, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if denied := b.hindered(); denied != nil {
		return nil, 0, denied
	}
	if system, ok := strings.CutSuffix(path, "/Actions/ComputerSystem.Reset"); ok && system == b.systemPath() &&
		!b.has(NoReset) {
		kind, _ := given["ResetType"].(string)
		return nil, http.StatusNoContent, b.reset(kind)
	}
	for _, base := range b.mediaPaths() {
		rest, ok := strings.CutPrefix(path, base+"/")
		if !ok {
			continue
		}
		id, action, _ := strings.Cut(rest, "/Actions/VirtualMedia.")
		d := b.drives[id]
		if d == nil || b.options.Profile.Written {
			break
		}
		switch action {
		case "InsertMedia":
			return b.insertMedia(w, r, d, given)
		case "EjectMedia":
			if b.options.Profile.BodyForEject && !body {
				return nil, 0, refuse(http.StatusUnsupportedMediaType, "MalformedJSON", "The request has no body.")
			}
			return nil, http.StatusNoContent, b.eject(d)
		}
	}
	return nil, 0, refuse(http.StatusNotFound, "ResourceMissingAtURI", "The resource at the URI '%s' was not found.",
		path)
}

// reset changes the power. The caller holds the mutex.
func (b *BMC) reset(kind string) *refusal {
	if !slices.Contains(resetTypes, kind) {
		return refuse(http.StatusNotImplemented, "ActionParameterNotSupported",
			"The parameter ResetType with the value '%s' is not supported.", kind)
	}
	switch kind {
	case "On":
		if b.power == "On" || b.power == "PoweringOn" {
			return refuse(http.StatusConflict, "InvalidOperationForSystemState", "The host is already powered on.")
		}
		if b.strikes(On409, 1, 2) {
			return refuse(http.StatusConflict, "ActionParameterValueConflict",
				"The parameter ResetType with the requested value conflicts with the present state.")
		}
		b.move("On", "On", b.start)
	case "ForceOff", "GracefulShutdown", "PushPowerButton":
		if b.power == "Off" {
			if b.has(Off400) || kind == "GracefulShutdown" {
				return refuse(http.StatusBadRequest, "InvalidOperationForSystemState",
					"The server is already powered off.")
			}
			return nil
		}
		if b.has(PowerStuck) {
			return nil
		}
		b.move(kind, "Off", b.stop)
		if b.has(PowerLost) && b.counts["lost"] == 0 {
			b.counts["lost"]++
			b.unplug(outage)
		}
	case "ForceRestart":
		if b.power == "Off" {
			return refuse(http.StatusConflict, "InvalidOperationForSystemState", "The server is powered off.")
		}
		b.move(kind, "On", b.start)
	}
	b.versions[b.systemPath()]++
	return nil
}

// insertMedia handles the action InsertMedia. The caller holds the mutex.
func (b *BMC) insertMedia(w http.ResponseWriter, r *http.Request, d *drive, given fields) (fields, int, *refusal) {
	p := b.options.Profile
	if d.Internal {
		return nil, 0, refuse(http.StatusBadRequest, "OperationNotAllowed", "This drive is for the remote console.")
	}
	for _, name := range p.Refused {
		if _, ok := given[name]; ok {
			return nil, 0, refuse(http.StatusBadRequest, "PropertyUnknown",
				"The property %s is not in the list of valid properties for the resource.", name)
		}
	}
	for _, name := range p.Wanted {
		if _, ok := given[name]; !ok {
			return nil, 0, refuse(http.StatusBadRequest, "ActionParameterMissing",
				"The action VirtualMedia.InsertMedia requires the parameter %s to be present in the request body.",
				name)
		}
	}
	image, _ := given["Image"].(string)
	if denied := b.checkImage(r, d, image); denied != nil {
		return nil, 0, denied
	}
	return b.fill(w, d, image)
}

// fill inserts an image into a drive, immediately or as a task. The caller holds the mutex.
func (b *BMC) fill(w http.ResponseWriter, d *drive, image string) (fields, int, *refusal) {
	if b.has(TaskFails) || b.has(TaskSlow) || b.options.Profile.Tasks {
		b.nextID++
		id := strconv.Itoa(b.nextID)
		b.tasks[id] = &task{ends: b.clock.Now().Add(taskTime), fails: b.has(TaskFails)}
		w.Header().Set("Location", root+"/TaskService/Tasks/"+id)
		if !b.has(TaskFails) {
			b.clock.AfterFunc(taskTime, func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				d.load(image)
			})
		}
		return b.taskAt(root+"/TaskService/Tasks/"+id, id), http.StatusAccepted, nil
	}
	d.load(image)
	d.stale = time.Time{}
	return nil, http.StatusNoContent, nil
}

// checkImage returns the reason why an image cannot be inserted. The caller holds the mutex.
// checkImage releases it while the image is read.
func (b *BMC) checkImage(r *http.Request, d *drive, image string) *refusal {
	switch {
	case d.Internal:
		return refuse(http.StatusBadRequest, "OperationNotAllowed", "This drive is for the remote console.")
	case b.has(NoLicence):
		return refuse(http.StatusForbidden, "LIC016",
			"The operation can't be done because the licence for virtual media is not there.")
	case d.image != "" || d.kept:
		return b.inUse()
	case b.has(Insert500), b.strikes(Insert500Once, 1):
		return refuse(http.StatusInternalServerError, "InternalError",
			"The request failed due to an internal service error. The service is still operational.")
	}
	parsed, err := url.Parse(image)
	switch {
	case err != nil || parsed.Host == "":
		return refuse(http.StatusBadRequest, "PropertyValueFormatError",
			"The value of the property Image is of a different format than the property can accept.")
	case len(image) > longestURL:
		return refuse(http.StatusBadRequest, "StringValueTooLong", "The string '%s' exceeds the length limit %d.",
			image[:20], longestURL)
	case parsed.RawQuery != "":
		return refuse(http.StatusBadRequest, "PropertyValueFormatError", "The value of the property Image has a query.")
	case !strings.HasSuffix(parsed.Path, ".iso") && !strings.HasSuffix(parsed.Path, ".img"):
		return refuse(http.StatusBadRequest, "PropertyValueFormatError",
			"The value of the property Image must have the extension .iso or .img.")
	}
	b.mu.Unlock()
	err = b.probe(r.Context(), image)
	b.mu.Lock()
	if err != nil {
		b.log.Debug("A simulated BMC could not read an image.", "image", image, "error", err)
		return refuse(http.StatusBadRequest, "IDRAC.2.8.RAC0904",
			"Unable to locate the ISO or IMG image file or folder in the network share location because the file or "+
				"folder path or the user credentials entered are incorrect.")
	}
	return nil
}

func (b *BMC) inUse() *refusal {
	switch {
	case b.has(InUse500):
		return refuse(http.StatusInternalServerError, "IDRAC.2.8.VRM0021",
			"Virtual Media is detached or Virtual Media redirection for the selected Virtual Media is in use.")
	case b.has(InUse400):
		return refuse(http.StatusBadRequest, "GeneralError", "An image is already inserted.")
	}
	return refuse(http.StatusConflict, "ResourceInUse",
		"The change to the requested resource failed because the resource is in use or in transition.")
}

// eject empties a drive. The caller holds the mutex.
func (b *BMC) eject(d *drive) *refusal {
	if d.image == "" && !d.kept {
		if b.has(EjectEmpty400) {
			return refuse(http.StatusBadRequest, "OperationFailed", "There is nothing inserted.")
		}
		return nil
	}
	if b.has(StuckMedia) {
		return refuse(http.StatusInternalServerError, "IDRAC.2.8.VRM0021",
			"Virtual Media is detached or Virtual Media redirection for the selected Virtual Media is in use.")
	}
	if b.has(EjectKeeps) && !d.kept {
		d.shown, d.kept = d.image, true
		d.unload()
		return nil
	}
	if b.has(StaleInserted) {
		d.shown, d.stale = d.image, b.clock.Now().Add(staleTime)
	}
	d.unload()
	d.kept = false
	return nil
}

// change handles a PATCH of a resource.
func (b *BMC) change(w http.ResponseWriter, r *http.Request, path string, given fields) (fields, int, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.resource(path) == nil {
		return nil, 0, refuse(http.StatusNotFound, "ResourceMissingAtURI",
			"The resource at the URI '%s' was not found.", path)
	}
	if denied := b.hindered(); denied != nil {
		return nil, 0, denied
	}
	if denied := b.tagged(r, path); denied != nil {
		return nil, 0, denied
	}
	answer, status, denied := b.changed(w, r, path, given)
	if denied == nil {
		b.versions[path]++
	}
	return answer, status, denied
}

func (b *BMC) changed(w http.ResponseWriter, r *http.Request, path string, given fields) (fields, int, *refusal) {
	p := b.options.Profile
	if boot, ok := given["Boot"].(map[string]any); ok && (path == b.systemPath() && !p.SettingsBoot ||
		path == b.systemPath()+"/Settings") {
		return nil, http.StatusNoContent, b.setBoot(boot)
	}
	if attributes, ok := given["Attributes"].(map[string]any); ok && path == b.managerPath()+"/Attributes" {
		for name, value := range attributes {
			b.dellBoot[name], _ = value.(string)
		}
		return nil, http.StatusOK, nil
	}
	for _, base := range b.mediaPaths() {
		if id, ok := strings.CutPrefix(path, base+"/"); ok && p.Written {
			return b.writeDrive(w, r, b.drives[id], given)
		}
	}
	return nil, 0, refuse(http.StatusMethodNotAllowed, "OperationNotAllowed",
		"The HTTP method is not allowed on this resource.")
}

func (b *BMC) writeDrive(w http.ResponseWriter, r *http.Request, d *drive, given fields) (fields, int, *refusal) {
	if image, ok := given["Image"].(string); ok && given["Inserted"] == true {
		if denied := b.checkImage(r, d, image); denied != nil {
			return nil, 0, denied
		}
		return b.fill(w, d, image)
	}
	if image, ok := given["Image"]; ok && image == nil {
		return nil, http.StatusNoContent, b.eject(d)
	}
	return nil, 0, refuse(http.StatusBadRequest, "PropertyMissing",
		"The property Image is a required property and must be included in the request.")
}

func (b *BMC) setBoot(given fields) *refusal {
	p := b.options.Profile
	if b.has(BootInPOST) && b.clock.Since(b.since) < postTime {
		return refuse(http.StatusBadRequest, "iLO.2.14.UnableToModifyDuringSystemPOST",
			"Unable to modify the property during the system POST.")
	}
	target, _ := given["BootSourceOverrideTarget"].(string)
	enabled, _ := given["BootSourceOverrideEnabled"].(string)
	mode, _ := given["BootSourceOverrideMode"].(string)
	if p.WholeBoot && (target == "" || enabled == "" || mode == "") {
		return refuse(http.StatusBadRequest, "PropertyMissing",
			"The property BootSourceOverrideMode is a required property and must be included in the request.")
	}
	if !slices.Contains(p.Targets, target) {
		return refuse(http.StatusBadRequest, "PropertyValueNotInList",
			"The value '%s' for the property BootSourceOverrideTarget is not in the list of acceptable values.", target)
	}
	if denied := b.setHTTPBoot(given, target); denied != nil {
		return denied
	}
	b.boot["Target"], b.boot["Enabled"] = target, enabled
	if p.NoOnce && enabled == "Once" {
		b.boot["Enabled"] = "Continuous"
	}
	if mode != "" {
		b.boot["Mode"] = mode
	}
	return nil
}

// setHTTPBoot sets the URL of UEFI HTTP boot. An override without a URL removes it.
func (b *BMC) setHTTPBoot(given fields, target string) *refusal {
	wanted, asked := given["HttpBootUri"]
	if !asked {
		return nil
	}
	address, _ := wanted.(string)
	switch {
	case !slices.Contains(b.options.Profile.Targets, "UefiHttp"):
		return refuse(http.StatusBadRequest, "PropertyUnknown",
			"The property HttpBootUri is not in the list of valid properties for the resource.")
	case b.options.Profile.NoHTTPBootURI:
		return refuse(http.StatusBadRequest, "PropertyNotWritableOrUnknown",
			"The property HttpBootUri is a read-only property, or unknown, and can't be assigned a value.")
	case b.has(HTTPBootShort) && len(address) > shortURL:
		return refuse(http.StatusBadRequest, "StringValueTooLong",
			"The string for the property HttpBootUri exceeds the length limit %d.", shortURL)
	case b.has(HTTPBootPlain) && strings.HasPrefix(address, "https:"):
		return refuse(http.StatusBadRequest, "PropertyValueFormatError",
			"The value of the property HttpBootUri is of a different format than the property can accept.")
	case target == "UefiHttp" && given["BootSourceOverrideMode"] != "UEFI":
		return refuse(http.StatusBadRequest, "PropertyValueConflict",
			"The property BootSourceOverrideTarget can't be UefiHttp in this BootSourceOverrideMode.")
	}
	b.boot["HttpBootUri"] = address
	return nil
}
