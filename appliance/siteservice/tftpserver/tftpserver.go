// Package tftpserver serves the files with which machines boot from the network by TFTP (RFC 1350
// and its options). It only reads.
package tftpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/pin/tftp/v3"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/siteservice/link"
)

// Port is the port of TFTP.
const Port = 69

const (
	// blockSize is the largest block in bytes. It passes networks with tunnels without
	// fragmentation. Clients ask for smaller blocks if they need them.
	blockSize = 1408
	// timeout and retries limit how long a client may be silent.
	timeout = 3 * time.Second
	retries = 8
	// maxName is the length of the longest file name in bytes.
	maxName = 512
	// maxTransfers is the maximum number of simultaneous transfers on an interface. Each has a
	// socket and buffers, and everybody in the network can start one. Further requests are refused.
	maxTransfers = 256
)

// ErrNotFound is the error of a file that does not exist.
var ErrNotFound = errors.New("file not found")

var (
	errBusy    = errors.New("too many transfers; try again")
	errStopped = errors.New("the server was stopped")
)

// Transfer is a transfer that has ended.
type Transfer struct {
	Client netip.Addr
	File   string
	Bytes  int
	Err    error // nil for a complete transfer
}

// Server is the TFTP server on one interface.
type Server struct {
	// Open returns the content of a file for a client.
	Open func(ctx context.Context, on link.Link, client netip.Addr, name string) ([]byte, error)
	// Permits reports whether a client outside of the networks of the interface may read files.
	Permits func(client netip.Addr) bool
	// Note receives the transfers that have ended.
	Note func(on link.Link, transfer Transfer)
	Port uint16
}

// Serve serves files at the IPv4 addresses of an interface until the context ends. It calls ready
// when its sockets are open. At the end of the context, transfers stop at their next block. A
// client that is silent then delays the return until its retries are used up.
func (s *Server) Serve(ctx context.Context, on link.Link, ready func()) error {
	if _, ok := on.IPv4(); !ok {
		return link.ErrNoAddress
	}
	group, ctx := errgroup.WithContext(ctx)
	places := make(chan struct{}, maxTransfers)
	var stops []func()
	stop := func() error {
		for _, stop := range stops {
			stop()
		}
		return group.Wait()
	}
	for _, address := range on.Addresses() {
		if !address.Is4() {
			continue
		}
		socket, err := link.ListenUDP(ctx, netip.AddrPortFrom(address, s.Port))
		if err != nil {
			return errors.Join(err, stop())
		}
		server := tftp.NewServer(func(name string, to io.ReaderFrom) error {
			select {
			case places <- struct{}{}:
			default:
				return errBusy
			}
			defer func() { <-places }()
			return s.send(ctx, on, name, to)
		}, nil)
		server.SetBlockSize(blockSize)
		server.SetTimeout(timeout)
		server.SetRetries(retries)
		stops = append(stops, func() {
			server.Shutdown()
			_ = socket.Close() // it is closed already, except if Shutdown came before Serve
		})
		group.Go(func() error { return server.Serve(socket) })
	}
	ready()
	<-ctx.Done()
	return stop()
}

// send sends a file to a client.
func (s *Server) send(ctx context.Context, on link.Link, name string, to io.ReaderFrom) error {
	transfer, ok := to.(tftp.OutgoingTransfer)
	if !ok {
		return fmt.Errorf("send %s: the transfer has no address", name)
	}
	remote := transfer.RemoteAddr()
	client := remote.AddrPort().Addr().Unmap()
	name, err := clean(name)
	if err != nil {
		return err
	}
	if !on.Contains(client) && !s.Permits(client) {
		return errors.New("this network is not served")
	}
	content, err := s.Open(ctx, on, client, name)
	if err != nil {
		return err
	}
	transfer.SetSize(int64(len(content)))
	sent, err := to.ReadFrom(reader{bytes.NewReader(content), ctx})
	s.Note(on, Transfer{Client: client, File: name, Bytes: int(sent), Err: err})
	return err
}

// reader reads a file until the context ends.
type reader struct {
	*bytes.Reader
	ctx context.Context
}

// Read implements io.Reader.
func (r reader) Read(into []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, errStopped
	}
	return r.Reader.Read(into)
}

// clean returns the name of a file without the slashes at its beginning, and with slashes instead
// of backslashes. Firmware writes both.
func clean(name string) (string, error) {
	if len(name) > maxName {
		return "", ErrNotFound
	}
	name = strings.TrimLeft(strings.ReplaceAll(name, `\`, "/"), "/")
	for strings.Contains(name, "//") {
		name = strings.ReplaceAll(name, "//", "/")
	}
	for _, c := range name {
		if c < ' ' || c > '~' {
			return "", ErrNotFound
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ".." || part == "" {
			return "", ErrNotFound
		}
	}
	return name, nil
}
