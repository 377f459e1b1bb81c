package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"landfall/appliance/config"

	"landfall/store"
	"landfall/web"
	"landfall/web/image"
)

// bootServer serves images and boot files and nothing else, in plain http, for machines and
// management controllers that speak nothing better or sit in a network that must not reach the
// rest.
type bootServer struct {
	listener net.Listener
	port     string
	server   *web.Server
}

// listenForBoot returns nil if the configuration asks for no such listener.
func listenForBoot(ctx context.Context, config config.Config, logger *slog.Logger) (*bootServer, error) {
	if config.BootListen == "" {
		return nil, nil
	}
	listener, err := web.Listen(ctx, config.BootListen)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.ReplaceAll(err.Error(), "--listen", "--boot-listen"))
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	logger.Info("Images and boot files are also served on a listener of their own.", "address",
		listener.Addr().String())
	server := web.New(web.Options{Logger: logger, Quiet: image.Quiet, ShutdownTimeout: config.Timeouts.Shutdown})
	return &bootServer{listener, port, server}, nil
}

func (b *bootServer) serve(ctx context.Context) error {
	listener := b.listener
	b.listener = nil // the server closes it
	return b.server.Serve(ctx, listener)
}

func (b *bootServer) close() error {
	if b.listener == nil {
		return nil
	}
	return b.listener.Close()
}

// networks says how the appliance is reached by each of its URLs: for the page and the APIs, and
// for images and boot files.
func networks(urls []string, boot *bootServer) (image.Networks, error) {
	var found image.Networks
	for _, address := range urls {
		network := image.Network{URL: address, Boot: address}
		if boot != nil {
			parsed, err := url.Parse(address)
			if err != nil {
				return nil, fmt.Errorf("read the URL %s: %w", address, err)
			}
			network.Boot = "http://" + net.JoinHostPort(parsed.Hostname(), boot.port)
		}
		found = append(found, network)
	}
	return found, nil
}

// followInfraEnvs has images forgotten whose infra-env was deleted, so that their readers get
// nothing more, and codes asked for again that may have been revoked.
func (a *Appliance) followInfraEnvs(ctx context.Context) error {
	const prefix = "/infra-envs/"
	for from := a.db.Revision(); ctx.Err() == nil; from = a.db.Revision() {
		watcher := a.db.Watch(ctx, from, prefix)
		for changes := range watcher.C() {
			for _, change := range changes {
				infraEnvID := strings.TrimPrefix(change.Key, prefix)
				if change.Deleted {
					a.downloads.Forget(infraEnvID)
				} else {
					a.downloads.Recall(infraEnvID)
				}
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow the infra-envs' changes: %w", err)
		}
	}
	return nil
}
