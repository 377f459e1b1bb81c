package output

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/terminaltest"
)

func TestStyle_colorsOnTerminalsThatWantThem(t *testing.T) {
	terminal, _ := terminaltest.Open(t, 80)
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	for name, c := range map[string]struct {
		out           *os.File
		noColor, term string
		want          bool
	}{
		"terminal":               {terminal, "", "xterm", true},
		"terminal, NO_COLOR":     {terminal, "1", "xterm", false},
		"terminal without color": {terminal, "", "dumb", false},
		"file":                   {file, "", "xterm", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", c.noColor)
			t.Setenv("TERM", c.term)
			require.Equal(t, c.want, newStyle(c.out).colored)
		})
	}
}

func TestMetered_showsProgressOnTerminal(t *testing.T) {
	terminal, control := terminaltest.Open(t, 80)
	body, end := Metered(terminal, "restore", strings.NewReader("the backup"), 20)
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Equal(t, "the backup", string(text))
	requireShown(t, control, "restore", "50%")
	end()

	meter := NewMeter(terminal, "gc", 0)
	meter.Set(0, 0)
	requireShown(t, control, "gc") // a person sees that the work has begun
	meter.End()

	var file bytes.Buffer
	body, end = Metered(&file, "restore", strings.NewReader("the backup"), 20)
	_, err = io.ReadAll(body)
	require.NoError(t, err)
	end()
	require.Empty(t, file.String(), "a log of a script has no bar")
}

// requireShown reads from a terminal until it has shown the texts.
func requireShown(t *testing.T, control io.Reader, texts ...string) {
	t.Helper()
	shown, part := "", make([]byte, 4096)
	for slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(shown, text) }) {
		n, err := control.Read(part)
		require.NoError(t, err, shown)
		shown += string(part[:n])
	}
}

func TestOpenFile_refusesTerminal(t *testing.T) {
	terminal, _ := terminaltest.Open(t, 80)
	_, _, err := OpenFile("-", Private, terminal)
	require.ErrorContains(t, err, "-o - would write the file to the terminal")
}

func TestOpenFile_characterDevice(t *testing.T) {
	out, finish, err := OpenFile(os.DevNull, Private, nil)
	require.NoError(t, err)
	_, err = out.Write([]byte("text"))
	require.NoError(t, finish(err), "a character device can't be synchronized")
}

func TestGrid_widthOfTerminal(t *testing.T) {
	terminal, _ := terminaltest.Open(t, 33)
	t.Setenv("COLUMNS", "")
	require.Equal(t, 33, newGrid(terminal, true).width)
	t.Setenv("COLUMNS", "20")
	require.Equal(t, 20, newGrid(terminal, true).width, "COLUMNS replaces the terminal's width")
	for _, invalid := range []string{"0", "-1", "wide"} {
		t.Setenv("COLUMNS", invalid)
		require.Equal(t, 33, newGrid(terminal, true).width, "COLUMNS=%s", invalid)
	}
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	t.Setenv("COLUMNS", "20")
	require.Zero(t, newGrid(file, true).width, "a file has no width, and nothing is shortened")
}
