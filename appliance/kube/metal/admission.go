package metal

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"landfall/appliance/kube/objects"
)

// Admission rejects invalid BareMetalHosts with the rules and error texts of metal3's webhook. The
// Go module with metal3's types contains these rules.
type Admission struct{}

var _ admission.ValidationInterface = Admission{}

// rulesLog makes sure that the logger of controller-runtime is set only once: it is global to the
// process and must not be set concurrently.
var rulesLog sync.Once

// NewAdmission returns the rules for BareMetalHosts.
func NewAdmission() Admission {
	// metal3's rules write to the logger of controller-runtime, which writes a warning to stderr if
	// it is not set.
	rulesLog.Do(func() { ctrllog.SetLogger(logr.Discard()) })
	return Admission{}
}

// Handles implements admission.Interface.
func (Admission) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update
}

// Validate implements admission.ValidationInterface. An error has the form of a webhook's error.
func (Admission) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().GroupKind() != kindOfHosts || a.GetSubresource() != "" {
		return nil
	}
	host, err := hostIn(a.GetObject())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	var old *metal3.BareMetalHost
	if a.GetOperation() == admission.Update {
		if old, err = hostIn(a.GetOldObject()); err != nil {
			return admission.NewForbidden(a, err)
		}
		if host.DeletionTimestamp != nil {
			return nil // errors must not block the deletion
		}
	}
	if err := validHost(host, old, powerOffDisabled(a.GetObject())); err != nil {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: `admission webhook "baremetalhost.metal3.io" denied the request: ` + err.Error(),
		}}
	}
	return nil
}

var kindOfHosts = metal3.GroupVersion.WithKind(objects.BareMetalHosts.Kind).GroupKind()

func hostIn(object runtime.Object) (*metal3.BareMetalHost, error) {
	host := &metal3.BareMetalHost{}
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, errors.New("the BareMetalHost is not JSON")
	}
	return host, objects.Into(u, host)
}

func powerOffDisabled(object runtime.Object) bool {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	is, _, err := unstructured.NestedBool(u.Object, "spec", "disablePowerOff")
	return is && err == nil
}

// validHost validates a new or changed host. Two of the rules are newer than the metal3 module in
// use.
func validHost(host, old *metal3.BareMetalHost, powerOffDisabled bool) error {
	var err error
	if old == nil {
		_, err = host.ValidateCreate()
	} else {
		_, err = host.ValidateUpdate(old)
	}
	if powerOffDisabled && !host.Spec.Online {
		err = errors.Join(err,
			errors.New("node can't simultaneously have online set to false and have power off disabled"))
	}
	if host.Annotations[inspectAnnotation] == disabled && host.Spec.BootMACAddress == "" && host.HasBMCDetails() {
		err = errors.Join(err,
			errors.New("bootMACAddress is required when the annotation inspect.metal3.io disables inspection"))
	}
	return err
}
