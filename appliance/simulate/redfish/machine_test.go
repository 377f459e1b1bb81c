package redfish

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestServer_machineFollowsPower boots a server whose machine is a separate program. The program
// receives the image's bytes, is notified when the image is removed, and reports its own end.
func TestServer_machineFollowsPower(t *testing.T) {
	image := make([]byte, 40<<10)
	copy(image[iso9660Offset:], iso9660Mark)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := t.TempDir() + "/disc.iso"
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Error(err)
		}
		http.ServeFile(w, r, path)
	}))
	defer site.Close()
	booted, disk := make(chan *Image), make(chan struct{})
	halted := make(chan struct{})
	profile, _ := ProfileByName("hpe-ilo6")
	b := New(Options{
		Profile: profile, Off: true, PowerDelay: time.Millisecond, Dir: t.TempDir(),
		Boot: func(ctx context.Context, image *Image) {
			booted <- image
			<-ctx.Done()
		},
		FromDisk: func(ctx context.Context) {
			close(disk)
			<-ctx.Done()
			close(halted)
		},
	})
	defer func() { require.NoError(t, b.Close()) }()
	require.Equal(t, "Off", b.Power())
	b.Insert(site.URL + "/disc.iso")
	func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Nil(t, b.setBoot(fields{"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once"}))
		require.Nil(t, b.reset("On"))
	}()

	up := <-booted
	content, err := os.ReadFile(up.Path)
	require.NoError(t, err)
	require.Equal(t, image, content)
	select {
	case <-up.Ejected:
		require.Fail(t, "the image is still in the drive")
	default:
	}
	func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, d := range b.drives {
			require.Nil(t, b.eject(d))
		}
	}()
	<-up.Ejected

	b.Reboot()
	<-disk
	require.Equal(t, "On", b.Power())
	b.Halt()
	<-halted
	require.Equal(t, "Off", b.Power())
	require.Equal(t, []Started{{From: "cd", Image: site.URL + "/disc.iso"}, {From: "disk"}}, b.Boots())
}
