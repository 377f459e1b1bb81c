//go:build networkmanager

// Package networkmanagertest tests the keyfiles of package ignition with Debian's NetworkManager.
// It tests how a real nmcli reads them (this file), whether that matches the meaning of random
// descriptions (meant_test.go), and which addresses a real NetworkManager configures
// (namespace_test.go, if the machine allows it).
package networkmanagertest

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"landfall/ignition"
)

// profile is a connection: values by "section.key".
type profile map[string]string

// read parses a keyfile.
func read(keyfile []byte) profile {
	p, section := make(profile), ""
	for line := range strings.Lines(string(keyfile)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
		} else if key, value, ok := strings.Cut(line, "="); ok {
			p[section+"."+key] = value
		}
	}
	return p
}

// understood returns the profile that nmcli reads from a keyfile, in the form in which
// NetworkManager would write it, without ignored settings.
func understood(keyfile []byte) (profile, error) {
	// This command has no effect, because all our files have this priority.
	cmd := exec.Command("nmcli", "--offline", "connection", "modify", "connection.autoconnect-priority", "1")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.Stdin = bytes.NewReader(keyfile)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("nmcli: %w: %s", err, stderr.String())
	}
	return read(out), nil
}

// defaults are values that NetworkManager omits when it writes a profile: nm-settings-keyfile(5).
var defaults = profile{
	"connection.autoconnect": "true", "bond-port.queue-id": "0",
	"ipv4.may-fail": "true", "ipv6.may-fail": "true", "ipv4.dhcp-send-hostname": "true",
	"ipv6.dhcp-send-hostname": "true",
	"ipv4.ignore-auto-dns":    "false", "ipv4.ignore-auto-routes": "false", "ipv4.never-default": "false",
	"ipv6.ignore-auto-dns": "false", "ipv6.ignore-auto-routes": "false", "ipv6.never-default": "false",
	"ethernet.auto-negotiate": "false",
	"bridge.ageing-time":      "300", "bridge.forward-delay": "15", "bridge.hello-time": "2", "bridge.max-age": "20",
	"bridge.priority": "32768",
	"bridge.stp":      "true", "bridge.vlan-filtering": "false", "bridge.vlan-default-pvid": "1",
	"bridge.vlan-protocol":      "802.1Q",
	"bridge.group-forward-mask": "0", "bridge.multicast-snooping": "true", "bridge.multicast-router": "auto",
	"bridge.multicast-hash-max": "4096",
	"bridge.multicast-querier":  "false", "bridge.multicast-query-use-ifaddr": "false",
	"bridge.multicast-last-member-count":   "2",
	"bridge.multicast-startup-query-count": "2", "bridge.multicast-last-member-interval": "100",
	"bridge.multicast-membership-interval": "26000",
	"bridge.multicast-querier-interval":    "25500", "bridge.multicast-query-interval": "12500",
	"bridge.multicast-query-response-interval": "1000",
	"bridge.multicast-startup-query-interval":  "3125",
	"bridge-port.hairpin-mode":                 "false", "bridge-port.path-cost": "100", "bridge-port.priority": "32",
}

// written returns a profile in the form in which NetworkManager writes it: without defaults, and
// with lists in its order.
func (p profile) written() profile {
	out := make(profile, len(p))
	for key, value := range p {
		switch {
		case defaults[key] == value:
			continue
		case strings.HasSuffix(key, "_options"):
			options := strings.Split(value, ",")
			slices.Sort(options)
			value = strings.Join(options, ",")
		case key == "bridge-port.vlans":
			vlans := strings.Split(value, ", ")
			slices.SortFunc(vlans, func(a, b string) int { return number(a) - number(b) })
			value = strings.Join(vlans, ",")
		}
		out[key] = value
	}
	return out
}

// number returns the number at the start of a text.
func number(text string) int {
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// difference returns the differences between two profiles by key, or "".
func difference(want, got profile) string {
	var b strings.Builder
	keys := slices.Sorted(maps.Keys(want))
	for key := range got {
		if _, ok := want[key]; !ok {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		if want[key] != got[key] {
			fmt.Fprintf(&b, "  %s: meant %q, understood %q\n", key, want[key], got[key])
		}
	}
	return b.String()
}

// keyfiles returns the files of one host, by interface. Releases before 4.18 support no other form.
func keyfiles(host ignition.HostNetwork) (map[string][]byte, error) {
	files, err := ignition.NetworkFiles([]ignition.HostNetwork{host}, "4.17")
	if err != nil {
		return nil, err
	}
	byName := make(map[string][]byte)
	for _, f := range files {
		if name, ok := strings.CutSuffix(path.Base(f.Path), ".nmconnection"); ok {
			byName[name] = f.Data
		}
	}
	return byName, nil
}

// all calls do n times, in parallel on all cores.
func all(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	require.NoError(t, group.Wait())
}

// NetworkManager must lose no setting in the keyfiles of all examples.
func TestKeyfiles_networkManagerReadsDescriptionsFromPractice(t *testing.T) {
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA is not set")
	}
	var paths []string
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "nmstate"), func(path string, d fs.DirEntry,
		err error) error {
		if strings.HasSuffix(path, ".yml") {
			paths = append(paths, path)
		}
		return err
	}))
	require.NotEmpty(t, paths)
	nics := []ignition.NetworkInterface{
		{MAC: "52:54:00:00:00:01", Name: "eth1"}, {MAC: "52:54:00:00:00:02", Name: "eth2"},
		{MAC: "52:54:00:00:00:03", Name: "eth0"},
	}
	converted := make([]bool, len(paths))
	all(t, len(paths), func(i int) error {
		text, err := os.ReadFile(paths[i])
		if err != nil {
			return err
		}
		files, err := keyfiles(ignition.HostNetwork{YAML: string(text), Interfaces: nics})
		if err != nil {
			return nil // the errors are in the golden file of package ignition
		}
		converted[i] = true
		for name, keyfile := range files {
			got, err := understood(keyfile)
			if err != nil {
				return fmt.Errorf("%s, %s: %w\n%s", paths[i], name, err, keyfile)
			}
			if d := difference(read(keyfile).written(), got); d != "" {
				return fmt.Errorf("%s, %s:\n%s", paths[i], name, d)
			}
		}
		return nil
	})
	converted = slices.DeleteFunc(converted, func(ok bool) bool { return !ok })
	require.Greater(t, len(converted), 15)
}
