package engine

import (
	"slices"
	"strings"
)

// commaList returns the distinct items of comma-separated lists.
func commaList(lists ...string) []string {
	var kept []string
	for _, list := range lists {
		for part := range strings.SplitSeq(list, ",") {
			if part = strings.TrimSpace(part); part != "" && !slices.Contains(kept, part) {
				kept = append(kept, part)
			}
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
