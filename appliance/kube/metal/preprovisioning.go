package metal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/openshift/assisted-service/models"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/architecture"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// settingsAnnotation names, on the AgentServiceConfig, the ConfigMap with environment variables of
// the Assisted Installer's service.
const settingsAnnotation = "unsupported.agent-install.openshift.io/assisted-service-configmap"

// flow reads which flow provides the images of hosts. The default flow sets spec.image. The
// converged flow, which a hub uses with Ironic, requires that a user enables it
// (ALLOW_CONVERGED_FLOW: "true").
func (c *Controllers) flow(tx *store.Tx) (flow, error) {
	f := flow{pauseProvisioned: true}
	service, err := objects.Find[unstructured.Unstructured](c.Objects, tx, objects.AgentServiceConfigs, "", "agent")
	if err != nil || service == nil {
		return f, err
	}
	name := service.GetAnnotations()[settingsAnnotation]
	if name == "" {
		return f, nil
	}
	err = objects.Names(tx, objects.ConfigMaps, "", func(namespace, own string) error {
		if own != name {
			return nil
		}
		settings, err := objects.Find[corev1.ConfigMap](c.Objects, tx, objects.ConfigMaps, namespace, own)
		if err != nil || settings == nil {
			return err
		}
		f.converged = strings.EqualFold(settings.Data["ALLOW_CONVERGED_FLOW"], "true")
		f.pauseProvisioned = !strings.EqualFold(settings.Data["PAUSE_PROVISIONED_BMHS"], "false")
		return store.ErrStop
	})
	return f, err
}

// createImage creates the PreprovisioningImage of a host in the converged flow, as the bare-metal
// operator does.
func (c *Controllers) createImage(tx *store.Tx, s *pass) error {
	if s.image != nil {
		return nil
	}
	host := s.host
	architecture := host.Spec.Architecture
	if architecture == "" {
		architecture = s.infraEnv.Spec.CPUArchitecture
	}
	if architecture == "" {
		architecture = models.ClusterCPUArchitectureX8664
	}
	return c.Objects.Create(tx, objects.PreprovisioningImages, &metal3.PreprovisioningImage{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: host.Namespace, Name: host.Name,
			Labels:          map[string]string{infraEnvLabel: s.infraEnv.Name},
			OwnerReferences: []metav1.OwnerReference{ownedBy(host, true)},
		},
		Spec: metal3.PreprovisioningImageSpec{
			Architecture: architecture, AcceptFormats: []metal3.ImageFormat{metal3.ImageFormatISO},
		},
	}, s.now)
}

// images reconciles PreprovisioningImages: it writes the image of the InfraEnv into their status.
// The image contains no Ironic agent, because the agent would wait for a missing Ironic service,
// and users could no longer boot the image manually.
type images struct{ *Controllers }

// Kind implements controller.Reconciler.
func (i images) Kind() objects.Kind { return objects.PreprovisioningImages }

// Watches implements controller.Reconciler.
func (i images) Watches() []controller.Watch {
	return []controller.Watch{
		{Kind: objects.InfraEnvs, Map: i.imagesOfInfraEnv},
		{Kind: objects.BareMetalHosts, Map: i.imageOfHost},
	}
}

// Reconcile implements controller.Reconciler.
func (i images) Reconcile(ctx context.Context, namespace, name string) (again time.Duration, err error) {
	err = i.DB.Update(ctx, func(tx *store.Tx) error {
		again = 0
		if err := i.index.load(tx); err != nil {
			return err
		}
		image, err := objects.Find[metal3.PreprovisioningImage](i.Objects, tx, objects.PreprovisioningImages,
			namespace, name)
		if err != nil {
			return err
		}
		i.index.setImage(ref{namespace, name}, image)
		if image == nil {
			return nil
		}
		host, err := objects.Find[metal3.BareMetalHost](i.Objects, tx, objects.BareMetalHosts, namespace, name)
		if err != nil {
			return err
		}
		if image.DeletionTimestamp != nil {
			return i.release(tx, image, host)
		}
		var infraEnv *agentinstall.InfraEnv
		if wanted := image.Labels[infraEnvLabel]; wanted != "" {
			if infraEnv, err = objects.Find[agentinstall.InfraEnv](i.Objects, tx, objects.InfraEnvs, namespace,
				wanted); err != nil {
				return err
			}
		}
		had := image.DeepCopy()
		again = describeImage(image, infraEnv, i.now(), i.ImageSettles)
		return errors.Join(i.write(tx, had, image, infraEnv), i.reboot(tx, had, image, host))
	})
	return again, err
}

// release removes the finalizers of an image that is being deleted, once its host no longer needs
// the image.
func (c *Controllers) release(tx *store.Tx, image *metal3.PreprovisioningImage, host *metal3.BareMetalHost) error {
	if host != nil && host.Status.Provisioning.State == metal3.StateDeprovisioning {
		return nil // the next change of the host queues the image
	}
	return c.Objects.Update(tx, objects.PreprovisioningImages, image.Namespace, image.Name,
		func(u *unstructured.Unstructured) error {
			objects.RemoveFinalizer(u, agentImageFinalizer)
			objects.RemoveFinalizer(u, imageFinalizer)
			return nil
		})
}

func (c *Controllers) write(tx *store.Tx, had, image *metal3.PreprovisioningImage,
	infraEnv *agentinstall.InfraEnv) error {
	err := c.Objects.Update(tx, objects.PreprovisioningImages, image.Namespace, image.Name,
		func(u *unstructured.Unstructured) error {
			objects.AddFinalizer(u, agentImageFinalizer)
			setLabel(u, noBackupLabel, "true")
			status, err := general(image.Status)
			u.Object["status"] = status
			return err
		})
	if err != nil || image.Status.ImageUrl == "" || had.Status.ImageUrl != "" {
		return err
	}
	message := "The image contains no Ironic agent: the appliance boots the machine itself, and the installation's " +
		"agent starts automatically."
	if ironic := infraEnv.Annotations[ironicImageAnnotation]; ironic != "" {
		message += " The annotation " + ironicImageAnnotation + " (" + ironic + ") has no effect."
	}
	u := &unstructured.Unstructured{}
	if err := c.Objects.Get(tx, objects.PreprovisioningImages, image.Namespace, image.Name, u); err != nil {
		return err
	}
	return c.Objects.Event(tx, u, objects.EventContent{Component: agentComponent, Reason: "IronicAgentLeftOut",
		Message: message}, c.now())
}

// reboot reboots a host whose image was replaced before the host was provisioned.
func (c *Controllers) reboot(tx *store.Tx, had, image *metal3.PreprovisioningImage, host *metal3.BareMetalHost) error {
	if host == nil || had.Status.ImageUrl == "" || image.Status.ImageUrl == "" ||
		had.Status.ImageUrl == image.Status.ImageUrl ||
		host.Status.Provisioning.State == metal3.StateProvisioned {
		return nil
	}
	return c.Objects.Update(tx, objects.BareMetalHosts, host.Namespace, host.Name,
		func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, `{"force": true}`, "metadata", "annotations", rebootAnnotation)
		})
}

// describeImage sets the status of an image from its InfraEnv. If the InfraEnv's image is too new,
// it returns the remaining time to wait.
func describeImage(image *metal3.PreprovisioningImage, infraEnv *agentinstall.InfraEnv, now time.Time,
	settles time.Duration) time.Duration {
	formats := image.Spec.AcceptFormats
	iso, initrd := slices.Contains(formats, metal3.ImageFormatISO), slices.Contains(formats, metal3.ImageFormatInitRD)
	refuse := func(failed bool, reason, message string) time.Duration {
		image.Status = metal3.PreprovisioningImageStatus{NetworkData: image.Status.NetworkData,
			Conditions: image.Status.Conditions}
		setImageCondition(image, metal3.ConditionImageReady, false, reason, message, now)
		setImageCondition(image, metal3.ConditionImageError, failed, reason, message, now)
		return 0
	}
	switch {
	case !iso && !initrd:
		return refuse(true, "UnsupportedImageFormat", "Unsupported image format")
	case infraEnv == nil || infraEnv.DeletionTimestamp != nil:
		return refuse(false, "InfraEnvNotAvailable",
			fmt.Sprintf("InfraEnv %s/%s is not found or is being deleted", image.Labels[infraEnvLabel],
				image.Namespace))
	}
	own, its := architectureOf(image.Spec.Architecture), architectureOf(infraEnv.Spec.CPUArchitecture)
	if own != its {
		return refuse(true, "InfraEnvArchMismatch",
			fmt.Sprintf("PreprovisioningImage CPU architecture (%s) does not match InfraEnv CPU architecture (%s)",
				own, its))
	}
	created := infraEnv.Status.CreatedTime
	if created == nil {
		return refuse(false, "WaitingForInfraEnvImageToBeCreated", "Waiting for InfraEnv image to be created")
	}
	if wait := created.Add(settles).Sub(now); wait > 0 {
		refuse(false, "WaitingForInfraEnvImageToCoolDown", "Waiting for InfraEnv image to cool down")
		return wait
	}
	status, artifacts := &image.Status, infraEnv.Status.BootArtifacts
	status.Architecture = its.API()
	if iso {
		status.Format, status.ImageUrl, status.KernelUrl, status.ExtraKernelParams = metal3.ImageFormatISO,
			infraEnv.Status.ISODownloadURL, "", ""
	} else {
		status.Format, status.ImageUrl, status.KernelUrl = metal3.ImageFormatInitRD, artifacts.InitrdURL,
			artifacts.KernelURL
		parameters := []string{"coreos.live.rootfs_url=" + artifacts.RootfsURL + " rd.bootif=0"}
		for _, argument := range infraEnv.Spec.KernelArguments {
			if argument.Operation == models.KernelArgumentOperationAppend {
				parameters = append(parameters, argument.Value)
			}
		}
		status.ExtraKernelParams = strings.Join(parameters, " ")
	}
	for _, condition := range infraEnv.Status.Conditions {
		if condition.Type == imageCreatedCondition {
			setImageCondition(image, metal3.ConditionImageReady, condition.Status == corev1.ConditionTrue,
				condition.Reason, condition.Message, now)
			setImageCondition(image, metal3.ConditionImageError, condition.Reason == imageCreationError,
				condition.Reason, condition.Message, now)
		}
	}
	return 0
}

func setImageCondition(image *metal3.PreprovisioningImage, kind metal3.ImageStatusConditionType, is bool, reason,
	message string, now time.Time) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&image.Status.Conditions, metav1.Condition{
		Type: string(kind), Status: status, Reason: reason, Message: message,
		ObservedGeneration: image.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
}

// architectureOf parses the name of an architecture. The default is x86_64.
func architectureOf(name string) architecture.Architecture {
	return cmp.Or(architecture.Of(name), architecture.X86)
}
