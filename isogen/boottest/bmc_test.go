//go:build boot

package boottest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/bmc"
	"landfall/appliance/simulate/redfish"
	"landfall/isogen"
	"landfall/store"
)

// imagePath is a short URL's, as BMCs are given.
const imagePath = "/i/abcdefghijklmnop.iso"

// oneImage is a site with one image and no hosts.
type oneImage string

func (i oneImage) ImageURL(context.Context, string, string) (string, error) { return string(i), nil }
func (oneImage) Hosts(func(bmc.Host) error) error                           { return nil }
func (oneImage) Host(bmc.HostRef) (bmc.Host, bool, error)                   { return bmc.Host{}, false, nil }

// TestAMachineBootsOverItsBMC boots an emulated machine by Redfish and virtual media: the BMC's stand-in fetches the image by
// ranges, and what it fetched is what the machine comes up from.
func TestAMachineBootsOverItsBMC(t *testing.T) {
	base, err := isogen.Open(buildLiveISO(t, noise(1<<20, 3)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, base.Close()) })
	payload := isogen.Payload{Ignition: discoveryConfig(40_000), Files: []isogen.File{keyfile}}
	site := newSite(t, base)
	site.serve(t, imagePath, must(base.Full(payload))(t))

	booted, done := make(chan string), make(chan struct{})
	profile, _ := redfish.ProfileByName("hpe-ilo6")
	stand := redfish.New(redfish.Options{
		Profile: profile, Username: "root", Password: "secret", PowerDelay: time.Second, Dir: t.TempDir(),
		Boot: func(ctx context.Context, image *redfish.Image) {
			select {
			case booted <- image.Path:
				<-done // the disc stays while the machine is up
			case <-ctx.Done():
			}
		},
	})
	require.NoError(t, stand.Listen("127.0.0.1:0", nil))
	t.Cleanup(func() { require.NoError(t, stand.Close()) })

	db, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	manager := bmc.New(bmc.Options{DB: db, Site: oneImage(site.local + imagePath)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := manager.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	_, err = manager.Ensure(ctx, "server", bmc.Desired{
		Name: "server", Owner: "this test", Address: "redfish-virtualmedia+" + stand.URL(), Username: "root", Password: "secret", InfraEnvID: "any", Boot: true,
	})
	require.NoError(t, err)

	var medium string
	select {
	case medium = <-booted:
	case <-time.After(bootLimit):
		server, err := manager.Server("server")
		require.NoError(t, err)
		require.Fail(t, "the machine was not switched on", "%+v", server)
	}
	defer close(done)
	requireFound(t, machine{uefi: true, medium: medium}.boot(t), payload)
	require.Equal(t, []redfish.Started{{From: "cd", Image: site.local + imagePath}}, stand.Boots())
}
