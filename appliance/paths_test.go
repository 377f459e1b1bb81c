package appliance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/web"
	"landfall/web/operation"
)

// wildcards are paths below the prefixes of routes that end in "*". Nobody may read them without
// credentials, and viewers may not read Secrets.
var wildcards = map[string]string{"/api/v1/*": "secrets", "/apis/*": "hive.openshift.io/v1/clusterdeployments",
	"/openapi/*": "v2", "/api/accounts_mgmt/v1/*": "subscriptions"}

// publicPaths are paths that everybody may read. A client may hope that only their beginning is
// checked.
var publicPaths = []string{"/health", "/healthz", "/version", "/ca.crt", "/boot-artifacts/kernel", "/assets"}

// pathTricks returns other spellings of a path, each as the target of a request line. Some program
// between a client and a server reads each of them as the path. Paths get different combinations,
// which depend on the turn.
func pathTricks(path string, turn int) []string {
	var tricks []string
	last := strings.LastIndex(path, "/")
	for i, separator := range []string{"//", "///", "/./", "/x/../", "/%2e/", "/x/%2e%2e/", "/x/..%2f", "%2f", "%2F",
		"%252f", "/.;/", "/x/..;/", "/;a=b/", `\`, `/\`, "%5c", "/%00/", "/x/%c0%ae%c0%ae/", "%e2%88%95", "/%0d%0a/",
		"/\t"} {
		if (i+turn)%2 == 0 {
			tricks = append(tricks, strings.ReplaceAll(path, "/", separator))
		} else {
			tricks = append(tricks, path[:last]+separator+path[last+1:])
		}
	}
	for _, end := range []string{"/", "//", "/.", "/x/..", "/%2e", "%2f", "%2f.", ";x", ";x=y/", "%3bx", "%00",
		"%00.css", "\x00", `\`, "%5c", "%20", "%09", "%0a", ".", ".css", "?", "?/health", "#", "%23", "%3f", "/*"} {
		tricks = append(tricks, path+end)
	}
	for _, before := range []string{"http://localhost", "HTTP://localhost", "https://localhost:443", "//localhost",
		"http://user@localhost", "/..", "/%2e%2e", "x", "../.."} {
		tricks = append(tricks, before+path)
	}
	for i, up := range []string{"/..", "/%2e%2e", "/..;", "%2f..", "/../../../.."} {
		tricks = append(tricks, publicPaths[(i+turn)%len(publicPaths)]+up+path)
	}
	var once, twice strings.Builder
	for _, c := range []byte(path) {
		if c == '/' {
			once.WriteByte(c)
			twice.WriteByte(c)
			continue
		}
		fmt.Fprintf(&once, "%%%02x", c)
		fmt.Fprintf(&twice, "%%25%02X", c)
	}
	name := once.String()[strings.LastIndex(once.String(), "/"):]
	return append(tricks, strings.ToUpper(path), path[:last]+strings.ToUpper(path[last:]),
		strings.Replace(path, "/api", "/Api", 1), once.String(), twice.String(), path[:last]+name)
}

// pathClient sends requests over one connection, and connects again after the server has closed it.
type pathClient struct {
	address string
	conn    net.Conn
	reader  *bufio.Reader
}

// pathAnswer is the answer to a request. The status is 0 if the server closed the connection.
type pathAnswer struct {
	status   int
	location string
	body     string // of a success
}

func (c *pathClient) close() {
	if c.conn != nil {
		_ = c.conn.Close() // the server may have closed it before
		c.conn = nil
	}
}

// send sends a request with a target that no library accepts. With only the head, it does not wait
// for the body, which may be endless.
func (c *pathClient) send(method, target string, as caller, onlyHead bool) (pathAnswer, error) {
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			return pathAnswer{}, err
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return pathAnswer{}, err
	}
	credentials := ""
	if as.header != "" {
		credentials = as.header + ": " + as.token + "\r\n"
	}
	_, err := fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\n"+
		"Content-Length: 2\r\n\r\n{}", method, target, credentials)
	response, readErr := http.ReadResponse(c.reader, &http.Request{Method: method})
	if err != nil || readErr != nil {
		c.close()
		return pathAnswer{}, nil // the server refuses the rest of the connection
	}
	got := pathAnswer{status: response.StatusCode, location: response.Header.Get("Location")}
	if onlyHead {
		c.close()
		return got, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return got, fmt.Errorf("read the body: %w", err)
	}
	if got.status < 300 {
		got.body = string(body)
	}
	if response.Close {
		c.close()
	}
	return got, nil
}

// serveAt serves a server of the appliance until the test ends, and returns its address.
func serveAt(t *testing.T, server *web.Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	runUntilEnd(t, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	return listener.Addr().String()
}

func runUntilEnd(t *testing.T, run task) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

// refusedRequest is a request that a listener refuses if its path is written plainly.
type refusedRequest struct {
	listener, method, path, caller string
	status                         int
}

// TestPaths_otherSpellingsOpenNothing sends every route in other spellings to all listeners. If the
// appliance refuses the plain path, it refuses the other spellings as well, or answers with the
// page, which everybody may read.
func TestPaths_otherSpellingsOpenNothing(t *testing.T) {
	g := newGuarded(t)
	runUntilEnd(t, g.kubeServer.api.Run)
	<-g.kubeServer.api.Ready()
	addresses := map[string]string{"main": serveAt(t, g.server), "boot": serveAt(t, g.bootServer)}
	first := &pathClient{address: addresses["main"]}
	defer first.close()
	page, err := first.send(http.MethodGet, "/", caller{}, false)
	require.NoError(t, err)
	work := make(chan refusedRequest)
	var sent atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			clients := map[string]*pathClient{}
			for listener, address := range addresses {
				clients[listener] = &pathClient{address: address}
				defer clients[listener].close()
			}
			turn := 0
			for r := range work {
				turn++
				for i, target := range pathTricks(r.path, turn) {
					if (i+turn/2)%2 == 0 {
						continue // another route, method or caller gets it
					}
					got, err := clients[r.listener].send(r.method, target, g.callers[r.caller], false)
					if opened := r.opened(got, page, err); opened != "" {
						t.Errorf("%s %q as %s on the %s listener: %s, but %s has the status %d", r.method, target,
							r.caller, r.listener, opened, r.path, r.status)
					}
					sent.Add(1)
				}
			}
		})
	}
	for _, r := range g.pathRequests() {
		plain := &pathClient{address: addresses[r.listener]}
		got, err := plain.send(r.method, r.path, g.callers[r.caller], true)
		if err != nil || got.status == 0 {
			t.Errorf("%s %s: status %d, %v", r.method, r.path, got.status, err)
		} else if r.status = got.status; r.status >= 300 {
			work <- r
		}
	}
	close(work)
	group.Wait()
	require.Greater(t, sent.Load(), int64(20_000))
}

// pathRequests returns a request for each route, listener and caller. A caller with a limited scope
// tries the objects of others.
func (g *guarded) pathRequests() []refusedRequest {
	var requests []refusedRequest
	add := func(listener string, routes map[*echo.Route]operation.Operation, callers ...string) {
		for route, o := range routes {
			if route.Method == operation.RouteNotFound || o.Head && route.Method == http.MethodHead ||
				o.Method == operation.Any && route.Method != http.MethodGet && route.Method != http.MethodPost {
				continue
			}
			path := route.Path
			if below, ok := wildcards[path]; ok {
				path = strings.TrimSuffix(path, "*") + below
			}
			path = strings.ReplaceAll(g.fill(path), "*", "x")
			for _, name := range callers {
				if !g.callers[name].foreign || path != route.Path && route.Method == http.MethodGet {
					requests = append(requests, refusedRequest{listener: listener, method: route.Method, path: path,
						caller: name})
				}
			}
		}
	}
	add("main", g.server.Routes(), "nobody", "viewer", "limited to others")
	add("boot", g.bootServer.Routes(), "viewer")
	return requests
}

// opened returns why an answer must not follow, or "".
func (r refusedRequest) opened(got, page pathAnswer, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case got.status >= 500 && got.status != http.StatusServiceUnavailable && got.status != http.StatusNotImplemented:
		return fmt.Sprintf("status %d", got.status)
	case got.status == 0 || got.status >= 400:
		return ""
	case got.status >= 300:
		// A redirect leads to another listener of the appliance, where the path is checked again.
		to, err := url.Parse(got.location)
		if err != nil || to.Hostname() != "" && to.Hostname() != "localhost" {
			return "it leads to " + got.location
		}
		return ""
	case got.body == page.body && page.status == http.StatusOK:
		return ""
	}
	return fmt.Sprintf("status %d, %.200q", got.status, got.body)
}
