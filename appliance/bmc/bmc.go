// Package bmc drives servers by their baseboard management controllers over Redfish: it logs in,
// finds the system, inserts an image as virtual media, boots from it once, and takes the image out
// when the machine installs from its disk.
//
// What is wanted of a server is a level, not an order: [Manager.Ensure] says what shall be, a
// worker per server brings it about, and the outcome is read with [Manager.Server] and followed
// with [Manager.Observe]. Everything a worker must know after a crash lies in the store, each step
// of a boot sequence too. What people press (boot now, power, eject) is kept as an order beside the
// level.
//
//	address.go       what a BMC's address may look like
//	manager.go       the servers and what is wanted of them
//	worker.go        what a server's worker does next
//	boot.go          the boot sequence and the end of it
//	media.go         virtual media: slots, insert, eject
//	httpboot.go      UEFI HTTP boot, without virtual media
//	power.go         power and boot override
//	vendor.go        what vendors do otherwise
//	session.go       one conversation with a BMC: login, retries, tasks, ETags
//	conversation.go  what was said, kept for people, without secrets
package bmc

import (
	"time"
)

// Desired is what somebody wants of a server.
type Desired struct {
	// Name is what people call the server; of a BareMetalHost namespace/name. It is unique.
	Name string `json:"name"`
	// Owner is what decides about the server when people at the page and at REST do not, such as
	// "BareMetalHost site/node0".
	Owner string `json:"owner,omitempty"`
	// Address is the BMC's, see [ParseAddress].
	Address  string `json:"address"`
	Username string `json:"username"`
	// Password is sealed in the store and never shown. Empty in Ensure means none, not the one
	// before.
	Password string `json:"password,omitempty"`
	// SkipVerify accepts any certificate of the BMC. It is by explicit choice only.
	SkipVerify bool `json:"skip_verify,omitempty"`
	// CA are PEM certificates that are trusted beside the system's for this BMC.
	CA string `json:"ca,omitempty"`
	// BootMAC is a MAC address of the server by which its agent is known again; "" leaves it to
	// serial number and UUID.
	BootMAC string `json:"boot_mac,omitempty"`
	// BootMode is "", UEFI, UEFISecureBoot or legacy; "" leaves the server's as it is.
	BootMode string `json:"boot_mode,omitempty"`
	// InfraEnvID names the infra-env whose image the server boots, by its short URL.
	InfraEnvID string `json:"infra_env_id,omitempty"`
	// ImageURL is another image in its place.
	ImageURL string `json:"image_url,omitempty"`
	// Boot says that the server shall have been booted from the image. An image that differs from
	// the one that it was booted from boots it anew; false, after it was booted, ejects and powers
	// off (deprovisioning).
	Boot bool `json:"boot,omitempty"`
	// Online says whether the server shall be powered; nil leaves its power alone.
	Online *bool `json:"online,omitempty"`
	// Detached servers are looked at now and then, and otherwise left alone.
	Detached bool `json:"detached,omitempty"`
}

// State is where a server is, in metal3's words (provisioning.state of a BareMetalHost).
type State string

// The states of a server.
const (
	Registering    State = "registering"    // the BMC was not spoken to yet, or refuses
	Available      State = "available"      // it is known and has nothing to boot
	Provisioning   State = "provisioning"   // the image is being inserted and booted
	Provisioned    State = "provisioned"    // it was powered on with the image
	Deprovisioning State = "deprovisioning" // the image is being taken out, and the server powered off
	Deleting       State = "deleting"       // likewise, and then it is forgotten
)

// Power is a server's power as its BMC tells it.
type Power string

// What a BMC says of the power.
const (
	PowerUnknown Power = ""
	PowerOn      Power = "on"
	PowerOff     Power = "off"
	PoweringOn   Power = "powering-on"
	PoweringOff  Power = "powering-off"
)

// ErrorType is what went wrong, in metal3's words (status.errorType of a BareMetalHost).
type ErrorType string

// The types of errors.
const (
	RegistrationError            ErrorType = "registration error"
	InspectionError              ErrorType = "inspection error"
	PreparationError             ErrorType = "preparation error"
	ProvisioningError            ErrorType = "provisioning error"
	PowerManagementError         ErrorType = "power management error"
	ProvisionedRegistrationError ErrorType = "provisioned registration error"
	DetachError                  ErrorType = "detach error"
)

// Trouble is the error that a server is in.
type Trouble struct {
	Type ErrorType `json:"type"`
	// Message is a sentence: what is wrong, where, what to do. It has no credentials.
	Message string `json:"message"`
	// Code is the vendor's or the registry's, such as RAC0904, where the BMC gave one.
	Code string `json:"code,omitempty"`
	// Count is how often it happened in a row.
	Count int       `json:"count"`
	Since time.Time `json:"since"`
	// RetryAt is when it is tried again.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// System is what the BMC tells of the server.
type System struct {
	Path         string   `json:"path"` // of the resource, such as /redfish/v1/Systems/1
	Vendor       Vendor   `json:"vendor"`
	Manufacturer string   `json:"manufacturer,omitempty"`
	Model        string   `json:"model,omitempty"`
	SerialNumber string   `json:"serial_number,omitempty"`
	UUID         string   `json:"uuid,omitempty"`
	BIOSVersion  string   `json:"bios_version,omitempty"`
	BMCModel     string   `json:"bmc_model,omitempty"`
	BMCFirmware  string   `json:"bmc_firmware,omitempty"`
	MACs         []string `json:"macs,omitempty"` // lower case; as far as the BMC knows them
	MemoryGiB    float64  `json:"memory_gib,omitempty"`
	Processors   int      `json:"processors,omitempty"`
}

// Media is what is in the server's virtual drive.
type Media struct {
	Slot     string    `json:"slot"` // path of the resource
	Image    string    `json:"image,omitempty"`
	Inserted bool      `json:"inserted"`
	At       time.Time `json:"at"`
}

// Booted is the last boot from an image.
type Booted struct {
	InfraEnvID string    `json:"infra_env_id,omitempty"`
	ImageURL   string    `json:"image_url"`
	At         time.Time `json:"at"`
	// Host is the host that came up, once its agent registered: infra-env and host id.
	Host       *HostRef  `json:"host,omitempty"`
	Registered time.Time `json:"registered,omitzero"`
	Ejected    time.Time `json:"ejected,omitzero"`
	Repaired   time.Time `json:"repaired,omitzero"` // it came up from the image again and was restarted into its disk
}

// HostRef names a host of the engine.
type HostRef struct {
	InfraEnvID string `json:"infra_env_id"`
	ID         string `json:"id"`
}

// Note is something that happened to a server. Its reasons are the names of metal3's events where
// there is one.
type Note struct {
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Warning bool      `json:"warning,omitempty"`
}

// Span is when something began and ended; a zero End means that it goes on.
type Span struct {
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
}

// Operations are the newest of each kind.
type Operations struct {
	Register    Span `json:"register,omitzero"`
	Provision   Span `json:"provision,omitzero"`
	Deprovision Span `json:"deprovision,omitzero"`
}

// Server is a server as it is known: what is wanted of it, without the password, and what it is.
type Server struct {
	ID string `json:"id"`
	Desired
	State State `json:"state"`
	// Doing is what goes on or is waited for, as a sentence; "" when nothing is.
	Doing      string     `json:"doing,omitempty"`
	Power      Power      `json:"power"`
	System     *System    `json:"system,omitempty"` // nil until it is registered
	Media      *Media     `json:"media,omitempty"`
	Booted     *Booted    `json:"booted,omitempty"`
	Error      *Trouble   `json:"error,omitempty"`
	Pending    *Order     `json:"pending,omitempty"`
	LastSeen   time.Time  `json:"last_seen,omitzero"` // when the BMC answered last
	Operations Operations `json:"operations"`
	History    []Note     `json:"history"` // the newest last
	Created    time.Time  `json:"created"`
	// CredentialsGood tells that the BMC took the present credentials.
	CredentialsGood bool `json:"credentials_good"`
}

// OrderKind is what a person pressed.
type OrderKind string

// What can be ordered.
const (
	OrderBoot     OrderKind = "boot"
	OrderPowerOn  OrderKind = "on"
	OrderPowerOff OrderKind = "off"
	OrderSoftOff  OrderKind = "soft"
	OrderReset    OrderKind = "reset"
	OrderEject    OrderKind = "eject"
	OrderInspect  OrderKind = "inspect"
)

// Order is what a person pressed and is not done yet.
type Order struct {
	Kind OrderKind `json:"kind"`
	At   time.Time `json:"at"`
}
