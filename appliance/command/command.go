// Package command is the command line of the appliance. Each command has its own file. This file
// contains the common parts: errors, signals and logging.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"

	"landfall/appliance/command/abi"
	"landfall/appliance/command/agenttokens"
	"landfall/appliance/command/ams"
	"landfall/appliance/command/api"
	"landfall/appliance/command/audit"
	"landfall/appliance/command/backup"
	"landfall/appliance/command/bmc"
	"landfall/appliance/command/check"
	"landfall/appliance/command/cluster"
	"landfall/appliance/command/courier"
	"landfall/appliance/command/documents"
	"landfall/appliance/command/events"
	"landfall/appliance/command/fleet"
	"landfall/appliance/command/hcp"
	"landfall/appliance/command/host"
	"landfall/appliance/command/image"
	"landfall/appliance/command/infraenv"
	"landfall/appliance/command/interrupt"
	"landfall/appliance/command/iso"
	"landfall/appliance/command/journal"
	"landfall/appliance/command/kubeconfig"
	"landfall/appliance/command/logwriter"
	"landfall/appliance/command/manifest"
	"landfall/appliance/command/manifests"
	"landfall/appliance/command/manual"
	"landfall/appliance/command/mirror"
	"landfall/appliance/command/network"
	"landfall/appliance/command/operator"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/registry"
	"landfall/appliance/command/rehearse"
	"landfall/appliance/command/release"
	"landfall/appliance/command/replica"
	"landfall/appliance/command/sealedimages"
	"landfall/appliance/command/sealing"
	"landfall/appliance/command/service"
	"landfall/appliance/command/settings"
	"landfall/appliance/command/site"
	"landfall/appliance/command/state"
	"landfall/appliance/command/support"
	"landfall/appliance/command/trust"
	"landfall/appliance/command/upgrade"
	"landfall/appliance/config"
	"landfall/appliance/simulate/installer"
	"landfall/web"
)

// Execute runs the command in the arguments (without the program's name) and returns the exit code
// of the process; see package outcome. If the process was started as the
// openshift-install of a simulated release payload, Execute runs the stand-in (see
// installer.Main) and does not return.
//
// top has README.md and config.example.yaml, which the program shows.
func Execute(arguments []string, top fs.FS) int {
	installer.Main()
	ctx, release := interrupt.Context(context.Background(), func() { os.Exit(outcome.Interrupted) })
	defer release()
	root, started := newRoot(top)
	return execute(ctx, root, started, arguments, os.Stdout, os.Stderr)
}

func execute(ctx context.Context, root *cobra.Command, started *bool, arguments []string, out, errOut io.Writer) int {
	if len(arguments) > 0 && arguments[0] == "serve" {
		arguments = config.JoinBooleans(arguments)
	}
	root.SetArgs(arguments)
	root.SetOut(out)
	root.SetErr(errOut)
	called, err := root.ExecuteContextC(ctx)
	code, printed := outcome.Of(err)
	interrupted := *started && ctx.Err() != nil && code == outcome.Failure
	if interrupted {
		code = outcome.Interrupted
	}
	switch {
	case err == nil:
	case interrupted && outcome.IsCancellation(err):
		fmt.Fprintln(errOut, "landfall: interrupted")
	case !*started || code == outcome.Usage:
		code = outcome.Usage
		fmt.Fprintf(errOut, "landfall: %s; see %s --help\n", outcome.Line(err), called.CommandPath())
	case printed:
		fmt.Fprintf(errOut, "landfall: %s\n", outcome.Line(err))
	}
	return code
}

func usage(format string, arguments ...any) error { return outcome.Usagef(format, arguments...) }

// newRoot returns the root command. The returned flag becomes true when a command with valid
// arguments starts.
func newRoot(top fs.FS) (*cobra.Command, *bool) {
	started := new(bool)
	root := &cobra.Command{
		Use:               "landfall",
		Short:             "Install OpenShift clusters at sites without internet access",
		SilenceErrors:     true,
		SilenceUsage:      true,
		Version:           Version(),
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			err := checkFlagGroups(cmd)
			*started = err == nil
			return err
		},
	}
	importing := &cobra.Command{Use: "import",
		Short: "Import a cluster from the input of another installer or from a hub"}
	group(importing, abi.NewImport(), manifests.NewImportACM())
	exporting := &cobra.Command{Use: "export", Short: "Export a cluster for another installer or for a hub"}
	group(exporting, abi.NewExport(), manifests.NewExportACM())
	group(root, newServe(), newDemo(), newSimulate(), kubeconfig.New(), kubeconfig.NewCredentials(), rehearse.New(),
		newRelease(), newVersion(), importing, exporting, state.NewStatus(), state.NewDoctor(), manifests.NewApply(),
		manifests.NewDelete(), iso.New(), mirror.New(), courier.New(Version()), journal.New(Version()),
		ams.New(Version()), bmc.New(), hcp.New(), audit.New(), sealing.New(), support.New(Version()))
	group(root, api.New(), state.NewOverview(), cluster.New(), host.New(), infraenv.New(), image.New(), events.New(),
		events.NewLogs(), manifest.New(), network.New(), operator.New(), registry.New(), site.New(), manual.New(),
		renamed(cluster.NewFormerList(), "landfall cluster list"))
	group(root, check.New(), service.New(), upgrade.New(Version()), documents.New(top))
	group(root, append(backup.Commands(), replica.New(), replica.NewPromote(), fleet.New())...)
	group(root, trust.Commands(group)...)
	group(root, settings.Commands(group)...)
	machines := &cobra.Command{Use: "agent-tokens", Short: "Show, renew and revoke the tokens of machines"}
	group(machines, agenttokens.Commands()...)
	images := &cobra.Command{Use: "sealed-images", Short: "Make images without secrets, whose config machines fetch"}
	group(images, sealedimages.Commands()...)
	group(root, machines, images)
	groupAll(root)
	completeNames(root)
	explainArguments(root)
	checkHelp(root)
	return root, started
}

// checkHelp makes the help of an unknown command the error of that command.
func checkHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Args = func(_ *cobra.Command, arguments []string) error {
				found, rest, err := root.Find(arguments)
				if err == nil && len(rest) > 0 {
					err = found.ValidateArgs(rest)
				}
				return err
			}
		}
	}
}

func newRelease() *cobra.Command {
	cmd := &cobra.Command{Use: "release", Short: "Show and change the releases that may be used"}
	group(cmd, release.Commands()...)
	return cmd
}

// group adds subcommands to a command. The command itself prints its help, and an unknown
// subcommand is an error.
func group(parent *cobra.Command, commands ...*cobra.Command) {
	parent.AddCommand(commands...)
	parent.Args = func(_ *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return nil
		}
		if near := parent.SuggestionsFor(arguments[0]); len(near) > 0 {
			return fmt.Errorf("unknown command %q (did you mean %q?)", arguments[0], near[0])
		}
		return fmt.Errorf("unknown command %q", arguments[0])
	}
	parent.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	parent.SuggestionsMinimumDistance = 2
}

// groupAll makes groups of all commands that have subcommands and do nothing of their own.
func groupAll(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		if cmd.HasSubCommands() && cmd.RunE == nil {
			group(cmd)
		}
		groupAll(cmd)
	}
}

// newLogger returns a logger with the given configuration. Its lines contain the ID of their
// request. A reader of out that stands still delays nobody.
func newLogger(config config.Log, out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(config.Level)); err != nil {
		return nil, fmt.Errorf("read the log level: %w", err)
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: durationAsText}
	text := config.Format == "text" || config.Format == "auto" && output.OnTerminal(out)
	handler := func(out io.Writer) slog.Handler {
		if text {
			return slog.NewTextHandler(out, options)
		}
		return slog.NewJSONHandler(out, options)
	}
	lines := logwriter.New(out, clockwork.NewRealClock(), func(lines int) []byte {
		var line bytes.Buffer
		slog.New(handler(&line)).Error("Lines of the log were dropped, because nothing read them.", "lines", lines)
		return line.Bytes()
	})
	return slog.New(web.LogHandler(handler(lines))), nil
}

// durationAsText writes durations with their unit, such as 1.2s. JSON would have nanoseconds.
func durationAsText(_ []string, attribute slog.Attr) slog.Attr {
	if attribute.Value.Kind() == slog.KindDuration {
		attribute.Value = slog.StringValue(attribute.Value.Duration().String())
	}
	return attribute
}

// stoppedQuietly drops the error of a command that a signal stopped.
func stoppedQuietly(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
