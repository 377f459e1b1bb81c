package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects"
	"landfall/appliance/mirror"
	"landfall/store"
)

// openStatuses are the states of a cluster whose installation has not started.
var openStatuses = []string{models.ClusterStatusPendingForInput, models.ClusterStatusReady,
	models.ClusterStatusInsufficient}

// mirrorName is the name under which the mirror rules of spec.mirrorRegistryRef are stored.
const mirrorName = "mirrorRegistryRef"

// prepareObjects sets finalizers, owner references and labels before the objects are applied. It
// does not label what can't be used: a user may name any Secret, and a label permits other uses of
// it.
func (c *Controller) prepareObjects(ctx context.Context, s *snapshot) error {
	return c.update(ctx, func(tx *store.Tx) error {
		if err := c.updateMetadata(tx, s, c.Clock.Now()); err != nil {
			return err
		}
		if s.err != nil {
			return nil // sync reports it
		}
		for _, ref := range s.secretRefs() {
			if err := c.labelReferenced(tx, objects.Secrets, ref); err != nil {
				return err
			}
		}
		for _, ref := range s.configRefs() {
			if err := c.labelReferenced(tx, objects.ConfigMaps, ref); err != nil {
				return err
			}
		}
		return nil
	})
}

// updateMetadata sets the metadata of a ClusterDeployment and its AgentClusterInstall, if they
// exist.
func (c Projector) updateMetadata(tx *store.Tx, s *snapshot, now time.Time) error {
	edit, err := c.editPair(tx, s.namespace, s.name)
	if err != nil || edit == nil {
		return err
	}
	setMetadata(edit.cd.Object, edit.aci.Object, now)
	if _, err := edit.cd.Save(c.Objects, tx, now); err != nil {
		return err
	}
	_, err = edit.aci.Save(c.Objects, tx, now)
	return err
}

// setMetadata sets the finalizers of a ClusterDeployment and its AgentClusterInstall, and the
// owner reference between them.
func setMetadata(cd *hivev1.ClusterDeployment, aci *hiveext.AgentClusterInstall, now time.Time) {
	if cd.DeletionTimestamp == nil && !slices.Contains(cd.Finalizers, clusterDeploymentFinalizer) {
		cd.Finalizers = append(cd.Finalizers, clusterDeploymentFinalizer)
	}
	if cd.Labels[labelClusterPlatform] == "" {
		cd.Labels = withLabel(cd.Labels, labelClusterPlatform, platformAgentBareMetal)
	}
	initHiveConditions(cd, now)
	owner := metav1.OwnerReference{APIVersion: objects.ClusterDeployments.APIVersion(),
		Kind: objects.ClusterDeployments.Kind, Name: cd.Name, UID: cd.UID}
	if aci.DeletionTimestamp == nil && !slices.Contains(aci.Finalizers, clusterInstallFinalizer) {
		aci.Finalizers = append(aci.Finalizers, clusterInstallFinalizer)
	}
	if !slices.ContainsFunc(aci.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.UID }) {
		aci.OwnerReferences = append(aci.OwnerReferences, owner)
	}
}

func withLabel(labels map[string]string, name, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[name] = value
	return labels
}

// labelReferenced sets the labels on a referenced Secret or ConfigMap that controllers on a hub
// require.
func (c Projector) labelReferenced(tx *store.Tx, kind objects.Kind, ref string) error {
	if labelled, err := c.hasLabels(tx, kind, ref); labelled || err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(ref, "/")
	return objects.IgnoreNotFound(c.Objects.Update(tx, kind, namespace, name, func(u *unstructured.Unstructured) error {
		u.SetLabels(withLabel(withLabel(u.GetLabels(), objects.LabelWatch, "true"), labelBackup, "true"))
		return nil
	}))
}

// hasLabels reports whether a referenced Secret or ConfigMap exists and has the labels.
func (c Projector) hasLabels(tx *store.Tx, kind objects.Kind, ref string) (bool, error) {
	namespace, name, _ := strings.Cut(ref, "/")
	text, err := c.Objects.Field(tx, kind, namespace, name, "metadata", "labels")
	if err != nil || text == nil {
		return false, err
	}
	var labels map[string]string
	if err := json.Unmarshal(text, &labels); err != nil {
		return false, fmt.Errorf("read the labels of %s %s: %w", kind, ref, err)
	}
	return labels[objects.LabelWatch] == "true" && labels[labelBackup] == "true", nil
}

// allLabelled reports whether all referenced Secrets and ConfigMaps have the labels.
func (c Projector) allLabelled(tx *store.Tx, s *snapshot) (bool, error) {
	for _, ref := range s.secretRefs() {
		if labelled, err := c.hasLabels(tx, objects.Secrets, ref); !labelled || err != nil {
			return false, err
		}
	}
	for _, ref := range s.configRefs() {
		if labelled, err := c.hasLabels(tx, objects.ConfigMaps, ref); !labelled || err != nil {
			return false, err
		}
	}
	return true, nil
}

// register registers the cluster in the engine, or imports it if it is already installed.
func (c *Controller) register(ctx context.Context, s *snapshot) error {
	of := record.Object{Key: s.key(), Generation: s.aci.Generation}
	if s.installed() {
		return c.importCluster(ctx, s, of)
	}
	w, err := desiredCluster(s.clusterPair, nil)
	if err != nil {
		return err
	}
	release, err := c.Engine.ReadRelease(ctx, s.imageSet.Spec.ReleaseImage, s.pullSecret)
	if err != nil {
		hint := ""
		if strings.Contains(err.Error(), "mirror") && !strings.Contains(s.imageSet.Spec.ReleaseImage, "@") {
			hint = "; mirrors usually have images by digest only: name the release by its digest"
		}
		return fmt.Errorf("failed to get release image %q, please ensure the releaseImage field in ClusterImageSet "+
			"%q is valid%s: %w",
			s.imageSet.Spec.ReleaseImage, s.imageSet.Name, hint, err)
	}
	params := description.ClusterCreateParams(w)
	params.PullSecret, params.IgnitionEndpoint = &s.pullSecret, s.ignitionEndpoint()
	params.OpenshiftVersion, params.OcpReleaseImage = &release.OpenshiftVersion, release.URL
	params.CPUArchitecture, params.VipDhcpAllocation = release.CPUArchitecture, conv.Pointer(false)
	if singleNode(s.aci) {
		params.HighAvailabilityMode = conv.Pointer(models.ClusterHighAvailabilityModeNone)
	}
	_, err = c.Engine.RegisterCluster(ctx, params, of)
	return err
}

func (c *Controller) importCluster(ctx context.Context, s *snapshot, of record.Object) error {
	params := &models.ImportClusterParams{
		Name: &s.cd.Spec.ClusterName, APIVipDnsname: conv.Pointer("api." + s.cd.Spec.ClusterName +
			"." + s.cd.Spec.BaseDomain),
		OpenshiftClusterID: new(strfmt.UUID),
	}
	metadata := s.cd.Spec.ClusterMetadata
	if metadata == nil {
		metadata = s.aci.Spec.ClusterMetadata
	}
	if metadata != nil {
		*params.OpenshiftClusterID = strfmt.UUID(metadata.ClusterID)
	}
	if s.imageSet != nil && s.pullSecret != "" {
		release, err := c.Engine.ReadRelease(ctx, s.imageSet.Spec.ReleaseImage, s.pullSecret)
		if err != nil {
			return fmt.Errorf("failed to get release image %q of ClusterImageSet %q: %w", s.imageSet.Spec.ReleaseImage,
				s.imageSet.Name, err)
		}
		params.OpenshiftVersion = release.OpenshiftVersion
	}
	_, err := c.Engine.ImportCluster(ctx, params, of)
	return err
}

func (s *snapshot) ignitionEndpoint() *models.IgnitionEndpoint {
	e := s.aci.Spec.IgnitionEndpoint
	if e == nil {
		return nil
	}
	return &models.IgnitionEndpoint{URL: conv.Pointer(e.Url), CaCertificate: &s.endpointCA}
}

// apply applies the objects to the cluster if they differ from the last applied state.
func (c *Controller) apply(ctx context.Context, s *snapshot) error {
	w, err := desiredCluster(s.clusterPair, s.view.Cluster)
	if err != nil {
		return err
	}
	now, applied, err := s.unapplied(w)
	if applied || err != nil {
		return err
	}
	if err := c.applyMirror(ctx, s); err != nil {
		return err
	}
	if err := c.applyFields(ctx, s, w); err != nil {
		return err
	}
	if err := c.applyAnnotations(ctx, s); err != nil {
		return err
	}
	if err := c.applyManifests(ctx, s); err != nil {
		// clear the digest of the references, so that they are applied again once the manifests are
		// valid
		was := s.applied
		was.References, was.Manifests = "", nil
		return errors.Join(err, c.storeApplied(ctx, s, was))
	}
	return c.update(ctx, func(tx *store.Tx) error {
		rows := c.Engine.Rows(tx)
		view, err := rows.Cluster(s.view.ID.String())
		if err != nil {
			return err
		}
		now.Kept = differingFields(w, view.Cluster)
		note, err := now.object()
		if err != nil {
			return err
		}
		note.Generation = s.aci.Generation
		return record.NoteClusterObject(tx, s.view.ID.String(), note)
	})
}

// unapplied returns the state of the objects, which specify the values w. applied reports whether
// it was applied before.
func (s *snapshot) unapplied(w *desiredFields) (now appliedState, applied bool, err error) {
	spec, err := s.specDigest(w)
	if err != nil {
		return now, false, err
	}
	now = appliedState{Spec: spec, References: s.referencesDigest(), Mirror: s.mirrorDigest,
		Manifests: slices.Sorted(maps.Keys(s.manifests)),
		Generated: s.applied.Generated}
	return now, s.applied.Spec == now.Spec && s.applied.References == now.References &&
		s.applied.Mirror == now.Mirror && s.manifestsErr == nil, nil
}

func (c *Controller) storeApplied(ctx context.Context, s *snapshot, now appliedState) error {
	note, err := now.object()
	if err != nil {
		return err
	}
	return c.update(ctx, func(tx *store.Tx) error { return record.NoteClusterObject(tx, s.view.ID.String(), note) })
}

// differingFields returns the fields whose values still differ after the objects were applied,
// because the engine has chosen or normalized the value. Each field has a digest of its value.
func differingFields(w *desiredFields, cluster *models.Cluster) map[string]string {
	var kept map[string]string
	for _, field := range clusterFields() {
		if field.differs(w, cluster) {
			kept = withLabel(kept, field.name, digest(fmt.Sprint(field.actual(cluster))))
		}
	}
	return kept
}

func (c *Controller) applyFields(ctx context.Context, s *snapshot, w *desiredFields) error {
	changed, vips := false, *w
	switched := *w.UserManagedNetworking != conv.Value(s.view.UserManagedNetworking)
	for _, field := range clusterFields() {
		if field.differs(w, s.view.Cluster) {
			changed = true
		} else {
			field.clear(w)
		}
	}
	if switched { // the engine validates the virtual addresses only if the update contains them
		w.APIVips, w.IngressVips = vips.APIVips, vips.IngressVips
	}
	if s.pullSecret != "" && s.pullSecret != s.storedPullSecret {
		w.PullSecret, changed = &s.pullSecret, true
	}
	if desired := s.ignitionEndpoint(); !sameEndpoint(desired, s.view.IgnitionEndpoint) {
		if desired == nil {
			desired = &models.IgnitionEndpoint{URL: conv.Pointer(""), CaCertificate: conv.Pointer("")}
		}
		w.IgnitionEndpoint, changed = desired, true
	}
	if !changed {
		return nil
	}
	_, err := c.Engine.UpdateCluster(ctx, s.view.ID.String(), w)
	return err
}

func sameEndpoint(a, b *models.IgnitionEndpoint) bool {
	text := func(e *models.IgnitionEndpoint) string {
		if e == nil {
			return " "
		}
		return conv.Value(e.URL) + " " + conv.Value(e.CaCertificate)
	}
	return text(a) == text(b)
}

func (c *Controller) applyMirror(ctx context.Context, s *snapshot) error {
	if s.mirrorDigest == s.applied.Mirror {
		return nil
	}
	if c.Mirrors == nil {
		return inputError("this appliance does not store mirror rules of single clusters; configure them for the " +
			"appliance")
	}
	if err := c.Mirrors.SetMirror(ctx, mirror.Level{Cluster: s.view.ID.String()}, mirrorName, s.mirror); err != nil {
		return inputError("the mirror rules of spec.mirrorRegistryRef can't be used: %w", err)
	}
	return nil
}

// applyAnnotations applies the annotations. It does nothing for an installed cluster, which has no
// install-config and no validations.
func (c *Controller) applyAnnotations(ctx context.Context, s *snapshot) error {
	if *s.view.Kind != models.ClusterKindCluster {
		return nil
	}
	id := s.view.ID.String()
	if override, ok := s.aci.Annotations[annotationInstallConfigOverrides]; (ok || s.applied.Spec != "") &&
		override != s.view.InstallConfigOverrides {
		if override != "" && !json.Valid([]byte(override)) {
			return inputError("Failed to parse '%s' annotation: it is not JSON", annotationInstallConfigOverrides)
		}
		if err := c.Engine.SetInstallConfigOverride(ctx, id, override); err != nil {
			return err
		}
	}
	clusterChecks, clusterSet, err := ignoredOf(s.aci, annotationIgnoredClusterValidations)
	if err != nil {
		return err
	}
	hostChecks, hostSet, err := ignoredOf(s.aci, annotationIgnoredHostValidations)
	if err != nil {
		return err
	}
	if !clusterSet {
		clusterChecks = s.view.IgnoredClusterValidations
	}
	if !hostSet {
		hostChecks = s.view.IgnoredHostValidations
	}
	if clusterChecks == s.view.IgnoredClusterValidations && hostChecks == s.view.IgnoredHostValidations {
		return nil
	}
	_, err = c.Engine.IgnoreValidations(ctx, id, &models.IgnoredValidations{ClusterValidationIds: clusterChecks,
		HostValidationIds: hostChecks})
	return err
}

// ignoredOf converts the comma-separated validation ids of an annotation to a JSON list. An empty
// annotation results in an empty list. set is false without the annotation.
func ignoredOf(aci *hiveext.AgentClusterInstall, annotation string) (list string, set bool, err error) {
	text, set := aci.Annotations[annotation]
	if !set {
		return "", false, nil
	}
	ids := []string{}
	for _, id := range commaSeparated(text) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	encoded, err := json.Marshal(ids)
	return string(encoded), true, err
}

// startInstallations starts the installation of the cluster or of its additional hosts, if the
// cluster or a host is ready.
func (c *Controller) startInstallations(ctx context.Context, s *snapshot) error {
	var state clusterState
	var ready []*view.Host
	if err := c.DB.View(func(tx *store.Tx) (err error) {
		rows := c.Engine.Rows(tx)
		view, err := rows.Cluster(s.view.ID.String())
		if err != nil {
			return err
		}
		if state, err = c.stateOf(tx, rows, view, s.clusterPair); err != nil {
			return err
		}
		if *view.Status == models.ClusterStatusAddingHosts {
			ready, state.pendingAgents, err = c.approvedHosts(tx, rows, view)
		}
		return err
	}); err != nil {
		return err
	}
	s.pendingAgents = state.pendingAgents > 0
	id := s.view.ID.String()
	switch {
	case state.startable():
		if s.backoff = state.backoff(c.Clock.Now()); s.backoff > 0 {
			return nil
		}
		_, err := c.Engine.InstallCluster(ctx, id)
		return err
	case *state.cluster.Status == models.ClusterStatusInstalled && *state.cluster.Kind == models.ClusterKindCluster &&
		!s.applied.Generated:
		_, err := c.Engine.AllowAddHosts(ctx, id)
		return err
	}
	for _, host := range ready {
		if _, err := c.Engine.InstallHost(ctx, host.InfraEnvID.String(), host.ID.String()); err != nil {
			return err
		}
	}
	return c.pausePool(s.key(), id)
}
