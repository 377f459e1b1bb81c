// Package diagnosis says what is wrong with a fleet, and what to do about it, for the doctor and
// notifications.
package diagnosis

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"landfall/appliance/doctor"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/sentence"
)

const (
	// clockWarning is the difference between the clocks of members from which the doctor warns, and
	// etcdClockWarning that to the clock of etcd, which is known to a second.
	clockWarning, etcdClockWarning = time.Second, 3 * time.Second
	// lagWarning is the age of the oldest record that a member lacks from which the doctor warns.
	lagWarning = 10 * time.Second
	// writeWarning is the time of a write to etcd, and readWarning that of a read, from which the
	// doctor warns. A leader that can't renew its lease within about a second loses it.
	writeWarning, readWarning = 500 * time.Millisecond, 200 * time.Millisecond
	// fullWarning is the used part of etcd's quota from which the doctor warns.
	fullWarning = 0.8
)

// memberSubject begins the subject of the finding about a member.
const memberSubject = "member "

// Fleet finds what is wrong with the fleet of an appliance.
type Fleet struct {
	Of  membership.Service
	URL string // that images contain
}

// Findings returns the findings of the doctor. It returns none on a single machine.
func (f Fleet) Findings(ctx context.Context) []doctor.Finding {
	s, err := f.Of.Status(ctx)
	if err != nil {
		return []doctor.Finding{{Area: doctor.Fleet, Subject: "fleet", Status: doctor.Unknown,
			Check: "the state of the fleet", Result: sentence.New(err)}}
	}
	if s.Fleet == "" {
		return nil
	}
	findings := slices.Concat(members(s), etcd(s), virtualIP(s))
	return append(findings, clocks(s), versions(s), address(s, f.URL), loss(s))
}

// Attention returns the findings that need a person soon: members that are away, an etcd that is
// not healthy, and a virtual IP that does not lead to the fleet.
func (f Fleet) Attention(ctx context.Context) ([]doctor.Finding, error) {
	s, err := f.Of.Status(ctx)
	if err != nil || s.Fleet == "" {
		return nil, err
	}
	return slices.DeleteFunc(slices.Concat(members(s), etcd(s), virtualIP(s)), func(found doctor.Finding) bool {
		ofMember := strings.HasPrefix(found.Subject, memberSubject)
		return found.Status != doctor.Red && !(ofMember && found.Status == doctor.Amber)
	}), nil
}

func members(s *membership.Status) (findings []doctor.Finding) {
	for _, m := range s.Members {
		f := doctor.Finding{Area: doctor.Fleet, Subject: memberSubject + m.Name, Status: doctor.Amber,
			Check: "whether it is there and has all data"}
		switch {
		case m.Role == membership.RoleAway:
			f.Result = "away since " + m.Seen.UTC().Format(time.RFC3339)
			f.Advice = "Start landfall on its machine, and check its connection to etcd. If it will not come back: " +
				"landfall fleet forget " + m.Name + "."
		case m.Role == membership.RoleRestoring:
			f.Result = "it waits for a snapshot of another member, and has no data until then"
			f.Advice = "Wait. If this lasts, read its log, and check that it reaches the other members."
		case m.Problem != "":
			f.Result = "it is connected to etcd, but could not be asked at " + m.URL + ": " + m.Problem
			f.Advice = "Check the network between the members and fleet.url of this member. Without the connection, " +
				"it can't forward requests, and files are not copied."
		case m.Behind > 0 && m.LagSeconds >= lagWarning.Seconds():
			f.Result = fmt.Sprintf("it lacks %s, the oldest since %.0f s", sentence.Count(int(m.Behind), "record"),
				m.LagSeconds)
			f.Advice = "Check the disk of its machine and its connection to etcd."
		case m.MissingContents > 0:
			f.Result = fmt.Sprintf("it lacks %s of files", sentence.Count(m.MissingContents, "content"))
			f.Advice = "Wait, they are copied in the background. If they do not get fewer, start the member that has " +
				"them, and read the log of this one."
		default:
			f.Status, f.Result = doctor.Green, "it is there and has all data"
		}
		findings = append(findings, f)
	}
	return findings
}

func etcd(s *membership.Status) (findings []doctor.Finding) {
	if s.Problem != "" {
		findings = append(findings, doctor.Finding{Area: doctor.Fleet, Subject: "etcd", Status: doctor.Red,
			Check: "whether it answers", Result: s.Problem,
			Advice: "Start most of its servers. Changes wait until then."})
	}
	for _, server := range s.Servers {
		findings = append(findings, ofServer(server))
	}
	count := doctor.Finding{Area: doctor.Fleet, Subject: "servers of etcd", Status: doctor.Green,
		Check: "whether one of them may be lost", Result: sentence.Count(s.Voters, "server")}
	switch {
	case s.Voters == 0:
		count.Status, count.Result = doctor.Unknown, "etcd does not say how many servers it has"
	case s.Voters == 1:
		count.Status = doctor.Amber
		count.Advice = "Run three servers of etcd, each on a machine of its own. Without its only server, no change " +
			"is possible."
	case s.Voters%2 == 0:
		count.Status = doctor.Amber
		count.Advice = fmt.Sprintf("Add a server to etcd, on a machine of its own. %d servers survive the loss of no "+
			"more machines than %d.", s.Voters, s.Voters-1)
	}
	write := doctor.Finding{Area: doctor.Fleet, Subject: "writes to etcd", Status: doctor.Green,
		Check:  "the longest time of a write in the last minute",
		Result: milliseconds(s.WriteSeconds)}
	if s.WriteSeconds >= writeWarning.Seconds() {
		write.Status = doctor.Amber
		write.Advice = "Give etcd a disk of its own that syncs in some milliseconds, and check the network to it. A " +
			"leader that etcd answers too slowly loses its lease."
	}
	return append(findings, count, write)
}

// ofServer returns the finding about one server of etcd.
func ofServer(server membership.Server) doctor.Finding {
	f := doctor.Finding{Area: doctor.Fleet, Subject: "etcd " + server.URL, Status: doctor.Green,
		Check: "whether it answers and has space"}
	if server.Problem != "" {
		f.Status, f.Result, f.Advice = doctor.Red, server.Problem, "Start this server of etcd, or replace it."
		return f
	}
	f.Result = fmt.Sprintf("version %s, %.0f MiB, a read takes %s", server.Version, mebibytes(server.Bytes),
		milliseconds(server.LatencySeconds))
	if server.QuotaBytes > 0 {
		f.Result = fmt.Sprintf("version %s, %.0f MiB of %.0f MiB, a read takes %s", server.Version,
			mebibytes(server.Bytes), mebibytes(server.QuotaBytes), milliseconds(server.LatencySeconds))
	}
	ahead := seconds(server.ClockSeconds)
	switch full := float64(server.Bytes) >= fullWarning*float64(server.QuotaBytes); {
	case server.Damaged:
		f.Status = doctor.Red
		f.Result += "; the databases of etcd's servers differ (alarm CORRUPT)"
		f.Advice = "Replace the damaged server of etcd, as etcd's documentation describes. The members refuse " +
			"records that do not continue theirs."
	case server.NoSpace:
		f.Status = doctor.Red
		f.Result += "; its space is used up (alarm NOSPACE), so it accepts no changes"
		f.Advice = "Compact and defragment etcd, then disarm the alarm: etcdctl compact, etcdctl defrag, etcdctl " +
			"alarm disarm. Or raise --quota-backend-bytes."
	case server.QuotaBytes > 0 && full:
		f.Status = doctor.Amber
		f.Advice = fmt.Sprintf("Defragment etcd, which leaves %.0f MiB (etcdctl defrag), or raise "+
			"--quota-backend-bytes.",
			mebibytes(server.UsedBytes))
	case server.LatencySeconds >= readWarning.Seconds():
		f.Status, f.Advice = doctor.Amber, "Check the network between etcd's servers, and the load of their machines."
	case ahead.Abs() >= etcdClockWarning:
		f.Status = doctor.Amber
		f.Result += fmt.Sprintf("; its clock differs by %s", ahead.Abs().Round(time.Second))
		f.Advice = "Synchronise the clock of its machine with the site's time server. Certificates depend on it."
	case !server.Configured:
		f.Status, f.Result = doctor.Amber, f.Result+"; fleet.etcd does not name it"
		f.Advice = "Add it to fleet.etcd of each member. Otherwise the members lose etcd with the servers that are " +
			"named."
	}
	return f
}

func clocks(s *membership.Status) doctor.Finding {
	f := doctor.Finding{Area: doctor.Fleet, Subject: "clocks of the members", Status: doctor.Green,
		Check: "whether they agree", Result: "they agree"}
	var differ []string
	for _, m := range s.Members {
		if ahead := seconds(m.ClockSeconds); ahead.Abs() >= clockWarning {
			word := "ahead"
			if ahead < 0 {
				word = "behind"
			}
			differ = append(differ, fmt.Sprintf("that of %s is %s %s", m.Name,
				ahead.Abs().Round(100*time.Millisecond), word))
		}
	}
	if len(differ) > 0 {
		f.Status, f.Result = doctor.Amber, strings.Join(differ, "; ")
		f.Advice = "Synchronise the clocks of the members with the site's time server. After a change of the leader, " +
			"times would jump."
	}
	return f
}

func versions(s *membership.Status) doctor.Finding {
	f := doctor.Finding{Area: doctor.Fleet, Subject: "versions of the members", Status: doctor.Green,
		Check: "whether all run the same program"}
	var list []string
	different := map[string]bool{}
	for _, m := range s.Members {
		list = append(list, m.Name+": "+m.Version)
		different[m.Version] = true
	}
	f.Result = strings.Join(list, ", ")
	if len(different) > 1 {
		f.Status = doctor.Amber
		f.Advice = "Upgrade the others, one after the other. Two versions are for an upgrade only."
	}
	return f
}

// address finds whether images contain the address of a member.
func address(s *membership.Status, used string) doctor.Finding {
	f := doctor.Finding{Area: doctor.Fleet, Subject: "URL for hosts", Status: doctor.Green,
		Check: "whether hosts reach the fleet when a machine is lost", Result: used}
	for _, m := range s.Members {
		if host := hostOf(used); host != "" && host == hostOf(m.URL) {
			f.Status = doctor.Amber
			f.Result = used + " is an address of the member " + m.Name + ", and images contain it"
			f.Advice = "Use the address of a load balancer, of a name in DNS for all members, or the virtual IP of " +
				"the fleet: landfall settings set --url-for-hosts URL. Images that were made before keep the " +
				"old one."
			return f
		}
	}
	return f
}

// virtualIP finds whether hosts reach the leader at the virtual IP.
func virtualIP(s *membership.Status) []doctor.Finding {
	if s.VirtualIP == nil {
		return nil
	}
	f := doctor.Finding{Area: doctor.Fleet, Subject: "virtual IP", Status: doctor.Green,
		Check:  "whether the leader, and no other machine, has it",
		Result: s.VirtualIP.Address + " on " + s.VirtualIP.Interface}
	if s.VirtualIP.Problem != "" {
		f.Status, f.Result = doctor.Red, s.VirtualIP.Problem
		f.Advice = "Hosts may not reach the fleet at " + s.VirtualIP.Address + ". If another machine has the " +
			"address, take it from that machine, or set fleet.virtual_ip of all members to a free one. Images that " +
			"were made before keep the old one."
	}
	return []doctor.Finding{f}
}

func loss(s *membership.Status) doctor.Finding {
	f := doctor.Finding{Area: doctor.Fleet, Subject: "loss of a machine", Status: doctor.Green,
		Check: "what the loss of any one machine would cost now", Result: s.Loss}
	if !s.Safe {
		f.Status = doctor.Amber
		f.Advice = "Have two members or more, and three servers of etcd, each on a machine of its own. One of etcd's " +
			"servers may run beside each member."
	}
	return f
}

func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func milliseconds(s float64) string { return fmt.Sprintf("%.0f ms", math.Ceil(s*1000)) }

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
