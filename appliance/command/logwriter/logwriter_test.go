package logwriter_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/logwriter"
)

// childVariable makes the test binary write to a standard error that nobody reads.
const childVariable = "LANDFALL_LOGWRITER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	defer logwriter.IgnoreSIGPIPE()()
	_, err := os.Stderr.WriteString("to nobody\n")
	fmt.Print(err)
}

func TestIgnoreSIGPIPE_processGoesOn(t *testing.T) {
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stderr = writer
	out, err := child.Output()
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.Equal(t, "write /dev/stderr: broken pipe", string(out))
}

// stopped is a reader that takes a text when take says so.
type stopped struct {
	take chan struct{}

	mu    sync.Mutex
	texts strings.Builder
}

func (s *stopped) Write(text []byte) (int, error) {
	<-s.take
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts.Write(text)
}

func (s *stopped) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts.String()
}

func write(t *testing.T, w *logwriter.Writer, line string) {
	t.Helper()
	n, err := w.Write([]byte(line))
	require.NoError(t, err)
	require.Equal(t, len(line), n)
}

func TestWriter_stoppedReaderDelaysNobody(t *testing.T) {
	clock := clockwork.NewFakeClockAt(time.Unix(1_700_000_000, 0))
	reader := &stopped{take: make(chan struct{})}
	w := logwriter.New(reader, clock, func(lines int) []byte { return fmt.Appendf(nil, "%d dropped\n", lines) })
	first := make(chan struct{})
	go func() {
		defer close(first)
		write(t, w, "one\n")
	}()
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	clock.Advance(logwriter.Patience)
	<-first
	write(t, w, "two\n")
	write(t, w, "three\n")

	close(reader.take)
	require.Eventually(t, func() bool {
		write(t, w, "four\n")
		return strings.Contains(reader.text(), "four\n")
	}, time.Minute, time.Millisecond)
	require.Regexp(t, `^one\n[0-9]+ dropped\nfour\n$`, reader.text())
}
