package siteservice

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/bmc"
	"landfall/appliance/discovery"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/siteservice/dhcpserver"
	"landfall/appliance/siteservice/tftpserver"
	"landfall/isogen"
	"landfall/store"
)

// files implements Images. installed is the MAC address of a machine that boots from its disk.
type files struct{ installed string }

func (files) NetworkBoot(context.Context, string, netip.Addr) (discovery.BootURLs, error) {
	return discovery.BootURLs{}, nil
}

func (f files) BootMenu(_ context.Context, infraEnvID, mac string, _ netip.Addr) ([]byte, error) {
	if mac == f.installed {
		return nil, fault.New(fault.NotFound, "The host is installed.")
	}
	return []byte("menu of " + infraEnvID + " for " + mac), nil
}

func (files) BootLoaders(context.Context, string) (*isogen.BootLoaders, error) {
	return &isogen.BootLoaders{First: "shimx64.efi", Files: map[string][]byte{"shimx64.efi": []byte("shim")}}, nil
}

// newBoots returns the network boot of a site with one infra-env and a known machine,
// 52:54:00:00:00:07. The client 192.0.2.50 is that machine; 192.0.2.66 is a stranger.
func newBoots(t *testing.T, configured DHCPSettings) (*boots, string) {
	t.Helper()
	b := newBench(t)
	id := strfmt.UUID(uuid.NewString())
	require.NoError(t, b.db.Update(t.Context(), func(tx *store.Tx) error {
		return record.InfraEnvs.Put(tx, id.String(), &record.InfraEnv{API: models.InfraEnv{ID: &id}})
	}))
	m := b.manager(t, Configured{DHCP: configured})
	m.Images = files{installed: "52:54:00:00:00:08"}
	m.Servers = func() ([]*bmc.Server, error) {
		return []*bmc.Server{{Desired: bmc.Desired{BootMAC: "52:54:00:00:00:07", InfraEnvID: id.String()}}}, nil
	}
	m.Neighbour = func(_ context.Context, address netip.Addr) (string, error) {
		machines := map[string]string{"192.0.2.50": "52:54:00:00:00:07", "192.0.2.66": "52:54:00:00:00:66"}
		return machines[address.String()], nil
	}
	return &boots{m: m}, id.String()
}

func TestOpen_filesOfMachines(t *testing.T) {
	loaders := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(loaders, "undionly.kpxe"), []byte("ipxe"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(loaders, ".hidden"), []byte("secret"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(loaders, "directory"), 0o700))
	const stranger = "192.0.2.66"
	for _, c := range []struct {
		name, file, client string
		knownOnly          bool
		want               string // "" for no file
	}{
		{"a loader by the path of DHCP", "ID/52-54-00-00-00-07/shimx64.efi", "", false, "shim"},
		{"a menu by the path of DHCP", "ID/52-54-00-00-00-07/grub.cfg", "", false, "menu of ID for 52:54:00:00:00:07"},
		{"the loader of a client", "EFI/SHIMX64.efi", "", false, "shim"},
		{"the menu of a client", "grub/grub.cfg", "", false, "menu of ID for 52:54:00:00:00:07"},
		{"the menu of a MAC address", "grub.cfg-01-52-54-00-00-00-09", "", false, "menu of ID for 52:54:00:00:00:09"},
		{"the menu of an installed host", "grub.cfg-01-52-54-00-00-00-08", "", false, diskMenu},
		{"a loader of the operator", "undionly.kpxe", "", false, "ipxe"},
		{"a hidden file", ".hidden", "", false, ""},
		{"a directory", "directory", "", false, ""},
		{"a file elsewhere", "../undionly.kpxe", "", false, ""},
		{"an unknown loader", "other.efi", "", false, ""},
		{"another kind of file", "vmlinuz", "", false, ""},
		{"a machine without a MAC address", "grub.cfg", "192.0.2.99", false, ""},
		{"a stranger", "grub.cfg", stranger, false, "menu of ID for 52:54:00:00:00:66"},
		{"a known machine", "grub.cfg", "", true, "menu of ID for 52:54:00:00:00:07"},
		{"a stranger among known machines", "grub.cfg", stranger, true, ""},
		{"a stranger's MAC address", "grub.cfg-01-52-54-00-00-00-66", "", true, ""},
		{"a stranger with the path of DHCP", "ID/52-54-00-00-00-66/grub.cfg", stranger, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, id := newBoots(t, DHCPSettings{Loaders: loaders, KnownOnly: c.knownOnly})
			withID := func(text string) string { return strings.ReplaceAll(text, "ID/", id+"/") }
			client := netip.MustParseAddr(cmp.Or(c.client, "192.0.2.50"))
			content, err := b.open(t.Context(), eth1("192.0.2.10/24"), client, withID(c.file))
			if c.want == "" {
				require.ErrorIs(t, err, tftpserver.ErrNotFound)
				return
			}
			require.NoError(t, err)
			require.Equal(t, strings.ReplaceAll(c.want, "ID", id), string(content))
		})
	}
}

// TestInfraEnvOf_damagedRows holds that damaged rows do not stop the network boot of other
// machines, and that an unknown machine does not boot another infra-env in place of a damaged one.
func TestInfraEnvOf_damagedRows(t *testing.T) {
	b, id := newBoots(t, DHCPSettings{})
	damage(t, b.m.DB, "hosts", id+"/"+uuid.NewString())
	infraEnvOf := func(mac string) (string, error) {
		t.Helper()
		parsed, err := net.ParseMAC(mac)
		require.NoError(t, err)
		return b.infraEnvOf(parsed, dhcpserver.X86)
	}
	const known, stranger = "52:54:00:00:00:07", "52:54:00:00:00:66"
	for _, mac := range []string{known, stranger} {
		found, err := infraEnvOf(mac)
		require.NoError(t, err)
		require.Equal(t, id, found)
	}
	damaged := uuid.NewString()
	damage(t, b.m.DB, "infra-envs", damaged)
	b.machines = nil // what was read before
	found, err := infraEnvOf(known)
	require.NoError(t, err)
	require.Equal(t, id, found)
	_, err = infraEnvOf(stranger)
	require.ErrorContains(t, err, damaged+" (damaged)")
	b.m.Configured.DHCP.InfraEnv = id
	found, err = infraEnvOf(stranger)
	require.NoError(t, err)
	require.Equal(t, id, found)
}

// TestBoot_installedHostOfAnotherInfraEnv holds that an installed machine boots from its disk,
// whichever infra-env is chosen for it since, until a later host registers from it.
func TestBoot_installedHostOfAnotherInfraEnv(t *testing.T) {
	const mac = "52:54:00:00:00:07"
	parsed, err := net.ParseMAC(mac)
	require.NoError(t, err)
	menus := []string{"grub.cfg", "ID/52-54-00-00-00-07/grub.cfg"}
	for name, c := range map[string]struct {
		statuses []string // of the hosts, in the order of their registration
		damaged  bool
		fromDisk bool
	}{
		"installed":                 {statuses: []string{"installed"}, fromDisk: true},
		"discovered":                {statuses: []string{"known"}},
		"discovered again":          {statuses: []string{"installed", "known"}},
		"installed again":           {statuses: []string{"error", "installed"}, fromDisk: true},
		"damaged":                   {statuses: []string{"known"}, damaged: true, fromDisk: true},
		"without a registered host": {},
	} {
		t.Run(name, func(t *testing.T) {
			b, id := newBoots(t, DHCPSettings{})
			b.m.CheckNetworkBoot = func(string, string) error { return nil }
			site := &bench{db: b.m.DB}
			for i, status := range c.statuses {
				key := site.addHost(t, uuid.NewString(), uuid.NewString(), "node", mac, "192.0.2.50/24")
				require.NoError(t, site.db.Update(t.Context(), func(tx *store.Tx) error {
					host, err := record.Hosts.Get(tx, key)
					host.API.Status, host.API.RegisteredAt = &status, strfmt.DateTime(time.Unix(int64(i), 0))
					return errors.Join(err, record.Hosts.Put(tx, key, host))
				}))
				if c.damaged {
					damage(t, site.db, "hosts", key)
				}
			}
			_, err := b.boot(t.Context(), dhcpserver.Machine{MAC: parsed, Architecture: dhcpserver.X86})
			require.Equal(t, c.fromDisk, errors.Is(err, dhcpserver.ErrFromDisk), "%v", err)
			for _, menu := range menus {
				content, err := b.open(t.Context(), eth1("192.0.2.10/24"), netip.MustParseAddr("192.0.2.50"),
					strings.ReplaceAll(menu, "ID", id))
				require.NoError(t, err)
				require.Equal(t, c.fromDisk, string(content) == diskMenu, "%s", content)
			}
		})
	}
}
