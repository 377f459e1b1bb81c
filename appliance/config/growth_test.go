package config_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/dataversion"
	"landfall/appliance/engine/pagetest"
	"landfall/appliance/upgrade"
)

var update = flag.Bool("update", false, "write the table in docs/operations.md")

// growing is data in the data directory that grows.
type growing struct {
	data  string
	keys  []string // of the configuration, which limit it
	limit string   // with %s for each value of keys
	freed string   // what is removed, and by whom
}

// growth lists everything that grows in the data directory.
func growth() []growing {
	return []growing{
		{"clusters, infra-envs and hosts", nil, "the free space of the disk; a host needs some 60 KiB",
			"`landfall cluster delete`, `landfall infra-env delete`"},
		{"live ISOs", []string{"limits.os_image_bytes"}, "%s for each file", "`landfall iso remove`"},
		{"logs of installations", []string{"limits.log_upload_bytes"},
			"one set for each cluster; %s for each archive", "replaced by newer ones; `landfall cluster delete`"},
		{"files of installations", []string{"limits.manifest_bytes"}, "one set for each cluster; %s for each manifest",
			"`landfall cluster delete`"},
		{"openshift-install programs", []string{"limits.installer_cache_bytes"}, "%s",
			"by itself, the least recently used first"},
		{"images that clients push to the registry, and copies of media", []string{"registry.bytes"}, "%s",
			"what no image needs and canceled copies: `landfall registry gc`"},
		{"events", []string{"limits.event_bytes", "limits.event_object_bytes"},
			"%s; %s for each cluster, infra-env or host", "by itself, the oldest first"},
		{"journals", []string{"limits.journal_bytes", "limits.journal_object_bytes"}, "%s; %s for each cluster",
			"by itself, the oldest first"},
		{"audit trail", []string{"audit.bytes"}, "%s",
			"by itself, the oldest first; copy it with `audit.syslog` to keep it"},
		{"sessions", []string{"sessions.idle", "sessions.total"}, "%s without use, %s in total",
			"by itself; `landfall session end`"},
		{"tokens", nil, "the lifetime of each token", "`landfall token revoke`"},
		{"backups before a change of the data", nil,
			fmt.Sprintf("those of %d versions", dataversion.KeptBackups), "by itself, the oldest first"},
		{"backups before upgrades", nil, fmt.Sprintf("%d", upgrade.KeptBackups), "by itself, the oldest first"},
		{"scheduled backups, in a directory of their own", []string{"backup.keep"}, "%s",
			"by itself, the oldest first"},
		{"the replica, in a directory of its own", []string{"replica.bytes", "replica.keep"}, "%s, %s",
			"by itself, the oldest states first"},
	}
}

// single are limits of one request, which fill nothing.
func single() []string { return []string{"limits.request_body_bytes"} }

// defaults returns the default values of the configuration by key.
func defaults(t *testing.T) map[string]string {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, config.Default().Write(&text))
	values := make(map[string]string)
	for line := range strings.Lines(text.String()) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok {
			values[key] = value
		}
	}
	return values
}

const begin, end = "<!-- The table is generated from the code: make docs. -->\n\n", "\n## Damage\n"

func growthTable(t *testing.T) string {
	t.Helper()
	values := defaults(t)
	var out strings.Builder
	out.WriteString("| data | limit | what is removed |\n|---|---|---|\n")
	for _, g := range growth() {
		var shown []any
		for _, key := range g.keys {
			require.NotEmpty(t, values[key], "the configuration has no default of %s", key)
			shown = append(shown, fmt.Sprintf("%s (`%s`)", values[key], key))
		}
		limit := g.limit
		if len(shown) > 0 {
			limit = fmt.Sprintf(g.limit, shown...)
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", g.data, limit, g.freed)
	}
	return out.String()
}

// TestGrowth_tableIsCurrent compares the table in docs/operations.md with the limits in the code.
func TestGrowth_tableIsCurrent(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "operations.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found, "the mark of the table is missing")
	table, after, found := strings.Cut(rest, end)
	require.True(t, found, "the section after the table is missing")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+growthTable(t)+end+after), 0o644))
		return
	}
	pagetest.Current(t, "the table of limits in docs/operations.md", growthTable(t), table)
}

// TestGrowth_listsEveryLimit requires that each limit of bytes and of numbers is in the table.
func TestGrowth_listsEveryLimit(t *testing.T) {
	listed := single()
	for _, g := range growth() {
		require.Equal(t, len(g.keys), strings.Count(g.limit, "%s"), g.data)
		listed = append(listed, g.keys...)
	}
	for key := range defaults(t) {
		_, name, _ := strings.Cut(key, ".")
		if strings.HasPrefix(key, "limits.") || name == "bytes" || name == "keep" {
			require.True(t, slices.Contains(listed, key), "%s is not in the table of what grows", key)
		}
	}
}
