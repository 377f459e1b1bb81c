package tsl_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/tsl"
)

const subscription = `{
	"id": "1svZ", "status": "Active", "display_name": "it's 100%", "managed": false, "cpu_total": 12, "external_cluster_id": null,
	"plan": {"id": "OCP-AssistedInstall", "type": "OCP"}, "created_at": "2021-05-23T07:29:07.979367Z",
	"metrics": [{"health_state": "healthy", "nodes": {"total": 3}}],
	"labels": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]
}`

func TestQuery_match(t *testing.T) {
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(subscription), &object))
	for search, found := range map[string]bool{
		"":                   true,
		"status = 'Active'":  true,
		"STATUS = 'Active'":  false, // field names are case-sensitive
		"status != 'Active'": false,
		"status <> 'Stale'":  true,
		"status = 'Stale' or status = 'Active' and managed = 'f'":   true,
		"(status = 'Active' or status = 'Stale') and managed = 't'": false,
		"not status = 'Stale'":                      true,
		"NOT (status = 'Active' AND cpu_total > 3)": false,
		"cpu_total = 12":                            true,
		"cpu_total >= 12.0":                         true,
		"cpu_total < -1":                            false,
		"cpu_total between 1 and 12":                true,
		"cpu_total not between 1 and 12":            false,
		"status in ('Stale','Active')":              true,
		"status not in ('Stale', 'Active')":         false,
		"display_name = 'it''s 100%'":               true,
		"display_name like 'it_s %'":                true,
		"display_name like 'IT%'":                   false,
		"display_name ilike 'IT%'":                  true,
		"display_name not ilike 'IT%'":              false,
		"id ~= '^1s'":                               true,
		"id ~! '^1s'":                               false,
		"plan.id = 'OCP-AssistedInstall'":           true,
		"metrics.health_state = 'healthy'":          true,
		"metrics.nodes.total = 3":                   true,
		"labels.key = 'b'":                          true,
		"labels.key = 'c'":                          false,
		"external_cluster_id is null":               true,
		"external_cluster_id is not null":           false,
		"missing is null":                           true,
		"missing = 'x'":                             false,
		"not missing = 'x'":                         false, // a condition on null is neither true nor false
		"missing not in ('x')":                      false,
		"missing = 'x' or status = 'Active'":        true,
		"created_at > '2021-05-23'":                 true,
	} {
		t.Run(search, func(t *testing.T) {
			query, err := tsl.Parse(search)
			require.NoError(t, err)
			got, err := query.Match(object)
			require.NoError(t, err)
			require.Equal(t, found, got)
		})
	}
}

func TestParse_errors(t *testing.T) {
	for search, says := range map[string]string{
		`status = "Active"`:         "double quotes",
		"status == 'Active'":        "write = instead",
		"status = 'Active":          "closing quote",
		"status = true":             "instead of a value",
		"status":                    "comparison",
		"status = 'a' status = 'b'": "join conditions",
		"(status = 'a'":             "instead of a closing parenthesis",
		"status = 'a';":             "is not valid there",
		"= 'a'":                     "name of a field",
		"status in 'a'":             "in parentheses",
		"status in ('a' 'b')":       "comma",
		"status not = 'a'":          "after not",
		"a.b.c.d = 'x'":             "more than two dots",
		"id ~= '('":                 "is not valid",
		"id like 3":                 "pattern in single quotes",
		"cpu_total between 1 or 2":  "between 'a' and 'b'",
		strings.Repeat("(", 60) + "status = 'a'" + strings.Repeat(")", 60): "nested",
		"status = '" + strings.Repeat("a", 5000) + "'":                     "bytes",
	} {
		t.Run(says, func(t *testing.T) {
			_, err := tsl.Parse(search)
			require.ErrorContains(t, err, says)
		})
	}
}

func TestQuery_comparingTextWithNumber(t *testing.T) {
	object := map[string]any{"cpu_total": 12.0, "status": "Active", "managed": true, "plan": map[string]any{}}
	for _, search := range []string{"cpu_total = '12'", "status = 3", "managed = 'yes'", "plan = 'x'",
		"cpu_total like 'x'"} {
		query, err := tsl.Parse(search)
		require.NoError(t, err)
		_, err = query.Match(object)
		require.ErrorContains(t, err, "the field "+query.Names()[0])
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"status = 'Active'", "not (a in ('b', 3) or c is not null) and d between 1 and 2",
		"a.b.c ~= '^x'", "a like '%_'"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, search string) {
		query, err := tsl.Parse(search)
		if err != nil {
			return
		}
		_, err = query.Match(map[string]any{"status": "Active", "a": []any{1.0, "x", map[string]any{"b": true}}})
		if err != nil {
			require.ErrorContains(t, err, "the field")
		}
	})
}

func TestQuery_equal(t *testing.T) {
	for search, want := range map[string]string{
		"cluster_id = 'a'": "a",
		"status = 'Active' and (cluster_id = 'a' and x = 'b')": "a",
		"cluster_id = 'a' or status = 'b'":                     "",
		"not cluster_id = 'a'":                                 "",
		"cluster_id != 'a'":                                    "",
		"cluster_id like 'a'":                                  "",
		"cluster_id in ('a')":                                  "a",
		"cluster_id in ('a', 'b')":                             "",
		"":                                                     "",
	} {
		query, err := tsl.Parse(search)
		require.NoError(t, err, search)
		got, ok := query.Equal("cluster_id")
		require.Equal(t, want, got, search)
		require.Equal(t, want != "", ok, search)
	}
}
