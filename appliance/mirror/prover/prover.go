// Package prover checks whether a mirror holds a complete set of images, before anything is pulled
// from it.
//
// The prover requests every image from the endpoints that the nodes would use: those of the site's
// rules, in their order, with the credentials and the trusted CAs of the nodes. It verifies every
// answer that can be verified. It fetches manifests and computes their digests, follows the images
// of lists, and requests configs and layers from the same repository, because a registry whose
// garbage collector removed a layer still serves the manifest.
//
// A problem of a whole registry (unreachable, certificate, credentials) is reported once, in
// Report.Faults, and not for each image. The prover does not ask the original source of an image: a
// disconnected site can't reach it.
package prover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/mirror"
)

// Status is the result of the check of an image.
type Status string

// Statuses of an image.
const (
	Held   Status = "held"
	NoRule Status = "no-rule" // no rule leads to a mirror
	// the rule's mirrors do not apply to references of this kind (tag or digest)
	TagRule         Status = "tag-rule"
	MissingManifest Status = "missing-manifest" // no mirror has the image
	MissingLayer    Status = "missing-layer"    // a layer, a config or an image of a list is missing
	Damaged         Status = "damaged"          // the content does not match its digest or size
	Unauthorized    Status = "unauthorized"     // credentials are missing or wrong
	BadTLS          Status = "tls"              // unknown authority, expired, wrong name, or no TLS
	Unreachable     Status = "unreachable"
	Failed          Status = "failed" // any other failure of the registry
)

// global reports whether the status concerns a whole registry instead of one image.
func (v Status) global() bool { return v == Unauthorized || v == BadTLS || v == Unreachable }

// Image is an image to check.
type Image struct {
	// Ref is the image's original pull spec.
	Ref string `json:"ref"`
	// Names are the image's names in a release.
	Names []string `json:"names,omitempty"`
	// Optional is true if an installation does not need the image.
	Optional bool `json:"optional,omitempty"`
}

// Request selects the images and the checks.
type Request struct {
	Images []Image
	// Architectures, in Go's spelling, selects the images of lists; none means all.
	Architectures []string
	// Secret is the pull secret of the nodes; nil means no credentials.
	Secret authn.Keychain
	// Client replaces the prover's own client, for other rules or other trusted CAs; nil means the
	// prover's own.
	Client *mirror.Client
	// Signatures also checks for the Sigstore signatures of images.
	Signatures bool
	// Bytes also reads every layer and verifies its digest.
	Bytes bool
	// Fresh ignores cached results.
	Fresh bool
}

// Options configures a Prover.
type Options struct {
	Client *mirror.Client // contains the rules and the trusted CAs
	// Workers is the number of images that are checked in parallel; 0 means 16.
	Workers int
	// CacheFor is the time for which a complete image counts as checked if its manifest is
	// unchanged; 0 means 10 minutes.
	CacheFor time.Duration
	// Proven stores which blobs were read completely. Nil stores this only during each proof.
	Proven Proven
	Clock  clockwork.Clock // nil means the real clock
	// UserAgent identifies the program to registries.
	UserAgent string
}

// Proven stores which blobs were read completely, so that an interrupted proof of bytes can
// continue. Keys have the form repository@digest.
type Proven interface {
	Has(key string) bool
	Mark(ctx context.Context, key string) error
}

// Prover checks images. It is safe for concurrent use.
type Prover struct {
	options Options
	cache   *cache
}

// New returns a prover.
func New(options Options) *Prover {
	if options.Workers == 0 {
		options.Workers = 16
	}
	if options.CacheFor == 0 {
		options.CacheFor = 10 * time.Minute
	}
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	return &Prover{options: options, cache: newCache(options.Clock, options.CacheFor)}
}

// Progress is the progress of a proof.
type Progress struct {
	Images, Total int   // images that were checked, and all images
	Requests      int   // requests that were sent
	Bytes         int64 // bytes that were read and verified in a proof of bytes
	TotalBytes    int64 // bytes to read; 0 if the number is not known yet
}

// Result is the result for one image.
type Result struct {
	Image
	Status Status `json:"verdict"`
	// Text describes the problem and its solution. It is empty for complete images, and for images
	// that a fault of the whole registry makes unavailable.
	Text string `json:"text,omitempty"`
	// Endpoint is the reference that served the image or, if none did, the first one in the order
	// of the rules.
	Endpoint string `json:"endpoint,omitempty"`
	// Rule names the rule that leads to Endpoint.
	Rule string `json:"rule,omitempty"`
	// Digest is the digest of the served manifest or list.
	Digest string `json:"digest,omitempty"`
	// Bytes is the total size of the image's blobs.
	Bytes int64 `json:"bytes,omitempty"`
	// Missing lists the missing parts.
	Missing []Part `json:"missing,omitempty"`
	// Elsewhere is a place in the mirror that has the image although no rule leads to this place.
	Elsewhere string `json:"elsewhere,omitempty"`
	// Unsigned is true if the Sigstore signature was requested and is missing.
	Unsigned bool `json:"unsigned,omitempty"`
	// Cached is true if an earlier proof checked the layers and the manifest is unchanged.
	Cached bool `json:"cached,omitempty"`

	parts []Part
}

// Gap reports whether an installation would fail because of this image.
func (r *Result) Gap() bool { return r.Status != Held && !r.Optional }

// Part is a blob or a manifest of an image.
type Part struct {
	Kind   string `json:"kind"` // layer, config, or image (of a list)
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes,omitempty"`
}

// Fault is a problem of a whole registry or repository.
type Fault struct {
	Status Status `json:"verdict"`
	Where  string `json:"where"` // host, or repository if the fault concerns only that
	Text   string `json:"text"`  // a sentence
	Images int    `json:"images"`
}

// Report is the result of a proof.
type Report struct {
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`
	Results []Result      `json:"results"`
	Faults  []Fault       `json:"faults"`
	// Warnings are sentences about problems that do not prevent an installation.
	Warnings []string `json:"warnings"`
	Requests int      `json:"requests"`
	// Bytes is the total size of the distinct blobs of complete images.
	Bytes int64 `json:"bytes"`
	// ReadBytes is the number of bytes that were read and verified.
	ReadBytes int64 `json:"read_bytes,omitempty"`
	// Blobs is the number of distinct blobs of complete images.
	Blobs int `json:"blobs"`
}

// Gaps returns the number of unavailable images that an installation needs.
func (r *Report) Gaps() int {
	gaps := 0
	for i := range r.Results {
		if r.Results[i].Gap() {
			gaps++
		}
	}
	return gaps
}

// Complete reports whether the mirror holds everything that an installation needs.
func (r *Report) Complete() bool { return r.Gaps() == 0 && len(r.Results) > 0 }

// Summary returns the result in a sentence.
func (r *Report) Summary() string {
	gaps := r.Gaps()
	if gaps == 0 {
		return fmt.Sprintf("The mirror holds all %d images with %d layers and configs.", len(r.Results), r.Blobs)
	}
	for _, fault := range r.Faults {
		return fmt.Sprintf("%d of %d images are not available: %s", gaps, len(r.Results), fault.Text)
	}
	first := ""
	for i := range r.Results {
		if r.Results[i].Gap() {
			first = r.Results[i].Text
			break
		}
	}
	return fmt.Sprintf("%d of %d images are not available; the first: %s", gaps, len(r.Results), first)
}

// Prove checks the requested images. Problems of the mirror are part of the report; the error is
// that of the context or of Options.Proven. progress may be nil; its calls never overlap.
func (p *Prover) Prove(ctx context.Context, request Request, progress func(Progress)) (*Report, error) {
	started := p.options.Clock.Now()
	s := newSession(p, request, progress)
	results := make([]Result, len(request.Images))
	jobs := make(chan int)
	var group sync.WaitGroup
	for range min(p.options.Workers, len(request.Images)) {
		group.Go(func() {
			for i := range jobs {
				results[i] = s.prove(ctx, request.Images[i])
				s.advance(1, 0)
			}
		})
	}
	for i := range request.Images {
		select {
		case jobs <- i:
		case <-ctx.Done():
		}
	}
	close(jobs)
	group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.findElsewhere(ctx, results)
	s.findOtherDigests(ctx, results)
	if request.Bytes {
		if err := s.readAll(ctx, results); err != nil {
			return nil, err
		}
	}
	report := s.report(results)
	report.Started, report.Took = started.UTC(), p.options.Clock.Since(started)
	return report, ctx.Err()
}

// prove finds the first endpoint that serves the image's manifest, in the order of a node. It
// checks the other parts at this endpoint.
func (s *session) prove(ctx context.Context, image Image) Result {
	result := Result{Image: image}
	ref, err := name.ParseReference(image.Ref)
	if err != nil {
		result.Status, result.Text = Failed, fmt.Sprintf("%q is not a pull spec.", image.Ref)
		return result
	}
	endpoints := s.endpoints(ref)
	if len(endpoints) == 0 {
		s.withoutRule(&result, ref)
		return result
	}
	var first *outcome
	for _, endpoint := range endpoints {
		r := s.repository(endpoint)
		got := r.image(ctx, endpoint.Ref, s.request)
		if got.err == nil {
			result.Endpoint, result.Rule, result.Digest = endpoint.Ref.Name(), endpoint.Rule, got.digest
			s.setStatus(ctx, &result, r, got)
			return result
		}
		if first == nil || first.fault == MissingManifest && got.fault != MissingManifest {
			first = got
			result.Endpoint, result.Rule = endpoint.Ref.Name(), endpoint.Rule
		}
		if ctx.Err() != nil {
			break
		}
	}
	result.Status, result.Missing = first.fault, first.missing
	if !first.fault.global() {
		result.Text = s.sentence(image, first)
	}
	s.noteFault(first)
	return result
}

// setStatus sets the status of an image from the parts that an endpoint serves.
func (s *session) setStatus(ctx context.Context, result *Result, r *repository, got *outcome) {
	for _, blob := range got.blobs {
		result.Bytes += blob.Bytes
	}
	result.Missing, result.Cached, result.parts = got.missing, got.cached, got.blobs
	switch {
	case got.damage != "":
		result.Status, result.Text = Damaged, got.damage
	case len(got.missing) > 0:
		result.Status = MissingLayer
		result.Text = missingText(result, r)
	case got.fault != "" && got.fault != Held:
		result.Status = got.fault
		if !got.fault.global() {
			result.Text = s.sentence(result.Image, got)
		}
		s.noteFault(got)
	default:
		result.Status = Held
		s.cacheImage(r, got)
		if s.request.Signatures {
			result.Unsigned = !r.signed(ctx, got.digest)
		}
	}
}

// endpoints returns the mirrors of an image in the order of the nodes. It includes the image's own
// source only at a site without rules, or if the rules map the source to another location.
func (s *session) endpoints(ref name.Reference) []mirror.Endpoint {
	endpoints := s.rules.Endpoints(ref)
	if len(s.rules.List()) == 0 {
		return endpoints
	}
	return slices.DeleteFunc(endpoints, func(e mirror.Endpoint) bool {
		return e.Source && e.Ref.Context().Name() == ref.Context().Name()
	})
}

// withoutRule sets the status and the text of an image for which no rule leads to a mirror.
func (s *session) withoutRule(result *Result, ref name.Reference) {
	explained, err := s.rules.Explain(result.Ref)
	kind := "tag"
	if _, ok := ref.(name.Digest); ok {
		kind = "digest"
	}
	if err == nil && explained.Rule != nil && len(explained.Rule.Mirrors) > 0 {
		result.Status, result.Rule = TagRule, fmt.Sprintf("%q in %s", explained.Rule.Prefix, explained.Rule.Origin)
		result.Text = fmt.Sprintf("%s is referenced by %s, but the mirrors of the rule for %s (%s) do not apply to "+
			"such references; %s.",
			describe(result.Image), kind, explained.Rule.Prefix, explained.Rule.Origin, tagAdvice(kind))
		return
	}
	result.Status = NoRule
	result.Text = fmt.Sprintf("No rule leads from %s to a mirror; add one for %s.", describe(result.Image),
		ref.Context().Name())
}

func tagAdvice(kind string) string {
	if kind == "tag" {
		return "reference it by digest, or add an ImageTagMirrorSet"
	}
	return "add an ImageDigestMirrorSet"
}

// describe returns an image's pull spec with its names in the release.
func describe(image Image) string {
	if len(image.Names) == 0 {
		return image.Ref
	}
	return strings.Join(image.Names, ", ") + " (" + image.Ref + ")"
}

func missingText(result *Result, r *repository) string {
	kinds := map[string]int{}
	for _, part := range result.Missing {
		kinds[part.Kind]++
	}
	var counted []string
	for _, kind := range []string{"layer", "config", "image"} {
		if n := kinds[kind]; n == 1 {
			counted = append(counted, "1 "+kind)
		} else if n > 1 {
			counted = append(counted, fmt.Sprintf("%d %ss", n, kind))
		}
	}
	return fmt.Sprintf("%s has the manifest of %s but lacks %s, such as %s; mirror the image again.", r.name(),
		describe(result.Image), strings.Join(counted, " and "), result.Missing[0].Digest)
}

// sentence returns the result of the request for an image as a sentence.
func (s *session) sentence(image Image, got *outcome) string {
	if got.fault == MissingManifest {
		return fmt.Sprintf("%s has no %s; mirror it there.", got.where, describe(image))
	}
	if got.fault == MissingLayer {
		return fmt.Sprintf("%s lacks parts of %s: %s.", got.where, describe(image), got.answer)
	}
	text := fmt.Sprintf("%s %s when asked for %s", got.where, got.answer, describe(image))
	if got.advice != "" {
		text += "; " + got.advice
	}
	return text + "."
}

// report combines the results of the images.
func (s *session) report(results []Result) *Report {
	report := &Report{Results: results, Faults: s.faults(results), Warnings: []string{}}
	report.Blobs, report.Bytes = s.totals()
	s.counting.Lock()
	report.Requests, report.ReadBytes = s.done.Requests, s.done.Bytes
	s.counting.Unlock()
	unsigned, optional := 0, []string{}
	for i := range results {
		if results[i].Unsigned {
			unsigned++
		}
		if results[i].Optional && results[i].Status != Held && !results[i].Status.global() {
			optional = append(optional, describe(results[i].Image))
		}
	}
	if unsigned > 0 {
		report.Warnings = append(report.Warnings,
			fmt.Sprintf("%d of %d images have no Sigstore signature (a tag sha256-….sig). Clusters whose "+
				"ClusterImagePolicy requires signatures will not run them.", unsigned, len(results)))
	}
	if len(optional) > 0 {
		report.Warnings = append(report.Warnings,
			fmt.Sprintf("%d images that this installation does not need are missing: %s.", len(optional),
				shorten(optional)))
	}
	return report
}

func shorten(names []string) string {
	const shown = 5
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return strings.Join(names, ", ")
}
