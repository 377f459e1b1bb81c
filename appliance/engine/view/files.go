package view

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"landfall/appliance/engine/installconfig"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// The files of a cluster have its id as a prefix. The installation's generated files follow
// directly; logs and manifests have directories of their own.

// Names of the kubeconfigs among a cluster's files.
const (
	Kubeconfig          = "kubeconfig"
	KubeconfigNoIngress = "kubeconfig-noingress"
)

// OpenFile opens a file of a cluster for reading. The caller closes it.
func (r *Reader) OpenFile(id, name string) (io.ReadSeekCloser, store.FileInfo, error) {
	if _, err := record.ReadCluster(r.db, id); err != nil {
		return nil, store.FileInfo{}, err
	}
	file, info, err := record.OpenSealed(r.db, r.secrets, record.InstallerFiles, id+"/"+name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, info, fault.New(fault.NotFound, "Cluster %s has no file %q (yet).", id, name)
	}
	return file, info, err
}

// OpenGenerated opens a file that a cluster's installation generates. The caller closes it. Until
// the file exists, OpenGenerated fails with kind Conflict. Until the kubeconfig contains the
// ingress certificate, it returns the kubeconfig without the certificate.
func (r *Reader) OpenGenerated(id, name string) (io.ReadSeekCloser, store.FileInfo, error) {
	row, err := record.ReadCluster(r.db, id)
	if err != nil {
		return nil, store.FileInfo{}, err
	}
	file, info, err := r.OpenFile(id, name)
	if fault.KindOf(err) == fault.NotFound && name == Kubeconfig {
		file, info, err = r.OpenFile(id, KubeconfigNoIngress)
	}
	if fault.KindOf(err) == fault.NotFound {
		return nil, info,
			fault.New(fault.Conflict,
				"Cluster %s is %s and has no file %q yet; it is generated when the installation is prepared.",
				row.API.Name, *row.API.Status, name)
	}
	return file, info, err
}

// ReadFile returns the content of a cluster's file.
func (r *Reader) ReadFile(id, name string) ([]byte, error) {
	file, _, err := r.OpenFile(id, name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file)
	return content, errors.Join(err, file.Close())
}

// LogDirectory is the prefix of log files among a cluster's files.
const LogDirectory = "logs/"

// HasLogs reports whether logs of a host or of the controller of a cluster are stored.
func (r Rows) HasLogs(id string) (has bool, err error) {
	err = record.InstallerFiles.Keys(r.tx, id+"/"+LogDirectory, func(string) error {
		has = true
		return nil
	})
	return has, err
}

// FileNames lists a cluster's files in a directory such as "logs/".
func (r *Reader) FileNames(id, directory string) ([]string, error) {
	if _, err := record.ReadCluster(r.db, id); err != nil {
		return nil, err
	}
	var names []string
	err := r.db.View(func(tx *store.Tx) error {
		return record.InstallerFiles.Keys(tx, id+"/"+directory, func(key string) error {
			names = append(names, strings.TrimPrefix(key, id+"/"))
			return nil
		})
	})
	return names, err
}

// OpenHostIgnition opens a host's own Ignition config, which the installer on the host downloads.
// It fails with kind Conflict until the config is generated.
func (r *Reader) OpenHostIgnition(infraEnvID, hostID string) (io.ReadSeekCloser, store.FileInfo, error) {
	var clusterID, name string
	err := r.db.View(func(tx *store.Tx) error {
		h, err := record.Hosts.Get(tx, infraEnvID+"/"+hostID)
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.NotFound, "There is no host %s in infra-env %s.", hostID, infraEnvID)
		}
		if err != nil {
			return err
		}
		if h.API.ClusterID == nil {
			return fault.New(fault.Conflict, "Host %s belongs to no cluster and has no ignition config.", hostID)
		}
		clusterID, name = h.API.ClusterID.String(), installconfig.HostIgnition(inventory.NewHost(&h.API, nil))
		return nil
	})
	if err != nil {
		return nil, store.FileInfo{}, err
	}
	file, info, err := record.OpenSealed(r.db, r.secrets, record.InstallerFiles, clusterID+"/"+name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, info,
			fault.New(fault.Conflict,
				"The ignition config of host %s is not generated yet; it is generated when the installation is "+
					"prepared.", hostID)
	}
	return file, info, err
}

// ReadHostIgnition returns the Ignition config with which a host is installed; see
// [Reader.OpenHostIgnition].
func (r *Reader) ReadHostIgnition(infraEnvID, hostID string) (string, error) {
	file, _, err := r.OpenHostIgnition(infraEnvID, hostID)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	_, err = text.ReadFrom(file)
	return text.String(), errors.Join(err, file.Close())
}
