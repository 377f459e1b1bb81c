package view

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// Rows reads the engine's rows in a transaction, with the uncommitted changes of that transaction.
type Rows struct {
	reader *Reader
	tx     *store.Tx
}

// Rows returns a reader of the rows in a transaction of the engine's store.
func (r *Reader) Rows(tx *store.Tx) Rows { return Rows{r, tx} }

// Cluster is a cluster in the form of the API, without its hosts, with further fields for
// projectors.
type Cluster struct {
	*models.Cluster
	Object       record.Object
	Prepared     bool // the installer has generated the cluster's files, including kubeconfig-noingress
	Complete     bool // the kubeconfig contains the CA certificate of the ingress
	Installs     int  // number of installations that were started
	sealedSecret string
}

// InfraEnv is an infra-env in the form of the API, with further fields for projectors.
type InfraEnv struct {
	*models.InfraEnv
	Object       record.Object
	Recipe       string // digest of the image recipe; "" if the recipe is not frozen
	Token        string // for URLs of this revision of the image; "" if machines are not authenticated
	sealedSecret string
	code         record.ImageCode // of the short URL, if machines are authenticated
}

// revision returns a short name of the content of the image.
func (e *InfraEnv) revision() string { return e.Recipe[:min(len(e.Recipe), 12)] }

// Host is a host in the form of the API with the reports of its agent, and further fields for
// projectors.
type Host struct {
	*models.Host
	Object record.Object
	// Named is the hostname that the user requested, or "". In contrast, RequestedHostname falls
	// back to the reported hostname and the id.
	Named    string
	Reported uint64 // store revision of the latest new report
	// EndpointHeaders are HTTP headers that the host sends to the machine config server, with its
	// token.
	EndpointHeaders map[string]string
	// Joining is the status of a host in the cluster that it joins. It is nil for other hosts, and
	// if the cluster is not followed.
	Joining *record.Joining
}

// Cluster returns a cluster. A missing cluster is an error of kind NotFound.
func (r Rows) Cluster(id string) (*Cluster, error) {
	row, err := record.Clusters.Get(r.tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "There is no cluster %s.", id)
	}
	if err != nil {
		return nil, err
	}
	shown, err := r.reader.ShowCluster(r.tx, row, false)
	return &Cluster{shown, row.Object, row.Preparation != nil && row.Preparation.Done, row.IngressCA, row.Installs,
		row.PullSecret}, err
}

// InfraEnv returns an infra-env. A missing infra-env is an error of kind NotFound.
func (r Rows) InfraEnv(id string) (*InfraEnv, error) {
	row, err := record.InfraEnvs.Get(r.tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "There is no infra-env %s.", id)
	}
	if err != nil {
		return nil, err
	}
	env := &InfraEnv{InfraEnv: &row.API, Object: row.Object, Recipe: row.Recipe.Digest, sealedSecret: row.PullSecret}
	if r.reader.tokens != nil && row.AgentKeys.Current != nil {
		env.code = row.Code
		env.Token, err = r.reader.tokens.RevisionToken(&row.AgentKeys, id, env.revision())
	}
	return env, err
}

// Host returns a host by its key, <infra-env id>/<host id>. A missing host is an error of kind
// NotFound.
func (r Rows) Host(key string) (*Host, error) { return r.host(key, true) }

func (r Rows) host(key string, withReports bool) (*Host, error) {
	row, err := record.Hosts.Get(r.tx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "There is no host %s.", key)
	}
	if err != nil {
		return nil, err
	}
	shown, err := r.reader.ShowHost(r.tx, row, withReports)
	return &Host{shown, row.Object, row.API.RequestedHostname, row.Reported, row.EndpointHeaders, row.Joining}, err
}

// ClusterHosts returns the hosts of a cluster without the reports of their agents.
func (r Rows) ClusterHosts(id string) ([]*Host, error) {
	keys, err := record.ClusterHostKeys(r.tx, id)
	if err != nil {
		return nil, err
	}
	return r.hostsAt(keys)
}

// ReadableClusterHosts does the same as ClusterHosts, without damaged hosts.
func (r Rows) ReadableClusterHosts(id string) ([]*Host, error) {
	keys, err := record.ClusterHostKeys(r.tx, id)
	if err != nil {
		return nil, err
	}
	return r.hostsAt(slices.DeleteFunc(keys, func(key string) bool {
		_, err := record.Hosts.Get(r.tx, key)
		return store.IsDamaged(err)
	}))
}

// InfraEnvHosts returns the hosts of an infra-env without the reports of their agents.
func (r Rows) InfraEnvHosts(id string) ([]*Host, error) {
	var keys []string
	if err := record.Hosts.Keys(r.tx, id+"/", func(key string) error {
		keys = append(keys, key)
		return nil
	}); err != nil {
		return nil, err
	}
	return r.hostsAt(keys)
}

// InfraEnvHostIDs returns the ids of an infra-env's hosts.
func (r Rows) InfraEnvHostIDs(id string) ([]string, error) {
	var ids []string
	err := record.Hosts.Keys(r.tx, id+"/", func(key string) error { ids = append(ids, key[len(id)+1:]); return nil })
	return ids, err
}

func (r Rows) hostsAt(keys []string) ([]*Host, error) {
	hosts := make([]*Host, 0, len(keys))
	for _, key := range keys {
		host, err := r.host(key, false)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// Key returns the key of the host in the store, <infra-env id>/<host id>.
func (h *Host) Key() string { return h.InfraEnvID.String() + "/" + h.ID.String() }

// ClusterIDs, InfraEnvIDs and HostKeys return the keys of all rows. ClusterInfraEnvs returns the
// ids of a cluster's own infra-envs.
func (r Rows) ClusterIDs() ([]string, error)  { return keysOf(r.tx, record.Clusters) }
func (r Rows) InfraEnvIDs() ([]string, error) { return keysOf(r.tx, record.InfraEnvs) }
func (r Rows) HostKeys() ([]string, error)    { return keysOf(r.tx, record.Hosts) }

func (r Rows) ClusterInfraEnvs(id string) ([]string, error) {
	return r.idsBehind(record.ClusterInfraEnvs, id+"/")
}

func keysOf[T any](tx *store.Tx, rows store.Bucket[T]) ([]string, error) {
	var keys []string
	err := rows.Keys(tx, "", func(key string) error { keys = append(keys, key); return nil })
	return keys, err
}

func (r Rows) idsBehind(index store.Index, prefix string) ([]string, error) {
	var ids []string
	err := index.Keys(r.tx, prefix, func(key string) error { ids = append(ids, key[len(prefix):]); return nil })
	return ids, err
}

// ClusterOf, InfraEnvOf and HostOf return the id (of a host: the key) of the row that an object
// describes, by the object's key <namespace>/<name>. They return "" if there is none. If a host is
// in two infra-envs, HostOf returns the last key in order.
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
	ids, err := r.idsBehind(index, object+"/")
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[len(ids)-1], nil
}

// ClusterPullSecret and InfraEnvPullSecret return the pull secret of an object in clear text. A
// pull secret that another key has sealed is an error of kind Conflict.
func (r Rows) ClusterPullSecret(c *Cluster) (string, error) {
	return record.OpenSecret(r.reader.secrets, c.sealedSecret)
}
func (r Rows) InfraEnvPullSecret(v *InfraEnv) (string, error) {
	return record.OpenSecret(r.reader.secrets, v.sealedSecret)
}

// ClusterFile returns the content of a cluster's file in the transaction, such as "kubeconfig",
// "kubeconfig-noingress", "kubeadmin-password" or "manifests/openshift/<name>". It opens sealed
// files. A missing file is an error of kind NotFound.
func (r Rows) ClusterFile(id, name string) ([]byte, error) {
	file, err := record.InstallerFiles.OpenIn(r.tx, id+"/"+name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "Cluster %s has no file %q (yet).", id, name)
	}
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	_, err = io.Copy(&content, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return r.reader.secrets.OpenBytes(content.Bytes())
}

// ClusterFiles returns the names of a cluster's files in a directory such as
// "manifests/openshift/".
func (r Rows) ClusterFiles(id, directory string) ([]string, error) {
	var names []string
	err := record.InstallerFiles.Keys(r.tx, id+"/"+directory, func(key string) error {
		names = append(names, strings.TrimPrefix(key, id+"/"+directory))
		return nil
	})
	return names, err
}
