package osimage

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"landfall/appliance/architecture"
	"landfall/isogen"
)

// Source is the origin of an image.
type Source string

// Sources.
const (
	SourceFile    Source = "file"    // a file in the configuration, used in place
	SourceURL     Source = "url"     // downloaded over http or https
	SourceImport  Source = "import"  // uploaded
	SourcePayload Source = "payload" // from machine-os-images of a release payload
)

// State is the state of an image.
type State string

// States.
const (
	StateWaiting     State = "waiting"     // not available yet; Message contains the reason
	StateDownloading State = "downloading" // being downloaded or uploaded
	StateVerifying   State = "verifying"   // the digest is being computed; the image can still be used
	StateReady       State = "ready"       // discovery images can be made from the image
	StateBad         State = "bad"         // unusable; Message contains the reason and advice
)

// Usable reports whether discovery images can be made from the image.
func (i Image) Usable() bool { return i.State == StateReady || i.State == StateVerifying }

// Pending reports whether the image is being transferred or waits for the transfer.
func (i Image) Pending() bool { return i.State == StateWaiting || i.State == StateDownloading }

// attemptFailed begins the reason in the message of an image that waits after a failed transfer.
const attemptFailed = "the last attempt failed: "

// TriesAgain reports whether the image waits for another attempt after a failed transfer.
func (i Image) TriesAgain() bool {
	return i.State == StateWaiting && strings.Contains(i.Message, attemptFailed)
}

// Image describes an OS image in the API.
type Image struct {
	ID               string    `json:"id"`
	Name             string    `json:"name"` // name of the file, for users
	OpenshiftVersion string    `json:"openshift_version"`
	CPUArchitecture  string    `json:"cpu_architecture"`
	VolumeID         string    `json:"volume_id"`
	CoreOSVersion    string    `json:"coreos_version"`
	SizeBytes        int64     `json:"size_bytes"`
	State            State     `json:"state"`
	Message          string    `json:"message"`
	DoneBytes        int64     `json:"done_bytes"`
	TotalBytes       int64     `json:"total_bytes"` // 0 while unknown
	Source           Source    `json:"source"`
	Path             string    `json:"path"` // "" while it is incomplete
	URL              string    `json:"url,omitempty"`
	Release          string    `json:"release,omitempty"`
	SHA256           string    `json:"sha256"` // hex; "" before it was computed
	VerifiedAt       time.Time `json:"verified_at,omitzero"`
	Minimal          bool      `json:"minimal"`
	MinimalReason    string    `json:"minimal_reason"` // reason why minimal images are impossible
	NetworkBoot      bool      `json:"network_boot"`
	NetworkReason    string    `json:"network_boot_reason,omitempty"`
	Boots            []string  `json:"boots"`      // boot methods, such as "BIOS CD", "UEFI USB"
	Configured       bool      `json:"configured"` // in the configuration
	InUseBy          int       `json:"in_use_by"`  // number of infra-envs
	Users            []string  `json:"users,omitempty"`
	Removable        bool      `json:"removable"`
}

// entry is an image with its record and state. Library.mu guards all fields except those with
// another comment.
type entry struct {
	id         string
	record     record
	configured bool

	base                  *isogen.Base // nil if the image is unusable
	version, architecture string       // read from the content; the stated values if the content does not contain them
	state                 State
	message               string
	done, total           int64
	wrong                 os.FileInfo // of a file that has another digest than the stated one
	unreadable            int         // number of verifications in a row that could not read the file
	verify                bool        // a verification is requested
	worker                *worker     // nil if none fetches or verifies the entry
	uploader              *uploader   // the request that writes the upload

	writing sync.Mutex // held while the upload's file is written; guards the next two
	part    *partial
	removed bool
	saving  sync.Mutex // held while the record is written
}

// uploader identifies one request that adds to an upload. A later request supersedes it.
type uploader struct{ _ byte } // not empty, so that each uploader has its own address

// worker is a goroutine that fetches or verifies one entry.
type worker struct {
	cancel func()
	done   chan struct{}
}

func (e *entry) fail(err error) {
	e.state, e.message = StateBad, err.Error()
}

// stated returns the most precise OpenShift version of an image: the stated version, or the version
// in the content.
func (e *entry) stated() string {
	if e.record.OpenshiftVersion != "" {
		return e.record.OpenshiftVersion
	}
	return e.version
}

func (e *entry) arch() string {
	if e.record.CPUArchitecture != "" {
		return architecture.Of(e.record.CPUArchitecture).RPM()
	}
	return e.architecture
}

func (e *entry) fits(version, arch string) bool {
	return e.arch() == architecture.Of(arch).RPM() && e.stated() != "" && Minor(e.stated()) == Minor(version)
}

// Progress describes the progress of an incomplete image.
func (i Image) Progress() string {
	var details []string
	if i.State == StateDownloading && i.TotalBytes > 0 {
		details = append(details, fmt.Sprintf("%d%% of %d MB", i.DoneBytes*100/i.TotalBytes, i.TotalBytes/1_000_000))
	}
	if i.Message != "" {
		details = append(details, i.Message)
	}
	if len(details) == 0 {
		return string(i.State)
	}
	return string(i.State) + " (" + strings.Join(details, "; ") + ")"
}

// List describes all images.
func (l *Library) List() ([]Image, error) {
	users, err := l.options.Users()
	if err != nil {
		return nil, fmt.Errorf("list the infra-envs that use the OS images: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	used := l.usedBy(users)
	list := make([]Image, 0, len(l.entries))
	for _, e := range l.entries {
		l.reopen(e)
		list = append(list, l.describe(e, used[e]))
	}
	return list, nil
}

// IDs lists the ids of all images, in order.
func (l *Library) IDs() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, e := range l.entries {
		ids = append(ids, e.id)
	}
	slices.Sort(ids)
	return ids
}

// Image describes one image. The error is a *NotFoundError if there is none.
func (l *Library) Image(id string) (Image, error) {
	list, err := l.List()
	if err != nil {
		return Image{}, err
	}
	for _, image := range list {
		if image.ID == id {
			return image, nil
		}
	}
	return Image{}, &NotFoundError{id}
}

// usedBy returns the infra-envs that use each image. The mutex is held.
func (l *Library) usedBy(users []User) map[*entry][]string {
	used := make(map[*entry][]string)
	for _, user := range users {
		if e := l.choose(user.OpenshiftVersion, user.CPUArchitecture); e != nil {
			used[e] = append(used[e], user.Name)
		}
	}
	return used
}

// describe describes an entry. The mutex is held.
func (l *Library) describe(e *entry, users []string) Image {
	image := Image{
		ID: e.id, Name: e.record.Name, OpenshiftVersion: e.stated(), CPUArchitecture: e.arch(), State: e.state,
		Message:   e.message,
		DoneBytes: e.done, TotalBytes: e.total, Source: e.record.Source, URL: redacted(e.record.URL),
		Release: e.record.Release,
		SHA256:  e.record.SHA256, VerifiedAt: e.record.VerifiedAt, Configured: e.configured, InUseBy: len(users),
		Users: users,
	}
	image.Removable = !e.configured && len(users) == 0
	if e.record.Source == SourceFile || e.base != nil {
		image.Path = l.file(e)
	}
	if e.base == nil {
		return image
	}
	info := e.base.Info()
	image.VolumeID, image.CoreOSVersion, image.SizeBytes = info.VolumeID, info.Version, info.Size
	image.Minimal, image.MinimalReason = info.Minimal, info.MinimalReason
	image.Boots = info.Boots
	image.NetworkBoot, image.NetworkReason = info.NetworkBoot, info.NetworkReason
	if e.state != StateVerifying {
		image.DoneBytes, image.TotalBytes = info.Size, info.Size
	}
	return image
}

// CheckRelease returns nil if the library has a live ISO for a release and its architecture. For a
// multi release, one of its architectures is enough.
func (l *Library) CheckRelease(openshiftVersion, arch string) error {
	architectures := []string{arch}
	if arch == "multi" {
		architectures = []string{isogen.X86_64, isogen.AArch64, isogen.PPC64LE, isogen.S390X}
	}
	var missing error
	for _, arch := range architectures {
		_, err := l.Find(openshiftVersion, arch)
		if err == nil {
			return nil
		}
		if missing == nil {
			missing = err
		}
	}
	return missing
}
