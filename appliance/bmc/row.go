package bmc

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"landfall/appliance/fault"
	"landfall/store"
)

// The buckets and their keys.
var (
	serverRows     = store.NewBucket[row]("bmcs", 1)                     // <id>
	requestLogRows = store.NewBucket[RequestLog]("bmc-conversations", 1) // <id>/<number, 16 hex digits>
	serverNames    = store.NewIndex("bmcs-by-name")                      // <name>\x00<id>
)

// ServerPrefix returns the prefix of the keys of all servers in the store. The rest of a key is the
// server's id.
func ServerPrefix() string { return serverRows.Prefix() }

// historyLength limits the events of a server.
const historyLength = 50

// row is the stored form of a server. Its password is encrypted.
type row struct {
	Server
	// Generation is incremented by each change of the desired state. A job of an older generation
	// is canceled.
	Generation uint64 `json:"wish"`
	Step       step   `json:"step,omitempty"` // current step of the boot sequence
	Image      string `json:"booting_image,omitempty"`
	// Former are the registrations of the machine's hosts when its boot powered it on.
	Former      []registration `json:"former,omitempty"`
	EjectAt     time.Time      `json:"eject_at,omitzero"`
	EjectReason string         `json:"eject_why,omitempty"`
	// the server booted the image again and must be restarted from its disk
	Repair  bool `json:"repair,omitempty"`
	Inspect bool `json:"inspect,omitempty"` // inspect the BMC before the pending action
	// A BMC was about to be asked to restart the server. The outcome is not stored.
	Restarting bool `json:"restarting,omitempty"`
	Rejections int  `json:"rejections,omitempty"` // how often in succession the BMC rejected the credentials
	PowerOff   bool `json:"power_off,omitempty"`  // power the server off before it is removed
}

// registration is a registration of a host.
type registration struct {
	HostRef
	At int64 `json:"at"` // Unix time in milliseconds, as the engine stores it
}

// registrationOf returns the last registration of a host.
func registrationOf(host Host) registration {
	return registration{host.HostRef, host.Registered.UnixMilli()}
}

// addEvent adds an event to the history and drops the oldest events above the limit. It adds a
// warning once while only warnings follow: a job that fails repeatedly may have several.
func (r *row) addEvent(now time.Time, warning bool, reason, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	for i := len(r.History) - 1; i >= 0; i-- {
		if r.History[i].Message == message {
			return // an attempt failed like an earlier one
		}
		if !warning || !r.History[i].Warning {
			break
		}
	}
	if n := len(r.History); n > 0 {
		last := r.History[n-1]
		if !now.After(last.At) { // clients read the events after the time of their last event
			now = last.At.Add(1)
		}
	}
	r.History = append(r.History, Event{At: now, Reason: reason, Message: message, Warning: warning})
	if extra := len(r.History) - historyLength; extra > 0 {
		r.History = append([]Event(nil), r.History[extra:]...)
	}
}

// server returns the public form of a row.
func (r *row) server(now time.Time) *Server {
	server := r.Server
	server.Password, server.Activity = "", r.activity(now)
	return &server
}

// activity describes the current or the next operation.
func (r *row) activity(now time.Time) string {
	switch {
	case r.State == Deleting:
		return "It is being removed."
	case r.DuplicateOf != "":
		return "It waits, because the server " + r.DuplicateOf + " controls the same machine."
	case r.PasswordRemoved:
		return "It waits for the password of its BMC."
	case r.Error != nil && r.Error.RetryAt.After(now):
		return "The next attempt is at " + r.Error.RetryAt.Format(time.TimeOnly) + " UTC."
	case r.System == nil, !r.CredentialsGood:
		return "Its BMC is being inspected."
	case r.State == Provisioning:
		return "It is being booted from the image. Current step: " + stepText[r.Step] + "."
	case r.State == Deprovisioning:
		return "The image is being ejected and the server powered off."
	case r.Pending != nil:
		return fmt.Sprintf("The action %q is pending.", r.Pending.Kind)
	case r.Repair:
		return "It booted the image again instead of its disk; it is being restarted from its disk."
	case !r.EjectAt.IsZero():
		return "The image is ejected at " + r.EjectAt.Format(time.TimeOnly) + " UTC, because " + r.EjectReason + "."
	case r.State == Provisioned && r.Booted != nil && r.Booted.Host == nil && r.Error == nil:
		return "It was powered on with the image; its agent has not registered yet."
	case r.Error != nil && !r.Error.RetryAt.IsZero():
		return "The next attempt is running."
	}
	return ""
}

// bootedDesiredImage reports whether the server was booted from the desired image.
func (r *row) bootedDesiredImage() bool {
	if r.Booted == nil {
		return false
	}
	if r.ImageURL != "" {
		return r.Booted.ImageURL == r.ImageURL
	}
	return r.Booted.InfraEnvID == r.InfraEnvID
}

// RequestError reports an invalid request.
type RequestError struct {
	Field  string // JSON name of the invalid field of Desired, or ""
	Reason string
}

// Error implements error.
func (e *RequestError) Error() string { return e.Reason }

// FaultKind implements fault.Classified.
func (*RequestError) FaultKind() fault.Kind { return fault.Invalid }

// ConflictError reports why a request is not possible in the current state.
type ConflictError struct{ Reason string }

// Error implements error.
func (e *ConflictError) Error() string { return e.Reason }

// FaultKind implements fault.Classified.
func (*ConflictError) FaultKind() fault.Kind { return fault.Conflict }

// NotFoundError reports that the server does not exist.
type NotFoundError struct{ ID string }

// Error implements error.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("There is no BMC %s; landfall bmc list shows the existing ones.", e.ID)
}

// FaultKind implements fault.Classified.
func (*NotFoundError) FaultKind() fault.Kind { return fault.NotFound }

var (
	idForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	nameForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)
)

// maxImageURL is the length of a URL in bytes that all BMCs accept. Several BMCs truncate longer
// URLs.
const maxImageURL = 255

// validated returns the desired state in its normal form, or a *RequestError.
func (d Desired) validated() (Desired, error) { return d.checked(true) }

// checked is like validated. It accepts a missing password if the server may wait for it.
func (d Desired) checked(passwordNeeded bool) (Desired, error) {
	refuse := func(field, format string, args ...any) (Desired, error) {
		return d, &RequestError{field, fmt.Sprintf(format, args...)}
	}
	d.Name, d.Address = strings.TrimSpace(d.Name), strings.TrimSpace(d.Address)
	if !nameForm.MatchString(d.Name) {
		return refuse("name", "The name %q of the server is invalid; letters, digits, dots, hyphens and slashes are "+
			"allowed, at most 253 of them.", d.Name)
	}
	address, err := ParseAddress(d.Address)
	if err != nil {
		return refuse("address", "%s", err)
	}
	if d.Username == "" {
		return refuse("username", "The user name for the BMC of %s is missing.", d.Name)
	}
	if d.Password == "" && passwordNeeded {
		return refuse("password", "The password for the BMC of %s is missing.", d.Name)
	}
	if d.BootMAC != "" {
		mac, err := ParseMAC(d.BootMAC)
		if err != nil {
			return refuse("boot_mac", "%s", err)
		}
		d.BootMAC = mac
	}
	if err := checkCA(d.CA); err != nil {
		return refuse("ca", "The CA certificates for the BMC of %s can't be used: %s.", d.Name, err)
	}
	switch d.BootMode {
	case "", "UEFI", "UEFISecureBoot", "legacy":
	default:
		return refuse("boot_mode", "The boot mode %q of %s is invalid; use UEFI, UEFISecureBoot or legacy, or omit it.",
			d.BootMode, d.Name)
	}
	if address.HTTPBoot && d.BootMode == "legacy" {
		return refuse("boot_mode",
			"The server %s has the boot mode legacy, but %s is for UEFI only; omit the mode, or write "+
				"redfish-virtualmedia in the BMC's address.", d.Name, httpBootScheme)
	}
	if d.Boot && d.ImageURL == "" && d.InfraEnvID == "" {
		return refuse("infra_env_id", "The server %s has no image to boot; name an infra-env.",
			d.Name)
	}
	if d.ImageURL != "" {
		if err := CheckImageURL(d.ImageURL); err != nil {
			return refuse("image_url", "%s", err)
		}
	}
	return d, nil
}

var errNotPEM = errors.New("the text is not a PEM certificate, which begins with -----BEGIN CERTIFICATE-----")
