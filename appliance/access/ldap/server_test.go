package ldap_test

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	ber "github.com/go-asn1-ber/asn1-ber"
	protocol "github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/require"
)

// fakeServer is an LDAP server that answers as its fields say. Its defaults are a correct directory
// with one person.
type fakeServer struct {
	net.Listener
	certificate tls.Certificate
	ca          string // the file of its certificate
	secure      bool   // ldaps://

	bind     func(dn, password string) (code int, message string)
	search   func(base, filter string) (entries []entry, code int)
	startTLS int                      // the result of StartTLS
	raw      func(conn net.Conn) bool // takes over the connection

	lock  sync.Mutex
	binds []string // the DNs
	found []string // the filters
	conns sync.WaitGroup
}

type entry struct {
	dn         string
	attributes map[string][]string
}

const (
	people  = "ou=people,dc=site"
	ana     = "uid=ana," + people
	crew    = "cn=crew,ou=groups,dc=site"
	service = "cn=landfall,dc=site"
)

func anaEntry() entry {
	return entry{ana, map[string][]string{"uid": {"ana"}, "entryUUID": {"b1"}, "memberOf": {crew}}}
}

func startServer(t *testing.T, change func(*fakeServer)) *fakeServer {
	t.Helper()
	s := &fakeServer{ca: filepath.Join(t.TempDir(), "ca.pem")}
	s.bind = func(dn, password string) (int, string) {
		if dn == service && password == "service" || dn == ana && password == "secret" {
			return protocol.LDAPResultSuccess, ""
		}
		return protocol.LDAPResultInvalidCredentials, ""
	}
	s.search = func(_, filter string) ([]entry, int) {
		if filter == "(uid=ana)" {
			return []entry{anaEntry()}, protocol.LDAPResultSuccess
		}
		return nil, protocol.LDAPResultSuccess
	}
	if change != nil {
		change(s)
	}
	web := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	web.Close()
	s.certificate = web.TLS.Certificates[0]
	require.NoError(t, os.WriteFile(s.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: web.Certificate().Raw}), 0o600))
	var err error
	s.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.conns.Go(func() {
		for {
			conn, err := s.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = s.Close()
		s.conns.Wait()
	})
	return s
}

func (s *fakeServer) url() string {
	if s.secure {
		return "ldaps://" + s.Addr().String()
	}
	return "ldap://" + s.Addr().String()
}

func (s *fakeServer) tls(conn net.Conn) net.Conn {
	return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{s.certificate}, MinVersion: tls.VersionTLS12})
}

// serve answers the requests of one connection (RFC 4511).
func (s *fakeServer) serve(conn net.Conn) {
	defer conn.Close()
	if s.raw != nil && s.raw(conn) {
		return
	}
	if s.secure {
		conn = s.tls(conn)
	}
	for {
		packet, err := ber.ReadPacket(conn)
		if err != nil || len(packet.Children) < 2 {
			return
		}
		id, request := packet.Children[0].Value.(int64), packet.Children[1]
		text := func(i int) string { return request.Children[i].Data.String() }
		switch request.Tag {
		case protocol.ApplicationBindRequest:
			s.lock.Lock()
			s.binds = append(s.binds, text(1))
			s.lock.Unlock()
			code, message := s.bind(text(1), text(2))
			send(conn, id, result(protocol.ApplicationBindResponse, code, message))
		case protocol.ApplicationSearchRequest:
			filter, err := protocol.DecompileFilter(request.Children[6])
			if err != nil {
				return
			}
			s.lock.Lock()
			s.found = append(s.found, filter)
			s.lock.Unlock()
			entries, code := s.search(text(0), filter)
			for _, e := range entries {
				send(conn, id, e.packet())
			}
			send(conn, id, result(protocol.ApplicationSearchResultDone, code, ""))
		case protocol.ApplicationExtendedRequest:
			send(conn, id, result(protocol.ApplicationExtendedResponse, s.startTLS, ""))
			if s.startTLS == protocol.LDAPResultSuccess {
				conn = s.tls(conn)
			}
		default:
			return
		}
	}
}

func send(conn net.Conn, id int64, response *ber.Packet) {
	packet := ber.Encode(ber.ClassUniversal, ber.TypeConstructed, ber.TagSequence, nil, "")
	packet.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagInteger, id, ""))
	packet.AppendChild(response)
	_, _ = conn.Write(packet.Bytes())
}

func octets(text string) *ber.Packet {
	return ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, text, "")
}

func result(tag ber.Tag, code int, message string) *ber.Packet {
	packet := ber.Encode(ber.ClassApplication, ber.TypeConstructed, tag, nil, "")
	packet.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagEnumerated, int64(code), ""))
	packet.AppendChild(octets(""))
	packet.AppendChild(octets(message))
	return packet
}

func (e entry) packet() *ber.Packet {
	packet := ber.Encode(ber.ClassApplication, ber.TypeConstructed, protocol.ApplicationSearchResultEntry, nil, "")
	packet.AppendChild(octets(e.dn))
	attributes := ber.NewSequence("")
	for name, values := range e.attributes {
		attribute := ber.NewSequence("")
		attribute.AppendChild(octets(name))
		set := ber.Encode(ber.ClassUniversal, ber.TypeConstructed, ber.TagSet, nil, "")
		for _, value := range values {
			set.AppendChild(octets(value))
		}
		attribute.AppendChild(set)
		attributes.AppendChild(attribute)
	}
	packet.AppendChild(attributes)
	return packet
}
