package agents

import (
	"errors"
	"slices"

	"landfall/appliance/access"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// reportEvent is the operation of machines without an object in its path. Its handler checks the
// objects in the body with [Service.Allowed].
const reportEvent = "v2TriggerEvent"

// peerOperations are the operations on other hosts of a machine's cluster: the bootstrap host and
// the controller report the progress of all hosts.
var peerOperations = []string{reportEvent, "v2UpdateHostInstallProgress", "v2UpdateHostLogsProgress"}

// Allowed returns nil if a machine may call an operation of machines on the objects in its path, or
// in the body of an event. An ID is "" if there is none. Other errors have the kind Forbidden.
//
// A machine may call the operations on its infra-env and its hosts, and on the clusters to which
// its infra-env or one of its hosts belongs. The poll of an agent reads no row.
func (s *Service) Allowed(identity access.Identity, operationID, clusterID, infraEnvID, hostID string) error {
	own := identity.InfraEnv
	if identity.Kind != access.Agent || own == "" {
		return fault.New(fault.Forbidden, "Only the agent of a host may call %s.", operationID)
	}
	if infraEnvID == "" && clusterID == "" {
		if operationID == reportEvent {
			return nil
		}
		return fault.New(fault.Forbidden, "A machine may not call %s.", operationID)
	}
	if infraEnvID == own && clusterID == "" {
		return nil
	}
	return s.options.DB.View(func(tx *store.Tx) error {
		if infraEnvID != "" && infraEnvID != own {
			if err := checkPeer(tx, own, operationID, infraEnvID, hostID); err != nil {
				return err
			}
		}
		if clusterID == "" {
			return nil
		}
		related, err := isRelated(tx, own, clusterID)
		if err != nil || related || !record.Clusters.Exists(tx, clusterID) { // the handler answers 404
			return err
		}
		return fault.New(fault.Forbidden, "The machines of infra-env %s do not belong to cluster %s.", own, clusterID)
	})
}

// checkPeer returns nil if an operation may concern a host of another infra-env in the cluster of a
// machine.
func checkPeer(tx *store.Tx, own, operationID, infraEnvID, hostID string) error {
	foreign := fault.New(fault.Forbidden, "The machines of infra-env %s do not belong to infra-env %s.", own,
		infraEnvID)
	if hostID == "" || !slices.Contains(peerOperations, operationID) {
		return foreign
	}
	host, err := record.Hosts.Get(tx, infraEnvID+"/"+hostID)
	if errors.Is(err, store.ErrNotFound) || err == nil && host.API.ClusterID == nil {
		return foreign
	}
	if err != nil {
		return err
	}
	related, err := isRelated(tx, own, host.API.ClusterID.String())
	if err == nil && !related {
		err = foreign
	}
	return err
}

// isRelated reports whether an infra-env, or a host of it, belongs to a cluster.
func isRelated(tx *store.Tx, infraEnvID, clusterID string) (bool, error) {
	key := clusterID + "/" + infraEnvID
	related := record.ClusterInfraEnvs.Exists(tx, key)
	if related {
		return true, nil
	}
	err := record.ClusterHosts.Keys(tx, key+"/", func(string) error { related = true; return store.ErrStop })
	return related, err
}
