package nameserver

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

const (
	// timeToLive is the validity of records in seconds. It is short, because the addresses of hosts
	// change while they are installed.
	timeToLive = 60
	// negativeTimeToLive is the validity of the answer that a name does not exist, in seconds.
	negativeTimeToLive = 10
	// Times of zone transfers in the SOA record, in seconds. There are no transfers.
	refresh, retry, expire = 3600, 600, 86400
	// payload is the size of a UDP answer in bytes that passes networks without fragmentation (DNS
	// flag day 2020).
	payload = 1232
	// OwnName is the name of the appliance's DNS server in each zone.
	OwnName = "ns"
)

// Table answers questions about zones. It is not changed.
type Table struct {
	serial uint32
	zones  map[string]bool                // names of the zones
	own    map[string]bool                // names of the appliance itself
	names  map[string]map[uint16][]dns.RR // records by name; without records, a part of longer names
	// unknown has the names of clusters whose addresses only the site may know.
	unknown map[string]bool
}

// NewTable returns a table of zones and of the appliance's own names. A zone of several clusters is
// left out. The serial number grows with each table.
func NewTable(zones []Zone, own []string, serial uint32) *Table {
	t := &Table{serial: serial, zones: map[string]bool{}, own: map[string]bool{},
		names: map[string]map[uint16][]dns.RR{}, unknown: map[string]bool{}}
	for _, name := range own {
		t.own[canonical(name)] = true
	}
	twice := Duplicates(zones)
	for _, zone := range zones {
		name := canonical(zone.Name)
		if twice[zone.Name] != nil {
			continue
		}
		t.zones[name] = true
		t.own[OwnName+"."+name] = true
		for _, record := range zone.Records {
			t.add(record, name)
		}
		for _, missing := range zone.Missing {
			t.unknown[canonical(missing)] = true
		}
	}
	return t
}

// Duplicates returns the names of zones that several clusters have, with the clusters' IDs.
func Duplicates(zones []Zone) map[string][]string {
	clusters := map[string][]string{}
	for _, zone := range zones {
		clusters[zone.Name] = append(clusters[zone.Name], zone.ClusterID)
	}
	for name, ids := range clusters {
		if len(ids) == 1 {
			delete(clusters, name)
		}
	}
	return clusters
}

func canonical(name string) string { return strings.ToLower(dns.Fqdn(name)) }

// add adds a record. The names between it and the zone exist without records (RFC 4592, 2.2.2).
func (t *Table) add(record Record, zone string) {
	parsed, err := dns.NewRR(record.String())
	if err != nil || parsed == nil {
		return // a host with a name that DNS does not permit has no record
	}
	name := canonical(record.Name)
	if t.names[name] == nil {
		t.names[name] = map[uint16][]dns.RR{}
	}
	kind := parsed.Header().Rrtype
	parsed.Header().Name = name
	t.names[name][kind] = append(t.names[name][kind], parsed)
	for parent := name; dns.IsSubDomain(zone, parent) && parent != zone; parent = above(parent) {
		if t.names[parent] == nil {
			t.names[parent] = map[uint16][]dns.RR{}
		}
	}
}

// above returns the name without its first label.
func above(name string) string {
	next, end := dns.NextLabel(name, 0)
	if end {
		return "."
	}
	return name[next:]
}

// zoneOf returns the zone of a name, or "".
func (t *Table) zoneOf(name string) string {
	for ; name != "."; name = above(name) {
		if t.zones[name] {
			return name
		}
	}
	return ""
}

// Answer answers a question if the name belongs to the table. addresses are those of the appliance
// in the network of the client.
func (t *Table) Answer(request *dns.Msg, addresses []netip.Addr) (*dns.Msg, bool) {
	question := request.Question[0]
	name := strings.ToLower(question.Name)
	answer := new(dns.Msg).SetReply(request)
	answer.Authoritative, answer.Compress = true, true
	zone := t.zoneOf(name)
	records, exists := t.names[name]
	switch {
	case t.own[name]:
		answer.Answer = ownRecords(question, addresses)
		if zone == "" {
			zone = name
		}
	case zone == name && question.Qtype == dns.TypeSOA:
		answer.Answer = []dns.RR{t.authority(zone)}
	case zone == name && question.Qtype == dns.TypeNS:
		answer.Answer = []dns.RR{&dns.NS{Hdr: header(question.Name, dns.TypeNS, timeToLive),
			Ns: OwnName + "." + zone}}
	case zone == "" && !exists:
		return nil, false
	case exists:
		answer.Answer = matching(records, question)
	case t.isUnknown(name, zone):
		return nil, false
	case zone != name:
		answer.Answer, exists = t.wildcard(name, zone, question)
		if !exists {
			answer.Rcode = dns.RcodeNameError
		}
	}
	if len(answer.Answer) == 0 && zone != "" {
		answer.Ns = []dns.RR{t.authority(zone)}
	}
	return answer, true
}

// isUnknown reports whether the appliance does not know the address of a name in a zone that the
// hosts need. An answer without addresses would hide the record that the site's DNS may have.
func (t *Table) isUnknown(name, zone string) bool {
	for at := name; at != zone; at = above(at) {
		if t.unknown["*."+at] {
			return true
		}
	}
	return t.unknown[name]
}

// wildcard returns the records of the wildcard next to the longest existing name above a name (RFC
// 4592, 3.3.1). It reports false if there is no wildcard.
func (t *Table) wildcard(name, zone string, question dns.Question) ([]dns.RR, bool) {
	for encloser := above(name); dns.IsSubDomain(zone, encloser); encloser = above(encloser) {
		if _, ok := t.names[encloser]; !ok && encloser != zone {
			continue
		}
		records, ok := t.names["*."+encloser]
		if !ok {
			return nil, false
		}
		return matching(records, question), true
	}
	return nil, false
}

// matching returns the records of the type in a question, with the spelling of the name in the
// question. A question for all types is answered with one of them (RFC 8482, 4.1).
func matching(records map[uint16][]dns.RR, question dns.Question) []dns.RR {
	kinds := []uint16{question.Qtype}
	if question.Qtype == dns.TypeANY {
		kinds = []uint16{dns.TypeA, dns.TypeAAAA, dns.TypePTR}
	}
	for _, kind := range kinds {
		if len(records[kind]) == 0 {
			continue
		}
		found := make([]dns.RR, len(records[kind]))
		for i, record := range records[kind] {
			found[i] = record
			if record.Header().Name != question.Name {
				found[i] = dns.Copy(record)
				found[i].Header().Name = question.Name
			}
		}
		return found
	}
	return nil
}

func header(name string, kind uint16, seconds uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: seconds}
}

func ownRecords(question dns.Question, addresses []netip.Addr) []dns.RR {
	var records []dns.RR
	for _, address := range addresses {
		switch {
		case address.Is4() && (question.Qtype == dns.TypeA || question.Qtype == dns.TypeANY):
			records = append(records, &dns.A{Hdr: header(question.Name, dns.TypeA, timeToLive), A: address.AsSlice()})
		case address.Is6() && question.Qtype == dns.TypeAAAA:
			records = append(records, &dns.AAAA{Hdr: header(question.Name, dns.TypeAAAA, timeToLive),
				AAAA: address.AsSlice()})
		}
	}
	return records
}

// authority returns the SOA record of a zone.
func (t *Table) authority(zone string) dns.RR {
	server := zone
	if t.zones[zone] {
		server = OwnName + "." + zone
	}
	return &dns.SOA{Hdr: header(zone, dns.TypeSOA, negativeTimeToLive), Ns: server, Mbox: "hostmaster." + zone,
		Serial: t.serial, Refresh: refresh, Retry: retry, Expire: expire, Minttl: negativeTimeToLive}
}
