package ignition

import (
	"fmt"
	"strings"
)

// systemd splits values in units into words with shell-like quotes, expands %-specifiers
// everywhere, and expands $-variables in commands (systemd.service(5) "COMMAND LINES",
// systemd.unit(5) "SPECIFIERS"). These functions quote words so that systemd reads them unchanged.
// The function unquote is the inverse.

// unitCommand returns a command line for ExecStart and similar settings.
func unitCommand(args ...string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = strings.ReplaceAll(unitWord(a), "$", "$$")
	}
	return strings.Join(words, " ")
}

// unitAssignment returns NAME=value for Environment=, where $ has no special meaning.
func unitAssignment(assignment string) string { return unitWord(assignment) }

func unitWord(s string) string {
	s = strings.ReplaceAll(s, "%", "%%")
	plain := s != "" && !strings.HasPrefix(s, ";") && strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`"'\`, r)
	}) < 0
	if plain {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range []byte(s) {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteByte(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// shellQuote quotes a word for a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
