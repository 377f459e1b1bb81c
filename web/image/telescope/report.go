package telescope

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// State is what a reader is doing.
type State string

// The states of a read.
const (
	Reading  State = "reading"  // bytes went out a moment ago
	Finished State = "finished" // all that a boot or a download needs was read
	Stopped  State = "stopped"  // it is silent and had not finished
)

// quiet is how long a reader may be silent before it counts as stopped.
const quiet = 15 * time.Second

// Report is what is told of a read.
type Report struct {
	Client          string    `json:"client"`     // address
	Image           string    `json:"image"`      // the revision
	Kind            string    `json:"kind"`       // full, minimal, initrd, rootfs, …
	FirstRead       time.Time `json:"first_read"` // UTC
	LastRead        time.Time `json:"last_read"`  // UTC; of the last byte
	Bytes           int64     `json:"bytes"`      // sent, repetitions included
	Requests        int64     `json:"requests"`
	SharePercent    float64   `json:"share_percent"` // of the image, repetitions left out
	Segments        []Share   `json:"segments"`
	BytesPerSecond  float64   `json:"bytes_per_second"` // of the last seconds
	RangesPerSecond float64   `json:"ranges_per_second"`
	State           State     `json:"state"`
	Sentence        string    `json:"sentence"` // for a person
}

// Share is how much of a part of an image was read.
type Share struct {
	Name         string  `json:"name"`
	SharePercent float64 `json:"share_percent"`
}

func (r *Read) report(now time.Time, hosts []time.Time) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := Report{
		Client: r.client, Image: r.image.Revision, Kind: r.image.Kind, FirstRead: r.first.UTC(), LastRead: r.last.UTC(),
		Bytes: r.bytes, Requests: r.requests, SharePercent: percent(r.seen.within(0, r.image.Size), r.image.Size),
		Segments:        r.parts(),
		BytesPerSecond:  math.Round(r.speed.perSecond(now, r.first)),
		RangesPerSecond: math.Round(10*r.pace.perSecond(now, r.first)) / 10,
	}
	report.State = r.state(now)
	registered := false
	for _, at := range hosts {
		registered = registered || at.After(r.first)
	}
	if registered && report.State == Stopped && r.booting() {
		report.State = Finished
	}
	report.Sentence = r.sentence(report, now, registered)
	return report
}

// parts is how much was read of each part that a boot goes through, in that order. A part may lie
// in several places; directories and files that no boot waits for are left out.
func (r *Read) parts() []Share {
	var parts []Share
	for _, name := range []string{"boot loader", "kernel", "initrd", "boot image", "config", "rootfs"} {
		read, size := int64(0), int64(0)
		for _, s := range r.image.Segments {
			if s.Name == name {
				read += r.seen.within(s.Start, s.End)
				size += s.End - s.Start
			}
		}
		if size > 0 {
			parts = append(parts, Share{name, percent(read, size)})
		}
	}
	return parts
}

// percent is a share with one digit behind the point; it is 100 only for all of it.
func percent(part, whole int64) float64 {
	if part >= whole {
		return 100
	}
	return math.Floor(1000*float64(part)/float64(whole)) / 10
}

func (r *Read) state(now time.Time) State {
	switch {
	case r.whole():
		return Finished
	case r.dropped != "" || now.Sub(r.last) > quiet:
		return Stopped
	}
	return Reading
}

// whole tells whether everything that matters was read: the image, or all that a booting machine
// wants of it.
func (r *Read) whole() bool {
	if r.seen.within(0, r.image.Size) >= r.image.Size {
		return true
	}
	wanted := 0
	for _, s := range r.image.Segments {
		if !bootNeeds(s.Name) {
			continue
		}
		wanted++
		if r.seen.within(s.Start, s.End) < s.End-s.Start {
			return false
		}
	}
	return wanted > 0 && r.booting()
}

// bootNeeds tells the parts that every boot reads to their last byte from those that depend on the
// firmware, and from the config's, of which the firmware reads as much as is in use.
func bootNeeds(segment string) bool {
	return segment == "kernel" || segment == "initrd" || segment == "rootfs"
}

// booting tells a machine from a person who downloads.
func (r *Read) booting() bool { return !strings.HasPrefix(r.who(), "the ") }

// who names the reader by what its requests look like. Management controllers call themselves all
// kinds of names; what they have in common is that they read small pieces.
func (r *Read) who() string {
	agent := strings.ToLower(r.agent)
	for _, known := range []struct{ part, name string }{
		{"ipxe", "iPXE on "}, {"grub", "GRUB on "}, {"uefihttpboot", "the firmware of "},
		{"mozilla", "the browser on "},
		{"curl", "the download by curl on "}, {"wget", "the download by wget on "},
		{"aria2", "the download by aria2 on "},
	} {
		if strings.Contains(agent, known.part) {
			if r.smallPieces() || known.part == "curl" && r.image.Kind == "rootfs" {
				break // virtual media through curl's library; a live system that fetches its rootfs
			}
			return known.name + r.client
		}
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

// isPart tells what is read for a boot over the network from what people download.
func isPart(kind string) bool { return kind == "kernel" || kind == "initrd" || kind == "rootfs" }

func (r *Read) sentence(report Report, now time.Time, registered bool) string {
	who, what := r.who(), r.noun()
	done, current, share := r.progress()
	switch report.State {
	case Finished:
		if registered {
			return upper(fmt.Sprintf("%s has read %s, and a host of this infra-env has registered since.", who,
				orElse(done, "a part of "+what)))
		}
		if report.SharePercent < 100 {
			return upper(fmt.Sprintf("%s has read all that it needs to boot (%s).", who, done))
		}
		return upper(fmt.Sprintf("%s has read all of %s, in %s.", who, what, roughly(r.last.Sub(r.first))))
	case Reading:
		text := fmt.Sprintf("%s is reading %s, %s of it so far", who, orElse(current, what), share)
		if report.BytesPerSecond > 0 {
			text += fmt.Sprintf(", at %s", speed(report.BytesPerSecond))
		}
		if r.smallPieces() {
			text += fmt.Sprintf(" in %.0f ranges a second", report.RangesPerSecond)
		}
		if done != "" {
			text += "; it has read " + done
		}
		return upper(text + ".")
	}
	text := who + " "
	if done != "" {
		text += "has read " + done + ", "
	}
	text += fmt.Sprintf("stopped %s ago in %s at %s: %s.", roughly(now.Sub(r.last)), orElse(current, what), share,
		r.cause(current))
	return upper(text)
}

// progress says what was read to its end, where the reader is, and how much of that it has.
func (r *Read) progress() (done, current, share string) {
	whole := map[string]bool{}
	current, share = "", fmt.Sprintf("%.0f %%", math.Floor(percent(r.seen.within(0, r.image.Size), r.image.Size)))
	for _, s := range r.image.Segments {
		read := r.seen.within(s.Start, s.End)
		if bootNeeds(s.Name) {
			before, several := whole[s.Name]
			whole[s.Name] = read >= s.End-s.Start && (before || !several)
		}
		if r.at > s.Start && r.at <= s.End {
			current, share = "the "+s.Name, fmt.Sprintf("%.0f %%", math.Floor(percent(read, s.End-s.Start)))
		}
	}
	if len(r.image.Segments) < 2 {
		return "", "", share
	}
	var names []string
	for _, name := range []string{"kernel", "initrd", "rootfs"} { // as they are read by a boot, not as they lie
		if whole[name] {
			names = append(names, name)
		}
	}
	return list(names), current, share
}

// cause is what most likely stands in the way of one who stopped in a part.
func (r *Read) cause(current string) string {
	switch {
	case r.dropped != "":
		return r.dropped
	case !r.booting():
		return "the download was broken off, or the link was lost"
	case current == "the kernel", current == "the initrd", current == "the rootfs", isPart(r.image.Kind):
		return "link too slow or mount lost"
	case r.started():
		return "the machine has what it read so far; look at its console"
	}
	return "the machine has not started the kernel; look at its boot order and its console"
}

// started tells whether the boot got as far as the kernel.
func (r *Read) started() bool {
	for _, s := range r.image.Segments {
		if s.Name == "kernel" && r.seen.within(s.Start, s.End) > 0 {
			return true
		}
	}
	return false
}

func (r *Read) noun() string {
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

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// upper begins a sentence; a name such as iPXE is left as it is written.
func upper(text string) string {
	if strings.HasPrefix(text, "iPXE") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
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

// roughly is a length of time as people say it, no finer than it matters.
func roughly(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}
