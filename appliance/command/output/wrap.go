package output

import "strings"

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
