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

// The stand-in for openshift-install
//
// The real openshift-install comes in a release payload and cannot be carried by a program of ours.
// The payloads that this package makes hold a stand-in: a launcher by which whoever starts it plays
// openshift-install itself (installerstamp.go). It is no installer, and no cluster comes of its
// certificates; but it takes the same commands, environment and files as the real one, refuses what
// that refuses in the same form, and leaves the same files with content of the same shape. What it
// cannot show is that the real program of some version accepts an install-config: it knows field
// names from the documents only.
//
// installer.go has its commands, installerconfig.go the install-config, installermanifests.go and
// installerignition.go what it writes, installercerts.go the certificates.

// installerName is the program's name, and by which the launcher tells Main what to be.
const installerName = "openshift-install"

// Environment variables that openshift-install reads.
const (
	envReleaseImage = "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
	envInvoker      = "OPENSHIFT_INSTALL_INVOKER"
	envBootstrapIP  = "OPENSHIFT_INSTALL_BOOTSTRAP_NODE_IP"
)

// Main makes the process the stand-in for openshift-install, and ends it, when it was started by a
// payload's launcher. Otherwise it does nothing. A program that runs the openshift-install of a
// payload of ours (see PushPayload) calls it before anything else.
func Main() {
	if len(os.Args) > 2 && os.Args[0] == launcherProgram && os.Args[1] == installerName {
		// os.Exit waits a second for reports of races in programs that are built to find them.
		syscall.Exit(runInstaller(os.Args[2], os.Args[3:], os.Environ(), os.Stdout, os.Stderr))
	}
}

// runInstaller is the stand-in for openshift-install: version, create manifests, create
// ignition-configs and create single-node-ignition-config, each with --dir. The file at path has
// the stamp. It gives the exit code: 0, or 1 with a line level=fatal msg="…" on stderr.
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

// releaseImage is the image the cluster is to run: what the environment says, else what the program
// was stamped with.
func (in *run) releaseImage() string {
	image := in.env[envReleaseImage]
	if image == "" {
		return in.stamp.image
	}
	in.log.Warn("Found override for release image (" + image + "). Please be warned, this is not advised")
	return image
}

// createManifests is the first step: it consumes install-config.yaml.
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

// createIgnition is the second step: it consumes the manifests that the first one left, with what
// was changed and added since. As with the real program it can also be the only one, from an
// install-config.
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

// readManifests reads what lies in the two manifest folders, by name from --dir.
func (in *run) readManifests() (map[string][]byte, error) {
	found := map[string][]byte{}
	for _, folder := range []string{"manifests", "openshift"} {
		entries, err := os.ReadDir(in.path(folder))
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("failed to fetch Common Manifests: %s is missing; run create manifests first",
				in.path(folder))
		}
		if err != nil {
			return nil, err
		}
		in.log.Info("Consuming " + folder + " from target directory")
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			name := folder + "/" + e.Name()
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

// logrusStyle writes levels as the real program's logger does and leaves out the time.
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
