package courier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

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

// signatures fetches the signatures of a release from the store and returns their number. The site
// verifies them.
func (f *filler) signatures(ctx context.Context, release string) (int, error) {
	ref, err := name.NewDigest(release)
	if err != nil || f.SignatureStore == "" {
		return 0, nil // the digest of the release is not known
	}
	client := &http.Client{Transport: f.Client.Transport(mirror.Endpoint{})}
	place := strings.Replace(ref.DigestStr(), ":", "=", 1)
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
