package clusters

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	names "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/validation"
	"landfall/appliance/kube/objects"
)

// Admission checks the rules of ClusterDeployments and AgentClusterInstalls that their schemas
// can't express, and sets the default of userManagedNetworking (openshift/assisted-service,
// pkg/webhooks/hiveextension; openshift/hive, pkg/validating-webhooks/hive/v1).
type Admission struct{}

var (
	_ admission.ValidationInterface = Admission{}
	_ admission.MutationInterface   = Admission{}
)

// Handles implements admission.Interface.
func (Admission) Handles(operation admission.Operation) bool {
	return operation != admission.Connect
}

// Admit implements admission.MutationInterface.
func (Admission) Admit(_ context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	if request.GetSubresource() != "" || request.GetResource().GroupResource().
		String() != objects.AgentClusterInstalls.String() {
		return nil
	}
	fresh, ok := request.GetObject().(*unstructured.Unstructured)
	if !ok || request.GetOperation() == admission.Delete {
		return nil
	}
	aci := &hiveext.AgentClusterInstall{}
	if err := objects.Into(fresh, aci); err != nil {
		return nil // a value of another type; the check of the schema names its field
	}
	if aci.Spec.Networking.UserManagedNetworking != nil || aci.DeletionTimestamp != nil || installStarted(aci) {
		return nil
	}
	users := singleNode(aci) && (aci.Spec.PlatformType == "" || aci.Spec.PlatformType == hiveext.NonePlatformType) ||
		aci.Spec.PlatformType == hiveext.NonePlatformType
	if !users && aci.Spec.PlatformType != "" {
		platform, err := platformOf(aci.Spec)
		if err != nil {
			return nil // Validate returns the error
		}
		if users, err = description.UserManagesNetworking(platform, nil,
			int64(aci.Spec.ProvisionRequirements.ControlPlaneAgents)); err != nil {
			return nil
		}
	}
	return unstructured.SetNestedField(fresh.Object, users, "spec", "networking", "userManagedNetworking")
}

// Validate implements admission.ValidationInterface.
func (Admission) Validate(ctx context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	if request.GetSubresource() != "" {
		return nil
	}
	fresh, _ := request.GetObject().(*unstructured.Unstructured)
	held, _ := request.GetOldObject().(*unstructured.Unstructured)
	switch request.GetResource().GroupResource().String() {
	case objects.AgentClusterInstalls.String():
		if fresh != nil && request.GetOperation() != admission.Delete {
			return checkClusterInstall(ctx, fresh, held)
		}
	case objects.ClusterDeployments.String():
		if request.GetOperation() == admission.Delete {
			return checkDeletion(held)
		}
		if fresh != nil {
			return checkClusterDeployment(ctx, fresh, held)
		}
	}
	return nil
}

func groupResource(kind objects.Kind) schema.GroupResource {
	return schema.GroupResource{Group: kind.Group, Resource: kind.Resource}
}

func conflicting(message string) error {
	err := apierrors.NewConflict(groupResource(objects.AgentClusterInstalls), "", errors.New(message))
	err.ErrStatus.Message = message
	return err
}

// installStarted reports whether the installation has started or ended.
func installStarted(aci *hiveext.AgentClusterInstall) bool {
	reason := installConditionOf(aci, hiveext.ClusterCompletedCondition).Reason
	return reason == hiveext.ClusterInstallationInProgressReason || installEnded(aci)
}

func installEnded(aci *hiveext.AgentClusterInstall) bool {
	reason := installConditionOf(aci, hiveext.ClusterCompletedCondition).Reason
	return reason == hiveext.ClusterInstalledReason || reason == hiveext.ClusterInstallationFailedReason
}

// alwaysMutable are the fields of an AgentClusterInstall that users can change after the
// installation has started.
var alwaysMutable = []string{"ClusterMetadata", "IgnitionEndpoint"}

func checkClusterInstall(ctx context.Context, fresh, held *unstructured.Unstructured) error {
	is, was, err := objects.IntoBoth[hiveext.AgentClusterInstall](fresh, held)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if was != nil && imageSetName(was) != imageSetName(is) {
		return apierrors.NewBadRequest("Attempted to change AgentClusterInstall.ImageSetRef which is immutable")
	}
	if asked := is.Spec.Networking.UserManagedNetworking; singleNode(is) && asked != nil && !*asked {
		return conflicting("UserManagedNetworking must be set to true with SNO")
	}
	need := is.Spec.ProvisionRequirements
	if err := checkPlatform(is, need.ControlPlaneAgents); err != nil {
		if fault := faultOfRequirements(requiredOf(is)); fault != "" && checkPlatform(is, 3) == nil {
			return conflicting(fault)
		}
		return conflicting(objects.InManifest(err.Error()))
	}
	if !installStarted(is) {
		warnOfClusterInstall(ctx, is)
		return nil
	}
	if was == nil {
		return nil
	}
	mutable := alwaysMutable
	if installEnded(is) {
		mutable = append(slices.Clone(mutable), "ProvisionRequirements")
	}
	if diff := changedFields(&was.Spec, &is.Spec, mutable); diff != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("Attempted to change AgentClusterInstall.Spec which is immutable "+
			"after install started, except for %s fields. Unsupported change: \n%s",
			strings.Join(alwaysMutable, ","), diff))
	}
	return nil
}

// warnOfClusterInstall warns of values that the service accepts, although the cluster can't be
// installed with them. The conditions report them too. An AgentClusterInstall without a release is
// the one of an installed cluster.
func warnOfClusterInstall(ctx context.Context, aci *hiveext.AgentClusterInstall) {
	if aci.Spec.ImageSetRef == nil {
		return
	}
	need := requiredOf(aci)
	if fault := faultOfRequirements(need); fault != "" {
		warning.AddWarning(ctx, objects.WarningAgent, fault)
	}
	if validation.NeedsOwnManifests(aci.Spec.Networking.NetworkType) {
		return
	}
	for _, n := range aci.Spec.Networking.ClusterNetwork {
		prefix, err := netip.ParsePrefix(n.CIDR)
		if err != nil {
			continue // SpecSynced reports it
		}
		if fault := network.CheckHostPrefix(prefix.Masked(), int(hostPrefix(n)), need.total()); fault != "" {
			warning.AddWarning(ctx, objects.WarningAgent, "spec.networking.clusterNetwork: "+fault)
		}
	}
}

func requiredOf(aci *hiveext.AgentClusterInstall) roleCount {
	need := aci.Spec.ProvisionRequirements
	return roleCount{need.ControlPlaneAgents, need.ArbiterAgents, need.WorkerAgents}
}

// faultOfRequirements returns a sentence about a single node that requires other hosts; "" without
// that fault.
func faultOfRequirements(required roleCount) string {
	if required.masters != 1 || required.total() == 1 {
		return ""
	}
	return "A cluster with one control-plane agent is installed without workers and arbiters; set workerAgents and " +
		"arbiterAgents in spec.provisionRequirements to 0, and add workers after the installation."
}

func imageSetName(aci *hiveext.AgentClusterInstall) string {
	if aci.Spec.ImageSetRef == nil {
		return ""
	}
	return aci.Spec.ImageSetRef.Name
}

// checkPlatform checks the platform and the networking of a cluster with a number of control-plane
// nodes.
func checkPlatform(aci *hiveext.AgentClusterInstall, controlPlanes int) error {
	platform, err := platformOf(aci.Spec)
	if err != nil {
		return nil // the condition SpecSynced reports the error, as on a hub
	}
	_, err = description.UserManagesNetworking(platform, aci.Spec.Networking.UserManagedNetworking,
		int64(controlPlanes))
	return err
}

// changedFields describes the fields that differ between two structs, without the excluded ones. A
// nil list equals an empty one.
func changedFields(was, is any, excluded []string) string {
	before, after := reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem()
	var lines []string
	for i := range before.NumField() {
		name := before.Type().Field(i).Name
		a, b := before.Field(i).Interface(), after.Field(i).Interface()
		if !slices.Contains(excluded, name) && !equality.Semantic.DeepEqual(a, b) {
			lines = append(lines, fmt.Sprintf("\t%s: (%s => %s)", name, plainText(a), plainText(b)))
		}
	}
	return strings.Join(lines, "\n")
}

// plainText formats a value for users, with the values behind pointers.
func plainText(value any) string {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer && !v.IsNil() {
		return fmt.Sprintf("%+v", v.Elem().Interface())
	}
	return fmt.Sprintf("%+v", value)
}

// deploymentMutable are the fields of a ClusterDeployment that users can change.
var deploymentMutable = []string{
	"CertificateBundles", "ClusterMetadata", "ControlPlaneConfig", "Ingress", "Installed", "PreserveOnDelete",
	"ClusterPoolRef", "PowerState",
	"HibernateAfter", "InstallAttemptsLimit",
}

func checkClusterDeployment(ctx context.Context, fresh, held *unstructured.Unstructured) error {
	is, was, err := objects.IntoBoth[hivev1.ClusterDeployment](fresh, held)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if fault := faultOfInstallRef(is); fault != "" && is.DeletionTimestamp == nil {
		warning.AddWarning(ctx, objects.WarningAgent, fault)
	}
	refuse := func(format string, args ...any) error { return apierrors.NewBadRequest(fmt.Sprintf(format, args...)) }
	if was == nil {
		return checkNewDeployment(is, refuse)
	}
	if was.Spec.Installed && !is.Spec.Installed {
		return refuse("cannot make uninstalled once installed: spec.installed of ClusterDeployment %s was true",
			is.Name)
	}
	if is.Spec.Installed && is.Spec.ClusterMetadata == nil {
		return refuse("installed cluster must have cluster metadata: give spec.clusterMetadata of ClusterDeployment %s",
			is.Name)
	}
	before, after := was.Spec.DeepCopy(), is.Spec.DeepCopy()
	if before.Platform.AgentBareMetal != nil && after.Platform.AgentBareMetal != nil {
		before.Platform.AgentBareMetal.AgentSelector = after.Platform.AgentBareMetal.AgentSelector
	}
	if diff := changedFields(before, after, deploymentMutable); diff != "" {
		return refuse("Attempted to change ClusterDeployment.Spec which is immutable except for "+
			"%s,Platform.AgentBareMetal.AgentSelector fields. Unsupported change: \n%s",
			strings.Join(deploymentMutable, ","), diff)
	}
	return nil
}

func checkNewDeployment(cd *hivev1.ClusterDeployment, refuse func(string, ...any) error) error {
	if len(cd.Name) > names.DNS1123LabelMaxLength {
		return refuse("Invalid cluster deployment name (.meta.name): %s",
			names.MaxLenError(names.DNS1123LabelMaxLength))
	}
	if len(cd.Spec.ClusterName) > names.DNS1123LabelMaxLength {
		return refuse("Invalid cluster name (.spec.clusterName): %s",
			names.MaxLenError(names.DNS1123LabelMaxLength))
	}
	if problems := names.IsDNS1123Label(cd.Spec.ClusterName); len(problems) > 0 {
		return refuse("Invalid cluster name (.spec.clusterName) %q: %s", cd.Spec.ClusterName,
			strings.Join(problems, "; "))
	}
	if !cd.Spec.Installed && cd.Spec.Provisioning == nil && cd.Spec.ClusterInstallRef == nil {
		return refuse("spec.provisioning: Required value: must set provisioning or clusterInstallRef if the cluster " +
			"is not installed")
	}
	if cd.Spec.Provisioning != nil && cd.Spec.ClusterInstallRef != nil {
		return apierrors.NewForbidden(groupResource(objects.ClusterDeployments), cd.Name,
			errors.New("spec.provisioning: cannot set provisioning when clusterInstallRef is set"))
	}
	platforms := 0
	for platform, i := reflect.ValueOf(cd.Spec.Platform), 0; i < platform.NumField(); i++ {
		if field := platform.Field(i); field.Kind() == reflect.Pointer && !field.IsNil() {
			platforms++
		}
	}
	switch {
	case platforms == 0:
		return refuse("spec.platform: Required value: must specify a platform: spec.platform.agentBareMetal of "+
			"ClusterDeployment %s", cd.Name)
	case platforms > 1:
		return refuse("spec.platform: Invalid value: must specify only a single type of platform")
	}
	return nil
}

// annotationProtected prevents the deletion of a ClusterDeployment.
const annotationProtected = "hive.openshift.io/protected-delete"

func checkDeletion(held *unstructured.Unstructured) error {
	if held == nil || !strings.EqualFold(conv.Value(annotationOf(held, annotationProtected)), "true") {
		return nil
	}
	return apierrors.NewForbidden(groupResource(objects.ClusterDeployments), held.GetName(),
		fmt.Errorf("metadata.annotations[%s] of ClusterDeployment %s is true; remove the annotation first",
			annotationProtected, held.GetName()))
}

func annotationOf(u *unstructured.Unstructured, name string) *string {
	if value, ok := u.GetAnnotations()[name]; ok {
		return &value
	}
	return nil
}
