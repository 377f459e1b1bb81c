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
const freshCertificate = 10 * time.Minute

const newlyValid = "is valid only since"

// expiresSoon is the remaining validity below which the doctor warns about a registry's
// certificate.
const expiresSoon = 30 * 24 * time.Hour

func (e *examination) registryChecks() []check {
	var checks []check
	for _, registry := range e.site.Registries {
		checks = append(checks, func(ctx context.Context) []Finding { return e.registry(ctx, registry) })
	}
	return checks
}

// registry checks a registry's endpoint: address, certificate, the API's answer, token server and
// clock. It does not check the images.
func (e *examination) registry(ctx context.Context, registry Registry) []Finding {
	door := Finding{Area: Registries, Subject: registry.Host, Verdict: Green, Asked: "https://" + registry.Host +
		"/v2/"}
	if door.Answered, door.Do = e.certificate(ctx, registry); door.Do != "" {
		door.Verdict = Red
		return []Finding{door}
	}
	expiry := door.Answered
	answer, err := e.visit(ctx, registry, "https://"+registry.Host+"/v2/")
	if err != nil && registry.Insecure {
		door.Asked = "http://" + registry.Host + "/v2/"
		answer, err = e.visit(ctx, registry, door.Asked)
	}
	if err != nil {
		door.Verdict, door.Answered = Red, reason(err)
		door.Do = "Check that the registry runs and is reachable from here."
		return []Finding{door}
	}
	found := []Finding{e.apiAnswer(door, answer, expiry)}
	if found[0].Verdict != Green {
		return found
	}
	if realm, ok := tokenRealm(answer); ok {
		e.noteRealm(realm)
		found = append(found, e.realm(ctx, registry, realm))
	}
	if finding, ok := e.serverClock(registry, answer); ok {
		found = append(found, finding)
	}
	return found
}

// apiAnswer rates a registry's answer to /v2/.
func (e *examination) apiAnswer(door Finding, answer *http.Response, expiry string) Finding {
	door.Answered = answer.Status
	if expiry != "" {
		door.Answered += "; " + expiry
	}
	isHTML := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html")
	switch {
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusOK && !isHTML:
		if strings.Contains(expiry, "expires soon") {
			door.Verdict = Amber
			door.Do = "Renew the registry's certificate before it expires."
		}
		if strings.Contains(expiry, newlyValid) {
			door.Verdict = Amber
			door.Do = "Wait, or see that no host's clock is behind: until its own clock is past that time, a host " +
				"refuses the certificate."
		}
	case isHTML:
		door.Verdict, door.Answered = Red, answer.Status+" with a web page"
		door.Do = fmt.Sprintf("Look what answers at %s: it is no registry but a page (a proxy, a portal, or the "+
			"wrong port).", door.Subject)
	default:
		door.Verdict = Red
		door.Do = fmt.Sprintf("Look what answers at %s: a registry says 200 or 401 to /v2/.", door.Subject)
	}
	return door
}

// certificate checks a registry's certificate as clients do that pull images. It returns the end of
// its validity, or the problem and advice.
func (e *examination) certificate(ctx context.Context, registry Registry) (answered, do string) {
	if registry.Insecure {
		return "", ""
	}
	name, _, err := net.SplitHostPort(withPort(registry.Host, "443"))
	if err != nil {
		return err.Error(), "Correct the registry's name in the mirror rules."
	}
	ctx, cancel := context.WithTimeout(ctx, e.Patience)
	defer cancel()
	// verify checks the chain, so that each problem gets its own sentence.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name}} //nolint:gosec
	conn, err := dialer.DialContext(ctx, "tcp", withPort(registry.Host, "443"))
	if err != nil {
		return e.noTLS(registry, err)
	}
	chain := conn.(*tls.Conn).ConnectionState().PeerCertificates
	if err := conn.Close(); err != nil {
		return reason(err), "Check that the registry runs and is reachable from here."
	}
	return e.verify(registry, name, chain)
}

func (e *examination) noTLS(registry Registry, err error) (answered, do string) {
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

func (e *examination) verify(registry Registry, name string, chain []*x509.Certificate) (answered, do string) {
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
	if age := now.Sub(leaf.NotBefore); age < freshCertificate {
		return fmt.Sprintf("its certificate %s %s", newlyValid, day(leaf.NotBefore)+
			leaf.NotBefore.UTC().Format(" 15:04 UTC")), ""
	}
	if until := leaf.NotAfter.Sub(now); until < expiresSoon {
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
func (e *examination) visit(ctx context.Context, registry Registry, address string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Patience)
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
func (e *examination) noteRealm(realm *url.URL) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.ContainsFunc(e.realms, func(known *url.URL) bool { return known.Host == realm.Host }) {
		e.realms = append(e.realms, realm)
	}
}

// realm checks a token server like a registry.
func (e *examination) realm(ctx context.Context, registry Registry, realm *url.URL) Finding {
	finding := Finding{Area: Registries, Subject: realm.Host, Verdict: Green,
		Asked: "whether it can be reached, since " + registry.Host + " takes tokens of it"}
	server := Registry{Host: realm.Host, Insecure: registry.Insecure || realm.Scheme == "http"}
	if answered, do := e.certificate(ctx, server); do != "" {
		finding.Verdict, finding.Answered, finding.Do = Red, answered, do
		return finding
	}
	answer, err := e.visit(ctx, server, realm.String())
	if err != nil {
		finding.Verdict, finding.Answered = Red, reason(err)
		finding.Do = fmt.Sprintf("Make %s reachable from here and from the hosts, or have the registry name another "+
			"server of tokens.", realm.Host)
		return finding
	}
	finding.Answered = answer.Status
	return finding
}

// serverClock compares a registry's clock with this machine's. The Date header has a resolution of
// one second.
func (e *examination) serverClock(registry Registry, answer *http.Response) (Finding, bool) {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return Finding{}, false
	}
	ahead := date.Sub(e.Clock.Now().Truncate(time.Second))
	e.noteLag(registry.Host, -ahead)
	finding := Finding{Area: Clocks, Subject: "clock of " + registry.Host, Verdict: Green,
		Asked: "the Date of its answer", Answered: difference(ahead)}
	if ahead.Abs() < 5*time.Second { // the answer took some time, too
		return finding, true
	}
	finding.Verdict, _ = skewVerdict(ahead)
	finding.Do = fmt.Sprintf("Find out which clock is wrong, this machine's or that of %s, and set it: certificates "+
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
