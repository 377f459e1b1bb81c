package main

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testCommand is a call of "go test" in the Makefile, a script or a document.
type testCommand struct {
	text     string
	tags     []string
	packages []string
	patterns map[string]string // flag ("run", "skip", "bench", "fuzz") -> regular expression
}

var (
	goTest      = regexp.MustCompile("(?:^|[\\s(;`])go test((?:[ \\t]+(?:'[^']*'|[^\\s;&|)#`'])+)+)")
	commandWord = regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)
	lineBreak   = regexp.MustCompile(`\\\n\s*`)
	commandFlag = regexp.MustCompile(`^--?(?:test\.)?(run|skip|bench|fuzz|tags)(?:=(.*))?$`)
	testPackage = regexp.MustCompile(`^\.(?:$|/)`)
	variable    = regexp.MustCompile(`(?m)^([A-Z_]+) := (.*)$`)
	patternName = regexp.MustCompile(`\w+`)
)

// parseTestCommands returns the calls of "go test" in a text that name a package. A document's call
// with the placeholder NAME is an example and is omitted.
func parseTestCommands(text string) []testCommand {
	text = lineBreak.ReplaceAllString(text, " ")
	definitions := variable.FindAllStringSubmatch(text, -1)
	slices.Reverse(definitions) // a variable's value has only variables that are defined before it
	for _, definition := range definitions {
		text = strings.ReplaceAll(text, "$("+definition[1]+")", definition[2])
	}
	text = strings.NewReplacer("$(TAGS)", "grpcnotrace", "$$", "$").Replace(text)
	var commands []testCommand
	for _, match := range goTest.FindAllStringSubmatch(text, -1) {
		command := testCommand{text: strings.TrimSpace(match[0]), tags: []string{"grpcnotrace"},
			patterns: map[string]string{}}
		words := commandWord.FindAllString(match[1], -1)
		for i := 0; i < len(words); i++ {
			word := strings.Trim(words[i], "'\"`")
			flag := commandFlag.FindStringSubmatch(word)
			switch {
			case flag != nil:
				value := flag[2]
				if !strings.Contains(word, "=") && i+1 < len(words) {
					i++
					value = words[i]
				}
				value = strings.Trim(value, "'\"`")
				if flag[1] == "tags" {
					command.tags = strings.Split(value, ",")
				} else {
					command.patterns[flag[1]] = value
				}
			case testPackage.MatchString(word) && strings.HasSuffix(word, ".go"):
				command.packages = append(command.packages, filepath.Dir(word))
			case testPackage.MatchString(word):
				command.packages = append(command.packages, word)
			}
		}
		if len(command.packages) > 0 && !slices.Contains([]string{command.patterns["run"], command.patterns["fuzz"]},
			"NAME") {
			commands = append(commands, command)
		}
	}
	return commands
}

// testFunctions returns the names of the tests, benchmarks and fuzz targets of a package and, if
// the path ends in /..., of all packages below it, with the given build tags.
func testFunctions(t *testing.T, pkg string, tags []string) []string {
	t.Helper()
	builder := build.Default
	builder.BuildTags = tags
	dir, recursive := strings.CutSuffix(pkg, "/...")
	var names []string
	visit := func(file string) {
		matched, err := builder.MatchFile(filepath.Dir(file), filepath.Base(file))
		require.NoError(t, err)
		if !matched {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
				names = append(names, function.Name.Name)
			}
		}
	}
	for _, file := range testFiles(t) {
		if filepath.Dir(file) == filepath.Clean(dir) ||
			recursive && (dir == "." || strings.HasPrefix(file, filepath.Clean(dir)+"/")) {
			visit(file)
		}
	}
	return names
}

// TestCommands_selectExistingTests checks every "go test" of the Makefile, the scripts and the
// documents: its packages exist, and each name in its patterns selects a test in one of them. The
// tests that a command skips are run by a command with the same pattern.
func TestCommands_selectExistingTests(t *testing.T) {
	files := []string{"Makefile", "README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{".ci/*", "docs/*.md"} {
		matched, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, matched...)
	}
	prefixes := map[string]string{"run": "Test", "skip": "Test", "bench": "Benchmark", "fuzz": "Fuzz"}
	skipped, run := map[string][]string{}, map[string][]string{} // by pattern
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, command := range parseTestCommands(string(text)) {
			if command.packages[0] == "./that/package/..." {
				continue // an example in a document
			}
			found++
			var names []string
			for _, pkg := range command.packages {
				require.DirExists(t, strings.TrimSuffix(pkg, "/..."), "%s: %s", file, command.text)
				names = append(names, testFunctions(t, pkg, command.tags)...)
			}
			for flag, pattern := range command.patterns {
				if pattern == "^$" {
					continue // no tests, only benchmarks
				}
				matching, err := regexp.Compile(strings.Split(pattern, "/")[0])
				require.NoError(t, err, "%s: %s", file, command.text)
				var selected []string
				for _, name := range names {
					if strings.HasPrefix(name, prefixes[flag]) && matching.MatchString(name) {
						selected = append(selected, name)
					}
				}
				require.NotEmpty(t, selected, "%s: -%s %s selects nothing: %s", file, flag, pattern, command.text)
				for _, name := range patternName.FindAllString(matching.String(), -1) {
					require.Contains(t, strings.Join(selected, " "), name, "%s: %s", file, command.text)
				}
				switch flag {
				case "run":
					run[pattern] = append(run[pattern], selected...)
				case "skip":
					skipped[pattern] = append(skipped[pattern], selected...)
				}
			}
		}
	}
	for pattern, names := range skipped {
		require.ElementsMatch(t, names, run[pattern], "the tests that -skip %s omits", pattern)
	}
	require.Greater(t, found, 10, "the commands were recognized")
}

func TestCommands_areParsed(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []testCommand
	}{
		"pattern and tags of a Makefile": {
			"\tCGO_ENABLED=0 go test -tags $(TAGS),redfish -run '^TestFaults$$' \\\n\t\t./appliance/bmc\n",
			[]testCommand{{
				tags: []string{"grpcnotrace", "redfish"}, packages: []string{"./appliance/bmc"},
				patterns: map[string]string{"run": "^TestFaults$"},
			}},
		},
		"benchmarks with a comment": {
			"    go test -run '^$' -bench=Inventory ./store ./isogen/...   # two packages\n",
			[]testCommand{{
				tags: []string{"grpcnotrace"}, packages: []string{"./store", "./isogen/..."},
				patterns: map[string]string{"run": "^$", "bench": "Inventory"},
			}},
		},
		"two commands in a line": {
			"cd web && go test ./a && go test ./b -count 1",
			[]testCommand{
				{tags: []string{"grpcnotrace"}, packages: []string{"./a"}, patterns: map[string]string{}},
				{tags: []string{"grpcnotrace"}, packages: []string{"./b"}, patterns: map[string]string{}},
			},
		},
		"a placeholder": {"`go test -fuzz NAME ./package`", nil},
		"variables, a quoted pattern and files": {
			"KILLS := B|C\nNO_RACE := ^Test(A|$(KILLS))$$\ntest:\n\tgo test -skip '$(NO_RACE)' ./store ./*_test.go\n",
			[]testCommand{{
				tags: []string{"grpcnotrace"}, packages: []string{"./store", "."},
				patterns: map[string]string{"skip": "^Test(A|B|C)$"},
			}},
		},
		"no package":          {"runs go test -run TestX", nil},
		"another go command":  {"go vet -tags x ./store", nil},
		"the name of a thing": {"cargo test ./store", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := parseTestCommands(test.text)
			for i := range got {
				got[i].text = ""
			}
			require.Equal(t, test.want, got)
		})
	}
}
