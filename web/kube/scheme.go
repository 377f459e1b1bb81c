package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// kinds is a group of built-in kinds.
type kinds struct {
	version  schema.GroupVersion
	types    []runtime.Object
	internal []runtime.Object // nil: the same types
}

func builtIn() []kinds {
	return []kinds{
		{version: corev1.SchemeGroupVersion, types: []runtime.Object{
			&corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.Secret{}, &corev1.SecretList{}, &corev1.ConfigMap{},
			&corev1.ConfigMapList{},
			&corev1.Event{}, &corev1.EventList{}, &corev1.ServiceAccount{}, &corev1.ServiceAccountList{},
			&corev1.Node{}, &corev1.NodeList{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeList{},
			&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaimList{}, &corev1.Pod{}, &corev1.PodList{},
			&corev1.ReplicationController{}, &corev1.ReplicationControllerList{}, &corev1.Service{},
			&corev1.ServiceList{},
			//lint:ignore SA1019 kubectl apply --prune lists this kind
			&corev1.Endpoints{}, &corev1.EndpointsList{},
		}},
		{version: coordinationv1.SchemeGroupVersion, types: []runtime.Object{&coordinationv1.Lease{},
			&coordinationv1.LeaseList{}}},
		{version: appsv1.SchemeGroupVersion, types: []runtime.Object{&appsv1.Deployment{}, &appsv1.DeploymentList{},
			&appsv1.DaemonSet{}, &appsv1.DaemonSetList{}, &appsv1.ReplicaSet{}, &appsv1.ReplicaSetList{},
			&appsv1.StatefulSet{}, &appsv1.StatefulSetList{}}},
		{version: batchv1.SchemeGroupVersion, types: []runtime.Object{&batchv1.CronJob{}, &batchv1.CronJobList{},
			&batchv1.Job{}, &batchv1.JobList{}}},
		{version: networkingv1.SchemeGroupVersion, types: []runtime.Object{&networkingv1.Ingress{},
			&networkingv1.IngressList{}}},
		{version: rbacv1.SchemeGroupVersion, types: []runtime.Object{
			&rbacv1.Role{}, &rbacv1.RoleList{}, &rbacv1.RoleBinding{}, &rbacv1.RoleBindingList{},
			&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBinding{},
			&rbacv1.ClusterRoleBindingList{},
		}},
		{
			version: eventsv1.SchemeGroupVersion, types: []runtime.Object{&eventsv1.Event{}, &eventsv1.EventList{}},
			internal: []runtime.Object{&corev1.Event{}, &corev1.EventList{}},
		},
		{version: authorizationv1.SchemeGroupVersion, types: []runtime.Object{
			&authorizationv1.SelfSubjectAccessReview{}, &authorizationv1.SelfSubjectRulesReview{},
		}},
		{version: authenticationv1.SchemeGroupVersion, types: []runtime.Object{&authenticationv1.SelfSubjectReview{}}},
	}
}

// newScheme returns the scheme of the built-in kinds. The internal version of each kind is its v1,
// so that only Events of the new group are converted.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, group := range builtIn() {
		internal := schema.GroupVersion{Group: group.version.Group, Version: runtime.APIVersionInternal}
		scheme.AddKnownTypes(group.version, group.types...)
		if group.internal == nil {
			group.internal = group.types
		}
		scheme.AddKnownTypes(internal, group.internal...)
		metav1.AddToGroupVersion(scheme, group.version)
		if err := scheme.SetVersionPriority(group.version); err != nil {
			return nil, err
		}
	}
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"},
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	scheme.AddTypeDefaultingFunc(&corev1.Secret{}, func(object any) {
		if secret := object.(*corev1.Secret); secret.Type == "" {
			secret.Type = corev1.SecretTypeOpaque
		}
		moveStringData(object.(*corev1.Secret))
	})
	selectable := map[string][]string{
		"Secret":    {"type"},
		"Namespace": {"status.phase"},
		"Node":      {"spec.unschedulable"},
		"Pod": {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
			"status.nominatedNodeName", "status.phase", "status.podIP"},
		"Event": {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
			"involvedObject.apiVersion",
			"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source",
			"type"},
	}
	for kind, fields := range selectable {
		if err := scheme.AddFieldLabelConversionFunc(corev1.SchemeGroupVersion.WithKind(kind),
			fieldLabels(fields)); err != nil {
			return nil, err
		}
	}
	return scheme, addNewEvents(scheme)
}

// fieldLabels adds field selectors for lists, besides the name and namespace that all kinds have.
func fieldLabels(fields []string) runtime.FieldLabelConversionFunc {
	return func(label, value string) (string, string, error) {
		for _, field := range fields {
			if field == label {
				return label, value, nil
			}
		}
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	}
}

// storedJSON returns the codec of the stored form of built-in kinds: JSON of their v1.
func storedJSON(codecs serializer.CodecFactory) runtime.Codec {
	var versions []schema.GroupVersion
	for _, group := range builtIn() {
		versions = append(versions, group.version)
	}
	return codecs.LegacyCodec(versions...)
}

// listOf returns a function that creates an empty list of a kind.
func listOf(scheme *runtime.Scheme, kind schema.GroupVersionKind) func() runtime.Object {
	kind.Kind += "List"
	return func() runtime.Object {
		list, err := scheme.New(kind)
		if err != nil || !meta.IsListType(list) {
			return &metav1.List{}
		}
		return list
	}
}
