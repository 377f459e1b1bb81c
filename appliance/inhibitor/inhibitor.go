// Package inhibitor keeps this machine awake while clusters are installed, and notices when it has
// slept. A laptop that sleeps interrupts the pulls of all nodes.
package inhibitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/presence"
	"landfall/appliance/engine/record"
	"landfall/store"
)

const (
	// interval is the time between two looks at the clusters and the clock.
	interval = 10 * time.Second
	// slept is the jump of the clock from which the machine counts as having slept.
	slept = time.Minute
)

// Command is the program that keeps the machine awake until its input ends: that of systemd.
func Command() []string {
	return []string{"systemd-inhibit", "--what=sleep:idle:handle-lid-switch", "--who=landfall",
		"--why=A cluster is being installed", "--mode=block", "cat"}
}

// Options configures [New].
type Options struct {
	// Installing reports whether a cluster is being installed.
	Installing func() (bool, error)
	// Woke is called after the machine has slept, or its clock was set, by so much.
	Woke func(ctx context.Context, by time.Duration)
	// Jump returns how far the clock has jumped since the last call; nil for a
	// [presence.ClockWatch]. A clock of a test can't jump.
	Jump    func(now time.Time) time.Duration
	Command []string
	Clock   clockwork.Clock
	Logger  *slog.Logger
}

// Inhibitor keeps the machine awake.
type Inhibitor struct {
	Options
	held   *hold
	failed bool // the program does not work here; the log says so once
}

// hold is the running program.
type hold struct {
	input io.Closer
	ended chan error
}

// New returns an inhibitor that does nothing before Run.
func New(options Options) *Inhibitor {
	if options.Jump == nil {
		options.Jump = presence.NewClockWatch(presence.MaxTolerance).Jump
	}
	return &Inhibitor{Options: options}
}

// Of returns the inhibitor for the clusters in the store, with systemd's program.
func Of(db *store.DB, woke func(context.Context), clock clockwork.Clock, logger *slog.Logger) *Inhibitor {
	return New(Options{Installing: func() (bool, error) { return Installing(db) },
		Woke:    func(ctx context.Context, _ time.Duration) { woke(ctx) },
		Command: Command(), Clock: clock, Logger: logger})
}

// Run keeps the machine awake while clusters are installed, until the context ends.
func (i *Inhibitor) Run(ctx context.Context) error {
	ticker := i.Clock.NewTicker(interval)
	defer ticker.Stop()
	defer i.release()
	for {
		if err := i.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.Chan():
		}
	}
}

func (i *Inhibitor) look(ctx context.Context) error {
	if by := i.Jump(i.Clock.Now()); by.Abs() >= slept {
		i.Logger.Warn("The machine slept, or its clock was set. The nodes continue the pulls that were interrupted.",
			"by", by.Round(time.Second))
		i.Woke(ctx, by)
	}
	installing, err := i.Installing()
	switch {
	case err != nil:
		return err
	case !installing:
		i.release()
		i.failed = false
	case i.held == nil && !i.failed:
		i.hold()
	case i.held != nil:
		select {
		case err := <-i.held.ended:
			i.held = nil
			i.fail(err)
		default:
		}
	}
	return nil
}

// hold starts the program.
func (i *Inhibitor) hold() {
	command := exec.Command(i.Command[0], i.Command[1:]...)
	// Ctrl+C goes to the whole process group, and the appliance may go on after it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	input, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		i.fail(err)
		return
	}
	i.held = &hold{input: input, ended: make(chan error, 1)}
	go func(ended chan<- error) { // ends with the input, which release closes
		err := command.Wait()
		ended <- errors.Join(err, errors.New(strings.TrimSpace(output.String())))
	}(i.held.ended)
	i.Logger.Info("The machine is kept awake while a cluster is installed.")
}

func (i *Inhibitor) fail(err error) {
	i.failed = true
	i.Logger.Warn("The machine can't be kept from sleeping while a cluster is installed. Switch off sleep in its "+
		"settings, and keep the lid open.", "command", i.Command[0], "error", err)
}

// release ends the program.
func (i *Inhibitor) release() {
	if i.held == nil {
		return
	}
	_ = i.held.input.Close() // the program has ended if this fails
	<-i.held.ended
	i.held = nil
}

// installing are the states of clusters whose nodes must not lose the appliance.
func installing() []string {
	return []string{models.ClusterStatusPreparingForInstallation, models.ClusterStatusInstalling,
		models.ClusterStatusInstallingPendingUserAction, models.ClusterStatusFinalizing}
}

// Installing reports whether a cluster in the store is being installed.
func Installing(db *store.DB) (found bool, err error) {
	err = db.View(func(tx *store.Tx) error {
		return record.ClusterSummaries.Each(tx, "", func(_ string, row *record.ClusterSummary) error {
			if found = slices.Contains(installing(), row.API.Status); found {
				return store.ErrStop
			}
			return nil
		})
	})
	if err != nil {
		return false, fmt.Errorf("read which clusters are being installed: %w", err)
	}
	return found, nil
}
