package egress

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func newRules(t *testing.T, options Options) *Rules {
	t.Helper()
	rules, err := New(options)
	require.NoError(t, err)
	return rules
}

func TestRules_addresses(t *testing.T) {
	lab := Options{Allow: []string{"169.254.1.0/24", "::1", "inside.example.com"},
		Deny: []string{"192.0.2.0/28", "*.office.example.com", "169.254.1.7"}}
	translations := Options{Deny: []string{"64:ff9b::/96", "2002::/16", "::ffff:192.0.2.0/120"}}
	for name, c := range map[string]struct {
		options       Options
		host, address string
		because       string // part of the error; "" if the address is allowed
	}{
		"address of the site":         {Options{}, "mirror", "10.1.2.3:443", ""},
		"public address":              {Options{}, "mirror", "203.0.113.7:443", ""},
		"IPv6 address of the site":    {Options{}, "mirror", "[fd00::7]:443", ""},
		"loopback":                    {Options{}, "mirror", "127.0.0.1:443", "a loopback address"},
		"whole loopback network":      {Options{}, "mirror", "127.8.9.10:443", "a loopback address"},
		"IPv6 loopback":               {Options{}, "mirror", "[::1]:443", "a loopback address"},
		"mapped loopback":             {Options{}, "mirror", "[::ffff:127.0.0.1]:443", "a loopback address"},
		"compatible loopback":         {Options{}, "mirror", "[::127.0.0.1]:443", "a loopback address"},
		"loopback by NAT64":           {Options{}, "mirror", "[64:ff9b::7f00:1]:443", "a loopback address"},
		"loopback by 6to4":            {Options{}, "mirror", "[2002:7f00:1::1]:443", "a loopback address"},
		"link-local":                  {Options{}, "mirror", "169.254.169.254:80", "a link-local address"},
		"IPv6 link-local":             {Options{}, "mirror", "[fe80::1%eth0]:80", "a link-local address"},
		"link-local by NAT64":         {Options{}, "mirror", "[64:ff9b::a9fe:a9fe]:80", "a link-local address"},
		"unspecified":                 {Options{}, "mirror", "0.0.0.0:80", "an unspecified address"},
		"this network":                {Options{}, "mirror", "0.1.2.3:80", "an unspecified address"},
		"IPv6 unspecified":            {Options{}, "mirror", "[::]:80", "an unspecified address"},
		"multicast":                   {Options{}, "mirror", "224.0.0.1:80", "a multicast address"},
		"IPv6 multicast":              {Options{}, "mirror", "[ff02::1]:80", "a multicast address"},
		"broadcast":                   {Options{}, "mirror", "255.255.255.255:80", "a multicast address"},
		"metadata service over IPv6":  {Options{}, "mirror", "[fd00:ec2::254]:80", "metadata"},
		"metadata service of Azure":   {Options{}, "mirror", "168.63.129.16:80", "metadata"},
		"allowed network":             {lab, "bmc", "169.254.1.8:443", ""},
		"allowed address":             {lab, "bmc", "[::1]:443", ""},
		"allowed name":                {lab, "INSIDE.example.com.", "127.0.0.1:443", ""},
		"outside the allowed network": {lab, "bmc", "169.254.2.8:443", "a link-local address"},
		"deny precedes allow":         {lab, "bmc", "169.254.1.7:443", "egress.deny"},
		"denied network":              {lab, "bmc", "192.0.2.3:443", "egress.deny"},
		"denied name":                 {lab, "a.office.example.com", "203.0.113.7:443", "egress.deny"},
		"denied NAT64":                {translations, "mirror", "[64:ff9b::cb00:7107]:443", "egress.deny"},
		"denied 6to4":                 {translations, "mirror", "[2002:cb00:7107::1]:443", "egress.deny"},
		"denied mapped network":       {translations, "mirror", "192.0.2.5:443", "egress.deny"},
		"beside the mapped network":   {translations, "mirror", "192.0.3.5:443", ""},
		"beside the denied domain":    {lab, "office.example.com", "203.0.113.7:443", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := newRules(t, c.options).check(c.host, netip.MustParseAddrPort(c.address))
			if c.because == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.because)
			require.ErrorContains(t, err, "egress.", "names the key to change")
		})
	}
}

func TestRules_applianceItself(t *testing.T) {
	own := func() []net.Addr {
		return []net.Addr{&net.TCPAddr{IP: net.IPv4zero, Port: 8090},
			&net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 6443}}
	}
	rules := newRules(t, Options{Own: own, Registry: func() net.Addr { return nil }, Allow: []string{"0.0.0.0/0"}})
	for address, denied := range map[string]bool{
		"127.0.0.1:8090": true, "[::ffff:127.0.0.1]:8090": true, "0.0.0.0:8090": true, "10.0.0.5:6443": true,
		"127.0.0.1:5000": false, "203.0.113.7:8090": false, "10.0.0.6:6443": false,
	} {
		err := rules.check("name", netip.MustParseAddrPort(address))
		if !denied {
			require.NoError(t, err, address)
			continue
		}
		require.ErrorContains(t, err, "because this is the appliance itself", address)
	}
}

// Only the addresses of the registry are allowed, not those of another listener with its port.
func TestRules_registryOfTheAppliance(t *testing.T) {
	for listening, targets := range map[string]map[string]bool{
		"0.0.0.0:5000": {"127.0.0.1:5000": true, "[::ffff:127.0.0.1]:5000": true, "127.0.0.1:5001": false,
			"[::1]:5000": false, "0.0.0.0:5000": false, "[64:ff9b::7f00:1]:5000": false},
		"[::]:5000":     {"127.0.0.1:5000": true, "[::1]:5000": true, "[::]:5000": false},
		"10.0.0.5:5000": {"10.0.0.5:5000": true, "127.0.0.1:5000": false, "0.0.0.0:5000": false, "[::]:5000": false},
	} {
		registry := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(listening))
		rules := newRules(t, Options{Registry: func() net.Addr { return registry },
			Deny: []string{"0.0.0.0/0", "::/0"}})
		for address, allowed := range targets {
			err := rules.check("name", netip.MustParseAddrPort(address))
			require.Equal(t, allowed, err == nil, "%s while the registry listens at %s: %v", address, listening, err)
		}
	}
}

func TestRules_invalidConfiguration(t *testing.T) {
	for _, entry := range []string{"", "10.0.0.0/33", "a b", "http://mirror", "mirror:5000", "fe80::1%eth0"} {
		_, err := New(Options{Allow: []string{entry}})
		require.ErrorContains(t, err, "egress.allow contains", entry)
	}
}

// A server that the configuration names is reached even on the loopback. Its redirect to another
// server on the loopback is not followed.
func TestRules_redirects(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the redirect was followed")
	}))
	t.Cleanup(inside.Close)
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, inside.URL, http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		}
	}))
	t.Cleanup(mirror.Close)
	rules := newRules(t, Options{Configured: []string{strings.TrimPrefix(mirror.URL, "http://")}})
	client := &http.Client{Transport: rules.Transport(&http.Transport{}, net.Dialer{})}
	response, err := client.Get(mirror.URL + "/file")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	for path, because := range map[string]string{
		"/redirect": "a loopback address", "/metadata": "a link-local address",
	} {
		_, err := client.Get(mirror.URL + path)
		var denied *DeniedError
		require.ErrorAs(t, err, &denied)
		require.ErrorContains(t, err, because)
	}
}

// The name localhost resolves to the loopback, as any name of an attacker's DNS server may.
func TestRules_nameThatResolvesToLoopback(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the server was reached")
	}))
	t.Cleanup(inside.Close)
	address, err := url.Parse(inside.URL)
	require.NoError(t, err)
	rules := newRules(t, Options{})
	target := "http://localhost:" + address.Port()
	require.NoError(t, rules.CheckURL(target), "names are checked when they are resolved")
	client := &http.Client{Transport: rules.Transport(&http.Transport{}, net.Dialer{})}
	_, err = client.Get(target)
	require.ErrorContains(t, err, "the appliance sends no requests to localhost (")
	require.ErrorContains(t, err, "because it is a loopback address; use another server, or add the address to "+
		"egress.allow in the configuration")
}

func TestRules_proxies(t *testing.T) {
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}
	}))
	t.Cleanup(proxy.Close)
	address, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	rules := newRules(t, Options{Deny: []string{"denied.invalid"}})
	client := &http.Client{Transport: rules.Transport(&http.Transport{Proxy: http.ProxyURL(address)}, net.Dialer{})}
	get := func(target string) error {
		response, err := client.Get(target)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, response.Body.Close())
		return err
	}
	require.NoError(t, get("http://only-the-proxy-knows.invalid/file"))
	require.ErrorContains(t, get("http://127.0.0.1:8090/"), "a loopback address")
	require.ErrorContains(t, get("http://localhost/"), "a loopback address")
	require.ErrorContains(t, get("http://denied.invalid/"), "egress.deny")
	require.ErrorContains(t, get("http://only-the-proxy-knows.invalid/redirect"), "a loopback address")
	require.ErrorContains(t, get(proxy.URL+"/"), "a loopback address", "the proxy is not a target")
	require.Equal(t, []string{"http://only-the-proxy-knows.invalid/file",
		"http://only-the-proxy-knows.invalid/redirect"}, asked)
}

func TestRules_checkURLBeforeStoring(t *testing.T) {
	rules := newRules(t, Options{Deny: []string{"denied.example.com"},
		Configured: []string{"127.0.0.1:5000", "127.0.0.9"}})
	for target, denied := range map[string]bool{
		"https://mirror.example.com/live.iso": false, "http://127.0.0.1:5000/live.iso": false,
		"https://127.0.0.9/x": false, "http://127.0.0.1:5001/": true, "http://[::1]/": true,
		"http://169.254.169.254/": true, "https://denied.example.com/": true, "https://127.0.0.1/": true,
	} {
		err := rules.CheckURL(target)
		if denied {
			require.Error(t, err, target)
		} else {
			require.NoError(t, err, target)
		}
	}
	require.NoError(t, (*Rules)(nil).CheckURL("http://127.0.0.1/"), "nil allows all")
}

func FuzzRules_neverReachTheLoopback(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add(netip.MustParseAddr("64:ff9b::7f00:1").AsSlice())
	rules, err := New(Options{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		address, ok := netip.AddrFromSlice(bytes)
		if !ok || rules.check("name", netip.AddrPortFrom(address, 80)) != nil {
			return
		}
		plain := address.Unmap()
		require.False(t, plain.IsLoopback() || plain.IsLinkLocalUnicast())
		require.False(t, plain.IsUnspecified() || plain.IsMulticast())
	})
}
