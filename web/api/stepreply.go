package api

import (
	"strconv"

	"github.com/openshift/assisted-service/models"

	"landfall/store/fastjson"
)

// plainReply reads a step's reply that has nothing in it but the members that are known, as agents send it. Any other is left
// to be read in the usual way.
func plainReply(body []byte) (*models.StepReply, bool) {
	reply := new(models.StepReply)
	ok := fastjson.Flat(body, func(name, value string, quoted bool) bool {
		if name == "exit_code" && !quoted {
			code, err := strconv.ParseInt(value, 10, 64)
			reply.ExitCode = code
			return err == nil
		}
		switch name {
		case "error":
			reply.Error = value
		case "output":
			reply.Output = value
		case "step_id":
			reply.StepID = value
		case "step_type":
			reply.StepType = models.StepType(value)
		default:
			return false
		}
		return quoted
	})
	return reply, ok
}
