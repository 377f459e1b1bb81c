// Package commandtest has what the tests of the commands share: an appliance and live ISOs.
package commandtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance"
	"landfall/appliance/config"
	"landfall/isogen/skeleton"
)

// StartAppliance runs an appliance without live ISOs and returns its URL.
func StartAppliance(t *testing.T) string {
	t.Helper()
	settings := config.Default()
	settings.TLS.Enabled, settings.Auth = false, config.AuthNone
	settings.Egress.Allow = []string{"127.0.0.0/8"} // the servers of the tests
	settings.Listen, settings.DataDir = "127.0.0.1:0", t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	running, err := appliance.New(ctx, settings, slog.New(slog.DiscardHandler), "test")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return running.LocalURL()
}

// LiveISO writes a live ISO whose volume ID contains the OpenShift version 4.18. It returns the
// path.
func LiveISO(t *testing.T) string {
	t.Helper()
	return LiveISOOf(t, skeleton.ISO{VolumeID: "rhcos-418.94.202511191518-0"})
}

// LiveISOOf writes a live ISO and returns its path.
func LiveISOOf(t *testing.T, iso skeleton.ISO) string {
	t.Helper()
	var content bytes.Buffer
	require.NoError(t, skeleton.Write(&content, iso))
	path := filepath.Join(t.TempDir(), "live.iso")
	require.NoError(t, os.WriteFile(path, content.Bytes(), 0o600))
	return path
}

// DigestOf returns the SHA-256 of a file in hexadecimal digits.
func DigestOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
