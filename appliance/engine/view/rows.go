package view

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// Rows reads the engine's rows within a transaction, for those who must see them as it does.
type Rows struct {
	reader *Reader
	tx     *store.Tx
}

// Rows returns a reader of the engine's rows in a transaction of its store.
func (r *Reader) Rows(tx *store.Tx) Rows { return Rows{r, tx} }

// Cluster is a cluster as the API shows it, without its hosts, and what projections need beside
// that.
type Cluster struct {
	*models.Cluster
	Object       record.Object
	Prepared     bool // the installer has generated its files, kubeconfig-noingress among them
	Complete     bool // the kubeconfig has the certificate of the ingress
	Installs     int  // times that an installation was begun
	sealedSecret string
}

// InfraEnv is an infra-env as the API shows it, and what projections need beside that.
type InfraEnv struct {
	*models.InfraEnv
	Object       record.Object
	Recipe       string // digest of what its images are made of, "" while that is not frozen
	sealedSecret string
}

// Host is a host as the API shows it, with all that its agent reported, and what projections
// need beside that.
type Host struct {
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

// InfraEnv returns an infra-env. It is refused with kind NotFound where there is none.
func (r Rows) InfraEnv(id string) (*InfraEnv, error) {
	row, err := record.InfraEnvs.Get(r.tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "There is no infra-env %s.", id)
	}
	if err != nil {
		return nil, err
	}
	return &InfraEnv{&row.API, row.Object, row.Recipe.Digest, row.PullSecret}, nil
}

// Host returns a host by its key, <infra-env id>/<host id>. It is refused with kind NotFound where
// there is none.
func (r Rows) Host(key string) (*Host, error) { return r.host(key, true) }

func (r Rows) host(key string, withFacts bool) (*Host, error) {
	row, err := record.Hosts.Get(r.tx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "There is no host %s.", key)
	}
	if err != nil {
		return nil, err
	}
	shown, err := r.reader.ShowHost(r.tx, row, withFacts)
	return &Host{shown, row.Object, row.API.RequestedHostname, row.Reported, row.EndpointHeaders, row.Joining}, err
}

// ClusterHosts returns the hosts of a cluster, without what their agents reported.
func (r Rows) ClusterHosts(id string) ([]*Host, error) {
	keys, err := record.ClusterHostKeys(r.tx, id)
	if err != nil {
		return nil, err
	}
	return r.hostsAt(keys)
}

// InfraEnvHosts returns the hosts of an infra-env, without what their agents reported.
func (r Rows) InfraEnvHosts(id string) ([]*Host, error) {
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

// Key is the host's key in the engine, <infra-env id>/<host id>.
func (h *Host) Key() string { return h.InfraEnvID.String() + "/" + h.ID.String() }

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

// ClusterPullSecret and InfraEnvPullSecret open the pull secret of what was read. A key that does
// not fit is refused with kind Conflict.
func (r Rows) ClusterPullSecret(c *Cluster) (string, error) {
	return record.OpenSecret(r.reader.secrets, c.sealedSecret)
}
func (r Rows) InfraEnvPullSecret(v *InfraEnv) (string, error) {
	return record.OpenSecret(r.reader.secrets, v.sealedSecret)
}

// ClusterFile returns the content of a file of a cluster as the transaction sees it, such as
// "kubeconfig", "kubeconfig-noingress", "kubeadmin-password" or "manifests/openshift/<name>",
// opened if it is sealed. It is refused with kind NotFound where there is none.
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

// ClusterFiles lists the names of a cluster's files below a folder, such as "manifests/openshift/".
func (r Rows) ClusterFiles(id, folder string) ([]string, error) {
	var names []string
	err := record.InstallerFiles.Keys(r.tx, id+"/"+folder, func(key string) error {
		names = append(names, strings.TrimPrefix(key, id+"/"+folder))
		return nil
	})
	return names, err
}
