// Package bmc controls servers through their baseboard management controllers (BMCs) with Redfish.
// A session logs in, finds the system, inserts an image as virtual media and boots from it once.
// When the machine boots from its disk, a later session ejects the image.
//
// The desired state of a server is declarative: [Manager.Ensure] sets it, one worker per server
// reconciles it, [Manager.Server] returns the actual state, and [Manager.Observe] reports changes.
// The store contains everything that a worker needs after a crash, including the current step of a
// boot sequence. One-time actions (boot, power, eject) are stored with the desired state.
//
//	address.go     addresses of BMCs
//	manager.go     the servers and their desired state
//	machine.go     servers that are the same machine
//	action.go      one-time actions
//	hosts.go       hosts that register after a boot
//	runninghost.go hosts that a boot would end
//	worker.go      the worker of a server: its next job
//	jobresult.go   results of jobs
//	boot.go        the boot sequence
//	media.go       virtual media: devices, insert, eject
//	httpboot.go    UEFI HTTP boot, without virtual media
//	power.go       power and boot override
//	vendor.go      differences between vendors
//	session.go     a session with a BMC: login, retries, tasks, ETags
//	requestlog.go  request logs: the exchanges of each session, without secrets
//
// Design: docs/design.md#desired-state-of-servers.
package bmc

import (
	"strings"
	"time"
)

// Desired is the desired state of a server.
type Desired struct {
	// Name is the unique name of the server. The server of a BareMetalHost is named namespace/name.
	Name string `json:"name"`
	// Owner names the object that controls the server instead of the users of the page and the REST
	// API, such as "BareMetalHost site/node0".
	Owner string `json:"owner,omitempty"`
	// Address is the address of the BMC, see [ParseAddress].
	Address  string `json:"address"`
	Username string `json:"username"`
	// Password is encrypted in the store and never returned. An empty password in Ensure means "no
	// password", not "keep the password".
	Password string `json:"password,omitempty"`
	// SkipVerify accepts any certificate of the BMC. It is set by explicit choice only.
	SkipVerify bool `json:"skip_verify,omitempty"`
	// CA holds PEM certificates that are trusted for this BMC in addition to the system's.
	CA string `json:"ca,omitempty"`
	// BootMAC is a MAC address of the server. It identifies the server's agent. If it is empty,
	// serial number and MAC addresses that the BMC reports identify the agent.
	BootMAC string `json:"boot_mac,omitempty"`
	// BootMode is UEFI, UEFISecureBoot or legacy. If it is empty, the boot mode of the server is
	// kept.
	BootMode string `json:"boot_mode,omitempty"`
	// InfraEnvID is the id of the infra-env whose image the server boots. The image is fetched by
	// its short URL.
	InfraEnvID string `json:"infra_env_id,omitempty"`
	// ImageURL is the URL of another image, used instead of the infra-env's image.
	ImageURL string `json:"image_url,omitempty"`
	// Boot requests that the server is booted from the image. If the image differs from the last
	// one, the server boots again. If Boot becomes false after a boot, the image is ejected and the
	// server is powered off (deprovisioning).
	Boot bool `json:"boot,omitempty"`
	// Online is the desired power state. If it is nil, the power state is kept.
	Online *bool `json:"online,omitempty"`
	// Detached limits the manager to occasional polls: it changes neither the power nor the media.
	Detached bool `json:"detached,omitempty"`
}

// State is the provisioning state of a server, as in metal3 (provisioning.state of a
// BareMetalHost).
type State string

// The states of a server.
const (
	Registering    State = "registering"    // the BMC was not contacted yet, or rejected the login
	Available      State = "available"      // the BMC is registered, and no boot is requested
	Provisioning   State = "provisioning"   // the image is being inserted and booted
	Provisioned    State = "provisioned"    // the server was powered on with the image
	Deprovisioning State = "deprovisioning" // the image is being ejected and the server powered off
	Deleting       State = "deleting"       // as Deprovisioning, before the server is removed
)

// Power is the power state of a server as its BMC reports it.
type Power string

// The power states.
const (
	PowerUnknown Power = ""
	PowerOn      Power = "on"
	PowerOff     Power = "off"
	PoweringOn   Power = "powering-on"
	PoweringOff  Power = "powering-off"
)

// ErrorType is the type of an error, as in metal3 (status.errorType of a BareMetalHost).
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

// ErrorStatus is the current error of a server.
type ErrorStatus struct {
	Type ErrorType `json:"type"`
	// Message is a sentence about the failure, its place and the remedy. It contains no
	// credentials.
	Message string `json:"message"`
	// Code is the error code of the vendor or of a message registry, such as RAC0904. It is empty
	// if the BMC reported none.
	Code string `json:"code,omitempty"`
	// Count is the number of consecutive failures.
	Count int       `json:"count"`
	Since time.Time `json:"since"`
	// RetryAt is the time of the next attempt.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// System is the server's hardware as the BMC reports it.
type System struct {
	Path         string   `json:"path"` // path of the resource, such as /redfish/v1/Systems/1
	Vendor       Vendor   `json:"vendor"`
	Manufacturer string   `json:"manufacturer,omitempty"`
	Model        string   `json:"model,omitempty"`
	SerialNumber string   `json:"serial_number,omitempty"`
	UUID         string   `json:"uuid,omitempty"`
	BIOSVersion  string   `json:"bios_version,omitempty"`
	BMCModel     string   `json:"bmc_model,omitempty"`
	BMCFirmware  string   `json:"bmc_firmware,omitempty"`
	MACs         []string `json:"macs,omitempty"` // in lower case; only the addresses that the BMC reports
	MemoryGiB    float64  `json:"memory_gib,omitempty"`
	Processors   int      `json:"processors,omitempty"`
}

// Title returns the manufacturer, the model and the serial number, as far as the BMC reports them.
func (s *System) Title() string {
	title := strings.TrimSpace(s.Manufacturer + " " + s.Model)
	if title == "" {
		title = "unknown model"
	}
	if s.SerialNumber != "" {
		title += ", serial number " + s.SerialNumber
	}
	return title
}

// Media is the content of the server's virtual media device.
type Media struct {
	Device   string    `json:"slot"` // path of the device's resource
	Image    string    `json:"image,omitempty"`
	Inserted bool      `json:"inserted"`
	At       time.Time `json:"at"`
}

// BootStatus describes the last boot from an image.
type BootStatus struct {
	InfraEnvID string    `json:"infra_env_id,omitempty"`
	ImageURL   string    `json:"image_url"`
	At         time.Time `json:"at"`
	// Host is the host whose agent registered after the boot. It is nil before.
	Host       *HostRef  `json:"host,omitempty"`
	Registered time.Time `json:"registered,omitzero"`
	Ejected    time.Time `json:"ejected,omitzero"`
	// time when the server, which had booted the image again, was restarted from its disk
	Repaired time.Time `json:"repaired,omitzero"`
}

// HostRef names a host of the engine.
type HostRef struct {
	InfraEnvID string `json:"infra_env_id"`
	ID         string `json:"id"`
}

// Event is an entry of a server's history. If metal3 has an event for it, the reason is that
// event's name.
type Event struct {
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Warning bool      `json:"warning,omitempty"`
}

// OperationMetric holds the start and the end of an operation (metal3's term). A zero End means
// that the operation is in progress.
type OperationMetric struct {
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
}

// OperationHistory holds the latest operation of each kind.
type OperationHistory struct {
	Register    OperationMetric `json:"register,omitzero"`
	Provision   OperationMetric `json:"provision,omitzero"`
	Deprovision OperationMetric `json:"deprovision,omitzero"`
}

// Server is a server with its desired state (without the password) and its actual state.
type Server struct {
	ID string `json:"id"`
	Desired
	State State `json:"state"`
	// Activity is a sentence about the current or the next operation, or "".
	Activity   string           `json:"doing,omitempty"`
	Power      Power            `json:"power"`
	System     *System          `json:"system,omitempty"` // nil before registration
	Media      *Media           `json:"media,omitempty"`
	Booted     *BootStatus      `json:"booted,omitempty"`
	Error      *ErrorStatus     `json:"error,omitempty"`
	Pending    *Action          `json:"pending,omitempty"`
	LastSeen   time.Time        `json:"last_seen,omitzero"` // time of the BMC's last response
	Operations OperationHistory `json:"operations"`
	History    []Event          `json:"history"` // oldest first
	Created    time.Time        `json:"created"`
	// PasswordRemoved is set while the server waits for its password, which was removed because the
	// BMC's address or the verification of its certificate changed.
	PasswordRemoved bool `json:"password_removed,omitempty"`
	// DuplicateOf is the name of the server that controls the machine instead of this server, which
	// waits. It is empty if no other server has the same machine.
	DuplicateOf string `json:"duplicate_of,omitempty"`
	// CredentialsGood is set after the BMC accepted the current credentials.
	CredentialsGood bool `json:"credentials_good"`
}

// ActionKind is the kind of an action.
type ActionKind string

// The actions.
const (
	ActionBoot     ActionKind = "boot"
	ActionPowerOn  ActionKind = "on"
	ActionPowerOff ActionKind = "off"
	ActionShutdown ActionKind = "soft"
	ActionReset    ActionKind = "reset"
	ActionEject    ActionKind = "eject"
	ActionInspect  ActionKind = "inspect"
)

// Action is a requested action that is not completed yet.
type Action struct {
	Kind ActionKind `json:"kind"`
	At   time.Time  `json:"at"`
	// Force boots a server even if its host is being installed or is installed.
	Force bool `json:"force,omitempty"`
}
