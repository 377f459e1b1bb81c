package tftpserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pin/tftp/v3"
	"github.com/stretchr/testify/require"

	"landfall/appliance/siteservice/link"
)

// Operations of packets (RFC 1350, 5).
const (
	opRead, opData, opAck, opError = 1, 3, 4, 5
)

// start serves one file on the loopback interface. end stops the server and waits for its end.
func start(t *testing.T, content []byte) (address netip.AddrPort, transfers <-chan Transfer, end func(
	beforeWait ...func())) {
	t.Helper()
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, free.Close())
	address = netip.MustParseAddrPort(free.LocalAddr().String())
	noted := make(chan Transfer, 2*maxTransfers)
	s := &Server{
		Open: func(_ context.Context, _ link.Link, _ netip.Addr, name string) ([]byte, error) {
			if name != "efi/shimx64.efi" {
				return nil, ErrNotFound
			}
			return content, nil
		},
		Permits: func(netip.Addr) bool { return false },
		Note:    func(_ link.Link, transfer Transfer) { noted <- transfer },
		Port:    address.Port(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	lo := link.Link{Name: "lo", Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}}
	go func() { ended <- s.Serve(ctx, lo, func() { close(ready) }) }()
	<-ready
	return address, noted, func(beforeWait ...func()) {
		cancel()
		for _, f := range beforeWait {
			f()
		}
		require.NoError(t, <-ended)
	}
}

// client is a TFTP client that sends single packets.
type client struct {
	*net.UDPConn
	server netip.AddrPort
}

func newClient(t *testing.T, server netip.AddrPort) client {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	return client{conn, server}
}

func (c client) send(t *testing.T, to netip.AddrPort, operation uint16, rest string) {
	t.Helper()
	_, err := c.WriteToUDPAddrPort(append(binary.BigEndian.AppendUint16(nil, operation), rest...), to)
	require.NoError(t, err)
}

// receive returns the operation and the content of the next packet, and the port of its transfer.
func (c client) receive(t *testing.T) (operation uint16, rest string, from netip.AddrPort) {
	t.Helper()
	packet := make([]byte, 2048)
	n, from, err := c.ReadFromUDPAddrPort(packet)
	require.NoError(t, err)
	require.Greater(t, n, 2)
	return binary.BigEndian.Uint16(packet), string(packet[2:n]), from
}

// read starts a transfer and returns the first packet of it.
func (c client) read(t *testing.T, name string) (operation uint16, rest string, from netip.AddrPort) {
	t.Helper()
	c.send(t, c.server, opRead, name+"\x00octet\x00")
	return c.receive(t)
}

func TestServer_sendsFile(t *testing.T) {
	content := bytes.Repeat([]byte("landfall"), 10_000)
	address, transfers, end := start(t, content)
	defer end()
	reading, err := tftp.NewClient(address.String())
	require.NoError(t, err)
	file, err := reading.Receive(`\EFI\shimx64.efi`, "octet")
	require.Error(t, err, "names have upper and lower case")
	require.Nil(t, file)
	file, err = reading.Receive(`\efi\shimx64.efi`, "octet")
	require.NoError(t, err)
	var got bytes.Buffer
	_, err = file.WriteTo(&got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got.Bytes()))
	require.Equal(t, Transfer{Client: address.Addr(), File: "efi/shimx64.efi", Bytes: len(content)}, <-transfers)
	_, err = reading.Send("efi/shimx64.efi", "octet")
	require.Error(t, err, "the server only reads")
}

func TestServe_stopsDuringTransfer(t *testing.T) {
	address, transfers, end := start(t, make([]byte, 1<<20))
	c := newClient(t, address)
	operation, _, from := c.read(t, "efi/shimx64.efi")
	require.EqualValues(t, opData, operation)
	end(func() {
		c.send(t, from, opAck, "\x00\x01")
		operation, rest, _ := c.receive(t)
		for operation == opData && strings.HasPrefix(rest, "\x00\x01") {
			operation, rest, _ = c.receive(t) // the first block again, if this machine is slow
		}
		require.EqualValues(t, opError, operation)
		require.Contains(t, rest, errStopped.Error())
	})
	require.ErrorIs(t, (<-transfers).Err, errStopped)
}

func TestServer_refusesTooManyTransfers(t *testing.T) {
	address, _, end := start(t, make([]byte, 1<<20))
	c := newClient(t, address)
	transfers := map[netip.AddrPort]bool{}
	for len(transfers) < maxTransfers {
		operation, _, from := c.read(t, "efi/shimx64.efi")
		require.EqualValues(t, opData, operation)
		transfers[from] = true // the first block of an earlier transfer may arrive again
	}
	operation, rest, _ := c.read(t, "efi/shimx64.efi")
	for operation == opData {
		operation, rest, _ = c.receive(t)
	}
	require.EqualValues(t, opError, operation)
	require.Contains(t, rest, errBusy.Error())
	end(func() {
		for transfer := range transfers {
			c.send(t, transfer, opError, "\x00\x00the client has left\x00")
		}
	})
}

func TestClean_names(t *testing.T) {
	for name, want := range map[string]string{
		"grub.cfg":                            "grub.cfg",
		"/env/52-54-00-00-00-07/shimx64.efi":  "env/52-54-00-00-00-07/shimx64.efi",
		`\\env\52-54-00-00-00-07\shimx64.efi`: "env/52-54-00-00-00-07/shimx64.efi",
		"env//mac///grub.cfg":                 "env/mac/grub.cfg",
		"...":                                 "...",
	} {
		got, err := clean(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got)
	}
	for _, name := range []string{"", "/", "..", "../etc/passwd", "/../etc/passwd", `..\etc\passwd`, `env\..\..\etc`,
		"env/..", "./grub.cfg", "env/./grub.cfg", "env/", "grub.cfg\x00", "grub\n.cfg", "grüb.cfg",
		strings.Repeat("a", maxName+1)} {
		_, err := clean(name)
		require.ErrorIs(t, err, ErrNotFound, "%q", name)
	}
}

func FuzzClean(f *testing.F) {
	f.Add(`\\a/..\b`)
	f.Fuzz(func(t *testing.T, name string) {
		cleaned, err := clean(name)
		if err != nil {
			return
		}
		require.False(t, strings.HasPrefix(cleaned, "/"))
		require.NotContains(t, strings.Split(cleaned, "/"), "..")
		again, err := clean(cleaned)
		require.NoError(t, err)
		require.Equal(t, cleaned, again)
	})
}

// Case 47: over a lossy network, a block that gets lost is sent again, large blocks are negotiated
// down, and a client that ends the transfer is noted with its address.
func TestFault47_lossyNetwork(t *testing.T) {
	address, transfers, end := start(t, bytes.Repeat([]byte("landfall"), 1000))
	defer end()
	c := newClient(t, address)
	c.send(t, c.server, opRead, "efi/shimx64.efi\x00octet\x00blksize\x0065464\x00")
	operation, options, from := c.receive(t)
	require.EqualValues(t, 6, operation, "the options are acknowledged")
	size, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(options, "blksize\x00"), "\x00"))
	require.NoError(t, err)
	require.LessOrEqual(t, size, blockSize, "such packets pass every link")
	c.send(t, from, opAck, "\x00\x00")
	operation, first, _ := c.receive(t)
	require.EqualValues(t, opData, operation)
	operation, again, _ := c.receive(t) // nobody acknowledged it
	require.EqualValues(t, opData, operation)
	require.Equal(t, first, again)
	c.send(t, from, opError, "\x00\x00the firewall closed\x00")
	got := <-transfers
	require.Equal(t, address.Addr(), got.Client)
	require.ErrorContains(t, got.Err, "the firewall closed")
}
