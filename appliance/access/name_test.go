package access_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/fault"
)

func TestParseName(t *testing.T) {
	for name, test := range map[string]struct{ text, want, problem string }{
		"plain":                {"ana", "ana", ""},
		"upper case":           {"Ana.Maria@CORP", "ana.maria@corp", ""},
		"spaces around":        {" ana ", "ana", ""},
		"letters with accents": {"J\u006f\u0308rg", "jörg", ""},
		"full width":           {"ａｎａ", "ana", ""},
		"64 characters":        {strings.Repeat("ö", 64), strings.Repeat("ö", 64), ""},
		"empty":                {" ", "", "the name is empty; enter a name"},
		"65 characters":        {strings.Repeat("a", 65), "", "the name has 65 characters; shorten it to at most 64"},
		"a megabyte": {strings.Repeat("a", 1<<20), "",
			"the name has 1048576 bytes; shorten it to at most 64 characters"},
		"a sign first": {"-ana", "", "the name begins with '-'; begin it with a letter or a digit"},
		"a space": {"ana maria", "",
			"the name contains ' '; use only letters, digits and the characters . _ @ + -"},
		"a slash":      {"a/b", "", "the name contains '/'; use only letters, digits and the characters . _ @ + -"},
		"a line break": {"a\nb", "", `the name contains '\n'; use only letters, digits and the characters . _ @ + -`},
		"not UTF-8":    {"a\xff", "", "the name is not valid UTF-8; enter it with letters and digits"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := access.ParseName(test.text)
			require.Equal(t, test.want, got)
			if test.problem == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.problem)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		})
	}
}
