// Package profiling serves the profiles of the Go runtime on a Unix socket that only the user of
// the appliance may open. A profile shows functions and addresses of memory, and no data.
package profiling

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Server serves profiles. A nil Server serves nothing.
type Server struct{ listener net.Listener }

// Listen listens on a socket with the given path. An empty path means no server. A socket that an
// earlier process left is replaced; one that a process serves, and any other file, is an error.
func Listen(ctx context.Context, path string) (*Server, error) {
	if path == "" {
		return nil, nil
	}
	if err := removeSocket(ctx, path); err != nil {
		return nil, err
	}
	// The socket may be in the data directory, which the first start makes later, with this mode.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the socket in profiling.socket: %w", err)
	}
	listener, err := private.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on the socket in profiling.socket: %w", err)
	}
	// Systems other than Linux ignore the mode that the socket had before it got its path.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect the socket in profiling.socket: %w", err), listener.Close())
	}
	return &Server{listener}, nil
}

// private makes sockets that only their user may open, from the moment at which they have a path:
// Linux takes the mode of the file from the mode of the socket.
var private = net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
	return socket.Control(func(fd uintptr) {
		_ = syscall.Fchmod(int(fd), 0o600) // not possible on some systems; see Listen
	})
}}

func removeSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for the socket in profiling.socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("profiling.socket is %s, which exists and is not a socket; give another path", path)
	}
	if conn, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
		return errors.Join(fmt.Errorf("profiling.socket is %s, which another process serves; stop it, or give another "+
			"path", path), conn.Close())
	}
	return os.Remove(path)
}

// Run serves profiles until the context ends, and removes the socket.
func (s *Server) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	paths := http.NewServeMux()
	paths.HandleFunc("/debug/pprof/", pprof.Index)
	paths.HandleFunc("/debug/pprof/profile", pprof.Profile)
	paths.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	paths.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: paths, ReadHeaderTimeout: 10 * time.Second}
	var closing sync.WaitGroup
	defer closing.Wait()
	ended := make(chan struct{})
	defer close(ended)
	closing.Go(func() {
		select {
		case <-ctx.Done():
		case <-ended:
		}
		server.Close() // ends a profile that is being written
	})
	if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve profiles: %w", err)
	}
	return nil
}

// Close closes the socket of a server that does not run.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
