package mirror

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Rules lead from the name of an image to the places it may be pulled from. The zero value and nil
// have no rules: every image is pulled from where its name says. Rules don't change once made and
// may be used by many goroutines.
type Rules struct {
	tables   []table
	settings confFile // what a registries.conf said beside the tables
	conf     []byte   // the tables as registries.conf
	ca       []byte   // PEM
	// objects are what was found beside the rules and belongs into clusters, each once.
	objects []Object
}

// table is one [[registry]] of a registries.conf, or what mirror sets say about one source.
type table struct {
	// prefix matches references; "*.host" matches all subdomains of host.
	prefix string
	// location replaces the prefix to reach the source; "" (with a wildcard only) leaves the
	// reference as it is.
	location string
	insecure bool
	blocked  bool
	mirrors  []mirror
	// origin names the document, for people.
	origin string
	// replaced names the documents whose table of the same prefix this one goes over.
	replaced []string
	// over names the documents with the rule of a level below that this one goes over.
	over string
}

type mirror struct {
	location string
	insecure bool
	use      use
}

// use says for which references a mirror may be asked (pull-from-mirror in registries.conf).
type use string

const (
	useAll        use = "all"
	useDigestOnly use = "digest-only"
	useTagOnly    use = "tag-only"
)

func (u use) allows(digest bool) bool {
	return u == useAll || (u == useDigestOnly) == digest
}

// Endpoint is one place that an image may be pulled from.
type Endpoint struct {
	// Ref is the image there, with the tag or digest of the name that was asked for.
	Ref name.Reference
	// Insecure allows plain HTTP and certificates that nobody vouches for.
	Insecure bool
	// Source is true for the place that the image's own name leads to, false for a mirror.
	Source bool
	// Rule says in words which rule led here.
	Rule string
}

// Empty tells that there is neither a rule nor a CA.
func (r *Rules) Empty() bool { return r == nil || (len(r.tables) == 0 && len(r.ca) == 0) }

// CABundle returns the CAs as PEM, each once; nil if there are none.
func (r *Rules) CABundle() []byte {
	if r == nil {
		return nil
	}
	return append([]byte(nil), r.ca...)
}

// Trusting returns the same rules with CAs (PEM) beside theirs.
func (r *Rules) Trusting(bundle []byte) *Rules {
	with := Rules{ca: bundle}
	if r != nil {
		with = *r
		with.ca = append(r.CABundle(), bundle...)
	}
	return &with
}

// Hosts lists the hosts of the mirrors, without ports, sorted: what must be reached without a
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

// Endpoints returns the places to pull ref from, in the order to try them. It is empty if the rules
// forbid them all.
func (r *Rules) Endpoints(ref name.Reference) []Endpoint {
	spelled := spell(ref)
	t, matched := r.find(spelled)
	if t == nil {
		return []Endpoint{{Ref: ref, Source: true, Rule: "no rule names it"}}
	}
	_, digest := ref.(name.Digest)
	var endpoints []Endpoint
	add := func(location string, e Endpoint) {
		target := spelled
		if location != "" {
			target = location + spelled[matched:]
		}
		if other, _ := r.find(target); other != nil && other.blocked && target != spelled {
			return
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

// forbidden says why Endpoints is empty for ref.
func (r *Rules) forbidden(ref name.Reference) string {
	t, _ := r.find(spell(ref))
	if t == nil {
		return "no rule leads anywhere"
	}
	kind := "tags"
	if _, ok := ref.(name.Digest); ok {
		kind = "digests"
	}
	return fmt.Sprintf("the rule for %q in %s forbids the source and has no usable mirror for %s", t.prefix, t.origin,
		kind)
}

// find returns the table that applies to a reference, and how much of it the table's prefix covers:
// of all that match, the longest prefix (of equal ones, the first).
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

// matchPrefix returns how many bytes of the reference the prefix covers, or -1. A prefix ends where
// a host, a path element or a repository ends; "*.host" covers any subdomain.
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

// dockerHub is spelled docker.io in rules and pull secrets, and index.docker.io by the registry
// library.
const dockerHub = "docker.io"

// spell writes a reference the way rules are matched against.
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

// parseReference reads what a rule made of a reference. A rule from a repository to a bare host
// leaves no repository, and the library would look for the host's name on Docker Hub; that is
// refused.
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
		return nil, fmt.Errorf("%s names no repository", s)
	}
	return ref, nil
}

// combine joins the tables of registries.conf with those of mirror sets: for one prefix the mirrors
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

// mergeMirrors joins lists so that each keeps its own order where the others allow: a,b,c and c,d,e
// give a,b,c,d,e. Where they contradict each other, the one that was named first comes first.
func mergeMirrors(lists [][]mirror) []mirror {
	var order []mirror
	before := map[mirror][]mirror{} // what has to come first
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
		next := 0 // a contradiction: the first named
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
