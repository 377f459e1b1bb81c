// Package view reads the rows of the engine in the form of the API: clusters, infra-envs and hosts
// as values, and clusters and hosts as cached JSON. It also reads the files of clusters.
//
// Design: docs/design.md#upstreams-models-as-the-data-model.
package view

import (
	"cmp"
	"errors"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access/machine"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/presence"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Reader reads rows and files of the engine. Its methods are safe for concurrent use.
type Reader struct {
	db         *store.DB
	secrets    *sitekey.Box
	tokens     *machine.Issuer // nil if machines are not authenticated
	presence   *presence.Hosts
	renderings renderings
	hostRows   hostRows
}

// NewReader returns a reader of a store. Sealed values are opened with secrets, which may be nil if
// the store has none. URLs of images contain tokens of the issuer, which may be nil. The times of
// last contact come from presence.
func NewReader(db *store.DB, secrets *sitekey.Box, tokens *machine.Issuer, presence *presence.Hosts) *Reader {
	return &Reader{db: db, secrets: secrets, tokens: tokens, presence: presence}
}

// DropHost deletes a deleted host from the cache.
func (r *Reader) DropHost(key string) {
	r.renderings.drop(record.HostSubject(key), reportSubject(key))
	r.hostRows.drop(key)
}

// Cluster returns a cluster with its hosts.
func (r *Reader) Cluster(id string) (*models.Cluster, error) {
	var shown *models.Cluster
	err := r.db.View(func(tx *store.Tx) error {
		row, err := record.Clusters.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.NotFound, "There is no cluster %s.", id)
		}
		if err != nil {
			return err
		}
		shown, err = r.ShowCluster(tx, row, true)
		return err
	})
	return shown, err
}

// ShowCluster returns a cluster in the form of the API, from its row in a transaction. A damaged
// host is only counted.
func (r *Reader) ShowCluster(tx *store.Tx, row *record.Cluster, withHosts bool) (*models.Cluster, error) {
	shown := row.API
	shown.Hosts = []*models.Host{}
	shown.EnabledHostCount, shown.ReadyHostCount, shown.TotalHostCount = 0, 0, 0
	validations, err := record.LoadValidations(tx, record.ClusterSubject(shown.ID.String()))
	if err != nil {
		return nil, err
	}
	shown.ValidationsInfo = record.TextOf(validations)
	keys, err := record.ClusterHostKeys(tx, shown.ID.String())
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		shown.TotalHostCount++
		shown.EnabledHostCount++
		h, err := record.Hosts.Get(tx, key)
		if store.IsDamaged(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if *h.API.Status == lifecycle.HostKnown {
			shown.ReadyHostCount++
		}
		if withHosts {
			host, err := r.ShowHost(tx, h, true)
			if err != nil {
				return nil, err
			}
			shown.Hosts = append(shown.Hosts, host)
		}
	}
	return &shown, nil
}

// Host returns a host with the reports of its agent.
func (r *Reader) Host(infraEnvID, hostID string) (*models.Host, error) {
	var shown *models.Host
	err := r.db.View(func(tx *store.Tx) error {
		h, err := record.Hosts.Get(tx, infraEnvID+"/"+hostID)
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.NotFound, "There is no host %s in infra-env %s.", hostID, infraEnvID)
		}
		if err != nil {
			return err
		}
		shown, err = r.ShowHost(tx, h, true)
		return err
	})
	return shown, err
}

// Hosts returns the hosts of an infra-env with the reports of their agents.
func (r *Reader) Hosts(infraEnvID string) ([]*models.Host, error) {
	hosts := []*models.Host{}
	err := r.db.View(func(tx *store.Tx) error {
		if !record.InfraEnvs.Exists(tx, infraEnvID) {
			return fault.New(fault.NotFound, "There is no infra-env %s.", infraEnvID)
		}
		return record.Hosts.Each(tx, infraEnvID+"/", func(_ string, h *record.Host) error {
			shown, err := r.ShowHost(tx, h, true)
			hosts = append(hosts, shown)
			return err
		})
	})
	return hosts, err
}

// ClusterHosts returns the hosts of a cluster, with or without the reports of their agents.
func (r *Reader) ClusterHosts(clusterID string, withReports bool) ([]*models.Host, error) {
	hosts := []*models.Host{}
	err := r.db.View(func(tx *store.Tx) error {
		if !record.Clusters.Exists(tx, clusterID) {
			return fault.New(fault.NotFound, "There is no cluster %s.", clusterID)
		}
		keys, err := record.ClusterHostKeys(tx, clusterID)
		if err != nil {
			return err
		}
		for _, key := range keys {
			h, err := record.Hosts.Get(tx, key)
			if store.IsDamaged(err) {
				continue
			}
			if err != nil {
				return err
			}
			shown, err := r.ShowHost(tx, h, withReports)
			if err != nil {
				return err
			}
			hosts = append(hosts, shown)
		}
		return nil
	})
	return hosts, err
}

// ShowHost returns a host in the form of the API, from its row in a transaction.
func (r *Reader) ShowHost(tx *store.Tx, h *record.Host, withReports bool) (*models.Host, error) {
	shown := h.API
	// The Assisted Installer has the same fallbacks.
	shown.RequestedHostname = cmp.Or(shown.RequestedHostname, h.Hostname, shown.ID.String())
	key := record.HostKey(h)
	if polled, ok := r.presence.Polled(key); ok {
		shown.CheckedInAt = strfmt.DateTime(polled)
	}
	validations, err := record.LoadValidations(tx, record.HostSubject(key))
	if err != nil {
		return nil, err
	}
	shown.ValidationsInfo = record.TextOf(validations)
	if withReports {
		reports, err := record.LoadReports(tx, key)
		if err != nil {
			return nil, err
		}
		shown.Inventory, shown.Connectivity, shown.FreeAddresses = reports.Inventory, reports.Connectivity,
			reports.FreeAddresses
		shown.NtpSources, shown.DomainNameResolutions, shown.TangConnectivity = reports.NTPSources, reports.Domains,
			reports.Tang
		shown.ImagesStatus, shown.DisksInfo, shown.APIVipConnectivity = reports.Images, reports.Disks,
			reports.APIConnectivity
	}
	return &shown, nil
}
