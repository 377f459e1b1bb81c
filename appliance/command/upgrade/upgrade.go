// Package upgrade has the command that replaces the installed program.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"landfall/appliance/backup"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
	"landfall/appliance/config"
	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/keyring"
	"landfall/appliance/process"
	"landfall/appliance/upgrade"
	"landfall/store"
	"landfall/web/console"
)

type options struct {
	appliance          remote.Client
	version            string // of this program
	program, configure string
	dir, restart       string
	repeated           string // flags that find the same installation again
	proof              upgrade.Proof
	rollback, noBackup bool
	limit              time.Duration
	out                io.Writer
}

// New returns landfall upgrade of a program with the given version.
func New(version string) *cobra.Command {
	o := &options{version: version}
	cmd := &cobra.Command{
		Use:   "upgrade FILE",
		Short: "Replace the installed program by another version, with a way back",
		Long: "Replace the installed program by the one in FILE, on the appliance's machine. The command checks that " +
			"FILE is Landfall\nfor this platform and can use the data, backs the data up, replaces the program and " +
			"keeps the former one beside it\n(" + upgrade.PreviousSuffix + "), restarts the appliance, and waits " +
			"until it is ready. If it does not get ready, the former\nprogram is put back. Running installations go " +
			"on.\n\n" +
			"A service of systemd is restarted by systemd; --restart names the command of another service manager. " +
			"Without one,\nthe command says how to restart. A program of a deb or rpm package is upgraded by the " +
			"package.",
		Args: func(_ *cobra.Command, arguments []string) error {
			switch {
			case o.rollback && len(arguments) > 0:
				return errors.New("--rollback puts back the former program and takes no FILE")
			case !o.rollback && len(arguments) != 1:
				return errors.New("name the FILE with the new program, or give --rollback")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, arguments []string) error {
			o.out = cmd.OutOrStdout()
			o.repeated = repeated(cmd.Flags())
			return o.run(cmd.Context(), arguments, cmd.Flags().Changed("url"))
		},
	}
	o.appliance.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&o.program, "program", "", "installed program; default: that of the service, or this one")
	flags.StringVar(&o.configure, "config", "", "configuration file of the appliance; default: $LANDFALL_CONFIG, or "+
		"that of the service")
	flags.StringVar(&o.dir, "data-dir", "", "data directory; default: that of the configuration")
	flags.StringVar(&o.restart, "restart", "", "shell command that restarts the appliance")
	flags.DurationVar(&o.limit, "timeout", 5*time.Minute, "time for the appliance to get ready")
	flags.StringVar(&o.proof.SHA256, "sha256", "", "expected SHA-256 of FILE")
	flags.StringVar(&o.proof.Sums, "sums", "", "file with checksums that must contain that of FILE (SHA256SUMS)")
	flags.StringVar(&o.proof.Key, "key", "", "PEM file with the Ed25519 key of the signature of --sums "+
		"(SHA256SUMS.sig)")
	flags.BoolVar(&o.rollback, "rollback", false, "exchange the installed program with the former one")
	flags.BoolVar(&o.noBackup, "no-backup", false, "make no backup; a program that changes the data makes one anyway")
	return cmd
}

func (o *options) run(ctx context.Context, arguments []string, named bool) error {
	installed, err := o.installation(ctx, named)
	if err != nil {
		return err
	}
	if o.rollback {
		return installed.Rollback(ctx)
	}
	return installed.Upgrade(ctx, arguments[0], o.proof)
}

// installation finds the installed appliance. named reports whether the caller named its URL.
func (o *options) installation(ctx context.Context, named bool) (*upgrade.Installation, error) {
	unit := upgrade.FindUnit(ctx)
	if unit != nil && o.program == "" {
		o.program = unit.Program
	}
	if o.program == "" {
		own, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w; name the installed one with --program", err)
		}
		o.program = own
	}
	path, err := filepath.EvalSymlinks(o.program)
	if err != nil {
		return nil, fmt.Errorf("the installed program: %w; name it with --program", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if unit != nil && unit.Program != path {
		unit = nil // another program
	}
	if unit != nil && unit.Packaged {
		return nil, fmt.Errorf("a package has installed %s; install the new package instead, such as apt install "+
			"./landfall.deb", path)
	}
	settings, err := o.settings(unit)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(settings.DataDir); err != nil {
		return nil, fmt.Errorf("find the data directory: %w; name it with --data-dir, or the configuration with "+
			"--config", err)
	}
	ready, err := o.url(settings, named)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{}} // without a proxy, because the URL is of this machine
	if named {
		if client, err = o.appliance.HTTP(); err != nil {
			return nil, err
		}
	}
	installed := &upgrade.Installation{Program: path, DataDir: settings.DataDir, Limit: o.limit,
		Ready: upgrade.ReadyAt(ready, client), Clock: clockwork.NewRealClock(), Out: o.out}
	pid := holder(settings.DataDir)
	if !o.noBackup {
		installed.Backup = o.backup(ready, settings, pid > 0, named)
	}
	switch {
	case o.restart != "":
		installed.Restart = o.shell
	case unit != nil && unit.Active:
		installed.Restart = unit.Restart
	}
	installed.Command, installed.Flags = command(path, pid), o.repeated
	return installed, nil
}

func (o *options) settings(unit *upgrade.Unit) (config.Config, error) {
	file := o.configure
	if file == "" {
		file = os.Getenv(config.EnvPrefix + "CONFIG")
	}
	if file == "" && unit != nil {
		file = unit.Option("--config")
	}
	settings, err := config.Load(file, os.Environ(), nil)
	if err != nil {
		return settings, err
	}
	if unit != nil && o.dir == "" {
		o.dir = unit.Option("--data-dir")
	}
	if o.dir != "" {
		settings.DataDir = o.dir
	}
	return settings, nil
}

// url returns the URL of the appliance for programs on this machine.
func (o *options) url(settings config.Config, named bool) (string, error) {
	if named {
		return o.appliance.URL()
	}
	host, port, err := net.SplitHostPort(settings.Listen)
	if err != nil {
		return "", fmt.Errorf("the address listen of the configuration: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}).String(), nil
}

// holder returns the process that uses a data directory, or 0.
func holder(dir string) int {
	file, err := os.Open(filepath.Join(dir, "landfall.lock"))
	if err != nil {
		return 0
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		return 0 // the end of the file releases it
	}
	var process int
	if _, err := fmt.Fscanf(file, "pid %d since", &process); err != nil {
		return -1
	}
	return process
}

// command returns what a person types to restart the appliance.
func command(program string, process int) string {
	start := quote(program) + " serve"
	if process <= 0 {
		return start
	}
	if text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process), "cmdline")); err == nil {
		if words := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"); len(words) > 1 {
			start = quote(append([]string{program}, words[1:]...)...)
		}
	}
	return fmt.Sprintf("kill %d; then %s", process, start)
}

// quote returns words as a shell reads them.
func quote(words ...string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
	quoted := make([]string, len(words))
	for i, word := range words {
		if quoted[i] = word; word == "" || strings.Trim(word, plain) != "" {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// repeated returns the given flags that find the installation, each after a space.
func repeated(flags *pflag.FlagSet) string {
	var words strings.Builder
	for _, name := range []string{"program", "config", "data-dir", "restart", "url", "ca"} {
		if flag := flags.Lookup(name); flag.Changed {
			words.WriteString(" " + quote("--"+name, flag.Value.String()))
		}
	}
	return words.String()
}

func (o *options) shell(ctx context.Context) error {
	text, err := exec.CommandContext(ctx, "/bin/sh", "-c", o.restart).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", o.restart, err, strings.TrimSpace(string(text)))
	}
	return nil
}

// backup returns the function that backs up a running appliance over its API, or a stopped one from
// its data directory.
func (o *options) backup(address string, settings config.Config, running, named bool) func(context.Context,
	string) error {
	if !running {
		return func(ctx context.Context, path string) error { return o.offline(ctx, settings, path) }
	}
	client := &o.appliance
	if !named {
		client = remote.New(address, "")
	}
	return func(ctx context.Context, path string) error {
		response, err := client.Do(ctx, http.MethodGet, console.BackupRoute, nil, nil)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
			if err != nil {
				return err
			}
			return client.Refusal(http.MethodGet, console.BackupRoute, response, answer)
		}
		_, err = backup.WriteFile(path, response.Body)
		return err
	}
}

func (o *options) offline(ctx context.Context, settings config.Config, path string) (err error) {
	keys := keyring.New(settings.DataDir, settings.Seal.Options(nil))
	if _, err := os.Stat(filepath.Join(settings.DataDir, store.FileName)); err != nil {
		return outcome.Usagef("%s contains no data of an appliance; name its data directory with --data-dir",
			settings.DataDir)
	}
	switch err := fleet.CheckAlone(settings.DataDir); {
	case fault.KindOf(err) == fault.Conflict:
		return outcome.Usagef("%w", err) // the upgrade adds that it is possible without a backup
	case err != nil:
		return err
	}
	// The store makes files, which would belong to root.
	defer func() { err = errors.Join(err, process.GiveToOwner(settings.DataDir, settings.DataDir)) }()
	db, err := store.Open(ctx, settings.DataDir, store.Options{Keys: keys.Open})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	source := &backup.Source{DB: db, Dir: settings.DataDir, Program: o.version, Now: time.Now,
		SealedWith: string(keys.With()), DataKey: keys.Content, ExportKeys: keys.Export}
	_, err = source.WriteFile(ctx, path)
	return err
}
