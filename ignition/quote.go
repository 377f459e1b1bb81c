package ignition

import (
	"fmt"
	"strings"
)

// systemd reads a unit's words with shell-like quotes, expands %-specifiers everywhere and
// $-variables in commands (systemd.service(5) "COMMAND LINES", systemd.unit(5) "SPECIFIERS"). The
// functions here write words that survive all of it; unquote in discovered.go reads them back.

// unitCommand writes a command line for ExecStart and its like.
func unitCommand(args ...string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = strings.ReplaceAll(unitWord(a), "$", "$$")
	}
	return strings.Join(words, " ")
}

// unitAssignment writes NAME=value for Environment=, where $ has no meaning.
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

// shellQuote writes one word for a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
