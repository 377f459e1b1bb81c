package event

import (
	"encoding/json"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/fault"
)

// Limits of an event that another program reports, in bytes.
const (
	reportedMessageLimit = 4096 // the Assisted Installer's
	reportedPropsLimit   = 64 << 10
)

// CheckReported checks an event that another program reports.
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
