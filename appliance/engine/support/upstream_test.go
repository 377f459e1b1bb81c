package support

import (
	"os"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// TestFeatures_levelsOfUpstream compares each level with testdata/levels.txt, which names its
// source.
func TestFeatures_levelsOfUpstream(t *testing.T) {
	text, err := os.ReadFile("testdata/levels.txt")
	require.NoError(t, err)
	versions := []string{"4.9", "4.10", "4.11", "4.12", "4.13", "4.14", "4.15", "4.16", "4.17", "4.18", "4.19", "4.20",
		"4.21", "4.22", "5.0"}
	expected := make(map[string]string) // by architecture, platform, feature and version
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		levels := make(map[string]string)
		for _, field := range fields[3:] {
			version, level, _ := strings.Cut(field, "=")
			levels[version] = level
		}
		level := "absent"
		for _, version := range versions {
			if next, changed := levels[version]; changed {
				level = next
			}
			if level != "absent" {
				expected[strings.Join(append(fields[:3:3], version), " ")] = level
			}
		}
	}
	actual := make(map[string]string)
	for _, arch := range []string{"x86_64", "arm64", "ppc64le", "s390x", "multi"} {
		for _, platform := range []string{"-", "baremetal", "none", "nutanix", "vsphere", "external", "oci"} {
			for _, version := range versions {
				q := Query{Version: version, Architecture: arch, Platform: models.PlatformType(platform)}
				switch platform {
				case "-":
					q.Platform = ""
				case "oci":
					q.Platform, q.External = models.PlatformTypeExternal, oracle
				}
				for _, f := range Features(q) {
					actual[strings.Join([]string{arch, platform, string(f.ID), version}, " ")] = string(f.Level)
				}
			}
		}
	}
	for key, level := range expected {
		if actual[key] != level {
			t.Errorf("%s: %q, upstream has %q", key, actual[key], level)
		}
	}
	for key, level := range actual {
		if _, found := expected[key]; !found {
			t.Errorf("%s: %q, upstream does not list it", key, level)
		}
	}
	require.Greater(t, len(expected), 20_000, "the file holds the whole table")
}
