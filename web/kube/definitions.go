package kube

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/kube/objects"
)

// definitionRules rejects the deletion of the resource definitions of the appliance's kinds. The
// objects of the kind would be deleted with it, also those of installed clusters.
type definitionRules struct{}

func (definitionRules) Handles(operation admission.Operation) bool {
	return operation == admission.Delete
}

// Validate implements admission.ValidationInterface.
func (definitionRules) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if resource.Group != definitionKind.Group || resource.Resource != definitionKind.Resource {
		return nil
	}
	name := a.GetName()
	if held, err := meta.Accessor(a.GetOldObject()); err == nil {
		name = held.GetName() // a request for several definitions names none
	}
	if !slices.Contains(ownDefinitions(), name) {
		return nil
	}
	return apierrors.NewForbidden(resource, name, errors.New("the appliance needs this definition, and all objects of "+
		"the kind would be deleted with it; delete the objects instead"))
}

// ownDefinitions lists the names of the custom resource definitions that seed writes.
func ownDefinitions() []string {
	var names []string
	for _, kind := range objects.Kinds() {
		if kind.Group != "" {
			names = append(names, kind.String())
		}
	}
	return names
}
