package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"landfall/appliance"
	"landfall/appliance/command/hcp"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
	"landfall/appliance/config"
	"landfall/appliance/simulate"
	"landfall/web/console"
	hostedapi "landfall/web/hosted"
)

// Speed factors of the demo's hosts: for users who watch the page, and for --exit.
const (
	watchedSpeed   = 40
	unwatchedSpeed = 1000
)

// demo is a simulated site in one process: an archive of oc-mirror, an appliance that serves it,
// and hosts.
type demo struct {
	listen, dataDir, kubeconfig string
	hosts, bmcs                 int
	speed                       float64
	exit                        bool
	hosted                      bool
	busy                        string // port of the hosted APIs that another program uses
	faults                      string
	operators                   []string
	parsedFaults                simulate.Faults
	timeout                     time.Duration
	log                         config.Log
	out, errOut                 io.Writer
}

func newDemo() *cobra.Command {
	d := &demo{log: config.Log{Format: "auto"}}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Rehearse an installation: run an appliance with a simulated site",
		Long: "Run an appliance with a simulated site in one process: an archive of oc-mirror with a small release " +
			"payload, which the\nappliance's registry serves, and hosts that boot the discovery ISO and are " +
			"installed as a cluster. The demo contains no\nOpenShift software and uses no network outside of " +
			"this machine.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.out, d.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if !cmd.Flags().Changed("speed") && d.exit {
				d.speed = unwatchedSpeed
			}
			if d.hosts != 1 && d.hosts < 3 || d.speed <= 0 {
				return usage("--hosts %d or --speed %g is invalid; use 1 host (a single node) or at least 3, and a "+
					"speed above zero", d.hosts, d.speed)
			}
			if d.bmcs < 0 || d.bmcs > 50 {
				return usage("--bmcs %d is invalid; use 0 to 50", d.bmcs)
			}
			var err error
			if d.parsedFaults, err = simulate.ParseFaults(d.faults); err != nil {
				return usage("--faults: %w", err)
			}
			if _, err := os.Stat(filepath.Dir(d.kubeconfig)); err != nil {
				return fmt.Errorf("write the kubeconfig: %w; choose another file with --kubeconfig", err)
			}
			err = d.run(cmd.Context())
			if d.exit {
				return err
			}
			return stoppedQuietly(cmd.Context(), err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&d.listen, "listen", "127.0.0.1:8090", "address and port to serve HTTP on")
	flags.StringVar(&d.dataDir, "data-dir", "",
		"directory of the appliance's data, which is kept; default: a temporary directory")
	flags.StringVar(&d.kubeconfig, "kubeconfig", "",
		"file to write the new cluster's kubeconfig to; default: demo-kubeconfig with --exit, else none")
	flags.IntVar(&d.hosts, "hosts", 3,
		"number of hosts: three control-plane hosts and workers, or 1 for a single node")
	flags.IntVar(&d.bmcs, "bmcs", 3,
		"number of additional simulated servers with BMCs, which nobody has booted; none with --exit")
	flags.Float64Var(&d.speed, "speed", watchedSpeed,
		fmt.Sprintf("speed factor of the hosts compared to real ones; default with --exit: %d", unwatchedSpeed))
	flags.StringVar(&d.faults, "faults", "", faultsUsage())
	flags.StringSliceVar(&d.operators, "operators", nil,
		"operators to install with the cluster, separated by commas: odf,cnv")
	flags.BoolVar(&d.hosted, "hosted", false, "bring up a hosted cluster on a simulated management cluster instead")
	flags.BoolVar(&d.exit, "exit", false, "end when the cluster is installed or the installation has failed")
	flags.DurationVar(&d.timeout, "timeout", 10*time.Minute, "with --exit: time limit of the demo")
	flags.StringVar(&d.log.Level, "log-level", "error", "minimum level of log lines: debug, info, warn, error")
	return cmd
}

func (d *demo) run(ctx context.Context) (err error) {
	logger, err := newLogger(d.log, d.errOut)
	if err != nil {
		return err
	}
	directory := d.dataDir
	if directory == "" {
		if directory, err = os.MkdirTemp("", "landfall-demo-"); err != nil {
			return fmt.Errorf("create a directory for the demo's data: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	}
	if d.exit {
		if d.kubeconfig == "" {
			d.kubeconfig = "demo-kubeconfig"
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.timeout,
			fmt.Errorf("the demo did not end within %s; see --timeout", d.timeout))
		defer cancel()
	}
	err = d.runIn(ctx, directory, logger)
	if cause := context.Cause(ctx); d.exit && cause != nil && err != nil {
		return fmt.Errorf("%w (%s)", cause, outcome.Line(err))
	}
	return err
}

func (d *demo) runIn(ctx context.Context, directory string, logger *slog.Logger) (err error) {
	site, err := newDemoSite(ctx, directory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.spokes.Close()) }()
	return d.runSite(ctx, site, logger)
}

// runSite runs the appliance and the installation. With --exit, the appliance stops after the
// installation; otherwise the user stops it.
func (d *demo) runSite(ctx context.Context, site *demoSite, logger *slog.Logger) error {
	site.config.Listen = d.listen
	if d.hosted {
		// Another program may use the ports. Only the commands for engineers need the usual ones.
		// The demo asks for the broker's port, so any free one will do.
		d.busy = hostedapi.UsualPorts().Busy(ctx)
		site.config.TLS.Enabled, site.config.Hosted = true, config.Hosted{Enabled: true, DebugListen: d.busy == "",
			BrokerListen: "127.0.0.1:0"}
	}
	running, err := appliance.New(ctx, site.config, logger, Version())
	if err != nil {
		return err
	}
	appCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return running.Run(appCtx) })
	if err = awaitStick(groupCtx, clientAt(running.LocalURL())); err == nil {
		d.print("Landfall %s runs a demo installation without OpenShift software.\n  page   %s\n  data   %s\n"+
			"  stick  %s\n", Version(), running.LocalURL(), site.config.DataDir, site.stick)
		d.play(groupCtx, group, stop, site, running.LocalURL(), logger)
	} else {
		stop()
		if !d.exit && ctx.Err() != nil {
			err = nil // interrupted
		}
	}
	if ended := group.Wait(); ended != nil {
		err = ended
	}
	return err
}

// play starts what happens at the site: the installation, the kubelets and the BMCs. With --exit,
// it stops the appliance after the installation.
func (d *demo) play(ctx context.Context, group *errgroup.Group, stop func(), site *demoSite, url string,
	logger *slog.Logger) {
	group.Go(func() error {
		defer stop()
		err := d.bringUp(ctx, site, url, logger)
		if err != nil && d.exit {
			return err
		}
		if err != nil && ctx.Err() == nil {
			failed := "The installation failed"
			if d.hosted {
				failed = "The hosted cluster did not come up"
			}
			d.print("%s: %s\nThe appliance continues to run. See its page for details; stop it "+
				"with Ctrl-C.\n", failed, outcome.Line(err))
		}
		if !d.exit {
			<-ctx.Done()
		}
		return nil
	})
	if !d.exit {
		// The page shows the checklist of a new site until the doctor has checked it.
		group.Go(func() error {
			err := clientAt(url).call(ctx, http.MethodGet, console.DoctorRoute, nil, nil)
			if err != nil && ctx.Err() == nil {
				d.print("The doctor could not check the site: %s\n", outcome.Line(err))
			}
			return nil
		})
		kubelets := &simulate.Kubelets{URL: url, Spokes: site.spokes, Speed: d.speed, Logger: logger}
		group.Go(func() error { return kubelets.Run(ctx) })
	}
	if !d.exit && d.bmcs > 0 {
		group.Go(func() error {
			return d.serveBMCs(ctx, site, url, filepath.Dir(site.config.DataDir), logger)
		})
	}
}

// bringUp installs the demo's cluster, or brings up a hosted cluster.
func (d *demo) bringUp(ctx context.Context, site *demoSite, url string, logger *slog.Logger) error {
	if !d.hosted {
		return d.install(ctx, site, url, logger)
	}
	return (&hcp.Demo{Client: remote.At(url), Out: d.out, Exit: d.exit, Busy: d.busy}).Run(ctx)
}

func (d *demo) print(format string, args ...any) { fmt.Fprintf(d.out, format, args...) }
