package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/mirrorconfig"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/mirror"
	"landfall/store"
)

const (
	serviceConfigName        = "agent" // name of the only AgentServiceConfig that is applied
	serviceConfigFinalizer   = "agentserviceconfig.agent-install.openshift.io/ai-deprovision"
	annotationServiceSetting = "unsupported.agent-install.openshift.io/assisted-service-configmap"
	certificatesOfOSImages   = "AgentServiceConfig OSImageCACertRef"
	conditionReconciled      = "ReconcileCompleted"
	conditionDeployments     = "DeploymentsHealthy"
	imagesInterval           = time.Minute // interval of checks of the downloads
)

// operatorNamespaces are the namespaces of a hub's operator. An AgentServiceConfig refers to
// objects by name, without a namespace. These objects are first searched in operatorNamespaces. An
// object in another namespace is used only if its name is unique.
var operatorNamespaces = []string{"multicluster-engine", "assisted-installer", "open-cluster-management"}

// WantedImage is a base image that an AgentServiceConfig lists.
type WantedImage struct {
	OpenshiftVersion, CPUArchitecture, URL string
	// headers and query parameters that the image's server requires; nil for none
	Headers, Query map[string]string
}

// ImageFetcher downloads base images.
type ImageFetcher interface {
	// FetchImages starts the download of missing images. waiting lists the images that are not
	// downloaded yet. failure is a sentence about an image that can't be downloaded.
	FetchImages(ctx context.Context, wanted []WantedImage) (waiting []string, failure string, err error)
}

// serviceConfigs reconciles the site's AgentServiceConfig.
type serviceConfigs struct{ *Controllers }

// Kind implements controller.Reconciler.
func (serviceConfigs) Kind() objects.Kind { return objects.AgentServiceConfigs }

// Watches implements controller.Reconciler.
func (r serviceConfigs) Watches() []controller.Watch {
	return []controller.Watch{
		{Kind: objects.ConfigMaps, Map: r.serviceConfigsReferringTo},
		{Kind: objects.Secrets, Map: r.serviceConfigsReferringTo},
	}
}

// configError is an error in an AgentServiceConfig, with the reason for its condition.
type configError struct{ reason, message string }

// Reconcile applies the AgentServiceConfig to the site.
func (r serviceConfigs) Reconcile(ctx context.Context, _, name string) (time.Duration, error) {
	var config agentinstall.AgentServiceConfig
	var mirrors *mirrorConfig
	var certificates *corev1.ConfigMap
	var wants WantedImage
	var failure *configError
	err := r.DB.View(func(tx *store.Tx) error {
		if err := r.Objects.Get(tx, objects.AgentServiceConfigs, "", name, &config); err != nil {
			return err
		}
		var err error
		if mirrors, certificates, failure, err = r.readReferences(tx, &config); err != nil {
			return err
		}
		var refused *configError
		if wants, refused, err = r.additions(tx, &config); failure == nil {
			failure = refused
		}
		return err
	})
	missing := errors.Is(err, store.ErrNotFound)
	switch {
	case err != nil && !missing:
		return 0, err
	case name != serviceConfigName && !missing:
		return 0, r.reportName(ctx, name)
	case name != serviceConfigName:
		return 0, nil
	case missing || config.DeletionTimestamp != nil:
		return 0, r.undo(ctx)
	}
	r.Loop.RepeatAtStart(key{Kind: objects.AgentServiceConfigs, Name: name}) // the library forgets the headers
	if failure == nil {
		if failure, err = r.apply(ctx, mirrors, certificates); err != nil {
			return 0, err
		}
	}
	waiting, broken, err := r.fetch(ctx, &config, wants)
	if err != nil {
		return 0, err
	}
	if err := r.report(ctx, failure, waiting, broken); err != nil || len(waiting)+len(broken) == 0 {
		return 0, err
	}
	return imagesInterval, nil
}

// readReferences reads the objects that an AgentServiceConfig refers to.
func (r serviceConfigs) readReferences(tx *store.Tx, config *agentinstall.AgentServiceConfig) (
	mirrors *mirrorConfig, certificates *corev1.ConfigMap, failure *configError, err error) {
	spec := &config.Spec
	if ref := spec.MirrorRegistryRef; ref != nil {
		namespace, err := r.namespaceOf(tx, objects.ConfigMaps, ref.Name)
		if err == nil {
			mirrors, err = r.readMirrorConfig(tx, &agentinstall.MirrorRegistryReference{Namespace: namespace,
				Name: ref.Name})
		}
		if err != nil {
			return nil, nil, &configError{"ConfigFailure", err.Error()}, ignoreInvalid(err)
		}
	}
	if ref := spec.OSImageCACertRef; ref != nil {
		namespace, err := r.namespaceOf(tx, objects.ConfigMaps, ref.Name)
		if err == nil {
			certificates = &corev1.ConfigMap{}
			err = r.Objects.Get(tx, objects.ConfigMaps, namespace, ref.Name, certificates)
		}
		if err == nil && len(bundleOf(certificates)) == 0 {
			err = invalid("ConfigMap %s/%s has no certificates", namespace, ref.Name)
		}
		if err != nil {
			return nil, nil, &configError{"OSImageCACertRefFailure", err.Error()}, ignoreInvalid(err)
		}
	}
	return mirrors, certificates, nil, nil
}

// Keys of the Secret with additional parameters for the servers of OS images. Each value is a JSON
// object with string values.
const (
	keyImageHeaders = "headers"
	keyImageQuery   = "query_params"
)

// additions reads the headers and query parameters that the servers of the OS images require.
func (r serviceConfigs) additions(tx *store.Tx, config *agentinstall.AgentServiceConfig) (
	wants WantedImage, failure *configError, err error) {
	ref := config.Spec.OSImageAdditionalParamsRef
	if ref == nil {
		return wants, nil, nil
	}
	namespace, err := r.namespaceOf(tx, objects.Secrets, ref.Name)
	var data map[string][]byte
	if err == nil {
		data, err = r.secretData(tx, namespace, ref.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		var values map[string]string
		if jsonErr := json.Unmarshal(data[key], &values); jsonErr != nil && err == nil {
			err = invalid("the key %s of Secret %s/%s is not a JSON object of strings, such as {\"name\": \"value\"}",
				key, namespace, ref.Name)
		}
		switch key {
		case keyImageHeaders:
			wants.Headers = values
		case keyImageQuery:
			wants.Query = values
		default:
			err = invalid("secret referenced by OSImageAdditionalParamsRef is expected to contain either " +
				"`headers` and/or `query_params` and no other entries")
		}
	}
	if err != nil {
		return WantedImage{}, &configError{"ReasonOSImageAdditionalParamsRefFailure", err.Error()},
			ignoreInvalid(err)
	}
	return wants, nil, nil
}

func ignoreInvalid(err error) error {
	if isInvalid(err) {
		return nil
	}
	return err
}

// namespaceOf finds the namespace of an object that an AgentServiceConfig refers to by name only.
func (h *Controllers) namespaceOf(tx *store.Tx, kind objects.Kind, name string) (string, error) {
	for _, namespace := range operatorNamespaces {
		if h.Objects.Exists(tx, kind, namespace, name) {
			return namespace, nil
		}
	}
	var found []string
	if err := objects.Names(tx, kind, "", func(namespace, other string) error {
		if other == name {
			found = append(found, namespace)
		}
		return nil
	}); err != nil {
		return "", err
	}
	switch len(found) {
	case 0:
		return "", invalid("there is no %s %s in any namespace; it is read when it is created",
			kind.Kind, name)
	case 1:
		return found[0], nil
	}
	return "", invalid("the %s %s exists in several namespaces (%s); keep only the one in %s",
		kind.Kind, name, strings.Join(found, ", "), operatorNamespaces[0])
}

// bundleOf returns all certificates of a ConfigMap, ordered by key.
func bundleOf(config *corev1.ConfigMap) []byte {
	var bundle []byte
	for _, name := range slices.Sorted(maps.Keys(config.Data)) {
		if text := strings.TrimSpace(config.Data[name]); text != "" {
			bundle = append(bundle, text+"\n"...)
		}
	}
	return bundle
}

// apply sets the site's mirror rules and certificates to those of the AgentServiceConfig.
func (r serviceConfigs) apply(ctx context.Context, mirrors *mirrorConfig,
	certificates *corev1.ConfigMap) (*configError, error) {
	if r.Mirrors == nil {
		return nil, nil
	}
	var rules, bundle *mirror.Import
	if mirrors != nil {
		rules = mirrors.rules
	}
	if certificates != nil {
		bundle = &mirror.Import{Files: []mirror.ImportedFile{mirrorconfig.CABundleFile(bundleOf(certificates))}}
	}
	for _, set := range []struct {
		name, reason string
		rules        *mirror.Import
	}{{mirrorOfSite, "ConfigFailure", rules}, {certificatesOfOSImages, "OSImageCACertRefFailure", bundle}} {
		if err := r.Mirrors.SetMirror(ctx, mirror.Level{}, set.name, set.rules); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			return &configError{set.reason, err.Error()}, nil
		}
	}
	return nil, nil
}

func (r serviceConfigs) fetch(ctx context.Context, config *agentinstall.AgentServiceConfig,
	wants WantedImage) (waiting []string, broken string, err error) {
	if r.Images == nil || len(config.Spec.OSImages) == 0 {
		return nil, "", nil
	}
	var wanted []WantedImage
	for _, image := range config.Spec.OSImages {
		wants.OpenshiftVersion, wants.CPUArchitecture, wants.URL = image.OpenshiftVersion, image.CPUArchitecture,
			image.URL
		wanted = append(wanted, wants)
	}
	return r.Images.FetchImages(ctx, wanted)
}

// report writes the conditions of the AgentServiceConfig.
func (r serviceConfigs) report(ctx context.Context, failure *configError, waiting []string, broken string) error {
	reconciled := agentinstall.Condition{Type: conditionReconciled, Status: corev1.ConditionTrue,
		Reason: "ReconcileSucceeded", Message: "AgentServiceConfig reconcile completed without error."}
	if failure != nil {
		reconciled.Status = corev1.ConditionFalse
		reconciled.Reason, reconciled.Message = failure.reason, failure.message
	}
	healthy := agentinstall.Condition{Type: conditionDeployments, Status: corev1.ConditionTrue,
		Reason: "DeploymentSucceeded", Message: "All the deployments managed by Infrastructure-operator are healthy."}
	switch {
	case broken != "":
		healthy.Status, healthy.Reason, healthy.Message = corev1.ConditionFalse, "DeploymentFailure", broken
	case len(waiting) > 0:
		healthy.Status, healthy.Reason, healthy.Message = corev1.ConditionFalse, "DeploymentFailure",
			"OS images are not downloaded yet: "+strings.Join(waiting, "; ")
	}
	err := r.DB.Update(ctx, func(tx *store.Tx) error {
		return r.Objects.Update(tx, objects.AgentServiceConfigs, "", serviceConfigName,
			func(u *unstructured.Unstructured) error {
				var config agentinstall.AgentServiceConfig
				if err := objects.Into(u, &config); err != nil {
					return err
				}
				objects.AddFinalizer(u, serviceConfigFinalizer)
				for _, c := range []agentinstall.Condition{reconciled, healthy} {
					config.Status.Conditions = setAgentCondition(config.Status.Conditions, r.Clock.Now(), c)
				}
				return objects.SetStatus(u, &config.Status)
			})
	})
	return objects.IgnoreNotFound(err)
}

// undo removes the mirror rules and certificates of an AgentServiceConfig. Downloaded images stay.
func (r serviceConfigs) undo(ctx context.Context) error {
	if _, err := r.apply(ctx, nil, nil); err != nil {
		return err
	}
	return r.DB.Update(ctx, func(tx *store.Tx) error {
		err := r.Objects.Update(tx, objects.AgentServiceConfigs, "", serviceConfigName,
			func(u *unstructured.Unstructured) error {
				if u.GetDeletionTimestamp() != nil {
					objects.RemoveFinalizer(u, serviceConfigFinalizer)
				}
				return nil
			})
		return objects.IgnoreNotFound(err)
	})
}

// reportName writes an Event about an AgentServiceConfig that has no effect because of its name.
func (r serviceConfigs) reportName(ctx context.Context, name string) error {
	return r.DB.Update(ctx, func(tx *store.Tx) error {
		var u unstructured.Unstructured
		if err := r.Objects.Get(tx, objects.AgentServiceConfigs, "", name, &u); err != nil {
			return err
		}
		return r.Objects.Event(tx, &u, objects.EventContent{
			Component: objects.AgentController, Warning: true, Reason: "Invalid name (" + name + ")",
			Message: fmt.Sprintf("Only the AgentServiceConfig with the name %s is applied; this one has no effect.",
				serviceConfigName),
		}, r.Clock.Now().UTC())
	})
}

// serviceSettings returns the environment variables of the Assisted Installer's service that the
// AgentServiceConfig overrides.
func (h *Controllers) serviceSettings(tx *store.Tx) (map[string]string, error) {
	config, err := h.serviceConfig(tx)
	if err != nil || config == nil || config.Annotations[annotationServiceSetting] == "" {
		return nil, err
	}
	name := config.Annotations[annotationServiceSetting]
	namespace, err := h.namespaceOf(tx, objects.ConfigMaps, name)
	if err != nil {
		return nil, ignoreInvalid(err)
	}
	var settings corev1.ConfigMap
	err = h.Objects.Get(tx, objects.ConfigMaps, namespace, name, &settings)
	return settings.Data, err
}

// decidesSettings reports whether an AgentServiceConfig gets a setting of the whole site from a
// ConfigMap, or would if the ConfigMap existed (see namespaceOf).
func (h *Controllers) decidesSettings(tx *store.Tx, namespace, name string) (bool, error) {
	config, err := h.serviceConfig(tx)
	if err != nil || !slices.Contains(settingsOf(config), name) {
		return false, err
	}
	for _, preferred := range operatorNamespaces {
		if namespace == preferred {
			return true, nil
		}
		if h.Objects.Exists(tx, objects.ConfigMaps, preferred, name) {
			return false, nil
		}
	}
	return true, nil
}

// serviceConfig returns the AgentServiceConfig that has an effect, or nil.
func (h *Controllers) serviceConfig(tx *store.Tx) (*agentinstall.AgentServiceConfig, error) {
	return objects.Find[agentinstall.AgentServiceConfig](h.Objects, tx, objects.AgentServiceConfigs, "",
		serviceConfigName)
}

// settingsOf returns the names of the ConfigMaps with settings of the whole site.
func settingsOf(config *agentinstall.AgentServiceConfig) []string {
	if config == nil {
		return nil
	}
	all := []string{config.Annotations[annotationServiceSetting]}
	for _, ref := range []*corev1.LocalObjectReference{config.Spec.MirrorRegistryRef, config.Spec.OSImageCACertRef} {
		if ref != nil {
			all = append(all, ref.Name)
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// serviceConfigsReferringTo lists the AgentServiceConfig if it refers to a ConfigMap or Secret with
// the name.
func (h *Controllers) serviceConfigsReferringTo(tx *store.Tx, _, name string) ([]key, error) {
	config, err := h.serviceConfig(tx)
	if err != nil || config == nil {
		return nil, err
	}
	params := config.Spec.OSImageAdditionalParamsRef
	if !slices.Contains(settingsOf(config), name) && (params == nil || params.Name != name) {
		return nil, nil
	}
	return []key{{Kind: objects.AgentServiceConfigs, Name: serviceConfigName}}, nil
}
