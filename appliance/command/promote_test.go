package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/replica"
)

// TestPromote_asksAPerson replaces a running and a stopped appliance by their replica, and decides
// for the former one again.
func TestPromote_asksAPerson(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("first-replica", 0o700))
	running, stop := startIn(t, "first")
	stopOnce := func() { stop(); stop = func() {} }
	defer func() { stopOnce() }()
	refused := landfall(t, "promote", "first-replica", "--data-dir", "second", "--yes")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.errOut, running.URLs()[0])
	require.Contains(t, refused.errOut, "stop it first")
	require.NoDirExists(t, "second")
	stopOnce()

	refused = landfall(t, "promote", "first-replica", "--data-dir", "second")
	require.NotZero(t, refused.code, "nobody has answered")
	require.NoDirExists(t, "second")
	promoted := landfall(t, "promote", "first-replica", "--data-dir", "second", "--yes")
	require.Zero(t, promoted.code, promoted.errOut)
	require.Contains(t, promoted.out, "owns the replica")
	require.Contains(t, promoted.out, "seal.key")
	status := landfall(t, "replica", "status", "first-replica")
	require.Contains(t, status.out, "It was promoted in place of "+running.URLs()[0])

	serve := []string{"serve", "--listen", "127.0.0.1:0", "--boot-listen", "none", "--replica-to", "first-replica",
		"--data-dir"}
	former := landfall(t, append(serve, "first")...)
	require.Equal(t, 1, former.code)
	require.Contains(t, former.errOut, "Two appliances must not serve one site")

	claimed := landfall(t, "replica", "claim", "first-replica", "--data-dir", "first", "--yes")
	require.Zero(t, claimed.code, claimed.errOut)
	_, stop = startIn(t, "first")
	stopOnce()
	verified := landfall(t, "replica", "verify", "first-replica")
	require.Zero(t, verified.code, verified.out)
	frames, err := filepath.Glob("first-replica/log/*/*.frames")
	require.NoError(t, err)
	text, err := os.ReadFile(frames[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(frames[0], append(text[:len(text)-1], text[len(text)-1]^1), 0o600))
	verified = landfall(t, "replica", "verify", "first-replica")
	require.Equal(t, 1, verified.code)
	require.Contains(t, verified.out, frames[0])
	require.True(t, replica.IsReplica("first-replica"))
}

// TestPromote_secondAppliance sends the replica to a second appliance, takes over there, and
// decides for the first one again from afar.
func TestPromote_secondAppliance(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("received", 0o700))
	require.NoError(t, os.WriteFile("replica.token", []byte(strings.Repeat("secret", 6)), 0o600))
	receiving, stopSecond := startWith(t, "second", func(c *config.Config) {
		c.Replica.Receive, c.Replica.ReceiveTokenFile = "received", "replica.token"
	})
	t.Cleanup(stopSecond)
	address := "https" + strings.TrimPrefix(receiving.LocalURL(), "http")
	sends := func(c *config.Config) {
		c.Auth, c.Replica.To = config.AuthNone, address
		c.Replica.TokenFile, c.Replica.CAFile = "replica.token", filepath.Join("second", "ca.crt")
	}
	first, stop := startWith(t, "first", sends)
	require.Eventually(t, func() bool {
		status := landfall(t, "replica", "status", "--url", first.LocalURL())
		return status.code == 0 && strings.Contains(status.out, "Replica in "+address) &&
			strings.Contains(status.out, "It has all changes up to")
	}, time.Minute, 50*time.Millisecond)
	stop()
	require.Contains(t, landfall(t, "replica", "verify", "received").out, "Everything is whole.")
	promoted := landfall(t, "promote", "received", "--data-dir", "promoted", "--yes")
	require.Zero(t, promoted.code, promoted.errOut)

	former := landfall(t, "serve", "--listen", "127.0.0.1:0", "--boot-listen", "none", "--data-dir", "first",
		"--replica-to", address, "--replica-token-file", "replica.token", "--replica-ca-file", "second/ca.crt")
	require.Equal(t, 1, former.code)
	require.Contains(t, former.errOut, "Two appliances must not serve one site")
	claim := []string{"replica", "claim", address, "--data-dir", "first", "--yes", "--ca", "second/ca.crt",
		"--token-file"}
	require.NoError(t, os.WriteFile("wrong.token", []byte(strings.Repeat("wrong", 7)), 0o600))
	wrong := landfall(t, append(claim, "wrong.token")...)
	require.Equal(t, 1, wrong.code)
	require.Contains(t, wrong.errOut, "refuses the credential in wrong.token")
	claimed := landfall(t, append(claim, "replica.token")...)
	require.Zero(t, claimed.code, claimed.errOut)
	_, stop = startWith(t, "first", sends)
	stop()
}
