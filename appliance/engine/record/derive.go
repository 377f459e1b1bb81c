package record

import (
	"errors"
	"strings"
	"time"

	"landfall/appliance/engine/lifecycle"
	"landfall/store"
)

// Derive derives the indexes and the deadlines of clusters, infra-envs and hosts again from their
// rows, after the stored ones were damaged. Entries of damaged rows stay. All deadlines become due,
// because a deadline may be too early. It returns the names of the indexes that it has derived.
func Derive(tx *store.Tx, now time.Time) (names []string, err error) {
	d := derivation{tx: tx, now: now, want: map[store.Index]map[string]bool{
		ClusterHosts: {}, ClusterInfraEnvs: {}, HostInfraEnvs: {}, PendingPreparations: {}, ImageCodes: {},
		JoiningHosts: {}, ClusterObjects: {}, InfraEnvObjects: {}, HostObjects: {},
	}}
	if err := StateDeadlines.Drop(tx); err != nil {
		return nil, err
	}
	if err := errors.Join(Clusters.Each(tx, "", d.cluster), InfraEnvs.Each(tx, "", d.infraEnv),
		Hosts.Each(tx, "", d.host)); err != nil {
		return nil, err
	}
	if err := d.findUnreadable(); err != nil {
		return nil, err
	}
	for index, want := range d.want {
		if err := d.replace(index, want); err != nil {
			return nil, err
		}
		names = append(names, index.Prefix())
	}
	return append(names, StateDeadlines.Prefix()), nil
}

type derivation struct {
	tx         *store.Tx
	now        time.Time
	want       map[store.Index]map[string]bool
	unreadable []string // IDs of damaged rows
}

func (d *derivation) add(index store.Index, key string) { d.want[index][key] = true }

func (d *derivation) object(index store.Index, of Object, id string) {
	if of.Key != "" {
		d.add(index, of.Key+"/"+id)
	}
}

func (d *derivation) cluster(id string, row *Cluster) error {
	if row.API.Status != nil && *row.API.Status == lifecycle.ClusterPreparing {
		d.add(PendingPreparations, id)
	}
	d.object(ClusterObjects, row.Object, id)
	return StateDeadlines.Set(d.tx, ClusterDeadline(id), d.now)
}

func (d *derivation) infraEnv(id string, row *InfraEnv) error {
	if row.API.ClusterID != "" {
		d.add(ClusterInfraEnvs, row.API.ClusterID.String()+"/"+id)
	}
	if row.Code.Code != "" {
		d.add(ImageCodes, row.Code.Code+"/"+id)
	}
	d.object(InfraEnvObjects, row.Object, id)
	return nil
}

func (d *derivation) host(key string, row *Host) error {
	if row.API.ClusterID != nil && *row.API.ClusterID != "" {
		d.add(ClusterHosts, row.API.ClusterID.String()+"/"+key)
	}
	d.add(HostInfraEnvs, row.API.ID.String()+"/"+row.API.InfraEnvID.String())
	if row.IsAwaited() {
		d.add(JoiningHosts, key)
	}
	d.object(HostObjects, row.Object, key)
	return StateDeadlines.Set(d.tx, HostDeadline(key), d.now)
}

// findUnreadable finds the damaged rows, whose entries can't be derived.
func (d *derivation) findUnreadable() error {
	note := func(id string, err error) error {
		if store.IsDamaged(err) {
			d.unreadable = append(d.unreadable, id)
			return nil
		}
		return err
	}
	return errors.Join(
		Clusters.Keys(d.tx, "", func(id string) error { _, err := Clusters.Get(d.tx, id); return note(id, err) }),
		InfraEnvs.Keys(d.tx, "", func(id string) error { _, err := InfraEnvs.Get(d.tx, id); return note(id, err) }),
		Hosts.Keys(d.tx, "", func(key string) error {
			_, err := Hosts.Get(d.tx, key)
			return note(key[strings.LastIndexByte(key, '/')+1:], err)
		}))
}

func (d *derivation) replace(index store.Index, want map[string]bool) error {
	var wrong []string
	if err := index.Keys(d.tx, "", func(key string) error {
		if !want[key] && !d.mayBelong(key) {
			wrong = append(wrong, key)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, key := range wrong {
		if err := index.Remove(d.tx, key); err != nil {
			return err
		}
	}
	for key := range want {
		if err := index.Add(d.tx, key); err != nil {
			return err
		}
	}
	return nil
}

// mayBelong reports whether an entry is about a damaged row.
func (d *derivation) mayBelong(key string) bool {
	for _, id := range d.unreadable {
		if strings.Contains(key, id) {
			return true
		}
	}
	return false
}
