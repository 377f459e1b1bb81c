package installconfig

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/fault"
	"landfall/appliance/release"
	"landfall/appliance/sentence"
)

// Manifest is a manifest that users add to the installation of a cluster. openshift-install reads
// the directories "manifests" and "openshift". A name with the ending .patch or .patch_<anything>
// denotes a patch (RFC 6902, as YAML) of a generated manifest:
// cluster-scheduler-02-config.yml.patch changes cluster-scheduler-02-config.yml. The rules are
// those of the Assisted Installer (internal/manifests/manifests.go).
type Manifest struct {
	Folder  string // manifests or openshift; empty for manifests
	Name    string
	Content []byte // nil if only the name is used
}

// WithFolder returns the manifest with the default folder if it has none.
func (m Manifest) WithFolder() Manifest {
	if m.Folder == "" {
		m.Folder = models.ManifestFolderManifests
	}
	return m
}

// Path returns the folder and name of the manifest, such as openshift/99-chrony.yaml.
func (m Manifest) Path() string { return m.Folder + "/" + m.Name }

// OtherFolder returns the other folder. It must not contain a manifest of the same name, because
// the installer merges both folders.
func (m Manifest) OtherFolder() string {
	if m.Folder == models.ManifestFolderOpenshift {
		return models.ManifestFolderManifests
	}
	return models.ManifestFolderOpenshift
}

// Model returns the manifest in the format of the API, with its source: the user or the system.
func (m Manifest) Model(source string) *models.Manifest {
	return &models.Manifest{Folder: m.Folder, FileName: m.Name, ManifestSource: source}
}

// CheckManifestName rejects invalid file names with kind Schema.
func CheckManifestName(name string) error {
	refuse := func(why string) error {
		return fault.New(fault.Schema,
			"The manifest's name %q %s; an example of a valid name is 99-kernel-arguments.yaml.", name, why)
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

// CheckContent rejects content that does not match the type in the manifest's name.
func (m Manifest) CheckContent() error {
	if len(bytes.TrimSpace(m.Content)) == 0 {
		return invalid("The manifest %s is empty.", m.Path())
	}
	switch extension := path.Ext(m.Name); {
	case extension == ".yaml" || extension == ".yml":
		return m.checkYAML()
	case extension == ".json":
		if !json.Valid(m.Content) {
			return invalid("The manifest %s is not JSON.", m.Path())
		}
		return nil
	case strings.HasPrefix(extension, ".patch"):
		if _, err := release.ParsePatch(m.Content); err != nil {
			return invalid("The patch %s can't be used: %s", m.Path(), sentence.Ending(err))
		}
		return nil
	}
	return invalid("The manifest's name %q ends in none of .yaml, .yml, .json and .yaml.patch_<name>.", m.Name)
}

// checkYAML reads all documents of the manifest.
func (m Manifest) checkYAML() error {
	decoder := yaml.NewDecoder(bytes.NewReader(m.Content))
	for {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return invalid("The manifest %s is not YAML: %s", m.Path(),
				sentence.Ending(errors.New(strings.TrimPrefix(err.Error(), "yaml: "))))
		}
	}
}

// DecodeManifest decodes a manifest's content, which is base64 text in the API. The limit is in
// bytes.
func DecodeManifest(text *string, limit int64) ([]byte, error) {
	if strings.TrimSpace(conv.Value(text)) == "" {
		return nil, invalid("The manifest has no content.")
	}
	content, err := base64.StdEncoding.DecodeString(strings.TrimSpace(*text))
	if err != nil {
		return nil, invalid("The manifest's content is not base64: %s", sentence.Ending(err))
	}
	if int64(len(content)) > limit {
		return nil, invalid("The manifest has %d bytes; at most %d are allowed.", len(content), limit)
	}
	return content, nil
}
