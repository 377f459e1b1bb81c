package journal

import (
	"strings"

	"github.com/openshift/assisted-service/models"
)

// noteTextLimit is the maximum length of each text of a reply in a note, in bytes.
const noteTextLimit = 2048

// noteOf returns the note of a reply. It omits the output of a successful reply if the output is
// stored as a report.
func noteOf(reply *models.StepReply) *NoteReply {
	note := &NoteReply{Type: string(reply.StepType), ID: reply.StepID, ExitCode: reply.ExitCode,
		Bytes: len(reply.Output), Error: lastBytes(reply.Error)}
	switch reply.StepType {
	case models.StepTypeInventory, models.StepTypeConnectivityCheck, models.StepTypeFreeNetworkAddresses,
		models.StepTypeNtpSynchronizer,
		models.StepTypeDomainResolution, models.StepTypeTangConnectivityCheck, models.StepTypeAPIVipConnectivityCheck,
		models.StepTypeContainerImageAvailability:
		if reply.ExitCode == 0 {
			return note // the output is stored as a report
		}
	}
	note.Output = lastBytes(reply.Output)
	return note
}

// lastBytes returns the last noteTextLimit bytes of a text, without a broken character.
func lastBytes(text string) string {
	if len(text) <= noteTextLimit {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-noteTextLimit:], "")
}
