package membership

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"landfall/appliance/sentence"
)

// loss says what a loss of a machine now would cost. answering is the member whose machine has the
// loopback addresses.
func (s *Status) loss(answering string) (text string, safe bool) {
	if s.Problem != "" {
		return "Etcd does not answer: changes wait until it does. A loss of a member now costs no data that was " +
			"acknowledged.", false
	}
	var costs []string
	for i := range s.Members {
		if s.Members[i].Role != RoleAway {
			costs = append(costs, s.lossOf(&s.Members[i], answering)...)
		}
	}
	costs = append(costs, s.lossOfEtcd(answering)...)
	if s.Leading == "" {
		costs = append([]string{"no member leads now: changes wait until one does"}, costs...)
	}
	costs = append(s.alarms(), costs...)
	if len(costs) == 0 {
		return "A loss of one machine costs nothing: etcd has every change that was acknowledged, and another member " +
			"takes over.", true
	}
	for i := range costs {
		costs[i] = sentence.Close(sentence.Capitalize(costs[i]))
	}
	return strings.Join(costs, " "), false
}

// alarms says why etcd takes no changes although its servers answer. Then no member can take over
// either.
func (s *Status) alarms() []string {
	switch {
	case slices.ContainsFunc(s.Servers, func(server Server) bool { return server.NoSpace }):
		return []string{"etcd has no space left, so it takes no changes, and after a loss of the leader no other " +
			"member can take over: compact and defragment etcd, then disarm its alarm NOSPACE, or raise " +
			"--quota-backend-bytes"}
	case slices.ContainsFunc(s.Servers, func(server Server) bool { return server.Damaged }):
		return []string{"the databases of etcd's servers differ, so etcd takes no changes, and after a loss of the " +
			"leader no other member can take over: replace the damaged server"}
	}
	return nil
}

// lossOf says what a loss of the machine of a member would cost.
func (s *Status) lossOf(m *Member, answering string) (costs []string) {
	var others, restoring []string
	for _, other := range s.Members {
		switch {
		case other.Name == m.Name || other.Role == RoleAway:
		case other.Role == RoleRestoring:
			restoring = append(restoring, other.Name)
		default:
			others = append(others, other.Name)
		}
	}
	switch {
	case len(others) == 0 && m.Role == RoleRestoring:
		return nil
	case len(others) == 0 && len(restoring) > 0:
		costs = append(costs, fmt.Sprintf("a loss of %s loses the data: %s has no snapshot of it yet", m.Name,
			strings.Join(restoring, ", ")))
	case len(others) == 0:
		costs = append(costs, fmt.Sprintf("a loss of %s stops the appliance until its machine is back, because no "+
			"other member is there", m.Name))
	}
	if here := s.serversAt(m, answering); s.stopsWithout(here) {
		reason := fmt.Sprintf("%s of etcd's %d servers %s there", count(here), s.voters(), be(here))
		if s.voters() == 1 {
			reason = "etcd's only server is there"
		}
		costs = append(costs, fmt.Sprintf("a loss of %s stops all changes, because %s", m.Name, reason))
	} else if here > 0 && s.losesNamed(func(server string) bool { return at(m, server, answering) }) {
		costs = append(costs, fmt.Sprintf("a loss of %s stops all changes, because %s", m.Name, noOtherNamed))
	}
	if only := s.onlyAt(m); only > 0 && len(others) > 0 {
		costs = append(costs, fmt.Sprintf("%s of files %s only on %s", sentence.Count(only, "content"), be(only),
			m.Name))
	}
	if len(others) > 0 && s.hasUncopiedBlobs(m) {
		costs = append(costs, "parts of images that were pushed to the registry may be only on "+m.Name)
	}
	return costs
}

// hasUncopiedBlobs reports whether each member besides the leader lacks blobs of pushed images.
func (s *Status) hasUncopiedBlobs(m *Member) bool {
	return m.Leader && !slices.ContainsFunc(s.Members, func(other Member) bool {
		return other.Name != m.Name && other.Role != RoleAway && other.MissingBlobs == 0
	})
}

// lossOfEtcd says what a loss of one of etcd's servers would cost that is on the machine of no
// member.
func (s *Status) lossOfEtcd(answering string) []string {
	stops := s.stopsWithout(1)
	var urls []string
	for _, server := range s.Servers {
		if server.Problem == "" && !slices.ContainsFunc(s.Members, func(m Member) bool {
			return at(&m, server.URL, answering)
		}) && (stops || s.losesNamed(func(lost string) bool { return lost == server.URL })) {
			urls = append(urls, server.URL)
		}
	}
	switch {
	case len(urls) == 0:
		return nil
	case !stops:
		return []string{"a loss of etcd at " + urls[0] + " stops all changes, because " + noOtherNamed}
	case s.voters() == 1:
		return []string{"a loss of etcd at " + urls[0] + " stops all changes, because etcd has no other server"}
	}
	return []string{fmt.Sprintf("a loss of etcd at %s stops all changes, because etcd needs %s of its %s",
		strings.Join(urls, " or "), count(s.voters()/2+1), sentence.Count(s.voters(), "server"))}
}

// noOtherNamed is the reason why the members lose an etcd that has a majority.
const noOtherNamed = "fleet.etcd names no other server of etcd that answers; add the others to it on each member"

// losesNamed reports whether none of the servers in fleet.etcd that answer is left after a loss.
func (s *Status) losesNamed(lost func(url string) bool) bool {
	return !slices.ContainsFunc(s.Servers, func(server Server) bool {
		return server.Configured && server.Problem == "" && !lost(server.URL)
	})
}

// voters returns the number of servers that vote, at least as far as they are known.
func (s *Status) voters() int {
	if s.Voters > 0 {
		return s.Voters
	}
	return len(s.Servers)
}

// stopsWithout reports whether etcd has no majority any longer after the loss of some of the
// servers that answer.
func (s *Status) stopsWithout(lost int) bool {
	answering := 0
	for _, server := range s.Servers {
		if server.Problem == "" {
			answering++
		}
	}
	return lost > 0 && answering-lost < s.voters()/2+1
}

// serversAt returns the number of answering servers of etcd on the machine of a member.
func (s *Status) serversAt(m *Member, answering string) (n int) {
	for _, server := range s.Servers {
		if server.Problem == "" && at(m, server.URL, answering) {
			n++
		}
	}
	return n
}

// at reports whether a server of etcd is on the machine of a member, by the hosts of their URLs.
func at(m *Member, server, answering string) bool {
	host := hostOf(server)
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return m.Name == answering
	}
	return host != "" && host == hostOf(m.URL)
}

func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

// onlyAt returns the number of contents that all other members lack. It is 0 if one of them could
// not be asked.
func (s *Status) onlyAt(m *Member) int {
	var lacked []string
	first := true
	for _, other := range s.Members {
		if other.Name == m.Name || other.Role == RoleAway {
			continue
		}
		if !other.Answered {
			return 0
		}
		if first {
			lacked, first = slices.Clone(other.missing), false
			continue
		}
		lacked = slices.DeleteFunc(lacked, func(sum string) bool { return !slices.Contains(other.missing, sum) })
	}
	lacked = slices.DeleteFunc(lacked, func(sum string) bool { return slices.Contains(m.missing, sum) })
	return len(lacked)
}

func be(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// count writes a small number as a person says it.
func count(n int) string {
	if words := []string{"none", "one", "two", "three", "four", "five"}; n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}
