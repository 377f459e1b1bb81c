// Package registry simulates a mirror registry. It contains an OCI registry, and functions that
// fill it with release payloads and operator catalogs.
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
)

// Registry is an OCI registry in this process: plain HTTP, without authentication. It serves every
// blob in every repository. Unlike a real mirror, it therefore cannot lack a blob in one repository
// only.
type Registry struct {
	Addr string // host:port

	server *http.Server
	done   chan error
	dir    string
}

// New starts an empty registry on an address such as 127.0.0.1:0. It keeps blobs in a temporary
// directory until Close. It logs requests at debug level; a nil logger discards them.
func New(ctx context.Context, listen string, logger *slog.Logger) (*Registry, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	dir, err := os.MkdirTemp("", "landfall-registry-")
	if err != nil {
		return nil, fmt.Errorf("start the simulated registry: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the simulated registry: %w", err), os.RemoveAll(dir))
	}
	lines := slog.NewLogLogger(logger.Handler(), slog.LevelDebug)
	r := &Registry{
		Addr: listener.Addr().String(),
		dir:  dir,
		done: make(chan error, 1),
		server: &http.Server{
			Handler: ggcr.New(ggcr.WithBlobHandler(ggcr.NewDiskBlobHandler(dir)),
				ggcr.Logger(lines)),
			ErrorLog:    lines,
			BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		},
	}
	go func() { r.done <- r.server.Serve(listener) }()
	return r, nil
}

// Close stops the registry and removes its blobs.
func (r *Registry) Close() error {
	err := r.server.Close()
	if served := <-r.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}
