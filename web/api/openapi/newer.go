package openapi

import (
	"errors"
	"fmt"
	"slices"

	validation "github.com/go-openapi/errors"
	"github.com/go-openapi/strfmt"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/support"
	networks "landfall/appliance/engine/validation"
)

// newerValues returns the values of a field, or of a string type, that the Assisted Installer's API
// description has and that the module of its models lacks. TestValuesPage_isUpToDate compares them.
func newerValues(name string) []any {
	var values []any
	switch name {
	case "network_type":
		for _, kind := range networks.NetworkTypes() {
			values = append(values, kind)
		}
	case "current_stage", "HostStage":
		values = append(values, string(lifecycle.StageCopyingRegistry))
	case "feature-support-level-id", "FeatureSupportLevelID":
		for _, id := range support.NewerFeatures() {
			values = append(values, string(id))
		}
	}
	return values
}

// Validate returns the errors of a model's Validate method, except those about newer values.
func Validate(model interface{ Validate(strfmt.Registry) error }) error {
	return acceptNewer(model.Validate(strfmt.Default))
}

// acceptNewer removes the errors about newer values from an error of a Validate method. To errors
// about other values of the same fields it adds the newer values.
func acceptNewer(err error) error {
	if composite, ok := errors.AsType[*validation.CompositeError](err); ok {
		var remaining []error
		for _, cause := range composite.Errors {
			if cause = acceptNewer(cause); cause != nil {
				remaining = append(remaining, cause)
			}
		}
		if remaining == nil {
			return nil
		}
		return validation.CompositeValidationError(remaining...)
	}
	failed, ok := errors.AsType[*validation.Validation](err)
	if !ok || failed.Code() != validation.EnumFailCode {
		return err
	}
	newer := newerValues(failed.Name)
	if newer == nil {
		return err
	}
	if slices.Contains(newer, any(fmt.Sprint(failed.Value))) {
		return nil
	}
	return validation.EnumFail(failed.Name, failed.In, failed.Value, union(failed.Values, newer))
}

// union returns the values of the first list, and those of the second that it lacks.
func union(values, more []any) []any {
	values = slices.Clone(values)
	for _, value := range more {
		if !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}
