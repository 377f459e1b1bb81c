package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the catalogue of sentences")

// sentencesFile is the catalogue of the program, a template (POT) of GNU gettext: the file format
// that programs for translators read. web/ui/test/sentences.test.ts has the catalogue of the page.
const sentencesFile = "docs/sentences/program.pot"

// TestSentences_catalogueIsCurrent compares the catalogue with the code. With -update, it writes
// the catalogue.
func TestSentences_catalogueIsCurrent(t *testing.T) {
	got := template(sentences(t))
	if *update {
		require.NoError(t, os.WriteFile(sentencesFile, []byte(got), 0o644))
	}
	want, err := os.ReadFile(sentencesFile)
	require.NoError(t, err)
	require.True(t, got == string(want), "%s is not current; run make docs", sentencesFile)
}

// unclear lists words and forms that no sentence may contain, with the usual form.
var unclear = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\w\(s\)`), "the singular or the plural, by the number"},
	{regexp.MustCompile(`(?i)\b(please|kindly|simply|whilst|thereof|hereby)\b`), "the sentence without this word"},
	{regexp.MustCompile(`\b(e\.g\.|i\.e\.|etc\.)`), "for example, that is, and so on"},
	{regexp.MustCompile(`(?i)\b(utilize|in order to|prior to|due to the fact)\b`), "use, to, before, because"},
	{regexp.MustCompile(`\b(1|one|single) [a-z]+ (are|were|have)\b`), "the singular"},
}

// upstreamSentences matches files with sentences of the Assisted Installer and of openshift-install
// that contain such words. Clients compare these sentences, so they stay as they are.
var upstreamSentences = regexp.MustCompile(`^appliance/(kube/clusters|simulate/installer)/`)

func TestSentences_useUsualWords(t *testing.T) {
	for _, s := range sentences(t) {
		if slices.ContainsFunc(s.files, upstreamSentences.MatchString) {
			continue
		}
		for _, form := range unclear {
			if found := form.pattern.FindString(s.text); found != "" {
				t.Errorf("%s: %q contains %q; write %s", s.files[0], s.text, found, form.instead)
			}
		}
	}
}

func TestSentences_joinsConstants(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a
		import "landfall/appliance/some thing"
		type row struct { Name string `+"`json:\"some name\"`"+` }
		const long = "the disk " + "is full"
		func f(n int, name string) error {
			if n == 0 { panic("no such number") }
			return fmt.Errorf("read the disk " + name + ": %w", errors.New("single"))
		}`, 0)
	require.NoError(t, err)
	var found []string
	inspectSentences(file, func(text string) { found = append(found, text) })
	require.Equal(t, []string{"the disk is full", "read the disk "}, found)
}

// listed is a sentence and the files that contain it.
type listed struct {
	text  string
	files []string
}

// sentences returns each sentence of the program, in the order of the files and of their lines.
func sentences(t *testing.T) (all []*listed) {
	t.Helper()
	list, err := exec.Command("git", "ls-files", "*.go").Output()
	require.NoError(t, err)
	found := map[string]*listed{}
	for name := range strings.Lines(string(list)) {
		name = strings.TrimSpace(name)
		if !inProgram(name) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		inspectSentences(file, func(text string) {
			s, ok := found[text]
			if !ok {
				s = &listed{text: text}
				found[text] = s
				all = append(all, s)
			}
			if !slices.Contains(s.files, name) {
				s.files = append(s.files, name)
			}
		})
	}
	require.Greater(t, len(all), 1_000)
	return all
}

// inProgram reports whether a file is part of the program.
func inProgram(name string) bool {
	if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "packaging/") ||
		strings.HasPrefix(name, "web/clients/") {
		return false
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if base := path.Base(dir); strings.HasSuffix(base, "test") || base == "testdata" || base == "generate" {
			return false
		}
	}
	return true
}

// prose matches text with two words, and binary matches data. Identifiers, paths and formats of one
// word are not listed.
var (
	prose  = regexp.MustCompile(`[A-Za-z]{2,}[,:;]? [a-zA-Z%]`)
	binary = regexp.MustCompile("[^\n\t\r\x20-\x7e\u0080-\uffff]")
)

// inspectSentences calls report with each string constant that has two words, in the order of the
// file. It joins constants that the code adds up. Tags of fields, paths of imports and the texts of
// panics are no sentences for users.
func inspectSentences(file *ast.File, report func(text string)) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return node.Tag == nil
		case *ast.CallExpr:
			name, ok := node.Fun.(*ast.Ident)
			return !ok || name.Name != "panic"
		case ast.Expr:
			if text, ok := constant(node); ok {
				if prose.MatchString(text) && !binary.MatchString(text) {
					report(text)
				}
				return false
			}
		}
		return true
	})
}

// constant returns the value of a string, or of strings that are added up.
func constant(node ast.Expr) (string, bool) {
	switch node := node.(type) {
	case *ast.BasicLit:
		if node.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(node.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, isLeft := constant(node.X)
		right, isRight := constant(node.Y)
		return left + right, isLeft && isRight && node.Op == token.ADD
	}
	return "", false
}

// template returns the catalogue as a file of GNU gettext.
func template(all []*listed) string {
	var b strings.Builder
	b.WriteString("# The sentences of the program. The file is generated: make docs.\n" +
		"msgid \"\"\nmsgstr \"\"\n\"Content-Type: text/plain; charset=UTF-8\\n\"\n\"Language: en\\n\"\n")
	for _, s := range all {
		b.WriteString("\n")
		for _, file := range s.files {
			fmt.Fprintf(&b, "#: %s\n", file)
		}
		if strings.Contains(s.text, "%") {
			b.WriteString("#, go-format\n")
		}
		fmt.Fprintf(&b, "msgid %s\nmsgstr \"\"\n", message(s.text))
	}
	return b.String()
}

// escapes has the characters that a string of gettext writes otherwise.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`)

// message returns a text as gettext writes it: one string for each line.
func message(text string) string {
	lines := slices.Collect(strings.Lines(text))
	if len(lines) == 1 {
		return `"` + escapes.Replace(text) + `"`
	}
	var b strings.Builder
	b.WriteString(`""`)
	for _, line := range lines {
		b.WriteString("\n\"" + escapes.Replace(line) + `"`)
	}
	return b.String()
}
