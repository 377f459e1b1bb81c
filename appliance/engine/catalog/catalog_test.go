package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOperatorHub(t *testing.T) {
	text, err := OperatorHub([]Origin{{Catalog: "redhat-operators", Source: "cs-redhat"},
		{Catalog: "certified-operators"}})
	require.NoError(t, err)
	require.Contains(t, string(text), "- name: certified-operators\n          disabled: false")
	require.NotContains(t, string(text), "- name: redhat-operators")
	text, err = OperatorHub([]Origin{{Catalog: "redhat-operators"}})
	require.NoError(t, err)
	require.Nil(t, text)
}
