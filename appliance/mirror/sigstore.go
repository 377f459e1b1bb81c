package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// SigstoreSignature is a signature that cosign, podman or OpenShift attached to an image. It is not
// verified.
type SigstoreSignature struct {
	Payload   []byte `json:"payload"` // the signed text: simple signing (containers/image), as JSON
	Signature []byte `json:"signature"`
}

// A Sigstore signature is a layer with this media type. Its annotation has the base64 of the
// signature (sigstore/cosign, specs/SIGNATURE_SPEC.md).
const (
	sigstoreMediaType  = "application/vnd.dev.cosign.simplesigning.v1+json"
	sigstoreAnnotation = "dev.cosignproject.cosign/signature"
)

// Limits of the signatures of an image. Real manifests have about 1 KiB for each signature, and
// payloads 300 bytes.
const (
	sigstoreManifestLimit = 1 << 20 // bytes
	sigstorePayloadLimit  = 64 << 10
	sigstoreLayerLimit    = 32
)

// SigstoreError reports that a registry did not provide the signatures of an image. Its text does
// not name the image.
type SigstoreError struct{ failed *ImageError }

func (e *SigstoreError) Error() string {
	attempt := e.failed.Attempts[0]
	text := attempt.Ref.Context().Name() + " " + attempt.Answer
	if advice := e.failed.Advice(); advice != "" {
		text += "; " + advice
	}
	return text
}

// Unwrap returns the errors of the attempt.
func (e *SigstoreError) Unwrap() error { return e.failed }

// invalidError reports content that is not that of a signature.
type invalidError string

func (e invalidError) Error() string { return string(e) }

// Sigstore returns the Sigstore signatures that are attached to an image (repository@digest). It
// asks the endpoints of the image in the order of the clients' rules and returns the answer of the
// first that has signatures. Like the nodes, it looks for the tag sha256-<digest>.sig in the
// repository of the image. If no endpoint has signatures, the error is that of a mirror that did
// not answer, or nil.
func Sigstore(ctx context.Context, clients []*Client, image string, secret authn.Keychain) ([]SigstoreSignature,
	error) {
	digest, err := name.NewDigest(image)
	if err != nil {
		return nil, fmt.Errorf("%q is not a reference to an image by digest", image)
	}
	asked := map[string]bool{}
	var failed, source error
	mirrored := false
	for _, client := range clients {
		for _, endpoint := range client.Rules().Endpoints(digest) {
			key := fmt.Sprintf("%s %t", endpoint.Ref.Name(), endpoint.Insecure)
			if asked[key] || ctx.Err() != nil {
				continue
			}
			asked[key] = true
			found, err := client.sigstore(ctx, endpoint, digest.DigestStr(), secret)
			switch {
			case len(found) > 0:
				return found, nil
			case endpoint.Source:
				source = errors.Join(source, err)
			default:
				mirrored, failed = true, errors.Join(failed, err)
			}
		}
	}
	if first, ok := errors.AsType[*SigstoreError](failed); ok {
		return nil, first
	}
	if first, ok := errors.AsType[*SigstoreError](source); ok && !mirrored {
		return nil, first
	}
	return nil, ctx.Err()
}

// sigstore returns the signatures of an image at an endpoint, or none. Errors are *SigstoreError.
func (c *Client) sigstore(ctx context.Context, endpoint Endpoint, digest string,
	secret authn.Keychain) ([]SigstoreSignature, error) {
	found, err := c.readSigstore(ctx, endpoint.Ref.Context(), endpoint, digest, secret)
	if err == nil {
		return found, nil
	}
	failed := Failed(endpoint.Ref.Name(), endpoint, err, secret)
	attempt := &failed.Attempts[0]
	if attempt.Reason == ReasonNotFound {
		return nil, nil
	}
	if invalid, ok := errors.AsType[invalidError](err); ok {
		attempt.Answer = string(invalid)
	}
	return nil, &SigstoreError{failed}
}

func (c *Client) readSigstore(ctx context.Context, repository name.Repository, endpoint Endpoint, digest string,
	secret authn.Keychain) ([]SigstoreSignature, error) {
	auth := authn.Anonymous
	if secret != nil {
		var err error
		if auth, err = secret.Resolve(repository); err != nil {
			return nil, err
		}
	}
	base := transport.NewRetry(c.Transport(endpoint), transport.WithRetryBackoff(c.options.Backoff),
		transport.WithRetryPredicate(worthRetrying))
	if c.options.UserAgent != "" {
		base = transport.NewUserAgent(base, c.options.UserAgent)
	}
	authenticated, err := transport.NewWithContext(ctx, repository.Registry, auth, base,
		[]string{repository.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: authenticated}
	get := func(path string, limit int64) ([]byte, error) {
		address := url.URL{Scheme: repository.Scheme(), Host: repository.RegistryStr(),
			Path: "/v2/" + repository.RepositoryStr() + path}
		return getLimited(ctx, client, address.String(), limit)
	}
	text, err := get("/manifests/"+strings.Replace(digest, ":", "-", 1)+".sig", sigstoreManifestLimit)
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Layers []struct {
			MediaType   string            `json:"mediaType"`
			Digest      string            `json:"digest"`
			Size        int64             `json:"size"`
			Annotations map[string]string `json:"annotations"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, invalidError("has a signature with a manifest that is not JSON")
	}
	var signatures []SigstoreSignature
	for _, layer := range manifest.Layers[:min(len(manifest.Layers), sigstoreLayerLimit)] {
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations[sigstoreAnnotation])
		if err != nil || len(signature) == 0 || layer.MediaType != sigstoreMediaType ||
			layer.Size <= 0 || layer.Size > sigstorePayloadLimit {
			continue // not a signature
		}
		if _, err := name.NewDigest("example.com/a@" + layer.Digest); err != nil {
			continue
		}
		payload, err := get("/blobs/"+layer.Digest, sigstorePayloadLimit)
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(payload); "sha256:"+hex.EncodeToString(sum[:]) != layer.Digest {
			return nil, invalidError("has a damaged signature: the content of " + layer.Digest + " has another digest")
		}
		signatures = append(signatures, SigstoreSignature{payload, signature})
	}
	return signatures, nil
}

// getLimited returns the content at an address. Content above the limit, in bytes, is an error.
func getLimited(ctx context.Context, client *http.Client, address string, limit int64) (data []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", string(types.OCIManifestSchema1)+", "+string(types.DockerManifestSchema2)+", */*")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if err := transport.CheckError(response, http.StatusOK); err != nil {
		return nil, err
	}
	data, err = io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, invalidError(fmt.Sprintf("has a signature of more than %d KiB", limit>>10))
	}
	return data, err
}
