// Package prover finds out whether a mirror holds a set of images whole, before anything is pulled
// from it.
//
// Every image is asked for where the nodes would ask for it: at the endpoints of the site's rules,
// in their order, with the credentials and the trust that the nodes will have. Of what an endpoint
// answers nothing is believed that can be checked: manifests are fetched and their digests
// computed, the images of lists are followed, and configs and layers are asked for in the same
// repository, because a registry whose garbage collector took a layer goes on to answer for the
// manifest.
//
// What is wrong with a whole registry (it is down, its certificate, the credentials) is said once,
// in Report.Faults, and not of each image. The original source of an image is not asked: on a
// sealed site it isn't there.
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

// Verdict is what came of an image.
type Verdict string

// The verdicts.
const (
	Held            Verdict = "held"
	NoRule          Verdict = "no-rule"          // no rule leads to a mirror
	TagRule         Verdict = "tag-rule"         // the rule's mirrors are not for references of its kind, tag or digest
	MissingManifest Verdict = "missing-manifest" // no mirror has it
	MissingLayer    Verdict = "missing-layer"    // a layer, a config or an image of a list is missing
	Damaged         Verdict = "damaged"          // what is answered is not what was asked for
	Unauthorized    Verdict = "unauthorized"     // no or wrong credentials
	BadTLS          Verdict = "tls"              // unknown authority, expired, another name, no TLS at all
	Unreachable     Verdict = "unreachable"
	Failed          Verdict = "failed" // the registry fails in another way
)

// global tells verdicts that are about a registry, not about an image.
func (v Verdict) global() bool { return v == Unauthorized || v == BadTLS || v == Unreachable }

// Image is one image to be proven.
type Image struct {
	// Ref is its pull spec, under its original name.
	Ref string `json:"ref"`
	// Names are what a release calls it.
	Names []string `json:"names,omitempty"`
	// Optional: an installation does without it.
	Optional bool `json:"optional,omitempty"`
}

// Request says what to prove.
type Request struct {
	Images []Image
	// Architectures, as Go spells them, are the ones wanted of lists; none means all.
	Architectures []string
	// Secret is the pull secret of the nodes; nil is nobody's.
	Secret authn.Keychain
	// Client has other rules or another trust than the prover's own; nil is that.
	Client *mirror.Client
	// Signatures also asks for the Sigstore signatures of images.
	Signatures bool
	// Bytes also reads every layer and computes its digest.
	Bytes bool
	// Fresh forgets what was proven a moment ago.
	Fresh bool
}

// Options is what a Prover is made of.
type Options struct {
	Client *mirror.Client // whose rules and trust are followed
	// Workers is how many images are looked at at once; 0 means 16.
	Workers int
	// CacheFor is how long an image whose manifest did not change counts as proven with its layers;
	// 0 means 10 minutes.
	CacheFor time.Duration
	// Proven remembers whose bytes were read; nil forgets them at the end of each proof.
	Proven Proven
	Clock  clockwork.Clock // nil is the real one
	// UserAgent names the program to registries.
	UserAgent string
}

// Proven remembers blobs that were read whole, so that a proof of bytes which was interrupted goes
// on. Keys are repository@digest.
type Proven interface {
	Has(key string) bool
	Mark(ctx context.Context, key string) error
}

// Prover proves images. It may be used by many goroutines.
type Prover struct {
	options Options
	cache   *cache
}

// New makes a prover.
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

// Progress tells how far a proof is.
type Progress struct {
	Images, Total int   // done, of all
	Requests      int   // made so far
	Bytes         int64 // read and compared, of a proof of bytes
	TotalBytes    int64 // of what is to be read; 0 while it is not known
}

// Result is what came of one image.
type Result struct {
	Image
	Verdict Verdict `json:"verdict"`
	// Text is one sentence: what is wrong and what to do. Empty of images that are held, and of
	// those behind a global fault.
	Text string `json:"text,omitempty"`
	// Endpoint is the reference that served the image, or the first one that should have.
	Endpoint string `json:"endpoint,omitempty"`
	// Rule says which rule led there.
	Rule string `json:"rule,omitempty"`
	// Digest is the manifest's or list's, when it was served.
	Digest string `json:"digest,omitempty"`
	// Bytes are those of all its blobs.
	Bytes int64 `json:"bytes,omitempty"`
	// Missing are the parts that are not there.
	Missing []Part `json:"missing,omitempty"`
	// Elsewhere is where a mirror has the image although no rule leads there.
	Elsewhere string `json:"elsewhere,omitempty"`
	// Unsigned: its Sigstore signature was asked for and is not beside it.
	Unsigned bool `json:"unsigned,omitempty"`
	// Cached: its layers were asked for a while ago, and its manifest has not changed since.
	Cached bool `json:"cached,omitempty"`

	parts []Part
}

// Gap tells whether an installation would fail by it.
func (r *Result) Gap() bool { return r.Verdict != Held && !r.Optional }

// Part is a blob or a manifest of an image.
type Part struct {
	Kind   string `json:"kind"` // layer, config, image (of a list)
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes,omitempty"`
}

// Fault is what is wrong with a whole registry or repository.
type Fault struct {
	Verdict Verdict `json:"verdict"`
	Where   string  `json:"where"` // host, or repository where only that is concerned
	Text    string  `json:"text"`  // a sentence
	Images  int     `json:"images"`
}

// Report is what came of a proof.
type Report struct {
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`
	Results []Result      `json:"results"`
	Faults  []Fault       `json:"faults"`
	// Warnings are sentences about what does not stand in an installation's way.
	Warnings []string `json:"warnings"`
	Requests int      `json:"requests"`
	// Bytes are those of all distinct blobs that are held.
	Bytes int64 `json:"bytes"`
	// ReadBytes are those that were read and compared.
	ReadBytes int64 `json:"read_bytes,omitempty"`
	// Blobs is how many distinct blobs were found.
	Blobs int `json:"blobs"`
}

// Gaps counts the images by which an installation would fail.
func (r *Report) Gaps() int {
	gaps := 0
	for i := range r.Results {
		if r.Results[i].Gap() {
			gaps++
		}
	}
	return gaps
}

// Complete tells that nothing stands in an installation's way.
func (r *Report) Complete() bool { return r.Gaps() == 0 && len(r.Results) > 0 }

// Summary says the outcome in a sentence.
func (r *Report) Summary() string {
	gaps := r.Gaps()
	if gaps == 0 {
		return fmt.Sprintf("The mirror holds all %d images with %d layers and configs.", len(r.Results), r.Blobs)
	}
	for _, fault := range r.Faults {
		return fmt.Sprintf("%d of %d images can't be had: %s", gaps, len(r.Results), fault.Text)
	}
	first := ""
	for i := range r.Results {
		if r.Results[i].Gap() {
			first = r.Results[i].Text
			break
		}
	}
	return fmt.Sprintf("%d of %d images can't be had; the first: %s", gaps, len(r.Results), first)
}

// Prove asks the mirror for all that is requested. What is wrong with the mirror is in the report;
// the error is the context's, or that of Options.Proven. The callback, which may be nil, is called
// from one goroutine at a time.
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

// prove finds the first endpoint of an image that serves its manifest, as a node does, and looks at
// the rest there.
func (s *session) prove(ctx context.Context, image Image) Result {
	result := Result{Image: image}
	ref, err := name.ParseReference(image.Ref)
	if err != nil {
		result.Verdict, result.Text = Failed, fmt.Sprintf("%q is no pull spec.", image.Ref)
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
			s.judge(ctx, &result, r, got)
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
	result.Verdict = first.fault
	if !first.fault.global() {
		result.Text = s.sentence(image, first)
	}
	s.noteFault(first)
	return result
}

// judge looks at the parts of an image that an endpoint serves.
func (s *session) judge(ctx context.Context, result *Result, r *repository, got *outcome) {
	for _, blob := range got.blobs {
		result.Bytes += blob.Bytes
	}
	result.Missing, result.Cached, result.parts = got.missing, got.cached, got.blobs
	switch {
	case got.damage != "":
		result.Verdict, result.Text = Damaged, got.damage
	case len(got.missing) > 0:
		result.Verdict = MissingLayer
		result.Text = missingText(result, r)
	case got.fault != "" && got.fault != Held:
		result.Verdict = got.fault
		if !got.fault.global() {
			result.Text = s.sentence(result.Image, got)
		}
		s.noteFault(got)
	default:
		result.Verdict = Held
		s.remember(r, got)
		if s.request.Signatures {
			result.Unsigned = !r.signed(ctx, got.digest)
		}
	}
}

// endpoints are the mirrors of an image, in the nodes' order. Its own source is one only at a site
// without any rules, or if the rules say that it really is elsewhere.
func (s *session) endpoints(ref name.Reference) []mirror.Endpoint {
	endpoints := s.rules.Endpoints(ref)
	if len(s.rules.List()) == 0 {
		return endpoints
	}
	return slices.DeleteFunc(endpoints, func(e mirror.Endpoint) bool {
		return e.Source && e.Ref.Context().Name() == ref.Context().Name()
	})
}

// withoutRule says why no rule leads to a mirror.
func (s *session) withoutRule(result *Result, ref name.Reference) {
	explained, err := s.rules.Explain(result.Ref)
	kind := "tag"
	if _, ok := ref.(name.Digest); ok {
		kind = "digest"
	}
	if err == nil && explained.Rule != nil && len(explained.Rule.Mirrors) > 0 {
		result.Verdict, result.Rule = TagRule, fmt.Sprintf("%q in %s", explained.Rule.Prefix, explained.Rule.Origin)
		result.Text = fmt.Sprintf("%s is named by its %s, for which the mirrors of the rule for %s (%s) don't count; "+
			"%s.",
			describe(result.Image), kind, explained.Rule.Prefix, explained.Rule.Origin, tagAdvice(kind))
		return
	}
	result.Verdict = NoRule
	result.Text = fmt.Sprintf("No rule leads from %s to a mirror; add one for %s.", describe(result.Image),
		ref.Context().Name())
}

func tagAdvice(kind string) string {
	if kind == "tag" {
		return "name it by its digest, or add an ImageTagMirrorSet"
	}
	return "add an ImageDigestMirrorSet"
}

// describe names an image as people know it.
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
	return fmt.Sprintf("%s has the manifest of %s and lacks %s of it, such as %s; mirror it again.", r.name(),
		describe(result.Image), strings.Join(counted, " and "), result.Missing[0].Digest)
}

// sentence says what came of asking for an image.
func (s *session) sentence(image Image, got *outcome) string {
	if got.fault == MissingManifest {
		return fmt.Sprintf("%s has no %s; mirror it there.", got.where, describe(image))
	}
	text := fmt.Sprintf("%s %s when asked for %s", got.where, got.answer, describe(image))
	if got.advice != "" {
		text += "; " + got.advice
	}
	return text + "."
}

// report joins what came of the images.
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
		if results[i].Optional && results[i].Verdict != Held && !results[i].Verdict.global() {
			optional = append(optional, describe(results[i].Image))
		}
	}
	if unsigned > 0 {
		report.Warnings = append(report.Warnings,
			fmt.Sprintf("%d of %d images have no Sigstore signature (a tag sha256-….sig) beside them. Clusters whose "+
				"ClusterImagePolicy asks for signatures won't run them.", unsigned, len(results)))
	}
	if len(optional) > 0 {
		report.Warnings = append(report.Warnings,
			fmt.Sprintf("%d images that this installation does without are not held: %s.", len(optional),
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
