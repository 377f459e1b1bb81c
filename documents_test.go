package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packageDocs returns the doc comment of each package by its import path.
func packageDocs(t *testing.T) map[string]string {
	t.Helper()
	output, err := exec.Command("go", "list", "-json=ImportPath,Doc,Dir,GoFiles", "./...").Output()
	require.NoError(t, err)
	docs := map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(string(output))); decoder.More(); {
		var pkg struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		require.NoError(t, decoder.Decode(&pkg))
		for _, file := range pkg.GoFiles {
			text, err := os.ReadFile(filepath.Join(pkg.Dir, file))
			require.NoError(t, err)
			docs[pkg.ImportPath] += packageDoc.FindString(string(text))
		}
	}
	return docs
}

var (
	// packageDoc is a comment that ends in a line before a package clause.
	packageDoc = regexp.MustCompile(`(?m)^(//.*\n)+package \w+$`)
	// designAnchor is a reference to a section of docs/design.md.
	designAnchor = regexp.MustCompile(`docs/design\.md#([a-z0-9-]+)`)
	sectionTitle = regexp.MustCompile(`(?m)^## (.+)$`)
	notInAnchors = regexp.MustCompile(`[^a-z0-9 -]`)
)

// anchor returns the anchor that Markdown gives a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func TestDesign_packagesReferToSections(t *testing.T) {
	text, err := os.ReadFile("docs/design.md")
	require.NoError(t, err)
	referenced := map[string]bool{}
	for _, heading := range sectionTitle.FindAllStringSubmatch(string(text), -1) {
		referenced[anchor(heading[1])] = false
	}
	for pkg, doc := range packageDocs(t) {
		if doc == "" {
			t.Errorf("%s has no doc comment", pkg)
		}
		for _, reference := range designAnchor.FindAllStringSubmatch(doc, -1) {
			if _, ok := referenced[reference[1]]; !ok {
				t.Errorf("%s refers to docs/design.md#%s, which does not exist", pkg, reference[1])
			}
			referenced[reference[1]] = true
		}
	}
	for section, ok := range referenced {
		if !ok {
			t.Errorf("no package refers to docs/design.md#%s", section)
		}
	}
}

var (
	codeSpan     = regexp.MustCompile("`([^`\n]+)`")
	markdownLink = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	// repositoryPath is a path whose first element is a directory of this repository, except the
	// directories that are built.
	repositoryPath = regexp.MustCompile(`^(\.ci|appliance|docs|ignition|isogen|store|web)/[\w./-]+$`)
	// makeCommand is the name of a target in a command of make.
	makeCommand = regexp.MustCompile("(?m)(?:^    |`)make ([a-z][a-z0-9-]*)")
	makeTarget  = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

func TestDocuments_pathsLinksAndTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, target := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets[target[1]] = true
	}
	documents, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, document := range append(documents, "README.md", "CONTRIBUTING.md") {
		content, err := os.ReadFile(document)
		require.NoError(t, err)
		text := string(content)
		for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
			for _, word := range strings.Fields(span[1]) {
				word = strings.TrimSuffix(strings.TrimPrefix(strings.TrimRight(word, ","), "./"), "/...")
				if repositoryPath.MatchString(word) {
					expectExists(t, document, word)
				}
			}
		}
		for _, link := range markdownLink.FindAllStringSubmatch(text, -1) {
			expectExists(t, document, filepath.Join(filepath.Dir(document), link[1]))
		}
		for _, command := range makeCommand.FindAllStringSubmatch(text, -1) {
			if !targets[command[1]] {
				t.Errorf("%s names the target %q, which the Makefile does not have", document, command[1])
			}
		}
	}
}

// expectExists reports an error if no file or directory with the path exists.
func expectExists(t *testing.T, document, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%s names %s, which does not exist", document, path)
	}
}

func TestArchitecture_startingPointsExist(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "## Starting points for changes")
	require.True(t, found)
	section, _, found := strings.Cut(rest, "\n## ")
	require.True(t, found)
	rows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| task ") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Len(t, cells, 2, "a task and its starting points: %s", line)
		directory := ""
		for _, span := range codeSpan.FindAllStringSubmatch(cells[1], -1) {
			path := span[1]
			matches, err := filepath.Glob(path)
			require.NoError(t, err)
			if len(matches) == 0 { // a file in the directory of the path before
				path = filepath.Join(directory, path)
				matches, err = filepath.Glob(path)
				require.NoError(t, err)
			}
			if len(matches) == 0 {
				t.Errorf("the starting point %s does not exist", span[1])
				continue
			}
			directory = path
			if info, err := os.Stat(matches[0]); err == nil && !info.IsDir() {
				directory = filepath.Dir(path)
			}
		}
		require.NotEmpty(t, directory, "no starting point: %s", line)
	}
	require.NotZero(t, rows)
}
