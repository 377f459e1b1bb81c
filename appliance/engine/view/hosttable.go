package view

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/record"
	"landfall/store"
	"landfall/store/fastjson"
)

// HostRow describes a host in a few facts, for a table of all hosts.
type HostRow struct {
	ID           string `json:"id"`
	InfraEnvID   string `json:"infra_env_id"`
	InfraEnvName string `json:"infra_env_name"`
	// InfraEnvCluster is the ID of the cluster to which the infra-env belongs. Its hosts can't be
	// unbound from that cluster.
	InfraEnvCluster string          `json:"infra_env_cluster_id,omitempty"`
	ClusterID       string          `json:"cluster_id,omitempty"`
	ClusterName     string          `json:"cluster_name,omitempty"`
	Name            string          `json:"name"` // requested, or else reported, or else the ID
	Role            models.HostRole `json:"role"`
	SuggestedRole   models.HostRole `json:"suggested_role,omitempty"`
	Bootstrap       bool            `json:"bootstrap,omitempty"`
	Status          string          `json:"status"`
	StatusInfo      string          `json:"status_info"`
	Stage           string          `json:"stage,omitempty"`
	StageInfo       string          `json:"stage_info,omitempty"`
	Percent         int64           `json:"installation_percentage,omitempty"`
	// Failing is the number of failed validations, FirstFailing the message of the first one.
	Failing      int       `json:"failing,omitempty"`
	FirstFailing string    `json:"first_failing,omitempty"`
	Hardware     *Hardware `json:"hardware,omitempty"` // nil before the first inventory
	LastContact  time.Time `json:"last_contact"`
	Registered   time.Time `json:"registered_at"`
	// ClockOffset is the time in seconds by which the host's clock is ahead of the appliance's. It
	// is nil if the agent has not sent its time.
	ClockOffset *float64 `json:"clock_offset_seconds,omitempty"`
}

// Hardware summarizes the inventory of a host.
type Hardware struct {
	Manufacturer string   `json:"manufacturer,omitempty"`
	Model        string   `json:"model,omitempty"`
	Serial       string   `json:"serial_number,omitempty"`
	Virtual      bool     `json:"virtual,omitempty"`
	Architecture string   `json:"architecture,omitempty"`
	CPUs         int64    `json:"cpus"`
	MemoryBytes  int64    `json:"memory_bytes"`
	Disks        int      `json:"disks"`
	DiskBytes    int64    `json:"disk_bytes"`
	Addresses    []string `json:"addresses"` // without link-local ones
	MACs         []string `json:"macs"`      // in lower case
	BMCAddress   string   `json:"bmc_address,omitempty"`
}

// hostRows caches the rows of the table with the revisions of their sources, because a row costs
// the decoding of an inventory and of the validations.
type hostRows struct {
	mu    sync.Mutex
	byKey map[string]*cachedRow
}

type cachedRow struct {
	made [3]uint64 // revisions of the host, its validations and its inventory
	row  HostRow   // without the last contact, and what the infra-env and the cluster say
}

func (c *hostRows) get(key string, made [3]uint64) (*cachedRow, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, ok := c.byKey[key]
	return held, ok && held.made == made
}

func (c *hostRows) put(key string, made *cachedRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil {
		c.byKey = make(map[string]*cachedRow)
	}
	c.byKey[key] = made
}

func (c *hostRows) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byKey, key)
}

// HostTable returns the rows of the hosts that wanted selects (nil: all), ordered by infra-env and
// ID. wanted gets the IDs of the host's infra-env, of its cluster or "", and of the host.
func (r *Reader) HostTable(wanted func(infraEnv, cluster, host string) bool) ([]HostRow, error) {
	rows := []HostRow{}
	err := r.db.View(func(tx *store.Tx) error {
		complete := completionIn(tx)
		return record.Hosts.Revisions(tx, "", func(key string, revision uint64) error {
			made, err := r.hostRow(tx, key, revision)
			if err != nil {
				return store.SkipDamaged(err)
			}
			row := made.row
			if wanted != nil && !wanted(row.InfraEnvID, row.ClusterID, row.ID) {
				return nil
			}
			if err := complete(&row); err != nil {
				return err
			}
			if polled, ok := r.presence.Polled(key); ok {
				row.LastContact = polled
			}
			rows = append(rows, row)
			return nil
		})
	})
	return rows, err
}

// damagedName is shown for the name of a cluster or infra-env whose row is damaged.
const damagedName = "(damaged)"

// completionIn returns a function that adds to a row what its infra-env and cluster say. It reads
// each of them once.
func completionIn(tx *store.Tx) func(*HostRow) error {
	type infraEnv struct{ name, cluster string }
	infraEnvs, clusters := make(map[string]infraEnv), make(map[string]string)
	return func(host *HostRow) error {
		if _, ok := infraEnvs[host.InfraEnvID]; !ok {
			row, err := record.InfraEnvs.Get(tx, host.InfraEnvID)
			if store.SkipDamaged(err) != nil {
				return err
			}
			infraEnvs[host.InfraEnvID] = infraEnv{name: damagedName}
			if err == nil {
				infraEnvs[host.InfraEnvID] = infraEnv{conv.Value(row.API.Name), row.API.ClusterID.String()}
			}
		}
		if _, ok := clusters[host.ClusterID]; !ok && host.ClusterID != "" {
			row, err := record.Clusters.Get(tx, host.ClusterID)
			if store.SkipDamaged(err) != nil {
				return err
			}
			clusters[host.ClusterID] = damagedName
			if err == nil {
				clusters[host.ClusterID] = row.API.Name
			}
		}
		of := infraEnvs[host.InfraEnvID]
		host.InfraEnvName, host.InfraEnvCluster = of.name, of.cluster
		host.ClusterName = clusters[host.ClusterID]
		return nil
	}
}

func (r *Reader) hostRow(tx *store.Tx, key string, revision uint64) (*cachedRow, error) {
	validations, err := revisionOf(record.Validations.Modified(tx, record.HostSubject(key)))
	if err != nil {
		return nil, err
	}
	hardwareMade, err := revisionOf(record.Reports.Modified(tx, key+"/"+record.PartInventory))
	if err != nil {
		return nil, err
	}
	made := [3]uint64{revision, validations, hardwareMade}
	if held, ok := r.hostRows.get(key, made); ok {
		return held, nil
	}
	h, err := record.Hosts.Get(tx, key)
	if err != nil {
		return nil, err
	}
	fresh := &cachedRow{made: made, row: rowOf(h)}
	results, err := record.LoadValidations(tx, record.HostSubject(key))
	if err != nil {
		return nil, err
	}
	if fresh.row.Failing, fresh.row.FirstFailing, err = failures(results); err != nil {
		return nil, err
	}
	if hardwareMade != 0 {
		text, err := record.Reports.Get(tx, key+"/"+record.PartInventory)
		if err != nil {
			return nil, err
		}
		if fresh.row.Hardware, err = hardware(*text); err != nil {
			return nil, err
		}
	}
	r.hostRows.put(key, fresh)
	return fresh, nil
}

// rowOf returns the facts of a host's own row.
func rowOf(h *record.Host) HostRow {
	row := HostRow{
		ID: h.API.ID.String(), InfraEnvID: h.API.InfraEnvID.String(),
		Name: cmp.Or(h.API.RequestedHostname, h.Hostname, h.API.ID.String()),
		Role: h.API.Role, SuggestedRole: h.API.SuggestedRole, Bootstrap: h.API.Bootstrap,
		Status: conv.Value(h.API.Status), StatusInfo: conv.Value(h.API.StatusInfo),
		LastContact: time.Time(h.API.CheckedInAt), Registered: time.Time(h.API.RegisteredAt),
	}
	if h.API.ClusterID != nil {
		row.ClusterID = h.API.ClusterID.String()
	}
	if progress := h.API.Progress; progress != nil {
		row.Stage, row.StageInfo = string(progress.CurrentStage), progress.ProgressInfo
		row.Percent = progress.InstallationPercentage
	}
	if h.API.Timestamp != 0 {
		sent := time.Time(h.API.CheckedInAt).Truncate(time.Second)
		row.ClockOffset = conv.Pointer(time.Unix(h.API.Timestamp, 0).Sub(sent).Seconds())
	}
	return row
}

// failures returns the number of failed validations and the message of the first one.
func failures(info json.RawMessage) (count int, first string, err error) {
	if len(info) == 0 {
		return 0, "", nil
	}
	var groups map[string][]struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	}
	if err := fastjson.Unmarshal(info, &groups); err != nil {
		return 0, "", err
	}
	// A host without sufficient hardware or network fails other validations because of it.
	order := []string{"hardware", "network"}
	for group := range groups {
		if !slices.Contains(order, group) {
			order = append(order, group)
		}
	}
	slices.Sort(order[2:])
	for _, group := range order {
		for _, result := range groups[group] {
			if result.Status == "failure" || result.Status == "error" {
				count++
				first = cmp.Or(first, result.Message)
			}
		}
	}
	return count, first, nil
}

// hardware summarizes an inventory.
func hardware(text json.RawMessage) (*Hardware, error) {
	var reported models.Inventory
	if err := fastjson.Unmarshal(text, &reported); err != nil {
		return nil, err
	}
	shown := &Hardware{Addresses: []string{}, MACs: []string{}}
	if vendor := reported.SystemVendor; vendor != nil {
		shown.Manufacturer, shown.Model, shown.Serial = vendor.Manufacturer, vendor.ProductName, vendor.SerialNumber
		shown.Virtual = vendor.Virtual
	}
	if reported.CPU != nil {
		shown.Architecture, shown.CPUs = reported.CPU.Architecture, reported.CPU.Count
	}
	if reported.Memory != nil {
		shown.MemoryBytes = reported.Memory.PhysicalBytes
	}
	for _, disk := range reported.Disks {
		if disk != nil && disk.DriveType != models.DriveTypeODD {
			shown.Disks++
			shown.DiskBytes += disk.SizeBytes
		}
	}
	for _, nic := range reported.Interfaces {
		if nic == nil {
			continue
		}
		if nic.MacAddress != "" {
			shown.MACs = append(shown.MACs, strings.ToLower(nic.MacAddress))
		}
		for _, prefix := range inventory.Addresses(nic) {
			if address := prefix.Addr(); !address.IsLinkLocalUnicast() && !address.IsLoopback() {
				shown.Addresses = append(shown.Addresses, address.String())
			}
		}
	}
	if reported.BmcAddress != "0.0.0.0" {
		shown.BMCAddress = reported.BmcAddress
	}
	return shown, nil
}
