package validation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// Overrides holds a site's minimum requirements of hosts. They replace the defaults. The format is
// that of the Assisted Installer's HW_VALIDATOR_REQUIREMENTS: a JSON list of entries. An entry has
// a version and new values for roles (master, arbiter, worker, sno, edge-worker).
type Overrides struct {
	entries []override
}

// override is one entry. It applies to all versions ("default"), to a version and later ones
// (match_type min_version), or to one version with or without its patch number.
type override struct {
	Version    string   `json:"version"`
	MatchType  string   `json:"match_type"`
	Master     *changes `json:"master"`
	Arbiter    *changes `json:"arbiter"`
	Worker     *changes `json:"worker"`
	SNO        *changes `json:"sno"`
	EdgeWorker *changes `json:"edge-worker"`
}

// changes holds the values that an entry sets for one role. A nil field is not changed.
type changes struct {
	CPUCores     *int64   `json:"cpu_cores"`
	RAMMiB       *int64   `json:"ram_mib"`
	DiskGB       *int64   `json:"disk_size_gb"`
	DiskSyncMs   *int64   `json:"installation_disk_speed_threshold_ms"`
	LatencyMs    *float64 `json:"network_latency_threshold_ms"`
	PacketLossPC *float64 `json:"packet_loss_percentage"`
}

// ParseOverrides parses a site's minimum requirements. Errors name the entry and its fault.
func ParseOverrides(text []byte) (*Overrides, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var entries []override
	if err := decoder.Decode(&entries); err != nil {
		return nil, fmt.Errorf("the hardware requirements are not a JSON list of entries with a version and roles: %w",
			err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the hardware requirements have data after the end of their list")
	}
	for i, e := range entries {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("entry %d of the hardware requirements: %w", i+1, err)
		}
	}
	return &Overrides{entries}, nil
}

func (e override) check() error {
	if _, _, ok := majorMinor(e.Version); !ok && e.Version != "default" {
		return fmt.Errorf("the version %q is neither \"default\" nor a version such as \"4.20\" or \"4.20.8\"",
			e.Version)
	}
	if e.MatchType != "" && e.MatchType != "min_version" {
		return fmt.Errorf("the match_type is %q; leave it out, or write \"min_version\" for this version and later "+
			"ones", e.MatchType)
	}
	for name, c := range map[string]*changes{"master": e.Master, "arbiter": e.Arbiter, "worker": e.Worker, "sno": e.SNO,
		"edge-worker": e.EdgeWorker} {
		if c == nil {
			continue
		}
		for field, v := range map[string]*int64{"cpu_cores": c.CPUCores, "ram_mib": c.RAMMiB, "disk_size_gb": c.DiskGB,
			"installation_disk_speed_threshold_ms": c.DiskSyncMs} {
			if v != nil && *v < 1 {
				return fmt.Errorf("%s of role %s is %d and must be at least 1", field, name, *v)
			}
		}
		if c.LatencyMs != nil && *c.LatencyMs <= 0 {
			return fmt.Errorf("network_latency_threshold_ms of role %s is %g and must be above 0", name, *c.LatencyMs)
		}
		if c.PacketLossPC != nil && (*c.PacketLossPC < 0 || *c.PacketLossPC > 100) {
			return fmt.Errorf("packet_loss_percentage of role %s is %g and must be from 0 to 100", name,
				*c.PacketLossPC)
		}
	}
	return nil
}

// For returns the minimum requirements of an OpenShift version with the overrides. The entries are
// applied in three groups: for all versions, for a version and later ones, and for exactly this
// version. A nil *Overrides changes nothing.
func (o *Overrides) For(version string) Requirements {
	r := DefaultRequirements(version)
	if o == nil {
		return r
	}
	for _, applies := range []func(override) bool{
		func(e override) bool { return e.Version == "default" },
		func(e override) bool {
			major, minor, ok := majorMinor(e.Version)
			return ok && e.MatchType == "min_version" && inventory.AtLeast(version, major, minor)
		},
		func(e override) bool {
			return e.MatchType == "" && (version == e.Version || strings.HasPrefix(version, e.Version+".") ||
				strings.HasPrefix(version, e.Version+"-"))
		},
	} {
		for _, e := range o.entries {
			if applies(e) {
				e.apply(&r)
			}
		}
	}
	return r
}

func (e override) apply(r *Requirements) {
	e.Master.apply(&r.Master)
	e.Arbiter.apply(&r.Arbiter)
	e.Worker.apply(&r.Worker)
	e.SNO.apply(&r.SNO)
	e.EdgeWorker.apply(&r.EdgeWorker)
}

func (c *changes) apply(to *models.ClusterHostRequirementsDetails) {
	if c == nil {
		return
	}
	for _, field := range []struct{ to, from *int64 }{
		{&to.CPUCores, c.CPUCores}, {&to.RAMMib, c.RAMMiB}, {&to.DiskSizeGb, c.DiskGB},
		{&to.InstallationDiskSpeedThresholdMs, c.DiskSyncMs},
	} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	if c.LatencyMs != nil {
		to.NetworkLatencyThresholdMs = c.LatencyMs
	}
	if c.PacketLossPC != nil {
		to.PacketLossPercentage = c.PacketLossPC
	}
}

// majorMinor returns the major and minor number of a version.
func majorMinor(version string) (major, minor int, ok bool) {
	first, rest, found := strings.Cut(version, ".")
	if !found {
		return 0, 0, false
	}
	second, _, _ := strings.Cut(rest, ".")
	second, _, _ = strings.Cut(second, "-")
	major, err := strconv.Atoi(first)
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(second)
	return major, minor, err == nil
}
