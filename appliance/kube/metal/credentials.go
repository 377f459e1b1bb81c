package metal

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/objects/agentinstall"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// credentialsFault returns the error in the credentials of a BMC; "" if they are complete.
func credentialsFault(host *metal3.BareMetalHost, secret *corev1.Secret) string {
	name := host.Spec.BMC.CredentialsName
	switch {
	case host.Spec.BMC.Address == "":
		return "The host has credentials but no address of its BMC; set spec.bmc.address."
	case name == "":
		return "The host names no credentials for its BMC; set spec.bmc.credentialsName to a Secret with the keys " +
			"username and password."
	case secret == nil:
		return fmt.Sprintf("The BMC's Secret %s/%s does not exist; apply it, with the keys username and password.",
			host.Namespace, name)
	case len(secret.Data["username"]) == 0:
		return fmt.Sprintf("The BMC's Secret %s/%s has no key username.", host.Namespace, name)
	case len(secret.Data["password"]) == 0:
		return fmt.Sprintf("The BMC's Secret %s/%s has no key password.", host.Namespace, name)
	}
	return ""
}

// claimSecret sets the label, the owner and the finalizer of a BMC's Secret, as metal3 does.
func (c *Controllers) claimSecret(tx *store.Tx, host *metal3.BareMetalHost) error {
	return objects.IgnoreNotFound(c.Objects.Update(tx, objects.Secrets, host.Namespace, host.Spec.BMC.CredentialsName,
		func(u *unstructured.Unstructured) error {
			if u.GetDeletionTimestamp() != nil {
				return nil
			}
			setLabel(u, environmentLabel, environmentMetal)
			setLabel(u, backupLabel, "true")
			objects.AddFinalizer(u, secretFinalizer)
			owners := u.GetOwnerReferences()
			if !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == host.UID }) {
				u.SetOwnerReferences(append(slices.Clone(owners), ownedBy(host, false)))
			}
			return nil
		}))
}

// releaseSecret removes the finalizer of a BMC's Secret unless another host than the given one uses
// the Secret. A damaged Secret keeps its finalizer, so that it does not block the host. If it is
// deleted after a repair, [blockedDeletions] removes the finalizer.
func (c *Controllers) releaseSecret(tx *store.Tx, host ref, name string) error {
	if name == "" {
		return nil
	}
	if used, err := c.hasOtherUser(tx, host, name); err != nil || used {
		return err
	}
	return store.SkipDamaged(objects.IgnoreNotFound(c.Objects.Update(tx, objects.Secrets, host.namespace, name,
		func(u *unstructured.Unstructured) error {
			objects.RemoveFinalizer(u, secretFinalizer)
			return nil
		})))
}

// hasOtherUser reports whether another host than the given one uses a Secret. It does not read the
// hosts that named another Secret in their last pass. The Secret of a damaged host is unknown, and
// the host still needs it after a repair.
func (c *Controllers) hasOtherUser(tx *store.Tx, host ref, secret string) (used bool, err error) {
	err = objects.Names(tx, objects.BareMetalHosts, host.namespace, func(namespace, name string) error {
		if name == host.name || c.index.namesOtherSecret(ref{namespace, name}, secret) {
			return nil
		}
		other, err := objects.Find[metal3.BareMetalHost](c.Objects, tx, objects.BareMetalHosts, namespace, name)
		switch {
		case store.IsDamaged(err):
			used = true
		case err != nil:
			return err
		default:
			used = other.Spec.BMC.CredentialsName == secret &&
				(other.DeletionTimestamp == nil || hasFinalizer(other, hostFinalizer))
		}
		if used {
			return store.ErrStop
		}
		return nil
	})
	return used, err
}

// releaseFormerSecret releases the Secret that a host named before its credentialsName was changed.
// The host owns it no longer, so that the Secret is not deleted with the host.
func (c *Controllers) releaseFormerSecret(tx *store.Tx, host *metal3.BareMetalHost) error {
	former := c.index.secretOf(ref{host.Namespace, host.Name})
	if former == "" || former == host.Spec.BMC.CredentialsName {
		return nil
	}
	if err := store.SkipDamaged(objects.IgnoreNotFound(c.Objects.Update(tx, objects.Secrets, host.Namespace, former,
		func(u *unstructured.Unstructured) error {
			left := slices.DeleteFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
				return o.UID == host.UID
			})
			if len(left) == 0 {
				left = nil
			}
			u.SetOwnerReferences(left)
			return nil
		}))); err != nil {
		return err
	}
	return c.releaseSecret(tx, ref{host.Namespace, host.Name}, former)
}

func ownedBy(host *metal3.BareMetalHost, controller bool) metav1.OwnerReference {
	reference := metav1.OwnerReference{
		APIVersion: objects.BareMetalHosts.APIVersion(), Kind: objects.BareMetalHosts.Kind, Name: host.Name,
		UID: host.UID,
	}
	if controller {
		reference.Controller = &controller
	}
	return reference
}

func setLabel(u *unstructured.Unstructured, key, value string) {
	labels := maps.Clone(u.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	u.SetLabels(labels)
}

// fencingSecret returns the name of the Secret with which other nodes can power off an Agent's
// machine, if the annotations of the host request one.
func fencingSecret(host *metal3.BareMetalHost, agent *agentinstall.Agent) (name string, ok bool) {
	if name, ok := host.Annotations[fencingNameAnnotation]; ok {
		return name, true
	}
	if _, ok := host.Annotations[fencingCreateAnnotation]; ok {
		return agent.Name + fencingSuffix, true
	}
	return "", false
}

// writeFencingSecret writes the fencing Secret from the BMC's address and credentials, if the
// annotation of the host requests it. It leaves a Secret of this name alone that was not made for
// the host, and reports it as an Event of the host.
func (c *Controllers) writeFencingSecret(tx *store.Tx, s *pass) error {
	host, agent, secret := s.host, s.agent, s.secret
	if _, ok := host.Annotations[fencingCreateAnnotation]; !ok || secret == nil {
		return nil
	}
	if _, ok := host.Annotations[fencingNameAnnotation]; ok {
		return nil
	}
	verification := "Enabled"
	if host.Spec.BMC.DisableCertificateVerification {
		verification = "Disabled"
	}
	wanted, err := objects.From(objects.Secrets, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: agent.Namespace, Name: agent.Name + fencingSuffix,
			Labels:          map[string]string{objects.LabelWatch: "true", backupLabel: "true"},
			OwnerReferences: []metav1.OwnerReference{ownedBy(host, false)},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			"address": []byte(host.Spec.BMC.Address), "certificateVerification": []byte(verification),
			"username": secret.Data["username"], "password": secret.Data["password"],
		},
	})
	if err != nil {
		return err
	}
	err = c.Objects.Update(tx, objects.Secrets, wanted.GetNamespace(), wanted.GetName(),
		func(u *unstructured.Unstructured) error {
			if !slices.ContainsFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
				return o.Kind == objects.BareMetalHosts.Kind && o.Name == host.Name
			}) {
				s.event(agentComponent, true, "FencingSecretNotWritten", fmt.Sprintf("The Secret %s/%s exists and "+
					"does not belong to this host; delete it.", u.GetNamespace(), u.GetName()))
				return nil
			}
			u.Object["data"] = wanted.Object["data"]
			setLabel(u, objects.LabelWatch, "true")
			setLabel(u, backupLabel, "true")
			return nil
		})
	if errors.Is(err, store.ErrNotFound) {
		return c.Objects.Create(tx, objects.Secrets, wanted, s.now)
	}
	return err
}
