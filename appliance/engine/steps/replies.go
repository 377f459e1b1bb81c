package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
)

// Exit codes with a special meaning.
const (
	exitMediaGone      = 256 // the agent can no longer read the discovery image
	exitAlreadyRunning = 125 // podman: the container could not be started
)

// Situation is the context of a reply.
type Situation struct {
	Host *inventory.Host
	// Cluster is nil for an unbound host.
	Cluster *models.Cluster
	// DiskRules returns the requirements for the disks of a reported inventory. They depend on the
	// hardware: a data processing unit needs a smaller disk.
	DiskRules func(*models.Inventory) inventory.DiskRules
	// DiskSpeedLimit is the limit for the 99th percentile of disk syncs in ms. Slower disks count
	// as slow. Zero means no limit.
	DiskSpeedLimit int64
}

// Effect holds the changes that follow from a reply. All other fields are empty.
type Effect struct {
	Step models.StepType
	// Reports holds the changed reports in their stored format; see [Effect.Merge].
	Reports inventory.Reports

	Inventory       *Inventory
	Connectivity    *models.ConnectivityReport
	FreeAddresses   models.FreeNetworksAddresses
	NTPSources      []*models.NtpSource
	Domains         *models.DomainResolutionResponse
	Tang            *models.TangConnectivityResponse
	APIConnectivity *models.APIVipConnectivityResponse
	Lease           *models.DhcpAllocationResponse
	VIPs            models.VerifyVipsResponse
	Images          []*models.ContainerImageAvailability
	DiskSpeed       *DiskSpeed
	Upgrade         *models.UpgradeAgentResponse

	// MediaDisconnected is set if the host can no longer read the discovery image.
	MediaDisconnected bool
	// InstallationFailed is set if the host could not start its installation. Failure is the
	// reason.
	InstallationFailed bool
	// BootArtifactsReady and BootArtifactsFailed are the results of the download when a host is
	// reclaimed.
	BootArtifactsReady, BootArtifactsFailed bool
	// Failure is a sentence about a failed step, or "".
	Failure string
}

// Inventory is a new inventory with validated disks.
type Inventory struct {
	*models.Inventory
	Truncation *inventory.Truncation
}

// DiskSpeed is the result of a disk measurement.
type DiskSpeed struct {
	Path     string
	SyncMs   int64 // 99th percentile of syncs; 0 if the measurement failed
	ExitCode int64
	// Slow is set if the disk works, but is slower than etcd requires.
	Slow bool
}

// Merge replaces the stored reports that changed.
func (e *Effect) Merge(kept inventory.Reports) inventory.Reports {
	set := func(field *string, changed string) {
		if changed != "" {
			*field = changed
		}
	}
	set(&kept.Inventory, e.Reports.Inventory)
	set(&kept.Connectivity, e.Reports.Connectivity)
	set(&kept.NTPSources, e.Reports.NTPSources)
	set(&kept.Domains, e.Reports.Domains)
	set(&kept.FreeAddresses, e.Reports.FreeAddresses)
	set(&kept.Tang, e.Reports.Tang)
	set(&kept.APIConnectivity, e.Reports.APIConnectivity)
	set(&kept.Images, e.Reports.Images)
	set(&kept.Disks, e.Reports.Disks)
	return kept
}

// Repeats reports whether a reply has no new facts about a host: it repeats the stored ones, or it
// is an inventory that arrives after the preparation. Agents repeat unchanged reports after each
// failed poll. A latency limit of nil is ignored.
func (e *Effect) Repeats(host *inventory.Host, latencyLimit *float64) bool {
	if e.MediaDisconnected || e.InstallationFailed || e.Failure != "" || e.BootArtifactsFailed || e.BootArtifactsReady {
		return false
	}
	if e.DiskSpeed != nil || len(e.Images) > 0 || e.VIPs != nil || e.Lease != nil || e.Upgrade != nil {
		return false
	}
	if e.Inventory != nil {
		waits := host.Status() == models.HostStatusDiscovering || host.Status() == models.HostStatusDiscoveringUnbound
		late := !lifecycle.BeforeInstallation(host.Status()) &&
			!slices.Contains(lifecycle.HostPreparingStates, host.Status())
		return late || host.Inventory != nil && !waits &&
			inventory.SameInventory(host.Inventory, e.Inventory.Inventory)
	}
	changed := e.Connectivity != nil && !inventory.SameConnectivity(host.Connectivity, e.Connectivity, latencyLimit) ||
		e.NTPSources != nil && !reflect.DeepEqual(e.NTPSources, host.NTPSources) ||
		e.Domains != nil && !reflect.DeepEqual(e.Domains, host.Domains) ||
		e.FreeAddresses != nil && !reflect.DeepEqual(e.FreeAddresses, host.FreeAddresses) ||
		e.Tang != nil && !reflect.DeepEqual(e.Tang, host.Tang) ||
		e.APIConnectivity != nil && !reflect.DeepEqual(e.APIConnectivity, host.APIConnectivity)
	return !changed
}

// Apply evaluates a reply. If the reply does not fit its step, Apply returns an error of one
// sentence and no effect. A step that failed on the host is an effect, not an error.
func Apply(reply *models.StepReply, s Situation) (*Effect, error) {
	if reply == nil {
		return nil, errors.New("the agent sent no reply")
	}
	e := &Effect{Step: reply.StepType}
	if reply.ExitCode != 0 {
		return e, e.failed(reply, s)
	}
	read, ok := readers[reply.StepType]
	if !ok {
		return nil, fmt.Errorf("the agent replied to a step of unknown type %q", reply.StepType)
	}
	if read == nil || reply.Output == "" && quiet(reply.StepType) {
		return e, nil
	}
	if err := read(e, reply.Output, s); err != nil {
		return nil, fmt.Errorf("the agent's reply to step %s cannot be used: %w", reply.StepType, err)
	}
	return e, nil
}

// quiet reports whether an empty output of a step means that the check is already running.
func quiet(kind models.StepType) bool {
	return kind == models.StepTypeInstallationDiskSpeedCheck || kind == models.StepTypeContainerImageAvailability
}

// failed returns the effect of a step that failed.
func (e *Effect) failed(reply *models.StepReply, s Situation) error {
	e.MediaDisconnected = reply.ExitCode == exitMediaGone
	e.Failure = fmt.Sprintf("Step %s failed on host %s with exit code %d: %s.", reply.StepType, s.Host.Name(),
		reply.ExitCode, shorten(firstText(reply.Error, reply.Output, "no reason given")))
	switch reply.StepType {
	case models.StepTypeInstall:
		running := reply.ExitCode == exitAlreadyRunning && strings.Contains(reply.Error,
			`"assisted-installer" is already in use`)
		e.InstallationFailed = !running
		if running {
			e.Failure = ""
		}
	case models.StepTypeTangConnectivityCheck:
		e.Reports.Tang = firstText(reply.Error, reply.Output, e.Failure)
	case models.StepTypeDownloadBootArtifacts, models.StepTypeRebootForReclaim:
		e.BootArtifactsFailed = true
	case models.StepTypeInstallationDiskSpeedCheck:
		return e.diskSpeedFailed(reply, s)
	case models.StepTypeContainerImageAvailability:
		// The output has the images that were pulled before the failure.
		if reply.Output == "" {
			return nil
		}
		if err := readImages(e, reply.Output, s); err != nil {
			return fmt.Errorf("the agent's reply to step %s cannot be used: %w", reply.StepType, err)
		}
	}
	return nil
}

func (e *Effect) diskSpeedFailed(reply *models.StepReply, s Situation) error {
	path := s.Host.InstallationDiskPath()
	if reply.Output != "" {
		r, err := decode[models.DiskSpeedCheckResponse](reply.Output)
		if err == nil && r.Path != "" {
			path = r.Path
		}
	}
	if path == "" || e.MediaDisconnected {
		return nil
	}
	return e.measured(DiskSpeed{Path: path, ExitCode: reply.ExitCode}, s)
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}

// shorten formats the output of a program for use in a sentence.
func shorten(s string) string {
	s = strings.TrimRight(strings.Join(strings.Fields(s), " "), ".")
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "…"
	}
	return s
}

type reader func(*Effect, string, Situation) error

// readers holds the functions that read the output of each step. The function is nil for steps
// whose output is ignored.
var readers = map[models.StepType]reader{
	models.StepTypeInventory:                  readInventory,
	models.StepTypeConnectivityCheck:          readConnectivity,
	models.StepTypeFreeNetworkAddresses:       readFreeAddresses,
	models.StepTypeDhcpLeaseAllocate:          readLease,
	models.StepTypeNtpSynchronizer:            readNTP,
	models.StepTypeDomainResolution:           readDomains,
	models.StepTypeVerifyVips:                 readVIPs,
	models.StepTypeTangConnectivityCheck:      readTang,
	models.StepTypeAPIVipConnectivityCheck:    readAPIConnectivity,
	models.StepTypeInstallationDiskSpeedCheck: readDiskSpeed,
	models.StepTypeContainerImageAvailability: readImages,
	models.StepTypeUpgradeAgent:               readUpgrade,
	models.StepTypeDownloadBootArtifacts: func(e *Effect, _ string,
		_ Situation) error {
		e.BootArtifactsReady = true
		return nil
	},
	models.StepTypeInstall:          nil,
	models.StepTypeStopInstallation: nil,
	models.StepTypeLogsGather:       nil,
	models.StepTypeRebootForReclaim: nil,
	models.StepTypeNextStepRunner:   nil,
	models.StepTypeExecute:          nil,
}

// decode parses an output as a model. It rejects null, which is valid JSON for every model but
// carries no data.
func decode[T any](output string) (*T, error) {
	var v *T
	if err := json.Unmarshal([]byte(output), &v); err != nil {
		return nil, fmt.Errorf("the output does not match the model (%w)", err)
	}
	if v == nil {
		return nil, errors.New("the output is null")
	}
	return v, nil
}

// keep stores the fields of a reply that the model defines. It drops all other fields, so that no
// agent can fill the store.
func keep(into *string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	*into = string(b)
	return nil
}

func readInventory(e *Effect, output string, s Situation) error {
	inv, truncation, err := inventory.ParseInventory(output)
	if err != nil {
		return err
	}
	inventory.ValidateDisks(inv, s.DiskRules(inv))
	if e.Reports.Inventory, err = inventory.Encode(inv, truncation); err != nil {
		return err
	}
	e.Inventory = &Inventory{Inventory: inv, Truncation: truncation}
	return nil
}

func readConnectivity(e *Effect, output string, _ Situation) (err error) {
	if e.Connectivity, err = decode[models.ConnectivityReport](output); err != nil {
		return err
	}
	(&inventory.Facts{Connectivity: e.Connectivity}).DropNulls()
	return keep(&e.Reports.Connectivity, e.Connectivity)
}

func readFreeAddresses(e *Effect, output string, _ Situation) error {
	list, err := decode[models.FreeNetworksAddresses](output)
	if err != nil {
		return err
	}
	for _, n := range *list {
		if n == nil {
			return errors.New("a network in the report is empty")
		}
		if _, err := netip.ParsePrefix(n.Network); err != nil {
			return fmt.Errorf("%q is not a network", n.Network)
		}
	}
	if len(*list) == 0 {
		return errors.New("the report has no network")
	}
	e.FreeAddresses = *list
	return keep(&e.Reports.FreeAddresses, list)
}

func readNTP(e *Effect, output string, _ Situation) error {
	r, err := decode[models.NtpSynchronizationResponse](output)
	if err != nil {
		return err
	}
	facts := inventory.Facts{NTPSources: r.NtpSources}
	facts.DropNulls()
	e.NTPSources = facts.NTPSources
	if e.NTPSources == nil {
		e.NTPSources = []*models.NtpSource{}
	}
	return keep(&e.Reports.NTPSources, e.NTPSources)
}

func readDomains(e *Effect, output string, _ Situation) (err error) {
	if e.Domains, err = decode[models.DomainResolutionResponse](output); err != nil {
		return err
	}
	(&inventory.Facts{Domains: e.Domains}).DropNulls()
	return keep(&e.Reports.Domains, e.Domains)
}

func readTang(e *Effect, output string, _ Situation) (err error) {
	if e.Tang, err = decode[models.TangConnectivityResponse](output); err != nil {
		return err
	}
	return keep(&e.Reports.Tang, e.Tang)
}

func readAPIConnectivity(e *Effect, output string, _ Situation) (err error) {
	if e.APIConnectivity, err = decode[models.APIVipConnectivityResponse](output); err != nil {
		return err
	}
	return keep(&e.Reports.APIConnectivity, e.APIConnectivity)
}

// leaseForm matches a lease in the format of dhclient. The lease becomes a file on the hosts, so no
// other content is accepted.
var leaseForm = regexp.MustCompile(`^(?:|\s*lease\s*\{(?:\s+[a-z-]+ [^;}]*;)*\s+\}\s*)$`)

func readLease(e *Effect, output string, s Situation) error {
	r, err := decode[models.DhcpAllocationResponse](output)
	if err != nil {
		return err
	}
	if s.Cluster == nil || s.Cluster.VipDhcpAllocation == nil || !*s.Cluster.VipDhcpAllocation {
		return errors.New("the cluster does not get its addresses by DHCP")
	}
	if r.APIVipAddress == nil || r.IngressVipAddress == nil {
		return errors.New("an address in the report is missing")
	}
	if len(s.Cluster.MachineNetworks) == 0 || s.Cluster.MachineNetworks[0] == nil {
		return errors.New("the cluster has no machine network")
	}
	machine, err := netip.ParsePrefix(string(s.Cluster.MachineNetworks[0].Cidr))
	if err != nil {
		return fmt.Errorf("the machine network %q of the cluster is not a network", s.Cluster.MachineNetworks[0].Cidr)
	}
	for _, text := range []string{string(*r.APIVipAddress), string(*r.IngressVipAddress)} {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("%q is not an IP address", text)
		}
		if !machine.Contains(ip) {
			return fmt.Errorf("address %s is not in machine network %s", ip, machine)
		}
	}
	if *r.APIVipAddress == *r.IngressVipAddress {
		return fmt.Errorf("both addresses are %s", *r.APIVipAddress)
	}
	if !leaseForm.MatchString(r.APIVipLease) || !leaseForm.MatchString(r.IngressVipLease) {
		return errors.New("a lease is not in dhclient's format")
	}
	e.Lease = r
	return nil
}

func readVIPs(e *Effect, output string, s Situation) error {
	list, err := decode[models.VerifyVipsResponse](output)
	if err != nil {
		return err
	}
	for _, v := range *list {
		if v == nil {
			return errors.New("an address in the report is empty")
		}
		if _, err := netip.ParseAddr(string(v.Vip)); err != nil {
			return fmt.Errorf("%q is not an IP address", v.Vip)
		}
		if v.Verification == nil {
			return fmt.Errorf("the result for address %s is missing", v.Vip)
		}
		if err := v.Verification.Validate(nil); err != nil {
			return fmt.Errorf("the result %q for address %s is unknown", *v.Verification, v.Vip)
		}
		if err := v.VipType.Validate(nil); err != nil {
			return fmt.Errorf("the kind %q of address %s is unknown", v.VipType, v.Vip)
		}
	}
	e.VIPs = *list
	return nil
}

func readDiskSpeed(e *Effect, output string, s Situation) error {
	r, err := decode[models.DiskSpeedCheckResponse](output)
	if err != nil {
		return err
	}
	if r.Path == "" {
		return errors.New("the report lacks the path of the disk")
	}
	return e.measured(DiskSpeed{
		Path: r.Path, SyncMs: r.IoSyncDuration, Slow: s.DiskSpeedLimit > 0 && r.IoSyncDuration > s.DiskSpeedLimit,
	}, s)
}

// measured adds the result of a disk measurement to the stored results.
func (e *Effect) measured(speed DiskSpeed, s Situation) error {
	e.DiskSpeed = &speed
	disks := make(map[string]models.DiskInfo, len(s.Host.Disks)+1)
	for path, info := range s.Host.Disks {
		disks[path] = info
	}
	info := disks[speed.Path]
	info.Path = speed.Path
	info.DiskSpeed = &models.DiskSpeed{Tested: true, ExitCode: speed.ExitCode, SpeedMs: speed.SyncMs}
	disks[speed.Path] = info
	return keep(&e.Reports.Disks, disks)
}

// readImages adds the results of pulling images to the stored results.
func readImages(e *Effect, output string, s Situation) error {
	r, err := decode[models.ContainerImageAvailabilityResponse](output)
	if err != nil {
		return err
	}
	images := make(map[string]*models.ContainerImageAvailability, len(s.Host.Images)+len(r.Images))
	for name, image := range s.Host.Images {
		images[name] = image
	}
	for _, image := range r.Images {
		if image == nil || image.Name == "" {
			return errors.New("an image in the report has no name")
		}
		if err := image.Result.Validate(nil); err != nil {
			return fmt.Errorf("the result %q of image %s is unknown", image.Result, image.Name)
		}
		// not pulled this time, so the earlier measurement is kept
		if before := images[image.Name]; before != nil && image.SizeBytes == 0 {
			again := *before
			again.Result = image.Result
			image = &again
		}
		images[image.Name] = image
	}
	e.Images = r.Images
	return keep(&e.Reports.Images, images)
}

func readUpgrade(e *Effect, output string, s Situation) (err error) {
	if e.Upgrade, err = decode[models.UpgradeAgentResponse](output); err != nil {
		return err
	}
	if e.Upgrade.Result == models.UpgradeAgentResultFailure {
		e.Failure = fmt.Sprintf("Host %s could not pull agent %s; check that the mirror has it.", s.Host.Name(),
			e.Upgrade.AgentImage)
	}
	return nil
}
