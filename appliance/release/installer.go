package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"landfall/appliance/architecture"
	"landfall/appliance/mirror"
)

// installerMode lets the user of the sandbox read and run the program. Its directory is private.
const installerMode = 0o755

// maxLinks is the maximum number of links on the path to a file in an image.
const maxLinks = 16

// Installer is a payload's openshift-install on the local disk, which contains the payload's image
// and version.
type Installer struct {
	Path   string
	SHA256 string // hex
}

// UnsupportedInstallerError reports that a release's openshift-install does not run on this
// machine.
type UnsupportedInstallerError struct{ Version, Reason string }

func (e *UnsupportedInstallerError) Error() string {
	return fmt.Sprintf("the openshift-install of release %s does not run on this machine: %s", e.Version, e.Reason)
}

// source names the payload image and the path of an openshift-install for this machine.
type source struct{ tag, path, arch string }

// sourceOf follows the layout of `oc adm release extract --command`. Before 4.16, openshift-install
// is linked against libraries of RHEL, which the appliance's machine may lack.
func sourceOf(p *Payload, goos, goarch string) (source, error) {
	major, minor, err := majorMinor(p.Version)
	if err != nil {
		return source{}, err
	}
	if major < 4 || major == 4 && minor < 16 {
		return source{}, &UnsupportedInstallerError{p.Version,
			"before 4.16, it needs the libraries of a RHEL host; install 4.16 or newer"}
	}
	if goos == "linux" && (p.Multi || architecture.Of(p.Architecture).Go() == goarch) {
		return source{TagInstaller, "usr/bin/" + installerFile, architecture.Of(goarch).RPM()}, nil
	}
	directory := map[string]string{"linux/amd64": "linux_amd64", "linux/arm64": "linux_arm64", "darwin/amd64": "mac",
		"darwin/arm64": "mac_arm64"}[goos+"/"+goarch]
	if directory == "" || p.Images[TagInstallerArtifacts] == "" {
		return source{}, &UnsupportedInstallerError{p.Version,
			fmt.Sprintf("it is for linux/%s, but this machine is %s/%s",
				architecture.Of(p.Architecture).Go(), goos, goarch)}
	}
	return source{TagInstallerArtifacts, "usr/share/openshift/" + directory + "/" + installerFile, p.Architecture}, nil
}

// Installer returns the payload's openshift-install from the cache or the registry. Concurrent
// callers share one extraction, which is canceled when the context of the last caller ends.
// progress (may be nil) is called with the fetched bytes and the total, which may grow. It is
// called from other goroutines and must return quickly.
//
// The file stays until release is called. Errors: that of the [Policy], *MissingImageError,
// *UnsupportedInstallerError, *DigestError, *DiskFullError, and those of the registry.
func (l *Library) Installer(ctx context.Context, p *Payload, secret authn.Keychain,
	progress func(done, total int64)) (inst *Installer, release func(), err error) {
	if err := l.check(ctx, p, secret); err != nil {
		return nil, nil, err
	}
	from, err := sourceOf(p, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return nil, nil, err
	}
	spec, err := p.Component(from.tag)
	if err != nil {
		return nil, nil, err
	}
	if _, err := name.NewDigest(spec); err != nil {
		// The digest of the release would not determine the program.
		return nil, nil, fmt.Errorf("release %s names its image %q by a tag (%s); use a release that names its images "+
			"by their digests", p.Version, from.tag, spec)
	}
	key := strings.ReplaceAll(p.Digest, ":", "-") + "-" + p.Architecture
	f, leave := l.join(ctx, key, progress, func(ctx context.Context, progress func(done, total int64)) (*Installer,
		error) {
		return l.obtain(ctx, key, p, from, spec, secret, progress)
	})
	select {
	case <-f.done:
	case <-ctx.Done():
		leave()
		l.releaseUse(key)
		return nil, nil, fmt.Errorf("extract openshift-install of release %s: %w", p.Version,
			context.Cause(ctx))
	}
	leave()
	if f.err != nil {
		l.releaseUse(key)
		return nil, nil, fmt.Errorf("extract openshift-install of release %s: %w", p.Version, f.err)
	}
	return f.installer, sync.OnceFunc(func() { l.releaseUse(key) }), nil
}

// check asks the policy whether the payload's program may run. The payload's digest determines the
// program, because the payload names its images by their digests.
func (l *Library) check(ctx context.Context, p *Payload, secret authn.Keychain) error {
	if l.policy == nil {
		return errors.New("openshift-install cannot be used, because no policy decides which releases are allowed")
	}
	return l.policy.Check(ctx, p.PullSpec, p.Digest, secret)
}

// sharedExtraction is one extraction on which several callers may wait.
type sharedExtraction struct {
	done      chan struct{}
	installer *Installer // installer and err are set before done is closed
	err       error
	cancel    context.CancelFunc

	mu          sync.Mutex
	waiting     int
	listeners   map[int]func(done, total int64)
	next        int
	have, total int64
}

// join adds the caller to the extraction for the key, which it starts if necessary, and to the
// installer's users. leave removes the caller; the last one to leave cancels the extraction.
func (l *Library) join(ctx context.Context, key string, progress func(done, total int64),
	work func(context.Context, func(done, total int64)) (*Installer, error)) (f *sharedExtraction, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inUse[key]++
	f = l.extractions[key]
	if f == nil || f.ending() {
		f = l.start(ctx, key, work)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting++
	id := f.next
	f.next++
	if progress != nil {
		f.listeners[id] = progress
		if f.total > 0 {
			progress(f.have, f.total)
		}
	}
	return f, func() { f.leave(id) }
}

// start starts an extraction with the values of ctx and the lifetime of the Library. The caller
// holds l.mu.
func (l *Library) start(ctx context.Context, key string, work func(context.Context,
	func(done, total int64)) (*Installer, error)) *sharedExtraction {
	f := &sharedExtraction{done: make(chan struct{}), listeners: map[int]func(done, total int64){}}
	flightCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(l.ctx, cancel)
	f.cancel = cancel
	l.extractions[key] = f
	l.running.Go(func() {
		defer close(f.done)
		defer cancel()
		defer stop()
		f.installer, f.err = work(flightCtx, f.report)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.extractions[key] == f {
			delete(l.extractions, key)
		}
	})
	return f
}

// ending reports whether all callers have left. A new caller must then not join.
func (f *sharedExtraction) ending() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting == 0
}

// leave removes a caller from the extraction. If no callers remain, it cancels the extraction.
func (f *sharedExtraction) leave(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.listeners, id)
	if f.waiting--; f.waiting == 0 {
		f.cancel()
	}
}

func (f *sharedExtraction) report(have, total int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.have, f.total = have, total
	for _, listener := range f.listeners {
		listener(have, total)
	}
}

// releaseUse ends one use of an installer.
func (l *Library) releaseUse(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inUse[key]--; l.inUse[key] == 0 {
		delete(l.inUse, key)
	}
}

// obtain returns the cached installer or extracts it. Only one extraction runs at a time, so
// unfinished data in the cache belongs to it or is left over.
func (l *Library) obtain(ctx context.Context, key string, p *Payload, from source, spec string, secret authn.Keychain,
	progress func(done, total int64)) (*Installer, error) {
	inst, err := l.cached(key)
	if err != nil || inst != nil {
		return inst, err
	}
	select {
	case l.extracting <- struct{}{}:
		defer func() { <-l.extracting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if inst, err := l.cached(key); err != nil || inst != nil {
		return inst, err
	}
	desc, served, err := l.mirror.Get(ctx, spec, secret)
	if err != nil {
		return nil, err // the error names the image
	}
	img, err := imageFor(spec, desc, from.arch)
	if err != nil {
		return nil, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return nil, fmt.Errorf("read image %q of the release: %w", from.tag, err)
	}
	x := &extraction{library: l, served: served, secret: secret, layers: manifest.Layers, progress: progress,
		blobs: map[int]string{}}
	inst, err = l.extract(ctx, x, key, p, from)
	if err != nil {
		return nil, err
	}
	l.log.Info("openshift-install extracted.", "version", p.Version, "image", spec, "from", served.Ref.Name(),
		"path", inst.Path)
	if err := x.removeBlobs(); err != nil {
		return nil, err
	}
	return inst, l.evict()
}

// extract writes the installer under a temporary name, syncs it and renames it. On an error it
// leaves nothing behind.
func (l *Library) extract(ctx context.Context, x *extraction, key string, p *Payload,
	from source) (inst *Installer, err error) {
	dir := filepath.Join(l.installersDir(), newPrefix+key)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, diskError(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	temp := filepath.Join(dir, installerFile)
	if err := x.write(ctx, from.path, temp); err != nil {
		return nil, err
	}
	if err := l.finish(temp, p); err != nil {
		return nil, diskError(err)
	}
	sum, err := sumOf(temp)
	if err != nil {
		return nil, err
	}
	if err := writeSynced(filepath.Join(dir, sumFile), []byte(sum+"\n")); err != nil {
		return nil, diskError(err)
	}
	if err := l.store(dir, key); err != nil {
		return nil, diskError(err)
	}
	return &Installer{Path: filepath.Join(l.installersDir(), key, installerFile), SHA256: sum}, nil
}

// finish stamps the program and syncs it to the disk.
func (l *Library) finish(path string, p *Payload) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	missing, err := stamp(file, p)
	if len(missing) > 0 {
		l.log.Warn("openshift-install has no placeholders for the release's data. It reads the data from its "+
			"environment.", "version",
			p.Version, "missing", missing)
	}
	return errors.Join(err, file.Chmod(installerMode), file.Sync(), file.Close())
}

func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

// extraction finds one file in an image. It fetches layers from the last one down, and no more
// layers than necessary.
type extraction struct {
	library  *Library
	served   mirror.Endpoint
	secret   authn.Keychain
	layers   []v1.Descriptor
	progress func(done, total int64)

	blobs       map[int]string // layer -> its file
	have, total int64          // bytes of the layers fetched so far
}

// write copies the file at name in the image to a new file at target.
func (x *extraction) write(ctx context.Context, name, target string) error {
	wanted := name
	for range maxLinks {
		next, err := x.find(ctx, wanted, target)
		if err != nil || next == "" {
			return err
		}
		wanted = next
	}
	return fmt.Errorf("%s in %s: too many links", name, x.served.Ref.Name())
}

// find searches the layers for a file, from the last layer down. It either writes the file to
// target, or returns the target of a link in its path, for which the search must restart at the
// last layer.
func (x *extraction) find(ctx context.Context, wanted, target string) (next string, err error) {
	removed := newWhiteouts()
	for i := range slices.Backward(x.layers) {
		blob, err := x.layer(ctx, i)
		if err != nil {
			return "", err
		}
		found, next, err := searchLayer(ctx, blob, wanted, target, removed)
		if err != nil {
			return "", fmt.Errorf("layer %s of %s: %w", x.layers[i].Digest, x.served.Ref.Name(), err)
		}
		if found || next != "" {
			return next, nil
		}
		if removed.hide(wanted) {
			return "", fmt.Errorf("%s was removed from %s by layer %s", wanted, x.served.Ref.Name(), x.layers[i].Digest)
		}
	}
	return "", fmt.Errorf("%s does not contain %s", x.served.Ref.Name(), wanted)
}

// layer fetches a layer unless it is cached.
func (x *extraction) layer(ctx context.Context, i int) (string, error) {
	if blob, ok := x.blobs[i]; ok {
		return blob, nil
	}
	x.total += x.layers[i].Size
	blob, err := x.library.download(ctx, x.served, x.secret, x.layers[i],
		func(done int64) { x.progress(x.have+done, x.total) })
	if err != nil {
		return "", err
	}
	x.have += x.layers[i].Size
	x.blobs[i] = blob
	return blob, nil
}

func (x *extraction) removeBlobs() error {
	var errs []error
	for _, blob := range x.blobs {
		errs = append(errs, os.Remove(blob))
	}
	return errors.Join(errs...)
}

// searchLayer searches one layer and records the files that it removes from lower layers.
func searchLayer(ctx context.Context, blob, wanted, target string,
	removed *whiteouts) (found bool, next string, err error) {
	file, err := os.Open(blob)
	if err != nil {
		return false, "", err
	}
	defer file.Close()
	err = scanLayer(&contextReader{ctx, file}, func(e entry) error {
		removed.note(e)
		link := linkTarget(e)
		switch {
		case e.name == wanted && e.regular():
			// A later entry of the same name would replace this one.
			found, next = true, ""
			return writeEntry(e, target)
		case e.name == wanted && link != "":
			next = link
		case e.name != wanted && link != "" && strings.HasPrefix(wanted, e.name+"/"):
			next = path.Join(link, strings.TrimPrefix(wanted, e.name+"/"))
		}
		return nil
	})
	return found, next, err
}

// linkTarget returns the target of a link as a name in the image, or "" for other entries. Hard
// links are relative to the root, symbolic links to their own directory.
func linkTarget(e entry) string {
	switch {
	case e.header.Typeflag == '1':
		return cleanName(e.header.Linkname)
	case e.header.Typeflag != '2':
		return ""
	case path.IsAbs(e.header.Linkname):
		return cleanName(e.header.Linkname)
	}
	return cleanName(path.Join(path.Dir(e.name), e.header.Linkname))
}

func writeEntry(e entry, target string) error {
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return diskError(err)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{file}, e.content, make([]byte, copyBuffer))
	return diskError(errors.Join(err, file.Close()))
}

// contextReader is a reader that fails after its context has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
