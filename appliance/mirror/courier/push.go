package courier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"landfall/appliance/mirror"
)

// PushOptions configures Push.
type PushOptions struct {
	Dir string
	// To is the mirror's address from this machine, as host or host:port; "" means the address in
	// the list.
	To       string
	Client   *mirror.Client // contains the trusted CAs
	Insecure bool           // allows plain HTTP and untrusted certificates
	Secret   authn.Keychain
	// Progress receives the current item, the number of finished images, and the number of all
	// images. It may be nil.
	Progress func(doing string, done, total int)
}

// Pushed is the result of pushing a directory.
type Pushed struct {
	Images int   `json:"images"`
	Blobs  int   `json:"blobs"` // including blobs that the mirror already had
	Bytes  int64 `json:"bytes"`
}

// Push pushes the images of a filled directory to their destinations according to the site's mirror
// rules. It skips content that the mirror already has, except manifests: a registry may have lost a
// layer although it still has the manifest.
func Push(ctx context.Context, o PushOptions) (*Pushed, error) {
	from := &directory{dir: o.Dir, part: DefaultPart}
	b, err := from.readBundle()
	if err != nil {
		return nil, err
	}
	if strings.Contains(o.To, "://") || strings.HasSuffix(o.To, "/") {
		return nil, fmt.Errorf("%q is not a registry; use host or host:port", o.To)
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	p := &pusher{PushOptions: o, directory: from, sent: map[string]bool{}}
	for i, item := range b.Items {
		o.Progress(item.Destination, i, len(b.Items))
		if err := p.image(ctx, item); err != nil {
			return nil, fmt.Errorf("push %s: %w", item.Source, err)
		}
	}
	for _, attachment := range b.Attachments {
		if err := p.image(ctx, attachment); err != nil {
			return nil, fmt.Errorf("push %s: %w", attachment.Source, err)
		}
	}
	p.pushed.Images = len(b.Items)
	return &p.pushed, nil
}

type pusher struct {
	PushOptions
	directory *directory
	pushed    Pushed
	sent      map[string]bool // by repository and digest
}

func (p *pusher) image(ctx context.Context, item packed) error {
	destination := item.Destination
	if p.To != "" {
		_, path, _ := strings.Cut(destination, "/")
		destination = p.To + "/" + path
	}
	options := []name.Option{name.StrictValidation}
	if p.Insecure {
		options = append(options, name.Insecure)
	}
	tag, err := name.NewTag(destination, options...)
	if err != nil {
		return fmt.Errorf("%q is not a repository with a tag: %w", destination, err)
	}
	secret := p.Secret
	if secret == nil {
		secret = authn.NewMultiKeychain() // no credentials
	}
	remoteOptions := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(secret),
		remote.WithTransport(p.Client.Transport(mirror.Endpoint{Ref: tag, Insecure: p.Insecure}))}
	data, err := p.directory.manifest(item.Digest)
	if err != nil {
		return err
	}
	if err := p.parts(tag.Context(), data, remoteOptions); err != nil {
		return err
	}
	return describeError(remote.Put(tag, rawManifest{data, types.MediaType(item.MediaType)}, remoteOptions...),
		tag.Context())
}

// parts pushes everything that a manifest refers to.
func (p *pusher) parts(repository name.Repository, data []byte, options []remote.Option) error {
	var manifest manifestFile
	if err := json.Unmarshal(data, &manifest); err != nil {
		return fmt.Errorf("parse the manifest: %w", err)
	}
	for _, child := range manifest.Manifests {
		data, err := p.directory.manifest(child.Digest.String())
		if err != nil {
			return err
		}
		if err := p.parts(repository, data, options); err != nil {
			return err
		}
		if err := remote.Put(repository.Digest(child.Digest.String()), rawManifest{data, child.MediaType},
			options...); err != nil {
			return describeError(err, repository)
		}
	}
	blobs := manifest.Layers
	if manifest.Config != nil {
		blobs = append([]v1.Descriptor{*manifest.Config}, blobs...)
	}
	for _, blob := range blobs {
		key := repository.Name() + "@" + blob.Digest.String()
		if p.sent[key] || !blob.MediaType.IsDistributable() && len(blob.URLs) > 0 {
			continue
		}
		p.sent[key] = true
		if err := remote.WriteLayer(repository, &storedBlob{p.directory, blob}, options...); err != nil {
			var refused *transport.Error
			if errors.As(err, &refused) && slices.ContainsFunc(refused.Errors,
				func(d transport.Diagnostic) bool { return d.Code == transport.DigestInvalidErrorCode }) {
				return damaged(p.Dir, blob.Digest.String())
			}
			return describeError(err, repository)
		}
		p.pushed.Blobs++
		p.pushed.Bytes += blob.Size
	}
	return nil
}

// describeError adds the registry's name and a remedy to an error of the registry, if the kind of
// the error is known.
func describeError(err error, repository name.Repository) error {
	if err == nil {
		return nil
	}
	failed := mirror.Failed(repository.Name(), mirror.Endpoint{Ref: repository.Tag("latest")}, err, nil)
	switch attempt := failed.Attempts[0]; attempt.Reason {
	case mirror.ReasonOther, mirror.ReasonStatus:
		return err
	case mirror.ReasonUnauthorized:
		return fmt.Errorf("%s does not accept writes with these credentials (%w); use --pull-secret with an entry "+
			"that may push",
			repository.Name(), err)
	default:
		return errors.New(repository.RegistryStr() + " " + attempt.Answer + "; " + failed.Advice())
	}
}

// rawManifest is a manifest with its original bytes, which preserve the digest.
type rawManifest struct {
	data []byte
	kind types.MediaType
}

// RawManifest returns the bytes of the manifest.
func (m rawManifest) RawManifest() ([]byte, error) { return m.data, nil }

// MediaType returns the media type of the manifest.
func (m rawManifest) MediaType() (types.MediaType, error) { return m.kind, nil }

// storedBlob is a blob in a directory, as a layer of the registry library.
type storedBlob struct {
	directory  *directory
	descriptor v1.Descriptor
}

// Digest returns the digest of the stored bytes.
func (b *storedBlob) Digest() (v1.Hash, error) { return b.descriptor.Digest, nil }

// DiffID returns the digest of the stored bytes. The real value is not known, and a push does not
// need it.
func (b *storedBlob) DiffID() (v1.Hash, error) { return b.descriptor.Digest, nil }

// Compressed opens the stored bytes. The registry verifies their digest.
func (b *storedBlob) Compressed() (io.ReadCloser, error) {
	return b.directory.open(b.descriptor.Digest.String(), true)
}

// Uncompressed is the same as Compressed.
func (b *storedBlob) Uncompressed() (io.ReadCloser, error) { return b.Compressed() }

// Size returns the number of stored bytes.
func (b *storedBlob) Size() (int64, error) { return b.descriptor.Size, nil }

// MediaType returns the media type in the manifest.
func (b *storedBlob) MediaType() (types.MediaType, error) { return b.descriptor.MediaType, nil }
