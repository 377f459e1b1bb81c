package engine

import (
	"slices"
	"strings"
)

// commaList returns the distinct items of a comma-separated list.
func commaList(list string) []string {
	var kept []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(kept, part) {
			kept = append(kept, part)
		}
	}
	return kept
}

// orText returns the text, or otherwise if it is empty.
func orText(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
