package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// freshCertificate is the age below which the doctor warns about a registry's certificate: a host
// whose clock is behind by more than the age rejects the certificate.
const newCertificateAge = 10 * time.Minute

const newlyValidText = "is valid only since"

// expiresSoon is the remaining validity below which the doctor warns about a registry's
// certificate.
const certificateExpiryWarning = 30 * 24 * time.Hour

func (e *diagnosis) registryChecks() []check {
	var checks []check
	for _, registry := range e.site.Registries {
		checks = append(checks, func(ctx context.Context) []Finding { return e.checkRegistry(ctx, registry) })
	}
	return checks
}

// registry checks a registry's endpoint: address, certificate, the API's answer, token server and
// clock. It does not check the images.
func (e *diagnosis) checkRegistry(ctx context.Context, registry Registry) []Finding {
	door := Finding{Area: Registries, Subject: registry.Host, Status: Green, Check: "https://" + registry.Host +
		"/v2/"}
	if door.Result, door.Advice = e.checkCertificate(ctx, registry); door.Advice != "" {
		door.Status = Red
		return []Finding{door}
	}
	expiry := door.Result
	answer, err := e.get(ctx, registry, "https://"+registry.Host+"/v2/")
	if err != nil && registry.Insecure {
		door.Check = "http://" + registry.Host + "/v2/"
		answer, err = e.get(ctx, registry, door.Check)
	}
	if err != nil {
		door.Status, door.Result = Red, reason(err)
		door.Advice = "Check that the registry runs and is reachable from here."
		return []Finding{door}
	}
	found := []Finding{e.apiAnswer(door, answer, expiry)}
	if found[0].Status != Green {
		return found
	}
	if realm, ok := tokenRealm(answer); ok {
		e.recordRealm(realm)
		found = append(found, e.checkTokenServer(ctx, registry, realm))
	}
	if finding, ok := e.checkServerClock(registry, answer); ok {
		found = append(found, finding)
	}
	return found
}

// apiAnswer rates a registry's answer to /v2/.
func (e *diagnosis) apiAnswer(door Finding, answer *http.Response, expiry string) Finding {
	door.Result = answer.Status
	if expiry != "" {
		door.Result += "; " + expiry
	}
	isHTML := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html")
	switch {
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusOK && !isHTML:
		if strings.Contains(expiry, "expires soon") {
			door.Status = Amber
			door.Advice = "Renew the registry's certificate before it expires."
		}
		if strings.Contains(expiry, newlyValidText) {
			door.Status = Amber
			door.Advice = "Wait, or see that no host's clock is behind: until its own clock is past that time, a host " +
				"refuses the certificate."
		}
	case isHTML:
		door.Status, door.Result = Red, answer.Status+" with a web page"
		door.Advice = fmt.Sprintf("Look what answers at %s: it is no registry but a page (a proxy, a portal, or the "+
			"wrong port).", door.Subject)
	default:
		door.Status = Red
		door.Advice = fmt.Sprintf("Look what answers at %s: a registry says 200 or 401 to /v2/.", door.Subject)
	}
	return door
}

// certificate checks a registry's certificate as clients do that pull images. It returns the end of
// its validity, or the problem and advice.
func (e *diagnosis) checkCertificate(ctx context.Context, registry Registry) (answered, do string) {
	if registry.Insecure {
		return "", ""
	}
	name, _, err := net.SplitHostPort(withPort(registry.Host, "443"))
	if err != nil {
		return err.Error(), "Correct the registry's name in the mirror rules."
	}
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	// verify checks the chain, so that each problem gets its own sentence.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name}} //nolint:gosec
	conn, err := dialer.DialContext(ctx, "tcp", withPort(registry.Host, "443"))
	if err != nil {
		return e.tlsFailure(registry, err)
	}
	chain := conn.(*tls.Conn).ConnectionState().PeerCertificates
	if err := conn.Close(); err != nil {
		return reason(err), "Check that the registry runs and is reachable from here."
	}
	return e.verify(registry, name, chain)
}

func (e *diagnosis) tlsFailure(registry Registry, err error) (answered, do string) {
	var header tls.RecordHeaderError
	if errors.As(err, &header) {
		return "no TLS",
			fmt.Sprintf("Have the registry speak https, or mark %s as insecure in registries.conf if it is to speak "+
				"http.", registry.Host)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "this machine finds no address for it",
			fmt.Sprintf("Add a DNS record for %s; the hosts need it as well.", registry.Host)
	}
	return reason(err), fmt.Sprintf("Check that the registry runs at %s and is reachable from here.", registry.Host)
}

func (e *diagnosis) verify(registry Registry, name string, chain []*x509.Certificate) (answered, do string) {
	now, leaf := e.Clock.Now(), chain[0]
	day := func(t time.Time) string { return t.UTC().Format(time.DateOnly) }
	switch {
	case now.After(leaf.NotAfter):
		return "its certificate expired on " + day(leaf.NotAfter), "Renew the registry's certificate."
	case now.Before(leaf.NotBefore):
		return "its certificate is valid from " + leaf.NotBefore.UTC().Format(time.RFC3339),
			"Set this machine's clock, which is behind, or wait until the certificate is valid."
	}
	if err := leaf.VerifyHostname(name); err != nil {
		return "its certificate is for " + orNone(append(leaf.DNSNames, addressTexts(leaf.IPAddresses)...)) + " only",
			fmt.Sprintf("Give the registry a certificate with %s among its subject alternative names; the common "+
				"name does not count.", name)
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range chain[1:] {
		intermediates.AddCert(certificate)
	}
	var failure error
	for _, roots := range []*x509.CertPool{e.site.Authorities, nil} { // nil: this machine's
		if _, failure = leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates,
			CurrentTime: now}); failure == nil {
			break
		}
	}
	if failure != nil {
		last := chain[len(chain)-1]
		return fmt.Sprintf("its certificate is signed by %q, which is not trusted", last.Issuer),
			fmt.Sprintf("Add the certificate of the authority %q to mirror.ca_bundle; the registry's own certificate "+
				"is not enough unless it is its own authority.", last.Issuer)
	}
	if age := now.Sub(leaf.NotBefore); age < newCertificateAge {
		return fmt.Sprintf("its certificate %s %s", newlyValidText, day(leaf.NotBefore)+
			leaf.NotBefore.UTC().Format(" 15:04 UTC")), ""
	}
	if until := leaf.NotAfter.Sub(now); until < certificateExpiryWarning {
		return "its certificate expires soon, on " + day(leaf.NotAfter), ""
	}
	return "its certificate is valid until " + day(leaf.NotAfter), ""
}

func addressTexts(ips []net.IP) []string {
	texts := make([]string, len(ips))
	for i, ip := range ips {
		texts[i] = ip.String()
	}
	return texts
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no name"
	}
	return strings.Join(names, ", ")
}

// visit requests a page. It does not verify the certificate: that is checked separately, or does
// not matter.
func (e *diagnosis) get(ctx context.Context, registry Registry, address string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec
		DisableKeepAlives: true,
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	return answer, errors.Join(err, answer.Body.Close())
}

// realmPattern matches the token server's URL in a WWW-Authenticate header (RFC 9110, section
// 11.6.1).
var realmPattern = regexp.MustCompile(`(?i)^bearer .*?realm="([^"]+)"`)

// tokenRealm returns the URL of a registry's token server, if it has one. The server is often
// another host, which firewalls and certificates then omit.
func tokenRealm(answer *http.Response) (*url.URL, bool) {
	for _, header := range answer.Header.Values("WWW-Authenticate") {
		if found := realmPattern.FindStringSubmatch(header); found != nil {
			realm, err := url.Parse(found[1])
			return realm, err == nil && realm.Host != ""
		}
	}
	return nil, false
}

// noteRealm records a registry's token server, each server once.
func (e *diagnosis) recordRealm(realm *url.URL) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.ContainsFunc(e.tokenServers, func(known *url.URL) bool { return known.Host == realm.Host }) {
		e.tokenServers = append(e.tokenServers, realm)
	}
}

// realm checks a token server like a registry.
func (e *diagnosis) checkTokenServer(ctx context.Context, registry Registry, realm *url.URL) Finding {
	finding := Finding{Area: Registries, Subject: realm.Host, Status: Green,
		Check: "whether it can be reached, since " + registry.Host + " takes tokens of it"}
	server := Registry{Host: realm.Host, Insecure: registry.Insecure || realm.Scheme == "http"}
	if answered, do := e.checkCertificate(ctx, server); do != "" {
		finding.Status, finding.Result, finding.Advice = Red, answered, do
		return finding
	}
	answer, err := e.get(ctx, server, realm.String())
	if err != nil {
		finding.Status, finding.Result = Red, reason(err)
		finding.Advice = fmt.Sprintf("Make %s reachable from here and from the hosts, or have the registry name another "+
			"server of tokens.", realm.Host)
		return finding
	}
	finding.Result = answer.Status
	return finding
}

// serverClock compares a registry's clock with this machine's. The Date header has a resolution of
// one second.
func (e *diagnosis) checkServerClock(registry Registry, answer *http.Response) (Finding, bool) {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return Finding{}, false
	}
	ahead := date.Sub(e.Clock.Now().Truncate(time.Second))
	e.recordLag(registry.Host, -ahead)
	finding := Finding{Area: Clocks, Subject: "clock of " + registry.Host, Status: Green,
		Check: "the Date of its answer", Result: difference(ahead)}
	if ahead.Abs() < 5*time.Second { // the answer took some time, too
		return finding, true
	}
	finding.Status, _ = skewStatus(ahead)
	finding.Advice = fmt.Sprintf("Find out which clock is wrong, this machine's or that of %s, and set it: certificates "+
		"are valid by the clock.", registry.Host)
	return finding, true
}

// registryHosts returns the hosts of the registries, each once.
func (s *Site) registryHosts() []string {
	var hosts []string
	for _, registry := range s.Registries {
		if !slices.Contains(hosts, registry.Host) {
			hosts = append(hosts, registry.Host)
		}
	}
	return hosts
}
