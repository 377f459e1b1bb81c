package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The layers of the product, from the program down. A package imports packages of its own layer and
// of lower layers only.
const (
	layerMain = iota
	layerCommand
	layerAppliance
	layerWeb
	layerDomain
	layerEngine
	layerRules
	layerBase
)

// domainBase are the packages of the domain below the engine, which imports them.
var domainBase = []string{
	"landfall/appliance/ams/outbox", "landfall/appliance/journal", "landfall/appliance/keyring",
	"landfall/appliance/mirror", "landfall/appliance/release", "landfall/appliance/fault",
	"landfall/appliance/sentence", "landfall/appliance/architecture", "landfall/appliance/sitekey",
	"landfall/appliance/process", "landfall/appliance/access", "landfall/appliance/access/machine",
	"landfall/appliance/sandbox", "landfall/appliance/tracing", "landfall/appliance/roots",
	"landfall/appliance/audittrail",
	"landfall/appliance/egress", "landfall/appliance/archive", "landfall/appliance/durable",
	"landfall/appliance/stall",
	"landfall/appliance/authority",
}

func layerOf(pkg string) int {
	under := func(parent string) bool { return pkg == parent || strings.HasPrefix(pkg, parent+"/") }
	switch {
	case pkg == "landfall":
		return layerMain
	case under("landfall/appliance/command"):
		return layerCommand
	case pkg == "landfall/appliance":
		return layerAppliance
	case under("landfall/web"):
		return layerWeb
	case pkg == "landfall/appliance/engine":
		return layerEngine
	case under("landfall/appliance/engine"):
		return layerRules
	case slices.Contains(domainBase, pkg) || !under("landfall/appliance"): // store, isogen, ignition, assets
		return layerBase
	}
	return layerDomain
}

// testSupport are packages that only tests, simulations and the command line use.
func testSupport(pkg string) bool {
	return strings.HasPrefix(pkg, "landfall/appliance/simulate") || strings.HasSuffix(path.Base(pkg), "test") ||
		strings.Contains(pkg, "amstest") || strings.Contains(pkg, "engine/audit") || strings.HasSuffix(pkg, "/generate")
}

type goPackage struct {
	ImportPath, Dir  string
	GoFiles, Imports []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var all []goPackage
	for decoder := json.NewDecoder(output); ; {
		var pkg goPackage
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all = append(all, pkg)
	}
	require.NoError(t, cmd.Wait())
	require.NotEmpty(t, all)
	return all
}

// Packages text/template and html/template find methods by their names at run time. The linker then
// keeps every exported method of every type, and the program is a quarter larger.
func TestArchitecture_noTemplatePackages(t *testing.T) {
	for _, pkg := range packages(t) {
		require.NotContains(t, pkg.Imports, "text/template", pkg.ImportPath)
		require.NotContains(t, pkg.Imports, "html/template", pkg.ImportPath)
	}
}

func TestArchitecture_importsFollowLayers(t *testing.T) {
	for _, pkg := range packages(t) {
		for _, imported := range pkg.Imports {
			if imported != "landfall" && !strings.HasPrefix(imported, "landfall/") {
				continue
			}
			arrow := pkg.ImportPath + " -> " + imported
			problem := ""
			switch from, to := layerOf(pkg.ImportPath), layerOf(imported); {
			case testSupport(pkg.ImportPath):
				continue
			case to < from:
				problem = "runs against the order of layers"
			case strings.HasPrefix(imported, "landfall/appliance/engine/audit"):
				problem = "brings the audit into the product"
			case strings.HasPrefix(imported, "landfall/appliance/simulate") &&
				!strings.HasPrefix(pkg.ImportPath, "landfall/appliance/command") &&
				!strings.HasPrefix(pkg.ImportPath, "landfall/appliance/rehearsal"):
				problem = "brings simulations into the product"
			}
			if problem != "" {
				t.Errorf("%s %s", arrow, problem)
			}
		}
	}
}

// lineLimits holds the largest number of lines (without tests) of each package. The key "" is the
// limit of all other packages.
var lineLimits = map[string]int{
	"":                           5_900,
	"landfall/appliance":         1_700,
	"landfall/appliance/command": 2_000,
	"landfall/appliance/engine":  8_000,
}

func TestArchitecture_packagesAreSmall(t *testing.T) {
	for _, pkg := range packages(t) {
		limit, ok := lineLimits[pkg.ImportPath]
		if !ok {
			limit = lineLimits[""]
		}
		lines := 0
		for _, file := range pkg.GoFiles {
			lines += countLines(t, filepath.Join(pkg.Dir, file))
		}
		if lines > limit {
			t.Errorf("%s has %d lines, more than %d", pkg.ImportPath, lines, limit)
		}
	}
}

func countLines(t *testing.T, file string) (lines int) {
	t.Helper()
	content, err := os.Open(file)
	require.NoError(t, err)
	defer content.Close()
	scanner := bufio.NewScanner(content)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		lines++
	}
	require.NoError(t, scanner.Err())
	return lines
}

// packageRow is a row of the table of packages in docs/architecture.md.
var packageRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|$")

func TestArchitecture_documentListsPackages(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## Packages")
	require.True(t, found)
	var listed []string
	for _, row := range packageRow.FindAllStringSubmatch(table, -1) {
		listed = append(listed, path.Join("landfall", row[1]))
	}
	var existing []string
	for _, pkg := range packages(t) {
		if !strings.HasSuffix(pkg.ImportPath, "/generate") {
			existing = append(existing, pkg.ImportPath)
		}
	}
	require.ElementsMatch(t, existing, listed, "docs/architecture.md has a row for each package")
}
