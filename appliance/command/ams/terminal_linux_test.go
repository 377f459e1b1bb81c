package ams

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"landfall/appliance/ams"
	"landfall/appliance/command/terminaltest"
)

// login runs the command at an appliance, and returns the secret that the appliance has received.
func login(t *testing.T, in io.Reader, says io.Writer) (*ams.Secret, error) {
	t.Helper()
	received := &ams.Secret{}
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(received); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer appliance.Close()
	t.Setenv("LANDFALL_URL", appliance.URL)
	cmd := newLogin()
	cmd.SetArgs(nil)
	cmd.SetIn(in)
	cmd.SetErr(says)
	cmd.SetOut(says)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return received, cmd.ExecuteContext(t.Context())
}

func TestLogin_standardInput(t *testing.T) {
	var said bytes.Buffer
	received, err := login(t, strings.NewReader("token\n"), &said)
	require.NoError(t, err)
	require.Equal(t, &ams.Secret{OfflineToken: "token"}, received)
	require.NotContains(t, said.String(), "Offline token")
	_, err = login(t, strings.NewReader("\n"), &said)
	require.EqualError(t, err, "read the credentials: standard input is empty")
}

// A person ends the token with the key Enter, and nobody sees it.
func TestLogin_askedForOnTerminal(t *testing.T) {
	terminal, control := terminaltest.Open(t, 80)
	fd := int(control.Fd())
	typed := make(chan error, 1)
	go func() {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			state, err := unix.IoctlGetTermios(fd, unix.TCGETS)
			if err != nil {
				typed <- err
				return
			}
			if state.Lflag&unix.ECHO == 0 {
				_, err := control.WriteString("token\n")
				typed <- err
				return
			}
		}
		typed <- os.ErrDeadlineExceeded
	}()
	received, err := login(t, terminal, terminal)
	require.NoError(t, <-typed)
	require.NoError(t, err)
	require.Equal(t, &ams.Secret{OfflineToken: "token"}, received)
	shown := make([]byte, 4096)
	n, err := control.Read(shown)
	require.NoError(t, err)
	require.Contains(t, string(shown[:n]), "Offline token: ")
	require.NotContains(t, strings.TrimPrefix(string(shown[:n]), "Offline token: "), "token\r")
}

func TestPlan_nothingToSend(t *testing.T) {
	var out bytes.Buffer
	writePlans(&out, nil)
	require.Equal(t, "Nothing is to be sent.\n", out.String(), "AMS may never have been contacted")
}
