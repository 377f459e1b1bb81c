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

// What is kept, and under which keys.
var (
	serverRows       = store.NewBucket[row]("bmcs", 1)                       // <id>
	conversationRows = store.NewBucket[Conversation]("bmc-conversations", 1) // <id>/<number, 16 hex digits>
	serverNames      = store.NewIndex("bmcs-by-name")                        // <name>\x00<id>
)

// historyLength is how many notes of a server are kept.
const historyLength = 50

// row is a server as it is kept: its password is sealed.
type row struct {
	Server
	// Wish is raised by whatever changes what is wanted; work that was begun for an older one ends.
	Wish     uint64    `json:"wish"`
	Step     step      `json:"step,omitempty"` // of the boot sequence that goes on
	Image    string    `json:"booting_image,omitempty"`
	EjectAt  time.Time `json:"eject_at,omitzero"`
	EjectWhy string    `json:"eject_why,omitempty"`
	Repair   bool      `json:"repair,omitempty"`    // it came up from the image again: restart it into its disk
	PowerOff bool      `json:"power_off,omitempty"` // before it is forgotten
}

// note takes down what happened; the oldest notes go.
func (r *row) note(now time.Time, warning bool, reason, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if n := len(r.History); n > 0 {
		last := r.History[n-1]
		if last.Message == message {
			return
		}
		if !now.After(last.At) { // whoever follows the history goes on behind the time of the last note
			now = last.At.Add(1)
		}
	}
	r.History = append(r.History, Note{At: now, Reason: reason, Message: message, Warning: warning})
	if extra := len(r.History) - historyLength; extra > 0 {
		r.History = append([]Note(nil), r.History[extra:]...)
	}
}

// shown is what others may see of a row.
func (r *row) shown() *Server {
	server := r.Server
	server.Password, server.Doing = "", r.doing()
	return &server
}

// doing is what goes on with a server, or is waited for.
func (r *row) doing() string {
	switch {
	case r.State == Deleting:
		return "It is being removed."
	case r.Error != nil && !r.Error.RetryAt.IsZero():
		return "It is tried again at " + r.Error.RetryAt.Format(time.TimeOnly) + " UTC."
	case r.System == nil, !r.CredentialsGood:
		return "Its BMC is being asked what it is."
	case r.State == Provisioning:
		return "It is being booted from the image: " + doing[r.Step] + "."
	case r.State == Deprovisioning:
		return "The image is being taken out, and the server switched off."
	case r.Pending != nil:
		return fmt.Sprintf("The order %q waits for its turn.", r.Pending.Kind)
	case r.Repair:
		return "It came up from the image where its disk was expected; it is being restarted into its disk."
	case !r.EjectAt.IsZero():
		return "The image is ejected at " + r.EjectAt.Format(time.TimeOnly) + " UTC, because " + r.EjectWhy + "."
	case r.State == Provisioned && r.Booted != nil && r.Booted.Host == nil && r.Error == nil:
		return "It was switched on with the image; its agent has not registered yet."
	}
	return ""
}

// bootedAsWanted tells whether the server was booted from the image that is wanted now.
func (r *row) bootedAsWanted() bool {
	if r.Booted == nil {
		return false
	}
	if r.ImageURL != "" {
		return r.Booted.ImageURL == r.ImageURL
	}
	return r.Booted.InfraEnvID == r.InfraEnvID
}

// RequestError says what is wrong with what was asked for.
type RequestError struct {
	Field  string // of Desired as JSON, "" if it is about no field
	Reason string
}

// Error implements error.
func (e *RequestError) Error() string { return e.Reason }

// FaultKind implements fault.Classified.
func (*RequestError) FaultKind() fault.Kind { return fault.Invalid }

// ConflictError says why something can't be done now.
type ConflictError struct{ Reason string }

// Error implements error.
func (e *ConflictError) Error() string { return e.Reason }

// FaultKind implements fault.Classified.
func (*ConflictError) FaultKind() fault.Kind { return fault.Conflict }

// NotFoundError says that there is no such server.
type NotFoundError struct{ ID string }

// Error implements error.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("There is no BMC %s; landfall bmc list shows those that there are.", e.ID)
}

// FaultKind implements fault.Classified.
func (*NotFoundError) FaultKind() fault.Kind { return fault.NotFound }

var (
	idForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	nameForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)
)

// maxImageURL is how many bytes of an image's URL all BMCs take: several cut off what is longer.
const maxImageURL = 255

// checked returns what is wanted in its normal form, or a *RequestError.
func (d Desired) checked() (Desired, error) {
	refuse := func(field, format string, args ...any) (Desired, error) {
		return d, &RequestError{field, fmt.Sprintf(format, args...)}
	}
	d.Name, d.Address = strings.TrimSpace(d.Name), strings.TrimSpace(d.Address)
	if !nameForm.MatchString(d.Name) {
		return refuse("name", "The name %q of the server is none; letters, digits, dots, hyphens and slashes are "+
			"allowed, at most 253 of them.", d.Name)
	}
	address, err := ParseAddress(d.Address)
	if err != nil {
		return refuse("address", "%s", err)
	}
	if d.Username == "" {
		return refuse("username", "The user name for the BMC of %s is missing.", d.Name)
	}
	if d.Password == "" {
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
		return refuse("boot_mode", "The boot mode %q of %s is none; it is UEFI, UEFISecureBoot or legacy, or left out.",
			d.BootMode, d.Name)
	}
	if address.HTTPBoot && d.BootMode == "legacy" {
		return refuse("boot_mode",
			"The server %s shall boot in the mode legacy, and %s is for UEFI only; leave the mode out, or write "+
				"redfish-virtualmedia in the BMC's address.", d.Name, httpBootScheme)
	}
	if d.Boot && d.ImageURL == "" && d.InfraEnvID == "" {
		return refuse("infra_env_id", "The server %s shall boot, but it is not said from what; name an infra-env.",
			d.Name)
	}
	if d.ImageURL != "" {
		if err := CheckImageURL(d.ImageURL); err != nil {
			return refuse("image_url", "%s", err)
		}
	}
	return d, nil
}

var errNotPEM = errors.New("they are not PEM certificates, which begin with -----BEGIN CERTIFICATE-----")
