package output

import (
	"fmt"
	"io"
	"strings"

	"landfall/appliance/sentence"
)

// Wrap splits a text at spaces into lines of at most width characters. A longer word, such as a
// URL, is a line of its own.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && length(line)+1+length(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// Printf writes a text to people as fmt.Fprintf does. Texts and errors among the arguments can come
// from other machines: their control characters are shown (see [sentence.Printable]), and their
// further lines are indented, so that they can't look like lines of this program.
func Printf(out io.Writer, format string, arguments ...any) {
	shown := make([]any, len(arguments))
	for i, argument := range arguments {
		switch value := argument.(type) {
		case error:
			argument = foreign(value.Error())
		case string:
			argument = foreign(value)
		}
		shown[i] = argument
	}
	fmt.Fprintf(out, format, shown...)
}

func foreign(text string) string {
	return strings.ReplaceAll(sentence.Printable(text), "\n", "\n    ")
}
