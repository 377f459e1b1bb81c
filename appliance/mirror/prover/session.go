package prover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"

	"landfall/appliance/mirror"
)

// session is the state of a proof: the registries and blobs that it has checked.
type session struct {
	prover  *Prover
	request Request
	rules   *mirror.Rules

	mu           sync.Mutex
	hosts        map[string]*host
	repositories map[string]*repository
	found        map[string]*outcome // faults of whole registries or repositories, by place

	counting sync.Mutex
	done     Progress
	progress func(Progress)
}

func newSession(p *Prover, request Request, progress func(Progress)) *session {
	if progress == nil {
		progress = func(Progress) {}
	}
	if request.Client == nil {
		request.Client = p.options.Client
	}
	return &session{prover: p, request: request, rules: request.Client.Rules(), hosts: map[string]*host{},
		repositories: map[string]*repository{}, found: map[string]*outcome{},
		done: Progress{Total: len(request.Images)}, progress: progress}
}

// advance updates the progress and reports it.
func (s *session) advance(images int, bytes int64) {
	s.counting.Lock()
	defer s.counting.Unlock()
	s.done.Images += images
	s.done.Bytes += bytes
	s.progress(s.done)
}

func (s *session) countRequest() {
	s.counting.Lock()
	s.done.Requests++
	s.counting.Unlock()
}

// repository returns the state of an endpoint's repository.
func (s *session) repository(e mirror.Endpoint) *repository {
	s.mu.Lock()
	defer s.mu.Unlock()
	hostName := e.Ref.Context().RegistryStr()
	h := s.hosts[hostName]
	if h == nil {
		h = &host{name: hostName}
		s.hosts[hostName] = h
	}
	key := fmt.Sprintf("%s %t", e.Ref.Context().Name(), e.Insecure)
	r := s.repositories[key]
	if r == nil {
		r = &repository{session: s, host: h, endpoint: e, blobs: map[string]*blobCheck{}}
		s.repositories[key] = r
	}
	return r
}

// noteFault stores the first outcome of each global fault. Its text describes the fault.
func (s *session) noteFault(got *outcome) {
	if !got.fault.global() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.found[faultKey(got)]; !known {
		s.found[faultKey(got)] = got
	}
}

func faultKey(got *outcome) string { return string(got.fault) + " " + got.where }

// faults returns the global faults with the number of images that each makes unavailable. It
// combines the authorization errors of several repositories of a registry into one fault.
func (s *session) faults(results []Result) []Fault {
	type group struct {
		got   *outcome
		where []string
	}
	groups := map[string]*group{}
	s.mu.Lock()
	for _, got := range s.found {
		host, _, _ := strings.Cut(got.where, "/")
		key := string(got.fault) + host + got.answer
		if groups[key] == nil {
			groups[key] = &group{got: got}
		}
		groups[key].where = append(groups[key].where, got.where)
	}
	s.mu.Unlock()
	faults := []Fault{}
	for _, g := range groups {
		slices.Sort(g.where)
		fault := Fault{Status: g.got.fault, Where: strings.Join(g.where, ", ")}
		fault.Text = fmt.Sprintf("%s %s.", strings.Join(g.where, " and "), g.got.answer)
		if g.got.advice != "" {
			fault.Text = strings.TrimSuffix(fault.Text, ".") + "; " + g.got.advice + "."
		}
		for i := range results {
			if results[i].Status == g.got.fault && slices.ContainsFunc(g.where,
				func(where string) bool { return belongsTo(results[i].Endpoint, where) }) {
				fault.Images++
			}
		}
		faults = append(faults, fault)
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Where, b.Where) })
	return faults
}

// belongsTo reports whether a reference belongs to a registry or repository.
func belongsTo(ref, where string) bool {
	rest, ok := strings.CutPrefix(ref, where)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], "/:@"))
}

// totals returns the number of distinct blobs of complete images and their total size.
func (s *session) totals() (blobs int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for _, r := range s.repositories {
		r.mu.Lock()
		for digest, check := range r.blobs {
			if check.held && !seen[digest] {
				seen[digest] = true
				blobs++
				bytes += check.size
			}
		}
		r.mu.Unlock()
	}
	return blobs, bytes
}

// cacheImage adds a complete image to the cache.
func (s *session) cacheImage(r *repository, got *outcome) {
	if !got.cached && got.byDigest {
		s.prover.cache.put(cacheKey(r, got.digest, s.request), got.blobs)
	}
}

// elsewhereTries is the maximum number of other places that are checked for an image whose
// repository has no rule.
const elsewhereTries = 8

// findElsewhere searches the other repositories in the rules for images without a rule and for
// missing images. It searches for one image of each repository and then checks the place of this
// image for the others.
func (s *session) findElsewhere(ctx context.Context, results []Result) {
	places := map[string]*repository{} // by source repository; nil if none was found
	for i := range results {
		result := &results[i]
		if result.Status != NoRule && result.Status != MissingManifest {
			continue
		}
		ref, err := name.NewDigest(result.Ref)
		if err != nil {
			continue
		}
		source := ref.Context().Name()
		place, known := places[source]
		if !known {
			place = s.searchElsewhere(ctx, ref, result.Endpoint)
			places[source] = place
		}
		if place == nil || !place.has(ctx, ref.DigestStr()) {
			continue
		}
		result.Elsewhere = place.name() + "@" + ref.DigestStr()
		if result.Status == NoRule {
			result.Text = fmt.Sprintf("The mirror has %s as %s, but no rule leads there; add one from %s to %s.",
				describe(result.Image), result.Elsewhere, source, place.name())
		} else {
			result.Text = fmt.Sprintf("The mirror has %s as %s, but the rules look in %s; correct the rule for %s.",
				describe(result.Image), result.Elsewhere, repositoryOf(result.Endpoint), source)
		}
	}
}

func repositoryOf(ref string) string {
	at, _, _ := strings.Cut(ref, "@")
	return at
}

func (s *session) searchElsewhere(ctx context.Context, ref name.Digest, endpoint string) *repository {
	tried := 0
	for _, candidate := range s.candidates(ref) {
		if candidate.Ref.Name() == endpoint {
			continue
		}
		if tried++; tried > elsewhereTries {
			return nil
		}
		if r := s.repository(candidate); r.has(ctx, ref.DigestStr()) {
			return r
		}
	}
	return nil
}

// candidates returns places that may contain an image: the mirrors of other rules, and the image's
// path on their hosts.
func (s *session) candidates(ref name.Digest) []mirror.Endpoint {
	var found []mirror.Endpoint
	add := func(location string, insecure bool) {
		options := []name.Option{}
		if insecure {
			options = append(options, name.Insecure)
		}
		at, err := name.NewDigest(location+"@"+ref.DigestStr(), options...)
		if err != nil || !strings.Contains(location, "/") || slices.ContainsFunc(found,
			func(e mirror.Endpoint) bool { return e.Ref.Name() == at.Name() }) {
			return
		}
		found = append(found, mirror.Endpoint{Ref: at, Insecure: insecure, Rule: "search in other repositories"})
	}
	rules := s.rules.List()
	for _, rule := range rules {
		for _, m := range rule.Mirrors {
			add(m.Location, m.Insecure)
		}
	}
	for _, rule := range rules {
		for _, m := range rule.Mirrors {
			host, _, _ := strings.Cut(m.Location, "/")
			add(host+"/"+ref.Context().RepositoryStr(), m.Insecure)
		}
	}
	return found
}
