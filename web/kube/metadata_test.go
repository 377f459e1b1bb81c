package kube

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetadataOf_likeEncodingJSON(t *testing.T) {
	texts := []string{`{}`, `{"metadata":null}`, `{"kind":"A","metadata":{"name":"}\\\""},"spec":{"metadata":1}}`,
		`{"a":1,"metadata":{"b":[{},[]]}}`, `{"a":"metadata","b":{"metadata":{}},"metadata":{"c":true}}`,
		"{\"kind\": \"Secret\", \"metadata\": {\"name\": \"a\"}}\n", `{"metadata":{"uid":"x"},"spec":-1.5e3}`}
	chance := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		object := map[string]any{"kind": "A", "apiVersion": "v1"}
		for _, field := range []string{"data", "metadata", "spec", "status"} {
			object[field] = randomValue(chance, 4)
		}
		text, err := json.Marshal(object)
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		var expected struct {
			Metadata json.RawMessage `json:"metadata"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &expected), text)
		if expected.Metadata == nil {
			expected.Metadata = json.RawMessage("null")
		}
		require.JSONEq(t, string(expected.Metadata), string(metadataOf([]byte(text))), text)
	}
}

func randomValue(chance *rand.Rand, depth int) any {
	switch kind := chance.IntN(8); {
	case kind < 2 && depth > 0:
		object := map[string]any{}
		for range chance.IntN(4) {
			object[fmt.Sprint(randomValue(chance, 0))] = randomValue(chance, depth-1)
		}
		return object
	case kind == 2 && depth > 0:
		var list []any
		for range chance.IntN(4) {
			list = append(list, randomValue(chance, depth-1))
		}
		return list
	case kind == 3:
		return nil
	case kind == 4:
		return chance.Float64() * 1e6
	case kind == 5:
		return chance.IntN(2) == 0
	}
	parts, text := []string{`\`, `"`, `{`, `}`, `]`, `,`, `:`, "metadata", "ü", "\n", "<"}, ""
	for range chance.IntN(6) {
		text += parts[chance.IntN(len(parts))]
	}
	return text
}
