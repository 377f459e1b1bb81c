package nameserver

import (
	"context"
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
}

// appSample represents the names of applications in questions to the site's DNS.
const appSample = "console-openshift-console"

// Compare asks DNS servers of the site for the addresses of a zone's names. Servers that do not
// answer are left out, and so are names that they do not have.
func Compare(ctx context.Context, servers []netip.AddrPort, zone Zone) Comparison {
	ours := map[[2]string][]string{} // by name and type
	for _, record := range zone.Records {
		if record.Type != TypePTR {
			key := [2]string{strings.Replace(record.Name, "*.", appSample+".", 1), record.Type}
			ours[key] = append(ours[key], record.Value)
		}
	}
	var keys [][2]string
	for key := range ours {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	var result Comparison
	for _, server := range servers {
		same := len(keys) > 0
		for _, key := range keys {
			found, err := lookUp(ctx, server, key[0], key[1])
			if err != nil {
				same = false
				break // a server that is silent is not asked for the other names
			}
			if len(found) == 0 {
				same = false
				continue
			}
			slices.Sort(found)
			slices.Sort(ours[key])
			if !slices.Equal(found, ours[key]) {
				same = false
				result.Differences = append(result.Differences, Difference{Name: key[0], Type: key[1],
					Server: server.String(), Ours: ours[key], Site: found})
			}
		}
		result.Served = result.Served || same
	}
	return result
}

func lookUp(ctx context.Context, server netip.AddrPort, name, kind string) ([]string, error) {
	request := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.StringToType[kind])
	request.SetEdns0(payload, false)
	answer, err := ask(ctx, server, request)
	if err != nil {
		return nil, err
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
