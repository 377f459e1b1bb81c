package abi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// eventNotApplied is the event of a host to which some settings could not be applied.
const eventNotApplied = "abi_host_not_applied"

var (
	// directoryRows contains the directories from which clusters were created, by cluster id. Each
	// row is encrypted as a whole, because it contains pull secrets and credentials.
	directoryRows = store.NewBucket[string]("abi-folders", 1)
	// appliedHosts contains the hosts to which settings were applied: <cluster id>/<host id>.
	appliedHosts = store.NewIndex("abi-applied")
)

// record contains a directory, and the values of the cluster right after it was created from that
// directory.
type record struct {
	InfraEnvID string `json:"infra_env_id"`
	Files      []File `json:"files"`
	Before     Values `json:"before"`
	Hosts      []Host `json:"hosts"`
	Mirror     string `json:"mirror,omitempty"` // name of the import with the directory's mirror rules
}

// HostSettings applies the host settings of directories (name, role, installation disk, BMC
// credentials) to hosts that have booted. Each host receives the settings once. Later changes by
// users are kept.
type HostSettings struct {
	db  *store.DB
	box *sitekey.Box
	log *slog.Logger

	applying sync.Mutex // held while settings are applied to a host

	mu       sync.Mutex
	expected map[string]expectedHosts // by infra-env id
}

// expectedHosts contains the hosts in the directory of one cluster.
type expectedHosts struct {
	cluster string
	hosts   []Host
	applied map[string]bool // by host id
}

// NewHostSettings returns the host settings of the directories in a store. box encrypts the
// directories.
func NewHostSettings(db *store.DB, box *sitekey.Box, logger *slog.Logger) *HostSettings {
	return &HostSettings{db: db, box: box, log: logger, expected: map[string]expectedHosts{}}
}

// Expect adds hosts that will boot the image of an infra-env, with their settings.
func (s *HostSettings) Expect(infraEnv, cluster string, hosts []Host) {
	s.expect(infraEnv, expectedHosts{cluster, hosts, map[string]bool{}})
}

func (s *HostSettings) expect(infraEnv string, hosts expectedHosts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected[infraEnv] = hosts
}

// Run applies the settings of all directories when hosts report their network interfaces. It also
// removes the directories of deleted clusters. It runs until the context ends.
func (s *HostSettings) Run(ctx context.Context, e *engine.Engine) error {
	from := s.db.Revision()
	if err := s.load(ctx, e); err != nil {
		return err
	}
	for ; ctx.Err() == nil; from = s.db.Revision() {
		watcher := s.db.Watch(ctx, from, "/clusters/", "/hosts/")
		for changes := range watcher.C() {
			for _, change := range changes {
				if err := s.handle(ctx, e, change); err != nil && ctx.Err() == nil {
					s.log.Warn("The settings from an agent-based installer directory could not be applied to a host.",
						"key", change.Key, "error", err)
				}
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("watch hosts: %w", err)
		}
	}
	return nil
}

// ApplyAll applies the settings of a cluster's directory to all its hosts that lack them. The
// engine calls it before an installation, because a host may have registered just before.
func (s *HostSettings) ApplyAll(ctx context.Context, e *engine.Engine, cluster string) error {
	if store.IsDryRun(ctx) {
		return nil // the first host with new settings would end the dry run of the installation
	}
	env := ""
	s.mu.Lock()
	for id, expected := range s.expected {
		if expected.cluster == cluster {
			env = id
		}
	}
	s.mu.Unlock()
	if env == "" {
		return nil
	}
	hosts, err := e.Hosts(env)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		if err := s.apply(ctx, e, env, host.ID.String()); err != nil {
			return err
		}
	}
	return nil
}

// load reads all directories and applies their settings to the existing hosts.
func (s *HostSettings) load(ctx context.Context, e *engine.Engine) error {
	found := map[string]expectedHosts{}
	err := s.db.View(func(tx *store.Tx) error {
		return directoryRows.Each(tx, "", func(cluster string, sealed *string) error {
			record, err := s.open(*sealed)
			if err != nil {
				return err
			}
			applied := map[string]bool{}
			found[record.InfraEnvID] = expectedHosts{cluster, record.Hosts, applied}
			return appliedHosts.Keys(tx, cluster+"/", func(key string) error {
				applied[strings.TrimPrefix(key, cluster+"/")] = true
				return nil
			})
		})
	})
	if err != nil {
		return fmt.Errorf("read the agent-based installer directories: %w", err)
	}
	for env, expected := range found {
		s.expect(env, expected)
		cluster, err := e.Cluster(expected.cluster)
		if fault.KindOf(err) == fault.NotFound {
			err = s.deleteDirectory(ctx, expected.cluster)
		}
		if err != nil {
			return err
		}
		if cluster == nil {
			continue
		}
		for _, host := range cluster.Hosts {
			if err := s.apply(ctx, e, host.InfraEnvID.String(), host.ID.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// handle handles a change of a cluster or a host.
func (s *HostSettings) handle(ctx context.Context, e *engine.Engine, change store.Change) error {
	kind, key, _ := strings.Cut(strings.TrimPrefix(change.Key, "/"), "/")
	switch {
	case kind == "clusters" && change.Deleted:
		return s.deleteDirectory(ctx, key)
	case kind == "clusters" || change.Deleted:
		return nil
	}
	env, host, _ := strings.Cut(key, "/")
	return s.apply(ctx, e, env, host)
}

// deleteDirectory deletes the directory of a deleted cluster.
func (s *HostSettings) deleteDirectory(ctx context.Context, cluster string) error {
	found := false
	s.mu.Lock()
	for env, expected := range s.expected {
		if expected.cluster == cluster {
			found = true
			delete(s.expected, env)
		}
	}
	s.mu.Unlock()
	if !found {
		return nil
	}
	return s.db.Update(ctx, func(tx *store.Tx) error {
		var applied []string
		err := appliedHosts.Keys(tx, cluster+"/", func(key string) error { applied = append(applied, key); return nil })
		for _, key := range applied {
			err = errors.Join(err, appliedHosts.Remove(tx, key))
		}
		if directoryRows.Exists(tx, cluster) {
			err = errors.Join(err, directoryRows.Delete(tx, cluster))
		}
		return err
	})
}

// saveDirectory stores the directory of a cluster and expects its hosts.
func (s *HostSettings) saveDirectory(ctx context.Context, cluster string, record *record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	sealed, err := s.box.Seal(string(text))
	if err != nil {
		return fmt.Errorf("encrypt the directory: %w", err)
	}
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		return directoryRows.Put(tx, cluster, &sealed)
	}); err != nil {
		return err
	}
	s.Expect(record.InfraEnvID, cluster, record.Hosts)
	return nil
}

func (s *HostSettings) open(sealed string) (*record, error) {
	text, err := s.box.Open(sealed)
	if err != nil {
		return nil, fmt.Errorf("decrypt the directory from which a cluster was created: %w", err)
	}
	record := new(record)
	return record, json.Unmarshal([]byte(text), record)
}

// record returns the directory from which a cluster was created. If the cluster was created
// otherwise, the record has no files.
func (s *HostSettings) record(cluster string) (*record, error) {
	found := new(record)
	err := s.db.View(func(tx *store.Tx) error {
		sealed, err := directoryRows.Get(tx, cluster)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			found, err = s.open(*sealed)
		}
		return err
	})
	return found, err
}

// Hosts returns the hosts in the directory from which a cluster was created.
func (s *HostSettings) Hosts(cluster string) ([]Host, error) {
	record, err := s.record(cluster)
	if err != nil {
		return nil, err
	}
	return record.Hosts, nil
}

// apply applies the settings to a host. It does nothing if they were applied before.
func (s *HostSettings) apply(ctx context.Context, e *engine.Engine, env, host string) error {
	s.applying.Lock() // an installation that starts now waits until the settings are applied
	defer s.applying.Unlock()
	s.mu.Lock()
	expected, pending := s.expected[env]
	pending = pending && !expected.applied[host]
	s.mu.Unlock()
	if !pending {
		return nil
	}
	hardware, err := e.HostHardware(env, host)
	if err != nil || hardware == nil {
		return err
	}
	for _, settings := range expected.hosts {
		if hasInterface(hardware, settings) {
			return s.applyTo(ctx, e, expected, env, host, settings, hardware)
		}
	}
	return nil
}

func (s *HostSettings) applyTo(ctx context.Context, e *engine.Engine, expected expectedHosts, env, host string,
	settings Host, hardware *models.Inventory) error {
	params, warning := hostParams(settings, hardware)
	if _, err := e.UpdateHost(ctx, env, host, params); err != nil {
		if fault.KindOf(err) == 0 {
			return err
		}
		warning = err.Error()
	}
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		return appliedHosts.Add(tx, expected.cluster+"/"+host)
	}); err != nil {
		return err
	}
	s.mu.Lock()
	expected.applied[host] = true
	s.mu.Unlock()
	if warning == "" {
		return nil
	}
	return e.AddHostWarning(ctx, env, host, eventNotApplied, warning+" ("+settings.Where+")")
}

// hasInterface reports whether the inventory contains one of the MAC addresses of a directory's
// host.
func hasInterface(hardware *models.Inventory, host Host) bool {
	return hardware != nil && slices.ContainsFunc(hardware.Interfaces, func(nic *models.Interface) bool {
		return slices.Contains(host.MACs, strings.ToLower(nic.MacAddress))
	})
}

// hostParams returns the update that applies the settings to a host. It also returns a warning if
// no disk matches the root device hints.
func hostParams(settings Host, hardware *models.Inventory) (params *models.HostUpdateParams, warning string) {
	params = new(models.HostUpdateParams)
	if settings.Hostname != "" {
		params.HostName = &settings.Hostname
	}
	if settings.Role != "" {
		params.HostRole = &settings.Role
	}
	if len(settings.Hints) > 0 {
		if disk := settings.Disk(hardware.Disks); disk != nil {
			id := disk.ID
			if id == "" {
				id = "/dev/" + disk.Name
			}
			params.DisksSelectedConfig = []*models.DiskConfigParams{{ID: &id, Role: models.DiskRoleInstall}}
		} else {
			warning = "no eligible disk matches the host's rootDeviceHints; choose its " +
				"installation disk."
		}
	}
	if c := settings.Fencing; len(c) > 0 {
		text := func(name string) *string {
			if value, ok := c[name]; ok {
				return &value
			}
			return nil
		}
		params.FencingCredentials = &models.FencingCredentialsParams{
			Address: text("address"), Username: text("username"), Password: text("password"),
			CertificateVerification: text("certificateverification"),
		}
	}
	return params, warning
}
