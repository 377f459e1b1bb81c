//go:build boot

package boottest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

const qemuProgram = "qemu-system-x86_64"

// qmp is a connection to QEMU over its standard input and output.
type qmp struct {
	program *exec.Cmd
	in      io.Writer
	replies chan reply
}

type reply struct {
	Return json.RawMessage
	Error  *struct{ Desc string }
}

var errEnded = errors.New("the emulator exited")

// execute runs a command and returns the reply. It returns errEnded if QEMU has ended.
func (c *qmp) execute(command string, arguments map[string]any) (json.RawMessage, error) {
	if arguments == nil {
		arguments = map[string]any{}
	}
	if err := json.NewEncoder(c.in).Encode(map[string]any{"execute": command, "arguments": arguments}); err != nil {
		return nil, fmt.Errorf("%s: %w (%w)", command, errEnded, err)
	}
	answer, ok := <-c.replies
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: %w", command, errEnded)
	case answer.Error != nil:
		return nil, fmt.Errorf("%s: %s", command, answer.Error.Desc)
	}
	return answer.Return, nil
}

// listen receives replies and events until the emulator ends. It returns how the machine ended.
func (c *qmp) listen(out io.Reader) ending {
	defer close(c.replies)
	how := stopped
	for output := json.NewDecoder(out); ; {
		var message struct {
			reply
			Event string
			Data  struct{ Reason string }
		}
		if err := output.Decode(&message); err != nil {
			return how
		}
		switch {
		case message.Error != nil || message.Return != nil:
			c.replies <- message.reply
		case message.Event == "SHUTDOWN" && message.Data.Reason == "guest-reset":
			how = restarted
		case message.Event == "SHUTDOWN" && message.Data.Reason == "guest-shutdown":
			how = switchedOff
		}
	}
}
