//go:build boot

package boottest

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
)

// What machines behind BMCs have.
const (
	memoryMiB = 640
	diskBytes = 20 << 30 // of which next to nothing is ever written
)

// processor has what OpenShift needs and costs a third less to emulate than one that has all.
const processor = "Nehalem"

// Where Debian's firmware is: its program, and the variables of a machine that is new.
const (
	firmwareCode      = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	firmwareVariables = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

// identity is who a machine is.
type identity struct{ name, mac, serial, uuid string }

// ending is how a machine that was on came to be off.
type ending string

const (
	switchedOff ending = "its system switched it off"
	restarted   ending = "its system restarted it" // which whoever emulates it leaves to the BMC
	stopped     ending = "its power was taken away"
)

// emulator has a machine, with a CD drive that keeps what is in it whether the machine is on or
// off.
type emulator interface {
	// start switches the machine on. It boots from its CD, or else from its disk, and how it ends
	// comes once on the channel.
	start(fromCD bool) (<-chan ending, error)
	// stop takes the power away from a machine that is on.
	stop() error
	// insert puts an image into the drive in the place of what is in it; "" leaves it empty.
	insert(image string) error
	// inserted is what is in the drive.
	inserted() (string, error)
	// shared is a directory with files that the emulator can read, console the file of what the
	// machine writes to its serial line.
	shared() string
	console() string
}

// server is an emulated machine behind a BMC's stand-in.
type server struct {
	bmc     *redfish.BMC
	machine emulator
	t       *testing.T

	on      sync.Mutex // held while the machine is on
	watches sync.WaitGroup
	end     chan struct{}
	drive   sync.Mutex
	image   string // that is in the drive
}

// newServer is a machine that is off.
func newServer(t *testing.T, m identity) *server {
	t.Helper()
	profile, ok := redfish.ProfileByName("hpe-ilo6")
	require.True(t, ok)
	s := &server{t: t, end: make(chan struct{}), machine: newEmulator(t, m)}
	s.bmc = redfish.New(redfish.Options{
		Profile: profile, Username: "root", Password: "calvin", Serial: m.serial, UUID: m.uuid, MACs: []string{m.mac},
		Off:        true,
		PowerDelay: 200 * time.Millisecond, Dir: s.machine.shared(),
		Boot: func(ctx context.Context, image *redfish.Image) {
			if err := s.load(image); err != nil {
				t.Errorf("insert %s: %v", image.URL, err)
				return
			}
			s.live(ctx, true)
		},
		FromDisk: func(ctx context.Context) { s.live(ctx, false) },
	})
	require.NoError(t, s.bmc.Listen("127.0.0.1:0", nil))
	t.Cleanup(func() {
		require.NoError(t, s.bmc.Close())
		close(s.end)
		s.watches.Wait()
		if t.Failed() {
			t.Logf("the console of %s:\n%s", m.name, s.console(t))
		}
	})
	return s
}

// load puts what the BMC fetched into the machine's drive, until the BMC ejects it.
func (s *server) load(image *redfish.Image) error {
	disc := image.Path + ".inserted"
	if err := os.Link(image.Path, disc); err != nil { // the BMC removes its own
		return err
	}
	s.drive.Lock()
	defer s.drive.Unlock()
	if err := s.machine.insert(disc); err != nil {
		return err
	}
	s.image = disc
	s.watches.Go(func() {
		select {
		case <-image.Ejected:
		case <-s.end:
			return
		}
		s.drive.Lock()
		defer s.drive.Unlock()
		if s.image != disc {
			return
		}
		if err := s.machine.insert(""); err != nil {
			s.t.Errorf("eject %s: %v", image.URL, err)
		}
		s.image = ""
	})
	return nil
}

// live is the machine on, until the context takes its power away or its system ends.
func (s *server) live(ctx context.Context, fromCD bool) {
	s.on.Lock()
	defer s.on.Unlock()
	if ctx.Err() != nil {
		return
	}
	ended, err := s.machine.start(fromCD)
	if err != nil {
		s.t.Errorf("start the machine: %v", err)
		return
	}
	select {
	case <-ctx.Done():
		if err := s.machine.stop(); err != nil {
			s.t.Errorf("stop the machine: %v", err)
		}
		<-ended
	case how := <-ended:
		if how == restarted {
			s.bmc.Reboot()
		} else {
			s.bmc.Halt()
		}
	}
}

// inserted is what is in the machine's drive.
func (s *server) inserted(t *testing.T) string {
	t.Helper()
	image, err := s.machine.inserted()
	require.NoError(t, err)
	return image
}

// console is what the machine wrote to its serial line.
func (s *server) console(t *testing.T) string {
	t.Helper()
	written, err := os.ReadFile(s.machine.console())
	if os.IsNotExist(err) {
		return "it was never on"
	}
	require.NoError(t, err)
	return strings.ReplaceAll(string(written), "\r", "")
}
