package upgrade

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// UnitName is the unit of the appliance.
const UnitName = "landfall.service"

// Unit is the service of systemd that runs the appliance.
type Unit struct {
	Program   string
	Arguments []string
	Packaged  bool // a package has installed it
	Active    bool
	run       func(ctx context.Context, arguments ...string) (string, error)
}

// FindUnit returns the unit of this machine, or nil if there is none.
func FindUnit(ctx context.Context) *Unit { return findUnit(ctx, systemctl) }

func systemctl(ctx context.Context, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "systemctl", arguments...)
	var text, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &failure
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("systemctl %s: %w: %s", strings.Join(arguments, " "), err,
			strings.TrimSpace(failure.String()))
	}
	return text.String(), nil
}

func findUnit(ctx context.Context, run func(context.Context, ...string) (string, error)) *Unit {
	text, err := run(ctx, "show", UnitName, "--property", "LoadState,ActiveState,FragmentPath,ExecStart")
	if err != nil {
		return nil // no systemd
	}
	properties := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			properties[name] = value
		}
	}
	unit := &Unit{run: run, Active: properties["ActiveState"] == "active"}
	// ExecStart={ path=/usr/bin/landfall ; argv[]=/usr/bin/landfall serve --config FILE ; …}
	for part := range strings.SplitSeq(properties["ExecStart"], ";") {
		part = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(part), "{"))
		if path, ok := strings.CutPrefix(part, "path="); ok {
			unit.Program = path
		}
		if arguments, ok := strings.CutPrefix(part, "argv[]="); ok {
			unit.Arguments = strings.Fields(arguments)
		}
	}
	if properties["LoadState"] != "loaded" || unit.Program == "" {
		return nil
	}
	path := properties["FragmentPath"]
	unit.Packaged = strings.HasPrefix(path, "/usr/lib/") || strings.HasPrefix(path, "/lib/")
	return unit
}

// Option returns the value of an option in the arguments of the unit, such as --config, or "".
func (u *Unit) Option(name string) string {
	for i, argument := range u.Arguments {
		if value, ok := strings.CutPrefix(argument, name+"="); ok {
			return value
		}
		if argument == name && i+1 < len(u.Arguments) {
			return u.Arguments[i+1]
		}
	}
	return ""
}

// Restart restarts the service.
func (u *Unit) Restart(ctx context.Context) error {
	_, err := u.run(ctx, "restart", UnitName)
	return err
}
