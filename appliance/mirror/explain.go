package mirror

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"landfall/appliance/sentence"
)

// Rule describes one table of the rules for users.
type Rule struct {
	// Prefix matches references. "*.host" matches all subdomains.
	Prefix string `json:"prefix"`
	// Location is the location of the source if it differs from the prefix.
	Location string `json:"location,omitempty"`
	// Blocked is true if the source is never contacted.
	Blocked  bool         `json:"blocked"`
	Insecure bool         `json:"insecure,omitempty"`
	Mirrors  []RuleMirror `json:"mirrors"`
	// Origin names the documents of the rule.
	Origin string `json:"origin"`
}

// RuleMirror is one mirror of a rule.
type RuleMirror struct {
	Location string `json:"location"`
	Insecure bool   `json:"insecure,omitempty"`
	// For is the kind of references for which the mirror is used: all, digest-only or tag-only.
	For string `json:"for"`
}

// List returns the rules in their original order.
func (r *Rules) List() []Rule {
	if r == nil {
		return nil
	}
	rules := make([]Rule, 0, len(r.tables))
	for _, t := range r.tables {
		rule := Rule{Prefix: t.prefix, Blocked: t.blocked, Insecure: t.insecure, Origin: t.origin,
			Mirrors: []RuleMirror{}}
		if t.location != t.prefix {
			rule.Location = t.location
		}
		if t.over != "" {
			rule.Origin += ", over " + t.over
		}
		for _, m := range t.mirrors {
			rule.Mirrors = append(rule.Mirrors, RuleMirror{Location: m.location, Insecure: m.insecure,
				For: string(m.use)})
		}
		rules = append(rules, rule)
	}
	return rules
}

// Explanation contains the places from which an image is pulled.
type Explanation struct {
	Image string `json:"image"`
	// Rule is the matching rule, or nil.
	Rule *Rule `json:"rule,omitempty"`
	// Steps lists the endpoints in the order of the attempts. It is empty if the rules forbid all
	// endpoints.
	Steps []Step `json:"steps"`
	// Notes contains sentences about unexpected effects.
	Notes []string `json:"notes"`
}

// Step is an attempt at an endpoint.
type Step struct {
	Image    string `json:"image"`
	Source   bool   `json:"source"` // the registry in the image's own name
	Insecure bool   `json:"insecure,omitempty"`
	Rule     string `json:"rule"`
}

// Explain returns the places from which an image is pulled, with the reasons. The error for an
// invalid pull spec is a sentence.
func (r *Rules) Explain(image string) (*Explanation, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil,
			fmt.Errorf("%q is not a pull spec; it must look like registry/repository@sha256:… or "+
				"registry/repository:tag",
				image)
	}
	e := &Explanation{Image: image, Steps: []Step{}, Notes: []string{}}
	for _, endpoint := range r.Endpoints(ref) {
		e.Steps = append(e.Steps, Step{Image: spell(endpoint.Ref), Source: endpoint.Source, Insecure: endpoint.Insecure,
			Rule: endpoint.Rule})
	}
	spelled := spell(ref)
	t, _ := r.find(spelled)
	if t == nil {
		if !r.Empty() {
			e.Notes = append(e.Notes,
				"No rule leads to a mirror: nodes pull the image from the registry in its name, which a disconnected "+
					"site cannot reach.")
		}
		return e, nil
	}
	for _, rule := range r.List() {
		if rule.Prefix == t.prefix {
			e.Rule = &rule
		}
	}
	if note := tagNote(t, ref); note != "" {
		e.Notes = append(e.Notes, note)
	}
	if len(e.Steps) == 0 {
		e.Notes = append(e.Notes, "No registry is contacted: "+r.forbidden(ref)+".")
	}
	for i := range r.tables {
		other := &r.tables[i]
		if other != t && matchPrefix(spelled, other.prefix) >= 0 {
			e.Notes = append(e.Notes,
				fmt.Sprintf("The rule for %s (%s) also matches but is not used, because only the longest prefix "+
					"counts.",
					other.prefix, other.origin))
		}
	}
	return e, nil
}

// tagNote returns a note if a rule's mirrors are not used for the image because of its tag or
// digest. Otherwise it returns "".
func tagNote(t *table, ref name.Reference) string {
	if len(t.mirrors) == 0 {
		return ""
	}
	_, digest := ref.(name.Digest)
	for _, m := range t.mirrors {
		if m.use.allows(digest) {
			return ""
		}
	}
	if digest {
		return fmt.Sprintf("The mirrors of the rule for %s (%s) are for tags only, but the image is referenced by "+
			"digest.", t.prefix, t.origin)
	}
	return fmt.Sprintf("The mirrors of the rule for %s (%s) are for digests only, but the image is referenced by tag: "+
		"reference it by digest, or add an ImageTagMirrorSet.", t.prefix, t.origin)
}

// HoleKind is the kind of a hole.
type HoleKind string

// Kinds of holes.
const (
	HoleOverlap      HoleKind = "overlap"       // the prefix of one rule is part of the prefix of another
	HoleHalfRelease  HoleKind = "half-release"  // a rule for only one of the release's two repositories
	HoleEqualPrefix  HoleKind = "equal-prefix"  // several documents have a rule for the same prefix
	HoleNoMirror     HoleKind = "no-mirror"     // a rule allows no pulls
	HoleBlocked      HoleKind = "blocked"       // another rule forbids the mirror
	HoleTagsOnly     HoleKind = "tags-only"     // mirrors for tags only; clusters pull by digest
	HoleOpenSource   HoleKind = "open-source"   // a missing image causes a slow request to the source
	HoleInsecureNode HoleKind = "insecure-node" // a mirror without TLS, which an install-config cannot express
)

// Hole is a gap in the rules that may make a pull fail.
type Hole struct {
	Kind   HoleKind `json:"kind"`
	Prefix string   `json:"prefix"`
	// Text describes the problem and its solution in sentences.
	Text string `json:"text"`
	// Grave is true if installations fail because of the hole.
	Grave bool `json:"grave"`
}

// The repositories of OpenShift releases: the release image and its components.
const (
	releaseRepository   = "quay.io/openshift-release-dev/ocp-release"
	componentRepository = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
)

// Holes returns the holes of the rules, the grave ones of each kind first.
func (r *Rules) Holes() []Hole {
	if r == nil {
		return nil
	}
	var holes []Hole
	add := func(kind HoleKind, prefix string, grave bool, format string, args ...any) {
		holes = append(holes, Hole{Kind: kind, Prefix: prefix, Grave: grave, Text: fmt.Sprintf(format, args...)})
	}
	r.halfRelease(add)
	r.insecureMirrors(add)
	for i := range r.tables {
		t := &r.tables[i]
		r.tableHoles(t, add)
		for j := range r.tables {
			if other := &r.tables[j]; i != j && within(t.prefix, other.prefix) {
				add(HoleOverlap, t.prefix, false,
					"The rule for %s (%s) lies within the rule for %s (%s). Only the first rule applies to its "+
						"images: the mirrors of the second rule are not tried.",
					t.prefix, t.origin, other.prefix, other.origin)
			}
		}
	}
	return holes
}

// insecureMirrors adds one hole for each host, because one certificate repairs all rules that use
// it.
func (r *Rules) insecureMirrors(add func(HoleKind, string, bool, string, ...any)) {
	var hosts []string
	prefixes := map[string][]string{}
	for i := range r.tables {
		for _, m := range r.tables[i].mirrors {
			host := registryOf(m.location)
			if !m.insecure || slices.Contains(prefixes[host], r.tables[i].prefix) {
				continue
			}
			if prefixes[host] == nil {
				hosts = append(hosts, host)
			}
			prefixes[host] = append(prefixes[host], r.tables[i].prefix)
		}
	}
	for _, host := range hosts {
		add(HoleInsecureNode, prefixes[host][0], false,
			"The mirror %s is used without TLS or with an untrusted certificate (%s). The discovery image and the new "+
				"cluster support this. The install-config, from which the bootstrap gets its rules, does not: install "+
				"a trusted certificate on the mirror.", host, sentence.Count(len(prefixes[host]), "rule"))
	}
}

func (r *Rules) tableHoles(t *table, add func(HoleKind, string, bool, string, ...any)) {
	for _, replaced := range t.replaced {
		add(HoleEqualPrefix, t.prefix, false, "Both %s and %s have a table for %s. Only the table in %s applies.",
			replaced, t.origin, t.prefix, t.origin)
	}
	digests, tags := 0, 0
	for _, m := range t.mirrors {
		if m.use.allows(true) {
			digests++
		}
		if m.use.allows(false) {
			tags++
		}
	}
	// A mirror for digests and one for tags, as oc-mirror makes them, do not compete.
	if strings.Contains(t.origin, " and ") && (len(t.mirrors) == 1 || max(digests, tags) > 1) {
		tried := "Their mirrors are tried one after the other, in this order: " + locations(t.mirrors)
		if len(t.mirrors) == 1 {
			tried = "All of them name the same mirror: " + locations(t.mirrors)
		}
		add(HoleEqualPrefix, t.prefix, false, "There are several rules for %s: %s. %s.", t.prefix, t.origin, tried)
	}
	for _, m := range t.mirrors {
		if other, _ := r.find(m.location); other != nil && other.blocked {
			add(HoleBlocked, t.prefix, true,
				"The mirror %s of %s is never contacted: the rule for %s (%s) forbids it.", m.location,
				t.prefix, other.prefix, other.origin)
		}
	}
	switch {
	case digests+tags == 0 && t.blocked:
		add(HoleNoMirror, t.prefix, true,
			"No image under %s can be pulled: the rule (%s) forbids the source and has no mirror.", t.prefix, t.origin)
	case digests == 0 && tags > 0:
		add(HoleTagsOnly, t.prefix, false,
			"The mirrors of %s (%s) are for tags only; clusters pull by digest. Add an ImageDigestMirrorSet.",
			t.prefix, t.origin)
	case digests > 0 && !t.blocked && (t.prefix == releaseRepository || t.prefix == componentRepository):
		add(HoleOpenSource, t.prefix, false,
			"If the mirror lacks an image of %s, nodes try the source. On a disconnected site each attempt waits "+
				"until it times out, so a missing image looks like a hang. mirrorSourcePolicy NeverContactSource "+
				"(or blocked = true) makes the pull fail immediately.", t.prefix)
	}
}

// halfRelease adds the most common hole: a rule for only one of the release's two repositories.
func (r *Rules) halfRelease(add func(HoleKind, string, bool, string, ...any)) {
	const digest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	leads := func(repository string) bool {
		t, _ := r.find(repository + digest)
		if t == nil {
			return false
		}
		for _, m := range t.mirrors {
			if m.use.allows(true) {
				return true
			}
		}
		return false
	}
	release, components := leads(releaseRepository), leads(componentRepository)
	const text = "There is a rule for %s but none for %s, which contains %s. Mirror both repositories and add the " +
		"missing rule; oc-mirror writes both rules."
	switch {
	case release && !components:
		add(HoleHalfRelease, componentRepository, true, text, releaseRepository, componentRepository,
			"the images of the release")
	case components && !release:
		add(HoleHalfRelease, releaseRepository, true, text, componentRepository, releaseRepository,
			"the release image")
	}
}

// within reports whether every reference that matches the prefix inner also matches outer.
func within(inner, outer string) bool {
	if inner == outer {
		return false
	}
	if host, ok := strings.CutPrefix(inner, "*"); ok {
		suffix, wild := strings.CutPrefix(outer, "*")
		return wild && strings.HasSuffix(host, suffix)
	}
	return matchPrefix(inner, outer) >= 0
}

func locations(mirrors []mirror) string {
	var names []string
	for _, m := range mirrors {
		names = append(names, m.location)
	}
	return strings.Join(names, ", ")
}
