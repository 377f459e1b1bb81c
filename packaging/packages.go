package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// sources is the directory of the service's files, which landfall service install writes too.
const sources = "appliance/command/service/files"

// writePackages writes the deb and the rpm package of a target.
func (b *build) writePackages(t target, stage string) error {
	for _, format := range []string{"deb", "rpm"} {
		if err := b.writePackage(t, stage, format); err != nil {
			return fmt.Errorf("build the %s package for %s: %w", format, t, err)
		}
	}
	return nil
}

func (b *build) writePackage(t target, stage, format string) error {
	contents, err := b.contents(t, stage, format)
	if err != nil {
		return err
	}
	script := func(name string) string { return filepath.Join(b.root, "packaging/scripts", name) }
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "landfall", Arch: t.arch, Platform: t.os,
		Version:       packageVersion(b.version, b.time.Format("20060102150405")),
		VersionSchema: "none", Release: "1", MTime: b.time, DisableGlobbing: true,
		Section: "admin", Priority: "optional", Maintainer: "Landfall <landfall@localhost>", License: "Apache-2.0",
		Description: "Installs OpenShift clusters at sites without internet access\n" +
			"One program with the API of the Assisted Installer, a page and the images\nfor hosts.",
		Overridables: nfpm.Overridables{
			Contents: contents, Umask: 0o022,
			Depends: map[string][]string{"deb": {"systemd (>= 247) | systemd-standalone-sysusers"},
				"rpm": {"systemd >= 239"}}[format],
			Scripts: nfpm.Scripts{PostInstall: script("postinstall.sh"), PreRemove: script("preremove.sh"),
				PostRemove: script("postremove.sh")},
			Deb: nfpm.Deb{Compression: b.compression},
			RPM: nfpm.RPM{Compression: b.compression, BuildHost: "localhost", Group: "System Environment/Daemons",
				Summary: "Installs OpenShift clusters at sites without internet access"},
		},
	})
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info.Target = b.file(packager.ConventionalFileName(info))
	file, err := os.Create(info.Target)
	if err != nil {
		return err
	}
	return cmp.Or(packager.Package(info, file), file.Close())
}

// contents returns the files of a package.
func (b *build) contents(t target, stage, format string) (files.Contents, error) {
	add := func(source, place, kind string, mode fs.FileMode) *files.Content {
		return &files.Content{Source: source, Destination: place, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: b.time}}
	}
	unit := func(name string) string { return filepath.Join(b.root, sources, name) }
	contents := files.Contents{
		add(b.programs[t], "/usr/bin/landfall", files.TypeFile, 0o755),
		add(unit("landfall.service"), "/usr/lib/systemd/system/landfall.service", files.TypeFile, 0o644),
		add(unit("landfall.socket"), "/usr/lib/systemd/system/landfall.socket", files.TypeFile, 0o644),
		add(unit("landfall.sysusers"), "/usr/lib/sysusers.d/landfall.conf", files.TypeFile, 0o644),
		add(unit("config.yaml"), "/etc/landfall/config.yaml", files.TypeConfigNoReplace, 0o644),
		add(filepath.Join(stage, "zsh"), zshCompletion[format], files.TypeFile, 0o644),
	}
	for shell, place := range completions {
		contents = append(contents, add(filepath.Join(stage, shell), place, files.TypeFile, 0o644))
	}
	pages, err := names(filepath.Join(stage, "man"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		contents = append(contents, add(filepath.Join(stage, "man", page), "/usr/share/man/man1/"+page, files.TypeFile,
			0o644))
	}
	for source, name := range map[string]string{
		filepath.Join(b.root, "config.example.yaml"):                 "config.example.yaml",
		filepath.Join(b.root, "docs/packages.md"):                    "packages.md",
		filepath.Join(b.root, "docs/operations.md"):                  "operations.md",
		filepath.Join(b.root, "LICENSE"):                             "copyright",
		filepath.Join(b.root, "packaging/monitoring/alerts.yaml"):    "alerts.yaml",
		filepath.Join(b.root, "packaging/monitoring/dashboard.json"): "dashboard.json",
		b.file(licensesName):                                         "licenses.txt",
		b.file(b.componentsName()):                                   "components.cdx.json",
	} {
		contents = append(contents, add(source, "/usr/share/doc/landfall/"+name, files.TypeFile, 0o644))
	}
	return contents, nil
}

// described is the output of git describe --tags --always --dirty if there is a tag: the tag, the
// number of commits after it, the commit, and changes that are not committed.
var described = regexp.MustCompile(`^v?([0-9]+\.[0-9A-Za-z.~-]*?)(?:-([0-9]+)-g([0-9a-f]+))?(-dirty)?$`)

// packageVersion returns a version for package managers, which order versions by their numbers. A
// commit after a tag is newer than the tag. Without tags, the time of the commit orders versions.
func packageVersion(version, time string) string {
	parts := described.FindStringSubmatch(version)
	if parts == nil {
		return "0.0." + time + "+g" + strings.ReplaceAll(version, "-", ".")
	}
	number := strings.ReplaceAll(parts[1], "-", "~") // 1.0-rc1 is older than 1.0
	var after []string
	if parts[2] != "" {
		after = append(after, parts[2], "g"+parts[3])
	}
	if parts[4] != "" {
		after = append(after, "dirty")
	}
	if len(after) == 0 {
		return number
	}
	return number + "+" + strings.Join(after, ".")
}
