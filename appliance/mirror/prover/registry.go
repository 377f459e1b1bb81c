package prover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"landfall/appliance/mirror"
)

// host is the state of a registry.
type host struct {
	name string

	mu       sync.Mutex
	down     *outcome  // the registry cannot be used; no further requests follow
	timeouts int       // number of requests without an answer or with a server error
	pause    time.Time // no request is sent until then

	requested time.Time // end of the last pause that the registry requested
	fruitless int       // number of pauses that it requested since the last request that succeeded
}

// timeoutsAllowed is the number of requests without a response or with a server error after which a
// registry counts as unreachable.
const timeoutsAllowed = 3

// repository is a repository of a registry, with its credentials.
type repository struct {
	session  *session
	host     *host
	endpoint mirror.Endpoint

	connecting sync.Mutex
	client     *http.Client // nil before the first use
	refused    *outcome     // set if the credentials are missing or wrong

	mu    sync.Mutex
	blobs map[string]*blobCheck
}

type blobCheck struct {
	done chan struct{}
	held bool
	size int64
	got  *outcome // set if the request for the blob failed for another reason than a missing blob
}

func (r *repository) name() string { return r.endpoint.Ref.Context().Name() }

// outcome is the result of a request for an image or a part of it.
type outcome struct {
	err      error
	fault    Status // "" without err
	where    string // the host or repository with the fault
	answer   string // the registry's answer in words
	advice   string
	digest   string
	byDigest bool
	blobs    []Part // distinct
	missing  []Part
	damage   string // a sentence
	cached   bool
}

// acceptManifests lists all media types of manifests. Without it, some registries convert manifests
// to an older type.
var acceptManifests = strings.Join([]string{
	string(types.OCIImageIndex), string(types.OCIManifestSchema1), string(types.DockerManifestList),
	string(types.DockerManifestSchema2),
}, ", ")

// manifestLimit is the maximum size of a manifest, bytes (the distribution specification's own
// limit is 4 MiB).
const manifestLimit = 8 << 20

// image checks an image and all its parts.
func (r *repository) image(ctx context.Context, ref name.Reference, request Request) *outcome {
	digest, byDigest := ref.(name.Digest)
	if byDigest && !request.Fresh && !request.Bytes {
		if blobs, ok := r.session.prover.cache.get(cacheKey(r, digest.DigestStr(), request)); ok &&
			r.has(ctx, digest.DigestStr()) {
			r.count(blobs)
			return &outcome{digest: digest.DigestStr(), byDigest: true, blobs: blobs, cached: true}
		}
	}
	got := &outcome{byDigest: byDigest, digest: ref.Identifier()}
	if !byDigest {
		got.digest = ""
	}
	data, failed := r.manifest(ctx, ref.Identifier(), got)
	if failed != nil {
		return failed
	}
	if got.damage == "" {
		r.parts(ctx, data, got, request, true)
	}
	return got
}

// manifest fetches a manifest and computes its digest. It records damage in got.
func (r *repository) manifest(ctx context.Context, identifier string, got *outcome) ([]byte, *outcome) {
	response, failed := r.sendRetrying(ctx, http.MethodGet, "manifests/"+identifier,
		http.Header{"Accept": {acceptManifests}})
	if failed != nil {
		return nil, failed
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, manifestLimit+1))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, r.failed(err)
	}
	sum := sha256.Sum256(data)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if strings.HasPrefix(identifier, "sha256:") && digest != identifier {
		kind := response.Header.Get("Content-Type")
		if kind == "" {
			kind = "content"
		}
		got.damage = fmt.Sprintf("%s answered %s with another digest (%s) to the request for the manifest %s; the "+
			"content is damaged, or this is not a registry.", r.name(), kind, digest, identifier)
	}
	if got.digest == "" {
		got.digest = digest
	}
	return data, nil
}

// manifestFile is an image manifest or a list.
type manifestFile struct {
	SchemaVersion int             `json:"schemaVersion"`
	Config        *v1.Descriptor  `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
	Manifests     []v1.Descriptor `json:"manifests"`
}

// parts checks everything that a manifest refers to, in the same repository.
func (r *repository) parts(ctx context.Context, data []byte, got *outcome, request Request, top bool) {
	var manifest manifestFile
	if err := json.Unmarshal(data, &manifest); err != nil || manifest.SchemaVersion != 2 ||
		manifest.Config == nil && manifest.Manifests == nil {
		got.damage = fmt.Sprintf("%s answered the request for %s with content that is not an image manifest "+
			"(schema version 2).", r.name(), got.digest)
		return
	}
	if manifest.Config == nil {
		if top {
			r.children(ctx, manifest.Manifests, got, request)
		}
		return
	}
	r.part(ctx, "config", *manifest.Config, got)
	for _, layer := range manifest.Layers {
		// the nodes fetch other layers from their URLs
		if len(layer.URLs) == 0 || layer.MediaType.IsDistributable() {
			r.part(ctx, "layer", layer, got)
		}
		if got.fault.global() || ctx.Err() != nil {
			return
		}
	}
}

// children checks the images of a list for the requested architectures.
func (r *repository) children(ctx context.Context, children []v1.Descriptor, got *outcome, request Request) {
	for _, child := range children {
		if child.Platform != nil && len(request.Architectures) > 0 && !slices.Contains(request.Architectures,
			child.Platform.Architecture) {
			continue
		}
		inner := &outcome{digest: child.Digest.String(), byDigest: true}
		data, failed := r.manifest(ctx, child.Digest.String(), inner)
		switch {
		case failed != nil && failed.fault == MissingManifest:
			got.missing = append(got.missing, Part{Kind: "image", Digest: child.Digest.String()})
			continue
		case failed != nil && failed.fault == MissingLayer:
			got.missing = append(got.missing, failed.missing...)
			continue
		case failed != nil:
			got.err, got.fault, got.where, got.answer, got.advice = nil, failed.fault, failed.where, failed.answer,
				failed.advice
			return
		}
		if inner.damage == "" {
			inner.blobs = got.blobs
			r.parts(ctx, data, inner, request, false)
			got.blobs, got.missing = inner.blobs, append(got.missing, inner.missing...)
			got.fault, got.where, got.answer, got.advice = inner.fault, inner.where, inner.answer, inner.advice
		}
		if got.damage = inner.damage; got.damage != "" || got.fault != "" {
			return
		}
	}
}

// part checks a blob, once in each repository.
func (r *repository) part(ctx context.Context, kind string, descriptor v1.Descriptor, got *outcome) {
	part := Part{Kind: kind, Digest: descriptor.Digest.String(), Bytes: descriptor.Size}
	if slices.ContainsFunc(got.blobs, func(p Part) bool { return p.Digest == part.Digest }) {
		return
	}
	got.blobs = append(got.blobs, part)
	check := r.blob(ctx, part)
	switch {
	case check.held:
	case check.got == nil:
		got.missing = append(got.missing, part)
	case check.got.damage != "":
		got.damage = check.got.damage
	default:
		got.fault, got.where, got.answer, got.advice = check.got.fault, check.got.where, check.got.answer,
			check.got.advice
	}
}

func (r *repository) blob(ctx context.Context, part Part) *blobCheck {
	r.mu.Lock()
	check, known := r.blobs[part.Digest]
	if !known {
		check = &blobCheck{done: make(chan struct{}), size: part.Bytes}
		r.blobs[part.Digest] = check
	}
	r.mu.Unlock()
	if known {
		select {
		case <-check.done:
		case <-ctx.Done():
			return &blobCheck{got: r.failed(ctx.Err())}
		}
		return check
	}
	defer close(check.done)
	response, failed := r.sendRetrying(ctx, http.MethodHead, "blobs/"+part.Digest, nil)
	if failed != nil {
		if failed.fault != MissingManifest {
			check.got = failed
		}
		return check
	}
	if err := response.Body.Close(); err != nil {
		check.got = r.failed(err)
		return check
	}
	if length := response.ContentLength; length >= 0 && length != part.Bytes {
		check.got = &outcome{damage: fmt.Sprintf("%s has %d bytes of the %s %s instead of %d; mirror the image again.",
			r.name(), length, part.Kind, part.Digest, part.Bytes)}
		return check
	}
	check.held = true
	return check
}

// count adds blobs that an earlier proof found.
func (r *repository) count(blobs []Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range blobs {
		if r.blobs[part.Digest] == nil {
			check := &blobCheck{done: make(chan struct{}), held: true, size: part.Bytes}
			close(check.done)
			r.blobs[part.Digest] = check
		}
	}
}

// has reports whether the registry serves a manifest under its digest.
func (r *repository) has(ctx context.Context, identifier string) bool {
	response, failed := r.sendRetrying(ctx, http.MethodHead, "manifests/"+identifier,
		http.Header{"Accept": {acceptManifests}})
	if failed != nil {
		return false
	}
	if err := response.Body.Close(); err != nil {
		return false
	}
	served := response.Header.Get("Docker-Content-Digest")
	return served == "" || served == identifier || !strings.HasPrefix(identifier, "sha256:")
}

// signed reports whether the repository has the image's Sigstore signature.
func (r *repository) signed(ctx context.Context, digest string) bool {
	return r.has(ctx, strings.Replace(digest, ":", "-", 1)+".sig")
}

// The maximum numbers of requests: passingTries after a temporary failure, laterTries after a
// response that requests a later attempt. If no request succeeds, all of them together wait for as
// many pauses: the appliance's own registry requests a pause for each image on a missing medium.
const (
	passingTries = 3
	laterTries   = 10
	longestPause = time.Minute
)

// sendRetrying sends a request and repeats it after temporary failures. The response has status 200
// or 206.
func (r *repository) sendRetrying(ctx context.Context, method, path string,
	header http.Header) (*http.Response, *outcome) {
	for passing, tries := 1, 1; ; {
		if err := r.host.wait(ctx, r.session.prover); err != nil {
			return nil, r.failed(err)
		}
		client, failed := r.connect(ctx)
		if failed != nil {
			return nil, failed
		}
		response, err := r.send(ctx, client, method, path, header)
		if err == nil {
			r.host.succeeded()
			return response, nil
		}
		now := r.session.prover.options.Clock.Now()
		var status *transport.Error
		switch {
		case errors.As(err, &status) && wantsPause(response):
			wait := retryAfter(response, now, time.Duration(tries)*time.Second)
			if tries++; tries > laterTries || !r.host.pauseAsRequested(now, wait) {
				return nil, r.failed(err)
			}
		case mirror.Passing(err) && ctx.Err() == nil && passing < passingTries:
			r.host.pauseUntil(now.Add(time.Duration(passing) * 200 * time.Millisecond))
			passing++
		default:
			return nil, r.failed(err)
		}
	}
}

// send sends one request. The body of an unsuccessful response is closed.
func (r *repository) send(ctx context.Context, client *http.Client, method, path string,
	header http.Header) (*http.Response, error) {
	context := r.endpoint.Ref.Context()
	address := url.URL{Scheme: context.Scheme(), Host: context.RegistryStr(), Path: "/v2/" + context.RepositoryStr() +
		"/" + path}
	request, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		request.Header[key] = values
	}
	request.Header.Set("Accept-Encoding", "identity") // sizes and digests refer to the stored bytes
	r.session.countRequest()
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(response, http.StatusOK, http.StatusPartialContent); err != nil {
		return response, errors.Join(err, response.Body.Close())
	}
	return response, nil
}

// wantsPause reports whether a registry requests a pause.
func wantsPause(response *http.Response) bool {
	return response != nil && (response.StatusCode == http.StatusTooManyRequests ||
		response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "")
}

// retryAfter returns the pause that a registry requests, in seconds or as a date. Without such a
// request it returns otherwise.
func retryAfter(response *http.Response, now time.Time, otherwise time.Duration) time.Duration {
	wait := otherwise
	if response != nil {
		text := response.Header.Get("Retry-After")
		if seconds, err := strconv.Atoi(text); err == nil {
			wait = time.Duration(seconds) * time.Second
		} else if date, err := http.ParseTime(text); err == nil {
			wait = date.Sub(now)
		}
	}
	return min(max(wait, 0), longestPause)
}

func (h *host) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fruitless = 0
}

// pauseAsRequested begins a pause that the registry requested, or prolongs the present one. It
// reports false if too many pauses have ended without a request that succeeded.
func (h *host) pauseAsRequested(now time.Time, wait time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !now.Before(h.requested) {
		if h.fruitless == laterTries-1 {
			return false
		}
		h.fruitless++
	}
	until := now.Add(wait)
	h.pause, h.requested = later(h.pause, until), later(h.requested, until)
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (h *host) pauseUntil(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pause = later(h.pause, until)
}

// wait waits until the requested pause is over.
func (h *host) wait(ctx context.Context, p *Prover) error {
	for {
		h.mu.Lock()
		left := h.pause.Sub(p.options.Clock.Now())
		h.mu.Unlock()
		if left <= 0 {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.options.Clock.After(left):
		}
	}
}

// connect determines the registry's scheme and authentication, once for each repository, and
// fetches a token if necessary.
func (r *repository) connect(ctx context.Context) (*http.Client, *outcome) {
	r.host.mu.Lock()
	down := r.host.down
	r.host.mu.Unlock()
	if down != nil {
		return nil, down
	}
	r.connecting.Lock()
	defer r.connecting.Unlock()
	if r.refused != nil {
		return nil, r.refused
	}
	if r.client != nil {
		return r.client, nil
	}
	repository := r.endpoint.Ref.Context()
	auth := authn.Anonymous
	if r.session.request.Secret != nil {
		found, err := r.session.request.Secret.Resolve(repository)
		if err != nil {
			return nil, r.failed(err)
		}
		auth = found
	}
	base := r.session.request.Client.Transport(r.endpoint)
	if agent := r.session.prover.options.UserAgent; agent != "" {
		base = transport.NewUserAgent(base, agent)
	}
	r.session.countRequest()
	authenticated, err := transport.NewWithContext(ctx, repository.Registry, auth, base,
		[]string{repository.Scope(transport.PullScope)})
	if err != nil {
		failed := r.failed(err)
		if failed.fault == Unauthorized {
			r.refused = failed
		}
		return nil, failed
	}
	r.client = &http.Client{Transport: authenticated}
	return r.client, nil
}

// failed classifies an error. It stores errors of the whole registry, so that no further requests
// follow.
func (r *repository) failed(err error) *outcome {
	if missing, message := missingParts(err); len(missing) > 0 {
		return &outcome{err: err, fault: MissingLayer, where: r.name(), answer: message, missing: missing}
	}
	described := mirror.Failed(r.endpoint.Ref.Name(), r.endpoint, err, r.session.request.Secret)
	attempt := described.Attempts[0]
	got := &outcome{err: err, where: r.host.name, answer: attempt.Answer, advice: described.Advice()}
	switch attempt.Reason {
	case mirror.ReasonNotFound:
		got.fault, got.where = MissingManifest, r.name()
		return got
	case mirror.ReasonUnauthorized:
		got.fault, got.where = Unauthorized, r.name()
	case mirror.ReasonUnknownAuthority, mirror.ReasonCertificate, mirror.ReasonPlainHTTP:
		got.fault = BadTLS
	case mirror.ReasonUnreachable, mirror.ReasonTimeout:
		got.fault = Unreachable
	default:
		var status *transport.Error
		if !errors.As(err, &status) || status.StatusCode < http.StatusInternalServerError {
			got.fault, got.where = Failed, r.name()
			return got
		}
		got.fault, got.advice = Unreachable, "read the registry's log"
	}
	r.describeRedirect(got, err)
	switch {
	case got.fault == Unauthorized:
		r.refuse(got)
	case attempt.Reason != mirror.ReasonTimeout && attempt.Reason != mirror.ReasonStatus ||
		r.host.timedOut() >= timeoutsAllowed:
		r.host.mu.Lock()
		r.host.down = got
		r.host.mu.Unlock()
	}
	return got
}

// missingParts returns the parts of an image that a registry lacks according to its answer to a
// request for a manifest, and its message. The appliance's registry refuses the manifest of an
// image of which parts are on no medium.
func missingParts(err error) (missing []Part, message string) {
	var status *transport.Error
	if !errors.As(err, &status) {
		return nil, ""
	}
	for _, diagnostic := range status.Errors {
		digests, _ := diagnostic.Detail.([]any)
		if diagnostic.Code != transport.ManifestBlobUnknownErrorCode {
			continue
		}
		for _, digest := range digests {
			if text, ok := digest.(string); ok {
				missing, message = append(missing, Part{Kind: "layer", Digest: text}), diagnostic.Message
			}
		}
	}
	return missing, message
}

func (r *repository) refuse(got *outcome) {
	if r.connecting.TryLock() { // connect holds the lock and records its own failure
		r.refused = got
		r.connecting.Unlock()
	}
}

func (h *host) timedOut() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timeouts++
	return h.timeouts
}

// describeRedirect changes the texts if the token server or the storage failed, to which the
// registry redirects.
func (r *repository) describeRedirect(got *outcome, err error) {
	var at *url.Error
	if !errors.As(err, &at) {
		return
	}
	address, parseErr := url.Parse(at.URL)
	if parseErr != nil || address.Host == "" || address.Host == r.host.name {
		return
	}
	what := "the blob"
	if address.Query().Has("service") || address.Query().Has("scope") {
		what = "a token"
	}
	got.answer = fmt.Sprintf("refers to %s for %s, which %s", address.Host, what, got.answer)
	got.advice = fmt.Sprintf("make %s reachable and trusted from here and from the nodes, or configure the registry "+
		"with another server", address.Host)
}
