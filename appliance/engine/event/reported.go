package event

import (
	"encoding/json"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/fault"
)

// Limits for events from other programs, in bytes.
const (
	reportedMessageLimit = 4096 // as in the Assisted Installer
	reportedPropsLimit   = 64 << 10
)

// CheckReported checks an event from another program.
func CheckReported(reported *models.Event) error {
	switch {
	case len(conv.Value(reported.Message)) > reportedMessageLimit:
		return fault.New(fault.Invalid, "The event's message is longer than %d bytes.", reportedMessageLimit)
	case len(reported.Props) > reportedPropsLimit:
		return fault.New(fault.Invalid, "The event's props are longer than %d bytes.", reportedPropsLimit)
	case reported.Props != "" && !json.Valid([]byte(reported.Props)):
		return fault.New(fault.Invalid, "The event's props are not JSON.")
	}
	return nil
}
