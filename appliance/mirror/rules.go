package mirror

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Rules maps image references to the places from which the images may be pulled. The zero value and
// nil hold no rules: every image is pulled from the registry in its name. Rules are immutable and
// safe for concurrent use.
type Rules struct {
	tables   []table
	settings confFile // the settings of a registries.conf outside its tables
	conf     []byte   // the tables as registries.conf
	ca       []byte   // PEM
	// objects holds the objects for clusters from the documents of the rules, each once.
	objects []Object
}

// table is one [[registry]] of a registries.conf, or the entries of mirror sets for one source.
type table struct {
	// prefix matches references. "*.host" matches all subdomains of host.
	prefix string
	// location replaces the prefix in references to the source. It is empty only for a wildcard;
	// references then stay unchanged.
	location string
	insecure bool
	blocked  bool
	mirrors  []mirror
	// origin is the name of the document in texts for users.
	origin string
	// replaced lists the documents whose table of the same prefix this table replaces.
	replaced []string
	// over lists the documents of a lower level whose rule this rule overrides.
	over string
}

type mirror struct {
	location string
	insecure bool
	use      use
}

// use selects the references that a mirror serves (pull-from-mirror in registries.conf).
type use string

const (
	useAll        use = "all"
	useDigestOnly use = "digest-only"
	useTagOnly    use = "tag-only"
)

func (u use) allows(digest bool) bool {
	return u == useAll || (u == useDigestOnly) == digest
}

// Endpoint is a place from which an image may be pulled.
type Endpoint struct {
	// Ref is the image's reference at this place, with the requested tag or digest.
	Ref name.Reference
	// Insecure allows plain HTTP and untrusted certificates.
	Insecure bool
	// Source is true for the registry in the image's own name, and false for a mirror.
	Source bool
	// Rule describes the rule of this endpoint.
	Rule string
}

// Empty reports whether there are neither rules nor CAs.
func (r *Rules) Empty() bool { return r == nil || (len(r.tables) == 0 && len(r.ca) == 0) }

// Equal reports whether the rules are the same as others, with the same CAs and objects.
func (r *Rules) Equal(other *Rules) bool { return reflect.DeepEqual(r, other) }

// CABundle returns the CAs as PEM, each once. It is nil if there are none.
func (r *Rules) CABundle() []byte {
	if r == nil {
		return nil
	}
	return append([]byte(nil), r.ca...)
}

// Trusting returns the same rules with additional CAs (PEM).
func (r *Rules) Trusting(bundle []byte) *Rules {
	with := Rules{ca: bundle}
	if r != nil {
		with = *r
		with.ca = append(r.CABundle(), bundle...)
	}
	return &with
}

// Hosts returns the sorted hosts of the mirrors without ports. Nodes must connect to them without a
// proxy.
func (r *Rules) Hosts() []string {
	if r == nil {
		return nil
	}
	var hosts []string
	for _, t := range r.tables {
		for _, m := range t.mirrors {
			host, _, _ := strings.Cut(m.location, "/")
			if u, err := url.Parse("//" + host); err == nil && !slices.Contains(hosts, u.Hostname()) {
				hosts = append(hosts, u.Hostname())
			}
		}
	}
	slices.Sort(hosts)
	return hosts
}

// Names reports whether a mirror of the rules is the registry at host:port.
func (r *Rules) Names(host string) bool {
	return r != nil && slices.ContainsFunc(r.tables, func(t table) bool {
		return slices.ContainsFunc(t.mirrors, func(m mirror) bool {
			named, _, _ := strings.Cut(m.location, "/")
			return named == host
		})
	})
}

// Moved returns the same rules with the registry at another host:port in place of the one at from.
func (r *Rules) Moved(from, to string) (*Rules, error) {
	if r == nil {
		return nil, nil
	}
	tables := slices.Clone(r.tables)
	for i := range tables {
		tables[i].mirrors = slices.Clone(tables[i].mirrors)
		for j := range tables[i].mirrors {
			m := &tables[i].mirrors[j]
			if host, path, _ := strings.Cut(m.location, "/"); host == from {
				m.location = strings.TrimSuffix(to+"/"+path, "/")
				m.insecure = false
			}
		}
	}
	return newRules(tables, r.settings, r.ca, r.objects)
}

// Endpoints returns the places from which ref may be pulled, in the order of the attempts. It is
// empty if the rules forbid all places.
func (r *Rules) Endpoints(ref name.Reference) []Endpoint {
	spelled := spell(ref)
	t, matched := r.find(spelled)
	if t == nil {
		return []Endpoint{{Ref: ref, Source: true, Rule: "no rule matches"}}
	}
	_, digest := ref.(name.Digest)
	var endpoints []Endpoint
	add := func(location string, e Endpoint) {
		target := spelled
		if location != "" {
			target = location + spelled[matched:]
		}
		if other, _ := r.find(target); other != nil && other.blocked {
			return // also a mirror at the source itself: containers/image checks each place
		}
		if parsed, err := parseReference(target, e.Insecure); err == nil {
			e.Ref = parsed
			endpoints = append(endpoints, e)
		}
	}
	for i, m := range t.mirrors {
		if m.use.allows(digest) {
			add(m.location, Endpoint{Insecure: m.insecure,
				Rule: fmt.Sprintf("mirror %d of %d for %q in %s", i+1, len(t.mirrors), t.prefix, t.origin)})
		}
	}
	if !t.blocked {
		add(t.location, Endpoint{Insecure: t.insecure, Source: true, Rule: fmt.Sprintf("the source of %q in %s",
			t.prefix, t.origin)})
	}
	return endpoints
}

// forbidden returns the reason why Endpoints is empty for ref.
func (r *Rules) forbidden(ref name.Reference) string {
	t, _ := r.find(spell(ref))
	if t == nil {
		return "no rule leads to a mirror"
	}
	kind := "tags"
	if _, ok := ref.(name.Digest); ok {
		kind = "digests"
	}
	return fmt.Sprintf("the rule for %q in %s forbids the source and has no usable mirror for %s", t.prefix, t.origin,
		kind)
}

// find returns the table for a reference, and the length of the part of the reference that the
// prefix matches. Among matching tables it selects the longest prefix; among equal prefixes, the
// first.
func (r *Rules) find(spelled string) (*table, int) {
	if r == nil {
		return nil, 0
	}
	var best *table
	covered := 0
	for i := range r.tables {
		t := &r.tables[i]
		if n := matchPrefix(spelled, t.prefix); n >= 0 && (best == nil || len(t.prefix) > len(best.prefix)) {
			best, covered = t, n
		}
	}
	return best, covered
}

// matchPrefix returns the number of bytes of the reference that the prefix matches, or -1. A match
// must end at the end of a host, a path element or a repository. "*.host" matches any subdomain.
func matchPrefix(spelled, prefix string) int {
	end := len(prefix)
	if suffix, ok := strings.CutPrefix(prefix, "*"); ok {
		at := strings.Index(spelled, suffix)
		if at < 0 || strings.Contains(spelled[:at], "/") {
			return -1
		}
		end = at + len(suffix)
	} else if !strings.HasPrefix(spelled, prefix) {
		return -1
	}
	if end == len(spelled) || strings.IndexByte("/:@", spelled[end]) >= 0 {
		return end
	}
	return -1
}

// dockerHub is the name of Docker Hub in rules and pull secrets. The registry library uses
// index.docker.io.
const dockerHub = "docker.io"

// spell returns a reference in the form that rules match.
func spell(ref name.Reference) string {
	repository := ref.Context().RepositoryStr()
	if _, ok := ref.(name.Digest); ok {
		return hostOf(ref.Context().Registry) + "/" + repository + "@" + ref.Identifier()
	}
	return hostOf(ref.Context().Registry) + "/" + repository + ":" + ref.Identifier()
}

func hostOf(r name.Registry) string {
	if host := r.RegistryStr(); host != name.DefaultRegistry {
		return host
	}
	return dockerHub
}

// parseReference parses a reference that a rule produced. It rejects a reference without a
// repository, which a rule from a repository to a bare host produces. The library would search for
// the host's name on Docker Hub.
func parseReference(s string, insecure bool) (name.Reference, error) {
	var options []name.Option
	if insecure {
		options = append(options, name.Insecure)
	}
	ref, err := name.ParseReference(s, options...)
	if err != nil {
		return nil, err
	}
	if host, _, ok := strings.Cut(s, "/"); !ok || hostOf(ref.Context().Registry) != host {
		return nil, fmt.Errorf("%s is not a repository", s)
	}
	return ref, nil
}

// combine joins the tables of registries.conf with those of mirror sets. A prefix gets the mirrors
// of both, those of registries.conf first.
func combine(conf, sets []table) []table {
	tables := append([]table(nil), conf...)
next:
	for _, s := range sets {
		for i := range tables {
			if t := &tables[i]; t.prefix == s.prefix {
				t.mirrors = mergeMirrors([][]mirror{t.mirrors, s.mirrors})
				t.blocked = t.blocked || s.blocked
				t.origin += " and " + s.origin
				continue next
			}
		}
		tables = append(tables, s)
	}
	return tables
}

// mergeMirrors joins lists and preserves the order of each where possible: a,b,c and c,d,e yield
// a,b,c,d,e. On a contradiction the mirror that occurs first precedes the other.
func mergeMirrors(lists [][]mirror) []mirror {
	var order []mirror
	before := map[mirror][]mirror{} // the mirrors that must come before each mirror
	seen := map[mirror]bool{}
	for _, list := range lists {
		for i, m := range list {
			if !seen[m] {
				seen[m] = true
				order = append(order, m)
			}
			if i > 0 {
				before[m] = append(before[m], list[i-1])
			}
		}
	}
	merged := make([]mirror, 0, len(order))
	done := map[mirror]bool{}
	free := func(m mirror) bool {
		for _, b := range before[m] {
			if !done[b] && b != m {
				return false
			}
		}
		return true
	}
	for len(order) > 0 {
		next := 0 // on a contradiction, take the mirror that occurs first
		for i, m := range order {
			if free(m) {
				next = i
				break
			}
		}
		done[order[next]] = true
		merged = append(merged, order[next])
		order = append(order[:next], order[next+1:]...)
	}
	return merged
}
