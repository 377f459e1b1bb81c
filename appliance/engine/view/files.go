package view

import (
	"errors"
	"io"
	"strings"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// The files of a cluster lie under its id: those that its installation generated at the top, logs
// and manifests in folders of their own.

// Names of the kubeconfigs among a cluster's files.
const (
	Kubeconfig          = "kubeconfig"
	KubeconfigNoIngress = "kubeconfig-noingress"
)

// OpenFile opens a generated file of a cluster for reading; the caller closes it.
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

// OpenGenerated opens a file that a cluster's installation generates; the caller closes it. It is
// refused with kind Conflict until the file is there. A kubeconfig that lacks the ingress
// certificate yet stands in for the one that has it.
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
				"Cluster %s is %s and has no file %q yet; it is made when the installation is prepared.",
				row.API.Name, *row.API.Status, name)
	}
	return file, info, err
}

// ReadFile returns the content of a generated file of a cluster.
func (r *Reader) ReadFile(id, name string) ([]byte, error) {
	file, _, err := r.OpenFile(id, name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file)
	return content, errors.Join(err, file.Close())
}

// FileNames lists a cluster's files below a folder, such as "logs/".
func (r *Reader) FileNames(id, folder string) ([]string, error) {
	if _, err := record.ReadCluster(r.db, id); err != nil {
		return nil, err
	}
	var names []string
	err := r.db.View(func(tx *store.Tx) error {
		return record.InstallerFiles.Keys(tx, id+"/"+folder, func(key string) error {
			names = append(names, strings.TrimPrefix(key, id+"/"))
			return nil
		})
	})
	return names, err
}
