package query

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const inventory = `{"cpu": {"count": 4}, "hostname": "h"}`

func TestMatches_results(t *testing.T) {
	var e Evaluator
	defer e.Close()
	for query, want := range map[string]bool{".cpu.count == 4": true, ".cpu.count > 4": false, ".hostname": false,
		"$ENV == {}": true} {
		got, err := e.Matches(t.Context(), query, []byte(inventory))
		require.NoError(t, err, query)
		require.Equal(t, want, got, query)
	}
	for query, reason := range map[string]string{".nosuch[": "parse the query", "empty": "no value",
		"true, true": "several values", `error("no")`: "run the query", "def f: f; f": errLimit.Error(),
		strings.Repeat("(", MaxBytes+1): "more than 65536 bytes"} {
		_, err := e.Matches(t.Context(), query, []byte(inventory))
		require.ErrorIs(t, err, ErrFailed, query)
		require.ErrorContains(t, err, reason, query)
	}
}

func TestMatches_greedyFunctions(t *testing.T) {
	var e Evaluator
	defer e.Close()
	for name, query := range map[string]string{
		"memory": `reduce range(40) as $i ("x"; . + .) | length == 1`,
		"time":   "[range(6e4)] as $a | $a - [range(6e4; 12e4)] | length == 1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := e.Matches(t.Context(), query, []byte(inventory))
			require.ErrorIs(t, err, ErrFailed)
			require.ErrorContains(t, err, errLimit.Error())
			got, err := e.Matches(t.Context(), "true", []byte(inventory))
			require.NoError(t, err)
			require.True(t, got)
		})
	}
}

func TestMatches_cancelled(t *testing.T) {
	var e Evaluator
	defer e.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Matches(ctx, "true", []byte(inventory))
	require.ErrorIs(t, err, context.Canceled)
	got, err := e.Matches(t.Context(), "true", []byte(inventory))
	require.NoError(t, err)
	require.True(t, got)
}

func TestCheck_reasons(t *testing.T) {
	require.NoError(t, Check(".cpu.count == 4"))
	require.ErrorContains(t, Check(".["), "is not a jq query")
	require.EqualError(t, Check(strings.Repeat(" ", MaxBytes+1)),
		"the query has 65537 bytes, at most 65536 are possible")
}
