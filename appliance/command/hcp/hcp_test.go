package hcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/web/hosted"
)

func TestPool_arguments(t *testing.T) {
	p, err := parsePool("workers=large:3")
	require.NoError(t, err)
	require.Equal(t, hosted.NewPool{Name: "workers", Profile: "large", Replicas: 3}, p)
	for _, bad := range []string{"", "workers", "workers=large", "workers=:3", "=large:3", "workers=large:x",
		"workers=large:-1"} {
		_, err := parsePool(bad)
		require.ErrorContains(t, err, "NAME=PROFILE:REPLICAS", bad)
	}
}
