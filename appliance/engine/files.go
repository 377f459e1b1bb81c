package engine

import (
	"errors"
	"io"
	"strings"

	"landfall/appliance/engine/record"
	"landfall/store"
)

// The files of a cluster lie under its id: those that its installation generated at the top, logs
// and manifests in folders of their own.

// OpenFile opens a generated file of a cluster for reading; the caller closes it.
func (e *Engine) OpenFile(id, name string) (io.ReadSeekCloser, store.FileInfo, error) {
	if _, err := e.clusterRow(id); err != nil {
		return nil, store.FileInfo{}, err
	}
	file, info, err := record.OpenSealed(e.options.DB, e.options.Secrets, record.InstallerFiles, id+"/"+name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, info, notFound("Cluster %s has no file %q (yet).", id, name)
	}
	return file, info, err
}

// OpenGenerated opens a file that a cluster's installation generates; the caller closes it. It is
// refused with kind Conflict until the file is there. A kubeconfig that lacks the ingress
// certificate yet stands in for the one that has it.
func (e *Engine) OpenGenerated(id, name string) (io.ReadSeekCloser, store.FileInfo, error) {
	row, err := e.clusterRow(id)
	if err != nil {
		return nil, store.FileInfo{}, err
	}
	file, info, err := e.OpenFile(id, name)
	if KindOf(err) == NotFound && name == fileKubeconfig {
		file, info, err = e.OpenFile(id, fileKubeconfigNoIngress)
	}
	if KindOf(err) == NotFound {
		return nil, info,
			conflict("Cluster %s is %s and has no file %q yet; it is made when the installation is prepared.",
				row.API.Name, *row.API.Status, name)
	}
	return file, info, err
}

func (e *Engine) readFile(id, name string) ([]byte, error) {
	file, _, err := e.OpenFile(id, name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file)
	return content, errors.Join(err, file.Close())
}

// FileNames lists a cluster's files below a folder, such as "logs/".
func (e *Engine) FileNames(id, folder string) ([]string, error) {
	if _, err := e.clusterRow(id); err != nil {
		return nil, err
	}
	var names []string
	err := e.options.DB.View(func(tx *store.Tx) error {
		return record.InstallerFiles.Keys(tx, id+"/"+folder, func(key string) error {
			names = append(names, strings.TrimPrefix(key, id+"/"))
			return nil
		})
	})
	return names, err
}
