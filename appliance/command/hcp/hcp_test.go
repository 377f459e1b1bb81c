package hcp

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/web"
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

// An appliance without hosted clusters answers, so that the page and the commands can say why.
func TestList_disabledHostedClusters(t *testing.T) {
	server := web.New(web.Options{})
	require.NoError(t, server.Register(hosted.DisabledOperations()...))
	appliance := httptest.NewServer(server)
	defer appliance.Close()
	t.Setenv("LANDFALL_URL", appliance.URL)
	for _, arguments := range [][]string{{"list"}, {"consumers"}} {
		cmd := New()
		cmd.SetArgs(arguments)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), "set hosted.enabled to true and restart", arguments)
	}
}
