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

// PushOptions says where a folder goes.
type PushOptions struct {
	Dir string
	// To is the mirror as this machine reaches it, host or host:port; "" is the one in the list.
	To       string
	Client   *mirror.Client // whose trust is followed
	Insecure bool           // plain HTTP, or a certificate that nobody vouches for
	Secret   authn.Keychain
	// Progress is told what is being pushed and how many of all images are done; may be nil.
	Progress func(doing string, done, total int)
}

// Pushed is what came of pushing a folder.
type Pushed struct {
	Images int   `json:"images"`
	Blobs  int   `json:"blobs"` // those that the mirror had, too
	Bytes  int64 `json:"bytes"`
}

// Push puts what is in a filled folder where the site's rules look for it. What the mirror has
// already is not sent again, but for manifests: a registry that lost a layer still has those.
func Push(ctx context.Context, o PushOptions) (*Pushed, error) {
	from := &folder{dir: o.Dir, part: DefaultPart}
	b, err := from.readBundle()
	if err != nil {
		return nil, err
	}
	if strings.Contains(o.To, "://") || strings.HasSuffix(o.To, "/") {
		return nil, fmt.Errorf("%q is no registry; write it as host or host:port", o.To)
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	p := &pusher{PushOptions: o, folder: from, sent: map[string]bool{}}
	for i, item := range b.Items {
		o.Progress(item.Destination, i, len(b.Items))
		if err := p.image(ctx, item); err != nil {
			return nil, fmt.Errorf("push %s: %w", item.Source, err)
		}
	}
	p.pushed.Images = len(b.Items)
	return &p.pushed, nil
}

type pusher struct {
	PushOptions
	folder *folder
	pushed Pushed
	sent   map[string]bool // repository and digest
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
		return fmt.Errorf("%q is no repository with a tag: %w", destination, err)
	}
	secret := p.Secret
	if secret == nil {
		secret = authn.NewMultiKeychain() // nobody's
	}
	remoteOptions := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(secret),
		remote.WithTransport(p.Client.Transport(mirror.Endpoint{Ref: tag, Insecure: p.Insecure}))}
	data, err := p.folder.manifest(item.Digest)
	if err != nil {
		return err
	}
	if err := p.parts(tag.Context(), data, remoteOptions); err != nil {
		return err
	}
	return word(remote.Put(tag, rawManifest{data, types.MediaType(item.MediaType)}, remoteOptions...), tag.Context())
}

// parts pushes what a manifest names.
func (p *pusher) parts(repository name.Repository, data []byte, options []remote.Option) error {
	var manifest manifestFile
	if err := json.Unmarshal(data, &manifest); err != nil {
		return fmt.Errorf("the manifest can't be read: %w", err)
	}
	for _, child := range manifest.Manifests {
		data, err := p.folder.manifest(child.Digest.String())
		if err != nil {
			return err
		}
		if err := p.parts(repository, data, options); err != nil {
			return err
		}
		if err := remote.Put(repository.Digest(child.Digest.String()), rawManifest{data, child.MediaType},
			options...); err != nil {
			return word(err, repository)
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
		if err := remote.WriteLayer(repository, &storedBlob{p.folder, blob}, options...); err != nil {
			var refused *transport.Error
			if errors.As(err, &refused) && slices.ContainsFunc(refused.Errors,
				func(d transport.Diagnostic) bool { return d.Code == transport.DigestInvalidErrorCode }) {
				return damaged(p.Dir, blob.Digest.String())
			}
			return word(err, repository)
		}
		p.pushed.Blobs++
		p.pushed.Bytes += blob.Size
	}
	return nil
}

// word makes an error of the registry one sentence.
func word(err error, repository name.Repository) error {
	if err == nil {
		return nil
	}
	failed := mirror.Failed(repository.Name(), mirror.Endpoint{Ref: repository.Tag("latest")}, err, nil)
	switch attempt := failed.Attempts[0]; attempt.Reason {
	case mirror.ReasonOther, mirror.ReasonStatus:
		return err
	case mirror.ReasonUnauthorized:
		return fmt.Errorf("%s does not let these credentials write (%w); give --pull-secret with an entry that may",
			repository.Name(), err)
	default:
		return errors.New(repository.RegistryStr() + " " + attempt.Answer + "; " + failed.Advice())
	}
}

// rawManifest is a manifest as it came, so that its digest stays.
type rawManifest struct {
	data []byte
	kind types.MediaType
}

// RawManifest gives its bytes.
func (m rawManifest) RawManifest() ([]byte, error) { return m.data, nil }

// MediaType gives its kind.
func (m rawManifest) MediaType() (types.MediaType, error) { return m.kind, nil }

// storedBlob is a blob in a folder, as the registry library takes it.
type storedBlob struct {
	folder     *folder
	descriptor v1.Descriptor
}

// Digest is that of the bytes as they are stored.
func (b *storedBlob) Digest() (v1.Hash, error) { return b.descriptor.Digest, nil }

// DiffID is not known of a blob, and not asked for when it is pushed.
func (b *storedBlob) DiffID() (v1.Hash, error) { return b.descriptor.Digest, nil }

// Compressed opens the bytes as they are stored. The registry compares their digest.
func (b *storedBlob) Compressed() (io.ReadCloser, error) {
	return b.folder.open(b.descriptor.Digest.String(), true)
}

// Uncompressed is Compressed.
func (b *storedBlob) Uncompressed() (io.ReadCloser, error) { return b.Compressed() }

// Size is that of the bytes as they are stored.
func (b *storedBlob) Size() (int64, error) { return b.descriptor.Size, nil }

// MediaType is the one in the manifest.
func (b *storedBlob) MediaType() (types.MediaType, error) { return b.descriptor.MediaType, nil }
