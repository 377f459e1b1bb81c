// Package nameserver serves the DNS zones of the site's clusters: authoritative answers for the
// names that the appliance knows, and forwarded or refused questions for all others.
//
//	zone.go     zones and their records
//	answer.go   answers to questions
//	forward.go  questions for other names
//	compare.go  the differences from the site's own DNS
//	server.go   the sockets
//
// Design: docs/design.md#services-for-a-bare-site.
package nameserver

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Types of records.
const (
	TypeA    = "A"
	TypeAAAA = "AAAA"
	TypePTR  = "PTR"
)

// Record is one DNS record. Names have no dot at the end.
type Record struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

// String returns the record as a line of a zone file.
func (r Record) String() string {
	value := r.Value
	if r.Type == TypePTR {
		value = dns.Fqdn(value)
	}
	return fmt.Sprintf("%s %d IN %s %s", dns.Fqdn(r.Name), timeToLive, r.Type, value)
}

// Zone is the names of one cluster.
type Zone struct {
	Name      string   `json:"name"` // cluster and base domain
	Cluster   string   `json:"cluster"`
	ClusterID string   `json:"cluster_id"`
	Records   []Record `json:"records"`
	// Missing lists the names that hosts need and whose addresses the appliance does not know.
	Missing []string `json:"missing,omitempty"`
}

// Add adds a name with its addresses. The first address also gets a reverse record if reverse is
// set.
func (z *Zone) Add(name string, reverse bool, addresses ...netip.Addr) {
	name = strings.ToLower(name)
	for i, address := range addresses {
		if !address.IsValid() {
			continue
		}
		kind := TypeA
		if address.Is6() {
			kind = TypeAAAA
		}
		z.append(Record{name, kind, address.String()})
		if reverse && i == 0 {
			z.append(Record{reverseName(address), TypePTR, name})
		}
	}
}

func (z *Zone) append(record Record) {
	if !slices.Contains(z.Records, record) {
		z.Records = append(z.Records, record)
	}
}

// reverseName returns the name of an address's reverse record.
func reverseName(address netip.Addr) string {
	name, err := dns.ReverseAddr(address.String())
	if err != nil {
		return address.String() // only an invalid address has none
	}
	return strings.TrimSuffix(name, ".")
}

// SortZones sorts zones by name, and their records by name and type with the reverse records last.
func SortZones(zones []Zone) {
	slices.SortFunc(zones, func(a, b Zone) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ClusterID, b.ClusterID))
	})
	for _, zone := range zones {
		slices.SortFunc(zone.Records, func(a, b Record) int {
			return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type),
				cmp.Compare(a.Value, b.Value))
		})
	}
}

func (r Record) order() int {
	if r.Type == TypePTR {
		return 1
	}
	return 0
}
