// Package sentence makes sentences for users out of error texts, for the page, the command line and
// events.
package sentence

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// New returns the error's text as one sentence: on one line, with a capital letter and a full stop.
// The sentence of nil is empty.
func New(err error) string { return Capitalize(Ending(err)) }

// Ending returns the error's text as the end of a sentence: on one line, with a full stop. The
// ending of nil is empty.
func Ending(err error) string {
	if err == nil {
		return ""
	}
	return Close(Line(err.Error()))
}

// Close adds a full stop to a text that has none at its end. An empty text stays empty.
func Close(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// Clause returns the text as a part of a sentence: on one line, without its full stop.
func Clause(text string) string {
	return strings.TrimRight(strings.Join(strings.Fields(text), " "), ". ")
}

// Line joins the lines of a text with semicolons. Joined errors have several lines.
func Line(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// Capitalize returns the text with an upper-case first letter. It does not change names of files,
// hosts and programs at the beginning of a text, such as rules.yaml, host-1 and /etc/hosts.
func Capitalize(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	word, _, _ := strings.Cut(text, " ")
	if first == utf8.RuneError || strings.ContainsFunc(strings.TrimRight(word, ",.;:!?"), inName) {
		return text
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

// inName reports whether a character appears in names of files, hosts and programs, but not in
// words.
func inName(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '’' }

// Count returns a number with its noun, which is regular: 1 host, 2 hosts.
func Count(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", count, noun)
}

// Size returns a number of bytes in its largest unit, as the page does: 1.2 GiB, 512 bytes.
func Size(bytes int64) string {
	const step = 1 << 10
	if bytes < step {
		return fmt.Sprintf("%d bytes", bytes)
	}
	value, unit := float64(bytes)/step, 0
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	for value >= step && unit < len(units)-1 {
		value, unit = value/step, unit+1
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// Shorten cuts a text to at most limit bytes at a character boundary, and marks the cut with an
// ellipsis.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// Printable returns a text with each control character as a Go escape, except for line breaks and
// tabs. A terminal obeys control characters, and texts of hosts, BMCs and registries can contain
// them. Characters that change the direction of a text are written in the same way.
func Printable(text string) string {
	return Escape(text, func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
	})
}

// Escape returns a text with each character for which escaped reports true as a Go escape.
func Escape(text string, escaped func(rune) bool) string {
	if strings.IndexFunc(text, escaped) < 0 {
		return text
	}
	var shown strings.Builder
	for _, r := range text {
		if escaped(r) {
			shown.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			shown.WriteRune(r)
		}
	}
	return shown.String()
}
