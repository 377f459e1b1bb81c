package clusters

import (
	"errors"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	agentv1 "github.com/openshift/hive/apis/hive/v1/agent"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// A cluster that was registered over REST or in the browser gets a ClusterDeployment and an
// AgentClusterInstall. The installation is on hold: a user starts it over REST or in the browser,
// or sets holdInstallation to false.

const labelGenerated = objects.MadeForCluster

// generate makes the objects of a cluster that was registered over REST or in the browser, and
// records them as applied to the cluster. It returns nil for a cluster that can't have objects.
func (c Projector) generate(tx *store.Tx, rows view.Rows, s *snapshot, now time.Time) (*pairEdit, error) {
	if kind := *s.view.Kind; kind != models.ClusterKindCluster && kind != models.ClusterKindAddHostsCluster ||
		s.view.Name == "" {
		return nil, nil
	}
	id := s.view.ID.String()
	s.name = s.view.Name
	var err error
	if s.namespace, err = c.namespaceFor(tx, s.name, id); err != nil {
		return nil, err
	}
	if err := c.Objects.EnsureNamespace(tx, s.namespace, now, labelGenerated); err != nil {
		return nil, err
	}
	cd, aci, err := c.objectsFor(tx, rows, s.view, s.namespace, now)
	if err != nil {
		return nil, err
	}
	setInstallConditions(aci, now, clusterSynced(nil))
	edit := &pairEdit{}
	if edit.cd, err = objects.Draft(c.Objects, objects.ClusterDeployments, cd); err != nil {
		return nil, err
	}
	if edit.aci, err = objects.Draft(c.Objects, objects.AgentClusterInstalls, aci); err != nil {
		return nil, err
	}
	s.cd, s.aci, s.applied.Generated = cd, aci, true
	if err := c.readReferences(tx, s); err != nil {
		return nil, err
	}
	s.applied.References = s.referencesDigest()
	note, err := c.writtenBack(s)
	if err != nil {
		return nil, err
	}
	note.Key, note.Generation = s.key(), 1
	return edit, record.NoteClusterObject(tx, id, *note)
}

// namespaceFor returns the namespace for the objects of a new cluster. It has the cluster's name.
// If it is being deleted, or has an object of the same name already, the cluster gets its own.
func (c Projector) namespaceFor(tx *store.Tx, name, id string) (string, error) {
	deleting, err := c.Objects.Deleting(tx, objects.Namespaces, "", name)
	if err != nil {
		return "", err
	}
	if deleting || c.Objects.Exists(tx, objects.ClusterDeployments, name, name) ||
		c.Objects.Exists(tx, objects.AgentClusterInstalls, name, name) ||
		c.Objects.Exists(tx, objects.Secrets, name, pullSecretOf(name)) {
		return name + "-" + id[:8], nil
	}
	return name, nil
}

func pullSecretOf(cluster string) string { return cluster + "-pull-secret" }

func (c Projector) objectsFor(tx *store.Tx, rows view.Rows, view *view.Cluster, namespace string,
	now time.Time) (*hivev1.ClusterDeployment, *hiveext.AgentClusterInstall, error) {
	name := view.Name
	cd := &hivev1.ClusterDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{labelGenerated: "true"}},
		Spec: hivev1.ClusterDeploymentSpec{
			ClusterName: name, BaseDomain: view.BaseDNSDomain,
			Installed: *view.Kind == models.ClusterKindAddHostsCluster,
			Platform:  hivev1.Platform{AgentBareMetal: &agentv1.BareMetalPlatform{}},
			ClusterInstallRef: &hivev1.ClusterInstallLocalReference{Group: clusterInstallGroup, Version: "v1beta1",
				Kind: clusterInstallKind, Name: name},
		},
	}
	aci := &hiveext.AgentClusterInstall{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: hiveext.AgentClusterInstallSpec{
			ClusterDeploymentRef:  corev1.LocalObjectReference{Name: name},
			ProvisionRequirements: hiveext.ProvisionRequirements{ControlPlaneAgents: int(view.ControlPlaneCount)},
			HoldInstallation:      true,
		},
	}
	if cd.Spec.Installed {
		cd.Spec.ClusterMetadata = &hivev1.ClusterMetadata{ClusterID: view.OpenshiftClusterID.String(),
			InfraID: view.ID.String()}
	}
	secret, err := rows.ClusterPullSecret(view)
	if err != nil {
		return nil, nil, err
	}
	if secret != "" {
		ref := pullSecretOf(name)
		cd.Spec.PullSecretRef = &corev1.LocalObjectReference{Name: ref}
		if err := c.Objects.Create(tx, objects.Secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ref, Labels: map[string]string{
				objects.LabelWatch: "true", labelBackup: "true", labelGenerated: "true"}},
			Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(secret)},
		}, now); err != nil {
			return nil, nil, err
		}
	}
	if view.OcpReleaseImage != "" {
		set, err := c.imageSetFor(tx, view.Cluster, now)
		if err != nil {
			return nil, nil, err
		}
		aci.Spec.ImageSetRef = &hivev1.ClusterImageSetReference{Name: set}
	}
	p := &clusterPair{cd: cd, aci: aci}
	for _, field := range clusterFields() {
		if field.actual(view.Cluster) != nil && !empty(field.actual(view.Cluster)) {
			field.write(p, view.Cluster)
		}
	}
	if e := view.IgnitionEndpoint; e != nil && conv.Value(e.URL) != "" {
		aci.Spec.IgnitionEndpoint = &hiveext.IgnitionEndpoint{Url: *e.URL}
	}
	setAnnotation(aci, annotationInstallConfigOverrides, view.InstallConfigOverrides, false)
	writeIgnored(aci, view.Cluster)
	return cd, aci, nil
}

// empty reports whether a field of a cluster is empty.
func empty(value any) bool {
	switch value := value.(type) {
	case string:
		return value == ""
	case []string:
		return len(value) == 0
	}
	return false
}

// imageSetFor returns the name of a ClusterImageSet with a cluster's release. It creates the
// ClusterImageSet if necessary.
func (c Projector) imageSetFor(tx *store.Tx, cluster *models.Cluster, now time.Time) (string, error) {
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, "openshift-"+cluster.OpenshiftVersion+"-"+cluster.CPUArchitecture), "-.")
	for _, candidate := range []string{name, name + "-" + digest(cluster.OcpReleaseImage)[:8]} {
		set := &hivev1.ClusterImageSet{}
		err := c.Objects.Get(tx, objects.ClusterImageSets, "", candidate, set)
		if errors.Is(err, store.ErrNotFound) {
			return candidate, c.Objects.Create(tx, objects.ClusterImageSets, &hivev1.ClusterImageSet{
				ObjectMeta: metav1.ObjectMeta{Name: candidate, Labels: map[string]string{labelGenerated: "true"}},
				Spec:       hivev1.ClusterImageSetSpec{ReleaseImage: cluster.OcpReleaseImage},
			}, now)
		}
		if err != nil || set.Spec.ReleaseImage == cluster.OcpReleaseImage {
			return candidate, err
		}
	}
	return name, nil
}

// deleteGenerated deletes the objects that were created for a cluster, and its namespace if that is
// empty.
func (c Projector) deleteGenerated(tx *store.Tx, cd *hivev1.ClusterDeployment, imageSet string, now time.Time) error {
	if cd.Labels[labelGenerated] != "true" {
		return nil
	}
	if ref := cd.Spec.PullSecretRef; ref != nil {
		if err := c.deleteLabelled(tx, objects.Secrets, cd.Namespace, ref.Name, now); err != nil {
			return err
		}
	}
	if err := c.deleteImageSet(tx, imageSet, now); err != nil {
		return err
	}
	for _, kind := range objects.Kinds() {
		if !kind.Namespaced || kind == objects.Events {
			continue
		}
		used := false
		if err := objects.Names(tx, kind, cd.Namespace,
			func(_, _ string) error { used = true; return store.ErrStop }); err != nil || used {
			return err
		}
	}
	return c.deleteLabelled(tx, objects.Namespaces, "", cd.Namespace, now)
}

// deleteImageSet deletes a generated ClusterImageSet if no object refers to it.
func (c Projector) deleteImageSet(tx *store.Tx, name string, now time.Time) error {
	used := name == ""
	if err := c.Objects.Each(tx, objects.AgentClusterInstalls, "", func(u *unstructured.Unstructured) error {
		ref, _, err := unstructured.NestedString(u.Object, "spec", "imageSetRef", "name")
		used = used || ref == name
		return err
	}); err != nil || used {
		return err
	}
	return c.deleteLabelled(tx, objects.ClusterImageSets, "", name, now)
}

func (c Projector) deleteLabelled(tx *store.Tx, kind objects.Kind, namespace, name string, now time.Time) error {
	u := &unstructured.Unstructured{}
	if err := c.Objects.Get(tx, kind, namespace, name, u); err != nil {
		return objects.IgnoreNotFound(err)
	}
	if u.GetLabels()[labelGenerated] != "true" {
		return nil
	}
	return c.Objects.Delete(tx, kind, namespace, name, now)
}
