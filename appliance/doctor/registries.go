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

// newCertificateAge is the age below which the doctor warns about a registry's certificate. A host
// rejects the certificate if its clock is behind by more than the age.
const newCertificateAge = 10 * time.Minute

const newlyValidText = "is valid only since"

// certificateExpiryWarning is the remaining validity below which the doctor warns about a
// registry's certificate.
const certificateExpiryWarning = 30 * 24 * time.Hour

func (d *diagnosis) registryChecks() []check {
	var checks []check
	for _, registry := range d.site.Registries {
		checks = append(checks, func(ctx context.Context) []Finding { return d.checkRegistry(ctx, registry) })
	}
	return checks
}

// checkRegistry checks a registry's address, certificate, API response, token server and clock. It
// does not check the images.
func (d *diagnosis) checkRegistry(ctx context.Context, registry Registry) []Finding {
	endpoint := Finding{Area: Registries, Subject: registry.Host, Status: Green, Check: "https://" + registry.Host +
		"/v2/"}
	if endpoint.Result, endpoint.Advice = d.checkCertificate(ctx, registry); endpoint.Advice != "" {
		endpoint.Status = Red
		return []Finding{endpoint}
	}
	expiry := endpoint.Result
	answer, err := d.get(ctx, registry, "https://"+registry.Host+"/v2/")
	if err != nil && registry.Insecure {
		endpoint.Check = "http://" + registry.Host + "/v2/"
		answer, err = d.get(ctx, registry, endpoint.Check)
	}
	if err != nil {
		endpoint.Status, endpoint.Result = Red, reason(err)
		endpoint.Advice = "Check that the registry runs and is reachable from here."
		return []Finding{endpoint}
	}
	found := []Finding{d.apiAnswer(endpoint, answer, expiry)}
	if found[0].Status != Green {
		return found
	}
	if realm, ok := tokenRealm(answer); ok {
		d.recordRealm(realm)
		found = append(found, d.checkTokenServer(ctx, registry, realm))
	}
	if finding, ok := d.checkServerClock(registry, answer); ok {
		found = append(found, finding)
	}
	return found
}

// apiAnswer rates a registry's answer to /v2/.
func (d *diagnosis) apiAnswer(endpoint Finding, answer *http.Response, expiry string) Finding {
	endpoint.Result = answer.Status
	if expiry != "" {
		endpoint.Result += "; " + expiry
	}
	isHTML := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html")
	switch {
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusOK && !isHTML:
		if strings.Contains(expiry, "expires soon") {
			endpoint.Status = Amber
			endpoint.Advice = "Renew the registry's certificate before it expires."
		}
		if strings.Contains(expiry, newlyValidText) {
			endpoint.Status = Amber
			endpoint.Advice = "Wait, or make sure that no host's clock is behind. A host rejects the certificate " +
				"until its own clock has passed this time."
		}
	case isHTML:
		endpoint.Status, endpoint.Result = Red, answer.Status+" with a web page"
		endpoint.Advice = fmt.Sprintf("Find out which service answers at %s: it returns a web page (a proxy, a "+
			"portal, or the wrong port), not the registry API.", endpoint.Subject)
	default:
		endpoint.Status = Red
		endpoint.Advice = fmt.Sprintf("Find out which service answers at %s: a registry answers 200 or 401 to /v2/.",
			endpoint.Subject)
	}
	return endpoint
}

// checkCertificate verifies a registry's certificate like a client that pulls images. It returns
// the end of the validity, or the problem and advice.
func (d *diagnosis) checkCertificate(ctx context.Context, registry Registry) (result, advice string) {
	if registry.Insecure {
		return "", ""
	}
	name, _, err := net.SplitHostPort(withPort(registry.Host, "443"))
	if err != nil {
		return err.Error(), "Correct the registry's name in the mirror rules."
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	// verify checks the chain and returns a sentence for each kind of problem.
	plain, err := d.Egress.DialContext(ctx, "tcp", withPort(registry.Host, "443"))
	if err != nil {
		return d.tlsFailure(registry, err)
	}
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, ServerName: name}) //nolint:gosec
	if err := conn.HandshakeContext(ctx); err != nil {
		return d.tlsFailure(registry, errors.Join(err, plain.Close()))
	}
	chain := conn.ConnectionState().PeerCertificates
	if err := conn.Close(); err != nil {
		return reason(err), "Check that the registry runs and is reachable from here."
	}
	return d.verify(registry, name, chain)
}

func (d *diagnosis) tlsFailure(registry Registry, err error) (result, advice string) {
	var header tls.RecordHeaderError
	if errors.As(err, &header) {
		return "no TLS",
			fmt.Sprintf("Enable HTTPS in the registry, or mark %s as insecure in registries.conf to use HTTP.",
				registry.Host)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "the name of the registry does not resolve",
			fmt.Sprintf("Add a DNS record for %s; the hosts need it as well.", registry.Host)
	}
	return reason(err), fmt.Sprintf("Check that the registry runs at %s and is reachable from here.", registry.Host)
}

func (d *diagnosis) verify(registry Registry, name string, chain []*x509.Certificate) (result, advice string) {
	now, leaf := d.Clock.Now(), chain[0]
	day := func(t time.Time) string { return t.UTC().Format(time.DateOnly) }
	switch {
	case now.After(leaf.NotAfter):
		return "its certificate expired on " + day(leaf.NotAfter), "Renew the registry's certificate."
	case now.Before(leaf.NotBefore):
		return "its certificate is valid from " + leaf.NotBefore.UTC().Format(time.RFC3339),
			"Set this machine's clock if it is behind, or wait until the certificate is valid."
	}
	if err := leaf.VerifyHostname(name); err != nil {
		return "its certificate is for " + orNone(append(leaf.DNSNames, addressTexts(leaf.IPAddresses)...)) + " only",
			fmt.Sprintf("Give the registry a certificate with %s among its subject alternative names. Clients ignore "+
				"the common name.", name)
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range chain[1:] {
		intermediates.AddCert(certificate)
	}
	var failure error
	for _, roots := range []*x509.CertPool{d.site.Authorities, nil} { // nil means this machine's CAs
		if _, failure = leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates,
			CurrentTime: now}); failure == nil {
			break
		}
	}
	if failure != nil {
		last := chain[len(chain)-1]
		return fmt.Sprintf("its certificate is signed by %q, which is not trusted", last.Issuer),
			fmt.Sprintf("Add the certificate of the authority %q to mirror.ca_bundle; the registry's own certificate "+
				"is not enough unless it is self-signed.", last.Issuer)
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

// get requests a URL. It does not verify the certificate: checkCertificate does, or the registry is
// insecure.
func (d *diagnosis) get(ctx context.Context, registry Registry, address string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext:       d.Egress.DialContext,
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

// tokenRealm returns the URL of a registry's token server, if it has one. The token server is often
// another host, which firewall rules and certificates tend to omit.
func tokenRealm(answer *http.Response) (*url.URL, bool) {
	for _, header := range answer.Header.Values("WWW-Authenticate") {
		if found := realmPattern.FindStringSubmatch(header); found != nil {
			realm, err := url.Parse(found[1])
			return realm, err == nil && realm.Host != ""
		}
	}
	return nil, false
}

// recordRealm records a registry's token server, each server once.
func (d *diagnosis) recordRealm(realm *url.URL) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.ContainsFunc(d.tokenServers, func(server *url.URL) bool { return server.Host == realm.Host }) {
		d.tokenServers = append(d.tokenServers, realm)
	}
}

// checkTokenServer checks a token server like a registry.
func (d *diagnosis) checkTokenServer(ctx context.Context, registry Registry, realm *url.URL) Finding {
	finding := Finding{Area: Registries, Subject: realm.Host, Status: Green,
		Check: "whether the token server of " + registry.Host + " is reachable"}
	server := Registry{Host: realm.Host, Insecure: registry.Insecure || realm.Scheme == "http"}
	if result, advice := d.checkCertificate(ctx, server); advice != "" {
		finding.Status, finding.Result, finding.Advice = Red, result, advice
		return finding
	}
	answer, err := d.get(ctx, server, realm.String())
	if err != nil {
		finding.Status, finding.Result = Red, reason(err)
		finding.Advice = fmt.Sprintf("Make %s reachable from here and from the hosts, or configure another token "+
			"server in the registry.", realm.Host)
		return finding
	}
	finding.Result = answer.Status
	return finding
}

// checkServerClock compares a registry's clock with this machine's clock. The Date header has a
// resolution of one second.
func (d *diagnosis) checkServerClock(registry Registry, answer *http.Response) (Finding, bool) {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return Finding{}, false
	}
	ahead := date.Sub(d.Clock.Now().Truncate(time.Second))
	d.recordLag(registry.Host, -ahead)
	finding := Finding{Area: Clocks, Subject: "clock of " + registry.Host, Status: Green,
		Check: "the Date header of the response", Result: difference(ahead)}
	if ahead.Abs() < 5*time.Second { // includes the time that the response took
		return finding, true
	}
	finding.Status, _ = skewStatus(ahead)
	finding.Advice = fmt.Sprintf("Find out whether this machine's clock or the clock of %s is wrong, and set it: the "+
		"validity of certificates depends on the clock.", registry.Host)
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
