package operator

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"
)

// Requirements holds an operator's hardware requirements in addition to OpenShift's own minimums.
type Requirements struct {
	// On selects the hosts that run the operator: workloads, storage, workers, or "" for all hosts
	// except arbiters.
	On     string  `yaml:"on,omitempty"`
	Master Amounts `yaml:"master,omitempty"`
	Worker Amounts `yaml:"worker,omitempty"`
	// SingleNode replaces Master on a single node. If it is nil, Master applies.
	SingleNode *Amounts `yaml:"single_node,omitempty"`
	// From replaces the memory from an OpenShift version on.
	From []from `yaml:"from,omitempty"`

	PerDisk   Amounts  `yaml:"per_disk,omitempty"`   // for each disk of storage
	PerDevice Amounts  `yaml:"per_device,omitempty"` // for each of the devices in GPUs and NICs
	GPUs      []string `yaml:"gpus,omitempty"`       // "vendor:device", in hexadecimal
	NICs      []string `yaml:"nics,omitempty"`
	// PCI ids of GPU makers; the cluster needs a GPU of one of them
	Vendors []string `yaml:"vendors,omitempty"`

	DiskGB int64    `yaml:"disk_gb,omitempty"` // minimum size of a storage disk in GB (10^9 bytes)
	Hosts  int      `yaml:"hosts,omitempty"`   // minimum number of hosts
	Says   []string `yaml:"says,omitempty"`    // the requirements in words
}

// Values of [Requirements.On].
const (
	OnWorkloads = "workloads"
	OnStorage   = "storage"
	OnWorkers   = "workers"
)

// Amounts holds CPU cores and memory in MiB.
type Amounts struct {
	CPUCores int64 `yaml:"cpu_cores,omitempty"`
	RAMMiB   int64 `yaml:"ram_mib,omitempty"`
}

type from struct {
	Version string `yaml:"version"`
	RAMMiB  int64  `yaml:"ram_mib"`
}

func (a Amounts) plus(b Amounts, times int) Amounts {
	return Amounts{a.CPUCores + b.CPUCores*int64(times), a.RAMMiB + b.RAMMiB*int64(times)}
}

func (a Amounts) details() *models.ClusterHostRequirementsDetails {
	return &models.ClusterHostRequirementsDetails{CPUCores: a.CPUCores, RAMMib: a.RAMMiB}
}

// Base returns the requirements of a role in an OpenShift version, without those of disks and
// devices.
func (r Requirements) Base(role models.HostRole, version string, singleNode bool) Amounts {
	amounts := r.Worker
	switch {
	case role == models.HostRoleArbiter && r.On != OnStorage:
		return Amounts{}
	case singleNode && r.SingleNode != nil:
		amounts = *r.SingleNode
	case role == models.HostRoleMaster, role == models.HostRoleArbiter, singleNode:
		amounts = r.Master
	}
	for _, f := range r.From {
		if atLeast(version, f.Version) {
			amounts.RAMMiB = f.RAMMiB
		}
	}
	return amounts
}

// Of returns the requirements of a host with a role, including those of its storage disks and
// devices.
func (r Requirements) Of(role models.HostRole, version string, singleNode bool, disks, devices int) Amounts {
	return r.Base(role, version, singleNode).plus(r.PerDisk, disks).plus(r.PerDevice, devices)
}

// Preflight returns an operator's requirements in the format of GET …/preflight-requirements.
func (o *Operator) Preflight(r Requirements, version string, singleNode bool) *models.OperatorHardwareRequirements {
	says := func(role models.HostRole) *models.HostTypeHardwareRequirements {
		return &models.HostTypeHardwareRequirements{
			Qualitative: append([]string{}, r.Says...), Quantitative: r.Base(role, version,
				singleNode && role == models.HostRoleMaster).details(),
		}
	}
	return &models.OperatorHardwareRequirements{
		OperatorName: o.Name, Dependencies: o.Dependencies(singleNode),
		Requirements: &models.HostTypeHardwareRequirementsWrapper{Master: says(models.HostRoleMaster),
			Worker: says(models.HostRoleWorker)},
	}
}

// Overrides holds a site's requirements of operators by name. A nil *Overrides is empty.
type Overrides struct {
	rows map[string]Requirements
}

// ParseOverrides parses a site's requirements of operators. The text is a YAML or JSON map from
// operator names to the changed fields of [Requirements]. Errors name the operator.
func ParseOverrides(text []byte) (*Overrides, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var nodes map[string]yaml.Node
	if err := decoder.Decode(&nodes); err != nil {
		return nil, fmt.Errorf("the operator requirements are not a map of operator names to changed fields: %s",
			strings.TrimPrefix(err.Error(), "yaml: "))
	}
	rows := make(map[string]Requirements)
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		o, ok := ByName(name)
		if !ok {
			return nil, fmt.Errorf("the operator requirements contain the unknown operator %q; known operators are %s",
				name, strings.Join(Names(), ", "))
		}
		node := nodes[name]
		row, err := override(o.Requirements, &node)
		if err != nil {
			return nil, fmt.Errorf("invalid requirements of operator %s: %w", name, err)
		}
		rows[o.Name] = row
	}
	return &Overrides{rows}, nil
}

// override returns the requirements with the fields of a document replaced.
func override(r Requirements, node *yaml.Node) (Requirements, error) {
	text, err := yaml.Marshal(node)
	if err != nil {
		return r, err
	}
	if r.SingleNode != nil {
		own := *r.SingleNode
		r.SingleNode = &own
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&r); err != nil {
		return r, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return r, r.check()
}

func (r Requirements) check() error {
	amounts := map[string]Amounts{"master": r.Master, "worker": r.Worker, "per_disk": r.PerDisk,
		"per_device": r.PerDevice}
	if r.SingleNode != nil {
		amounts["single_node"] = *r.SingleNode
	}
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if a := amounts[name]; a.CPUCores < 0 || a.RAMMiB < 0 {
			return fmt.Errorf("%s has a negative amount", name)
		}
	}
	switch {
	case !slices.Contains([]string{"", OnWorkloads, OnStorage, OnWorkers}, r.On):
		return fmt.Errorf("on is %q and must be %s, %s, %s or empty", r.On, OnWorkloads, OnStorage, OnWorkers)
	case r.DiskGB < 0:
		return fmt.Errorf("disk_gb is %d and must not be negative", r.DiskGB)
	case r.Hosts < 0:
		return fmt.Errorf("hosts is %d and must not be negative", r.Hosts)
	}
	return nil
}

// For returns an operator's requirements with the overrides.
func (o *Overrides) For(operator *Operator) Requirements {
	if o != nil {
		if row, ok := o.rows[operator.Name]; ok {
			return row
		}
	}
	return operator.Requirements
}
