//go:build etcd

package sequence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/etcdtest"
	"landfall/randtest"
	"landfall/store/wal"
)

// leaderEnv makes the test program a leader that appends records until it no longer leads. Its
// value is the URL of etcd and the prefix.
const leaderEnv = "LANDFALL_TEST_LEADER"

func TestMain(m *testing.M) {
	url, prefix, found := strings.Cut(os.Getenv(leaderEnv), " ")
	if !found {
		os.Exit(m.Run())
	}
	if err := appendAll(url, prefix); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// appendAll prints the outcome of each record: its number and "saved", "refused" or "unknown".
func appendAll(url, prefix string) error {
	ctx := context.Background()
	s, err := Open(Options{Endpoints: []string{url}, Prefix: prefix, Clock: clockwork.NewRealClock(),
		Lease: shortLease})
	if err != nil {
		return err
	}
	defer s.client.Close()
	leader, err := s.Campaign(ctx, Member{ID: "stopped"})
	if err != nil {
		return err
	}
	for number := leader.Head().Number + 1; ; number++ {
		err := leader.Append(ctx, number, fmt.Append(nil, "of the stopped leader: ", number))
		_, refused := errors.AsType[*wal.RefusedError](err)
		switch {
		case err == nil:
			fmt.Println(number, "saved")
			continue
		case refused:
			fmt.Println(number, "refused")
		default:
			fmt.Println(number, "unknown")
		}
		leader.Close()
		return nil
	}
}

// A leader is stopped for longer than its lease, and goes on when another one leads.
func TestAppend_stoppedLeader(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	r := randtest.New(t, 1)
	for range 3 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), leaderEnv+"="+server.URL()+" "+s.Prefix)
		output, err := child.StdoutPipe()
		require.NoError(t, err)
		child.Stderr = os.Stderr
		require.NoError(t, child.Start())
		t.Cleanup(func() { _ = child.Process.Kill() })
		outcomes := make(chan string, 1e6)
		go func() {
			defer close(outcomes)
			for lines := bufio.NewScanner(output); lines.Scan(); {
				outcomes <- lines.Text()
			}
		}()
		require.Contains(t, <-outcomes, "saved")
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond) // to stop it anywhere
		require.NoError(t, child.Process.Signal(syscall.SIGSTOP))

		second := lead(t, s, "second")
		first := second.Head().Number + 1
		for number := first; number < first+5; number++ {
			require.NoError(t, second.Append(t.Context(), number, []byte("of the second leader")))
		}
		require.NoError(t, child.Process.Signal(syscall.SIGCONT))
		log := contents(t, s, Position{})
		var number uint64
		var outcome string
		for line := range outcomes {
			_, err := fmt.Sscan(line, &number, &outcome)
			require.NoError(t, err)
			if outcome == "saved" {
				require.Less(t, number, first)
				require.Equal(t, fmt.Sprint("of the stopped leader: ", number), log[number-1])
			}
		}
		require.NoError(t, child.Wait())
		require.NotEqual(t, "saved", outcome, "it ended because it no longer led")
		if outcome == "refused" {
			require.Equal(t, first, number)
		}
		for n := first; n < first+5; n++ {
			require.Equal(t, "of the second leader", log[n-1])
		}
		second.Close()
	}
}
