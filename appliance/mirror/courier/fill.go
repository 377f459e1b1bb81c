package courier

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"landfall/appliance/mirror"
	"landfall/appliance/release"
)

// Payloads reads what a release image names; *release.Library implements it.
type Payloads interface {
	Payload(ctx context.Context, pullSpec, arch string, secret authn.Keychain) (*release.Payload, error)
}

// FillOptions says how a folder is filled.
type FillOptions struct {
	Client   *mirror.Client // of the connected machine; usually without rules
	Payloads Payloads       // for lists of a whole release
	Secret   authn.Keychain
	Dir      string
	Part     int64 // bytes; 0 means DefaultPart
	// Progress is told what is being fetched, how many of all images are done, and how many bytes
	// were fetched; may be nil.
	Progress func(doing string, done, total int, bytes int64)
	// Pause is waited between two tries of a blob that broke off; 0 means a second.
	Pause time.Duration
}

// Filled is what came of filling a folder.
type Filled struct {
	Images int   `json:"images"`
	Blobs  int   `json:"blobs"`
	Bytes  int64 `json:"bytes"`
	// Fetched are the bytes that were not there from an earlier run.
	Fetched int64 `json:"fetched"`
}

// Fill fetches what a signed list names into a folder. A run that was interrupted is gone on with.
func Fill(ctx context.Context, text []byte, o FillOptions) (*Filled, error) {
	list, _, err := Parse(text)
	if err != nil {
		return nil, err
	}
	target, err := openFolder(o.Dir, o.Part)
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int, int64) {}
	}
	if o.Pause == 0 {
		o.Pause = time.Second
	}
	f := &filler{FillOptions: o, folder: target, seen: map[string]bool{}}
	items := list.Items
	if list.Whole {
		if items, err = f.whole(ctx, list); err != nil {
			return nil, err
		}
	}
	b := bundle{Version: 1, Release: list.Release}
	for i, item := range items {
		f.doing, f.done, f.total = item.Source, i, len(items)
		f.tell()
		packed, err := f.image(ctx, item)
		if err != nil {
			return nil, err
		}
		b.Items = append(b.Items, packed)
	}
	f.filled.Images = len(items)
	return &f.filled, target.writeBundle(b, text)
}

type filler struct {
	FillOptions
	folder *folder
	filled Filled
	seen   map[string]bool

	doing       string
	done, total int
}

func (f *filler) tell() { f.Progress(f.doing, f.done, f.total, f.filled.Fetched) }

// whole reads from the release image what the list could not know.
func (f *filler) whole(ctx context.Context, list *List) ([]Item, error) {
	payload, err := f.Payloads.Payload(ctx, list.Release, list.Architecture, f.Secret)
	if err != nil {
		return nil, err
	}
	items, err := list.components(payload.Version, payload.Architecture, payload.Images)
	if err != nil {
		return nil, err
	}
	for _, item := range list.Items {
		if item.Source == list.Release {
			if tag, err := name.NewTag(item.Destination); err == nil {
				item.Destination = tag.Context().Name() + ":" + ComponentTag(payload.Version, payload.Architecture, "")
			}
		}
		items = append(items, item)
	}
	return items, nil
}

// image fetches an image or a list with all that belongs to it.
func (f *filler) image(ctx context.Context, item Item) (packed, error) {
	descriptor, endpoint, err := f.Client.Get(ctx, item.Source, f.Secret)
	if err != nil {
		return packed{}, err
	}
	wanted, err := name.NewDigest(item.Source)
	if err != nil {
		return packed{}, err
	}
	if got := digestOf(descriptor.Manifest); got != wanted.DigestStr() {
		return packed{},
			fmt.Errorf("%s gave a manifest of digest %s when asked for %s; is there a proxy in between that changes "+
				"what it passes on?", endpoint.Ref.Context().Name(), got, item.Source)
	}
	from, err := f.connect(ctx, endpoint)
	if err != nil {
		return packed{}, fmt.Errorf("fetch %s: %w", item.Source, err)
	}
	if err := f.parts(ctx, from, descriptor.Manifest); err != nil {
		return packed{}, fmt.Errorf("fetch %s: %w", item.Source, err)
	}
	return packed{Source: item.Source, Destination: item.Destination, Digest: wanted.DigestStr(),
			MediaType: string(descriptor.MediaType)},
		f.folder.put(wanted.DigestStr(), descriptor.Manifest)
}

// manifestFile is an image or a list.
type manifestFile struct {
	Config    *v1.Descriptor  `json:"config"`
	Layers    []v1.Descriptor `json:"layers"`
	Manifests []v1.Descriptor `json:"manifests"`
}

// parts fetches all that a manifest names; of a list, all images, because registries take no list
// whose images they lack.
func (f *filler) parts(ctx context.Context, from *source, data []byte) error {
	var manifest manifestFile
	if err := json.Unmarshal(data, &manifest); err != nil {
		return fmt.Errorf("the manifest can't be read: %w", err)
	}
	for _, child := range manifest.Manifests {
		data, err := from.manifest(ctx, child.Digest.String())
		if err != nil {
			return err
		}
		if err := errors.Join(f.parts(ctx, from, data), f.folder.put(child.Digest.String(), data)); err != nil {
			return err
		}
	}
	blobs := manifest.Layers
	if manifest.Config != nil {
		blobs = append([]v1.Descriptor{*manifest.Config}, blobs...)
	}
	for _, blob := range blobs {
		if !blob.MediaType.IsDistributable() && len(blob.URLs) > 0 {
			continue
		}
		if err := f.blob(ctx, from, blob); err != nil {
			return err
		}
	}
	return nil
}

// tries is how often a blob that broke off is gone on with.
const tries = 6

// blob fetches a blob that is not there yet, going on where an earlier run or a connection broke
// off.
func (f *filler) blob(ctx context.Context, from *source, blob v1.Descriptor) error {
	digest := blob.Digest.String()
	if f.seen[digest] {
		return nil
	}
	f.seen[digest] = true
	f.filled.Blobs++
	f.filled.Bytes += blob.Size
	if whole, err := f.folder.has(digest, blob.Size); whole || err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := f.fetch(ctx, from, blob)
		var broken *brokenError
		if err == nil || !errors.As(err, &broken) || try == tries || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.Pause * time.Duration(try)):
		}
	}
}

// brokenError is a transfer that may succeed when it is gone on with.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

func (f *filler) fetch(ctx context.Context, from *source, blob v1.Descriptor) (err error) {
	digest := blob.Digest.String()
	sum := sha256.New()
	have, err := f.begun(digest, sum)
	if err != nil {
		return err
	}
	if have > blob.Size {
		return errors.Join(&brokenError{fmt.Errorf("more of %s is there than it has", digest)},
			f.folder.discard(digest))
	}
	if have < blob.Size {
		body, goesOn, err := from.blob(ctx, digest, have, blob.Size)
		if err != nil {
			return err
		}
		if !goesOn && have > 0 { // it can't begin in the middle
			sum.Reset()
			have = 0
			if err := f.folder.discard(digest); err != nil {
				return errors.Join(err, body.Close())
			}
		}
		got, err := f.take(digest, io.TeeReader(io.LimitReader(body, blob.Size-have+1), sum))
		if err = errors.Join(err, body.Close()); err != nil {
			return err
		}
		if have += got; have < blob.Size {
			return &brokenError{fmt.Errorf("%s broke off after %d of %d bytes of %s", from.name, have, blob.Size,
				digest)}
		}
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); have != blob.Size || got != digest {
		return errors.Join(&brokenError{fmt.Errorf("%s gave other bytes than those of %s (digest %s)", from.name,
			digest, got)}, f.folder.discard(digest))
	}
	return f.folder.complete(digest)
}

// begun computes what is there of a blob into a sum.
func (f *filler) begun(digest string, sum hash.Hash) (int64, error) {
	count, size, err := f.folder.parts(digest, false)
	if err != nil || count == 0 {
		return 0, err
	}
	in, err := f.folder.open(digest, false)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(sum, in)
	return size, errors.Join(err, in.Close())
}

// take appends what is read. An error of reading is no error here: what was read counts.
func (f *filler) take(digest string, in io.Reader) (int64, error) {
	out, err := f.folder.append(digest)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	buffer := make([]byte, 256<<10)
	for {
		n, readErr := in.Read(buffer)
		if n > 0 {
			if _, err := out.Write(buffer[:n]); err != nil {
				return total, errors.Join(fmt.Errorf("write to %s: %w", f.Dir, err), out.Close())
			}
			total += int64(n)
			f.filled.Fetched += int64(n)
			f.tell()
		}
		if readErr != nil {
			return total, out.Close()
		}
	}
}

// source is a repository that blobs are fetched from.
type source struct {
	name   string
	base   url.URL
	client *http.Client
}

func (f *filler) connect(ctx context.Context, endpoint mirror.Endpoint) (*source, error) {
	repository := endpoint.Ref.Context()
	auth := authn.Anonymous
	if f.Secret != nil {
		found, err := f.Secret.Resolve(repository)
		if err != nil {
			return nil, err
		}
		auth = found
	}
	authenticated, err := transport.NewWithContext(ctx, repository.Registry, auth, f.Client.Transport(endpoint),
		[]string{repository.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	return &source{name: repository.Name(), client: &http.Client{Transport: authenticated},
		base: url.URL{Scheme: repository.Scheme(), Host: repository.RegistryStr(),
			Path: "/v2/" + repository.RepositoryStr()}}, nil
}

func (s *source) get(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	address := s.base
	address.Path += path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header = header
	request.Header.Set("Accept-Encoding", "identity")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, &brokenError{err}
	}
	if err := transport.CheckError(response, http.StatusOK, http.StatusPartialContent); err != nil {
		err = errors.Join(err, response.Body.Close())
		if response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= http.StatusInternalServerError {
			return nil, &brokenError{err}
		}
		return nil, err
	}
	return response, nil
}

// manifest fetches a manifest by its digest.
func (s *source) manifest(ctx context.Context, digest string) ([]byte, error) {
	response, err := s.get(ctx, "/manifests/"+digest, http.Header{"Accept": {
		"application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json",
		"application/vnd.docker.distribution.manifest.list.v2+json",
		"application/vnd.docker.distribution.manifest.v2+json"}})
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, manifestLimit+1))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if got := digestOf(data); got != digest {
		return nil, fmt.Errorf("%s gave a manifest of digest %s when asked for %s", s.name, got, digest)
	}
	return data, nil
}

// blob opens a blob of that size from an offset; goesOn is false if it begins at its start all the
// same.
func (s *source) blob(ctx context.Context, digest string, offset,
	size int64) (body io.ReadCloser, goesOn bool, err error) {
	header := http.Header{}
	if offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, size-1))
	}
	response, err := s.get(ctx, "/blobs/"+digest, header)
	if err != nil {
		return nil, false, err
	}
	return response.Body, response.StatusCode == http.StatusPartialContent, nil
}
