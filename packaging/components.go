package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// licensesName is the file with the licenses of all components.
const licensesName = "licenses.txt"

// specVersion is the version of CycloneDX that most readers know.
const specVersion = cdx.SpecVersion1_6

func (b *build) componentsName() string { return "landfall-" + b.version + ".cdx.json" }

// component is a part of the programs that others wrote.
type component struct {
	kind     string // golang or npm
	name     string
	version  string
	sum      string // of Go's checksum database, or npm's integrity
	declared string // license in a lock file; "" for Go modules
	texts    []text
}

// text is a file with a license or a notice.
type text struct{ name, content string }

// writeComponents writes the list of the components of all programs, and their licenses.
func (b *build) writeComponents(ctx context.Context) error {
	modules, err := b.modules(ctx)
	if err != nil {
		return err
	}
	packages, err := b.npmPackages()
	if err != nil {
		return err
	}
	components := slices.Concat(modules, packages)
	var licenses strings.Builder
	fmt.Fprintf(&licenses, "Landfall %s contains %d modules of Go, and %d packages of npm in the page. Their licenses "+
		"follow.\n", b.version, len(modules), len(packages))
	for _, c := range components {
		c.write(&licenses)
	}
	if err := os.WriteFile(b.file(licensesName), []byte(licenses.String()), 0o644); err != nil {
		return err
	}
	bom, err := b.bom(components)
	if err != nil {
		return err
	}
	file, err := os.Create(b.file(b.componentsName()))
	if err != nil {
		return err
	}
	encoder := cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true)
	return cmp.Or(encoder.EncodeVersion(bom, specVersion), file.Close())
}

func (c component) write(out io.Writer) {
	fmt.Fprintf(out, "\n%s\n%s %s (%s)\n", strings.Repeat("=", 80), c.name, c.version, c.license())
	for _, t := range c.texts {
		fmt.Fprintf(out, "\n--- %s\n\n%s\n", t.name, strings.TrimSpace(t.content))
	}
}

// modules returns the modules of all programs, with Go's standard library.
func (b *build) modules(ctx context.Context) ([]component, error) {
	found := map[string]component{}
	std := ""
	for _, t := range targets {
		program := b.programs[t]
		if err := checkStatic(program); err != nil {
			return nil, err
		}
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, fmt.Errorf("read the modules of %s: %w", program, err)
		}
		std = info.GoVersion
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			found[module.Path+"@"+module.Version] = component{kind: "golang", name: module.Path,
				version: module.Version, sum: module.Sum}
		}
	}
	var modules []component
	for _, key := range slices.Sorted(maps.Keys(found)) {
		dir, err := b.goOutput(ctx, "mod", "download", "-json", key)
		if err != nil {
			return nil, err
		}
		var held struct{ Dir string }
		if err := json.Unmarshal(dir, &held); err != nil {
			return nil, err
		}
		module := found[key]
		if module.texts, err = licenseTexts(held.Dir); err != nil {
			return nil, err
		}
		if len(module.texts) == 0 {
			return nil, fmt.Errorf("the module %s has no file with a license", key)
		}
		modules = append(modules, module)
	}
	root, err := b.goOutput(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	library := component{kind: "golang", name: "std", version: strings.TrimPrefix(std, "go")}
	if library.texts, err = licenseTexts(strings.TrimSpace(string(root))); err != nil {
		return nil, err
	}
	return append([]component{library}, modules...), nil
}

// checkStatic returns an error for a program of Linux that needs a dynamic linker.
func checkStatic(path string) error {
	file, err := elf.Open(path)
	var format *elf.FormatError
	if errors.As(err, &format) {
		return nil // of another system
	}
	if err != nil {
		return fmt.Errorf("read a built program: %w", err)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs a dynamic linker; build it with CGO_ENABLED=0", filepath.Base(path))
		}
	}
	return nil
}

func (b *build) goOutput(ctx context.Context, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = b.root
	var failure bytes.Buffer
	cmd.Stderr = &failure
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w %s", strings.Join(arguments, " "), err, failure.String())
	}
	return output, nil
}

// npmPackages returns the packages of the page that its lock file marks as needed at run time.
func (b *build) npmPackages() ([]component, error) {
	ui := filepath.Join(b.root, "web/ui")
	content, err := os.ReadFile(filepath.Join(ui, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License, Integrity string
			Dev                         bool
		}
	}
	if err := json.Unmarshal(content, &lock); err != nil {
		return nil, fmt.Errorf("read package-lock.json: %w", err)
	}
	found := map[string]component{}
	for path, p := range lock.Packages {
		if path == "" || p.Dev {
			continue
		}
		_, name, _ := cutLast(path, "node_modules/")
		c := component{kind: "npm", name: name, version: p.Version, sum: p.Integrity, declared: p.License}
		if c.texts, err = licenseTexts(filepath.Join(ui, path)); err != nil {
			return nil, err
		}
		if c.declared == "" {
			if c.declared, err = declaredIn(filepath.Join(ui, path, "package.json")); err != nil {
				return nil, err
			}
		}
		c.declared = cmp.Or(c.declared, undeclared[name])
		if c.license() == "" {
			return nil, fmt.Errorf("the package %s has no license", name)
		}
		found[name+"@"+p.Version] = c
	}
	var packages []component
	for _, key := range slices.Sorted(maps.Keys(found)) {
		packages = append(packages, found[key])
	}
	return packages, nil
}

// undeclared are the licenses of packages that contain and declare none: those of their
// repositories.
var undeclared = map[string]string{
	"@openshift-assisted/types": "Apache-2.0", // github.com/openshift-assisted/assisted-installer-ui
}

// cutLast is like strings.Cut at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+len(separator):], true
}

// declaredIn returns the license in the description of an npm package.
func declaredIn(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var description struct{ License string }
	if err := json.Unmarshal(content, &description); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return description.License, nil
}

// licenseTexts returns the files of a directory with licenses and notices.
func licenseTexts(dir string) ([]text, error) {
	all, err := names(dir)
	if err != nil {
		return nil, err
	}
	var texts []text
	for _, name := range all {
		upper := strings.ToUpper(name)
		wanted := slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT"},
			func(prefix string) bool { return strings.HasPrefix(upper, prefix) })
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if !wanted || !info.Mode().IsRegular() || strings.HasSuffix(upper, ".GO") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		texts = append(texts, text{name, strings.ToValidUTF8(strings.ReplaceAll(string(content), "\r\n", "\n"), "?")})
	}
	return texts, nil
}

// known are the identifiers (SPDX) of licenses with words that only their texts have.
var known = []struct {
	id    string
	words []string
	not   string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0, january 2004"}, ""},
	{"MPL-2.0", []string{"mozilla public license", "version 2.0"}, ""},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy",
		"the above copyright notice and this permission notice"}, ""},
	{"MIT-0", []string{"permission is hereby granted, free of charge, to any person obtaining a copy"},
		"the above copyright notice and this permission notice"},
	{"ISC", []string{"distribute this software for any purpose with or without fee",
		"copyright notice and this permission notice appear in all copies"}, ""},
	{"0BSD", []string{"distribute this software for any purpose with or without fee"},
		"copyright notice and this permission notice appear in all copies"},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "endorse or promote products"}, ""},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms"}, "endorse or promote products"},
	{"Unlicense", []string{"this is free and unencumbered software released into the public domain"}, ""},
	{"CC0-1.0", []string{"cc0 1.0 universal"}, ""},
}

// license returns the licenses as an expression of SPDX, or "" if no text is known. Several texts
// of a component apply to its parts.
func (c component) license() string {
	if c.declared != "" {
		return c.declared
	}
	var ids []string
	for _, t := range c.texts {
		if strings.HasPrefix(strings.ToUpper(t.name), "NOTICE") {
			continue
		}
		words := strings.ToLower(strings.Join(strings.Fields(t.content), " "))
		for _, k := range known {
			if !slices.ContainsFunc(k.words, func(part string) bool { return !strings.Contains(words, part) }) &&
				(k.not == "" || !strings.Contains(words, k.not)) {
				ids = append(ids, k.id)
			}
		}
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " AND ")
}

// url returns the package URL of a component.
func (c component) url() string {
	name := c.name
	if c.kind == "npm" {
		name = strings.Replace(name, "@", "%40", 1)
	}
	return "pkg:" + c.kind + "/" + name + "@" + strings.ReplaceAll(c.version, "+", "%2B")
}

// bom returns the list of the components in CycloneDX.
func (b *build) bom(components []component) (*cdx.BOM, error) {
	bom := cdx.NewBOM()
	product := cdx.Component{BOMRef: "pkg:generic/landfall@" + b.version, Type: cdx.ComponentTypeApplication,
		Name: "landfall", Version: b.version, PackageURL: "pkg:generic/landfall@" + b.version,
		Licenses: licensesOf("Apache-2.0")}
	bom.SerialNumber = "urn:uuid:" + uuidOf(product.PackageURL+" "+b.time.String())
	bom.Metadata = &cdx.Metadata{Timestamp: b.time.Format("2006-01-02T15:04:05Z"), Component: &product}
	list := []cdx.Component{}
	refs := []string{}
	for _, t := range targets {
		sum, err := sumOf(b.programs[t])
		if err != nil {
			return nil, err
		}
		name := "landfall-" + b.version + "-" + t.String()
		refs = append(refs, name)
		list = append(list, cdx.Component{BOMRef: name, Type: cdx.ComponentTypeFile, Name: name,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}})
	}
	for _, c := range components {
		entry := cdx.Component{BOMRef: c.url(), Type: cdx.ComponentTypeLibrary, Name: c.name, Version: c.version,
			PackageURL: c.url(), Licenses: licensesOf(c.license())}
		if algorithm, sum, found := strings.Cut(c.sum, "-"); found && algorithm == "sha512" {
			decoded, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return nil, errors.New("package-lock.json has the invalid checksum " + c.sum)
			}
			entry.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(decoded)}}
		} else if c.sum != "" {
			entry.Properties = &[]cdx.Property{{Name: "landfall:go.sum", Value: c.sum}}
		}
		refs = append(refs, c.url())
		list = append(list, entry)
	}
	bom.Components = &list
	bom.Dependencies = &[]cdx.Dependency{{Ref: product.BOMRef, Dependencies: &refs}}
	return bom, nil
}

func licensesOf(expression string) *cdx.Licenses {
	if expression == "" {
		return nil
	}
	if strings.ContainsAny(expression, " (") {
		return &cdx.Licenses{{Expression: expression}}
	}
	return &cdx.Licenses{{License: &cdx.License{ID: expression}}}
}

// uuidOf returns a UUID of version 8 that depends on a text only.
func uuidOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
