// Package pagetest compares generated pages in docs/ with the output of their generators.
package pagetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// columns is the width of prose in documents.
const columns = 100

// Compare requires docs/<name> to have the given content with wrapped prose. With update, it writes
// the page first (make docs).
func Compare(t testing.TB, name, page string, update bool) {
	t.Helper()
	path := filepath.Join("..", "..", "..", "docs", name)
	page = Wrap(page)
	if update {
		require.NoError(t, os.WriteFile(path, []byte(page), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err, "run make docs to write the page")
	Current(t, "docs/"+name, page, string(text))
}

// Current requires the text in a document to be the generated one. A failure shows the first line
// that differs, because a page is too long for a message.
func Current(t testing.TB, document, generated, written string) {
	t.Helper()
	if line, isNow, was := difference(generated, written); line > 0 {
		t.Fatalf("%s is out of date: run make docs. The first difference is in line %d of the generated text:\n"+
			"written:   %s\ngenerated: %s", document, line, was, isNow)
	}
}

// difference returns the number of the first line in which two texts differ, and this line of both.
// It returns 0 for equal texts.
func difference(a, b string) (line int, ofA, ofB string) {
	for more := a != b; more; {
		line++
		var moreA, moreB bool
		ofA, a, moreA = strings.Cut(a, "\n")
		ofB, b, moreB = strings.Cut(b, "\n")
		if ofA != ofB || moreA != moreB {
			return line, ofA, ofB
		}
		more = moreA
	}
	return 0, "", ""
}

var listMark = regexp.MustCompile(`^\s*(- |\d+\. )`)

// Wrap wraps the prose of a Markdown page. It does not change tables, headings and code.
func Wrap(page string) string {
	var out, paragraph []string
	fenced := false
	flush := func() {
		out = append(out, wrapParagraph(paragraph)...)
		paragraph = nil
	}
	for line := range strings.SplitSeq(page, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			flush()
			fenced = !fenced
			out = append(out, line)
		case fenced, trimmed == "", strings.HasPrefix(line, "|"), strings.HasPrefix(line, "#"),
			strings.HasPrefix(line, "    "), strings.HasPrefix(line, "<"):
			flush()
			out = append(out, line)
		case listMark.MatchString(line):
			flush()
			paragraph = []string{line}
		default:
			paragraph = append(paragraph, line)
		}
	}
	flush()
	return strings.Join(out, "\n")
}

func wrapParagraph(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	mark := listMark.FindString(lines[0])
	indent := strings.Repeat(" ", len(mark))
	words := strings.Fields(strings.TrimPrefix(strings.Join(lines, " "), mark))
	var wrapped []string
	line, prefix := "", mark
	for _, word := range words {
		if line != "" && len([]rune(prefix+line+" "+word)) > columns {
			wrapped = append(wrapped, prefix+line)
			line, prefix = "", indent
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(wrapped, prefix+line)
}
