//go:build !linux

package sandbox

import (
	"context"
	"os/exec"
)

// try reports that the operating system has no measure that this package knows.
func (s *Sandbox) try() plan {
	var p plan
	for _, id := range measureIDs {
		p.measures = append(p.measures, Measure{ID: id, Explanation: explanations[id],
			Reason: "the sandbox needs Linux"})
	}
	return p
}

func (s *Sandbox) command(ctx context.Context, c Command, _ plan) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, c.Program, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	return cmd, nil
}
