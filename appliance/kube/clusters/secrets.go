package clusters

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// Keys and kinds of the Secrets of a cluster.
const (
	secretKubeconfig     = "kubeconfig"
	secretUsername       = "username"
	secretPassword       = "password"
	secretTypeKubeconfig = "kubeconfig"
	secretTypePassword   = "kubeadmincreds"
)

func kubeconfigSecret(cd *hivev1.ClusterDeployment) string {
	if m := cd.Spec.ClusterMetadata; m != nil && m.AdminKubeconfigSecretRef.Name != "" {
		return m.AdminKubeconfigSecretRef.Name
	}
	return cd.Name + "-admin-kubeconfig"
}

func passwordSecret(cd *hivev1.ClusterDeployment) string {
	if m := cd.Spec.ClusterMetadata; m != nil && m.AdminPasswordSecretRef != nil &&
		m.AdminPasswordSecretRef.Name != "" {
		return m.AdminPasswordSecretRef.Name
	}
	return cd.Name + "-admin-password"
}

// writeSecrets writes the Secrets with a cluster's kubeconfig and password as soon as these exist.
// It returns the metadata that refer to the Secrets, or nil without Secrets. The first kubeconfig
// lacks the certificate of the ingress. The password is written at the end of the installation.
func (c Projector) writeSecrets(tx *store.Tx, rows view.Rows, s *snapshot,
	now time.Time) (*hivev1.ClusterMetadata, error) {
	status := *s.view.Status
	ended := status == models.ClusterStatusInstalled || status == models.ClusterStatusAddingHosts && s.view.Prepared
	if !s.view.Prepared || !ended && status != models.ClusterStatusInstalling &&
		status != models.ClusterStatusInstallingPendingUserAction && status != models.ClusterStatusFinalizing {
		return nil, nil
	}
	id := s.view.ID.String()
	file := "kubeconfig-noingress"
	if s.view.Complete {
		file = "kubeconfig"
	}
	kubeconfig, err := rows.ClusterFile(id, file)
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	metadata := &hivev1.ClusterMetadata{
		ClusterID: s.view.OpenshiftClusterID.String(), InfraID: id,
		AdminKubeconfigSecretRef: corev1.LocalObjectReference{Name: kubeconfigSecret(s.cd)},
	}
	written, err := c.writeSecret(tx, s.cd, metadata.AdminKubeconfigSecretRef.Name, secretTypeKubeconfig,
		map[string][]byte{secretKubeconfig: kubeconfig}, now)
	if err != nil || !written {
		return nil, err
	}
	if !ended {
		return metadata, nil
	}
	password, err := rows.ClusterFile(id, "kubeadmin-password")
	if err != nil {
		return nil, err
	}
	written, err = c.writeSecret(tx, s.cd, passwordSecret(s.cd), secretTypePassword,
		map[string][]byte{secretUsername: []byte("kubeadmin"), secretPassword: bytes.TrimSpace(password)}, now)
	if written {
		metadata.AdminPasswordSecretRef = &corev1.LocalObjectReference{Name: passwordSecret(s.cd)}
	}
	return metadata, err
}

// writeSecret writes a Secret that a ClusterDeployment owns. Users choose its name, and those who
// may not write Secrets may write ClusterDeployments. So it reports false, and writes an Event, if
// the Secret exists and is not that of the ClusterDeployment.
func (c Projector) writeSecret(tx *store.Tx, cd *hivev1.ClusterDeployment, name, kind string, data map[string][]byte,
	now time.Time) (written bool, err error) {
	blocks := true
	owner := metav1.OwnerReference{
		APIVersion: objects.ClusterDeployments.APIVersion(), Kind: objects.ClusterDeployments.Kind, Name: cd.Name,
		UID: cd.UID, BlockOwnerDeletion: &blocks,
	}
	labels := map[string]string{labelDeploymentName: cd.Name, labelSecretType: kind, objects.LabelWatch: "true",
		labelBackup: "true"}
	held, err := c.Objects.Metadata(tx, objects.Secrets, cd.Namespace, name)
	if errors.Is(err, store.ErrNotFound) {
		return true, c.Objects.Create(tx, objects.Secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: cd.Namespace, Name: name, Labels: labels,
				OwnerReferences: []metav1.OwnerReference{owner}},
			Type: corev1.SecretTypeOpaque, Data: data,
		}, now)
	}
	if err != nil {
		return false, err
	}
	if !ownsSecret(cd, held, kind) {
		return false, c.Objects.EventOnce(tx, objects.ClusterDeployments, cd.Namespace, cd.Name, objects.EventContent{
			Component: objects.AgentController, Warning: true, Reason: "SecretOfAnother",
			Message: fmt.Sprintf("The Secret %s for the cluster's %s is not written, because it exists already and "+
				"does not belong to this ClusterDeployment. Delete it, or name another one in "+
				"spec.clusterMetadata.", name, kind),
		}, now)
	}
	return true, c.Objects.Update(tx, objects.Secrets, cd.Namespace, name, func(u *unstructured.Unstructured) error {
		secret := &corev1.Secret{}
		if err := objects.Into(u, secret); err != nil {
			return err
		}
		secret.Data = data
		is, err := objects.From(objects.Secrets, secret)
		if err != nil {
			return err
		}
		u.Object["data"] = is.Object["data"]
		all := u.GetLabels()
		for label, value := range labels {
			all = withLabel(all, label, value)
		}
		u.SetLabels(all)
		return nil
	})
}

// ownsSecret reports whether the appliance made a Secret for a ClusterDeployment. After a restore
// from a backup, only the labels tell.
func ownsSecret(cd *hivev1.ClusterDeployment, secret *unstructured.Unstructured, kind string) bool {
	labels := secret.GetLabels()
	return labels[labelDeploymentName] == cd.Name && labels[labelSecretType] == kind ||
		slices.ContainsFunc(secret.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == cd.UID })
}

// deleteSecrets deletes the Secrets of a ClusterDeployment itself, because the garbage collector
// may not be running. It leaves out damaged Secrets, whose owner is unknown.
func (c Projector) deleteSecrets(tx *store.Tx, cd *hivev1.ClusterDeployment, now time.Time) error {
	for _, name := range []string{kubeconfigSecret(cd), passwordSecret(cd)} {
		secret := &unstructured.Unstructured{}
		if err := c.Objects.Get(tx, objects.Secrets, cd.Namespace, name, secret); err != nil {
			if err := store.SkipDamaged(objects.IgnoreNotFound(err)); err != nil {
				return err
			}
			continue
		}
		for _, owner := range secret.GetOwnerReferences() {
			if owner.UID != cd.UID {
				continue
			}
			if err := c.Objects.Delete(tx, objects.Secrets, cd.Namespace, name, now); err != nil {
				return err
			}
		}
	}
	return nil
}
