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

// host is what is known of a registry.
type host struct {
	name string

	mu       sync.Mutex
	down     *outcome  // it can't be spoken with, which need not be tried again
	timeouts int       // requests that were not answered, or with a failure of the registry itself
	pause    time.Time // until then it wants to be left alone
}

// timeoutsAllowed is how many requests may go unanswered, or fail in the registry, before it counts
// as unreachable.
const timeoutsAllowed = 3

// repository is a repository at a registry, with the credentials for it.
type repository struct {
	session  *session
	host     *host
	endpoint mirror.Endpoint

	connecting sync.Mutex
	client     *http.Client // nil before the first use
	refused    *outcome     // credentials are missing or wrong

	mu    sync.Mutex
	blobs map[string]*blobCheck
}

type blobCheck struct {
	done chan struct{}
	held bool
	size int64
	got  *outcome // when it is not held for another reason than that it is missing
}

func (r *repository) name() string { return r.endpoint.Ref.Context().Name() }

// outcome is what came of asking for an image, or of a part of it.
type outcome struct {
	err      error
	fault    Verdict // "" without err
	where    string  // host or repository, as the fault is about
	answer   string  // what was answered, in words
	advice   string
	digest   string
	byDigest bool
	blobs    []Part // distinct
	missing  []Part
	damage   string // a sentence
	cached   bool
}

// acceptManifests are all kinds of manifests; without them, some registries convert to what nobody
// wants.
var acceptManifests = strings.Join([]string{
	string(types.OCIImageIndex), string(types.OCIManifestSchema1), string(types.DockerManifestList),
	string(types.DockerManifestSchema2),
}, ", ")

// manifestLimit bounds a manifest, bytes (the distribution specification's own bound is 4 MiB).
const manifestLimit = 8 << 20

// image looks at an image and all that belongs to it.
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

// manifest fetches a manifest, whose digest is computed. Damage is noted in got.
func (r *repository) manifest(ctx context.Context, identifier string, got *outcome) ([]byte, *outcome) {
	response, failed := r.ask(ctx, http.MethodGet, "manifests/"+identifier, http.Header{"Accept": {acceptManifests}})
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
			kind = "something"
		}
		got.damage = fmt.Sprintf("%s answered %s of another digest (%s) when asked for the manifest %s; what is "+
			"there is damaged or is no registry.", r.name(), kind, digest, identifier)
	}
	if got.digest == "" {
		got.digest = digest
	}
	return data, nil
}

// manifestFile is an image or a list.
type manifestFile struct {
	SchemaVersion int             `json:"schemaVersion"`
	Config        *v1.Descriptor  `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
	Manifests     []v1.Descriptor `json:"manifests"`
}

// parts asks for all that a manifest names, in the same repository.
func (r *repository) parts(ctx context.Context, data []byte, got *outcome, request Request, top bool) {
	var manifest manifestFile
	if err := json.Unmarshal(data, &manifest); err != nil || manifest.SchemaVersion != 2 ||
		manifest.Config == nil && manifest.Manifests == nil {
		got.damage = fmt.Sprintf("%s answered something that is no manifest of an image (schema version 2) when "+
			"asked for %s.", r.name(), got.digest)
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
		if len(layer.URLs) == 0 || layer.MediaType.IsDistributable() { // others are fetched from where they say
			r.part(ctx, "layer", layer, got)
		}
		if got.fault.global() || ctx.Err() != nil {
			return
		}
	}
}

// children follows the images of a list that are wanted.
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

// part asks for a blob once in each repository.
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
	response, failed := r.ask(ctx, http.MethodHead, "blobs/"+part.Digest, nil)
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
		check.got = &outcome{damage: fmt.Sprintf("%s has %d bytes of the %s %s, which has %d; mirror the image again.",
			r.name(), length, part.Kind, part.Digest, part.Bytes)}
		return check
	}
	check.held = true
	return check
}

// count notes blobs that were found earlier.
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

// has tells whether a manifest is served under its digest.
func (r *repository) has(ctx context.Context, identifier string) bool {
	response, failed := r.ask(ctx, http.MethodHead, "manifests/"+identifier, http.Header{"Accept": {acceptManifests}})
	if failed != nil {
		return false
	}
	if err := response.Body.Close(); err != nil {
		return false
	}
	served := response.Header.Get("Docker-Content-Digest")
	return served == "" || served == identifier || !strings.HasPrefix(identifier, "sha256:")
}

// signed tells whether an image's Sigstore signature lies beside it.
func (r *repository) signed(ctx context.Context, digest string) bool {
	return r.has(ctx, strings.Replace(digest, ":", "-", 1)+".sig")
}

// attempts at a request that fails in passing, and at one whose answer is to come later.
const (
	passingTries = 3
	laterTries   = 10
	longestPause = time.Minute
)

// ask sends a request until it is answered for good. The answer's status is 200 or 206.
func (r *repository) ask(ctx context.Context, method, path string, header http.Header) (*http.Response, *outcome) {
	for passing, later := 1, 1; ; {
		if err := r.host.wait(ctx, r.session.prover); err != nil {
			return nil, r.failed(err)
		}
		client, failed := r.connect(ctx)
		if failed != nil {
			return nil, failed
		}
		response, err := r.send(ctx, client, method, path, header)
		if err == nil {
			return response, nil
		}
		wait := time.Duration(0)
		var status *transport.Error
		switch {
		case errors.As(err, &status) && wantsPause(response) && later < laterTries:
			wait = retryAfter(response, r.session.prover.options.Clock.Now(), time.Duration(later)*time.Second)
			later++
		case mirror.Passing(err) && ctx.Err() == nil && passing < passingTries:
			wait = time.Duration(passing) * 200 * time.Millisecond
			passing++
		default:
			return nil, r.failed(err)
		}
		r.host.leaveAlone(r.session.prover.options.Clock.Now().Add(wait))
	}
}

// send makes one request. Of a response that is not a success only the header is left.
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
	request.Header.Set("Accept-Encoding", "identity") // lengths and digests are of the bytes as they are
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

// wantsPause tells whether a registry asks to be left alone for a while.
func wantsPause(response *http.Response) bool {
	return response != nil && (response.StatusCode == http.StatusTooManyRequests ||
		response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "")
}

// retryAfter is how long a registry wants to be left alone: seconds or a date, or else the given
// time.
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

func (h *host) leaveAlone(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.pause) {
		h.pause = until
	}
}

// wait lets the time pass in which a registry wants to be left alone.
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

// connect finds out how the registry wants to be spoken with, and gets a token if that is how, once
// for each repository.
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

// failed sorts an error. What concerns the whole registry is remembered, so that it is not asked
// again.
func (r *repository) failed(err error) *outcome {
	worded := mirror.Failed(r.endpoint.Ref.Name(), r.endpoint, err, r.session.request.Secret)
	attempt := worded.Attempts[0]
	got := &outcome{err: err, where: r.host.name, answer: attempt.Answer, advice: worded.Advice()}
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
		got.fault, got.advice = Unreachable, "look at its log"
	}
	r.elsewhereRealm(got, err)
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

func (r *repository) refuse(got *outcome) {
	if r.connecting.TryLock() { // connect, which holds it, notes its own refusal
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

// elsewhereRealm corrects the words when it was not the registry that failed, but the server that
// it sends to for a token or for a blob.
func (r *repository) elsewhereRealm(got *outcome, err error) {
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
	got.answer = fmt.Sprintf("sends to %s for %s, which %s", address.Host, what, got.answer)
	got.advice = fmt.Sprintf("have %s be reached and trusted from here and from the nodes, or have the registry name "+
		"another server", address.Host)
}
