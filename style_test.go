package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The widest lines. A tab counts as four columns.
const (
	codeColumns    = 120
	commentColumns = 100
	tabColumns     = 4
)

// generated matches files that are generated, or whose lines are the content of generated
// manifests.
var generated = regexp.MustCompile(`(^|/)(testdata|node_modules)/|package-lock\.json$|go\.(mod|sum)$|^LICENSE$|` +
	`^web/kube/crds/|^appliance/engine/operator/manifests/`)

// TestColumns holds that no line is wider than its limit: 120 columns for code, 100 for comments
// and documents. Lines that cannot be broken are exempt: data in raw strings, the rows of a table,
// the lines of a code block in a document, and lines with a long word, such as a URL.
func TestColumns(t *testing.T) {
	list, err := exec.Command("git", "ls-files").Output()
	require.NoError(t, err)
	for path := range strings.Lines(string(list)) {
		path = strings.TrimSpace(path)
		if generated.MatchString(path) {
			continue
		}
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // deleted in the work tree
		}
		require.NoError(t, err)
		check, ok := columnChecks[filepath.Ext(path)]
		if filepath.Base(path) == "Makefile" || strings.HasPrefix(path, ".ci/") {
			check, ok = hashColumns, true
		}
		if !ok {
			continue
		}
		for _, line := range check(path, text) {
			t.Errorf("%s:%d: %d columns are more than %d: %.80s…", path, line.number, line.columns, line.limit,
				strings.TrimSpace(line.text))
		}
	}
}

type wideLine struct {
	number, columns, limit int
	text                   string
}

var columnChecks = map[string]func(path string, text []byte) []wideLine{
	".go":   goColumns,
	".ts":   slashColumns,
	".tsx":  slashColumns,
	".mjs":  slashColumns,
	".css":  slashColumns,
	".md":   documentColumns,
	".yaml": hashColumns,
	".sh":   hashColumns,
}

func columns(line string) int {
	return len([]rune(line)) + (tabColumns-1)*strings.Count(line, "\t")
}

// unbreakable is the length above which a word makes its line exempt.
const unbreakable = 60

func longestWord(line string) int {
	longest := 0
	for word := range strings.FieldsSeq(line) {
		longest = max(longest, len([]rune(word)))
	}
	return longest
}

// wideLines returns the lines above their limit; a limit of 0 exempts a line.
func wideLines(text []byte, limit func(number int, line string) int) []wideLine {
	var wide []wideLine
	number := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		number++
		width, most := columns(line), limit(number, line)
		if most > 0 && width > most && longestWord(line) <= unbreakable {
			wide = append(wide, wideLine{number, width, most, line})
		}
	}
	return wide
}

func commented(line string, marks ...string) bool {
	line = strings.TrimSpace(line)
	for _, mark := range marks {
		if strings.HasPrefix(line, mark) {
			return true
		}
	}
	return false
}

func goColumns(path string, text []byte) []wideLine {
	raw := map[int]bool{} // lines that a raw string or a struct tag takes part in
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.STRING && literal[0] == '`' {
			first := file.Line(pos)
			for i := range strings.Count(literal, "\n") + 1 {
				raw[first+i] = true
			}
		}
	}
	tag := regexp.MustCompile("^\\s*\\w+\\s+\\S+\\s+`[^`]*`$")
	return wideLines(text, func(number int, line string) int {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "// +kubebuilder:"), raw[number], tag.MatchString(line):
			return 0
		case commented(line, "//"):
			return commentColumns
		}
		return codeColumns
	})
}

func slashColumns(_ string, text []byte) []wideLine {
	return wideLines(text, func(_ int, line string) int {
		if commented(line, "//", "/*", "* ") {
			return commentColumns
		}
		return codeColumns
	})
}

func hashColumns(_ string, text []byte) []wideLine {
	return wideLines(text, func(_ int, line string) int {
		if commented(line, "#") {
			return commentColumns
		}
		return codeColumns
	})
}

func documentColumns(_ string, text []byte) []wideLine {
	block := false
	return wideLines(text, func(_ int, line string) int {
		if bytes.HasPrefix([]byte(strings.TrimSpace(line)), []byte("```")) {
			block = !block
			return 0
		}
		if block || strings.HasPrefix(line, "    ") || strings.HasPrefix(strings.TrimSpace(line), "|") {
			return 0
		}
		return commentColumns
	})
}

// TestPanics_showNoErrors searches for calls of panic with an error. A crash prints the value, and
// the text of an error may contain a secret of a request or of the store.
func TestPanics_showNoErrors(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "*.go").Output()
	require.NoError(t, err)
	calls := 0
	for path := range strings.Lines(string(list)) {
		path = strings.TrimSpace(path)
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "amstest/") ||
			strings.HasPrefix(path, "appliance/simulate/") || strings.Contains(path, "kubetest/") {
			continue // tests, and simulators of other machines
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if name, ok := call.Fun.(*ast.Ident); !ok || name.Name != "panic" {
				return true
			}
			calls++
			ast.Inspect(call.Args[0], func(part ast.Node) bool {
				if name, ok := part.(*ast.Ident); ok && (name.Name == "err" || name.Name == "Error") {
					t.Errorf("%s: panic shows the text of an error", files.Position(call.Pos()))
				}
				return true
			})
			return true
		})
	}
	require.Positive(t, calls)
}

// localTime matches code that shows a time in the zone of the machine, or without its zone.
var localTime = regexp.MustCompile(`\.Local\(\)|time\.DateTime|2006-01-02 15:04(:05(\.0+)?)?["Z]`)

// TestTimes_ofCommandsNameTheirZone searches the commands for times without their zone. A person
// compares the times of several commands with each other and with logs.
func TestTimes_ofCommandsNameTheirZone(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "appliance/command/*.go").Output()
	require.NoError(t, err)
	files := 0
	for path := range strings.Lines(string(list)) {
		path = strings.TrimSpace(path)
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) || strings.HasSuffix(path, "_test.go") {
			continue
		}
		require.NoError(t, err)
		files++
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if localTime.MatchString(line) {
				t.Errorf("%s:%d: use output.Time, which shows the zone: %s", path, number, strings.TrimSpace(line))
			}
		}
	}
	require.Positive(t, files)
}
