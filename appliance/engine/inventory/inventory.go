// Package inventory reads what the agents reported about hosts: the hardware inventory and the
// reports of the checks that a host ran. The API keeps all of it as JSON strings inside
// models.Host; here it is parsed once, so that the checks, the steps and the network arithmetic
// work on values.
//
// Everything is a pure function of its arguments: no clock, no files, no network.
package inventory

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/store/fastjson"
)

// Kinds of truncation, as the agent names them.
const (
	TruncatedPartly = "partial" // optional details were left out
	TruncatedFully  = "full"    // nothing usable is left
)

// Truncation says that the agent cut its inventory because it was larger than the limit it was
// given.
type Truncation struct {
	Type    string   `json:"type"`
	Reasons []string `json:"reasons,omitempty"`
}

// Reports is what an agent reported of its host, each part as JSON the way models.Host carries it;
// "" is a part that has not been reported. Reports are comparable: equal Reports parse to the same
// Facts.
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

// ReportsOf takes the reports out of a host record.
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

// Facts are an agent's reports, parsed. They do not change after Parse and may be shared; a nil or
// empty part has not been reported yet.
type Facts struct {
	Inventory  *models.Inventory
	Truncation *Truncation

	Connectivity  *models.ConnectivityReport
	NTPSources    []*models.NtpSource
	Domains       *models.DomainResolutionResponse
	FreeAddresses models.FreeNetworksAddresses
	Tang          *models.TangConnectivityResponse
	// TangError is what the agent answered when it could not check the Tang servers at all.
	TangError       string
	APIConnectivity *models.APIVipConnectivityResponse
	// Images are the results of the pull checks, by pull spec.
	Images map[string]*models.ContainerImageAvailability
	// Disks are the results of the disk speed checks, by the path that was checked.
	Disks map[string]models.DiskInfo
}

// Host is a host record with the facts about it. The record's own JSON parts are not looked at.
// Facts is never nil.
type Host struct {
	Record *models.Host
	*Facts
}

// NewHost joins a record and its facts; nil facts stand for an agent that has reported nothing.
func NewHost(record *models.Host, facts *Facts) *Host {
	if facts == nil {
		facts = &Facts{}
	}
	return &Host{Record: record, Facts: facts}
}

// ParseHost reads the reports that a record itself carries.
func ParseHost(record *models.Host) (*Host, error) {
	facts, err := Parse(ReportsOf(record))
	if err != nil {
		return nil, err
	}
	return NewHost(record, facts), nil
}

// Parse reads reports. It fails when one of them is not JSON of its model, naming the part; what is
// kept was checked on its way in, so that means a damaged record. A Tang report that is no JSON is
// not an error: the agent's error text is kept in that field.
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

// DropNulls removes the null members that JSON lists from outside may hold, so that no reader has
// to look for them.
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

// wire is the inventory as the agent sends it: the model, and the truncation that the model does
// not have yet.
type wire struct {
	models.Inventory
	Truncation *Truncation `json:"truncation,omitempty"`
}

// ParseInventory reads an agent's inventory. It fails when the text is not JSON of an inventory, or
// names neither CPU nor memory: an inventory without them says nothing about the machine, unless
// the agent had to cut all of it.
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
		return nil, nil, errors.New("the inventory does not say which CPU the host has")
	}
	if inv.Memory == nil && !cut {
		return nil, nil, errors.New("the inventory does not say how much memory the host has")
	}
	if inv.CPU == nil {
		inv.CPU = &models.CPU{}
	}
	if inv.Memory == nil {
		inv.Memory = &models.Memory{}
	}
	return inv, w.Truncation, nil
}

// Encode renders an inventory as it is kept in models.Host.
func Encode(inv *models.Inventory, truncation *Truncation) (string, error) {
	text, err := fastjson.MarshalText(&wire{Inventory: *inv, Truncation: truncation})
	if err != nil {
		return "", fmt.Errorf("encode the inventory: %w", err)
	}
	return text, nil
}

// ID is the host's id, empty when the record has none.
func (h *Host) ID() strfmt.UUID {
	if h.Record == nil || h.Record.ID == nil {
		return ""
	}
	return *h.Record.ID
}

// Status is the state of the host.
func (h *Host) Status() string {
	if h.Record.Status == nil {
		return ""
	}
	return *h.Record.Status
}

// Hostname is the name the host will have: the one asked for, else the one it has now, else "".
func (h *Host) Hostname() string {
	if h.Record.RequestedHostname != "" {
		return h.Record.RequestedHostname
	}
	if h.Inventory != nil {
		return h.Inventory.Hostname
	}
	return ""
}

// Name is the host's name for people: the host name, else the id.
func (h *Host) Name() string {
	if name := h.Hostname(); name != "" {
		return name
	}
	return string(h.ID())
}

// Role is the role the host is judged by: the one that was chosen, else the suggested one, else
// auto-assign.
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

// Day2 tells whether the host is being added to a cluster that is installed already.
func (h *Host) Day2() bool {
	return h.Record.Kind != nil && *h.Record.Kind == models.HostKindAddToExistingClusterHost
}

// Stage is the stage of the installation that the host has reported, "" before the first.
func (h *Host) Stage() models.HostStage {
	if h.Record.Progress == nil {
		return ""
	}
	return h.Record.Progress.CurrentStage
}
