package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// dataLimit is the size limit of the data of a Secret or ConfigMap in bytes, as in a cluster.
const dataLimit = corev1.MaxSecretSize

// emptyResources returns resources of which the API has no objects. Scripts list them as they do in
// clusters, and go on with an empty list. kubectl apply --prune lists a selection of kinds, and
// fails if the API lacks one of them.
func emptyResources() []resource {
	core, apps, batch := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	all := []resource{
		{kind: core.WithKind("Endpoints"), plural: "endpoints", singular: "endpoints", short: []string{"ep"},
			namespaced: true},
		{kind: core.WithKind("Node"), plural: "nodes", singular: "node", short: []string{"no"}},
		{kind: core.WithKind("PersistentVolume"), plural: "persistentvolumes", singular: "persistentvolume",
			short: []string{"pv"}},
		{kind: core.WithKind("PersistentVolumeClaim"), plural: "persistentvolumeclaims",
			singular: "persistentvolumeclaim", short: []string{"pvc"}, namespaced: true},
		{kind: core.WithKind("Pod"), plural: "pods", singular: "pod", short: []string{"po"},
			categories: []string{"all"}, namespaced: true},
		{kind: core.WithKind("ReplicationController"), plural: "replicationcontrollers",
			singular: "replicationcontroller", short: []string{"rc"}, categories: []string{"all"}, namespaced: true},
		{kind: core.WithKind("Service"), plural: "services", singular: "service", short: []string{"svc"},
			categories: []string{"all"}, namespaced: true},
		{kind: apps.WithKind("DaemonSet"), plural: "daemonsets", singular: "daemonset", short: []string{"ds"},
			categories: []string{"all"}, namespaced: true},
		{kind: apps.WithKind("ReplicaSet"), plural: "replicasets", singular: "replicaset", short: []string{"rs"},
			categories: []string{"all"}, namespaced: true},
		{kind: apps.WithKind("StatefulSet"), plural: "statefulsets", singular: "statefulset", short: []string{"sts"},
			categories: []string{"all"}, namespaced: true},
		{kind: batch.WithKind("CronJob"), plural: "cronjobs", singular: "cronjob", short: []string{"cj"},
			categories: []string{"all"}, namespaced: true},
		{kind: batch.WithKind("Job"), plural: "jobs", singular: "job", categories: []string{"all"}, namespaced: true},
		{kind: networkingv1.SchemeGroupVersion.WithKind("Ingress"), plural: "ingresses", singular: "ingress",
			short: []string{"ing"}, namespaced: true},
	}
	for i := range all {
		all[i].columns = ageOnly()
	}
	return all
}

// resources returns the built-in resources except Namespaces.
func resources(eventSeconds uint64) []resource {
	core := corev1.SchemeGroupVersion
	rbac := rbacv1.SchemeGroupVersion
	return append([]resource{
		{
			kind: core.WithKind("Secret"), plural: "secrets", singular: "secret", namespaced: true,
			validate: validateSecret, columns: secretColumns(),
			fields: func(object runtime.Object) fields.Set {
				return fields.Set{"type": string(object.(*corev1.Secret).Type)}
			},
		},
		{
			kind: core.WithKind("ConfigMap"), plural: "configmaps", singular: "configmap", short: []string{"cm"},
			namespaced: true,
			validate:   validateConfigMap, columns: configMapColumns(),
		},
		{
			kind: core.WithKind("Event"), plural: "events", singular: "event", short: []string{"ev"}, namespaced: true,
			ttl:     eventSeconds,
			columns: eventColumns(), fields: eventFields,
		},
		{
			kind: core.WithKind("ServiceAccount"), plural: "serviceaccounts", singular: "serviceaccount",
			short: []string{"sa"}, namespaced: true,
			columns: ageOnly(),
		},
		{
			kind: coordinationv1.SchemeGroupVersion.WithKind("Lease"), plural: "leases", singular: "lease",
			namespaced: true, columns: leaseColumns(),
		},
		{
			kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), plural: "deployments", singular: "deployment",
			short:      []string{"deploy"},
			categories: []string{"all"}, namespaced: true, columns: deploymentColumns(),
		},
		{kind: rbac.WithKind("Role"), plural: "roles", singular: "role", namespaced: true, validName: pathSegment,
			columns: ageOnly()},
		{kind: rbac.WithKind("RoleBinding"), plural: "rolebindings", singular: "rolebinding", namespaced: true,
			validName: pathSegment, columns: ageOnly()},
		{kind: rbac.WithKind("ClusterRole"), plural: "clusterroles", singular: "clusterrole", validName: pathSegment,
			columns: ageOnly()},
		{kind: rbac.WithKind("ClusterRoleBinding"), plural: "clusterrolebindings", singular: "clusterrolebinding",
			validName: pathSegment, columns: ageOnly()},
	}, emptyResources()...)
}

// pathSegment validates the names of RBAC objects. Unlike other names, they may contain colons, as
// in clusters.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// moveStringData moves the stringData of a Secret to its data. It runs when a request is decoded,
// so that a field manager owns the data: nothing else can be compared with the data of a later
// apply.
func moveStringData(secret *corev1.Secret) {
	if len(secret.StringData) == 0 {
		return
	}
	if secret.Data == nil {
		secret.Data = make(map[string][]byte, len(secret.StringData))
	}
	for key, text := range secret.StringData {
		secret.Data[key] = []byte(text)
	}
	secret.StringData = nil
}

func validateSecret(object, before runtime.Object) field.ErrorList {
	secret := object.(*corev1.Secret)
	var list field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		list = append(list, validateKey(field.NewPath("data"), key)...)
		size += len(secret.Data[key])
	}
	if size > dataLimit {
		list = append(list, field.TooLong(field.NewPath("data"), "", dataLimit))
	}
	list = append(list, validateType(secret)...)
	if before == nil {
		return list
	}
	old := before.(*corev1.Secret)
	list = append(list, validation.ValidateImmutableField(secret.Type, old.Type, field.NewPath("type"))...)
	if old.Immutable != nil && *old.Immutable {
		if secret.Immutable == nil || !*secret.Immutable {
			list = append(list, field.Forbidden(field.NewPath("immutable"),
				"field is immutable when `immutable` is set"))
		}
		if !equality.Semantic.DeepEqual(secret.Data, old.Data) {
			list = append(list, field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"))
		}
	}
	return list
}

// validateType checks that Secrets of certain types have the required keys.
func validateType(secret *corev1.Secret) field.ErrorList {
	needs := map[corev1.SecretType][]string{
		corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
		corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
		corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
		corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
	}
	var list field.ErrorList
	for _, key := range needs[secret.Type] {
		if _, ok := secret.Data[key]; !ok {
			list = append(list, field.Required(field.NewPath("data").Key(key), ""))
		}
	}
	return list
}

func validateKey(at *field.Path, key string) (list field.ErrorList) {
	for _, problem := range utilvalidation.IsConfigMapKey(key) {
		list = append(list, field.Invalid(at.Key(key), key, problem))
	}
	return list
}

func validateConfigMap(object, before runtime.Object) field.ErrorList {
	config := object.(*corev1.ConfigMap)
	var list field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(config.Data)) {
		list = append(list, validateKey(field.NewPath("data"), key)...)
		if _, twice := config.BinaryData[key]; twice {
			list = append(list, field.Invalid(field.NewPath("data").Key(key), key,
				"duplicate of key present in binaryData"))
		}
		size += len(config.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(config.BinaryData)) {
		list = append(list, validateKey(field.NewPath("binaryData"), key)...)
		size += len(config.BinaryData[key])
	}
	if size > dataLimit {
		list = append(list, field.TooLong(field.NewPath(""), "", dataLimit))
	}
	if before == nil {
		return list
	}
	old := before.(*corev1.ConfigMap)
	if old.Immutable != nil && *old.Immutable {
		if config.Immutable == nil || !*config.Immutable {
			list = append(list, field.Forbidden(field.NewPath("immutable"),
				"field is immutable when `immutable` is set"))
		}
		if !equality.Semantic.DeepEqual(config.Data, old.Data) {
			list = append(list, field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"))
		}
		if !equality.Semantic.DeepEqual(config.BinaryData, old.BinaryData) {
			list = append(list, field.Forbidden(field.NewPath("binaryData"),
				"field is immutable when `immutable` is set"))
		}
	}
	return list
}

func eventFields(object runtime.Object) fields.Set {
	event := object.(*corev1.Event)
	source := event.Source.Component
	if source == "" {
		source = event.ReportingController
	}
	about := event.InvolvedObject
	return fields.Set{
		"involvedObject.kind": about.Kind, "involvedObject.namespace": about.Namespace,
		"involvedObject.name": about.Name,
		"involvedObject.uid":  string(about.UID), "involvedObject.apiVersion": about.APIVersion,
		"involvedObject.resourceVersion": about.ResourceVersion, "involvedObject.fieldPath": about.FieldPath,
		"reason": event.Reason, "reportingComponent": event.ReportingController, "source": source, "type": event.Type,
	}
}

// eventAbout returns the object of an Event in kubectl's notation.
func eventAbout(event *corev1.Event) string {
	return fmt.Sprintf("%s/%s", strings.ToLower(event.InvolvedObject.Kind), event.InvolvedObject.Name)
}
