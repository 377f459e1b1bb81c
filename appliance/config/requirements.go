package config

import (
	"fmt"
	"os"

	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/validation"
)

// Read returns the minimum requirements of hosts by OpenShift version, and the disabled
// validations.
func (v Validations) Read() (func(version string) validation.Requirements, []validation.ID, error) {
	var disabled []validation.ID
	for _, id := range v.DisabledHosts {
		disabled = append(disabled, validation.ID(id))
	}
	if err := validation.CheckDisabled(disabled); err != nil {
		return nil, nil, fmt.Errorf("read validations.disabled_hosts: %w", err)
	}
	operators, err := operatorRequirements(v.OperatorRequirements)
	if err != nil {
		return nil, nil, err
	}
	with := func(of func(string) validation.Requirements) func(string) validation.Requirements {
		return func(version string) validation.Requirements {
			minimums := of(version)
			minimums.Operators = operators
			return minimums
		}
	}
	if v.Requirements == "" {
		return with(validation.DefaultRequirements), disabled, nil
	}
	text, err := os.ReadFile(v.Requirements)
	if err != nil {
		return nil, nil, fmt.Errorf("read validations.requirements: %w", err)
	}
	overrides, err := validation.ParseOverrides(text)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", v.Requirements, err)
	}
	return with(overrides.For), disabled, nil
}

// operatorRequirements reads the file with the requirements of operators. It returns nil if path is
// empty.
func operatorRequirements(path string) (*operator.Overrides, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read validations.operator_requirements: %w", err)
	}
	overrides, err := operator.ParseOverrides(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return overrides, nil
}
