//go:build etcd

package etcdtest

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Options configures a server.
type Options struct {
	// Sync makes the server sync its disk. Without it, other tests are not held up, and no test
	// kills the machine.
	Sync bool
	// Arguments are further arguments of etcd.
	Arguments []string
	// CertFile, KeyFile and ClientCAFile are PEM files for TLS with client certificates. Without
	// CertFile, the server uses no TLS.
	CertFile, KeyFile, ClientCAFile string
}

// Server is a running etcd with one member.
type Server struct {
	Address string // host:port for clients
	DataDir string
	options Options
	peer    string
	command *exec.Cmd
	log     bytes.Buffer
}

// Start runs a server until the test ends.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	s := &Server{Address: freeAddress(t), peer: freeAddress(t), DataDir: filepath.Join(t.TempDir(), "etcd"),
		options: options}
	s.Run(t)
	t.Cleanup(s.Kill)
	return s
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// URL returns the address of the server as a URL.
func (s *Server) URL() string { return s.scheme() + s.Address }

func (s *Server) scheme() string {
	if s.options.CertFile != "" {
		return "https://"
	}
	return "http://"
}

// Run starts the server again after Kill, with its data.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	metrics := freeAddress(t)
	arguments := []string{"--data-dir", s.DataDir, "--name", "etcd", "--log-level", "error",
		"--logger", "zap", "--log-outputs", "stderr",
		"--listen-client-urls", s.URL(), "--advertise-client-urls", s.URL(),
		"--listen-peer-urls", "http://" + s.peer, "--initial-advertise-peer-urls", "http://" + s.peer,
		"--initial-cluster", "etcd=http://" + s.peer, "--listen-metrics-urls", "http://" + metrics,
		// The shortest lease follows from these: one second instead of two.
		"--heartbeat-interval", "10", "--election-timeout", "100"}
	if !s.options.Sync {
		arguments = append(arguments, "--unsafe-no-fsync")
	}
	if s.options.CertFile != "" {
		arguments = append(arguments, "--cert-file", s.options.CertFile, "--key-file", s.options.KeyFile,
			"--client-cert-auth", "--trusted-ca-file", s.options.ClientCAFile)
	}
	s.command = exec.Command("etcd", append(arguments, s.options.Arguments...)...)
	s.command.Stdout, s.command.Stderr = &s.log, &s.log
	require.NoError(t, s.command.Start(), "install it by .ci/install-etcd")
	require.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+metrics+"/health",
			nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, 20*time.Second, 10*time.Millisecond, "etcd does not answer: %s", &s.log)
}

// Kill ends the server at once.
func (s *Server) Kill() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}

// Stop suspends the server until Continue.
func (s *Server) Stop() error { return s.command.Process.Signal(syscall.SIGSTOP) }

// Continue wakes up a suspended server.
func (s *Server) Continue() error { return s.command.Process.Signal(syscall.SIGCONT) }
