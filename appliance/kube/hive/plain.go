package hive

import (
	"maps"
	"slices"
	"strings"
)

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func joinComma(items []string) string { return strings.Join(items, ", ") }
