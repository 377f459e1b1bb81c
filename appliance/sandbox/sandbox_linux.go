package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// trialTimeout limits the trial of one set of namespaces.
const trialTimeout = 10 * time.Second

// request is what the helper must do, as JSON in its first argument.
type request struct {
	Program  string      `json:"program,omitempty"` // "" for a trial
	Dir      string      `json:"dir"`
	User     owner       `json:"user"`
	Network  bool        `json:"network"`
	Spaces   namespaces  `json:"namespaces"`
	Required []MeasureID `json:"required,omitempty"`
}

// report is the output of a helper in a trial: for each measure "", or why it is not active.
type report map[MeasureID]string

// attempts returns sets of namespaces and users, the best one first.
func (s *Sandbox) attempts() []plan {
	if s.user == (owner{}) { // only a user namespace gives a user the right to create the others
		return []plan{{namespaces: namespaces{Own: true, Files: true, User: true}},
			{namespaces: namespaces{Own: true, User: true}}, {}}
	}
	return []plan{{namespaces: namespaces{Own: true, Files: true}, user: s.user},
		{namespaces: namespaces{Own: true}, user: s.user}, {user: s.user}, {}}
}

// try starts helpers with fewer and fewer measures until one succeeds.
func (s *Sandbox) try() plan {
	var p plan
	var result report
	var reason string // of the best set of namespaces
	for _, attempt := range s.attempts() {
		got, err := s.tryWith(attempt)
		if err == nil {
			p, result = attempt, got
			break
		}
		reason = cmp.Or(reason, err.Error())
	}
	if result == nil {
		result = report{}
		for _, id := range measureIDs {
			result[id] = cmp.Or(reason, "the helper cannot be started")
		}
	}
	for _, id := range measureIDs {
		why, tried := result[id]
		if !tried {
			why = cmp.Or(reason, "the system does not allow namespaces")
		}
		p.measures = append(p.measures, Measure{ID: id, Active: why == "", Explanation: explanations[id], Reason: why})
		if why == "" {
			p.required = append(p.required, id)
		}
	}
	return p
}

func (s *Sandbox) tryWith(attempt plan) (report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), trialTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(s.options.Dir, "trial-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := give(dir, attempt.user); err != nil {
		return nil, err
	}
	// The kernel kills the helper when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := s.command(ctx, Command{Dir: dir}, attempt)
	if err != nil {
		return nil, err
	}
	var output, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &failure
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w%s", err, prefixed(failure.String()))
	}
	var got report
	if err := json.Unmarshal(output.Bytes(), &got); err != nil {
		return nil, fmt.Errorf("read the helper's report: %w", err)
	}
	return got, nil
}

func prefixed(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ": " + text
}

func (s *Sandbox) command(ctx context.Context, c Command, p plan) (*exec.Cmd, error) {
	text, err := json.Marshal(request{Program: c.Program, Dir: c.Dir, User: p.user,
		Network: s.options.Network, Spaces: p.namespaces, Required: p.required})
	if err != nil {
		return nil, err
	}
	// The program's own file may have been replaced by a newer version, so its path is no use.
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = slices.Concat([]string{helperName, string(text)}, c.Args)
	cmd.Dir, cmd.Env = c.Dir, append([]string{}, c.Env...) // nil would be the appliance's own environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: cloneFlags(p.namespaces, s.options.Network)}
	if p.namespaces.User {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return cmd, nil
}

func cloneFlags(spaces namespaces, network bool) (flags uintptr) {
	if spaces.Own {
		flags |= syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
		if !network {
			flags |= syscall.CLONE_NEWNET
		}
	}
	if spaces.Files {
		flags |= syscall.CLONE_NEWNS
	}
	if spaces.User {
		flags |= syscall.CLONE_NEWUSER
	}
	return flags
}
