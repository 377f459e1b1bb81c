package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"

	"landfall/appliance"
	"landfall/appliance/authority"
	"landfall/appliance/command/interrupt"
	"landfall/appliance/command/logwriter"
	"landfall/appliance/command/member"
	"landfall/appliance/command/output"
	"landfall/appliance/config"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/process"
	"landfall/appliance/profiling"
	"landfall/appliance/release"
	"landfall/appliance/servicemanager"
)

func newServe() *cobra.Command {
	var file string
	serve := &cobra.Command{
		Use:   "serve",
		Short: "Run the appliance",
		Long: "Run the appliance until it is interrupted. It serves the page and the APIs, and installs clusters.\n\n" +
			"Every key of the configuration file (landfall docs config prints it) is also available as a flag and as " +
			"an environment variable. SIGINT and SIGTERM stop the appliance; SIGHUP has no effect.\n" +
			"While clusters pull from the appliance's registry, SIGINT on a terminal asks first.",
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return usage("the configuration file is given by a flag: landfall serve --config %s", arguments[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := config.Load(file, os.Environ(), cmd.Flags())
			if err != nil {
				return err
			}
			// A terminal that closes, or a service manager that asks to reload, must not stop
			// installations. Changed certificates are reread without a signal.
			signal.Ignore(syscall.SIGHUP)
			defer signal.Reset(syscall.SIGHUP)
			defer logwriter.IgnoreSIGPIPE()()
			return runServe(cmd, config)
		},
	}
	serve.Flags().StringVar(&file, "config", os.Getenv(config.EnvPrefix+"CONFIG"),
		"configuration file (YAML), also $LANDFALL_CONFIG")
	config.AddFlags(serve.Flags())
	return serve
}

func runServe(cmd *cobra.Command, config config.Config) error {
	logger, err := newLogger(config.Log, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := process.ForbidCoreFiles(); err != nil {
		logger.Warn("A crash may write a core file, which would contain secrets in clear.", "error", err)
	}
	if os.Getenv("GOGC") == "" {
		defer process.TuneCollector()()
	}
	if os.Getenv("GOMAXPROCS") == "" {
		defer process.AddThreads()()
	}
	stop, err := serveProfiles(cmd.Context(), config.Profiling.Socket, logger)
	if err != nil {
		return err
	}
	defer stop()
	for changed := false; ; {
		state, err := fleet.ReadState(config.DataDir)
		if err != nil {
			return err
		}
		if state.HasLeft() && changed {
			fmt.Fprintln(cmd.OutOrStdout(), "This machine has left its fleet.")
			return nil
		}
		if state.Takes(config.Fleet.Enabled()) {
			err = runMember(cmd, config, logger)
		} else {
			err = runSingle(cmd, config, logger)
		}
		if changed = errors.Is(err, membership.ErrChanged); !changed {
			return err
		}
	}
}

// serveProfiles serves profiles of this process on a socket until stop is called, in each role of
// the machine. An empty path means that it serves none.
func serveProfiles(ctx context.Context, socket string, logger *slog.Logger) (stop func(), err error) {
	server, err := profiling.Listen(ctx, socket)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // also while the appliance stops
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Run(ctx); err != nil {
			logger.Error("Profiles are no longer served.", "error", err)
		}
	})
	return func() {
		cancel()
		serving.Wait()
	}, nil
}

// runSingle runs the appliance of a single machine.
func runSingle(cmd *cobra.Command, config config.Config, logger *slog.Logger) error {
	running, err := appliance.New(cmd.Context(), config, logger, Version())
	if err != nil {
		return stoppedQuietly(cmd.Context(), err)
	}
	code, err := running.SetupCode()
	if err != nil {
		return errors.Join(err, running.Close())
	}
	announce(cmd.OutOrStdout(), config, running, code)
	asks := leaving{dependents: running.Dependents, in: os.Stdin, out: cmd.ErrOrStderr(), log: logger,
		terminal: output.OnTerminal(os.Stdin) && output.OnTerminal(cmd.ErrOrStderr())}
	interrupt.Ask(cmd.Context(), asks.stops)
	ctx, cancel := context.WithCancel(cmd.Context())
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	background.Go(func() { running.KeepSmall(ctx, clockwork.NewRealClock()) })
	service := servicemanager.Service{Status: "Serving " + running.URLs()[0],
		Alive: servicemanager.AnswersAt(running.LocalURL() + "/livez"), Clock: clockwork.NewRealClock(), Logger: logger}
	background.Go(func() { service.Run(ctx) })
	return running.Run(cmd.Context())
}

// runMember runs the appliance as a member of a fleet.
func runMember(cmd *cobra.Command, config config.Config, logger *slog.Logger) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	return stoppedQuietly(ctx, member.Run(ctx, member.Options{Config: config, Logger: logger, Version: Version(),
		Listening: func(localURL string) {
			fmt.Fprintf(cmd.OutOrStdout(), "Landfall %s\n  member of a fleet; on this host %s\n", Version(), localURL)
			service := servicemanager.Service{Status: "Serving as a member of a fleet",
				Alive: servicemanager.AnswersAt(localURL + "/livez"), Clock: clockwork.NewRealClock(), Logger: logger}
			background.Go(func() { service.Run(ctx) })
		},
		Leading: func(running *appliance.Appliance) error {
			code, err := running.SetupCode()
			if err == nil {
				announce(cmd.OutOrStdout(), config, running, code)
			}
			return err
		},
	}))
}

func announce(out io.Writer, config config.Config, running *appliance.Appliance, setupCode string) {
	urls := running.URLs()
	fmt.Fprintf(out, "Landfall %s\n  page and API   %s\n", Version(), urls[0])
	if len(urls) > 1 {
		fmt.Fprintf(out, "  also at        %s\n", strings.Join(urls[1:], " "))
	}
	if fingerprint := running.AuthorityFingerprint(); fingerprint != "" {
		fmt.Fprintf(out, "  on this host   %s\n  authority      %s\n  its SHA-256    %s\n", running.LocalURL(),
			filepath.Join(config.DataDir, authority.FileName), fingerprint)
	}
	fmt.Fprint(out, hostsUse(config.URL, urls[0], os.Getenv(variableOfURL)))
	fmt.Fprintf(out, "  data           %s\n", config.DataDir)
	if reason := release.CannotRun(runtime.GOOS); reason != "" {
		fmt.Fprintf(out, "  installations  %s\n", reason)
	}
	if setupCode != "" {
		fmt.Fprintf(out, "  setup code     %s (the page asks for it once, to create the first administrator)\n",
			setupCode)
	}
}

// variableOfURL is the environment variable of the key url. Commands look for the appliance in it.
const variableOfURL = config.EnvPrefix + "URL"

// hostsUse returns the line about the URL of hosts. It is empty if a person has configured that URL
// on purpose; a variable may have been set for the commands only.
func hostsUse(configured []string, url, variable string) string {
	switch {
	case len(configured) == 0:
		return fmt.Sprintf("  hosts use      %s; to change it: landfall settings set --url-for-hosts URL\n", url)
	case strings.HasPrefix(variable, configured[0]):
		return fmt.Sprintf("  hosts use      %s, from the environment variable %s; if hosts can't reach it, start "+
			"without the variable\n", url, variableOfURL)
	}
	return ""
}
