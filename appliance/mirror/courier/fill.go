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
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"landfall/appliance/mirror"
	"landfall/appliance/release"
)

// Payloads reads the images of a release payload; *release.Library implements it.
type Payloads interface {
	Payload(ctx context.Context, pullSpec, arch string, secret authn.Keychain) (*release.Payload, error)
}

// FillOptions configures Fill.
type FillOptions struct {
	Client   *mirror.Client // client of the connected machine, usually without rules
	Payloads Payloads       // for lists of a whole release
	Secret   authn.Keychain
	Dir      string
	Part     int64 // bytes; 0 means DefaultPart
	// Progress receives the current item, the number of finished images, the number of all images,
	// and the number of fetched bytes. It may be nil.
	Progress func(doing string, done, total int, bytes int64)
	// SignatureStore is the URL of the store of release signatures; "" for none.
	SignatureStore string
	// Pause is the wait before an interrupted blob is requested again; 0 means a second.
	Pause time.Duration
}

// Filled is the result of filling a directory.
type Filled struct {
	Images int   `json:"images"`
	Blobs  int   `json:"blobs"`
	Bytes  int64 `json:"bytes"`
	// Fetched is the number of bytes that were fetched.
	Fetched int64 `json:"fetched"`
	// Signatures is the number of OpenPGP signatures of the release.
	Signatures int `json:"signatures"`
	// SignatureProblem is the reason why signatures could not be fetched, or "".
	SignatureProblem string `json:"signature_problem,omitempty"`
	// Sigstore is the number of Sigstore attachments of the release: 1 or 0.
	Sigstore int `json:"sigstore"`
	// Notes say in one sentence each what the directory lacks although the run was successful.
	Notes []string `json:"notes,omitempty"`
}

// Fill fetches the images of a signed list into a directory. It continues an interrupted run.
func Fill(ctx context.Context, text []byte, o FillOptions) (*Filled, error) {
	list, _, err := Parse(text)
	if err != nil {
		return nil, err
	}
	target, err := openDirectory(o.Dir, o.Part)
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int, int64) {}
	}
	if o.Pause == 0 {
		o.Pause = time.Second
	}
	f := &filler{FillOptions: o, directory: target, seen: map[string]bool{}}
	items := list.Items
	if list.Whole {
		if items, err = f.whole(ctx, list); err != nil {
			return nil, err
		}
	}
	b := bundle{Version: 1, Release: list.Release}
	for i, item := range items {
		f.doing, f.done, f.total = item.Source, i, len(items)
		f.reportProgress()
		packed, err := f.image(ctx, item)
		if err != nil {
			return nil, err
		}
		b.Items = append(b.Items, packed)
	}
	f.filled.Images = len(items)
	release := f.releaseDigest(list.Release)
	for _, item := range items {
		if release == "" || !strings.HasSuffix(item.Source, "@"+release) {
			continue
		}
		attachment, err := f.sigstore(ctx, item, release)
		if err != nil {
			return nil, err
		}
		if attachment != nil {
			b.Attachments = append(b.Attachments, *attachment)
		}
	}
	f.filled.Sigstore = len(b.Attachments)
	if f.filled.Signatures, err = f.signatures(ctx, release); err != nil {
		f.filled.SignatureProblem = err.Error()
	}
	return &f.filled, target.writeBundle(b, text)
}

type filler struct {
	FillOptions
	directory *directory
	filled    Filled
	seen      map[string]bool
	resolved  string // digest of the release image that was read, or ""

	doing       string
	done, total int
}

func (f *filler) reportProgress() { f.Progress(f.doing, f.done, f.total, f.filled.Fetched) }

// whole returns the items of a whole release. It reads their names from the release image.
func (f *filler) whole(ctx context.Context, list *List) ([]Item, error) {
	payload, err := f.Payloads.Payload(ctx, list.Release, list.Architecture, f.Secret)
	if err != nil {
		return nil, err
	}
	f.resolved = payload.Digest
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

// image fetches an image or a list with all its parts.
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
			fmt.Errorf("%s returned a manifest with the digest %s instead of %s; check whether a proxy in between "+
				"changes responses", endpoint.Ref.Context().Name(), got, item.Source)
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
		f.directory.put(wanted.DigestStr(), descriptor.Manifest)
}

// manifestFile is an image manifest or a list.
type manifestFile struct {
	Config    *v1.Descriptor  `json:"config"`
	Layers    []v1.Descriptor `json:"layers"`
	Manifests []v1.Descriptor `json:"manifests"`
}

// parts fetches everything that a manifest refers to. It fetches all images of a list, because
// registries reject a list if one of its images is missing.
func (f *filler) parts(ctx context.Context, from *source, data []byte) error {
	var manifest manifestFile
	if err := json.Unmarshal(data, &manifest); err != nil {
		return fmt.Errorf("parse the manifest: %w", err)
	}
	for _, child := range manifest.Manifests {
		data, err := from.manifest(ctx, child.Digest.String())
		if err != nil {
			return err
		}
		if err := errors.Join(f.parts(ctx, from, data), f.directory.put(child.Digest.String(), data)); err != nil {
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

// tries is the maximum number of requests for a blob that is interrupted.
const tries = 6

// blob fetches a blob unless it is stored. It continues after an interrupted connection or an
// interrupted run.
func (f *filler) blob(ctx context.Context, from *source, blob v1.Descriptor) error {
	digest := blob.Digest.String()
	if f.seen[digest] {
		return nil
	}
	f.seen[digest] = true
	f.filled.Blobs++
	f.filled.Bytes += blob.Size
	if whole, err := f.directory.has(digest, blob.Size); whole || err != nil {
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

// brokenError is an error of a transfer that may succeed in another attempt.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

func (f *filler) fetch(ctx context.Context, from *source, blob v1.Descriptor) (err error) {
	digest := blob.Digest.String()
	sum := sha256.New()
	have, err := f.hashStored(digest, sum)
	if err != nil {
		return err
	}
	if have > blob.Size {
		return errors.Join(&brokenError{fmt.Errorf("the stored part of %s is too long", digest)},
			f.directory.discard(digest))
	}
	if have < blob.Size {
		body, continues, err := from.blob(ctx, digest, have, blob.Size)
		if err != nil {
			return err
		}
		if !continues && have > 0 { // the registry ignored the range and starts from the beginning
			sum.Reset()
			have = 0
			if err := f.directory.discard(digest); err != nil {
				return errors.Join(err, body.Close())
			}
		}
		got, err := f.store(digest, io.TeeReader(io.LimitReader(body, blob.Size-have+1), sum))
		if err = errors.Join(err, body.Close()); err != nil {
			return err
		}
		if have += got; have < blob.Size {
			return &brokenError{fmt.Errorf("%s closed the connection after %d of %d bytes of %s", from.name, have,
				blob.Size,
				digest)}
		}
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); have != blob.Size || got != digest {
		return errors.Join(&brokenError{fmt.Errorf("%s returned wrong content for %s (digest %s)", from.name,
			digest, got)}, f.directory.discard(digest))
	}
	return f.directory.complete(digest)
}

// hashStored adds the stored bytes of an incomplete blob to sum and returns their number.
func (f *filler) hashStored(digest string, sum hash.Hash) (int64, error) {
	count, size, err := f.directory.parts(digest, false)
	if err != nil || count == 0 {
		return 0, err
	}
	in, err := f.directory.open(digest, false)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(sum, in)
	return size, errors.Join(err, in.Close())
}

// store appends the bytes of in to a blob. It ignores read errors, because the bytes before an
// error are valid.
func (f *filler) store(digest string, in io.Reader) (int64, error) {
	out, err := f.directory.append(digest)
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
			f.reportProgress()
		}
		if readErr != nil {
			return total, out.Close()
		}
	}
}

// source is a repository from which blobs are fetched.
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

// manifest fetches a manifest by digest and verifies it.
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
		return nil, fmt.Errorf("%s returned a manifest with the digest %s instead of %s", s.name, got, digest)
	}
	return data, nil
}

// blob opens a blob of the given size at an offset. continues is false if the registry ignores the
// offset.
func (s *source) blob(ctx context.Context, digest string, offset,
	size int64) (body io.ReadCloser, continues bool, err error) {
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
