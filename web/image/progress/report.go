package progress

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"landfall/appliance/sentence"
)

// State is the state of a read.
type State string

// The states of a read.
const (
	Reading  State = "reading"  // bytes were sent recently
	Finished State = "finished" // all bytes that the boot or the download needs were read
	Stopped  State = "stopped"  // no recent bytes, and not finished
)

// quiet is the time without a sent byte after which a read counts as stopped.
const quiet = 15 * time.Second

// Report describes the progress of a read.
type Report struct {
	Client          string    `json:"client"`     // address
	Image           string    `json:"image"`      // the revision
	Kind            string    `json:"kind"`       // full, minimal, initrd, rootfs, …
	FirstRead       time.Time `json:"first_read"` // UTC
	LastRead        time.Time `json:"last_read"`  // UTC; the time of the last byte
	Bytes           int64     `json:"bytes"`      // sent, including repeated ones
	Requests        int64     `json:"requests"`
	SharePercent    float64   `json:"share_percent"` // of the image; repeated bytes count once
	Segments        []Share   `json:"segments"`
	BytesPerSecond  float64   `json:"bytes_per_second"` // over the last seconds
	RangesPerSecond float64   `json:"ranges_per_second"`
	State           State     `json:"state"`
	// Registered is true if a host of the infra-env has registered after the start of the read.
	Registered bool   `json:"registered,omitempty"`
	Sentence   string `json:"sentence"` // for people
}

// Compare orders reports: that of the read with the most recent byte comes first.
func (r Report) Compare(other Report) int {
	return cmp.Or(other.LastRead.Compare(r.LastRead), other.FirstRead.Compare(r.FirstRead))
}

// Share is the share of a part of an image that was read.
type Share struct {
	Name         string  `json:"name"`
	SharePercent float64 `json:"share_percent"`
}

func (r *Read) report(now time.Time, hosts []time.Time) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := Report{
		Client: r.client, Image: r.image.Revision, Kind: r.image.Kind, FirstRead: r.first.UTC(), LastRead: r.last.UTC(),
		Bytes: r.bytes, Requests: r.requests, SharePercent: percent(r.covered.within(0, r.image.Size), r.image.Size),
		Segments:        r.parts(),
		BytesPerSecond:  math.Round(r.byteRate.perSecond(now, r.first)),
		RangesPerSecond: math.Round(10*r.requestRate.perSecond(now, r.first)) / 10,
	}
	report.State = r.state(now)
	registered := false
	for _, at := range hosts {
		registered = registered || at.After(r.first)
	}
	if registered && report.State == Stopped && r.booting() {
		report.State = Finished
	}
	report.Registered = registered
	report.Sentence = r.sentence(report, now, registered)
	return report
}

// parts returns the share that was read of each part, in the order in which a boot reads the parts.
// A part may consist of several ranges. Directories and files that no boot waits for are omitted.
func (r *Read) parts() []Share {
	var parts []Share
	for _, name := range []string{"boot loader", "kernel", "initrd", "boot image", "config", "rootfs"} {
		read, size := int64(0), int64(0)
		for _, s := range r.image.Segments {
			if s.Name == name {
				read += r.covered.within(s.Start, s.End)
				size += s.End - s.Start
			}
		}
		if size > 0 {
			parts = append(parts, Share{name, percent(read, size)})
		}
	}
	return parts
}

// percent returns a share with one decimal. It returns 100 only if no byte is missing.
func percent(part, whole int64) float64 {
	if part >= whole {
		return 100
	}
	return math.Floor(1000*float64(part)/float64(whole)) / 10
}

func (r *Read) state(now time.Time) State {
	switch {
	case r.complete():
		return Finished
	case r.dropped != "" || now.Sub(r.last) > quiet:
		return Stopped
	}
	return Reading
}

// complete reports whether all necessary bytes were read: the whole image, or the parts that a
// booting machine needs.
func (r *Read) complete() bool {
	if r.covered.within(0, r.image.Size) >= r.image.Size {
		return true
	}
	wanted := 0
	for _, s := range r.image.Segments {
		if !bootNeeds(s.Name) {
			continue
		}
		wanted++
		if r.covered.within(s.Start, s.End) < s.End-s.Start {
			return false
		}
	}
	return wanted > 0 && r.booting()
}

// bootNeeds reports whether every boot reads the whole segment. Other segments depend on the
// firmware; of the config, a boot reads only the used part.
func bootNeeds(segment string) bool {
	return segment == "kernel" || segment == "initrd" || segment == "rootfs"
}

// booting reports whether the client is a booting machine and not a user's download.
func (r *Read) booting() bool { return !strings.HasPrefix(r.clientName(), "the ") }

// downloaders are parts of the User-Agents of programs and libraries that are in no management
// controller.
func downloaders() []string {
	return []string{"wget", "aria2", "python", "go-http-client", "java/", "okhttp", "node", "axios", "powershell"}
}

// clientName returns a name for the client by its requests. User-Agents of management controllers
// vary, but all management controllers read small pieces. Browsers and programs for downloads may
// do so, too, and are recognized by their User-Agents.
func (r *Read) clientName() string {
	agent := strings.ToLower(r.agent)
	for _, known := range []struct{ part, name string }{
		{"ipxe", "iPXE on "}, {"grub", "GRUB on "}, {"uefihttpboot", "the firmware of "},
		{"mozilla", "the browser on "},
		{"curl", "the download by curl on "}, {"wget", "the download by wget on "},
		{"aria2", "the download by aria2 on "},
	} {
		if strings.Contains(agent, known.part) {
			if known.part == "curl" && (r.smallPieces() || r.image.Kind == "rootfs") {
				break // virtual media with curl's library, or a live system that downloads its rootfs
			}
			return known.name + r.client
		}
	}
	if slices.ContainsFunc(downloaders(), func(part string) bool { return strings.Contains(agent, part) }) {
		return "the client " + r.client
	}
	if r.smallPieces() {
		return "BMC " + r.client
	}
	if isPart(r.image.Kind) {
		return "host " + r.client
	}
	return "the client " + r.client
}

func (r *Read) smallPieces() bool { return r.requests > 4 && r.bytes/r.requests < 1<<20 }

// isPart reports whether an image of that kind is read only for network boot.
func isPart(kind string) bool { return kind == "kernel" || kind == "initrd" || kind == "rootfs" }

func (r *Read) sentence(report Report, now time.Time, registered bool) string {
	client, image := r.clientName(), r.imageName()
	done, current, share := r.progress()
	switch report.State {
	case Finished:
		if registered {
			return capitalize(fmt.Sprintf("%s has read %s, and a host of this infra-env has registered since.", client,
				cmp.Or(done, "a part of "+image)))
		}
		if report.SharePercent < 100 {
			return capitalize(fmt.Sprintf("%s has read all that it needs to boot (%s).", client, done))
		}
		return capitalize(fmt.Sprintf("%s has read all of %s, in %s.", client, image,
			roundedDuration(r.last.Sub(r.first))))
	case Reading:
		text := fmt.Sprintf("%s is reading %s, %s of it so far", client, cmp.Or(current, image), share)
		if report.BytesPerSecond > 0 {
			text += fmt.Sprintf(", at %s", speed(report.BytesPerSecond))
		}
		if r.smallPieces() {
			text += fmt.Sprintf(" in %.0f ranges a second", report.RangesPerSecond)
		}
		if done != "" {
			text += "; it has read " + done
		}
		return capitalize(text + ".")
	}
	text := client + " "
	if done != "" {
		text += "has read " + done + ", "
	}
	text += fmt.Sprintf("stopped %s ago in %s at %s: %s.", roundedDuration(now.Sub(r.last)), cmp.Or(current, image),
		share, r.cause(current))
	return capitalize(text)
}

// progress returns the parts that were read completely, the part at the current position, and the
// share of that part that was read.
func (r *Read) progress() (done, current, share string) {
	whole := map[string]bool{}
	current, share = "", fmt.Sprintf("%.0f %%", math.Floor(percent(r.covered.within(0, r.image.Size), r.image.Size)))
	for _, s := range r.image.Segments {
		read := r.covered.within(s.Start, s.End)
		if bootNeeds(s.Name) {
			before, several := whole[s.Name]
			whole[s.Name] = read >= s.End-s.Start && (before || !several)
		}
		if r.position > s.Start && r.position <= s.End {
			current, share = "the "+s.Name, fmt.Sprintf("%.0f %%", math.Floor(percent(read, s.End-s.Start)))
		}
	}
	if len(r.image.Segments) < 2 {
		return "", "", share
	}
	var names []string
	for _, name := range []string{"kernel", "initrd", "rootfs"} { // in the order of a boot
		if whole[name] {
			names = append(names, name)
		}
	}
	return list(names), current, share
}

// cause returns the most likely reason why the client stopped within a part.
func (r *Read) cause(current string) string {
	switch {
	case r.dropped != "":
		return r.dropped
	case !r.booting():
		return "the download was cancelled or the link was lost"
	case current == "the kernel", current == "the initrd", current == "the rootfs", isPart(r.image.Kind):
		return "link too slow or mount lost"
	case r.started():
		return "the machine stopped reading; check its console"
	}
	return "the machine has not started the kernel; check its boot order and its console"
}

// started reports whether the boot has reached the kernel.
func (r *Read) started() bool {
	for _, s := range r.image.Segments {
		if s.Name == "kernel" && r.covered.within(s.Start, s.End) > 0 {
			return true
		}
	}
	return false
}

func (r *Read) imageName() string {
	switch r.image.Kind {
	case "kernel", "initrd", "rootfs":
		return "the " + r.image.Kind
	case "config":
		return "the config image"
	}
	return "the " + r.image.Kind + " image"
}

func list(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// capitalize makes the first letter upper case, except in names such as iPXE.
func capitalize(text string) string {
	if strings.HasPrefix(text, "iPXE") {
		return text
	}
	return sentence.Capitalize(text)
}

func speed(bytesPerSecond float64) string {
	switch {
	case bytesPerSecond >= 1e6:
		return fmt.Sprintf("%.1f MB/s", bytesPerSecond/1e6)
	case bytesPerSecond >= 1e3:
		return fmt.Sprintf("%.0f kB/s", bytesPerSecond/1e3)
	}
	return fmt.Sprintf("%.0f B/s", bytesPerSecond)
}

// roundedDuration returns a duration in words, in seconds, minutes or hours.
func roundedDuration(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}
