package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
