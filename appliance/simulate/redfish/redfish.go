// Package redfish simulates the management controllers (BMCs) of servers, with the profiles of
// vendors. A BMC speaks Redfish, downloads images over HTTP when they are inserted, takes seconds
// for power transitions, and boots its server according to the boot override. profile.go contains
// the differences between vendors and the faults.
package redfish

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// Options describes a BMC and its server.
type Options struct {
	Profile  Profile
	Faults   []Fault
	Username string
	Password string
	// Serial, UUID and MACs identify the server.
	Serial, UUID string
	MACs         []string
	// Off makes the server start powered off. By default, it is on.
	Off bool
	// PowerDelay is the duration of a power transition; 0 means three seconds.
	PowerDelay time.Duration
	// Boot, if set, is called with the downloaded image when the server boots from the virtual CD
	// or by HTTP. Its context ends when the server is powered off or restarted.
	Boot func(ctx context.Context, image *Image)
	// FromDisk, if set, is called when the server boots from its disk. Its context ends like that
	// of Boot.
	FromDisk func(ctx context.Context)
	// Dir contains downloaded images while they are booted; "" means the system's directory for
	// temporary files.
	Dir string
	// HTTP downloads the images; nil means a client that trusts the system's CAs.
	HTTP   *http.Client
	Clock  clockwork.Clock // nil means the real clock
	Logger *slog.Logger    // nil discards the log
}

// Started is a boot of the server.
type Started struct {
	From  string // cd, http, disk or physical-cd
	Image string // URL
}

// BMC is a management controller with its server.
type BMC struct {
	options Options
	clock   clockwork.Clock
	log     *slog.Logger
	client  *http.Client
	faults  map[Fault]bool

	lifetime context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
	server   *http.Server
	address  string

	mu             sync.Mutex
	power          string // On, Off, PoweringOn or PoweringOff
	moves          int    // number of power transitions; a superseded transition has no effect
	since          time.Time
	boot           map[string]string // Target, Enabled, Mode, HttpBootUri
	dellBoot       map[string]string
	drives         map[string]*drive
	sessions       map[string]int // token -> remaining requests; negative: no limit
	nextID         int
	tasks          map[string]*task
	versions       map[string]int // versions of resources, for their ETags
	counts         map[string]int // occurrences of each fault
	started        []Started
	machine        context.CancelFunc // ends the server's running system
	requests       []string
	tokens         []string
	mostSessions   int       // maximum number of simultaneous sessions
	unpoweredUntil time.Time // until this time, the BMC has no power
}

// drive is a virtual media device with its content.
type drive struct {
	MediaDevice
	image, shown string        // shown is reported for some time after the eject: see StaleInserted
	stale        time.Time     // until this time, shown is reported
	kept         bool          // EjectKeeps has occurred
	out          chan struct{} // closed when the image is removed
}

// load inserts an image into the drive.
func (d *drive) load(image string) {
	d.unload()
	d.image, d.kept, d.out = image, false, make(chan struct{})
}

// unload removes the image from the drive.
func (d *drive) unload() {
	if d.image != "" {
		close(d.out)
	}
	d.image = ""
}

type task struct {
	ends  time.Time
	fails bool
}

// New returns a BMC. Its server is on, unless Options.Off is set.
func New(options Options) *BMC {
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.HTTP == nil {
		options.HTTP = &http.Client{}
	}
	if options.PowerDelay == 0 {
		options.PowerDelay = 3 * time.Second
	}
	b := &BMC{
		options: options, clock: options.Clock, log: options.Logger, client: options.HTTP, faults: map[Fault]bool{},
		power: "On", boot: map[string]string{"Target": "None", "Enabled": "Disabled", "Mode": "UEFI"},
		dellBoot: map[string]string{},
		drives:   map[string]*drive{}, sessions: map[string]int{}, tasks: map[string]*task{},
		versions: map[string]int{},
		counts:   map[string]int{},
	}
	for _, fault := range options.Faults {
		b.faults[fault] = true
	}
	for _, device := range options.Profile.MediaDevices {
		b.drives[device.ID] = &drive{MediaDevice: device}
	}
	if options.Off {
		b.power = "Off"
	}
	b.lifetime, b.end = context.WithCancel(context.Background())
	return b
}

func (b *BMC) has(fault Fault) bool { return b.faults[fault] }

// Listen serves at an address until Close. 127.0.0.1:0 means any port of this machine. A nil
// certificate means plain HTTP.
func (b *BMC) Listen(address string, certificate *tls.Certificate) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("start a simulated BMC: %w", err)
	}
	scheme := "http"
	if certificate != nil {
		scheme = "https"
		config := &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
		if b.has(TLS12) {
			config.MaxVersion = tls.VersionTLS12
		}
		listener = tls.NewListener(listener, config)
	}
	b.address = scheme + "://" + listener.Addr().String()
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler,
		slog.LevelError)}
	b.running.Go(func() {
		if err := b.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			b.log.Error("A simulated BMC stopped with an error.", "error", err)
		}
	})
	return nil
}

// URL returns the BMC's URL with its port.
func (b *BMC) URL() string { return b.address }

// Close stops the BMC, the server and its running system.
func (b *BMC) Close() error {
	b.end()
	b.mu.Lock()
	b.moves++
	b.mu.Unlock()
	var err error
	if b.server != nil {
		err = b.server.Close()
	}
	b.running.Wait()
	return err
}

// Power returns the server's power state in Redfish's terms.
func (b *BMC) Power() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.power
}

// Boots returns all boots of the server.
func (b *BMC) Boots() []Started {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Started(nil), b.started...)
}

// Inserted returns the URL of the image in the first full drive, or "".
func (b *BMC) Inserted() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, device := range b.options.Profile.MediaDevices {
		if d := b.drives[device.ID]; d.image != "" {
			return d.image
		}
	}
	return ""
}

// HTTPBootURI returns the URL of UEFI HTTP boot, or "".
func (b *BMC) HTTPBootURI() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.boot["HttpBootUri"]
}

// Insert inserts an image into the first drive that accepts it, like a user on the BMC's web page.
func (b *BMC) Insert(image string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, device := range b.options.Profile.MediaDevices {
		if d := b.drives[device.ID]; !device.Internal && device.MediaTypes[0] != "Floppy" {
			d.load(image)
			return
		}
	}
}

// Sessions returns the number of open sessions.
func (b *BMC) Sessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sessions)
}

// Tokens returns all session tokens that were ever issued.
func (b *BMC) Tokens() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.tokens...)
}

// MostSessions returns the maximum number of simultaneous sessions.
func (b *BMC) MostSessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mostSessions
}

// Requests returns the methods and paths of all requests.
func (b *BMC) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.requests...)
}

// Unplug removes the power of the BMC and of the server temporarily.
func (b *BMC) Unplug(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unplug(d)
}

func (b *BMC) unplug(d time.Duration) {
	b.unpoweredUntil = b.clock.Now().Add(d)
	b.stop()
	b.moves++
	b.power = "Off"
	b.sessions = map[string]int{}
	for _, d := range b.drives {
		d.unload() // the BMC loses its virtual media with its power
	}
	b.boot["Target"], b.boot["Enabled"] = "None", "Disabled"
}

// stop ends the server's running system. The caller holds the mutex.
func (b *BMC) stop() {
	if b.machine != nil {
		b.machine()
		b.machine = nil
	}
}

// move changes the power state after a delay. The caller holds the mutex.
func (b *BMC) move(by, to string, then func()) {
	b.moves++
	move := b.moves
	b.since = b.clock.Now()
	if b.has(PowerSlow) && to == "On" {
		b.power = "PoweringOn"
	}
	b.clock.AfterFunc(b.options.PowerDelay, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.moves != move {
			return
		}
		b.log.Debug("The power of a simulated server changed.", "by", by, "to", to)
		if !(b.has(PowerSlow) && to == "On") {
			b.power = to
		}
		then()
	})
}

// start boots the server according to the override. The caller holds the mutex.
func (b *BMC) start() {
	b.stop()
	if b.lifetime.Err() != nil {
		return
	}
	var inserted *drive
	for _, device := range b.options.Profile.MediaDevices {
		if d := b.drives[device.ID]; d.image != "" {
			inserted = d
			break
		}
	}
	target, enabled := b.boot["Target"], b.boot["Enabled"]
	if enabled == "Once" && !b.options.Profile.NoOnce {
		b.boot["Target"], b.boot["Enabled"] = "None", "Disabled"
	}
	virtual := enabled != "Disabled" && (target == "Cd" || target == "UsbCd")
	if virtual && b.options.Profile.CdIsPhysical {
		b.started = append(b.started, Started{From: "physical-cd"})
		return
	}
	if b.options.Profile.CdIsPhysical && b.dellBoot["ServerBoot.1.BootOnce"] == "Enabled" &&
		b.dellBoot["ServerBoot.1.FirstBootDevice"] == "VCD-DVD" {
		virtual = true
		b.dellBoot["ServerBoot.1.BootOnce"] = "Disabled"
	}
	// Cd is a physical drive on Supermicro's models that support UsbCd, except on the model without
	// a USB CD.
	if virtual && target == "Cd" && b.options.Profile.Vendor == "Supermicro" &&
		b.options.Profile.Model != "ARS-111GL-NHR" || virtual && target == "UsbCd" &&
		b.options.Profile.Model == "ARS-111GL-NHR" {
		b.started = append(b.started, Started{From: "physical-cd"})
		return
	}
	ctx, cancel := context.WithCancel(b.lifetime)
	b.machine = cancel
	if address := b.boot["HttpBootUri"]; enabled != "Disabled" && target == "UefiHttp" && address != "" {
		b.running.Go(func() { b.run(ctx, "http", address, nil) })
		return
	}
	if virtual && inserted != nil {
		image, out := inserted.image, inserted.out
		b.running.Go(func() { b.run(ctx, "cd", image, out) })
		return
	}
	b.started = append(b.started, Started{From: "disk"})
	if b.options.FromDisk != nil {
		b.running.Go(func() { b.options.FromDisk(ctx) })
	}
}

// run runs the server from an image: the virtual CD, or an image that its firmware downloads over
// HTTP.
func (b *BMC) run(ctx context.Context, from, address string, out <-chan struct{}) {
	image, err := b.fetch(ctx, address, from == "http")
	if err != nil {
		b.log.Warn("A simulated server could not read its boot image.", "image", address, "error", err)
		return
	}
	defer func() {
		if err := os.Remove(image.Path); err != nil {
			b.log.Warn("A downloaded image could not be removed.", "error", err)
		}
	}()
	image.Ejected = out
	b.mu.Lock()
	b.started = append(b.started, Started{From: from, Image: address})
	b.mu.Unlock()
	if b.options.Boot != nil {
		b.options.Boot(ctx, image)
	}
}

// Reboot restarts the server from its operating system. The boot override no longer applies.
// Firmware that prefers the CD boots an inserted image again.
func (b *BMC) Reboot() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move("the operating system", "On", b.start)
}

// Halt powers the server off from its operating system.
func (b *BMC) Halt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
	b.moves++
	b.power = "Off"
}
