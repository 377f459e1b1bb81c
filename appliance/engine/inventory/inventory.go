// Package inventory parses the agents' reports about hosts: the hardware inventory and the results
// of checks on the host. The API holds them as JSON strings in models.Host. They are parsed once;
// validations, steps and network functions use the parsed values.
//
// All functions are pure: they use no clock, files or network.
package inventory

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/store/fastjson"
)

// Kinds of truncation, in the agent's terms.
const (
	TruncatedPartly = "partial" // optional details were left out
	TruncatedFully  = "full"    // all usable details were left out
)

// Truncation reports that the agent truncated its inventory to a size limit.
type Truncation struct {
	Type    string   `json:"type"`
	Reasons []string `json:"reasons,omitempty"`
}

// Reports holds the reports of an agent about its host. Each part is JSON as in models.Host, or ""
// if it is missing. Reports are comparable: equal Reports parse to the same Facts.
type Reports struct {
	Inventory       string
	Connectivity    string
	NTPSources      string
	Domains         string
	FreeAddresses   string
	Tang            string
	APIConnectivity string
	Images          string
	Disks           string
}

// ReportsOf returns the reports in a host record.
func ReportsOf(record *models.Host) Reports {
	return Reports{
		Inventory:       record.Inventory,
		Connectivity:    record.Connectivity,
		NTPSources:      record.NtpSources,
		Domains:         record.DomainNameResolutions,
		FreeAddresses:   record.FreeAddresses,
		Tang:            record.TangConnectivity,
		APIConnectivity: record.APIVipConnectivity,
		Images:          record.ImagesStatus,
		Disks:           record.DisksInfo,
	}
}

// Facts holds the parsed reports of an agent. They do not change after Parse and may be shared. A
// missing report is nil or empty.
type Facts struct {
	Inventory  *models.Inventory
	Truncation *Truncation

	Connectivity  *models.ConnectivityReport
	NTPSources    []*models.NtpSource
	Domains       *models.DomainResolutionResponse
	FreeAddresses models.FreeNetworksAddresses
	Tang          *models.TangConnectivityResponse
	// TangError is the agent's error if it could not check the Tang servers.
	TangError       string
	APIConnectivity *models.APIVipConnectivityResponse
	// Images holds the results of pulling images, by pull spec.
	Images map[string]*models.ContainerImageAvailability
	// Disks holds the measured disk speeds, by path.
	Disks map[string]models.DiskInfo
}

// Host is a host record with its parsed facts. The JSON parts of the record are not used. Facts is
// never nil.
type Host struct {
	Record *models.Host
	*Facts
}

// NewHost combines a record and its facts. Nil facts mean an agent without reports.
func NewHost(record *models.Host, facts *Facts) *Host {
	if facts == nil {
		facts = &Facts{}
	}
	return &Host{Record: record, Facts: facts}
}

// ParseHost parses the reports in a record.
func ParseHost(record *models.Host) (*Host, error) {
	facts, err := Parse(ReportsOf(record))
	if err != nil {
		return nil, err
	}
	return NewHost(record, facts), nil
}

// Parse parses reports. Reports are validated when they arrive, so an error means a damaged record.
// The error names the invalid part. A Tang report that is not JSON is valid: it is the agent's
// error text.
func Parse(reports Reports) (*Facts, error) {
	f := &Facts{}
	if reports.Inventory != "" {
		inv, truncation, err := ParseInventory(reports.Inventory)
		if err != nil {
			return nil, err
		}
		f.Inventory, f.Truncation = inv, truncation
	}
	parts := []struct {
		name, text string
		into       any
	}{
		{"connectivity report", reports.Connectivity, &f.Connectivity},
		{"list of NTP sources", reports.NTPSources, &f.NTPSources},
		{"list of resolved domains", reports.Domains, &f.Domains},
		{"list of free addresses", reports.FreeAddresses, &f.FreeAddresses},
		{"API connectivity report", reports.APIConnectivity, &f.APIConnectivity},
		{"report of image checks", reports.Images, &f.Images},
		{"report of disk checks", reports.Disks, &f.Disks},
	}
	for _, p := range parts {
		if p.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(p.text), p.into); err != nil {
			return nil, fmt.Errorf("the %s is not valid JSON: %w", p.name, err)
		}
	}
	if reports.Tang != "" {
		var tang models.TangConnectivityResponse
		if err := json.Unmarshal([]byte(reports.Tang), &tang); err != nil {
			f.TangError = reports.Tang
		} else {
			f.Tang = &tang
		}
	}
	f.DropNulls()
	return f, nil
}

// DropNulls removes null members from JSON lists, so that readers need not check for them.
func (f *Facts) DropNulls() {
	if f.Connectivity != nil {
		f.Connectivity.RemoteHosts = present(f.Connectivity.RemoteHosts)
		for _, remote := range f.Connectivity.RemoteHosts {
			remote.L2Connectivity = present(remote.L2Connectivity)
			remote.L3Connectivity = present(remote.L3Connectivity)
			remote.MtuReport = present(remote.MtuReport)
		}
	}
	if f.Domains != nil {
		f.Domains.Resolutions = present(f.Domains.Resolutions)
	}
	f.NTPSources = present(f.NTPSources)
	f.FreeAddresses = present(f.FreeAddresses)
	for name, image := range f.Images {
		if image == nil {
			delete(f.Images, name)
		}
	}
}

func present[T any](list []*T) []*T {
	kept := list[:0]
	for _, item := range list {
		if item != nil {
			kept = append(kept, item)
		}
	}
	return kept
}

// wire is the inventory in the agent's format: the model, and the truncation, which the model
// lacks.
type wire struct {
	models.Inventory
	Truncation *Truncation `json:"truncation,omitempty"`
}

// ParseInventory parses an agent's inventory. It returns an error if the text is not JSON of an
// inventory. CPU and memory may be missing only if the agent truncated the whole inventory.
func ParseInventory(text string) (*models.Inventory, *Truncation, error) {
	var w wire
	if err := fastjson.UnmarshalText(text, &w); err != nil {
		return nil, nil, fmt.Errorf("the inventory is not valid JSON: %w", err)
	}
	inv := &w.Inventory
	inv.Disks = present(inv.Disks)
	inv.Interfaces = present(inv.Interfaces)
	inv.Routes = present(inv.Routes)
	inv.Gpus = present(inv.Gpus)
	cut := w.Truncation != nil && w.Truncation.Type == TruncatedFully
	if inv.CPU == nil && !cut {
		return nil, nil, errors.New("the inventory lacks the CPU")
	}
	if inv.Memory == nil && !cut {
		return nil, nil, errors.New("the inventory lacks the memory")
	}
	if inv.CPU == nil {
		inv.CPU = &models.CPU{}
	}
	if inv.Memory == nil {
		inv.Memory = &models.Memory{}
	}
	return inv, w.Truncation, nil
}

// Encode returns an inventory in the format of models.Host.
func Encode(inv *models.Inventory, truncation *Truncation) (string, error) {
	text, err := fastjson.MarshalText(&wire{Inventory: *inv, Truncation: truncation})
	if err != nil {
		return "", fmt.Errorf("encode the inventory: %w", err)
	}
	return text, nil
}

// ID returns the host's id, or "" if the record has none.
func (h *Host) ID() strfmt.UUID {
	if h.Record == nil || h.Record.ID == nil {
		return ""
	}
	return *h.Record.ID
}

// Status returns the state of the host.
func (h *Host) Status() string {
	if h.Record.Status == nil {
		return ""
	}
	return *h.Record.Status
}

// Hostname returns the host's name after the installation: the requested name, or else the reported
// name, or "".
func (h *Host) Hostname() string {
	if h.Record.RequestedHostname != "" {
		return h.Record.RequestedHostname
	}
	if h.Inventory != nil {
		return h.Inventory.Hostname
	}
	return ""
}

// Name returns the host's name in texts for users: the host name, or else the id.
func (h *Host) Name() string {
	if name := h.Hostname(); name != "" {
		return name
	}
	return string(h.ID())
}

// Role returns the role for the validation of the host: the selected role, or else the suggested
// role, or else auto-assign.
func (h *Host) Role() models.HostRole {
	role := h.Record.Role
	if role == "" {
		role = models.HostRoleAutoAssign
	}
	if role == models.HostRoleAutoAssign && h.Record.SuggestedRole != "" {
		role = h.Record.SuggestedRole
	}
	if role == models.HostRoleBootstrap {
		return models.HostRoleMaster
	}
	return role
}

// Day2 reports whether the host joins an installed cluster.
func (h *Host) Day2() bool {
	return h.Record.Kind != nil && *h.Record.Kind == models.HostKindAddToExistingClusterHost
}

// Stage returns the reported stage of the installation, or "".
func (h *Host) Stage() models.HostStage {
	if h.Record.Progress == nil {
		return ""
	}
	return h.Record.Progress.CurrentStage
}
