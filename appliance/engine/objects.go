package engine

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
	"landfall/store"
)

// A cluster, an infra-env or a host may be described by an object of another API, the Kubernetes
// door's. The engine knows no more of it than its key and what of it was acted on: both lie on the
// row that it describes, are written in the transaction that acts on them, and the row is found by
// the key. So whoever makes rows of objects can be killed at any moment and makes none twice.
//
// The other way, a [Projector] is called at the end of each change, in its transaction, and writes
// what follows for the objects.

// Projector follows the engine's changes with objects of its own.
type Projector interface {
	// Project is called in the transaction of each change that has written something, when all rows
	// are as they will be committed. An error takes the whole change back. It may be run more than
	// once for a change, and it writes what differs only.
	Project(tx *store.Tx, touched Touched) error
}

// Touched is what a change has written or deleted, in the order of the ids.
type Touched struct {
	Rows      Rows      // reads the rows as the change leaves them
	Now       time.Time // UTC, of the change
	Clusters  []TouchedRow
	InfraEnvs []TouchedRow
	Hosts     []TouchedRow
	Events    []*models.Event // that the change has written, in their order
}

// TouchedRow is a row that a change has written, or settled with its hosts, or deleted.
type TouchedRow struct {
	ID      string        // of a host <infra-env id>/<host id>
	Object  record.Object // what the row holds, or held when it was deleted
	Deleted bool
}

func (c *change) noteClusterObject(row *record.Cluster, of []record.Object) error {
	return record.NoteAll(&row.Object, c.tx, record.ClusterObjects, row.API.ID.String(), of)
}

func (c *change) noteInfraEnvObject(row *record.InfraEnv, of []record.Object) error {
	return record.NoteAll(&row.Object, c.tx, record.InfraEnvObjects, row.API.ID.String(), of)
}

func (c *change) noteHostObject(row *record.Host, of []record.Object) error {
	return record.NoteAll(&row.Object, c.tx, record.HostObjects, record.HostKey(row), of)
}

// noteHostObjectAt is noteHostObject for a host that the change has loaded and may or may not have
// altered.
func (c *change) noteHostObjectAt(infraEnvID, hostID string, of []record.Object) error {
	if len(of) == 0 {
		return nil
	}
	h, err := c.hostIn(infraEnvID, hostID)
	if err != nil {
		return err
	}
	c.saveHost(h)
	return c.noteHostObject(h, of)
}

// project tells the projector what the change has written.
func (c *change) project() error {
	if c.e.options.Projector == nil {
		return nil
	}
	touched := Touched{Rows: c.e.Rows(c.tx), Now: c.now}
	clusters := maps.Clone(c.dirtyClusters)
	for _, id := range c.refresh {
		clusters[id] = true
	}
	touched.Clusters = touchedRows(clusters, c.deletedClusterObjects, func(id string) (record.Object, bool) {
		row, ok := c.clusters[id]
		return objectOf(row, func(r *record.Cluster) record.Object { return r.Object }), ok
	})
	touched.InfraEnvs = touchedRows(c.dirtyInfraEnvs, c.deletedInfraEnvObjects, func(id string) (record.Object, bool) {
		row, ok := c.infraEnvs[id]
		return objectOf(row, func(r *record.InfraEnv) record.Object { return r.Object }), ok
	})
	touched.Hosts = touchedRows(c.dirtyHosts, c.deletedHostObjects, func(key string) (record.Object, bool) {
		row, ok := c.hosts[key]
		return objectOf(row, func(r *record.Host) record.Object { return r.Object }), ok
	})
	touched.Events = c.written
	if len(touched.Clusters)+len(touched.InfraEnvs)+len(touched.Hosts)+len(touched.Events) == 0 {
		return nil
	}
	return c.e.options.Projector.Project(c.tx, touched)
}

func objectOf[T any](row *T, of func(*T) record.Object) record.Object {
	if row == nil {
		return record.Object{}
	}
	return of(row)
}

// touchedRows lists the rows that were written and still are, and those that were deleted.
func touchedRows(written map[string]bool, deleted map[string]record.Object, row func(id string) (record.Object,
	bool)) []TouchedRow {
	ids := make(map[string]bool, len(written)+len(deleted))
	maps.Copy(ids, written)
	for id := range deleted {
		ids[id] = true
	}
	var touched []TouchedRow
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if object, there := row(id); there {
			touched = append(touched, TouchedRow{ID: id, Object: object})
		} else if object, gone := deleted[id]; gone {
			touched = append(touched, TouchedRow{ID: id, Object: object, Deleted: true})
		}
	}
	return touched
}

// Rows reads the engine's rows within a transaction, for those who must see them as it does.
type Rows struct {
	e  *Engine
	tx *store.Tx
}

// Rows returns a reader of the engine's rows in a transaction of its store.
func (e *Engine) Rows(tx *store.Tx) Rows { return Rows{e, tx} }

// ClusterView is a cluster as the API shows it, without its hosts, and what projections need beside
// that.
type ClusterView struct {
	*models.Cluster
	Object       record.Object
	Prepared     bool // the installer has generated its files, kubeconfig-noingress among them
	Complete     bool // the kubeconfig has the certificate of the ingress
	Installs     int  // times that an installation was begun
	sealedSecret string
}

// InfraEnvView is an infra-env as the API shows it, and what projections need beside that.
type InfraEnvView struct {
	*models.InfraEnv
	Object       record.Object
	Recipe       string // digest of what its images are made of, "" while that is not frozen
	sealedSecret string
}

// HostView is a host as the API shows it, with all that its agent reported, and what projections
// need beside that.
type HostView struct {
	*models.Host
	Object record.Object
	// the hostname that a person gave it, "" for none: RequestedHostname of the API falls back to
	// others
	Named    string
	Reported uint64 // the store's revision of what its agent reported: that differs only if this does
	// EndpointHeaders are what it shows the machine config server beside its token.
	EndpointHeaders map[string]string
	// Joining is what is known of it in the cluster that it joins; nil for others, and where nobody
	// looks there.
	Joining *record.Joining
}

// Cluster returns a cluster. It is refused with kind NotFound where there is none.
func (r Rows) Cluster(id string) (*ClusterView, error) {
	row, err := record.Clusters.Get(r.tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("There is no cluster %s.", id)
	}
	if err != nil {
		return nil, err
	}
	shown, err := r.e.ShowCluster(r.tx, row, false)
	return &ClusterView{shown, row.Object, row.Preparation != nil && row.Preparation.Done, row.IngressCA, row.Installs,
		row.PullSecret}, err
}

// InfraEnv returns an infra-env. It is refused with kind NotFound where there is none.
func (r Rows) InfraEnv(id string) (*InfraEnvView, error) {
	row, err := record.InfraEnvs.Get(r.tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("There is no infra-env %s.", id)
	}
	if err != nil {
		return nil, err
	}
	return &InfraEnvView{&row.API, row.Object, row.Recipe.Digest, row.PullSecret}, nil
}

// Host returns a host by its key, <infra-env id>/<host id>. It is refused with kind NotFound where
// there is none.
func (r Rows) Host(key string) (*HostView, error) { return r.host(key, true) }

func (r Rows) host(key string, withFacts bool) (*HostView, error) {
	row, err := record.Hosts.Get(r.tx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("There is no host %s.", key)
	}
	if err != nil {
		return nil, err
	}
	shown, err := r.e.ShowHost(r.tx, row, withFacts)
	return &HostView{shown, row.Object, row.API.RequestedHostname, row.Reported, row.EndpointHeaders, row.Joining}, err
}

// ClusterHosts returns the hosts of a cluster, without what their agents reported.
func (r Rows) ClusterHosts(id string) ([]*HostView, error) {
	keys, err := record.ClusterHostKeys(r.tx, id)
	if err != nil {
		return nil, err
	}
	return r.hostsAt(keys)
}

// InfraEnvHosts returns the hosts of an infra-env, without what their agents reported.
func (r Rows) InfraEnvHosts(id string) ([]*HostView, error) {
	var keys []string
	if err := record.Hosts.Keys(r.tx, id+"/", func(key string) error {
		keys = append(keys,
			key)
		return nil
	}); err != nil {
		return nil, err
	}
	return r.hostsAt(keys)
}

// InfraEnvHostIDs lists the ids of an infra-env's hosts.
func (r Rows) InfraEnvHostIDs(id string) ([]string, error) {
	var ids []string
	err := record.Hosts.Keys(r.tx, id+"/", func(key string) error { ids = append(ids, key[len(id)+1:]); return nil })
	return ids, err
}

func (r Rows) hostsAt(keys []string) ([]*HostView, error) {
	hosts := make([]*HostView, 0, len(keys))
	for _, key := range keys {
		host, err := r.host(key, false)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// Key is the host's key in the engine, <infra-env id>/<host id>.
func (h *HostView) Key() string { return h.InfraEnvID.String() + "/" + h.ID.String() }

// ClusterIDs, InfraEnvIDs and HostKeys list all rows there are; ClusterInfraEnvs the infra-envs
// that were made for a cluster.
func (r Rows) ClusterIDs() ([]string, error)  { return keysOf(r.tx, record.Clusters) }
func (r Rows) InfraEnvIDs() ([]string, error) { return keysOf(r.tx, record.InfraEnvs) }
func (r Rows) HostKeys() ([]string, error)    { return keysOf(r.tx, record.Hosts) }

func (r Rows) ClusterInfraEnvs(id string) ([]string, error) {
	return r.behind(record.ClusterInfraEnvs, id+"/")
}

func keysOf[T any](tx *store.Tx, rows store.Bucket[T]) ([]string, error) {
	var keys []string
	err := rows.Keys(tx, "", func(key string) error { keys = append(keys, key); return nil })
	return keys, err
}

func (r Rows) behind(index store.Index, prefix string) ([]string, error) {
	var ids []string
	err := index.Keys(r.tx, prefix, func(key string) error { ids = append(ids, key[len(prefix):]); return nil })
	return ids, err
}

// ClusterOf, InfraEnvOf and HostOf find what an object describes by its key, <namespace>/<name>; ""
// if there is nothing. Of a host it is the host's key, and of one that is in two infra-envs at
// once, the later in order.
func (r Rows) ClusterOf(object string) (id string, err error) {
	return r.last(record.ClusterObjects, object)
}
func (r Rows) InfraEnvOf(object string) (id string, err error) {
	return r.last(record.InfraEnvObjects, object)
}
func (r Rows) HostOf(object string) (key string, err error) {
	return r.last(record.HostObjects, object)
}

func (r Rows) last(index store.Index, object string) (string, error) {
	ids, err := r.behind(index, object+"/")
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[len(ids)-1], nil
}

// NoteCluster, NoteInfraEnv and NoteHost note the object that describes a row, or how much of it
// the row has followed, in an update of the caller's. What the note leaves out stays. They are
// refused with kind NotFound where there is no such row.
func (r Rows) NoteCluster(id string, of record.Object) error {
	row, err := record.Clusters.Get(r.tx, id)
	if err != nil {
		return noRow(err, "cluster", id)
	}
	before := row.Object
	if err := row.Object.Note(r.tx, record.ClusterObjects, id, of); err != nil || row.Object == before {
		return err
	}
	return record.Clusters.Put(r.tx, id, row)
}

// NoteInfraEnv is [Rows.NoteCluster] for an infra-env.
func (r Rows) NoteInfraEnv(id string, of record.Object) error {
	row, err := record.InfraEnvs.Get(r.tx, id)
	if err != nil {
		return noRow(err, "infra-env", id)
	}
	before := row.Object
	if err := row.Object.Note(r.tx, record.InfraEnvObjects, id, of); err != nil || row.Object == before {
		return err
	}
	return record.InfraEnvs.Put(r.tx, id, row)
}

// NoteHost is [Rows.NoteCluster] for a host, by its key.
func (r Rows) NoteHost(key string, of record.Object) error {
	row, err := record.Hosts.Get(r.tx, key)
	if err != nil {
		return noRow(err, "host", key)
	}
	before := row.Object
	if err := row.Object.Note(r.tx, record.HostObjects, key, of); err != nil || row.Object == before {
		return err
	}
	return record.Hosts.Put(r.tx, key, row)
}

func noRow(err error, what, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return notFound("There is no %s %s.", what, id)
	}
	return err
}

// ClusterPullSecret and InfraEnvPullSecret open the pull secret of what was read. A key that does
// not fit is refused with kind Conflict.
func (r Rows) ClusterPullSecret(c *ClusterView) (string, error) {
	return record.OpenSecret(r.e.options.Secrets, c.sealedSecret)
}
func (r Rows) InfraEnvPullSecret(v *InfraEnvView) (string, error) {
	return record.OpenSecret(r.e.options.Secrets, v.sealedSecret)
}

// ClusterFile returns the content of a file of a cluster as the transaction sees it, such as
// "kubeconfig", "kubeconfig-noingress", "kubeadmin-password" or "manifests/openshift/<name>",
// opened if it is sealed. It is refused with kind NotFound where there is none.
func (r Rows) ClusterFile(id, name string) ([]byte, error) {
	file, err := record.InstallerFiles.OpenIn(r.tx, id+"/"+name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("Cluster %s has no file %q (yet).", id, name)
	}
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	_, err = io.Copy(&content, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return r.e.options.Secrets.OpenBytes(content.Bytes())
}

// ClusterFiles lists the names of a cluster's files below a folder, such as "manifests/openshift/".
func (r Rows) ClusterFiles(id, folder string) ([]string, error) {
	var names []string
	err := record.InstallerFiles.Keys(r.tx, id+"/"+folder, func(key string) error {
		names = append(names, strings.TrimPrefix(key, id+"/"+folder))
		return nil
	})
	return names, err
}
