package courier

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/sitekey"
)

func TestList_components(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("ab", 32)
	list := &List{Rules: []Rule{{"quay.io/team", "mirror.example.com/all"},
		{"quay.io/team/app", "mirror.example.com/app"}, {"quay.io/team/app" + digest, "mirror.example.com/one"}}}
	for source, want := range map[string]string{
		"quay.io/team/app" + digest:       "mirror.example.com/app:4.20.8-x86_64-a", // the whole source is a rule too
		"quay.io/team/other" + digest:     "mirror.example.com/all/other:4.20.8-x86_64-a",
		"quay.io/team/app/below" + digest: "mirror.example.com/app/below:4.20.8-x86_64-a",
	} {
		items, err := list.components("4.20.8", "x86_64", map[string]string{"a": source})
		require.NoError(t, err, source)
		require.Equal(t, want, items[0].Destination)
	}
	for _, source := range []string{"quay.io/team", "quay.io/team2/app" + digest, "", "@", "/"} {
		_, err := list.components("4.20.8", "x86_64", map[string]string{"a": source})
		require.ErrorContains(t, err, "has no rule for "+source+" (a)")
	}
}

// FuzzList holds that no signed list and no release makes the courier panic.
func FuzzList(f *testing.F) {
	key, err := sitekey.LoadOrCreate(f.TempDir())
	require.NoError(f, err)
	f.Add("# rule: quay.io/team=mirror.example.com/all\n# whole: true\n", "quay.io/team")
	f.Add("# rule: quay.io/team\n", "quay.io/team/app@sha256:"+strings.Repeat("ab", 32))
	f.Add("# rule: =\nquay.io/team=\n", "@")
	f.Fuzz(func(t *testing.T, lines, source string) {
		text, err := sign([]byte(title+"\n"+lines), key)
		require.NoError(t, err)
		list, _, err := Parse(text)
		if err != nil {
			return
		}
		items, err := list.components("4.20.8", "x86_64", map[string]string{"a": source})
		require.True(t, err != nil || len(items) == 1)
	})
}

func TestList_rejectsRulesWithoutMirror(t *testing.T) {
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	for _, rule := range []Rule{{"quay.io/team", ""}, {"", "mirror.example.com"}} {
		list := &List{Created: time.Now(), Release: "quay.io/a:1", Rules: []Rule{rule}}
		text, err := list.Text(key)
		require.NoError(t, err)
		_, _, err = Parse(text)
		require.ErrorContains(t, err, "is not a rule from a source to a mirror")
	}
}
