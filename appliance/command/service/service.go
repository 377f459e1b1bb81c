// Package service has the commands that run the appliance as a service of systemd on a machine
// without a package manager. The packages contain the same files.
package service

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/durable"
)

//go:embed files
var files embed.FS

// packaged is the program in the unit of the packages.
const packaged = "/usr/bin/landfall"

// installed are the files of a service that this package writes, and their sources. The program and
// the configuration are not among them.
var installed = map[string]string{
	"/etc/systemd/system/landfall.service": "landfall.service",
	"/etc/systemd/system/landfall.socket":  "landfall.socket",
	"/etc/sysusers.d/landfall.conf":        "landfall.sysusers",
}

const (
	configuration = "/etc/landfall/config.yaml"
	dataDir       = "/var/lib/landfall"
)

// order is the order of the files in outputs.
var order = []string{"/etc/systemd/system/landfall.service", "/etc/systemd/system/landfall.socket",
	"/etc/sysusers.d/landfall.conf"}

// service is a service below a root directory.
type service struct {
	root    string // "/" or the root of another system
	program string // path below root
	now     bool
	run     func(ctx context.Context, name string, arguments ...string) (string, error)
	out     io.Writer
}

// New returns landfall service.
func New() *cobra.Command {
	s := &service{run: output}
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Run the appliance as a service of systemd, where no package is installed",
		Long: "Run the appliance as a service of systemd on a machine without a package manager. The unit and its\n" +
			"restrictions are those of the deb and rpm packages; use a package where one can be installed.",
	}
	cmd.PersistentFlags().StringVar(&s.root, "root", "/",
		"root directory of another system, whose systemd is not called")
	install := &cobra.Command{
		Use:   "install",
		Short: "Install this program as a service, or replace an older one",
		Long: "Copy this program, write the units, the user and, if there is none, the configuration. A second call " +
			"replaces the\nprogram and the units by those of this program, and restarts a running service.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.with(cmd).install(cmd.Context()) },
	}
	install.Flags().StringVar(&s.program, "program", "/usr/local/bin/landfall", "where the program is installed")
	install.Flags().BoolVar(&s.now, "now", false, "start the service, and start it at each boot")
	remove := &cobra.Command{
		Use:   "remove",
		Short: "Stop and remove the service; keep its configuration and data",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return s.with(cmd).remove(cmd.Context()) },
	}
	status := &cobra.Command{
		Use:   "status",
		Short: "Show whether the service is installed, current and running",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return s.with(cmd).status(cmd.Context()) },
	}
	cmd.AddCommand(install, remove, status)
	return cmd
}

func (s *service) with(cmd *cobra.Command) *service {
	s.out = cmd.OutOrStdout()
	return s
}

// output runs a program and returns its output. The error contains its error output.
func output(ctx context.Context, name string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, arguments...)
	var text, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &failure
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(text.String()), fmt.Errorf("%s %s: %w%s", name, strings.Join(arguments, " "), err,
			prefixed(failure.String()))
	}
	return strings.TrimSpace(text.String()), nil
}

func prefixed(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ": " + text
}

func (s *service) path(name string) string { return filepath.Join(s.root, name) }

// here reports whether the service is for the running system.
func (s *service) here() bool { return filepath.Clean(s.root) == "/" }

// check returns an error if the service cannot be changed.
func (s *service) check() error {
	if !s.here() {
		return nil
	}
	if runtime.GOOS != "linux" {
		return errors.New("a service needs systemd, which only Linux has; run landfall serve --data-dir DIR in a " +
			"terminal, or as an agent of launchd")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return errors.New("this machine does not run systemd; start landfall serve --config FILE with its service " +
			"manager, or give the root of another system with --root")
	}
	if os.Geteuid() != 0 {
		return errors.New("only root can change the services of this machine; use sudo")
	}
	return nil
}

// ofPackage returns the unit of an installed package, or "".
func (s *service) ofPackage() string {
	for _, dir := range []string{"/usr/lib/systemd/system", "/lib/systemd/system"} {
		if _, err := os.Stat(s.path(filepath.Join(dir, "landfall.service"))); err == nil {
			return filepath.Join(dir, "landfall.service")
		}
	}
	return ""
}

// content returns the content of a file of the service, with the path of the program.
func content(source, program string) ([]byte, error) {
	text, err := files.ReadFile("files/" + source)
	if err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(text, []byte(packaged+" "), []byte(program+" ")), nil
}

func (s *service) install(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	if unit := s.ofPackage(); unit != "" {
		return fmt.Errorf("a package has installed %s; update the package instead, or remove it first", unit)
	}
	if !filepath.IsAbs(s.program) || strings.ContainsAny(s.program, " \t\n%\\\"'") {
		return fmt.Errorf("--program is %q; give an absolute path without spaces, quotes and percent signs", s.program)
	}
	if err := s.copyProgram(); err != nil {
		return err
	}
	for _, name := range order {
		text, err := content(installed[name], s.program)
		if err != nil {
			return err
		}
		if err := s.write(name, text); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(s.path(configuration)); errors.Is(err, fs.ErrNotExist) {
		text, err := content("config.yaml", s.program)
		if err != nil {
			return err
		}
		if err := s.write(configuration, text); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(s.out, "kept     %s\n", configuration)
	}
	if !s.here() {
		return nil
	}
	return s.activate(ctx)
}

// activate makes systemd use the written files.
func (s *service) activate(ctx context.Context) error {
	commands := [][]string{{"systemd-sysusers", "landfall.conf"}, {"systemctl", "daemon-reload"}}
	if s.now {
		commands = append(commands, []string{"systemctl", "enable", "landfall.socket", "landfall.service"},
			[]string{"systemctl", "stop", "landfall.service"}, // a socket can't be started while its service runs
			[]string{"systemctl", "start", "landfall.socket", "landfall.service"})
	} else {
		commands = append(commands, []string{"systemctl", "try-restart", "landfall.service"})
	}
	for _, command := range commands {
		if _, err := s.run(ctx, command[0], command[1:]...); err != nil {
			return fmt.Errorf("activate the service: %w", err)
		}
	}
	if s.now {
		fmt.Fprintln(s.out, "started; its setup code: journalctl -u landfall -g 'setup code'")
	} else {
		fmt.Fprintln(s.out, "start it: systemctl enable --now landfall.socket landfall.service")
	}
	return nil
}

func (s *service) write(name string, text []byte) error {
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create the directory of %s: %w", name, err)
	}
	if err := durable.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	fmt.Fprintf(s.out, "wrote    %s\n", name)
	return nil
}

// copyProgram copies the running program. A service that runs keeps the old one until its restart.
func (s *service) copyProgram() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	path := s.path(s.program)
	if same(self, path) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create the directory of %s: %w", s.program, err)
	}
	source, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	defer source.Close()
	if err := replace(path, source); err != nil {
		return fmt.Errorf("write %s: %w", s.program, err)
	}
	fmt.Fprintf(s.out, "wrote    %s\n", s.program)
	return nil
}

func same(one, other string) bool {
	first, err := os.Stat(one)
	if err != nil {
		return false
	}
	second, err := os.Stat(other)
	return err == nil && os.SameFile(first, second)
}

// replace writes a program under a temporary name and renames it.
func replace(path string, source io.Reader) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = io.Copy(file, source)
	if err = cmp.Or(err, file.Chmod(0o755), file.Sync()); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func (s *service) remove(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	program := s.programOfUnit()
	if program == "" {
		if unit := s.ofPackage(); unit != "" {
			return fmt.Errorf("a package has installed %s; remove the package instead", unit)
		}
		return errors.New("no service is installed by landfall service install")
	}
	if s.here() {
		if _, err := s.run(ctx, "systemctl", "disable", "--now", "landfall.socket", "landfall.service"); err != nil {
			return fmt.Errorf("stop the service: %w", err)
		}
	}
	for _, name := range append([]string{program}, order...) {
		err := os.Remove(s.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		fmt.Fprintf(s.out, "removed  %s\n", name)
	}
	if s.here() {
		if _, err := s.run(ctx, "systemctl", "daemon-reload"); err != nil {
			return fmt.Errorf("reload systemd: %w", err)
		}
	}
	fmt.Fprintf(s.out, "kept     %s, %s and the user landfall\n", configuration, dataDir)
	return nil
}

// programOfUnit returns the program in the written unit, or "".
func (s *service) programOfUnit() string {
	text, err := os.ReadFile(s.path(order[0]))
	if err != nil {
		return ""
	}
	_, rest, found := strings.Cut(string(text), "\nExecStart=")
	if !found {
		return ""
	}
	program, _, _ := strings.Cut(rest, " ")
	return program
}

func (s *service) status(ctx context.Context) error {
	row := func(name, text string) { fmt.Fprintf(s.out, "%-10s %s\n", name, text) }
	program := s.programOfUnit()
	switch unit := s.ofPackage(); {
	case unit != "":
		row("installed", "by a package ("+unit+")")
		program = packaged
	case program != "":
		row("installed", "by landfall service install")
	default:
		row("installed", "no; landfall service install installs it")
		return nil
	}
	if s.here() {
		row("program", s.versionOf(ctx, program))
	} else {
		row("program", program)
	}
	if s.ofPackage() == "" {
		changed, err := s.changed(program)
		if err != nil {
			return err
		}
		if len(changed) == 0 {
			row("units", "those of this program")
		} else {
			row("units", "different from this program's: "+strings.Join(changed, ", ")+
				"; landfall service install replaces them")
		}
	}
	if !s.here() || runtime.GOOS != "linux" {
		return nil
	}
	for _, unit := range []string{"landfall.service", "landfall.socket"} {
		// Both commands exit with an error for units that are not enabled or not active.
		enabled, _ := s.run(ctx, "systemctl", "is-enabled", unit)
		active, _ := s.run(ctx, "systemctl", "is-active", unit)
		row(strings.TrimPrefix(unit, "landfall."), cmp.Or(active, "unknown")+", "+cmp.Or(enabled, "unknown"))
	}
	return nil
}

// changed returns the files that differ from those of this program.
func (s *service) changed(program string) ([]string, error) {
	var changed []string
	for _, name := range order {
		wanted, err := content(installed[name], program)
		if err != nil {
			return nil, err
		}
		held, err := os.ReadFile(s.path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if !bytes.Equal(held, wanted) {
			changed = append(changed, name)
		}
	}
	return changed, nil
}

func (s *service) versionOf(ctx context.Context, program string) string {
	text, err := s.run(ctx, program, "version", "--json")
	var held struct{ Version string }
	if err == nil {
		err = json.Unmarshal([]byte(text), &held)
	}
	if err != nil {
		return program + " (its version can't be read)"
	}
	return program + " " + held.Version
}
