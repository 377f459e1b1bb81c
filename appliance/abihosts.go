package appliance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/abi"
	"landfall/appliance/engine"
	"landfall/store"
)

// eventFolderHost tells that a host can't be what its folder says.
const eventFolderHost = "abi_host_not_applied"

// abiApplied are the hosts that were given what their folder says: <cluster>/<host>.
var abiApplied = store.NewIndex("abi-applied")

// folderHosts are the hosts that a folder speaks of.
type folderHosts struct {
	cluster string
	hosts   []abi.Host
	done    map[string]bool // ids of those that have what the folder says
}

func (f *abiFolders) expect(infraEnv string, hosts folderHosts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.envs[infraEnv] = hosts
}

// follow gives hosts what the folders of their clusters say of them, once, when they have reported
// their network cards; and forgets the folders of clusters that are gone.
func (f *abiFolders) follow(ctx context.Context) error {
	from := f.db.Revision()
	if err := f.begin(ctx); err != nil {
		return err
	}
	for ; ctx.Err() == nil; from = f.db.Revision() {
		watcher := f.db.Watch(ctx, from, "/clusters/", "/hosts/")
		for changes := range watcher.C() {
			for _, change := range changes {
				if err := f.heed(ctx, change); err != nil && ctx.Err() == nil {
					f.log.Warn("What a folder of the agent-based installer says of a host could not be applied.",
						"key", change.Key, "error", err)
				}
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow the hosts' changes: %w", err)
		}
	}
	return nil
}

// beforeInstall gives the hosts of a cluster what the cluster's folder says of them, which may have
// registered a moment ago.
func (a *Appliance) beforeInstall(ctx context.Context, cluster string) error {
	if a.folders == nil {
		return nil
	}
	return a.folders.applyAll(ctx, cluster)
}

// applyAll gives all hosts of a cluster what its folder says of them, as far as that was not done.
func (f *abiFolders) applyAll(ctx context.Context, cluster string) error {
	env := ""
	f.mu.Lock()
	for id, folder := range f.envs {
		if folder.cluster == cluster {
			env = id
		}
	}
	f.mu.Unlock()
	if env == "" {
		return nil
	}
	hosts, err := f.engine.Hosts(env)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		if err := f.apply(ctx, env, host.ID.String()); err != nil {
			return err
		}
	}
	return nil
}

// begin reads which folders there are, and looks at all their hosts.
func (f *abiFolders) begin(ctx context.Context) error {
	found := map[string]folderHosts{}
	err := f.db.View(func(tx *store.Tx) error {
		return abiRows.Each(tx, "", func(cluster string, sealed *string) error {
			record, err := f.open(*sealed)
			if err != nil {
				return err
			}
			done := map[string]bool{}
			found[record.InfraEnvID] = folderHosts{cluster, record.Hosts, done}
			return abiApplied.Keys(tx, cluster+"/", func(key string) error {
				done[strings.TrimPrefix(key, cluster+"/")] = true
				return nil
			})
		})
	})
	if err != nil {
		return fmt.Errorf("read the folders of the agent-based installer: %w", err)
	}
	for env, folder := range found {
		f.expect(env, folder)
		cluster, err := f.engine.Cluster(folder.cluster)
		if engine.KindOf(err) == engine.NotFound {
			err = f.forget(ctx, folder.cluster)
		}
		if err != nil {
			return err
		}
		if cluster == nil {
			continue
		}
		for _, host := range cluster.Hosts {
			if err := f.apply(ctx, host.InfraEnvID.String(), host.ID.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *abiFolders) heed(ctx context.Context, change store.Change) error {
	kind, key, _ := strings.Cut(strings.TrimPrefix(change.Key, "/"), "/")
	switch {
	case kind == "clusters" && change.Deleted:
		return f.forget(ctx, key)
	case kind == "clusters" || change.Deleted:
		return nil
	}
	env, host, _ := strings.Cut(key, "/")
	return f.apply(ctx, env, host)
}

func (f *abiFolders) forget(ctx context.Context, cluster string) error {
	known := false
	f.mu.Lock()
	for env, folder := range f.envs {
		if folder.cluster == cluster {
			known = true
			delete(f.envs, env)
		}
	}
	f.mu.Unlock()
	if !known {
		return nil
	}
	return f.db.Update(ctx, func(tx *store.Tx) error {
		var applied []string
		err := abiApplied.Keys(tx, cluster+"/", func(key string) error { applied = append(applied, key); return nil })
		for _, key := range applied {
			err = errors.Join(err, abiApplied.Remove(tx, key))
		}
		if abiRows.Exists(tx, cluster) {
			err = errors.Join(err, abiRows.Delete(tx, cluster))
		}
		return err
	})
}

// apply gives a host the name, the role, the disk and the credentials that its folder has for it.
// It is done once: what a person changes afterwards stays.
func (f *abiFolders) apply(ctx context.Context, env, host string) error {
	f.applying.Lock() // whoever presses Install waits until it is done
	defer f.applying.Unlock()
	f.mu.Lock()
	folder, known := f.envs[env]
	known = known && !folder.done[host]
	f.mu.Unlock()
	if !known {
		return nil
	}
	found, err := f.engine.HostHardware(env, host)
	if err != nil || found == nil {
		return err
	}
	for _, wanted := range folder.hosts {
		if has(found, wanted) {
			return f.applyTo(ctx, folder, env, host, wanted, found)
		}
	}
	return nil
}

func (f *abiFolders) applyTo(ctx context.Context, folder folderHosts, env, host string, wanted abi.Host,
	found *models.Inventory) error {
	params, complaint := hostParams(wanted, found)
	if _, err := f.engine.UpdateHost(ctx, env, host, params); err != nil {
		if _, refused := errors.AsType[*engine.Error](err); !refused {
			return err
		}
		complaint = err.Error()
	}
	if err := f.db.Update(ctx, func(tx *store.Tx) error {
		return abiApplied.Add(tx,
			folder.cluster+"/"+host)
	}); err != nil {
		return err
	}
	f.mu.Lock()
	folder.done[host] = true
	f.mu.Unlock()
	if complaint == "" {
		return nil
	}
	return f.engine.WarnOfHost(ctx, env, host, eventFolderHost, complaint+" ("+wanted.Where+")")
}

func hostParams(wanted abi.Host, found *models.Inventory) (params *models.HostUpdateParams, complaint string) {
	params = new(models.HostUpdateParams)
	if wanted.Hostname != "" {
		params.HostName = &wanted.Hostname
	}
	if wanted.Role != "" {
		params.HostRole = &wanted.Role
	}
	if len(wanted.Hints) > 0 {
		if disk := wanted.Disk(found.Disks); disk != nil {
			id := disk.ID
			if id == "" {
				id = "/dev/" + disk.Name
			}
			params.DisksSelectedConfig = []*models.DiskConfigParams{{ID: &id, Role: models.DiskRoleInstall}}
		} else {
			complaint = "no disk that OpenShift can be installed to fits its rootDeviceHints; choose its " +
				"installation disk."
		}
	}
	if c := wanted.Fencing; len(c) > 0 {
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
	return params, complaint
}
