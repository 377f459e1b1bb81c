package hosts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"landfall/appliance/architecture"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/query"
	"landfall/store"
)

// Admission rejects changes of immutable fields of InfraEnvs, Agents and AgentClassifications,
// which their schemas can't reject (openshift/assisted-service, pkg/webhooks/agentinstall). Only
// administrators may write the ConfigMaps of an AgentServiceConfig, as they write that.
type Admission struct{ *Controllers }

var _ admission.ValidationInterface = Admission{}

// Handles implements admission.Interface.
func (Admission) Handles(operation admission.Operation) bool {
	return operation != admission.Connect
}

// Validate implements admission.ValidationInterface. It rejects an object with the status 400, and
// a ConfigMap of administrators with 403.
func (a Admission) Validate(_ context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	if request.GetSubresource() != "" {
		return nil
	}
	switch request.GetResource().GroupResource().String() {
	case objects.ConfigMaps.String():
		return a.checkConfigMap(request)
	case objects.Namespaces.String():
		return a.checkNamespace(request)
	}
	fresh, ok := request.GetObject().(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	held, _ := request.GetOldObject().(*unstructured.Unstructured)
	var err error
	switch resource := request.GetResource().GroupResource().String(); resource {
	case objects.InfraEnvs.String():
		err = a.checkInfraEnv(fresh, held)
	case objects.Agents.String():
		err = checkAgent(fresh, held)
	case objects.AgentClassifications.String():
		err = checkClassification(fresh, held)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// checkConfigMap rejects the change of a ConfigMap that an AgentServiceConfig names, unless an
// administrator makes it.
func (a Admission) checkConfigMap(request admission.Attributes) error {
	if fromAdministrator(request) {
		return nil
	}
	name := nameOf(request)
	var decides bool
	err := a.DB.View(func(tx *store.Tx) (err error) {
		decides, err = a.decidesSettings(tx, request.GetNamespace(), name)
		return err
	})
	if err != nil || !decides {
		return err
	}
	return apierrors.NewForbidden(request.GetResource().GroupResource(), name, errors.New("the AgentServiceConfig "+
		"refers to a ConfigMap of this name, so only administrators may write it; choose another name, or ask an "+
		"administrator"))
}

// checkNamespace rejects the deletion of a namespace with a ConfigMap that an AgentServiceConfig
// names, unless an administrator makes it: the ConfigMap is deleted with the namespace.
func (a Admission) checkNamespace(request admission.Attributes) error {
	if request.GetOperation() != admission.Delete || fromAdministrator(request) {
		return nil
	}
	namespace, found := nameOf(request), ""
	if err := a.DB.View(func(tx *store.Tx) error {
		config, err := a.serviceConfig(tx)
		if err != nil {
			return err
		}
		for _, name := range settingsOf(config) {
			if !a.Objects.Exists(tx, objects.ConfigMaps, namespace, name) {
				continue
			}
			if decides, err := a.decidesSettings(tx, namespace, name); err != nil {
				return err
			} else if decides {
				found = name
			}
		}
		return nil
	}); err != nil || found == "" {
		return err
	}
	return apierrors.NewForbidden(request.GetResource().GroupResource(), namespace, fmt.Errorf("the AgentServiceConfig "+
		"refers to its ConfigMap %q, which only administrators may delete; ask one to delete the namespace", found))
}

func fromAdministrator(request admission.Attributes) bool {
	caller := request.GetUserInfo()
	return caller != nil && slices.Contains(caller.GetGroups(), user.SystemPrivilegedGroup)
}

// nameOf returns the name of the object of a request. It may have been generated, and a request for
// several objects names none.
func nameOf(request admission.Attributes) string {
	name := request.GetName()
	for _, object := range []runtime.Object{request.GetObject(), request.GetOldObject()} {
		if held, err := meta.Accessor(object); err == nil {
			name = held.GetName()
		}
	}
	return name
}

// refusal is an error with the exact text of a hub's webhook, because users and scripts rely on it.
type refusal string

func (r refusal) Error() string { return string(r) }

func (a Admission) checkInfraEnv(fresh, held *unstructured.Unstructured) error {
	is, was, err := objects.IntoBoth[agentinstall.InfraEnv](fresh, held)
	switch {
	case err != nil:
		return err
	case was == nil && is.Spec.ClusterRef != nil && is.Spec.OSImageVersion != "":
		return refusal("Either Spec.ClusterRef or Spec.OSImageVersion should be specified (not both).")
	case was == nil:
		return checkArchitecture(is.Spec.CPUArchitecture)
	case referenceKey(is.Spec.ClusterRef) != referenceKey(was.Spec.ClusterRef):
		return refusal("Attempted to change Spec.ClusterRef which is immutable after InfraEnv creation.")
	case architectureOf(is) != architectureOf(was):
		return refusal("Attempted to change Spec.CpuArchitecture which is immutable after InfraEnv creation.")
	case is.Spec.ClusterRef != nil && was.Spec.OSImageVersion == "" && is.Spec.OSImageVersion != "" &&
		!a.clusterInstalled(is.Spec.ClusterRef):
		return refusal("spec.OSImageVersion is not valid. It can't be added alongside with a clusterRef when the " +
			"cluster is not installed yet.")
	}
	return nil
}

// checkArchitecture rejects an architecture that the engine does not have, because the field can't
// be corrected later.
func checkArchitecture(name string) error {
	if a, ok := architecture.Parse(name); name == "" ||
		ok && a != architecture.Multi && (name == a.API() || name == a.RPM()) {
		return nil
	}
	return fmt.Errorf("spec.cpuArchitecture is %q; use x86_64, aarch64, arm64, ppc64le or s390x", name)
}

func architectureOf(env *agentinstall.InfraEnv) string {
	if env.Spec.CPUArchitecture == "" {
		return models.ClusterCPUArchitectureX8664
	}
	return env.Spec.CPUArchitecture
}

func (a Admission) clusterInstalled(ref *agentinstall.ClusterReference) bool {
	var cd hivev1.ClusterDeployment
	err := a.DB.View(func(tx *store.Tx) error {
		return a.Objects.Get(tx, objects.ClusterDeployments, ref.Namespace, ref.Name, &cd)
	})
	return err == nil && cd.Spec.Installed
}

// statesCommitted are the states in which a host can't leave its cluster.
var statesCommitted = append(slices.Clone(statesInstalling), models.HostStatusPreparingFailed)

func checkAgent(fresh, held *unstructured.Unstructured) error {
	is, was, err := objects.IntoBoth[agentinstall.Agent](fresh, held)
	if err != nil {
		return err
	}
	if is.Spec.InstallationDiskID != "" && is.Spec.InstallationDiskPath != "" {
		return refusal("Either InstallationDiskID or InstallationDiskPath can be set, not both.")
	}
	if was == nil || referenceKey(is.Spec.ClusterDeploymentName) == referenceKey(was.Spec.ClusterDeploymentName) ||
		!slices.Contains(statesCommitted, is.Status.DebugInfo.State) {
		return nil
	}
	if is.Status.Kind == models.HostKindAddToExistingClusterHost && is.Spec.ClusterDeploymentName == nil {
		return nil
	}
	return refusal("Attempted to change Spec.ClusterDeploymentName which is immutable during Agent installation.")
}

func checkClassification(fresh, held *unstructured.Unstructured) error {
	is, was, err := objects.IntoBoth[agentinstall.AgentClassification](fresh, held)
	if err != nil {
		return err
	}
	if was != nil && (is.Spec.LabelKey != was.Spec.LabelKey || is.Spec.LabelValue != was.Spec.LabelValue) {
		return refusal("Label modified: the specified label may not be modified after creation")
	}
	var failures []string
	failures = append(failures, validation.IsQualifiedName(classificationPrefix+is.Spec.LabelKey)...)
	failures = append(failures, validation.IsValidLabelValue(is.Spec.LabelValue)...)
	if strings.HasPrefix(is.Spec.LabelValue, queryError) {
		failures = append(failures, "label must not start with "+queryError+" as this is reserved")
	}
	if err := query.Check(is.Spec.Query); err != nil {
		failures = append(failures, err.Error())
	}
	if len(failures) > 0 {
		return fmt.Errorf("spec: Invalid value: %s", strings.Join(failures, "; "))
	}
	return nil
}
