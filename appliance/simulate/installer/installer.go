// Package installer is a stand-in for openshift-install.
//
// The real openshift-install comes in a release payload and cannot be distributed with this
// program. Simulated payloads contain a launcher instead, which runs the calling program as
// openshift-install (launcher.go). The stand-in installs nothing. It accepts the same commands,
// environment and files as the real program, rejects the same input in the same format, and writes
// the same files with the same structure. It cannot show that a version of the real program accepts
// an install-config, because its field names come from the documentation only.
//
// installer.go contains the commands, config.go and checks.go the install-config, manifests.go and
// ignition.go the output.
//
// Design: docs/design.md#repeatable-preparations.
package installer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// installerName is the name of the program. The launcher passes it to Main.
const installerName = "openshift-install"

// Environment variables of openshift-install.
const (
	envReleaseImage = "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
	envInvoker      = "OPENSHIFT_INSTALL_INVOKER"
	envBootstrapIP  = "OPENSHIFT_INSTALL_BOOTSTRAP_NODE_IP"
)

// Main runs the stand-in and exits, if a payload's launcher started the process. Otherwise it does
// nothing. A program that runs the openshift-install of a simulated payload must call Main first.
func Main() {
	if len(os.Args) > 2 && os.Args[0] == launcherProgram && os.Args[1] == installerName {
		// With the race detector, os.Exit would wait a second for race reports.
		syscall.Exit(runInstaller(os.Args[2], os.Args[3:], os.Environ(), os.Stdout, os.Stderr))
	}
}

// runInstaller runs the commands version, create manifests, create ignition-configs and create
// single-node-ignition-config, each with --dir. The file at path contains the stamp. The exit code
// is 0, or 1 with a line level=fatal msg="…" on stderr.
func runInstaller(path string, args []string, env []string, stdout, stderr io.Writer) int {
	in := &run{env: map[string]string{}, stdout: stdout}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok {
			in.env[name] = value
		}
	}
	in.log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{ReplaceAttr: logrusStyle}))
	file, err := os.ReadFile(path)
	if err != nil {
		in.log.Log(context.Background(), levelFatal, err.Error())
		return 1
	}
	in.stamp = stampOf(string(file))
	root := in.commands()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.Execute(); err != nil {
		in.log.Log(context.Background(), levelFatal, err.Error())
		return 1
	}
	return 0
}

// run is one run of the stand-in.
type run struct {
	dir    string
	env    map[string]string
	stamp  releaseStamp
	stdout io.Writer
	log    *slog.Logger
}

func (in *run) commands() *cobra.Command {
	root := &cobra.Command{Use: installerName, Short: "Stand-in for openshift-install", SilenceErrors: true,
		SilenceUsage: true}
	root.PersistentFlags().StringVar(&in.dir, "dir", ".", "assets directory")
	root.PersistentFlags().String("log-level", "info", "log level")
	create := &cobra.Command{Use: "create", Short: "Create part of a cluster",
		RunE: func(cmd *cobra.Command, args []string) error {
			return fmt.Errorf("create: unknown target %q; this stand-in has manifests, ignition-configs and "+
				"single-node-ignition-config", args)
		}}
	create.AddCommand(
		&cobra.Command{Use: "manifests", Args: cobra.NoArgs, RunE: func(*cobra.Command,
			[]string) error {
			return in.createManifests()
		}},
		&cobra.Command{Use: "ignition-configs", Args: cobra.NoArgs, RunE: func(*cobra.Command,
			[]string) error {
			return in.createIgnition(false)
		}},
		&cobra.Command{Use: "single-node-ignition-config", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return in.createIgnition(true) }},
	)
	root.AddCommand(create, &cobra.Command{Use: "version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return in.version() }})
	return root
}

func (in *run) version() error {
	_, err := fmt.Fprintf(in.stdout,
		"openshift-install %s\nbuilt from commit %040d\nrelease image %s\nrelease architecture %s\n",
		in.stamp.version, 0, in.releaseImage(), in.stamp.architecture)
	return err
}

// releaseImage returns the release image from the environment or, if it is not set there, from the
// stamp.
func (in *run) releaseImage() string {
	image := in.env[envReleaseImage]
	if image == "" {
		return in.stamp.image
	}
	in.log.Warn("Found override for release image (" + image + "). Please be warned, this is not advised")
	return image
}

// createManifests is the first step. It reads and removes install-config.yaml.
func (in *run) createManifests() error {
	state, err := in.loadState()
	if err != nil {
		return err
	}
	consumed := false
	raw, err := os.ReadFile(in.path("install-config.yaml"))
	switch {
	case err == nil:
		in.log.Info("Consuming Install Config from target directory")
		consumed = true
		if state, err = newInstallState(raw, in.release()); err != nil {
			return fmt.Errorf("failed to fetch Master Machines: failed to load asset \"Install Config\": failed to "+
				"create install config: %w", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("failed to load asset \"Install Config\": %w", err)
	case state == nil:
		return fmt.Errorf("failed to fetch Master Machines: failed to load asset \"Install Config\": %s holds "+
			"neither install-config.yaml nor a state file", in.dir)
	}
	manifests, err := in.manifests(state)
	if err != nil {
		return err
	}
	if err := in.writeAll(manifests); err != nil {
		return err
	}
	if err := in.saveState(state); err != nil {
		return err
	}
	if consumed {
		if err := os.Remove(in.path("install-config.yaml")); err != nil {
			return err
		}
	}
	in.log.Info(fmt.Sprintf("Manifests created in: %s and %s", in.path("manifests"), in.path("openshift")))
	return nil
}

// createIgnition is the second step. It reads and removes the manifests of the first step,
// including later changes. Like the real program, it can also start from an install-config.
func (in *run) createIgnition(singleNode bool) error {
	if _, err := os.Stat(in.path("install-config.yaml")); err == nil {
		if err := in.createManifests(); err != nil {
			return err
		}
	}
	state, err := in.loadState()
	if err != nil {
		return err
	}
	if state == nil {
		return fmt.Errorf("failed to fetch Bootstrap Ignition Config: failed to load asset \"Install Config\": %s "+
			"holds no state file of create manifests", in.dir)
	}
	if err := state.config.validateTarget(singleNode); err != nil {
		return fmt.Errorf("failed to fetch Bootstrap Ignition Config: failed to load asset \"Install Config\": "+
			"invalid \"install-config.yaml\" file: %w", err)
	}
	manifests, err := in.readManifests()
	if err != nil {
		return err
	}
	files, err := in.ignitionFiles(state, manifests, singleNode)
	if err != nil {
		return err
	}
	if err := in.writeAll(files); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(in.path("manifests")), os.RemoveAll(in.path("openshift")),
		in.saveState(state)); err != nil {
		return err
	}
	in.log.Info("Ignition-Configs created in: " + in.dir + " and " + in.path("auth"))
	return nil
}

// readManifests reads the two manifest directories, by name relative to --dir.
func (in *run) readManifests() (map[string][]byte, error) {
	found := map[string][]byte{}
	for _, dir := range []string{"manifests", "openshift"} {
		entries, err := os.ReadDir(in.path(dir))
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("failed to fetch Common Manifests: %s is missing; run create manifests first",
				in.path(dir))
		}
		if err != nil {
			return nil, err
		}
		in.log.Info("Consuming " + dir + " from target directory")
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			name := dir + "/" + e.Name()
			if found[name], err = os.ReadFile(in.path(name)); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func (in *run) writeAll(files map[string][]byte) error {
	for name, data := range files {
		path := in.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o640); err != nil {
			return err
		}
	}
	return nil
}

func (in *run) path(name string) string {
	return filepath.Join(in.dir, filepath.FromSlash(name))
}

// levelFatal is above slog's own levels, as in the real program's log.
const levelFatal = slog.LevelError + 4

// logrusStyle formats levels like the real program's logger and omits the time.
func logrusStyle(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
		return a
	case a.Key == slog.TimeKey:
		return slog.Attr{}
	case a.Key == slog.LevelKey:
		level, ok := a.Value.Any().(slog.Level)
		if !ok {
			return a
		}
		text := map[slog.Level]string{slog.LevelWarn: "warning", levelFatal: "fatal"}[level]
		if text == "" {
			text = strings.ToLower(level.String())
		}
		return slog.String(slog.LevelKey, text)
	}
	return a
}
