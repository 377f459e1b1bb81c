package command

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/appliance/bmc"
	"landfall/appliance/command/outcome"
	"landfall/appliance/simulate/redfish"
	"landfall/store"
	"landfall/web"
	"landfall/web/console"
)

// bmcServers has no infra-envs.
type bmcServers struct{ *bmc.Manager }

// bmcSite implements bmc.Site with the given hosts.
type bmcSite []bmc.Host

func (bmcSite) ImageURL(context.Context, string, string) (string, error) { return "", nil }

func (s bmcSite) Hosts(fn func(bmc.Host) error) error {
	for _, host := range s {
		if err := fn(host); err != nil {
			return err
		}
	}
	return nil
}

func (bmcSite) Host(bmc.HostRef) (bmc.Host, bool, error) { return bmc.Host{}, false, nil }

func (bmcSite) ClusterName(id string) (string, error) { return id, nil }

func (bmcServers) InfraEnv(name string) (string, error) { return name, nil }

// landfallBMC returns a BMC manager that does not run, and a function that runs commands against
// the manager's API.
func landfallBMC(t *testing.T, hosts ...bmc.Host) (*bmc.Manager, func(arguments ...string) (int, string, string)) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	manager := bmc.New(bmc.Options{DB: db, Site: bmcSite(hosts), Clock: redfish.Accelerated(1000)})
	server := web.New(web.Options{})
	require.NoError(t, server.Register(console.BMCOperations(bmcServers{manager})...))
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	return manager, func(arguments ...string) (int, string, string) {
		var out, errOut bytes.Buffer
		code := run(t.Context(), append(append([]string{"bmc"}, arguments...), "--url", listening.URL), &out, &errOut)
		return code, out.String(), errOut.String()
	}
}

func TestBMCCommands(t *testing.T) {
	_, landfall := landfallBMC(t)
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("hunter2\n"), 0o600))
	code, out, errOut := landfall("add", "n1", "redfish://192.0.2.7", "--username", "root", "--password-file",
		password, "--infra-env", "site")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "State      registering")
	table := filepath.Join(t.TempDir(), "servers.csv")
	require.NoError(t, os.WriteFile(table, []byte("n2,192.0.2.8,root,x\nn1,192.0.2.9,root,x\n"), 0o600))
	code, out, _ = landfall("import", table, "--dry-run")
	require.Equal(t, outcome.Failure, code)
	require.Contains(t, out, "line 2: n1: A server with the name n1 already exists")
	require.Contains(t, out, "servers that would be added: 1, rows rejected: 1")
	code, out, _ = landfall("import", table)
	require.Equal(t, outcome.Failure, code)
	require.Contains(t, out, "servers added: 1")
	_, out, _ = landfall("list")
	require.Regexp(t, `(?m)^n1 +registering +unknown +- +redfish://192.0.2.7`, out)
	require.Regexp(t, `(?m)^n2 +registering`, out)
	code, _, errOut = landfall("add", "n3", "redfish://192.0.2.7", "--username", "root", "--password-file", password)
	require.Equal(t, outcome.Failure, code)
	require.Contains(t, errOut, "The server n3 would be the same machine as the server n1")
	for _, arguments := range [][]string{{"boot", "n1"}, {"power", "soft", "n1"}, {"eject", "n1"}, {"inspect", "n1"},
		{"show", "n1"}} {
		code, out, errOut := landfall(arguments...)
		require.Zero(t, code, errOut)
		require.Contains(t, out, "Queued action", "%v", arguments)
	}
	code, out, _ = landfall("log", "n1", "--json")
	require.Zero(t, code)
	require.Equal(t, "[]\n", out)
	code, out, errOut = landfall("remove", "n1", "--power-off", "--yes")
	require.Zero(t, code, errOut)
	require.Equal(t, "The server n1 is being removed from the appliance.\n", out)
	_, out, _ = landfall("list", "--json")
	require.Contains(t, out, `"state": "deleting"`)
	require.NotContains(t, out, "hunter2")
}

func TestBMCCommands_errors(t *testing.T) {
	_, landfall := landfallBMC(t)
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("hunter2"), 0o600))
	for _, c := range []struct {
		arguments []string
		code      int
		message   string
	}{
		{[]string{"show", "n9"}, outcome.Failure, "There is no BMC n9; landfall bmc list shows the existing ones."},
		{[]string{"add", "n1", "ipmi://192.0.2.7", "--username", "root", "--password-file", password}, outcome.Failure,
			"has the scheme ipmi, which is not supported"},
		{[]string{"add", "n1", "redfish://192.0.2.7", "--username", "root"}, outcome.Usage,
			"the password of root is missing; give --password-file FILE"},
		{[]string{"add", "n1", "redfish://192.0.2.7", "--password-file", "/none"}, outcome.Failure,
			"read --password-file: open /none: no such file or directory"},
		{[]string{"add", "n1"}, outcome.Usage, "ADDRESS is missing"},
		{[]string{"power", "explode", "n1"}, outcome.Usage,
			"expected on, off, soft (the operating system shuts down) or reset"},
		{[]string{"import", "/none.csv"}, outcome.Failure, "read the table: open /none.csv"},
	} {
		code, _, errOut := landfall(c.arguments...)
		require.Equal(t, c.code, code, "%v: %s", c.arguments, errOut)
		require.Contains(t, errOut, c.message)
	}
}

func TestBMCBoot_runningHost(t *testing.T) {
	manager, landfall := landfallBMC(t, bmc.Host{Name: "edge-0", ClusterID: "berlin", Status: "installed",
		MACs: []string{"52:54:00:00:00:07"}})
	_, err := manager.Ensure(t.Context(), "n1", bmc.Desired{Name: "n1", Address: "redfish://192.0.2.7",
		Username: "root", Password: "x", InfraEnvID: "i-1", BootMAC: "52:54:00:00:00:07"})
	require.NoError(t, err)
	code, _, errOut := landfall("boot", "n1")
	require.Equal(t, outcome.Failure, code)
	require.Contains(t, errOut, "The server n1 runs the host edge-0 of the cluster berlin, which is installed; a boot "+
		"from the image takes it out of its cluster.")
	require.Contains(t, errOut, "landfall bmc boot --force")
	code, out, errOut := landfall("boot", "n1", "--force")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "Queued action")
}

// runManager runs a manager until the test ends.
func runManager(t *testing.T, manager *bmc.Manager) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, manager.Run(ctx)) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func TestBMCBoot_waitEndsAtKnownFailure(t *testing.T) {
	profile, _ := redfish.ProfileByName("generic")
	controller := redfish.New(redfish.Options{Profile: profile, Username: "root", Password: "right", Dir: t.TempDir()})
	require.NoError(t, controller.Listen("127.0.0.1:0", nil))
	t.Cleanup(func() { require.NoError(t, controller.Close()) })
	manager, landfall := landfallBMC(t)
	runManager(t, manager)
	_, err := manager.Ensure(t.Context(), "n1", bmc.Desired{Name: "n1",
		Address: "redfish-virtualmedia+" + controller.URL(), Username: "root", Password: "wrong", InfraEnvID: "i-1"})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		server, err := manager.Server("n1")
		return err == nil && server.Error != nil
	}, time.Minute, time.Millisecond)
	code, _, errOut := landfall("boot", "n1", "--wait", "1h")
	require.Equal(t, outcome.Failure, code)
	require.Contains(t, errOut, `rejects the user name "root" with this password`)
	require.Contains(t, errOut, "The boot has not begun. The boot of n1 stays queued")
}

func TestBMCBoot_waitRunsOut(t *testing.T) {
	manager, landfall := landfallBMC(t) // it does not run
	_, err := manager.Ensure(t.Context(), "n1", bmc.Desired{Name: "n1", Address: "redfish://192.0.2.7",
		Username: "root", Password: "x", InfraEnvID: "i-1"})
	require.NoError(t, err)
	code, _, errOut := landfall("boot", "n1", "--wait", "300ms")
	require.Equal(t, outcome.Waiting, code)
	require.Contains(t, errOut, "The server was not booted within 300ms. The boot of n1 stays queued; landfall bmc "+
		"show n1 shows its progress.")
	require.NotContains(t, errOut, "reach")
}

// Somebody else powers the server off, or removes it, while the command waits.
func TestBMCBoot_waitForCanceledBoot(t *testing.T) {
	for name, cancel := range map[string]func(manager *bmc.Manager) error{
		"powered off": func(manager *bmc.Manager) error {
			_, err := manager.RequestAction(context.Background(), "n1", bmc.ActionPowerOff)
			return err
		},
		"removed": func(manager *bmc.Manager) error { return manager.Remove(context.Background(), "n1", false) },
	} {
		t.Run(name, func(t *testing.T) {
			manager, landfall := landfallBMC(t) // it does not run
			_, err := manager.Ensure(t.Context(), "n1", bmc.Desired{Name: "n1", Address: "redfish://192.0.2.7",
				Username: "root", Password: "x", InfraEnvID: "i-1"})
			require.NoError(t, err)
			var canceled sync.WaitGroup
			canceled.Go(func() {
				for {
					server, err := manager.Server("n1")
					if err != nil || server.Pending != nil {
						assert.NoError(t, errors.Join(err, cancel(manager)))
						return
					}
				}
			})
			code, _, errOut := landfall("boot", "n1", "--wait", "1m")
			canceled.Wait()
			require.Equal(t, outcome.Failure, code)
			require.Contains(t, errOut, "The boot of n1 was canceled by another action; landfall bmc show n1 shows "+
				"the server's history.")
		})
	}
}
