package release

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"landfall/appliance/sandbox"
	"landfall/appliance/tracing"
)

const (
	// outputTail is the number of bytes that are kept from the end of a run's output, which
	// contains the reason of a failure.
	outputTail = 32 << 10
	// summaryLimit limits RunError.Summary in bytes.
	summaryLimit = 2 << 10
	// killDelay is the maximum time for which the child processes of a killed program may keep its
	// output open.
	killDelay = 5 * time.Second
	busyTries = 20
	busyDelay = 20 * time.Millisecond
)

// elsewhere is the remedy on a machine that can't run the program of a payload.
const elsewhere = "install from a Linux machine: landfall backup here, and landfall restore there"

// CannotRun returns why this machine can't run the openshift-install of payloads and what to do, or
// "".
func CannotRun(system string) string {
	if system == "linux" {
		return ""
	}
	return "This machine can't start installations: the openshift-install of a payload is a program for Linux, and " +
		"this is " + system + ". Everything else works; " + elsewhere + "."
}

// RunError reports that openshift-install failed.
type RunError struct {
	Step     string // such as "create manifests"
	ExitCode int    // -1 if the program was killed
	Summary  string // the reason in the program's output
	Output   string // the end of the output
	Err      error  // context.DeadlineExceeded, context.Canceled or the *exec.ExitError
}

func (e *RunError) Error() string { return fmt.Sprintf("openshift-install %s: %s", e.Step, e.Summary) }
func (e *RunError) Unwrap() error { return e.Err }

// run is a sequence of commands in one directory.
type run struct {
	library   *Library
	installer string
	dir       string
	view      string // path of dir for the program
	env       []string
}

func (r *run) command(ctx context.Context, args ...string) (err error) {
	step := strings.Join(args, " ")
	ctx, span := tracing.Start(ctx, "openshift-install "+step)
	defer func() { tracing.End(span, err) }()
	limited, cancel := context.WithTimeout(ctx, r.library.timeout)
	defer cancel()
	// The kernel kills the child when the thread that started it ends. This goroutine therefore
	// keeps its thread until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var output tail
	began := r.library.clock.Now()
	cmd, err := r.prepare(limited, &output, args)
	if err != nil {
		return fmt.Errorf("prepare openshift-install %s: %w", step, err)
	}
	err = cmd.Start()
	for try := 0; errors.Is(err, syscall.ETXTBSY) && try < busyTries; try++ {
		// A concurrently started child process may briefly hold the file descriptor with which this
		// file was written.
		if err = r.library.pause(limited, busyDelay); err != nil {
			break
		}
		if cmd, err = r.prepare(limited, &output, args); err != nil {
			break
		}
		err = cmd.Start()
	}
	if err == nil {
		err = wait(cmd)
	}
	r.library.log.Info("openshift-install ended.", "step", step, "took", r.library.clock.Since(began), "error", err)
	if err == nil {
		return nil
	}
	failure := &RunError{Step: step, ExitCode: -1, Output: output.String(), Err: err}
	switch {
	case ctx.Err() != nil:
		failure.Summary, failure.Err = "stopped before it was done", ctx.Err()
	case limited.Err() != nil:
		failure.Summary, failure.Err = fmt.Sprintf("stopped because it was not done after %s; the end of its "+
			"output: %s",
			r.library.timeout, summarize(failure.Output)), limited.Err()
	case errors.Is(err, syscall.ENOEXEC):
		failure.Summary = fmt.Sprintf("the openshift-install of this payload is no program for %s/%s; %s", runtime.GOOS,
			runtime.GOARCH, elsewhere)
	case cmd.ProcessState == nil:
		failure.Summary = "cannot be started: " + err.Error()
	default:
		failure.ExitCode, failure.Summary = cmd.ProcessState.ExitCode(), summarize(failure.Output)
		var exit *exec.ExitError
		if errors.As(err, &exit) && failure.ExitCode == -1 {
			failure.Summary = fmt.Sprintf("ended by %s; the end of its output: %s", exit, failure.Summary)
		}
	}
	return failure
}

// wait waits until a program has ended and kills its remaining child processes.
func wait(cmd *exec.Cmd) error {
	var left error
	if awaitExit(cmd.Process.Pid) == nil {
		left = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	if left != nil && !errors.Is(left, syscall.ESRCH) {
		return fmt.Errorf("end the remaining child processes: %w", left)
	}
	return nil
}

func (r *run) prepare(ctx context.Context, output *tail, args []string) (*exec.Cmd, error) {
	args = append(slices.Clone(args), "--dir", r.view)
	cmd := exec.CommandContext(ctx, r.installer, args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	cmd.SysProcAttr = processAttributes()
	if box := r.library.sandbox; box != nil {
		if err := box.Give(r.dir); err != nil {
			return nil, err
		}
		var err error
		if cmd, err = box.Command(ctx, sandbox.Command{Program: r.installer, Args: args, Dir: r.dir,
			Env: r.env}); err != nil {
			return nil, err
		}
	}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killDelay
	return cmd, nil
}

// logLine matches one line of the program's log: level=fatal msg="…", in newer versions without
// quotes, or with colors FATAL ….
var logLine = regexp.MustCompile(`(?:^|\s)level=(\w+) msg=(.*)$`)

// summarize returns the reason of a failure from a run's output: the last fatal message, or the
// last error, or the last line.
func summarize(output string) string {
	var reason, lastLine string
	rank := 0
	ranks := map[string]int{"error": 1, "fatal": 2}
	var block []string
	blockLevel := ""
	flush := func() {
		if r := ranks[blockLevel]; r > 0 && r >= rank {
			rank, reason = r, strings.Join(block, "; ")
		}
		block, blockLevel = nil, ""
	}
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		lastLine = line
		match := logLine.FindStringSubmatch(line)
		if match == nil {
			flush()
			continue
		}
		if match[1] != blockLevel {
			flush()
		}
		blockLevel = match[1]
		message := match[2]
		if unquoted, err := strconv.Unquote(message); err == nil {
			message = unquoted
		}
		lastLine = message
		block = append(block, message)
	}
	flush()
	if reason == "" {
		reason = lastLine
	}
	if reason == "" {
		return "it failed without output"
	}
	reason = strings.Join(strings.Fields(reason), " ")
	if len(reason) > summaryLimit {
		reason = "… " + strings.ToValidUTF8(reason[len(reason)-summaryLimit:], "")
	}
	return reason
}

// tail keeps the last outputTail bytes that are written to it.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if len(t.data) > 2*outputTail {
		t.data = append(t.data[:0], t.data[len(t.data)-outputTail:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	if len(t.data) > outputTail {
		t.data = t.data[len(t.data)-outputTail:]
	}
	return strings.ToValidUTF8(string(t.data), "")
}
