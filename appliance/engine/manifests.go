package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/installconfig"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// manifestFolder holds the users' manifests among a cluster's files, each as
// manifests/<folder>/<name>.
const manifestFolder = "manifests/"

// Manifest is a manifest that users add to the installation of a cluster.
type Manifest = installconfig.Manifest

// Manifests lists the users' manifests of a cluster by folder and name. If system is true, it also
// lists the manifests that the appliance adds. It never lists the manifests of openshift-install.
func (e *Engine) Manifests(id string, system bool) ([]*models.Manifest, error) {
	names, err := e.FileNames(id, manifestFolder)
	if err != nil {
		return nil, err
	}
	manifests := []*models.Manifest{}
	for _, name := range names {
		folder, file, _ := strings.Cut(strings.TrimPrefix(name, manifestFolder), "/")
		manifests = append(manifests, Manifest{Folder: folder, Name: file}.Model(models.ManifestManifestSourceUser))
	}
	if !system {
		return manifests, nil
	}
	installation, err := e.installation(id)
	if err != nil {
		return nil, err
	}
	added, err := installation.SystemManifests()
	if err != nil {
		return nil, err
	}
	for name := range added {
		if folder, file := path.Split(name); installation.Manifests[name] == nil {
			manifests = append(manifests, Manifest{Folder: path.Clean(folder),
				Name: file}.Model(models.ManifestManifestSourceSystem))
		}
	}
	slices.SortFunc(manifests, func(a, b *models.Manifest) int {
		return strings.Compare(a.Folder+"/"+a.FileName, b.Folder+"/"+b.FileName)
	})
	return manifests, nil
}

// OpenManifest opens a manifest of a user or of the appliance for reading. The caller closes it.
func (e *Engine) OpenManifest(id string, m Manifest) (io.ReadSeekCloser, store.FileInfo, error) {
	m = m.WithFolder()
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return nil, store.FileInfo{}, err
	}
	if err := installconfig.CheckManifestName(m.Name); err != nil {
		return nil, store.FileInfo{}, err
	}
	file, info, err := e.OpenFile(id, manifestFolder+m.Path())
	if fault.KindOf(err) != fault.NotFound {
		return file, info, err
	}
	installation, err := e.installation(id)
	if err != nil {
		return nil, info, err
	}
	added, err := installation.SystemManifests()
	if err != nil {
		return nil, info, err
	}
	if content, ok := added[m.Path()]; ok {
		return record.FileOf(content), store.FileInfo{Size: int64(len(content)),
				Modified: row.API.UpdatedAt},
			nil
	}
	return nil, info, notFound("Cluster %s has no manifest %s in the folder %s.", row.API.Name, m.Name, m.Folder)
}

// CreateManifest adds a manifest to a cluster's installation, or replaces the manifest with the
// same name and folder. It fails with kind Schema if the name is invalid, and with Invalid if the
// content does not match the name's extension. Once the installation is being prepared, it fails
// with kind Conflict.
func (e *Engine) CreateManifest(ctx context.Context, id string, m Manifest) (*models.Manifest, error) {
	m = m.WithFolder()
	if err := cmp.Or(installconfig.CheckManifestName(m.Name), m.CheckContent()); err != nil {
		return nil, err
	}
	staged, err := e.options.DB.Stage(ctx, bytes.NewReader(m.Content))
	if err != nil {
		return nil, err
	}
	err = e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if !acceptsManifests(row) {
			return conflict("Cluster %s is %s; manifests can only be added before its installation.", row.API.Name,
				*row.API.Status)
		}
		if err := c.checkFree(row, m.Name, m.OtherFolder()); err != nil {
			return err
		}
		if err := c.setUsage(row, description.UsageCustomManifest, true, nil); err != nil {
			return err
		}
		c.recordCatalogs(row, m.Path(), m.Content)
		c.settleCluster(id)
		return errors.Join(
			record.InstallerFiles.Put(c.tx, id+"/"+manifestFolder+m.Path(), staged, c.now),
			c.clusterEvent(row, event.ManifestAdded, models.EventSeverityInfo, "Cluster %s: the manifest %s was added.",
				row.API.Name, m.Path()),
		)
	})
	if err != nil {
		return nil, err
	}
	return m.Model(models.ManifestManifestSourceUser), nil
}

// UpdateManifest changes the content, name or folder of a manifest. Absent fields keep their
// values, and so does nil content. The content must be decoded already.
func (e *Engine) UpdateManifest(ctx context.Context, id string, params *models.UpdateManifestParams,
	content []byte) (*models.Manifest, error) {
	from := Manifest{Folder: params.Folder, Name: params.FileName}
	to := Manifest{Folder: orDefault(params.UpdatedFolder, from.Folder), Name: orDefault(params.UpdatedFileName,
		from.Name), Content: content}
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return nil, err
	}
	if !acceptsManifests(row) {
		return nil, manifestsTooLate(row)
	}
	if err := cmp.Or(installconfig.CheckManifestName(from.Name), installconfig.CheckManifestName(to.Name)); err != nil {
		return nil, err
	}
	if to.Content == nil {
		if to.Content, err = e.ReadFile(id, manifestFolder+from.Path()); fault.KindOf(err) == fault.NotFound {
			return nil, notFound("Cluster %s has no manifest %s in the folder %s.", row.API.Name, from.Name,
				from.Folder)
		} else if err != nil {
			return nil, err
		}
	}
	if err := to.CheckContent(); err != nil {
		return nil, err
	}
	staged, err := e.options.DB.Stage(ctx, bytes.NewReader(to.Content))
	if err != nil {
		return nil, err
	}
	err = e.update(ctx, func(c *change) error { return c.replaceManifest(id, from, to, staged) })
	if err != nil {
		return nil, err
	}
	return to.Model(models.ManifestManifestSourceUser), nil
}

func (c *change) replaceManifest(id string, from, to Manifest, staged *store.Staged) error {
	row, err := c.cluster(id)
	if err != nil {
		return err
	}
	if !acceptsManifests(row) {
		return manifestsTooLate(row)
	}
	if _, err := record.InstallerFiles.Stat(c.tx, id+"/"+manifestFolder+from.Path()); errors.Is(err,
		store.ErrNotFound) {
		return notFound("Cluster %s has no manifest %s in the folder %s.", row.API.Name, from.Name, from.Folder)
	} else if err != nil {
		return err
	}
	if from.Path() != to.Path() {
		if err := record.InstallerFiles.Delete(c.tx, id+"/"+manifestFolder+from.Path()); err != nil {
			return err
		}
		if err := c.checkFree(row, to.Name, to.Folder, to.OtherFolder()); err != nil {
			return err
		}
	}
	c.recordCatalogs(row, from.Path(), nil)
	c.recordCatalogs(row, to.Path(), to.Content)
	c.settleCluster(id)
	message := fmt.Sprintf("Cluster %s: the manifest %s was changed.", row.API.Name, to.Path())
	if from.Path() != to.Path() {
		message = fmt.Sprintf("Cluster %s: the manifest %s was moved to %s.", row.API.Name, from.Path(), to.Path())
	}
	return errors.Join(
		record.InstallerFiles.Put(c.tx, id+"/"+manifestFolder+to.Path(), staged, c.now),
		c.clusterEvent(row, event.ManifestChanged, models.EventSeverityInfo, "%s", message),
	)
}

// hasManifests reports whether users added manifests to a cluster.
func (c *change) hasManifests(id string) (bool, error) {
	found := false
	err := record.InstallerFiles.Keys(c.tx, id+"/"+manifestFolder,
		func(string) error { found = true; return store.ErrStop })
	return found, err
}

// DeleteManifest deletes a manifest. A missing manifest is not an error.
func (e *Engine) DeleteManifest(ctx context.Context, id string, m Manifest) error {
	m = m.WithFolder()
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if !acceptsManifests(row) {
			return manifestsTooLate(row)
		}
		if err := installconfig.CheckManifestName(m.Name); err != nil {
			return err
		}
		key := id + "/" + manifestFolder + m.Path()
		if _, err := record.InstallerFiles.Stat(c.tx, key); errors.Is(err, store.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		if err := record.InstallerFiles.Delete(c.tx, key); err != nil {
			return err
		}
		c.recordCatalogs(row, m.Path(), nil)
		c.settleCluster(id)
		left, err := c.hasManifests(id)
		if err == nil && !left {
			err = c.setUsage(row, description.UsageCustomManifest, false, nil)
		}
		if err != nil {
			return err
		}
		return c.clusterEvent(row, event.ManifestDeleted, models.EventSeverityInfo,
			"Cluster %s: the manifest %s was deleted.", row.API.Name, m.Path())
	})
}

// checkFree rejects a name that a manifest in one of the folders has. The other folder of a
// manifest counts as well, because the installer merges both folders.
func (c *change) checkFree(row *record.Cluster, name string, folders ...string) error {
	for _, folder := range folders {
		_, err := record.InstallerFiles.Stat(c.tx, row.API.ID.String()+"/"+manifestFolder+folder+"/"+name)
		if err == nil {
			return invalid("Cluster %s has a manifest %s in the folder %s already; use another name, because the "+
				"installer merges both folders.", row.API.Name, name, folder)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// acceptsManifests reports whether manifests can still be added to the cluster's installation.
func acceptsManifests(row *record.Cluster) bool {
	return slices.Contains([]string{lifecycle.ClusterPendingForInput, lifecycle.ClusterReady,
		lifecycle.ClusterInsufficient}, *row.API.Status)
}

// manifestsTooLate returns the error for a change after the installation has begun. Its kind is
// Invalid, as in the Assisted Installer.
func manifestsTooLate(row *record.Cluster) error {
	return invalid("Cluster %s is %s; its manifests can only be changed before its installation.", row.API.Name,
		*row.API.Status)
}

// ManifestContent decodes the base64 text of a manifest. The limit is the maximum size of the
// content in bytes.
func ManifestContent(text *string, limit int64) ([]byte, error) {
	return installconfig.DecodeManifest(text, limit)
}
