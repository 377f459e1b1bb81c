package clusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	corev1 "k8s.io/api/core/v1"

	"landfall/appliance/engine"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// manifestRefs lists the ConfigMaps with manifests. The list replaces the deprecated single
// reference.
func manifestRefs(aci *hiveext.AgentClusterInstall) []string {
	var names []string
	for _, ref := range aci.Spec.ManifestsConfigMapRefs {
		names = append(names, ref.Name)
	}
	if ref := aci.Spec.ManifestsConfigMapRef; len(names) == 0 && ref != nil && ref.Name != "" {
		names = append(names, ref.Name)
	}
	return names
}

// readManifests returns the manifests of the ConfigMaps by file name.
func (c Projector) readManifests(tx *store.Tx, s *snapshot) (map[string]string, error) {
	manifests := map[string]string{}
	for _, name := range manifestRefs(s.aci) {
		config := &corev1.ConfigMap{}
		if err := c.Objects.Get(tx, objects.ConfigMaps, s.namespace, name, config); err != nil {
			if errors.Is(err, store.ErrNotFound) {
				return nil, fmt.Errorf("there is no ConfigMap %s/%s with manifests", s.namespace, name)
			}
			return nil, err
		}
		for file, content := range config.Data {
			if _, twice := manifests[file]; twice {
				return nil, inputError("Conflict in manifest names (%q is not unique)", file)
			}
			manifests[file] = content
		}
		for file, content := range config.BinaryData {
			if _, twice := manifests[file]; twice {
				return nil, inputError("Conflict in manifest names (%q is not unique)", file)
			}
			manifests[file] = string(content)
		}
	}
	return manifests, nil
}

// applyManifests sets the manifests of the cluster to those of the ConfigMaps. If a manifest is
// invalid, none is applied.
func (c *Controller) applyManifests(ctx context.Context, s *snapshot) error {
	if models.ClusterKindCluster != *s.view.Kind || !slices.Contains(openStatuses, *s.view.Status) {
		return nil
	}
	id := s.view.ID.String()
	failure := s.manifestsErr
	if failure == nil {
		for _, name := range slices.Sorted(maps.Keys(s.manifests)) {
			manifest := engine.Manifest{Folder: models.ManifestFolderOpenshift, Name: name,
				Content: []byte(s.manifests[name])}
			if _, err := c.Engine.CreateManifest(ctx, id, manifest); err != nil {
				failure = fmt.Errorf("manifest %s: %w", name, err)
				break
			}
		}
	}
	gone := slices.DeleteFunc(slices.Clone(s.applied.Manifests), func(name string) bool {
		_, exists := s.manifests[name]
		return exists && failure == nil
	})
	if failure != nil {
		gone = append(gone, slices.Sorted(maps.Keys(s.manifests))...)
	}
	for _, name := range gone {
		if err := c.Engine.DeleteManifest(ctx, id, engine.Manifest{Folder: models.ManifestFolderOpenshift,
			Name: name}); err != nil {
			return errors.Join(failure, err)
		}
	}
	if failure != nil {
		return &manifestsError{failure}
	}
	return nil
}
