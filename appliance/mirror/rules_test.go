package mirror

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/require"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

const siteConf = `
unqualified-search-registries = ["registry.access.redhat.com"]

[[registry]]
prefix = ""
location = "quay.io/openshift-release-dev"
mirror-by-digest-only = true
blocked = true

[[registry.mirror]]
location = "mirror.site.example:5000/openshift"
[[registry.mirror]]
location = "192.0.2.9:5000/openshift"
insecure = true

[[registry]]
location = "quay.io/openshift-release-dev/ocp-release"

[[registry.mirror]]
location = "mirror.site.example:5000/tags"
pull-from-mirror = "tag-only"
[[registry.mirror]]
location = "mirror.site.example:5000/digests"
pull-from-mirror = "digest-only"

[[registry]]
prefix = "*.redhat.io"
[[registry.mirror]]
location = "mirror.site.example:5000"

[[registry]]
prefix = "old.example.com/team"
location = "new.example.com/team"

[[registry]]
location = "docker.io/library"
[[registry.mirror]]
location = "mirror.site.example:5000/hub"
`

func conf(t *testing.T, text string) *Rules {
	t.Helper()
	r, err := Parse(Sources{RegistriesConf: []Document{{"registries.conf", []byte(text)}}})
	require.NoError(t, err)
	return r
}

func endpoints(t *testing.T, r *Rules, ref string) []string {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	require.NoError(t, err)
	var found []string
	for _, e := range r.Endpoints(parsed) {
		s := spell(e.Ref)
		if e.Insecure {
			s += " insecure"
		}
		found = append(found, s)
	}
	return found
}

func TestEndpoints(t *testing.T) {
	r := conf(t, siteConf)
	for name, tc := range map[string]struct {
		ref  string
		want []string
	}{
		"mirrors in order, a blocked source never": {"quay.io/openshift-release-dev/ocp-v4.0-art-dev@" + digest,
			[]string{
				"mirror.site.example:5000/openshift/ocp-v4.0-art-dev@" + digest,
				"192.0.2.9:5000/openshift/ocp-v4.0-art-dev@" + digest + " insecure"}},
		"digest mirrors are not for tags": {"quay.io/openshift-release-dev/ocp-v4.0-art-dev:4.20", nil},
		"only the longest prefix applies, a tag takes the tag mirror": {
			"quay.io/openshift-release-dev/ocp-release:4.20", []string{
				"mirror.site.example:5000/tags:4.20", "quay.io/openshift-release-dev/ocp-release:4.20"}},
		"a digest takes the digest mirror": {"quay.io/openshift-release-dev/ocp-release@" + digest, []string{
			"mirror.site.example:5000/digests@" + digest, "quay.io/openshift-release-dev/ocp-release@" + digest}},
		"a prefix ends at a separator": {"quay.io/openshift-release-developers/x:1",
			[]string{"quay.io/openshift-release-developers/x:1"}},
		"a wildcard matches the whole host": {"registry.redhat.io/ubi9/ubi:1", []string{
			"mirror.site.example:5000/ubi9/ubi:1", "registry.redhat.io/ubi9/ubi:1"}},
		"a wildcard is no match for its own domain": {"redhat.io/ubi:1", []string{"redhat.io/ubi:1"}},
		"a wildcard is no match for a longer name": {"a.redhat.io.example/ubi:1",
			[]string{"a.redhat.io.example/ubi:1"}},
		"a location other than the prefix moves the source": {"old.example.com/team/app:1", []string{
			"new.example.com/team/app:1"}},
		"short names are Docker Hub's": {"busybox:1", []string{
			"mirror.site.example:5000/hub/busybox:1", "docker.io/library/busybox:1"}},
		"no rule, no change": {"ghcr.io/a/b:1", []string{"ghcr.io/a/b:1"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, endpoints(t, r, tc.ref)) })
	}
}

func TestEndpoints_blockedMirror(t *testing.T) {
	r := conf(t, `
[[registry]]
location = "a.example"
[[registry.mirror]]
location = "b.example/a"
[[registry.mirror]]
location = "c.example/a"
[[registry]]
location = "b.example"
blocked = true`)
	require.Equal(t, []string{"c.example/a/x:1", "a.example/x:1"}, endpoints(t, r, "a.example/x:1"))
}

// A mirror may be at the source itself. Podman and CRI-O check each place that they try.
func TestEndpoints_mirrorAtBlockedSource(t *testing.T) {
	r := conf(t, `
[[registry]]
location = "a.example"
blocked = true
[[registry.mirror]]
location = "a.example"
[[registry.mirror]]
location = "c.example/a"`)
	require.Equal(t, []string{"c.example/a/x:1"}, endpoints(t, r, "a.example/x:1"))
}

func TestEndpoints_firstOfEqualPrefixes(t *testing.T) {
	wildcard := "[[registry]]\nprefix = \"*.a.example\"\nlocation = \"first.example\"\n"
	exact := "[[registry]]\nprefix = \"b.a.example\"\nlocation = \"second.example\"\n"
	require.Equal(t, []string{"first.example/x:1"}, endpoints(t, conf(t, wildcard+exact), "b.a.example/x:1"))
	require.Equal(t, []string{"second.example/x:1"}, endpoints(t, conf(t, exact+wildcard), "b.a.example/x:1"))
}

func TestEndpoints_nameTheirRule(t *testing.T) {
	ref, err := name.ParseReference("quay.io/openshift-release-dev/ocp-release:4.20")
	require.NoError(t, err)
	found := conf(t, siteConf).Endpoints(ref)
	require.Equal(t, `mirror 1 of 2 for "quay.io/openshift-release-dev/ocp-release" in registries.conf`, found[0].Rule)
	require.False(t, found[0].Source)
	require.Equal(t, `the source of "quay.io/openshift-release-dev/ocp-release" in registries.conf`, found[1].Rule)
	require.True(t, found[1].Source)
}

func TestEndpoints_withoutRules(t *testing.T) {
	for _, r := range []*Rules{nil, {}} {
		require.True(t, r.Empty())
		require.Equal(t, []string{"quay.io/a/b:1"}, endpoints(t, r, "quay.io/a/b:1"))
		require.Nil(t, r.RegistriesConf())
		require.Nil(t, r.CABundle())
		require.Nil(t, r.ImageDigestSources())
	}
}

func TestImageDigestSources_withoutTagMirrors(t *testing.T) {
	require.Equal(t, []ImageDigestSource{
		{Source: "quay.io/openshift-release-dev", Mirrors: []string{"mirror.site.example:5000/openshift",
			"192.0.2.9:5000/openshift"}, NeverContactSource: true},
		{Source: "quay.io/openshift-release-dev/ocp-release", Mirrors: []string{"mirror.site.example:5000/digests"}},
		{Source: "*.redhat.io", Mirrors: []string{"mirror.site.example:5000"}},
		{Source: "old.example.com/team", Mirrors: []string{"new.example.com/team"}, NeverContactSource: true},
		{Source: "docker.io/library", Mirrors: []string{"mirror.site.example:5000/hub"}},
	}, conf(t, siteConf).ImageDigestSources())
}

func TestHosts(t *testing.T) {
	require.Equal(t, []string{"192.0.2.9", "mirror.site.example"}, conf(t, siteConf).Hosts())
	require.Equal(t, []string{"2001:db8::1"},
		conf(t, "[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"[2001:db8::1]:5000\"\n").
			Hosts())
}

func TestMergeMirrors_keepsOrder(t *testing.T) {
	for _, tc := range []struct {
		lists []string
		want  string
	}{
		{[]string{"abc", "cde"}, "abcde"},
		{[]string{"bc", "ab"}, "abc"},
		{[]string{"ab", "ba"}, "ab"},
		{[]string{"aab", "b"}, "ab"},
		{[]string{"", "a"}, "a"},
		{[]string{"ad", "bd", "cd"}, "abcd"},
	} {
		var lists [][]mirror
		for _, l := range tc.lists {
			var list []mirror
			for _, c := range l {
				list = append(list, mirror{location: string(c)})
			}
			lists = append(lists, list)
		}
		got := ""
		for _, m := range mergeMirrors(lists) {
			got += m.location
		}
		require.Equal(t, tc.want, got, "%v", tc.lists)
	}
}

// The model removes element after element from the end of a reference, as the manual page describes
// it; the code compares prefixes instead.
func TestEndpoints_agreeWithANaiveModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	hosts := []string{"aa.example", "bb.aa.example", "cc.bb.aa.example", "xaa.example", "aa.example:5000", "dd.example"}
	for range 4000 {
		var tables []table
		for range rng.IntN(6) {
			prefix := pick(append(hosts, "*.aa.example", "*.example")...)
			if !strings.HasPrefix(prefix, "*") {
				prefix += pick("", "", "/p", "/p/q", "/pq")
			}
			if slices.ContainsFunc(tables, func(t table) bool { return t.prefix == prefix }) {
				continue
			}
			tb := table{prefix: prefix, location: prefix, blocked: rng.IntN(4) == 0, origin: "model"}
			if strings.HasPrefix(prefix, "*") {
				tb.location = pick("", fmt.Sprintf("moved%d.test", len(tables)))
			}
			for i := range rng.IntN(4) {
				tb.mirrors = append(tb.mirrors, mirror{location: fmt.Sprintf("m%d.test%s", i, pick("", "/ns")),
					use: use(pick(string(useAll), string(useDigestOnly), string(useTagOnly)))})
			}
			tables = append(tables, tb)
		}
		ref := pick(hosts...) + pick("/p", "/p/q", "/p/q/r", "/pq", "/z") + pick(":1", "@"+digest)
		require.Equal(t, model(tables, ref), endpoints(t, &Rules{tables: tables}, ref), "%s by %+v", ref, tables)

		text, err := writeRegistriesConf(confFile{}, tables)
		require.NoError(t, err)
		require.Equal(t, model(tables, ref), endpoints(t, conf(t, string(text)), ref), "written and read again:\n%s",
			text)
	}
}

func model(tables []table, ref string) []string {
	byPrefix := map[string]table{}
	for _, t := range tables {
		byPrefix[t.prefix] = t
	}
	path, tail := ref, "" // tail is the removed end
	cut := func(at int) { tail, path = path[at:]+tail, path[:at] }
	if i := strings.Index(path, "@"); i >= 0 {
		cut(i)
	} else {
		cut(strings.LastIndex(path, ":"))
	}
	digest := strings.Contains(tail, "@")
	for {
		if t, ok := byPrefix[path]; ok {
			return modelSources(t, ref, tail, digest)
		}
		slash := strings.LastIndex(path, "/")
		if slash < 0 {
			break
		}
		cut(slash)
	}
	if colon := strings.Index(path, ":"); colon >= 0 {
		cut(colon)
		if t, ok := byPrefix[path]; ok {
			return modelSources(t, ref, tail, digest)
		}
	}
	for host := path; strings.Contains(host, "."); {
		_, host, _ = strings.Cut(host, ".")
		if t, ok := byPrefix["*."+host]; ok {
			return modelSources(t, ref, tail, digest)
		}
	}
	return []string{ref}
}

func modelSources(t table, ref, tail string, digest bool) []string {
	var out []string
	for _, m := range t.mirrors {
		if m.use == useAll || (digest && m.use == useDigestOnly) || (!digest && m.use == useTagOnly) {
			out = append(out, m.location+tail)
		}
	}
	if !t.blocked && t.location == "" {
		out = append(out, ref)
	} else if !t.blocked {
		out = append(out, t.location+tail)
	}
	// Some rules lead to invalid references. A prefix without the port puts the port behind a
	// mirror's path. A repository that is mirrored to a bare host has no repository left.
	var valid []string
	for _, s := range out {
		if _, err := name.ParseReference(s); err == nil && strings.Contains(s, "/") {
			valid = append(valid, s)
		}
	}
	return valid
}
