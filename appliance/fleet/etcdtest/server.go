//go:build etcd

package etcdtest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/porttest"
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
	name    string
	peer    string
	initial string // the servers of a new etcd: name=URL, separated by commas
	command *exec.Cmd
	log     bytes.Buffer
}

// Start runs a server until the test ends.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	s := newServer(t, "etcd", options)
	s.initial = s.name + "=http://" + s.peer
	s.Run(t)
	t.Cleanup(s.Kill)
	return s
}

func newServer(t testing.TB, name string, options Options) *Server {
	t.Helper()
	return &Server{Address: porttest.Reserve(t), peer: porttest.Reserve(t), DataDir: filepath.Join(t.TempDir(), name),
		options: options, name: name}
}

// StartCluster runs several servers as one etcd until the test ends.
func StartCluster(t testing.TB, size int) []*Server {
	t.Helper()
	var servers []*Server
	var initial []string
	for i := range size {
		s := newServer(t, fmt.Sprint("etcd", i), Options{})
		servers, initial = append(servers, s), append(initial, s.name+"=http://"+s.peer)
	}
	var starting sync.WaitGroup // each waits for the others
	for _, s := range servers {
		s.initial = strings.Join(initial, ",")
		t.Cleanup(func() { s.Kill() })
		metrics := s.start(t)
		starting.Go(func() { s.await(t, metrics) })
	}
	starting.Wait()
	return servers
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
	s.await(t, s.start(t))
}

// start starts the process. It returns the address at which it says whether it is healthy.
func (s *Server) start(t testing.TB) string {
	t.Helper()
	metrics := porttest.Reserve(t)
	arguments := []string{"--data-dir", s.DataDir, "--name", s.name, "--log-level", "error",
		"--logger", "zap", "--log-outputs", "stderr",
		"--listen-client-urls", s.URL(), "--advertise-client-urls", s.URL(),
		"--listen-peer-urls", "http://" + s.peer, "--initial-advertise-peer-urls", "http://" + s.peer,
		"--initial-cluster", s.initial, "--listen-metrics-urls", "http://" + metrics,
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
	return metrics
}

func (s *Server) await(t testing.TB, metrics string) {
	t.Helper()
	assert.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+metrics+"/health",
			nil)
		if !assert.NoError(t, err) {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, time.Minute, 10*time.Millisecond, "etcd does not answer: %s", &s.log)
}

// Kill ends the server at once.
func (s *Server) Kill() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}

// Stop suspends the server until Continue. It returns after the last of its threads has stopped,
// which can answer a request until then.
func (s *Server) Stop() error {
	if err := s.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.command.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil {
		return fmt.Errorf("wait until etcd has stopped: %w", err)
	}
	if !status.Stopped() {
		return fmt.Errorf("etcd ended: %s", &s.log)
	}
	return nil
}

// Continue wakes up a suspended server.
func (s *Server) Continue() error { return s.command.Process.Signal(syscall.SIGCONT) }
