package sequence

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// loadTLS reads the certificates. The files of the client certificate are read again for each
// connection, so a renewed certificate is used without a restart. It returns nil without https
// URLs.
func loadTLS(options Options) (*tls.Config, error) {
	if !slices.ContainsFunc(options.Endpoints, func(url string) bool { return strings.HasPrefix(url, "https:") }) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if options.CAFile != "" {
		pem, err := os.ReadFile(options.CAFile)
		if err != nil {
			return nil, &CertificateError{Err: err}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &CertificateError{Err: fmt.Errorf("%s has no certificate in PEM", options.CAFile)}
		}
	}
	if options.CertFile != "" || options.KeyFile != "" {
		load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(options.CertFile, options.KeyFile)
			return &pair, err
		}
		if _, err := load(nil); err != nil {
			return nil, &CertificateError{Err: err}
		}
		config.GetClientCertificate = load
	}
	return config, nil
}

// diagnose finds out why no server answered: etcd's client waits until a connection is there and
// keeps the reason to itself. It returns nil if a server accepts connections.
func (s *Sequence) diagnose(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, diagnosis)
	defer cancel()
	var last error
	for _, endpoint := range s.Endpoints {
		address, err := url.Parse(endpoint)
		if err != nil {
			return &UnreachableError{Endpoints: s.Endpoints, Err: err}
		}
		last = s.connect(ctx, address)
		if _, certificate := errors.AsType[*CertificateError](last); last == nil || certificate {
			return last
		}
	}
	return &UnreachableError{Endpoints: s.Endpoints, Err: last}
}

var (
	errPlain = errors.New("it seems not to use TLS; give its URL with http://")
	errTLS   = errors.New("it seems to use TLS; give its URL with https://")
)

// asksForTLS returns errTLS if a server ends a connection without TLS. Otherwise a server of HTTP/2
// sends its settings.
func asksForTLS(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(diagnosis / 2)); err != nil {
		return err
	}
	// the preface and empty settings (RFC 9113, section 3.4)
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		return err
	}
	first := make([]byte, 1)
	_, err := conn.Read(first)
	if err == nil && first[0] == 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil // the length of its settings, or it hangs
	}
	return errTLS
}

func (s *Sequence) connect(ctx context.Context, address *url.URL) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	if s.tls == nil {
		return asksForTLS(conn)
	}
	config := s.tls.Clone()
	config.ServerName, config.NextProtos = address.Hostname(), []string{"h2"}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if errors.Is(err, io.EOF) || errors.As(err, new(tls.RecordHeaderError)) {
			return errPlain
		}
		return &CertificateError{Err: err}
	}
	// In TLS 1.3 the server checks the client's certificate after the handshake. It then sends an
	// alert. A server that accepts it sends its settings of HTTP/2.
	if err := secured.SetReadDeadline(time.Now().Add(diagnosis)); err != nil {
		return err
	}
	if _, err := secured.Read(make([]byte, 1)); err != nil {
		if strings.Contains(err.Error(), "remote error: tls") { // the type is not exported
			return &CertificateError{Err: err}
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}
