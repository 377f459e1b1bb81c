package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/isogen"
	"landfall/web/problem"
)

// Waits between two tries to fetch an OS image.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// osImage is a live ISO that discovery images are made from, with its state.
type osImage struct {
	config  OSImage
	base    *isogen.Base // nil until it is ready
	state   string       // waiting, downloading, ready, bad
	message string
	wrong   os.FileInfo // of a file that has another digest than the configured one
}

// The states of an OS image.
const (
	imageWaiting     = "waiting"
	imageDownloading = "downloading"
	imageReady       = "ready"
	imageBad         = "bad"
)

// osImages are the configured live ISOs. A bad one is said to be bad and harms no other.
type osImages struct {
	dir   string
	log   *slog.Logger
	clock clockwork.Clock

	opened chan *osImage // files whose digest is to be looked at

	mu     sync.Mutex
	images []*osImage
}

func newOSImages(configured []OSImage, dir string, logger *slog.Logger, clock clockwork.Clock) *osImages {
	o := &osImages{dir: dir, log: logger, clock: clock, opened: make(chan *osImage, len(configured))}
	for _, config := range configured {
		image := &osImage{config: config, state: imageWaiting}
		o.images = append(o.images, image)
		if config.Path != "" {
			o.open(image, config.Path)
		} else if path := o.path(config); exists(path) {
			o.open(image, path)
		}
	}
	return o
}

// path is where an ISO from a URL is kept: by its digest, or by the digest of its URL when none is given.
func (o *osImages) path(config OSImage) string {
	name := config.SHA256
	if name == "" {
		sum := sha256.Sum256([]byte(config.URL))
		name = "url-" + hex.EncodeToString(sum[:])
	}
	return filepath.Join(o.dir, name+".iso")
}

func (o *osImages) open(image *osImage, path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.openLocked(image, path)
}

func (o *osImages) openLocked(image *osImage, path string) {
	base, err := isogen.Open(path)
	if err == nil {
		err = base.Require(rpmArchitecture(image.config.CPUArchitecture))
		if err != nil {
			err = errors.Join(err, base.Close())
		}
	}
	if err != nil {
		image.base, image.state, image.message = nil, imageBad, err.Error()
		o.log.Error("An OS image can't be used.", "openshift_version", image.config.OpenshiftVersion, "path", path, "error", err)
		return
	}
	image.base, image.state, image.message, image.wrong = base, imageReady, "", nil
	if image.config.Path != "" && image.config.SHA256 != "" {
		select {
		case o.opened <- image:
		default: // its digest is about to be looked at anyway
		}
	}
}

// find returns the base ISO for a version and an architecture: the one configured for just that version, else one of the
// same minor version.
func (o *osImages) find(version, arch string) (*isogen.Base, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found *osImage
	var known []string
	for _, image := range o.images {
		known = append(known, image.config.OpenshiftVersion+" ("+image.config.CPUArchitecture+")")
		if rpmArchitecture(image.config.CPUArchitecture) != rpmArchitecture(arch) {
			continue
		}
		if image.config.OpenshiftVersion == version {
			found = image
			break
		}
		if found == nil && minor(image.config.OpenshiftVersion) == minor(version) {
			found = image
		}
	}
	if found == nil {
		return nil, problem.Unavailable("%s", errNoSuchImage(version, arch, known))
	}
	o.correct(found)
	switch found.state {
	case imageReady:
		return found.base, nil
	case imageBad:
		return nil, problem.Unavailable("no discovery image can be made for OpenShift %s on %s: %s", version, arch, found.message)
	}
	return nil, problem.Unavailable("the OS image for OpenShift %s on %s is not there yet: it is %s; try again later", version, arch, strings.TrimSpace(found.state+" "+found.message))
}

// correct opens a file anew that was bad or was changed since, so that whoever put a better one in its place need not
// restart the appliance. The mutex is held.
func (o *osImages) correct(image *osImage) {
	switch {
	case image.state == imageBad && image.config.Path != "":
		if info, err := os.Stat(image.config.Path); err == nil && image.wrong != nil && os.SameFile(info, image.wrong) && info.ModTime().Equal(image.wrong.ModTime()) {
			return
		}
		o.openLocked(image, image.config.Path)
	case image.state == imageReady && image.base.Intact() != nil:
		if err := image.base.Close(); err != nil {
			o.log.Warn("An OS image that was changed could not be closed.", "path", image.base.Path(), "error", err)
		}
		o.openLocked(image, image.base.Path())
	}
}

// minor is a version's first two numbers.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// run fetches what is not there yet and looks at the digests of what is, until the context ends.
func (o *osImages) run(ctx context.Context) error {
	var fetching sync.WaitGroup
	defer fetching.Wait()
	fetching.Go(func() { o.fetchAll(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case image := <-o.opened:
			o.verify(ctx, image)
		}
	}
}

// fetchAll fetches the ISOs that are configured by URL and not there yet, one after the other. A line that breaks is tried
// again; a file that is the wrong one is not.
func (o *osImages) fetchAll(ctx context.Context) {
	for _, image := range o.images {
		if image.config.URL == "" || image.state == imageReady {
			continue
		}
		if !o.fetchAtLast(ctx, image) {
			return
		}
	}
}

// fetchAtLast tries until the ISO is there or turns out to be the wrong one; it returns false when the context ends before.
func (o *osImages) fetchAtLast(ctx context.Context, image *osImage) bool {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := o.fetch(ctx, image)
		if err == nil {
			o.open(image, o.path(image.config))
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		wrong := errors.As(err, new(*wrongFileError))
		o.note(image, wrong, err)
		if wrong {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-o.clock.After(wait):
		}
	}
}

// verify compares a file with the configured digest. It takes about a second a gigabyte, so the image is served meanwhile;
// one that turns out to be another file is not served any more until it is replaced.
func (o *osImages) verify(ctx context.Context, image *osImage) {
	o.mu.Lock()
	base := image.base
	o.mu.Unlock()
	if base == nil {
		return
	}
	sum, err := base.SHA256(ctx)
	if err != nil || strings.EqualFold(sum, image.config.SHA256) {
		return // a file that was changed meanwhile is opened anew when it is asked for
	}
	info, err := os.Stat(base.Path())
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || image.base != base {
		return
	}
	image.wrong, image.state = info, imageBad
	image.message = fmt.Sprintf("%s has sha256 %s, configured is %s; correct sha256 under os_images, or put the right file there", base.Path(), sum, image.config.SHA256)
	o.log.Error("An OS image is not the configured one.", "openshift_version", image.config.OpenshiftVersion, "path", base.Path(), "sha256", sum)
}

// note writes down why an image is not there.
func (o *osImages) note(image *osImage, forGood bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	image.state, image.message = imageWaiting, "after a failure: "+err.Error()
	if forGood {
		image.state, image.message = imageBad, err.Error()
	}
	o.log.Error("An OS image could not be fetched.", "url", image.config.URL, "again", !forGood, "error", err)
}

// wrongFileError says that what a server has is not what is configured.
type wrongFileError struct{ got, want string }

func (e *wrongFileError) Error() string {
	return "what was downloaded has sha256 " + e.got + ", configured is " + e.want + "; correct sha256 under os_images, or name the right file"
}

// fetch downloads an ISO, going on where an earlier try ended, and gives it its name only when its digest is right.
func (o *osImages) fetch(ctx context.Context, image *osImage) (err error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	path := o.path(image.config)
	partial, err := os.OpenFile(path+".part", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, partial.Close()) }()
	if err := o.download(ctx, image, partial); err != nil {
		return fmt.Errorf("downloading %s: %w", image.config.URL, err)
	}
	if err := checkDigest(partial, image.config.SHA256); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", image.config.URL, err), os.Remove(path+".part"))
	}
	if err := partial.Sync(); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

func (o *osImages) download(ctx context.Context, image *osImage, partial *os.File) error {
	have, err := partial.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, image.config.URL, nil)
	if err != nil {
		return err
	}
	if have > 0 {
		request.Header.Set("Range", "bytes="+strconv.FormatInt(have, 10)+"-")
	}
	response, err := http.DefaultClient.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // the caller says which URL
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK:
		have = 0
		if err := partial.Truncate(0); err != nil {
			return err
		}
		if _, err := partial.Seek(0, io.SeekStart); err != nil {
			return err
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return nil // it is whole
	default:
		return fmt.Errorf("the server answered %s", response.Status)
	}
	total := have + response.ContentLength
	_, err = io.Copy(io.MultiWriter(partial, &downloadNote{images: o, image: image, done: have, total: total}), response.Body)
	return err
}

// downloadNote writes down how far a download is.
type downloadNote struct {
	images      *osImages
	image       *osImage
	done, total int64
}

func (n *downloadNote) Write(p []byte) (int, error) {
	n.done += int64(len(p))
	n.images.mu.Lock()
	defer n.images.mu.Unlock()
	n.image.state = imageDownloading
	if n.total > 0 {
		n.image.message = fmt.Sprintf("(%d%% of %d MB)", n.done*100/n.total, n.total/1_000_000)
	}
	return len(p), nil
}

func checkDigest(file *os.File, want string) error {
	if want == "" {
		return nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return &wrongFileError{got, want}
	}
	return nil
}

func (o *osImages) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, image := range o.images {
		if image.base != nil {
			errs = append(errs, image.base.Close())
			image.base = nil
		}
	}
	return errors.Join(errs...)
}
