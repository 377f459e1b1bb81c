package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/release"
	"landfall/store"
)

// The manifests that people add to a cluster lie among its files, each as
// manifests/<folder>/<name>. openshift-install reads two folders, "manifests" and "openshift". A
// name that ends in .patch or .patch_<anything> is no manifest but a change of one (RFC 6902,
// written as YAML) that the installer makes by itself: cluster-scheduler-02-config.yml.patch
// changes cluster-scheduler-02-config.yml. The rules are the Assisted Installer's
// (internal/manifests/manifests.go).

// manifestFolder is where a cluster's additional manifests lie among its files.
const manifestFolder = "manifests/"

const (
	eventManifestAdded   = "custom_manifest_added"
	eventManifestChanged = "custom_manifest_changed"
	eventManifestDeleted = "custom_manifest_deleted"
)

// Manifest names one manifest and, when it is to be written, holds its content.
type Manifest struct {
	Folder  string // manifests or openshift; empty is manifests
	Name    string
	Content []byte
}

func (m Manifest) withFolder() Manifest {
	m.Folder = orText(m.Folder, models.ManifestFolderManifests)
	return m
}

func (m Manifest) path() string { return m.Folder + "/" + m.Name }

func (m Manifest) shown(source string) *models.Manifest {
	return &models.Manifest{Folder: m.Folder, FileName: m.Name, ManifestSource: source}
}

// Manifests lists what people added to a cluster's manifests, by folder and name, and with system
// also what the appliance adds by itself. What openshift-install makes is not listed.
func (e *Engine) Manifests(id string, system bool) ([]*models.Manifest, error) {
	names, err := e.FileNames(id, manifestFolder)
	if err != nil {
		return nil, err
	}
	manifests := []*models.Manifest{}
	for _, name := range names {
		folder, file, _ := strings.Cut(strings.TrimPrefix(name, manifestFolder), "/")
		manifests = append(manifests, Manifest{Folder: folder, Name: file}.shown(models.ManifestManifestSourceUser))
	}
	if !system {
		return manifests, nil
	}
	plan, err := e.planInstallation(id)
	if err != nil {
		return nil, err
	}
	added, err := plan.systemManifests()
	if err != nil {
		return nil, err
	}
	for name := range added {
		if folder, file := path.Split(name); plan.manifests[name] == nil {
			manifests = append(manifests, Manifest{Folder: path.Clean(folder),
				Name: file}.shown(models.ManifestManifestSourceSystem))
		}
	}
	slices.SortFunc(manifests, func(a, b *models.Manifest) int {
		return strings.Compare(a.Folder+"/"+a.FileName, b.Folder+"/"+b.FileName)
	})
	return manifests, nil
}

// OpenManifest opens a manifest of a cluster for reading, one of the appliance's own too; the
// caller closes it.
func (e *Engine) OpenManifest(id string, m Manifest) (io.ReadSeekCloser, store.FileInfo, error) {
	m = m.withFolder()
	row, err := e.clusterRow(id)
	if err != nil {
		return nil, store.FileInfo{}, err
	}
	if err := checkManifestName(m.Name); err != nil {
		return nil, store.FileInfo{}, err
	}
	file, info, err := e.OpenFile(id, manifestFolder+m.path())
	if KindOf(err) != NotFound {
		return file, info, err
	}
	plan, planErr := e.planInstallation(id)
	if planErr != nil {
		return nil, info, planErr
	}
	added, err := plan.systemManifests()
	if err != nil {
		return nil, info, err
	}
	if content, ok := added[m.path()]; ok {
		return held{bytes.NewReader(content)}, store.FileInfo{Size: int64(len(content)), Modified: row.API.UpdatedAt},
			nil
	}
	return nil, info, notFound("Cluster %s has no manifest %s in the folder %s.", row.API.Name, m.Name, m.Folder)
}

// held is content in memory as an open file.
type held struct{ *bytes.Reader }

func (held) Close() error { return nil }

// CreateManifest keeps a manifest that the cluster's installation gets on top of its own. One of
// the same name in the same folder is replaced. It is refused with kind Schema for a bad name,
// Invalid for content that is not what its name says, and Conflict once the installation is being
// prepared, for it would not reach it any more.
func (e *Engine) CreateManifest(ctx context.Context, id string, m Manifest) (*models.Manifest, error) {
	m = m.withFolder()
	if err := errors.Join(checkManifestName(m.Name), checkManifestContent(m)); err != nil {
		return nil, first(err)
	}
	staged, err := e.DB.Stage(ctx, bytes.NewReader(m.Content))
	if err != nil {
		return nil, err
	}
	err = e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if !manifestsOpen(row) {
			return conflict("Cluster %s is %s; manifests can only be added before its installation.", row.API.Name,
				*row.API.Status)
		}
		if err := c.onlyFolder(row, m); err != nil {
			return err
		}
		if err := c.setUsage(row, usageCustomManifest, true); err != nil {
			return err
		}
		c.noteCatalogs(row, m.path(), m.Content)
		c.settleCluster(id)
		return errors.Join(
			installerFiles.Put(c.tx, id+"/"+manifestFolder+m.path(), staged, c.now),
			c.clusterEvent(row, eventManifestAdded, models.EventSeverityInfo, "Cluster %s: the manifest %s was added.",
				row.API.Name, m.path()),
		)
	})
	if err != nil {
		return nil, err
	}
	return m.shown(models.ManifestManifestSourceUser), nil
}

// UpdateManifest gives a manifest new content, another name or folder, or several of these: what
// params leaves out stays. The content comes decoded; nil leaves it as it is.
func (e *Engine) UpdateManifest(ctx context.Context, id string, params *models.UpdateManifestParams,
	content []byte) (*models.Manifest, error) {
	from := Manifest{Folder: params.Folder, Name: params.FileName}
	to := Manifest{Folder: orDefault(params.UpdatedFolder, from.Folder), Name: orDefault(params.UpdatedFileName,
		from.Name), Content: content}
	row, err := e.clusterRow(id)
	if err != nil {
		return nil, err
	}
	if !manifestsOpen(row) {
		return nil, manifestsClosed(row)
	}
	if err := errors.Join(checkManifestName(from.Name), checkManifestName(to.Name)); err != nil {
		return nil, first(err)
	}
	if to.Content == nil {
		if to.Content, err = e.readFile(id, manifestFolder+from.path()); KindOf(err) == NotFound {
			return nil, notFound("Cluster %s has no manifest %s in the folder %s.", row.API.Name, from.Name,
				from.Folder)
		} else if err != nil {
			return nil, err
		}
	}
	if err := checkManifestContent(to); err != nil {
		return nil, err
	}
	staged, err := e.DB.Stage(ctx, bytes.NewReader(to.Content))
	if err != nil {
		return nil, err
	}
	err = e.update(ctx, func(c *change) error { return c.replaceManifest(id, from, to, staged) })
	if err != nil {
		return nil, err
	}
	return to.shown(models.ManifestManifestSourceUser), nil
}

func (c *change) replaceManifest(id string, from, to Manifest, staged *store.Staged) error {
	row, err := c.cluster(id)
	if err != nil {
		return err
	}
	if !manifestsOpen(row) {
		return manifestsClosed(row)
	}
	if _, err := installerFiles.Stat(c.tx, id+"/"+manifestFolder+from.path()); errors.Is(err, store.ErrNotFound) {
		return notFound("Cluster %s has no manifest %s in the folder %s.", row.API.Name, from.Name, from.Folder)
	} else if err != nil {
		return err
	}
	if from.path() != to.path() {
		if err := installerFiles.Delete(c.tx, id+"/"+manifestFolder+from.path()); err != nil {
			return err
		}
		if err := c.onlyFolder(row, to); err != nil {
			return err
		}
	}
	c.noteCatalogs(row, from.path(), nil)
	c.noteCatalogs(row, to.path(), to.Content)
	c.settleCluster(id)
	message := fmt.Sprintf("Cluster %s: the manifest %s was changed.", row.API.Name, to.path())
	if from.path() != to.path() {
		message = fmt.Sprintf("Cluster %s: the manifest %s is %s now.", row.API.Name, from.path(), to.path())
	}
	return errors.Join(
		installerFiles.Put(c.tx, id+"/"+manifestFolder+to.path(), staged, c.now),
		c.clusterEvent(row, eventManifestChanged, models.EventSeverityInfo, "%s", message),
	)
}

// hasManifests tells whether people have added manifests to a cluster.
func (c *change) hasManifests(id string) (bool, error) {
	found := false
	err := installerFiles.Keys(c.tx, id+"/"+manifestFolder, func(string) error { found = true; return store.ErrStop })
	return found, err
}

// DeleteManifest takes a manifest away again; one that is not there is no error.
func (e *Engine) DeleteManifest(ctx context.Context, id string, m Manifest) error {
	m = m.withFolder()
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if !manifestsOpen(row) {
			return manifestsClosed(row)
		}
		if err := checkManifestName(m.Name); err != nil {
			return err
		}
		key := id + "/" + manifestFolder + m.path()
		if _, err := installerFiles.Stat(c.tx, key); errors.Is(err, store.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		if err := installerFiles.Delete(c.tx, key); err != nil {
			return err
		}
		c.noteCatalogs(row, m.path(), nil)
		c.settleCluster(id)
		left := 0
		if err := installerFiles.Keys(c.tx, id+"/"+manifestFolder,
			func(string) error { left++; return nil }); err != nil {
			return err
		}
		if left == 0 {
			if err := c.setUsage(row, usageCustomManifest, false); err != nil {
				return err
			}
		}
		return c.clusterEvent(row, eventManifestDeleted, models.EventSeverityInfo,
			"Cluster %s: the manifest %s was deleted.", row.API.Name, m.path())
	})
}

// onlyFolder refuses a manifest whose name the other folder has too: the installer lays both over
// each other.
func (c *change) onlyFolder(row *clusterRecord, m Manifest) error {
	other := models.ManifestFolderOpenshift
	if m.Folder == models.ManifestFolderOpenshift {
		other = models.ManifestFolderManifests
	}
	_, err := installerFiles.Stat(c.tx, row.API.ID.String()+"/"+manifestFolder+other+"/"+m.Name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return invalid("Cluster %s has a manifest %s in the folder %s already; a name may be in one of the two folders "+
		"only.", row.API.Name, m.Name, other)
}

// manifestsOpen tells whether manifests still reach the cluster's installation.
func manifestsOpen(row *clusterRecord) bool {
	return slices.Contains([]string{clusterPending, clusterReady, clusterInsufficient}, *row.API.Status)
}

// manifestsClosed refuses a change too late with kind Invalid, as the Assisted Installer does.
func manifestsClosed(row *clusterRecord) error {
	return invalid("Cluster %s is %s; its manifests can only be changed before its installation.", row.API.Name,
		*row.API.Status)
}

// checkManifestName refuses names that are none of a file in one of the two folders, with kind
// Schema.
func checkManifestName(name string) error {
	refuse := func(why string) error {
		return &Error{Kind: Schema,
			Reason: fmt.Sprintf("The manifest's name %q %s; a name is such as 99-kernel-arguments.yaml.", name, why)}
	}
	switch {
	case strings.TrimSpace(strings.TrimSuffix(name, path.Ext(name))) == "":
		return refuse("has nothing before its extension")
	case name[0] == '.':
		return refuse("begins with a dot")
	case strings.Contains(name, " "):
		return refuse("has a space")
	case strings.ContainsAny(name, "/\\") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }):
		return refuse("has a slash or a control character")
	}
	return nil
}

// checkManifestContent refuses content that is not what the manifest's name says.
func checkManifestContent(m Manifest) error {
	if len(bytes.TrimSpace(m.Content)) == 0 {
		return invalid("The manifest %s is empty.", m.path())
	}
	switch extension := path.Ext(m.Name); {
	case extension == ".yaml" || extension == ".yml":
		return checkYAML(m)
	case extension == ".json":
		if !json.Valid(m.Content) {
			return invalid("The manifest %s is not JSON.", m.path())
		}
		return nil
	case strings.HasPrefix(extension, ".patch"):
		if _, err := release.ParsePatch(m.Content); err != nil {
			return invalid("The patch %s can't be used: %s", m.path(), clause(err))
		}
		return nil
	}
	return invalid("The manifest's name %q ends in none of .yaml, .yml, .json and .yaml.patch_<name>.", m.Name)
}

// checkYAML reads all documents of a manifest.
func checkYAML(m Manifest) error {
	decoder := yaml.NewDecoder(bytes.NewReader(m.Content))
	for {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return invalid("The manifest %s is not YAML: %s", m.path(),
				clause(errors.New(strings.TrimPrefix(err.Error(), "yaml: "))))
		}
	}
}

// first returns the first of joined errors, so that what is told is one sentence.
func first(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
		return joined.Unwrap()[0]
	}
	return err
}

// ManifestContent decodes the base64 text that the API takes a manifest's content as; limit is in
// bytes.
func ManifestContent(text *string, limit int64) ([]byte, error) {
	if strings.TrimSpace(conv.Value(text)) == "" {
		return nil, invalid("The manifest has no content.")
	}
	content, err := base64.StdEncoding.DecodeString(strings.TrimSpace(*text))
	if err != nil {
		return nil, invalid("The manifest's content is not base64: %s", clause(err))
	}
	if int64(len(content)) > limit {
		return nil, invalid("The manifest has %d bytes; at most %d are taken.", len(content), limit)
	}
	return content, nil
}
