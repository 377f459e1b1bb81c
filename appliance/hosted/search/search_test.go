package search_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/search"
)

// cluster is a row of Clusters Service.
var cluster = map[string]any{
	"id": "1a2b", "state": "ready", "hypershift.enabled": true, "azure.subscription_id": "0f-aa",
	"azure.resource_group_name": "lab", "creation_timestamp": time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	"version": 4, "properties.owner": "anna",
}

func TestClusters_match(t *testing.T) {
	for text, want := range map[string]bool{
		"": true,
		"azure.subscription_id='0f-aa' and azure.resource_group_name='lab'": true,
		"azure.subscription_id='0F-AA' and azure.resource_group_name='Lab'": true, // the spelling of a resource ID
		"azure.resource_group_name in ('X', 'LAB')":                         true,
		"azure.resource_group_name like 'LA%'":                              true,
		"azure.resource_group_name ~= '^LAB\\w*$'":                          true,
		"id = '1A2B'": false,
		"hypershift.enabled = 'true' and not state = 'error'":                          true,
		"creation_timestamp > '2026-02-28T00:00:00Z'":                                  true,
		"creation_timestamp between '2026-01-01' and '2026-02-01'":                     false,
		"properties.owner = 'anna' and version >= 4":                                   true,
		"properties.owner is null or azure.tenant_id is null":                          true,
		"(state = 'error' or state = 'ready') and id not in ('1a2b')":                  false,
		"external_id = 'x' or external_id != 'x'":                                      false, // null
		"azure.subscription_id = '0f-aa' and azure.resource_group_name = 'laboratory'": false,
	} {
		expression, err := search.ParseClusters(text)
		require.NoError(t, err, text)
		got, err := expression.Match(func(field string) any { return cluster[field] })
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

// bundle is the payload of a resource bundle.
var bundle = map[string]any{"metadata": map[string]any{
	"labels": map[string]any{"api.openshift.com/id": "1a2b", "it's": "x"}, "generation": 3.0}}

func lookup(path []string) any {
	if path[0] != "payload" {
		return map[string]any{"id": "b1", "consumer_name": "mc1", "source": "maestro", "version": int64(3)}[path[0]]
	}
	var value any = bundle
	for _, key := range path[1:] {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[key]
	}
	return value
}

func TestMaestro_match(t *testing.T) {
	for text, want := range map[string]bool{
		"": true,
		"consumer_name = 'mc1' and source='maestro'":                      true,
		"source='maestro' and (consumer_name='a' or consumer_name='mc1')": true,
		"version = 3": true,
		"payload->'metadata'->'labels'->>'api.openshift.com/id'='1a2b'":                        true,
		"payload -> 'metadata' -> 'labels' ->> 'api.openshift.com/id' = '1a2b'":                true,
		"payload->'metadata'->'labels'->>'api.openshift.com/id' in ('x', '1a2b')":              true,
		"payload->'metadata'->'labels'->>'api.openshift.com/id' <> '1a2b'":                     false,
		"payload->'metadata'->'labels'->>'api.openshift.com/id'<>null":                         true,
		"payload->'metadata'->'labels'->>'other' = null":                                       true,
		"payload->'metadata'->'labels'->>'api.openshift.com/id' ilike '1A%'":                   true,
		"payload->'metadata'->'labels'->>'it''s' = 'x'":                                        true,
		"payload->'metadata'->>'generation' = '3'":                                             true, // ->> makes text
		`payload->'metadata'->'labels'@>'{"api.openshift.com/id":"1a2b"}'`:                     true,
		`payload->'metadata'->'labels' @> '{"api.openshift.com/id":"1a2b","other":"y"}'`:       false,
		`not payload->'metadata'->'labels' @> '{"a":"b"}' and (name is null or id = 'b1')`:     true,
		`payload->'metadata' @> '{"labels":{"it''s":"x"}}' and consumer_name in ('mc1','mc2')`: true,
	} {
		expression, err := search.ParseMaestro(text, search.BundleColumns)
		require.NoError(t, err, text)
		got, err := expression.MatchPath(lookup)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestMaestro_errorsNamePosition(t *testing.T) {
	for text, want := range map[string]string{
		"name = ":                     "expected text in single quotes or a number (at character 8)",
		"name = 'ä' ; x":              "(at character 12)",
		"payload->'metadata'->name":   "write the key in single quotes (at character 22)",
		"payload->'labels'@>'{'":      "needs a JSON object after @>",
		"payload->'a'->>'b' = 'c' or": "(at character 28)",
		"size = 3":                    "the search uses size, which is not a field of the list",
		"name->'a' = 'b'":             "only payload has members",
		"name = 'a":                   "closing quote (at character 8)",
	} {
		_, err := search.ParseMaestro(text, search.BundleColumns)
		require.ErrorContains(t, err, want, text)
	}
	_, err := search.ParseClusters("payload->'a' = 'b'")
	require.ErrorContains(t, err, "(at character 8)", "Clusters Service has no JSON paths")
}

func TestRequired_indexHints(t *testing.T) {
	label := search.PayloadLabel("api.openshift.com/id")
	for text, want := range map[string][]string{
		label + " = 'a'":                                       {"a"},
		label + " in ('b','a','b')":                            {"a", "b"},
		label + " = 'a' and consumer_name = 'mc1'":             {"a"},
		label + " in ('b','a') or " + label + " = 'c'":         {"a", "b", "c"},
		label + " in ('b','a') and " + label + " = 'c'":        {"c"},
		label + " = 'a' or consumer_name = 'mc1'":              nil,
		"not " + label + " = 'a'":                              nil,
		label + " like 'a'":                                    nil,
		"payload -> 'metadata'->'labels'->>'x' = 'a'":          nil,
		"(" + label + " = 'a') and (version = 3 or name > '')": {"a"},
	} {
		expression, err := search.ParseMaestro(text, search.BundleColumns)
		require.NoError(t, err, text)
		got, ok := expression.Required(label)
		require.Equal(t, want != nil, ok, text)
		if ok {
			require.Equal(t, want, got, text)
		}
	}
	clusters, err := search.ParseClusters("azure.subscription_id = 'ABC'")
	require.NoError(t, err)
	got, ok := clusters.Required("azure.subscription_id")
	require.True(t, ok)
	require.Equal(t, []string{"abc"}, got, "the index has lower case")
}

// checkPosition checks that an error names a character of the search, or the end.
func checkPosition(t *testing.T, text string, err error) {
	t.Helper()
	var located *search.Error
	require.True(t, errors.As(err, &located), "%v", err)
	require.LessOrEqual(t, located.Position, utf8.RuneCountInString(text)+1)
	require.NotEmpty(t, located.Reason)
}

func FuzzClusters(f *testing.F) {
	f.Add("azure.subscription_id='x' and azure.resource_group_name='y'")
	f.Add("not (id in ('a', 'b') or state is null) and name ~= '^a'")
	f.Fuzz(func(t *testing.T, text string) {
		expression, err := search.ParseClusters(text)
		if err != nil {
			checkPosition(t, text, err)
			return
		}
		matches, err := expression.Match(func(field string) any { return cluster[field] })
		if err != nil || !matches {
			return
		}
		for _, field := range expression.Fields() {
			if required, ok := expression.Required(field); ok {
				value, isText := cluster[field].(string)
				require.True(t, isText, field)
				require.Contains(t, required, value, "a match lacks the required value")
			}
		}
	})
}

func FuzzMaestro(f *testing.F) {
	f.Add("payload->'metadata'->'labels'->>'api.openshift.com/id'='1a2b'")
	f.Add(`payload->'metadata'->'labels'@>'{"a":"b"}' and consumer_name in ('a','b') or name <> null`)
	f.Add(strings.Repeat("not (", 10) + "id = 'x'" + strings.Repeat(")", 10))
	f.Fuzz(func(t *testing.T, text string) {
		expression, err := search.ParseMaestro(text, search.BundleColumns)
		if err != nil {
			checkPosition(t, text, err)
			return
		}
		_, _ = expression.MatchPath(lookup) // the types of values may differ; it must not panic
	})
}
