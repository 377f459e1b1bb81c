package profiling

import (
	"context"
	"net"
	"os"
)

// listenPrivately listens on a socket with mode 0600. The socket gets its mode after its creation.
// Until then, the umask decides; no connection is accepted before the mode is set.
func listenPrivately(ctx context.Context, config *net.ListenConfig, path string) (net.Listener, error) {
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}
