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

// Names that must resolve to the cluster. The console's name stands for the applications' wildcard.
const (
	apiName     = "api"
	apiIntName  = "api-int"
	appsName    = "console-openshift-console.apps"
	wildcardName = "validateNoWildcardDNS" // a name that must not exist; the installation stops if it resolves
)

// nameChecks returns the checks of the site's DNS: for each resolver, the cluster's names and a
// name that must not resolve.
func (e *diagnosis) nameChecks() []check {
	if e.site.Cluster == "" || e.site.BaseDomain == "" {
		return nil
	}
	if len(e.site.Resolvers) == 0 {
		return []check{func(context.Context) []Finding {
			return []Finding{{
				Area: Names, Subject: "DNS servers", Status: Amber, Check: "which DNS servers this machine uses",
				Result: "none",
				Advice: "Name a DNS server in this machine's /etc/resolv.conf, or see that hosts get one by DHCP or " +
					"static network.",
			}}
		}}
	}
	var checks []check
	for _, resolver := range e.site.Resolvers {
		checks = append(checks, func(ctx context.Context) []Finding { return e.checkResolver(ctx, resolver) })
	}
	return checks
}

// resolver runs all checks with one DNS server. A server that does not answer is reported once.
func (e *diagnosis) checkResolver(ctx context.Context, resolver string) []Finding {
	domain := e.site.Cluster + "." + e.site.BaseDomain
	var found []Finding
	for _, record := range []struct {
		name     string
		expected []netip.Addr
	}{{apiName, e.site.APIAddresses}, {apiIntName, e.site.APIAddresses}, {appsName, e.site.IngressAddresses}} {
		if record.name == apiIntName && !e.site.NamesNeeded {
			continue // only the hosts resolve it
		}
		finding, err := e.checkRecord(ctx, resolver, record.name+"."+domain, record.expected)
		if err != nil {
			return []Finding{e.resolverFailure(resolver, record.name+"."+domain, err)}
		}
		found = append(found, finding)
	}
	found = append(found, e.checkWildcard(ctx, resolver, domain))
	for _, address := range slices.Concat(e.site.APIAddresses, e.site.IngressAddresses) {
		if finding, ok := e.checkReverse(ctx, resolver, address, domain); ok {
			found = append(found, finding)
		}
	}
	return found
}

func (e *diagnosis) resolverFailure(resolver, name string, err error) Finding {
	finding := Finding{
		Area: Names, Subject: "DNS server " + resolver, Status: Amber, Check: "the addresses of " + name,
		Result: reason(err),
		Advice:       "Check that the DNS server runs and its port 53 is reachable, or take it out of /etc/resolv.conf.",
	}
	if e.site.NamesNeeded {
		finding.Status = Red
	}
	return finding
}

// record checks that a name resolves to the expected addresses.
func (e *diagnosis) checkRecord(ctx context.Context, resolver, name string, expected []netip.Addr) (Finding, error) {
	finding := Finding{Area: Names, Subject: name, Status: Green, Check: "its addresses, of " + resolver}
	addresses, err := e.addresses(ctx, resolver, name)
	if err != nil {
		return finding, err
	}
	lacking := Amber
	note := " The hosts find it by themselves; people and machines outside of the cluster do not."
	if e.site.NamesNeeded {
		lacking, note = Red, ""
	}
	wanted := "its address"
	if len(expected) > 0 {
		wanted = list(expected)
	}
	finding.Result = list(addresses)
	switch {
	case len(addresses) == 0:
		finding.Status, finding.Result = lacking, "there is no such name"
		finding.Advice = fmt.Sprintf("Add a DNS record that leads %s to %s.%s", recordName(name), wanted, note)
	case len(expected) > 0 && !sameAddresses(addresses, expected):
		finding.Status = lacking
		finding.Advice = fmt.Sprintf("Have the DNS record of %s lead to %s.%s", recordName(name), wanted, note)
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

// wildcard checks whether a name resolves that does not exist. The cause is a wildcard above the
// cluster or in a search domain.
func (e *diagnosis) checkWildcard(ctx context.Context, resolver, domain string) Finding {
	finding := Finding{Area: Names, Subject: "*." + domain, Status: Green, Check: "a name that nobody has, of " +
		resolver, Result: "there is no such name"}
	name := wildcardName + "." + domain
	for _, search := range append([]string{""}, e.site.Search...) {
		tried := strings.TrimSuffix(name+"."+search, ".")
		addresses, err := e.addresses(ctx, resolver, tried)
		if err != nil {
			finding.Status, finding.Result = Unknown, reason(err)
			return finding
		}
		if len(addresses) == 0 {
			continue
		}
		finding.Status, finding.Result = Red, tried+" is "+list(addresses)
		finding.Advice = fmt.Sprintf("Remove the wildcard record above %s: every name of the cluster seems to exist, and "+
			"the installation stops at that.", domain)
		if search != "" {
			finding.Advice = fmt.Sprintf("Take %s out of the search domains, or remove its wildcard record: names that "+
				"don't exist are found there, and the installation stops at that.", search)
		}
		return finding
	}
	return finding
}

// reverse checks that the name of an address belongs to the cluster. An address without a name is
// not a finding.
func (e *diagnosis) checkReverse(ctx context.Context, resolver string, address netip.Addr, domain string) (Finding, bool) {
	question, err := dns.ReverseAddr(address.String())
	if err != nil {
		return Finding{}, false
	}
	records, err := e.query(ctx, resolver, question, dns.TypePTR)
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
	finding := Finding{Area: Names, Subject: address.String(), Status: Green, Check: "its name, of " + resolver,
		Result: strings.Join(names, ", ")}
	if !slices.ContainsFunc(names, func(name string) bool {
		return strings.HasSuffix(strings.ToLower(name),
			strings.ToLower("."+domain))
	}) {
		finding.Status = Amber
		finding.Advice = fmt.Sprintf("Make sure that %s is meant for this cluster: its reverse record says that it "+
			"belongs to something else.", address)
	}
	return finding, true
}

// addresses resolves a name to its IPv4 and IPv6 addresses. A name that does not exist has none;
// that is not an error.
func (e *diagnosis) addresses(ctx context.Context, resolver, name string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		records, err := e.query(ctx, resolver, dns.Fqdn(name), kind)
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

// ask sends one question to one server. It uses TCP if the answer is too long for UDP.
func (e *diagnosis) query(ctx context.Context, resolver, name string, kind uint16) ([]dns.RR, error) {
	question := new(dns.Msg)
	question.SetQuestion(name, kind)
	question.SetEdns0(1232, false)
	client := &dns.Client{Timeout: e.Timeout}
	answer, _, err := client.ExchangeContext(ctx, question, resolver)
	if err == nil && answer.Truncated {
		client.Net = "tcp"
		answer, _, err = client.ExchangeContext(ctx, question, resolver)
	}
	if err != nil {
		return nil, err
	}
	switch answer.Rcode {
	case dns.RcodeSuccess, dns.RcodeNameError:
		return answer.Answer, nil
	}
	return nil, fmt.Errorf("it answered %s", dns.RcodeToString[answer.Rcode])
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

// reason returns a network error without the parts that the finding contains already.
func reason(err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "nothing in time"
	}
	var failed *net.OpError
	if errors.As(err, &failed) {
		return failed.Err.Error()
	}
	return err.Error()
}
