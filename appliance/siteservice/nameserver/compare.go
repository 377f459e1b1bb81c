package nameserver

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Difference is a name for which the site's DNS has other records than the appliance.
type Difference struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Server string   `json:"server"` // the DNS server of the site
	Ours   []string `json:"ours"`
	Site   []string `json:"site"` // the records of the site's DNS
}

// Comparison is the result of asking the site's DNS for the names of a zone.
type Comparison struct {
	// Served reports whether the site's DNS has all address records of the zone.
	Served bool `json:"served_by_site"`
	// Differences lists the names with other records. The appliance then does not serve the zone.
	Differences []Difference `json:"differences,omitempty"`
	// Failures lists the names for which a server answered with an error. It may have records for
	// them.
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is an error of a DNS server of the site for a name.
type Failure struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Server string `json:"server"`
	Code   string `json:"code"` // such as SERVFAIL
}

// appSample represents the names of applications in questions to the site's DNS.
const appSample = "console-openshift-console"

// nameAndType is a question to the site's DNS.
type nameAndType struct{ name, kind string }

// Compare asks DNS servers of the site for the addresses of the zones' names. It returns results by
// the names of the zones. A server that does not answer twice is not asked again, so that silent
// servers delay the result by two time-outs each. The records that it had in the former results
// count for the names that it did not answer. Names that a server does not have are left out.
func Compare(ctx context.Context, servers []netip.AddrPort, zones []Zone,
	former map[string]Comparison) map[string]Comparison {
	results := map[string]Comparison{}
	for _, zone := range zones {
		results[zone.Name] = Comparison{}
	}
	for _, server := range servers {
		silent := false
		for _, zone := range zones {
			var found Comparison
			found, silent = compare(ctx, server, zone, former[zone.Name], silent)
			result := results[zone.Name]
			result.Served = result.Served || found.Served
			result.Differences = append(result.Differences, found.Differences...)
			result.Failures = append(result.Failures, found.Failures...)
			results[zone.Name] = result
		}
	}
	return results
}

// compare compares a zone with one server, up to the first question that is not answered, and
// reports whether the server is silent. It does not ask a server that is silent already. For the
// names without an answer, and for those that the server answers with an error, the server counts
// with its records in the former result: the appliance must not answer for a zone because one
// packet was lost, or because a server behind the server is away.
func compare(ctx context.Context, server netip.AddrPort, zone Zone, former Comparison,
	silent bool) (Comparison, bool) {
	ours := map[nameAndType][]string{}
	for _, record := range zone.Records {
		if record.Type != TypePTR {
			key := nameAndType{strings.Replace(record.Name, "*.", appSample+".", 1), record.Type}
			ours[key] = append(ours[key], record.Value)
		}
	}
	result := Comparison{Served: len(ours) > 0}
	keep := func(unanswered ...nameAndType) {
		result.Served = false
		for _, known := range former.Differences {
			at := nameAndType{known.Name, known.Type}
			slices.Sort(ours[at])
			if known.Server == server.String() && slices.Contains(unanswered, at) &&
				!slices.Equal(known.Site, ours[at]) {
				known.Ours = ours[at]
				result.Differences = append(result.Differences, known)
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(ours), nameAndType.compare)
	for i, key := range keys {
		found, err := []string(nil), errSilent
		if !silent {
			found, err = lookUp(ctx, server, key)
		}
		if failed, ok := errors.AsType[codeError](err); ok {
			keep(key)
			result.Failures = append(result.Failures, Failure{Name: key.name, Type: key.kind, Server: server.String(),
				Code: dns.RcodeToString[int(failed)]})
			continue
		}
		if err != nil && !errors.Is(err, errTruncated) {
			keep(keys[i:]...)
			return result, true
		}
		if len(found) == 0 { // also after a truncated answer
			result.Served = false
			continue
		}
		slices.Sort(found)
		slices.Sort(ours[key])
		if !slices.Equal(found, ours[key]) {
			result.Served = false
			result.Differences = append(result.Differences, Difference{Name: key.name, Type: key.kind,
				Server: server.String(), Ours: ours[key], Site: found})
		}
	}
	return result, silent
}

func (k nameAndType) compare(other nameAndType) int {
	return cmp.Or(cmp.Compare(k.name, other.name), cmp.Compare(k.kind, other.kind))
}

var (
	errTruncated = errors.New("the DNS server sends only a truncated answer")
	errSilent    = errors.New("the DNS server does not answer")
)

// codeError is the code of an answer that says nothing about the name, such as SERVFAIL.
type codeError int

func (e codeError) Error() string { return "the DNS server answered " + dns.RcodeToString[int(e)] }

func lookUp(ctx context.Context, server netip.AddrPort, wanted nameAndType) ([]string, error) {
	request := new(dns.Msg).SetQuestion(dns.Fqdn(wanted.name), dns.StringToType[wanted.kind])
	request.SetEdns0(payload, false)
	answer, err := ask(ctx, server, request, forwardTimeout)
	if err != nil {
		answer, err = ask(ctx, server, request, forwardTimeout)
	}
	if err != nil {
		return nil, err
	}
	if answer.Truncated {
		return nil, errTruncated // the addresses that are missing are no difference
	}
	if saysNothing(answer) {
		return nil, codeError(answer.Rcode)
	}
	var found []string
	for _, record := range answer.Answer {
		switch record := record.(type) {
		case *dns.A:
			found = append(found, record.A.String())
		case *dns.AAAA:
			found = append(found, record.AAAA.String())
		}
	}
	return found, nil
}
