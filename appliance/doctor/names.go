package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Names that must resolve to the cluster. The console's name represents the wildcard of the
// applications.
const (
	apiName      = "api"
	apiIntName   = "api-int"
	appsName     = "console-openshift-console.apps"
	wildcardName = "validateNoWildcardDNS" // must not resolve; the installation stops if it does
)

// nameChecks returns the checks of the site's DNS: for each resolver, the cluster's names and a
// name that must not resolve.
func (d *diagnosis) nameChecks() []check {
	if d.site.Cluster == "" || d.site.BaseDomain == "" {
		return nil
	}
	if len(d.site.Resolvers) == 0 {
		return []check{func(context.Context) []Finding {
			return []Finding{{
				Area: Names, Subject: "DNS servers", Status: Amber, Check: "which DNS servers this machine uses",
				Result: "none",
				Advice: "Add a DNS server to this machine's /etc/resolv.conf, or make sure that hosts receive one " +
					"from DHCP or their static network configuration.",
			}}
		}}
	}
	var checks []check
	for _, resolver := range d.site.Resolvers {
		checks = append(checks, func(ctx context.Context) []Finding { return d.checkResolver(ctx, resolver) })
	}
	return checks
}

// checkResolver runs all checks with one DNS server. If the server does not answer, it returns a
// single finding.
func (d *diagnosis) checkResolver(ctx context.Context, resolver string) []Finding {
	domain := d.site.Cluster + "." + d.site.BaseDomain
	var found []Finding
	for _, record := range []struct {
		name     string
		expected []netip.Addr
	}{{apiName, d.site.APIAddresses}, {apiIntName, d.site.APIAddresses}, {appsName, d.site.IngressAddresses}} {
		if record.name == apiIntName && !d.site.NamesNeeded {
			continue // only the hosts need this name
		}
		finding, err := d.checkRecord(ctx, resolver, record.name+"."+domain, record.expected)
		if err != nil {
			return []Finding{d.resolverFailure(resolver, record.name+"."+domain, err)}
		}
		found = append(found, finding)
	}
	found = append(found, d.checkWildcard(ctx, resolver, domain))
	for _, address := range slices.Concat(d.site.APIAddresses, d.site.IngressAddresses) {
		if finding, ok := d.checkReverse(ctx, resolver, address, domain); ok {
			found = append(found, finding)
		}
	}
	return found
}

func (d *diagnosis) resolverFailure(resolver, name string, err error) Finding {
	finding := Finding{
		Area: Names, Subject: "DNS server " + resolver, Status: Amber, Check: "the addresses of " + name,
		Result: reason(err),
		Advice: "Check that the DNS server runs and its port 53 is reachable, or remove it from " +
			"/etc/resolv.conf.",
	}
	if _, ok := errors.AsType[*failedError](err); ok {
		finding.Advice = "Look into the log of the DNS server. It may not reach the servers that it asks itself, or " +
			"may not answer this machine."
	}
	if d.site.NamesNeeded {
		finding.Status = Red
	}
	return finding
}

// checkRecord checks that a name resolves to the expected addresses.
func (d *diagnosis) checkRecord(ctx context.Context, resolver, name string, expected []netip.Addr) (Finding, error) {
	finding := Finding{Area: Names, Subject: name, Status: Green, Check: "the addresses, from " + resolver}
	addresses, err := d.addresses(ctx, resolver, name)
	if err != nil {
		return finding, err
	}
	statusIfWrong := Amber
	note := " The hosts resolve it themselves; users and machines outside of the cluster need the record."
	if d.site.NamesNeeded {
		statusIfWrong, note = Red, ""
	}
	target := "its address"
	if len(expected) > 0 {
		target = "the address " + list(expected)
	}
	finding.Result = list(addresses)
	switch {
	case len(addresses) == 0:
		finding.Status, finding.Result = statusIfWrong, "the name does not exist"
		finding.Advice = fmt.Sprintf("Add a DNS record for %s with %s.%s", recordName(name), target, note)
	case len(expected) > 0 && !sameAddresses(addresses, expected):
		finding.Status = statusIfWrong
		finding.Advice = fmt.Sprintf("Change the address in the DNS record of %s to %s.%s", recordName(name),
			list(expected), note)
	}
	return finding, nil
}

// recordName returns the name of a DNS record. The record of the applications is a wildcard.
func recordName(name string) string {
	if rest, ok := strings.CutPrefix(name, appsName+"."); ok {
		return "*.apps." + rest
	}
	return name
}

// checkWildcard checks that an unused name does not resolve. If it resolves, the cause is a
// wildcard record above the cluster or in a search domain.
func (d *diagnosis) checkWildcard(ctx context.Context, resolver, domain string) Finding {
	finding := Finding{Area: Names, Subject: "*." + domain, Status: Green, Check: "a name that does not exist, from " +
		resolver, Result: "the name does not exist"}
	name := wildcardName + "." + domain
	for _, search := range append([]string{""}, d.site.Search...) {
		tried := strings.TrimSuffix(name+"."+search, ".")
		addresses, err := d.addresses(ctx, resolver, tried)
		if err != nil {
			finding.Status, finding.Result = Unknown, reason(err)
			return finding
		}
		if len(addresses) == 0 {
			continue
		}
		finding.Status, finding.Result = Red, tried+" resolves to "+list(addresses)
		finding.Advice = fmt.Sprintf("Remove the wildcard record above %s: because of it, every name of the cluster "+
			"resolves, and the installation stops.", domain)
		if search != "" {
			finding.Advice = fmt.Sprintf("Remove %s from the search domains, or remove its wildcard record: because "+
				"of it, every name resolves, and the installation stops.", search)
		}
		return finding
	}
	return finding
}

// checkReverse checks that the reverse record of an address belongs to the cluster. It returns no
// finding for an address without a reverse record.
func (d *diagnosis) checkReverse(ctx context.Context, resolver string, address netip.Addr,
	domain string) (Finding, bool) {
	request, err := dns.ReverseAddr(address.String())
	if err != nil {
		return Finding{}, false
	}
	records, err := d.query(ctx, resolver, request, dns.TypePTR)
	if err != nil {
		return Finding{}, false // the resolver's failure has been reported
	}
	var names []string
	for _, record := range records {
		if pointer, ok := record.(*dns.PTR); ok {
			names = append(names, strings.TrimSuffix(pointer.Ptr, "."))
		}
	}
	if len(names) == 0 {
		return Finding{}, false
	}
	finding := Finding{Area: Names, Subject: address.String(), Status: Green, Check: "the name, from " + resolver,
		Result: strings.Join(names, ", ")}
	if !slices.ContainsFunc(names, func(name string) bool {
		return strings.HasSuffix(strings.ToLower(name),
			strings.ToLower("."+domain))
	}) {
		finding.Status = Amber
		finding.Advice = fmt.Sprintf("Make sure that %s is reserved for this cluster: its reverse record names "+
			"another machine.", address)
	}
	return finding, true
}

// addresses resolves a name to its IPv4 and IPv6 addresses. It returns no error if the name does
// not exist.
func (d *diagnosis) addresses(ctx context.Context, resolver, name string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		records, err := d.query(ctx, resolver, dns.Fqdn(name), kind)
		if err != nil {
			return nil, err
		}
		for _, record := range records {
			var ip net.IP
			switch record := record.(type) {
			case *dns.A:
				ip = record.A
			case *dns.AAAA:
				ip = record.AAAA
			}
			if address, ok := netip.AddrFromSlice(ip); ok {
				addresses = append(addresses, address.Unmap())
			}
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses), nil
}

// query sends one question to one DNS server. It switches to TCP if the response is too long for
// UDP.
func (d *diagnosis) query(ctx context.Context, resolver, name string, kind uint16) ([]dns.RR, error) {
	request := new(dns.Msg)
	request.SetQuestion(name, kind)
	request.SetEdns0(1232, false)
	client := &dns.Client{Timeout: d.Timeout}
	answer, _, err := client.ExchangeContext(ctx, request, resolver)
	if err == nil && answer.Truncated {
		client.Net = "tcp"
		answer, _, err = client.ExchangeContext(ctx, request, resolver)
	}
	if err != nil {
		return nil, err
	}
	switch answer.Rcode {
	case dns.RcodeSuccess, dns.RcodeNameError:
		return answer.Answer, nil
	}
	return nil, &failedError{dns.RcodeToString[answer.Rcode]}
}

// failedError reports that a DNS server answered with an error. It says nothing about the name.
type failedError struct{ code string }

func (e *failedError) Error() string {
	return "the DNS server failed: it answered " + e.code + ", which does not mean that the name does not exist"
}

// sameAddresses reports whether a name resolves to expected addresses only.
func sameAddresses(addresses, expected []netip.Addr) bool {
	for _, address := range addresses {
		if !slices.Contains(expected, address) {
			return false
		}
	}
	return true
}

func list(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, address := range addresses {
		texts[i] = address.String()
	}
	return strings.Join(texts, ", ")
}

// reason returns the text of a network error without the operation and address, which the finding
// contains already.
func reason(err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	var failed *net.OpError
	if errors.As(err, &failed) {
		return failed.Err.Error()
	}
	return err.Error()
}
