package people_test

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access/people"
	"landfall/store"
)

const fullDiskEnv = "TEST_FULL_DISK"

// withFullDisks runs the calling test again in a process of its own, whose file size limit
// simulates a full disk. It reports whether this is that process.
func withFullDisks(t *testing.T) bool {
	t.Helper()
	if os.Getenv(fullDiskEnv) != "" {
		signal.Ignore(syscall.SIGXFSZ)
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), fullDiskEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return false
}

func TestStartSession_onAFullDisk(t *testing.T) {
	if !withFullDisks(t) {
		return
	}
	s := newSite(t)
	s.setUp()
	limit := new(syscall.Rlimit)
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, limit))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: limit.Max}))
	var secret string
	for range 5000 { // free space inside the files holds some
		if secret = s.logIn("admin"); s.log.Len() > 0 {
			break
		}
	}
	require.Contains(t, s.log.String(), "A session could not be stored")
	require.True(t, s.loggedIn(secret), "people can log in")
	var failure *store.WriteError
	require.ErrorAs(t, s.SetPassword(t.Context(), "admin", "battery staple"), &failure)
	require.True(t, s.loggedIn(secret), "a failed change changes nothing")

	account, err := s.LogIn(t.Context(), "admin", password)
	require.NoError(t, err)
	ended, session, err := s.StartSession(t.Context(), account, people.Client{})
	require.NoError(t, err)
	require.ErrorAs(t, s.EndSession(t.Context(), session.ID), &failure)
	require.False(t, s.loggedIn(ended), "the session ends nevertheless")

	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, limit))
	s.clock.Advance(time.Minute)
	s.stop()
	s.restart(s.clock.Now())
	require.True(t, s.loggedIn(secret), "the session is stored as soon as there is space")
	require.False(t, s.loggedIn(ended))
}
