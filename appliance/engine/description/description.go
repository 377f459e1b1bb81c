// Package description holds the rules for the descriptions of clusters and infra-envs. Its tables
// list the fields of requests, with their checks and how they change the stored description. Other
// rules reject platforms, features and architectures that exclude each other. The functions are
// pure: they use the API's models, not the store or the engine. Their errors have the kind
// [fault.Invalid].
//
// The rules are those of the Assisted Installer (internal/cluster/validations, pkg/validations,
// internal/provider/platform.go, internal/bminventory/inventory.go, internal/featuresupport). The
// tables of fields are in cluster.go and infraenv.go; docs/design.md describes how to add a field.
//
// Design: docs/design.md#tables-of-fields.
package description

import (
	"fmt"

	"landfall/appliance/architecture"
	"landfall/appliance/fault"
	"landfall/appliance/sentence"
)

// The architectures of hosts, releases and clusters as the API spells them.
const (
	x86      = string(architecture.X86)
	arm      = string(architecture.ARM)
	power    = string(architecture.Power)
	z        = string(architecture.Z)
	MultiCPU = string(architecture.Multi)
)

// Site holds facts about the site that the rules read.
type Site struct {
	Releases   []Release
	NTPSources []string
	// CheckMultiCPU rejects clusters of several architectures if the organization may not create
	// such clusters.
	CheckMultiCPU func() error
	// AgentImage is set if the configuration names the image of the agent. Otherwise the release
	// names it.
	AgentImage bool
}

func invalid(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }

// wrapInvalid returns an error of kind Invalid with the text of its cause as a sentence.
func wrapInvalid(cause error) error {
	return &fault.Error{Kind: fault.Invalid, Reason: sentence.New(cause), Err: cause}
}

// wrapInvalidf is like wrapInvalid, but puts a formatted text before the text of the cause.
func wrapInvalidf(cause error, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Reason: fmt.Sprintf(format, args...) + ": " + sentence.Ending(cause),
		Err: cause}
}

// FirstOf returns the first non-nil error.
func FirstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func setDefault(field **string, value string) {
	if *field == nil || **field == "" {
		*field = &value
	}
}
