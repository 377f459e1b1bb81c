package pagetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDifference_firstLine(t *testing.T) {
	for name, tt := range map[string]struct {
		a, b     string
		line     int
		ofA, ofB string
	}{
		"equal":              {"1\n2\n", "1\n2\n", 0, "", ""},
		"changed line":       {"1\n2\n3", "1\nx\n3", 2, "2", "x"},
		"one text is longer": {"1\n2\n", "1\n", 2, "2", ""},
		"no line end":        {"1\n", "1", 1, "1", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			line, ofA, ofB := difference(tt.a, tt.b)
			require.Equal(t, tt.line, line)
			require.Equal(t, []string{tt.ofA, tt.ofB}, []string{ofA, ofB})
		})
	}
}
