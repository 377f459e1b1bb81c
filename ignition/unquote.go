package ignition

import (
	"fmt"
	"strconv"
	"strings"
)

// unquote splits a value in a unit file into words, as systemd does. It supports quotes around
// whole words, C escapes, %% for a percent sign and, in commands, $$ for a dollar sign and the
// prefixes of the program (systemd.service(5)). Other specifiers and variables are errors, because
// only the running machine can expand them.
func unquote(value string, command bool) ([]string, error) {
	var words []string
	for rest := strings.TrimLeft(value, " \t\n"); rest != ""; rest = strings.TrimLeft(rest, " \t\n") {
		word, after, err := unquoteWord(rest, command)
		if err != nil {
			return nil, err
		}
		words, rest = append(words, word), after
	}
	if command && len(words) > 0 {
		words[0] = strings.TrimLeft(words[0], "-@:+!")
	}
	return words, nil
}

func unquoteWord(s string, command bool) (word, rest string, err error) {
	var b strings.Builder
	quote := byte(0)
	i := 0
	if s[0] == '"' || s[0] == '\'' {
		quote, i = s[0], 1
	}
	for i < len(s) {
		c := s[i]
		switch {
		case quote != 0 && c == quote:
			if i+1 < len(s) && !strings.ContainsRune(" \t\n", rune(s[i+1])) {
				return "", "", fmt.Errorf("a closing quote is followed by %q", s[i+1])
			}
			return b.String(), s[i+1:], nil
		case quote == 0 && strings.ContainsRune(" \t\n", rune(c)):
			return b.String(), s[i:], nil
		case c == '\\':
			decoded, n, err := unescape(s[i:])
			if err != nil {
				return "", "", err
			}
			b.WriteByte(decoded)
			i += n
		case c == '%' || (c == '$' && command):
			if i+1 >= len(s) || s[i+1] != c {
				return "", "", fmt.Errorf("the specifier or variable %q can be expanded only on the running machine", c)
			}
			b.WriteByte(c)
			i += 2
		default:
			b.WriteByte(c)
			i++
		}
	}
	if quote != 0 {
		return "", "", fmt.Errorf("the quote %q is not closed", quote)
	}
	return b.String(), "", nil
}

// unescape decodes the C escape at the start of s and returns its length.
func unescape(s string) (byte, int, error) {
	if len(s) < 2 {
		return 0, 0, fmt.Errorf("a backslash ends the line")
	}
	if i := strings.IndexByte(`abfnrtvs\"'`, s[1]); i >= 0 {
		return "\a\b\f\n\r\t\v \\\"'"[i], 2, nil
	}
	if s[1] == 'x' && len(s) >= 4 {
		if v, err := strconv.ParseUint(s[2:4], 16, 8); err == nil {
			return byte(v), 4, nil
		}
	}
	return 0, 0, fmt.Errorf("the escape %q is unknown", s[:2])
}
