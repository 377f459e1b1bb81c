package appliance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
)

// pathParameter matches a parameter of a registered path.
var pathParameter = regexp.MustCompile(`:[a-z_]+|\*`)

// brokenOff is the trick after which the client closes its side of the connection.
const brokenOff = "broken-off body"

// tricks are texts of requests, made from a method and a path, that attack servers and proxies.
func tricks(method, path string) map[string]string {
	request := func(target, header, body string) string {
		return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\n%sConnection: close\r\n\r\n%s", method, target, header,
			body)
	}
	return map[string]string{
		"length and chunks": request(path, "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
			"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"two lengths":         request(path, "Content-Length: 4\r\nContent-Length: 5\r\n", "12345"),
		"negative length":     request(path, "Content-Length: -1\r\n", ""),
		"folded header":       request(path, "X-A: b\r\n Content-Length: 9\r\n", ""),
		"blank before colon":  request(path, "Content-Length : 4\r\n", "1234"),
		"bare carriage":       request(path, "X-A: b\rContent-Length: 4\r\n", "1234"),
		"long header":         request(path, "X-A: "+strings.Repeat("a", 200<<10)+"\r\n", ""),
		"many headers":        request(path, strings.Repeat("X-A: b\r\n", 20_000), ""),
		"long query":          request(path+"?x="+strings.Repeat("a", 60<<10), "", ""),
		"long path":           request(path+strings.Repeat("/a", 20<<10), "", ""),
		"double slashes":      request(strings.ReplaceAll(path, "/", "//"), "", ""),
		"dots":                request(path+"/../../../../etc/passwd", "", ""),
		"encoded dots":        request(path+"/%2e%2e/%2e%2e/etc/passwd", "", ""),
		"encoded slashes":     request(strings.ReplaceAll(path, "/", "%2f"), "", ""),
		"encoded end":         request(path+"%00", "", ""),
		"path parameters":     request(path+";jsessionid=1/..;/", "", ""),
		"backslashes":         request(path+`\..\..\`, "", ""),
		"invalid escape":      request(path+"%zz", "", ""),
		"invalid UTF-8":       request(path+"%ff%fe", "", ""),
		"absolute target":     request("http://example.com"+path, "", ""),
		"no target":           request("*", "", ""),
		"body that is none":   request(path, "Content-Type: application/json\r\nContent-Length: 3\r\n", "\x00\xff{"),
		"invalid query":       request(path+"?a=%zz&b;c", "", ""),
		"unknown expectation": request(path, "Expect: nothing\r\n", ""),
		brokenOff:             request(path, "Content-Type: application/json\r\nContent-Length: 9\r\n", `{"half`),
		"range":               request(path, "Range: bytes=18446744073709551615-0,-0\r\n", ""),
		"upgrade":             request(path, "Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n", ""),
	}
}

// TestRobustness_noInternalErrors sends malformed requests to each route. The appliance answers
// each with an error of the client, or closes the connection.
func TestRobustness_noInternalErrors(t *testing.T) {
	settings := config.Default()
	settings.TLS.Enabled, settings.Auth = false, config.AuthNone
	settings.DataDir, settings.Listen, settings.Kubernetes.Enabled = t.TempDir(), "127.0.0.1:0", true
	a, err := New(t.Context(), settings, slog.New(slog.DiscardHandler), "test")
	require.NoError(t, err)
	targets := map[string]string{} // path with sample parameters -> method
	for route := range a.server.Routes() {
		if method := route.Method; method == strings.ToUpper(method) && !strings.Contains(method, "_") {
			path := pathParameter.ReplaceAllString(route.Path, "6f1a1c0e-0000-4000-8000-000000000001")
			targets[method+" "+path] = method
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	address := strings.TrimPrefix(a.LocalURL(), "http://")
	work := make(chan func(), 8)
	done := make(chan struct{})
	for range cap(work) {
		go func() {
			for send := range work {
				send()
			}
			done <- struct{}{}
		}()
	}
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		_, path, _ := strings.Cut(target, " ")
		for name, text := range tricks(targets[target], path) {
			work <- func() {
				status, answer := rawExchange(t, address, text, name == brokenOff)
				// 501 is the answer to an unknown transfer coding, 503 to a missing live ISO
				if status >= 500 && status != http.StatusNotImplemented && status != http.StatusServiceUnavailable {
					t.Errorf("%s, %s: %d %s", target, name, status, answer)
				}
			}
		}
	}
	close(work)
	for range cap(work) {
		<-done
	}
	cancel()
	require.NoError(t, <-ended)
}

// rawExchange sends the text of a request. The status is 0 if the server closed the connection, or
// if the answer does not end.
func rawExchange(t *testing.T, address, text string, half bool) (status int, answer string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Error(err)
	}
	_, _ = io.WriteString(conn, text) // the server may close the connection before the end
	if half {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Error(err)
		}
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	content := make([]byte, 500)
	n, _ := io.ReadFull(response.Body, content)
	return response.StatusCode, string(content[:n])
}
