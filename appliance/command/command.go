// Package command is the command line of the appliance. Each command is in a file of its name; this
// one has what they share: how errors end, how signals stop, how logs are written.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"landfall/appliance/config"
	"landfall/appliance/simulate/installer"
	"landfall/web"
)

// The exit codes of a process that was not successful.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // as a shell gives it for SIGINT
)

// Execute runs the command that the arguments (without the program's name) name and returns the
// process's exit code: 0, 1 after a failure, 2 when the arguments are wrong. Started as the
// openshift-install of a simulated release payload, the process is the stand-in for it (see
// installer.Main) and does not come back.
func Execute(arguments []string) int {
	installer.Main()
	ctx, release := interruptible(context.Background())
	defer release()
	return run(ctx, arguments, os.Stdout, os.Stderr)
}

func run(ctx context.Context, arguments []string, out, errOut io.Writer) int {
	root, started := newRoot()
	return execute(ctx, root, started, arguments, out, errOut)
}

func execute(ctx context.Context, root *cobra.Command, started *bool, arguments []string, out, errOut io.Writer) int {
	root.SetArgs(arguments)
	root.SetOut(out)
	root.SetErr(errOut)
	called, err := root.ExecuteContextC(ctx)
	told := new(outcomeError)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &told):
		return told.code
	case !*started || isUsage(err):
		fmt.Fprintf(errOut, "landfall: %s; see %s --help\n", sentence(err), called.CommandPath())
		return exitUsage
	default:
		fmt.Fprintf(errOut, "landfall: %s\n", sentence(err))
		return exitFailure
	}
}

// usageError is a wrong argument that is noticed only when a command has begun.
type usageError struct{ error }

func usage(format string, arguments ...any) error {
	return usageError{fmt.Errorf(format, arguments...)}
}

func isUsage(err error) bool {
	_, ok := errors.AsType[usageError](err)
	return ok
}

// sentence writes an error on one line: joined errors come with a line each.
func sentence(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}

// newRoot returns the command line. What it points to becomes true when a command's arguments were
// right and it begins.
func newRoot() (*cobra.Command, *bool) {
	started := new(bool)
	root := &cobra.Command{
		Use:               "landfall",
		Short:             "Install OpenShift clusters where there is no internet",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { *started = true },
	}
	group(root, newServe(), newDemo(), newSimulate(), newStatus(), newClusters(), newApply(), newDelete(),
		newKubeconfig(), newCredentials(), newISO(), newMirror(), newCourier(), newDoctor(), newImport(), newExport(),
		newRehearse(), newJournal(), newAMS(), newBMC(), newVersion())
	return root, started
}

// group makes a command that only holds others: alone it shows its help, and a name that it does
// not hold is an error.
func group(parent *cobra.Command, commands ...*cobra.Command) {
	parent.AddCommand(commands...)
	parent.Args = func(_ *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return nil
		}
		if near := parent.SuggestionsFor(arguments[0]); len(near) > 0 {
			return fmt.Errorf("there is no command %q; did you mean %q?", arguments[0], near[0])
		}
		return fmt.Errorf("there is no command %q", arguments[0])
	}
	parent.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	parent.SuggestionsMinimumDistance = 2
}

// interruptible returns a context that ends at the first SIGINT or SIGTERM; the second one ends the
// process at once. The returned function gives the signals back.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for range 2 {
			select {
			case <-signals:
				if ctx.Err() != nil {
					os.Exit(exitInterrupted)
				}
				cancel()
			case <-done:
				return
			}
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		watcher.Wait()
		cancel()
	}
}

// newLogger returns a logger as the configuration says, whose lines have the id of the request they
// belong to.
func newLogger(config config.Log, out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(config.Level)); err != nil {
		return nil, fmt.Errorf("read the log level: %w", err)
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewJSONHandler(out, options)
	if config.Format == "text" || config.Format == "auto" && onTerminal(out) {
		handler = slog.NewTextHandler(out, options)
	}
	return slog.New(web.LogHandler(handler)), nil
}

func onTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// stoppedQuietly forgets the error of a command that the person stopped.
func stoppedQuietly(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
