package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"landfall/appliance/command/outcome"
)

// registeredVariable is set in a process that runs hosts in the background. The process writes to
// file descriptor 3 when all hosts are registered.
const registeredVariable = "LANDFALL_SIMULATE_REGISTERED"

// registeredWord is what the process writes.
const registeredWord = "registered"

// registration writes the word when all hosts are registered.
type registration struct{ file *os.File }

// Close implements io.Closer.
func (r registration) Close() error {
	_, err := io.WriteString(r.file, registeredWord)
	return errors.Join(err, r.file.Close())
}

// registeredFile returns what to close when all hosts are registered, or nil in a process that a
// person started.
func registeredFile() io.Closer {
	if os.Getenv(registeredVariable) == "" {
		return nil
	}
	return registration{os.NewFile(3, registeredVariable)}
}

// runInBackground runs the same command in another process that outlives this one, and returns
// when all its hosts are registered. The process writes to a log file.
func runInBackground(cmd *cobra.Command, count int, log string) (err error) {
	var out *os.File
	if log == "" {
		out, err = os.CreateTemp("", "landfall-hosts-*.log")
	} else {
		out, err = os.Create(log)
	}
	if err != nil {
		return fmt.Errorf("create the log of the hosts: %w; choose another file with --log", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	told, tell, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the hosts: %w", err)
	}
	defer func() { err = errors.Join(err, told.Close()) }()
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the hosts: %w", err)
	}
	arguments := []string{"simulate", "hosts", "--foreground"}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		arguments = append(arguments, "--"+flag.Name+"="+flag.Value.String())
	})
	child := exec.Command(program, arguments...)
	child.Env = append(os.Environ(), registeredVariable+"=1")
	child.Stdout, child.Stderr, child.ExtraFiles = out, out, []*os.File{tell}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // survives the shell
	if err := child.Start(); err != nil {
		return errors.Join(fmt.Errorf("start the hosts: %w", err), tell.Close())
	}
	if err := tell.Close(); err != nil {
		return fmt.Errorf("start the hosts: %w", err)
	}
	stop := interruptChild(cmd, child)
	word, err := io.ReadAll(told)
	stop()
	if err == nil && string(word) == registeredWord {
		fmt.Fprintf(cmd.OutOrStdout(), "%s registered and running in the background (process %d). Their events are "+
			"in %s.\n", hostCount(count), child.Process.Pid, out.Name())
		return child.Process.Release()
	}
	return errors.Join(err, failedChild(cmd, child, out.Name()))
}

func hostCount(count int) string {
	if count == 1 {
		return "1 simulated host is"
	}
	return fmt.Sprintf("%d simulated hosts are", count)
}

// interruptChild interrupts the child when this command is interrupted, until the returned function
// is called.
func interruptChild(cmd *cobra.Command, child *exec.Cmd) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-done:
		case <-cmd.Context().Done():
			if err := child.Process.Signal(os.Interrupt); err != nil {
				return // it has ended
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// failedChild returns the error of hosts that ended before they were registered: the last line of
// their log.
func failedChild(cmd *cobra.Command, child *exec.Cmd, log string) error {
	failure := child.Wait()
	if cmd.Context().Err() != nil {
		return nil
	}
	text, err := os.ReadFile(log)
	if err != nil {
		return fmt.Errorf("read the log of the hosts: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := strings.TrimPrefix(lines[len(lines)-1], "landfall: ")
	if exit, ok := errors.AsType[*exec.ExitError](failure); ok && exit.ExitCode() == outcome.Usage {
		return usage("%s", last)
	}
	return fmt.Errorf("the hosts ended before they were registered: %s; see %s", last, log)
}
