// Package redfish is a stand-in for the management controllers of servers, as their vendors make
// them: it answers over Redfish, fetches images over HTTP when they are inserted, keeps power
// transitions for seconds, and has its server boot what the boot override says. What vendors do
// otherwise is in profile.go, and so is what can go wrong.
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

// Options describe a BMC and its server.
type Options struct {
	Profile  Profile
	Faults   []Fault
	Username string
	Password string
	// Serial, UUID and MACs are the server's.
	Serial, UUID string
	MACs         []string
	// Off says that the server is off to begin with. Most are found on.
	Off bool
	// PowerDelay is how long a power transition takes; 0 is three seconds.
	PowerDelay time.Duration
	// Boot, if set, is called when the server boots from the virtual CD or by HTTP, with what was
	// fetched. Its context ends when the server is switched off or restarted.
	Boot func(ctx context.Context, image *Image)
	// FromDisk, if set, is called when the server boots from its disk, likewise.
	FromDisk func(ctx context.Context)
	// Dir is where fetched images lie while they are booted; "" is the system's directory for
	// temporary files.
	Dir string
	// HTTP fetches the images; nil is a client that trusts the system's authorities.
	HTTP   *http.Client
	Clock  clockwork.Clock // nil is the real one
	Logger *slog.Logger    // nil discards
}

// Started is a boot of the server.
type Started struct {
	From  string // cd, http, disk or physical-cd
	Image string // URL
}

// BMC is one management controller with its server.
type BMC struct {
	options Options
	clock   clockwork.Clock
	log     *slog.Logger
	client  *http.Client
	faults  map[Fault]bool

	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup
	server  *http.Server
	address string

	mu       sync.Mutex
	power    string // On, Off, PoweringOn, PoweringOff
	moves    int    // counts power transitions, so that an overtaken one does nothing
	since    time.Time
	boot     map[string]string // Target, Enabled, Mode, HttpBootUri
	dellBoot map[string]string
	drives   map[string]*drive
	sessions map[string]int // token -> requests left, below zero without end
	nextID   int
	tasks    map[string]*task
	versions map[string]int // of resources, for their tags
	counts   map[string]int // how often a fault struck
	started  []Started
	machine  context.CancelFunc // ends what the server runs
	requests []string
	tokens   []string
	most     int       // sessions at the same time
	gone     time.Time // until when the BMC has no power
}

// drive is what a slot holds.
type drive struct {
	Slot
	image, shown string        // shown for a while after it was ejected: see StaleInserted
	stale        time.Time     // until then
	kept         bool          // EjectKeeps struck
	out          chan struct{} // closed when the image is taken out
}

// load puts an image into the drive.
func (d *drive) load(image string) {
	d.unload()
	d.image, d.kept, d.out = image, false, make(chan struct{})
}

// unload takes what is in the drive out of it.
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

// New returns a BMC whose server is on, as servers mostly are found, unless the options say
// otherwise.
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
	for _, slot := range options.Profile.Slots {
		b.drives[slot.ID] = &drive{Slot: slot}
	}
	if options.Off {
		b.power = "Off"
	}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

func (b *BMC) has(fault Fault) bool { return b.faults[fault] }

// Listen serves at an address (127.0.0.1:0 is any port of this machine) until Close; certificate
// nil is plain HTTP.
func (b *BMC) Listen(address string, certificate *tls.Certificate) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("start a BMC's stand-in: %w", err)
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
			b.log.Error("A BMC's stand-in ended.", "error", err)
		}
	})
	return nil
}

// URL is where the BMC is, http:// or https:// with its port.
func (b *BMC) URL() string { return b.address }

// Close ends the server and what it runs.
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

// Power is the server's in Redfish's words.
func (b *BMC) Power() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.power
}

// Boots are all boots of the server so far.
func (b *BMC) Boots() []Started {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Started(nil), b.started...)
}

// Inserted is the URL of the image in the first drive that holds one, "" if none does.
func (b *BMC) Inserted() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, slot := range b.options.Profile.Slots {
		if d := b.drives[slot.ID]; d.image != "" {
			return d.image
		}
	}
	return ""
}

// HTTPBootURI is the URL that UEFI HTTP boot would fetch, "" if there is none.
func (b *BMC) HTTPBootURI() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.boot["HttpBootUri"]
}

// Insert puts an image into the first drive that takes one, as a person at the BMC's page does.
func (b *BMC) Insert(image string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, slot := range b.options.Profile.Slots {
		if d := b.drives[slot.ID]; !slot.Internal && slot.MediaTypes[0] != "Floppy" {
			d.load(image)
			return
		}
	}
}

// Sessions is how many sessions are open.
func (b *BMC) Sessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sessions)
}

// Tokens are all that were ever given to a session.
func (b *BMC) Tokens() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.tokens...)
}

// MostSessions is how many sessions were open at the same time at most.
func (b *BMC) MostSessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}

// Requests are the methods and paths of all requests so far.
func (b *BMC) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.requests...)
}

// Unplug takes the BMC's and the server's power away for a while.
func (b *BMC) Unplug(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unplug(d)
}

func (b *BMC) unplug(d time.Duration) {
	b.gone = b.clock.Now().Add(d)
	b.stop()
	b.moves++
	b.power = "Off"
	b.sessions = map[string]int{}
	for _, d := range b.drives {
		d.unload() // virtual media does not outlast the BMC
	}
	b.boot["Target"], b.boot["Enabled"] = "None", "Disabled"
}

// stop ends what the server runs. The mutex is held.
func (b *BMC) stop() {
	if b.machine != nil {
		b.machine()
		b.machine = nil
	}
}

// move has the power be another one after a while. The mutex is held.
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

// start boots the server as the override says. The mutex is held.
func (b *BMC) start() {
	b.stop()
	if b.life.Err() != nil {
		return
	}
	var inserted *drive
	for _, slot := range b.options.Profile.Slots {
		if d := b.drives[slot.ID]; d.image != "" {
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
	// Supermicro's Cd is a real drive where UsbCd is known, but for the model without one.
	if virtual && target == "Cd" && b.options.Profile.Vendor == "Supermicro" &&
		b.options.Profile.Model != "ARS-111GL-NHR" || virtual && target == "UsbCd" &&
		b.options.Profile.Model == "ARS-111GL-NHR" {
		b.started = append(b.started, Started{From: "physical-cd"})
		return
	}
	ctx, cancel := context.WithCancel(b.life)
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

// run is the server up from an image: from the virtual CD, or what its firmware fetched by HTTP.
func (b *BMC) run(ctx context.Context, from, address string, out <-chan struct{}) {
	image, err := b.fetch(ctx, address, from == "http")
	if err != nil {
		b.log.Warn("A simulated server could not read the image that it shall boot.", "image", address, "error", err)
		return
	}
	defer func() {
		if err := os.Remove(image.Path); err != nil {
			b.log.Warn("A fetched image could not be removed.", "error", err)
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

// Reboot restarts the server as its operating system does: the boot override does not hold any
// more, and firmware that prefers the disc boots it again as long as it is there.
func (b *BMC) Reboot() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move("the operating system", "On", b.start)
}

// Halt is the server switching itself off, as its operating system does.
func (b *BMC) Halt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
	b.moves++
	b.power = "Off"
}
