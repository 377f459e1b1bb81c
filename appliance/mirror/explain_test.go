package mirror

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const someDigest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func rulesOf(t *testing.T, conf string, sets ...string) *Rules {
	t.Helper()
	s := Sources{}
	if conf != "" {
		s.RegistriesConf = []Document{{"registries.conf", []byte(conf)}}
	}
	for _, set := range sets {
		s.MirrorSets = append(s.MirrorSets, Document{"sets.yaml", []byte(set)})
	}
	rules, err := Parse(s)
	require.NoError(t, err)
	return rules
}

func digestSet(name, source, policy string, mirrors ...string) string {
	text := "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: " +
		name + "}\nspec:\n  imageDigestMirrors:\n  - source: " + source + "\n    mirrors: [" +
		strings.Join(mirrors, ", ") + "]\n"
	if policy != "" {
		text += "    mirrorSourcePolicy: " + policy + "\n"
	}
	return text
}

func TestExplain(t *testing.T) {
	rules := rulesOf(t, "", digestSet("release", releaseRepository, "", "a.example.com/ocp", "b.example.com/ocp"),
		digestSet("all", "quay.io", "NeverContactSource", "c.example.com"))

	got, err := rules.Explain(releaseRepository + someDigest)
	require.NoError(t, err)
	require.Equal(t, []Step{
		{Image: "a.example.com/ocp" + someDigest, Rule: `mirror 1 of 2 for "` + releaseRepository +
			`" in ImageDigestMirrorSet release`},
		{Image: "b.example.com/ocp" + someDigest, Rule: `mirror 2 of 2 for "` + releaseRepository +
			`" in ImageDigestMirrorSet release`},
		{Image: releaseRepository + someDigest, Source: true, Rule: `the source of "` + releaseRepository +
			`" in ImageDigestMirrorSet release`},
	}, got.Steps)
	require.Equal(t,
		[]string{"The rule for quay.io (ImageDigestMirrorSet all) also matches but is not used, because only " +
			"the longest prefix counts."}, got.Notes)

	got, err = rules.Explain("quay.io/other/image:latest")
	require.NoError(t, err)
	require.Empty(t, got.Steps)
	require.Equal(t, "quay.io", got.Rule.Prefix)
	require.Contains(t, got.Notes[0], "are for digests only, but the image is referenced by tag")
	require.Contains(t, got.Notes[1], "No registry is contacted")

	got, err = rules.Explain("docker.io/library/busybox" + someDigest)
	require.NoError(t, err)
	require.Nil(t, got.Rule)
	require.Contains(t, got.Notes[0], "No rule leads to a mirror")

	_, err = rules.Explain("no pull spec")
	require.ErrorContains(t, err, `"no pull spec" is not a pull spec`)
}

// One certificate repairs all rules that use a mirror.
func TestRules_oneHoleForInsecureMirror(t *testing.T) {
	var text strings.Builder
	for _, team := range []string{"a", "b", "c"} {
		for _, host := range []string{"one.example.com", "two.example.com:5000"} {
			if host == "one.example.com" || team == "b" {
				fmt.Fprintf(&text, "[[registry]]\nlocation = \"quay.io/%s-%s\"\nblocked = true\n[[registry.mirror]]\n"+
					"location = \"%s/%s\"\ninsecure = true\n", team, host[:3], host, team)
			}
		}
	}
	var found []string
	for _, hole := range rulesOf(t, text.String()).Holes() {
		if hole.Kind == HoleInsecureNode {
			beginning, _, _ := strings.Cut(hole.Text, ". ")
			found = append(found, beginning)
		}
	}
	require.Equal(t, []string{
		"The mirror one.example.com is used without TLS or with an untrusted certificate (3 rules)",
		"The mirror two.example.com:5000 is used without TLS or with an untrusted certificate (1 rule)"}, found)
}

func TestHoles(t *testing.T) {
	both := digestSet("r", releaseRepository, "NeverContactSource", "m.example.com/ocp") + "---\n" +
		digestSet("c", componentRepository, "NeverContactSource", "m.example.com/art")
	for _, hole := range []struct {
		name  string
		rules *Rules
		want  map[HoleKind]string
	}{
		{"none", rulesOf(t, "", both), map[HoleKind]string{}},
		{"no rule for the components", rulesOf(t, "", digestSet("r", releaseRepository, "NeverContactSource",
			"m.example.com/ocp")),
			map[HoleKind]string{HoleHalfRelease: "none for " + componentRepository}},
		{"no rule for the release image", rulesOf(t, "", digestSet("c", componentRepository, "NeverContactSource",
			"m.example.com/ocp")),
			map[HoleKind]string{HoleHalfRelease: "none for " + releaseRepository}},
		{"a rule within another", rulesOf(t, "", both, digestSet("q", "quay.io/openshift-release-dev",
			"NeverContactSource", "n.example.com/all")),
			map[HoleKind]string{HoleOverlap: "lies within the rule for quay.io/openshift-release-dev"}},
		{"wildcards within each other", rulesOf(t, "", digestSet("a", "'*.b.example.com'", "NeverContactSource",
			"m.example.net"), digestSet("b", "'*.example.com'", "NeverContactSource", "n.example.org")),
			map[HoleKind]string{HoleOverlap: "*.b.example.com"}},
		{"equal prefixes",
			rulesOf(t, "[[registry]]\nlocation = \"quay.io/team\"\nblocked = true\n[[registry.mirror]]\nlocation = "+
				"\"a.example.com/team\"\n", digestSet("t", "quay.io/team", "", "b.example.com/team")),
			map[HoleKind]string{HoleEqualPrefix: "tried one after the other, in this order: a.example.com/team, " +
				"b.example.com/team"}},
		{"equal prefixes with the same mirror",
			rulesOf(t, "[[registry]]\nlocation = \"quay.io/team\"\n[[registry.mirror]]\nlocation = "+
				"\"b.example.com/team\"\npull-from-mirror = \"digest-only\"\n",
				digestSet("t", "quay.io/team", "", "b.example.com/team")),
			map[HoleKind]string{HoleEqualPrefix: "All of them name the same mirror: b.example.com/team."}},
		{"a mirror for digests and one for tags",
			rulesOf(t, "", digestSet("d", "quay.io/team", "", "m.example.com/team"),
				"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: "+
					"t}\nspec:\n  imageTagMirrors:\n  - source: quay.io/team\n    mirrors: [m.example.com/team]\n"),
			map[HoleKind]string{}},
		{"a mirror that is forbidden", rulesOf(t, "", digestSet("t", "quay.io/team", "NeverContactSource",
			"b.example.com/team"), digestSet("b", "b.example.com", "NeverContactSource")),
			map[HoleKind]string{HoleBlocked: "never contacted: the rule for b.example.com",
				HoleNoMirror: "No image under b.example.com can be pulled"}},
		{"tags only",
			rulesOf(t, "", "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: "+
				"t}\nspec:\n  imageTagMirrors:\n  - source: quay.io/team\n    mirrors: [m.example.com/team]\n"),
			map[HoleKind]string{HoleTagsOnly: "Add an ImageDigestMirrorSet"}},
		{"a source that is contacted", rulesOf(t, "", strings.ReplaceAll(both, "NeverContactSource",
			"AllowContactingSource")),
			map[HoleKind]string{HoleOpenSource: "looks like a hang"}},
		{"a mirror without TLS",
			rulesOf(t, "[[registry]]\nlocation = \"quay.io/team\"\n[[registry.mirror]]\nlocation = "+
				"\"a.example.com/team\"\ninsecure = true\n"),
			map[HoleKind]string{HoleInsecureNode: "install a trusted certificate"}},
	} {
		t.Run(hole.name, func(t *testing.T) {
			got := map[HoleKind]string{}
			for _, h := range hole.rules.Holes() {
				got[h.Kind] = h.Text
			}
			require.Len(t, got, len(hole.want), "%v", got)
			for kind, text := range hole.want {
				require.Contains(t, got[kind], text)
			}
		})
	}
	replaced, err := Parse(Sources{RegistriesConf: []Document{
		{"a.conf", []byte("[[registry]]\nlocation = \"quay.io\"\n")},
		{"b.conf",
			[]byte("[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"m.example.com\"\n")},
	}})
	require.NoError(t, err)
	require.Equal(t, "Both a.conf and b.conf have a table for quay.io. Only the table in b.conf applies.",
		replaced.Holes()[0].Text)
}
