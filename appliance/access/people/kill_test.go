package people_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

const killedDirEnv = "TEST_KILLED_DIR"

// A process that sets up the appliance is killed at many moments. Afterwards there is a setup code
// or an account, and the next start leaves exactly one of both.
func TestSetUp_killedAtAnyMoment(t *testing.T) {
	if dir := os.Getenv(killedDirEnv); dir != "" {
		s := &site{t: t, dir: dir, clock: clockwork.NewFakeClock()}
		s.start()
		_, err := os.Stdout.WriteString("opened\n")
		require.NoError(t, err)
		s.setUp()
		select {} // until the kill
	}
	const moments = 12
	made := 0
	for moment := range moments {
		s := newSite(t)
		require.NoError(t, s.db.Close())
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), killedDirEnv+"="+s.dir)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		_, err = out.Read(make([]byte, 1))
		require.NoError(t, err)
		<-time.After(time.Duration(moment) * time.Millisecond)
		require.NoError(t, child.Process.Kill())
		require.Error(t, child.Wait())

		_, noFile := os.Stat(s.codeFile())
		s.start()
		if s.SetupPending() {
			require.NoError(t, noFile)
			s.setUp()
		} else {
			made++
			require.NoFileExists(t, s.codeFile())
			require.True(t, s.loggedIn(s.logIn("admin")))
		}
	}
	t.Logf("%d of %d kills came after the account was made", made, moments)
}
