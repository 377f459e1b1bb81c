package access

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"landfall/appliance/fault"
)

// longestName is the maximum length of a name, in characters.
const longestName = 64

// longestText is the maximum length of a name before it is converted, in bytes.
const longestText = 1024

// ParseName returns the stored form of the name of an account or a token: in lower case, and in the
// Unicode form NFKC, so that one name has one spelling. Its errors are sentences for the user.
func ParseName(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", fault.New(fault.Invalid, "the name is not valid UTF-8; enter it with letters and digits")
	}
	if len(text) > longestText {
		return "", fault.New(fault.Invalid, "the name has %d bytes; shorten it to at most %d characters", len(text),
			longestName)
	}
	name := norm.NFKC.String(strings.ToLower(norm.NFKC.String(strings.TrimSpace(text))))
	switch {
	case name == "":
		return "", fault.New(fault.Invalid, "the name is empty; enter a name")
	case utf8.RuneCountInString(name) > longestName:
		return "", fault.New(fault.Invalid, "the name has %d characters; shorten it to at most %d",
			utf8.RuneCountInString(name), longestName)
	}
	for i, char := range name {
		switch {
		case unicode.IsLetter(char) || unicode.IsDigit(char):
		case i == 0:
			return "", fault.New(fault.Invalid, "the name begins with %q; begin it with a letter or a digit", char)
		case !unicode.IsMark(char) && !strings.ContainsRune("._@+-", char):
			return "", fault.New(fault.Invalid,
				"the name contains %q; use only letters, digits and the characters . _ @ + -", char)
		}
	}
	return name, nil
}
