package appliance_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/web/console"
)

// TestDataKey_rotationSurvivesKills kills the appliance at random moments of rotations. Each start
// opens all data, and completes the rotation.
func TestDataKey_rotationSurvivesKills(t *testing.T) {
	s := newSite(t)
	v := newApplianceProcess(t, s)
	v.start(t)
	env := create(t, v.address+apiPath+"/infra-envs", s.newInfraEnv("own"))
	config := func() []byte {
		got := call(t, http.MethodGet, v.address+apiPath+"/infra-envs/"+env+
			"/downloads/files?file_name=discovery.ign", nil)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		return got.body
	}
	require.NotEmpty(t, config())
	readKeys := func() []byte {
		content, err := os.ReadFile(filepath.Join(s.config.DataDir, "data.key"))
		require.NoError(t, err)
		return content
	}
	changed := 0
	for range 12 {
		before := readKeys()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, v.address+console.DataKeyRoute, nil)
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close() // the kill may interrupt it
			}
		}()
		select {
		case <-ended:
		case <-time.After(time.Duration(rand.IntN(30_000)) * time.Microsecond):
		}
		v.kill(t)
		<-ended
		cancel()
		if !bytes.Equal(before, readKeys()) {
			changed++
		}
		v.start(t)
		require.NotEmpty(t, config(), "the pull secret opens")
	}
	require.Positive(t, changed, "the kills came before all rotations")
	require.Equal(t, http.StatusNoContent, call(t, http.MethodPost, v.address+console.DataKeyRoute, nil).status)
	v.kill(t)
	v.start(t)
	require.NotEmpty(t, config())
}
