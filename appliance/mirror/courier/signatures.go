package courier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"landfall/appliance/mirror"
)

// SignatureStore is OpenShift's store of OpenPGP signatures of releases.
const SignatureStore = "https://mirror.openshift.com/pub/openshift-v4/signatures/openshift/release"

// SignaturesDir is the subdirectory with the signatures of the release, in the layout of a store:
// sha256=<digest>/signature-<n>. The site imports it with its mirror rules.
const SignaturesDir = "signatures"

// Limits of a store: the signatures of a release, and the bytes of each (openshift/library-go,
// pkg/verify/store/sigstore).
const (
	maxSignatures  = 9
	signatureLimit = 50 << 10
)

// releaseDigest returns the digest of the release, or "" with a note if it is not known.
func (f *filler) releaseDigest(release string) string {
	if ref, err := name.NewDigest(release); err == nil {
		return ref.DigestStr()
	}
	if f.resolved == "" {
		f.filled.Notes = append(f.filled.Notes, fmt.Sprintf("no signatures were fetched, because the list has "+
			"no digest for the release %s; run landfall mirror prove again "+
			"when the registry of the release answers", release))
	}
	return f.resolved
}

// sigstore fetches the Sigstore attachment of the release: the tag sha256-<hex>.sig in its
// repository. If it cannot be fetched, the result is nil and there is a note.
func (f *filler) sigstore(ctx context.Context, item Item, digest string) (*packed, error) {
	ref, err := name.NewDigest(item.Source)
	if err != nil {
		return nil, err
	}
	destination, err := name.NewTag(item.Destination)
	if err != nil {
		return nil, err
	}
	tag := DigestTag(digest) + ".sig"
	attachment := &packed{Source: ref.Context().Name() + ":" + tag,
		Destination: destination.Context().Name() + ":" + tag}
	data, err := f.attachment(ctx, item.Source, tag, attachment)
	var answer *transport.Error
	switch {
	case err == nil:
		attachment.Digest = digestOf(data)
		return attachment, f.directory.put(attachment.Digest, data)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		f.filled.Notes = append(f.filled.Notes, fmt.Sprintf("the release has no Sigstore signature (%s)",
			attachment.Source))
	default:
		f.filled.Notes = append(f.filled.Notes, fmt.Sprintf("the Sigstore signature %s could not be fetched: %s",
			attachment.Source, strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return nil, nil
}

// attachmentLimit limits each layer of a Sigstore attachment, in bytes. Real ones have 300 bytes.
const attachmentLimit = 1 << 20

// attachment fetches the image with a tag from the place of the release, and returns its manifest.
func (f *filler) attachment(ctx context.Context, release, tag string, into *packed) ([]byte, error) {
	_, endpoint, err := f.Client.Get(ctx, release, f.Secret)
	if err != nil {
		return nil, err
	}
	from, err := f.connect(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	response, err := from.get(ctx, "/manifests/"+tag, http.Header{"Accept": {string(types.OCIManifestSchema1),
		string(types.DockerManifestSchema2)}})
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, attachmentLimit+1))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	into.MediaType = response.Header.Get("Content-Type")
	var manifest manifestFile
	if len(data) > attachmentLimit || !types.MediaType(into.MediaType).IsImage() ||
		json.Unmarshal(data, &manifest) != nil || manifest.Config == nil || len(manifest.Manifests) > 0 ||
		slices.ContainsFunc(append(manifest.Layers, *manifest.Config), func(d v1.Descriptor) bool {
			return d.Size > attachmentLimit
		}) {
		return nil, errors.New("it is not a signature")
	}
	return data, f.parts(ctx, from, data)
}

// signatures fetches the OpenPGP signatures of the release with a digest from the store and returns
// their number. The site verifies them.
func (f *filler) signatures(ctx context.Context, digest string) (int, error) {
	if digest == "" || f.SignatureStore == "" {
		return 0, nil
	}
	client := &http.Client{Transport: f.Client.Transport(mirror.Endpoint{})}
	place := strings.Replace(digest, ":", "=", 1)
	for n := 1; n <= maxSignatures; n++ {
		file := fmt.Sprintf("%s/signature-%d", place, n)
		data, err := fetchSignature(ctx, client, strings.TrimRight(f.SignatureStore, "/")+"/"+file)
		if err != nil || data == nil {
			return n - 1, err
		}
		path := filepath.Join(f.Dir, SignaturesDir, filepath.FromSlash(file))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), replace(path, data)); err != nil {
			return n - 1, err
		}
	}
	return maxSignatures, nil
}

// fetchSignature returns the content at an address, or nil if there is none.
func fetchSignature(ctx context.Context, client *http.Client, address string) (data []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, nil
	default:
		return nil, fmt.Errorf("%s answered %s", address, response.Status)
	}
	data, err = io.ReadAll(io.LimitReader(response.Body, signatureLimit+1))
	if err == nil && len(data) > signatureLimit {
		return nil, fmt.Errorf("%s has more than %d KiB and is not a signature", address, signatureLimit>>10)
	}
	return data, err
}

// Signed returns the digests of the releases whose OpenPGP signatures are in a filled directory,
// sorted.
func Signed(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, SignaturesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the signatures of the release: %w", err)
	}
	var digests []string
	for _, entry := range entries {
		if digest, err := v1.NewHash(strings.Replace(entry.Name(), "=", ":", 1)); err == nil {
			digests = append(digests, digest.String())
		}
	}
	return digests, nil
}
