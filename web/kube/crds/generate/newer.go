package main

import (
	"fmt"
	"reflect"
	"strconv"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"landfall/appliance/kube/objects"
)

// The module proxy has no version of github.com/openshift/assisted-service/api after September
// 2025. newerSchemas holds what its CRDs had in addition in August 2026
// (openshift/assisted-service, config/crd/bases at revision 063b2579).

// newerSchema is the schema of a field of a spec that the Go module lacks, or has with other
// values.
type newerSchema struct {
	kind   objects.Kind
	path   []string // below spec
	change func(*v1.JSONSchemaProps)
}

var newerSchemas = []newerSchema{
	{objects.AgentClusterInstalls, []string{"networking", "networkType"}, func(s *v1.JSONSchemaProps) {
		s.Enum = texts("OpenShiftSDN", "OVNKubernetes", "CiscoACI", "Cilium", "Calico", "None")
	}},
	{objects.AgentClusterInstalls, []string{"external", "cloudControllerManager"}, func(s *v1.JSONSchemaProps) {
		s.Enum = texts("", "External")
	}},
	{objects.AgentClusterInstalls, []string{"ntpSources"}, func(s *v1.JSONSchemaProps) {
		s.Description = "The NTP sources of the hosts (names or addresses), instead of all others."
		s.Type = "array"
		s.Items = &v1.JSONSchemaPropsOrArray{Schema: &v1.JSONSchemaProps{Type: "string"}}
	}},
}

// addNewerSchemas changes the schema of a kind. It rejects a change without effect: the module then
// has the field, and the entry of the table must be removed.
func addNewerSchemas(kind objects.Kind, root *v1.JSONSchemaProps) error {
	for _, newer := range newerSchemas {
		if newer.kind != kind {
			continue
		}
		spec := root.Properties["spec"]
		before := spec.DeepCopy()
		set(&spec, newer.path, newer.change)
		if reflect.DeepEqual(*before, spec) {
			return fmt.Errorf("the module has spec.%v: remove it from newerSchemas", newer.path)
		}
		root.Properties["spec"] = spec
	}
	return nil
}

// set changes the property at a path. The properties above it must exist.
func set(s *v1.JSONSchemaProps, path []string, change func(*v1.JSONSchemaProps)) {
	property := s.Properties[path[0]]
	if len(path) == 1 {
		change(&property)
	} else {
		set(&property, path[1:], change)
	}
	s.Properties[path[0]] = property
}

// texts returns the values of an enum, which are names without special characters.
func texts(values ...string) (enum []v1.JSON) {
	for _, value := range values {
		enum = append(enum, v1.JSON{Raw: []byte(strconv.Quote(value))})
	}
	return enum
}
