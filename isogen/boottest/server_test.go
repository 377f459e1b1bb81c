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

// Hardware of machines behind BMCs.
const (
	memoryMiB = 640
	diskBytes = 20 << 30 // a sparse file: few blocks are written
)

// processor has the features that OpenShift needs. Emulating it takes a third less time than
// emulating a processor with all features.
const processor = "Nehalem"

// Debian's firmware: its program, and the variables of a new machine.
const (
	firmwareCode      = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	firmwareVariables = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

// identity identifies a machine.
type identity struct{ name, mac, serial, uuid string }

// ending describes how a running machine ended.
type ending string

const (
	switchedOff ending = "the system powered it off"
	restarted   ending = "the system restarted it" // the emulator lets the BMC restart the machine
	stopped     ending = "the power was cut"
)

// emulator is a machine with a CD drive. The drive keeps its medium when the machine is powered on
// or off.
type emulator interface {
	// start powers the machine on. It boots from its CD if fromCD is set, otherwise from its disk.
	// The channel receives the ending once.
	start(fromCD bool) (<-chan ending, error)
	// stop powers off a running machine.
	stop() error
	// insert replaces the medium in the drive with an image; "" empties the drive.
	insert(image string) error
	// inserted returns the medium in the drive.
	inserted() (string, error)
	// shared is a directory with files that the emulator can read. console is the file with the
	// output of the serial line.
	shared() string
	console() string
}

// server is an emulated machine behind a simulated BMC.
type server struct {
	bmc     *redfish.BMC
	machine emulator
	t       *testing.T

	on      sync.Mutex // held while the machine is on
	watches sync.WaitGroup
	end     chan struct{}
	drive   sync.Mutex
	image   string // the medium in the drive
}

// newServer returns a machine that is off.
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

// load inserts the image that the BMC has downloaded, until the BMC ejects it.
func (s *server) load(image *redfish.Image) error {
	disc := image.Path + ".inserted"
	if err := os.Link(image.Path, disc); err != nil { // the BMC removes its own file later
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

// live runs the machine until the context ends or its system ends. When the context ends, the
// machine is powered off.
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

// inserted returns the content of the machine's drive.
func (s *server) inserted(t *testing.T) string {
	t.Helper()
	image, err := s.machine.inserted()
	require.NoError(t, err)
	return image
}

// console returns the output of the machine on its serial line.
func (s *server) console(t *testing.T) string {
	t.Helper()
	written, err := os.ReadFile(s.machine.console())
	if os.IsNotExist(err) {
		return "the machine was never on"
	}
	require.NoError(t, err)
	return strings.ReplaceAll(string(written), "\r", "")
}
