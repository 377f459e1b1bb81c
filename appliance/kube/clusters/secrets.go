package clusters

import (
	"bytes"
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
	if err := c.writeSecret(tx, s.cd, metadata.AdminKubeconfigSecretRef.Name, secretTypeKubeconfig,
		map[string][]byte{secretKubeconfig: kubeconfig}, now); err != nil {
		return nil, err
	}
	if !ended {
		return metadata, nil
	}
	password, err := rows.ClusterFile(id, "kubeadmin-password")
	if err != nil {
		return nil, err
	}
	metadata.AdminPasswordSecretRef = &corev1.LocalObjectReference{Name: passwordSecret(s.cd)}
	return metadata, c.writeSecret(tx, s.cd, metadata.AdminPasswordSecretRef.Name, secretTypePassword,
		map[string][]byte{secretUsername: []byte("kubeadmin"), secretPassword: bytes.TrimSpace(password)}, now)
}

// writeSecret writes a Secret that a ClusterDeployment owns.
func (c Projector) writeSecret(tx *store.Tx, cd *hivev1.ClusterDeployment, name, kind string, data map[string][]byte,
	now time.Time) error {
	blocks := true
	owner := metav1.OwnerReference{
		APIVersion: objects.ClusterDeployments.APIVersion(), Kind: objects.ClusterDeployments.Kind, Name: cd.Name,
		UID: cd.UID, BlockOwnerDeletion: &blocks,
	}
	labels := map[string]string{labelDeploymentName: cd.Name, labelSecretType: kind, labelWatch: "true",
		labelBackup: "true"}
	if !c.Objects.Exists(tx, objects.Secrets, cd.Namespace, name) {
		return c.Objects.Create(tx, objects.Secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: cd.Namespace, Name: name, Labels: labels,
				OwnerReferences: []metav1.OwnerReference{owner}},
			Type: corev1.SecretTypeOpaque, Data: data,
		}, now)
	}
	return c.Objects.Update(tx, objects.Secrets, cd.Namespace, name, func(u *unstructured.Unstructured) error {
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

// deleteSecrets deletes the Secrets of a ClusterDeployment itself, because the garbage collector
// may not be running.
func (c Projector) deleteSecrets(tx *store.Tx, cd *hivev1.ClusterDeployment, now time.Time) error {
	for _, name := range []string{kubeconfigSecret(cd), passwordSecret(cd)} {
		secret := &unstructured.Unstructured{}
		if err := c.Objects.Get(tx, objects.Secrets, cd.Namespace, name, secret); err != nil {
			if err := objects.IgnoreNotFound(err); err != nil {
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
