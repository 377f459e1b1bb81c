// Package record holds the rows of hosted clusters: subscriptions, clusters, node pools, external
// auths, operations, credentials and management clusters, and their indexes. It has no rules.
package record

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"landfall/appliance/hosted/arm"
	"landfall/store"
)

// The provisioning states of resources.
const (
	Accepted     = "Accepted"
	Provisioning = "Provisioning"
	Updating     = "Updating"
	Deleting     = "Deleting"
	Succeeded    = "Succeeded"
	Failed       = "Failed"
	Canceled     = "Canceled"
)

// IsTerminal reports whether a state does not change without a request.
func IsTerminal(state string) bool {
	return state == Succeeded || state == Failed || state == Canceled
}

// Subscription is a subscription. A site has one from its first start.
type Subscription struct {
	ID         string          `json:"id"` // UUID in lower case
	State      string          `json:"state"`
	Registered string          `json:"registration_date,omitempty"`
	Properties json.RawMessage `json:"properties,omitempty"`
	Tenant     string          `json:"tenant,omitempty"`
	Seeded     bool            `json:"seeded,omitempty"` // made at the first start
	Created    time.Time       `json:"created_at"`
}

// SystemData says who made and changed a resource.
type SystemData struct {
	CreatedBy          string    `json:"createdBy,omitempty"`
	CreatedByType      string    `json:"createdByType,omitempty"`
	CreatedAt          time.Time `json:"createdAt,omitzero"`
	LastModifiedBy     string    `json:"lastModifiedBy,omitempty"`
	LastModifiedByType string    `json:"lastModifiedByType,omitempty"`
	LastModifiedAt     time.Time `json:"lastModifiedAt,omitzero"`
}

// Resource is what clusters, node pools and external auths have in common.
type Resource struct {
	ID       arm.ID       `json:"resource_id"`
	Document arm.Document `json:"document"`
	System   SystemData   `json:"system_data"`
	// State is the provisioning state. Reason says in words what the resource waits for or why it
	// failed.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Operation is the ID of the running operation, or "".
	Operation string    `json:"operation,omitempty"`
	Created   time.Time `json:"created_at"` // UTC
	Updated   time.Time `json:"updated_at"` // UTC; last change of the document
	Deleted   time.Time `json:"deleted_at,omitzero"`
	DeletedBy string    `json:"deleted_by,omitempty"`
}

// Cluster is a hosted cluster.
type Cluster struct {
	Resource
	CID string `json:"cid"` // ID in Clusters Service
	// Prefix is the first label of the cluster's domain, and the name of its HostedCluster.
	Prefix   string `json:"prefix"`
	UUID     string `json:"uuid"`               // spec.clusterID of the HostedCluster
	Consumer string `json:"consumer,omitempty"` // management cluster; "" until there is one
	// Chosen are the fields of the networks that the appliance chose while there was no management
	// cluster. It chooses them again for the one that the cluster gets.
	Chosen  []string `json:"chosen_networks,omitempty"`
	Release Release  `json:"release"`
	// FIPS is the choice at the creation. HyperShift refuses another one later, so a cluster of a
	// former version, which did not render it, stays without.
	FIPS    bool   `json:"fips,omitempty"`
	EtcdKey string `json:"etcd_key"` // 32 bytes in base64, sealed with the site's key
	// Namespaces and Control are the IDs of the cluster's bundles, or "".
	Namespaces string `json:"namespaces_bundle,omitempty"`
	Control    string `json:"control_bundle,omitempty"`
	// Managed is the ID of the bundle with the ManagedCluster of a nested layout, or "".
	Managed string `json:"managed_bundle,omitempty"`
	// Revocation is the ID of the bundle that revokes credentials, or "".
	Revocation string   `json:"revocation_bundle,omitempty"`
	Observed   Observed `json:"observed"`
	// Watched is for how long the management cluster could work on the document since the creation
	// or the last change of it. It limits the time of a creation.
	Watched   time.Duration `json:"watched,omitempty"`
	WatchedAt time.Time     `json:"watched_at,omitzero"`
}

// Release is the release of a control plane or of nodes.
type Release struct {
	Version string `json:"version"`
	Image   string `json:"image"` // pull spec
}

// Observed is what the management cluster reported about a hosted cluster.
type Observed struct {
	State         string      `json:"state"` // of Clusters Service
	APIURL        string      `json:"api_url,omitempty"`
	Version       string      `json:"version,omitempty"` // completed
	At            time.Time   `json:"at,omitzero"`       // time of the report
	Conditions    []Condition `json:"conditions,omitempty"`
	ErrorCode     string      `json:"error_code,omitempty"`
	Delivered     bool        `json:"delivered,omitempty"` // the management cluster has the present wish
	NodesReady    int64       `json:"nodes_ready,omitempty"`
	KubeconfigRef string      `json:"kubeconfig_ref,omitempty"`
}

// Condition is a condition of an object of the management cluster.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

// NodePool is a node pool of a hosted cluster.
type NodePool struct {
	Resource
	CID      string   `json:"cid"` // of its cluster
	Release  Release  `json:"release"`
	Bundle   string   `json:"bundle,omitempty"` // ID
	Observed Observed `json:"observed"`
}

// ExternalAuth is an external authentication configuration of a hosted cluster.
type ExternalAuth struct {
	Resource
	CID string `json:"cid"`
}

// OperationKind is the request of an operation.
type OperationKind string

// The requests.
const (
	Create            OperationKind = "Create"
	Update            OperationKind = "Update"
	Delete            OperationKind = "Delete"
	RequestCredential OperationKind = "RequestCredential"
	RevokeCredentials OperationKind = "RevokeCredentials"
)

// Operation is an asynchronous operation.
type Operation struct {
	ID       string        `json:"id"` // UUID
	Kind     OperationKind `json:"kind"`
	Status   string        `json:"status"`
	Resource arm.ID        `json:"resource_id"`
	Start    time.Time     `json:"start"`
	End      time.Time     `json:"end,omitzero"`
	Error    *arm.Error    `json:"error,omitempty"`
	// Tenant and Client are those of the request. Others do not see the operation.
	Tenant     string `json:"tenant,omitempty"`
	Client     string `json:"client,omitempty"`
	Credential string `json:"credential,omitempty"` // ID
	Implicit   bool   `json:"implicit,omitempty"`   // nobody requested it by itself
}

// Credential is a kubeconfig of a hosted cluster that a person requested.
type Credential struct {
	ID         string    `json:"id"`
	CID        string    `json:"cid"`
	Operation  string    `json:"operation"`
	Status     string    `json:"status"` // created, issued, failed, awaiting_revocation, revoked
	User       string    `json:"user"`
	Bundle     string    `json:"bundle,omitempty"`
	Kubeconfig string    `json:"kubeconfig,omitempty"` // sealed with the site's key
	Key        string    `json:"key,omitempty"`        // private key, sealed
	CSR        string    `json:"csr,omitempty"`        // PEM
	By         string    `json:"by,omitempty"`         // name of the caller who requested it
	Created    time.Time `json:"created_at"`
	// Expires is the end of the certificate. Before the certificate is issued, it is the end that
	// it would have if it were signed at once.
	Expires time.Time `json:"expires_at"`
}

// DefaultAgentNamespace is the namespace with the Agents of a management cluster that names none.
const DefaultAgentNamespace = "hardware-inventory"

// Management is a management cluster.
type Management struct {
	Consumer  string `json:"consumer"`             // its name
	ClusterID string `json:"cluster_id,omitempty"` // of the appliance; "": installed by others
	Number    int    `json:"number"`               // stamp number, from 1
	// BaseDomain is the domain below which hosted clusters have theirs.
	BaseDomain string `json:"base_domain"`
	// Publish is NodePort or LoadBalancer. Address is the address or name of the nodes for
	// NodePort.
	Publish         string   `json:"publish"`
	Address         string   `json:"address,omitempty"`
	PodNetworks     []string `json:"pod_networks,omitempty"`
	ServiceNetworks []string `json:"service_networks,omitempty"`
	MachineNetworks []string `json:"machine_networks,omitempty"`
	// AgentNamespace has the InfraEnv and the Agents of the workers.
	AgentNamespace  string   `json:"agent_namespace"`
	Profiles        []string `json:"profiles,omitempty"` // hardware profiles; empty: any
	StorageClass    string   `json:"storage_class,omitempty"`
	HighlyAvailable bool     `json:"highly_available"`
	// Layout is flat, or nested for a cluster with the multicluster engine: a bundle then contains
	// a ManifestWork for the cluster's own work agent. It never changes, because the agent deletes
	// what disappears from a bundle.
	Layout string `json:"layout,omitempty"`
	// Workers are the infra-envs of this appliance whose hosts become workers; empty: hosts of the
	// cluster's own assisted service do.
	Workers []Workers `json:"workers,omitempty"`
	// AgentImage is the image of its agent, by digest or by the tag of a version; "": not named.
	AgentImage string `json:"agent_image,omitempty"`
	// Broker is the host and port by which the agent knows the broker. It is set with the first
	// manifests of the agent, and never changes once an agent has used it.
	Broker  string    `json:"broker,omitempty"`
	Created time.Time `json:"created_at"`
}

// Workers is an infra-env whose hosts are offered to the node pools of a management cluster.
type Workers struct {
	InfraEnvID string `json:"infra_env_id"`
	Profile    string `json:"profile"` // hardware profile of the hosts
}

// The buckets and indexes.
var (
	Subscriptions = store.NewBucket[Subscription]("hosted-subscriptions", 1) // <id>
	clusters      = store.NewBucket[Cluster]("hosted-clusters", 1).Cached()  // <cid>
	nodePools     = store.NewBucket[NodePool]("hosted-node-pools", 1)        // <cid>/<name in lower case>
	auths         = store.NewBucket[ExternalAuth]("hosted-external-auths", 1)
	operations    = store.NewBucket[Operation]("hosted-operations", 1) // <id>
	expiry        = store.NewDeadlines("hosted-operations")
	credentials   = store.NewBucket[Credential]("hosted-kubeconfigs", 1) // <cid>/<id>
	managements   = store.NewBucket[Management]("hosted-management", 1)  // <consumer>
	byResource    = store.NewIndex("hosted-clusters-by-resource")        // <key of the resource ID>\x00<cid>
	byPrefix      = store.NewIndex("hosted-clusters-by-prefix")          // <prefix>\x00<cid>
)

// ManagementPrefix returns the prefix of the keys of management clusters in the store.
func ManagementPrefix() string { return managements.Prefix() }

// optional returns nil without an error for a missing row.
func optional[T any](row *T, err error) (*T, error) {
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return row, err
}

// GetCluster returns the cluster with an ID of Clusters Service, or nil.
func GetCluster(tx *store.Tx, cid string) (*Cluster, error) { return optional(clusters.Get(tx, cid)) }

// FindCluster returns the cluster with a resource ID in any spelling, or nil.
func FindCluster(tx *store.Tx, id arm.ID) (*Cluster, error) {
	var found *Cluster
	err := byResource.Keys(tx, id.Parent().Key()+"\x00", func(key string) (err error) {
		found, err = GetCluster(tx, key[strings.IndexByte(key, 0)+1:])
		return errors.Join(err, store.ErrStop)
	})
	return found, err
}

// PutCluster writes a cluster.
func PutCluster(tx *store.Tx, c *Cluster) error {
	return errors.Join(clusters.Put(tx, c.CID, c), byResource.Add(tx, c.ID.Key()+"\x00"+c.CID),
		byPrefix.Add(tx, c.Prefix+"\x00"+c.CID))
}

// DeleteCluster removes a cluster with its external auths and credentials.
func DeleteCluster(tx *store.Tx, c *Cluster) error {
	return errors.Join(clusters.Delete(tx, c.CID), byResource.Remove(tx, c.ID.Key()+"\x00"+c.CID),
		byPrefix.Remove(tx, c.Prefix+"\x00"+c.CID),
		auths.Keys(tx, c.CID+"/", func(key string) error { return auths.Delete(tx, key) }),
		credentials.Keys(tx, c.CID+"/", func(key string) error { return credentials.Delete(tx, key) }))
}

// EachCluster calls fn with the clusters whose resource keys start with a prefix and are greater
// than after, in the order of the keys: "" for all, "<subscription>/" or "<subscription>/<group>/"
// in lower case. It leaves out damaged rows, like other lists.
func EachCluster(tx *store.Tx, prefix, after string, fn func(*Cluster) error) error {
	return byResource.Keys(tx, prefix, func(key string) error {
		resource, cid, _ := strings.Cut(key, "\x00")
		if after != "" && resource <= after {
			return nil
		}
		c, err := clusters.Get(tx, cid)
		if err != nil {
			return store.SkipDamaged(err)
		}
		return fn(c)
	})
}

// FindPrefix returns the ID of the cluster with a domain prefix, or "".
func FindPrefix(tx *store.Tx, prefix string) (cid string, err error) {
	err = byPrefix.Keys(tx, prefix+"\x00", func(key string) error {
		_, cid, _ = strings.Cut(key, "\x00")
		return store.ErrStop
	})
	return cid, err
}

// EachClusterID calls fn with the IDs of all clusters.
func EachClusterID(tx *store.Tx, fn func(cid string) error) error { return clusters.Keys(tx, "", fn) }

// ClusterPrefix returns the prefix of the keys of clusters in the store. The rest of a key is the
// ID in Clusters Service.
func ClusterPrefix() string { return clusters.Prefix() }

// ClusterRevision returns the store's revision at which a cluster last changed.
func ClusterRevision(tx *store.Tx, cid string) (uint64, error) { return clusters.Modified(tx, cid) }

func child(cid, name string) string { return cid + "/" + strings.ToLower(name) }

// GetNodePool returns a node pool by its name in any spelling, or nil.
func GetNodePool(tx *store.Tx, cid, name string) (*NodePool, error) {
	return optional(nodePools.Get(tx, child(cid, name)))
}

// PutNodePool writes a node pool.
func PutNodePool(tx *store.Tx, p *NodePool) error {
	return nodePools.Put(tx, child(p.CID, p.ID.Child), p)
}

// DeleteNodePool removes a node pool.
func DeleteNodePool(tx *store.Tx, p *NodePool) error {
	return nodePools.Delete(tx, child(p.CID, p.ID.Child))
}

// NodePools returns the node pools of a cluster in the order of their names.
func NodePools(tx *store.Tx, cid string) (all []*NodePool, err error) {
	err = nodePools.Each(tx, cid+"/", func(_ string, p *NodePool) error {
		all = append(all, p)
		return nil
	})
	return all, err
}

// NodePoolPrefix returns the prefix of the keys of node pools in the store. The rest of a key is
// <cid>/<name in lower case>.
func NodePoolPrefix() string { return nodePools.Prefix() }

// EachNodePoolKey calls fn with the rest of the key of each node pool.
func EachNodePoolKey(tx *store.Tx, fn func(key string) error) error {
	return nodePools.Keys(tx, "", fn)
}

// NodePoolRevision returns the store's revision at which a node pool last changed.
func NodePoolRevision(tx *store.Tx, key string) (uint64, error) { return nodePools.Modified(tx, key) }

// GetExternalAuth returns an external auth by its name in any spelling, or nil.
func GetExternalAuth(tx *store.Tx, cid, name string) (*ExternalAuth, error) {
	return optional(auths.Get(tx, child(cid, name)))
}

// PutExternalAuth writes an external auth.
func PutExternalAuth(tx *store.Tx, a *ExternalAuth) error {
	return auths.Put(tx, child(a.CID, a.ID.Child), a)
}

// DeleteExternalAuth removes an external auth.
func DeleteExternalAuth(tx *store.Tx, a *ExternalAuth) error {
	return auths.Delete(tx, child(a.CID, a.ID.Child))
}

// ExternalAuths returns the external auths of a cluster in the order of their names.
func ExternalAuths(tx *store.Tx, cid string) (all []*ExternalAuth, err error) {
	err = auths.Each(tx, cid+"/", func(_ string, a *ExternalAuth) error {
		all = append(all, a)
		return nil
	})
	return all, err
}

// OperationsKept is how long an operation is kept after its end.
const OperationsKept = 7 * 24 * time.Hour

// GetOperation returns an operation that has not expired, or nil.
func GetOperation(tx *store.Tx, id string, now time.Time) (*Operation, error) {
	o, err := optional(operations.Get(tx, id))
	if o != nil && IsTerminal(o.Status) && now.Sub(o.End) >= OperationsKept {
		return nil, err
	}
	return o, err
}

// PutOperation writes an operation. It also removes a few that have expired, so that no timer is
// needed.
func PutOperation(tx *store.Tx, o *Operation, now time.Time) error {
	due, err := expiry.Due(tx, now, 8)
	if err != nil {
		return err
	}
	for _, old := range due {
		if row, err := optional(operations.Get(tx, old.Key)); err != nil {
			return err
		} else if row != nil && !IsTerminal(row.Status) {
			if err := expiry.Set(tx, old.Key, now.Add(OperationsKept)); err != nil {
				return err
			}
			continue
		}
		if err := errors.Join(operations.Delete(tx, old.Key), expiry.Clear(tx, old.Key)); err != nil {
			return err
		}
	}
	last := o.Start
	if !o.End.IsZero() {
		last = o.End
	}
	return errors.Join(operations.Put(tx, o.ID, o), expiry.Set(tx, o.ID, last.Add(OperationsKept)))
}

// GetCredential returns a credential, or nil.
func GetCredential(tx *store.Tx, cid, id string) (*Credential, error) {
	return optional(credentials.Get(tx, cid+"/"+id))
}

// PutCredential writes a credential.
func PutCredential(tx *store.Tx, c *Credential) error {
	return credentials.Put(tx, c.CID+"/"+c.ID, c)
}

// DeleteCredential removes a credential.
func DeleteCredential(tx *store.Tx, c *Credential) error {
	return credentials.Delete(tx, c.CID+"/"+c.ID)
}

// Credentials returns the credentials of a cluster.
func Credentials(tx *store.Tx, cid string) (all []*Credential, err error) {
	err = credentials.Each(tx, cid+"/", func(_ string, c *Credential) error {
		all = append(all, c)
		return nil
	})
	return all, err
}

// GetManagement returns a management cluster, or nil.
func GetManagement(tx *store.Tx, consumer string) (*Management, error) {
	return optional(managements.Get(tx, strings.ToLower(consumer)))
}

// PutManagement writes a management cluster.
func PutManagement(tx *store.Tx, m *Management) error { return managements.Put(tx, m.Consumer, m) }

// DeleteManagement removes a management cluster.
func DeleteManagement(tx *store.Tx, consumer string) error { return managements.Delete(tx, consumer) }

// EachManagementName calls fn with the names of all management clusters, also of damaged ones.
func EachManagementName(tx *store.Tx, fn func(consumer string) error) error {
	return managements.Keys(tx, "", fn)
}

// Managements returns the management clusters in the order of their names.
func Managements(tx *store.Tx) (all []*Management, err error) {
	err = managements.Each(tx, "", func(_ string, m *Management) error {
		all = append(all, m)
		return nil
	})
	return all, err
}

// GetSubscription returns a subscription by its ID in any spelling, or nil.
func GetSubscription(tx *store.Tx, id string) (*Subscription, error) {
	return optional(Subscriptions.Get(tx, strings.ToLower(id)))
}
